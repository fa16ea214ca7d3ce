//! How the nodes of a cluster are reached: with TLS and passwords, by names and IPv6 addresses, from behind NAT, and by seeds that are
//! not what they should be.
#![cfg(all(unix, feature = "testing"))]

mod support;

use std::net::TcpListener;

use redefer::cluster::{Cluster, ClusterConfig, ReadFrom, slot_of};
use redefer::prelude::*;
use redefer::{Reconnect, Result, testing};

fn builder() -> testing::ClusterBuilder {
    testing::Cluster::builder().replicas(0)
}

/// Sets and reads keys on all nodes, also while the slot of one of them moves.
#[track_caller]
fn works(nodes: &testing::Cluster, config: ClusterConfig) -> Cluster {
    let cluster = Cluster::open(config).unwrap();
    let keys: Vec<String> = (0..50).map(|n| format!("key:{n}")).collect();
    let sets: Vec<_> = keys.iter().map(|key| cluster.set(key, key)).collect();
    sets.into_iter().for_each(|set| set.wait().unwrap());
    let slot = slot_of(keys[0].as_bytes());
    let (from, to) = (nodes.owner(slot).unwrap(), (nodes.owner(slot).unwrap() + 1) % 3);
    nodes.begin_move(slot, from, to).unwrap();
    while nodes.move_keys(slot, from, to, 1).unwrap() > 0 {}
    // Told ASK, and then MOVED.
    assert_eq!(cluster.get::<String>(&keys[0]).wait().unwrap(), keys[0]);
    nodes.finish_move(slot, from, to).unwrap();
    assert_eq!(cluster.get::<String>(&keys[0]).wait().unwrap(), keys[0]);
    assert_eq!(cluster.mget::<String>(&keys).wait::<Vec<_>>().unwrap(), keys);
    assert!(cluster.stats().redirects >= 2, "{:?}", cluster.stats());
    assert_eq!(cluster.stats().connections, 3);
    assert_eq!(cluster.scan::<String>().count(), 50);
    let seen: String = cluster
        .transact([&keys[1]], |cluster, tx| {
            let seen: String = cluster.get(&keys[1]).wait()?;
            tx.set(&keys[1], "changed");
            Ok(tx.command("ECHO", seen))
        })
        .unwrap();
    assert_eq!(seen, keys[1]);
    let subscriber = cluster.subscriber(Reconnect::never()).unwrap();
    subscriber.subscribe("news").wait().unwrap();
    assert_eq!(cluster.connection_to(&keys[1]).unwrap().get::<String>(&keys[1]).wait().unwrap(), "changed");
    nodes.wait_until_agreed().unwrap();
    cluster
}

fn config(url: &str) -> ClusterConfig {
    ClusterConfig::new(support::config_for(url)).unwrap()
}

#[cfg(feature = "tls")]
#[test]
fn a_cluster_is_used_over_tls() -> Result<()> {
    use redefer::TlsConfig;
    use support::tls::{Authority, Files};

    let (authority, files) = (Authority::new("cluster"), Files::new());
    let identity = authority.issue(&["127.0.0.1"]);
    let certificate = files.write("node.crt", &identity.certificate);
    let (key, root) = (files.write("node.key", &identity.key), files.write("ca.crt", &authority.pem));
    for program in testing::Server::programs() {
        let started =
            testing::Cluster::builder().program(&program).tls(&certificate, &key, &root).password("secret").start();
        let nodes = match started {
            Ok(nodes) => nodes,
            // It was built without TLS.
            Err(error)
                if error.to_string().contains("Failed finding TLS support")
                    || error.to_string().contains("Bad directive") =>
            {
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let urls = nodes.urls();
        assert!(urls[0].starts_with("rediss://"));
        let base =
            || support::config_for(&urls[0]).password("secret").tls(TlsConfig::new().root_certificates(&authority.pem));
        let cluster = works(&nodes, ClusterConfig::new(base())?);
        // The ports that nodes tell over TLS are those for TLS.
        assert!(
            urls.iter().take(3).all(|url| format!("{cluster:?}").contains(url.strip_prefix("rediss://").unwrap())),
            "{cluster:?}"
        );
        // Replicas, too, and after a failover.
        let reading = Cluster::open(ClusterConfig::new(base())?.read_from(ReadFrom::Replica))?;
        assert_eq!(cluster.set("tls", 1).wait().and_then(|()| cluster.wait(1, None).wait())?, 1);
        assert_eq!(reading.get::<i64>("tls").wait()?, 1);
        nodes.fail_over(3).unwrap();
        for n in 0..50 {
            cluster.incr(format!("after:{n}")).wait()?;
        }
        assert_eq!(reading.dbsize().wait()?, cluster.dbsize().wait()?);
        // Nobody vouches for the nodes.
        let strangers = Authority::new("strangers");
        let error = Cluster::open(
            support::config_for(&urls[0]).password("secret").tls(TlsConfig::new().root_certificates(&strangers.pem)),
        );
        assert!(error.unwrap_err().to_string().contains("certificate"));
    }
    Ok(())
}

#[test]
fn a_cluster_that_asks_for_a_password_gets_it_and_a_wrong_one_is_told() -> Result<()> {
    let nodes = builder().password("secret").config("user", "app on >other ~* &* +@all").start().unwrap();
    let url = &nodes.urls()[0];
    let with = |user: Option<&str>, password: &str| {
        let config = support::config_for(url).password(password);
        user.map_or(config.clone(), |user| config.user(user))
    };
    works(&nodes, ClusterConfig::new(with(None, "secret"))?);
    let cluster = Cluster::open(with(Some("app"), "other"))?;
    cluster.set("k", 1).wait()?;
    for (user, wrong) in [(None, "wrong"), (Some("app"), "secret"), (Some("nobody"), "secret")] {
        let error = Cluster::open(with(user, wrong)).unwrap_err();
        assert_eq!(error.code(), Some("WRONGPASS"), "{error}");
    }
    assert_eq!(Cluster::open(support::config_for(url)).unwrap_err().code(), Some("NOAUTH"));
    // One node has another password than the rest: what is for that one says so, at once, and the rest is served.
    let late = Cluster::open(with(None, "secret"))?;
    let admin = Connection::open(support::config(nodes.node(2)).password("secret"))?;
    admin.config_set(("requirepass", "changed")).wait()?;
    let (mut served, mut refused) = (0, 0);
    for n in 0..50 {
        match late.set(format!("late:{n}"), n).wait() {
            Ok(()) => served += 1,
            Err(error) => {
                assert_eq!(error.code(), Some("WRONGPASS"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(served > 0 && refused > 0);
    assert_eq!(late.dbsize().wait().unwrap_err().code(), Some("WRONGPASS"));
    Ok(())
}

#[test]
fn seeds_may_be_down_or_sockets_or_ipv6() -> Result<()> {
    let nodes = builder().config("bind", "127.0.0.1 -::1").start().unwrap();
    let nobody = support::Refusing::start();
    let down = support::config_for(&format!("redis://127.0.0.1:{}", nobody.port()));
    let missing = support::config_for("redis+unix:///nowhere/at/all.sock");
    let by_socket = support::config_for(&nodes.node(1).unix_url());
    works(&nodes, ClusterConfig::new(by_socket.clone())?);
    works(&nodes, ClusterConfig::new(down)?.seed(missing.clone())?.seed(by_socket)?);
    if TcpListener::bind("[::1]:0").is_ok() {
        let port = nodes.node(2).port();
        works(&nodes, config(&format!("redis://[::1]:{port}")));
        works(&nodes, ClusterConfig::new(missing)?.seed(support::config_for(&format!("redis://[::1]:{port}")))?);
    }
    Ok(())
}

#[test]
fn nodes_are_reached_by_the_names_that_they_prefer() -> Result<()> {
    let named = |kind: &str, name: &str| {
        builder()
            .config("cluster-announce-hostname", name)
            .config("cluster-preferred-endpoint-type", kind)
            .start()
            .unwrap()
    };
    let nodes = named("hostname", "localhost");
    let cluster = works(&nodes, config(&nodes.urls()[0]));
    assert!(format!("{cluster:?}").contains("localhost:"), "{cluster:?}");
    // Those that have no name.
    let nodes = builder().config("cluster-preferred-endpoint-type", "hostname").start().unwrap();
    let cluster = works(&nodes, config(&nodes.urls()[0]));
    assert!(format!("{cluster:?}").contains("127.0.0.1:"), "{cluster:?}");
    // Those that say nothing of where they are: the host is the one that was asked.
    let nodes = named("unknown-endpoint", "nowhere.invalid");
    let cluster = works(&nodes, config(&format!("redis://localhost:{}", nodes.node(0).port())));
    assert!(format!("{cluster:?}").contains("localhost:"), "{cluster:?}");
    Ok(())
}

#[test]
fn nodes_are_reached_by_ipv6_addresses() {
    if TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let nodes = builder().config("bind", "127.0.0.1 ::1").config("cluster-announce-ip", "::1").start().unwrap();
    let cluster = works(&nodes, config(&nodes.urls()[0]));
    assert!(format!("{cluster:?}").contains("[::1]:"), "{cluster:?}");
}

#[test]
fn nodes_behind_nat_are_reached_where_a_function_says() -> Result<()> {
    let nodes = builder()
        .config("cluster-announce-hostname", "inside.invalid")
        .config("cluster-preferred-endpoint-type", "hostname")
        .start()
        .unwrap();
    let url = &nodes.urls()[0];
    let outside = config(url).resolve_with(|host, port| {
        assert_eq!(host, "inside.invalid");
        ("127.0.0.1".to_owned(), port)
    });
    works(&nodes, outside.clone());
    assert!(!format!("{outside:?}").is_empty());
    // Without it they are not found.
    let cluster = Cluster::open(support::config_for(url).timeout(std::time::Duration::from_millis(300)))?;
    assert!(cluster.get::<String>("k").wait().is_err());
    Ok(())
}
