//! Iterators over a stream: what is in it, and what comes.

use std::fmt;
use std::iter::FusedIterator;
use std::time::Duration;
use std::vec;

use super::entry::{Attempt, Entry, StreamBound, StreamId, StreamRange};
use super::options::ReadFrom;
use super::{BlockingStreamCommands, StreamCommands, block};
use crate::args::cmd;
use crate::commands::parts::Owned;
use crate::commands::{Elements, Handle};
use crate::error::Result;
use crate::values::{FromReply, Value};

/// How many entries a page has if nothing else is said.
const PAGE: u64 = 100;

/// A lazy, fallible iterator over the entries of a range: made by
/// [`xrange_all`](BlockingStreamCommands::xrange_all).
///
/// It reads page by page with XRANGE: `next` asks for the page behind the last entry and waits for it when the one before
/// is used up, and only then, so that nothing is on its way between two calls, and the connection can be used in the
/// loop. The first page is asked for by the first `next`. Entries that are added to the range meanwhile may be given too.
///
/// `next` gives another entry, or an error. An entry whose fields are of another shape than `T` is an error of its own,
/// and the next one comes after it; any other error ends the iterator.
///
/// # Drop
///
/// Costs nothing: the server keeps nothing for an iterator.
#[must_use = "an iterator over a stream asks for nothing until it is iterated over"]
pub struct StreamReader<C, T> {
    on: C,
    key: Owned,
    /// What is still to be read, if anything.
    rest: Option<StreamRange>,
    page: u64,
    entries: vec::IntoIter<Attempt<T>>,
}

impl<C: Copy, T> StreamReader<C, T> {
    pub(super) fn new(on: C, key: Owned, range: StreamRange) -> Self {
        StreamReader { on, key, rest: Some(range), page: PAGE, entries: Vec::new().into_iter() }
    }

    /// How many entries to ask for at a time, at least 1; 100 if this is not called.
    pub fn page(mut self, entries: u64) -> Self {
        self.page = entries.max(1);
        self
    }
}

impl<C: StreamCommands + Copy, T: FromReply> StreamReader<C, T> {
    fn read(&mut self, range: StreamRange) -> Result<()> {
        let command = cmd("XRANGE").key(&self.key).arg(range.min).arg(range.max).arg("COUNT").arg(self.page);
        let entries: Vec<Attempt<T>> = self.on.execute_multi(command).wait()?;
        // After the last ID there can be, the server has no range that begins.
        self.rest = match entries.last() {
            Some(last) if entries.len() as u64 >= self.page && last.id != StreamId::MAX => {
                Some(StreamRange { min: StreamBound::Excluded(last.id), max: range.max })
            }
            _ => None,
        };
        self.entries = entries.into_iter();
        Ok(())
    }
}

impl<C: StreamCommands + Copy, T: FromReply> Iterator for StreamReader<C, T> {
    type Item = Result<Entry<T>>;

    fn next(&mut self) -> Option<Result<Entry<T>>> {
        loop {
            if let Some(entry) = self.entries.next() {
                return Some(entry.entry());
            }
            let range = self.rest.take()?;
            if let Err(error) = self.read(range) {
                return Some(Err(error));
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let ready = self.entries.len();
        (ready, self.rest.is_none().then_some(ready))
    }
}

impl<C: StreamCommands + Copy, T: FromReply> FusedIterator for StreamReader<C, T> {}

impl<C, T> fmt::Debug for StreamReader<C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamReader")
            .field("rest", &self.rest)
            .field("page", &self.page)
            .field("ready", &self.entries.len())
            .finish_non_exhaustive()
    }
}

/// An iterator that follows a stream and waits for what is added to it: made by
/// [`xread_follow`](BlockingStreamCommands::xread_follow).
///
/// It reads with XREAD BLOCK, each time what comes after the last entry, so that nothing is left out and nothing comes
/// twice. `next` gives another entry; `None` when nothing has come in the time to wait, after which it may be called
/// again, to wait again; or an error. An entry whose fields are of another shape than `T` is an error of its own, and the
/// next one comes after it; after any other error there is only `None`. [`last_id`](StreamFollower::last_id) says where
/// to go on, on another connection say.
///
/// Between two calls of `next` nothing is on its way, so that the connection can be used in the loop; what is issued
/// before `next` runs before the wait.
///
/// # Drop
///
/// Costs nothing: the server keeps nothing for an iterator.
#[must_use = "an iterator over a stream asks for nothing until it is iterated over"]
pub struct StreamFollower<C, T> {
    on: C,
    key: Owned,
    from: ReadFrom,
    timeout: Option<Duration>,
    page: u64,
    failed: bool,
    entries: vec::IntoIter<Attempt<T>>,
    /// The ID of the entry that was given last.
    last: Option<StreamId>,
}

impl<C: Copy, T> StreamFollower<C, T> {
    pub(super) fn new(on: C, key: Owned, from: ReadFrom, timeout: Option<Duration>) -> Self {
        let entries = Vec::new().into_iter();
        StreamFollower { on, key, from, timeout, page: PAGE, failed: false, entries, last: None }
    }

    /// How many entries to ask for at a time, at least 1; 100 if this is not called. What was asked for and is not
    /// looked at is not lost: nothing is taken from the stream.
    pub fn page(mut self, entries: u64) -> Self {
        self.page = entries.max(1);
        self
    }

    /// The ID of the entry that `next` gave last, also of one that was an error; before that, where it begins, if that
    /// is known.
    #[must_use]
    pub fn last_id(&self) -> Option<StreamId> {
        match self.from {
            ReadFrom::After(id) => Some(self.last.unwrap_or(id)),
            ReadFrom::New | ReadFrom::Last => self.last,
        }
    }
}

impl<C: BlockingStreamCommands, T: FromReply> StreamFollower<C, T> {
    /// Fills `entries`, or leaves them empty when nothing has come in time.
    fn read(&mut self) -> Result<()> {
        let after = match self.from {
            ReadFrom::After(id) => id,
            // `$` once more would leave out what was added between two reads. So the first one looks where the end is.
            ReadFrom::New | ReadFrom::Last => {
                let command = cmd("XREVRANGE").key(&self.key).arg("+").arg("-").arg("COUNT").arg(1);
                let end: Vec<Attempt<T>> = self.on.execute_multi(command).wait()?;
                let id = end.first().map_or(StreamId::MIN, |last| last.id);
                let is_given = matches!(self.from, ReadFrom::Last) && !end.is_empty();
                self.from = ReadFrom::After(id);
                if is_given {
                    self.entries = end.into_iter();
                    return Ok(());
                }
                id
            }
        };
        let (millis, time) = block(self.timeout);
        let command = cmd("XREAD").arg("COUNT").arg(self.page).arg("BLOCK").arg(millis).arg("STREAMS");
        let command = command.key(&self.key).arg(after).blocking(time);
        let read: Option<Vec<(Value, Vec<_>)>> = self.on.execute(command).wait()?;
        let entries: Vec<Attempt<T>> = read.into_iter().flatten().flat_map(|(_, entries)| entries).collect();
        if let Some(last) = entries.last() {
            self.from = ReadFrom::After(last.id);
            // Until one of these is given, the last one is that before them.
            self.last.get_or_insert(after);
        }
        self.entries = entries.into_iter();
        Ok(())
    }
}

impl<C: BlockingStreamCommands, T: FromReply> Iterator for StreamFollower<C, T> {
    type Item = Result<Entry<T>>;

    fn next(&mut self) -> Option<Result<Entry<T>>> {
        if self.entries.len() == 0 {
            if self.failed {
                return None;
            }
            if let Err(error) = self.read() {
                self.failed = true;
                return Some(Err(error));
            }
        }
        let entry = self.entries.next()?;
        self.last = Some(entry.id);
        Some(entry.entry())
    }
}

impl<C, T> fmt::Debug for StreamFollower<C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamFollower")
            .field("from", &self.from)
            .field("timeout", &self.timeout)
            .field("page", &self.page)
            .field("ready", &self.entries.len())
            .finish_non_exhaustive()
    }
}
