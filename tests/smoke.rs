#![cfg(feature = "testing")]
mod support;
use redefer::{Error, prelude::*};

#[test]
fn tour() -> redefer::Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("hello", "world").wait()?;
    let name: Option<String> = conn.get("hello").wait()?;
    assert_eq!(name.as_deref(), Some("world"));
    let none: Option<String> = conn.get("nothing").wait()?;
    assert_eq!(none, None);
    assert!(matches!(conn.get::<String>("nothing").wait(), Err(Error::Nil)));
    conn.hset("computer", ("os", "linux")).wait()?;
    let keys: Vec<String> = (0..10000).map(|n| format!("k{n}")).collect();
    let replies: Vec<Reply<'_, ()>> = keys.iter().map(|k| conn.set(k, "v")).collect();
    for reply in replies {
        reply.wait()?;
    }
    let mut replies: Vec<Reply<'_, String>> = keys.iter().map(|k| conn.get(k)).collect();
    while let Some(reply) = replies.pop() {
        assert_eq!(reply.wait()?, "v");
    }
    conn.rpush("list", ["a", "b", "c"]).wait()?;
    let mut seen = vec![];
    for item in conn.lrange::<String>("list", 0, -1) {
        seen.push(item?);
    }
    assert_eq!(seen, ["a", "b", "c"]);
    let mut half = conn.lrange::<String>("list", 0, -1);
    assert_eq!(half.next().unwrap()?, "a");
    assert_eq!(conn.get::<String>("hello").wait()?, "world");
    assert_eq!(half.wait::<Vec<_>>()?, ["b", "c"]);
    let tx = conn.transaction();
    let one = tx.incr("x");
    let two: Queued<'_, Option<String>> = tx.get("y");
    tx.commit().wait()?;
    assert_eq!((one.wait()?, two.wait()?), (1, None));
    let batch = conn.batch();
    for n in 0..100 {
        batch.set(n, n);
    }
    batch.lpush("hello", "x");
    match batch.finish() {
        Err(Error::Batch(e)) => assert_eq!((e.position(), e.failed()), (100, 1)),
        other => panic!("{other:?}"),
    }
    conn.lpush("hello", "x").detach();
    assert_eq!(conn.sync().unwrap_err().code(), Some("WRONGTYPE"));
    let (x, y): (i64, Option<String>) = conn.transact(["x"], |_, tx| Ok((tx.incr("x"), tx.get("y"))))?;
    assert_eq!((x, y), (2, None));
    let map: std::collections::HashMap<String, String> = conn.hgetall("computer").wait()?;
    assert_eq!(map["os"], "linux");
    println!("{:?}", conn.stats());
    Ok(())
}
