//! A session store under many threads: each request of a web server looks its session up, and all share one connection.

use std::thread;
use std::time::{Duration, Instant};

use redefer::Shared;
use redefer::commands::SetOptions;
use redefer::prelude::*;
use redefer::testing::Server;

const THREADS: usize = 64;
const REQUESTS: usize = 500;

#[derive(Clone)]
struct Sessions {
    shared: Shared,
}

impl Sessions {
    /// The user of a session, which then lives on for an hour. Most requests come without one.
    fn user(&self, session: &str) -> redefer::Result<Option<u64>> {
        let key = format!("session:{session}");
        // Both are on their way before the first is waited for.
        let user = self.shared.get::<Option<u64>>(&key);
        self.shared.expire(&key, Duration::from_secs(3600)).wait()?;
        user.wait()
    }

    fn log_in(&self, session: &str, user: u64) -> redefer::Result<()> {
        // In one piece, whatever the other threads do meanwhile.
        let tx = self.shared.transaction();
        tx.set_with(format!("session:{session}"), user, SetOptions::new().expiry(Duration::from_secs(3600)));
        tx.incr("logins");
        tx.commit().wait()
    }
}

fn main() -> redefer::Result<()> {
    let server = Server::start()?;
    let sessions = Sessions { shared: Shared::open(server.url())? };
    for user in 0..16 {
        sessions.log_in(&format!("known{user}"), user)?;
    }
    let start = Instant::now();
    let found: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|n| {
                let sessions = sessions.clone();
                scope.spawn(move || -> redefer::Result<usize> {
                    let mut found = 0;
                    for request in 0..REQUESTS {
                        let session =
                            if request % 10 == 0 { format!("known{}", n % 16) } else { format!("{n}-{request}") };
                        found += usize::from(sessions.user(&session)?.is_some());
                    }
                    Ok(found)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).sum::<redefer::Result<usize>>()
    })?;
    let stats = sessions.shared.stats();
    println!(
        "{THREADS} threads made {} look-ups in {:.0?} and found {found} sessions, with {} writes and {} reads",
        THREADS * REQUESTS,
        start.elapsed(),
        stats.writes,
        stats.reads
    );
    assert_eq!(found, THREADS * REQUESTS / 10);
    sessions.shared.sync()
}
