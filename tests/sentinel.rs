//! Sentinels of real servers, with failovers.

#![cfg(feature = "testing")]

mod support;

use std::time::Duration;

use redefer::commands::Role;
use redefer::sentinel::SentinelEvent;
use redefer::testing::Server;
use redefer::{Config, Error, Reconnect, Result, Sentinel, Shared, WaitError, prelude::*};
use support::scripted::{Peer, Scripted, array, bulk};

const NAME: &str = "mymaster";
const SECRET: &str = "of the servers";
const OTHER_SECRET: &str = "of the sentinels";

/// A sentinel that did not get to run for two seconds does nothing for thirty: a busy machine is slow.
const LONG: Duration = Duration::from_secs(180);

/// A primary, two replicas, and three sentinels that watch them.
struct Deployment {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

impl Deployment {
    fn start() -> Result<Deployment> {
        let server = || Server::builder().config("requirepass", quoted(SECRET)).config("masterauth", quoted(SECRET));
        let primary = server().start()?;
        let replica = || server().config("replicaof", format!("127.0.0.1 {}", primary.port())).start();
        let servers = vec![replica()?, replica()?, primary];
        let primary = servers[2].port();
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            let sentinel = Server::builder()
                .sentinel()
                .config("requirepass", quoted(OTHER_SECRET))
                .config("sentinel", format!("sentinel-pass {}", quoted(OTHER_SECRET)))
                .config("sentinel", format!("monitor {NAME} 127.0.0.1 {primary} 2"))
                .config("sentinel", format!("auth-pass {NAME} {}", quoted(SECRET)))
                .config("sentinel", format!("down-after-milliseconds {NAME} 500"))
                .config("sentinel", format!("failover-timeout {NAME} 3000"));
            sentinels.push(sentinel.start()?);
        }
        let all = Deployment { servers, sentinels };
        for own in &all.sentinels {
            let conn = Connection::open(all.reach(own))?;
            support::until_within(LONG, "a sentinel knows everybody", || {
                let sentinels: Vec<Value> = conn.command("SENTINEL SENTINELS", NAME).wait()?;
                let one = Sentinel::new([all.reach(own)], NAME)?;
                Ok(sentinels.len() == 2 && one.replica_addresses()?.len() == 2)
            })?;
        }
        Ok(all)
    }

    /// How to reach a sentinel.
    fn reach(&self, sentinel: &Server) -> Config {
        support::config(sentinel).password(OTHER_SECRET)
    }

    /// Knows one of the sentinels.
    fn sentinel(&self) -> Result<Sentinel> {
        Sentinel::new([self.reach(&self.sentinels[0])], NAME)
    }

    fn server(&self, port: u16) -> &Server {
        self.servers.iter().find(|server| server.port() == port).expect("one of ours")
    }
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// The configuration of a server that was looked for, in the protocol under test.
fn ours(config: Config) -> Config {
    let config = config.password(SECRET);
    match support::protocol() {
        Some(protocol) => config.protocol(protocol),
        None => config,
    }
}

/// For longer than a failover takes.
fn patient() -> Reconnect {
    Reconnect::backoff().attempts(1000).first_delay(Duration::from_millis(20)).max_delay(Duration::from_millis(100))
}

#[test]
fn primary_and_replicas_are_found_by_name() -> Result<()> {
    let all = Deployment::start()?;
    let sentinel = all.sentinel()?;
    let primary = all.servers[2].port();
    assert_eq!(sentinel.primary_address()?, ("127.0.0.1".to_owned(), primary));
    let mut replicas: Vec<u16> = sentinel.replica_addresses()?.into_iter().map(|(_, port)| port).collect();
    replicas.sort_unstable();
    let mut expected = [all.servers[0].port(), all.servers[1].port()];
    expected.sort_unstable();
    assert_eq!(replicas, expected);

    let conn = Connection::open(ours(sentinel.primary()))?;
    conn.set("k", "v").wait()?;
    assert_eq!(conn.wait(2, Duration::from_secs(20)).wait()?, 2);
    let replica = Connection::open(ours(sentinel.replica()))?;
    assert!(matches!(replica.role().wait()?, Role::Replica { .. }));
    assert_eq!(replica.get::<String>("k").wait()?, "v");
    assert!(matches!(replica.set("k", "w").wait(), Err(Error::Server(error)) if error.code() == Some("READONLY")));

    // The others have been learned: the one that was named is not needed any more.
    all.sentinels[0].kill();
    assert_eq!(sentinel.primary_address()?.1, primary);
    assert!(format!("{sentinel:?}").contains(&all.sentinels[2].port().to_string()));

    // Servers and sentinels have secrets of their own, and neither is shown.
    let shown = format!("{sentinel:?} {:?} {conn:?}", ours(sentinel.primary()));
    assert!(!shown.contains(SECRET) && !shown.contains(OTHER_SECRET), "{shown}");
    let wrong = Sentinel::new([support::config(&all.sentinels[1]).password("wrong")], NAME)?;
    let error = wrong.primary_address().unwrap_err().to_string();
    assert!(error.contains("WRONGPASS"), "{error}");
    let nobody = Sentinel::new([all.reach(&all.sentinels[1])], "nobody")?;
    let error = nobody.primary_address().unwrap_err().to_string();
    assert!(error.contains("nobody"), "{error}");
    assert!(nobody.replica_addresses().is_err());

    for server in &all.servers[..2] {
        server.kill();
    }
    support::until_within(LONG, "both replicas are known to be down", || Ok(sentinel.replica_addresses()?.is_empty()))?;
    assert!(Connection::open(ours(sentinel.replica())).is_err());
    let either = Connection::open(ours(sentinel.replica_or_primary()))?;
    assert!(matches!(either.role().wait()?, Role::Master { .. }));
    Ok(())
}

#[test]
fn a_failover_under_load_is_followed() -> Result<()> {
    let all = Deployment::start()?;
    let sentinel = all.sentinel()?;
    let old = sentinel.primary_address()?;
    let mut events = sentinel.events()?;
    let conn = Connection::open(ours(sentinel.primary()).reconnect(patient()))?;
    let replicas = Connection::open(ours(sentinel.replica()).reconnect(patient()))?;
    replicas.ping().wait()?;

    let (mut acknowledged, mut unknown, mut last) = (0, 0, 0);
    let mut killed = false;
    // Until there has been enough on the new primary.
    while !killed || conn.stats().reconnects == 0 || acknowledged < 4000 {
        // Each has an answer that is its own.
        let window: Vec<_> = (0..50).map(|n| (n, conn.incr("counter"), conn.echo::<u32>(n))).collect();
        for (n, count, echo) in window {
            match count.wait() {
                Ok(now) => {
                    // The new primary may not have got the last ones.
                    assert!(now > last || conn.stats().reconnects > 0, "{now} after {last}");
                    (last, acknowledged) = (now, acknowledged + 1);
                }
                Err(error) if error.may_have_run() => unknown += 1,
                Err(error) => assert!(error.is_connection_lost(), "{error}"),
            }
            match echo.wait() {
                Ok(echo) => assert_eq!(echo, n),
                Err(error) => assert!(error.is_connection_lost(), "{error}"),
            }
        }
        if !killed && acknowledged >= 2000 {
            all.server(old.1).kill();
            killed = true;
        }
    }
    let switched = loop {
        match events.next().transpose()? {
            Some(SentinelEvent::Switched { name, from, to }) => break (name, from, to),
            Some(_) => {}
            None => return Err(Error::custom("nobody has stopped it")),
        }
    };
    let new = sentinel.primary_address()?;
    assert_eq!(switched, (NAME.to_owned(), old.clone(), new.clone()));
    assert_ne!(new, old);
    assert!(matches!(conn.role().wait()?, Role::Master { .. }));
    // Nothing ran twice: what was lost with the old primary makes it fewer, never more.
    let count: u64 = conn.get("counter").wait()?;
    assert!(count <= acknowledged + unknown, "{count} of {acknowledged} and {unknown}");
    assert!(conn.stats().reconnects >= 1);
    conn.sync()?;
    // A replica that became the primary is left, too, when it is dialled again.
    assert!(matches!(replicas.ping().wait(), Ok(()) | Err(Error::ConnectionLost(_))));
    Ok(())
}

#[test]
fn what_is_silent_is_named_when_the_time_is_over() -> Result<()> {
    let silent = || Scripted::start(|peer| peer.read_to_end().map(drop));
    let told = |config: Config, port: u16| {
        let error = Connection::open(config.connect_timeout(Duration::from_secs(2))).unwrap_err();
        assert!(error.is_timeout(), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&format!("127.0.0.1:{port}")) && text.contains(NAME), "{text}");
        text
    };
    let hung = silent();
    told(Sentinel::new([hung.url()], NAME)?.primary(), hung.port());
    hung.finish();

    #[cfg(feature = "tls")]
    {
        let hung = silent();
        let port = hung.port().to_string();
        let sentinel = Scripted::start(move |peer| {
            peer.handshake()?;
            peer.read_command()?;
            peer.send(array(["127.0.0.1", &port]))?;
            peer.read_command()?;
            peer.send("*0\r\n")?;
            peer.read_to_end().map(drop)
        });
        let config = Sentinel::new([sentinel.url()], NAME)?.primary().tls(redefer::TlsConfig::new());
        let text = told(config, hung.port());
        assert!(text.contains("does this port speak TLS?"), "{text}");
    }
    Ok(())
}

/// A server that says what it is, and then what it is told.
fn server(role: &'static str, script: impl Fn(&mut Peer) -> std::io::Result<()> + Send + 'static) -> Scripted {
    Scripted::start(move |peer| {
        peer.handshake()?;
        peer.expect(["ROLE"])?;
        peer.send([b"*3\r\n".to_vec(), bulk(role), b":0\r\n*0\r\n".to_vec()].concat())?;
        script(peer)
    })
}

#[test]
fn what_keeps_a_primary_from_being_found_is_an_io_error_that_says_what() {
    use std::io::ErrorKind;
    let sentinel = |says: &'static str| {
        Scripted::start(move |peer| {
            peer.handshake()?;
            peer.read_command()?;
            peer.send(says)?;
            peer.read_to_end().map(drop)
        })
    };
    let nobody = support::Refusing::start();
    let down = format!("127.0.0.1:{}", nobody.port());
    let cases = [
        (vec![sentinel("*-1\r\n")], ErrorKind::NotFound, "no sentinel that answers knows \"mymaster\""),
        (vec![sentinel("-NOAUTH Authentication required.\r\n")], ErrorKind::PermissionDenied, "NOAUTH"),
        (vec![], ErrorKind::ConnectionRefused, &*format!("the sentinel {down}: ")),
    ];
    for (sentinels, kind, text) in cases {
        let mut urls: Vec<String> = sentinels.iter().map(Scripted::url).collect();
        if urls.is_empty() {
            urls.push(format!("redis://{down}"));
        }
        let sentinel = Sentinel::new(urls, NAME).unwrap();
        match sentinel.primary_address() {
            Err(Error::Io(error)) => {
                assert_eq!(error.kind(), kind, "{error}");
                assert!(error.to_string().contains(text), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_primary_that_says_readonly_is_left_and_nothing_is_lost() -> Result<()> {
    let new = server("master", |peer| {
        peer.expect(["SET", "c", "3"])?;
        peer.send("+OK\r\n")?;
        peer.read_to_end().map(drop)
    });
    // What the sentinel says may be old.
    let not_yet = server("slave", |peer| peer.read_to_end().map(drop));
    let old = server("master", |peer| {
        peer.expect(["SET", "a", "1"])?;
        peer.expect(["GET", "b"])?;
        peer.expect(["GET", "c"])?;
        peer.send("-READONLY You can't write against a read only replica.\r\n$1\r\nb\r\n$1\r\nc\r\n")?;
        peer.read_to_end().map(drop)
    });
    let ports = [old.port(), not_yet.port(), new.port()].map(|port| port.to_string());
    let sentinel = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.expect(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME])?;
        peer.send(array(["127.0.0.1", &ports[peer.number().min(2)]]))?;
        peer.expect(["SENTINEL", "SENTINELS", NAME])?;
        peer.send("*0\r\n")?;
        peer.read_to_end().map(drop)
    });
    let config = Sentinel::new([sentinel.url()], NAME)?.primary();
    let policy = Reconnect::backoff().first_delay(Duration::from_millis(1));
    let conn = Connection::open(config.reconnect(policy))?;
    let (refused, b, c) = (conn.set("a", 1), conn.get::<String>("b"), conn.get::<String>("c"));
    assert!(matches!(refused.wait(), Err(Error::Server(error)) if error.code() == Some("READONLY")));
    // Issued when it is known. What was outstanding is answered by the old one all the same.
    let set = conn.set("c", 3);
    assert_eq!((b.wait()?, c.wait()?), ("b".into(), "c".into()));
    set.wait()?;
    assert_eq!(conn.stats().reconnects, 1);
    Ok(())
}

#[test]
fn without_a_policy_a_demoted_primary_ends_the_connection() -> Result<()> {
    let old = server("master", |peer| {
        peer.expect(["SET", "a", "1"])?;
        peer.send("-READONLY You can't write against a read only replica.\r\n")?;
        peer.read_to_end().map(drop)
    });
    let port = old.port().to_string();
    let sentinel = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.read_command()?;
        peer.send(array(["127.0.0.1", &port]))?;
        peer.read_command()?;
        peer.send("-ERR no\r\n")?;
        peer.read_to_end().map(drop)
    });
    let conn = Connection::open(Sentinel::new([sentinel.url()], NAME)?.primary())?;
    assert!(matches!(conn.set("a", 1).wait(), Err(Error::Server(_))));
    let lost = conn.set("a", 1).wait().unwrap_err();
    assert!(matches!(&lost, Error::ConnectionLost(lost) if lost.cause().to_string().contains("no writes")), "{lost}");
    assert!(conn.is_broken());
    Ok(())
}

#[test]
fn a_primary_that_hangs_is_left_when_the_sentinels_name_another_one() -> Result<()> {
    let new = server("master", |peer| {
        peer.expect(["SET", "b", "2"])?;
        peer.send("+OK\r\n")?;
        peer.read_to_end().map(drop)
    });
    // Takes everything, and answers nothing.
    let old = server("master", |peer| peer.read_to_end().map(drop));
    let ports = [old.port(), old.port(), new.port()].map(|port| port.to_string());
    let sentinel = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.expect(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME])?;
        peer.send(array(["127.0.0.1", &ports[peer.number().min(2)]]))?;
        peer.read_command()?;
        peer.send("*0\r\n")?;
        peer.read_to_end().map(drop)
    });
    let policy = Reconnect::backoff().first_delay(Duration::from_millis(1));
    let config = Sentinel::new([sentinel.url()], NAME)?.primary().reconnect(policy);
    let conn = Connection::open(config)?;
    for _ in 0..2 {
        // At first the sentinels know nothing better, and the connection stays.
        let hung = conn.set("a", 1).wait_timeout(Duration::from_millis(20));
        assert!(matches!(hung, Err(WaitError::Timeout(_))));
        assert_eq!(conn.stats().reconnects, 0);
    }
    conn.set("b", 2).wait()?;
    assert_eq!(conn.stats().reconnects, 1);
    Ok(())
}

#[test]
fn threads_that_share_a_connection_leave_a_demoted_primary_too() -> Result<()> {
    let new = server("master", |peer| {
        peer.expect(["SET", "a", "2"])?;
        peer.send("+OK\r\n")?;
        peer.read_to_end().map(drop)
    });
    let old = server("master", |peer| {
        peer.expect(["SET", "a", "1"])?;
        peer.send("-READONLY You can't write against a read only replica.\r\n")?;
        peer.read_to_end().map(drop)
    });
    let ports = [old.port(), new.port()].map(|port| port.to_string());
    let sentinel = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.read_command()?;
        peer.send(array(["127.0.0.1", &ports[peer.number().min(1)]]))?;
        peer.read_command()?;
        peer.send("*0\r\n")?;
        peer.read_to_end().map(drop)
    });
    let policy = Reconnect::backoff().first_delay(Duration::from_millis(1));
    let shared = Shared::open(Sentinel::new([sentinel.url()], NAME)?.primary().reconnect(policy))?;
    assert!(matches!(shared.set("a", 1).wait(), Err(Error::Server(error)) if error.code() == Some("READONLY")));
    shared.set("a", 2).wait()?;
    assert_eq!(shared.stats().reconnects, 1);
    Ok(())
}

#[test]
fn a_demoted_primary_that_hangs_is_left_after_one_timeout() -> Result<()> {
    let new = server("master", |peer| {
        peer.expect(["SET", "a", "2"])?;
        peer.send("+OK\r\n")?;
        peer.read_to_end().map(drop)
    });
    let old = server("master", |peer| {
        peer.expect(["SET", "a", "1"])?;
        peer.expect(["GET", "b"])?;
        peer.send("-READONLY You can't write against a read only replica.\r\n")?;
        peer.read_to_end().map(drop)
    });
    let ports = [old.port(), new.port()].map(|port| port.to_string());
    let sentinel = Scripted::start(move |peer| {
        peer.handshake()?;
        peer.read_command()?;
        peer.send(array(["127.0.0.1", &ports[peer.number().min(1)]]))?;
        peer.read_command()?;
        peer.send("*0\r\n")?;
        peer.read_to_end().map(drop)
    });
    let policy = Reconnect::backoff().first_delay(Duration::from_millis(1));
    let config = Sentinel::new([sentinel.url()], NAME)?.primary().reconnect(policy);
    let conn = Connection::open(config.timeout(Duration::from_millis(200)))?;
    let (refused, unanswered) = (conn.set("a", 1), conn.get::<String>("b"));
    assert!(matches!(refused.wait(), Err(Error::Server(error)) if error.code() == Some("READONLY")));
    conn.set("a", 2).wait()?;
    assert!(matches!(unanswered.wait(), Err(Error::ConnectionLost(_))));
    assert_eq!(conn.stats().reconnects, 1);
    Ok(())
}
