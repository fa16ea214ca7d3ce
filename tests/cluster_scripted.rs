//! A cluster of nodes that say what the test dictates: redirects without end, to nowhere and to nonsense, storms of them, and
//! connections that break in the middle.

mod support;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fastrand::Rng;
use redefer::cluster::{Cluster, ClusterConfig, ClusterReply, SharedCluster, slot_of};
use redefer::prelude::*;
use redefer::{Result, Sent, WaitError};
use support::Refusing;
use support::nodes::*;

#[test]
fn redirects_without_end_come_to_an_end() {
    let [a, b] = nodes();
    let (to_a, to_b) = (a.port, b.port);
    let moved =
        |port: u16| move |words: &Words| say(&format!("-MOVED {} 127.0.0.1:{port}", slot_of(words[1].as_bytes())));
    a.does(moved(to_b));
    b.does(moved(to_a));
    let cluster = open(&a);
    assert_eq!(code(cluster.get::<String>("k").wait()), "MOVED");
    assert_eq!(a.log().len() + b.log().len(), 17);
    // To itself.
    a.does(moved(to_a));
    b.does(moved(to_b));
    assert_eq!(code(cluster.get::<String>("k").wait()), "MOVED");
    // A handle that is dropped, and one that is detached.
    drop(cluster.get::<String>("k"));
    cluster.get::<String>("k").detach();
    assert_eq!(code(cluster.sync()), "MOVED");
    assert_eq!((cluster.outstanding(), cluster.stats().unseen_errors), (0, 0));
    // Fewer are allowed.
    let config = ClusterConfig::new(config(&a)).unwrap().redirects(2);
    let before = a.log().len();
    assert_eq!(code(Cluster::open(config).unwrap().get::<String>("k").wait()), "MOVED");
    assert_eq!(a.log().len() - before, 3);
}

#[test]
fn asks_without_end_come_to_an_end() {
    let [a, b] = nodes();
    let ask = |port: u16| {
        move |words: &Words| match &*words[0] {
            "ASKING" => say("+OK"),
            _ => say(&format!("-ASK {} 127.0.0.1:{port}", slot_of(words[1].as_bytes()))),
        }
    };
    a.does(ask(b.port));
    b.does(ask(a.port));
    let cluster = open(&a);
    assert_eq!(code(cluster.get::<String>("k").wait()), "ASK");
    let asked = |log: Vec<String>| log.into_iter().filter(|line| line.starts_with("GET")).count();
    assert_eq!(asked(a.log()) + asked(b.log()), 17);
}

#[test]
fn a_chain_of_asks_is_followed_with_asking_before_each() -> Result<()> {
    let [a, b, c] = nodes();
    let (ask_b, ask_c) = (b.ask("k"), c.ask("k"));
    a.does(once(ask_b));
    b.does(asked_once(ask_c));
    c.does(|words| if words[0] == "ASKING" { say("+OK") } else { bulk("value") });
    let cluster = open(&a);
    assert_eq!(cluster.get::<String>("k").wait()?, "value");
    assert_eq!((a.log(), b.log(), c.log()), (vec!["GET k".into()], asking("GET k"), asking("GET k")));
    // The table is as before.
    a.does(|_| bulk("here"));
    assert_eq!(cluster.get::<String>("k").wait()?, "here");
    Ok(())
}

fn asking(command: &str) -> Vec<String> {
    vec!["ASKING".to_owned(), command.to_owned()]
}

fn asked_once(said: Say) -> impl FnMut(&Words) -> Say + Send {
    let text = text_of(said);
    move |words| if words[0] == "ASKING" { say("+OK") } else { Say::Bytes(text.clone()) }
}

#[test]
fn redirects_that_make_no_sense_are_errors_like_others() {
    let [a] = nodes();
    let cluster = open(&a);
    let slot = slot_of(b"k");
    for nonsense in [
        "MOVED",
        "MOVED x y",
        "MOVED 16384 127.0.0.1:1",
        &format!("MOVED {} 127.0.0.1:1", slot + 1),
        &format!("MOVED {slot} 127.0.0.1"),
        &format!("MOVED {slot} 127.0.0.1:99999"),
        &format!("MOVED {slot} 127.0.0.1:0"),
        &format!("ASK {slot}"),
    ] {
        let line = format!("-{nonsense}");
        a.does(move |_| say(&line));
        let error = cluster.get::<String>("k").wait().unwrap_err();
        assert_eq!(error.to_string(), nonsense);
    }
    assert_eq!(cluster.stats().redirects, 0);
}

#[test]
fn a_redirect_to_where_nobody_is_ends_with_the_time() {
    let [a] = nodes();
    let slot = slot_of(b"k");
    let nobody = Refusing::start();
    let gone = nobody.port();
    a.does(move |_| say(&format!("-MOVED {slot} 127.0.0.1:{gone}")));
    let cluster = Cluster::open(config(&a).timeout(Duration::from_millis(500))).unwrap();
    let start = Instant::now();
    let error = cluster.get::<String>("k").wait().unwrap_err();
    assert!(!matches!(error, Error::Timeout), "it says what was in the way: {error}");
    assert!(start.elapsed() >= Duration::from_millis(400) || error.code() == Some("MOVED"), "{error}");
    // It comes back by itself.
    a.does(|_| bulk("here"));
    support::until("it is back", || Ok(cluster.get::<String>("k").wait().is_ok_and(|is| is == "here"))).unwrap();
}

#[test]
fn a_host_that_is_empty_or_unknown_is_the_one_that_was_asked() -> Result<()> {
    for host in ["", "?"] {
        let [a, b] = nodes();
        *a.slots.lock().unwrap() = one_owner(host, a.port);
        let (slot, port) = (slot_of(b"k"), b.port);
        a.does(move |_| say(&format!("-MOVED {slot} {host}:{port}")));
        b.does(|_| bulk("there"));
        let cluster = open(&a);
        assert_eq!(cluster.get::<String>("k").wait()?, "there");
    }
    let [a] = nodes();
    *a.slots.lock().unwrap() = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$-1\r\n:{}\r\n$2\r\nid\r\n", a.port);
    a.does(|_| bulk("here"));
    assert_eq!(open(&a).get::<String>("k").wait()?, "here");
    // A node that has no name yet, but an address.
    *a.slots.lock().unwrap() =
        format!("*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n+?\r\n:{}\r\n+id\r\n*2\r\n+ip\r\n+127.0.0.1\r\n", a.port);
    let cluster = Cluster::open(format!("redis://localhost:{}", a.port))?;
    let text = format!("{cluster:?}");
    assert!(text.contains(&format!("127.0.0.1:{}", a.port)), "{text}");
    Ok(())
}

#[test]
fn a_bad_answer_about_the_topology_never_replaces_a_good_one() -> Result<()> {
    let [a, b] = nodes();
    let cluster = open(&a);
    for bad in [
        "*0\r\n".to_owned(),
        "*-1\r\n".to_owned(),
        "-LOADING\r\n".to_owned(),
        "*1\r\n*1\r\n:0\r\n".to_owned(),
        "*1\r\n*3\r\n:5\r\n:4\r\n*3\r\n$1\r\nh\r\n:1\r\n$2\r\nid\r\n".to_owned(),
        "*1\r\n*3\r\n:0\r\n:16384\r\n*3\r\n$1\r\nh\r\n:1\r\n$2\r\nid\r\n".to_owned(),
        one_owner("127.0.0.1", 0),
        "+OK\r\n".to_owned(),
    ] {
        for node in [&a, &b] {
            *node.slots.lock().unwrap() = bad.clone();
        }
        let text = text_of(b.moved("k"));
        a.does(move |words| if words[1] == "k" { Say::Bytes(text.clone()) } else { bulk("a") });
        b.does(|_| bulk("b"));
        assert_eq!(cluster.get::<String>("k").wait()?, "b");
        assert_eq!(cluster.get::<String>("k2").wait()?, "a", "{bad}");
        assert_eq!(cluster.get::<String>("k").wait()?, "b");
        let text = text_of(a.moved("k"));
        a.does(|_| bulk("a"));
        b.does(move |_| Say::Bytes(text.clone()));
        assert_eq!(cluster.get::<String>("k").wait()?, "a");
    }
    assert!(matches!(Cluster::open(config(&a)), Err(Error::UnexpectedReply(_))));
    Ok(())
}

#[test]
fn commands_of_a_slot_that_moves_keep_their_order_whichever_handle_is_waited_for() -> Result<()> {
    for first in [0, 9, 5] {
        let [a, b] = nodes();
        let moved = text_of(b.moved("k"));
        a.does(move |_| Say::Bytes(moved.clone()));
        b.does(|words| say(&format!("+{}", words[2])));
        let cluster = open(&a);
        let mut replies: Vec<_> = (0..10).map(|n| Some(set_echo(&cluster, n))).collect();
        assert_eq!(replies[first].take().unwrap().wait()?, first.to_string());
        // These find the slot moved, and must not overtake.
        replies.extend((10..20).map(|n| Some(set_echo(&cluster, n))));
        for (n, reply) in replies.into_iter().enumerate().rev() {
            if let Some(reply) = reply {
                assert_eq!(reply.wait()?, n.to_string());
            }
        }
        let order: Vec<String> = (0..20).map(|n| format!("SET k {n} GET")).collect();
        assert_eq!(b.log(), order);
    }
    Ok(())
}

/// A SET whose reply the scripted nodes make of its value.
fn set_echo(cluster: &Cluster, n: usize) -> ClusterReply<'_, String> {
    cluster.set_get("k", n)
}

#[test]
fn what_waits_for_a_slot_is_sent_in_order_when_it_is_served_again() -> Result<()> {
    let [a] = nodes();
    let mut refused = 0;
    a.does(move |words| {
        refused += 1;
        if refused <= 12 {
            say("-TRYAGAIN Multiple keys request during rehashing of slot")
        } else {
            say(&format!("+{}", words[2]))
        }
    });
    let cluster = open(&a);
    let replies: Vec<_> = (0..5).map(|n| set_echo(&cluster, n)).collect();
    for (n, reply) in replies.into_iter().enumerate() {
        assert_eq!(reply.wait()?, n.to_string());
    }
    let log = a.log();
    assert_eq!(log[log.len() - 5..], ["SET k 0 GET", "SET k 1 GET", "SET k 2 GET", "SET k 3 GET", "SET k 4 GET"]);
    Ok(())
}

#[test]
fn what_waits_for_its_time_goes_on_while_other_handles_are_waited_for() -> Result<()> {
    let [a] = nodes();
    let mut refused = 0;
    a.does(move |words| {
        if words[1] == "k" {
            refused += 1;
            if refused <= 3 { say("-TRYAGAIN") } else { bulk("v") }
        } else {
            bulk(&words[1])
        }
    });
    let cluster = open(&a);
    cluster.get::<String>("k").detach();
    let start = Instant::now();
    // Nobody asks for that one, nor for anything else of its slot.
    while !a.log().iter().filter(|line| *line == "GET k").count().eq(&4) {
        assert_eq!(cluster.get::<String>("other").wait()?, "other");
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", a.log().len());
    }
    cluster.sync()
}

#[test]
fn a_slot_that_is_never_served_costs_the_response_timeout_and_says_why() -> Result<()> {
    for (line, named) in
        [("-CLUSTERDOWN Hash slot not served", "CLUSTERDOWN"), ("-LOADING", "LOADING"), ("-READONLY", "READONLY")]
    {
        let [a] = nodes();
        a.does(move |words| if words[1] == "k" { say(line) } else { bulk("v") });
        let cluster = Cluster::open(config(&a).timeout(Duration::from_millis(300)))?;
        let start = Instant::now();
        let (one, two) = (cluster.get::<String>("k"), cluster.get::<String>("k"));
        assert_eq!((code(one.wait()), code(two.wait())), (named.to_owned(), named.to_owned()));
        assert!(start.elapsed() >= Duration::from_millis(250));
        assert_eq!(cluster.get::<String>("other").wait()?, "v", "other slots are served");
        assert_eq!(cluster.outstanding(), 0);
        // The handle is as good as before when the time is one's own.
        match cluster.get::<String>("k").wait_timeout(Duration::from_millis(30)) {
            Err(WaitError::Timeout(handle)) => {
                a.does(|_| bulk("at last"));
                assert_eq!(handle.wait()?, "at last");
            }
            other => panic!("{other:?}"),
        }
    }
    Ok(())
}

#[test]
fn a_storm_of_redirects_brings_each_reply_to_its_caller() -> Result<()> {
    for chops in [false, true] {
        let [a, _b, _c] = storm(chops);
        let cluster = open(&a);
        let count = if chops { 150 } else { 3000 };
        let mut replies: Vec<_> = (0..count).map(|n| (n, cluster.get::<String>(format!("key:{n}")))).collect();
        let mut rng = Rng::with_seed(11);
        while !replies.is_empty() {
            let (n, reply) = replies.swap_remove(rng.usize(..replies.len()));
            match rng.u64(..8) {
                0 => reply.detach(),
                1 => drop(reply),
                _ => {
                    let text = reply.wait()?;
                    assert_eq!(text.lines().next(), Some(&*format!("key:{n}")));
                }
            }
        }
        cluster.sync()?;
        assert!(cluster.stats().redirects > count / 10);
    }
    Ok(())
}

#[test]
fn a_connection_that_breaks_costs_what_was_sent_and_nothing_else() -> Result<()> {
    let [a] = nodes();
    let mut count = 0;
    a.does(move |words| {
        count += 1;
        if count == 4 { Say::Close } else { bulk(&words[1]) }
    });
    let cluster = open(&a);
    let replies: Vec<_> = (0..6).map(|n| cluster.get::<String>(format!("key:{n}"))).collect();
    let outcomes: Vec<_> = replies.into_iter().map(|reply| reply.wait()).collect();
    for (n, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(key) => assert_eq!((key, n < 3), (format!("key:{n}"), true)),
            Err(Error::ConnectionLost(lost)) => assert_eq!((lost.sent(), n >= 3), (Sent::Fully, true), "{n}"),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(cluster.get::<String>("after").wait()?, "after");
    assert_eq!(a.log().iter().filter(|line| *line == "GET key:3").count(), 1, "never sent again");
    Ok(())
}

#[test]
fn idempotent_commands_are_sent_again_and_not_for_ever() -> Result<()> {
    let [a] = nodes();
    let mut count = 0;
    a.does(move |words| {
        count += 1;
        if count <= 3 { Say::Close } else { bulk(&words[1]) }
    });
    let cluster = open(&a);
    assert_eq!(cluster.idempotent().get::<String>("k").wait()?, "k");
    assert_eq!(a.log().len(), 4);
    a.does(|_| Say::Close);
    assert!(matches!(cluster.idempotent().get::<String>("k").wait(), Err(Error::ConnectionLost(_))));
    assert_eq!(a.log().len(), 8);
    Ok(())
}

#[test]
fn a_node_that_is_silent_costs_one_timeout_and_no_reply() -> Result<()> {
    let [a, b] = nodes();
    let (ports, slot) = ((a.port, b.port), slot_of(b"k"));
    let two = format!(
        "*2\r\n*3\r\n:0\r\n:{slot}\r\n*3\r\n$9\r\n127.0.0.1\r\n:{}\r\n$1\r\na\r\n*3\r\n:{}\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:{}\r\n$1\r\nb\r\n",
        ports.0,
        slot + 1,
        ports.1
    );
    [&a, &b].iter().for_each(|node| *node.slots.lock().unwrap() = two.clone());
    a.does(|_| Say::Hang);
    b.does(|words| bulk(&words[1]));
    let elsewhere = (0..).map(|n| format!("k{n}")).find(|key| slot_of(key.as_bytes()) > slot).unwrap();
    let cluster = Cluster::open(config(&a).timeout(Duration::from_millis(200)))?;
    let start = Instant::now();
    let silent: Vec<_> = (0..1000).map(|_| cluster.get::<String>("k")).collect();
    let other = cluster.get::<String>(&elsewhere);
    assert_eq!(other.wait()?, elsewhere);
    drop(silent);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert!(matches!(cluster.get::<String>("k").wait(), Err(Error::Timeout)));
    assert_eq!(cluster.get::<String>(&elsewhere).wait()?, elsewhere);
    Ok(())
}

#[test]
fn a_silent_node_whose_slots_another_one_has_is_given_up() -> Result<()> {
    let [a, b] = nodes();
    a.does(|_| Say::Hang);
    b.does(|words| bulk(&words[1]));
    let cluster = open(&a);
    let lost = cluster.get::<String>("k");
    cluster.flush()?;
    [&a, &b].iter().for_each(|node| *node.slots.lock().unwrap() = one_owner("127.0.0.1", b.port));
    // Long before the timeout of ten seconds.
    let start = Instant::now();
    match lost.wait() {
        Err(Error::ConnectionLost(lost)) => assert_eq!(lost.sent(), Sent::Fully),
        other => panic!("{other:?}"),
    }
    assert!(start.elapsed() < Duration::from_secs(8));
    assert_eq!(cluster.get::<String>("k").wait()?, "k");
    Ok(())
}

#[test]
fn what_goes_to_all_primaries_follows_the_slots_of_one_that_is_lost() -> Result<()> {
    for heir in [false, true] {
        let [a, b, c] = nodes();
        let before = owners(&[&a, &b]);
        // The slots of `a` go to a node that had none, or to one that has been asked already.
        let after = if heir { owners(&[&c, &b]) } else { one_owner("127.0.0.1", b.port) };
        let tell = |text: &str| [&a, &b, &c].iter().for_each(|node| *node.slots.lock().unwrap() = text.to_owned());
        let (gone, all) = (a.gone.clone(), [&a, &b, &c].map(|node| node.slots.clone()));
        a.does(move |_| {
            all.iter().for_each(|slots| *slots.lock().unwrap() = after.clone());
            gone.store(true, Ordering::SeqCst);
            Say::Close
        });
        b.does(counts(2));
        c.does(counts(10));
        tell(&before);
        let cluster = open(&a);
        // It only reads, and may be sent again.
        assert_eq!(cluster.dbsize().wait()?, if heir { 12 } else { 2 });
        // These may have run, and are not.
        let begin = || {
            tell(&before);
            a.gone.store(false, Ordering::SeqCst);
            open(&a)
        };
        let cluster = begin();
        match cluster.flushall().wait() {
            Err(Error::ConnectionLost(lost)) => assert_eq!(lost.sent(), Sent::Fully),
            other => panic!("{other:?}"),
        }
        assert!(!c.log().iter().any(|line| line == "FLUSHALL"));
        // These have not run, since it is known already that the node is gone.
        let cluster = begin();
        cluster.get::<String>("b").detach();
        assert!(cluster.sync().is_err() && a.gone.load(Ordering::SeqCst));
        cluster.flushall().wait()?;
        assert!(c.log().iter().any(|line| line == "FLUSHALL") == heir);
        // Those who say that they may be.
        let cluster = begin();
        cluster.idempotent().flushall().wait()?;
        let flushed = |node: &Node| node.log().iter().any(|line| line == "FLUSHALL");
        assert!(flushed(&b) && flushed(&c) == heir);
        cluster.sync()?;
        assert_eq!(cluster.outstanding(), 0);
    }
    Ok(())
}

/// Has so many keys, and a cursor that is of use to nobody else.
fn counts(keys: i64) -> impl FnMut(&Words) -> Say + Send {
    move |words| match &*words[0] {
        "DBSIZE" => say(&format!(":{keys}")),
        "FLUSHALL" => say("+OK"),
        "SCAN" if words[1] == "0" => {
            Say::Bytes(format!("*2\r\n${}\r\n{keys}\r\n*1\r\n$2\r\n{keys:02}\r\n", keys.to_string().len()))
        }
        "SCAN" if words[1] == keys.to_string() => Say::Bytes("*2\r\n$1\r\n0\r\n*1\r\n$4\r\nlast\r\n".to_owned()),
        _ => say("-ERR what is this?"),
    }
}

#[test]
fn a_scan_begins_again_where_a_primary_was_lost() -> Result<()> {
    for (heir, threads) in [(false, false), (true, false), (false, true), (true, true)] {
        let [a, b, c] = nodes();
        let after = if heir { owners(&[&b, &c]) } else { one_owner("127.0.0.1", b.port) };
        let (gone, all) = (a.gone.clone(), [&a, &b, &c].map(|node| node.slots.clone()));
        all.iter().for_each(|slots| *slots.lock().unwrap() = owners(&[&b, &a]));
        // It is lost behind its first page.
        let mut first = counts(5);
        a.does(move |words| match &*words[1] {
            "0" => first(words),
            _ => {
                all.iter().for_each(|slots| *slots.lock().unwrap() = after.clone());
                gone.store(true, Ordering::SeqCst);
                Say::Close
            }
        });
        b.does(counts(2));
        c.does(counts(10));
        let keys = if threads {
            SharedCluster::open(config(&a))?.scan::<String>().collect::<Result<Vec<_>>>()?
        } else {
            open(&a).scan::<String>().collect::<Result<Vec<_>>>()?
        };
        let expected = ["02", "last", "05"].into_iter().chain(if heir { vec!["10", "last"] } else { vec![] });
        assert_eq!(keys, expected.collect::<Vec<_>>());
    }
    // What stays lost is an error at last, and the end.
    let [a] = nodes();
    let mut first = counts(5);
    a.does(move |words| if words[1] == "0" { first(words) } else { Say::Close });
    let cluster = open(&a);
    let mut scan = cluster.scan::<String>();
    assert!(matches!(scan.find(|key| key.is_err()), Some(Err(Error::ConnectionLost(_)))));
    assert!(scan.next().is_none());
    Ok(())
}

#[test]
fn a_transaction_goes_to_another_node_whole() -> Result<()> {
    let [a, b] = nodes();
    for asked in [false, true] {
        let redirect = text_of(if asked { b.ask("k") } else { b.moved("k") });
        for refused_by_exec in [false, true] {
            let redirect = redirect.clone();
            a.does(move |words| match &*words[0] {
                "MULTI" => say("+OK"),
                "EXEC" if refused_by_exec => Say::Bytes(redirect.clone()),
                "EXEC" => say("-EXECABORT Transaction discarded because of previous errors."),
                "SET" if !refused_by_exec => Say::Bytes(redirect.clone()),
                _ => say("+QUEUED"),
            });
            b.does(|words| match &*words[0] {
                "MULTI" | "ASKING" => say("+OK"),
                "EXEC" => Say::Bytes("*2\r\n+OK\r\n$1\r\nv\r\n".to_owned()),
                _ => say("+QUEUED"),
            });
            let cluster = open(&a);
            b.log.lock().unwrap().clear();
            let tx = cluster.transaction();
            let (set, get) = (tx.set("k", "v"), tx.get::<String>("k"));
            let commit = tx.commit();
            assert_eq!(get.wait()?, "v");
            set.wait()?;
            commit.wait()?;
            let whole = ["MULTI", "SET k v", "GET k", "EXEC"].map(String::from).to_vec();
            let expected = if asked { [vec!["ASKING".to_owned()], whole].concat() } else { whole };
            assert_eq!(b.log(), expected);
        }
    }
    // When MULTI was refused, the commands may have run.
    a.does(|words| match &*words[0] {
        "MULTI" => say("-NOPERM no"),
        "EXEC" => say("-ERR EXEC without MULTI"),
        _ => say("+OK"),
    });
    let cluster = open(&a);
    let tx = cluster.transaction();
    let set = tx.set("k", "v");
    assert_eq!((code(tx.commit().wait()), code(set.wait())), ("NOPERM".to_owned(), "NOPERM".to_owned()));
    Ok(())
}

#[test]
fn the_topology_is_not_asked_for_by_a_stampede() -> Result<()> {
    let [a, b] = nodes();
    a.does({
        let port = b.port;
        move |words| say(&format!("-MOVED {} 127.0.0.1:{port}", slot_of(words[1].as_bytes())))
    });
    b.does(|words| bulk(&words[1]));
    [&a, &b].iter().for_each(|node| *node.slots.lock().unwrap() = one_owner("127.0.0.1", a.port));
    let cluster = open(&a);
    let start = Instant::now();
    let replies: Vec<_> = (0..2000).map(|n| (n, cluster.get::<String>(format!("key:{n}")))).collect();
    for (n, reply) in replies {
        assert_eq!(reply.wait()?, format!("key:{n}"));
    }
    let most = 2 + start.elapsed().as_millis() / 50;
    assert!(u128::from(cluster.stats().refreshes) <= most, "{:?}, {most}", cluster.stats());
    Ok(())
}

#[test]
fn a_primary_that_is_a_replica_by_now_is_left_for_the_new_one() -> Result<()> {
    let [a, b] = nodes();
    a.does({
        let (slots, new) = (a.slots.clone(), one_owner("127.0.0.1", b.port));
        move |_| {
            *slots.lock().unwrap() = new.clone();
            say("-READONLY You can't write against a read only replica.")
        }
    });
    b.does(|words| say(&format!("+{}", words[2])));
    let cluster = open(&a);
    let replies: Vec<_> = (0..5).map(|n| set_echo(&cluster, n)).collect();
    for (n, reply) in replies.into_iter().enumerate().rev() {
        assert_eq!(reply.wait()?, n.to_string());
    }
    let order: Vec<String> = (0..5).map(|n| format!("SET k {n} GET")).collect();
    assert_eq!(b.log(), order);
    Ok(())
}

#[test]
fn connections_that_break_in_a_storm_cost_no_handle_a_wrong_reply_and_run_nothing_twice() -> Result<()> {
    for round in 0..10 {
        let [a, b] = nodes();
        let ports = [a.port, b.port];
        // How often each key was answered with a value.
        let runs: Arc<Mutex<HashMap<String, u32>>> = Arc::default();
        for (index, node) in [&a, &b].into_iter().enumerate() {
            node.chops.store(round % 2 == 1, Ordering::SeqCst);
            let (mut rng, runs) = (Rng::with_seed(round * 2 + index as u64), runs.clone());
            node.does(move |words| {
                let slot = slot_of(words.get(1).unwrap_or(&words[0]));
                let port = ports[rng.usize(..2)];
                match rng.u64(..16) {
                    _ if words[0] == "ASKING" => say("+OK"),
                    0 => Say::Close,
                    1..4 => say(&format!("-MOVED {slot} 127.0.0.1:{port}")),
                    4 => say(&format!("-ASK {slot} 127.0.0.1:{port}")),
                    5 => say("-TRYAGAIN"),
                    _ => {
                        *runs.lock().unwrap().entry(words[1].clone()).or_default() += 1;
                        bulk(&words[1])
                    }
                }
            });
        }
        let cluster = open(&a);
        let replies: Vec<_> = (0..200).map(|n| (n, cluster.get::<String>(format!("key:{n}")))).collect();
        let mut lost = 0;
        for (n, reply) in replies.into_iter().rev() {
            let ran = |runs: &Mutex<HashMap<String, u32>>| runs.lock().unwrap().get(&format!("key:{n}")).copied();
            match reply.wait() {
                Ok(key) => assert_eq!((key, ran(&runs)), (format!("key:{n}"), Some(1))),
                Err(Error::ConnectionLost(connection)) => {
                    lost += 1;
                    assert!(connection.sent() != Sent::Unsent, "what was not sent goes on elsewhere");
                    assert!(ran(&runs).is_none_or(|runs| runs == 1));
                }
                Err(error) => assert_eq!(error.code(), Some("MOVED"), "{error}"),
            }
        }
        assert!(lost > 0);
        cluster.sync()?;
        assert_eq!(cluster.outstanding(), 0);
    }
    Ok(())
}

#[test]
fn a_script_that_asks_for_another_try_has_run() -> Result<()> {
    let [a] = nodes();
    a.does(|_| say("-TRYAGAIN the queue is full"));
    let cluster = open(&a);
    assert_eq!(code(cluster.command::<()>("EVAL", ("…", 1, "k")).wait()), "TRYAGAIN");
    assert_eq!(code(cluster.command::<()>("fcall", ("f", 1, "k")).wait()), "TRYAGAIN");
    cluster.command::<()>("EVAL", ("…", 1, "k")).detach();
    assert_eq!(code(cluster.sync()), "TRYAGAIN");
    assert_eq!(a.log().len(), 3);
    // In the words of the servers it has not.
    for said in [
        "-TRYAGAIN Multiple keys request during rehashing of slot",
        "-CLUSTERDOWN Hash slot not served",
        "-CLUSTERDOWN The cluster is down",
        "-LOADING Redis is loading the dataset in memory",
        "-LOADING Valkey is loading the dataset in memory",
        "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    ] {
        let mut first = Some(say(said));
        a.does(move |_| first.take().unwrap_or_else(|| say("+OK")));
        cluster.command::<()>("EVAL", ("…", 1, "k")).wait()?;
    }
    Ok(())
}

#[test]
fn an_exec_that_answers_for_more_or_fewer_commands_breaks_the_connection() -> Result<()> {
    for exec in ["*1\r\n+OK\r\n", "*3\r\n+OK\r\n$1\r\nv\r\n+OK\r\n"] {
        let [a] = nodes();
        a.does(move |words| match &*words[0] {
            "MULTI" => say("+OK"),
            "EXEC" => Say::Bytes(exec.to_owned()),
            "ECHO" => Say::Bytes("$4\r\nlate\r\n".to_owned()),
            _ => say("+QUEUED"),
        });
        for detached in [false, true] {
            let cluster = open(&a);
            let tx = cluster.transaction();
            let (set, get) = (tx.set("k", "v"), tx.get::<String>("k"));
            let commit = tx.commit();
            let behind = cluster.command::<String>("ECHO", "k");
            if detached {
                set.detach();
                get.detach();
                commit.detach();
            } else {
                assert!(commit.wait().is_err() && set.wait().is_err() && get.wait().is_err());
            }
            // What comes behind may be anybody's.
            assert!(matches!(behind.wait(), Err(Error::ConnectionLost(_))), "{exec:?}");
        }
    }
    Ok(())
}
