//! What is not done under the lock of threads that share a connection, or a cluster's: it is kept for when nobody holds that.

use super::config::Endpoint;
use super::engine::Engine;
use super::share::Share;
use crate::error::Error;

/// What is not this crate's own, such as whoever listens to events: it may use the connection, or wait for a thread that does.
pub(crate) type Aside = Box<dyn FnOnce() + Send>;

impl Engine {
    /// Tells an event: at once, or if threads share the connection, when none of them holds the lock.
    pub(super) fn tell(&mut self, event: impl FnOnce(&Endpoint) + Send + 'static) {
        if self.shared || self.polled {
            let server = self.config.endpoint.clone();
            self.aside.push(Box::new(move || event(&server)));
        } else {
            event(&self.config.endpoint);
        }
    }

    /// Drops an error that nobody will be told. Its author may have a hand in that.
    pub(super) fn discard(&mut self, error: Error) {
        if (self.shared || self.polled) && matches!(error, Error::Custom(_)) {
            self.aside.push(Box::new(move || drop(error)));
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // Nobody shares it any more.
        self.engine().shared = false;
        self.aside().into_iter().for_each(|run| run());
    }
}

impl Share {
    /// Whether there is something to be done when no thread holds the lock.
    #[inline]
    pub(crate) fn has_aside(&mut self) -> bool {
        let engine = self.engine();
        !engine.aside.is_empty() || !engine.groups.gone.is_empty()
    }

    /// What that is.
    pub(crate) fn aside(&mut self) -> Vec<Aside> {
        let engine = self.engine();
        let (mut aside, gone) = (std::mem::take(&mut engine.aside), std::mem::take(&mut engine.groups.gone));
        if !gone.is_empty() {
            // With errors whose author may have a hand in that.
            aside.push(Box::new(move || drop(gone)));
        }
        aside
    }
}
