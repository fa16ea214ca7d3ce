//! What the tests of connections that threads share have in common.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use redefer::{Config, ConnectionLost, Error, FromReply, Result, SharedReply, WaitError};

use super::scripted::Scripted;

/// Far longer than a test may take: a scripted peer gives up before.
pub const LONG: Duration = Duration::from_secs(600);

/// How to reach a scripted peer.
pub fn config(peer: &Scripted) -> Result<Config> {
    Config::from_url(&peer.url())
}

/// What became of a command whose connection was lost.
#[track_caller]
pub fn lost<T>(outcome: Result<T>) -> Arc<ConnectionLost> {
    match outcome {
        Err(Error::ConnectionLost(lost)) => lost,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("the connection was not lost"),
    }
}

/// Waits for a reply for longer than the connection would have it.
pub fn in_the_end<T: FromReply>(mut handle: SharedReply<'_, T>) -> Result<T> {
    loop {
        match handle.wait_timeout(Duration::from_secs(20)) {
            Ok(reply) => return Ok(reply),
            Err(WaitError::Failed(error)) => return Err(error),
            Err(WaitError::Timeout(same)) => handle = same,
        }
    }
}

/// Runs so many threads, and fails if one does.
pub fn threads(count: usize, run: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    let start = Barrier::new(count);
    thread::scope(|scope| {
        let (run, start) = (&run, &start);
        let threads: Vec<_> = (0..count)
            .map(|n| {
                scope.spawn(move || {
                    start.wait();
                    run(n)
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })
}
