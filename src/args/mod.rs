//! What can be an argument of a command.
//!
//! [`ToArg`] is one argument: text, bytes, a number, or a type of your own. [`ToArgs`] is any number of them: a single
//! one, a tuple, a slice, an array, a vector, a set, a map, an `Option` of any of these, or [`each`] of an iterator.
//! [`ToPairs`] are those lists that come in twos, such as the fields and values of a hash.
//!
//! `[u8]`, `Vec<u8>` and `[u8; N]` are always *one* argument, the bytes; for that reason a single `u8` is none. What has only
//! `Display` is an argument by its text: `x.to_string()`.
//!
//! **An empty list** is an error, [`Error::Argument`], where the server needs at least one element, and nothing is sent:
//! `conn.del(&keys)`, `conn.mget(&keys)`, `conn.sadd("set", &members)`. Where keys or members may be none, ask before. Where
//! the server takes none for all, such as `command_docs` and `info_sections`, so does the method.
//!
//! **An `Option`** is a list of nothing or of what is in it. It is not one argument (there is no nil to be sent), so it
//! can be in a list, `conn.command::<Value>("LPOS", ("list", "a", rank.map(|rank| ("RANK", rank))))`, and not be a key or a
//! value.
//!
//! ```
//! use redefer::{Arg, ToArg};
//!
//! struct UserId(u64);
//!
//! impl ToArg for UserId {
//!     fn to_arg(&self) -> Arg<'_> {
//!         Arg::from(format!("user:{}", self.0))
//!     }
//! }
//! ```
//!
//! A value that cannot be sent, because it cannot be encoded, say, is [`Arg::Failed`]: its error becomes the command's.

mod command;
mod lists;
mod scalars;

#[doc(hidden)]
pub use command::{Arguments, Command, Unwritten};
pub(crate) use command::{Block, cmd};
pub use lists::{Each, ToArgs, ToPairs, TryEach, each, try_each};
pub use scalars::{Arg, ToArg};

use std::borrow::Cow;
use std::ops::Range;

use crate::connection::TOO_LONG;
use crate::error::{Error, Result};
use crate::resp::{encode, number};

/// The longest argument that a server takes, with its default `proto-max-bulk-len`.
pub const MAX_ARGUMENT: usize = 512 * 1024 * 1024;

/// Why arguments cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    TooLong,
    /// With an error, for which there is a place or not.
    Failed,
}

impl Fault {
    /// What a command is told whose arguments had no place for their errors.
    pub(crate) fn error(self) -> Error {
        Error::Argument(match self {
            // Else all arguments are of this crate's types, and those of other types are in options.
            Fault::Failed => "an option was made with an argument that cannot be sent",
            Fault::None | Fault::TooLong => TOO_LONG,
        })
    }
}

/// Where a [`ToArgs`] writes its arguments, one after the other.
#[derive(Debug)]
pub struct ArgWriter<'a> {
    buf: &'a mut Vec<u8>,
    pos: usize,
    count: usize,
    /// Whether an argument was too long, or has failed.
    fault: Fault,
    /// Where the first error goes. There is no such place where all arguments are of this crate's types, of which only options
    /// can have failed.
    failure: Option<&'a mut Option<Error>>,
    /// Where the keys are, for those who route by them.
    keys: Option<&'a mut Vec<Range<usize>>>,
}

impl<'a> ArgWriter<'a> {
    #[inline(always)]
    pub(crate) fn new(buf: &'a mut Vec<u8>, pos: usize) -> Self {
        ArgWriter { buf, pos, count: 0, fault: Fault::None, failure: None, keys: None }
    }

    /// A writer that also notes where in `buf` each key stands.
    pub(crate) fn noting_keys(buf: &'a mut Vec<u8>, pos: usize, keys: &'a mut Vec<Range<usize>>) -> Self {
        ArgWriter { keys: Some(keys), ..ArgWriter::new(buf, pos) }
    }

    /// Says that the argument written since `start` is a key.
    #[inline(always)]
    fn mark_key(&mut self, start: usize) {
        if let Some(keys) = &mut self.keys {
            note_key(keys, &self.buf[..self.pos], start);
        }
    }

    /// Says that every `step`th argument written since `start`, the first included, is a key.
    fn mark_keys(&mut self, start: usize, step: usize) {
        if let Some(keys) = &mut self.keys {
            keys.extend(encode::bulk_ranges(&self.buf[..self.pos], start).step_by(step));
        }
    }

    /// Writes one argument. An [`Arg::Failed`] is what [`fail`](ArgWriter::fail) does.
    #[inline(always)]
    pub fn arg<A: ToArg + ?Sized>(&mut self, argument: &A) {
        match argument.to_arg() {
            Arg::Bytes(bytes) => self.bytes(bytes),
            Arg::Integer(n) => self.bytes(itoa::Buffer::new().format(n).as_bytes()),
            Arg::Unsigned(n) => self.bytes(itoa::Buffer::new().format(n).as_bytes()),
            Arg::Double(x) => self.bytes(number::double_text(x).as_bytes()),
            Arg::Owned(bytes) => self.bytes(&bytes),
            Arg::Failed(error) => self.fail(error),
        }
    }

    /// Fails the command: its handle gives this error, if it is the first one, and nothing is sent.
    ///
    /// ```
    /// use redefer::{Error, ToArgs, args::ArgWriter};
    ///
    /// struct Path(std::path::PathBuf);
    ///
    /// impl ToArgs for Path {
    ///     fn write_args(&self, out: &mut ArgWriter<'_>) {
    ///         match self.0.to_str() {
    ///             Some(path) => out.arg(path),
    ///             None => out.fail(Error::custom("a path that is not UTF-8")),
    ///         }
    ///     }
    /// }
    /// ```
    #[cold]
    #[inline(never)]
    pub fn fail(&mut self, error: Error) {
        self.fault = Fault::Failed;
        if let Some(failure) = &mut self.failure {
            failure.get_or_insert(error);
        }
    }

    #[inline(always)]
    fn bytes(&mut self, bytes: &[u8]) {
        self.count += 1;
        if bytes.len() > encode::SHORT && bytes.len() > MAX_ARGUMENT {
            self.fault = Fault::TooLong;
        } else {
            self.pos = encode::bulk(self.buf, self.pos, bytes);
        }
    }

    /// Writes how many arguments `list` has, and then the list. Returns where the list begins.
    fn counted<A: ToArgs>(&mut self, list: &A) -> usize {
        if A::DIRECT {
            self.arg(&(list.count() as u64));
            let start = self.pos;
            list.write_args(self);
            start
        } else {
            let gathered = match gather(|out| list.write_args(out)) {
                Ok(gathered) => gathered,
                Err(error) => {
                    self.fail(error);
                    Gathered::default()
                }
            };
            self.arg(&(gathered.count as u64));
            let start = self.pos;
            self.raw(&gathered.bytes);
            self.count += gathered.count;
            start
        }
    }

    #[inline(always)]
    pub(crate) fn command(&mut self, count: usize, name: &str) {
        self.pos = encode::command(self.buf, self.pos, count, name);
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.pos = encode::raw(self.buf, self.pos, bytes);
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    #[inline(always)]
    fn is_unsendable(&self) -> bool {
        self.fault != Fault::None
    }

    #[inline]
    pub(crate) fn fault(&self) -> Fault {
        self.fault
    }

    /// The position behind the last argument, or nothing if one was too long or has failed.
    #[inline(always)]
    pub(crate) fn end(&self) -> Option<usize> {
        if self.is_unsendable() { None } else { Some(self.pos) }
    }
}

/// Notes where the argument stands that begins at `start`. Apart from where arguments are written, since most who do that have no
/// use for it.
#[inline(never)]
fn note_key(keys: &mut Vec<Range<usize>>, bytes: &[u8], start: usize) {
    let end = bytes.len();
    // How long its header is can be told from the length of it all, if that is short.
    match end - start {
        // `$`, a digit; and two CRLF.
        6..=15 => keys.push(start + 4..end - 2),
        17..=106 => keys.push(start + 5..end - 2),
        _ => keys.extend(encode::bulk_ranges(bytes, start).next()),
    }
}

/// The bytes of one argument, as they are sent.
///
/// # Errors
///
/// That of an argument that has failed.
pub(crate) fn bytes_of<A: ToArg + ?Sized>(argument: &A) -> Result<Cow<'_, [u8]>> {
    Ok(match argument.to_arg() {
        Arg::Bytes(bytes) => Cow::Borrowed(bytes),
        Arg::Owned(bytes) => Cow::Owned(bytes),
        Arg::Integer(n) => Cow::Owned(itoa::Buffer::new().format(n).into()),
        Arg::Unsigned(n) => Cow::Owned(itoa::Buffer::new().format(n).into()),
        Arg::Double(x) => Cow::Owned(number::double_text(x).as_bytes().to_vec()),
        Arg::Failed(error) => return Err(error),
    })
}

/// Arguments that are encoded, and how many there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: usize,
}

/// Encodes arguments that may be anybody's.
///
/// # Errors
///
/// When one of them has failed or is too long to be sent.
pub(crate) fn gather(write: impl FnOnce(&mut ArgWriter<'_>)) -> Result<Gathered> {
    gather_noting(None, write)
}

/// The same, which also notes where in its bytes each key stands, if there is room for that.
pub(crate) fn gather_noting(
    keys: Option<&mut Vec<Range<usize>>>,
    write: impl FnOnce(&mut ArgWriter<'_>),
) -> Result<Gathered> {
    let (mut bytes, mut failure) = (Vec::new(), None);
    let mut out = ArgWriter { failure: Some(&mut failure), keys, ..ArgWriter::new(&mut bytes, 0) };
    write(&mut out);
    let (end, count, fault) = (out.end(), out.count, out.fault);
    match end {
        Some(end) => {
            bytes.truncate(end);
            Ok(Gathered { bytes, count })
        }
        None => Err(failure.unwrap_or_else(|| fault.error())),
    }
}
