//! The cache of a connection: what is kept, and what is not any more: the replies by their commands, which of them depend on a key, and which of the
//! replies that are still to come will be kept.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use lru::LruCache;
use smallvec::SmallVec;

use super::cache_config::{CacheConfig, CacheStats};
use crate::resp::{self, Frame};

/// What an entry needs beyond its bytes: its places in the two tables, and the headers of its allocations. A rough guess.
const OVERHEAD: usize = 256;

/// How many keys of commands of our own are noted before it is looked whether they still matter.
const WRITTEN: usize = 64;

/// The keys that a reply depends on.
pub(crate) type Keys = SmallVec<[Box<[u8]>; 1]>;

/// The commands whose replies depend on a key: mostly one, but there may be as many as there are fields in a hash.
#[derive(Debug)]
enum Commands {
    One(Arc<[u8]>),
    Many(HashSet<Arc<[u8]>>),
}

impl Commands {
    fn add(&mut self, command: &Arc<[u8]>) {
        match self {
            Commands::One(one) if one == command => {}
            Commands::One(one) => *self = Commands::Many(HashSet::from([Arc::clone(one), Arc::clone(command)])),
            Commands::Many(many) => {
                many.insert(Arc::clone(command));
            }
        }
    }

    /// Takes a command out. Says whether it was the last one.
    fn remove(&mut self, command: &[u8]) -> bool {
        match self {
            Commands::One(one) => **one == *command,
            Commands::Many(many) => {
                many.remove(command);
                many.is_empty()
            }
        }
    }
}

/// A reply that is kept.
#[derive(Debug)]
struct Kept {
    reply: Arc<[u8]>,
    keys: Keys,
}

/// A reply that is still to come.
#[derive(Debug)]
struct Expected {
    place: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    /// Of CLIENT CACHING: without it the next one is not to be kept.
    Permit,
    /// Not kept, but it may say that one of these is gone.
    Look(Keys),
    Reply {
        command: Arc<[u8]>,
        keys: Keys,
    },
}

/// The cache of one connection.
///
/// Replies are put in and taken out as their frames and the invalidations arrive, in the order of the wire: the server
/// sends an invalidation behind the reply that it makes stale.
#[derive(Debug)]
pub(crate) struct Entries {
    config: CacheConfig,
    replies: LruCache<Arc<[u8]>, Kept>,
    by_key: HashMap<Box<[u8]>, Commands>,
    bytes: usize,
    expected: VecDeque<Expected>,
    /// The place of the last command of our own by which a key may have changed, as long as it matters: a reply to a command
    /// before it is old.
    written: HashMap<Box<[u8]>, u64>,
    /// With how many keys there it is time to look for those that do not matter any more.
    written_most: usize,
    /// The same for all keys.
    all_written: u64,
    /// While this is not zero, nothing is looked up or kept.
    paused: u32,
    /// There is a connection on which the server cannot tell what has changed.
    deaf: bool,
    /// The place of the last CLIENT CACHING that was refused.
    refused: Option<u64>,
    stats: CacheStats,
}

impl Entries {
    pub(crate) fn new(config: CacheConfig) -> Self {
        Entries {
            config,
            replies: LruCache::unbounded(),
            by_key: HashMap::new(),
            bytes: 0,
            expected: VecDeque::new(),
            written: HashMap::new(),
            written_most: WRITTEN,
            all_written: 0,
            paused: 0,
            deaf: false,
            refused: None,
            stats: CacheStats::default(),
        }
    }

    pub(crate) fn stats(&self) -> CacheStats {
        CacheStats { entries: self.replies.len() as u64, bytes: self.bytes as u64, ..self.stats }
    }

    /// Whether a reply to a command with these keys may be kept.
    pub(crate) fn covers(&self, keys: &Keys, opted_in: bool) -> bool {
        let tracked = |key: &[u8]| self.config.prefixes.iter().any(|prefix| key.starts_with(prefix));
        self.is_on()
            && (opted_in || !self.config.opt_in)
            && (self.config.prefixes.is_empty() || keys.iter().all(|key| tracked(key)))
    }

    fn is_on(&self) -> bool {
        self.paused == 0 && !self.deaf
    }

    /// Nothing is looked up or kept until there was a [`resume`](Entries::resume) for each of these.
    pub(crate) fn pause(&mut self) {
        self.paused += 1;
    }

    pub(crate) fn resume(&mut self) {
        self.paused = self.paused.saturating_sub(1);
    }

    /// Whether the server can tell what has changed on the connection that there is now.
    pub(crate) fn hear(&mut self, pushes: bool) {
        self.deaf = !pushes;
    }

    /// Whether there is a reply to this command.
    pub(crate) fn has(&self, command: &[u8]) -> bool {
        self.is_on() && self.replies.contains(command)
    }

    /// The reply to this command.
    pub(crate) fn get(&mut self, command: &[u8]) -> Option<Arc<[u8]>> {
        if !self.is_on() {
            return None;
        }
        let reply = self.replies.get(command).map(|kept| Arc::clone(&kept.reply))?;
        self.stats.hits += 1;
        Some(reply)
    }

    /// A reply that may be kept was not there.
    pub(crate) fn missed(&mut self) {
        self.stats.misses += 1;
    }

    /// Whether the server tracks only what it is told to.
    pub(crate) fn needs_permit(&self) -> bool {
        self.config.opt_in
    }

    // Replies that are to come.

    pub(crate) fn is_expecting(&self) -> bool {
        !self.expected.is_empty()
    }

    /// Whether the reply of this place, the next one, is to be kept.
    pub(crate) fn wants(&self, place: u64) -> bool {
        self.expected.binary_search_by_key(&place, |expected| expected.place).is_ok()
    }

    /// Whether a reply is not kept of which this much has come.
    pub(crate) fn is_too_large(&self, arrived: usize) -> bool {
        arrived > self.config.bytes
    }

    /// The reply of this place will be that of CLIENT CACHING.
    pub(crate) fn expect_permit(&mut self, place: u64) {
        self.expected.push_back(Expected { place, what: What::Permit });
    }

    /// The reply of this place is to be kept.
    pub(crate) fn expect(&mut self, place: u64, command: &[u8], keys: Keys) {
        self.expected.push_back(Expected { place, what: What::Reply { command: Arc::from(command), keys } });
    }

    /// The reply of this place, the next one, has arrived.
    pub(crate) fn arrived(&mut self, place: u64, frame: &[u8]) {
        while self.expected.front().is_some_and(|expected| expected.place <= place) {
            let Some(Expected { place: own, what }) = self.expected.pop_front() else { return };
            match what {
                _ if own != place => {}
                What::Permit => {
                    if matches!(resp::frame(frame), Some(Frame::Error(_))) {
                        self.refused = Some(own);
                    }
                }
                // What is behind a permit that was refused is not tracked.
                What::Reply { .. } if self.refused.is_some_and(|refused| refused + 1 == own) => {}
                What::Reply { command, keys } => {
                    self.look(&keys, frame);
                    self.keep(place, command, keys, frame);
                }
                What::Look(keys) => self.look(&keys, frame),
            }
        }
        self.forget_written();
    }

    /// The reply of this place, the next one, has come and gone, and nobody has seen the whole of it.
    pub(crate) fn passed(&mut self, place: u64) {
        while self.expected.front().is_some_and(|expected| expected.place <= place) {
            self.expected.pop_front();
        }
        self.forget_written();
    }

    fn forget_written(&mut self) {
        if self.expected.is_empty() && !self.written.is_empty() {
            self.written = HashMap::new();
            self.written_most = WRITTEN;
        }
    }

    /// Whether the server says nothing of a key that expires just when this connection asks for it: it takes that for
    /// something that the connection has done itself, and forgets that the key was tracked.
    pub(crate) fn expires_unheard(&self) -> bool {
        self.config.no_loop && !self.config.broadcast
    }

    /// The reply of this place is not to be kept, but may say that a key has expired.
    pub(crate) fn expect_look(&mut self, place: u64, keys: Keys) {
        if self.expires_unheard() && (!self.expected.is_empty() || keys.iter().any(|key| self.by_key.contains_key(key)))
        {
            self.expected.push_back(Expected { place, what: What::Look(keys) });
        }
    }

    /// Forgets what depends on keys that may have expired under a command with this reply.
    fn look(&mut self, keys: &Keys, frame: &[u8]) {
        if self.expires_unheard() && may_be_gone(keys.len(), frame) {
            keys.iter().for_each(|key| self.drop_key(key));
        }
    }

    fn keep(&mut self, place: u64, command: Arc<[u8]>, keys: Keys, frame: &[u8]) {
        let old =
            place < self.all_written || keys.iter().any(|key| self.written.get(key).is_some_and(|at| *at > place));
        let size = size(&command, frame, &keys);
        if old
            || !self.is_on()
            || size > self.config.bytes
            || matches!(resp::frame(frame), None | Some(Frame::Error(_)))
        {
            return;
        }
        self.drop_entry(&command);
        for key in &keys {
            match self.by_key.get_mut(key) {
                Some(commands) => commands.add(&command),
                None => drop(self.by_key.insert(key.clone(), Commands::One(Arc::clone(&command)))),
            }
        }
        self.bytes += size;
        self.replies.push(command, Kept { reply: Arc::from(frame), keys });
        while self.bytes > self.config.bytes || self.replies.len() > self.config.entries {
            let Some(oldest) = self.replies.peek_lru().map(|(command, _)| Arc::clone(command)) else { return };
            self.drop_entry(&oldest);
            self.stats.evictions += 1;
        }
    }

    // Replies that are old.

    fn drop_entry(&mut self, command: &[u8]) {
        let Some((command, kept)) = self.replies.pop_entry(command) else { return };
        self.bytes -= size(&command, &kept.reply, &kept.keys);
        for key in &kept.keys {
            if self.by_key.get_mut(key).is_some_and(|commands| commands.remove(&command)) {
                self.by_key.remove(key);
            }
        }
    }

    fn drop_key(&mut self, key: &[u8]) {
        match self.by_key.remove(key) {
            None => {}
            Some(Commands::One(command)) => self.drop_entry(&command),
            Some(Commands::Many(commands)) => commands.iter().for_each(|command| self.drop_entry(command)),
        }
    }

    /// A command of our own, which will have this place, may change these keys.
    pub(crate) fn write(&mut self, place: u64, keys: &Keys) {
        for key in keys {
            self.drop_key(key);
        }
        let Some(first) = self.expected.front() else { return };
        if self.written.len() >= self.written_most {
            let first = first.place;
            self.written.retain(|_, at| *at > first);
            // It may be that all of them matter: then they are not looked at again before there are twice as many.
            self.written_most = WRITTEN.max(2 * self.written.len());
        }
        self.written.extend(keys.iter().map(|key| (key.clone(), place)));
    }

    /// A command of our own, which will have this place, may change anything; or nothing is tracked any more.
    pub(crate) fn forget_all(&mut self, place: u64) {
        self.all_written = place;
        self.replies.clear();
        self.by_key = HashMap::new();
        self.bytes = 0;
    }

    /// The connection is lost, and what is tracked with it.
    pub(crate) fn lost(&mut self, issued: u64) {
        self.forget_all(issued);
        self.expected.clear();
        self.forget_written();
        self.stats.flushes += 1;
    }

    /// Takes a push, if it is an invalidation.
    pub(crate) fn push(&mut self, push: &[u8], issued: u64) -> bool {
        let Some(Frame::Push(mut elements)) = resp::frame(push) else { return false };
        let Some(Frame::Bulk(b"invalidate") | Frame::SimpleString(b"invalidate")) = elements.next() else {
            return false;
        };
        match elements.next() {
            Some(Frame::Array(keys) | Frame::Set(keys)) => {
                for key in keys {
                    if let Frame::Bulk(key) | Frame::SimpleString(key) = key {
                        self.stats.invalidations += 1;
                        self.drop_key(key);
                    }
                }
            }
            // Of all keys. What is on its way was read behind it, so only what is here is old.
            _ => {
                let before = self.all_written;
                self.forget_all(issued);
                self.all_written = before;
                self.stats.flushes += 1;
            }
        }
        true
    }
}

/// Whether one of the keys, or a part of one, may not be there, as far as the reply to a command says.
fn may_be_gone(keys: usize, reply: &[u8]) -> bool {
    let is_nothing = |frame: Frame<'_>| match frame {
        Frame::Integer(number) => number <= 0,
        Frame::Bulk(text) | Frame::SimpleString(text) => text.is_empty() || text == b"none",
        Frame::Array(elements) | Frame::Set(elements) | Frame::Map(elements) => elements.is_empty(),
        Frame::Null | Frame::Error(_) => true,
        _ => false,
    };
    match resp::frame(reply) {
        Some(Frame::Array(mut elements)) if !elements.is_empty() => {
            (keys > 1 && elements.len() != keys) || elements.any(is_nothing)
        }
        Some(frame) => keys > 1 || is_nothing(frame),
        None => true,
    }
}

fn size(command: &[u8], reply: &[u8], keys: &Keys) -> usize {
    OVERHEAD + command.len() + reply.len() + keys.iter().map(|key| OVERHEAD + 2 * key.len()).sum::<usize>()
}
