//! What redispp's README and tests describe, on a real server, and what it gets wrong.
//!
//! redispp (C++) is the library whose lazy replies this crate took up: there, too, a call returns a handle at once, and
//! the reply is read when the handle is used.

#![cfg(feature = "testing")]

mod support;

use std::collections::{HashMap, VecDeque};

use redefer::{Error, Result, prelude::*};

const KEY: &str = "somemediumkey2";
const VALUE: &str = "somemediumvalue";

#[test]
fn a_ring_of_handles_keeps_up_to_n_requests_on_the_wire() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    for size in [1, 2, 16, 64, 1_000] {
        // Filled once round after round: the assignment gives up the oldest handle for the newest.
        let mut ring: Vec<Option<Reply<'_, ()>>> = (0..size).map(|_| None).collect();
        for n in 0..5 * size {
            let slot = &mut ring[n % size];
            if let Some(oldest) = slot.take() {
                oldest.wait()?;
            }
            *slot = Some(conn.set(format!("{KEY}{n}"), VALUE));
            assert!(conn.outstanding() <= size);
        }
        for handle in ring.into_iter().flatten() {
            handle.wait()?;
        }
        // And of replies with a value.
        let mut ring: VecDeque<(usize, Reply<'_, String>)> = VecDeque::new();
        for n in 0..5 * size {
            if ring.len() == size {
                let (_, oldest) = ring.pop_front().expect("it is full");
                assert_eq!(oldest.wait()?, VALUE);
            }
            ring.push_back((n, conn.get(format!("{KEY}{n}"))));
        }
        for (_, handle) in ring {
            assert_eq!(handle.wait()?, VALUE);
        }
    }
    Ok(())
}

#[test]
fn handles_that_are_overwritten_are_waited_for() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let mut ring: Vec<Option<Reply<'_, i64>>> = (0..16).map(|_| None).collect();
    for n in 0..1_000 {
        ring[n % 16] = Some(conn.incr("n"));
        assert!(conn.outstanding() <= 16 + 1);
    }
    drop(ring);
    assert_eq!(conn.outstanding(), 0);
    assert_eq!(conn.get::<i64>("n").wait()?, 1_000);
    conn.sync()
}

/// The README's object: its fields are saved in one scope, and loaded when they are used.
struct Computer<'c> {
    os: Reply<'c, String>,
    cores: Reply<'c, u32>,
    memory: Reply<'c, u64>,
    owner: Reply<'c, Option<String>>,
}

impl<'c> Computer<'c> {
    fn save(conn: &Connection, key: &str) -> Result<()> {
        // Four commands on the wire, all read at the end of the scope.
        let _os = conn.hset(key, ("os", "linux"));
        let _cores = conn.hset(key, ("cores", 16));
        let _memory = conn.hset(key, ("memory", 64_u64 << 30));
        let _name = conn.hset(key, ("name", "deep thought"));
        Ok(())
    }

    fn load(conn: &'c Connection, key: &str) -> Self {
        Computer {
            os: conn.hget(key, "os"),
            cores: conn.hget(key, "cores"),
            memory: conn.hget(key, "memory"),
            owner: conn.hget(key, "owner"),
        }
    }
}

#[test]
fn an_object_is_saved_with_four_hsets_in_a_scope_and_loaded_lazily() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let before = conn.stats();
    Computer::save(&conn, "computer")?;
    assert_eq!(conn.outstanding(), 0);
    let saved = conn.stats();
    assert_eq!(saved.commands - before.commands, 4);
    assert!(saved.round_trips - before.round_trips <= 2, "not one for each");
    let computer = Computer::load(&conn, "computer");
    assert_eq!(conn.outstanding(), 4);
    assert_eq!(computer.memory.wait()?, 64 << 30);
    assert_eq!(computer.os.wait()?, "linux");
    assert_eq!(computer.owner.wait()?, None);
    assert_eq!(computer.cores.wait()?, 16);
    let all: HashMap<String, String> = conn.hgetall("computer").wait()?;
    assert_eq!(all.len(), 4);
    assert_eq!(all["name"], "deep thought");
    conn.sync()
}

#[test]
fn a_value_is_loaded_and_used_later() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("hello", "world").wait()?;
    let hello = conn.get::<String>("hello");
    // Much else happens meanwhile, on the same connection.
    for n in 0..100 {
        conn.set(n, n).wait()?;
    }
    conn.set("hello", "changed").wait()?;
    assert_eq!(hello.wait()?, "world", "as it was when it was asked for");
    Ok(())
}

#[test]
fn a_reply_is_used_at_once() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("hello", "world").wait()?;
    assert_eq!(conn.get::<String>("hello").wait()?, "world");
    assert_eq!(conn.incr("n").wait()?, 1);
    assert!(conn.exists("n").wait()? == 1 && conn.del("n").wait()? == 1);
    assert_eq!(conn.append("hello", "!").wait()?, 6);
    Ok(())
}

#[test]
fn scopes_nest_in_any_way_and_a_handle_outlives_an_inner_one() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("one", 1).wait()?;
    let outer = conn.get::<i64>("one");
    let survivor;
    {
        let _first = conn.incr("one");
        {
            let second = conn.incr("one");
            survivor = conn.get::<i64>("one");
            {
                let _third = conn.set("one", 100);
                let unused = conn.get::<i64>("one");
                drop(unused);
            }
            assert_eq!(second.wait()?, 3);
        }
        let _last = conn.incr("one");
    }
    assert_eq!(conn.outstanding(), 0);
    assert_eq!(survivor.wait()?, 3);
    assert_eq!(outer.wait()?, 1);
    assert_eq!(conn.get::<i64>("one").wait()?, 101);

    // Returned by a function whose own handles are gone.
    fn issue<'c>(conn: &'c Connection, depth: u32, out: &mut Vec<(u32, Reply<'c, u32>)>) -> Reply<'c, u32> {
        let _mine = conn.echo::<u32>(depth + 1_000);
        out.push((depth, conn.echo(depth)));
        if depth == 0 { conn.echo(7_u32) } else { issue(conn, depth - 1, out) }
    }
    let mut out = Vec::new();
    let innermost = issue(&conn, 50, &mut out);
    for (depth, handle) in out {
        assert_eq!(handle.wait()?, depth);
    }
    assert_eq!(innermost.wait()?, 7);
    conn.sync()
}

#[test]
fn null_replies_are_told_from_empty_ones() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("empty", "").wait()?;
    assert_eq!(conn.get::<Option<String>>("nothing").wait()?, None);
    assert_eq!(conn.get::<Option<String>>("empty").wait()?.as_deref(), Some(""));
    assert!(matches!(conn.get::<String>("nothing").wait(), Err(Error::Nil)));
    assert_eq!(conn.hget::<Option<String>>("nothing", "field").wait()?, None);
    assert_eq!(conn.lpop::<Option<String>>("nothing").wait()?, None);
    let values: Vec<Option<String>> = conn.mget(["nothing", "empty"]).wait()?;
    assert_eq!(values, [None, Some(String::new())]);
    assert_eq!(conn.lrange::<String>("nothing", 0, -1).wait::<Vec<_>>()?, [""; 0], "an empty list is not nil");
    Ok(())
}

#[test]
fn a_list_is_read_element_by_element() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let words: Vec<String> = (0..1_000).map(|n| format!("word {n}")).collect();
    for word in &words {
        conn.rpush("list", word).detach();
    }
    let mut list = conn.lrange::<String>("list", 0, -1);
    assert_eq!(list.len()?, Some(1_000));
    for word in &words {
        assert_eq!(list.next().transpose()?.as_ref(), Some(word));
    }
    assert!(list.next().is_none());
    // A set and a hash as well.
    conn.sadd("set", &words).wait()?;
    let members: std::collections::HashSet<String> = conn.smembers("set").wait()?;
    assert_eq!(members.len(), 1_000);
    conn.hset("hash", words.iter().map(|word| (word, word.len())).collect::<Vec<_>>()).wait()?;
    let mut fields = 0;
    for pair in conn.hgetall::<String, usize>("hash") {
        let (field, length) = pair?;
        assert_eq!(field.len(), length);
        fields += 1;
    }
    assert_eq!(fields, 1_000);
    conn.sync()
}

#[test]
fn handles_of_a_transaction_are_read_after_its_commit() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let tx = conn.transaction();
    let one = tx.incr("x");
    let two = tx.hset("hash", ("field", "value"));
    let three = tx.hgetall::<String, String>("hash");
    let four = tx.get::<Option<String>>("nothing");
    let five = tx.set("y", 5);
    let commit = tx.commit();
    // In any order.
    assert_eq!(four.wait()?, None);
    assert_eq!(three.wait::<Vec<_>>()?, [("field".to_owned(), "value".to_owned())]);
    five.wait()?;
    assert_eq!((one.wait()?, two.wait()?), (1, 1));
    commit.wait()
}

#[test]
fn several_outstanding_replies_are_used_in_any_order() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.mset([("a", 1), ("b", 2), ("c", 3)]).wait()?;
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut handles = ["a", "b", "c"].map(|key| Some(conn.get::<i64>(key)));
        for index in order {
            let handle = handles[index].take().expect("each once");
            assert_eq!(handle.wait()?, index as i64 + 1, "order {order:?}");
        }
    }
    Ok(())
}

// What redispp gets wrong.

#[test]
fn an_unread_enumerator_that_is_dropped_leaves_the_connection_in_step() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("list", ["a", "b", "c"]).wait()?;
    drop(conn.lrange::<String>("list", 0, -1));
    assert_eq!(conn.echo::<i64>(1).wait()?, 1);
    let mut list = conn.lrange::<String>("list", 0, -1);
    assert_eq!(list.next().transpose()?.as_deref(), Some("a"));
    drop(list);
    assert_eq!(conn.echo::<i64>(2).wait()?, 2);
    let mut first = conn.lrange::<String>("list", 0, -1);
    let second = conn.lrange::<String>("list", 0, -1);
    assert_eq!(first.next().transpose()?.as_deref(), Some("a"));
    assert_eq!(second.wait::<Vec<_>>()?, ["a", "b", "c"]);
    assert_eq!(first.wait::<Vec<_>>()?, ["b", "c"]);
    conn.sync()
}

#[test]
fn an_error_of_an_earlier_reply_does_not_surface_at_a_later_caller() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "text").wait()?;
    let wrong = conn.lpush("text", "x");
    let dropped = conn.incr("text");
    let right = conn.get::<String>("text");
    assert_eq!(right.wait()?, "text");
    drop(dropped);
    assert_eq!(conn.get::<String>("text").wait()?, "text");
    assert_eq!(wrong.wait().unwrap_err().code(), Some("WRONGTYPE"));
    assert_eq!(conn.sync().unwrap_err().code(), Some("ERR"), "the dropped one's, to whoever asks for it");
    conn.sync()
}

#[test]
fn nested_arrays_are_read_whole() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let script = "return {1, {2, {3, 'four'}, {}}, 'five'}";
    let nested = conn.eval::<(i64, Value, String)>(script, (), ());
    let behind = conn.echo::<i64>(1);
    assert_eq!(behind.wait()?, 1);
    let (one, inner, five) = nested.wait()?;
    assert_eq!((one, five.as_str()), (1, "five"));
    let want = Value::Array(vec![
        Value::Integer(2),
        Value::Array(vec![Value::Integer(3), Value::Bulk(b"four".to_vec())]),
        Value::Array(vec![]),
    ]);
    assert_eq!(inner, want);
    // In a transaction, an array in an array.
    conn.rpush("list", ["a", "b"]).wait()?;
    let tx = conn.transaction();
    let (list, nested) = (tx.lrange::<String>("list", 0, -1), tx.eval::<(i64, Value, String)>(script, (), ()));
    tx.commit().wait()?;
    assert_eq!(nested.wait()?.1, want);
    assert_eq!(list.wait::<Vec<_>>()?, ["a", "b"]);
    Ok(())
}

#[test]
fn an_error_inside_an_array_is_the_error_of_its_element() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("text", "text").wait()?;
    let tx = conn.transaction();
    let (before, wrong, after) = (tx.incr("n"), tx.lpush("text", "x"), tx.incr("n"));
    tx.commit().wait()?;
    assert_eq!((before.wait()?, after.wait()?), (1, 2));
    assert_eq!(wrong.wait().unwrap_err().code(), Some("WRONGTYPE"));
    assert_eq!(conn.get::<i64>("n").wait()?, 2, "the others ran");
    conn.sync()
}

#[test]
fn a_nil_from_exec_is_an_abort_and_no_value() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let watch = conn.watch("balance")?;
    other.set("balance", 5).wait()?;
    let tx = watch.transaction();
    let (one, list) = (tx.incr("balance"), tx.lrange::<String>("list", 0, -1));
    let commit = tx.commit();
    let behind = conn.echo::<i64>(1);
    assert!(matches!(one.wait(), Err(Error::Aborted)));
    assert!(matches!(list.wait::<Vec<_>>(), Err(Error::Aborted)));
    assert!(matches!(commit.wait(), Err(Error::Aborted)));
    assert_eq!(behind.wait()?, 1);
    assert_eq!(conn.get::<i64>("balance").wait()?, 5);
    conn.sync()
}

#[test]
fn a_transaction_may_be_given_up_with_its_handles_alive() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let earlier = conn.echo::<i64>(1);
    for explicitly in [false, true] {
        let tx = conn.transaction();
        let (one, list) = (tx.incr("n"), tx.lrange::<String>("list", 0, -1));
        if explicitly {
            tx.discard()
        } else {
            drop(tx)
        }
        let behind = conn.echo::<i64>(2);
        assert!(matches!(one.wait(), Err(Error::NotCommitted)));
        assert!(matches!(list.wait::<Vec<_>>(), Err(Error::NotCommitted)));
        assert_eq!(behind.wait()?, 2);
    }
    assert_eq!(earlier.wait()?, 1);
    assert_eq!(conn.exists("n").wait()?, 0, "nothing was sent");
    conn.sync()
}

#[test]
fn commands_of_any_length_get_through() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    for length in [4_000, 4_090, 4_096, 4_097, 5_000, 8_192, 65_535, 65_536, 65_537, 1_000_000] {
        let value: String = (0..length).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
        let set = conn.set("key", &value);
        let get = conn.get::<String>("key");
        let key = conn.set(&value, length);
        let by_key = conn.get::<usize>(&value);
        assert_eq!(get.wait()?, value);
        set.wait()?;
        key.wait()?;
        assert_eq!(by_key.wait()?, length);
    }
    // Many arguments as well.
    let members: Vec<usize> = (0..100_000).collect();
    assert_eq!(conn.sadd("set", &members).wait()?, 100_000);
    Ok(())
}
