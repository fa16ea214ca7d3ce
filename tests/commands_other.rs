//! Commands on connections, scripts and channels, against a real server.
#![cfg(feature = "testing")]

mod support;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use redefer::commands::{
    ClientAttribute, ClientKillFilter, ClientListOptions, ClientType, FlushMode, PauseMode, TrackingOptions,
    UnblockAnswer,
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
    assert_eq!((info.id, info.name.as_str(), info.db), (id, "me", 0));
    assert!(info.text.starts_with(&format!("id={id} ")) && info.text.contains(" name=me "), "{info:?}");
    assert_eq!(info.resp, Some(if support::is_resp2() { 2 } else { 3 }));
    assert_eq!((info.cmd.as_str(), info.user.as_deref(), info.redir), ("client|info", Some("default"), Some(-1)));
    assert!(info.address.starts_with("127.0.0.1:"), "{info:?}");
    assert_eq!(info.local_address, Some(format!("127.0.0.1:{}", server.port())));
    assert!(info.has_flag('N') && info.age < Duration::from_secs(60) && info.multi == -1, "{info:?}");
    assert_eq!(info.other, HashMap::new(), "all fields of this server are known");
    conn.client_setname("").wait()?;
    assert_eq!(conn.client_getname().wait()?, None);
    Ok(())
}

#[test]
fn a_connection_tells_about_itself() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.client_getredir().wait()?, -1);
    conn.client_no_evict(true).wait()?;
    assert!(conn.client_info().wait()?.has_flag('e'));
    conn.client_no_evict(false).wait()?;
    if knows(&conn, "client|no-touch")? {
        conn.client_no_touch(true).wait()?;
        assert!(conn.client_info().wait()?.has_flag('T'));
        conn.client_no_touch(false).wait()?;
    }
    if knows(&conn, "client|setinfo")? {
        conn.client_setinfo(ClientAttribute::LibName, "redefer(tests)").wait()?;
        conn.client_setinfo(ClientAttribute::LibVer, "9.9").wait()?;
        let info = conn.client_info().wait()?;
        assert_eq!((info.lib_name.as_deref(), info.lib_ver.as_deref()), (Some("redefer(tests)"), Some("9.9")));
    }
    Ok(())
}

#[test]
fn clients_are_listed() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let (id, other_id) = (conn.client_id().wait()?, other.client_id().wait()?);
    assert_eq!(conn.client_list().wait()?.len(), 2);
    let one = conn.client_list_with(ClientListOptions::new().ids([other_id])).wait()?;
    assert_eq!(one.iter().map(|client| client.id).collect::<Vec<_>>(), [other_id]);
    assert_eq!(conn.client_list_with(ClientListOptions::new().ids([id, other_id])).wait()?.len(), 2);
    for (kind, count) in
        [(ClientType::Normal, 2), (ClientType::Master, 0), (ClientType::Replica, 0), (ClientType::PubSub, 0)]
    {
        let list = conn.client_list_with(ClientListOptions::new().client_type(kind)).wait()?;
        assert_eq!(list.into_iter().count(), count, "{kind:?}");
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
        Ok((info.id, info.address, victim))
    };
    let clients = || -> Result<usize> { Ok(conn.client_list().wait()?.len()) };

    let (_, address, _victim) = victim()?;
    conn.client_kill(&address).wait()?;
    assert_eq!(conn.client_kill(&address).wait().unwrap_err().code(), Some("ERR"));
    support::until("killed by its address", || Ok(clients()? == 1))?;

    let (id_of_victim, address, _victim) = victim()?;
    let filter = ClientKillFilter::new().id(id_of_victim).address(address).user("default");
    assert_eq!(conn.client_kill_with(filter.clone().client_type(ClientType::PubSub)).wait()?, 0);
    assert_eq!(conn.client_kill_with(filter.client_type(ClientType::Normal)).wait()?, 1);
    support::until("killed by all conditions", || Ok(clients()? == 1))?;

    let (.., _victim) = victim()?;
    let local = format!("127.0.0.1:{}", server.port());
    assert_eq!(conn.client_kill_with(ClientKillFilter::new().local_address(local).skip_me(true)).wait()?, 1);
    support::until("killed by the address it came to", || Ok(clients()? == 1))?;

    assert_eq!(conn.client_kill_with(ClientKillFilter::new().id(id)).wait()?, 0, "spared by default");
    if is_at_least(&server, (7, 4, 0), (8, 0, 0)) {
        let old = ClientKillFilter::new().max_age(Duration::from_secs(1000));
        assert_eq!(conn.client_kill_with(old).wait()?, 0);
    }
    assert!(matches!(conn.client_kill_with(ClientKillFilter::new()).wait(), Err(Error::Argument(_))));
    Ok(())
}

/// Conditions that both CLIENT LIST and CLIENT KILL have on Valkey 9: each is met by `other` and not by `conn`.
#[test]
fn clients_are_filtered() -> Result<()> {
    let server = support::server();
    if server.name() != "valkey" || server.version() < (9, 0, 0) {
        return Ok(());
    }
    let (conn, other) = (support::open(&server), support::open(&server));
    other.client_setname("other").wait()?;
    other.client_setinfo(ClientAttribute::LibName, "lib").wait()?;
    other.client_setinfo(ClientAttribute::LibVer, "77").wait()?;
    other.client_capa("redirect").wait()?;
    other.client_no_evict(true).wait()?;
    other.select(3).wait()?;
    let mine = conn.client_info().wait()?;
    let it = other.client_info().wait()?;
    assert_eq!((it.capabilities.as_deref(), it.db), (Some("r"), 3));
    let local = it.local_address.clone().unwrap();
    let all = ClientListOptions::new;
    for (options, found) in [
        (all().user("default").skip_me(true), vec![it.id]),
        (all().address(&it.address), vec![it.id]),
        (all().local_address(&local), vec![mine.id, it.id]),
        (all().max_age(Duration::from_secs(1000)), vec![]),
        (all().idle(Duration::from_millis(999_999)), vec![]),
        (all().name("other"), vec![it.id]),
        (all().flags("e"), vec![it.id]),
        (all().lib_name("lib"), vec![it.id]),
        (all().lib_ver("77"), vec![it.id]),
        (all().db(3), vec![it.id]),
        (all().capabilities("r"), vec![it.id]),
        (all().ip("127.0.0.1"), vec![mine.id, it.id]),
        (all().not_type(ClientType::PubSub), vec![mine.id, it.id]),
        (all().not_ids([mine.id, 12345]), vec![it.id]),
        (all().not_user("default"), vec![]),
        (all().not_address(&it.address), vec![mine.id]),
        (all().not_local_address(&local), vec![]),
        (all().not_flags("e"), vec![mine.id]),
        (all().not_name("other"), vec![mine.id]),
        (all().not_lib_name("lib"), vec![mine.id]),
        (all().not_lib_ver("77"), vec![mine.id]),
        (all().not_db(3), vec![mine.id]),
        (all().not_capabilities("r"), vec![mine.id]),
        (all().not_ip("127.0.0.1"), vec![]),
    ] {
        let clients = conn.client_list_with(options.clone()).wait()?;
        assert_eq!(clients.iter().map(|client| client.id).collect::<Vec<_>>(), found, "{options:?}");
    }
    // One condition that is not met saves it.
    let it_if = || ClientKillFilter::new().ids([it.id, 12345]);
    for filter in [
        it_if().idle(Duration::from_secs(1000)),
        it_if().flags("b"),
        it_if().name("another"),
        it_if().lib_name("another"),
        it_if().lib_ver("7"),
        it_if().db(4),
        it_if().ip("127.0.0.2"),
        it_if().not_type(ClientType::Normal),
        it_if().not_ids([it.id]),
        it_if().not_user("default"),
        it_if().not_address(&it.address),
        it_if().not_local_address(&local),
        it_if().not_flags("e"),
        it_if().not_name("other"),
        it_if().not_lib_name("lib"),
        it_if().not_lib_ver("77"),
        it_if().not_db(3),
        it_if().not_capabilities("r"),
        it_if().not_ip("127.0.0.1"),
    ] {
        assert_eq!(conn.client_kill_with(filter.clone()).wait()?, 0, "{filter:?}");
    }
    let me_if = ClientKillFilter::new().ids([mine.id]).skip_me(false);
    assert_eq!(conn.client_kill_with(me_if.capabilities("r")).wait()?, 0);
    conn.acl_setuser("another", "on").wait()?;
    let met = it_if().flags("e").name("other").lib_name("lib").lib_ver("77").db(3);
    let met = met.capabilities("r").ip("127.0.0.1").not_type(ClientType::PubSub).not_ids([mine.id]).not_user("another");
    let met = met.not_address(mine.address).not_local_address("127.0.0.1:1").not_flags("b").not_name("another");
    let met = met.not_lib_name("another").not_lib_ver("7").not_db(4).not_ip("127.0.0.2");
    assert_eq!(conn.client_kill_with(met).wait()?, 1);
    Ok(())
}

#[test]
fn what_is_read_is_tracked() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let info = conn.client_trackinginfo().wait()?;
    assert_eq!((info.is_on(), info.redirect, info.prefixes.as_slice()), (false, -1, &[][..]));
    assert_eq!(info.flags, ["off"]);

    // In RESP2 somebody else has to take the messages.
    let mut subscriber = subscribe(&server, &["CLIENT ID", "SUBSCRIBE __redis__:invalidate"]);
    subscriber.wait_for("subscribe");
    let id: i64 =
        String::from_utf8_lossy(&subscriber.1).trim_start_matches(':').lines().next().unwrap().parse().unwrap();
    conn.client_tracking_with(TrackingOptions::new().redirect(id)).wait()?;
    assert_eq!(conn.client_getredir().wait()?, id);
    assert_eq!(conn.client_info().wait()?.redir, Some(id));
    conn.get::<Option<String>>("tracked").wait()?;
    other.set("tracked", "changed").wait()?;
    subscriber.wait_for("tracked");

    conn.client_tracking(false).wait()?;
    conn.client_tracking_with(TrackingOptions::new().redirect(id).bcast().prefix("a").prefix("b").noloop()).wait()?;
    let info = conn.client_trackinginfo().wait()?;
    let mut prefixes = info.prefixes;
    prefixes.sort();
    assert_eq!(prefixes, [b"a", b"b"]);
    assert!(info.flags.contains(&"bcast".into()) && info.flags.contains(&"noloop".into()), "{:?}", info.flags);
    assert_eq!(info.redirect, id);
    assert!(info.other.is_empty());

    for (options, yes, flag) in
        [(TrackingOptions::new().optin(), true, "caching-yes"), (TrackingOptions::new().optout(), false, "caching-no")]
    {
        conn.client_tracking(false).wait()?;
        conn.client_tracking_with(options.redirect(id)).wait()?;
        assert!(conn.client_caching(!yes).wait().is_err());
        conn.client_caching(yes).wait()?;
        assert!(conn.client_trackinginfo().wait()?.flags.contains(&flag.into()));
    }
    conn.client_tracking(false).wait()?;
    if !support::is_resp2() {
        conn.client_tracking(true).wait()?;
        assert!(conn.client_trackinginfo().wait()?.is_on());
        conn.get::<Option<String>>("mine").wait()?;
        other.set("mine", "changed").wait()?;
        conn.ping().wait()?;
        assert_eq!(conn.get::<String>("mine").wait()?, "changed", "pushes are skipped");
    }
    Ok(())
}

#[test]
fn a_connection_says_what_it_is_for() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    if knows(&conn, "client|capa")? {
        conn.client_capa(["redirect", "unknown"]).wait()?;
        assert_eq!(conn.client_info().wait()?.capabilities.as_deref(), Some("r"));
    }
    if knows(&conn, "client|import-source")? {
        assert_eq!(conn.client_import_source(true).wait().unwrap_err().code(), Some("ERR"), "not in import mode");
        conn.config_set(("import-mode", "yes")).wait()?;
        conn.client_import_source(true).wait()?;
        assert!(conn.client_info().wait()?.has_flag('I'));
        conn.client_import_source(false).wait()?;
    }
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
    support::until("unblocked", || conn.client_unblock(id).wait())?;
    assert_eq!(popped.wait()?, None);

    let popped = other.blpop::<String, String>("none", None);
    other.flush()?;
    support::until("unblocked", || conn.client_unblock_with(id, UnblockAnswer::Timeout).wait())?;
    assert_eq!(popped.wait()?, None);

    let popped = other.blpop::<String, String>("none", None);
    other.flush()?;
    support::until("unblocked", || conn.client_unblock_with(id, UnblockAnswer::Error).wait())?;
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
fn messages_are_sent_and_channels_counted() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let mut subscriber = subscribe(&server, &["SUBSCRIBE news", "SUBSCRIBE other", "PSUBSCRIBE n*"]);
    subscriber.wait_for("n*");
    assert_eq!(conn.pubsub_numpat().wait()?, 1);
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
    shards.wait_for("shard");
    assert_eq!(conn.pubsub_shardchannels::<String>().wait::<Vec<_>>()?, ["shard"]);
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

#[test]
fn an_empty_list_of_clients_kills_nobody() -> Result<()> {
    let server = support::server();
    let (conn, other) = (support::open(&server), support::open(&server));
    let nobody = || Vec::<i64>::new();
    let filter = ClientKillFilter::new().skip_me(true).ids(nobody());
    assert!(matches!(conn.client_kill_with(filter).wait(), Err(Error::Argument(_))));
    assert!(matches!(conn.client_kill_with(ClientKillFilter::new().ids(nobody())).wait(), Err(Error::Argument(_))));
    other.ping().wait()
}
