//! Complete short programs for frequent tasks. This module has no code of its own.
//!
//! Each program begins with a private server, so that it can be tried as it stands; put the URL of your own in its
//! place. The directory `examples` of the repository has longer ones, each of which can be run:
//! `cargo run --example tour`.
//!
//! - [Connecting with options](#connecting-with-options)
//! - [Strings with an expiry](#strings-with-an-expiry)
//! - [Counters](#counters)
//! - [A hash as an object](#a-hash-as-an-object)
//! - [A list as a queue](#a-list-as-a-queue)
//! - [A struct as a hash or as JSON](#a-struct-as-a-hash-or-as-json)
//! - [Consumer groups](#consumer-groups)
//! - [Places on the map](#places-on-the-map)
//! - [Scripts](#scripts)
//! - [Pipelines](#pipelines)
//! - [A ring of handles](#a-ring-of-handles)
//! - [Batches](#batches)
//! - [Optimistic locking](#optimistic-locking)
//! - [Streaming big collections](#streaming-big-collections)
//! - [Scanning keys](#scanning-keys)
//! - [Timeouts, and what to do afterwards](#timeouts-and-what-to-do-afterwards)
//! - [Handling errors](#handling-errors)
//! - [Reconnecting](#reconnecting)
//! - [Threads](#threads)
//! - [One connection for many threads](#one-connection-for-many-threads)
//! - [A pool of connections](#a-pool-of-connections)
//! - [Values larger than memory](#values-larger-than-memory)
//! - [Listening with handlers](#listening-with-handlers)
//! - [Surviving a restart while listening](#surviving-a-restart-while-listening)
//! - [Request and reply](#request-and-reply)
//! - [Keys that expire](#keys-that-expire)
//! - [A page cache](#a-page-cache)
//! - [Sentinel](#sentinel)
//! - [Clusters](#clusters)
//! - [A cluster for many threads](#a-cluster-for-many-threads)
//! - [Functions over any executor](#functions-over-any-executor)
//! - [Testing one's own code](#testing-ones-own-code)
//! - [Coming from the `redis` crate](#coming-from-the-redis-crate)
//!
//! # Connecting with options
//!
//! [`Connection::open`] takes a URL or a [`Config`]. A URL can hold the most frequent options; a `Config` has them all,
//! each with its default in its documentation.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use std::time::Duration;
//!
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let config = Config::tcp("127.0.0.1", server.port())
//!         .database(2)
//!         .client_name("cookbook")
//!         .connect_timeout(Duration::from_secs(1))
//!         .timeout(Duration::from_secs(2));
//!     let conn = Connection::open(config)?;
//!     assert_eq!(conn.client_getname().wait()?.as_deref(), Some("cookbook"));
//!
//!     // The same as a URL. A user and a password stand before the host: `redis://user:password@host/2`.
//!     let url = format!("{}/2?name=cookbook&connect_timeout=1s&timeout=2s", server.url());
//!     let conn = Connection::open(url)?;
//!     assert_eq!(conn.database(), 2);
//!
//!     // A URL from a configuration file, and what the program itself has to say; here over a unix socket.
//!     let conn = Connection::open(Config::from_url(&server.unix_url())?.client_name("worker-1"))?;
//!     conn.ping().wait()
//! }
//! # main().unwrap() }
//! ```
//!
//! # Strings with an expiry
//!
//! Times are [`Duration`](std::time::Duration)s, never bare numbers. A key that is not there is `None`.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use std::time::Duration;
//!
//! use redefer::commands::{SetOptions, Ttl};
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!
//!     conn.setex("session:7", Duration::from_secs(60), "Ada").wait()?;
//!     let session: Option<String> = conn.get("session:7").wait()?;
//!     assert_eq!(session.as_deref(), Some("Ada"));
//!     assert!(matches!(conn.ttl("session:7").wait()?, Ttl::In(left) if left <= Duration::from_secs(60)));
//!
//!     // Read it, and let it live for another hour.
//!     let session: Option<String> = conn.getex("session:7", Duration::from_secs(3600)).wait()?;
//!     assert!(session.is_some());
//!
//!     // A lock: only if nobody has it, and not for ever. `None`: somebody has it.
//!     let lock = SetOptions::new().nx().expiry(Duration::from_secs(10));
//!     assert_eq!(conn.set_with("lock", "me", lock.clone()).wait()?, Some(()));
//!     assert_eq!(conn.set_with("lock", "you", lock).wait()?, None);
//!
//!     // Bytes of any kind.
//!     conn.set("blob", [0, 159, 146, 150]).wait()?;
//!     let blob: Vec<u8> = conn.get("blob").wait()?;
//!     assert_eq!(blob, [0, 159, 146, 150]);
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # Counters
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!
//!     assert_eq!(conn.incr("visits").wait()?, 1);
//!     assert_eq!(conn.incrby("visits", 41).wait()?, 42);
//!     assert_eq!(conn.decr("visits").wait()?, 41);
//!     assert_eq!(conn.incrbyfloat("total", 0.5).wait()?, 0.5);
//!     assert_eq!(conn.hincrby("visits:by-page", "/index", 1).wait()?, 1);
//!
//!     // Counted without waiting. `sync` waits for all of them, and tells the first error if there was one.
//!     for _ in 0..1000 {
//!         conn.incr("visits").detach();
//!     }
//!     conn.sync()?;
//!     assert_eq!(conn.get::<i64>("visits").wait()?, 1041);
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # A hash as an object
//!
//! Fields and values are given in turn in a tuple, or as an array, slice, vector or map of pairs; or see [`ToPairs`] for
//! a type of one's own.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use std::collections::HashMap;
//!
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! struct User {
//!     name: String,
//!     logins: i64,
//! }
//!
//! fn save(conn: &Connection, id: u64, user: &User) -> redefer::Result<()> {
//!     conn.hset(format!("user:{id}"), ("name", &user.name, "logins", user.logins)).wait()?;
//!     Ok(())
//! }
//!
//! fn load(conn: &Connection, id: u64) -> redefer::Result<Option<User>> {
//!     let key = format!("user:{id}");
//!     let (name, logins) = (conn.hget(&key, "name"), conn.hget(&key, "logins")); // one round trip
//!     let (name, logins): (Option<String>, Option<i64>) = (name.wait()?, logins.wait()?);
//!     Ok(name.zip(logins).map(|(name, logins)| User { name, logins }))
//! }
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!
//!     save(&conn, 7, &User { name: "Ada".into(), logins: 3 })?;
//!     let ada = load(&conn, 7)?.expect("she was saved");
//!     assert_eq!((ada.name.as_str(), ada.logins), ("Ada", 3));
//!     assert!(load(&conn, 8)?.is_none());
//!
//!     // All fields, when their names are not known before.
//!     let fields: HashMap<String, String> = conn.hgetall("user:7").wait()?;
//!     assert_eq!(fields["logins"], "3");
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! Types of one's own can be arguments and replies: see [`ToArg`], [`FromReply`], and `examples/custom_types.rs`.
//!
//! # A list as a queue
//!
//! One side pushes, the other pops and waits for more. A blocking command holds its connection until it is answered:
//! whoever pushes needs another one.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use std::thread;
//! use std::time::Duration;
//!
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let url = server.url();
//!
//!     let worker = thread::spawn(move || -> redefer::Result<Vec<String>> {
//!         let conn = Connection::open(url)?;
//!         let mut done = Vec::new();
//!         // The key and the element; nil when nothing came in time.
//!         while let Some((_, job)) = conn.blpop::<String, String>("jobs", Duration::from_secs(5)).wait()? {
//!             if job == "stop" {
//!                 break;
//!             }
//!             done.push(job);
//!         }
//!         Ok(done)
//!     });
//!
//!     let conn = Connection::open(server.url())?;
//!     conn.rpush("jobs", ["one", "two", "three"]).wait()?;
//!     conn.rpush("jobs", "stop").wait()?;
//!     assert_eq!(worker.join().expect("it does not panic")?, ["one", "two", "three"]);
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # A struct as a hash or as JSON
//!
//! With the feature `serde`, whatever `serde` can write and read is a value (`Json`) or the fields of a hash (`Fields`).
//! [`hgetall_as`](crate::commands::HashCommands::hgetall_as) reads a hash as one value, on every executor.
//!
//! ```
//! # #[cfg(all(feature = "testing", feature = "serde"))] {
//! use redefer::prelude::*;
//! use redefer::serde::{Fields, Json};
//! use redefer::testing::Server;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize, Debug, PartialEq)]
//! struct User {
//!     name: String,
//!     logins: u32,
//!     email: Option<String>,
//! }
//!
//! fn load<C: HashCommands>(on: C, id: u64) -> C::Reply<Option<Fields<User>>> {
//!     on.hgetall_as(format!("user:{id}"))
//! }
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!     let ada = User { name: "Ada".into(), logins: 1, email: None };
//!
//!     // A field each, so that one can be changed or read alone.
//!     conn.hset("user:7", Fields(&ada)).wait()?;
//!     conn.hincrby("user:7", "logins", 1).wait()?;
//!     let (found, missing) = (load(&conn, 7), load(&conn, 8)); // one round trip
//!     assert_eq!(found.wait()?.map(|Fields(user)| user.logins), Some(2));
//!     assert!(missing.wait()?.is_none());
//!
//!     // One text, which is written and read as a whole.
//!     conn.rpush("users", args::each([&ada, &ada].map(Json))).wait()?;
//!     let users: Vec<Json<User>> = conn.lrange("users", 0, -1).wait()?;
//!     assert_eq!(users[1].0, ada);
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # Consumer groups
//!
//! The workers of a group share the entries of a stream. Each entry is pending for the worker that has read it until the
//! worker acknowledges it; those of a worker that has died are claimed by another one. `XREADGROUP` waits, and so holds its
//! connection: see [`BlockingStreamCommands`].
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use std::collections::HashMap;
//! use std::time::Duration;
//!
//! use redefer::commands::{GroupRead, NewId, ReadStreams, StreamId, XgroupCreateOptions, XreadgroupOptions};
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! type Order = HashMap<String, u32>;
//!
//! /// What one worker does, until there has been nothing to do for a while.
//! fn work(conn: &Connection, name: &str, mut pack: impl FnMut(Order)) -> redefer::Result<()> {
//!     let handle = |id: StreamId, order: redefer::Result<Order>, pack: &mut dyn FnMut(Order)| {
//!         match order {
//!             Ok(order) => pack(order),
//!             // Of another form than an order. It is acknowledged all the same, or it would come again and again.
//!             Err(error) => eprintln!("{id} is no order: {error}"),
//!         }
//!         conn.xack("orders", "packers", id).detach();
//!     };
//!
//!     // What others have had for a minute without acknowledging it.
//!     let mut start = Some(StreamId::MIN);
//!     while let Some(from) = start {
//!         let stale = conn.xautoclaim("orders", "packers", name, Duration::from_secs(60), from).wait()?;
//!         start = stale.go_on();
//!         stale.claimed.into_iter().for_each(|entry| handle(entry.id, entry.fields, &mut pack));
//!     }
//!
//!     // First what this worker had read before it was started again, then what is new.
//!     let mut from = GroupRead::Pending(StreamId::MIN);
//!     loop {
//!         let page = XreadgroupOptions::new().count(100);
//!         let streams = ("orders", from);
//!         let read = conn.xreadgroup_block_with("packers", name, streams, Duration::from_millis(100), page).wait()?;
//!         // The fields of an entry that has been deleted since are nil, which is an error of this entry as well.
//!         let read: ReadStreams<String, redefer::Result<Order>> = read.unwrap_or_default();
//!         let entries: Vec<_> = read.into_iter().flat_map(|(_key, entries)| entries).collect();
//!         from = match (from, entries.last()) {
//!             (GroupRead::Pending(_), Some(last)) => GroupRead::Pending(last.id),
//!             (GroupRead::Undelivered, None) => return conn.sync(),
//!             _ => GroupRead::Undelivered,
//!         };
//!         entries.into_iter().for_each(|entry| handle(entry.id, entry.fields, &mut pack));
//!     }
//! }
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!     let create = XgroupCreateOptions::new().mkstream();
//!     conn.xgroup_create_with("orders", "packers", StreamId::MIN, create).wait()?;
//!     for pounds in ["1", "many", "3"] {
//!         conn.xadd("orders", NewId::Auto, ("pounds", pounds)).wait()?;
//!     }
//!     // Read by a worker that has died before it acknowledged.
//!     let one = XreadgroupOptions::new().count(1);
//!     conn.xreadgroup_with::<Value, Value>("packers", "ann", ("orders", GroupRead::Undelivered), one).wait()?;
//!
//!     let mut pounds = 0;
//!     work(&conn, "ann", |order| pounds += order["pounds"])?;
//!     assert_eq!(pounds, 4);
//!     assert_eq!(conn.xpending("orders", "packers").wait()?.count, 0);
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! One reader that needs no group is [`xread_follow`](crate::commands::BlockingStreamCommands::xread_follow), an iterator.
//!
//! # Places on the map
//!
//! Longitude first, as the server has it.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use redefer::commands::{GeoFrom, GeoShape, GeoUnit, GeosearchOptions};
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!     conn.geoadd("cities", [(13.361389, 38.115556, "Palermo"), (15.087269, 37.502669, "Catania")]).wait()?;
//!
//!     let (from, within) = (GeoFrom::LonLat(15.0, 37.0), GeoShape::Radius(100.0, GeoUnit::Kilometers));
//!     let near: Vec<String> = conn.geosearch("cities", &from, &within).wait()?;
//!     assert_eq!(near, ["Catania"]);
//!
//!     // With distances, the nearest first.
//!     let within = GeoShape::Radius(200.0, GeoUnit::Kilometers);
//!     let options = GeosearchOptions::new().withdist().asc();
//!     for city in conn.geosearch_with::<String>("cities", &from, &within, options) {
//!         let city = city?;
//!         println!("{}: {:?} km", city.member, city.distance);
//!     }
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # Scripts
//!
//! A [`Script`](crate::Script) is sent by its digest, and whole where the server does not know it. Keys are given apart from
//! the other arguments; either may be one, a tuple, a list, or `()`.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use std::sync::LazyLock;
//!
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! static MOVE: LazyLock<Script> = LazyLock::new(|| Script::new("
//!     local left = tonumber(redis.call('GET', KEYS[1]) or 0) - ARGV[1]
//!     if left < 0 then return false end
//!     redis.call('SET', KEYS[1], left)
//!     return {left, redis.call('INCRBY', KEYS[2], ARGV[1])}
//! "));
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!     conn.set("ann", 10).wait()?;
//!
//!     let moved: Option<(i64, i64)> = MOVE.run(&conn, ("ann", "bob"), 7).wait()?;
//!     assert_eq!(moved, Some((3, 7)));
//!     let moved: Option<(i64, i64)> = MOVE.run(&conn, ("ann", "bob"), 7).wait()?;
//!     assert_eq!(moved, None); // Lua's false is nil
//!
//!     // In a batch or a transaction nothing can be repeated: let the server know the script first.
//!     let tx = conn.transaction();
//!     MOVE.load(&tx);
//!     let moved: Queued<'_, Option<(i64, i64)>> = MOVE.evalsha(&tx, ("ann", "bob"), 1);
//!     tx.commit().wait()?;
//!     assert_eq!(moved.wait()?, Some((2, 8)));
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # Pipelines
//!
//! Keep the handles and wait later. That is all: the calls are the same. Waiting for one reads those before it, and
//! each is kept for its handle.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!
//!     let name = conn.set("name", "Ada");
//!     let visits = conn.incr("visits");
//!     let pages = conn.rpush("pages", ["/", "/index"]);
//!     assert_eq!((pages.wait()?, visits.wait()?), (2, 1)); // in any order
//!     name.wait()?;
//!
//!     // Many at once.
//!     let replies: Vec<Reply<'_, i64>> = (0..1000).map(|_| conn.incr("visits")).collect();
//!     let counts = replies.into_iter().map(Reply::wait).collect::<redefer::Result<Vec<i64>>>()?;
//!     assert_eq!(counts.last(), Some(&1001));
//!
//!     // Asked early, used late: the server works meanwhile.
//!     let length = conn.llen("pages");
//!     conn.flush()?;
//!     let sum: u64 = (1..=1000).sum();
//!     assert_eq!((sum, length.wait()?), (500_500, 2));
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # A ring of handles
//!
//! For work without end: so many replies are outstanding at most, and the oldest is waited for before the next command
//! is issued.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use std::collections::VecDeque;
//!
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!
//!     let mut ring: VecDeque<Reply<'_, i64>> = VecDeque::with_capacity(256);
//!     for line in 0..10_000 {
//!         if ring.len() == 256 {
//!             ring.pop_front().expect("it is full").wait()?;
//!         }
//!         ring.push_back(conn.rpush("lines", line));
//!     }
//!     let mut length = 0;
//!     for reply in ring {
//!         length = reply.wait()?;
//!     }
//!     assert_eq!(length, 10_000);
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # Batches
//!
//! For commands whose results are not needed one by one. Handles may be dropped for nothing, or kept;
//! [`finish`](crate::Batch::finish) tells the first error and its position. A batch is a pipeline and no transaction: the
//! other commands have run.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!
//!     let batch = conn.batch();
//!     for (word, n) in [("one", 1), ("two", 2), ("three", 3)] {
//!         batch.set(word, n);
//!     }
//!     let two: Queued<'_, i64> = batch.get("two");
//!     batch.finish()?;
//!     assert_eq!(two.wait()?, 2);
//!
//!     let batch = conn.batch();
//!     batch.incr("one");
//!     batch.lpush("two", "x"); // a string is no list
//!     batch.incr("three");
//!     match batch.finish() {
//!         Err(Error::Batch(error)) => assert_eq!((error.position(), error.first().code()), (1, Some("WRONGTYPE"))),
//!         other => panic!("{other:?}"),
//!     }
//!     let all: Vec<i64> = conn.mget(["one", "two", "three"]).wait()?;
//!     assert_eq!(all, [2, 2, 4]);
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # Optimistic locking
//!
//! [`transact`](crate::Connection::transact) watches keys, lets you read them and queue commands, and begins again when
//! somebody has changed a key before EXEC.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! /// Takes one from the stock, if there is one, and returns what is left.
//! fn buy(conn: &Connection, item: &str) -> redefer::Result<i64> {
//!     let key = format!("stock:{item}");
//!     conn.transact([&key], |conn, tx| {
//!         let stock: Option<i64> = conn.get(&key).wait()?;
//!         if stock.unwrap_or(0) == 0 {
//!             return Err(Error::custom("sold out")); // ends it; nothing was sent
//!         }
//!         tx.rpush("sold", item);
//!         Ok(tx.decr(&key)) // the handles that are returned are waited for
//!     })
//! }
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!
//!     conn.set("stock:book", 2).wait()?;
//!     assert_eq!(buy(&conn, "book")?, 1);
//!     assert_eq!(buy(&conn, "book")?, 0);
//!     assert_eq!(buy(&conn, "book").unwrap_err().to_string(), "sold out");
//!
//!     // By hand: one attempt, and what to do after `Aborted` is yours to say.
//!     let watch = conn.watch(["stock:book"])?;
//!     let stock: i64 = conn.get("stock:book").wait()?;
//!     let tx = watch.transaction();
//!     tx.set("stock:book", stock + 10);
//!     match tx.commit().wait() {
//!         Ok(()) => {}
//!         Err(Error::Aborted) => println!("somebody was faster"),
//!         Err(error) => return Err(error),
//!     }
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # Streaming big collections
//!
//! Commands with many elements return a [`MultiBulk`]. As an iterator it holds one element at a time, whatever the size
//! of the list; `wait` collects all of them.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use std::collections::BTreeMap;
//!
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!
//!     // Filled in pieces: one command with all elements would have to be held in memory.
//!     let batch = conn.batch();
//!     for first in (0..100_000).step_by(1000) {
//!         batch.rpush("numbers", args::each(first..first + 1000));
//!     }
//!     batch.finish()?;
//!
//!     let mut sum = 0;
//!     for number in conn.lrange::<u64>("numbers", 0, -1) {
//!         sum += number?;
//!     }
//!     assert_eq!(sum, 4_999_950_000);
//!
//!     // Given up half-way: what is left is skipped.
//!     let first = conn.lrange::<u64>("numbers", 0, -1).next().transpose()?;
//!     assert_eq!(first, Some(0));
//!
//!     // From one list into another. The elements of `try_each` are gathered before the command is sent.
//!     let squares = conn.lrange::<u64>("numbers", 0, 9).map(|n| n.map(|n| n * n));
//!     conn.rpush("squares", args::try_each(squares)).wait()?;
//!     let squares: Vec<u64> = conn.lrange("squares", -2, -1).wait()?;
//!     assert_eq!(squares, [64, 81]);
//!
//!     // Pairs are tuples, and make a map.
//!     conn.zadd("ranking", [(1.5, "Ada"), (2.5, "Grace")]).wait()?;
//!     let ranking: BTreeMap<String, f64> = conn.zrange_withscores("ranking", 0, -1).wait()?;
//!     assert_eq!(ranking["Grace"], 2.5);
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # Scanning keys
//!
//! The SCAN family as iterators. Each element is a `Result`: an error is shown, and ends the iteration. An element may
//! come more than once.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use std::collections::{BTreeSet, HashMap};
//!
//! use redefer::commands::ScanOptions;
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!     conn.mset(args::each((0..500).map(|n| (format!("user:{n}"), n)))).wait()?;
//!     conn.hset("totals", [("a", 1), ("b", 2)]).wait()?;
//!
//!     let users = conn.scan_with(ScanOptions::new().match_("user:*").count(100));
//!     let users = users.collect::<redefer::Result<BTreeSet<String>>>()?;
//!     assert_eq!(users.len(), 500);
//!
//!     // The connection may be used between two elements.
//!     for key in conn.scan_with::<String>(ScanOptions::new().match_("user:1*")) {
//!         conn.unlink(key?).detach();
//!     }
//!     conn.sync()?;
//!     assert_eq!(conn.exists(["user:1", "user:10", "user:2"]).wait()?, 1);
//!
//!     let totals: HashMap<String, i64> = conn.hscan("totals").collect::<redefer::Result<_>>()?;
//!     assert_eq!(totals["b"], 2);
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # Timeouts, and what to do afterwards
//!
//! After a timeout the connection is usable and in step: the late reply is skipped when it comes, and never given to
//! another handle. But the command may have run. Ask again only what may be done twice.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use std::time::Duration;
//!
//! use redefer::{WaitError, prelude::*};
//! use redefer::testing::Server;
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(Config::from_url(&server.url())?.timeout(Duration::from_millis(50)))?;
//!     let other = Connection::open(server.url())?;
//!     conn.set("name", "Ada").wait()?;
//!
//!     // The server stands still for a while.
//!     other.client_pause(Duration::from_millis(200)).wait()?;
//!     let error = conn.incr("visits").wait().unwrap_err();
//!     assert!(error.is_timeout());
//!     assert!(!conn.is_broken()); // its reply is still to come, and will be skipped
//!
//!     // A wait with a time of its own gives the handle back when that was not enough.
//!     let mut name = conn.get::<String>("name");
//!     let name = loop {
//!         match name.wait_timeout(Duration::from_millis(20)) {
//!             Ok(name) => break name,
//!             Err(WaitError::Timeout(handle)) => name = handle, // time to do something else
//!             Err(WaitError::Failed(error)) => return Err(error),
//!         }
//!     };
//!     assert_eq!(name, "Ada");
//!     assert_eq!(conn.get::<i64>("visits").wait()?, 1); // the command that timed out has run
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # Handling errors
//!
//! Each variant of [`Error`](crate::Error) says whether the connection can be used on. Most can; after
//! [`ConnectionLost`](crate::Error::ConnectionLost) and [`Protocol`](crate::Error::Protocol) open another one.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use redefer::testing::Server;
//! use redefer::{Sent, prelude::*};
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!     conn.set("name", "Ada").wait()?;
//!
//!     // An error is the value of one handle.
//!     let (wrong, right) = (conn.lpush("name", "x"), conn.strlen("name"));
//!     match wrong.wait() {
//!         Err(Error::Server(error)) if error.code() == Some("WRONGTYPE") => println!("{error}"),
//!         other => panic!("{other:?}"),
//!     }
//!     assert_eq!(right.wait()?, 3);
//!
//!     // Nil, where there is no place for it.
//!     assert!(matches!(conn.get::<String>("nothing").wait(), Err(Error::Nil)));
//!     assert_eq!(conn.get::<Option<String>>("nothing").wait()?, None);
//!
//!     // Of the errors of handles that were given up, the first is told by `sync`.
//!     conn.incr("name").detach();
//!     assert_eq!(conn.sync().unwrap_err().code(), Some("ERR"));
//!     conn.sync()?;
//!
//!     // The connection breaks: what was sent may have run, what was not has not.
//!     server.kill();
//!     match conn.incr("visits").wait() {
//!         Err(Error::ConnectionLost(lost)) if lost.sent() == Sent::Unsent => println!("to be sent again: {lost}"),
//!         Err(Error::ConnectionLost(lost)) => println!("it may have run: {lost}"),
//!         other => panic!("{other:?}"),
//!     }
//!     assert!(conn.is_broken());
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # Reconnecting
//!
//! With a [`Reconnect`](crate::Reconnect) policy the next call after a break dials again. What was not sent yet is sent then;
//! what was sent is never sent again by itself, since it may have run. A caller who knows that it does no harm says so by
//! [`idempotent`](crate::Connection::idempotent).
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//! use redefer::{Reconnect, Sent};
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(Config::from_url(&server.url())?.reconnect(Reconnect::backoff()))?;
//!     conn.set("name", "Ada").wait()?;
//!     server.restart()?;
//!
//!     match conn.incr("visits").wait() {
//!         Ok(visits) => println!("{visits}"),
//!         Err(Error::ConnectionLost(lost)) if lost.sent() == Sent::Fully => println!("it may have been counted"),
//!         Err(Error::ConnectionLost(_)) => println!("it was not counted"),
//!         Err(error) => return Err(error),
//!     }
//!     let name: Option<String> = conn.idempotent().get("name").wait()?;
//!     assert_eq!(name, None); // this server keeps nothing over a restart
//!     assert_eq!(conn.stats().reconnects, 1);
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # Threads
//!
//! A connection belongs to one thread at a time: it is `Send`, and not `Sync`. Give each thread its own, or one of a
//! [pool](#a-pool-of-connections), or let them [share](#one-connection-for-many-threads) one.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use std::thread;
//!
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let config = Config::from_url(&server.url())?;
//!
//!     thread::scope(|scope| {
//!         let threads: Vec<_> = (0..4)
//!             .map(|_| {
//!                 scope.spawn(|| -> redefer::Result<()> {
//!                     let conn = Connection::open(&config)?;
//!                     for _ in 0..100 {
//!                         conn.incr("visits").detach();
//!                     }
//!                     conn.sync()
//!                 })
//!             })
//!             .collect();
//!         threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
//!     })?;
//!
//!     let conn = Connection::open(&config)?;
//!     assert_eq!(conn.get::<i64>("visits").wait()?, 400);
//!
//!     // Or move it to where it is needed.
//!     let conn = thread::spawn(move || conn.incr("visits").wait().map(|_| conn)).join().expect("it does not panic")?;
//!     assert_eq!(conn.get::<i64>("visits").wait()?, 401);
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # One connection for many threads
//!
//! [`Shared`](crate::Shared) pipelines the calls of threads that wait at the same time: one of them writes and reads for all. It
//! has no thread of its own. What would change the connection for the others is not there.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use std::thread;
//!
//! use redefer::Shared;
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let shared = Shared::open(server.url())?;
//!
//!     let threads: Vec<_> = (0..8)
//!         .map(|n| {
//!             let shared = shared.clone();
//!             thread::spawn(move || -> redefer::Result<()> {
//!                 for _ in 0..100 {
//!                     shared.incr("visits").wait()?;
//!                 }
//!                 // In one piece: nothing of another thread comes in between.
//!                 let tx = shared.transaction();
//!                 tx.set("last", n);
//!                 tx.incr("threads");
//!                 tx.commit().wait()
//!             })
//!         })
//!         .collect();
//!     threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))?;
//!
//!     assert_eq!(shared.get::<i64>("visits").wait()?, 800);
//!     assert_eq!(shared.get::<i64>("threads").wait()?, 8);
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # A pool of connections
//!
//! With the feature `r2d2`: a connection goes to one thread at a time, and comes back drained, unwatched and on its database.
//!
//! ```
//! # #[cfg(all(feature = "testing", feature = "r2d2"))] {
//! use std::thread;
//!
//! use redefer::pool::Pool;
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let pool = Pool::builder(server.url()).max_size(4).build()?;
//!     thread::scope(|scope| {
//!         for _ in 0..16 {
//!             scope.spawn(|| pool.get()?.incr("visits").wait());
//!         }
//!     });
//!     assert_eq!(pool.get()?.get::<i64>("visits").wait()?, 16);
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # Values larger than memory
//!
//! A reply can be copied to any `Write`, and a command be fed from any `Read`, piece by piece.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use std::io::{Read, repeat, sink};
//!
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!     let film = repeat(0).take(1 << 20);                                  // or a File
//!     conn.set_from("film", film, 1 << 20).wait()?;
//!     let bytes = conn.get::<Vec<u8>>("film").copy_to(&mut sink())?;       // or a File
//!     assert_eq!(bytes, 1 << 20);
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # Listening with handlers
//!
//! Closures by channel and pattern, which may borrow a connection for what they do. A subscriber is a connection of its own.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use redefer::prelude::*;
//! use redefer::pubsub::{Handlers, Subscriber};
//! use redefer::testing::Server;
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!     let subscriber = Subscriber::open(server.url())?;
//!     let handle = subscriber.handle();
//!
//!     let mut handlers = Handlers::new()
//!         .on("visit", |_, page: String| conn.hincrby("visits", page, 1).detach())
//!         .on_pattern("alarm.*", |message, degrees: f64| {
//!             let room = String::from_utf8_lossy(&message.channel()[6..]).into_owned();
//!             conn.hset("alarms", (room, degrees)).detach();
//!         })
//!         .on_message("end", |_| handle.stop());
//!     subscriber.subscribe(handlers.channels()).wait()?;
//!     subscriber.psubscribe(handlers.patterns()).wait()?;
//!
//!     let other = Connection::open(server.url())?;
//!     for (channel, text) in [("visit", "home"), ("visit", "home"), ("alarm.kitchen", "99.5"), ("end", "")] {
//!         other.publish(channel, text).wait()?;
//!     }
//!     subscriber.run(&mut handlers)?;      // until it is stopped
//!     conn.sync()?;
//!     assert_eq!(conn.hget::<u32>("visits", "home").wait()?, 2);
//!     assert_eq!(conn.hget::<f64>("alarms", "kitchen").wait()?, 99.5);
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # Surviving a restart while listening
//!
//! With a policy the subscriber comes back by itself, subscribed to what it had, and says that something may be missing.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use redefer::pubsub::{Event, Subscriber};
//! use redefer::testing::Server;
//! use redefer::{Config, Reconnect, prelude::*};
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let config = Config::from_url(&server.url())?.reconnect(Reconnect::forever());
//!     let subscriber = Subscriber::open(config)?;
//!     subscriber.subscribe("news").wait()?;
//!     server.restart()?;
//!
//!     for event in &subscriber {
//!         match event? {
//!             Event::Message(message) => {
//!                 assert_eq!(message.payload(), b"we are back");
//!                 break;
//!             }
//!             Event::Reconnected(gap) => {
//!                 println!("something may be missing: {}", gap.cause());
//!                 Connection::open(server.url())?.publish("news", "we are back").wait()?;
//!             }
//!             _ => {}
//!         }
//!     }
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # Request and reply
//!
//! The reply goes to a list of its own, so that it is there also when nobody waits yet, and goes away by itself.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use std::thread;
//! use std::time::Duration;
//!
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! fn serve(url: String) -> redefer::Result<()> {
//!     let conn = Connection::open(url)?;
//!     let request: Option<(String, String)> = conn.blpop("requests", Duration::from_secs(10)).wait()?;
//!     let Some((_, request)) = request else { return Ok(()) };
//!     let (to, question) = request.split_once(' ').ok_or_else(|| Error::custom("no request"))?;
//!     let tx = conn.transaction();
//!     tx.rpush(to, question.to_uppercase()).detach();
//!     tx.expire(to, Duration::from_secs(60)).detach();
//!     tx.commit().wait()
//! }
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let url = server.url();
//!     let server_thread = thread::spawn(move || serve(url));
//!
//!     let conn = Connection::open(server.url())?;
//!     let to = format!("reply:{}", conn.incr("request").wait()?);
//!     conn.rpush("requests", format!("{to} how are you")).wait()?;
//!     let reply: Option<(String, String)> = conn.blpop(&to, Duration::from_secs(10)).wait()?;
//!     assert_eq!(reply.map(|(_, text)| text).as_deref(), Some("HOW ARE YOU"));
//!     server_thread.join().expect("it does not panic")
//! }
//! # main().unwrap() }
//! ```
//!
//! # Keys that expire
//!
//! See [`keyspace`](crate::keyspace). A server tells when it removes a key, which may be a little after its time.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use std::time::Duration;
//!
//! use redefer::keyspace::{Events, KeyEvent};
//! use redefer::prelude::*;
//! use redefer::pubsub::{Event, Subscriber};
//! use redefer::testing::Server;
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!     Events::new().keyevent().expired().enable(&conn)?;
//!     let subscriber = Subscriber::open(server.url())?;
//!     subscriber.psubscribe(Events::event_pattern(None, "expired")).wait()?;
//!     conn.psetex("session:7", Duration::from_millis(5), "…").wait()?;
//!
//!     let Some(Event::Message(message)) = subscriber.next()? else { panic!("no message") };
//!     let event = KeyEvent::parse(message.channel(), message.payload());
//!     assert_eq!(event.map(|event| event.key), Some(b"session:7".to_vec()));
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # A page cache
//!
//! With the feature `cache`; see [`cache`](crate::cache). Each thread has a cache of its own, which is fastest, or they share one behind a
//! `Mutex`, which needs less memory.
//!
//! ```
//! # #[cfg(all(feature = "testing", feature = "cache"))] {
//! use redefer::cache::{CacheConfig, Cached};
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let editor = Connection::open(server.url())?;
//!     editor.set("page:home", "<h1>hello</h1>").wait()?;
//!
//!     // Only keys like this are kept, and the server need not remember which of them.
//!     let cached = Cached::open(server.url(), CacheConfig::new().broadcast(["page:"]).bytes(64 << 20))?;
//!     for _ in 0..100 {
//!         let page: String = cached.get("page:home").wait()?;
//!         assert_eq!(page, "<h1>hello</h1>");
//!     }
//!     assert_eq!(cached.cache_stats().hit_rate(), 0.99);
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # Sentinel
//!
//! See [`sentinel`](crate::sentinel). The attempts should go on for longer than a failover takes.
//!
//! ```no_run
//! use redefer::prelude::*;
//! use redefer::sentinel::{Sentinel, SentinelEvent};
//! use redefer::{Config, Reconnect};
//!
//! fn main() -> redefer::Result<()> {
//!     let sentinels = ["redis://10.0.0.1:26379", "redis://10.0.0.2:26379", "redis://10.0.0.3:26379"];
//!     let sentinels = sentinels.map(|url| Config::from_url(url).map(|config| config.password("of the sentinels")));
//!     let sentinel = Sentinel::new(sentinels.into_iter().collect::<redefer::Result<Vec<_>>>()?, "mymaster")?;
//!
//!     let config = sentinel.primary().user("app").password("of the servers").reconnect(Reconnect::backoff().attempts(60));
//!     let conn = Connection::open(config)?;
//!     conn.set("k", "v").wait()?;
//!
//!     for event in sentinel.events()? {
//!         if let SentinelEvent::Switched { from, to, .. } = event? {
//!             println!("the primary was {from:?} and is {to:?}");
//!         }
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # Clusters
//!
//! A [`Cluster`](crate::cluster::Cluster) is used like a connection. Keys that belong together get a tag in braces, so that they
//! are of one slot, and transactions and commands on several of them work; a [module](crate::cluster) of its own says where each
//! command goes, and what happens when slots move and nodes fail.
//!
//! ```
//! # #[cfg(all(unix, feature = "testing"))] {
//! use redefer::cluster::Cluster;
//! use redefer::prelude::*;
//!
//! fn main() -> redefer::Result<()> {
//!     let nodes = redefer::testing::Cluster::builder().replicas(0).start()?;
//!     let cluster = Cluster::open(nodes.urls())?;
//!
//!     // Orders of a customer in one slot, customers all over the cluster.
//!     for customer in ["ada", "grace"] {
//!         let tx = cluster.transaction();
//!         let number = tx.incr(format!("{{customer:{customer}}}:orders"));
//!         tx.rpush(format!("{{customer:{customer}}}:open"), ["book"]);
//!         tx.commit().wait()?;
//!         assert_eq!(number.wait()?, 1);
//!     }
//!     let counts: Vec<i64> = cluster.mget(["{customer:ada}:orders", "{customer:grace}:orders"]).wait()?;
//!     assert_eq!(counts, [1, 1]);
//!
//!     // Read, decide, write, unless somebody was faster.
//!     let left: i64 = cluster.transact(["{customer:ada}:orders"], |cluster, tx| {
//!         let orders: i64 = cluster.get("{customer:ada}:orders").wait()?;
//!         Ok(tx.decrby("{customer:ada}:orders", orders))
//!     })?;
//!     assert_eq!(left, 0);
//!
//!     // All keys of all nodes.
//!     assert_eq!(cluster.scan::<String>().collect::<redefer::Result<Vec<_>>>()?.len(), 4);
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! # A cluster for many threads
//!
//! A [`SharedCluster`](crate::SharedCluster) is for what threads do without keeping each other from it: commands, batches,
//! transactions, scans. What takes a connection for a while is done on one beside it, by the thread that needs it: a
//! subscriber, a [connection to a node](crate::SharedCluster::connection_to) for BLPOP, or a [`Cluster`](crate::cluster::Cluster)
//! opened from the same configuration for `watch` and `transact`.
//!
//! ```
//! # #[cfg(all(unix, feature = "testing"))] {
//! use std::thread;
//! use std::time::Duration;
//!
//! use redefer::cluster::{Cluster, ClusterConfig};
//! use redefer::commands::ScanOptions;
//! use redefer::prelude::*;
//! use redefer::pubsub::Event;
//! use redefer::{Config, Error, Reconnect, SharedCluster};
//!
//! fn main() -> redefer::Result<()> {
//!     let nodes = redefer::testing::Cluster::builder().replicas(0).password("secret").start()?;
//!     let urls = nodes.urls();
//!
//!     // User, password, timeouts and TLS of the first one are those for all nodes.
//!     let first = Config::from_url(&urls[0])?.password("secret").timeout(Duration::from_secs(5));
//!     let config = ClusterConfig::new(first)?
//!         .seeds(&urls[1..])?
//!         // Behind NAT, this says where a node is that announces itself as `host`. Here nothing is in between.
//!         .resolve_with(|host, port| (host.to_owned(), port));
//!
//!     let shared = SharedCluster::open(config.clone())?;
//!     thread::scope(|scope| {
//!         for n in 0..8 {
//!             let shared = &shared;
//!             scope.spawn(move || {
//!                 // One slot, by the tag: what is outside of the braces does not count.
//!                 let tx = shared.transaction();
//!                 tx.set(format!("{{user:{n}}}:name"), n);
//!                 tx.incr(format!("{{user:{n}}}:visits"));
//!                 tx.commit().wait().expect("the cluster is up")
//!             });
//!         }
//!     });
//!     let visits: Vec<i64> = shared.mget(["{user:3}:visits", "{user:5}:visits"]).wait()?;
//!     assert_eq!(visits, [1, 1]);
//!     assert_eq!(shared.dbsize().wait()?, 16);
//!
//!     // Keys of several slots, in a command that cannot be divided: nothing was sent.
//!     let refused = shared.rename("{user:3}:name", "{user:5}:name").wait();
//!     assert_eq!(refused.unwrap_err().code(), Some("CROSSSLOT"));
//!
//!     // All keys of all nodes, and a command for each of them, by any of the threads.
//!     let names = shared.scan_with(ScanOptions::new().match_("*:name")).collect::<redefer::Result<Vec<String>>>()?;
//!     assert_eq!(names.len(), 8);
//!     let batch = shared.batch();
//!     for name in &names {
//!         batch.expire(name, Duration::from_secs(3600));
//!     }
//!     batch.finish()?;
//!
//!     // For what a SharedCluster does not have.
//!     let cluster = Cluster::open(config)?;
//!     let visits: i64 = cluster.transact(["{user:3}:visits"], |_, tx| Ok(tx.incr("{user:3}:visits")))?;
//!     assert_eq!(visits, 2);
//!
//!     // A shard channel is read where its slot is, and written from anywhere.
//!     let news = shared.shard_subscriber("news", Reconnect::backoff())?;
//!     news.ssubscribe("news").wait()?;
//!     assert_eq!(shared.spublish("news", "hello").wait()?, 1);
//!     let Some(Event::Message(message)) = news.next_timeout(Duration::from_secs(10))? else {
//!         return Err(Error::custom("no message"));
//!     };
//!     assert_eq!(message.payload_as::<String>()?, "hello");
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! A plain [`Connection`](crate::Connection) or [`Shared`](crate::Shared) to a node of a cluster can be opened too. It follows
//! nothing: a command for a slot of another node is an error of the code MOVED.
//!
//! # Functions over any executor
//!
//! The command traits are the same on a connection, a batch and a transaction, so a function can be written once for all
//! of them. `Copy` lets it issue several commands, and [`Handle`](crate::commands::Handle) lets one wait for what any of
//! them returns.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use redefer::commands::Handle;
//! use redefer::prelude::*;
//! use redefer::testing::Server;
//!
//! /// Issues the commands of one visit, and waits for none. The handle is the count.
//! fn visit<C: StringCommands + ListCommands + Copy>(on: C, page: &str) -> C::Reply<i64> {
//!     let count = on.incr("visits");
//!     on.rpush("pages", page).detach();
//!     count
//! }
//!
//! fn is_first(count: impl Handle<i64>) -> redefer::Result<bool> {
//!     Ok(count.wait()? == 1)
//! }
//!
//! fn main() -> redefer::Result<()> {
//!     let server = Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!
//!     assert!(is_first(visit(&conn, "/"))?);
//!
//!     let batch = conn.batch();
//!     let count = visit(&batch, "/index");
//!     batch.finish()?;
//!     assert!(!is_first(count)?);
//!
//!     let tx = conn.transaction();
//!     let count = visit(&tx, "/about");
//!     tx.commit().wait()?;
//!     assert_eq!(count.wait()?, 3);
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! Return several handles as a tuple, `(C::Reply<i64>, C::Reply<String>)`. A struct with the parameter `C` would work as
//! well, but it borrows the batch or the transaction: that could not be finished while it lives.
//!
//! # Testing one's own code
//!
//! With the feature `testing`, `redefer::testing::Server` starts a private server in a few milliseconds, on a
//! free port, and ends it when it is dropped. It needs `redis-server` or `valkey-server` on the `PATH`. In `Cargo.toml`:
//!
//! ```toml
//! [dev-dependencies]
//! redefer = { version = "0.1", features = ["testing"] }
//! ```
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use redefer::prelude::*;
//!
//! // What is to be tested.
//! fn register(conn: &Connection, name: &str) -> redefer::Result<i64> {
//!     let id = conn.incr("users:last").wait()?;
//!     conn.hset(format!("user:{id}"), ("name", name)).wait()?;
//!     Ok(id)
//! }
//!
//! // In a test module this has `#[test]` in front of it.
//! fn users_are_numbered_from_one() -> redefer::Result<()> {
//!     let server = redefer::testing::Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!     assert_eq!(register(&conn, "Ada")?, 1);
//!     assert_eq!(register(&conn, "Grace")?, 2);
//!     assert_eq!(conn.hget::<String>("user:2", "name").wait()?, "Grace");
//!
//!     // How many times it had to wait is part of what can be tested.
//!     let before = conn.stats();
//!     register(&conn, "Barbara")?;
//!     assert_eq!(conn.stats().round_trips - before.round_trips, 2);
//!     Ok(())
//! }
//! # users_are_numbered_from_one().unwrap() }
//! ```
//!
//! # Coming from the `redis` crate
//!
//! Methods have the names of the commands, without underscores inside (`setex`, `getdel`, `expireat`), and their arguments come in
//! the order of the protocol. A time is a [`Duration`](std::time::Duration). Options are one more argument of a method that ends
//! in `_with`. A connection is used by `&`, and each call ends in `wait`.
//!
//! | there | here |
//! | --- | --- |
//! | `Client::open(url)?.get_connection()?` | [`Connection::open(url)?`](crate::Connection::open); what a client keeps is a [`Config`], which can be cloned |
//! | `MultiplexedConnection`, `ConnectionManager` | [`Shared`](crate::Shared), with [`Config::reconnect`](crate::Config::reconnect) |
//! | `ClusterClient`, `ClusterConnection` | [`ClusterConfig`](crate::cluster::ClusterConfig), and [`Cluster`](crate::Cluster) or [`SharedCluster`](crate::SharedCluster) |
//! | `set_read_timeout`, `response_timeout` | [`Config::timeout`](crate::Config::timeout), or `wait_timeout` of one handle |
//! | `let _: () = con.set(k, v)?` | `conn.set(k, v).wait()?` |
//! | `con.get::<_, Option<String>>(k)?` | `conn.get::<Option<String>>(k).wait()?` |
//! | `set_ex(k, v, 60)`, `expire(k, 60)` | `setex(k, Duration::from_secs(60), v)`, `expire(k, Duration::from_secs(60))` |
//! | `set_options(k, v, options)` | `set_with(k, v, SetOptions::new().nx().expiry(time))`, of which nil is `None` |
//! | `hset_multiple(k, &pairs)`, `zadd_multiple(k, &pairs)` | `hset(k, pairs)`, `zadd(k, pairs)`, which take one pair or many |
//! | `zadd(k, member, score)`, `zrangebyscore(k, 0, 10)` | `zadd(k, (score, member))`, `zrangebyscore(k, (0, 10))` |
//! | `key_type(k)` | `type_(k)` |
//! | `scan_match(pattern)` | `scan_with(ScanOptions::new().match_(pattern))` |
//! | `cmd("X").arg(a).arg(b).query(&mut con)?` | `conn.command("X", (a, b)).wait()?` |
//! | `pipe()` and a list of replies | the handles themselves: [Pipelines](#pipelines); without the replies [Batches](#batches) |
//! | `pipe().atomic()`, `transaction(&mut con, keys, …)` | [`transaction`](crate::Connection::transaction), [`transact`](crate::Connection::transact) |
//! | `Script::new(s).key(k).arg(a).invoke(&mut con)?` | `Script::new(s).run(conn, k, a).wait()?` |
//! | `con.as_pubsub()` | [`into_subscriber`](crate::Connection::into_subscriber), or [`Subscriber::open`](crate::Subscriber::open) |
//! | `ToRedisArgs`, `FromRedisValue` | [`ToArg`] or [`ToArgs`](crate::ToArgs), [`FromReply`] |
//! | `RedisError`, `err.kind()`, `err.code()` | [`Error`](crate::Error), an enum to be matched, and [`code`](crate::Error::code) |
//!
//! Not the same: nil is only taken by an `Option`, and `Error::Nil` for anything else.
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! use std::time::Duration;
//!
//! use redefer::commands::{ScanOptions, SetOptions};
//! use redefer::prelude::*;
//!
//! fn main() -> redefer::Result<()> {
//!     let server = redefer::testing::Server::start()?;
//!     let conn = Connection::open(server.url())?;
//!     let minute = Duration::from_secs(60);
//!
//!     conn.setex("a", minute, 1).wait()?;
//!     assert!(conn.expire("a", minute).wait()?);
//!     assert_eq!(conn.set_with("a", 2, SetOptions::new().nx().expiry(minute)).wait()?, None);
//!     conn.hset("hash", [("x", 1), ("y", 2)]).wait()?;
//!     conn.zadd("scores", (7, "Ada")).wait()?;
//!     assert_eq!(conn.zrangebyscore::<String>("scores", (0, 10)).wait::<Vec<_>>()?, ["Ada"]);
//!     assert_eq!(conn.type_("scores").wait()?, "zset");
//!     let hashes = conn.scan_with::<String>(ScanOptions::new().match_("h*")).collect::<redefer::Result<Vec<_>>>()?;
//!     assert_eq!(hashes, ["hash"]);
//!     assert_eq!(conn.command::<String>("GETRANGE", ("a", 0, -1)).wait()?, "1");
//!     assert!(matches!(conn.get::<String>("nobody").wait(), Err(redefer::Error::Nil)));
//!     Ok(())
//! }
//! # main().unwrap() }
//! ```
//!
//! [`BlockingStreamCommands`]: crate::commands::BlockingStreamCommands
//! [`Config`]: crate::Config
//! [`Connection::open`]: crate::Connection::open
//! [`FromReply`]: crate::FromReply
//! [`MultiBulk`]: crate::MultiBulk
//! [`ToArg`]: crate::ToArg
//! [`ToPairs`]: crate::ToPairs
