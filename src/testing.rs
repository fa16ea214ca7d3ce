//! Private servers for tests: a `redis-server` or `valkey-server` of one's own, on a free port, ended on drop.
//!
//! A test suite that talks to a server somebody else runs has to guess what is in it, and one that clears it may clear
//! the wrong one. [`Server`] starts a fresh, empty process instead, which takes a few milliseconds, so that every test
//! can have its own:
//!
//! ```no_run
//! use redefer::testing::Server;
//!
//! # fn main() -> std::io::Result<()> {
//! let server = Server::start()?;
//! println!("{} {:?} at {} and {}", server.name(), server.version(), server.url(), server.unix_url());
//! // … open a connection to `server.url()` …
//! drop(server); // the process ends here, and its directory is gone
//! # Ok(())
//! # }
//! ```
//!
//! The server listens on `127.0.0.1` and on a unix socket in a private directory, saves nothing, and allows `DEBUG`
//! where that must be asked for. It also ends when the test process ends without dropping it: by `std::process::exit`,
//! by an abort, by a signal, or because the [`Server`] is in a `static`.
//!
//! # Which server is taken
//!
//! The first of these that is there:
//!
//! 1. the program given to [`Builder::program`];
//! 2. the program that the environment variable `REDEFER_SERVER` names;
//! 3. `target/servers/*/redis-server` and `target/servers/*/valkey-server`, below the directory of the package under
//!    test or one above it;
//! 4. `redis-server`, then `valkey-server`, on the `PATH`.
//!
//! A server named by 1 or 2 that cannot be run is an error; nothing else is tried then.
//!
//! [`Cluster`] starts several that have joined.

mod cluster;

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fmt;
use std::fs::DirBuilder;
use std::io::{self, BufRead, BufReader, PipeReader, Read};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub use cluster::{Cluster, ClusterBuilder};
use rustix::process::{Pid, WaitId, WaitIdOptions};

/// How long a server may take from its start until it accepts connections.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// How many ports are tried when others keep taking the free one that was found.
const PORTS_TRIED: usize = 5;
/// Cluster nodes listen on their port and on the one 10,000 above it, so no higher port than this is taken.
const HIGHEST_PORT: u16 = 55_535;
/// How many lines of a server's log are kept.
const LOG_LINES: usize = 200;
/// How many bytes of one log line are kept.
const LOG_LINE_BYTES: u64 = 4096;
/// The longest directory that leaves room for a name in the address of a unix socket (104 bytes where it is shortest).
const LONGEST_DIR: usize = 64;
/// The file names a server goes by.
const NAMES: [&str; 2] = ["redis-server", "valkey-server"];
/// The name of the configuration file, in the private directory.
const CONFIG_FILE: &str = "redis.conf";
/// Settings that [`Server`] makes itself and relies on.
const RESERVED: [&str; 6] = ["daemonize", "logfile", "loglevel", "port", "supervised", "unixsocket"];

/// A private server, running until this value is dropped.
///
/// See the [module's page](self) for what it is and which program is taken.
pub struct Server {
    process: Mutex<Process>,
    program: Program,
    sentinel: bool,
    port: u16,
    socket: PathBuf,
    // After `process`: the directory is removed when the server has ended.
    dir: TempDir,
}

impl Server {
    /// Starts the first server found, and returns when it accepts connections.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] when there is no server on this machine, with a text that says how to get one; any
    /// other error when it could not be started, with the last lines of its log.
    pub fn start() -> io::Result<Server> {
        Server::builder().start()
    }

    /// Settings for a server that is not the first found, or not configured as usual.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// All the servers found, in the order in which they are taken, for suites that run on each of them.
    ///
    /// Programs that do not run, or do not tell their version, are left out. See the [module's page](self) for where
    /// they are looked for; here `REDEFER_SERVER` is only the first of them.
    #[must_use]
    pub fn programs() -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = Vec::new();
        for path in named_by_environment().into_iter().chain(candidates()) {
            if let Ok(program) = Program::identify(&path)
                && !found.iter().any(|known| same_file(known, &program.path))
            {
                found.push(program.path);
            }
        }
        found
    }

    /// The server's URL over TCP: `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The server's URL over its unix socket: `redis+unix:///…/redis.sock`.
    #[must_use]
    pub fn unix_url(&self) -> String {
        format!("redis+unix://{}", self.socket.display())
    }

    /// The TCP port, on `127.0.0.1`.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path of the unix socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The private directory, which is also the server's working directory. It is removed on drop.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir.0
    }

    /// The process's number: another one after a [`restart`](Server::restart).
    #[must_use]
    pub fn pid(&self) -> u32 {
        lock(&self.process).pid
    }

    /// The program that runs.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program.path
    }

    /// What the program calls itself, in lower case: `redis` or `valkey`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.program.name
    }

    /// The program's version: major, minor, patch. Compares as one expects: `server.version() >= (7, 2, 0)`.
    #[must_use]
    pub fn version(&self) -> (u32, u32, u32) {
        self.program.version
    }

    /// Ends the process at once (SIGKILL) and waits for its end, so that its port is closed on return.
    ///
    /// Doing it again does nothing.
    pub fn kill(&self) {
        lock(&self.process).end();
    }

    /// Starts the server again, on the same port and socket and with the same settings, and returns when it accepts
    /// connections. If it still runs it is ended first, as by [`kill`](Server::kill).
    ///
    /// It has what it saved before, which by default is nothing: see the settings `appendonly` and `save`.
    ///
    /// # Errors
    ///
    /// Those of [`Server::start`]; somebody else may have taken the port meanwhile.
    pub fn restart(&self) -> io::Result<()> {
        let mut process = lock(&self.process);
        process.end();
        *process = Process::spawn(&self.program, &self.dir.0, self.sentinel)?;
        process.wait_until_ready(&self.program)
    }

    /// Stops the process (SIGSTOP), and returns when it stands still: its connections stay, and nothing is read or
    /// answered until [`resume`](Server::resume).
    ///
    /// # Errors
    ///
    /// Those of the operating system; [`io::ErrorKind::NotFound`] when the process has been [killed](Server::kill).
    pub fn pause(&self) -> io::Result<()> {
        let process = lock(&self.process);
        let pid = process.running()?;
        rustix::process::kill_process(pid, rustix::process::Signal::STOP)?;
        // Also when it ends meanwhile; its end is left for others to see.
        let what = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        rustix::io::retry_on_intr(|| rustix::process::waitid(WaitId::Pid(pid), what))?;
        Ok(())
    }

    /// Lets a [paused](Server::pause) process go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// Those of [`pause`](Server::pause).
    pub fn resume(&self) -> io::Result<()> {
        let process = lock(&self.process);
        Ok(rustix::process::kill_process(process.running()?, rustix::process::Signal::CONT)?)
    }

    /// The last lines that the server has written to its log (200 at most).
    #[must_use]
    pub fn log(&self) -> String {
        lock(&self.process).log.text()
    }

    /// How much memory the server's process holds now, and the most it ever held.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::Unsupported`] on systems without `/proc`; [`io::ErrorKind::NotFound`] when the process ended.
    pub fn memory(&self) -> io::Result<Memory> {
        if !cfg!(target_os = "linux") {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "a process's memory can only be read on Linux"));
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
        };
        match (field("VmRSS:"), field("VmHWM:")) {
            (Some(resident), Some(peak)) => Ok(Memory { resident, peak }),
            // A process that has ended and was not waited for has a status without these lines.
            _ => Err(io::Error::new(io::ErrorKind::NotFound, "the server has ended")),
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("program", &self.program.path)
            .field("pid", &self.pid())
            .field("port", &self.port)
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

/// What a server's process takes of the machine's memory, from [`Server::memory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// Bytes resident now.
    pub resident: u64,
    /// The most bytes that were ever resident.
    pub peak: u64,
}

/// How to start a [`Server`].
///
/// ```no_run
/// use redefer::testing::Server;
///
/// # fn main() -> std::io::Result<()> {
/// let server = Server::builder().config("maxclients", 1).config("user", "alice on >secret ~* +@all").start()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a builder starts nothing before `start` is called"]
pub struct Builder {
    program: Option<PathBuf>,
    settings: Vec<(String, String)>,
    sentinel: bool,
}

impl Builder {
    /// Takes this program instead of the first one found. A name without a slash is looked for on the `PATH`.
    pub fn program(mut self, path: impl Into<PathBuf>) -> Builder {
        self.program = Some(path.into());
        self
    }

    /// Adds a line to the server's configuration file: a key, and its value as that file has it.
    ///
    /// A value with several words stays several words (`"user"`, `"alice on >secret ~* +@all"`), and quotes mean what
    /// they mean there (`"rename-command"`, `"HELLO \"\""`). An empty value is written as `""`. These lines follow the
    /// defaults, so they win. `port`, `unixsocket` and what says where the log goes cannot be set.
    pub fn config(mut self, key: impl Into<String>, value: impl fmt::Display) -> Builder {
        self.settings.push((key.into(), value.to_string()));
        self
    }

    /// Starts a sentinel and not a server: the same program with `--sentinel`. What it watches is in its settings:
    ///
    /// ```no_run
    /// use redefer::testing::Server;
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let server = Server::start()?;
    /// let watched = format!("monitor mymaster 127.0.0.1 {} 2", server.port());
    /// let sentinel = Server::builder().sentinel().config("sentinel", watched).start()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn sentinel(mut self) -> Builder {
        self.sentinel = true;
        self
    }

    /// Starts the server, and returns when it accepts connections.
    ///
    /// # Errors
    ///
    /// Those of [`Server::start`], and [`io::ErrorKind::InvalidInput`] for a setting that cannot be made.
    pub fn start(self) -> io::Result<Server> {
        for (key, value) in &self.settings {
            if RESERVED.contains(&key.to_ascii_lowercase().as_str()) {
                return Err(invalid(format!("`{key}` is set by the test server itself")));
            }
            if key.is_empty() || key.contains(char::is_whitespace) || value.contains(['\n', '\r']) {
                return Err(invalid(format!("not one line of a configuration file: {key:?} {value:?}")));
            }
        }
        let program = match &self.program {
            Some(path) => Program::identify(path)?,
            None => Program::first()?,
        };
        let mut tries = 0;
        loop {
            tries += 1;
            match self.launch(&program) {
                Err(Failure::PortTaken(_)) if tries < PORTS_TRIED => {}
                Err(Failure::PortTaken(error) | Failure::Other(error)) => return Err(error),
                Ok(server) => return Ok(server),
            }
        }
    }

    fn launch(&self, program: &Program) -> Result<Server, Failure> {
        let dir = TempDir::new()?;
        let socket = dir.0.join("redis.sock");
        let port = free_port()?;

        let mut text = format!(
            "bind 127.0.0.1\nport {port}\nunixsocket {}\ndir {}\ndaemonize no\nloglevel notice\nsave \"\"\nappendonly no\n",
            quoted(&socket),
            quoted(&dir.0),
        );
        // Older servers allow DEBUG to all and end at a setting they do not know.
        if program.version >= (7, 0, 0) {
            text.push_str("enable-debug-command yes\n");
        }
        for (key, value) in &self.settings {
            let value = if value.trim().is_empty() { "\"\"" } else { value };
            text.push_str(&format!("{key} {value}\n"));
        }
        std::fs::write(dir.0.join(CONFIG_FILE), text)?;

        let process = Process::spawn(program, &dir.0, self.sentinel)?;
        match process.wait_until_ready(program) {
            Ok(()) => {
                let (program, sentinel) = (program.clone(), self.sentinel);
                Ok(Server { process: Mutex::new(process), program, sentinel, port, socket, dir })
            }
            // The port named in the message is the TCP port or, of a cluster node, the one of its bus.
            Err(error)
                if error.kind() == io::ErrorKind::Other && error.to_string().contains("Address already in use") =>
            {
                Err(Failure::PortTaken(error))
            }
            Err(error) => Err(Failure::Other(error)),
        }
    }
}

/// A TCP port of `127.0.0.1` that nothing listens on, low enough for a cluster node (55,535 or below).
///
/// For what a test starts besides a [`Server`], and for settings such as `tls-port` and `cluster-port`. Somebody else
/// may take the port before it is used.
///
/// # Errors
///
/// When no socket can be bound.
pub fn free_port() -> io::Result<u16> {
    // Held until a port will do, so that each try gives another one.
    let mut too_high = Vec::new();
    loop {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        if port <= HIGHEST_PORT {
            return Ok(port);
        }
        if too_high.len() == 256 {
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "every free port found is above 55,535"));
        }
        too_high.push(listener);
    }
}

enum Failure {
    PortTaken(io::Error),
    Other(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Other(error)
    }
}

/// A program that has told its name and version.
#[derive(Clone)]
struct Program {
    path: PathBuf,
    name: String,
    version: (u32, u32, u32),
}

impl Program {
    fn first() -> io::Result<Program> {
        if let Some(path) = named_by_environment() {
            return Program::identify(&path)
                .map_err(|error| explain(error, "REDEFER_SERVER names no server that runs".to_owned()));
        }
        let mut failed = String::new();
        for path in candidates() {
            match Program::identify(&path) {
                Ok(program) => return Ok(program),
                Err(error) => failed.push_str(&format!("; {error}")),
            }
        }
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!(
                "no redis-server or valkey-server was found: REDEFER_SERVER is not set, there is none below \
                 target/servers and none on the PATH{failed}. Install one with your system's packages (Debian and \
                 Ubuntu: `apt-get install redis-server`; Fedora: `dnf install valkey`; macOS: `brew install valkey`), \
                 or set REDEFER_SERVER to the path of one"
            ),
        ))
    }

    /// Asks the program for its version, once for each path.
    fn identify(path: &Path) -> io::Result<Program> {
        // A lone name is left to the search of the `PATH`.
        let path = if path.components().count() > 1 { std::path::absolute(path)? } else { path.to_owned() };
        static KNOWN: Mutex<Vec<Program>> = Mutex::new(Vec::new());
        let mut known = lock(&KNOWN);
        if let Some(program) = known.iter().find(|program| program.path == path) {
            return Ok(program.clone());
        }
        let output = Command::new(&path)
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| explain(error, format!("{} could not be run", path.display())))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let Some((name, version)) = parse_version(&text) else {
            let said = if text.trim().is_empty() { String::from_utf8_lossy(&output.stderr) } else { text };
            let said = said.trim();
            return Err(io::Error::other(format!("{} tells no version ({}): {said}", path.display(), output.status)));
        };
        let program = Program { path, name, version };
        known.push(program.clone());
        Ok(program)
    }
}

/// Reads lines like `Redis server v=7.0.15 sha=…` and `Valkey server v=9.1.2 sha=…`.
fn parse_version(text: &str) -> Option<(String, (u32, u32, u32))> {
    let mut words = text.split_whitespace();
    let name = words.next()?.to_ascii_lowercase();
    let version = words.find_map(|word| word.strip_prefix("v="))?;
    let mut numbers = version.split('.').map(|part| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).map_or(part, |end| &part[..end]);
        digits.parse().ok()
    });
    let major = numbers.next()??;
    let mut rest = || numbers.next().flatten().unwrap_or(0);
    Some((name, (major, rest(), rest())))
}

fn named_by_environment() -> Option<PathBuf> {
    std::env::var_os("REDEFER_SERVER").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The servers below `target/servers`, then those on the `PATH`.
fn candidates() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).or_else(|| std::env::current_dir().ok());
    for above in package.iter().flat_map(|dir| dir.ancestors()) {
        let mut dirs: Vec<PathBuf> = match std::fs::read_dir(above.join("target/servers")) {
            Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
            Err(_) => continue,
        };
        dirs.sort();
        found.extend(dirs.iter().flat_map(|dir| NAMES.map(|name| dir.join(name))).filter(|path| is_program(path)));
        break;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    for name in NAMES {
        found.extend(std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| is_program(path)));
    }
    found
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn same_file(one: &Path, two: &Path) -> bool {
    one == two || matches!((one.canonicalize(), two.canonicalize()), (Ok(one), Ok(two)) if one == two)
}

/// A path as a word of the configuration file.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

fn explain(error: io::Error, what: String) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// A test that fails with a lock held must not make the others fail with it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The server's process, and what ends it when nobody else does.
struct Process {
    child: Option<Child>,
    pid: u32,
    guard: Guard,
    log: Arc<Log>,
}

impl Process {
    /// Starts the program on the configuration file in this directory.
    fn spawn(program: &Program, dir: &Path, sentinel: bool) -> io::Result<Process> {
        let (reader, writer) = io::pipe()?;
        let child = Command::new(&program.path)
            .arg(dir.join(CONFIG_FILE))
            .args(sentinel.then_some("--sentinel"))
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .spawn()
            .map_err(|error| explain(error, format!("{} could not be run", program.path.display())))?;
        let pid = child.id();
        let guard = Guard::start(pid, dir);
        // Before the log, whose failure must not leave the process behind.
        let mut process = Process { child: Some(child), pid, guard, log: Arc::default() };
        process.log = Log::follow(reader)?;
        Ok(process)
    }

    fn wait_until_ready(&self, program: &Program) -> io::Result<()> {
        let (kind, what) = match self.log.wait_until_ready(READY_WITHIN) {
            State::Ready => return Ok(()),
            State::Ended => (io::ErrorKind::Other, "ended before it accepted connections".to_owned()),
            State::Starting => (io::ErrorKind::TimedOut, format!("was not ready within {READY_WITHIN:?}")),
        };
        let text = format!("{} {what}; its log:\n{}", program.path.display(), self.log.text());
        Err(io::Error::new(kind, text))
    }

    /// The process, unless it was ended.
    fn running(&self) -> io::Result<Pid> {
        let child = self.child.as_ref().map(Pid::from_child);
        child.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the server has ended"))
    }

    fn end(&mut self) {
        // First the guard: the process's number is free for others once the process was waited for.
        self.guard.dismiss();
        if let Some(mut child) = self.child.take() {
            // Both fail only for a process that has ended and was waited for.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// A shell that waits for the end of its input, which comes when this process ends in whatever way, and then ends the
/// server and removes its directory. Values in a `static` are never dropped, and no value is after an abort.
struct Guard(Option<Child>);

impl Guard {
    fn start(pid: u32, dir: &Path) -> Guard {
        let script = r#"trap "" HUP INT TERM; read -r _; kill -9 "$1"; rm -rf "$2""#;
        let child = Command::new("/bin/sh")
            .args([
                OsStr::new("-c"),
                OsStr::new(script),
                OsStr::new("sh"),
                OsStr::new(&pid.to_string()),
                dir.as_os_str(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        // Without a shell, servers end on drop only.
        Guard(child.ok())
    }

    fn dismiss(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Starting,
    Ready,
    Ended,
}

/// What the server writes: read by a thread of its own, since a full pipe would stop the server.
#[derive(Default)]
struct Log {
    inner: Mutex<(State, VecDeque<String>)>,
    changed: Condvar,
}

impl Log {
    fn follow(reader: PipeReader) -> io::Result<Arc<Log>> {
        let log: Arc<Log> = Arc::default();
        let shared = Arc::clone(&log);
        // Never joined: a child of the server that outlives it, saving a snapshot, keeps the pipe open.
        thread::Builder::new().name("redefer test server log".to_owned()).spawn(move || shared.read(reader))?;
        Ok(log)
    }

    fn read(&self, reader: PipeReader) {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        loop {
            line.clear();
            match reader.by_ref().take(LOG_LINE_BYTES).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            let mut inner = lock(&self.inner);
            // Newer servers say it once for each kind of listener, after all of them have been opened.
            // A sentinel says who it is instead.
            let ready = text.contains("eady to accept connections") || text.contains("Sentinel ID is");
            if inner.0 == State::Starting && ready {
                inner.0 = State::Ready;
                self.changed.notify_all();
            }
            if inner.1.len() == LOG_LINES {
                inner.1.pop_front();
            }
            inner.1.push_back(text);
        }
        lock(&self.inner).0 = State::Ended;
        self.changed.notify_all();
    }

    fn wait_until_ready(&self, limit: Duration) -> State {
        let deadline = Instant::now() + limit;
        let mut inner = lock(&self.inner);
        while inner.0 == State::Starting {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            inner = self.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        inner.0
    }

    fn text(&self) -> String {
        let inner = lock(&self.inner);
        inner.1.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// A directory that only this user can enter, removed on drop.
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> io::Result<TempDir> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let parent = std::env::temp_dir();
        let parent = if parent.as_os_str().len() > LONGEST_DIR { PathBuf::from("/tmp") } else { parent };
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("redefer-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(TempDir(path)),
                // Left behind by an earlier process of the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(explain(error, format!("{} could not be made", path.display()))),
            }
        }
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_each_server_prints() {
        let cases = [
            ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1", "redis", (7, 0, 15)),
            ("Valkey server v=9.1.2 sha=00000000:1 malloc=libc bits=64", "valkey", (9, 1, 2)),
            ("Redis server v=8.4-rc1", "redis", (8, 4, 0)),
            ("Redis server v=255.255.255", "redis", (255, 255, 255)),
        ];
        for (text, name, version) in cases {
            assert_eq!(parse_version(text), Some((name.to_owned(), version)), "{text}");
        }
        for text in ["", "Redis", "bash, version 5.2", "Redis server v=x"] {
            assert_eq!(parse_version(text), None, "{text}");
        }
    }

    #[test]
    fn a_setting_that_the_server_relies_on_is_refused() {
        for (key, value) in
            [("port", "1"), ("LogLevel", "warning"), ("a b", "1"), ("", "1"), ("maxclients", "1\nport 1")]
        {
            let error = Server::builder().config(key, value).start().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{key}: {error}");
        }
    }

    #[test]
    fn a_program_that_is_no_server_is_refused() {
        let error = Server::builder().program("/bin/sh").start().unwrap_err();
        assert!(error.to_string().contains("tells no version"), "{error}");
        let error = Server::builder().program("/nonexistent/redis-server").start().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("/nonexistent/redis-server"), "{error}");
    }

    #[test]
    fn free_ports_are_low_enough_for_cluster_nodes() -> io::Result<()> {
        for _ in 0..50 {
            assert!(free_port()? <= HIGHEST_PORT);
        }
        Ok(())
    }

    #[test]
    fn a_directory_is_private_and_goes_with_its_owner() -> io::Result<()> {
        let dir = TempDir::new()?;
        let path = dir.0.clone();
        assert_eq!(path.metadata()?.permissions().mode() & 0o777, 0o700);
        std::fs::write(path.join("file"), "x")?;
        drop(dir);
        assert!(!path.exists());
        Ok(())
    }
}
