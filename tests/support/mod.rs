//! What the tests share: private servers, a scripted peer, and limits on how long anything may take.
//!
//! A test file says `mod support;` and takes what it needs. A file whose tests need a real server calls [`server()`] in
//! one of its forms; `make test-offline` runs the files that contain no such call.

#![allow(dead_code, unreachable_pub, reason = "each test file is a crate of its own and uses a part of this one")]

pub mod scripted;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

#[cfg(feature = "testing")]
use redefer::testing::Server;
use redefer::{Config, Connection, Protocol};

/// A real server of the test's own. It takes 5 to 35 ms to start, so no test has to share one.
#[cfg(feature = "testing")]
#[track_caller]
pub fn server() -> Server {
    match Server::start() {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    }
}

/// A real server with lines of its configuration file: `server_with([("maxclients", "1")])`.
#[cfg(feature = "testing")]
#[track_caller]
pub fn server_with<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Server {
    let builder = settings.into_iter().fold(Server::builder(), |builder, (key, value)| builder.config(key, value));
    match builder.start() {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    }
}

/// How to reach the server over TCP, in the protocol under test.
#[cfg(feature = "testing")]
#[track_caller]
pub fn config(server: &Server) -> Config {
    config_for(&server.url())
}

/// How to reach the server over its unix socket, in the protocol under test.
#[cfg(feature = "testing")]
#[track_caller]
pub fn unix_config(server: &Server) -> Config {
    config_for(&server.unix_url())
}

/// A connection to the server over TCP, in the protocol under test.
#[cfg(feature = "testing")]
#[track_caller]
pub fn open(server: &Server) -> Connection {
    match Connection::open(config(server)) {
        Ok(conn) => conn,
        Err(error) => panic!("{error}\nthe server's log:\n{}", server.log()),
    }
}

/// How to reach any URL, in the protocol under test.
#[track_caller]
pub fn config_for(url: &str) -> Config {
    match (Config::from_url(url), protocol()) {
        (Ok(config), Some(protocol)) => config.protocol(protocol),
        (Ok(config), None) => config,
        (Err(error), _) => panic!("{url}: {error}"),
    }
}

/// The protocol that `REDEFER_PROTOCOL` asks for (`resp2` or `resp3`); without it the crate's default.
pub fn protocol() -> Option<Protocol> {
    match std::env::var("REDEFER_PROTOCOL").as_deref() {
        Ok("resp2") => Some(Protocol::Resp2),
        Ok("resp3") => Some(Protocol::Resp3),
        Ok("") | Err(_) => None,
        Ok(other) => panic!("REDEFER_PROTOCOL is neither resp2 nor resp3: {other:?}"),
    }
}

/// Whether tests run in RESP2, for the few whose outcome depends on it.
pub fn is_resp2() -> bool {
    protocol() == Some(Protocol::Resp2)
}

/// Runs `work`, and fails the test if it takes longer than `limit`: for what must not hang. The thread that hangs is
/// left behind, so `work` owns what it uses.
#[track_caller]
pub fn within<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let worker = thread::spawn(move || {
        // Nobody listens when the limit has passed.
        let _ = sender.send(work());
    });
    match receiver.recv_timeout(limit) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("still not done after {limit:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("the work ended without a value and without a panic"),
        },
    }
}
