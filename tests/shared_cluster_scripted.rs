//! One cluster that many threads share, of nodes that say what the test dictates: storms of redirects, connections that cannot
//! be made, nodes that say nothing or take nothing.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use redefer::cluster::{ClusterConfig, SharedCluster, slot_of};
use redefer::prelude::*;
use redefer::{Config, Credentials, Result, Sent, WaitError};
use support::nodes::*;
use support::{until, within};

/// For what would never end, or only after very many response timeouts.
const LIMIT: Duration = Duration::from_secs(60);

/// Longer than any test may take.
const NEVER: Duration = Duration::from_secs(1800);

fn shared(config: Config) -> SharedCluster {
    SharedCluster::open(config).unwrap()
}

/// Two nodes, each with half of the slots: `bar` is the first one's, `foo` the second one's.
fn two() -> [Node; 2] {
    let nodes = [Node::start(), Node::start()];
    let half = |first: u16, last: u16, port: u16| {
        format!("*3\r\n:{first}\r\n:{last}\r\n*3\r\n$9\r\n127.0.0.1\r\n:{port}\r\n$2\r\nid\r\n")
    };
    let all = ["*2\r\n", &half(0, 8191, nodes[0].port), &half(8192, 16_383, nodes[1].port)].concat();
    nodes.iter().for_each(|node| *node.slots.lock().unwrap() = all.clone());
    nodes.iter().for_each(|node| node.does(|words| bulk(&words[1])));
    nodes
}

/// Runs this in so many threads, each with its number.
fn threads(count: usize, run: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        let run = &run;
        for n in 0..count {
            scope.spawn(move || run(n));
        }
    });
}

#[test]
fn a_storm_of_redirects_brings_each_reply_to_its_caller() -> Result<()> {
    for chops in [false, true] {
        let [a, _b, _c] = storm(chops);
        let cluster = shared(config(&a));
        let (count, each) = (12, if chops { 15 } else { 250 });
        threads(count, |thread| {
            let key = |n: usize| format!("key:{thread}:{n}");
            let mut replies: Vec<_> = (0..each).map(|n| (n, cluster.get::<String>(key(n)))).collect();
            let mut state = 11 + thread as u64;
            while !replies.is_empty() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (n, reply) = replies.swap_remove((state >> 33) as usize % replies.len());
                match (state >> 20) % 8 {
                    0 => reply.detach(),
                    1 => drop(reply),
                    2 => match reply.wait_timeout(Duration::from_micros(20)) {
                        Ok(text) => assert_eq!(text.lines().next(), Some(&*key(n))),
                        Err(WaitError::Timeout(reply)) => replies.push((n, reply)),
                        Err(WaitError::Failed(error)) => panic!("{error}"),
                    },
                    3 => std::mem::forget(reply),
                    _ => assert_eq!(reply.wait().unwrap().lines().next(), Some(&*key(n))),
                }
            }
        });
        cluster.sync()?;
        assert_eq!(cluster.outstanding(), 0);
        assert!(cluster.stats().redirects > (count * each / 10) as u64);
    }
    Ok(())
}

#[test]
fn commands_of_a_slot_that_moves_keep_the_order_of_each_thread() -> Result<()> {
    for asked in [false, true] {
        let [a, b] = nodes();
        let mut count = 0;
        let redirect = text_of(if asked { b.ask("k") } else { b.moved("k") });
        // The slot is moved while all are at it.
        a.does(move |words| {
            count += 1;
            if count > 100 { Say::Bytes(redirect.clone()) } else { bulk(&words[2]) }
        });
        b.does(|words| if words[0] == "ASKING" { say("+OK") } else { bulk(&words[2]) });
        let cluster = shared(config(&a));
        threads(8, |thread| {
            let replies: Vec<_> =
                (0..50).map(|n| (n, cluster.set_get::<String>("k", format!("{thread}-{n}")))).collect();
            for (n, reply) in replies.into_iter().rev() {
                match n % 3 {
                    0 => assert_eq!(reply.wait().unwrap(), format!("{thread}-{n}")),
                    1 => reply.detach(),
                    _ => std::mem::forget(reply),
                }
            }
        });
        cluster.sync()?;
        // What has run: all but what was redirected, in the order of each thread.
        let value = |line: &String| line.split(' ').nth(2).map(str::to_owned);
        let ran: Vec<String> = a.log().iter().take(100).chain(&b.log()).filter_map(value).collect();
        for thread in 0..8 {
            let of_thread = ran.iter().filter(|value| value.starts_with(&format!("{thread}-"))).cloned();
            let expected = (0..50).map(|n| format!("{thread}-{n}"));
            assert!(of_thread.eq(expected), "{thread}: {ran:?}");
        }
    }
    Ok(())
}

#[test]
fn a_node_that_cannot_be_reached_keeps_nobody_from_the_others() {
    let [a, b] = two();
    b.mute.store(true, Ordering::SeqCst);
    let config = config(&a).timeout(NEVER).connect_timeout(NEVER);
    within(LIMIT, move || {
        let cluster = shared(config);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            // Three who want the node that does not say hello; the first of them waits for that.
            let hung: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| cluster.get::<String>("foo").wait_timeout(Duration::from_secs(3)).err().is_some())
                })
                .collect();
            until("somebody connects to it", || Ok(b.accepted.load(Ordering::SeqCst) > 0)).unwrap();
            for _ in 0..4 {
                scope.spawn(|| {
                    while !stop.load(Ordering::SeqCst) {
                        assert_eq!(cluster.get::<String>("bar").wait().unwrap(), "bar");
                    }
                });
            }
            // Their own time is over, and the others have gone on all the while.
            assert!(hung.into_iter().all(|thread| thread.join().unwrap()));
            stop.store(true, Ordering::SeqCst);
        });
        assert!(a.log().len() > 100, "{}", a.log().len());
        // It comes back, also to those who had given up.
        b.mute.store(false, Ordering::SeqCst);
        b.end_connections();
        assert_eq!(cluster.get::<String>("foo").wait().unwrap(), "foo");
        assert_eq!(cluster.outstanding(), 0);
    });
}

#[test]
fn whoever_has_less_time_than_the_one_who_connects_keeps_its_own() {
    let [a, b] = two();
    b.mute.store(true, Ordering::SeqCst);
    let config = config(&a).timeout(NEVER).connect_timeout(NEVER);
    within(LIMIT, move || {
        let cluster = shared(config);
        thread::scope(|scope| {
            let patient = scope.spawn(|| cluster.get::<String>("foo").wait());
            until("somebody connects to it", || Ok(b.accepted.load(Ordering::SeqCst) > 0)).unwrap();
            for time in [0, 1, 10, 50] {
                let waited = cluster.get::<String>("foo").wait_timeout(Duration::from_millis(time));
                let Err(WaitError::Timeout(reply)) = waited else { panic!("{waited:?}") };
                reply.detach();
                assert_eq!(cluster.get::<String>("bar").wait().unwrap(), "bar");
            }
            b.mute.store(false, Ordering::SeqCst);
            b.end_connections();
            assert_eq!(patient.join().unwrap().unwrap(), "foo");
        });
        cluster.sync().unwrap();
        assert_eq!(b.log(), vec!["GET foo"; 5]);
    });
}

#[test]
fn what_everybody_has_given_up_is_sent_although_a_connection_must_be_made_first() -> Result<()> {
    let [a, b] = two();
    let cluster = shared(config(&a));
    cluster.get::<String>("foo").detach();
    drop(cluster.get::<String>("bar"));
    // Nobody waits for that node.
    until("it has been sent", || {
        assert_eq!(cluster.get::<String>("bar").wait()?, "bar");
        Ok(!b.log().is_empty())
    })?;
    cluster.sync()
}

#[test]
fn a_topology_that_nobody_tells_keeps_nobody_from_its_reply() {
    let [a, b] = two();
    let config = config(&a).timeout(NEVER).connect_timeout(NEVER);
    within(LIMIT, move || {
        let cluster = shared(config);
        // What moves makes the topology wrong, and nobody says what is right.
        for node in [&a, &b] {
            node.slots.lock().unwrap().clear();
        }
        let to = b.port;
        a.does(move |words| match &*words[1] {
            "moves{bar}" => say(&format!("-MOVED {} 127.0.0.1:{to}", slot_of(b"bar"))),
            key => bulk(key),
        });
        threads(6, |thread| {
            while cluster.stats().refreshes < 4 {
                if thread == 0 {
                    assert_eq!(cluster.get::<String>("moves{bar}").wait().unwrap(), "moves{bar}");
                } else {
                    assert_eq!(cluster.get::<String>("bar-2").wait().unwrap(), "bar-2");
                    assert_eq!(cluster.get::<String>("foo").wait().unwrap(), "foo");
                }
            }
        });
    });
}

#[test]
fn the_topology_is_not_asked_for_by_a_stampede() -> Result<()> {
    let [a, b] = nodes();
    let port = b.port;
    a.does(move |words| say(&format!("-MOVED {} 127.0.0.1:{port}", slot_of(words[1].as_bytes()))));
    b.does(|words| bulk(&words[1]));
    [&a, &b].iter().for_each(|node| *node.slots.lock().unwrap() = one_owner("127.0.0.1", a.port));
    let cluster = shared(config(&a));
    let start = Instant::now();
    threads(16, |thread| {
        for n in 0..100 {
            let key = format!("key:{thread}:{n}");
            assert_eq!(cluster.get::<String>(&key).wait().unwrap(), key);
        }
    });
    // One when it was opened, and then one in fifty milliseconds.
    let most = 2 + start.elapsed().as_millis() as u64 / 50;
    assert!(cluster.stats().refreshes <= most, "{:?} and {most}", cluster.stats());
    Ok(())
}

#[test]
fn beyond_the_limits_issuing_waits_for_that_node_and_then_fails_without_sending() -> Result<()> {
    for by_bytes in [false, true] {
        let [a, _b] = two();
        let go_on = Arc::new(AtomicBool::new(false));
        let may = go_on.clone();
        a.does(move |words| {
            while !may.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            bulk(&words[1])
        });
        let config = config(&a).timeout(Duration::from_millis(300));
        let cluster = shared(if by_bytes { config.max_outstanding_bytes(110) } else { config.max_outstanding(5) });
        let key = "bar".to_owned();
        // One dials first; nothing is answered.
        let held: Vec<_> = (0..5).map(|_| cluster.get::<String>(&key)).collect();
        cluster.flush()?;
        threads(4, |_| {
            let late = cluster.get::<String>("late{bar}");
            assert!(matches!(late.wait(), Err(Error::Timeout)));
            // The other node is not full.
            assert_eq!(cluster.get::<String>("foo").wait().unwrap(), "foo");
        });
        assert_eq!(cluster.outstanding(), 5);
        go_on.store(true, Ordering::SeqCst);
        for reply in held {
            assert_eq!(reply.wait()?, "bar");
        }
        assert_eq!(cluster.get::<String>("again{bar}").wait()?, "again{bar}");
        assert!(!a.log().contains(&"GET late{bar}".to_owned()), "{:?}", a.log());
    }
    Ok(())
}

#[test]
fn commands_that_cannot_be_sent_anywhere_are_bounded_as_well() -> Result<()> {
    let [a] = nodes();
    a.does(move |_| say("-CLUSTERDOWN The cluster is down"));
    let cluster = shared(config(&a).timeout(Duration::from_millis(300)).max_outstanding(10));
    threads(4, |_| {
        for _ in 0..50 {
            cluster.get::<String>("k").detach();
            assert!(cluster.outstanding() <= 10 + 10 + 4);
        }
    });
    // They fail in the end, each by itself, and so do those that there was no room for.
    until("all have failed", || {
        cluster.flush()?;
        Ok(cluster.sync().is_err() && cluster.outstanding() == 0)
    })?;
    Ok(())
}

#[test]
fn a_node_that_takes_nothing_holds_up_nobody_at_another() {
    let [a, _b] = two();
    let (tell, told) = mpsc::channel::<()>();
    let told = Mutex::new(told);
    // It answers the first command late, and reads nothing until then.
    a.does(move |words| {
        if words[0] == "GET" {
            let _ = told.lock().unwrap().recv();
        }
        say("+OK")
    });
    let config = config(&a).timeout(NEVER).send_buffer_size(256 * 1024);
    within(LIMIT, move || {
        let cluster = shared(config);
        cluster.set("bar", 1).wait().unwrap();
        let large = vec![b'x'; 1 << 20];
        thread::scope(|scope| {
            scope.spawn(|| cluster.get::<Value>("bar").wait().unwrap());
            until("the node is busy", || Ok(a.log().contains(&"GET bar".to_owned()))).unwrap();
            for n in 0..4 {
                let (cluster, large) = (&cluster, &large);
                scope.spawn(move || {
                    for _ in 0..4 {
                        cluster.set(format!("{n}{{bar}}"), large).wait().unwrap();
                    }
                });
            }
            for _ in 0..500 {
                assert_eq!(cluster.get::<String>("foo").wait().unwrap(), "foo");
            }
            drop(tell);
        });
        assert_eq!(cluster.outstanding(), 0);
        assert_eq!(a.log().iter().filter(|line| line.starts_with("SET")).count(), 17);
    });
}

#[test]
fn a_node_that_is_silent_costs_each_thread_one_timeout_and_the_others_nothing() {
    let [a, b] = two();
    a.does(|_| Say::Hang);
    let config = config(&a).timeout(Duration::from_millis(500));
    within(LIMIT, move || {
        let cluster = shared(config);
        let start = Instant::now();
        threads(4, |thread| {
            if thread < 2 {
                // Their drop waits once, if at all.
                let silent: Vec<_> = (0..1000).map(|_| cluster.get::<String>("bar")).collect();
                drop(silent);
                assert!(matches!(cluster.get::<String>("bar").wait(), Err(Error::Timeout)));
            } else {
                for _ in 0..500 {
                    assert_eq!(cluster.get::<String>("foo").wait().unwrap(), "foo");
                }
            }
        });
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        assert_eq!(b.log().len(), 1000);
        std::mem::forget(cluster);
    });
}

#[test]
fn a_silent_node_whose_slots_another_one_has_is_given_up() -> Result<()> {
    let [a, b] = nodes();
    a.does(|_| Say::Hang);
    b.does(|words| bulk(&words[1]));
    let cluster = shared(config(&a).timeout(NEVER));
    let asked = Barrier::new(5);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let lost = cluster.get::<String>("k");
                cluster.flush().unwrap();
                asked.wait();
                match lost.wait() {
                    Err(Error::ConnectionLost(lost)) => assert_eq!(lost.sent(), Sent::Fully),
                    other => panic!("{other:?}"),
                }
            });
        }
        asked.wait();
        [&a, &b].iter().for_each(|node| *node.slots.lock().unwrap() = one_owner("127.0.0.1", b.port));
    });
    assert_eq!(cluster.get::<String>("k").wait()?, "k");
    Ok(())
}

#[test]
fn a_slot_that_is_never_served_costs_the_response_timeout_and_says_why() -> Result<()> {
    let [a] = nodes();
    a.does(move |words| if words[1] == "k" { say("-CLUSTERDOWN Hash slot not served") } else { bulk("v") });
    let cluster = shared(config(&a).timeout(Duration::from_millis(300)));
    threads(6, |thread| {
        if thread == 0 {
            let start = Instant::now();
            assert_eq!(code(cluster.get::<String>("k").wait()), "CLUSTERDOWN");
            assert!(start.elapsed() >= Duration::from_millis(250));
        } else {
            for _ in 0..50 {
                assert_eq!(cluster.get::<String>("other").wait().unwrap(), "v", "other slots are served");
            }
        }
    });
    assert_eq!(cluster.outstanding(), 0);
    // The handle is as good as before when the time is one's own.
    match cluster.get::<String>("k").wait_timeout(Duration::from_millis(30)) {
        Err(WaitError::Timeout(handle)) => {
            a.does(|_| bulk("at last"));
            assert_eq!(handle.wait()?, "at last");
        }
        other => panic!("{other:?}"),
    }
    Ok(())
}

#[test]
fn what_is_lost_is_told_to_all_and_only_what_may_is_sent_again() -> Result<()> {
    let [a] = nodes();
    let count = AtomicUsize::new(0);
    a.does(move |words| {
        // The first of each key is lost, with whatever is behind it.
        if count.fetch_add(1, Ordering::SeqCst) % 10 == 9 { Say::Close } else { bulk(&words[1]) }
    });
    let cluster = shared(config(&a));
    let lost = AtomicUsize::new(0);
    threads(8, |thread| {
        for n in 0..50 {
            let key = format!("key:{thread}:{n}");
            if n % 2 == 0 {
                match cluster.get::<String>(&key).wait() {
                    Ok(value) => assert_eq!(value, key),
                    Err(Error::ConnectionLost(_)) => drop(lost.fetch_add(1, Ordering::SeqCst)),
                    Err(other) => panic!("{other}"),
                }
            } else {
                match cluster.idempotent().get::<String>(&key).wait() {
                    Ok(value) => assert_eq!(value, key),
                    // It was unlucky several times.
                    Err(Error::ConnectionLost(_)) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        }
    });
    assert!(lost.load(Ordering::SeqCst) > 0);
    let log = a.log();
    for thread in 0..8 {
        for n in (0..50).step_by(2) {
            let line = format!("GET key:{thread}:{n}");
            assert!(log.iter().filter(|other| **other == line).count() <= 1, "{line} was sent twice");
        }
    }
    Ok(())
}

#[test]
fn a_transaction_goes_to_another_node_whole() -> Result<()> {
    for asked in [false, true] {
        let [a, b] = nodes();
        let redirect = text_of(if asked { b.ask("k") } else { b.moved("k") });
        a.does(move |words| match &*words[0] {
            "MULTI" => say("+OK"),
            "EXEC" => say("-EXECABORT Transaction discarded because of previous errors."),
            _ => Say::Bytes(redirect.clone()),
        });
        b.does(|words| match &*words[0] {
            "MULTI" | "ASKING" => say("+OK"),
            "EXEC" => Say::Bytes("*2\r\n+OK\r\n$1\r\nv\r\n".to_owned()),
            _ => say("+QUEUED"),
        });
        let cluster = shared(config(&a));
        threads(6, |_| {
            let tx = cluster.transaction();
            let (set, get) = (tx.set("k", "v"), tx.get::<String>("k"));
            let commit = tx.commit();
            assert_eq!(get.wait().unwrap(), "v");
            set.wait().unwrap();
            commit.wait().unwrap();
        });
        let whole = ["MULTI", "SET k v", "GET k", "EXEC"];
        let log: Vec<String> = b.log().into_iter().filter(|line| line != "ASKING").collect();
        assert_eq!(log.len(), 6 * whole.len());
        assert!(log.chunks(whole.len()).all(|one| one == whole), "{log:?}");
    }
    Ok(())
}

/// A user without a password is let in with any.
fn default_user() -> Credentials {
    Credentials::new("default", "any")
}

#[test]
fn credentials_that_panic_harm_no_other() {
    let [a, _b] = two();
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    let config = config(&a).timeout(NEVER).credentials(move || match counter.fetch_add(1, Ordering::SeqCst) {
        // The first is for the topology.
        1 => std::panic::resume_unwind(Box::new("a bomb")),
        _ => Ok(default_user()),
    });
    within(LIMIT, move || {
        let cluster = shared(config);
        let bangs = AtomicUsize::new(0);
        threads(8, |_| {
            let call = || assert_eq!(cluster.get::<String>("foo").wait().unwrap(), "foo");
            bangs.fetch_add(usize::from(catch_unwind(AssertUnwindSafe(call)).is_err()), Ordering::SeqCst);
        });
        assert_eq!(bangs.load(Ordering::SeqCst), 1, "only the thread whose turn it was");
        cluster.sync().unwrap();
    });
}

#[test]
fn credentials_are_refused_to_wait_for_the_connection_that_they_are_for() {
    let [a, _b] = two();
    let own = Arc::new(OnceLock::<SharedCluster>::new());
    let theirs = own.clone();
    let (tell, told) = mpsc::channel();
    let config = config(&a).timeout(NEVER).credentials(move || {
        if let Some(cluster) = theirs.get() {
            let _ = tell.send(cluster.get::<String>("foo").wait());
        }
        Ok(default_user())
    });
    within(LIMIT, move || {
        let cluster = own.get_or_init(|| shared(config));
        assert_eq!(cluster.get::<String>("foo").wait().unwrap(), "foo");
        let heard = told.recv().unwrap();
        assert!(matches!(heard, Err(Error::Refused(_))), "{heard:?}");
        cluster.sync().unwrap();
    });
}

#[test]
fn a_function_that_says_where_a_node_is_keeps_only_whom_it_is_asked_for() {
    let [a, b] = two();
    let (second, own) = (b.port, Arc::new(OnceLock::<SharedCluster>::new()));
    let (asked, is_asked) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let (theirs, may_go_on) = (own.clone(), Mutex::new(may_go_on));
    let config = ClusterConfig::new(config(&a).timeout(NEVER)).unwrap().resolve_with(move |host, port| {
        if port == second
            && let Some(cluster) = theirs.get()
        {
            let _ = asked.send(cluster.get::<String>("foo").wait());
            let _ = may_go_on.lock().unwrap().recv();
        }
        (host.to_owned(), port)
    });
    within(LIMIT, move || {
        let cluster = own.get_or_init(|| SharedCluster::open(config).unwrap());
        assert_eq!(cluster.get::<String>("bar").wait().unwrap(), "bar");
        thread::scope(|scope| {
            let waits = scope.spawn(|| cluster.get::<String>("foo").wait().unwrap());
            let heard = is_asked.recv().unwrap();
            assert!(matches!(heard, Err(Error::Refused(_))), "{heard:?}");
            assert_eq!(cluster.get::<String>("bar").wait().unwrap(), "bar");
            drop(go_on);
            assert_eq!(waits.join().unwrap(), "foo");
        });
        cluster.sync().unwrap();
    });
}

#[test]
fn whoever_is_asked_while_a_server_is_looked_for_does_not_wait_for_that() {
    let [a, b] = two();
    let own = Arc::new(OnceLock::<SharedCluster>::new());
    let (asked, is_asked) = mpsc::channel();
    let theirs = own.clone();
    let config = ClusterConfig::new(config(&a).timeout(NEVER)).unwrap().resolve_with(move |host, port| {
        if let Some(cluster) = theirs.get() {
            let _ = asked.send(cluster.dbsize().wait());
        }
        (host.to_owned(), port)
    });
    within(LIMIT, move || {
        let cluster = own.get_or_init(|| SharedCluster::open(config).unwrap());
        [&a, &b].iter().for_each(|node| node.gone.store(true, Ordering::SeqCst));
        a.end_connections();
        assert!(cluster.command::<String>("UNHEARD", "of").wait().is_err());
        let heard = is_asked.recv().unwrap();
        assert!(matches!(heard, Err(Error::Refused(_))), "{heard:?}");
    });
}

#[test]
fn what_debug_is_written_to_may_use_the_cluster() {
    struct Sink<'a>(&'a SharedCluster, String);

    impl std::fmt::Write for Sink<'_> {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.1.push_str(&self.0.get::<String>("foo").wait().unwrap());
            self.1.push_str(text);
            Ok(())
        }
    }

    let [a, _b] = two();
    within(LIMIT, move || {
        let cluster = shared(config(&a));
        let mut sink = Sink(&cluster, String::new());
        std::fmt::write(&mut sink, format_args!("{cluster:?}")).unwrap();
        assert!(sink.1.starts_with("foo") && sink.1.contains("SharedCluster"), "{}", sink.1);
    });
}

#[test]
fn a_primary_that_nothing_was_sent_to_and_is_none_any_more_is_not_asked_with_all() -> Result<()> {
    let [a, b, c] = nodes();
    let (before, after) = (owners(&[&a, &b]), owners(&[&a, &c]));
    for node in [&a, &b, &c] {
        *node.slots.lock().unwrap() = before.clone();
    }
    for (node, keys) in [(&a, 1), (&b, 100), (&c, 2)] {
        node.does(move |_| say(&format!(":{keys}")));
    }
    let cluster = shared(config(&a));
    let start = Instant::now();
    for node in [&a, &b, &c] {
        *node.slots.lock().unwrap() = after.clone();
    }
    // The topology is not asked for sooner than this.
    while start.elapsed() < Duration::from_millis(60) {
        assert_eq!(cluster.get::<i64>("bar").wait()?, 1);
    }
    // It would answer for keys that it had.
    assert_eq!(cluster.dbsize().wait()?, 3);
    assert_eq!(cluster.dbsize().wait()?, 3);
    assert!(b.log().is_empty());
    Ok(())
}

#[test]
fn what_keeps_a_name_from_being_looked_up_is_told() {
    let [a] = nodes();
    a.does(|_| bulk("nonsense"));
    let cluster = shared(config(&a));
    let outcome = cluster.command::<String>("GETSET", ("k", "v")).wait();
    assert!(matches!(outcome, Err(Error::UnexpectedReply(_))), "{outcome:?}");
    a.does(|_| Say::Close);
    let outcome = cluster.command::<String>("GETSET", ("k", "v")).wait();
    assert!(matches!(outcome, Err(Error::ConnectionLost(_))), "{outcome:?}");
}
