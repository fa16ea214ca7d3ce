//! A connection over the restarts of its server: what is kept, what is lost, and what may be sent again.

use redefer::prelude::*;
use redefer::testing::Server;
use redefer::{Config, Reconnect, Sent};

/// Issues a command until its fate is known, as long as that does no harm.
fn append(conn: &Connection, key: &str, text: &str) -> redefer::Result<()> {
    loop {
        match conn.append(key, text).wait() {
            Ok(_) => return Ok(()),
            // It has not run: once more.
            Err(Error::ConnectionLost(lost)) if lost.sent() != Sent::Fully => {}
            // It may have run, and appending twice would be wrong: somebody must look.
            Err(error) => return Err(error),
        }
    }
}

fn main() -> redefer::Result<()> {
    let server = Server::builder().config("appendonly", "yes").config("appendfsync", "always").start()?;
    let config = Config::from_url(&server.url())?.client_name("example").reconnect(Reconnect::backoff());
    let conn = Connection::open(config)?;
    conn.select(3).wait()?;

    for round in 1..=3 {
        // Written, and answered by a server that is gone when the reply is asked for.
        let count = conn.incr("rounds");
        conn.flush()?;
        server.restart()?;
        match count.wait() {
            Ok(count) => println!("round {round}: INCR was answered before the end: {count}"),
            Err(Error::ConnectionLost(lost)) => println!("round {round}: INCR is lost: {lost}"),
            Err(error) => return Err(error),
        }
        // The next call dials again, by the name and in the database that the connection had.
        let text: Option<String> = conn.idempotent().get("text").wait()?;
        append(&conn, "text", "x")?;
        println!("round {round}: the text was {text:?}; database {}", conn.database());
    }

    let stats = conn.stats();
    println!("{} reconnects, {} commands sent again", stats.reconnects, stats.resent);
    assert_eq!(conn.strlen("text").wait()?, 3);
    assert!(stats.reconnects >= 3);
    Ok(())
}
