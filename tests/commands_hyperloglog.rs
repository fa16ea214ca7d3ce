//! Commands on HyperLogLogs, against a real server.
#![cfg(feature = "testing")]

mod support;

use std::time::Duration;

use redefer::Result;
use redefer::prelude::*;

#[test]
fn different_elements_are_counted() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert!(conn.pfadd("a", ["x", "y", "x"]).wait()?);
    assert!(!conn.pfadd("a", "x").wait()?);
    assert!(conn.pfadd("b", args::each(["y", "z"])).wait()?);
    assert!(conn.pfadd("empty", ()).wait()? && !conn.pfadd("empty", ()).wait()?);
    assert_eq!(conn.pfcount("a").wait()?, 2);
    assert_eq!(conn.pfcount(["a", "b", "none"]).wait()?, 3);
    assert_eq!(conn.pfcount(["empty", "none"]).wait()?, 0);
    conn.pfmerge("d", ["a", "b"]).wait()?;
    assert_eq!(conn.pfcount("d").wait()?, 3);
    conn.set("s", "text").wait()?;
    assert_eq!(conn.pfadd("s", "x").wait().unwrap_err().code(), Some("WRONGTYPE"));
    assert!(matches!(conn.pfcount(Vec::<String>::new()).wait(), Err(Error::Argument(_))));
    Ok(())
}

#[test]
fn the_representation_is_shown() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.pfadd("a", ["a", "b"]).wait()?;
    assert_eq!(conn.pfdebug_encoding("a").wait()?, "sparse");
    assert_eq!(conn.pfdebug_decode("a").wait()?, "Z:12711 v:2,1 Z:3068 v:1,1 Z:603");
    assert!(conn.pfdebug_todense("a").wait()? && !conn.pfdebug_todense("a").wait()?);
    assert_eq!(conn.pfdebug_encoding("a").wait()?, "dense");
    assert!(conn.pfdebug_decode("a").wait().unwrap_err().as_server_error().is_some());
    let registers: Vec<i64> = conn.pfdebug_getreg("a").wait()?;
    assert_eq!((registers.len(), registers.iter().sum::<i64>(), registers[12711]), (16384, 3, 2));
    Ok(())
}

#[test]
fn the_server_tests_itself() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.pfselftest().wait_timeout(Duration::from_secs(120))?;
    Ok(())
}

#[test]
fn counts_work_in_batches_and_transactions() -> Result<()> {
    fn count<C: HyperLogLogCommands + Copy>(on: C, element: &str) -> C::Reply<i64> {
        on.pfadd("k", element).detach();
        on.pfcount("k")
    }
    let server = support::server();
    let conn = support::open(&server);
    let batch = conn.batch();
    let n = count(&batch, "a");
    batch.finish()?;
    assert_eq!(n.wait()?, 1);
    let tx = conn.transaction();
    let n = count(&tx, "b");
    tx.commit().wait()?;
    assert_eq!(n.wait()?, 2);
    Ok(())
}
