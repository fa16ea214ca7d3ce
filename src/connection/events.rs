//! What a connection tells about itself: events of the `tracing` crate, with the feature `tracing`; without it, nothing.
//!
//! No event has a password, a key or a value in it. Errors of the server to AUTH and HELLO come here without their text.

use super::config::{Config, Endpoint};
use crate::error::Error;

/// By which subscribers choose them.
#[cfg(feature = "tracing")]
const TARGET: &str = "redefer";

/// The server is about to be dialled.
pub(super) fn dialing(config: &Config) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: TARGET, server = %config.endpoint, "connecting");
    #[cfg(not(feature = "tracing"))]
    let _ = config;
}

/// There is no connection.
pub(super) fn not_connected(server: &Endpoint, error: &Error) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: TARGET, %server, %error, "not connected");
    #[cfg(not(feature = "tracing"))]
    let _ = (server, error);
}

/// The handshake is over.
pub(super) fn connected(config: &Config) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: TARGET, server = %config.endpoint, protocol = ?config.protocol, database = config.database, "connected");
    #[cfg(not(feature = "tracing"))]
    let _ = config;
}

/// The connection has broken. So many replies are lost, and so many commands are kept for the next connection.
pub(super) fn lost(server: &Endpoint, cause: &Error, lost: usize, kept: usize) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: TARGET, %server, %cause, lost, kept, "connection lost");
    #[cfg(not(feature = "tracing"))]
    let _ = (server, cause, lost, kept);
}

/// An attempt to connect again has failed.
pub(super) fn attempt_failed(server: &Endpoint, error: &Error, failed: u32) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: TARGET, %server, %error, failed, "cannot connect again yet");
    #[cfg(not(feature = "tracing"))]
    let _ = (server, error, failed);
}

/// All attempts have failed, or the time is over: what was kept is lost, which is told next.
pub(super) fn given_up(server: &Endpoint, cause: &Error) {
    #[cfg(feature = "tracing")]
    tracing::error!(target: TARGET, %server, %cause, "given up connecting again");
    #[cfg(not(feature = "tracing"))]
    let _ = (server, cause);
}

/// There is a connection again.
pub(super) fn connected_again(server: &Endpoint, reconnects: u64, resent: usize) {
    #[cfg(feature = "tracing")]
    tracing::info!(target: TARGET, %server, reconnects, sending = resent, "connected again");
    #[cfg(not(feature = "tracing"))]
    let _ = (server, reconnects, resent);
}
