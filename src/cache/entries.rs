//! What is kept, and what is not any more: the replies by their commands, which of them depend on a key, and which of the
//! replies that are still to come will be kept.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use lru::LruCache;
use smallvec::SmallVec;

use super::{CacheConfig, CacheStats};
use crate::resp::{self, Frame};

/// What an entry needs beyond its bytes: its places in the two tables, and the headers of its allocations. A rough guess.
const OVERHEAD: usize = 256;

/// The keys that a reply depends on.
pub(crate) type Keys = SmallVec<[Box<[u8]>; 1]>;

/// The commands whose replies depend on a key.
type Commands = SmallVec<[Arc<[u8]>; 1]>;

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
    /// The same for all keys.
    all_written: u64,
    /// Nothing is looked up or kept.
    paused: bool,
    losses: u64,
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
            all_written: 0,
            paused: false,
            losses: 0,
            stats: CacheStats::default(),
        }
    }

    pub(crate) fn stats(&self) -> CacheStats {
        CacheStats { entries: self.replies.len() as u64, bytes: self.bytes as u64, ..self.stats }
    }

    /// Whether a reply to a command with these keys may be kept.
    pub(crate) fn covers(&self, keys: &Keys, opted_in: bool) -> bool {
        let tracked = |key: &[u8]| self.config.prefixes.iter().any(|prefix| key.starts_with(prefix));
        !self.paused
            && (opted_in || !self.config.opt_in)
            && (self.config.prefixes.is_empty() || keys.iter().all(|key| tracked(key)))
    }

    pub(crate) fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Whether there is a reply to this command.
    pub(crate) fn has(&self, command: &[u8]) -> bool {
        !self.paused && self.replies.contains(command)
    }

    /// The reply to this command.
    pub(crate) fn get(&mut self, command: &[u8]) -> Option<Arc<[u8]>> {
        if self.paused {
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

    /// How many connections were lost.
    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }

    // Replies that are to come.

    pub(crate) fn is_expecting(&self) -> bool {
        !self.expected.is_empty()
    }

    /// Whether the reply of this place, the next one, is to be kept.
    pub(crate) fn wants(&self, place: u64) -> bool {
        self.expected.front().is_some_and(|expected| expected.place == place)
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
                        // What was to be kept with it is not tracked.
                        self.expected.pop_front();
                    }
                }
                What::Reply { command, keys } => self.keep(place, command, keys, frame),
            }
        }
        if self.expected.is_empty() {
            self.written = HashMap::new();
        }
    }

    fn keep(&mut self, place: u64, command: Arc<[u8]>, keys: Keys, frame: &[u8]) {
        let old =
            place < self.all_written || keys.iter().any(|key| self.written.get(key).is_some_and(|at| *at > place));
        let size = size(&command, frame, &keys);
        if old || self.paused || size > self.config.bytes || matches!(resp::frame(frame), None | Some(Frame::Error(_)))
        {
            return;
        }
        self.drop_entry(&command);
        for key in &keys {
            self.by_key.entry(key.clone()).or_default().push(Arc::clone(&command));
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
            if let Some(commands) = self.by_key.get_mut(key) {
                commands.retain(|other| *other != command);
                if commands.is_empty() {
                    self.by_key.remove(key);
                }
            }
        }
    }

    fn drop_key(&mut self, key: &[u8]) {
        for command in self.by_key.remove(key).unwrap_or_default() {
            self.drop_entry(&command);
        }
    }

    /// A command of our own, which will have this place, may change these keys.
    pub(crate) fn write(&mut self, place: u64, keys: &Keys) {
        for key in keys {
            self.drop_key(key);
        }
        let Some(first) = self.expected.front() else { return };
        if self.written.len() > 2 * self.expected.len() + 64 {
            let first = first.place;
            self.written.retain(|_, at| *at > first);
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
        self.written = HashMap::new();
        self.losses += 1;
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

fn size(command: &[u8], reply: &[u8], keys: &Keys) -> usize {
    OVERHEAD + command.len() + reply.len() + keys.iter().map(|key| OVERHEAD + 2 * key.len()).sum::<usize>()
}
