//! The same program text on a connection, a batch and a transaction: one command of each group.

#![cfg(feature = "testing")]

mod support;

use redefer::{Result, prelude::*};

/// One command of each group, on anything. The handles come back, since those of a transaction cannot be waited for yet.
#[expect(clippy::type_complexity, reason = "a handle for each group")]
fn one_of_each<C>(
    on: C,
) -> (
    (C::Reply<()>, C::Reply<i64>, C::Reply<i64>, C::Reply<i64>, C::Reply<i64>, C::Reply<i64>, C::Reply<i64>),
    (C::Reply<i64>, C::Reply<bool>, C::Reply<bool>, C::Reply<String>, C::Reply<i64>, C::Reply<i64>, C::Reply<i64>),
)
where
    C: StringCommands
        + HashCommands
        + ListCommands
        + SetCommands
        + SortedSetCommands
        + KeyCommands
        + StreamCommands
        + GeoCommands
        + BitmapCommands
        + HyperLogLogCommands
        + ScriptingCommands
        + PubSubCommands
        + ServerCommands
        + ConnectionCommands
        + ClusterCommands
        + VectorSetCommands
        + Copy,
{
    (
        (
            on.set("string", "v"),
            on.hset("hash", ("field", 1)),
            on.lpush("list", ["a", "b"]),
            on.sadd("set", "member"),
            on.zadd("zset", (1.5, "member")),
            on.exists(["string", "hash"]),
            on.xlen("stream"),
        ),
        (
            on.geoadd("geo", (13.36, 38.12, "Palermo")),
            on.setbit("bits", 7, true),
            on.pfadd("hll", "a"),
            on.echo("text"),
            on.publish("channel", "message"),
            on.eval("return 6 * 7", (), ()),
            on.dbsize(),
        ),
    )
}

macro_rules! check {
    ($handles:expr) => {{
        let ((string, hash, list, set, zset, keys, stream), (geo, bits, hll, text, publish, script, size)) = $handles;
        string.wait()?;
        assert_eq!((hash.wait()?, list.wait()?, set.wait()?), (1, 2, 1));
        assert_eq!((zset.wait()?, keys.wait()?, stream.wait()?), (1, 2, 0));
        let _ = (geo.wait()?, bits.wait()?, hll.wait()?);
        assert_eq!((&*text.wait()?, publish.wait()?, script.wait()?, size.wait()?), ("text", 0, 42, 8));
    }};
}

#[test]
fn the_same_program_text_runs_on_each_executor() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);

    check!(one_of_each(&conn));
    conn.flushall().wait()?;

    let batch = conn.batch();
    let handles = one_of_each(&batch);
    batch.finish()?;
    check!(handles);
    conn.flushall().wait()?;

    let tx = conn.transaction();
    let handles = one_of_each(&tx);
    tx.commit().wait()?;
    check!(handles);
    conn.flushall().wait()?;

    let shared = support::open(&server).into_shared()?;
    check!(one_of_each(&shared));
    shared.flushall().wait()?;

    let batch = shared.batch();
    let handles = one_of_each(&batch);
    batch.finish()?;
    check!(handles);
    shared.flushall().wait()?;

    let tx = shared.transaction();
    let handles = one_of_each(&tx);
    tx.commit().wait()?;
    check!(handles);
    shared.sync()
}
