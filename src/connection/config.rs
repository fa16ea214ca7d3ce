//! Where the server is, who is asking, and how the connection behaves.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::found::Found;
use super::reconnect::Reconnect;
#[cfg(feature = "tls")]
use super::tls_config::TlsConfig;
use super::url;
use crate::error::{Error, Result};

/// The shortest timeout. Zero means "for ever" to some operating systems, and to this crate never.
const SHORTEST: Duration = Duration::from_millis(1);

/// The longest timeout, a hundred years: a point in time that far off can be computed on every platform.
pub(crate) const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// What operating systems take as the idle time before the first keep-alive probe.
const KEEPALIVE_SHORTEST: Duration = Duration::from_secs(1);
const KEEPALIVE_LONGEST: Duration = Duration::from_secs(32_767);

/// The longest TCP_USER_TIMEOUT that systems take.
const USER_TIMEOUT_LONGEST: Duration = Duration::from_millis(i32::MAX as u64);

/// The size of `sun_path`, the closing NUL included.
const UNIX_PATH_SIZE: usize =
    if cfg!(any(target_os = "linux", target_os = "android", target_os = "illumos", target_os = "solaris")) {
        108
    } else {
        104
    };

/// Where the server is, who is asking, and how the connection behaves.
///
/// Made from an address or a URL, then changed by methods that take it and give it back. Nothing is checked before
/// [`Connection::open`], except that a URL is checked when it is parsed.
///
/// `Debug` shows everything but the password and the private key.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use redefer::Config;
///
/// let config = Config::tcp("redis.example", 6379)
///     .user("worker")
///     .password("correct horse")
///     .database(3)
///     .timeout(Duration::from_secs(2));
///
/// let same = Config::from_url("redis://worker:correct%20horse@redis.example/3?timeout=2s")?;
/// assert_eq!(format!("{config:?}"), format!("{same:?}"));
/// # Ok::<(), redefer::Error>(())
/// ```
///
/// [`Connection::open`]: crate::Connection::open
#[derive(Clone)]
pub struct Config {
    pub(crate) endpoint: Endpoint,
    pub(crate) user: Option<Vec<u8>>,
    pub(crate) password: Option<Vec<u8>>,
    pub(crate) database: u32,
    pub(crate) client_name: Option<String>,
    pub(crate) client_setinfo: bool,
    pub(crate) connect_timeout: Duration,
    pub(crate) timeout: Option<Duration>,
    pub(crate) nodelay: bool,
    pub(crate) keepalive: Option<Duration>,
    pub(crate) tcp_user_timeout: Option<Duration>,
    pub(crate) send_buffer_size: Option<usize>,
    pub(crate) recv_buffer_size: Option<usize>,
    pub(crate) write_batch: usize,
    pub(crate) max_outstanding: usize,
    pub(crate) push_queue: (usize, usize),
    pub(crate) max_outstanding_bytes: usize,
    pub(crate) linger: Duration,
    pub(crate) send_when: SendWhen,
    pub(crate) protocol: Protocol,
    pub(crate) reconnect: Reconnect,
    pub(crate) credentials: Option<Ask>,
    pub(crate) idle_check: Duration,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<TlsConfig>,
}

/// What is asked for credentials.
pub(crate) type Ask = Arc<dyn Fn() -> Result<Credentials> + Send + Sync>;

/// A user and a password, as [`Config::credentials`] gives them. The password is not in its `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) user: Option<Vec<u8>>,
    pub(crate) password: Vec<u8>,
}

impl Credentials {
    /// A user and its password. Since 6.0.
    #[must_use]
    pub fn new(user: impl Into<Vec<u8>>, password: impl Into<Vec<u8>>) -> Self {
        Credentials { user: Some(user.into()), password: password.into() }
    }

    /// The password of the user `default`.
    #[must_use]
    pub fn password(password: impl Into<Vec<u8>>) -> Self {
        Credentials { user: None, password: password.into() }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_deref().map(String::from_utf8_lossy);
        f.debug_struct("Credentials").field("user", &user).finish_non_exhaustive()
    }
}

/// What is dialled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// A host name or an IP address (IPv6 without brackets, with its zone after `%`), and a port.
    Tcp { host: String, port: u16 },
    /// The path of a unix socket.
    Unix(PathBuf),
    /// Whatever is found when it is dialled.
    Found(Found),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Endpoint::Tcp { host, port } => write!(f, "{host}:{port}"),
            Endpoint::Unix(path) => write!(f, "{}", path.display()),
            Endpoint::Found(found) => f.write_str(&found.0.what()),
        }
    }
}

/// When the bytes of a command go to the server: see [`Config::send_when`].
///
/// Whatever the choice, waiting for a reply sends everything before it, and so does [`Connection::flush`].
///
/// [`Connection::flush`]: crate::Connection::flush
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SendWhen {
    /// As the calls so far suggest.
    ///
    /// A command issued with nothing outstanding is written at once if the previous busy period had only one command,
    /// or if there was none, so that the server works while the caller does. Else commands gather until someone waits,
    /// until [`flush`](crate::Connection::flush), until there are [`write_batch`](Config::write_batch) bytes, or until
    /// the oldest gathered one is 1 ms old at the next call. (The clock is not read at every call: at the latest
    /// when as many commands again have been gathered.)
    #[default]
    Adaptive,
    /// Each command is written when it is issued: the shortest way to the server, at the price of a system call each.
    Eager,
    /// Commands gather until someone waits, until [`flush`](crate::Connection::flush), or until there are
    /// [`write_batch`](Config::write_batch) bytes: the fewest system calls.
    Gathering,
}

/// The version of the protocol to ask the server for: see [`Config::protocol`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// RESP2, which every server speaks.
    Resp2,
    /// RESP3, and RESP2 where the server has no HELLO.
    #[default]
    Resp3,
}

impl Config {
    /// A server at a host, by name or by IP address, and a port.
    ///
    /// An IPv6 address is written without brackets, and may have a zone: `fe80::1%eth0`. A name is resolved at each
    /// connect, and its addresses are tried in turn.
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Config::new(Endpoint::Tcp { host: host.into(), port })
    }

    /// A server at a unix socket.
    ///
    /// A path longer than the platform allows (107 bytes on Linux, 103 on others) is an error at
    /// [`Connection::open`](crate::Connection::open), and never a path cut short.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Config::new(Endpoint::Unix(path.into()))
    }

    /// A server and options from a URL.
    ///
    /// | URL | means |
    /// | --- | --- |
    /// | `redis://host` | port 6379 |
    /// | `redis://host:7000/3` | database 3; also as `?db=3` or `?database=3` |
    /// | `redis:///3` | no host is 127.0.0.1 |
    /// | `rediss://host` | TLS, still on port 6379 |
    /// | `redis://:password@host` | the password of the default user |
    /// | `redis://user:password@host` | |
    /// | `redis://user:@host` | an empty password, for a user that needs none |
    /// | `redis://[::1]:7000` | an IPv6 address |
    /// | `redis://[fe80::1%25eth0]` | with a zone; a bare `%eth0` does as well |
    /// | `redis+unix:///run/redis.sock?db=3` | a unix socket; also `unix://` |
    /// | `redis+unix://user:password@/run/redis.sock` | |
    ///
    /// `valkey://` and `valkey+unix://` are the same as `redis://` and `redis+unix://`. `rediss://` and `valkeys://` are
    /// `redis://` with TLS and the certificates that the platform trusts, as `Config::tls` has them by default; without
    /// the feature `tls` of this crate they are errors.
    ///
    /// After a `?` and joined by `&` may follow `db` or `database`, `client_name` or `name`, `client_setinfo` (`true` or
    /// `false`), `protocol` (`2`, `3`, `resp2` or `resp3`), `connect_timeout` and `timeout` (a whole number with a unit:
    /// `500ms` or `5s`), and, for unix sockets, `user` and `password` or `pass`. Anything else is an error, and so is a thing given twice with different
    /// values. What the URL does not say has the defaults of the builder methods.
    ///
    /// # Escapes
    ///
    /// User, password, host, path and values are percent-decoded, once; user and password may be any bytes. A `+` is a
    /// plus. In a password, `/ ? # %`, spaces and control characters must be escaped (`%2F %3F %23 %25 …`), in a user `:`
    /// as well; `@` and `:` in a password need no escape, but other software would like one. Unless the URL begins with
    /// `redis:///` or the like, an `@` behind the host must be escaped too (`%40`), so that a password with a forgotten
    /// escape is not taken for something else.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] says what is wrong, without repeating the URL or its values.
    pub fn from_url(url: &str) -> Result<Self> {
        let config = url::parse(url)?;
        config.validate()?;
        Ok(config)
    }

    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Config {
            endpoint,
            user: None,
            password: None,
            database: 0,
            client_name: None,
            client_setinfo: true,
            connect_timeout: Duration::from_secs(5),
            timeout: Some(Duration::from_secs(30)),
            nodelay: true,
            keepalive: Some(Duration::from_secs(30)),
            tcp_user_timeout: None,
            send_buffer_size: None,
            recv_buffer_size: None,
            write_batch: 8 * 1024,
            max_outstanding: 65_536,
            push_queue: (1024, 16 << 20),
            max_outstanding_bytes: 64 << 20,
            linger: Duration::from_secs(1),
            send_when: SendWhen::Adaptive,
            protocol: Protocol::Resp3,
            reconnect: Reconnect::never(),
            credentials: None,
            idle_check: Duration::from_secs(1),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// The user to authenticate as, of any bytes.
    ///
    /// A user needs a password, which is empty for a user that has none. An empty name is no name. Defaults to none,
    /// which is the server's `default` user.
    #[must_use]
    pub fn user(mut self, user: impl AsRef<[u8]>) -> Self {
        let user = user.as_ref();
        self.user = (!user.is_empty()).then(|| user.to_vec());
        self
    }

    /// The password, of any bytes.
    ///
    /// It is never shown in `Debug` or in errors. Defaults to none.
    #[must_use]
    pub fn password(mut self, password: impl AsRef<[u8]>) -> Self {
        self.password = Some(password.as_ref().to_vec());
        self
    }

    /// The number of the database to select.
    ///
    /// A database that the server does not have fails the connect. Nothing is sent for 0, since some servers and users
    /// are not allowed to select. Defaults to 0.
    #[must_use]
    pub fn database(mut self, database: u32) -> Self {
        self.database = database;
        self
    }

    /// The name of the connection, as CLIENT LIST shows it.
    ///
    /// A name that the server refuses, such as one with spaces, fails the connect. An empty name is no name. Defaults to
    /// none.
    #[must_use]
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.client_name = Some(name.into()).filter(|name| !name.is_empty());
        self
    }

    /// Whether the name and the version of this crate are told to the server when the connection is opened (CLIENT SETINFO),
    /// for CLIENT LIST to show them.
    ///
    /// It is a courtesy: an error is ignored. But a server whose rules do not let this user do it notes two denied commands
    /// in its ACL LOG at each connect: say `false` for such a user. Defaults to `true`.
    #[must_use]
    pub fn client_setinfo(mut self, tell: bool) -> Self {
        self.client_setinfo = tell;
        self
    }

    /// How long connecting may take in all: every address of the host, TLS, and the handshake.
    ///
    /// Less than 1 ms is taken as 1 ms, and more than a hundred years as a hundred years. Defaults to 5 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout.clamp(SHORTEST, LONGEST);
        self
    }

    /// How long one wait for a reply may take, from its beginning to the last byte of the reply.
    ///
    /// A blocking command's own time is added. `None` waits for ever. [`Duration::ZERO`] does not: less than 1 ms is
    /// taken as 1 ms, and more than a hundred years as a hundred years. Defaults to 30 s.
    #[doc(alias("response_timeout", "read_timeout"))]
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into().map(|timeout| timeout.clamp(SHORTEST, LONGEST));
        self
    }

    /// Whether small writes go out at once (TCP_NODELAY), and not by Nagle's algorithm.
    ///
    /// Commands are gathered by this crate before they are written, so there is little reason to turn this off. Without
    /// meaning for unix sockets. Defaults to `true`.
    #[must_use]
    pub fn nodelay(mut self, nodelay: bool) -> Self {
        self.nodelay = nodelay;
        self
    }

    /// After how long without traffic the operating system begins to probe whether the peer is still there.
    ///
    /// `None` turns the probes off. Taken in whole seconds, at least 1 s and at most 32,767 s. Without meaning for unix
    /// sockets. Defaults to 30 s.
    #[must_use]
    pub fn keepalive(mut self, idle: impl Into<Option<Duration>>) -> Self {
        self.keepalive = idle.into().map(|idle| idle.clamp(KEEPALIVE_SHORTEST, KEEPALIVE_LONGEST));
        self
    }

    /// How long what was written may stay unacknowledged by the peer's system before the connection is broken
    /// (TCP_USER_TIMEOUT): how a host that is gone is found out while there is traffic, which keep-alive does not watch.
    ///
    /// Taken in whole milliseconds, at least 1. On Linux and Android; without meaning elsewhere and for unix sockets.
    /// Defaults to the system's own choice, which is many minutes.
    #[must_use]
    pub fn tcp_user_timeout(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.tcp_user_timeout = time.into().map(|time| time.clamp(SHORTEST, USER_TIMEOUT_LONGEST));
        self
    }

    /// The size in bytes of the operating system's send buffer of the socket (SO_SNDBUF).
    ///
    /// Systems round it and bound it as they like. Defaults to the system's own choice.
    #[must_use]
    pub fn send_buffer_size(mut self, bytes: usize) -> Self {
        self.send_buffer_size = Some(socket_buffer_size(bytes));
        self
    }

    /// The size in bytes of the operating system's receive buffer of the socket (SO_RCVBUF).
    ///
    /// Systems round it and bound it as they like. Defaults to the system's own choice.
    #[must_use]
    pub fn recv_buffer_size(mut self, bytes: usize) -> Self {
        self.recv_buffer_size = Some(socket_buffer_size(bytes));
        self
    }

    /// How many bytes of commands are gathered at most before they are written.
    ///
    /// At least 1. Defaults to 8 KiB.
    #[must_use]
    pub fn write_batch(mut self, bytes: usize) -> Self {
        self.write_batch = bytes.max(1);
        self
    }

    /// How many replies may be outstanding.
    ///
    /// A command issued at this number first reads replies until half of it is left, so that neither side has to store
    /// replies without end. What threads send in one piece on a [`Shared`](crate::Shared), a transaction or a batch, is let in
    /// when half of it is left, however large it is. At least 1, which is one command at a time. Defaults to 65,536.
    #[must_use]
    pub fn max_outstanding(mut self, replies: usize) -> Self {
        self.max_outstanding = replies.max(1);
        self
    }

    /// How many push messages (RESP3) are kept until they are taken, and how many bytes of them.
    ///
    /// Beyond either the oldest are dropped and counted ([`Stats::pushes_dropped`](crate::Stats::pushes_dropped)), but the latest is always
    /// kept. Matters where a connection [subscribes](crate::Connection::subscribe) and takes commands too. Defaults to 1,024 and
    /// 16 MiB.
    #[must_use]
    pub fn push_queue(mut self, messages: usize, bytes: usize) -> Self {
        self.push_queue = (messages, bytes);
        self
    }

    /// How many bytes of commands without a reply threads may have on a [`Shared`](crate::Shared).
    ///
    /// A command issued at this number first waits until half of the outstanding replies are read. It is counted by the
    /// write, so it may be less by what one write holds; a single command may be larger. A [`Connection`](crate::Connection)
    /// does not look at it. At least 1. Defaults to 64 MiB.
    #[must_use]
    pub fn max_outstanding_bytes(mut self, bytes: usize) -> Self {
        self.max_outstanding_bytes = bytes.max(1);
        self
    }

    /// How long dropping the connection may take to write what was issued and to read its replies.
    ///
    /// [`Duration::ZERO`] gives up what can't be done without waiting; more than a hundred years is taken as a hundred
    /// years. Defaults to 1 s.
    #[must_use]
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger.min(LONGEST);
        self
    }

    /// When the bytes of a command go to the server.
    ///
    /// Defaults to [`SendWhen::Adaptive`].
    #[must_use]
    pub fn send_when(mut self, when: SendWhen) -> Self {
        self.send_when = when;
        self
    }

    /// The version of the protocol to ask the server for.
    ///
    /// Defaults to [`Protocol::Resp3`], falling back to RESP2.
    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// After how much time without a command the connection is looked at before the next one is written: whether the
    /// server has closed it meanwhile. That costs one system call.
    ///
    /// A command that finds the connection closed in this way has not been sent: its handle has
    /// [`Sent::Unsent`](crate::Sent::Unsent), or with a [`Reconnect`] policy it goes to a new connection.
    /// [`Duration::ZERO`] looks each time that nothing was outstanding. Defaults to 1 s.
    #[must_use]
    pub fn idle_check(mut self, idle: Duration) -> Self {
        self.idle_check = idle;
        self
    }

    /// Whether a connection that broke is made again.
    ///
    /// Defaults to [`Reconnect::never`]: every command on a broken connection is an error.
    #[must_use]
    pub fn reconnect(mut self, policy: Reconnect) -> Self {
        self.reconnect = policy;
        self
    }

    /// A function that is asked for the user and the password, each time that the server is dialled: for passwords that
    /// change, such as tokens that expire.
    ///
    /// It comes before [`user`](Config::user) and [`password`](Config::password). Its error is that of the attempt, and
    /// the time it takes is not part of [`connect_timeout`](Config::connect_timeout). After a successful AUTH on the
    /// connection, that user and password are used for it from then on. It may not use the connection that it is asked
    /// for: to wait for that is [`Error::Refused`](crate::Error::Refused).
    ///
    /// ```
    /// use redefer::{Config, Credentials};
    ///
    /// let config = Config::tcp("127.0.0.1", 6379).credentials(|| {
    ///     let token = std::fs::read_to_string("/run/secrets/redis-token").map_err(redefer::Error::from)?;
    ///     Ok(Credentials::new("app", token.trim_end()))
    /// });
    /// # let _ = config;
    /// ```
    #[must_use]
    pub fn credentials(mut self, ask: impl Fn() -> Result<Credentials> + Send + Sync + 'static) -> Self {
        self.credentials = Some(Arc::new(ask));
        self
    }

    /// Turns TLS on, with these roots, certificates and names.
    ///
    /// A `rediss://` URL has done so already, with [`TlsConfig::new()`]; this replaces it. Not for unix sockets. Defaults
    /// to no TLS.
    ///
    /// ```
    /// use redefer::{Config, TlsConfig};
    ///
    /// let config = Config::tcp("redis.example", 6379).tls(TlsConfig::new());
    /// let same = Config::from_url("rediss://redis.example")?;
    /// assert_eq!(format!("{config:?}"), format!("{same:?}"));
    /// # Ok::<(), redefer::Error>(())
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: TlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }

    pub(crate) fn has_tls(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }

    /// Whether this can be dialled at all, as far as that can be known without trying.
    pub(crate) fn validate(&self) -> Result<()> {
        match &self.endpoint {
            Endpoint::Tcp { host, port } => {
                if host.is_empty() {
                    return Err(invalid("the host is empty"));
                }
                if host.chars().any(|c| c.is_control() || c.is_whitespace()) {
                    return Err(invalid("the host has a space or a control character"));
                }
                if *port == 0 {
                    return Err(invalid("the port must be between 1 and 65535"));
                }
            }
            Endpoint::Unix(path) => validate_unix_path(path)?,
            Endpoint::Found(_) => {}
        }
        if self.user.is_some() && self.password.is_none() {
            return Err(invalid("a user name needs a password, which may be empty (`user:@` in a URL)"));
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            match &self.endpoint {
                Endpoint::Tcp { host, .. } => drop(tls.name_of(host)?),
                Endpoint::Unix(_) => return Err(invalid("there is no TLS on unix sockets")),
                Endpoint::Found(_) => {}
            }
        }
        Ok(())
    }

    /// Checked, and what TLS needs is read and understood.
    fn prepared(self) -> Result<Self> {
        self.validate()?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            tls.client_config()?;
        }
        Ok(self)
    }
}

fn validate_unix_path(path: &Path) -> Result<()> {
    if cfg!(not(unix)) {
        return Err(invalid("there are no unix sockets on this platform"));
    }
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.is_empty() {
        return Err(invalid("the path of the unix socket is empty"));
    }
    if bytes.contains(&0) {
        return Err(invalid("the path of the unix socket has a NUL in it"));
    }
    if bytes.len() >= UNIX_PATH_SIZE {
        let (length, most) = (bytes.len(), UNIX_PATH_SIZE - 1);
        return Err(invalid(format!("the path of the unix socket has {length} bytes, and {most} are allowed")));
    }
    Ok(())
}

/// Sockets take these as a C `int`.
fn socket_buffer_size(bytes: usize) -> usize {
    bytes.min(i32::MAX as usize)
}

pub(super) fn invalid(what: impl Into<String>) -> Error {
    Error::Config(what.into())
}

impl FromStr for Config {
    type Err = Error;

    /// Like [`Config::from_url`].
    fn from_str(url: &str) -> Result<Self> {
        Config::from_url(url)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Taken apart, so that a new field can't be forgotten here.
        let Config {
            endpoint,
            user,
            password,
            database,
            client_name,
            client_setinfo,
            connect_timeout,
            timeout,
            nodelay,
            keepalive,
            tcp_user_timeout,
            send_buffer_size,
            recv_buffer_size,
            write_batch,
            max_outstanding,
            push_queue,
            max_outstanding_bytes,
            linger,
            send_when,
            protocol,
            reconnect,
            credentials,
            idle_check,
            #[cfg(feature = "tls")]
            tls,
        } = self;
        let mut out = f.debug_struct("Config");
        out.field("endpoint", endpoint)
            .field("user", &user.as_deref().map(String::from_utf8_lossy))
            .field("password", &password.as_ref().map(|_| format_args!("***")))
            .field("database", database)
            .field("client_name", client_name)
            .field("client_setinfo", client_setinfo)
            .field("connect_timeout", connect_timeout)
            .field("timeout", timeout)
            .field("nodelay", nodelay)
            .field("keepalive", keepalive)
            .field("tcp_user_timeout", tcp_user_timeout)
            .field("send_buffer_size", send_buffer_size)
            .field("recv_buffer_size", recv_buffer_size)
            .field("write_batch", write_batch)
            .field("max_outstanding", max_outstanding)
            .field("push_queue", push_queue)
            .field("max_outstanding_bytes", max_outstanding_bytes)
            .field("linger", linger)
            .field("send_when", send_when)
            .field("protocol", protocol)
            .field("reconnect", reconnect)
            .field("credentials", &credentials.as_ref().map(|_| format_args!("a function")))
            .field("idle_check", idle_check);
        #[cfg(feature = "tls")]
        out.field("tls", tls);
        out.finish()
    }
}

/// What a connection can be opened with: a [`Config`], or a URL as [`Config::from_url`] takes it.
///
/// Sealed: other crates can't implement it.
pub trait IntoConfig: sealed::Sealed {
    /// The configuration, checked. For TLS, files of certificates and keys are read here.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] when it could not possibly work.
    fn into_config(self) -> Result<Config>;
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for &str {}
    impl Sealed for &&str {}
    impl Sealed for String {}
    impl Sealed for &String {}
    impl Sealed for super::Config {}
    impl Sealed for &super::Config {}
}

impl IntoConfig for &str {
    fn into_config(self) -> Result<Config> {
        Config::from_url(self)?.prepared()
    }
}

/// What a slice of them is made of.
impl IntoConfig for &&str {
    fn into_config(self) -> Result<Config> {
        (*self).into_config()
    }
}

impl IntoConfig for String {
    fn into_config(self) -> Result<Config> {
        self.as_str().into_config()
    }
}

impl IntoConfig for &String {
    fn into_config(self) -> Result<Config> {
        self.as_str().into_config()
    }
}

impl IntoConfig for Config {
    fn into_config(self) -> Result<Config> {
        self.prepared()
    }
}

impl IntoConfig for &Config {
    fn into_config(self) -> Result<Config> {
        self.clone().into_config()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(config: Config) -> String {
        config.into_config().unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_those_of_the_docs() {
        let config = Config::tcp("localhost", 6379);
        assert_eq!(config.endpoint, Endpoint::Tcp { host: "localhost".into(), port: 6379 });
        assert_eq!((&config.user, &config.password, &config.client_name), (&None, &None, &None));
        assert_eq!(config.database, 0);
        assert_eq!(config.connect_timeout, Duration::from_secs(5));
        assert_eq!(config.timeout, Some(Duration::from_secs(30)));
        assert!(config.nodelay);
        assert_eq!(config.keepalive, Some(Duration::from_secs(30)));
        assert_eq!((config.send_buffer_size, config.recv_buffer_size), (None, None));
        assert_eq!((config.write_batch, config.max_outstanding), (8192, 65_536));
        assert_eq!(config.max_outstanding_bytes, 64 << 20);
        assert_eq!(config.linger, Duration::from_secs(1));
        assert_eq!((config.send_when, config.protocol), (SendWhen::default(), Protocol::default()));
        assert_eq!((config.send_when, config.protocol), (SendWhen::Adaptive, Protocol::Resp3));
    }

    #[test]
    fn every_builder_method_sets_its_own_field() {
        let second = Duration::from_secs(1);
        let config = Config::tcp("localhost", 7000)
            .user("user")
            .password(b"pass\xff")
            .database(3)
            .client_name("name")
            .client_setinfo(false)
            .connect_timeout(second)
            .timeout(second * 2)
            .nodelay(false)
            .keepalive(second * 3)
            .send_buffer_size(1000)
            .recv_buffer_size(2000)
            .write_batch(3000)
            .max_outstanding(4000)
            .max_outstanding_bytes(5000)
            .linger(second * 4)
            .send_when(SendWhen::Eager)
            .protocol(Protocol::Resp2);
        assert_eq!(config.endpoint, Endpoint::Tcp { host: "localhost".into(), port: 7000 });
        assert_eq!(config.user.as_deref(), Some(&b"user"[..]));
        assert_eq!(config.password.as_deref(), Some(&b"pass\xff"[..]));
        assert_eq!(config.database, 3);
        assert_eq!(config.client_name.as_deref(), Some("name"));
        assert!(!config.client_setinfo);
        assert_eq!((config.connect_timeout, config.timeout), (second, Some(second * 2)));
        assert!(!config.nodelay);
        assert_eq!((config.keepalive, config.linger), (Some(second * 3), second * 4));
        assert_eq!((config.send_buffer_size, config.recv_buffer_size), (Some(1000), Some(2000)));
        assert_eq!((config.write_batch, config.max_outstanding), (3000, 4000));
        assert_eq!(config.max_outstanding_bytes, 5000);
        assert_eq!((config.send_when, config.protocol), (SendWhen::Eager, Protocol::Resp2));
        assert!(config.validate().is_ok());
    }

    #[test]
    fn a_timeout_of_zero_is_short_and_only_none_is_for_ever() {
        let config =
            Config::tcp("h", 1).timeout(Duration::ZERO).connect_timeout(Duration::ZERO).keepalive(Duration::ZERO);
        assert_eq!(config.timeout, Some(SHORTEST));
        assert_eq!(config.connect_timeout, SHORTEST);
        assert_eq!(config.keepalive, Some(KEEPALIVE_SHORTEST));
        let config = config.timeout(None).keepalive(None).linger(Duration::ZERO);
        assert_eq!((config.timeout, config.keepalive, config.linger), (None, None, Duration::ZERO));
    }

    #[test]
    fn the_longest_timeout_can_be_added_to_now() {
        let max = Duration::MAX;
        let config = Config::tcp("h", 1).timeout(max).connect_timeout(max).linger(max).keepalive(max);
        let longest = [config.timeout.unwrap(), config.connect_timeout, config.linger];
        for timeout in longest {
            assert!(std::time::Instant::now().checked_add(timeout).is_some());
        }
        assert_eq!(config.keepalive, Some(KEEPALIVE_LONGEST));
    }

    #[test]
    fn sizes_that_make_no_sense_become_the_nearest_that_do() {
        let config = Config::tcp("h", 1).write_batch(0).max_outstanding(0).send_buffer_size(usize::MAX);
        assert_eq!((config.write_batch, config.max_outstanding), (1, 1));
        assert_eq!(config.send_buffer_size, Some(i32::MAX as usize));
    }

    #[test]
    fn an_empty_user_or_client_name_is_none() {
        let config = Config::tcp("h", 1).user("x").user("").client_name("x").client_name("");
        assert_eq!((config.user, config.client_name), (None, None));
    }

    #[test]
    fn debug_shows_everything_but_the_password() {
        let config = Config::tcp("example", 6379).user("someone").password("hunter2");
        let text = format!("{config:?} {config:#?}");
        assert!(!text.contains("hunter2") && text.contains("Some(***)"), "{text}");
        assert!(text.contains("someone") && text.contains("example") && text.contains("6379"), "{text}");
        assert!(!format!("{config:?}").contains(&format!("{:?}", b"hunter2")), "{text}");
        // Not its length either.
        assert_eq!(format!("{config:?}"), format!("{:?}", config.password("a longer one")));
    }

    #[test]
    fn a_config_that_cannot_work_is_refused_in_words() {
        assert!(refusal(Config::tcp("", 6379)).contains("the host is empty"));
        assert!(refusal(Config::tcp("a b", 6379)).contains("space"));
        assert!(refusal(Config::tcp("a\0b", 6379)).contains("control character"));
        assert!(refusal(Config::tcp("h", 0)).contains("port"));
        assert!(refusal(Config::tcp("h", 1).user("someone")).contains("needs a password"));
        assert!(Config::tcp("h", 1).user("someone").password("").into_config().is_ok());
        assert!(Config::tcp("h", 1).client_name("two words\r\n").into_config().is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn a_unix_path_is_refused_rather_than_cut() {
        assert!(Config::unix("x".repeat(UNIX_PATH_SIZE - 1)).into_config().is_ok());
        assert!(refusal(Config::unix("x".repeat(UNIX_PATH_SIZE))).contains("bytes"));
        assert!(refusal(Config::unix("")).contains("empty"));
        assert!(refusal(Config::unix("/run/\0redis.sock")).contains("NUL"));
        assert!(refusal(Config::unix("\0abstract")).contains("NUL"));
    }

    #[cfg(unix)]
    #[test]
    fn the_longest_path_allowed_is_the_longest_the_system_takes() {
        let full = "x".repeat(UNIX_PATH_SIZE - 1);
        assert!(std::os::unix::net::SocketAddr::from_pathname(&full).is_ok());
        assert!(std::os::unix::net::SocketAddr::from_pathname(full + "x").is_err());
    }

    #[test]
    fn text_and_configs_alike_become_a_config() {
        let url = String::from("redis://example:7000");
        let expected = Endpoint::Tcp { host: "example".into(), port: 7000 };
        let config: Config = url.parse().unwrap();
        assert_eq!(url.as_str().into_config().unwrap().endpoint, expected);
        assert_eq!((&url).into_config().unwrap().endpoint, expected);
        assert_eq!(url.into_config().unwrap().endpoint, expected);
        assert_eq!((&config).into_config().unwrap().endpoint, expected);
        assert_eq!(config.into_config().unwrap().endpoint, expected);
    }
}
