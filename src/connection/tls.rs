//! TLS between the socket and the plain bytes.
//!
//! What [`Stream`](super::stream::Stream) promises holds here too: writes never block, a wait for either direction sees
//! both, and bytes are told as written only when the operating system has what it takes to understand them. So one record
//! is encrypted at a time, and its bytes are told as written when the whole of it is out: a peer that has a part of a
//! record has nothing.
//!
//! Memory is bounded: a record to be written, and on the way in the buffer below, a record that is not whole, and the
//! plain bytes of what was taken at once, some 100 KiB in all.

use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, InvalidMessage, SupportedCipherSuite};

use super::stream::{Plain, SlowTls};
use super::tls_config::TlsConfig;

/// How much is read from the socket at once: two records of the largest size.
const INCOMING: usize = 32 * 1024;

/// How many reads from the socket one read of plain bytes takes: a peer may send records with nothing in them.
const READS: usize = 16;

/// The most plain bytes in one record.
const RECORD: usize = 16 * 1024;

/// What is smaller, and is counted by rustls into the largest size of a record.
const RECORD_HEADER: usize = 5;

/// How many records of the handshake, alerts and the like may have used keys up that data is not to use up.
const SPARE_RECORDS: u64 = 256;

/// One side of a TLS connection: its state, and what has arrived and has not been decrypted.
pub(super) struct Session {
    tls: ClientConnection,
    /// `incoming[start..end]` has arrived and has not been given to rustls.
    incoming: Box<[u8]>,
    start: usize,
    end: usize,
    /// How reading has ended, once everything before that is taken.
    ended: Option<End>,
    /// So many bytes of the caller's have been encrypted, and their record is not wholly written.
    pending: usize,
    /// How many bytes go into one record.
    record: usize,
    /// How many records may be encrypted with these keys, when there will be no others.
    records_left: u64,
    /// The writing side is shut.
    shut: bool,
}

/// Why nothing more can be read.
enum End {
    /// The peer said so, or closed its socket: servers do that without a word, and the frames of the protocol tell
    /// whether something is missing.
    File,
    Failed(io::Error),
}

impl Session {
    /// Shakes hands with the server at this host, before the deadline.
    pub(super) fn open(config: &TlsConfig, host: &str, socket: &mut Plain, deadline: Instant) -> io::Result<Session> {
        let client = config.client_config().map_err(io::Error::other)?;
        let name = config.name_of(host).map_err(io::Error::other)?;
        let mut session = Session::new(client, name)?;
        session.handshake(socket, deadline)?;
        Ok(session)
    }

    fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> io::Result<Session> {
        let record =
            config.max_fragment_size.map_or(RECORD, |size| size.saturating_sub(RECORD_HEADER).clamp(1, RECORD));
        Ok(Session {
            tls: ClientConnection::new(config, name).map_err(failed)?,
            incoming: vec![0; INCOMING].into(),
            start: 0,
            end: 0,
            ended: None,
            pending: 0,
            record,
            records_left: u64::MAX,
            shut: false,
        })
    }

    fn handshake(&mut self, socket: &mut Plain, deadline: Instant) -> io::Result<()> {
        loop {
            let written = self.flush(socket).map_err(|error| self.told_by_peer(socket, error))?;
            // What is not out yet goes with the first write, or the first wait to read.
            if !self.tls.is_handshaking() {
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, SlowTls));
            }
            if written {
                self.receive(|incoming| socket.read(incoming, Some(left)));
            } else if socket.ready(Some(left))? {
                self.receive(|incoming| socket.try_read(incoming));
            }
            while self.tls.is_handshaking() && self.has_incoming() {
                self.feed();
            }
            match self.ended.take() {
                None => {}
                Some(End::Failed(error)) => {
                    // The server is told the reason, if it takes it at once.
                    let _ = self.flush(socket);
                    return Err(error);
                }
                Some(End::File) => {
                    let text = "the server closed the connection during the TLS handshake";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
                }
            }
        }
        if let Some(SupportedCipherSuite::Tls12(suite)) = self.tls.negotiated_cipher_suite() {
            self.records_left = suite.common.confidentiality_limit.saturating_sub(SPARE_RECORDS);
        }
        Ok(())
    }

    /// See [`Stream::try_write`](super::stream::Stream::try_write).
    pub(super) fn try_write(&mut self, socket: &Plain, bytes: &[u8]) -> io::Result<Option<usize>> {
        debug_assert!(bytes.len() >= self.pending, "what has been encrypted is still the first to be written");
        if self.pending == 0 {
            // TLS 1.3 goes on with other keys by itself. With the old versions rustls closes the session instead, and
            // drops what it was given.
            self.records_left = self.records_left.checked_sub(1).ok_or_else(worn_out)?;
            let bytes = &bytes[..bytes.len().min(self.record)];
            self.pending = self.tls.writer().write(bytes)?;
            if self.pending == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        match self.flush(socket) {
            Ok(true) => Ok(Some(std::mem::take(&mut self.pending))),
            Ok(false) => Ok(None),
            Err(error) => Err(self.told_by_peer(socket, error)),
        }
    }

    /// See [`Stream::try_read`](super::stream::Stream::try_read).
    pub(super) fn try_read(&mut self, socket: &Plain, buf: &mut [u8]) -> io::Result<Option<usize>> {
        // An error is told to whoever writes, or by the read below.
        let _ = self.flush(socket);
        let mut filled = self.decrypt(buf);
        for _ in 0..READS {
            if filled == buf.len() || self.ended.is_some() {
                break;
            }
            self.receive(|incoming| socket.try_read(incoming));
            if !self.has_incoming() {
                break;
            }
            filled += self.decrypt(&mut buf[filled..]);
        }
        self.outcome(filled)
    }

    /// See [`Stream::read`](super::stream::Stream::read).
    pub(super) fn read(
        &mut self,
        socket: &mut Plain,
        buf: &mut [u8],
        time: Option<Duration>,
    ) -> io::Result<Option<usize>> {
        if self.is_readable() {
            let filled = self.decrypt(buf);
            return self.outcome(filled);
        }
        if let Ok(false) = self.flush(socket) {
            // The peer may wait for this before it sends what is waited for here.
            socket.ready(time)?;
            return self.try_read(socket, buf);
        }
        self.receive(|incoming| socket.read(incoming, time));
        let filled = self.decrypt(buf);
        self.outcome(filled)
    }

    /// See [`Stream::ready`](super::stream::Stream::ready).
    pub(super) fn ready(&mut self, socket: &Plain, time: Option<Duration>) -> io::Result<bool> {
        Ok(self.is_readable() || socket.ready(time)?)
    }

    /// See [`Stream::shutdown_write`](super::stream::Stream::shutdown_write). A socket that takes nothing now gets no
    /// word of farewell: the end of file says the same.
    pub(super) fn shutdown_write(&mut self, socket: &Plain) -> io::Result<()> {
        self.tls.send_close_notify();
        let _ = self.flush(socket);
        self.shut = true;
        socket.shutdown_write()
    }

    /// Writes what has been encrypted, and says whether that was everything.
    fn flush(&mut self, socket: &Plain) -> io::Result<bool> {
        while self.tls.wants_write() && !self.shut {
            match self.tls.write_tls(&mut Outgoing(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Whether something encrypted waits to be written.
    pub(super) fn wants_write(&self) -> bool {
        self.tls.wants_write() && !self.shut
    }

    fn has_incoming(&self) -> bool {
        self.start < self.end && self.ended.is_none()
    }

    /// Reads from the socket. Everything that came before has been given to rustls.
    fn receive(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<Option<usize>>) {
        debug_assert!(!self.has_incoming());
        (self.start, self.end) = (0, 0);
        match read(&mut self.incoming) {
            Ok(Some(0)) => self.ended = Some(End::File),
            Ok(Some(n)) => self.end = n,
            Ok(None) => {}
            Err(error) => self.ended = Some(End::Failed(error)),
        }
    }

    /// Gives rustls a piece of what has arrived. Its plain bytes have all been taken, or it would have no room.
    fn feed(&mut self) {
        let mut incoming = &self.incoming[self.start..self.end];
        let fed = self.tls.read_tls(&mut incoming);
        self.start = self.end - incoming.len();
        match fed.and_then(|_| self.tls.process_new_packets().map_err(failed)) {
            Ok(state) if state.peer_has_closed() => self.ended = Some(End::File),
            Ok(_) => {}
            Err(error) => self.ended = Some(End::Failed(error)),
        }
    }

    /// Takes plain bytes, decrypting what has arrived as far as there is room.
    fn decrypt(&mut self, buf: &mut [u8]) -> usize {
        let mut filled = 0;
        loop {
            // An error is that there is nothing: how it ended is known.
            filled += self.tls.reader().read(&mut buf[filled..]).unwrap_or(0);
            if filled == buf.len() || !self.has_incoming() {
                return filled;
            }
            self.feed();
        }
    }

    /// Whether a read has something to tell, without a look at the socket.
    fn is_readable(&mut self) -> bool {
        loop {
            if self.ended.is_some() || self.tls.reader().fill_buf().is_ok_and(|bytes| !bytes.is_empty()) {
                return true;
            }
            if !self.has_incoming() {
                return false;
            }
            self.feed();
        }
    }

    /// What a read gives that has taken so many bytes.
    fn outcome(&mut self, filled: usize) -> io::Result<Option<usize>> {
        match &self.ended {
            _ if filled > 0 => Ok(Some(filled)),
            None => Ok(None),
            Some(End::File) => Ok(Some(0)),
            // Once; after that, it is an end like another.
            Some(End::Failed(_)) => match self.ended.replace(End::File) {
                Some(End::Failed(error)) => Err(error),
                _ => Ok(Some(0)),
            },
        }
    }

    /// Why a write fails: a peer that does not want this client says so and closes, and may have been heard by nobody.
    fn told_by_peer(&mut self, socket: &Plain, error: io::Error) -> io::Error {
        for _ in 0..READS {
            if self.is_readable() {
                break;
            }
            self.receive(|incoming| socket.try_read(incoming));
        }
        match self.ended.take() {
            Some(End::Failed(reason)) if reason.get_ref().is_some_and(|reason| reason.is::<Failure>()) => {
                self.ended = Some(End::File);
                reason
            }
            ended => {
                self.ended = ended;
                error
            }
        }
    }
}

/// The socket, for rustls to write to.
struct Outgoing<'a>(&'a Plain);

impl Write for Outgoing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What rustls, or by way of an alert the server, has to say against the session.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("TLS: what the server sends is something else: is this its port for TLS?")]
    NotTls,
    #[error("TLS: {0}")]
    Other(#[source] rustls::Error),
}

fn failed(error: rustls::Error) -> io::Error {
    let failure = match error {
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => Failure::NotTls,
        error => Failure::Other(error),
    };
    io::Error::new(io::ErrorKind::InvalidData, failure)
}

#[cold]
fn worn_out() -> io::Error {
    io::Error::other("TLS: the keys of this session are used up")
}

#[cfg(all(test, unix))]
mod tests {
    use std::thread;

    use rcgen::{CertificateParams, KeyPair};
    use rustls::crypto::ring;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::version::{TLS12, TLS13};
    use rustls::{RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion};
    use socket2::{Domain, Socket, Type};

    use super::*;

    /// More than anything here needs.
    const LIMIT: Duration = Duration::from_secs(20);

    /// The other side: a session whose bytes go out and in when the test says so.
    struct Peer {
        tls: ServerConnection,
        socket: Socket,
    }

    impl Peer {
        /// Encrypts, one record for each text.
        fn encrypt(&mut self, texts: &[&[u8]]) -> Vec<u8> {
            let mut bytes = Vec::new();
            for text in texts {
                self.tls.writer().write_all(text).unwrap();
                while self.tls.wants_write() {
                    self.tls.write_tls(&mut bytes).unwrap();
                }
            }
            bytes
        }

        fn send(&self, bytes: &[u8]) {
            (&self.socket).write_all(bytes).unwrap();
        }

        fn say(&mut self, text: &[u8]) {
            let bytes = self.encrypt(&[text]);
            self.send(&bytes);
        }

        /// Takes what is there, and decrypts it.
        fn hear(&mut self) -> Vec<u8> {
            self.socket.set_nonblocking(true).unwrap();
            let mut heard = Vec::new();
            while let Ok(1..) = self.tls.read_tls(&mut (&self.socket)) {
                self.tls.process_new_packets().unwrap();
                let _ = self.tls.reader().read_to_end(&mut heard);
            }
            self.socket.set_nonblocking(false).unwrap();
            heard
        }
    }

    fn configs(version: &'static SupportedProtocolVersion) -> (ClientConfig, ServerConfig) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["server".into()]).unwrap().self_signed(&key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .unwrap();
        // These would be the first bytes that the client reads.
        server.send_tls13_tickets = 0;
        (client, server)
    }

    fn connected(client: ClientConfig, server: ServerConfig) -> (Session, Plain, Peer) {
        let (ours, theirs) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
        ours.set_send_buffer_size(4096).unwrap();
        let mut socket = Plain::new(ours);
        let mut session = Session::new(Arc::new(client), ServerName::try_from("server").unwrap()).unwrap();
        let mut peer = Peer { tls: ServerConnection::new(Arc::new(server)).unwrap(), socket: theirs };
        thread::scope(|scope| {
            scope.spawn(|| {
                peer.tls.set_buffer_limit(None);
                while peer.tls.is_handshaking() {
                    peer.tls.complete_io(&mut (&peer.socket)).unwrap();
                }
            });
            session.handshake(&mut socket, Instant::now() + LIMIT).unwrap();
        });
        (session, socket, peer)
    }

    fn pair(version: &'static SupportedProtocolVersion) -> (Session, Plain, Peer) {
        let (client, server) = configs(version);
        connected(client, server)
    }

    fn read_now(session: &mut Session, socket: &Plain) -> Vec<u8> {
        let mut buf = [0; 1000];
        session.try_read(socket, &mut buf).unwrap().map_or(Vec::new(), |n| buf[..n].to_vec())
    }

    #[test]
    fn every_split_of_the_ciphertext_gives_the_same_bytes() {
        let texts: [&[u8]; 3] = [b"$5\r\nhello\r\n", b"+", b"OK\r\n"];
        for version in [&TLS13, &TLS12] {
            // Never sent, so that session is of no more use.
            let length = pair(version).2.encrypt(&texts).len();
            let (mut session, mut socket, mut peer) = pair(version);
            for cut in 0..length {
                let (mut bytes, mut whole) = (Vec::new(), Vec::new());
                for text in texts {
                    bytes.extend(peer.encrypt(&[text]));
                    if bytes.len() <= cut {
                        whole.extend_from_slice(text);
                    }
                }
                assert_eq!(bytes.len(), length);
                peer.send(&bytes[..cut]);
                assert_eq!(read_now(&mut session, &socket), whole, "cut at {cut}");
                assert!(!session.is_readable());
                peer.send(&bytes[cut..]);
                let mut buf = [0; 100];
                let n = session.read(&mut socket, &mut buf, None).unwrap().unwrap();
                assert_eq!([&whole, &buf[..n]].concat(), texts.concat(), "cut at {cut}");
            }
            let mut got = Vec::new();
            for byte in peer.encrypt(&texts).chunks(1) {
                peer.send(byte);
                got.extend(read_now(&mut session, &socket));
            }
            assert_eq!(got, texts.concat());
        }
    }

    #[test]
    fn bytes_are_told_as_written_when_their_whole_record_is_out() {
        for (version, fragment) in [(&TLS13, None), (&TLS12, None), (&TLS13, Some(1000)), (&TLS12, Some(300))] {
            let (mut client, server) = configs(version);
            client.max_fragment_size = fragment;
            let (mut session, socket, mut peer) = connected(client, server);
            let bytes: Vec<u8> = (0..300_000_u32).map(|n| n as u8 ^ (n >> 8) as u8).collect();
            let (mut written, mut heard, mut stalls) = (0, Vec::new(), 0);
            while written < bytes.len() {
                match session.try_write(&socket, &bytes[written..]).unwrap() {
                    Some(n) => written += n,
                    None => {
                        stalls += 1;
                        heard.extend(peer.hear());
                        assert_eq!(heard.len(), written, "the peer has what was told as written, and nothing else");
                    }
                }
            }
            heard.extend(peer.hear());
            assert!(heard == bytes && stalls > 3, "{stalls} stalls");
        }
    }

    #[test]
    fn what_is_decrypted_already_is_there_to_be_read() {
        let (mut session, mut socket, mut peer) = pair(&TLS13);
        // In one read from the socket.
        let bytes = peer.encrypt(&[b"first", b"second"]);
        peer.send(&bytes);
        let mut buf = [0; 5];
        for text in ["first", "secon"] {
            assert!(session.ready(&socket, None).unwrap());
            assert_eq!(session.try_read(&socket, &mut buf).unwrap(), Some(5));
            assert_eq!(buf, text.as_bytes());
        }
        // Nothing more comes: a look at the socket would see only that it can be written to, and a read wait for ever.
        assert!(session.ready(&socket, None).unwrap());
        assert_eq!(session.read(&mut socket, &mut buf, None).unwrap(), Some(1));
        assert_eq!(&buf[..1], b"d");
        assert!(!session.ready(&socket, None).unwrap());
        assert_eq!(session.try_read(&socket, &mut buf).unwrap(), None);
        assert_eq!(session.read(&mut socket, &mut buf, Some(Duration::from_millis(1))).unwrap(), None);
    }

    #[test]
    fn a_large_reply_comes_whole_into_buffers_of_any_size() {
        let (mut session, mut socket, mut peer) = pair(&TLS13);
        let text: Vec<u8> = (0..500_000_u32).map(|n| (n % 251) as u8).collect();
        for size in [7_001, 16_384, 40_000, 1 << 20] {
            thread::scope(|scope| {
                scope.spawn(|| peer.say(&text));
                let (mut got, mut buf) = (Vec::new(), vec![0; size]);
                for round in 0.. {
                    if got.len() == text.len() {
                        break;
                    }
                    let n = match round % 2 {
                        0 => session.read(&mut socket, &mut buf, Some(LIMIT)).unwrap(),
                        _ => session.try_read(&socket, &mut buf).unwrap(),
                    };
                    assert_ne!(n, Some(0));
                    got.extend_from_slice(&buf[..n.unwrap_or(0)]);
                }
                assert!(got == text, "read by {size}");
            });
        }
    }

    #[test]
    fn a_wait_to_read_gets_rid_of_what_is_still_to_be_written() {
        let (mut session, mut socket, mut peer) = pair(&TLS13);
        let record = [b'x'; RECORD];
        let mut records = 1;
        while session.try_write(&socket, &record).unwrap().is_some() {
            records += 1;
        }
        assert_eq!(session.pending, RECORD);
        thread::scope(|scope| {
            scope.spawn(|| {
                // Answers when it has everything, the record that is stuck included.
                let mut text = vec![0; records * RECORD];
                let mut filled = 0;
                while filled < text.len() {
                    peer.tls.read_tls(&mut (&peer.socket)).unwrap();
                    peer.tls.process_new_packets().unwrap();
                    filled += peer.tls.reader().read(&mut text[filled..]).unwrap_or(0);
                }
                peer.say(b"+OK\r\n");
            });
            let mut buf = [0; 100];
            let n = loop {
                if let Some(n) = session.read(&mut socket, &mut buf, Some(LIMIT)).unwrap() {
                    break n;
                }
            };
            assert_eq!(&buf[..n], b"+OK\r\n");
        });
        // And is told now.
        assert_eq!(session.try_write(&socket, &record).unwrap(), Some(RECORD));
    }

    #[test]
    fn keys_may_change_on_either_side_at_any_time() {
        let (mut session, socket, mut peer) = pair(&TLS13);
        for round in 0..100_u8 {
            // The other side wants an answer to this, which goes with the next write.
            peer.tls.refresh_traffic_keys().unwrap();
            peer.say(&[round; 10]);
            assert_eq!(read_now(&mut session, &socket), [round; 10]);
            if round % 3 == 0 {
                session.tls.refresh_traffic_keys().unwrap();
            }
            assert_eq!(session.try_write(&socket, &[round; 20]).unwrap(), Some(20));
            assert_eq!(peer.hear(), [round; 20]);
        }
    }

    #[test]
    fn reading_ends_after_everything_that_came_before() {
        #[derive(PartialEq, Debug)]
        enum How {
            Said,
            Closed,
            ClosedInARecord,
            Nonsense,
        }
        for version in [&TLS13, &TLS12] {
            for how in [How::Said, How::Closed, How::ClosedInARecord, How::Nonsense] {
                let (mut session, mut socket, mut peer) = pair(version);
                let mut bytes = peer.encrypt(&[b"+OK\r\n"]);
                match how {
                    How::Said => {
                        peer.tls.send_close_notify();
                        peer.tls.write_tls(&mut bytes).unwrap();
                    }
                    How::Closed => {}
                    How::ClosedInARecord => {
                        let more = peer.encrypt(&[b"+LOST\r\n"]);
                        bytes.extend(&more[..more.len() - 1]);
                    }
                    How::Nonsense => bytes.extend([23, 3, 3, 0, 40].iter().chain(&[7; 40])),
                }
                peer.send(&bytes);
                if how != How::Said {
                    peer.socket.shutdown(std::net::Shutdown::Write).unwrap();
                }
                assert_eq!(read_now(&mut session, &socket), b"+OK\r\n", "{how:?}");
                let mut buf = [0; 10];
                assert!(session.ready(&socket, None).unwrap());
                if how == How::Nonsense {
                    let error = session.try_read(&socket, &mut buf).unwrap_err();
                    assert!(error.to_string().starts_with("TLS: "), "{error}");
                }
                for _ in 0..2 {
                    assert_eq!(session.try_read(&socket, &mut buf).unwrap(), Some(0), "{how:?}");
                    assert_eq!(session.read(&mut socket, &mut buf, None).unwrap(), Some(0), "{how:?}");
                }
            }
        }
    }

    #[test]
    fn the_end_of_writing_is_said_and_reading_goes_on() {
        for version in [&TLS13, &TLS12] {
            let (mut session, mut socket, mut peer) = pair(version);
            assert_eq!(session.try_write(&socket, b"last").unwrap(), Some(4));
            session.shutdown_write(&socket).unwrap();
            assert_eq!(peer.hear(), b"last");
            assert!(peer.tls.process_new_packets().unwrap().peer_has_closed());
            if version.version == TLS13.version {
                peer.say(b"+OK\r\n");
                assert_eq!(read_now(&mut session, &socket), b"+OK\r\n");
            }
            drop(peer);
            assert_eq!(session.read(&mut socket, &mut [0; 10], None).unwrap(), Some(0));
        }
    }

    #[test]
    fn the_end_of_writing_behind_a_record_that_is_stuck_waits_for_nothing() {
        let (mut session, mut socket, peer) = pair(&TLS13);
        while session.try_write(&socket, &[b'x'; RECORD]).unwrap().is_some() {}
        session.shutdown_write(&socket).unwrap();
        // Nor does reading try to write any more.
        assert_eq!(session.read(&mut socket, &mut [0; 10], Some(Duration::from_millis(1))).unwrap(), None);
        drop(peer);
    }

    #[test]
    fn old_keys_are_not_used_beyond_their_limit() {
        let (mut session, socket, mut peer) = pair(&TLS12);
        assert!(session.records_left <= 1 << 24, "AES-GCM has a limit");
        session.records_left = 1;
        assert_eq!(session.try_write(&socket, b"one").unwrap(), Some(3));
        assert!(session.try_write(&socket, b"two").unwrap_err().to_string().contains("keys"));
        assert_eq!(peer.hear(), b"one");
        assert_eq!(pair(&TLS13).0.records_left, u64::MAX);
    }
}
