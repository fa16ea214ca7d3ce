//! The queue of replies: which bytes belong to whom.
//!
//! Every reply that is to come has a *place*, a number that counts up. Places are owned by the connection and not by the
//! handles: a handle that is forgotten, given up or panicked over changes nothing in the order.
//!
//! Two structures do the work. A ring has one byte for each place that is not yet read, and says what is to be done with
//! the reply; zero is the ordinary case, a live handle, so that issuing a command stores nothing and a wait in order
//! loads nothing. A store keeps, sorted by place, the frames that were read before their handle was waited for.

use std::collections::VecDeque;

use smallvec::SmallVec;

/// What a place means for the bytes that come. The values are those of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Mark {
    /// A handle lives: the reply is kept for it.
    Live,
    /// Nobody will ask: skipped, an error is accounted for.
    Detached,
    /// The reply to MULTI.
    Multi,
    /// The reply to a command inside MULTI.
    Queued,
    /// The reply to EXEC, of which only the header is read: its elements have places of their own.
    Exec,
    /// No bytes will come: the element of a command that the server had refused to queue.
    Void,
}

impl Mark {
    fn from_byte(byte: u8) -> Mark {
        match byte {
            1 => Mark::Detached,
            2 => Mark::Multi,
            3 => Mark::Queued,
            4 => Mark::Exec,
            5 => Mark::Void,
            _ => Mark::Live,
        }
    }
}

/// The ring of marks for the places that are not yet read.
#[derive(Debug, Default)]
pub(super) struct Ring {
    marks: Vec<u8>,
    /// How many marks are other than [`Mark::Live`].
    marked: usize,
    /// How many are [`Mark::Void`].
    voids: usize,
}

impl Ring {
    #[inline(always)]
    fn index(&self, place: u64) -> usize {
        place as usize & (self.marks.len().wrapping_sub(1))
    }

    /// What to do with the reply of this place, which must be one that the ring [covers](Ring::cover): the next one always
    /// is.
    #[inline(always)]
    pub(super) fn get(&self, place: u64) -> Mark {
        if self.marked == 0 { Mark::Live } else { Mark::from_byte(self.marks[self.index(place)]) }
    }

    /// Makes sure that each place from `next` to before `issued` has a slot of its own.
    #[inline(always)]
    pub(super) fn cover(&mut self, next: u64, issued: u64) {
        if issued - next > self.marks.len() as u64 {
            self.grow(next, issued);
        }
    }

    /// Marks a place among those from `next` to before `issued`.
    #[inline]
    pub(super) fn set(&mut self, place: u64, mark: Mark, next: u64, issued: u64) {
        self.cover(next, issued);
        let index = self.index(place);
        let old = std::mem::replace(&mut self.marks[index], mark as u8);
        self.marked += usize::from(old == 0);
        self.marked -= usize::from(mark == Mark::Live);
        self.voids += usize::from(mark == Mark::Void);
        self.voids -= usize::from(old == Mark::Void as u8);
    }

    /// Gives a place up, unless no handle lives there any more.
    #[inline]
    pub(super) fn detach(&mut self, place: u64, next: u64, issued: u64) {
        self.cover(next, issued);
        let index = self.index(place);
        if self.marks[index] == 0 {
            self.marks[index] = Mark::Detached as u8;
            self.marked += 1;
        }
    }

    /// Takes the mark of the next place away, so that its slot can be used again.
    #[inline(always)]
    pub(super) fn clear(&mut self, place: u64) {
        if self.marked > 0 {
            let index = self.index(place);
            let old = std::mem::take(&mut self.marks[index]);
            self.marked -= usize::from(old != 0);
            self.voids -= usize::from(old == Mark::Void as u8);
        }
    }

    /// To how many places no bytes will come.
    pub(super) fn voids(&self) -> u64 {
        self.voids as u64
    }

    /// How many places are marked.
    pub(super) fn marked(&self) -> usize {
        self.marked
    }

    #[cold]
    fn grow(&mut self, next: u64, issued: u64) {
        let size = (issued - next).next_power_of_two().max(64) as usize;
        let old = std::mem::replace(&mut self.marks, vec![0; size]);
        if self.marked > 0 {
            // Places that were issued since the ring was last large enough are live, and so zero.
            for place in next..issued.min(next + old.len() as u64) {
                let index = self.index(place);
                self.marks[index] = old[place as usize & (old.len() - 1)];
            }
        }
    }
}

/// A frame that was read before its handle was waited for. Short ones are inline.
pub(crate) type Stored = SmallVec<[u8; 24]>;

/// The frames that were read before their handle was waited for, by place.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// Sorted by place; an empty frame has been taken, and there is none at either end.
    frames: VecDeque<(u64, Stored)>,
    taken: usize,
}

impl Store {
    /// Keeps a frame; places come in order.
    pub(crate) fn put(&mut self, place: u64, frame: &[u8]) {
        self.frames.push_back((place, Stored::from_slice(frame)));
    }

    /// Takes the frame of a place, if it is here.
    pub(crate) fn take(&mut self, place: u64) -> Option<Stored> {
        // Those who wait do so in the order of issue or, now and then, in reverse.
        let frame = if self.frames.back()?.0 == place {
            self.frames.pop_back()?.1
        } else if self.frames.front()?.0 == place {
            self.frames.pop_front()?.1
        } else {
            let index = self.frames.binary_search_by_key(&place, |entry| entry.0).ok()?;
            let frame = std::mem::take(&mut self.frames[index].1);
            if frame.is_empty() {
                return None;
            }
            self.taken += 1;
            frame
        };
        if self.taken > 0 {
            self.tidy();
        }
        if self.frames.is_empty() && self.frames.capacity() > 1024 {
            self.frames = VecDeque::new();
        }
        Some(frame)
    }

    pub(super) fn len(&self) -> usize {
        self.frames.len() - self.taken
    }

    /// The frames that nobody has taken, by place.
    pub(super) fn into_frames(self) -> impl Iterator<Item = (u64, Stored)> {
        self.frames.into_iter().filter(|(_, frame)| !frame.is_empty())
    }

    /// Lets go of what has been taken: at both ends at once, in the middle when it is most of the whole.
    fn tidy(&mut self) {
        while self.frames.back().is_some_and(|entry| entry.1.is_empty()) {
            self.frames.pop_back();
            self.taken -= 1;
        }
        while self.frames.front().is_some_and(|entry| entry.1.is_empty()) {
            self.frames.pop_front();
            self.taken -= 1;
        }
        if self.taken > 64 && self.taken > self.frames.len() / 2 {
            self.frames.retain(|entry| !entry.1.is_empty());
            self.taken = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_beyond_the_old_size_of_the_ring_are_told_apart() {
        let mut ring = Ring::default();
        for issued in 1..=1000 {
            ring.detach(issued - 1, 0, issued);
        }
        assert_eq!(ring.marked(), 1000);
        assert!((0..1000).all(|place| ring.get(place) == Mark::Detached));
    }

    #[test]
    fn marks_survive_the_growth_of_the_ring() {
        let mut ring = Ring::default();
        let next = 1000;
        for issued in next + 1..next + 1000 {
            if issued % 3 == 0 {
                ring.set(issued - 1, Mark::Detached, next, issued);
            }
        }
        ring.cover(next, next + 999);
        for place in next..next + 999 {
            let want = if (place + 1) % 3 == 0 { Mark::Detached } else { Mark::Live };
            assert_eq!(ring.get(place), want, "place {place}");
            ring.clear(place);
        }
        assert_eq!(ring.marked(), 0);
    }

    #[test]
    fn frames_are_taken_in_any_order_and_once() {
        let mut store = Store::default();
        for place in 0..200 {
            store.put(place, &[b'x'; 3]);
        }
        for place in [199, 0, 100, 50, 198, 1] {
            assert!(store.take(place).is_some());
            assert!(store.take(place).is_none());
        }
        assert_eq!(store.len(), 194);
        for place in 2..190 {
            store.take(place);
        }
        assert_eq!(store.len(), 200 - 6 - 188 + 2);
    }

    #[test]
    fn one_frame_held_does_not_keep_the_others() {
        let mut store = Store::default();
        store.put(0, b"old");
        for place in 1..100_000 {
            store.put(place, b"new");
            store.take(place);
        }
        assert_eq!(store.len(), 1);
        assert!(store.frames.len() < 200);
    }
}
