//! What a cluster tells about itself: events of the `tracing` crate, with the feature `tracing`; without it, nothing.
//!
//! No event has a key or a value in it.

use super::redirect::{Address, Redirect};
use crate::error::Error;

/// By which subscribers choose them.
#[cfg(feature = "tracing")]
const TARGET: &str = "redefer";

/// A command of this slot did not run, and goes on elsewhere or later.
pub(super) fn redirected(from: &Address, slot: u16, redirect: &Redirect) {
    #[cfg(feature = "tracing")]
    match redirect {
        Redirect::Moved(to) => {
            tracing::debug!(target: TARGET, server = %from, slot, to = %to.clone().or_host_of(from), "moved");
        }
        Redirect::Ask(to) => {
            tracing::debug!(target: TARGET, server = %from, slot, to = %to.clone().or_host_of(from), "asked to ask elsewhere");
        }
        Redirect::Later => tracing::debug!(target: TARGET, server = %from, slot, "not served now"),
        Redirect::Demoted => tracing::debug!(target: TARGET, server = %from, slot, "no primary any more"),
    }
    #[cfg(not(feature = "tracing"))]
    let _ = (from, slot, redirect);
}

/// A node has told who has which slots.
pub(super) fn refreshed(asked: &Address, primaries: usize, replicas: usize) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: TARGET, server = %asked, primaries, replicas, "topology learned");
    #[cfg(not(feature = "tracing"))]
    let _ = (asked, primaries, replicas);
}

/// No node has told it.
pub(super) fn not_refreshed(error: &Error, failures: u32) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: TARGET, %error, failures, "no node tells the topology");
    #[cfg(not(feature = "tracing"))]
    let _ = (error, failures);
}

/// A node does not answer, and others say that it has no slots: what is outstanding there is lost.
pub(super) fn given_up(node: &Address, outstanding: usize) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: TARGET, server = %node, outstanding, "node given up");
    #[cfg(not(feature = "tracing"))]
    let _ = (node, outstanding);
}
