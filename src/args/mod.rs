//! What can be an argument of a command.
//!
//! [`ToArg`] is one argument: text, bytes, a number, or a type of your own. [`ToArgs`] is any number of them: a single
//! one, a tuple, a slice, an array, a vector, a set, a map, an `Option`, or [`each`] of an iterator. [`ToPairs`] are
//! those lists that come in twos, such as the fields and values of a hash.
//!
//! `[u8]`, `Vec<u8>` and `[u8; N]` are always *one* argument, the bytes; for that reason a single `u8` is none.
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

mod command;
mod lists;
mod scalars;

#[doc(hidden)]
pub use command::{Arguments, Command, Unwritten};
pub(crate) use command::{Block, cmd};
pub use lists::{Each, ToArgs, ToPairs, TryEach, each, try_each};
pub use scalars::{Arg, ToArg};

use std::ops::Range;

use crate::resp::{encode, number};

/// The longest argument that a server takes, with its default `proto-max-bulk-len`.
pub const MAX_ARGUMENT: usize = 512 * 1024 * 1024;

/// Where a [`ToArgs`] writes its arguments, one after the other.
#[derive(Debug)]
pub struct ArgWriter<'a> {
    buf: &'a mut Vec<u8>,
    pos: usize,
    count: usize,
    too_long: bool,
    /// Where the keys are, for those who route by them.
    keys: Option<&'a mut Vec<Range<usize>>>,
}

impl<'a> ArgWriter<'a> {
    #[inline(always)]
    pub(crate) fn new(buf: &'a mut Vec<u8>, pos: usize) -> Self {
        ArgWriter { buf, pos, count: 0, too_long: false, keys: None }
    }

    /// A writer that also notes where in `buf` each key stands.
    #[cfg_attr(not(test), expect(dead_code, reason = "the cluster will route by the keys"))]
    pub(crate) fn noting_keys(buf: &'a mut Vec<u8>, pos: usize, keys: &'a mut Vec<Range<usize>>) -> Self {
        ArgWriter { keys: Some(keys), ..ArgWriter::new(buf, pos) }
    }

    /// Says that every `step`th argument written since `start`, the first included, is a key.
    #[inline(always)]
    fn mark_keys(&mut self, start: usize, step: usize) {
        if let Some(keys) = &mut self.keys {
            keys.extend(encode::bulk_ranges(&self.buf[..self.pos], start).step_by(step));
        }
    }

    /// Writes one argument.
    #[inline(always)]
    pub fn arg<A: ToArg + ?Sized>(&mut self, argument: &A) {
        match argument.to_arg() {
            Arg::Bytes(bytes) => self.bytes(bytes),
            Arg::Integer(n) => self.bytes(itoa::Buffer::new().format(n).as_bytes()),
            Arg::Unsigned(n) => self.bytes(itoa::Buffer::new().format(n).as_bytes()),
            Arg::Double(x) => self.bytes(number::double_text(x).as_bytes()),
            Arg::Owned(bytes) => self.bytes(&bytes),
        }
    }

    #[inline(always)]
    fn bytes(&mut self, bytes: &[u8]) {
        self.count += 1;
        if bytes.len() > encode::SHORT && bytes.len() > MAX_ARGUMENT {
            self.too_long = true;
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
            let mut gathered = Vec::new();
            let mut inner = ArgWriter::new(&mut gathered, 0);
            list.write_args(&mut inner);
            let (pos, count) = (inner.pos, inner.count);
            self.too_long |= inner.too_long;
            self.arg(&(count as u64));
            let start = self.pos;
            self.raw(&gathered[..pos]);
            self.count += count;
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

    /// The position behind the last argument, or nothing if one was too long.
    #[inline(always)]
    pub(crate) fn end(&self) -> Option<usize> {
        if self.too_long { None } else { Some(self.pos) }
    }
}
