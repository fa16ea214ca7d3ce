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
//! | [`GeoCommands`] | `geoadd`, `geosearch`, … | all |
//! | [`BitmapCommands`] | `setbit`, `bitfield`, … | all |
//! | [`HyperLogLogCommands`] | `pfadd`, `pfcount`, … | all |
//! | [`VectorSetCommands`] | `vadd`, `vsim`, … | all |
//! | [`ServerCommands`] | `info`, `save`, `dbsize`, … | all |
//! | [`PubSubCommands`] | `publish`, … | all |
//! | [`ConnectionCommands`] | `ping`, `client_id`, … | all |
//! | [`ClusterCommands`] | `cluster_nodes`, `cluster_slots`, … | all |
//! | [`ClientSettingCommands`] | `client_setname`, … | all but [`Shared`](crate::Shared), clusters, their transactions and batches |
//! | [`ScanCommands`] | `scan`, `hscan`, … as iterators | [`Connection`](crate::Connection), [`Shared`](crate::Shared), [`Cluster`](crate::Cluster), [`SharedCluster`](crate::SharedCluster) |
//! | [`SessionCommands`] | `auth`, `select`, `shutdown`, … | [`Connection`](crate::Connection) |
//! | [`BlockingListCommands`] | `blpop`, `blmove`, … | [`Connection`](crate::Connection) |
//! | [`BlockingSortedSetCommands`] | `bzpopmin`, … | [`Connection`](crate::Connection) |
//! | [`BlockingStreamCommands`] | `xread_block`, …; `xrange_all`, … as iterators | [`Connection`](crate::Connection) |
//! | [`BlockingKeyCommands`] | `wait`, `waitaof` | [`Connection`](crate::Connection) |
//!
//! "All" are `&`[`Connection`](crate::Connection), `&`[`Batch`](crate::Batch), `&`[`Transaction`](crate::Transaction),
//! [`Idempotent`](crate::Idempotent), `&`[`Shared`](crate::Shared) with its [transactions](crate::SharedTransaction) and [batches](crate::SharedBatch), and
//! `&`[`Cluster`](crate::Cluster) and `&`[`SharedCluster`](crate::SharedCluster) with their transactions and batches; also `&`[`Ring`](crate::Ring), for commands with keys, and with the feature
//! `cache` `&Cached` and `OptedIn`. The blocking ones are on a `Cluster` as well. What has no method here is issued with
//! [`Execute::command`].
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
//! | MONITOR | [`Monitor`](crate::Monitor) |
//! | SUBSCRIBE, UNSUBSCRIBE, PSUBSCRIBE, PUNSUBSCRIBE, SSUBSCRIBE, SUNSUBSCRIBE | [`Subscriber`](crate::pubsub::Subscriber), also by [`Connection::into_subscriber`](crate::Connection::into_subscriber); in RESP3 [`Connection::subscribe`](crate::Connection::subscribe) and its like |
//! | CLIENT REPLY | [`Reply::detach`](crate::Reply::detach), or a [`Batch`](crate::Batch) |
//! | SCRIPT DEBUG | `redis-cli --ldb`: a script no longer answers once |
//! | RESET, QUIT | drop the connection, open another |
//! | SYNC, PSYNC, REPLCONF, CLUSTER SYNCSLOTS | nothing: they turn the connection into that of a replica or a node |
//!
//! These have no method, and can be issued by name:
//!
//! | command | why |
//! | --- | --- |
//! | DEBUG | for the developers of servers: what it takes and answers differs by version |
//! | RESTORE-ASKING | between nodes only: what MIGRATE sends; ASKING, then RESTORE, do the same |
//! | ACL HELP, CLIENT HELP, CLUSTER HELP, COMMAND HELP, COMMANDLOG HELP, CONFIG HELP, FUNCTION HELP, LATENCY HELP, MEMORY HELP, MODULE HELP, PUBSUB HELP, SCRIPT HELP, SLOWLOG HELP, XGROUP HELP, XINFO HELP | text for people |

mod bitmap;
mod cluster;
mod connection;
mod geo;
mod hash;
mod hyperloglog;
mod keys;
mod list;
mod parts;
mod pubsub;
mod record;
#[cfg(test)]
mod recorder;
mod scan;
mod scripting;
mod server;
mod session;
mod set;
mod sorted_set;
mod stream;
mod string;
mod time;
mod vector_set;

pub use crate::execute::{Elements, Execute, Handle};
pub use bitmap::*;
pub use cluster::*;
pub use connection::*;
pub use geo::*;
pub use hash::*;
pub use hyperloglog::*;
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
pub use vector_set::*;
