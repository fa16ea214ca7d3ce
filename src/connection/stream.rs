//! The socket: all that is particular to a platform is here.
//!
//! Writes never block. Reads come in two kinds: those that take what is there, and those that wait, for which the
//! socket's receive timeout is armed; so an unpipelined call costs one write and one read and no other system call.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use super::config::{Config, Endpoint};
#[cfg(feature = "tls")]
use super::tls::Session;
use super::wake::Waker;

/// A connection to a server: a socket, and what is between it and the plain bytes.
pub(super) struct Stream {
    plain: Plain,
    /// Boxed: it is large, and most connections have none.
    #[cfg(feature = "tls")]
    tls: Option<Box<Session>>,
}

impl Stream {
    /// Connects before the deadline, trying each address of a name in turn.
    pub(super) fn connect(config: &Config, deadline: Instant) -> io::Result<Stream> {
        match &config.endpoint {
            Endpoint::Tcp { host, port } => connect_tcp(host, *port, config, deadline),
            Endpoint::Unix(path) => Ok(Stream::over(connect_unix(path, config, deadline)?)),
            // The engine has looked before.
            Endpoint::Found(_) => Err(io::Error::new(io::ErrorKind::NotFound, "nobody has looked for the server")),
        }
    }

    fn over(socket: Socket) -> Self {
        Stream {
            plain: Plain::new(socket),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// Shakes hands for TLS, if that is wanted.
    #[cfg(feature = "tls")]
    fn secured(mut self, host: &str, config: &Config, deadline: Instant) -> io::Result<Self> {
        if let Some(tls) = &config.tls {
            self.tls = Some(Box::new(Session::open(tls, host, &mut self.plain, deadline)?));
        }
        Ok(self)
    }

    #[cfg(not(feature = "tls"))]
    fn secured(self, _: &str, _: &Config, _: Instant) -> io::Result<Self> {
        Ok(self)
    }

    /// Writes what the socket takes at once. `None`: nothing, it would block.
    ///
    /// Whoever was told `None`, or that a part was written, calls again with what is left first in `bytes`: with TLS a
    /// part of that may have been encrypted already.
    pub(super) fn try_write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return tls.try_write(&self.plain, bytes);
        }
        self.plain.try_write(bytes)
    }

    /// Reads what is there. `None`: nothing yet; `Some(0)`: end of file.
    pub(super) fn try_read(&mut self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return tls.try_read(&self.plain, buf);
        }
        self.plain.try_read(buf)
    }

    /// Waits for bytes at most this long; without a time, for ever. `None`: the time has passed, a signal came, or what
    /// came was not enough, and the caller looks at the clock.
    pub(super) fn read(&mut self, buf: &mut [u8], time: Option<Duration>) -> io::Result<Option<usize>> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return tls.read(&mut self.plain, buf, time);
        }
        self.plain.read(buf, time)
    }

    /// Waits until bytes can be written or read, at most this long. Says whether there is something to read.
    pub(super) fn ready(&mut self, time: Option<Duration>) -> io::Result<bool> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return tls.ready(&self.plain, time);
        }
        self.plain.ready(time)
    }

    /// Waits for at most this long until bytes can be read, or written if `writing`, or another thread has left word. May
    /// return early. What was there to be read without waiting has been read.
    pub(super) fn wait(&mut self, waker: &Waker, writing: bool, time: Option<Duration>) -> io::Result<()> {
        let writing = writing || self.wants_write();
        waker.wait(Some((&self.plain.socket, writing)), time)
    }

    /// The socket itself, for a thread that waits for it while others use the stream.
    pub(super) fn socket(&self) -> Arc<Socket> {
        self.plain.socket.clone()
    }

    /// Sets the receive timeout for a [`receive`] on the socket itself.
    pub(super) fn arm(&mut self, time: Option<Duration>) -> io::Result<()> {
        self.plain.arm(time)
    }

    /// Whether TLS has something to write of its own.
    pub(super) fn wants_write(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.as_ref().is_some_and(|tls| tls.wants_write());
        #[cfg(not(feature = "tls"))]
        false
    }

    /// Whether what the socket brings are the plain bytes.
    pub(super) fn is_plain(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_none();
        #[cfg(not(feature = "tls"))]
        true
    }

    /// Makes a thread return that waits in [`receive`]. What has arrived can still be read.
    pub(super) fn stop_reading(&self) {
        // A socket that cannot be shut down is at its end, and the thread returns by itself.
        let _ = self.plain.socket.shutdown(std::net::Shutdown::Read);
    }

    /// Ends both directions: nothing more is written or read.
    pub(super) fn close(&self) {
        // A socket that cannot be shut down is at its end already.
        let _ = self.plain.socket.shutdown(std::net::Shutdown::Both);
    }

    /// Says that nothing more will be written.
    pub(super) fn shutdown_write(&mut self) -> io::Result<()> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return tls.shutdown_write(&self.plain);
        }
        self.plain.shutdown_write()
    }
}

/// A connected TCP or unix socket.
pub(super) struct Plain {
    /// Shared with a thread that waits for bytes while others write: see [`Stream::socket`].
    socket: Arc<Socket>,
    /// The receive timeout that is set on the socket.
    armed: Option<Duration>,
}

impl Plain {
    pub(super) fn new(socket: Socket) -> Self {
        Plain { socket: Arc::new(socket), armed: None }
    }

    /// See [`Stream::try_write`].
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        send(&self.socket, bytes)
    }

    /// See [`Stream::try_read`].
    pub(super) fn try_read(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        would_block(uninterrupted(|| platform::recv_now(&self.socket, buf)))
    }

    /// See [`Stream::read`].
    pub(super) fn read(&mut self, buf: &mut [u8], time: Option<Duration>) -> io::Result<Option<usize>> {
        self.arm(time)?;
        receive(&self.socket, buf)
    }

    /// See [`Stream::ready`].
    pub(super) fn ready(&self, time: Option<Duration>) -> io::Result<bool> {
        platform::ready(&self.socket, time)
    }

    /// See [`Stream::shutdown_write`].
    pub(super) fn shutdown_write(&self) -> io::Result<()> {
        self.socket.shutdown(std::net::Shutdown::Write)
    }

    /// Sets the receive timeout, unless the one that is set is near enough: a wait that has used little of its time
    /// need not pay a system call for the difference.
    fn arm(&mut self, time: Option<Duration>) -> io::Result<()> {
        let near = match (self.armed, time) {
            (None, None) => true,
            (Some(armed), Some(time)) => armed.abs_diff(time) <= time / 32,
            _ => false,
        };
        if !near {
            // Zero means "for ever" to the system.
            let time = time.map(|time| time.max(Duration::from_millis(1)));
            self.socket.set_read_timeout(time)?;
            self.armed = time;
        }
        Ok(())
    }
}

/// Writes to a plain socket what it takes at once. `None`: nothing.
pub(super) fn send(socket: &Socket, bytes: &[u8]) -> io::Result<Option<usize>> {
    would_block(uninterrupted(|| platform::send(socket, bytes)))
}

/// Waits for bytes on a plain socket for as long as was [armed](Stream::arm). `None`: the time has passed, or a signal came.
pub(super) fn receive(socket: &Socket, buf: &mut [u8]) -> io::Result<Option<usize>> {
    match platform::recv(socket, buf) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        other => would_block(other),
    }
}

/// Waits at most this long until the socket can be read from, or written to if that is of interest. `reading`: no other thread
/// reads. May return early.
pub(super) fn await_socket(socket: &Socket, reading: bool, writing: bool, time: Option<Duration>) -> io::Result<()> {
    platform::await_socket(socket, reading, writing, time)
}

fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => return other,
        }
    }
}

fn would_block<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "connecting took too long")
}

/// TLS was not agreed upon in time.
#[derive(Debug, thiserror::Error)]
#[error("the TLS handshake took too long: does this port speak TLS?")]
pub(super) struct SlowTls;

impl SlowTls {
    pub(super) fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<SlowTls>())
    }
}

fn connect_tcp(host: &str, port: u16, config: &Config, deadline: Instant) -> io::Result<Stream> {
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for (index, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(timed_out());
        }
        // A dead address must not use up the time of those behind it.
        let share = left / (addresses.len() - index) as u32;
        match open_address(*address, host, config, share.max(Duration::from_millis(1))) {
            Ok(stream) => return Ok(stream),
            // Somebody is there, and is not who it should be: the next address would only hide that.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Connects to one address, TLS included, in this time.
fn open_address(address: SocketAddr, host: &str, config: &Config, time: Duration) -> io::Result<Stream> {
    let deadline = Instant::now() + time;
    Stream::over(connect_address(address, config, time)?).secured(host, config, deadline)
}

fn connect_address(address: SocketAddr, config: &Config, time: Duration) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    set_buffer_sizes(&socket, config)?;
    socket.set_tcp_nodelay(config.nodelay)?;
    #[cfg(any(target_os = "android", target_os = "linux"))]
    if config.tcp_user_timeout.is_some() {
        socket.set_tcp_user_timeout(config.tcp_user_timeout)?;
    }
    if let Some(time) = config.keepalive {
        let keepalive = TcpKeepalive::new().with_time(time.max(Duration::from_secs(1)));
        socket.set_tcp_keepalive(&keepalive)?;
    }
    socket.connect_timeout(&address.into(), time)?;
    platform::prepare(&socket)?;
    Ok(socket)
}

#[cfg(unix)]
fn connect_unix(path: &Path, config: &Config, deadline: Instant) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    set_buffer_sizes(&socket, config)?;
    let left = deadline.saturating_duration_since(Instant::now());
    // A connect to a unix socket blocks only while the server's backlog is full, for as long as the send timeout says.
    socket.set_write_timeout(Some(left.max(Duration::from_millis(1))))?;
    socket.connect(&socket2::SockAddr::unix(path)?).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => timed_out(),
        _ => error,
    })?;
    Ok(socket)
}

#[cfg(not(unix))]
fn connect_unix(_: &Path, _: &Config, _: Instant) -> io::Result<Socket> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this platform has no unix sockets"))
}

fn set_buffer_sizes(socket: &Socket, config: &Config) -> io::Result<()> {
    if let Some(size) = config.send_buffer_size {
        socket.set_send_buffer_size(size)?;
    }
    if let Some(size) = config.recv_buffer_size {
        socket.set_recv_buffer_size(size)?;
    }
    Ok(())
}

#[cfg(unix)]
mod platform {
    use std::io;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::net::{RecvFlags, SendFlags, recv as sys_recv, send as sys_send};
    use socket2::Socket;

    #[cfg(not(any(target_vendor = "apple", target_os = "solaris")))]
    const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
    // Sockets made by socket2 carry SO_NOSIGPIPE there.
    #[cfg(any(target_vendor = "apple", target_os = "solaris"))]
    const SEND: SendFlags = SendFlags::DONTWAIT;

    pub(super) fn prepare(_: &Socket) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn send(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        Ok(sys_send(socket, bytes, SEND)?)
    }

    pub(super) fn recv_now(socket: &Socket, buf: &mut [u8]) -> io::Result<usize> {
        Ok(sys_recv(socket, buf, RecvFlags::DONTWAIT)?.0)
    }

    pub(super) fn recv(socket: &Socket, buf: &mut [u8]) -> io::Result<usize> {
        Ok(sys_recv(socket, buf, RecvFlags::empty())?.0)
    }

    pub(super) fn ready(socket: &Socket, time: Option<Duration>) -> io::Result<bool> {
        let mut fds = [PollFd::new(socket, PollFlags::IN | PollFlags::OUT)];
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        match poll(&mut fds, time.as_ref()) {
            Err(rustix::io::Errno::INTR) => Ok(false),
            Ok(_) => {
                // An error or a hang-up is told by the read.
                Ok(fds[0].revents().intersects(PollFlags::IN | PollFlags::ERR | PollFlags::HUP))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn await_socket(socket: &Socket, _: bool, writing: bool, time: Option<Duration>) -> io::Result<()> {
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, writing);
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        match poll(&mut [PollFd::new(socket, flags)], time.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Without poll: a short wait for bytes stands for a wait for either direction.
#[cfg(not(unix))]
mod platform {
    use std::io::{self, Read, Write};
    use std::mem::MaybeUninit;
    use std::time::Duration;

    use socket2::Socket;

    const SLICE: Duration = Duration::from_millis(5);

    pub(super) fn prepare(_: &Socket) -> io::Result<()> {
        Ok(())
    }

    fn now<T>(socket: &Socket, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        socket.set_nonblocking(true)?;
        let result = call();
        socket.set_nonblocking(false)?;
        result
    }

    pub(super) fn send(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        now(socket, || (&*socket).write(bytes))
    }

    pub(super) fn recv_now(socket: &Socket, buf: &mut [u8]) -> io::Result<usize> {
        now(socket, || (&*socket).read(buf))
    }

    pub(super) fn recv(socket: &Socket, buf: &mut [u8]) -> io::Result<usize> {
        (&*socket).read(buf)
    }

    pub(super) fn ready(socket: &Socket, time: Option<Duration>) -> io::Result<bool> {
        let armed = socket.read_timeout()?;
        socket.set_read_timeout(Some(time.unwrap_or(SLICE).clamp(Duration::from_millis(1), SLICE)))?;
        let peeked = socket.peek(&mut [MaybeUninit::uninit()]);
        socket.set_read_timeout(armed)?;
        Ok(match peeked {
            Ok(_) => true,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
        })
    }

    pub(super) fn await_socket(socket: &Socket, reading: bool, _: bool, time: Option<Duration>) -> io::Result<()> {
        if reading {
            return ready(socket, time).map(drop);
        }
        std::thread::sleep(time.unwrap_or(SLICE).min(SLICE));
        Ok(())
    }
}
