//! What must not compile, each beside something as near to it as can be that does: so that what fails, fails for the
//! right reason. Compiled as documentation tests, and no part of the crate.
//!
//! All of them begin alike:
//!
//! ```no_run
//! use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! # A handle does not outlive its connection
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let reply: Reply<'_, String> = conn.get("k");
//! reply.wait()?;
//! drop(conn);
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0505
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let reply: Reply<'_, String> = conn.get("k");
//! drop(conn);
//! reply.wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! Not even when it is only dropped behind it, which would read:
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! {
//!     let _reply: Reply<'_, String> = conn.get("k");
//! }
//! drop(conn);
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0505
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let _reply: Reply<'_, String> = conn.get("k");
//! drop(conn);
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! Nor does it leave the block of its connection:
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let reply: Reply<'_, String> = { conn.get("k") };
//! reply.wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0597
//! # use redefer::prelude::*;
//! let reply: Reply<'_, String> = {
//!     let conn = Connection::open("redis://127.0.0.1")?;
//!     let reply = conn.get("k");
//!     reply
//! };
//! reply.wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! Or its function:
//!
//! ```no_run
//! # use redefer::prelude::*;
//! fn ask(conn: &Connection) -> Reply<'_, String> {
//!     conn.get("k")
//! }
//! ```
//!
//! ```compile_fail,E0515
//! # use redefer::prelude::*;
//! fn ask(conn: Connection) -> Reply<'static, String> {
//!     conn.get("k")
//! }
//! ```
//!
//! # Multi-bulks, transactions, batches and watches do not either
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let list: MultiBulk<'_, String> = conn.lrange("list", 0, -1);
//! let number = {
//!     let tx = conn.transaction();
//!     let number = tx.incr("n");
//!     tx.commit().wait()?;
//!     number
//! };
//! let queued = {
//!     let batch = conn.batch();
//!     let queued = batch.incr("n");
//!     batch.finish()?;
//!     queued
//! };
//! drop(conn.watch("k")?);
//! let _all: (Vec<String>, i64, i64) = (list.wait()?, number.wait()?, queued.wait()?);
//! drop(conn);
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0505
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let list: MultiBulk<'_, String> = conn.lrange("list", 0, -1);
//! drop(conn);
//! let _all: Vec<String> = list.wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0505
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let tx = conn.transaction();
//! let number = tx.incr("n");
//! tx.commit().wait()?;
//! drop(conn);
//! number.wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0505
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let batch = conn.batch();
//! let number = batch.incr("n");
//! batch.finish()?;
//! drop(conn);
//! number.wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0505
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let watch = conn.watch("k")?;
//! drop(conn);
//! drop(watch);
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! # A reply is waited for once
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let reply: Reply<'_, String> = conn.get("k");
//! let _ready = reply.is_ready()?;
//! reply.wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0382
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let reply: Reply<'_, String> = conn.get("k");
//! reply.wait()?;
//! let _ready = reply.is_ready()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0382
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let reply: Reply<'_, String> = conn.get("k");
//! reply.detach();
//! reply.wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! # A guard is used up by its end
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let tx = conn.transaction();
//! let number = tx.incr("n");
//! tx.commit().wait()?;
//! number.wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0382
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let tx = conn.transaction();
//! tx.commit().wait()?;
//! let number = tx.incr("n");
//! number.wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0382
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let batch = conn.batch();
//! batch.finish()?;
//! batch.incr("n");
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0382
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let watch = conn.watch("k")?;
//! let first = watch.transaction();
//! let second = watch.transaction();
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! # A connection belongs to one thread at a time
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let conn = std::thread::spawn(move || conn.ping().wait().map(|()| conn)).join().unwrap()?;
//! let shared = std::sync::Mutex::new(conn);
//! std::thread::scope(|scope| {
//!     scope.spawn(|| shared.lock().unwrap().ping().wait());
//!     scope.spawn(|| shared.lock().unwrap().ping().wait());
//! });
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let shared = conn;
//! std::thread::scope(|scope| {
//!     scope.spawn(|| shared.ping().wait());
//!     scope.spawn(|| shared.ping().wait());
//! });
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! fn shared<T: Sync>() {}
//! shared::<redefer::Connection>();
//! ```
//!
//! ```
//! fn sent<T: Send>() {}
//! sent::<redefer::Connection>();
//! fn sent_and_shared<T: Send + Sync>() {}
//! sent_and_shared::<redefer::Config>();
//! sent_and_shared::<redefer::Error>();
//! sent_and_shared::<redefer::Value>();
//! ```
//!
//! And its handles stay with it:
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let reply = conn.get::<String>("k");
//! let value = reply.wait();
//! std::thread::scope(|scope| scope.spawn(move || value).join().unwrap())?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let reply = conn.get::<String>("k");
//! std::thread::scope(|scope| scope.spawn(move || reply.wait()).join().unwrap())?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! fn sent<T: Send>() {}
//! sent::<redefer::Queued<'static, String>>();
//! ```
//!
//! ```compile_fail,E0277
//! fn sent<T: Send>() {}
//! sent::<redefer::MultiBulk<'static, String>>();
//! ```
//!
//! ```compile_fail,E0277
//! fn sent<T: Send>() {}
//! sent::<redefer::Transaction<'static>>();
//! ```
//!
//! # Blocking commands are for those who own the connection
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.blpop::<String, String>("list", None).wait()?;
//! conn.bzpopmin::<String, String>("zset", None).wait()?;
//! KeyCommands::dump(&conn, "k").wait()?;
//! BlockingKeyCommands::wait(&conn, 1, None).wait()?;
//! let batch = conn.batch();
//! batch.lpop::<Option<String>>("list").wait()?;
//! let tx = conn.transaction();
//! tx.lpop::<Option<String>>("list");
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let batch = conn.batch();
//! batch.blpop::<String, String>("list", None).wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let tx = conn.transaction();
//! tx.blpop::<String, String>("list", None);
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let tx = conn.transaction();
//! tx.bzpopmin::<String, String>("zset", None);
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! BlockingKeyCommands::wait(&conn.batch(), 1, None).wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! # What changes the connection, or goes back and forth, is for those who own it as well
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.auth("user", "password").wait()?;
//! conn.select(1).wait()?;
//! for key in conn.scan::<String>() {
//!     println!("{}", key?);
//! }
//! let tx = conn.transaction();
//! tx.ping();
//! tx.keys::<String>("*").detach();
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.transaction().auth("user", "password");
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.transaction().select(1);
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.batch().select(1);
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! for key in conn.transaction().scan::<String>() {}
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! # The transaction of `transact` stays in it
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let mut kept = None;
//! conn.transact("k", |_, tx| {
//!     kept = Some(tx.len());
//!     Ok(tx.incr("k"))
//! })?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0521
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let mut kept = None;
//! conn.transact("k", |_, tx| {
//!     kept = Some(tx);
//!     Ok(tx.incr("k"))
//! })?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! And it is committed by nobody else:
//!
//! ```compile_fail,E0507
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.transact("k", |_, tx| {
//!     tx.commit().detach();
//!     Ok(())
//! })?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! # Pairs are pairs
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.hset("hash", ("field", "value")).wait()?;
//! conn.hset("hash", [("field", "value"), ("other", "value")]).wait()?;
//! conn.mset(("key", "value")).wait()?;
//! conn.zadd("zset", (1.5, "member")).wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.hset("hash", "field").wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.hset("hash", ["field", "value"]).wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.hset("hash", ("field", "value", "more")).wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.mset("key").wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! # A byte is no number
//!
//! So that bytes are never taken for a list of numbers, nor the other way round:
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.set("k", vec![1u8, 2, 3]).wait()?;
//! conn.rpush("list", [1u32, 2, 3]).wait()?;
//! let _bytes: Vec<u8> = conn.get("k").wait()?;
//! let _number: u32 = conn.lindex("list", 0).wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.set("k", 1u8).wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.rpush("list", args::each([1u8, 2, 3])).wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let _number: u8 = conn.lindex("list", 0).wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! # An argument is one argument, a list is a list
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.set("k", "v").wait()?;
//! conn.del(["a", "b"]).wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.set("k", ["v", "w"]).wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.set(None::<String>, "v").wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! # A reply is not thrown away without a word
//!
//! ```no_run
//! #![deny(unused_must_use)]
//! # use redefer::prelude::*;
//! # fn main() -> redefer::Result<()> {
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.set("k", "v").detach();
//! conn.lrange::<String>("list", 0, -1).detach();
//! let batch = conn.batch();
//! batch.set("k", "v");
//! batch.finish()?;
//! let tx = conn.transaction();
//! tx.set("k", "v");
//! tx.commit().wait()?;
//! # Ok(())
//! # }
//! ```
//!
//! ```compile_fail
//! #![deny(unused_must_use)]
//! # use redefer::prelude::*;
//! # fn main() -> redefer::Result<()> {
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.set("k", "v");
//! # Ok(())
//! # }
//! ```
//!
//! ```compile_fail
//! #![deny(unused_must_use)]
//! # use redefer::prelude::*;
//! # fn main() -> redefer::Result<()> {
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.lrange::<String>("list", 0, -1);
//! # Ok(())
//! # }
//! ```
//!
//! ```compile_fail
//! #![deny(unused_must_use)]
//! # use redefer::prelude::*;
//! # fn main() -> redefer::Result<()> {
//! let conn = Connection::open("redis://127.0.0.1")?;
//! let tx = conn.transaction();
//! tx.set("k", "v");
//! tx.commit();
//! # Ok(())
//! # }
//! ```
//!
//! # What a connection is opened with is decided by this crate
//!
//! ```no_run
//! # use redefer::prelude::*;
//! Connection::open("redis://127.0.0.1")?;
//! Connection::open(Config::tcp("127.0.0.1", 6379))?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! # use redefer::prelude::*;
//! Connection::open(("127.0.0.1", 6379))?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! # On a connection that threads share there is nothing that others would feel
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let shared = Shared::open("redis://127.0.0.1")?;
//! let _: Option<String> = shared.lpop("list").wait()?;
//! let _: Option<String> = shared.client_getname().wait()?;
//! let tx = shared.transaction();
//! tx.incr("n");
//! tx.commit().wait()?;
//! let batch = shared.batch();
//! batch.incr("n");
//! batch.finish()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! conn.select(1).wait()?;
//! conn.auth("user", "password").wait()?;
//! conn.client_setname("name").wait()?;
//! conn.client_no_evict(true).wait()?;
//! conn.client_tracking(true).wait()?;
//! let _: Option<(String, String)> = conn.blpop("list", std::time::Duration::from_secs(1)).wait()?;
//! conn.watch("key")?;
//! conn.transact("key", |_, tx| Ok(tx.incr("n")))?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let shared = Shared::open("redis://127.0.0.1")?;
//! shared.select(1).wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let shared = Shared::open("redis://127.0.0.1")?;
//! shared.auth("user", "password").wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let shared = Shared::open("redis://127.0.0.1")?;
//! shared.client_setname("name").wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let shared = Shared::open("redis://127.0.0.1")?;
//! shared.client_no_evict(true).wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let shared = Shared::open("redis://127.0.0.1")?;
//! shared.client_tracking(true).wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let shared = Shared::open("redis://127.0.0.1")?;
//! let _: Option<(String, String)> = shared.blpop("list", std::time::Duration::from_secs(1)).wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let shared = Shared::open("redis://127.0.0.1")?;
//! shared.watch("key")?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let shared = Shared::open("redis://127.0.0.1")?;
//! shared.transact("key", |_, tx| Ok(tx.incr("n")))?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let shared = Shared::open("redis://127.0.0.1")?;
//! shared.transaction().select(1);
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let shared = Shared::open("redis://127.0.0.1")?;
//! shared.batch().blpop::<String, String>("list", std::time::Duration::from_secs(1));
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let shared = Shared::open("redis://127.0.0.1")?;
//! shared.transaction().client_setname("name");
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let shared = Shared::open("redis://127.0.0.1")?;
//! shared.readonly().wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let shared = Shared::open("redis://127.0.0.1")?;
//! shared.asking().wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let shared = Shared::open("redis://127.0.0.1")?;
//! shared.shutdown()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! Its handles do not outlive it either, and unlike a connection it can be used by threads at the same time:
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let shared = Shared::open("redis://127.0.0.1")?;
//! std::thread::scope(|scope| {
//!     scope.spawn(|| shared.incr("n").wait());
//!     scope.spawn(|| shared.incr("n").wait());
//! });
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! # use redefer::prelude::*;
//! let conn = Connection::open("redis://127.0.0.1")?;
//! std::thread::scope(|scope| {
//!     scope.spawn(|| conn.incr("n").wait());
//!     scope.spawn(|| conn.incr("n").wait());
//! });
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0505
//! # use redefer::prelude::*;
//! let shared = Shared::open("redis://127.0.0.1")?;
//! let reply = shared.incr("n");
//! drop(shared);
//! reply.wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! # Nor is there on a cluster that threads share
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let cluster = redefer::SharedCluster::open("redis://127.0.0.1")?;
//! std::thread::scope(|scope| {
//!     scope.spawn(|| cluster.incr("n").wait());
//!     scope.spawn(|| cluster.incr("n").wait());
//! });
//! let theirs = cluster.clone();
//! std::thread::spawn(move || theirs.lpop::<Option<String>>("list").wait());
//! let reply = cluster.incr("n");
//! reply.wait()?;
//! let batch = cluster.batch();
//! std::thread::scope(|scope| drop(scope.spawn(move || batch.finish())));
//! drop(cluster);
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let cluster = redefer::Cluster::open("redis://127.0.0.1")?;
//! let _: Option<(String, String)> = cluster.blpop("list", std::time::Duration::from_secs(1)).wait()?;
//! cluster.wait(1, None).wait()?;
//! cluster.watch("key")?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let cluster = redefer::SharedCluster::open("redis://127.0.0.1")?;
//! let _: Option<(String, String)> = cluster.blpop("list", std::time::Duration::from_secs(1)).wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let cluster = redefer::SharedCluster::open("redis://127.0.0.1")?;
//! cluster.wait(1, None).wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let cluster = redefer::SharedCluster::open("redis://127.0.0.1")?;
//! cluster.watch("key")?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! let cluster = redefer::SharedCluster::open("redis://127.0.0.1")?;
//! cluster.client_setname("name").wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! # use redefer::prelude::*;
//! let cluster = redefer::SharedCluster::open("redis://127.0.0.1")?;
//! let batch = cluster.batch();
//! std::thread::scope(|scope| drop(scope.spawn(|| batch.incr("n").wait())));
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0505
//! # use redefer::prelude::*;
//! let cluster = redefer::SharedCluster::open("redis://127.0.0.1")?;
//! let reply = cluster.incr("n");
//! drop(cluster);
//! reply.wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! # A cluster is for one thread at a time, and its handles do not outlive it
//!
//! ```no_run
//! let cluster = redefer::Cluster::open("redis://127.0.0.1")?;
//! std::thread::spawn(move || drop(cluster));
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! let cluster = redefer::Cluster::open("redis://127.0.0.1")?;
//! std::thread::scope(|scope| drop(scope.spawn(|| drop(&cluster))));
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```no_run
//! # use redefer::prelude::*;
//! let cluster = redefer::Cluster::open("redis://127.0.0.1")?;
//! let reply = cluster.get::<String>("k");
//! reply.wait()?;
//! drop(cluster);
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0505
//! # use redefer::prelude::*;
//! let cluster = redefer::Cluster::open("redis://127.0.0.1")?;
//! let reply = cluster.get::<String>("k");
//! drop(cluster);
//! reply.wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
