//! Workers that share a stream: each order is packed by one of them, and that of a worker that died by another one.

use std::thread;
use std::time::Duration;

use redefer::commands::{GroupRead, NewId, ReadStreams, StreamId, XgroupCreateOptions, XreadgroupOptions};
use redefer::prelude::*;
use redefer::testing::Server;

const STREAM: &str = "orders";
const GROUP: &str = "packers";
const ORDERS: u64 = 1000;
/// After this long an order that was not acknowledged is somebody else's. Longer than packing takes; here, very short.
const PATIENCE: Duration = Duration::from_millis(250);

/// Packs orders until none is left. XREADGROUP waits, so each worker has a connection of its own.
fn work(url: String, name: String) -> redefer::Result<u64> {
    let conn = Connection::open(url)?;
    let mut packed = 0;
    let mut pack = |id: StreamId, order: Vec<(String, u64)>| {
        for (item, count) in order {
            conn.hincrby("packed", item, count as i64).detach();
        }
        // Behind the rest on the same connection. The server has both, or `sync` below tells.
        conn.xack(STREAM, GROUP, id).detach();
        packed += 1;
    };
    loop {
        let fifty = XreadgroupOptions::new().count(50);
        let time = Duration::from_millis(200);
        let read = conn.xreadgroup_block_with(GROUP, &*name, (STREAM, GroupRead::Undelivered), time, fifty).wait()?;
        let read: Option<ReadStreams<String, Vec<(String, u64)>>> = read;
        for (_stream, entries) in read.into_iter().flatten() {
            entries.into_iter().for_each(|entry| pack(entry.id, entry.fields));
        }
        // Nothing new: then what somebody has read and not acknowledged in time.
        let stale = conn.xautoclaim(STREAM, GROUP, &*name, PATIENCE, StreamId::MIN).wait()?;
        if stale.claimed.is_empty() && conn.xpending(STREAM, GROUP).wait()?.count == 0 {
            break;
        }
        stale.claimed.into_iter().for_each(|entry| pack(entry.id, entry.fields));
    }
    conn.sync()?;
    Ok(packed)
}

fn main() -> redefer::Result<()> {
    let server = Server::start()?;
    let conn = Connection::open(server.url())?;
    conn.xgroup_create_with(STREAM, GROUP, StreamId::MIN, XgroupCreateOptions::new().mkstream()).wait()?;
    for n in 0..ORDERS {
        conn.xadd(STREAM, NewId::Auto, [("apples", 1), ("pears", n % 3)]).detach();
    }
    conn.sync()?;
    // One worker reads ten orders and is never seen again.
    let ten = XreadgroupOptions::new().count(10);
    conn.xreadgroup_with::<Value, Value>(GROUP, "unlucky", (STREAM, GroupRead::Undelivered), ten).wait()?;

    let workers: Vec<_> = (0..4)
        .map(|n| {
            let (url, name) = (server.url(), format!("worker {n}"));
            thread::spawn(move || work(url, name))
        })
        .collect();
    let mut packed = 0;
    for worker in workers {
        packed += worker.join().expect("it does not panic")?;
    }
    // More, if somebody was slower than the patience of the others: an order is packed *at least* once.
    assert!(packed >= ORDERS);
    assert_eq!(conn.xpending(STREAM, GROUP).wait()?.count, 0);
    let apples: u64 = conn.hget("packed", "apples").wait()?;
    assert_eq!(apples, packed);
    println!("{packed} orders packed, {apples} apples");
    Ok(())
}
