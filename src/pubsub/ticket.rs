//! What is between those who ask for subscriptions and the thread that reads.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::args::Gathered;
use crate::connection::Stop;
use crate::connection::wire::Kind;
use crate::error::{Error, Result};

pub(super) const GONE: Error = Error::Refused("the subscriber is gone");

pub(super) const CROWDED: Error = Error::Refused(
    "as many (un)subscribes as Config::max_outstanding says are not acknowledged yet: read first, so that they are",
);

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

impl Wish {
    /// Says that nothing will come of it. An error that nobody will ask for is given back.
    fn refuse(self, error: &Error) -> Option<Error> {
        match self {
            Wish::These { promise, .. } => promise.fulfil(Err(error.clone())),
            Wish::None(promises) => {
                let unseen = promises.into_iter().map(|promise| promise.fulfil(Err(error.clone())));
                // The ticket is fulfilled by the last one.
                unseen.fold(None, Option::or)
            }
        }
    }
}

/// What all threads see of a subscriber.
#[derive(Debug)]
pub(super) struct Shared {
    /// Ends the iteration; its waker brings the word of the inbox too.
    pub(super) stop: Stop,
    inbox: Mutex<Inbox>,
    /// How much the inbox takes.
    most: usize,
}

#[derive(Debug, Default)]
struct Inbox {
    wishes: Vec<Wish>,
    /// Errors of requests whose handles were dropped.
    unseen: Vec<Error>,
    /// No more is asked for.
    closed: bool,
    /// Nobody is left to be told of an error.
    ended: bool,
}

impl Shared {
    pub(super) fn new(most: usize) -> Result<Shared> {
        Ok(Shared { stop: Stop::new()?, inbox: Mutex::default(), most })
    }

    /// Leaves a wish for the thread that reads. If that is not possible, its promises say so.
    pub(super) fn ask(&self, wish: Wish) {
        let mut inbox = lock(&self.inbox);
        let refused = if inbox.closed {
            Some((wish, GONE))
        } else if inbox.wishes.len() >= self.most {
            Some((wish, CROWDED))
        } else {
            inbox.wishes.push(wish);
            None
        };
        drop(inbox);
        match refused {
            // Whoever asks has not let go of the handle yet.
            Some((wish, error)) => drop(wish.refuse(&error)),
            None => self.stop.waker.wake(),
        }
    }

    /// Leaves an error that nobody has seen.
    pub(super) fn leave(&self, error: Error) {
        let mut inbox = lock(&self.inbox);
        if !inbox.ended && inbox.unseen.len() < self.most {
            inbox.unseen.push(error);
            drop(inbox);
            self.stop.waker.wake();
        }
    }

    /// What has been left. A closed inbox stays closed.
    pub(super) fn take(&self) -> (Vec<Wish>, Vec<Error>) {
        let mut inbox = lock(&self.inbox);
        (std::mem::take(&mut inbox.wishes), std::mem::take(&mut inbox.unseen))
    }

    /// Nothing is taken in any more but errors, and what was asked for and not sent will not be.
    pub(super) fn close(&self) {
        let wishes = {
            let mut inbox = lock(&self.inbox);
            inbox.closed = true;
            std::mem::take(&mut inbox.wishes)
        };
        for wish in wishes {
            if let Some(error) = wish.refuse(&GONE) {
                self.leave(error);
            }
        }
    }

    /// The end: the errors that are left.
    pub(super) fn end(&self) -> Vec<Error> {
        let mut inbox = lock(&self.inbox);
        (inbox.closed, inbox.ended) = (true, true);
        std::mem::take(&mut inbox.unseen)
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
        self.0.end();
    }
}
