//! Tracking: the server says when what a connection has read is changed.

use crate::args::{ToArg, ToArgs};
use crate::commands::parts::{Flag, Named, Owned, parts_to_args};

/// How the server tracks what the connection reads: see
/// [`client_tracking_with`](crate::commands::SessionCommands::client_tracking_with).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct TrackingOptions {
    redirect: Option<i64>,
    prefixes: Vec<Owned>,
    bcast: bool,
    optin: bool,
    optout: bool,
    noloop: bool,
}

impl TrackingOptions {
    /// Every key that is read is tracked.
    pub fn new() -> Self {
        TrackingOptions::default()
    }

    /// The messages go to the client with this ID (REDIRECT), which in RESP2 is subscribed to `__redis__:invalidate`.
    pub fn redirect(mut self, id: i64) -> Self {
        self.redirect = Some(id);
        self
    }

    /// All keys are tracked, whether they are read or not (BCAST).
    pub fn bcast(mut self) -> Self {
        self.bcast = true;
        self
    }

    /// A prefix more of the keys that are tracked, with [`bcast`](Self::bcast) (PREFIX).
    pub fn prefix(mut self, prefix: impl ToArg) -> Self {
        self.prefixes.push(Owned::new(prefix));
        self
    }

    /// Only what is read right behind `client_caching(true)` is tracked (OPTIN).
    pub fn optin(mut self) -> Self {
        self.optin = true;
        self
    }

    /// What is read right behind `client_caching(false)` is not tracked (OPTOUT).
    pub fn optout(mut self) -> Self {
        self.optout = true;
        self
    }

    /// No messages about what the connection itself changes (NOLOOP).
    pub fn noloop(mut self) -> Self {
        self.noloop = true;
        self
    }

    fn parts(&self) -> impl ToArgs {
        (
            Named("REDIRECT", self.redirect),
            self.prefixes.iter().map(|prefix| ("PREFIX", prefix)).collect::<Vec<_>>(),
            Flag("BCAST", self.bcast),
            Flag("OPTIN", self.optin),
            Flag("OPTOUT", self.optout),
            Flag("NOLOOP", self.noloop),
        )
    }
}

parts_to_args!(TrackingOptions);
