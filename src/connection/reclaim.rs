//! A connection that goes from one user to the next.

use super::config::Config;
use super::deadline::Deadline;
use super::engine::Engine;
use crate::args::Block;
use crate::error::{Error, Result};
use crate::resp;

impl Engine {
    /// Whether the server has closed the connection, found out without waiting.
    pub(super) fn look_for_close(&mut self) -> Result<()> {
        self.check()?;
        if self.next == self.issued && self.output.is_empty() {
            self.input.make_room(usize::MAX);
            self.read_now()?;
            if self.input.len() > 0 {
                self.look_at_surplus();
            }
        }
        self.check()
    }

    /// Brings the connection back to how it was opened: everything outstanding is read, nothing is watched, no handle is
    /// known any more, and the database is that of `home`. The caller owns the connection, so no handle can be left but
    /// forgotten ones. An error says that the connection is of no more use.
    pub(super) fn reclaim(&mut self, home: &Config, unwatch: bool) -> Result<()> {
        const CHANGED: Error = Error::Refused("the connection is not as it was opened");
        self.check()?;
        let endless = self.blocking.iter().any(|(place, block)| *place >= self.next && *block == Block::Forever);
        if std::thread::panicking() || endless {
            return Err(CHANGED);
        }
        self.batch = None;
        self.abandon_streaming();
        let (next, issued) = (self.next, self.issued);
        for place in next..issued {
            self.ring.detach(place, next, issued);
        }
        if self.watching || unwatch {
            self.end_watch(false);
        }
        if self.config.database != home.database {
            let command = ["SELECT".to_owned(), home.database.to_string()];
            let mut bytes = Vec::new();
            resp::encode_command(&mut bytes, &command);
            let place = self.issue_change(&bytes, super::table::Change::Database);
            self.detach(place);
        }
        let mut deadline = Deadline::new(self.allowance(self.issued));
        self.sync(self.issued, &mut deadline)?;
        self.check()?;
        let same_user = home.credentials.is_some() == self.config.credentials.is_some()
            && (home.credentials.is_some() || (home.user == self.config.user && home.password == self.config.password));
        if self.is_subscribed() || self.config.database != home.database || !self.changed.is_empty() || !same_user {
            return Err(CHANGED);
        }
        self.store = Default::default();
        self.rests.clear();
        self.groups = Default::default();
        self.losses.clear();
        self.pushes.clear();
        self.push_bytes = 0;
        self.forget_failures();
        // Nobody is left who would want to know.
        let _ = self.take_account();
        Ok(())
    }
}
