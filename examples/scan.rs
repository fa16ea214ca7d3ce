//! Going through many keys, and through large hashes, sets and sorted sets, without blocking the server: the SCAN
//! family as iterators, and page by page in a pipeline.

use std::collections::{BTreeSet, HashMap};

use redefer::commands::ScanOptions;
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
    conn.del(["scan:hash", "scan:set", "scan:ranking"]).wait()?;
    let batch = conn.batch();
    for n in 0..1000 {
        batch.set(format!("scan:key:{n}"), n);
        batch.hset("scan:hash", (n, n * n));
        batch.sadd("scan:set", n);
        batch.zadd("scan:ranking", (n, format!("member {n}")));
    }
    batch.finish()?;

    // Keys that match. One may come more than once, so those that must be counted go into a set.
    let mut keys = BTreeSet::new();
    for key in conn.scan_with::<String>(ScanOptions::new().match_("scan:key:*").count(200)) {
        keys.insert(key?);
    }
    assert_eq!(keys.len(), 1000);

    // The connection may be used between two keys: here each is asked for its value.
    let mut sum = 0;
    for key in conn.scan_with::<String>(ScanOptions::new().match_("scan:key:*").type_("string").count(500)) {
        sum += conn.get::<Option<i64>>(key?).wait()?.unwrap_or(0); // it may be gone by now
    }
    assert!(sum >= 499_500);

    // Fields with their values, members, members with their scores.
    let fields: HashMap<u32, u32> = conn.hscan("scan:hash").collect::<redefer::Result<_>>()?;
    assert_eq!((fields.len(), fields[&31]), (1000, 961));
    let members: BTreeSet<u32> = conn.sscan("scan:set").collect::<redefer::Result<_>>()?;
    assert_eq!(members.len(), 1000);
    let scores: HashMap<String, f64> = conn.zscan("scan:ranking").collect::<redefer::Result<_>>()?;
    assert_eq!(scores["member 31"], 31.0);

    // Deleted as they are found: SCAN finds every key that is there from its beginning to its end.
    let batch = conn.batch();
    for key in conn.scan_with::<String>(ScanOptions::new().match_("scan:key:*").count(1000)) {
        batch.unlink(key?);
    }
    batch.finish()?;
    assert_eq!(conn.scan_with::<String>(ScanOptions::new().match_("scan:key:*")).count(), 0);

    // Page by page, where the iterator does not fit: two scans side by side, each page a pipeline of two.
    let (mut cursors, mut found) = ((0, 0), 0);
    loop {
        let options = ScanOptions::new().count(100);
        let hash = conn.hscan_page::<u32, u32>("scan:hash", cursors.0, &options);
        let ranking = conn.zscan_page::<String>("scan:ranking", cursors.1, &options);
        let (hash, ranking) = (hash.wait()?, ranking.wait()?);
        found += hash.items.len() + ranking.items.len();
        cursors = (hash.cursor, ranking.cursor);
        if cursors.0 == 0 || cursors.1 == 0 {
            break; // only a cursor of 0 is the end, and not a page without elements
        }
    }
    assert!(found >= 1000);

    // An error is shown once and ends the iteration.
    let mut wrong = conn.sscan::<String>("scan:hash");
    assert_eq!(wrong.next().expect("an error").unwrap_err().code(), Some("WRONGTYPE"));
    assert!(wrong.next().is_none());
    println!("everything was as it should be");
    Ok(())
}
