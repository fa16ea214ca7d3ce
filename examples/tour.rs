//! The ten-minute tour: every kind of call there is, in the order in which one needs them. Read it from top to bottom;
//! each step asserts what it says.
//!
//! Run it with `cargo run --example tour`, on a private server, or with a URL as its argument.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use redefer::commands::SetOptions;
use redefer::testing::Server;
use redefer::{Config, WaitError, prelude::*};

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

    // A connection takes a URL, or a `Config` with more to say.
    let config = Config::from_url(&url)?.client_name("tour").timeout(Duration::from_secs(5));
    let conn = Connection::open(config)?;
    conn.del(["hello", "counter", "computer", "list", "x", "y", "balance", "k", "copy", "lock"]).wait()?;

    // 1. A plain call: issue, and wait for the reply.
    conn.set("hello", "world").wait()?;
    let name: Option<String> = conn.get("hello").wait()?;
    assert_eq!(name.as_deref(), Some("world"));

    // The type says what is wanted. Nil is `None`; into a plain `String` nil is an error.
    assert_eq!(conn.get::<Option<String>>("nothing").wait()?, None);
    assert!(matches!(conn.get::<String>("nothing").wait(), Err(Error::Nil)));
    assert_eq!(conn.set_with("lock", "me", SetOptions::new().nx()).wait()?, Some(()));
    assert_eq!(conn.set_with("lock", "you", SetOptions::new().nx()).wait()?, None);

    // 2. A handle that is not waited for at once is a reply that has not been read yet: this is a pipeline.
    let counts: Vec<Reply<'_, i64>> = (0..100).map(|_| conn.incr("counter")).collect();
    for (count, n) in counts.into_iter().zip(1..) {
        assert_eq!(count.wait()?, n);
    }

    // Handles may be waited for in any order. Each gets its own reply.
    let (first, second) = (conn.get::<i64>("counter"), conn.get::<String>("hello"));
    assert_eq!(second.wait()?, "world");
    assert_eq!(first.wait()?, 100);

    // 3. Pairs: one, several of different types, a map, or an iterator (also arrays and vectors).
    conn.hset("computer", ("os", "linux")).wait()?;
    conn.hset("computer", ("cpus", 8, "maker", "acme")).wait()?;
    conn.hset("computer", HashMap::from([("disks", 2)])).wait()?;
    conn.hset("computer", args::each((0..2).map(|n| (format!("disk{n}"), n * 100)))).wait()?;
    let computer: BTreeMap<String, String> = conn.hgetall("computer").wait()?;
    assert_eq!((computer.len(), computer["os"].as_str()), (6, "linux"));

    // 4. Replies of many elements: one by one as they are read, or all of them in any collection.
    conn.rpush("list", args::each(1..=1000)).wait()?;
    let mut sum = 0;
    for element in conn.lrange::<i64>("list", 0, -1) {
        sum += element?;
    }
    assert_eq!(sum, 500_500);
    let ends: Vec<String> = conn.lrange("list", -2, -1).wait()?;
    assert_eq!(ends, ["999", "1000"]);
    // A list read while another is written, on the same connection.
    let doubled = conn.lrange::<i64>("list", 0, 2).map(|n| Ok(2 * n?));
    assert_eq!(conn.rpush("copy", args::try_each(doubled)).wait()?, 3);

    // 5. A batch: sent in large pieces, one outcome. Its handles may be dropped for nothing, or kept.
    let batch = conn.batch();
    for n in 0..1000 {
        batch.set("k", n);
    }
    let last = batch.get::<i64>("k");
    batch.finish()?;
    assert_eq!(last.wait()?, 999);

    // 6. A transaction: nothing is sent before its commit, then all in one piece.
    conn.set("y", "why").wait()?;
    let tx = conn.transaction();
    let one = tx.incr("x");
    let two: Queued<'_, String> = tx.get("y");
    tx.commit().wait()?;
    assert_eq!((one.wait()?, two.wait()?), (1, "why".to_owned()));

    // With WATCH, and again from the beginning when somebody else was faster.
    let balance = conn.transact(["balance"], |conn, tx| {
        let balance: Option<i64> = conn.get("balance").wait()?;
        tx.set("balance", balance.unwrap_or(0) + 10);
        Ok(tx.get::<i64>("balance"))
    })?;
    assert_eq!(balance, 10);

    // By hand: the watch is a guard, and its transaction is aborted when a key has changed.
    let watch = conn.watch(["balance"])?;
    conn.set("balance", 11).wait()?;
    let tx = watch.transaction();
    let lost = tx.set("balance", 12);
    assert!(matches!(tx.commit().wait(), Err(Error::Aborted)));
    assert!(matches!(lost.wait(), Err(Error::Aborted)));

    // 7. An error is the value of one handle. The others, and the connection, are unharmed.
    let (wrong, right) = (conn.incr("hello"), conn.incr("counter"));
    assert_eq!(wrong.wait().unwrap_err().code(), Some("ERR"));
    assert_eq!(right.wait()?, 101);

    // A handle can be given up. Errors that nobody has seen are kept for `sync`.
    conn.incr("hello").detach();
    conn.set("k", "v").detach();
    assert_eq!(conn.sync().unwrap_err().code(), Some("ERR"));

    // 8. A wait can have an end of its own; then the handle is as good as before.
    match conn.blpop::<String, String>("empty", Duration::from_millis(100)).wait_timeout(Duration::from_millis(5)) {
        Err(WaitError::Timeout(handle)) => assert_eq!(handle.wait()?, None),
        other => panic!("there is nothing to pop: {other:?}"),
    }

    // 9. A command without a method, and a reply of any shape.
    let reply: Value = conn.command("OBJECT ENCODING", "counter").wait()?;
    assert_eq!(reply.as_str(), Some("int"));

    // 10. What it took.
    let stats = conn.stats();
    assert_eq!(conn.outstanding(), 0);
    println!("{} commands in {} round trips; everything was as it should be", stats.commands, stats.round_trips);
    Ok(())
}
