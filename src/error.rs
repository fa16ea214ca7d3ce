//! Everything that can go wrong, and what the connection is worth afterwards.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::resp::ProtocolError;

/// The result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong.
///
/// Each variant says when it happens and whether the connection can still be used; [`Connection::is_broken`] agrees.
/// An error is reported once: to the handle it belongs to, else to its batch, else to the connection's account. That keeps
/// the first error and counts the others; [`Connection::sync`] hands it out.
///
/// Errors are cheap to clone: one cause may have to be told to many handles.
///
/// ```no_run
/// use redefer::{Error, prelude::*};
///
/// fn push(conn: &Connection) -> redefer::Result<i64> {
///     match conn.rpush("jobs", "one").wait() {
///         Err(error) if error.code() == Some("WRONGTYPE") => {
///             conn.del("jobs").wait()?;
///             conn.rpush("jobs", "one").wait()
///         }
///         Err(Error::Timeout) => Ok(0), // the push may yet be done; the connection is in step
///         other => other,
///     }
/// }
/// ```
///
/// [`Connection::is_broken`]: crate::Connection::is_broken
/// [`Connection::sync`]: crate::Connection::sync
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused something before a connection existed: a name that does not resolve, a connection
    /// that was refused. Or TLS did: a certificate that is not accepted, with the reason in the text. Or there is nobody to
    /// connect to: no sentinel that answers knows the name, no node knows of any slot. Once a connection exists, its I/O errors
    /// are the cause inside [`Error::ConnectionLost`].
    #[error(transparent)]
    Io(Arc<io::Error>),

    /// The deadline of a wait passed. The connection is usable and in step: the late reply is skipped when it comes.
    #[error("timed out while waiting for the server")]
    Timeout,

    /// The connection broke before the reply came. The connection is not usable. Whether the command has run depends on
    /// [`ConnectionLost::sent`].
    #[error(transparent)]
    ConnectionLost(Arc<ConnectionLost>),

    /// The server sent bytes that are not the protocol. The connection is not usable.
    #[error("protocol error: {0}")]
    Protocol(#[source] ProtocolError),

    /// The server answered with an error. The connection is usable, and no other handle is touched.
    #[error(transparent)]
    Server(ServerError),

    /// The reply is nil, and the type asked for has no place for it: ask for an `Option`. The connection is usable.
    #[error("the reply is nil: ask for an `Option` where it may be")]
    Nil,

    /// The reply has another shape than the type asked for. It was read whole, and the connection is usable.
    #[error(transparent)]
    UnexpectedReply(Arc<UnexpectedReply>),

    /// A handle of a transaction was used before its commit, or after the transaction was given up; or one of a
    /// [`SharedBatch`](crate::SharedBatch) before it was finished. Nothing was sent, and the connection is usable.
    #[error("the transaction has not been committed")]
    NotCommitted,

    /// A key under WATCH changed, or the connection that watched it was lost, so that the transaction did not run. The
    /// connection is usable; try again.
    #[error("the transaction was aborted: a watched key has changed, or the connection that watched it was lost")]
    Aborted,

    /// Commands of a batch failed whose handles had been dropped. The connection is usable unless the first error says
    /// otherwise.
    #[error(transparent)]
    Batch(Arc<BatchError>),

    /// The arguments of a command cannot be sent: an empty list where the server needs an element (see
    /// [`args`](crate::args)), a value over 512 MiB.
    /// Nothing was sent, and the connection is usable.
    #[error("invalid argument: {0}")]
    Argument(&'static str),

    /// This crate does not do that here, and why. Nothing was sent, and the connection is usable.
    #[error("refused: {0}")]
    Refused(&'static str),

    /// An error made with [`Error::custom`]: of a [`FromReply`](crate::FromReply), whose reply was read whole; of an argument
    /// that cannot be sent, such as a value that cannot be JSON or the first error of [`args::try_each`], and then nothing
    /// was; or of the body of [`Connection::transact`](crate::Connection::transact). The connection is usable.
    ///
    /// [`args::try_each`]: crate::args::try_each
    #[error(transparent)]
    Custom(Arc<dyn std::error::Error + Send + Sync>),

    /// A URL or a [`Config`](crate::Config) that cannot be used. There is no connection yet.
    #[error("invalid configuration: {0}")]
    Config(String),
}

impl Error {
    /// An error of one's own, for a [`FromReply`](crate::FromReply) that cannot take what came, or a
    /// [`ToArg`](crate::ToArg) that cannot be sent.
    pub fn custom(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Error::Custom(Arc::from(error.into()))
    }

    /// The error reply of the server, if this is one; of a batch, the first error if that is one.
    pub fn as_server_error(&self) -> Option<&ServerError> {
        match self {
            Error::Server(error) => Some(error),
            Error::Batch(batch) => batch.first().as_server_error(),
            _ => None,
        }
    }

    /// The code word of the server's error reply, such as `WRONGTYPE`, if this is one and has one: see
    /// [`as_server_error`](Error::as_server_error).
    pub fn code(&self) -> Option<&str> {
        self.as_server_error().and_then(ServerError::code)
    }

    /// Whether something just did not come in time: a reply, or a connection of a pool.
    pub fn is_timeout(&self) -> bool {
        match self {
            Error::Timeout => true,
            Error::Io(error) => error.kind() == std::io::ErrorKind::TimedOut,
            _ => false,
        }
    }

    /// Whether the command whose error this is may have run. If not, it can be issued again without running twice.
    ///
    /// It has not if it was refused before it was sent, if the connection was lost before it was sent whole, or if its
    /// transaction was aborted. An error reply of the server counts as *may have run*, since a script or a command of many keys
    /// can fail half-way; what its [code word](Error::code) says may be better news.
    ///
    /// ```
    /// use redefer::prelude::*;
    ///
    /// fn count(conn: &Connection) -> redefer::Result<i64> {
    ///     loop {
    ///         match conn.incr("visits").wait() {
    ///             Err(error) if error.is_connection_lost() && !error.may_have_run() => continue,
    ///             outcome => return outcome,
    ///         }
    ///     }
    /// }
    /// ```
    pub fn may_have_run(&self) -> bool {
        match self {
            Error::ConnectionLost(lost) => lost.sent() == Sent::Fully,
            Error::NotCommitted | Error::Aborted | Error::Argument(_) | Error::Refused(_) | Error::Config(_) => false,
            Error::Batch(batch) => batch.failed() > 1 || batch.first().may_have_run(),
            _ => true,
        }
    }

    /// Whether the connection on which this happened was lost: it is of no more use, or with a [`Reconnect`](crate::Reconnect) policy the
    /// next wait dials again.
    pub fn is_connection_lost(&self) -> bool {
        matches!(self, Error::ConnectionLost(_) | Error::Protocol(_))
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(Arc::new(error))
    }
}

impl From<ProtocolError> for Error {
    fn from(error: ProtocolError) -> Self {
        Error::Protocol(error)
    }
}

impl From<ServerError> for Error {
    fn from(error: ServerError) -> Self {
        Error::Server(error)
    }
}

/// An error reply of the server, kept as the bytes that came.
///
/// Most begin with a code word in capitals (`WRONGTYPE Operation against …`); those of scripts need not, and none need
/// be UTF-8.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ServerError {
    message: Arc<[u8]>,
}

impl ServerError {
    /// An error reply with this message, without the leading `-`.
    pub fn new(message: impl AsRef<[u8]>) -> Self {
        ServerError { message: Arc::from(message.as_ref()) }
    }

    /// The whole message as it came, code word included.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// The code word: the first word, if it is made of capitals, digits and underscores and begins with a capital.
    pub fn code(&self) -> Option<&str> {
        let end = self.message.iter().position(|&b| b == b' ').unwrap_or(self.message.len());
        let word = &self.message[..end];
        let first = word.first()?;
        let good = first.is_ascii_uppercase()
            && word.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'_');
        if good { std::str::from_utf8(word).ok() } else { None }
    }

    /// Only the code word: for replies to commands that carry secrets, since some servers repeat the arguments of a
    /// command that they do not know.
    pub(crate) fn without_text(&self) -> Self {
        ServerError::new(self.code().unwrap_or("ERR"))
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.message))
    }
}

impl fmt::Debug for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerError").field(&String::from_utf8_lossy(&self.message)).finish()
    }
}

impl std::error::Error for ServerError {}

/// How much of a command had been given to the operating system when its connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sent {
    /// Nothing of it: it has not run.
    Unsent,
    /// A part of it: a server does not run half a command, so it has not run.
    Partly,
    /// All of it: it may have run.
    Fully,
}

/// Why there will be no reply: see [`Error::ConnectionLost`].
#[derive(Clone, Debug)]
pub struct ConnectionLost {
    sent: Sent,
    cause: Error,
}

impl ConnectionLost {
    pub(crate) fn new(sent: Sent, cause: Error) -> Self {
        ConnectionLost { sent, cause }
    }

    /// How much of the command had been written.
    pub fn sent(&self) -> Sent {
        self.sent
    }

    /// What broke the connection: [`Error::Io`], [`Error::Protocol`], or what else made it useless.
    pub fn cause(&self) -> &Error {
        &self.cause
    }
}

impl fmt::Display for ConnectionLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sent = match self.sent {
            Sent::Unsent => "before the command was sent",
            Sent::Partly => "while the command was being sent",
            Sent::Fully => "after the command was sent",
        };
        write!(f, "connection lost {sent}: {}", self.cause)
    }
}

impl std::error::Error for ConnectionLost {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// A reply of another shape than the type asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnexpectedReply {
    expected: &'static str,
    got: &'static str,
    sample: Option<Box<str>>,
}

/// How many bytes of a reply are shown.
const SAMPLE: usize = 40;

impl UnexpectedReply {
    /// What was expected, and what came instead, in words: `("an integer", "an array")`.
    pub fn new(expected: &'static str, got: &'static str) -> Self {
        UnexpectedReply { expected, got, sample: None }
    }

    /// With the beginning of the text that came.
    pub(crate) fn with_text(self, text: &[u8]) -> Self {
        let shown = text.get(..SAMPLE).unwrap_or(text).escape_ascii();
        let more = if text.len() > SAMPLE { "…" } else { "" };
        self.with_sample(format!("\"{shown}\"{more}"))
    }

    /// With what came, in few words.
    pub(crate) fn with_sample(mut self, sample: String) -> Self {
        self.sample = Some(sample.into());
        self
    }

    /// What was asked for, in words.
    pub fn expected(&self) -> &'static str {
        self.expected
    }

    /// What came instead, in words.
    pub fn got(&self) -> &'static str {
        self.got
    }

    /// The number that came, or the first forty bytes of the text, in quotes and with escapes; nothing for what is neither,
    /// or not UTF-8.
    pub fn sample(&self) -> Option<&str> {
        self.sample.as_deref()
    }
}

impl fmt::Display for UnexpectedReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unexpected reply: expected {}, got {}", self.expected, self.got)?;
        self.sample().map_or(Ok(()), |sample| write!(f, ": {sample}"))
    }
}

impl std::error::Error for UnexpectedReply {}

impl From<UnexpectedReply> for Error {
    fn from(error: UnexpectedReply) -> Self {
        Error::UnexpectedReply(Arc::new(error))
    }
}

/// Commands of a batch that failed with nobody holding their handles: see [`Error::Batch`].
#[derive(Clone, Debug)]
pub struct BatchError {
    first: Error,
    position: u64,
    failed: u64,
}

impl BatchError {
    pub(crate) fn new(first: Error, position: u64, failed: u64) -> Self {
        BatchError { first, position, failed }
    }

    /// The first error.
    pub fn first(&self) -> &Error {
        &self.first
    }

    /// Which command of the batch it was, counted from zero.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// How many commands failed in all.
    pub fn failed(&self) -> u64 {
        self.failed
    }
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of a batch failed, the first at position {}: {}", self.failed, self.position, self.first)
    }
}

impl std::error::Error for BatchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.first)
    }
}

/// The outcome of a wait with a deadline of its own, when there is no value.
///
/// `H` is the handle that was waited for.
#[derive(Debug, thiserror::Error)]
pub enum WaitError<H> {
    /// The deadline passed. Here is the handle again, as good as before.
    #[error("timed out while waiting for the server")]
    Timeout(H),
    /// The wait ended with this error.
    #[error("{0}")]
    Failed(Error),
}

impl<H> From<Error> for WaitError<H> {
    fn from(error: Error) -> Self {
        WaitError::Failed(error)
    }
}

impl<H> From<WaitError<H>> for Error {
    /// Gives the handle up, if there is one.
    fn from(error: WaitError<H>) -> Self {
        match error {
            WaitError::Timeout(_) => Error::Timeout,
            WaitError::Failed(error) => error,
        }
    }
}
