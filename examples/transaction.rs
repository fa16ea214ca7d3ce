//! Transactions at a bank: a transfer with `transact` (WATCH, read, MULTI … EXEC, again if somebody was faster), the
//! same by hand with a watch guard, and what each handle tells about a transaction that did not run.

use std::thread;

use redefer::prelude::*;
use redefer::testing::Server;

/// Moves money if there is enough of it, and returns both new balances.
fn transfer(conn: &Connection, from: &str, to: &str, amount: i64) -> redefer::Result<(i64, i64)> {
    conn.transact([from, to], |conn, tx| {
        // Reads are ordinary calls on the connection. If an account changes before EXEC, all begins again from here.
        let balance: Option<i64> = conn.get(from).wait()?;
        if balance.unwrap_or(0) < amount {
            return Err(Error::custom("not enough money")); // nothing was sent
        }
        // Writes are queued in the transaction. The handles that are returned are waited for.
        Ok((tx.decrby(from, amount), tx.incrby(to, amount)))
    })
}

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
    let conn = Connection::open(&url)?;
    conn.mset([("ada", 100), ("grace", 100)]).wait()?;

    assert_eq!(transfer(&conn, "ada", "grace", 30)?, (70, 130));
    let error = transfer(&conn, "ada", "grace", 1000).unwrap_err();
    assert_eq!(error.to_string(), "not enough money");

    // Four tellers at once, each with a connection of its own. No money is made or lost.
    let tellers: Vec<_> = (0..4)
        .map(|teller| {
            let url = url.clone();
            thread::spawn(move || -> redefer::Result<()> {
                let conn = Connection::open(url)?;
                let (from, to) = if teller % 2 == 0 { ("ada", "grace") } else { ("grace", "ada") };
                let mut done = 0;
                while done < 25 {
                    match transfer(&conn, from, to, 1) {
                        Ok(_) => done += 1,
                        Err(Error::Aborted) => {} // sixteen attempts, and somebody was faster each time
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            })
        })
        .collect();
    for teller in tellers {
        teller.join().expect("no teller panics")?;
    }
    let balances: Vec<i64> = conn.mget(["ada", "grace"]).wait()?;
    assert_eq!(balances, [70, 130]);

    // By hand. Before the commit nothing is sent, and a handle says so.
    let tx = conn.transaction();
    tx.incrby("ada", 1_000_000);
    assert!(matches!(tx.get::<i64>("ada").wait(), Err(Error::NotCommitted)));
    tx.discard(); // as dropping it does

    // A change between WATCH and EXEC: nothing runs, and each handle tells why.
    let watch = conn.watch("ada")?;
    let balance: i64 = conn.get("ada").wait()?;
    Connection::open(&url)?.incr("ada").wait()?;
    let tx = watch.transaction();
    let set = tx.set("ada", balance + 10);
    assert!(matches!(tx.commit().wait(), Err(Error::Aborted)));
    assert!(matches!(set.wait(), Err(Error::Aborted)));

    // A command that fails while the transaction runs fails alone. Redis rolls nothing back.
    let tx = conn.transaction();
    let (length, balance) = (tx.llen("ada"), tx.get::<i64>("ada"));
    tx.commit().wait()?;
    assert_eq!(length.wait().unwrap_err().code(), Some("WRONGTYPE"));
    assert_eq!(balance.wait()?, 71);
    println!("everything was as it should be");
    Ok(())
}
