//! A proxy between a client and a real server that spoils the connection at any byte, in either direction.
//!
//! ```ignore
//! let proxy = Proxy::start(server.port(), |number| match number {
//!     0 => vec![Fault::new(Way::ToClient, 1000, Act::Reset)],
//!     _ => vec![],
//! });
//! let conn = Connection::open(proxy.url())?;
//! ```
//!
//! Each accepted connection is numbered from 0 and gets its list of faults from the closure; [`random_faults`] makes one
//! from a seed. Offsets count the bytes of one direction from the connection's beginning, so the handshake is in their
//! reach. Bytes are passed on blindly: whatever is spoken, TLS included.
//!
//! One thread does it all. It holds 16 KiB per direction and ends when the proxy is dropped, and every connection with it.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, SockAddr, Socket, Type};

/// How much of one direction is held.
const HELD: usize = 16 << 10;

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    ToServer,
    ToClient,
}

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// What follows in this direction is passed on so much later.
    Delay(Duration),
    /// What follows goes out in a write of its own.
    Split,
    /// Nothing more is passed on in this direction before [`Proxy::release`].
    Stall,
    /// The connection ends in good order on both sides: each gets the bytes that were passed on, and then the end of file.
    /// What they send after that is read and thrown away.
    Close,
    /// The connection ends with a reset on both sides; bytes on their way may be lost. A unix socket is just closed.
    Reset,
}

/// One fault: what happens when `at` bytes have been passed on in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub way: Way,
    pub at: u64,
    pub act: Act,
}

impl Fault {
    pub fn new(way: Way, at: u64, act: Act) -> Fault {
        Fault { way, at, act }
    }
}

/// Which faults [`random_faults`] may choose.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    pub delays: bool,
    pub stalls: bool,
    /// Closes and resets.
    pub ends: bool,
    /// No fault is behind this many bytes.
    pub within: u64,
}

/// The faults of one connection: always the same for the same seed and number.
pub fn random_faults(seed: u64, number: usize, mix: Mix) -> Vec<Fault> {
    let mut rng = fastrand::Rng::with_seed(seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut faults = Vec::new();
    let mut add = |rng: &mut fastrand::Rng, act| {
        let way = if rng.bool() { Way::ToServer } else { Way::ToClient };
        // As many in the first hundred bytes as between the first and the tenth kilobyte.
        let most = (1u64 << rng.u32(3..=63 - mix.within.max(8).leading_zeros())).min(mix.within);
        faults.push(Fault::new(way, rng.u64(0..=most), act));
    };
    for _ in 0..rng.usize(0..6) {
        let act =
            if mix.delays && rng.bool() { Act::Delay(Duration::from_micros(rng.u64(0..2000))) } else { Act::Split };
        add(&mut rng, act);
    }
    if mix.stalls && rng.bool() {
        add(&mut rng, Act::Stall);
    }
    if mix.ends && rng.u8(0..4) > 0 {
        let act = if rng.bool() { Act::Close } else { Act::Reset };
        add(&mut rng, act);
    }
    faults
}

/// How often each kind of fault has struck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Struck {
    pub delays: u64,
    pub splits: u64,
    pub stalls: u64,
    pub closes: u64,
    pub resets: u64,
}

impl Struck {
    pub fn add(&mut self, other: Struck) {
        self.delays += other.delays;
        self.splits += other.splits;
        self.stalls += other.stalls;
        self.closes += other.closes;
        self.resets += other.resets;
    }
}

/// A running proxy. See the [module's page](self).
pub struct Proxy {
    address: Address,
    shared: Arc<Shared>,
    waker: UnixStream,
    thread: Option<JoinHandle<io::Result<()>>>,
}

enum Address {
    Tcp(u16),
    Unix(PathBuf),
}

#[derive(Default)]
struct Shared {
    accepted: AtomicUsize,
    orders: Mutex<VecDeque<Order>>,
    struck: [AtomicU64; 5],
}

#[derive(Clone, Copy)]
enum Order {
    Release,
    End(Act),
    Leave,
}

/// Settings of a [`Proxy`].
#[derive(Default)]
pub struct Builder {
    unix: bool,
    buffers: Option<usize>,
}

impl Builder {
    /// Listens on a unix socket instead of a port.
    pub fn unix(mut self) -> Builder {
        self.unix = true;
        self
    }

    /// Sets the size of all socket buffers (the system rounds it, Linux doubles it).
    pub fn buffers(mut self, bytes: usize) -> Builder {
        self.buffers = Some(bytes);
        self
    }

    /// Starts a proxy for the server on this port of the loopback interface.
    #[track_caller]
    pub fn start(self, upstream: u16, faults: impl FnMut(usize) -> Vec<Fault> + Send + 'static) -> Proxy {
        match self.listen(upstream, faults) {
            Ok(proxy) => proxy,
            Err(error) => panic!("the proxy could not be started: {error}"),
        }
    }

    fn listen(self, upstream: u16, faults: impl FnMut(usize) -> Vec<Fault> + Send + 'static) -> io::Result<Proxy> {
        let listener = self.socket(if self.unix { Domain::UNIX } else { Domain::IPV4 })?;
        let address = if self.unix {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            let name = format!("redefer-{}-p{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            // Left behind by an earlier process of the same number.
            let _ = std::fs::remove_file(&path);
            listener.bind(&SockAddr::unix(&path)?)?;
            Address::Unix(path)
        } else {
            listener.bind(&loopback(0))?;
            let bound = listener.local_addr()?.as_socket().map(|address| address.port());
            Address::Tcp(bound.ok_or_else(|| io::Error::other("a TCP socket without a port"))?)
        };
        listener.listen(128)?;
        listener.set_nonblocking(true)?;
        let (waker, woken) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let shared = Arc::new(Shared::default());
        let relay = Relay {
            builder: self,
            listener,
            woken,
            upstream,
            faults: Box::new(faults),
            shared: Arc::clone(&shared),
            links: Vec::new(),
        };
        let thread = thread::Builder::new().name("proxy".to_owned()).spawn(move || relay.run())?;
        Ok(Proxy { address, shared, waker, thread: Some(thread) })
    }

    fn socket(&self, domain: Domain) -> io::Result<Socket> {
        let socket = Socket::new(domain, Type::STREAM, None)?;
        self.set_buffers(&socket)?;
        Ok(socket)
    }

    fn set_buffers(&self, socket: &Socket) -> io::Result<()> {
        if let Some(bytes) = self.buffers {
            socket.set_recv_buffer_size(bytes)?;
            socket.set_send_buffer_size(bytes)?;
        }
        Ok(())
    }
}

impl Proxy {
    /// A proxy on a free port of the loopback interface, for the server on the port `upstream`.
    #[track_caller]
    pub fn start(upstream: u16, faults: impl FnMut(usize) -> Vec<Fault> + Send + 'static) -> Proxy {
        Builder::default().start(upstream, faults)
    }

    /// Settings for a proxy with small buffers or on a unix socket.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Where a client finds the proxy: `redis://127.0.0.1:PORT` or `redis+unix:///PATH`.
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
            Address::Unix(_) => panic!("a proxy on a unix socket has no port"),
        }
    }

    /// How many connections have been accepted.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// How often each kind of fault has struck so far.
    pub fn struck(&self) -> Struck {
        let [delays, splits, stalls, closes, resets] =
            [0, 1, 2, 3, 4].map(|at: usize| self.shared.struck[at].load(Ordering::SeqCst));
        Struck { delays, splits, stalls, closes, resets }
    }

    /// Lets every direction that is stalled now go on.
    pub fn release(&self) {
        self.order(Order::Release);
    }

    /// Ends every connection in good order: see [`Act::Close`].
    pub fn close_all(&self) {
        self.order(Order::End(Act::Close));
    }

    /// Resets every connection: see [`Act::Reset`].
    pub fn reset_all(&self) {
        self.order(Order::End(Act::Reset));
    }

    fn order(&self, order: Order) {
        self.shared.orders.lock().unwrap_or_else(PoisonError::into_inner).push_back(order);
        // Fails only when the thread has ended, or has many wakings before it already.
        let _ = (&self.waker).write(&[0]);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.order(Order::Leave);
        let outcome = self.thread.take().map(JoinHandle::join);
        if let Address::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
        match outcome {
            _ if thread::panicking() => {}
            Some(Ok(Err(error))) => panic!("the proxy has failed: {error}"),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            _ => {}
        }
    }
}

/// What the thread has.
struct Relay {
    builder: Builder,
    listener: Socket,
    woken: UnixStream,
    upstream: u16,
    faults: Box<dyn FnMut(usize) -> Vec<Fault> + Send>,
    shared: Arc<Shared>,
    links: Vec<Link>,
}

impl Relay {
    fn run(mut self) -> io::Result<()> {
        loop {
            self.wait()?;
            let mut chunk = [0; 64];
            while matches!(self.woken.read(&mut chunk), Ok(1..)) {}
            loop {
                let order = self.shared.orders.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                match order {
                    Some(Order::Release) => self.links.iter_mut().for_each(Link::release),
                    Some(Order::End(act)) => self.links.iter_mut().for_each(|link| link.end(act)),
                    Some(Order::Leave) => return Ok(()),
                    None => break,
                }
            }
            self.accept()?;
            let now = Instant::now();
            self.links.iter_mut().for_each(|link| link.pass(now, &self.shared));
            self.links.retain(|link| !link.over());
        }
    }

    /// Waits for something to do.
    fn wait(&self) -> io::Result<()> {
        let mut fds = vec![PollFd::new(&self.woken, PollFlags::IN), PollFd::new(&self.listener, PollFlags::IN)];
        let mut until: Option<Instant> = None;
        for link in &self.links {
            for (socket, out, back) in
                [(&link.client, &link.to_client, &link.to_server), (&link.server, &link.to_server, &link.to_client)]
            {
                let mut flags = PollFlags::empty();
                flags.set(PollFlags::IN, back.wants_bytes());
                flags.set(PollFlags::OUT, out.has_bytes());
                // Without any, an end that is known already would wake us again and again.
                if !flags.is_empty() {
                    fds.push(PollFd::new(socket, flags));
                }
                until = match (until, out.until) {
                    (Some(one), Some(two)) => Some(one.min(two)),
                    (one, two) => one.or(two),
                };
            }
        }
        let time = until.map(|until| until.saturating_duration_since(Instant::now()));
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        match poll(&mut fds, time.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let client = match self.listener.accept() {
                Ok((client, _)) => client,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // The client has gone already.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            let number = self.shared.accepted.fetch_add(1, Ordering::SeqCst);
            let faults = (self.faults)(number);
            client.set_nonblocking(true)?;
            if self.builder.unix {
                self.builder.set_buffers(&client)?;
            } else {
                client.set_tcp_nodelay(true)?;
            }
            let server = self.builder.socket(Domain::IPV4)?;
            // A server that is not there: the client sees its connection end.
            if server.connect(&loopback(self.upstream)).is_err() {
                reset(&client);
                continue;
            }
            server.set_nonblocking(true)?;
            server.set_tcp_nodelay(true)?;
            let flow = |way| {
                let mut faults: Vec<Fault> = faults.iter().filter(|fault| fault.way == way).copied().collect();
                faults.sort_by_key(|fault| fault.at);
                Flow::new(faults.into())
            };
            let (to_server, to_client) = (flow(Way::ToServer), flow(Way::ToClient));
            self.links.push(Link { client, server, to_server, to_client, gone: false });
        }
    }
}

/// One connection: both its sockets.
struct Link {
    client: Socket,
    server: Socket,
    to_server: Flow,
    to_client: Flow,
    gone: bool,
}

impl Link {
    fn pass(&mut self, now: Instant, shared: &Shared) {
        if self.gone {
            return;
        }
        let acts = [
            self.to_server.pass(&self.client, &self.server, now, shared),
            self.to_client.pass(&self.server, &self.client, now, shared),
        ];
        if let Some(act) = acts.into_iter().flatten().next() {
            self.end(act);
        }
    }

    fn release(&mut self) {
        self.to_server.stalled = false;
        self.to_client.stalled = false;
    }

    fn end(&mut self, act: Act) {
        if act == Act::Close {
            // Fails when the other side has gone.
            let _ = self.client.shutdown(Shutdown::Write);
            let _ = self.server.shutdown(Shutdown::Write);
            self.to_server.close();
            self.to_client.close();
        } else {
            reset(&self.client);
            reset(&self.server);
            self.gone = true;
        }
    }

    fn over(&self) -> bool {
        self.gone || (self.to_server.shut && self.to_client.shut && self.to_server.ended && self.to_client.ended)
    }
}

/// One direction of a connection.
struct Flow {
    held: Box<[u8]>,
    start: usize,
    end: usize,
    /// How many bytes have been passed on.
    passed: u64,
    faults: VecDeque<Fault>,
    until: Option<Instant>,
    stalled: bool,
    /// Nothing more comes.
    ended: bool,
    /// The other side has been told so.
    shut: bool,
}

impl Flow {
    fn new(faults: VecDeque<Fault>) -> Flow {
        Flow {
            held: vec![0; HELD].into(),
            start: 0,
            end: 0,
            passed: 0,
            faults,
            until: None,
            stalled: false,
            ended: false,
            shut: false,
        }
    }

    fn close(&mut self) {
        (self.start, self.end, self.shut, self.until, self.stalled) = (0, 0, true, None, false);
        self.faults.clear();
    }

    fn wants_bytes(&self) -> bool {
        !self.ended && self.start == self.end
    }

    /// Whether there is something that may be passed on now.
    fn has_bytes(&self) -> bool {
        self.start < self.end && self.until.is_none() && !self.stalled
    }

    /// Passes on what can be passed on without waiting. Says how the whole connection ends, if it does.
    fn pass(&mut self, mut from: &Socket, mut to: &Socket, now: Instant, shared: &Shared) -> Option<Act> {
        loop {
            if self.until.is_some_and(|until| now < until) || self.stalled {
                // Bytes that wait are one buffer full; the rest waits with who sent it.
                return None;
            }
            self.until = None;
            if let Some(fault) = self.faults.front().copied().filter(|fault| fault.at <= self.passed) {
                self.faults.pop_front();
                let kind = match fault.act {
                    Act::Delay(time) => {
                        self.until = Some(now + time);
                        0
                    }
                    Act::Split => 1,
                    Act::Stall => {
                        self.stalled = true;
                        2
                    }
                    Act::Close => 3,
                    Act::Reset => 4,
                };
                shared.struck[kind].fetch_add(1, Ordering::SeqCst);
                if matches!(fault.act, Act::Close | Act::Reset) {
                    return Some(fault.act);
                }
                continue;
            }
            if self.start < self.end {
                let most = self.faults.front().map_or(u64::MAX, |fault| fault.at - self.passed);
                let end = self.end.min(self.start.saturating_add(usize::try_from(most).unwrap_or(HELD)));
                match to.write(&self.held[self.start..end]) {
                    Ok(n) => {
                        self.start += n;
                        self.passed += n as u64;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    // Whoever reads has gone: so it is for whoever writes.
                    Err(_) => return Some(Act::Reset),
                }
                continue;
            }
            if self.ended {
                if !self.shut {
                    self.shut = true;
                    // Fails when the other side has gone.
                    let _ = to.shutdown(Shutdown::Write);
                }
                return None;
            }
            match from.read(&mut self.held) {
                Ok(0) => self.ended = true,
                // Nobody is to get it any more.
                Ok(_) if self.shut => {}
                Ok(n) => (self.start, self.end) = (0, n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Some(Act::Reset),
            }
        }
    }
}

/// A reset, once the socket is dropped.
fn reset(socket: &Socket) {
    let _ = socket.set_linger(Some(Duration::ZERO));
}

fn loopback(port: u16) -> SockAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into()
}

/// Plays each of these seeds, or the one that `REDEFER_SEED` names, each for at most `limit`: `play` says how much has come of
/// it, and what has struck the connections.
pub fn play_all(seeds: Range<u64>, limit: Duration, reconnects: bool, play: fn(u64, bool) -> (u64, Struck)) {
    let number = |name| std::env::var(name).ok().map(|text: String| text.parse().expect("a number"));
    let seeds: Range<u64> = match (number("REDEFER_SEED"), number("REDEFER_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(count)) => 0..count,
        (None, None) => seeds,
    };
    let one = seeds.end - seeds.start == 1;
    let (mut came, mut struck) = (0, Struck::default());
    for seed in seeds {
        let (more, strikes) = super::within(limit, move || {
            catch_unwind(|| play(seed, reconnects)).unwrap_or_else(|panic| {
                eprintln!("REDEFER_SEED={seed}, reconnects: {reconnects}");
                std::panic::resume_unwind(panic)
            })
        });
        came += more;
        struck.add(strikes);
    }
    // Else the test would say nothing.
    assert!(one || came > 500, "{came}");
    assert!(one || struck.closes + struck.resets > 3, "{struck:?}");
}
