//! Commands in several parts, each for a slot or a node, whose replies become one.

use std::collections::BTreeMap;

use super::core::{Core, NO_OWNER, NO_SLOT, Where};
use super::kinds::{Kind, Merge, kind, only_asks};
use super::node::flag;
use super::slot::slot_of;
use super::ticket::{Ticket, spread};
use super::wait::Time;
use crate::args::Block;
use crate::connection::{GONE, Stored};
use crate::error::{Error, Result, ServerError, UnexpectedReply, WaitError};
use crate::resp::{self, Elements, Frame, encode, number};

/// A command in parts.
pub(super) struct Spread {
    pub(super) parts: Vec<u64>,
    /// What has been waited for so far, and which node has said it.
    frames: Vec<(u16, Stored)>,
    error: Option<Error>,
    how: How,
}

/// How the replies of the parts become one.
enum How {
    /// Of each slot.
    Slots(Merge),
    /// Of each node.
    Nodes(Merge),
    /// Each element of each part has this place in the whole.
    Places(Vec<Vec<usize>>),
}

/// What is to become of a command.
pub(super) enum Route {
    /// All its keys are of this slot.
    Slot(u16),
    /// It has none.
    Keyless,
    /// They are of several slots, and it can be divided.
    Divided(Divided),
}

/// How a command is divided: how many arguments belong to a key, and how the replies become one.
#[derive(Clone, Copy)]
pub(super) struct Divided {
    width: usize,
    merge: Option<Merge>,
    /// How many keys there are is in front of them, and options are behind.
    counted: bool,
}

/// Where a command goes by its keys.
///
/// # Errors
///
/// When they are of several slots, and it cannot be divided.
#[inline]
pub(super) fn route<'k>(name: &[u8], mut keys: impl Iterator<Item = &'k [u8]>) -> Result<Route> {
    let Some(first) = keys.next() else { return Ok(Route::Keyless) };
    let slot = slot_of(first);
    if keys.all(|key| slot_of(key) == slot) { Ok(Route::Slot(slot)) } else { divided(name) }
}

#[cold]
fn divided(name: &[u8]) -> Result<Route> {
    let divided = match &*name.to_ascii_uppercase() {
        b"MGET" => Divided { width: 1, merge: None, counted: false },
        b"MSET" => Divided { width: 2, merge: Some(Merge::First), counted: false },
        b"MSETEX" => Divided { width: 2, merge: Some(Merge::Least), counted: true },
        b"DEL" | b"UNLINK" | b"EXISTS" | b"TOUCH" => Divided { width: 1, merge: Some(Merge::Sum), counted: false },
        _ => return Err(cross_slot()),
    };
    Ok(Route::Divided(divided))
}

/// Whether a command is divided whose keys are of several slots: its name in capitals.
#[cfg(all(test, unix, feature = "testing"))]
pub(super) fn may_be_divided(name: &[u8]) -> bool {
    divided(name).is_ok()
}

/// The error of a command whose keys are of several slots, in the words of servers.
pub(super) fn cross_slot() -> Error {
    ServerError::new("CROSSSLOT Keys in request don't hash to the same slot").into()
}

impl Core {
    fn spread(&mut self, id: u32) -> Option<&mut Spread> {
        self.spreads.get_mut(id)
    }

    /// The tickets of the parts of a command; that is itself, if it has none.
    pub(super) fn parts_of(&mut self, ticket: u64) -> Vec<u64> {
        match Ticket::of(ticket) {
            Ticket::Spread(id) => self.spread(id).map(|spread| spread.parts.clone()).unwrap_or_default(),
            _ => vec![ticket],
        }
    }

    /// For what a ticket waits, looked at without taking anything.
    pub(super) fn awaited(&mut self, ticket: u64) -> Option<u64> {
        let at = match Ticket::of(ticket) {
            Ticket::Spread(id) => {
                let mut parts = self.spreads.get(id)?.parts.iter().copied();
                return parts.find(|part| self.locate(*part) != Where::Here);
            }
            Ticket::Batched(id, index) => return self.awaited(self.ticket_in_batch(id, index)),
            Ticket::Member(id, _) => self.commit_of(id)?,
            Ticket::Sent(..) | Ticket::Other => ticket,
        };
        (self.locate(at) != Where::Here).then_some(at)
    }

    /// Takes the reply of a ticket that [awaits](Core::awaited) nothing; not of one of a transaction or a batch.
    pub(super) fn take_here(&mut self, ticket: u64) -> Result<Stored> {
        match Ticket::of(ticket) {
            Ticket::Spread(id) => match self.gather(id)? {
                None => self.gathered(id)?.put_together(),
                Some(_) => Err(Error::Refused(GONE)),
            },
            _ => self.take(ticket),
        }
    }

    fn keep_spread(&mut self, parts: Vec<u64>, how: How) -> u64 {
        let whole = Spread { parts, frames: Vec::new(), error: None, how };
        spread(self.spreads.insert(whole))
    }

    /// Issues a command of several slots as one for each.
    pub(super) fn issue_divided(&mut self, bytes: &[u8], divided: Divided, flags: u8) -> u64 {
        let mut arguments = encode::arguments(bytes);
        let Some(name) = arguments.next() else { return self.born_failed(Error::Refused(GONE)) };
        let mut arguments: Vec<&[u8]> = arguments.collect();
        let mut options = Vec::new();
        if divided.counted && !arguments.is_empty() {
            let count = number::parse_u64(arguments.remove(0)).and_then(|count| usize::try_from(count).ok());
            let end = count.and_then(|count| count.checked_mul(divided.width)).unwrap_or(0);
            options = arguments.split_off(end.min(arguments.len()));
        }
        let conditional = |word: &&[u8]| word.eq_ignore_ascii_case(b"NX") || word.eq_ignore_ascii_case(b"XX");
        if options.iter().any(conditional) {
            // All keys or none of them, which only one node can say.
            return self.born_failed(cross_slot());
        }
        if !arguments.len().is_multiple_of(divided.width) {
            // A server would refuse the whole.
            return self.born_failed(Error::Argument("each key needs a value"));
        }
        let mut by_slot: BTreeMap<u16, (Vec<&[u8]>, Vec<usize>)> = BTreeMap::new();
        for (place, group) in arguments.chunks(divided.width).enumerate() {
            let (part, places) = by_slot.entry(slot_of(group[0])).or_insert_with(|| (vec![name], Vec::new()));
            part.extend_from_slice(group);
            places.push(place);
        }
        let (mut parts, mut all_places) = (Vec::new(), Vec::new());
        for (slot, (mut part, places)) in by_slot {
            let mut encoded = Vec::new();
            let count = places.len().to_string();
            if divided.counted {
                part.insert(1, count.as_bytes());
            }
            part.extend_from_slice(&options);
            encode::encode_command(&mut encoded, &part);
            parts.push(self.issue(slot, &encoded, flags, None));
            all_places.push(places);
        }
        self.keep_spread(parts, divided.merge.map_or(How::Places(all_places), How::Slots))
    }

    /// Issues a command without keys where its kind says.
    pub(super) fn issue_keyless(&mut self, bytes: &[u8], flags: u8, block: Option<Block>) -> u64 {
        let mut words = encode::arguments(bytes).map(<[u8]>::to_ascii_uppercase);
        let name = words.next().unwrap_or_default();
        let word = words.next();
        let kind = kind(&name, word.as_deref()).unwrap_or(Kind::Any);
        if matches!(kind, Kind::Primaries(_) | Kind::Members(_)) {
            self.look_before_all();
        }
        let (nodes, merge) = match kind {
            Kind::Refused(why) => return self.born_failed(Error::Refused(why)),
            Kind::Any => return self.issue(NO_SLOT, bytes, flags & !flag::READ, block),
            Kind::Primaries(merge) => (self.primaries().to_vec(), merge),
            Kind::Members(merge) => (self.members(), merge),
        };
        if nodes.is_empty() {
            return self.born_failed(NO_OWNER);
        }
        if let Err(error) = self.make_room() {
            return self.born_failed(error);
        }
        let mut flags = flags & !flag::READ;
        if only_asks(&name, word.as_deref()) {
            flags |= flag::IDEMPOTENT;
        }
        // It is about what was written on this very connection.
        let stays = matches!(&*name, b"WAIT" | b"WAITAOF");
        let parts = nodes.into_iter().map(|n| match self.slot_of_primary(n) {
            Some(slot) if !stays => self.issue(slot, bytes, flags, block),
            _ => self.issue_at(n, NO_SLOT, bytes, flags | flag::FIXED, block),
        });
        let parts = parts.collect();
        self.keep_spread(parts, How::Nodes(merge))
    }

    /// Looks at the topology, if need be, before something goes to all nodes: those that are known to be gone are not asked
    /// again, and those that nothing has been sent to may have become replicas long ago, which answer such commands, too.
    pub(super) fn look_before_all(&mut self) {
        if self.shared {
            // It has been, without the lock.
            return;
        }
        self.doubt_strangers();
        let timeout = self.timeout();
        self.refresh_if_due(timeout);
    }

    /// What is known is not to be relied on if there are primaries that nothing has been sent to.
    pub(super) fn doubt_strangers(&mut self) {
        self.stale |= self.has_strangers();
    }

    /// Whether there are primaries that nothing has been sent to.
    pub(super) fn has_strangers(&mut self) -> bool {
        let count = self.primaries().len();
        (0..count).any(|at| {
            let n = self.primaries()[at];
            self.nodes[usize::from(n)].conn.is_none()
        })
    }

    /// A slot of a primary. What goes there as a command of that slot goes to whoever has it, should the primary fail.
    pub(super) fn slot_of_primary(&self, n: u16) -> Option<u16> {
        let mut its = (0..NO_SLOT).filter(|slot| self.slots[usize::from(*slot)] == n);
        let first = its.next()?;
        // One that moves may be with another primary soon.
        let at_rest = |slot: &u16| !self.troubles.contains_key(slot);
        Some(if at_rest(&first) { first } else { its.find(at_rest).unwrap_or(first) })
    }

    /// Waits for all parts and puts them together.
    pub(super) fn wait_spread(&mut self, id: u32, time: &mut Time) -> Result<Stored, WaitError<()>> {
        while let Some(part) = self.gather(id)? {
            self.arrive(part, time)?;
        }
        Ok(self.gathered(id)?.put_together()?)
    }

    /// Takes the parts that are [here](Where::Here), up to the first that is not, which is returned.
    pub(super) fn gather(&mut self, id: u32) -> Result<Option<u64>> {
        loop {
            let Some(whole) = self.spread(id) else { return Err(Error::Refused(GONE)) };
            let Some(part) = whole.parts.get(whole.frames.len()).copied() else { return Ok(None) };
            if self.locate(part) != Where::Here {
                return Ok(Some(part));
            }
            let (n, taken) = (self.node_of(part), self.take(part));
            let Some(whole) = self.spread(id) else { return Err(Error::Refused(GONE)) };
            let error = match taken.as_ref().map(|frame| resp::frame(frame)) {
                Ok(Some(Frame::Error(message))) => Some(ServerError::new(message).into()),
                Ok(_) => None,
                Err(error) => Some(error.clone()),
            };
            if let Some(error) = error {
                whole.failed(error);
            }
            whole.frames.push((n, taken.unwrap_or_else(|_| Stored::new())));
        }
    }

    /// A command all of whose parts have been taken.
    pub(super) fn gathered(&mut self, id: u32) -> Result<Spread> {
        self.spreads.take(id).ok_or(Error::Refused(GONE))
    }

    pub(super) fn detach_spread(&mut self, id: u32) {
        let Some(whole) = self.spreads.take(id) else { return };
        if let Some(error) = whole.error {
            self.unseen(error);
        }
        for part in &whole.parts[whole.frames.len()..] {
            self.detach(*part);
        }
    }
}

impl Spread {
    /// Makes one reply of those that have been taken.
    pub(super) fn put_together(self) -> Result<Stored> {
        if let Some(error) = self.error
            && !self.how.bears_errors(&self.frames)
        {
            return Err(error);
        }
        let merged = self.how.put_together(&self.frames);
        let merged = merged.ok_or_else(|| UnexpectedReply::new("replies that can be put together", "others"))?;
        Ok(Stored::from_vec(merged))
    }

    /// Notes the first error; that a node runs no script is only worth telling if there is nothing else.
    fn failed(&mut self, error: Error) {
        if self.error.as_ref().is_none_or(|first| first.code() == Some("NOTBUSY")) {
            self.error = Some(error);
        }
    }
}

/// The first reply that is none or no error.
fn one_that_is_good(all: &[(u16, Stored)]) -> Option<&Stored> {
    let good = |frame: &&Stored| resp::frame(frame).is_some_and(|frame| !matches!(frame, Frame::Error(_)));
    all.iter().map(|(_, frame)| frame).find(good)
}

impl How {
    /// Whether one good reply is enough, and there is one.
    fn bears_errors(&self, all: &[(u16, Stored)]) -> bool {
        matches!(self, How::Nodes(Merge::One)) && one_that_is_good(all).is_some()
    }

    fn put_together(&self, all: &[(u16, Stored)]) -> Option<Vec<u8>> {
        if let How::Nodes(Merge::One) = self {
            return one_that_is_good(all).map(|frame| frame.to_vec());
        }
        // A primary that has taken over the slots of another one has answered for both, and counts once.
        let again = |at: usize| all[..at].iter().any(|before| before.0 == all[at].0);
        let counts = |at: &usize| !(matches!(self, How::Nodes(_)) && again(*at));
        let all: Vec<&Stored> = (0..all.len()).filter(counts).map(|at| &all[at].1).collect();
        let frames: Vec<Frame<'_>> = all.iter().map(|frame| resp::frame(frame)).collect::<Option<_>>()?;
        let merge = match self {
            How::Places(places) => return in_places(places, &frames),
            How::Slots(merge) | How::Nodes(merge) => merge,
        };
        let numbers = || frames.iter().map(integer_of).collect::<Option<Vec<i64>>>();
        match merge {
            Merge::First | Merge::One => Some(all.first()?.to_vec()),
            Merge::There => {
                let there: Vec<usize> = (0..frames.len()).filter(|at| !matches!(frames[*at], Frame::Null)).collect();
                Some(all[fastrand::choice(there).unwrap_or(0)].to_vec())
            }
            Merge::Sum => Some(integer(numbers()?.into_iter().try_fold(0, i64::checked_add)?)),
            Merge::Least => Some(integer(numbers()?.into_iter().min()?)),
            Merge::Concat => {
                let lists = frames.iter().map(Frame::as_elements).collect::<Option<Vec<_>>>()?;
                Some(array(lists.iter().flat_map(pieces)))
            }
            Merge::Union => {
                let lists = frames.iter().map(Frame::as_elements).collect::<Option<Vec<_>>>()?;
                let mut found: Vec<&[u8]> = lists.iter().flat_map(pieces).collect();
                found.sort_unstable();
                found.dedup();
                Some(array(found.into_iter()))
            }
            Merge::And => by_position(&frames, |one, two| one & two),
            Merge::LeastEach => by_position(&frames, i64::min),
            Merge::SumByName => {
                let mut sums: Vec<(&[u8], i64)> = Vec::new();
                for frame in &frames {
                    let mut elements = frame.as_elements()?;
                    while let Some(name) = elements.next() {
                        let (name, count) = (name.as_bytes()?, integer_of(&elements.next()?)?);
                        match sums.iter_mut().find(|sum| sum.0 == name) {
                            Some(sum) => sum.1 = sum.1.checked_add(count)?,
                            None => sums.push((name, count)),
                        }
                    }
                }
                let words = sums.into_iter().flat_map(|(name, count)| {
                    let mut bulk = format!("${}\r\n", name.len()).into_bytes();
                    bulk.extend_from_slice(name);
                    bulk.extend_from_slice(b"\r\n");
                    [bulk, integer(count)]
                });
                let words: Vec<Vec<u8>> = words.collect();
                Some(array(words.iter().map(Vec::as_slice)))
            }
        }
    }
}

/// Lists of numbers, put together number by number.
fn by_position(frames: &[Frame<'_>], both: impl Fn(i64, i64) -> i64) -> Option<Vec<u8>> {
    let lists =
        frames.iter().map(|frame| frame.as_elements()?.map(|one| integer_of(&one)).collect::<Option<Vec<i64>>>());
    let all =
        lists.reduce(|all, list| Some(all?.into_iter().zip(list?).map(|(one, two)| both(one, two)).collect()))??;
    let words: Vec<Vec<u8>> = all.into_iter().map(integer).collect();
    Some(array(words.iter().map(Vec::as_slice)))
}

fn in_places(places: &[Vec<usize>], frames: &[Frame<'_>]) -> Option<Vec<u8>> {
    let mut all: Vec<&[u8]> = vec![&[]; places.iter().map(Vec::len).sum()];
    for (places, frame) in places.iter().zip(frames) {
        let elements = frame.as_elements()?;
        if elements.len() != places.len() {
            return None;
        }
        for (place, piece) in places.iter().zip(pieces(&elements)) {
            *all.get_mut(*place)? = piece;
        }
    }
    all.iter().all(|piece| !piece.is_empty()).then(|| array(all.iter().copied()))
}

/// The bytes of each element.
pub(super) fn pieces<'a>(elements: &Elements<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let mut elements = *elements;
    std::iter::from_fn(move || {
        let before = elements.rest();
        elements.next()?;
        before.get(..before.len() - elements.rest().len())
    })
}

fn integer_of(frame: &Frame<'_>) -> Option<i64> {
    match frame {
        Frame::Integer(n) => Some(*n),
        Frame::Boolean(is) => Some(i64::from(*is)),
        _ => None,
    }
}

fn integer(n: i64) -> Vec<u8> {
    format!(":{n}\r\n").into_bytes()
}

fn array<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let (mut count, mut body) = (0_usize, Vec::new());
    for piece in pieces {
        count += 1;
        body.extend_from_slice(piece);
    }
    let mut out = format!("*{count}\r\n").into_bytes();
    out.append(&mut body);
    out
}
