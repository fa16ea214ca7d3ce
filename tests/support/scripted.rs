//! A server that says what the test dictates: any bytes, cut anywhere, stalls, resets, replies that come only after the
//! client has read or written something.
//!
//! ```ignore
//! let server = Scripted::start(|peer| {
//!     peer.handshake()?;
//!     peer.expect(["GET", "k"])?;
//!     peer.send("$5\r\nvalue\r\n")
//! });
//! let conn = Connection::open(server.url())?;
//! assert_eq!(conn.get::<String>("k").wait()?, "value");
//! drop(conn);
//! server.finish(); // also done on drop: fails the test if the script failed
//! ```
//!
//! The script runs once for each connection, one connection after the other; [`Peer::number`] tells them apart. When it
//! returns, the connection is closed. An error that it returns, and a panic in it, fail the test when the server is
//! dropped, unless the test is failing already. So a script that can bear the client's going away says so: it ends with
//! [`Peer::read_to_end`], or ignores the error.
//!
//! Nothing here waits for ever: every read, write and [`Gate`] has a limit (20 seconds, [`Builder::limit`]), and a
//! script that is still running that long after the drop fails the test as well.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

/// How long one read, one write, one wait at a gate, and the end of a script may take.
const LIMIT: Duration = Duration::from_secs(20);
/// A command with more arguments or longer ones than this is a fault of the client.
const LONGEST: usize = 1 << 30;

/// The answer to `HELLO 3` of a server that calls itself Redis 7.0.
pub const HELLO_REPLY: &str = "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n\
                               $2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n\
                               $7\r\nmodules\r\n*0\r\n";

/// One command: its name and arguments.
pub type Command = Vec<Vec<u8>>;

/// A running scripted server. See the [module's page](self).
pub struct Scripted {
    address: Address,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<Result<(), String>>>,
    ended: mpsc::Receiver<()>,
    limit: Duration,
}

enum Address {
    Tcp(u16),
    Unix(PathBuf),
}

struct Shared {
    /// The address from which the connection comes that ends the server.
    last: Mutex<Option<SockAddr>>,
    /// The test is failing: serve nobody any more.
    abandoned: AtomicBool,
    accepted: AtomicUsize,
    /// The socket of the script that runs now. Weak, so that a script that closes it does close it.
    current: Mutex<Weak<Socket>>,
}

impl Scripted {
    /// A server on a free port of the loopback interface.
    pub fn start(script: impl FnMut(&mut Peer) -> io::Result<()> + Send + 'static) -> Scripted {
        Scripted::builder().start(script)
    }

    /// A server on a unix socket in the temporary directory.
    pub fn unix(script: impl FnMut(&mut Peer) -> io::Result<()> + Send + 'static) -> Scripted {
        Scripted::builder().unix().start(script)
    }

    /// Settings for a server with small buffers, another limit, or a unix socket.
    pub fn builder() -> Builder {
        Builder { unix: false, recv_buffer: None, send_buffer: None, limit: LIMIT }
    }

    /// Where a client finds this server: `redis://127.0.0.1:PORT` or `redis+unix:///PATH`.
    pub fn url(&self) -> String {
        match &self.address {
            Address::Tcp(port) => format!("redis://127.0.0.1:{port}"),
            Address::Unix(path) => format!("redis+unix://{}", path.display()),
        }
    }

    /// The TCP port.
    #[track_caller]
    pub fn port(&self) -> u16 {
        match self.address {
            Address::Tcp(port) => port,
            Address::Unix(_) => panic!("a server on a unix socket has no port"),
        }
    }

    /// The path of the unix socket.
    #[track_caller]
    pub fn socket(&self) -> &Path {
        match &self.address {
            Address::Unix(path) => path,
            Address::Tcp(_) => panic!("a server on a port has no socket"),
        }
    }

    /// How many connections have been accepted.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Waits for the script that runs now, and fails the test if any run failed. The client should be gone by now.
    #[track_caller]
    pub fn finish(mut self) {
        if let Err(text) = self.end(self.limit) {
            panic!("{text}");
        }
    }

    fn end(&mut self, limit: Duration) -> Result<(), String> {
        let Some(acceptor) = self.acceptor.take() else { return Ok(()) };
        // One more connection, served after those that wait, ends the thread that accepts them. It fails if that
        // thread has ended already.
        let _ = self.address.connect_last(&self.shared.last);
        let hung = self.ended.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
        if hung {
            if let Some(socket) = lock(&self.shared.current).upgrade() {
                let _ = socket.shutdown(Shutdown::Both);
            }
            // A script that waits for the socket ends now, one that waits for something else may never.
            if self.ended.recv_timeout(Duration::from_secs(1)) == Err(mpsc::RecvTimeoutError::Timeout) {
                return Err(format!("the script of the scripted server still runs {limit:?} after the test's end"));
            }
        }
        let outcome = match acceptor.join() {
            Ok(outcome) => outcome,
            Err(panic) => Err(format!("the script of the scripted server panicked: {}", text_of(&*panic))),
        };
        if hung && !self.shared.abandoned.load(Ordering::SeqCst) {
            let why = outcome.err().unwrap_or_default();
            return Err(format!("the script of the scripted server had to be cut off after {limit:?}: {why}"));
        }
        outcome
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        let failing = thread::panicking();
        self.shared.abandoned.store(failing, Ordering::SeqCst);
        // A test that is failing has nothing to wait for: its client may be alive and silent.
        let outcome = self.end(if failing { Duration::ZERO } else { self.limit });
        if let Address::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
            let _ = std::fs::remove_file(last_path(path));
        }
        match outcome {
            // Often the reason why the test fails.
            Err(text) if failing => eprintln!("{text}"),
            Err(text) => panic!("{text}"),
            Ok(()) => {}
        }
    }
}

impl Address {
    fn connect_last(&self, last: &Mutex<Option<SockAddr>>) -> io::Result<()> {
        let (domain, from, to) = match self {
            Address::Tcp(port) => {
                let of = |port| SockAddr::from(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
                (Domain::IPV4, of(0), of(*port))
            }
            Address::Unix(path) => (Domain::UNIX, SockAddr::unix(last_path(path))?, SockAddr::unix(path)?),
        };
        let socket = Socket::new(domain, Type::STREAM, None)?;
        socket.bind(&from)?;
        *lock(last) = Some(socket.local_addr()?);
        socket.connect_timeout(&to, Duration::from_secs(1))
    }
}

/// Settings of a [`Scripted`] server.
pub struct Builder {
    unix: bool,
    recv_buffer: Option<usize>,
    send_buffer: Option<usize>,
    limit: Duration,
}

impl Builder {
    /// Listens on a unix socket instead of a port.
    pub fn unix(mut self) -> Builder {
        self.unix = true;
        self
    }

    /// Sets the size of the buffer for bytes that the script has not read (the system rounds it, Linux doubles it).
    pub fn recv_buffer(mut self, bytes: usize) -> Builder {
        self.recv_buffer = Some(bytes);
        self
    }

    /// Sets the size of the buffer for bytes that the client has not taken.
    pub fn send_buffer(mut self, bytes: usize) -> Builder {
        self.send_buffer = Some(bytes);
        self
    }

    /// Sets both buffers to the same size.
    pub fn buffers(self, bytes: usize) -> Builder {
        self.recv_buffer(bytes).send_buffer(bytes)
    }

    /// Sets how long one read, one write and the end of the script may take.
    pub fn limit(mut self, limit: Duration) -> Builder {
        self.limit = limit;
        self
    }

    /// Starts the server.
    #[track_caller]
    pub fn start(self, script: impl FnMut(&mut Peer) -> io::Result<()> + Send + 'static) -> Scripted {
        match self.listen(script) {
            Ok(server) => server,
            Err(error) => panic!("the scripted server could not be started: {error}"),
        }
    }

    fn listen(self, mut script: impl FnMut(&mut Peer) -> io::Result<()> + Send + 'static) -> io::Result<Scripted> {
        let listener = Socket::new(if self.unix { Domain::UNIX } else { Domain::IPV4 }, Type::STREAM, None)?;
        // Before `listen`: the size of the window that TCP offers is settled when a connection is made.
        self.set_buffers(&listener)?;
        let address = if self.unix {
            let path = unix_path();
            listener.bind(&SockAddr::unix(&path)?)?;
            Address::Unix(path)
        } else {
            listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
            let bound = listener.local_addr()?.as_socket().map(|address| address.port());
            Address::Tcp(bound.ok_or_else(|| io::Error::other("a TCP socket without a port"))?)
        };
        listener.listen(128)?;

        let shared = Arc::new(Shared {
            last: Mutex::new(None),
            abandoned: AtomicBool::new(false),
            accepted: AtomicUsize::new(0),
            current: Mutex::new(Weak::new()),
        });
        let (alive, ended) = mpsc::channel();
        let (limit, seen) = (self.limit, Arc::clone(&shared));
        let acceptor = thread::Builder::new().name("scripted server".to_owned()).spawn(move || {
            // Dropped at the end of this thread, in whatever way that comes: then `ended` tells.
            let _alive: mpsc::Sender<()> = alive;
            loop {
                let (socket, from) = listener.accept().map_err(|error| format!("accept: {error}"))?;
                if seen.abandoned.load(Ordering::SeqCst) || lock(&seen.last).as_ref() == Some(&from) {
                    return Ok(());
                }
                let number = seen.accepted.fetch_add(1, Ordering::SeqCst);
                let mut peer = self.peer(socket, number).map_err(|error| format!("socket options: {error}"))?;
                *lock(&seen.current) = peer.socket.as_ref().map_or_else(Weak::new, Arc::downgrade);
                script(&mut peer).map_err(|error| {
                    format!("the script of the scripted server failed on connection {number}: {error}")
                })?;
            }
        })?;
        // From here on `ended` reports a disconnected sender, and nothing else.
        Ok(Scripted { address, shared, acceptor: Some(acceptor), ended, limit })
    }

    fn set_buffers(&self, socket: &Socket) -> io::Result<()> {
        if let Some(bytes) = self.recv_buffer {
            socket.set_recv_buffer_size(bytes)?;
        }
        if let Some(bytes) = self.send_buffer {
            socket.set_send_buffer_size(bytes)?;
        }
        Ok(())
    }

    fn peer(&self, socket: Socket, number: usize) -> io::Result<Peer> {
        socket.set_read_timeout(Some(self.limit))?;
        socket.set_write_timeout(Some(self.limit))?;
        if self.unix {
            // Not taken over from the listening socket.
            self.set_buffers(&socket)?;
        } else {
            socket.set_tcp_nodelay(true)?;
        }
        Ok(Peer { socket: Some(Arc::new(socket)), input: Vec::new(), start: 0, received: 0, number, reads: true })
    }
}

/// The server's end of one connection, in the hands of the script.
pub struct Peer {
    socket: Option<Arc<Socket>>,
    input: Vec<u8>,
    start: usize,
    received: usize,
    number: usize,
    /// Whether more may be read from the socket.
    reads: bool,
}

impl Peer {
    /// Which connection of the server this is, from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// How many bytes have been read from the client.
    pub fn received(&self) -> usize {
        self.received
    }

    /// Answers the handshake of a client that asks for RESP3 the way a new server does: up to and including its second
    /// `CLIENT SETINFO`, all answers in one write. Returns the commands.
    pub fn handshake(&mut self) -> io::Result<Vec<Command>> {
        let (mut commands, mut answers) = (Vec::new(), String::new());
        loop {
            let command = self.read_command()?;
            let Some(step) = Step::of(&command) else {
                return Err(fault(format!("{} received in the handshake", show(&command))));
            };
            answers.push_str(if step == Step::Hello { HELLO_REPLY } else { "+OK\r\n" });
            commands.push(command);
            if step == Step::LibVer {
                self.send(answers)?;
                return Ok(commands);
            }
        }
    }

    /// Answers the handshake the way a server without HELLO and CLIENT SETINFO does. Returns the commands, all those
    /// that belong to a handshake and come before the first that does not, or before the end of the stream: so this
    /// returns when the client has gone on. The first other command is still to be read.
    pub fn handshake_resp2(&mut self) -> io::Result<Vec<Command>> {
        let mut commands = Vec::new();
        loop {
            let (command, end) = match self.peek_command() {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && self.start == self.input.len() => {
                    return Ok(commands);
                }
                other => other?,
            };
            match Step::of(&command) {
                Some(Step::Hello) => self.send(format!("-ERR unknown command 'HELLO', {}\r\n", arguments(&command)))?,
                Some(Step::LibName | Step::LibVer) => {
                    self.send("-ERR unknown subcommand 'SETINFO'. Try CLIENT HELP.\r\n")?;
                }
                Some(_) => self.send("+OK\r\n")?,
                None => return Ok(commands),
            }
            self.consume(end);
            commands.push(command);
        }
    }

    /// Reads one command. Bytes that are not a command in RESP's form are an error, and so is the end of the stream.
    pub fn read_command(&mut self) -> io::Result<Command> {
        let (command, end) = self.peek_command()?;
        self.consume(end);
        Ok(command)
    }

    /// The next command, if all of it has been read together with those before it: so a script can answer several in one
    /// write, like a real server.
    pub fn command_at_hand(&mut self) -> io::Result<Option<Command>> {
        self.reads = false;
        let command = self.read_command();
        self.reads = true;
        match command {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            other => other.map(Some),
        }
    }

    /// Reads one command and leaves it there. Also says where in the input it ends.
    fn peek_command(&mut self) -> io::Result<(Command, usize)> {
        let mut at = self.start;
        let count = self.header(&mut at, b'*')?;
        let mut command = Vec::new();
        for _ in 0..count {
            let length = self.header(&mut at, b'$')?;
            while self.input.len() < at + length + 2 {
                self.fill()?;
            }
            let (word, end) = self.input[at..at + length + 2].split_at(length);
            if end != b"\r\n" {
                return Err(fault(format!("{end:?} behind {:?}", String::from_utf8_lossy(word))));
            }
            command.push(word.to_vec());
            at += length + 2;
        }
        Ok((command, at))
    }

    fn consume(&mut self, end: usize) {
        self.start = end;
        if self.start > 1 << 16 && self.start * 2 > self.input.len() {
            self.input.drain(..self.start);
            self.start = 0;
        }
    }

    /// Reads this many commands.
    pub fn read_commands(&mut self, count: usize) -> io::Result<Vec<Command>> {
        (0..count).map(|_| self.read_command()).collect()
    }

    /// Reads one command, which must be this one.
    pub fn expect<W: AsRef<[u8]>>(&mut self, words: impl IntoIterator<Item = W>) -> io::Result<()> {
        let wanted: Command = words.into_iter().map(|word| word.as_ref().to_vec()).collect();
        let command =
            self.read_command().map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", show(&wanted))))?;
        if command == wanted {
            return Ok(());
        }
        Err(fault(format!("{} expected, {} received", show(&wanted), show(&command))))
    }

    /// Reads exactly these bytes, in no form at all.
    pub fn expect_bytes(&mut self, wanted: impl AsRef<[u8]>) -> io::Result<()> {
        let wanted = wanted.as_ref();
        while self.input.len() < self.start + wanted.len() {
            self.fill()?;
        }
        let got = &self.input[self.start..self.start + wanted.len()];
        if got != wanted {
            let (wanted, got) = (String::from_utf8_lossy(wanted), String::from_utf8_lossy(got));
            return Err(fault(format!("{wanted:?} expected, {got:?} received")));
        }
        self.consume(self.start + wanted.len());
        Ok(())
    }

    /// Reads until the client closes its writing side, and returns what came. A reset is an end as well.
    pub fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        loop {
            match self.fill() {
                Ok(()) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
                    let rest = self.input.split_off(self.start);
                    self.input.clear();
                    self.start = 0;
                    return Ok(rest);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads until the client closes its writing side; nothing more may come.
    pub fn expect_end(&mut self) -> io::Result<()> {
        let rest = self.read_to_end()?;
        if rest.is_empty() {
            return Ok(());
        }
        Err(fault(format!("the end expected, {:?} received", String::from_utf8_lossy(&rest))))
    }

    /// Writes these bytes. Waits while the client takes none.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.socket()?.write_all(bytes.as_ref())
    }

    /// Writes these bytes in two writes, cut at `at`. The client may find both parts in one read: for two reads of
    /// its, let it tell by a [`Gate`] that it has read the first ([`send_split_at_gate`](Peer::send_split_at_gate)).
    pub fn send_split(&mut self, bytes: impl AsRef<[u8]>, at: usize) -> io::Result<()> {
        let (first, second) = bytes.as_ref().split_at(at);
        self.send(first)?;
        self.send(second)
    }

    /// Writes these bytes in two writes, cut at `at`, the second when the gate is opened.
    pub fn send_split_at_gate(&mut self, bytes: impl AsRef<[u8]>, at: usize, gate: &Gate) -> io::Result<()> {
        let (first, second) = bytes.as_ref().split_at(at);
        self.send(first)?;
        gate.wait();
        self.send(second)
    }

    /// Writes these bytes one by one, each in a write of its own.
    pub fn send_bytewise(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        bytes.as_ref().chunks(1).try_for_each(|byte| self.send(byte))
    }

    /// Ends the writing side: the client reads the end of the stream and can still write.
    pub fn shutdown_write(&mut self) -> io::Result<()> {
        self.socket()?.shutdown(Shutdown::Write)
    }

    /// Closes the connection. What the client has sent and the script has not read turns this into a reset.
    pub fn close(&mut self) {
        self.socket = None;
    }

    /// Ends the connection, and returns when the client's system knows: from then on a read there finds the end. What the
    /// client has sent must have been read.
    pub fn close_known(&mut self) -> io::Result<()> {
        let socket = self.socket()?;
        socket.shutdown(Shutdown::Write)?;
        if let (Some(own), Some(client)) = (socket.local_addr()?.as_socket(), socket.peer_addr()?.as_socket()) {
            while !end_was_acknowledged(own.port(), client.port())? {
                thread::yield_now();
            }
        }
        self.close();
        Ok(())
    }

    /// Closes the connection with a reset. What was sent and not yet received may be lost (TCP only).
    pub fn reset(&mut self) -> io::Result<()> {
        self.socket()?.set_linger(Some(Duration::ZERO))?;
        self.close();
        Ok(())
    }

    fn socket(&self) -> io::Result<&Socket> {
        self.socket.as_deref().ok_or_else(|| io::Error::other("the script has closed this connection"))
    }

    /// Reads a header such as `*3\r\n`, and moves `at` behind it.
    fn header(&mut self, at: &mut usize, kind: u8) -> io::Result<usize> {
        let length = loop {
            if let Some(length) = self.input[*at..].windows(2).position(|pair| pair == b"\r\n") {
                break length;
            }
            self.fill()?;
        };
        let line = &self.input[*at..*at + length];
        *at += length + 2;
        let number = match line.split_first() {
            Some((first, digits)) if *first == kind => str::from_utf8(digits).ok().and_then(|text| text.parse().ok()),
            _ => None,
        };
        let text = || format!("{:?} where {:?} and a number belong", String::from_utf8_lossy(line), kind as char);
        number.filter(|number| *number <= LONGEST).ok_or_else(|| fault(text()))
    }

    fn fill(&mut self) -> io::Result<()> {
        if !self.reads {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut chunk = [0; 1 << 16];
        let count = loop {
            match self.socket()?.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Windows says TimedOut for it.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let rest = String::from_utf8_lossy(&self.input[self.start..]).into_owned();
                    let text = format!("the client sends nothing more; not yet used of what it sent: {rest:?}");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                other => break other?,
            }
        };
        if count == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the client has closed the connection"));
        }
        self.received += count;
        self.input.extend_from_slice(&chunk[..count]);
        Ok(())
    }
}

/// The commands that a client sends before its user's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Hello,
    Auth,
    SetName,
    Select,
    LibName,
    LibVer,
}

impl Step {
    fn of(command: &Command) -> Option<Step> {
        let word = |at: usize| command.get(at).map(|word| word.to_ascii_uppercase()).unwrap_or_default();
        match (&word(0)[..], &word(1)[..], &word(2)[..]) {
            (b"HELLO", ..) => Some(Step::Hello),
            (b"AUTH", ..) => Some(Step::Auth),
            (b"SELECT", ..) => Some(Step::Select),
            (b"CLIENT", b"SETNAME", _) => Some(Step::SetName),
            (b"CLIENT", b"SETINFO", b"LIB-NAME") => Some(Step::LibName),
            (b"CLIENT", b"SETINFO", b"LIB-VER") => Some(Step::LibVer),
            _ => None,
        }
    }
}

/// Whether the other side's system has acknowledged the end of what a TCP connection of the loopback interface sends.
#[cfg(target_os = "linux")]
fn end_was_acknowledged(own: u16, other: u16) -> io::Result<bool> {
    // Established, and the two states in which the end has been sent and not acknowledged.
    const BEFORE: [&str; 3] = ["01", "04", "0B"];
    let connections = std::fs::read_to_string("/proc/net/tcp")?;
    let (own, other) = (format!(":{own:04X}"), format!(":{other:04X}"));
    let mut fields = connections.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    Ok(!fields.any(|fields| match fields[..] {
        [_, from, to, state, ..] => from.ends_with(&own) && to.ends_with(&other) && BEFORE.contains(&state),
        _ => false,
    }))
}

#[cfg(not(target_os = "linux"))]
fn end_was_acknowledged(_: u16, _: u16) -> io::Result<bool> {
    Ok(true)
}

/// Two ends of a gate, to keep a test and its script in step without waiting for time to pass: each
/// [`open`](Opener::open) lets one [`wait`](Gate::wait) through, whichever comes first.
pub fn gate() -> (Opener, Gate) {
    let (sender, receiver) = mpsc::channel();
    (Opener(sender), Gate(receiver))
}

/// The end of a gate that opens it.
#[derive(Clone)]
pub struct Opener(mpsc::Sender<()>);

impl Opener {
    /// Lets one `wait` through.
    pub fn open(&self) {
        // Nobody is there to wait when the other side has failed, and that side tells why.
        let _ = self.0.send(());
    }
}

/// The end of a gate that waits.
pub struct Gate(mpsc::Receiver<()>);

impl Gate {
    /// Waits until the gate is opened. Fails the test after 20 seconds, or when the opener is gone.
    #[track_caller]
    pub fn wait(&self) {
        match self.0.recv_timeout(LIMIT) {
            Ok(()) => {}
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("the gate was not opened within {LIMIT:?}"),
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("the gate was not opened, and its opener is gone"),
        }
    }
}

/// Bytes of a bulk string.
pub fn bulk(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// Bytes of an array of bulk strings, which is also how a command looks.
pub fn array<W: AsRef<[u8]>>(words: impl IntoIterator<Item = W>) -> Vec<u8> {
    let words: Vec<Vec<u8>> = words.into_iter().map(bulk).collect();
    [format!("*{}\r\n", words.len()).into_bytes(), words.concat()].concat()
}

/// A command as text, for messages.
fn show(command: &Command) -> String {
    let mut text = String::new();
    for word in command {
        let shown = String::from_utf8_lossy(&word[..word.len().min(80)]);
        let more = if word.len() > 80 { "…" } else { "" };
        let _ = write!(text, "{}{shown:?}{more}", if text.is_empty() { "" } else { " " });
    }
    format!("[{text}]")
}

/// What old servers append to the error for a command they do not know: the password included, if it is in there.
fn arguments(command: &Command) -> String {
    let words = command.iter().skip(1).map(|word| format!("'{}' ", String::from_utf8_lossy(word)));
    format!("with args beginning with: {}", words.collect::<String>())
}

/// Where the last connection to a unix socket comes from.
fn last_path(path: &Path) -> PathBuf {
    path.with_extension("last")
}

fn unix_path() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("redefer-{}-s{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    // Left behind by an earlier process of the same number.
    let _ = std::fs::remove_file(&path);
    path
}

fn fault(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "with something that is no text".to_owned(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
