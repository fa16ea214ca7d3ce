//! The events of the feature `tracing`.

#![cfg(all(feature = "testing", feature = "tracing"))]

mod support;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redefer::{Config, Error, Reconnect, Result, SendWhen, prelude::*};
use support::scripted::Scripted;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Keeps the events as text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("redefer")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn redirects_topologies_and_nodes_that_are_given_up_are_told() -> Result<()> {
    use support::nodes::{Say, bulk, nodes, once, one_owner, open, say};

    let [a, b] = nodes();
    let log = Log::default();
    let guard = tracing::subscriber::set_default(log.clone());
    let (moved, ask) = (b.moved("secret"), b.ask("secret"));
    a.does(once(moved));
    b.does(|words| if words[0] == "ASKING" { say("+OK") } else { bulk("hunter-2") });
    let cluster = open(&a);
    cluster.get::<String>("secret").wait()?;
    a.does(once(ask));
    open(&a).get::<String>("secret").wait()?;
    let mut said = false;
    a.does(move |_| if std::mem::replace(&mut said, true) { bulk("hunter-2") } else { say("-TRYAGAIN Multiple keys") });
    open(&a).get::<String>("secret").wait()?;
    // It hangs, and another one has its slots.
    let cluster = open(&a);
    a.does(|_| Say::Hang);
    let lost = cluster.get::<String>("secret");
    cluster.flush()?;
    [&a, &b].iter().for_each(|node| *node.slots.lock().unwrap() = one_owner("127.0.0.1", b.port));
    assert!(lost.wait().is_err());
    assert!(redefer::cluster::Cluster::open("redis://127.0.0.1:1").is_err());
    drop(guard);
    let lines = log.0.lock().unwrap().join("\n");
    let slot = redefer::cluster::slot_of("secret");
    for wanted in [
        format!("DEBUG topology learned server=127.0.0.1:{} primaries=1 replicas=0", a.port),
        format!("DEBUG moved server=127.0.0.1:{} slot={slot} to=127.0.0.1:{}", a.port, b.port),
        format!("DEBUG asked to ask elsewhere server=127.0.0.1:{} slot={slot} to=127.0.0.1:{}", a.port, b.port),
        format!("DEBUG not served now server=127.0.0.1:{} slot={slot}", a.port),
        format!("WARN node given up server=127.0.0.1:{} outstanding=1", a.port),
        "WARN no node tells the topology".to_owned(),
    ] {
        assert!(lines.contains(&wanted), "no {wanted:?} in:\n{lines}");
    }
    assert!(!lines.contains("hunter-2") && !lines.contains("secret"), "{lines}");
    Ok(())
}

#[test]
fn dialing_losing_and_coming_back_are_told() -> Result<()> {
    let server = Scripted::start(|peer| match peer.number() {
        0 => {
            peer.handshake()?;
            peer.expect(["INCR", "n"])
        }
        1 => {
            peer.read_command()?;
            peer.send("-LOADING Redis is loading the dataset in memory\r\n")
        }
        2 => {
            peer.handshake()?;
            peer.expect(["PING"])?;
            peer.send("+PONG\r\n")
        }
        _ => {
            peer.read_command()?;
            peer.send("-WRONGPASS invalid username-password pair or user is disabled.\r\n")
        }
    });
    let log = Log::default();
    let guard = tracing::subscriber::set_default(log.clone());
    let policy = Reconnect::backoff().first_delay(Duration::ZERO).max_delay(Duration::from_secs(3600));
    let config = Config::from_url(&server.url())?.password("hunter-2").reconnect(policy);
    let conn = Connection::open(config.send_when(SendWhen::Gathering).idle_check(Duration::ZERO))?;
    assert!(matches!(conn.incr("n").wait(), Err(Error::ConnectionLost(_))));
    conn.command::<()>("PING", ()).wait()?;
    let _ = conn.command::<()>("PING", ()).wait();
    let _ = conn.command::<()>("PING", ()).wait();
    drop(guard);
    let lines = log.0.lock().unwrap().join("\n");
    for wanted in [
        "DEBUG connecting server=127.0.0.1:",
        "DEBUG connected server=127.0.0.1:",
        "protocol=Resp3 database=0",
        "WARN connection lost server=",
        "lost=1 kept=0",
        "WARN cannot connect again yet server=",
        "INFO connected again server=",
        "reconnects=1",
        "ERROR given up connecting again server=",
    ] {
        assert!(lines.contains(wanted), "no {wanted:?} in:\n{lines}");
    }
    assert!(!lines.contains("hunter-2"), "{lines}");
    drop(conn);
    Ok(())
}

/// Uses the connection of which it is told, and says what came of it.
struct Uses<F> {
    log: Log,
    uses: F,
}

impl<F: Fn() -> Option<String> + Send + Sync + 'static> Subscriber for Uses<F> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.log.enabled(metadata)
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.log.new_span(span)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        self.log.event(event);
        if let Some(outcome) = (self.uses)() {
            self.log.0.lock().unwrap().push(outcome);
        }
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn whoever_is_told_of_a_shared_connection_may_use_it() -> Result<()> {
    let server = Scripted::start(|peer| match peer.number() {
        0 => {
            peer.handshake()?;
            peer.read_command().map(drop)
        }
        1 => {
            peer.read_command()?;
            peer.send("-LOADING Redis is loading the dataset in memory\r\n")
        }
        _ => {
            peer.handshake()?;
            while let Ok(command) = peer.read_command() {
                peer.send(support::scripted::bulk(&command[1]))?;
            }
            Ok(())
        }
    });
    // Far longer than the test may take.
    let time = Duration::from_secs(600);
    let config = Config::from_url(&server.url())?.timeout(time).reconnect(Reconnect::backoff());
    let log = Log::default();
    let theirs = log.clone();
    support::within(Duration::from_secs(20), move || -> Result<()> {
        let shared = Arc::new(std::sync::OnceLock::<redefer::Shared>::new());
        let theirs_too = shared.clone();
        let uses = move || {
            let shared = theirs_too.get()?;
            let outcome = shared.echo::<String>("heard").wait();
            Some(format!("and then {outcome:?}, {} reconnects", shared.stats().reconnects))
        };
        let _guard = tracing::subscriber::set_default(Uses { log: theirs, uses });
        let shared = shared.get_or_init(|| redefer::Shared::open(config).expect("a server"));
        assert!(matches!(shared.echo::<String>("lost").wait(), Err(Error::ConnectionLost(_))));
        assert_eq!(shared.echo::<String>("again").wait()?, "again");
        Ok(())
    })?;
    let lines = log.0.lock().unwrap().join("\n");
    // Told of the loss, it is the listener who dials, and hears no more of that.
    assert!(lines.contains("connection lost") && lines.ends_with("and then Ok(\"heard\"), 1 reconnects"), "{lines}");
    Ok(())
}

#[test]
fn whoever_is_told_of_a_cluster_that_threads_share_may_use_it() -> Result<()> {
    use redefer::cluster::SharedCluster;
    use support::nodes::{bulk, nodes, once, open, say};

    let [a, b] = nodes();
    a.does(once(b.moved("key")));
    b.does(|words| if words[0] == "ECHO" { bulk(&words[1]) } else { say("+OK") });
    let cluster = open(&a);
    let log = Log::default();
    let theirs = log.clone();
    support::within(Duration::from_secs(20), move || -> Result<()> {
        let shared: SharedCluster = cluster.into_shared()?;
        let uses = {
            let shared = shared.clone();
            move || Some(format!("and then {:?}", shared.set("key", "heard").wait()))
        };
        let _guard = tracing::subscriber::set_default(Uses { log: theirs, uses });
        shared.set("key", "value").wait()
    })?;
    let lines = log.0.lock().unwrap().join("\n");
    assert!(lines.contains("DEBUG moved server=") && lines.contains("and then Ok(())"), "{lines}");
    Ok(())
}
