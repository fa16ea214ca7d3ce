//! What the threads are kept apart with, and what loom has in its place.

#[cfg(not(all(loom, test)))]
mod plain {
    use std::cell::Cell;
    pub(crate) use std::sync::{Arc, Mutex, MutexGuard};
    use std::thread::Thread;
    use std::time::{Duration, Instant};

    /// How a thread sleeps until another wakes it.
    pub(crate) struct Sleeper(Thread);

    impl Sleeper {
        /// For the thread that asks.
        pub(crate) fn new() -> Self {
            Sleeper(std::thread::current())
        }

        /// Waits for word at most this long, without a time for ever. May return early. Only for the thread whose it is.
        pub(crate) fn park(&self, time: Option<Duration>) {
            match time {
                None => std::thread::park(),
                Some(time) => std::thread::park_timeout(time),
            }
        }

        /// Wakes the thread, now or when it next parks.
        pub(crate) fn unpark(&self) {
            self.0.unpark();
        }
    }

    /// Nobody dials from inside of more dials than that.
    const DEEP: usize = 4;

    thread_local! {
        /// The tables for which this thread does something without the lock, the last one first.
        static ERRANDS: Cell<[usize; DEEP]> = const { Cell::new([0; DEEP]) };
    }

    /// Runs what a thread does for all at this table.
    pub(crate) fn on_errand<R>(table: usize, run: impl FnOnce() -> R) -> R {
        /// Also when it panics.
        struct Before([usize; DEEP]);
        impl Drop for Before {
            fn drop(&mut self) {
                ERRANDS.set(self.0);
            }
        }
        let before = Before(ERRANDS.get());
        let mut errands = before.0;
        errands.rotate_right(1);
        errands[0] = table;
        ERRANDS.set(errands);
        run()
    }

    /// Whether this thread has come back to the table from inside of what it does for all.
    pub(crate) fn is_on_errand(table: usize) -> bool {
        ERRANDS.get().contains(&table)
    }

    /// Lets other threads run, and says for how long if it is to.
    pub(crate) fn give_way(timed: bool) -> Option<Duration> {
        let start = timed.then(Instant::now);
        std::thread::yield_now();
        start.map(|start| start.elapsed())
    }
}

#[cfg(all(loom, test))]
mod plain {
    use std::time::Duration;

    use loom::sync::Condvar;
    pub(crate) use loom::sync::{Arc, Mutex, MutexGuard};

    /// A token: loom's own would be lost on a thread that waits for a lock, or let it through.
    pub(crate) struct Sleeper {
        token: Mutex<bool>,
        there: Condvar,
    }

    impl Sleeper {
        pub(crate) fn new() -> Self {
            Sleeper { token: Mutex::new(false), there: Condvar::new() }
        }

        /// There is no clock: a time is over at once, at whatever point loom has chosen for it.
        pub(crate) fn park(&self, time: Option<Duration>) {
            let mut token = super::lock(&self.token);
            while time.is_none() && !*token {
                token = self.there.wait(token).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
            *token = false;
        }

        pub(crate) fn unpark(&self) {
            *super::lock(&self.token) = true;
            self.there.notify_one();
        }
    }

    /// Nothing of the model comes back to the table from there.
    pub(crate) fn on_errand<R>(_: usize, run: impl FnOnce() -> R) -> R {
        run()
    }

    pub(crate) fn is_on_errand(_: usize) -> bool {
        false
    }

    /// There is no clock.
    pub(crate) fn give_way(_: bool) -> Option<Duration> {
        loom::thread::yield_now();
        None
    }
}

pub(crate) use plain::*;

/// Locks, whatever a thread that panicked has left behind: what is under the lock is whole at every point where something
/// could panic.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
