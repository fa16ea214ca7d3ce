//! What the tests share: private servers, a scripted peer, and limits on how long anything may take.
//!
//! A test file says `mod support;` and takes what it needs. A file whose tests need a real server calls [`server()`] in
//! one of its forms; `make test-offline` runs the files that contain no such call.

#![allow(dead_code, unreachable_pub, reason = "each test file is a crate of its own and uses a part of this one")]

pub mod memory;
pub mod nodes;
#[cfg(unix)]
pub mod proxy;
pub mod scripted;
pub mod shared;
#[cfg(all(feature = "testing", feature = "tls"))]
pub mod tls;
pub mod unruly;

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

#[cfg(feature = "testing")]
use redefer::testing::Server;
use redefer::{Config, Connection, Protocol};

/// A server of the test's own, which is asked at its end what it was asked, if `REDEFER_COVERAGE` names a folder for the
/// answers: see `tests/coverage.rs`.
#[cfg(feature = "testing")]
pub struct Private(Server);

#[cfg(feature = "testing")]
impl std::ops::Deref for Private {
    type Target = Server;
    fn deref(&self) -> &Server {
        &self.0
    }
}

#[cfg(feature = "testing")]
impl Drop for Private {
    fn drop(&mut self) {
        if let Some(folder) = std::env::var_os("REDEFER_COVERAGE") {
            // A server that has ended, or lets nobody in, has nothing to say.
            let _ = note_commands(&self.0, folder.as_ref());
        }
    }
}

/// Writes down which commands the server has run, in a file named for the server and the protocol.
#[cfg(feature = "testing")]
fn note_commands(server: &Server, folder: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    use std::io::Write as _;

    let stats: String = Connection::open(server.url())?.command("INFO", "commandstats").wait()?;
    let names = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next());
    let names: Vec<String> = names.map(|name| name.replace('|', " ").to_uppercase()).collect();
    let (major, minor, _) = server.version();
    let protocol = if is_resp2() { "RESP2" } else { "RESP3" };
    std::fs::create_dir_all(folder)?;
    let path = folder.join(format!("{} {major}.{minor} {protocol}", server.name()));
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
    Ok(file.write_all(format!("{}\n", names.join("\n")).as_bytes())?)
}

/// A real server of the test's own. It takes 5 to 35 ms to start, so no test has to share one.
#[cfg(feature = "testing")]
#[track_caller]
pub fn server() -> Private {
    match Server::start() {
        Ok(server) => Private(server),
        Err(error) => panic!("{error}"),
    }
}

/// A real server with lines of its configuration file: `server_with([("maxclients", "1")])`.
#[cfg(feature = "testing")]
#[track_caller]
pub fn server_with<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Private {
    let builder = settings.into_iter().fold(Server::builder(), |builder, (key, value)| builder.config(key, value));
    match builder.start() {
        Ok(server) => Private(server),
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

/// A port that refuses connections for as long as this lives: it is bound, so that nobody else gets it, and nobody listens.
pub struct Refusing(socket2::Socket);

impl Refusing {
    pub fn start() -> Refusing {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        Refusing(socket)
    }

    pub fn port(&self) -> u16 {
        self.0.local_addr().unwrap().as_socket().unwrap().port()
    }
}

/// Asks until it is so, for what nobody is told of by itself. There is no pause between: to ask is a round trip, or a
/// look at a socket.
#[track_caller]
pub fn until(what: &str, is_so: impl FnMut() -> redefer::Result<bool>) -> redefer::Result<()> {
    until_within(Duration::from_secs(30), what, is_so)
}

/// The same, for what may take longer.
#[track_caller]
pub fn until_within(
    limit: Duration,
    what: &str,
    mut is_so: impl FnMut() -> redefer::Result<bool>,
) -> redefer::Result<()> {
    let start = Instant::now();
    while !is_so()? {
        assert!(start.elapsed() < limit, "still not so: {what}");
        thread::yield_now();
    }
    Ok(())
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
