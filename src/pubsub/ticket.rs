//! What is between those who ask for subscriptions and the thread that reads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::wire::Kind;
use crate::args::Gathered;
use crate::connection::Waker;
use crate::error::{Error, Result};

pub(super) const GONE: Error = Error::Refused("the subscriber is gone");

/// A poisoned lock is as good as another: nothing here is left half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The outcome of one request, which may be several commands.
#[derive(Debug)]
pub(super) struct Ticket {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// How many commands have no outcome yet.
    left: usize,
    /// The first error, or the last count.
    outcome: Result<u64>,
    /// Nobody will ask.
    abandoned: bool,
}

impl State {
    /// The outcome, which is told once.
    fn take(&mut self) -> Result<u64> {
        std::mem::replace(&mut self.outcome, Ok(0))
    }
}

impl Ticket {
    /// A ticket, and what `commands` commands fulfil it with.
    pub(super) fn new(commands: usize) -> (Arc<Ticket>, Vec<Promise>) {
        let state = State { left: commands, outcome: Ok(0), abandoned: false };
        let ticket = Arc::new(Ticket { state: Mutex::new(state), changed: Condvar::new() });
        let promises = (0..commands).map(|_| Promise(Some(Arc::clone(&ticket)))).collect();
        (ticket, promises)
    }

    pub(super) fn is_fulfilled(&self) -> bool {
        lock(&self.state).left == 0
    }

    /// What has come of it, for the one who asks.
    pub(super) fn outcome(&self) -> Option<Result<u64>> {
        let mut state = lock(&self.state);
        (state.left == 0).then(|| state.take())
    }

    /// Waits for another thread to fulfil it.
    pub(super) fn wait(&self, time: Option<Duration>) -> Option<Result<u64>> {
        let until = time.and_then(|time| Instant::now().checked_add(time));
        let mut state = lock(&self.state);
        while state.left > 0 {
            state = match until {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        Some(state.take())
    }

    /// Nobody will ask any more. The error, if that is what has come of it.
    pub(super) fn abandon(&self) -> Option<Error> {
        let mut state = lock(&self.state);
        state.abandoned = true;
        if state.left == 0 { state.take().err() } else { None }
    }

    /// Notes the outcome of one command. The error of all, if nobody will ask for it.
    fn put(&self, outcome: Result<u64>) -> Option<Error> {
        let mut state = lock(&self.state);
        state.left = state.left.saturating_sub(1);
        if state.outcome.is_ok() {
            state.outcome = outcome;
        }
        self.changed.notify_all();
        if state.left == 0 && state.abandoned { state.take().err() } else { None }
    }
}

/// One command's part in a ticket. Dropped without an outcome, it says that the subscriber is gone.
#[derive(Debug)]
pub(super) struct Promise(Option<Arc<Ticket>>);

impl Promise {
    /// Says what has come of the command. An error that nobody will ask for is given back.
    pub(super) fn fulfil(mut self, outcome: Result<u64>) -> Option<Error> {
        self.0.take()?.put(outcome)
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some(ticket) = self.0.take() {
            ticket.put(Err(GONE));
        }
    }
}

/// What is asked for.
#[derive(Debug)]
pub(super) enum Wish {
    /// To subscribe to these names, or to unsubscribe from them, of which there is at least one.
    These { kind: Kind, subscribe: bool, names: Gathered, promise: Promise },
    /// To unsubscribe from everything.
    None(Vec<Promise>),
}

/// What all threads see of a subscriber.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) waker: Waker,
    stopped: AtomicBool,
    inbox: Mutex<Inbox>,
}

#[derive(Debug, Default)]
pub(super) struct Inbox {
    pub(super) wishes: Vec<Wish>,
    /// Errors of requests whose handles were dropped.
    pub(super) unseen: Vec<Error>,
    closed: bool,
}

impl Shared {
    pub(super) fn new() -> Result<Shared> {
        Ok(Shared { waker: Waker::new()?, stopped: AtomicBool::new(false), inbox: Mutex::default() })
    }

    /// Leaves a wish for the thread that reads. If there is none any more, its promises say so.
    pub(super) fn ask(&self, wish: Wish) {
        let mut inbox = lock(&self.inbox);
        if !inbox.closed {
            inbox.wishes.push(wish);
            drop(inbox);
            self.waker.wake();
        }
    }

    /// Leaves an error that nobody has seen.
    pub(super) fn leave(&self, error: Error) {
        let mut inbox = lock(&self.inbox);
        if !inbox.closed {
            inbox.unseen.push(error);
            drop(inbox);
            self.waker.wake();
        }
    }

    /// What has been left. A closed inbox stays closed.
    pub(super) fn take(&self) -> (Vec<Wish>, Vec<Error>) {
        let mut inbox = lock(&self.inbox);
        (std::mem::take(&mut inbox.wishes), std::mem::take(&mut inbox.unseen))
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Whether the iteration is to end: each stop ends one.
    #[inline]
    pub(super) fn take_stop(&self) -> bool {
        self.stopped.load(Ordering::Acquire) && self.stopped.swap(false, Ordering::AcqRel)
    }

    /// Nothing is taken in any more, and what was asked for and not sent will not be.
    pub(super) fn close(&self) {
        let inbox = {
            let mut inbox = lock(&self.inbox);
            inbox.closed = true;
            std::mem::take(&mut inbox.wishes)
        };
        // Its promises are broken without the lock.
        drop(inbox);
    }
}

/// What a handle holds. If the outcome is an error that nobody has asked for when it is dropped, the thread that reads is
/// told; a connection that is lost it is told of in any case.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) ticket: Arc<Ticket>,
    pub(super) shared: Arc<Shared>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(error) = self.ticket.abandon()
            && !error.is_connection_lost()
        {
            self.shared.leave(error);
        }
    }
}

/// The subscriber's own hold: when it is gone, nobody is left to ask.
#[derive(Debug)]
pub(super) struct Keeper(pub(super) Arc<Shared>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.close();
    }
}
