//! Commands on connections, scripts, the server and channels, against a real server.
#![cfg(feature = "testing")]

mod support;

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use redefer::commands::{
    ClientAttribute, ClientKillFilter, ClientListOptions, ClientType, FlushMode, PauseMode, UnblockAnswer,
};
use redefer::prelude::*;
use redefer::testing::Server;
use redefer::{Result, args};

/// Whether the server knows a command; `client|no-touch` is a subcommand.
fn knows(conn: &Connection, command: &str) -> Result<bool> {
    let found: Vec<Option<Value>> = conn.command("COMMAND", ("INFO", command)).wait()?;
    Ok(found.iter().any(Option::is_some))
}

/// Whether the server is at least this Redis or this Valkey.
fn is_at_least(server: &Server, redis: (u32, u32, u32), valkey: (u32, u32, u32)) -> bool {
    server.version() >= if server.name() == "valkey" { valkey } else { redis }
}

/// Waits until a condition holds.
fn until(what: &str, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !condition()? {
        assert!(start.elapsed() < Duration::from_secs(10), "still not so: {what}");
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// The value of a field in the text of INFO.
fn info<'t>(text: &'t str, field: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
}

#[test]
fn pings_and_echoes() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.ping().wait()?;
    assert_eq!(conn.ping_message::<String>("hi").wait()?, "hi");
    assert_eq!(conn.echo::<Vec<u8>>(b"\x00\xff").wait()?, b"\x00\xff");
    assert_eq!(conn.echo::<i64>(42).wait()?, 42);
    Ok(())
}

#[test]
fn a_connection_has_a_name_and_an_id() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.client_getname().wait()?, None);
    conn.client_setname("me").wait()?;
    assert_eq!(conn.client_getname().wait()?.as_deref(), Some("me"));
    assert_eq!(conn.client_setname("with space").wait().unwrap_err().code(), Some("ERR"));
    let id = conn.client_id().wait()?;
    assert!(id > 0);
    let info = conn.client_info().wait()?;
    assert!(info.starts_with(&format!("id={id} ")) && info.contains(" name=me "), "{info}");
    conn.client_setname("").wait()?;
    assert_eq!(conn.client_getname().wait()?, None);
    Ok(())
}

#[test]
fn a_connection_tells_about_itself() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.client_getredir().wait()?, -1);
    assert!(!conn.client_trackinginfo().wait()?.is_nil());
    conn.client_no_evict(true).wait()?;
    assert!(conn.client_info().wait()?.contains(" flags=e"));
    conn.client_no_evict(false).wait()?;
    if knows(&conn, "client|no-touch")? {
        conn.client_no_touch(true).wait()?;
        assert!(conn.client_info().wait()?.contains(" flags=T"));
        conn.client_no_touch(false).wait()?;
    }
    if knows(&conn, "client|setinfo")? {
        conn.client_setinfo(ClientAttribute::LibName, "redefer(tests)").wait()?;
        conn.client_setinfo(ClientAttribute::LibVer, "9.9").wait()?;
        let info = conn.client_info().wait()?;
        assert!(info.contains(" lib-name=redefer(tests) lib-ver=9.9"), "{info}");
    }
    Ok(())
}

#[test]
fn clients_are_listed() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let (id, other_id) = (conn.client_id().wait()?, other.client_id().wait()?);
    let lines = |text: String| text.lines().count();
    assert_eq!(lines(conn.client_list().wait()?), 2);
    let one = conn.client_list_with(ClientListOptions::new().ids([other_id])).wait()?;
    assert!(one.starts_with(&format!("id={other_id} ")) && one.lines().count() == 1, "{one}");
    assert_eq!(lines(conn.client_list_with(ClientListOptions::new().ids([id, other_id])).wait()?), 2);
    for (kind, count) in
        [(ClientType::Normal, 2), (ClientType::Master, 0), (ClientType::Replica, 0), (ClientType::PubSub, 0)]
    {
        let list = conn.client_list_with(ClientListOptions::new().client_type(kind)).wait()?;
        assert_eq!(list.lines().count(), count, "{kind:?}");
    }
    Ok(())
}

#[test]
fn clients_are_killed() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let id = conn.client_id().wait()?;
    let victim = || -> Result<(i64, String, Connection)> {
        let victim = support::open(&server);
        let info = victim.client_info().wait()?;
        let address = info.split(' ').find_map(|field| field.strip_prefix("addr=")).expect("an address");
        Ok((victim.client_id().wait()?, address.to_owned(), victim))
    };
    let clients = || -> Result<usize> { Ok(conn.client_list().wait()?.lines().count()) };

    let (_, address, _victim) = victim()?;
    conn.client_kill(&address).wait()?;
    assert_eq!(conn.client_kill(&address).wait().unwrap_err().code(), Some("ERR"));
    until("killed by its address", || Ok(clients()? == 1))?;

    let (id_of_victim, address, _victim) = victim()?;
    let filter = ClientKillFilter::new().id(id_of_victim).address(address).user("default");
    assert_eq!(conn.client_kill_with(filter.clone().client_type(ClientType::PubSub)).wait()?, 0);
    assert_eq!(conn.client_kill_with(filter.client_type(ClientType::Normal)).wait()?, 1);
    until("killed by all conditions", || Ok(clients()? == 1))?;

    let (.., _victim) = victim()?;
    let local = format!("127.0.0.1:{}", server.port());
    assert_eq!(conn.client_kill_with(ClientKillFilter::new().local_address(local).skip_me(true)).wait()?, 1);
    until("killed by the address it came to", || Ok(clients()? == 1))?;

    assert_eq!(conn.client_kill_with(ClientKillFilter::new().id(id)).wait()?, 0, "spared by default");
    if is_at_least(&server, (7, 4, 0), (8, 0, 0)) {
        let old = ClientKillFilter::new().max_age(Duration::from_secs(1000));
        assert_eq!(conn.client_kill_with(old).wait()?, 0);
    }
    assert!(matches!(conn.client_kill_with(ClientKillFilter::new()).wait(), Err(Error::Argument(_))));
    Ok(())
}

#[test]
fn clients_are_paused() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let start = Instant::now();
    conn.client_pause(Duration::from_millis(50)).wait()?;
    conn.ping().wait()?;
    conn.client_pause_with(Duration::from_millis(50), PauseMode::All).wait()?;
    conn.ping().wait()?;
    assert!(start.elapsed() >= Duration::from_millis(95), "{:?}", start.elapsed());

    conn.client_pause_with(Duration::from_secs(600), PauseMode::Write).wait()?;
    conn.ping().wait()?;
    conn.client_unpause().wait()?;
    conn.rpush("l", "written").wait()?;
    Ok(())
}

#[test]
fn blocked_clients_are_unblocked() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let id = other.client_id().wait()?;
    assert!(!conn.client_unblock(id).wait()?, "it is not blocked");

    let popped = other.blpop::<String, String>("none", None);
    other.flush()?;
    until("unblocked", || conn.client_unblock(id).wait())?;
    assert_eq!(popped.wait()?, None);

    let popped = other.blpop::<String, String>("none", None);
    other.flush()?;
    until("unblocked", || conn.client_unblock_with(id, UnblockAnswer::Timeout).wait())?;
    assert_eq!(popped.wait()?, None);

    let popped = other.blpop::<String, String>("none", None);
    other.flush()?;
    until("unblocked", || conn.client_unblock_with(id, UnblockAnswer::Error).wait())?;
    assert_eq!(popped.wait().unwrap_err().code(), Some("UNBLOCKED"));
    Ok(())
}

#[test]
fn scripts_run_with_keys_and_arguments() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.eval::<i64>("return 1", (), ()).wait()?, 1);
    assert_eq!(conn.eval::<i64>("return 3.99", (), ()).wait()?, 3);
    assert_eq!(conn.eval::<Option<String>>("return nil", (), ()).wait()?, None);
    assert_eq!(conn.eval::<Option<bool>>("return false", (), ()).wait()?, None);
    conn.eval::<()>("return {ok='fine'}", (), ()).wait()?;
    let echo = "return {KEYS[1], KEYS[2], ARGV[1], #KEYS, #ARGV}";
    let echoed: (String, String, String, i64, i64) = conn.eval(echo, ["a", "b"], (1, "x")).wait()?;
    assert_eq!(echoed, ("a".into(), "b".into(), "1".into(), 2, 2));
    let echoed: (String, String, String, i64, i64) =
        conn.eval_ro(echo, args::each(["a", "b"]), args::each(["x"])).wait()?;
    assert_eq!(echoed, ("a".into(), "b".into(), "x".into(), 2, 1));
    let error = conn.eval::<i64>("return {err='MYERR bad'}", (), ()).wait().unwrap_err();
    assert_eq!(error.code(), Some("MYERR"));
    assert!(conn.eval_ro::<i64>("return redis.call('rpush', KEYS[1], 1)", "l", ()).wait().is_err());
    Ok(())
}

#[test]
fn scripts_are_kept_by_digest() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let digest = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    assert_eq!(conn.evalsha::<i64>(digest, (), ()).wait().unwrap_err().code(), Some("NOSCRIPT"));
    assert_eq!(conn.script_load("return 1").wait()?, digest);
    assert_eq!(conn.evalsha::<i64>(digest, (), ()).wait()?, 1);
    assert_eq!(conn.evalsha_ro::<i64>(digest, "k", "a").wait()?, 1);
    let unknown = "f".repeat(40);
    assert_eq!(conn.script_exists([digest, &unknown]).wait::<Vec<bool>>()?, [true, false]);
    conn.script_flush().wait()?;
    assert_eq!(conn.script_exists(digest).wait::<Vec<bool>>()?, [false]);
    conn.script_flush_with(FlushMode::Sync).wait()?;
    conn.script_flush_with(FlushMode::Async).wait()?;
    assert_eq!(conn.script_kill().wait().unwrap_err().code(), Some("NOTBUSY"));
    Ok(())
}

#[test]
fn functions_are_loaded_and_called() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let code = "#!lua name=mylib\n\
        redis.register_function('count', function(keys, args) return #keys * 10 + #args end)\n\
        redis.register_function{function_name='look', callback=function() return 7 end, flags={'no-writes'}}";
    assert_eq!(conn.function_load(code).wait()?, "mylib");
    assert!(conn.function_load(code).wait().is_err(), "it is there already");
    assert_eq!(conn.function_load_replace(code).wait()?, "mylib");
    assert_eq!(conn.fcall::<i64>("count", ["a", "b"], (1, 2, 3)).wait()?, 23);
    assert_eq!(conn.fcall::<i64>("count", (), ()).wait()?, 0);
    assert_eq!(conn.fcall_ro::<i64>("look", "a", ()).wait()?, 7);
    assert!(conn.fcall_ro::<i64>("count", (), ()).wait().is_err(), "it may write");
    conn.function_delete("mylib").wait()?;
    assert!(conn.fcall::<i64>("count", (), ()).wait().is_err());
    conn.function_flush().wait()?;
    conn.function_flush_with(FlushMode::Sync).wait()?;
    assert_eq!(conn.function_kill().wait().unwrap_err().code(), Some("NOTBUSY"));
    Ok(())
}

#[test]
fn databases_are_emptied_and_exchanged() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let fill = || conn.sadd("s", "a").wait();
    assert_eq!(conn.dbsize().wait()?, 0);
    fill()?;
    assert_eq!(conn.dbsize().wait()?, 1);
    conn.swapdb(0, 1).wait()?;
    assert_eq!(conn.dbsize().wait()?, 0);
    conn.swapdb(1, 0).wait()?;
    assert_eq!(conn.dbsize().wait()?, 1);
    conn.flushdb().wait()?;
    assert_eq!(conn.dbsize().wait()?, 0);
    for flush in [FlushMode::Sync, FlushMode::Async] {
        fill()?;
        conn.flushdb_with(flush).wait()?;
        assert_eq!(conn.dbsize().wait()?, 0);
        fill()?;
        conn.flushall_with(flush).wait()?;
        assert_eq!(conn.dbsize().wait()?, 0);
    }
    fill()?;
    conn.flushall().wait()?;
    assert_eq!(conn.dbsize().wait()?, 0);
    Ok(())
}

#[test]
fn settings_are_read_and_changed() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.config_set(("maxmemory", "123mb")).wait()?;
    let found: Vec<(String, String)> = conn.config_get("maxmemory").wait()?;
    assert_eq!(found, [("maxmemory".into(), (123 << 20).to_string())]);
    conn.config_set([("maxmemory", "0"), ("timeout", "77")]).wait()?;
    let found: HashMap<String, String> = conn.config_get(["maxmemory", "timeout"]).wait()?;
    assert_eq!(found, HashMap::from([("maxmemory".into(), "0".into()), ("timeout".into(), "77".into())]));
    assert_eq!(conn.config_get("none*").wait::<Vec<_>>()?, []);
    assert!(conn.config_set(("maxmemory", "much")).wait().is_err());
    conn.config_resetstat().wait()?;
    // It depends on how the server was started whether there is a file to write.
    match conn.config_rewrite().wait() {
        Ok(()) => {}
        Err(error) => assert_eq!(error.code(), Some("ERR"), "{error}"),
    }
    Ok(())
}

#[test]
fn the_server_tells_about_itself() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let everything = conn.info().wait()?;
    assert!(everything.starts_with("# Server"), "the format of a verbatim string is no part of its text");
    assert_eq!(info(&everything, "role"), Some("master"));
    let some = conn.info_sections(["clients", "keyspace"]).wait()?;
    assert_eq!(info(&some, "connected_clients"), Some("1"));
    assert_eq!(info(&some, "redis_version"), None);
    assert!(conn.command_count().wait()? > 200);
    assert_eq!(conn.role().wait()?.elements()[0].as_str(), Some("master"));

    let age = conn.time().wait()?.duration_since(SystemTime::now() - Duration::from_secs(60)).expect("a recent time");
    assert!(age < Duration::from_secs(120), "{age:?}");
    Ok(())
}

#[test]
fn databases_are_saved() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let busy = || -> Result<bool> {
        let text = conn.info_sections("persistence").wait()?;
        let fields = ["rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled"];
        Ok(fields.into_iter().any(|field| info(&text, field) == Some("1")))
    };
    let started = conn.lastsave().wait()?;
    conn.save().wait()?;
    assert!(conn.lastsave().wait()? >= started);
    assert!(server.dir().join("dump.rdb").exists() || conn.lastsave().wait()? > started);
    conn.bgsave().wait()?;
    until("saved", || Ok(!busy()?))?;
    conn.bgsave_schedule().wait()?;
    until("saved again", || Ok(!busy()?))?;
    conn.bgrewriteaof().wait()?;
    until("rewritten", || Ok(!busy()?))?;
    Ok(())
}

#[test]
fn messages_are_sent_and_channels_counted() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let mut subscriber = subscribe(&server, &["SUBSCRIBE news", "SUBSCRIBE other", "PSUBSCRIBE n*"]);
    until("subscribed", || Ok(conn.pubsub_numpat().wait()? == 1))?;
    assert_eq!(conn.publish("news", "a message").wait()?, 2);
    assert_eq!(conn.publish("nobody", "a message").wait()?, 1, "by its pattern");
    assert_eq!(conn.publish("alone", "a message").wait()?, 0);
    let mut channels: Vec<String> = conn.pubsub_channels().wait()?;
    channels.sort();
    assert_eq!(channels, ["news", "other"]);
    assert_eq!(conn.pubsub_channels_with::<String>("n*").wait::<Vec<_>>()?, ["news"]);
    let counts: Vec<(String, i64)> = conn.pubsub_numsub(["news", "alone"]).wait()?;
    assert_eq!(counts, [("news".into(), 1), ("alone".into(), 0)]);
    assert_eq!(conn.pubsub_numsub::<String>(()).wait::<Vec<_>>()?, []);
    subscriber.wait_for("a message");

    let mut shards = subscribe(&server, &["SSUBSCRIBE shard"]);
    until("subscribed", || Ok(conn.pubsub_shardchannels::<String>().wait::<Vec<_>>()? == ["shard"]))?;
    assert_eq!(conn.spublish("shard", "to the shard").wait()?, 1);
    assert_eq!(conn.pubsub_shardchannels_with::<String>("x*").wait::<Vec<_>>()?, [""; 0]);
    let counts: Vec<(String, i64)> = conn.pubsub_shardnumsub("shard").wait()?;
    assert_eq!(counts, [("shard".into(), 1)]);
    shards.wait_for("to the shard");
    Ok(())
}

/// A subscribed client that is nothing but a socket.
struct Subscribed(std::net::TcpStream, Vec<u8>);

fn subscribe(server: &Server, commands: &[&str]) -> Subscribed {
    use std::io::Write;
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket.write_all(format!("{}\r\n", commands.join("\r\n")).as_bytes()).unwrap();
    Subscribed(socket, Vec::new())
}

impl Subscribed {
    fn wait_for(&mut self, text: &str) {
        use std::io::Read;
        while !self.1.windows(text.len()).any(|window| window == text.as_bytes()) {
            let mut some = [0; 4096];
            let n = self.0.read(&mut some).expect("the message comes in time");
            assert!(n > 0, "the server hung up");
            self.1.extend(&some[..n]);
        }
    }
}
