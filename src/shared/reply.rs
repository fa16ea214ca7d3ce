//! Handles of replies on a connection that threads share.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::time::Duration;

use super::Shared;
use crate::connection::decode_whole;
use crate::error::{Result, WaitError};
use crate::execute::handle_by_methods;
use crate::values::FromReply;

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
    shared: &'c Shared,
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
    shared: &'c Shared,
    place: u64,
    late: bool,
    value: PhantomData<fn() -> T>,
}

macro_rules! handle {
    ($handle:ident) => {
        impl<'c, T: FromReply> $handle<'c, T> {
            #[inline]
            pub(super) fn new(shared: &'c Shared, place: u64) -> Self {
                $handle { shared, place, late: false, value: PhantomData }
            }

            /// Waits for the reply and takes it, for at most [`Config::timeout`](crate::Config::timeout). Sends what has been
            /// gathered, by whatever thread, if the command is part of it.
            ///
            /// The value is decoded without any lock.
            ///
            /// # Errors
            ///
            /// Those of [`Reply::wait`](crate::Reply::wait). After [`Error::Timeout`](crate::Error::Timeout) the command may yet
            /// run, and its late reply is skipped.
            #[inline]
            pub fn wait(self) -> Result<T> {
                let handle = ManuallyDrop::new(self);
                decode_whole(&handle.shared.fetch(handle.place)?)
            }

            /// Waits at most this long, whatever the configuration says, and gives the handle back if that was not
            /// enough.
            ///
            /// # Errors
            ///
            /// [`WaitError::Timeout`] with the handle, or [`WaitError::Failed`] with an error of [`wait`](Self::wait).
            pub fn wait_timeout(self, time: Duration) -> Result<T, WaitError<Self>> {
                // Unless there is a timeout the place is used up, even when decoding panics.
                let handle = ManuallyDrop::new(self);
                match handle.shared.fetch_within(handle.place, time) {
                    Ok(frame) => decode_whole(&frame).map_err(WaitError::Failed),
                    Err(WaitError::Timeout(())) => {
                        let mut handle = ManuallyDrop::into_inner(handle);
                        handle.late = true;
                        Err(WaitError::Timeout(handle))
                    }
                    Err(WaitError::Failed(error)) => Err(WaitError::Failed(error)),
                }
            }

            /// Whether a wait would not block. Sends what has been gathered as far as the socket takes it, and reads what
            /// has arrived unless another thread does; never blocks, and never dials.
            ///
            /// # Errors
            ///
            /// None today.
            pub fn is_ready(&self) -> Result<bool> {
                Ok(self.shared.is_ready(self.place))
            }

            /// Gives the handle up without I/O: its reply is skipped when its turn comes, and an error accounted for. Does
            /// not send anything either: see [`Shared::flush`].
            pub fn detach(self) {
                let handle = ManuallyDrop::new(self);
                handle.shared.detach(handle.place);
            }
        }

        handle_by_methods!($handle);
    };
}

handle!(SharedReply);
handle!(SharedQueued);

impl<T> Drop for SharedReply<'_, T> {
    fn drop(&mut self) {
        if self.late {
            // Whoever had so little time then has no more of it now.
            self.shared.detach(self.place);
        } else {
            self.shared.drop_reply(self.place);
        }
    }
}

impl<T> Drop for SharedQueued<'_, T> {
    fn drop(&mut self) {
        self.shared.detach(self.place);
    }
}
