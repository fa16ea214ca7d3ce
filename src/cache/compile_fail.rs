//! What must not compile: a cache is not used past what it cannot see. Compiled as documentation tests.
//!
//! Handles of what is issued without the cache stay with it.
//!
//! ```no_run
//! # use redefer::prelude::*;
//! # use redefer::cache::{CacheConfig, Cached};
//! let cached = Cached::open("redis://127.0.0.1", CacheConfig::new())?;
//! cached.uncached(|conn| conn.select(1).wait())?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail
//! # use redefer::prelude::*;
//! # use redefer::cache::{CacheConfig, Cached};
//! let cached = Cached::open("redis://127.0.0.1", CacheConfig::new())?;
//! let reply = cached.uncached(|conn| Ok(conn.select(1)))?;
//! # Ok::<(), redefer::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # use redefer::prelude::*;
//! # use redefer::cache::{CacheConfig, Cached};
//! let cached = Cached::open("redis://127.0.0.1", CacheConfig::new())?;
//! cached.select(1).wait()?;
//! # Ok::<(), redefer::Error>(())
//! ```
