//! Replies of many elements: read one by one through a small buffer, collected, borrowed, given up half-way, and
//! overtaken by another reply.

use std::collections::{BTreeMap, HashSet};

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
    conn.del(["numbers", "point", "tags", "ranking", "nothing"]).wait()?;
    let batch = conn.batch();
    for first in (0..100_000).step_by(1000) {
        batch.rpush("numbers", args::each(first..first + 1000));
    }
    batch.finish()?;

    // One by one: each element is read and decoded when it is asked for. `?` because each may fail.
    let mut sum = 0;
    for number in conn.lrange::<u64>("numbers", 0, -1) {
        sum += number?;
    }
    assert_eq!(sum, 4_999_950_000);

    // Borrowed: no element is copied. For payloads that need not be kept.
    let mut bytes = 0;
    conn.lrange::<Vec<u8>>("numbers", 0, -1).for_each_bytes(|number| bytes += number.len())?;
    assert_eq!(bytes, 488_890);

    // All at once, in any collection. What is in it may be decoded too.
    let all: Vec<u64> = conn.lrange("numbers", 0, -1).wait()?;
    assert_eq!(all.len(), 100_000);
    conn.sadd("tags", ["red", "green", "red"]).wait()?;
    let tags: HashSet<String> = conn.smembers("tags").wait()?;
    assert_eq!(tags.len(), 2);

    // Pairs come as tuples, whatever the protocol.
    conn.hset("point", [("x", 1), ("y", 2)]).wait()?;
    let point: BTreeMap<String, i64> = conn.hgetall("point").wait()?;
    assert_eq!(point, BTreeMap::from([("x".to_owned(), 1), ("y".to_owned(), 2)]));
    conn.zadd("ranking", [(1.5, "Ada"), (2.5, "Grace")]).wait()?;
    for entry in conn.zrange_withscores::<String>("ranking", 0, -1) {
        let (name, score) = entry?;
        println!("{name}: {score}");
    }

    // How many there are, before any is read.
    let mut numbers = conn.lrange::<u64>("numbers", 0, 9);
    assert_eq!(numbers.len()?, Some(10));

    // The connection may be used in the middle. What is left is moved into memory, and the iteration goes on.
    assert_eq!(numbers.next().transpose()?, Some(0));
    assert_eq!(conn.llen("numbers").wait()?, 100_000);
    assert_eq!(numbers.next().transpose()?, Some(1));

    // Given up half-way: the rest is skipped when the connection gets there.
    drop(numbers);
    assert_eq!(conn.scard("tags").wait()?, 2);

    // Elements that are not there: an `Option` for each.
    let values: Vec<Option<String>> = conn.hmget("point", ["x", "z"]).wait()?;
    assert_eq!(values, [Some("1".to_owned()), None]);

    // The iteration ends at its first error.
    let mut wrong = conn.smembers::<i64>("tags");
    assert!(matches!(wrong.next(), Some(Err(Error::UnexpectedReply(_)))));
    assert!(wrong.next().is_none());
    let mut wrong = conn.lrange::<String>("point", 0, -1);
    assert_eq!(wrong.next().expect("an error").unwrap_err().code(), Some("WRONGTYPE"));
    println!("everything was as it should be");
    Ok(())
}
