//! What handles of single replies do on whatever threads share: a connection and a cluster have the same two kinds.

/// The methods of a handle with the fields `on`, `place`, `late` and `value`. `$wait`, `$is_ready` and `$detach` say what is peculiar to
/// those methods.
macro_rules! shared_handle {
    ($handle:ident, $on:ty, $wait:literal, $is_ready:literal, $detach:literal) => {
        impl<'c, T: $crate::values::FromReply> $handle<'c, T> {
            #[inline]
            pub(super) fn new(on: &'c $on, place: u64) -> Self {
                $handle { on, place, late: false, value: ::std::marker::PhantomData }
            }

            /// Waits for the reply and takes it, for at most [`Config::timeout`](crate::Config::timeout).
            #[doc = $wait]
            #[inline]
            pub fn wait(self) -> $crate::error::Result<T> {
                let handle = ::std::mem::ManuallyDrop::new(self);
                $crate::connection::decode_whole(&handle.on.fetch(handle.place)?)
            }

            /// Waits at most this long, whatever the configuration says, and gives the handle back if that was not
            /// enough.
            ///
            /// # Errors
            ///
            /// [`WaitError::Timeout`](crate::WaitError::Timeout) with the handle, or
            /// [`WaitError::Failed`](crate::WaitError::Failed) with an error of [`wait`](Self::wait).
            pub fn wait_timeout(self, time: ::std::time::Duration) -> Result<T, $crate::error::WaitError<Self>> {
                use $crate::error::WaitError;

                // Unless there is a timeout the place is used up, even when decoding panics.
                let handle = ::std::mem::ManuallyDrop::new(self);
                match handle.on.fetch_within(handle.place, time) {
                    Ok(frame) => $crate::connection::decode_whole(&frame).map_err(WaitError::Failed),
                    Err(WaitError::Timeout(())) => {
                        let mut handle = ::std::mem::ManuallyDrop::into_inner(handle);
                        handle.late = true;
                        Err(WaitError::Timeout(handle))
                    }
                    Err(WaitError::Failed(error)) => Err(WaitError::Failed(error)),
                }
            }

            /// Whether a wait would not block.
            #[doc = $is_ready]
            ///
            /// # Errors
            ///
            /// None today.
            pub fn is_ready(&self) -> $crate::error::Result<bool> {
                Ok(self.on.is_ready(self.place))
            }

            /// Gives the handle up without I/O: its reply is skipped when its turn comes, and an error accounted for.
            #[doc = $detach]
            pub fn detach(self) {
                let handle = ::std::mem::ManuallyDrop::new(self);
                handle.on.detach(handle.place);
            }
        }

        $crate::execute::handle_by_methods!($handle);
    };
}

/// The drop of a handle whose command has been issued: waits, unless a wait was in vain before.
macro_rules! drop_waits {
    ($handle:ident) => {
        impl<T> Drop for $handle<'_, T> {
            fn drop(&mut self) {
                if self.late {
                    // Whoever had so little time then has no more of it now.
                    self.on.detach(self.place);
                } else {
                    self.on.drop_reply(self.place);
                }
            }
        }
    };
}

/// The drop of a handle of a command that is part of something: gives it up.
macro_rules! drop_detaches {
    ($handle:ident) => {
        impl<T> Drop for $handle<'_, T> {
            fn drop(&mut self) {
                self.on.detach(self.place);
            }
        }
    };
}

pub(crate) use {drop_detaches, drop_waits, shared_handle};
