//! Connections over TLS: who is let in, what is said of those who are not, and that everything else is as without it.
//!
//! Servers without TLS are behind a proxy of the tests' own. How ciphertext is cut, and when its bytes count as written,
//! is tested more closely beside the code, in `src/connection/tls.rs`.

#![cfg(all(feature = "testing", feature = "tls"))]

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use redefer::pubsub::{Event, Subscriber};
use redefer::rustls::crypto::ring;
use redefer::rustls::pki_types::CertificateDer;
use redefer::rustls::pki_types::pem::PemObject;
use redefer::rustls::version::{TLS12, TLS13};
use redefer::rustls::{ClientConfig, RootCertStore, ServerConnection, StreamOwned};
use redefer::{Config, Error, Protocol, Reconnect, Result, SendWhen, Sent, TlsConfig, Value, prelude::*};
use support::scripted::{HELLO_REPLY, Scripted, bulk, gate};
use support::tls::{Authority, Cut, Files, Forwarder, Identity, TlsServer, server_config};

/// More than any of these tests needs, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(120);

/// How a server is known that these tests connect to.
const NAMES: [&str; 2] = ["redis.example", "127.0.0.1"];

/// An authority, and a server that it vouches for.
fn authority() -> (Authority, Identity) {
    let authority = Authority::new("an authority");
    let identity = authority.issue(&NAMES);
    (authority, identity)
}

/// TLS to a port, in the protocol under test.
fn config(port: u16, tls: TlsConfig) -> Config {
    support::config_for(&format!("redis://127.0.0.1:{port}")).tls(tls)
}

fn trusting(authority: &Authority) -> TlsConfig {
    TlsConfig::new().root_certificates(&authority.pem)
}

/// The text of the error that opening gives, which must be one of I/O.
#[track_caller]
fn refusal(config: Config) -> String {
    match support::within(LIMIT, move || Connection::open(config)) {
        Err(Error::Io(error)) => {
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
            error.to_string()
        }
        other => panic!("not an error of I/O: {other:?}"),
    }
}

#[track_caller]
fn config_error(config: Config) -> String {
    match Connection::open(config) {
        Err(Error::Config(text)) => text,
        other => panic!("not an error of the configuration: {other:?}"),
    }
}

// Who is let in.

#[test]
fn both_protocols_over_both_versions_of_tls() -> Result<()> {
    let (authority, identity) = authority();
    let servers = TlsServer::all(&identity, None);
    let named = std::env::var_os("REDEFER_SERVER").is_some();
    assert!(named || servers.iter().any(TlsServer::is_native), "Debian's redis-server has TLS");
    for server in servers {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            for version in [&TLS12, &TLS13] {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
                let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                    .with_protocol_versions(&[version])
                    .unwrap()
                    .with_root_certificates(roots)
                    .with_no_client_auth();
                let config = config(server.tls_port, Arc::new(tls).into()).protocol(protocol).database(3);
                let conn = Connection::open(config.client_name("over-tls"))?;
                assert_eq!((conn.protocol(), conn.database()), (protocol, 3));
                conn.set("key", "value").wait()?;
                assert_eq!(conn.get::<String>("key").wait()?, "value");
                assert_eq!(conn.client_getname().wait()?.as_deref(), Some("over-tls"));
                let unsecured = Connection::open(format!("{}/3", server.url()))?;
                assert_eq!(unsecured.get::<String>("key").wait()?, "value");
            }
        }
    }
    Ok(())
}

#[test]
fn the_name_is_that_of_the_host_or_the_one_given() -> Result<()> {
    let authority = Authority::new("an authority");
    for (names, tls, good) in [
        (["127.0.0.1"], trusting(&authority), true),
        (["redis.example"], trusting(&authority), false),
        (["redis.example"], trusting(&authority).server_name("redis.example"), true),
        (["redis.example"], trusting(&authority).server_name("REDIS.example."), true),
        (["*.redis.example"], trusting(&authority).server_name("one.redis.example"), true),
        (["127.0.0.1"], trusting(&authority).server_name("redis.example"), false),
        (["redis.example"], trusting(&authority).server_name("other.example"), false),
        (["127.0.0.2"], trusting(&authority), false),
        (["127.0.0.2"], trusting(&authority).server_name("127.0.0.2"), true),
    ] {
        for server in TlsServer::all(&authority.issue(&names), None) {
            let config = config(server.tls_port, tls.clone());
            if good {
                Connection::open(config)?.ping().wait()?;
            } else {
                let text = refusal(config);
                assert!(text.contains("certificate") && text.contains("name"), "{names:?}: {text}");
                assert!(text.contains(&format!("127.0.0.1:{}", server.tls_port)), "{text}");
            }
        }
    }
    Ok(())
}

#[test]
fn an_authority_that_is_not_trusted_is_refused() -> Result<()> {
    let (authority, identity) = authority();
    // Of the same name, but not the same.
    let (other, _) = self::authority();
    for server in TlsServer::all(&identity, None) {
        let text = refusal(config(server.tls_port, trusting(&other)));
        assert!(text.contains("TLS: invalid peer certificate"), "{text}");
        // Both are trusted.
        let both = TlsConfig::new().root_certificates(&other.pem).root_certificates(&authority.pem);
        Connection::open(config(server.tls_port, both))?.ping().wait()?;
        let both = TlsConfig::new().root_certificates(format!("{}{}", other.pem, authority.pem));
        Connection::open(config(server.tls_port, both))?.ping().wait()?;
        // And so is everybody, for those who say that it is dangerous.
        let anybody = trusting(&other).server_name("whoever").danger_accept_invalid_certificates();
        Connection::open(config(server.tls_port, anybody))?.ping().wait()?;
    }
    Ok(())
}

#[test]
fn a_client_certificate_is_shown_to_those_who_ask() -> Result<()> {
    let (authority, identity) = authority();
    let clients = Authority::new("an authority of clients");
    let client = clients.issue(&["client"]);
    let files = Files::new();
    let (chain, key) = (files.write("client.crt", &client.certificate), files.write("client.key", &client.key));
    let stranger = authority.issue(&["client"]);
    for server in TlsServer::all(&identity, Some(&clients)) {
        for tls in [
            trusting(&authority).client_certificate(&client.certificate, &client.key),
            trusting(&authority).client_certificate_files(&chain, &key),
        ] {
            let conn = Connection::open(config(server.tls_port, tls))?;
            conn.set("key", "value").wait()?;
        }
        let without = refusal(config(server.tls_port, trusting(&authority)));
        assert!(without.contains("TLS: received fatal alert: "), "{without}");
        let wrong = trusting(&authority).client_certificate(&stranger.certificate, &stranger.key);
        let wrong = refusal(config(server.tls_port, wrong));
        assert!(wrong.contains("TLS: received fatal alert: "), "{wrong}");
    }
    // To those who do not ask it is not shown.
    for server in TlsServer::all(&identity, None) {
        let tls = trusting(&authority).client_certificate(&stranger.certificate, &stranger.key);
        Connection::open(config(server.tls_port, tls))?.ping().wait()?;
    }
    Ok(())
}

#[test]
fn a_url_turns_tls_on_and_the_roots_are_those_of_the_platform() -> Result<()> {
    const URL: &str = "REDEFER_TEST_TLS_URL";
    if let Ok(url) = std::env::var(URL) {
        // In the process that is started below.
        let conn = Connection::open(&url)?;
        conn.set("key", "value").wait()?;
        let text = format!("{conn:?}");
        assert!(text.contains("of the platform"), "{text}");
        return Ok(());
    }
    let (authority, identity) = authority();
    let files = Files::new();
    let roots = files.write("roots.pem", &authority.pem);
    for server in TlsServer::all(&identity, None) {
        for scheme in ["rediss", "valkeys"] {
            let url = format!("{scheme}://127.0.0.1:{}/2", server.tls_port);
            // Nobody has heard of this authority here.
            assert!(refusal(Config::from_url(&url)?).contains("certificate"));
            let known = Config::from_url(&url)?.tls(TlsConfig::new().root_certificates_file(&roots));
            assert_eq!(Connection::open(known)?.database(), 2);
            // Another process has another environment, and so other roots.
            let output = Command::new(std::env::current_exe()?)
                .args(["--exact", "a_url_turns_tls_on_and_the_roots_are_those_of_the_platform"])
                .env("SSL_CERT_FILE", &roots)
                .env_remove("SSL_CERT_DIR")
                .env(URL, &url)
                .output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("1 passed"), "{text}");
            let unsecured = Connection::open(format!("{}/2", server.url()))?;
            assert_eq!(unsecured.getdel::<String>("key").wait()?, "value");
        }
    }
    Ok(())
}

#[test]
fn what_is_wrong_with_the_configuration_is_said_before_anything_is_dialled() {
    let (authority, identity) = authority();
    let other = authority.issue(&["other"]);
    let files = Files::new();
    let key_file = files.write("key.pem", &identity.key);
    let broken = files.write("broken.pem", &identity.key.replace("-----END", "-----"));
    let missing = files.write("x", "").with_file_name("missing.pem");
    let of = |tls: TlsConfig| config_error(Config::tcp("127.0.0.1", 1).tls(tls));
    let new = TlsConfig::new;
    for (tls, expected) in [
        (new().root_certificates("nonsense"), "the root certificates: no certificate in PEM"),
        (new().root_certificates(&identity.key), "the root certificates: no certificate in PEM"),
        (new().root_certificates_file(&missing), "missing.pem"),
        (new().root_certificates_file(&key_file), "key.pem: no certificate"),
        (new().root_certificates_file(&broken), "broken.pem: malformed"),
        (new().client_certificate("", &identity.key), "the client certificate: no certificate"),
        (new().client_certificate(&identity.certificate, ""), "private key: no private key"),
        (new().client_certificate(&identity.certificate, &identity.certificate), "private key: no private key"),
        (new().client_certificate_files(&key_file, &broken), "the client certificate in "),
        (new().client_certificate(&identity.certificate, &other.key), "the client certificate and its key"),
        (new().server_name(""), "the server's name"),
        (new().server_name("two words"), "the server's name"),
        (new().server_name("b\u{fc}cher"), "the server's name"),
    ] {
        let shown = format!("{tls:?}");
        // Roots are read first, and those of the platform are good here.
        let tls = if shown.contains("of the platform") { tls.root_certificates(&authority.pem) } else { tls };
        let text = of(tls);
        assert!(text.contains(expected), "{text}");
        for secret in [&identity.key, &other.key].map(|key| key.lines().nth(1).unwrap()) {
            assert!(!text.contains(secret) && !shown.contains(secret), "{text} {shown}");
        }
    }
    let ready = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let both = TlsConfig::from(Arc::new(ready)).root_certificates(&authority.pem);
    assert!(of(both).contains("rustls::ClientConfig"));
    assert!(config_error(Config::unix("/run/redis.sock").tls(new())).contains("unix"));
}

#[test]
fn debug_shows_no_private_key() {
    let (authority, identity) = authority();
    let secret = identity.key.lines().nth(1).unwrap();
    let tls = trusting(&authority).client_certificate(&identity.certificate, &identity.key).server_name("a.name");
    for text in [format!("{tls:?}"), format!("{:#?}", Config::tcp("host", 1).tls(tls.clone()))] {
        assert!(!text.contains(secret) && text.contains("***") && text.contains("a.name"), "{text}");
        assert!(!text.contains(&format!("{:?}", &secret.as_bytes()[..8])[1..20]), "{text}");
    }
    let files = TlsConfig::new().root_certificates_file("/ca.crt").client_certificate_files("/a.crt", "/a.key");
    let text = format!("{files:?}");
    assert!(["/ca.crt", "/a.crt", "/a.key"].iter().all(|path| text.contains(path)), "{text}");
}

// Those who speak something else, or nothing.

#[test]
fn a_server_without_tls_is_told_as_such() -> Result<()> {
    let (authority, _) = authority();
    for answer in ["-ERR unknown command\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "+OK\r\n"] {
        let server = Scripted::start(move |peer| {
            peer.send(answer)?;
            peer.read_to_end().map(drop)
        });
        let text = refusal(config(server.port(), trusting(&authority)));
        assert!(text.contains("is this its port for TLS?"), "{text}");
        server.finish();
    }
    // One that closes.
    let server = Scripted::start(|peer| peer.shutdown_write());
    match Connection::open(config(server.port(), trusting(&authority))) {
        Err(Error::Io(error)) => assert!(error.to_string().contains("TLS handshake"), "{error}"),
        other => panic!("{other:?}"),
    }
    // A real one takes the first words for a command, or for the beginning of one.
    let server = support::server();
    let tls = config(server.port(), trusting(&authority)).connect_timeout(Duration::from_millis(300));
    match support::within(LIMIT, || Connection::open(tls)) {
        Err(Error::Io(error)) => assert!(error.to_string().contains(" TLS?"), "{error}"),
        other => panic!("{other:?}"),
    }
    Ok(())
}

#[test]
fn a_client_without_tls_at_a_port_for_tls_gets_an_error() {
    let (_, identity) = authority();
    for server in TlsServer::all(&identity, None) {
        let config = support::config_for(&format!("redis://127.0.0.1:{}", server.tls_port));
        let outcome = support::within(LIMIT, move || Connection::open(config));
        assert!(outcome.is_err(), "{outcome:?}");
    }
}

#[test]
fn a_handshake_that_stalls_ends_with_the_timeout_of_the_connect() {
    let (authority, identity) = authority();
    for server in TlsServer::all(&identity, None) {
        // After nothing, a part of a record, a part of either handshake: until both are through.
        let mut bytes = 0;
        loop {
            let forwarder = Forwarder::start(server.tls_port, 1 << 14);
            forwarder.cut_after(bytes, Cut::Stall);
            let config = config(forwarder.port, trusting(&authority)).linger(Duration::ZERO);
            let config = config.connect_timeout(Duration::from_millis(if bytes < 500 { 50 } else { 1_000 }));
            match support::within(LIMIT, move || Connection::open(config)) {
                Err(error) if error.is_timeout() => bytes = 2 * bytes + 3,
                Ok(_) => break assert!(bytes > 500, "{bytes} bytes"),
                Err(error) => panic!("after {bytes} bytes: {error}"),
            }
        }
    }
}

#[test]
fn a_handshake_that_goes_on_and_on_ends_with_the_timeout_of_the_connect() {
    let (authority, _) = authority();
    let server = Scripted::start(|peer| {
        // The header of a large record, and then its bytes one by one, for as long as somebody is there.
        peer.send([22, 3, 3, 0x3f, 0xff])?;
        while peer.send([2]).is_ok() {
            thread::yield_now();
        }
        Ok(())
    });
    let config = config(server.port(), trusting(&authority)).connect_timeout(Duration::from_millis(20));
    let outcome = support::within(LIMIT, move || Connection::open(config));
    // A record that has come whole is nonsense.
    assert!(matches!(outcome, Err(Error::Timeout | Error::Io(_))), "{outcome:?}");
    server.finish();
}

#[test]
fn a_port_without_tls_is_asked_after_in_the_error() {
    let (authority, _) = authority();
    // As a server does that takes the bytes for the beginning of a command.
    let server = Scripted::start(|peer| peer.read_to_end().map(drop));
    let config = config(server.port(), trusting(&authority)).connect_timeout(Duration::from_millis(100));
    let error = Connection::open(config).unwrap_err();
    assert!(error.is_timeout() && matches!(error, Error::Io(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("does this port speak TLS?") && text.contains(&server.port().to_string()), "{text}");
    server.finish();
}

#[test]
fn a_subscriber_counts_no_handshake_that_its_caller_has_cut_short() -> Result<()> {
    let (authority, identity) = authority();
    for server in TlsServer::all(&identity, None) {
        let forwarder = Forwarder::start(server.tls_port, 1 << 14);
        // The first attempt that counts is the last one.
        let policy = Reconnect::backoff().attempts(1).first_delay(Duration::ZERO);
        let config = config(forwarder.port, trusting(&authority)).connect_timeout(LIMIT).reconnect(policy);
        let subscriber = Subscriber::open(config)?;
        subscriber.subscribe("news").wait()?;
        forwarder.cut_after(0, Cut::Close);
        let conn = Connection::open(self::config(server.tls_port, trusting(&authority)))?;
        assert_eq!(conn.publish("news", "lost").wait()?, 1);
        support::until("the subscriber is gone", || {
            Ok(conn.command::<(String, i64)>("PUBSUB NUMSUB", "news").wait()?.1 == 0)
        })?;
        forwarder.cut_after(0, Cut::Stall);
        for _ in 0..3 {
            let nothing = subscriber.next_timeout(Duration::from_millis(20));
            assert!(matches!(nothing, Ok(None)), "{nothing:?}");
        }
        forwarder.mend();
        let again = subscriber.next();
        assert!(matches!(again, Ok(Some(Event::Reconnected(_)))), "{again:?}");
    }
    Ok(())
}

// What a connection does, over this one.

/// Some of everything.
fn exchange(conn: &Connection) -> Result<()> {
    conn.flushall().wait()?;
    let replies: Vec<Reply<'_, i64>> = (0..100).map(|_| conn.incr("n")).collect();
    for (n, reply) in replies.into_iter().enumerate().rev() {
        assert_eq!(reply.wait()?, n as i64 + 1);
    }

    let batch = conn.batch();
    for n in 0..1_000 {
        batch.rpush("list", format!("element {n}"));
    }
    batch.finish()?;
    for (n, element) in conn.lrange::<String>("list", 0, -1).enumerate() {
        assert_eq!(element?, format!("element {n}"));
    }
    let mut list = conn.lrange::<String>("list", 0, -1);
    assert_eq!(list.next().transpose()?.as_deref(), Some("element 0"));
    assert_eq!(conn.get::<i64>("n").wait()?, 100);
    assert_eq!(list.wait::<Vec<_>>()?.len(), 999);

    let tx = conn.transaction();
    let (n, elements) = (tx.incr("n"), tx.lrange::<String>("list", 0, 1));
    tx.commit().wait()?;
    assert_eq!((n.wait()?, elements.wait::<Vec<_>>()?.len()), (101, 2));

    conn.set("detached", "x".repeat(100_000)).detach();
    conn.incr("list").detach();
    assert_eq!(conn.sync().unwrap_err().code(), Some("WRONGTYPE"));
    assert_eq!(conn.get::<String>("detached").wait()?.len(), 100_000);
    let value: Value = conn.command("HGETALL", "nothing").wait()?;
    assert!(matches!(value, Value::Map(_) | Value::Array(_)), "{value:?}");
    Ok(())
}

#[test]
fn everything_goes_over_tls() -> Result<()> {
    let (authority, identity) = authority();
    for server in TlsServer::all(&identity, None) {
        for when in [SendWhen::Adaptive, SendWhen::Eager, SendWhen::Gathering] {
            let config = config(server.tls_port, trusting(&authority)).send_when(when);
            exchange(&Connection::open(config)?)?;
        }
    }
    Ok(())
}

#[test]
fn ciphertext_may_come_in_pieces_of_any_size() -> Result<()> {
    let (authority, identity) = authority();
    for server in TlsServer::all(&identity, None) {
        for piece in [1, 2, 5, 21, 100, 4096] {
            let forwarder = Forwarder::start(server.tls_port, piece);
            let config = config(forwarder.port, trusting(&authority)).timeout(LIMIT).linger(LIMIT);
            support::within(LIMIT, move || exchange(&Connection::open(config)?))?;
        }
    }
    Ok(())
}

#[test]
fn detached_commands_reach_the_server_before_the_connection_is_closed() -> Result<()> {
    let (authority, identity) = authority();
    for server in TlsServer::all(&identity, None) {
        let conn = Connection::open(config(server.tls_port, trusting(&authority)))?;
        for _ in 0..20_000 {
            conn.incr("n").detach();
        }
        drop(conn);
        assert_eq!(Connection::open(server.url())?.get::<i64>("n").wait()?, 20_000);
    }
    Ok(())
}

#[test]
fn large_values_both_ways_get_through_small_buffers() -> Result<()> {
    let size: usize = if cfg!(debug_assertions) { 8 << 20 } else { 64 << 20 };
    let (authority, identity) = authority();
    for server in TlsServer::all(&identity, None) {
        let config = config(server.tls_port, trusting(&authority)).timeout(LIMIT);
        let config = config.send_buffer_size(4096).recv_buffer_size(4096);
        support::within(LIMIT, move || -> Result<()> {
            let conn = Connection::open(config)?;
            let mut value = vec![b'x'; size];
            let mut handles = Vec::new();
            for n in 0..2 {
                value[0] = n;
                value[size - 1] = n;
                handles.push((conn.set("key", &value), conn.get::<Vec<u8>>("key")));
            }
            for (n, (set, get)) in handles.into_iter().enumerate() {
                let got = get.wait()?;
                assert_eq!((got.len(), got[0], got[size - 1]), (size, n as u8, n as u8));
                set.wait()?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn any_number_of_replies_may_be_outstanding() -> Result<()> {
    let count = if cfg!(debug_assertions) { 2_000 } else { 50_000 };
    let (authority, identity) = authority();
    for server in TlsServer::all(&identity, None) {
        let config = config(server.tls_port, trusting(&authority)).timeout(LIMIT).max_outstanding(usize::MAX);
        support::within(LIMIT, move || -> Result<()> {
            let conn = Connection::open(config.send_buffer_size(4096).recv_buffer_size(4096))?;
            let value = "v".repeat(10_000);
            conn.set("key", &value).wait()?;
            let handles: Vec<Reply<'_, String>> = (0..count).map(|_| conn.get("key")).collect();
            for handle in handles {
                assert_eq!(handle.wait()?, value);
            }
            Ok(())
        })?;
    }
    Ok(())
}

// How a connection ends.

#[test]
fn a_connection_that_ends_in_a_record_is_lost() -> Result<()> {
    let (authority, identity) = authority();
    for server in TlsServer::all(&identity, None) {
        let mut came = false;
        for bytes in 0..60 {
            let forwarder = Forwarder::start(server.tls_port, 1 << 14);
            let conn = Connection::open(config(forwarder.port, trusting(&authority)))?;
            conn.set("key", "value").wait()?;
            forwarder.cut_after(bytes, Cut::Close);
            // Alone, so that its reply is a record of its own.
            match conn.get::<String>("key").wait() {
                Ok(value) => {
                    assert_eq!(value, "value");
                    came = true;
                }
                Err(Error::ConnectionLost(lost)) => {
                    assert!(!came, "less came of more bytes");
                    assert_eq!(lost.sent(), Sent::Fully, "{lost}");
                }
                Err(error) => panic!("{error:?}"),
            }
            let behind = conn.incr("n").wait();
            assert!(matches!(behind, Err(Error::ConnectionLost(_))) || came && behind.is_ok(), "{behind:?}");
        }
        assert!(came);
    }
    Ok(())
}

/// Reads a session of the scripted kind up to the end of its first words, and answers them.
fn greet(stream: &mut StreamOwned<ServerConnection, TcpStream>) -> std::io::Result<()> {
    let mut words = Vec::new();
    let mut byte = [0];
    while !words.ends_with(&bulk(env!("CARGO_PKG_VERSION"))) {
        stream.read_exact(&mut byte)?;
        words.push(byte[0]);
    }
    stream.write_all(format!("{HELLO_REPLY}+OK\r\n+OK\r\n").as_bytes())
}

#[test]
fn what_a_broken_connection_says_of_its_commands_is_what_the_server_has() -> Result<()> {
    let (authority, identity) = authority();
    let config = server_config(&identity, None);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    socket2::SockRef::from(&listener).set_recv_buffer_size(64 << 10)?;
    let (written, told) = std::sync::mpsc::channel::<u64>();
    let (closed, is_closed) = gate();
    let peer = thread::spawn(move || -> std::io::Result<()> {
        let (socket, _) = listener.accept()?;
        let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), socket);
        greet(&mut stream)?;
        // Reads nothing before the client has given up for now; then there is what it has been told, to the byte.
        let mut left = told.recv().unwrap();
        let mut buf = [0; 1 << 14];
        while left > 0 {
            let most = buf.len().min(left as usize);
            left -= stream.read(&mut buf[..most])? as u64;
        }
        socket2::SockRef::from(&stream.sock).set_linger(Some(Duration::ZERO))?;
        drop(stream);
        closed.open();
        Ok(())
    });
    // The scripted part knows RESP3 only.
    let config = self::config(port, trusting(&authority)).protocol(Protocol::Resp3);
    let config = config.timeout(Duration::from_millis(50)).send_buffer_size(4096).linger(Duration::ZERO);
    let conn = Connection::open(config.send_when(SendWhen::Gathering).write_batch(1 << 30))?;
    let handles: Vec<Reply<'_, ()>> = (0..10_000).map(|_| conn.set("key", "x".repeat(1_000))).collect();
    assert!(matches!(conn.flush(), Err(Error::Timeout)));
    written.send(conn.stats().bytes_written).unwrap();
    is_closed.wait();
    let sent: Vec<Sent> = handles
        .into_iter()
        .map(|handle| match handle.wait() {
            Err(Error::ConnectionLost(lost)) => lost.sent(),
            other => panic!("{other:?}"),
        })
        .collect();
    let length = "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1000\r\n\r\n".len() + 1_000;
    let bytes = conn.stats().bytes_written as usize;
    let (whole, part) = (bytes / length, bytes % length);
    assert!(whole > 0 && whole < 9_000, "{whole}");
    assert!(sent[..whole].iter().all(|sent| *sent == Sent::Fully));
    assert_eq!(sent[whole], if part > 0 { Sent::Partly } else { Sent::Unsent });
    assert!(sent[whole + 1..].iter().all(|sent| *sent == Sent::Unsent));
    peer.join().unwrap()?;
    Ok(())
}

#[test]
fn a_connection_that_is_made_again_uses_tls_again() -> Result<()> {
    let (authority, identity) = authority();
    for server in TlsServer::all(&identity, None) {
        let forwarder = Forwarder::start(server.tls_port, 1 << 14);
        let config = config(forwarder.port, trusting(&authority)).reconnect(Reconnect::backoff());
        let conn = Connection::open(config)?;
        for n in 1..=3 {
            conn.set("key", n).wait()?;
            forwarder.cut_after(7, Cut::Close);
            let lost = conn.get::<i64>("key").wait();
            assert!(matches!(lost, Err(Error::ConnectionLost(_))), "{lost:?}");
            forwarder.mend();
            assert_eq!(conn.get::<i64>("key").wait()?, n);
            assert_eq!(conn.stats().reconnects, n as u64);
        }
    }
    Ok(())
}

#[test]
fn timeouts_keep_the_connection_in_step() -> Result<()> {
    let (authority, identity) = authority();
    for server in TlsServer::all(&identity, None) {
        let conn = Connection::open(config(server.tls_port, trusting(&authority)).timeout(Duration::from_millis(20)))?;
        let late = conn.blpop::<String, String>("queue", Duration::from_secs(60));
        let behind = conn.incr("n");
        let Err(redefer::WaitError::Timeout(late)) = late.wait_timeout(Duration::from_millis(20)) else {
            panic!("nobody has pushed anything");
        };
        Connection::open(server.url())?.rpush("queue", "element").wait()?;
        assert_eq!(late.wait()?, Some(("queue".to_owned(), "element".to_owned())));
        assert_eq!(behind.wait()?, 1);
        assert_eq!(conn.outstanding(), 0);
    }
    Ok(())
}

#[test]
fn a_server_that_is_killed_is_noticed() -> Result<()> {
    let (authority, identity) = authority();
    for server in TlsServer::all(&identity, None) {
        let conn = Connection::open(config(server.tls_port, trusting(&authority)))?;
        conn.set("key", "value").wait()?;
        server.kill();
        let outcome = support::within(LIMIT, move || conn.get::<String>("key").wait());
        assert!(matches!(outcome, Err(Error::ConnectionLost(_))), "{outcome:?}");
    }
    Ok(())
}
