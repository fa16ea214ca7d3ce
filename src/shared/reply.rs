//! Handles of replies on a connection that threads share.

use std::marker::PhantomData;

use super::Shared;
use crate::shared::handle::{drop_detaches, drop_waits, shared_handle};

/// The handle of one reply of a [`Shared`] that has not been read yet. It can be sent to another thread.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let shared = redefer::Shared::open(server.url())?;
/// use redefer::prelude::*;
///
/// let a = shared.incr("n");
/// let b = shared.incr("n");
/// let b = std::thread::scope(|scope| scope.spawn(|| b.wait()).join().unwrap());
/// assert_eq!((a.wait()?, b?), (1, 2));
/// # }
/// # Ok(())
/// # }
/// ```
///
/// # Drop
///
/// Like that of a [`Reply`](crate::Reply): sends what has to be sent and waits until the reply has been read, for at most
/// [`Config::timeout`](crate::Config::timeout); an error goes to the account, which [`Shared::sync`] hands out. It does not wait
/// while the server is silent after a timeout, while the thread is panicking, and when a
/// [`wait_timeout`](SharedReply::wait_timeout) for it was in vain before: so `wait_timeout(time)?` takes no longer. A handle that is
/// forgotten costs its own stored reply, for as long as the connection lives, and nothing else.
#[must_use = "dropping a reply waits for it; use `wait` to get it, or `detach` to give it up"]
pub struct SharedReply<'c, T> {
    on: &'c Shared,
    place: u64,
    /// A wait for it has ended without it.
    late: bool,
    value: PhantomData<fn() -> T>,
}

/// The handle of one reply of a [`SharedTransaction`](crate::SharedTransaction) or a [`SharedBatch`](crate::SharedBatch): like
/// [`SharedReply`], but dropping it costs nothing and does not wait.
///
/// Until the transaction is committed, or the batch finished, it gives [`Error::NotCommitted`](crate::Error::NotCommitted); after
/// that its element of EXEC's reply, or its reply.
///
/// # Drop
///
/// Gives the handle up. If its reply is an error, that goes to the account, or to the batch while that is being finished.
pub struct SharedQueued<'c, T> {
    on: &'c Shared,
    place: u64,
    late: bool,
    value: PhantomData<fn() -> T>,
}

macro_rules! handle {
    ($handle:ident) => {
        shared_handle!(
            $handle,
            Shared,
            "Sends what has been gathered, by whatever thread, if the command is part of it.

The value is decoded without any lock.

# Errors

Those of [`Reply::wait`](crate::Reply::wait). After [`Error::Timeout`](crate::Error::Timeout) the command may yet run, and its late reply is skipped.",
            "Sends what has been gathered as far as the socket takes it, and reads what has arrived unless another thread does; never blocks, and never dials.",
            "Does not send anything either: see [`Shared::flush`]."
        );
    };
}

handle!(SharedReply);
drop_waits!(SharedReply);
handle!(SharedQueued);
drop_detaches!(SharedQueued);
