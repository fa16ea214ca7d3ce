//! Commands on sorted sets, against a real server.
#![cfg(feature = "testing")]

mod support;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use redefer::commands::{
    Aggregate, CombineOptions, Extreme, LexBound, LexRange, ScoreBound, ScoreRange, ZaddOptions, ZrangeQuery,
};
use redefer::prelude::*;
use redefer::{Result, args};

type Pairs = Vec<(String, f64)>;

fn pairs<const N: usize>(pairs: [(&str, f64); N]) -> Pairs {
    pairs.map(|(member, score)| (member.to_owned(), score)).into()
}

fn all(conn: &Connection, key: &str) -> Result<Pairs> {
    conn.zrange_withscores(key, 0, -1).wait()
}

/// `z`: a 1, b 2.5, c 3, d 4. `y`: a 10, d 20, e 30. `x`: a to e, all 0.
fn filled(server: &redefer::testing::Server) -> Result<Connection> {
    let conn = support::open(server);
    conn.zadd("z", [(1.0, "a"), (2.5, "b"), (3.0, "c"), (4.0, "d")]).wait()?;
    conn.zadd("y", [(10, "a"), (20, "d"), (30, "e")]).wait()?;
    conn.zadd("x", args::each(["a", "b", "c", "d", "e"].map(|member| (0, member)))).wait()?;
    Ok(conn)
}

#[test]
fn members_are_added_with_their_scores() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.zadd("z", (1.5, "a")).wait()?, 1);
    assert_eq!(conn.zadd("z", [(2, "a"), (3, "b")]).wait()?, 1);
    assert_eq!(conn.zadd("z", vec![(f64::INFINITY, "i"), (f64::NEG_INFINITY, "n"), (0.1, "t")]).wait()?, 3);
    let infinite = [("n", f64::NEG_INFINITY), ("t", 0.1), ("a", 2.0), ("b", 3.0), ("i", f64::INFINITY)];
    assert_eq!(all(&conn, "z")?, pairs(infinite));
    conn.zrem("z", ["i", "n", "t"]).wait()?;

    let new = ZaddOptions::new;
    assert_eq!(conn.zadd_with("z", (9, "a"), new().nx()).wait()?, 0);
    assert_eq!(conn.zadd_with("z", [(9, "a"), (9, "c")], new().xx().ch()).wait()?, 1);
    assert_eq!(conn.zadd_with("z", (5, "a"), new().gt().ch()).wait()?, 0);
    assert_eq!(conn.zadd_with("z", (5, "a"), new().lt().ch()).wait()?, 1);
    assert_eq!(conn.zadd_with("z", [(6, "a"), (1, "d")], new().ch()).wait()?, 2);
    assert_eq!(all(&conn, "z")?, pairs([("d", 1.0), ("b", 3.0), ("a", 6.0)]));

    assert_eq!(conn.zadd_incr("z", 1.5, "a", new()).wait()?, Some(7.5));
    assert_eq!(conn.zadd_incr("z", 1.0, "none", new().xx()).wait()?, None);
    assert_eq!(conn.zadd_incr("z", -1.0, "a", new().gt()).wait()?, None);
    assert_eq!(conn.zincrby("z", -0.5, "a").wait()?, 7.0);
    assert_eq!(conn.zincrby("z", 2.0, "new").wait()?, 2.0);
    assert!(matches!(conn.zadd("z", Vec::<(f64, String)>::new()).wait(), Err(Error::Argument(_))));
    Ok(())
}

#[test]
fn members_are_counted_and_looked_up() -> Result<()> {
    let server = support::server();
    let conn = filled(&server)?;
    assert_eq!(conn.zcard("z").wait()?, 4);
    assert_eq!(conn.zcount("z", ..).wait()?, 4);
    assert_eq!(conn.zcount("z", 1..3).wait()?, 2);
    assert_eq!(conn.zcount("z", 1..=3).wait()?, 3);
    assert_eq!(conn.zcount("z", (ScoreBound::Excluded(2.5), ScoreBound::Max)).wait()?, 2);
    assert_eq!(conn.zcount("z", ScoreRange::new(ScoreBound::Min, ScoreBound::Included(2.5))).wait()?, 2);
    assert_eq!(conn.zlexcount("x", "b".."d").wait()?, 2);
    assert_eq!(conn.zlexcount("x", ..).wait()?, 5);
    assert_eq!(conn.zlexcount("x", LexRange::new(LexBound::Min, LexBound::Excluded(b"d".to_vec()))).wait()?, 3);
    assert_eq!(conn.zlexcount("x", LexRange::new(LexBound::Included(b"d".to_vec()), LexBound::Max)).wait()?, 2);
    assert_eq!(conn.zlexcount("x", (LexBound::included("b"), "d")).wait()?, 3);
    assert_eq!(conn.zscore("z", "b").wait()?, Some(2.5));
    assert_eq!(conn.zscore("z", "none").wait()?, None);
    assert_eq!(conn.zscore("none", "a").wait()?, None);
    assert_eq!(conn.zmscore("z", ["a", "none"]).wait::<Vec<_>>()?, [Some(1.0), None]);
    assert_eq!(conn.zmscore("none", "a").wait::<Vec<_>>()?, [None]);
    assert_eq!(conn.zrank("z", "c").wait()?, Some(2));
    assert_eq!(conn.zrank("z", "none").wait()?, None);
    assert_eq!(conn.zrevrank("z", "c").wait()?, Some(1));
    assert_eq!(conn.zrevrank("none", "c").wait()?, None);
    if server.version() >= (7, 2, 0) {
        assert_eq!(conn.zrank_withscore("z", "b").wait()?, Some((1, 2.5)));
        assert_eq!(conn.zrank_withscore("z", "none").wait()?, None);
        assert_eq!(conn.zrevrank_withscore("z", "b").wait()?, Some((2, 2.5)));
        assert_eq!(conn.zrevrank_withscore("none", "b").wait()?, None);
    }
    Ok(())
}

#[test]
fn ranges_by_position_score_and_bytes() -> Result<()> {
    let server = support::server();
    let conn = filled(&server)?;
    let got = |query| conn.zrange_with::<String>("z", query).wait::<Vec<String>>();
    let by_lex = |query| conn.zrange_with::<String>("x", query).wait::<Vec<String>>();
    assert_eq!(conn.zrange::<String>("z", 1, -2).wait::<Vec<_>>()?, ["b", "c"]);
    assert_eq!(conn.zrange::<String>("none", 0, -1).wait::<Vec<_>>()?, [""; 0]);
    let scores: BTreeMap<String, f64> = conn.zrange_withscores("z", 0, 1).wait()?;
    assert_eq!(scores, BTreeMap::from([("a".into(), 1.0), ("b".into(), 2.5)]));
    for (pair, want) in conn.zrange_withscores::<String>("z", 0, -1).zip(["a", "b", "c", "d"]) {
        assert_eq!(pair?.0, want);
    }

    assert_eq!(got(ZrangeQuery::by_index(0, 1))?, ["a", "b"]);
    assert_eq!(got(ZrangeQuery::by_index(0, 1).rev())?, ["d", "c"]);
    assert_eq!(got(ZrangeQuery::by_score(1..3))?, ["a", "b"]);
    assert_eq!(got(ZrangeQuery::by_score(1..=3).rev())?, ["c", "b", "a"]);
    assert_eq!(got(ZrangeQuery::by_score(..).limit(1, 2))?, ["b", "c"]);
    assert_eq!(got(ZrangeQuery::by_score(2.5..).limit(1, -1))?, ["c", "d"]);
    assert_eq!(by_lex(ZrangeQuery::by_lex("b"..="d"))?, ["b", "c", "d"]);
    assert_eq!(by_lex(ZrangeQuery::by_lex((LexBound::excluded("b"), "d")).rev())?, ["d", "c"]);
    assert_eq!(by_lex(ZrangeQuery::by_lex(..).limit(3, 9))?, ["d", "e"]);

    let scored = conn.zrange_withscores_with("z", ZrangeQuery::by_score(..=2.5).rev());
    assert_eq!(scored.wait::<Pairs>()?, pairs([("b", 2.5), ("a", 1.0)]));
    assert_eq!(conn.zrangestore("d", "z", 0, 1).wait()?, 2);
    assert_eq!(all(&conn, "d")?, pairs([("a", 1.0), ("b", 2.5)]));
    assert_eq!(conn.zrangestore_with("d", "z", ZrangeQuery::by_score(3..).rev().limit(0, 1)).wait()?, 1);
    assert_eq!(all(&conn, "d")?, pairs([("d", 4.0)]));
    Ok(())
}

#[test]
fn the_older_commands_of_ranges() -> Result<()> {
    let server = support::server();
    let conn = filled(&server)?;
    let strings = |members: &[&str]| members.iter().map(|member| member.to_string()).collect::<Vec<_>>();
    for (reply, want) in [
        (conn.zrangebylex::<String>("x", "b".."d"), &["b", "c"][..]),
        (conn.zrangebylex_limit("x", .., 1, 2), &["b", "c"]),
        (conn.zrevrangebylex("x", "b".."d"), &["c", "b"]),
        (conn.zrevrangebylex_limit("x", .., 0, 1), &["e"]),
        (conn.zrangebyscore("z", 1..3), &["a", "b"]),
        (conn.zrangebyscore_limit("z", .., 2, -1), &["c", "d"]),
        (conn.zrevrange("z", 0, 1), &["d", "c"]),
        (conn.zrevrangebyscore("z", 1..3), &["b", "a"]),
        (conn.zrevrangebyscore_limit("z", .., 1, 1), &["c"]),
    ] {
        assert_eq!(reply.wait::<Vec<String>>()?, strings(want));
    }
    for (reply, want) in [
        (conn.zrangebyscore_withscores::<String>("z", ..3), pairs([("a", 1.0), ("b", 2.5)])),
        (conn.zrangebyscore_withscores_limit("z", .., 1, 1), pairs([("b", 2.5)])),
        (conn.zrevrange_withscores("z", 0, 0), pairs([("d", 4.0)])),
        (conn.zrevrangebyscore_withscores("z", ..3), pairs([("b", 2.5), ("a", 1.0)])),
        (conn.zrevrangebyscore_withscores_limit("z", .., 1, 1), pairs([("c", 3.0)])),
        (conn.zrangebyscore_withscores("none", ..), pairs([])),
    ] {
        assert_eq!(reply.wait::<Pairs>()?, want);
    }
    Ok(())
}

#[test]
fn members_are_removed_and_taken() -> Result<()> {
    let server = support::server();
    let conn = filled(&server)?;
    assert_eq!(conn.zrem("z", ["a", "none"]).wait()?, 1);
    assert_eq!(conn.zremrangebyrank("z", 0, 0).wait()?, 1);
    assert_eq!(conn.zremrangebyscore("z", ..=3).wait()?, 1);
    assert_eq!(all(&conn, "z")?, pairs([("d", 4.0)]));
    assert_eq!(conn.zremrangebylex("x", "b".."d").wait()?, 2);

    assert_eq!(conn.zpopmin::<String>("y").wait()?, Some(("a".into(), 10.0)));
    assert_eq!(conn.zpopmax::<String>("y").wait()?, Some(("e".into(), 30.0)));
    assert_eq!(conn.zpopmin::<String>("none").wait()?, None);
    assert_eq!(conn.zpopmax::<String>("none").wait()?, None);
    conn.zadd("y", [(1, "a"), (2, "b"), (3, "c"), (4, "e")]).wait()?;
    assert_eq!(conn.zpopmin_count("y", 1).wait::<Pairs>()?, pairs([("a", 1.0)]));
    assert_eq!(conn.zpopmin_count("y", 2).wait::<Pairs>()?, pairs([("b", 2.0), ("c", 3.0)]));
    assert_eq!(conn.zpopmax_count("y", 9).wait::<Pairs>()?, pairs([("d", 20.0), ("e", 4.0)]));
    assert_eq!(conn.zpopmax_count("y", 9).wait::<Pairs>()?, []);
    Ok(())
}

#[test]
fn members_come_at_random() -> Result<()> {
    let server = support::server();
    let conn = filled(&server)?;
    assert!(["a", "d", "e"].contains(&&*conn.zrandmember::<String>("y").wait()?));
    assert_eq!(conn.zrandmember::<Option<String>>("none").wait()?, None);
    assert_eq!(conn.zrandmember_count::<String>("y", 9).wait::<Vec<_>>()?.len(), 3);
    assert_eq!(conn.zrandmember_count::<String>("y", -9).wait::<Vec<_>>()?.len(), 9);
    let scores: HashMap<String, f64> = conn.zrandmember_withscores("y", 3).wait()?;
    assert_eq!(scores, HashMap::from([("a".into(), 10.0), ("d".into(), 20.0), ("e".into(), 30.0)]));
    assert_eq!(conn.zrandmember_withscores::<String>("y", -5).wait::<Pairs>()?.len(), 5);
    assert_eq!(conn.zrandmember_withscores::<String>("none", 2).wait::<Pairs>()?, []);
    Ok(())
}

#[test]
fn sorted_sets_are_combined() -> Result<()> {
    let server = support::server();
    let conn = filled(&server)?;
    let keys = ["z", "y"];
    let max = || CombineOptions::new().weights([10.0, 0.5]).aggregate(Aggregate::Max);
    assert_eq!(conn.zdiff::<String>(keys).wait::<Vec<_>>()?, ["b", "c"]);
    assert_eq!(conn.zdiff_withscores(keys).wait::<Pairs>()?, pairs([("b", 2.5), ("c", 3.0)]));
    assert_eq!(conn.zdiffstore("d", keys).wait()?, 2);
    assert_eq!(all(&conn, "d")?, pairs([("b", 2.5), ("c", 3.0)]));

    assert_eq!(conn.zinter::<String>(keys).wait::<Vec<_>>()?, ["a", "d"]);
    assert_eq!(conn.zinter_withscores(keys).wait::<Pairs>()?, pairs([("a", 11.0), ("d", 24.0)]));
    let min = CombineOptions::new().weights([-1.0, -1.0]).aggregate(Aggregate::Min);
    assert_eq!(conn.zinter_with::<String>(keys, min).wait::<Vec<_>>()?, ["d", "a"]);
    assert_eq!(conn.zinter_withscores_with(keys, max()).wait::<Pairs>()?, pairs([("a", 10.0), ("d", 40.0)]));
    assert_eq!(conn.zintercard(keys).wait()?, 2);
    assert_eq!(conn.zintercard_limit(keys, 1).wait()?, 1);
    assert_eq!(conn.zinterstore("d", keys).wait()?, 2);
    assert_eq!(all(&conn, "d")?, pairs([("a", 11.0), ("d", 24.0)]));
    assert_eq!(conn.zinterstore_with("d", keys, max()).wait()?, 2);
    assert_eq!(all(&conn, "d")?, pairs([("a", 10.0), ("d", 40.0)]));

    let sum = CombineOptions::new().aggregate(Aggregate::Sum);
    assert_eq!(conn.zunion::<String>(keys).wait::<Vec<_>>()?, ["b", "c", "a", "d", "e"]);
    assert_eq!(conn.zunion_with::<String>(keys, sum).wait::<Vec<_>>()?, ["b", "c", "a", "d", "e"]);
    let united = pairs([("b", 2.5), ("c", 3.0), ("a", 11.0), ("d", 24.0), ("e", 30.0)]);
    assert_eq!(conn.zunion_withscores(keys).wait::<Pairs>()?, united);
    let weighed = pairs([("a", 10.0), ("e", 15.0), ("b", 25.0), ("c", 30.0), ("d", 40.0)]);
    assert_eq!(conn.zunion_withscores_with(keys, max()).wait::<Pairs>()?, weighed);
    assert_eq!(conn.zunionstore("d", keys).wait()?, 5);
    assert_eq!(all(&conn, "d")?, united);
    assert_eq!(conn.zunionstore_with("d", keys, max()).wait()?, 5);
    assert_eq!(all(&conn, "d")?, weighed);
    Ok(())
}

#[test]
fn the_first_sorted_set_with_members_gives_some() -> Result<()> {
    let server = support::server();
    let conn = filled(&server)?;
    let popped: Option<(String, Pairs)> = conn.zmpop(["none", "z"], Extreme::Min).wait()?;
    assert_eq!(popped, Some(("z".into(), pairs([("a", 1.0)]))));
    let popped = conn.zmpop_count::<String, String>("z", Extreme::Max, 2).wait()?;
    assert_eq!(popped, Some(("z".into(), pairs([("d", 4.0), ("c", 3.0)]))));
    assert_eq!(conn.zmpop::<String, String>("none", Extreme::Min).wait()?, None);
    Ok(())
}

#[test]
fn blocking_commands_answer_at_once_or_when_the_time_is_up() -> Result<()> {
    let server = support::server();
    let conn = filled(&server)?;
    let short = Duration::from_millis(20);
    let triple = |member: &str, score| Some(("z".to_owned(), member.to_owned(), score));
    assert_eq!(conn.bzpopmin(["none", "z"], None).wait()?, triple("a", 1.0));
    assert_eq!(conn.bzpopmax("z", short).wait()?, triple("d", 4.0));
    let popped = conn.bzmpop::<String, String>(None, ["none", "z"], Extreme::Min).wait()?;
    assert_eq!(popped, Some(("z".into(), pairs([("b", 2.5)]))));
    let popped = conn.bzmpop_count::<String, String>(short, "y", Extreme::Max, 2).wait()?;
    assert_eq!(popped, Some(("y".into(), pairs([("e", 30.0), ("d", 20.0)]))));

    assert_eq!(conn.bzpopmin::<String, String>("none", short).wait()?, None);
    assert_eq!(conn.bzpopmax::<String, String>("none", Duration::ZERO).wait()?, None);
    assert_eq!(conn.bzmpop::<String, String>(short, "none", Extreme::Min).wait()?, None);
    assert_eq!(conn.bzmpop_count::<String, String>(Some(short), "none", Extreme::Max, 2).wait()?, None);
    Ok(())
}
