//! The first words with a server: each answer that servers, proxies and sentinels have been seen to give.

#![cfg(feature = "testing")]

mod support;

use std::error::Error as _;
use std::io;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use redefer::testing::Server;
use redefer::{Error, Protocol, Result, prelude::*};
use support::scripted::{HELLO_REPLY, Peer, Scripted, array};

/// A password that is found wherever it is shown.
const SECRET: &str = "s3cret-p4ss";

/// Everything that an error shows, with its causes; the password must not be in it.
#[track_caller]
fn shown(error: &Error) -> String {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(" {cause} {cause:?}"));
        source = cause.source();
    }
    assert!(!text.contains(SECRET) && !text.contains("s3cret"), "the password is shown: {text}");
    text
}

/// The error of a connect that must fail.
#[track_caller]
fn refused(config: Config) -> Error {
    match Connection::open(config) {
        Ok(conn) => panic!("connected: {conn:?}"),
        Err(error) => {
            shown(&error);
            error
        }
    }
}

#[track_caller]
fn refused_with(config: Config, code: &str) {
    let error = refused(config);
    assert_eq!(error.code(), Some(code), "{error}");
}

/// The connection works, and a password is not shown by it.
#[track_caller]
fn works(config: Config) -> Result<Connection> {
    let shown = format!("{config:?} {config:#?}");
    let conn = Connection::open(config)?;
    let shown = format!("{shown} {conn:?} {conn:#?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    conn.set("k", "v").wait()?;
    assert_eq!(conn.get::<String>("k").wait()?, "v");
    Ok(conn)
}

fn both(config: Config) -> [Config; 2] {
    [config.clone().protocol(Protocol::Resp2), config.protocol(Protocol::Resp3)]
}

/// A scripted server, and how to reach it in RESP3.
fn scripted(script: impl FnMut(&mut Peer) -> io::Result<()> + Send + 'static) -> Result<(Scripted, Config)> {
    let server = Scripted::start(script);
    let config = Config::from_url(&server.url())?.protocol(Protocol::Resp3);
    Ok((server, config))
}

/// The commands that tell the server about this crate.
fn info() -> Vec<u8> {
    let info = |what: &str, value: &str| array(["CLIENT", "SETINFO", what, value]);
    [info("LIB-NAME", "redefer"), info("LIB-VER", env!("CARGO_PKG_VERSION"))].concat()
}

/// Reads exactly these commands, and nothing more may have come with them.
fn expect_write(peer: &mut Peer, commands: &[&[&str]], with_info: bool) -> io::Result<()> {
    let before = peer.received();
    let mut bytes: Vec<u8> = commands.iter().flat_map(|command| array(*command)).collect();
    if with_info {
        bytes.extend(info());
    }
    peer.expect_bytes(&bytes)?;
    assert_eq!(peer.received() - before, bytes.len(), "more than the handshake was sent");
    Ok(())
}

const UNKNOWN_SETINFO: &str = "-ERR unknown subcommand 'SETINFO'. Try CLIENT HELP.\r\n";

// Real servers.

#[test]
fn a_server_without_a_password_takes_anybody_without_one() -> Result<()> {
    let server = support::server();
    let conn = works(support::config(&server))?;
    let protocol = if support::is_resp2() { Protocol::Resp2 } else { Protocol::Resp3 };
    assert_eq!(conn.protocol(), protocol);
    assert_eq!(conn.database(), 0);
    let info = conn.client_info().wait()?.text;
    assert!(info.contains(if support::is_resp2() { "resp=2" } else { "resp=3" }), "{info}");
    if server.version() >= (7, 2, 0) {
        assert!(info.contains("lib-name=redefer"), "{info}");
        assert!(info.contains(&format!("lib-ver={}", env!("CARGO_PKG_VERSION"))), "{info}");
    }
    Ok(())
}

#[test]
fn the_statistics_begin_behind_the_handshake() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.stats(), redefer::Stats::default());
    assert_eq!(conn.outstanding(), 0);
    Ok(())
}

#[test]
fn the_right_password_is_taken_and_a_wrong_one_is_not() -> Result<()> {
    let server = support::server_with([("requirepass", SECRET)]);
    for config in both(support::config(&server)) {
        works(config.clone().password(SECRET))?;
        works(config.clone().user("default").password(SECRET))?;
        refused_with(config.clone().password("s3cret-wrong"), "WRONGPASS");
        refused_with(config.clone().password(""), "WRONGPASS");
        refused_with(config.clone().user("nobody").password(SECRET), "WRONGPASS");
    }
    Ok(())
}

#[test]
fn a_server_with_a_password_refuses_who_has_none() -> Result<()> {
    let server = support::server_with([("requirepass", SECRET)]);
    refused_with(support::config(&server).protocol(Protocol::Resp3), "NOAUTH");
    // In RESP2 nothing needs an answer, so the first command is refused, by its own error.
    let conn = Connection::open(support::config(&server).protocol(Protocol::Resp2))?;
    assert_eq!(conn.get::<Value>("k").wait().unwrap_err().code(), Some("NOAUTH"));
    refused_with(support::config(&server).protocol(Protocol::Resp2).database(1), "NOAUTH");
    Ok(())
}

#[test]
fn an_open_server_does_not_take_an_unknown_user_for_the_default_one() -> Result<()> {
    let server = support::server();
    for config in both(support::config(&server)) {
        refused_with(config.clone().user("nobody").password(SECRET), "WRONGPASS");
        refused_with(config.user("nobody").password(SECRET).database(1), "WRONGPASS");
    }
    Ok(())
}

#[test]
fn an_open_server_and_a_password_that_it_does_not_need() -> Result<()> {
    let server = support::server();
    works(support::config(&server).password(SECRET).protocol(Protocol::Resp3))?;
    for config in both(support::config(&server)) {
        works(config.user("default").password(SECRET))?;
    }
    // AUTH with one argument is an error there, whose text is not needed.
    refused_with(support::config(&server).password(SECRET).protocol(Protocol::Resp2), "ERR");
    Ok(())
}

#[test]
fn users_are_logged_in_whatever_they_are_not_allowed() -> Result<()> {
    let server = support::server_with([
        ("user", "nohello on >s3cret-p4ss ~* &* +@all -hello -auth"),
        ("user", "noselect on >s3cret-p4ss ~* &* +@all -select"),
        ("user", "noclient on >s3cret-p4ss ~* &* +@all -client"),
        ("user", "few on >s3cret-p4ss ~* &* -@all +@read +@write"),
        ("user", "nopass on nopass ~* &* +@all"),
        ("user", "off off >s3cret-p4ss ~* &* +@all"),
        ("user", "default off"),
    ]);
    for config in both(support::config(&server)) {
        for user in ["nohello", "noselect", "noclient", "few"] {
            works(config.clone().user(user).password(SECRET))?;
            refused_with(config.clone().user(user).password("s3cret-wrong"), "WRONGPASS");
        }
        for password in ["", SECRET] {
            works(config.clone().user("nopass").password(password))?;
        }
        refused_with(config.clone().user("off").password(SECRET), "WRONGPASS");
        // Database 0 needs no SELECT, and any other does.
        works(config.clone().user("noselect").password(SECRET).database(0))?;
        refused_with(config.clone().user("noselect").password(SECRET).database(1), "NOPERM");
        refused_with(config.clone().user("few").password(SECRET).database(1), "NOPERM");
        let conn = works(config.clone().user("few").password(SECRET))?;
        assert_eq!(conn.ping().wait().unwrap_err().code(), Some("NOPERM"), "and is alive all the same");
    }
    // SETNAME inside HELLO needs no permission.
    let config = support::config(&server).user("noclient").password(SECRET).client_name("me");
    works(config.protocol(Protocol::Resp3)).map(drop)
}

#[test]
fn a_user_without_setinfo_gets_on_without_it() -> Result<()> {
    let server = support::server();
    if server.version() < (7, 2, 0) {
        // Does not know the subcommand, in ACL neither, and refuses it to all: tested by all other tests.
        assert!(support::open(&server).client_info().wait()?.text.contains("id="));
        return Ok(());
    }
    let server = support::server_with([("user", "noinfo on >s3cret-p4ss ~* &* +@all -client|setinfo")]);
    for config in both(support::config(&server)) {
        let conn = works(config.user("noinfo").password(SECRET))?;
        assert!(!conn.client_info().wait()?.text.contains("lib-name=redefer"));
    }
    Ok(())
}

#[test]
fn a_server_whose_hello_is_renamed_is_spoken_to_in_resp2_and_never_shows_the_password() -> Result<()> {
    let server = support::server_with([("rename-command", "HELLO \"\""), ("requirepass", SECRET)]);
    for config in both(support::config(&server)) {
        let conn = works(config.clone().password(SECRET).database(2).client_name("me"))?;
        assert_eq!((conn.protocol(), conn.database()), (Protocol::Resp2, 2));
        assert_eq!(conn.client_getname().wait()?.as_deref(), Some("me"));
        conn.hset("hash", ("field", "value")).wait()?;
        assert_eq!(
            conn.hgetall::<String, String>("hash").wait::<Vec<_>>()?,
            [("field".to_owned(), "value".to_owned())]
        );
        works(config.clone().user("default").password(SECRET))?;
        refused_with(config.clone().password("s3cret-wrong"), "WRONGPASS");
        refused_with(config.clone().user("nobody").password(SECRET), "WRONGPASS");
        refused_with(config.clone().password(SECRET).database(99), "ERR");
        refused_with(config.clone().password(SECRET).client_name("two words"), "ERR");
    }
    let open = support::server_with([("rename-command", "HELLO \"\"")]);
    for config in both(support::config(&open)) {
        works(config.clone())?;
        refused_with(config.clone().user("nobody").password(SECRET), "WRONGPASS");
    }
    Ok(())
}

#[test]
fn a_server_without_hello_and_auth_never_shows_the_password() -> Result<()> {
    let server = support::server_with([("rename-command", "HELLO \"\""), ("rename-command", "AUTH \"\"")]);
    for config in both(support::config(&server)) {
        refused(config.clone().password(SECRET));
        refused(config.user("default").password(SECRET));
    }
    Ok(())
}

#[test]
fn the_database_is_selected_or_the_connect_fails() -> Result<()> {
    let server = support::server();
    for config in both(support::config(&server)) {
        let conn = works(config.clone().database(7))?;
        assert_eq!(conn.database(), 7);
        assert!(conn.client_info().wait()?.text.contains("db=7"));
        let error = refused(config.clone().database(99));
        assert!(error.to_string().contains("DB index is out of range"), "{error}");
        refused(config.database(u32::MAX));
    }
    Ok(())
}

#[test]
fn the_name_is_set_or_the_connect_fails() -> Result<()> {
    let server = support::server_with([("requirepass", SECRET)]);
    for config in both(support::config(&server).password(SECRET)) {
        let conn = works(config.clone().client_name("worker-1"))?;
        assert_eq!(conn.client_getname().wait()?.as_deref(), Some("worker-1"));
        let conn = works(config.clone().client_name(""))?;
        assert_eq!(conn.client_getname().wait()?.unwrap_or_default(), "");
        for bad in ["two words", "line\nend", "größe"] {
            let error = refused(config.clone().client_name(bad));
            assert!(error.to_string().contains("Client names cannot contain"), "{error}");
        }
    }
    Ok(())
}

#[test]
fn a_full_server_says_so() -> Result<()> {
    let server = support::server_with([("maxclients", "1")]);
    let _only = support::open(&server);
    for config in [support::config(&server), support::unix_config(&server)] {
        for config in both(config) {
            for _ in 0..5 {
                let error = refused(config.clone());
                assert_eq!(error.to_string(), "ERR max number of clients reached");
            }
            refused_with(config.password(SECRET), "ERR");
        }
    }
    Ok(())
}

#[test]
fn a_paused_server_is_waited_for_no_longer_than_the_connect_timeout() -> Result<()> {
    let server = support::server();
    let other = support::open(&server);
    other.client_pause(Duration::from_secs(100)).wait()?;
    // Redis 7.0 refuses the unknown SETINFO in spite of the pause, and RESP2 would have nothing else to wait for.
    for config in both(support::config(&server).database(1)) {
        let error = refused(config.connect_timeout(Duration::from_millis(100)).timeout(Duration::from_secs(100)));
        assert!(matches!(error, Error::Timeout), "{error}");
    }
    server.kill();
    Ok(())
}

#[test]
fn a_server_busy_with_a_script_is_connected_to() -> Result<()> {
    let server = support::server_with([("lua-time-limit", "1")]);
    let config = support::config(&server).timeout(None);
    let looping = config.clone();
    let script = thread::spawn(move || -> Result<()> {
        Connection::open(looping)?.eval::<Value>("while true do end", (), ()).wait().map(drop)
    });
    // Before the script runs, PING is answered; once it runs, HELLO still is.
    loop {
        let conn = Connection::open(config.clone())?;
        match conn.ping().wait() {
            Ok(()) => thread::yield_now(),
            Err(error) => {
                assert_eq!(error.code(), Some("BUSY"), "{error}");
                break;
            }
        }
    }
    match Connection::open(config.clone().database(1)) {
        Ok(conn) => assert_eq!(conn.database(), 1),
        Err(error) => assert_eq!(error.code(), Some("BUSY"), "{error}"),
    }
    Connection::open(config)?.command::<()>("SCRIPT KILL", ()).wait()?;
    let outcome = script.join().expect("no panic");
    assert!(outcome.is_err_and(|error| error.as_server_error().is_some()));
    Ok(())
}

#[test]
fn a_replica_is_connected_to() -> Result<()> {
    let primary = support::server();
    let replica = support::server_with([("replicaof", &*format!("127.0.0.1 {}", primary.port()))]);
    for config in both(support::config(&replica)) {
        let conn = Connection::open(config)?;
        assert_eq!(conn.set("k", "v").wait().unwrap_err().code(), Some("READONLY"));
    }
    Ok(())
}

// Where servers are.

#[test]
fn a_unix_socket_is_connected_to() -> Result<()> {
    let server = support::server_with([("requirepass", SECRET)]);
    for config in both(Config::unix(server.socket()).password(SECRET)) {
        works(config)?;
    }
    let url = format!("{}?db=3&password={SECRET}", server.unix_url());
    let conn = works(support::config_for(&url))?;
    assert_eq!(conn.database(), 3);
    Ok(())
}

#[test]
fn an_ipv6_address_is_connected_to() -> Result<()> {
    let url = |server: &Server| format!("redis://[::1]:{}", server.port());
    if TcpListener::bind("[::1]:0").is_err() {
        // No IPv6 on this machine: then at least the error is one of the system's.
        let server = support::server();
        assert!(matches!(refused(support::config_for(&url(&server))), Error::Io(_)));
        return Ok(());
    }
    let server = support::server_with([("bind", "127.0.0.1 ::1")]);
    works(support::config_for(&url(&server)))?;
    works(Config::tcp("::1", server.port()))?;
    Ok(())
}

#[test]
fn a_name_with_several_addresses_is_tried_until_one_answers() -> Result<()> {
    // Often ::1 and 127.0.0.1, and nobody listens on the first.
    let server = support::server();
    works(support::config_for(&format!("redis://localhost:{}", server.port()))).map(drop)
}

#[test]
fn passwords_of_any_bytes_are_taken_from_the_url() -> Result<()> {
    let password = "p@s:s/w?o#r%d ü€+&=";
    let server = support::server();
    let admin = support::open(&server);
    admin.command::<()>("ACL SETUSER", ("sp@c:ial", "on", format!(">{password}"), "~*", "&*", "+@all")).wait()?;
    let escaped = "p%40s%3As%2Fw%3Fo%23r%25d%20%C3%BC%E2%82%AC+%26%3D";
    let config = support::config_for(&format!("redis://sp%40c%3Aial:{escaped}@127.0.0.1:{}/1", server.port()));
    for config in both(config) {
        let conn = Connection::open(config)?;
        assert_eq!(conn.command::<String>("ACL WHOAMI", ()).wait()?, "sp@c:ial");
        let shown = format!("{conn:?}");
        assert!(!shown.contains("p@s") && !shown.contains("p%40s"), "{shown}");
    }
    Ok(())
}

#[cfg(not(feature = "tls"))]
#[test]
fn tls_without_its_feature_is_refused_before_anything_is_dialled() -> Result<()> {
    for url in ["rediss://127.0.0.1", "rediss://user:s3cret-p4ss@localhost:6379/1", "valkeys://127.0.0.1"] {
        let Err(error @ Error::Config(_)) = Connection::open(url) else { panic!("{url} was taken") };
        assert!(shown(&error).contains("TLS"), "{error}");
    }
    Ok(())
}

#[test]
fn what_cannot_be_dialled_is_an_error() -> Result<()> {
    let port = redefer::testing::free_port()?;
    match refused(Config::tcp("127.0.0.1", port).password(SECRET)) {
        Error::Io(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused),
        other => panic!("{other:?}"),
    }
    match refused(Config::unix("/nonexistent/redis.sock").password(SECRET)) {
        Error::Io(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound),
        other => panic!("{other:?}"),
    }
    let too_long = format!("/tmp/{}", "x".repeat(200));
    match refused(Config::unix(&too_long)) {
        Error::Config(text) => assert!(text.contains("path"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(Connection::open(format!("redis+unix://{too_long}")), Err(Error::Config(_))));
    assert!(matches!(Connection::open("redis://127.0.0.1:0"), Err(Error::Config(_))));
    assert!(matches!(Connection::open("http://127.0.0.1"), Err(Error::Config(_))));
    Ok(())
}

// Scripted: what goes out.

#[test]
fn the_first_write_is_all_of_the_handshake_and_nothing_else() -> Result<()> {
    let (server, config) = scripted(|peer| {
        match peer.number() {
            0 => {
                expect_write(peer, &[&["HELLO", "3"]], true)?;
                peer.send(format!("{HELLO_REPLY}+OK\r\n+OK\r\n"))?;
            }
            1 => {
                expect_write(peer, &[&["HELLO", "3", "AUTH", "default", "p"]], true)?;
                peer.send(format!("{HELLO_REPLY}+OK\r\n+OK\r\n"))?;
            }
            2 => {
                let hello = ["HELLO", "3", "AUTH", "u", "p", "SETNAME", "n"];
                expect_write(peer, &[&hello, &["SELECT", "5"]], true)?;
                peer.send(format!("{HELLO_REPLY}+OK\r\n+OK\r\n+OK\r\n"))?;
            }
            _ => {
                expect_write(peer, &[&["HELLO", "3"]], true)?;
                peer.send(format!("{HELLO_REPLY}{UNKNOWN_SETINFO}{UNKNOWN_SETINFO}"))?;
            }
        }
        peer.expect(["PING"])?;
        peer.send("+PONG\r\n")?;
        peer.expect_end()
    })?;
    let configs = [
        config.clone(),
        config.clone().password("p"),
        config.clone().user("u").password("p").client_name("n").database(5),
        config.database(0).client_name(""),
    ];
    for config in configs {
        let conn = Connection::open(config)?;
        assert_eq!(conn.protocol(), Protocol::Resp3);
        conn.ping().wait()?;
    }
    server.finish();
    Ok(())
}

#[test]
fn resp2_needs_no_hello() -> Result<()> {
    let (server, config) = scripted(|peer| {
        match peer.number() {
            0 => expect_write(peer, &[], true)?,
            1 => {
                expect_write(peer, &[&["AUTH", "p"]], true)?;
                peer.send("+OK\r\n")?;
            }
            _ => {
                let commands: [&[&str]; 3] = [&["AUTH", "u", "p"], &["CLIENT", "SETNAME", "n"], &["SELECT", "5"]];
                expect_write(peer, &commands, true)?;
                peer.send("+OK\r\n+OK\r\n+OK\r\n")?;
            }
        }
        peer.send(UNKNOWN_SETINFO.repeat(2))?;
        peer.expect(["PING"])?;
        peer.send("+PONG\r\n")?;
        peer.expect_end()
    })?;
    let config = config.protocol(Protocol::Resp2);
    let configs =
        [config.clone(), config.clone().password("p"), config.user("u").password("p").client_name("n").database(5)];
    for config in configs {
        let conn = Connection::open(config)?;
        assert_eq!(conn.protocol(), Protocol::Resp2);
        conn.ping().wait()?;
    }
    server.finish();
    Ok(())
}

// Scripted: what comes back.

#[test]
fn servers_and_proxies_without_hello_get_resp2_in_a_second_write() -> Result<()> {
    const REFUSALS: [&str; 6] = [
        "-NOPROTO unsupported protocol version",
        "-ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `u`, `s3cret-p4ss`, ",
        "-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'u' 's3cret-p4ss' ",
        "-ERR unsupported command",
        "-ERR Protocol version is not an integer or out of range",
        "-what is this",
    ];
    let (server, config) = scripted(|peer| {
        let hello = ["HELLO", "3", "AUTH", "u", SECRET, "SETNAME", "n"];
        expect_write(peer, &[&hello, &["SELECT", "5"]], true)?;
        let noauth = "-NOAUTH Authentication required.\r\n".repeat(3);
        peer.send(format!("{}\r\n{noauth}", REFUSALS[peer.number()]))?;
        let commands: [&[&str]; 3] = [&["AUTH", "u", SECRET], &["CLIENT", "SETNAME", "n"], &["SELECT", "5"]];
        expect_write(peer, &commands, true)?;
        peer.send("+OK\r\n+OK\r\n+OK\r\n")?;
        peer.send(UNKNOWN_SETINFO.repeat(2))?;
        peer.expect(["PING"])?;
        peer.send("+PONG\r\n")?;
        peer.expect_end()
    })?;
    for _ in REFUSALS {
        let conn = Connection::open(config.clone().user("u").password(SECRET).client_name("n").database(5))?;
        assert_eq!((conn.protocol(), conn.database()), (Protocol::Resp2, 5));
        conn.ping().wait()?;
    }
    server.finish();
    Ok(())
}

#[test]
fn a_proxy_without_auth_never_shows_the_password() -> Result<()> {
    const REFUSALS: [&str; 4] = [
        "-ERR unknown command `AUTH`, with args beginning with: `s3cret-p4ss`, ",
        "-ERR s3cret-p4ss is no password",
        "-s3cret-p4ss",
        "-NOSUCHCODE s3cret-p4ss",
    ];
    let (server, config) = scripted(|peer| {
        peer.read_commands(3)?;
        peer.send("-ERR no\r\n-ERR no\r\n-ERR no\r\n")?;
        peer.expect(["AUTH", SECRET])?;
        peer.read_commands(2)?;
        peer.send(format!("{}\r\n-ERR no\r\n-ERR no\r\n", REFUSALS[peer.number()]))?;
        peer.read_to_end().map(drop)
    })?;
    for refusal in REFUSALS {
        let error = refused(config.clone().password(SECRET));
        assert!(error.as_server_error().is_some(), "{refusal}: {error}");
    }
    server.finish();
    Ok(())
}

#[test]
fn an_error_to_hello_itself_never_shows_the_password() -> Result<()> {
    const REFUSALS: [&str; 4] = [
        "-WRONGPASS s3cret-p4ss",
        "-ERR max number of clients reached s3cret-p4ss",
        "-ERR Client names cannot contain spaces: s3cret-p4ss",
        "-NOSUCHCODE s3cret-p4ss",
    ];
    let (server, config) = scripted(|peer| {
        peer.read_commands(3)?;
        peer.send(format!("{}\r\n+OK\r\n+OK\r\n", REFUSALS[peer.number()]))?;
        peer.read_to_end().map(drop)
    })?;
    for refusal in REFUSALS {
        // The texts of known errors may be kept, as no server puts an argument into them; these have been tampered with.
        let error = Connection::open(config.clone().password(SECRET)).map(drop).expect_err(refusal);
        assert!(error.as_server_error().is_some(), "{refusal}: {error}");
        if refusal.starts_with("-NOSUCHCODE") {
            shown(&error);
            assert_eq!(error.code(), Some("NOSUCHCODE"));
        }
    }
    server.finish();
    Ok(())
}

#[test]
fn noauth_although_credentials_were_sent_is_met_with_auth_alone_then_hello_then_resp2() -> Result<()> {
    const NOAUTH: &str = "-NOAUTH Authentication required.\r\n";
    let (server, config) = scripted(|peer| {
        let hello = ["HELLO", "3", "AUTH", "u", SECRET];
        expect_write(peer, &[&hello], true)?;
        peer.send(NOAUTH.repeat(3))?;
        expect_write(peer, &[&["AUTH", "u", SECRET]], false)?;
        match peer.number() {
            0 => {
                peer.send("+OK\r\n")?;
                expect_write(peer, &[&hello], true)?;
                peer.send(format!("{HELLO_REPLY}+OK\r\n+OK\r\n"))?;
            }
            1 => {
                peer.send("+OK\r\n")?;
                expect_write(peer, &[&hello], true)?;
                peer.send(format!(
                    "-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'u' '{SECRET}'\r\n"
                ))?;
                peer.send(UNKNOWN_SETINFO.repeat(2))?;
                expect_write(peer, &[&["AUTH", "u", SECRET]], true)?;
                peer.send(format!("+OK\r\n{}", UNKNOWN_SETINFO.repeat(2)))?;
            }
            _ => {
                peer.send("-WRONGPASS invalid username-password pair or user is disabled.\r\n")?;
                return peer.expect_end();
            }
        }
        peer.expect(["PING"])?;
        peer.send("+PONG\r\n")?;
        peer.expect_end()
    })?;
    let config = config.user("u").password(SECRET);
    for protocol in [Protocol::Resp3, Protocol::Resp2] {
        let conn = Connection::open(config.clone())?;
        assert_eq!(conn.protocol(), protocol);
        conn.ping().wait()?;
    }
    refused_with(config, "WRONGPASS");
    server.finish();
    Ok(())
}

#[test]
fn a_refused_login_is_not_healed_by_replies_that_say_ok() -> Result<()> {
    const REFUSALS: [&str; 5] = [
        "-WRONGPASS invalid username-password pair or user is disabled.",
        "-ERR Client names cannot contain spaces, newlines or special characters.",
        "-ERR max number of clients reached",
        "-DENIED Redis is running in protected mode",
        "-NOPERM this user has no permissions to run the 'hello' command",
    ];
    let (server, config) = scripted(|peer| {
        peer.read_commands(4)?;
        peer.send(format!("{}\r\n+OK\r\n+OK\r\n+OK\r\n", REFUSALS[peer.number()]))?;
        peer.expect_end()
    })?;
    for refusal in REFUSALS {
        let error = refused(config.clone().user("u").password(SECRET).client_name("n").database(1));
        assert!(error.as_server_error().is_some(), "{error}");
        assert_eq!(error.to_string(), refusal[1..], "the reason is told");
    }
    server.finish();
    Ok(())
}

#[test]
fn a_failed_select_fails_the_connect_whatever_else_is_ok() -> Result<()> {
    let (server, config) = scripted(|peer| {
        peer.read_commands(4)?;
        peer.send(format!("{HELLO_REPLY}-ERR DB index is out of range\r\n+OK\r\n+OK\r\n"))?;
        peer.expect_end()
    })?;
    let error = refused(config.database(99));
    assert_eq!(error.to_string(), "ERR DB index is out of range");
    server.finish();
    Ok(())
}

#[test]
fn a_sentinel_is_not_asked_to_select() -> Result<()> {
    const HELLO: &str = "%6\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n\
                         $2\r\nid\r\n:3\r\n$4\r\nmode\r\n$8\r\nsentinel\r\n$7\r\nmodules\r\n*0\r\n";
    let (server, config) = scripted(|peer| {
        if peer.number() == 0 {
            expect_write(peer, &[&["HELLO", "3"]], true)?;
            peer.send(format!("{HELLO}{}", UNKNOWN_SETINFO.repeat(2)))?;
            peer.expect(["PING"])?;
            peer.send("+PONG\r\n")?;
        } else {
            expect_write(peer, &[&["HELLO", "3"], &["SELECT", "1"]], true)?;
            let select = "-ERR unknown command 'SELECT', with args beginning with: '1'\r\n";
            peer.send(format!("{HELLO}{select}{}", UNKNOWN_SETINFO.repeat(2)))?;
        }
        peer.expect_end()
    })?;
    Connection::open(config.clone())?.ping().wait()?;
    refused_with(config.database(1), "ERR");
    server.finish();
    Ok(())
}

#[test]
fn loading_lets_the_handshake_through_and_is_an_error_of_the_first_command() -> Result<()> {
    let (server, config) = scripted(|peer| {
        peer.handshake()?;
        peer.expect(["GET", "k"])?;
        peer.send("-LOADING Redis is loading the dataset in memory\r\n")?;
        peer.expect(["GET", "k"])?;
        peer.send("$1\r\nv\r\n")?;
        peer.expect_end()
    })?;
    let conn = Connection::open(config)?;
    assert_eq!(conn.get::<String>("k").wait().unwrap_err().code(), Some("LOADING"));
    assert_eq!(conn.get::<String>("k").wait()?, "v");
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn errors_of_setinfo_are_ignored_and_its_silence_is_not() -> Result<()> {
    const ANSWERS: [&str; 4] = ["+OK\r\n", UNKNOWN_SETINFO, "-NOPERM no\r\n", "-NOAUTH no\r\n"];
    let (server, config) = scripted(|peer| {
        let number = peer.number();
        if number >= 20 {
            // The client may be gone before this is said.
            let _ = peer.send([HELLO_REPLY, ANSWERS[number % 4]].concat());
            return peer.read_to_end().map(drop);
        }
        peer.read_commands(3)?;
        peer.send(HELLO_REPLY)?;
        if number < 16 {
            peer.send([ANSWERS[number / 4], ANSWERS[number % 4]].concat())?;
            peer.expect(["PING"])?;
            peer.send("+PONG\r\n")?;
            peer.expect_end()
        } else {
            // The end in front of the last answer.
            peer.send(ANSWERS[number % 4])?;
            peer.close();
            Ok(())
        }
    })?;
    for _ in 0..16 {
        Connection::open(config.clone())?.ping().wait()?;
    }
    for number in 16..20 {
        let error = refused(config.clone());
        let lost = matches!(error, Error::Io(_) | Error::ConnectionLost(_));
        assert!(lost, "the server is gone, which an error of SETINFO does not say ({number}): {error:?}");
    }
    for _ in 20..24 {
        let error = refused(config.clone().connect_timeout(Duration::from_millis(50)));
        assert!(matches!(error, Error::Timeout), "{error:?}");
    }
    server.finish();
    Ok(())
}

#[test]
fn a_server_that_closes_at_any_byte_of_the_handshake_fails_the_connect() -> Result<()> {
    let answers = format!("{HELLO_REPLY}+OK\r\n-ERR no\r\n+OK\r\n");
    let length = answers.len();
    let (server, config) = scripted(move |peer| {
        peer.read_commands(4)?;
        peer.send(&answers[..peer.number()])?;
        if peer.number() == answers.len() {
            peer.expect_end()
        } else {
            peer.close();
            Ok(())
        }
    })?;
    let config = config.user("u").password(SECRET).database(1);
    for _ in 0..length {
        refused(config.clone());
    }
    Connection::open(config)?;
    server.finish();
    Ok(())
}

#[test]
fn answers_in_the_smallest_pieces_are_answers() -> Result<()> {
    let (server, config) = scripted(|peer| {
        peer.read_commands(4)?;
        peer.send_bytewise(format!("{HELLO_REPLY}+OK\r\n-ERR no\r\n+OK\r\n"))?;
        peer.expect(["PING"])?;
        peer.send("+PONG\r\n")?;
        peer.expect_end()
    })?;
    let conn = Connection::open(config.database(1))?;
    conn.ping().wait()?;
    drop(conn);
    server.finish();
    Ok(())
}

#[test]
fn pushes_after_hello_are_no_answers() -> Result<()> {
    let (server, config) = scripted(|peer| {
        const PUSH: &str = ">2\r\n+invalidate\r\n_\r\n";
        peer.read_commands(4)?;
        peer.send(format!("{HELLO_REPLY}{PUSH}-ERR DB index is out of range\r\n{PUSH}+OK\r\n{PUSH}+OK\r\n"))?;
        peer.expect_end()
    })?;
    refused_with(config.database(1), "ERR");
    server.finish();
    Ok(())
}

#[test]
fn what_a_server_says_unasked_before_it_closes_is_the_reason() -> Result<()> {
    const REASONS: [&str; 2] =
        ["-ERR max number of clients reached\r\n", "-DENIED Redis is running in protected mode\r\n"];
    let (server, config) = scripted(|peer| {
        // Sometimes behind the client's words, sometimes without having read them, which makes it a reset.
        if peer.number() % 2 == 0 {
            peer.read_commands(4)?;
        }
        peer.send(REASONS[peer.number() / 2 % 2])?;
        peer.close();
        Ok(())
    })?;
    for number in 0..40 {
        let error = refused(config.clone().user("u").password(SECRET).client_name("n").database(1));
        let reason = REASONS[number / 2 % 2].trim_end();
        assert_eq!(error.to_string(), reason[1..], "{number}: {error:?}");
    }
    server.finish();
    Ok(())
}

#[test]
fn what_is_not_the_protocol_is_told_as_such() -> Result<()> {
    const GARBAGE: [&[u8]; 5] =
        [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", b"\x16\x03\x01\r\n", b"$-5\r\n", b":abc\r\n"];
    let (server, config) = scripted(|peer| {
        peer.read_commands(3)?;
        peer.send(GARBAGE[peer.number() % GARBAGE.len()])?;
        peer.read_to_end().map(drop)
    })?;
    for garbage in GARBAGE {
        let error = refused(config.clone().password(SECRET));
        assert!(matches!(error, Error::Protocol(_)), "{garbage:?}: {error:?}");
    }
    server.finish();
    Ok(())
}

#[test]
fn a_silent_server_is_waited_for_no_longer_than_the_connect_timeout() -> Result<()> {
    let (server, config) = scripted(|peer| {
        // Some of the answers, and then silence; once it is pushes without end.
        // The client may be gone before anything is said.
        match peer.number() {
            0 => {}
            1 => drop(peer.send(&HELLO_REPLY[..20])),
            2 => drop(peer.send(HELLO_REPLY)),
            _ => while peer.send(">1\r\n+x\r\n").is_ok() {},
        }
        let _ = peer.read_to_end();
        Ok(())
    })?;
    for number in 0..4 {
        let config = config.clone().connect_timeout(Duration::from_millis(60)).timeout(None);
        let error = support::within(Duration::from_secs(20), move || refused(config));
        assert!(matches!(error, Error::Timeout), "{number}: {error:?}");
    }
    server.finish();
    Ok(())
}

#[test]
fn a_word_too_many_behind_the_handshake_is_nobodys_reply() -> Result<()> {
    let (server, config) = scripted(|peer| {
        peer.read_commands(3)?;
        peer.send(format!("{HELLO_REPLY}+OK\r\n+OK\r\n+SURPLUS\r\n"))?;
        peer.read_to_end().map(drop)
    })?;
    let conn = Connection::open(config)?;
    match conn.echo::<String>("mine").wait() {
        Err(error) => assert!(error.is_connection_lost(), "{error}"),
        Ok(text) => panic!("{text}"),
    }
    drop(conn);
    server.finish();
    Ok(())
}
