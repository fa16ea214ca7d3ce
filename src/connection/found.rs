//! A server that is looked for each time that it is dialled, and left when it is no longer what was looked for.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::config::{Config, Endpoint};
use super::deadline::Deadline;
use super::engine::Engine;
use super::stream::Stream;
use crate::error::{Error, Result, ServerError};
use crate::resp::{self, Frame};

/// Finds servers.
pub(crate) trait Find: fmt::Debug + Send + Sync {
    /// Where one may be, the likeliest first.
    fn find(&self, until: Instant) -> Result<Vec<Endpoint>>;
    /// What ROLE must call it; nothing where that does not matter.
    fn roles(&self) -> &'static [&'static str];
    /// What is looked for, in words.
    fn what(&self) -> String;
    /// The slot of a cluster whose primary is looked for, if that is what it is.
    fn slot(&self) -> Option<u16> {
        None
    }
}

/// Where to look for a server.
#[derive(Clone, Debug)]
pub(crate) struct Found(pub(crate) Arc<dyn Find>);

impl PartialEq for Found {
    fn eq(&self, other: &Found) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Found {}

impl Found {
    /// Connects to the first of those that were found which lets us, and says which that was.
    pub(super) fn connect(&self, config: &Config, until: Instant) -> Result<(Stream, Endpoint)> {
        let places = self.0.find(until)?;
        let mut failure = io::Error::new(io::ErrorKind::NotFound, format!("{} was not found", self.0.what()));
        for (index, place) in places.iter().enumerate() {
            // One that does not answer must not use up the time of those behind it.
            let share = until.saturating_duration_since(Instant::now()) / (places.len() - index) as u32;
            let config = Config { endpoint: place.clone(), ..config.clone() };
            match Stream::connect(&config, Instant::now() + share) {
                Ok(stream) => return Ok((stream, place.clone())),
                Err(error) => failure = io::Error::new(error.kind(), format!("{place}: {error}")),
            }
        }
        Err(failure.into())
    }
}

impl Engine {
    /// Makes sure that the server is what was looked for: whoever said so may not know the latest.
    pub(super) fn check_role(&mut self, found: &Found, deadline: &mut Deadline) -> Result<()> {
        let roles = found.0.roles();
        self.must_write = roles == ["master"];
        if roles.is_empty() {
            return Ok(());
        }
        let reply = self.ask(&["ROLE"], deadline)?;
        let role = match resp::frame(&reply) {
            Some(Frame::Array(mut elements)) => match elements.next() {
                Some(Frame::Bulk(role) | Frame::SimpleString(role)) => role,
                _ => b"",
            },
            Some(Frame::Error(message)) => return Err(ServerError::new(message).into()),
            _ => b"",
        };
        if roles.iter().any(|own| own.as_bytes() == role) {
            return Ok(());
        }
        let role = String::from_utf8_lossy(role);
        Err(io::Error::other(format!("what was found is not {}: its role is {role:?}", found.0.what())).into())
    }

    /// A server that should take writes has said that it does not. The next command has a look at that.
    #[cold]
    pub(super) fn server_is_demoted(&mut self) {
        self.demoted = true;
        self.limit = 0;
    }

    /// A server that was looked for is silent. If it is no longer the one to be found, it is left.
    #[cold]
    pub(super) fn look_whether_moved(&mut self) {
        let (Endpoint::Found(found), Some(at)) = (self.config.endpoint.clone(), self.found_at.clone()) else { return };
        // If nobody answers, it is as good as any other.
        if let Ok(places) = found.0.find(Instant::now() + self.config.connect_timeout)
            && !places.contains(&at)
        {
            let cause: Error = io::Error::other(format!("{at} is silent, and no longer {}", found.0.what())).into();
            self.break_with(cause);
        }
    }

    /// Leaves a server that takes no writes any more, after everything outstanding has been read, or was given its time.
    pub(super) fn leave_demoted(&mut self) {
        let mut deadline = Deadline::new(self.allowance(self.issued));
        let _ = self.sync(self.issued, &mut deadline);
        self.leave_if_demoted();
    }

    /// The same, without waiting for what is outstanding.
    pub(super) fn leave_if_demoted(&mut self) {
        if std::mem::take(&mut self.demoted) && self.is_up() {
            let cause: Error = io::Error::other("the server takes no writes any more").into();
            self.break_with(cause);
        }
    }
}
