//! Commands that may be sent more than once.

use std::fmt;

use crate::args::{Arguments, Command, ToArgs};
use crate::connection::Connection;
use crate::execute::Execute;
use crate::reply::{MultiBulk, Reply};
use crate::values::FromReply;

/// A connection for commands that may be sent more than once: see [`Connection::idempotent`].
#[derive(Clone, Copy)]
pub struct Idempotent<'c> {
    conn: &'c Connection,
}

impl<'c> Idempotent<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Self {
        Idempotent { conn }
    }
}

impl<'c> Execute for Idempotent<'c> {
    type Reply<T: FromReply> = Reply<'c, T>;
    type MultiBulk<T: FromReply> = MultiBulk<'c, T>;

    fn command<T: FromReply>(self, name: &str, arguments: impl ToArgs) -> Reply<'c, T> {
        Reply::new(self.conn, self.conn.issue_named(name, arguments, true))
    }

    fn execute<T: FromReply, A: Arguments>(self, command: Command<A>) -> Reply<'c, T> {
        Reply::new(self.conn, self.conn.issue_idempotent(&command))
    }

    fn execute_multi<T: FromReply, A: Arguments>(self, command: Command<A>) -> MultiBulk<'c, T> {
        MultiBulk::new(self.conn, self.conn.issue_idempotent(&command))
    }
}

impl fmt::Debug for Idempotent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotent").finish_non_exhaustive()
    }
}
