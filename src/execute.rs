//! What a command can be issued on, and what comes back.

use std::time::Duration;

use crate::args::{Arguments, Command, ToArgs};
use crate::error::{Result, WaitError};
use crate::values::FromReply;

/// Something that commands can be issued on: `&Connection`, `&Batch`, `&Transaction`, `&Shared`, `&Cluster`, `&SharedCluster`.
///
/// The command traits have their methods from here, so that the same program text works on each:
///
/// ```no_run
/// use redefer::prelude::*;
///
/// fn visit<C: StringCommands>(on: C, page: &str) -> C::Reply<i64> {
///     on.incr(page)
/// }
/// ```
///
/// A struct that is generic over `C` and keeps a `C::Reply` borrows the guard of a batch or a transaction for as long as it
/// lives, so that it cannot be committed; return the handles instead, alone or in a tuple.
///
/// For commands that this crate has no method for, a trait of one's own on top is a few lines:
///
/// ```no_run
/// use redefer::prelude::*;
///
/// trait JsonCommands: Execute {
///     fn json_get<T: FromReply>(self, key: impl ToArg, path: &str) -> Self::Reply<T> {
///         self.command("JSON.GET", (key, path))
///     }
/// }
///
/// impl JsonCommands for &Connection {}
/// ```
pub trait Execute: Sized {
    /// The handle of a reply that is read as one value.
    type Reply<T: FromReply>: Handle<T>;

    /// The handle of a reply whose elements are read as asked for.
    type MultiBulk<T: FromReply>: Elements<T>;

    /// Issues a command by its name and arguments, for those that have no method. Any command that answers exactly once
    /// will do; those that the queue of replies cannot bear are refused without I/O ([`Error::Refused`]).
    ///
    /// A name of two words, such as `"CLIENT INFO"`, is sent as two arguments.
    ///
    /// [`Error::Refused`]: crate::Error::Refused
    fn command<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> Self::Reply<T>;

    #[doc(hidden)]
    fn execute<T: FromReply, A: Arguments>(self, command: Command<A>) -> Self::Reply<T>;

    #[doc(hidden)]
    fn execute_multi<T: FromReply, A: Arguments>(self, command: Command<A>) -> Self::MultiBulk<T>;
}

/// What commands can be issued on at any time and again: a connection of whatever kind, and no guard of commands that are sent
/// together. [`Script::run`](crate::Script::run) and [`Idempotent`](crate::Idempotent) commands need that.
///
/// Implemented by this crate alone: for `&Connection`, `&Shared`, `&Cluster`, `&SharedCluster`, and [`Idempotent`](crate::Idempotent) of these.
pub trait Lasting: Execute + Copy {
    // Issues a command that may be sent more than once.
    #[doc(hidden)]
    fn command_again<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> Self::Reply<T>;

    #[doc(hidden)]
    fn execute_again<T: FromReply, A: Arguments>(self, command: Command<A>) -> Self::Reply<T>;

    #[doc(hidden)]
    fn execute_multi_again<T: FromReply, A: Arguments>(self, command: Command<A>) -> Self::MultiBulk<T>;
}

/// The handle of one reply: what generic code can do with [`Execute::Reply`].
///
/// See [`Reply`](crate::Reply) for what each does.
pub trait Handle<T>: Sized {
    /// Waits for the reply and takes it.
    fn wait(self) -> Result<T>;
    /// Waits at most this long, and gives the handle back when that was not enough.
    fn wait_timeout(self, time: Duration) -> Result<T, WaitError<Self>>;
    /// Whether a wait would not block.
    fn is_ready(&self) -> Result<bool>;
    /// Gives the handle up.
    fn detach(self);
}

/// The handle of a reply of many elements: what generic code can do with [`Execute::MultiBulk`].
///
/// See [`MultiBulk`](crate::MultiBulk) for what each does.
#[expect(clippy::len_without_is_empty, reason = "an empty reply and a nil one are told apart by the length")]
pub trait Elements<T>: Iterator<Item = Result<T>> {
    /// All elements that are left, in a collection.
    fn wait<C: FromIterator<T>>(self) -> Result<C>;
    /// All that is left, as one value.
    fn wait_as<V: FromReply>(self) -> Result<V>;
    /// How many elements are left; `None` is nil.
    fn len(&mut self) -> Result<Option<usize>>;
    /// Gives the handle up.
    fn detach(self);
}

/// Makes a handle of a type whose own methods do what the trait wants, and shows it by its name alone.
macro_rules! handle_by_methods {
    ($handle:ident) => {
        impl<T: $crate::values::FromReply> $crate::execute::Handle<T> for $handle<'_, T> {
            fn wait(self) -> $crate::error::Result<T> {
                self.wait()
            }
            fn wait_timeout(
                self,
                time: ::std::time::Duration,
            ) -> ::std::result::Result<T, $crate::error::WaitError<Self>> {
                self.wait_timeout(time)
            }
            fn is_ready(&self) -> $crate::error::Result<bool> {
                self.is_ready()
            }
            fn detach(self) {
                self.detach()
            }
        }

        impl<T> ::std::fmt::Debug for $handle<'_, T> {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct(stringify!($handle)).finish_non_exhaustive()
            }
        }
    };
}

/// The same for the handle of a reply of many elements, which is an iterator that ends for good.
macro_rules! elements_by_methods {
    ($handle:ident) => {
        impl<T: $crate::values::FromReply> ::std::iter::FusedIterator for $handle<'_, T> {}

        impl<T: $crate::values::FromReply> $crate::execute::Elements<T> for $handle<'_, T> {
            fn wait<C: FromIterator<T>>(self) -> $crate::error::Result<C> {
                self.wait()
            }
            fn wait_as<V: $crate::values::FromReply>(self) -> $crate::error::Result<V> {
                self.wait_as()
            }
            fn len(&mut self) -> $crate::error::Result<Option<usize>> {
                self.len()
            }
            fn detach(self) {
                self.detach()
            }
        }

        impl<T> ::std::fmt::Debug for $handle<'_, T> {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct(stringify!($handle)).finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use {elements_by_methods, handle_by_methods};
