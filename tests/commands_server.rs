//! Commands on the server, against a real server.
#![cfg(feature = "testing")]

mod support;

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use redefer::commands::{
    AclDryRun, AclRules, BeginSearch, CommandDocs, CommandFilter, CommandlogKind, FailoverOptions, FindKeys, FlushMode,
    KeySpec, LatencyHistogram, ModuleOptions, Role, SetOptions, ShutdownOptions,
};
use redefer::prelude::*;
use redefer::testing::Server;
use redefer::{ConnectionLost, Result, Sent};

type Version = (u32, u32, u32);

/// Whether the server knows a command; `client|no-touch` is a subcommand.
fn knows(conn: &Connection, command: &str) -> Result<bool> {
    Ok(conn.command_info(command).wait::<Vec<_>>()?.iter().any(Option::is_some))
}

/// Whether the server is at least this Redis or this Valkey.
fn is_at_least(server: &Server, redis: impl Into<Option<Version>>, valkey: impl Into<Option<Version>>) -> bool {
    let least = if server.name() == "valkey" { valkey.into() } else { redis.into() };
    least.is_some_and(|least| server.version() >= least)
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().code().unwrap_or("none").to_owned()
}

fn is_recent(time: SystemTime) -> bool {
    let age = time.duration_since(SystemTime::now() - Duration::from_secs(60));
    age.is_ok_and(|age| age < Duration::from_secs(120))
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
    assert_eq!(conn.config_get("timeout").wait::<HashMap<_, _>>()?["timeout"], "77");
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
    assert!(everything.text.starts_with("# Server"), "the format of a verbatim string is no part of its text");
    assert_eq!(everything.get("role"), Some("master"));
    assert_eq!(everything.number("tcp_port"), Some(server.port()));
    assert_eq!(everything.flag("cluster_enabled"), Some(false));
    let (major, minor, patch) = server.version();
    assert_eq!(everything.version(), Some(format!("{major}.{minor}.{patch}").as_str()));
    assert!(everything.uptime() < Some(Duration::from_secs(60)) && everything.uptime().is_some());
    assert!(everything.used_memory() > Some(100_000));

    conn.set_with("k", "v", SetOptions::new().expiry(Duration::from_secs(100))).wait()?;
    conn.select(3).wait()?;
    conn.mset(("a", 1, "b", 2)).wait()?;
    assert!(conn.lpush("a", 1).wait().is_err());
    let some = conn.info_sections(["clients", "keyspace", "commandstats", "errorstats"]).wait()?;
    assert_eq!(some.connected_clients(), Some(1));
    assert_eq!(some.version(), None);
    let mut sections: Vec<&str> = some.sections.keys().map(String::as_str).collect();
    sections.sort();
    assert_eq!(sections, ["clients", "commandstats", "errorstats", "keyspace"]);
    let keyspace = some.keyspace();
    assert_eq!((keyspace.len(), keyspace[&3].keys, keyspace[&3].expires), (2, 2, 0));
    assert_eq!((keyspace[&0].keys, keyspace[&0].expires), (1, 1));
    let stats = &some.command_stats()["mset"];
    assert_eq!((stats.calls, stats.failed_calls, stats.rejected_calls), (1, 0, 0));
    assert_eq!(some.command_stats()["lpush"].failed_calls, 1);
    assert_eq!(some.error_stats()["WRONGTYPE"], 1);
    assert!(conn.info_sections("everything").wait()?.sections.contains_key("commandstats"));

    let age = conn.time().wait()?.duration_since(SystemTime::now() - Duration::from_secs(60)).expect("a recent time");
    assert!(age < Duration::from_secs(120), "{age:?}");
    Ok(())
}

#[test]
fn databases_are_saved() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let busy = || -> Result<bool> {
        let info = conn.info_sections("persistence").wait()?;
        let fields = ["rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled"];
        Ok(fields.into_iter().any(|field| info.flag(field) == Some(true)))
    };
    let started = conn.lastsave().wait()?;
    conn.save().wait()?;
    assert!(conn.lastsave().wait()? >= started);
    assert!(server.dir().join("dump.rdb").exists() || conn.lastsave().wait()? > started);
    conn.bgsave().wait()?;
    support::until("saved", || Ok(!busy()?))?;
    conn.bgsave_schedule().wait()?;
    support::until("saved again", || Ok(!busy()?))?;
    conn.bgrewriteaof().wait()?;
    support::until("rewritten", || Ok(!busy()?))?;
    assert_eq!(conn.bgsave_cancel().wait().unwrap_err().code(), Some("ERR"), "nothing to cancel, or unknown");
    if is_at_least(&server, None, (8, 1, 0)) {
        // While the file is being rewritten, the save waits, and can be taken back.
        conn.config_set(("rdb-key-save-delay", 10_000)).wait()?;
        conn.mset([("a", 1), ("b", 2), ("c", 3)]).wait()?;
        conn.bgsave().wait()?;
        conn.bgsave_cancel().wait()?;
        support::until("cancelled", || Ok(!busy()?))?;
    }
    Ok(())
}

#[test]
fn users_are_made_and_asked_about() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.acl_whoami().wait()?, "default");
    assert_eq!(conn.acl_users().wait::<Vec<_>>()?, ["default"]);
    let default = conn.acl_getuser("default").wait()?.expect("there is one");
    assert!(default.is_on() && default.flags.contains(&"nopass".into()));
    assert_eq!((default.commands.as_str(), default.keys.as_str(), default.channels.as_str()), ("+@all", "~*", "&*"));
    assert_eq!(conn.acl_getuser("bob").wait()?, None);

    let rules = AclRules::new()
        .on()
        .password("pw")
        .keys("a*")
        .read_keys("b*")
        .channels("c*")
        .no_commands()
        .allow_command("get")
        .selector(AclRules::new().keys("x").allow_command("set"));
    conn.acl_setuser("bob", &rules).wait()?;
    let bob = conn.acl_getuser("bob").wait()?.expect("he is there");
    assert!(bob.is_on());
    assert_eq!(bob.passwords, ["30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4"]);
    assert_eq!((bob.commands.as_str(), bob.keys.as_str(), bob.channels.as_str()), ("-@all +get", "~a* %R~b*", "&c*"));
    assert_eq!(bob.selectors.len(), 1);
    assert_eq!((bob.selectors[0].commands.as_str(), bob.selectors[0].keys.as_str()), ("-@all +set", "~x"));
    assert!(bob.other.is_empty() && bob.selectors[0].other.is_empty(), "{bob:?}");
    let lines: Vec<String> = conn.acl_list().wait()?;
    assert!(lines.len() == 2 && lines[0].starts_with("user bob on ") && lines[0].contains("~a* %R~b*"), "{lines:?}");

    assert_eq!(conn.acl_dryrun("bob", ("GET", "a1")).wait()?, AclDryRun::Allowed);
    let denied = conn.acl_dryrun("bob", ("GET", "zz")).wait()?;
    assert!(
        !denied.is_allowed() && matches!(&denied, AclDryRun::Denied(reason) if reason.contains("'zz'")),
        "{denied:?}"
    );
    assert!(conn.acl_dryrun("bob", ["NOSUCH"]).wait().is_err());

    conn.acl_setuser("bob", ["reset", "+@read"]).wait()?;
    let bob = conn.acl_getuser("bob").wait()?.expect("he is there");
    assert!(!bob.is_on() && bob.passwords.is_empty() && bob.selectors.is_empty());
    assert_eq!(bob.commands, "-@all +@read");
    assert_eq!(code(conn.acl_setuser("bob", "nonsense").wait()), "ERR");
    conn.acl_setuser("empty", ()).wait()?;
    assert_eq!(conn.acl_deluser(["bob", "empty", "nobody"]).wait()?, 2);
    assert_eq!(code(conn.acl_deluser("default").wait()), "ERR");
    Ok(())
}

#[test]
fn every_rule_is_understood() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let hash = "a".repeat(64);
    let all = AclRules::new()
        .reset()
        .on()
        .off()
        .password("p")
        .remove_password("p")
        .password_hash(&hash)
        .remove_password_hash(&hash)
        .nopass()
        .reset_passwords()
        .all_keys()
        .reset_keys()
        .keys("a*")
        .read_keys("r*")
        .write_keys("w*")
        .all_channels()
        .reset_channels()
        .channels("c*")
        .all_commands()
        .no_commands()
        .allow_command("config|get")
        .allow_category("read")
        .deny_category("write")
        .deny_command("keys")
        .selector(AclRules::new().keys("x").allow_command("set"))
        .clear_selectors()
        .sanitize_payload(false)
        .sanitize_payload(true)
        .rule("+ping");
    conn.acl_setuser("u", all).wait()?;
    let user = conn.acl_getuser("u").wait()?.expect("it is there");
    assert_eq!((user.keys.as_str(), user.channels.as_str()), ("~a* %R~r* %W~w*", "&c*"));
    assert!(user.commands.contains("+config|get") && user.commands.contains("+ping"), "{user:?}");
    if is_at_least(&server, None, (9, 1, 0)) {
        assert_eq!(user.databases.as_deref(), Some("alldbs"));
        conn.acl_setuser("u", AclRules::new().all_databases().reset_databases().databases([1, 3])).wait()?;
        let user = conn.acl_getuser("u").wait()?.expect("it is there");
        assert_eq!(user.databases.as_deref(), Some("db=1,3"));
    }
    Ok(())
}

#[test]
fn passwords_and_categories_are_given() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let password = conn.acl_genpass().wait()?;
    assert!(password.len() == 64 && password.bytes().all(|byte| byte.is_ascii_hexdigit()), "{password}");
    assert_eq!(conn.acl_genpass_bits(5).wait()?.len(), 2);
    let categories: Vec<String> = conn.acl_cat().wait()?;
    assert!(categories.contains(&"sortedset".into()), "{categories:?}");
    let reading: Vec<String> = conn.acl_cat_with("read").wait()?;
    assert!(reading.contains(&"get".into()) && !reading.contains(&"set".into()));
    assert_eq!(code(conn.acl_cat_with("nonsense").wait::<Vec<_>>()), "ERR");
    Ok(())
}

#[test]
fn what_was_not_allowed_is_logged() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.acl_log().wait::<Vec<_>>()?, []);
    assert!(conn.auth("nobody", "wrong").wait().is_err());
    conn.acl_setuser("bob", AclRules::new().on().nopass().keys("a*").all_commands().deny_command("flushall")).wait()?;
    let bob = support::open(&server);
    bob.auth("bob", "any").wait()?;
    assert_eq!(bob.acl_whoami().wait()?, "bob");
    assert_eq!(code(bob.get::<Option<String>>("b").wait()), "NOPERM");
    assert_eq!(code(bob.flushall().wait()), "NOPERM");

    let entries: Vec<_> = conn.acl_log().wait()?;
    let found: Vec<_> = entries.iter().map(|e| (e.reason.as_str(), e.object.as_str(), e.username.as_str())).collect();
    assert_eq!(found, [("command", "flushall", "bob"), ("key", "b", "bob"), ("auth", "AUTH", "nobody")]);
    let entry = &entries[2];
    assert_eq!((entry.count, entry.context.as_str()), (1, "toplevel"));
    assert!(entry.age < Duration::from_secs(60));
    let client = entry.client.as_ref().expect("a client");
    assert_eq!((client.id, client.cmd.as_str()), (conn.client_id().wait()?, "auth"));
    if is_at_least(&server, (7, 2, 0), (7, 2, 0)) {
        assert_eq!(entry.entry_id, Some(0));
        assert!(entry.created.is_some_and(is_recent) && entry.last_updated.is_some_and(is_recent), "{entry:?}");
    }
    assert!(entry.other.is_empty(), "{entry:?}");
    assert_eq!(conn.acl_log_count(1).wait::<Vec<_>>()?.len(), 1);
    conn.acl_log_reset().wait()?;
    assert_eq!(conn.acl_log().wait::<Vec<_>>()?, []);
    Ok(())
}

#[test]
fn users_are_kept_in_a_file() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(code(conn.acl_save().wait()), "ERR", "there is no file");
    assert_eq!(code(conn.acl_load().wait()), "ERR");
    let file = server.dir().join("users.acl");
    std::fs::write(&file, "user default on nopass ~* &* +@all\n").unwrap();
    let server = support::server_with([("aclfile", file.to_str().unwrap())]);
    let conn = support::open(&server);
    conn.acl_setuser("bob", "on").wait()?;
    conn.acl_save().wait()?;
    assert!(std::fs::read_to_string(&file).unwrap().contains("user bob on"));
    assert_eq!(conn.acl_deluser("bob").wait()?, 1);
    conn.acl_load().wait()?;
    assert_eq!(conn.acl_users().wait::<Vec<_>>()?, ["bob", "default"]);
    Ok(())
}

#[test]
fn commands_are_described() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert!(conn.command_count().wait()? > 200);
    let names = ["get", "nosuch", "xread", "client", "memory|usage", "eval", "sort"];
    let infos: Vec<_> = conn.command_info(names).wait()?;
    assert_eq!(infos.len(), 7);
    let get = infos[0].as_ref().expect("GET");
    assert_eq!((get.name.as_str(), get.arity, get.first_key, get.last_key, get.key_step), ("get", 2, 1, 1, 1));
    assert_eq!(get.flags, ["readonly", "fast"]);
    assert!(get.categories.contains(&"@string".into()) && get.subcommands.is_empty());
    let spec = &get.key_specs[0];
    assert_eq!(spec.flags, ["RO", "access"]);
    assert_eq!(spec.begin_search, BeginSearch::Index(1));
    assert_eq!(spec.find_keys, FindKeys::Range { last_key: 0, key_step: 1, limit: 0 });
    assert_eq!(infos[1], None);
    let xread = &infos[2].as_ref().expect("XREAD").key_specs[0];
    assert_eq!(xread.begin_search, BeginSearch::Keyword { keyword: "STREAMS".into(), start_from: 1 });
    assert_eq!(xread.find_keys, FindKeys::Range { last_key: -1, key_step: 1, limit: 2 });
    let client = infos[3].as_ref().expect("CLIENT");
    assert!(client.subcommands.iter().any(|sub| sub.name == "client|getname" && sub.arity == 2));
    assert_eq!(infos[4].as_ref().map(|usage| (usage.name.as_str(), usage.first_key)), Some(("memory|usage", 2)));
    let eval = &infos[5].as_ref().expect("EVAL").key_specs[0];
    assert_eq!(eval.find_keys, FindKeys::KeyNum { key_num_index: 0, first_key: 1, key_step: 1 });
    let sort = infos[6].as_ref().expect("SORT");
    let is_unknown =
        |spec: &KeySpec| (&spec.begin_search, &spec.find_keys) == (&BeginSearch::Unknown, &FindKeys::Unknown);
    assert!(sort.key_specs.iter().any(is_unknown), "{sort:?}");
    let all: Vec<_> = conn.command_info(()).wait()?;
    assert_eq!(all.len() as i64, conn.command_count().wait()?);
    assert!(all.iter().all(Option::is_some));

    let docs: HashMap<String, CommandDocs> = conn.command_docs(["get", "config", "client|kill", "nosuch"]).wait()?;
    assert_eq!(docs.len(), 3);
    let get = &docs["get"];
    assert_eq!(
        (get.since.as_deref(), get.group.as_str(), get.complexity.as_deref()),
        (Some("1.0.0"), "string", Some("O(1)"))
    );
    assert_eq!((get.arguments[0].name.as_str(), get.arguments[0].kind.as_str()), ("key", "key"));
    assert_eq!(get.arguments[0].key_spec_index, Some(0));
    assert!(docs["config"].subcommands["config|get"].summary.contains("onfiguration"));
    let kill = &docs["client|kill"];
    assert!(kill.history.iter().any(|(version, _)| version == "2.8.12"));
    assert!(kill.arguments[0].arguments.len() == 2 && kill.arguments[0].kind == "oneof", "{kill:?}");
    let slaveof = &conn.command_docs("slaveof").wait::<HashMap<_, CommandDocs>>()?["slaveof"];
    assert_eq!(slaveof.deprecated_since.as_deref(), Some("5.0.0"));
    assert_eq!(slaveof.replaced_by.as_deref(), Some("`REPLICAOF`"));
    assert!(slaveof.doc_flags.contains(&"deprecated".into()));
    let all: Vec<(String, CommandDocs)> = conn.command_docs(()).wait()?;
    assert_eq!(all.len() as i64, conn.command_count().wait()?);
    Ok(())
}

#[test]
fn commands_are_listed_and_their_keys_found() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.command_getkeys::<String>(("MSET", "a", 1, "b", 2)).wait::<Vec<_>>()?, ["a", "b"]);
    assert_eq!(code(conn.command_getkeys::<String>("PING").wait::<Vec<_>>()), "ERR");
    let keys: Vec<(String, Vec<String>)> = conn.command_getkeysandflags(("SET", "a", 1)).wait()?;
    assert_eq!(keys, [("a".into(), vec!["OW".into(), "update".into()])]);
    let keys: Vec<(String, Vec<String>)> = conn.command_getkeysandflags(("LMOVE", "a", "b", "LEFT", "LEFT")).wait()?;
    assert_eq!(keys.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let all: Vec<String> = conn.command_list().wait()?;
    assert!(["get", "config", "config|get"].iter().all(|name| all.iter().any(|other| other == name)), "{all:?}");
    let mut some: Vec<String> = conn.command_list_with(CommandFilter::pattern("xinfo*")).wait()?;
    some.sort();
    assert_eq!(some, ["xinfo", "xinfo|consumers", "xinfo|groups", "xinfo|help", "xinfo|stream"]);
    assert_eq!(conn.command_list_with(CommandFilter::module("none")).wait::<Vec<_>>()?, [""; 0]);
    let some: Vec<String> = conn.command_list_with(CommandFilter::category("hyperloglog")).wait()?;
    assert!(some.contains(&"pfadd".into()) && !some.contains(&"get".into()), "{some:?}");
    Ok(())
}

#[test]
fn slow_commands_are_kept() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.client_setname("me").wait()?;
    conn.config_set(("slowlog-log-slower-than", 0)).wait()?;
    conn.slowlog_reset().wait()?;
    conn.get::<Option<String>>("a").wait()?;
    conn.config_set(("slowlog-log-slower-than", -1)).wait()?;
    let entries: Vec<_> = conn.slowlog_get().wait()?;
    assert_eq!(conn.slowlog_len().wait()?, entries.len() as i64);
    let get = entries.iter().find(|entry| entry.command == [b"GET", &b"a"[..]]).expect("it was kept");
    assert!(get.id > 0 && is_recent(get.time) && get.duration < Duration::from_secs(10), "{get:?}");
    assert_eq!((get.client_name.as_str(), get.socket_address().map(|at| at.ip().is_loopback())), ("me", Some(true)));
    assert_eq!(conn.slowlog_get_count(1).wait::<Vec<_>>()?.len(), 1);
    assert_eq!(conn.slowlog_get_count(None).wait::<Vec<_>>()?, entries);
    conn.slowlog_reset().wait()?;
    assert_eq!(conn.slowlog_get().wait::<Vec<_>>()?, []);
    Ok(())
}

#[test]
fn slow_and_large_commands_are_kept() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    if !knows(&conn, "commandlog|get")? {
        return Ok(());
    }
    let settings = [
        ("commandlog-execution-slower-than", 0),
        ("commandlog-request-larger-than", 1000),
        ("commandlog-reply-larger-than", 1000),
    ];
    conn.config_set(settings).wait()?;
    conn.set("large", "x".repeat(2000)).wait()?;
    conn.get::<String>("large").wait()?;
    for (kind, name) in
        [(CommandlogKind::Slow, "GET"), (CommandlogKind::LargeRequest, "SET"), (CommandlogKind::LargeReply, "GET")]
    {
        let entries: Vec<_> = conn.commandlog_get(None, kind).wait()?;
        let entry = entries.iter().find(|entry| entry.command[0] == name.as_bytes()).expect("it was kept");
        assert!(is_recent(entry.time));
        if kind != CommandlogKind::Slow {
            assert!((2000..3000).contains(&entry.amount), "{entry:?}");
            assert_eq!(conn.commandlog_len(kind).wait()?, 1);
        } else {
            assert!(entry.duration() < Duration::from_secs(10));
        }
        assert_eq!(conn.commandlog_get(1, kind).wait::<Vec<_>>()?.len(), 1);
        conn.commandlog_reset(kind).wait()?;
    }
    assert_eq!(conn.commandlog_get(None, CommandlogKind::LargeReply).wait::<Vec<_>>()?, []);
    Ok(())
}

#[test]
fn latencies_are_measured() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert_eq!(conn.latency_latest().wait::<Vec<_>>()?, []);
    assert!(conn.latency_doctor().wait()?.contains("monitoring is disabled"));
    assert_eq!(code(conn.latency_graph("command").wait()), "ERR");
    conn.config_set(("latency-monitor-threshold", 1)).wait()?;
    conn.command::<()>("DEBUG", ("SLEEP", 0.02)).wait()?;
    conn.config_set(("latency-monitor-threshold", 0)).wait()?;

    let events: Vec<_> = conn.latency_latest().wait()?;
    let event = events.iter().find(|event| event.event == "command").expect("it was measured");
    assert!(is_recent(event.time) && event.latest >= Duration::from_millis(19) && event.worst == event.latest);
    if is_at_least(&server, None, (8, 1, 0)) {
        assert_eq!((event.sum, event.count), (Some(event.latest), Some(1)));
    } else {
        assert_eq!((event.sum, event.count), (None, None));
    }
    let samples: Vec<_> = conn.latency_history("command").wait()?;
    assert_eq!(samples.iter().map(|s| (s.time, s.latency)).collect::<Vec<_>>(), [(event.time, event.latest)]);
    assert_eq!(conn.latency_history("none").wait::<Vec<_>>()?, []);
    assert!(conn.latency_graph("command").wait()?.starts_with("command - high "));
    assert_eq!(conn.latency_reset("none").wait()?, 0);
    assert!(conn.latency_reset(()).wait()? >= 1);
    assert_eq!(conn.latency_latest().wait::<Vec<_>>()?, []);

    conn.set("a", 1).wait()?;
    (0..3).try_for_each(|_| conn.get::<String>("a").wait().map(drop))?;
    let histograms: HashMap<String, LatencyHistogram> = conn.latency_histogram(["get", "set", "none"]).wait()?;
    assert_eq!((histograms.len(), histograms["get"].calls, histograms["set"].calls), (2, 3, 1));
    let buckets = &histograms["get"].buckets;
    assert_eq!(buckets.last().map(|(_, calls)| *calls), Some(3));
    assert!(buckets[0].0 >= Duration::from_micros(1));
    assert!(conn.latency_histogram(()).wait::<HashMap<String, LatencyHistogram>>()?.contains_key("get"));
    assert_eq!(conn.latency_histogram("none").wait::<Vec<_>>()?, []);
    Ok(())
}

#[test]
fn memory_is_accounted_for() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.rpush("l", vec!["an element that is not short"; 1000]).wait()?;
    let five = conn.memory_usage("l").wait()?.expect("there is one");
    let all = conn.memory_usage_samples("l", 0).wait()?.expect("there is one");
    assert!(five > 10_000 && all > 10_000, "{five} {all}");
    assert_eq!(conn.memory_usage("none").wait()?, None);
    let stats = conn.memory_stats().wait()?;
    assert_eq!(stats.keys_count, 1);
    assert!(stats.total_allocated > 100_000 && stats.peak_allocated >= stats.total_allocated, "{stats:?}");
    assert!(stats.dataset_percentage > 0.0 && stats.fragmentation > 0.0 && stats.peak_percentage > 0.0, "{stats:?}");
    assert!(stats.databases()[&0]["overhead.hashtable.main"] > 0, "{stats:?}");
    assert!(conn.memory_doctor().wait()?.len() > 20);
    assert!(!conn.memory_malloc_stats().wait()?.is_empty());
    conn.memory_purge().wait()?;
    Ok(())
}

#[test]
fn modules_are_listed_and_loaded() -> Result<()> {
    let server = support::server_with([("enable-module-command", "yes")]);
    let conn = support::open(&server);
    let modules: Vec<_> = conn.module_list().wait()?;
    if server.name() == "valkey" && server.version() >= (9, 1, 0) {
        assert_eq!((modules[0].name.as_str(), modules[0].version), ("lua", 1));
        assert_eq!((modules[0].path.as_deref(), modules[0].args.as_slice()), (Some("lua"), &[][..]));
    }
    assert!(modules.iter().all(|module| module.other.is_empty()), "{modules:?}");
    assert_eq!(code(conn.module_load("/none.so", ["a", "b"]).wait()), "ERR");
    assert_eq!(code(conn.module_loadex("/none.so", ModuleOptions::new().config("a.b", 1).arg("x")).wait()), "ERR");
    let error = conn.module_unload("none").wait().unwrap_err();
    assert!(error.to_string().contains("no such module"), "{error}");
    Ok(())
}

#[test]
fn works_of_art_are_shown() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert!(!conn.lolwut().wait()?.is_empty());
    assert!(conn.lolwut_version(5, (10, 1, 1)).wait()?.contains("Georg Nees"));
    assert!(!conn.lolwut_version(6, ()).wait()?.is_empty());
    Ok(())
}

#[test]
fn a_server_follows_another() -> Result<()> {
    let (server, follower) = (support::server(), support::server());
    let (conn, replica) = (support::open(&server), support::open(&follower));
    assert_eq!(conn.role().wait()?, replica.role().wait()?);
    assert!(matches!(conn.role().wait()?, Role::Master { offset: 0, replicas } if replicas.is_empty()));
    assert_eq!(code(conn.failover().wait()), "ERR", "it has no replicas");
    assert_eq!(code(conn.failover_abort().wait()), "ERR");
    conn.config_set(("repl-diskless-sync-delay", 0)).wait()?;
    conn.set("k", "v").wait()?;

    let follows = |on: &Connection| -> Result<bool> {
        Ok(matches!(on.role().wait()?, Role::Replica { state, .. } if state == "connected"))
    };
    replica.replicaof("127.0.0.1", server.port()).wait()?;
    support::until("it follows", || follows(&replica))?;
    match replica.role().wait()? {
        Role::Replica { host, port, offset, .. } => {
            assert_eq!((host.as_str(), port), ("127.0.0.1", server.port()));
            assert!(offset >= 0);
        }
        other => panic!("{other:?}"),
    }
    support::until("it is followed", || {
        Ok(matches!(conn.role().wait()?, Role::Master { replicas, .. } if replicas.len() == 1))
    })?;
    match conn.role().wait()? {
        Role::Master { replicas, offset } => {
            assert_eq!((replicas[0].host.as_str(), replicas[0].port), ("127.0.0.1", follower.port()));
            assert!(offset >= 0);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(replica.get::<String>("k").wait()?, "v");

    // They change places, and then back.
    assert_eq!(conn.wait(1, Duration::from_secs(30)).wait()?, 1);
    conn.failover_with(FailoverOptions::new().timeout(Duration::from_secs(10))).wait()?;
    support::until("they have changed places", || follows(&conn))?;
    assert_eq!(replica.wait(1, Duration::from_secs(30)).wait()?, 1);
    let back = FailoverOptions::new().to("127.0.0.1", server.port()).timeout(Duration::from_secs(10)).force();
    replica.failover_with(back).wait()?;
    support::until("and back", || follows(&replica))?;

    replica.replicaof_no_one().wait()?;
    assert!(matches!(replica.role().wait()?, Role::Master { .. }));
    replica.slaveof("127.0.0.1", server.port()).wait()?;
    support::until("it follows again", || follows(&replica))?;
    replica.slaveof_no_one().wait()?;
    assert_eq!(replica.get::<String>("k").wait()?, "v");
    Ok(())
}

#[test]
fn a_server_ends() -> Result<()> {
    let all = ShutdownOptions::new().save(false).now().force();
    for options in [ShutdownOptions::new(), ShutdownOptions::new().save(true), all] {
        let server = support::server();
        let (conn, other) = (support::open(&server), support::open(&server));
        assert_eq!(code(conn.shutdown_abort().wait()), "ERR", "none is going on");
        conn.set("k", "v").wait()?;
        conn.shutdown_with(options)?;
        assert!(conn.is_broken());
        assert!(matches!(conn.ping().wait(), Err(Error::ConnectionLost(_))));
        assert!(other.ping().wait().is_err());
        assert!(Connection::open(support::config(&server)).is_err());
    }
    let server = support::server();
    support::open(&server).shutdown()?;
    Ok(())
}

#[test]
fn a_server_that_does_not_end_says_so() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.set("k", "v").wait()?;
    // A directory in the place of the file.
    std::fs::create_dir(server.dir().join("dump.rdb")).unwrap();
    assert_eq!(code(conn.shutdown_with(ShutdownOptions::new().save(true))), "ERR");
    conn.ping().wait()?;
    assert_eq!(code(conn.shutdown_abort().wait()), "ERR", "none is going on");

    // A connection that is lost before the command is sent is no success.
    let ended = support::server();
    let conn = support::open(&ended);
    conn.shutdown_with(ShutdownOptions::new().save(true).force())?;
    assert!(conn.is_broken());
    match conn.shutdown() {
        Err(Error::ConnectionLost(lost)) => assert_ne!(ConnectionLost::sent(&lost), Sent::Fully),
        other => panic!("{other:?}"),
    }
    if server.name() == "valkey" && server.version() >= (9, 0, 0) {
        let server = support::server();
        let conn = support::open(&server);
        conn.shutdown_with(ShutdownOptions::new().save(false).safe())?;
    }
    Ok(())
}

#[test]
fn server_commands_work_on_every_executor() -> Result<()> {
    fn ask<C: ServerCommands>(on: C) -> C::Reply<i64> {
        on.dbsize()
    }
    let server = support::server();
    let conn = support::open(&server);
    conn.set("k", "v").wait()?;
    assert_eq!(ask(&conn).wait()?, 1);
    let batch = conn.batch();
    let (size, whoami) = (ask(&batch), batch.acl_whoami());
    batch.finish()?;
    assert_eq!((size.wait()?, whoami.wait()?), (1, "default".into()));
    let tx = conn.transaction();
    let (size, log) = (ask(&tx), tx.slowlog_len());
    tx.commit().wait()?;
    assert_eq!((size.wait()?, log.wait()?), (1, 0));
    Ok(())
}

#[test]
fn names_that_are_not_utf_8_hide_nothing() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert!(conn.auth(b"\xff\xfe", "x").wait().is_err());
    let log: Vec<_> = conn.acl_log().wait()?;
    assert_eq!((log.len(), &*log[0].username), (1, "\u{fffd}\u{fffd}"));
    conn.command::<()>("ACL SETUSER", ("odd", "on", b"~\xff*", "+@all")).wait()?;
    let odd = conn.acl_getuser("odd").wait()?.expect("there is such a user");
    assert!(odd.keys.contains('\u{fffd}'), "{}", odd.keys);

    conn.command::<String>("XADD", ("stream", "*", "field", "value")).wait()?;
    conn.command::<()>("XGROUP CREATE", ("stream", b"\xff", 0)).wait()?;
    conn.command::<Value>("XREADGROUP GROUP", (b"\xff", b"\xfe", "STREAMS", "stream", ">")).wait()?;
    assert_eq!(conn.xpending("stream", b"\xff").wait()?.consumers, [("\u{fffd}".to_owned(), 1)]);
    let groups: Vec<_> = conn.xinfo_groups("stream").wait()?;
    assert_eq!(groups[0].name, "\u{fffd}");
    let consumers: Vec<_> = conn.xinfo_consumers("stream", b"\xff").wait()?;
    assert_eq!(consumers[0].name, "\u{fffd}");
    Ok(())
}
