//! Requests, made without a look at the connection.

use std::sync::Arc;

use super::ticket::{Ticket, Wish};
use crate::args::{ToArgs, gather};
use crate::connection::EMPTY;
use crate::connection::wire::Kind;
use crate::error::Error;

/// A request about these names. If they cannot be sent, the ticket says so, and there is nothing to ask for.
pub(super) fn these(kind: Kind, subscribe: bool, names: impl ToArgs) -> (Arc<Ticket>, Option<Wish>) {
    let (ticket, mut promises) = Ticket::new(1);
    let names = gather(|out| names.write_args(out));
    let names =
        names.and_then(|names| if names.count == 0 && subscribe { Err(Error::Argument(EMPTY)) } else { Ok(names) });
    let wish = promises.pop().and_then(|promise| match names {
        Ok(names) => Some(Wish::These { kind, subscribe, names, promise }),
        Err(error) => {
            promise.fulfil(Err(error));
            None
        }
    });
    (ticket, wish)
}

/// A request to unsubscribe from everything.
pub(super) fn none() -> (Arc<Ticket>, Wish) {
    let (ticket, promises) = Ticket::new(Kind::ALL.len());
    (ticket, Wish::None(promises))
}
