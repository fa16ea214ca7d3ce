//! Pipelines out of ordinary calls: handles that are kept and waited for later, a ring of handles for work without end,
//! handles that are given up, and how to see what was sent when.

use std::collections::VecDeque;

use redefer::prelude::*;
use redefer::testing::Server;

fn main() -> redefer::Result<()> {
    // A private server, or the one whose URL is the first argument.
    let server;
    let url = match std::env::args().nth(1) {
        Some(url) => url,
        None => {
            server = Server::start()?;
            server.url()
        }
    };
    let conn = Connection::open(url)?;
    conn.del(["n", "text", "seen"]).wait()?;

    // All at once: issue, then wait. The first wait sends what is left and the rest is read as it comes.
    let before = conn.stats();
    let replies: Vec<Reply<'_, i64>> = (0..1000).map(|_| conn.incr("n")).collect();
    for (reply, n) in replies.into_iter().zip(1..) {
        assert_eq!(reply.wait()?, n);
    }
    let after = conn.stats();
    let (commands, trips) = (after.commands - before.commands, after.round_trips - before.round_trips);
    println!("{commands} commands, {trips} round trips, {} writes", after.writes - before.writes);
    assert_eq!(commands, 1000);
    assert!(trips < 100);

    // A ring: at most 256 outstanding, the oldest is waited for before a new one is issued. For work without end.
    let mut ring = VecDeque::with_capacity(256);
    for n in 0..10_000 {
        if ring.len() == 256 {
            let oldest: Reply<'_, i64> = ring.pop_front().expect("it is full");
            oldest.wait()?;
        }
        ring.push_back(conn.rpush("seen", n));
    }
    let last = ring.pop_back().expect("it is full");
    assert_eq!(last.wait()?, 10_000); // out of turn: the earlier ones are kept for their handles
    for (reply, length) in ring.into_iter().zip(9_745..) {
        assert_eq!(reply.wait()?, length);
    }

    // Issued early, used late: the server works while this thread does something else.
    let length = conn.llen("seen");
    conn.flush()?;
    let something_else: u64 = (1..=1000).sum();
    assert_eq!((something_else, length.wait()?), (500_500, 10_000));

    // An error in the middle is the value of its own handle.
    conn.set("text", "hello").wait()?;
    let replies = [conn.incr("n"), conn.incr("text"), conn.incr("n")];
    let outcomes = replies.map(Reply::wait);
    assert!(matches!(outcomes, [Ok(1001), Err(Error::Server(_)), Ok(1002)]));

    // Handles that are given up cost nothing. `sync` waits for everything, and tells the first error that nobody saw.
    for _ in 0..1000 {
        conn.incr("n").detach();
    }
    conn.incr("text").detach();
    assert_eq!(conn.sync().unwrap_err().code(), Some("ERR"));
    assert_eq!(conn.get::<i64>("n").wait()?, 2002);
    println!("everything was as it should be");
    Ok(())
}
