#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs, missing_debug_implementations)]
#![warn(unreachable_pub)]

pub mod args;
mod batch;
#[cfg(feature = "cache")]
pub mod cache;
pub mod cluster;
pub mod commands;
#[cfg(doctest)]
mod compile_fail;
mod connection;
pub mod cookbook;
mod error;
mod execute;
mod executors;
mod idempotent;
pub mod keyspace;
mod monitor;
#[cfg(feature = "r2d2")]
pub mod pool;
pub mod prelude;
pub mod pubsub;
mod reply;
pub mod resp;
mod ring;
mod script;
pub mod sentinel;
#[cfg(feature = "serde")]
pub mod serde;
mod shared;
#[cfg(all(unix, feature = "testing"))]
pub mod testing;
mod transaction;
mod values;

pub use args::{Arg, ToArg, ToArgs, ToPairs};
pub use batch::Batch;
#[cfg(feature = "cache")]
pub use cache::Cached;
pub use cluster::{Cluster, SharedCluster};
#[cfg(feature = "tls")]
pub use connection::TlsConfig;
pub use connection::{Config, Connection, Credentials, IntoConfig, Protocol, Reconnect, SendWhen, Stats};
pub use error::{BatchError, ConnectionLost, Error, Result, Sent, ServerError, UnexpectedReply, WaitError};
pub use execute::Lasting;
pub use idempotent::Idempotent;
pub use monitor::{Monitor, MonitorClient, MonitorEntry, MonitorHandle};
#[cfg(feature = "r2d2")]
pub use pool::Pool;
pub use pubsub::Subscriber;
pub use reply::{MultiBulk, Queued, Reply};
pub use ring::Ring;
pub use script::{Script, ScriptReply};
pub use sentinel::Sentinel;
pub use shared::{Shared, SharedBatch, SharedMultiBulk, SharedQueued, SharedReply, SharedTransaction};
pub use transaction::{Handles, Transaction, Watch};
pub use values::{FromReply, Value};

/// The version of rustls that [`TlsConfig`] takes a configuration of.
#[cfg(feature = "tls")]
pub use rustls;
