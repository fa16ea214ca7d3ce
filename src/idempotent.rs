//! Commands that may be sent more than once.

use std::fmt;

use crate::args::{Arguments, Command, ToArgs};
use crate::execute::{Execute, Lasting};
use crate::values::FromReply;

/// A connection of whatever kind, for commands that may be sent more than once: see
/// [`Connection::idempotent`](crate::Connection::idempotent), [`Shared::idempotent`](crate::Shared::idempotent) and
/// [`Cluster::idempotent`](crate::cluster::Cluster::idempotent).
#[derive(Clone, Copy)]
pub struct Idempotent<C> {
    on: C,
}

impl<C: Lasting> Idempotent<C> {
    pub(crate) fn new(on: C) -> Self {
        Idempotent { on }
    }
}

impl<C: Lasting> Execute for Idempotent<C> {
    type Reply<T: FromReply> = C::Reply<T>;
    type MultiBulk<T: FromReply> = C::MultiBulk<T>;

    fn command<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> C::Reply<T> {
        self.on.command_again(name, arguments)
    }

    fn execute<T: FromReply, A: Arguments>(self, command: Command<A>) -> C::Reply<T> {
        self.on.execute_again(command)
    }

    fn execute_multi<T: FromReply, A: Arguments>(self, command: Command<A>) -> C::MultiBulk<T> {
        self.on.execute_multi_again(command)
    }
}

impl<C: Lasting> Lasting for Idempotent<C> {
    fn command_again<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> C::Reply<T> {
        self.command(name, arguments)
    }

    fn execute_again<T: FromReply, A: Arguments>(self, command: Command<A>) -> C::Reply<T> {
        self.execute(command)
    }

    fn execute_multi_again<T: FromReply, A: Arguments>(self, command: Command<A>) -> C::MultiBulk<T> {
        self.execute_multi(command)
    }
}

impl<C> fmt::Debug for Idempotent<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotent").finish_non_exhaustive()
    }
}
