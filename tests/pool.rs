//! A pool of connections: what comes back is as good as new, or is closed.

#![cfg(all(feature = "testing", feature = "r2d2"))]

mod support;

use std::mem;
use std::thread;
use std::time::Duration;

use redefer::commands::AclRules;
use redefer::pool::{Pool, PooledConnection};
use redefer::{Error, Result, prelude::*};

/// A pool of one connection, so that what comes back goes to the next.
fn pool_of_one() -> (support::Private, Pool) {
    let server = support::server();
    let pool = Pool::builder(support::config(&server)).max_size(1).build().unwrap();
    (server, pool)
}

fn id(conn: &PooledConnection) -> i64 {
    conn.client_id().wait().unwrap()
}

#[test]
fn threads_take_turns() -> Result<()> {
    let server = support::server();
    let pool = Pool::builder(support::config(&server)).max_size(4).build()?;
    thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                for _ in 0..50 {
                    pool.get().unwrap().incr("n").wait().unwrap();
                }
            });
        }
    });
    assert_eq!(pool.get()?.get::<u32>("n").wait()?, 1600);
    assert!(pool.connections() <= 4);
    Ok(())
}

#[test]
fn a_connection_comes_back_drained_whatever_was_forgotten() -> Result<()> {
    let (_server, pool) = pool_of_one();
    let conn = pool.get()?;
    let first = id(&conn);
    conn.rpush("list", ["a", "b", "c"]).wait()?;
    for n in 0..1000 {
        conn.set(n, n).detach();
    }
    mem::forget(conn.get::<String>("1"));
    mem::forget(conn.command::<()>("NO SUCH COMMAND", ()));
    mem::forget(conn.del(Vec::<&str>::new()));
    let mut list = conn.lrange::<String>("list", 0, -1);
    assert_eq!(list.next().unwrap()?, "a");
    mem::forget(list);
    let tx = conn.transaction();
    mem::forget(tx.incr("x"));
    mem::forget(tx.commit());
    let batch = conn.batch();
    mem::forget(batch.incr("y"));
    mem::forget(batch);
    drop(conn);

    let conn = pool.get()?;
    assert_eq!((id(&conn), conn.outstanding()), (first, 0));
    let stats = conn.stats();
    assert_eq!((stats.stored, stats.unseen_errors), (0, 0));
    assert_eq!((conn.get::<i64>("x").wait()?, conn.get::<i64>("y").wait()?, conn.get::<u64>(999).wait()?), (1, 1, 999));
    conn.batch().finish()?;
    conn.sync()
}

#[test]
fn a_connection_comes_back_on_its_database() -> Result<()> {
    let server = support::server();
    let pool = Pool::builder(support::config(&server).database(2)).max_size(1).build()?;
    let conn = pool.get()?;
    let first = id(&conn);
    conn.set("key", 2).wait()?;
    conn.select(5).wait()?;
    conn.set("key", 5).wait()?;
    conn.select(6).detach();
    drop(conn);
    let conn = pool.get()?;
    assert_eq!((id(&conn), conn.database(), conn.get::<i64>("key").wait()?), (first, 2, 2));
    Ok(())
}

#[test]
fn a_connection_comes_back_unwatched() -> Result<()> {
    let (server, pool) = pool_of_one();
    let other = support::open(&server);
    let conn = pool.get()?;
    let first = id(&conn);
    mem::forget(conn.watch(["key"])?);
    drop(conn);
    other.set("key", "changed").wait()?;
    let conn = pool.get()?;
    assert_eq!(id(&conn), first);
    let watch = conn.watch(["other"])?;
    let tx = watch.transaction();
    let set = tx.set("other", 1);
    tx.commit().wait()?;
    set.wait()
}

#[test]
fn what_cannot_be_undone_closes_the_connection() -> Result<()> {
    let (server, pool) = pool_of_one();
    support::open(&server)
        .acl_setuser("ada", AclRules::new().on().password("secret").all_commands().all_keys())
        .wait()?;
    type Change = fn(&Connection) -> Result<()>;
    let changes: [(&str, Change); 5] = [
        ("user", |conn| conn.auth("ada", "secret").wait()),
        ("name", |conn| conn.client_setname("me").wait()),
        ("eviction", |conn| conn.client_no_evict(true).wait()),
        ("a block without end", |conn| {
            mem::forget(conn.blpop::<String, String>("nothing", None));
            conn.flush()
        }),
        ("tracking", |conn| {
            if conn.protocol() == redefer::Protocol::Resp3 {
                conn.client_tracking(true).wait()
            } else {
                conn.client_setname("me").wait()
            }
        }),
    ];
    for (what, change) in changes {
        let conn = pool.get()?;
        let first = id(&conn);
        change(&conn)?;
        drop(conn);
        let conn = pool.get()?;
        assert_ne!(id(&conn), first, "{what}");
        assert_eq!(conn.command::<String>("ACL WHOAMI", ()).wait()?, "default", "{what}");
    }
    Ok(())
}

#[test]
fn a_thread_that_panics_leaves_no_connection_behind() -> Result<()> {
    let (_server, pool) = pool_of_one();
    let first = id(&pool.get()?);
    let panicking = pool.clone();
    let outcome = thread::spawn(move || {
        let conn = panicking.get().unwrap();
        let _reply = conn.incr("n");
        panic!("in the middle");
    });
    assert!(outcome.join().is_err());
    let conn = pool.get()?;
    assert_ne!(id(&conn), first);
    Ok(())
}

#[test]
fn a_connection_that_the_server_has_closed_is_not_handed_out() -> Result<()> {
    let (server, pool) = pool_of_one();
    let first = id(&pool.get()?);
    let other = support::open(&server);
    other.command::<i64>("CLIENT KILL", ("ID", first)).wait()?;
    while other.client_list().wait()?.iter().any(|client| client.id == first) {}
    let conn = pool.get()?;
    assert_ne!(id(&conn), first);
    // The same for one that breaks in use.
    let second = id(&conn);
    other.command::<i64>("CLIENT KILL", ("ID", second)).wait()?;
    drop(conn);
    assert_ne!(id(&pool.get()?), second);
    Ok(())
}

#[test]
fn an_empty_pool_says_so_when_the_time_is_over() -> Result<()> {
    let server = support::server();
    let config = support::config(&server);
    let pool = Pool::builder(config.clone()).max_size(1).checkout_timeout(Duration::from_millis(1)).build()?;
    // Opened by a thread of the pool's, whenever that comes to it.
    let held = std::iter::repeat_with(|| pool.try_get()).flatten().next().unwrap();
    match pool.get() {
        Err(Error::Io(error)) => assert_eq!(error.kind(), std::io::ErrorKind::TimedOut),
        other => panic!("{other:?}"),
    }
    assert!(pool.try_get().is_none());
    assert_eq!((pool.connections(), pool.idle_connections()), (1, 0));
    drop(held);
    assert_eq!(pool.idle_connections(), 1);
    drop(server);
    assert!(matches!(Pool::open(config), Err(Error::Io(_))));
    Ok(())
}

#[test]
fn times_without_end_are_taken() -> Result<()> {
    let server = support::server();
    let pool = Pool::builder(support::config(&server)).max_size(1).checkout_timeout(Duration::MAX);
    let pool = pool.idle_timeout(Duration::MAX).max_lifetime(Duration::MAX).build()?;
    pool.get()?.set("key", "value").wait()
}
