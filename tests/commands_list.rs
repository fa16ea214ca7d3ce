//! Commands on lists, against a real server.
#![cfg(feature = "testing")]

mod support;

use std::time::{Duration, Instant};

use redefer::commands::{Direction, Insert, LposOptions};
use redefer::prelude::*;
use redefer::{Result, args};

fn all(conn: &Connection, key: &str) -> Result<Vec<String>> {
    conn.lrange(key, 0, -1).wait()
}

#[test]
fn elements_are_added_at_both_ends() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.rpush("l", ["c", "d"]).wait()?, 2);
    assert_eq!(conn.lpush("l", ("b", "a")).wait()?, 4);
    assert_eq!(all(&conn, "l")?, ["a", "b", "c", "d"]);
    assert_eq!(conn.lpushx("l", "0").wait()?, 5);
    assert_eq!(conn.rpushx("l", args::each(["e", "f"])).wait()?, 7);
    assert_eq!(conn.lpushx("none", "x").wait()?, 0);
    assert_eq!(conn.rpushx("none", "x").wait()?, 0);
    assert_eq!(conn.llen("l").wait()?, 7);
    assert_eq!(conn.llen("none").wait()?, 0);
    assert!(matches!(conn.rpush("l", Vec::<String>::new()).wait(), Err(Error::Argument(_))));
    Ok(())
}

#[test]
fn elements_are_looked_at_changed_and_removed() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("l", ["a", "b", "a", "c", "a"]).wait()?;
    assert_eq!(conn.lindex::<String>("l", -2).wait()?, "c");
    assert_eq!(conn.lindex::<Option<String>>("l", 9).wait()?, None);
    assert!(matches!(conn.lindex::<String>("l", 9).wait(), Err(Error::Nil)));

    assert_eq!(conn.linsert("l", Insert::Before, "b", 1).wait()?, 6);
    assert_eq!(conn.linsert("l", Insert::After, "b", 2).wait()?, 7);
    assert_eq!(conn.linsert("l", Insert::After, "zz", 3).wait()?, -1);
    assert_eq!(conn.linsert("none", Insert::After, "b", 3).wait()?, 0);
    assert_eq!(all(&conn, "l")?, ["a", "1", "b", "2", "a", "c", "a"]);

    assert_eq!(conn.lrem("l", -1, "a").wait()?, 1);
    assert_eq!(conn.lrem("l", 0, "a").wait()?, 2);
    assert_eq!(conn.lrem("l", 1, "zz").wait()?, 0);
    conn.lset("l", -1, "z").wait()?;
    assert_eq!(conn.lset("l", 9, "z").wait().unwrap_err().code(), Some("ERR"));
    assert_eq!(all(&conn, "l")?, ["1", "b", "2", "z"]);
    conn.ltrim("l", 1, -2).wait()?;
    assert_eq!(all(&conn, "l")?, ["b", "2"]);
    let middle: Vec<i64> = conn.lrange("l", 1, 1).wait()?;
    assert_eq!(middle, [2]);
    assert_eq!(all(&conn, "none")?, [""; 0]);
    Ok(())
}

#[test]
fn positions_are_found() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("l", ["a", "b", "a", "c", "a"]).wait()?;
    assert_eq!(conn.lpos("l", "a").wait()?, Some(0));
    assert_eq!(conn.lpos("l", "zz").wait()?, None);
    assert_eq!(conn.lpos_with("l", "a", LposOptions::new().rank(2)).wait()?, Some(2));
    assert_eq!(conn.lpos_with("l", "a", LposOptions::new().rank(-1)).wait()?, Some(4));
    assert_eq!(conn.lpos_with("l", "c", LposOptions::new().maxlen(3)).wait()?, None);
    assert_eq!(conn.lpos_count("l", "a", 0).wait::<Vec<i64>>()?, [0, 2, 4]);
    assert_eq!(conn.lpos_count("l", "a", 2).wait::<Vec<i64>>()?, [0, 2]);
    assert_eq!(conn.lpos_count("none", "a", 0).wait::<Vec<i64>>()?, [0i64; 0]);
    let options = LposOptions::new().rank(-1).maxlen(4);
    assert_eq!(conn.lpos_count_with("l", "a", 2, options).wait::<Vec<i64>>()?, [4, 2]);
    Ok(())
}

#[test]
fn elements_are_taken_from_both_ends() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("l", ["a", "b", "c", "d", "e", "f"]).wait()?;
    assert_eq!(conn.lpop::<String>("l").wait()?, "a");
    assert_eq!(conn.rpop::<String>("l").wait()?, "f");
    assert_eq!(conn.lpop::<Option<String>>("none").wait()?, None);
    assert_eq!(conn.rpop::<Option<String>>("none").wait()?, None);
    assert_eq!(conn.lpop_count::<String>("l", 2).wait()?, Some(vec!["b".into(), "c".into()]));
    assert_eq!(conn.rpop_count::<String>("l", 9).wait()?, Some(vec!["e".into(), "d".into()]));
    assert_eq!(conn.lpop_count::<String>("none", 2).wait()?, None);
    assert_eq!(conn.rpop_count::<String>("none", 1).wait()?, None);
    Ok(())
}

#[test]
fn elements_are_moved_between_lists() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("l", ["a", "b", "c"]).wait()?;
    assert_eq!(conn.lmove::<String>("l", "m", Direction::Left, Direction::Right).wait()?, "a");
    assert_eq!(conn.lmove::<String>("l", "m", Direction::Right, Direction::Left).wait()?, "c");
    assert_eq!(conn.rpoplpush::<String>("m", "m").wait()?, "a");
    assert_eq!(all(&conn, "m")?, ["a", "c"]);
    assert_eq!(conn.lmove::<Option<String>>("none", "m", Direction::Left, Direction::Left).wait()?, None);
    assert_eq!(conn.rpoplpush::<Option<String>>("none", "m").wait()?, None);
    Ok(())
}

#[test]
fn the_first_list_with_elements_gives_some() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("l", ["a", "b", "c", "d"]).wait()?;
    let popped: Option<(String, Vec<String>)> = conn.lmpop(["none", "l"], Direction::Left).wait()?;
    assert_eq!(popped, Some(("l".into(), vec!["a".into()])));
    let popped = conn.lmpop_count::<String, String>(["l"], Direction::Right, 2).wait()?;
    assert_eq!(popped, Some(("l".into(), vec!["d".into(), "c".into()])));
    assert_eq!(conn.lmpop::<String, String>("none", Direction::Left).wait()?, None);
    Ok(())
}

#[test]
fn blocking_commands_answer_at_once_when_there_is_something() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let pair = |key: &str, element: &str| Some((key.to_owned(), element.to_owned()));
    conn.rpush("l", ["a", "b", "c", "d", "e", "f", "g", "h"]).wait()?;
    assert_eq!(conn.blpop(["none", "l"], Duration::from_secs(1)).wait()?, pair("l", "a"));
    assert_eq!(conn.brpop("l", None).wait()?, pair("l", "h"));
    let to = Duration::ZERO;
    assert_eq!(conn.blmove::<String>("l", "m", Direction::Left, Direction::Left, to).wait()?, "b");
    assert_eq!(conn.brpoplpush::<String>("l", "m", Some(Duration::from_millis(5))).wait()?, "g");
    let popped = conn.blmpop::<String, String>(None, ["none", "l"], Direction::Left).wait()?;
    assert_eq!(popped, Some(("l".into(), vec!["c".into()])));
    let popped = conn.blmpop_count::<String, Vec<u8>>(to, "l", Direction::Right, 2).wait()?;
    assert_eq!(popped, Some(("l".into(), vec![b"f".to_vec(), b"e".to_vec()])));
    Ok(())
}

#[test]
fn blocking_commands_give_nil_when_the_time_is_up() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let start = Instant::now();
    let to = Duration::from_millis(50);
    let (left, right) = (Direction::Left, Direction::Right);
    assert_eq!(conn.blpop::<String, String>("none", to).wait()?, None);
    assert_eq!(conn.brpop::<String, String>(["none", "none2"], to).wait()?, None);
    assert_eq!(conn.blmove::<Option<String>>("none", "m", left, right, to).wait()?, None);
    assert_eq!(conn.brpoplpush::<Option<String>>("none", "m", to).wait()?, None);
    assert_eq!(conn.blmpop::<String, String>(to, "none", left).wait()?, None);
    assert_eq!(conn.blmpop_count::<String, String>(to, "none", left, 2).wait()?, None);
    assert!(start.elapsed() >= 6 * to, "{:?}", start.elapsed());
    // No time at all is a short time and not for ever.
    assert_eq!(conn.blpop::<String, String>("none", Duration::ZERO).wait()?, None);
    assert_eq!(conn.blpop::<String, String>("none", Duration::from_nanos(1)).wait()?, None);
    Ok(())
}

#[test]
fn another_connection_wakes_a_blocked_one() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let job = conn.blpop::<String, String>("jobs", None);
    conn.flush()?;
    other.rpush("jobs", "a job").wait()?;
    assert_eq!(job.wait()?, Some(("jobs".into(), "a job".into())));
    Ok(())
}
