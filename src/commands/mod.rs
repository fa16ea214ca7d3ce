//! The commands: one trait for each group of the Redis documentation, on everything a command can be issued on.
//!
//! | trait | commands | on |
//! | --- | --- | --- |
//! | [`StringCommands`] | `get`, `set`, `incr`, `mget`, … | all |
//! | [`HashCommands`] | `hget`, `hset`, `hgetall`, … | all |
//! | [`ListCommands`] | `lpush`, `lrange`, `lpop`, … | all |
//! | [`SetCommands`] | `sadd`, `smembers`, … | all |
//! | [`SortedSetCommands`] | `zadd`, `zrange`, … | all |
//! | [`StreamCommands`] | `xadd`, `xrange`, `xreadgroup`, … | all |
//! | [`KeyCommands`] | `del`, `expire`, `type_`, … | all |
//! | [`ScanPageCommands`] | `scan_page`, `hscan_page`, … | all |
//! | [`ScriptingCommands`] | `eval`, `script_load`, … | all |
//! | [`ServerCommands`] | `info`, `save`, `dbsize`, … | all |
//! | [`PubSubCommands`] | `publish`, … | all |
//! | [`ConnectionCommands`] | `ping`, `client_id`, … | all |
//! | [`ScanCommands`] | `scan`, `hscan`, … as iterators | [`Connection`](crate::Connection) |
//! | [`SessionCommands`] | `auth`, `select` | [`Connection`](crate::Connection) |
//! | [`BlockingListCommands`] | `blpop`, `blmove`, … | [`Connection`](crate::Connection) |
//! | [`BlockingSortedSetCommands`] | `bzpopmin`, … | [`Connection`](crate::Connection) |
//! | [`BlockingStreamCommands`] | `xread_block`, …; `xrange_all`, … as iterators | [`Connection`](crate::Connection) |
//! | [`BlockingKeyCommands`] | `wait`, `waitaof` | [`Connection`](crate::Connection) |
//!
//! "All" are `&`[`Connection`](crate::Connection), `&`[`Batch`](crate::Batch) and `&`[`Transaction`](crate::Transaction). What has no method
//! here is issued with [`Execute::command`].
//!
//! # What is not here, and why
//!
//! These change what a reply means for every command behind them, so they are refused even by name:
//!
//! | command | instead |
//! | --- | --- |
//! | MULTI, EXEC, DISCARD | [`Connection::transaction`](crate::Connection::transaction) |
//! | WATCH, UNWATCH | [`Connection::watch`](crate::Connection::watch), [`transact`](crate::Connection::transact) |
//! | HELLO | [`Config`](crate::Config), when the connection is opened |
//! | SUBSCRIBE and its family, MONITOR | a type of their own, in a later version |
//! | CLIENT REPLY | [`Reply::detach`](crate::Reply::detach), or a [`Batch`](crate::Batch) |
//! | RESET, QUIT | drop the connection, open another |
//! | SYNC, PSYNC, REPLCONF | nothing: they turn the connection into that of a replica |

mod connection;
mod hash;
mod keys;
mod list;
mod pubsub;
mod scan;
mod scripting;
mod server;
mod session;
mod set;
mod sorted_set;
mod stream;
mod string;
mod time;

pub use crate::execute::{Elements, Execute, Handle};
pub use connection::*;
pub use hash::*;
pub use keys::*;
pub use list::*;
pub use pubsub::*;
pub use scan::*;
pub use scripting::*;
pub use server::*;
pub use session::SessionCommands;
pub use set::*;
pub use sorted_set::*;
pub use stream::*;
pub use string::*;
