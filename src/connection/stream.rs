//! The socket: all that is particular to a platform is here.
//!
//! Writes never block. Reads come in two kinds: those that take what is there, and those that wait, for which the
//! socket's receive timeout is armed; so an unpipelined call costs one write and one read and no other system call.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};

use super::config::{Config, Endpoint};

/// A connected TCP or unix socket.
#[derive(Debug)]
pub(super) struct Stream {
    socket: Socket,
    /// The receive timeout that is set on the socket.
    armed: Option<Duration>,
}

impl Stream {
    /// Connects before the deadline, trying each address of a name in turn.
    pub(super) fn connect(config: &Config, deadline: Instant) -> io::Result<Stream> {
        let socket = match &config.endpoint {
            Endpoint::Tcp { host, port } => connect_tcp(host, *port, config, deadline)?,
            Endpoint::Unix(path) => connect_unix(path, config, deadline)?,
        };
        Ok(Stream { socket, armed: None })
    }

    /// Writes what the socket takes at once. `None`: nothing, it would block.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        would_block(uninterrupted(|| platform::send(&self.socket, bytes)))
    }

    /// Reads what is there. `None`: nothing yet; `Some(0)`: end of file.
    pub(super) fn try_read(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        would_block(uninterrupted(|| platform::recv_now(&self.socket, buf)))
    }

    /// Waits for bytes at most this long; without a time, for ever. `None`: the time has passed, or a signal came, and
    /// the caller looks at the clock.
    pub(super) fn read(&mut self, buf: &mut [u8], time: Option<Duration>) -> io::Result<Option<usize>> {
        self.arm(time)?;
        match platform::recv(&self.socket, buf) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            other => would_block(other),
        }
    }

    /// Waits until bytes can be written or read, at most this long. Says whether there is something to read.
    pub(super) fn ready(&self, time: Option<Duration>) -> io::Result<bool> {
        platform::ready(&self.socket, time)
    }

    /// Says that nothing more will be written.
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

fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "connecting took too long")
}

fn connect_tcp(host: &str, port: u16, config: &Config, deadline: Instant) -> io::Result<Socket> {
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for (index, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(timed_out());
        }
        // A dead address must not use up the time of those behind it.
        let share = left / (addresses.len() - index) as u32;
        match connect_address(*address, config, share.max(Duration::from_millis(1))) {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn connect_address(address: SocketAddr, config: &Config, time: Duration) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    set_buffer_sizes(&socket, config)?;
    socket.set_tcp_nodelay(config.nodelay)?;
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
    socket.connect(&SockAddr::unix(path)?).map_err(|error| match error.kind() {
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
}
