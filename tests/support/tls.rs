//! Certificates, servers that speak TLS, and what may stand between them and a client.
//!
//! A server without TLS gets a [`Proxy`] in front of it, so that the same tests run on every server.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use redefer::rustls::crypto::ring;
use redefer::rustls::pki_types::pem::PemObject;
use redefer::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use redefer::rustls::server::WebPkiClientVerifier;
use redefer::rustls::{RootCertStore, ServerConfig, ServerConnection};
use redefer::testing::{Server, free_port};
use rustix::event::{PollFd, PollFlags, poll};

/// Somebody who vouches for certificates.
pub struct Authority {
    /// Its own certificate, in PEM.
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its private key, in PEM.
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names are good names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate for these names, which may be IP addresses.
    pub fn issue(&self, names: &[&str]) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("good names");
        params.distinguished_name.push(DnType::CommonName, "somebody");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Identity { certificate, key: key.serialize_pem() }
    }
}

/// What a server of rustls needs to be this one. Clients need a certificate if there is somebody who vouches for it.
pub fn server_config(identity: &Identity, clients: Option<&Authority>) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes());
    let chain: Vec<_> = chain.collect::<Result<_, _>>().expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("PEM");
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the versions that the provider has");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).expect("PEM")).expect("a root");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.expect("there is a root"))
        }
    };
    Arc::new(builder.with_single_cert(chain, key).expect("a key that belongs to the certificate"))
}

/// A server that speaks TLS, by itself or by way of a proxy.
pub struct TlsServer {
    /// The port for TLS.
    pub tls_port: u16,
    proxy: Option<Proxy>,
    server: Server,
}

impl Deref for TlsServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl TlsServer {
    /// The server under test, behind a proxy if it has no TLS of its own, and then also the first that has.
    #[track_caller]
    pub fn all(identity: &Identity, clients: Option<&Authority>) -> Vec<TlsServer> {
        let mut servers = Vec::new();
        for program in Server::programs() {
            if let Some(server) = TlsServer::native(&program, identity, clients) {
                servers.push(server);
                break;
            }
            if servers.is_empty() {
                servers.push(TlsServer::behind_proxy(program, identity, clients));
            }
        }
        assert!(!servers.is_empty(), "no server was found: see `scripts/servers.sh`");
        servers
    }

    pub fn is_native(&self) -> bool {
        self.proxy.is_none()
    }

    #[track_caller]
    fn native(program: &Path, identity: &Identity, clients: Option<&Authority>) -> Option<TlsServer> {
        let files = Files::new();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let tls_port = free_port().expect("a free port");
            let mut builder = Server::builder()
                .program(program)
                .config("tls-port", tls_port)
                .config("tls-cert-file", files.write("server.crt", &identity.certificate).display())
                .config("tls-key-file", files.write("server.key", &identity.key).display())
                .config("tls-auth-clients", if clients.is_some() { "yes" } else { "no" });
            if let Some(clients) = clients {
                builder = builder.config("tls-ca-cert-file", files.write("ca.crt", &clients.pem).display());
            }
            let error = match builder.start() {
                Ok(server) => return Some(TlsServer { tls_port, proxy: None, server }),
                Err(error) => error.to_string(),
            };
            if error.contains("Failed finding TLS support") || error.contains("Bad directive") {
                return None;
            }
            // Somebody else may have taken the port before the server did.
            assert!(attempt < 5 && error.contains("Address already in use"), "{error}");
        }
    }

    #[track_caller]
    fn behind_proxy(program: PathBuf, identity: &Identity, clients: Option<&Authority>) -> TlsServer {
        let server = Server::builder().program(program).start().unwrap_or_else(|error| panic!("{error}"));
        let proxy = Proxy::start(server_config(identity, clients), server.port());
        TlsServer { tls_port: proxy.port, proxy: Some(proxy), server }
    }
}

/// A directory for files, removed on drop.
pub struct Files(PathBuf);

impl Files {
    #[track_caller]
    pub fn new() -> Files {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("redefer-tls-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        // Left behind by an earlier process of the same number.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).expect("a directory in the temporary one");
        Files(path)
    }

    #[track_caller]
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a file in a directory of its own");
        path
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A thread that accepts connections and gives each to a thread of its own, until it is dropped.
struct Acceptor {
    port: u16,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    #[track_caller]
    fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Acceptor {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, serve) = (Arc::clone(&stop), Arc::new(serve));
        let thread = thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let serve = Arc::clone(&serve);
                // Ends when one of its two sides closes.
                thread::spawn(move || serve(client));
            }
        });
        Acceptor { port, stop, thread: Some(thread) }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // One more connection wakes the thread up.
        let woken = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

/// Speaks TLS to clients, and hands what they say on to a server without it.
pub struct Proxy {
    pub port: u16,
    _acceptor: Acceptor,
}

impl Proxy {
    #[track_caller]
    pub fn start(config: Arc<ServerConfig>, server: u16) -> Proxy {
        let acceptor = Acceptor::start(move |client| {
            // Errors are those of the client, which has noticed.
            let _ = relay(Arc::clone(&config), &client, server);
        });
        Proxy { port: acceptor.port, _acceptor: acceptor }
    }
}

/// Both directions in turn, with little in between: whoever does not read keeps the other from writing.
fn relay(config: Arc<ServerConfig>, client: &TcpStream, server: u16) -> io::Result<()> {
    let mut tls = ServerConnection::new(config).map_err(io::Error::other)?;
    let server = &TcpStream::connect((Ipv4Addr::LOCALHOST, server))?;
    for socket in [client, server] {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
    }
    let (mut to_server, mut client_ended) = (Vec::new(), false);
    let mut buf = vec![0; 16 << 10];
    loop {
        while tls.wants_write() {
            if now(tls.write_tls(&mut &*client))?.is_none() {
                break;
            }
        }
        if to_server.is_empty()
            && let Ok(n) = tls.reader().read(&mut buf)
        {
            to_server.extend_from_slice(&buf[..n]);
        }
        if !to_server.is_empty()
            && let Some(n) = now((&*server).write(&to_server))?
        {
            to_server.drain(..n);
            continue;
        }
        if client_ended && to_server.is_empty() {
            let _ = server.shutdown(Shutdown::Write);
        }
        let mut from_client = PollFlags::empty();
        from_client.set(PollFlags::IN, to_server.is_empty() && !client_ended);
        from_client.set(PollFlags::OUT, tls.wants_write());
        let mut from_server = PollFlags::empty();
        from_server.set(PollFlags::IN, !tls.wants_write() && !tls.is_handshaking());
        from_server.set(PollFlags::OUT, !to_server.is_empty());
        // One of whom nothing is wanted now is left out: its hang-up would end every wait at once.
        let wanted = [(client, from_client), (server, from_server)].into_iter().filter(|side| !side.1.is_empty());
        let mut fds: Vec<_> = wanted.map(|(socket, events)| PollFd::new(socket, events)).collect();
        poll(&mut fds, None)?;
        // An error or a hang-up is told by the read.
        let has = |fd: &PollFd<'_>| fd.revents().intersects(PollFlags::IN | PollFlags::ERR | PollFlags::HUP);
        let client_has = !from_client.is_empty() && fds.first().is_some_and(has);
        let server_has = !from_server.is_empty() && fds.last().is_some_and(has);
        if client_has && from_client.contains(PollFlags::IN) {
            let n = now(tls.read_tls(&mut &*client))?;
            let outcome = tls.process_new_packets();
            let Ok(state) = outcome else {
                // The reason, for the client.
                while now(tls.write_tls(&mut &*client))?.is_some_and(|n| n > 0) {}
                return Ok(());
            };
            client_ended = n == Some(0) || state.peer_has_closed();
        } else if client_has && client_ended {
            return Ok(());
        }
        if server_has && from_server.contains(PollFlags::IN) {
            match now((&*server).read(&mut buf))? {
                None => {}
                Some(0) => {
                    tls.send_close_notify();
                    client.set_nonblocking(false)?;
                    while tls.wants_write() {
                        tls.write_tls(&mut &*client)?;
                    }
                    return Ok(());
                }
                Some(n) => tls.writer().write_all(&buf[..n])?,
            }
        }
    }
}

/// `None`: it would block.
fn now<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Hands bytes on between clients and a server as they are, in pieces, and stops handing on what the server says where
/// it was told to.
pub struct Forwarder {
    pub port: u16,
    cut: Arc<Mutex<Option<(usize, Cut)>>>,
    _acceptor: Acceptor,
}

/// What happens where a [`Forwarder`] stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The connection is closed.
    Close,
    /// Nothing more comes, as long as the client is there.
    Stall,
}

impl Forwarder {
    /// In pieces of this size, each in a write of its own.
    #[track_caller]
    pub fn start(server: u16, piece: usize) -> Forwarder {
        let cut = Arc::new(Mutex::new(None));
        let shared = Arc::clone(&cut);
        let acceptor = Acceptor::start(move |client| {
            // Errors are those of the two sides, which notice.
            let _ = forward(&client, server, piece, &shared);
        });
        Forwarder { port: acceptor.port, cut, _acceptor: acceptor }
    }

    /// Hands on so many more bytes of the server's.
    pub fn cut_after(&self, bytes: usize, how: Cut) {
        *self.cut.lock().unwrap_or_else(PoisonError::into_inner) = Some((bytes, how));
    }

    /// Hands on everything again, for connections that come.
    pub fn mend(&self) {
        *self.cut.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn forward(client: &TcpStream, server: u16, piece: usize, cut: &Mutex<Option<(usize, Cut)>>) -> io::Result<()> {
    let server = &TcpStream::connect((Ipv4Addr::LOCALHOST, server))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    thread::scope(|scope| {
        scope.spawn(move || {
            let _ = pump(client, server, piece, |_| (usize::MAX, None));
            let _ = server.shutdown(Shutdown::Write);
        });
        let ended = pump(server, client, piece, |n| {
            let mut cut = cut.lock().unwrap_or_else(PoisonError::into_inner);
            match cut.as_mut() {
                None => (n, None),
                Some((left, how)) => {
                    let n = n.min(*left);
                    *left -= n;
                    (n, (*left == 0).then_some(*how))
                }
            }
        });
        match ended {
            // The other direction goes on until the client leaves.
            Ok(Some(Cut::Stall)) => {}
            _ => {
                let _ = client.shutdown(Shutdown::Both);
                let _ = server.shutdown(Shutdown::Both);
            }
        }
    });
    Ok(())
}

/// Hands on in one direction; `allowed` says how much of so many bytes, and whether that was the last.
fn pump(
    mut from: &TcpStream,
    mut to: &TcpStream,
    piece: usize,
    allowed: impl Fn(usize) -> (usize, Option<Cut>),
) -> io::Result<Option<Cut>> {
    let mut buf = [0; 16 << 10];
    loop {
        let n = from.read(&mut buf)?;
        if n == 0 {
            return Ok(None);
        }
        let (allowed, cut) = allowed(n);
        for bytes in buf[..n.min(allowed)].chunks(piece) {
            to.write_all(bytes)?;
        }
        if cut.is_some() {
            return Ok(cut);
        }
    }
}
