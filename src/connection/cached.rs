//! A connection whose replies are kept: what `crate::cache` needs of the engine.

use super::cache_config::CacheConfig;
use super::engine::Engine;
use super::entries::{Entries, Keys};
use super::issue::Encoded;
use super::place::{self, Place};
use super::table::Change;
use super::traffic::READS;
use super::{Connection, Protocol};
use crate::error::{Error, Result};
use crate::resp;

const CACHING_YES: &[u8] = b"*3\r\n$6\r\nCLIENT\r\n$7\r\nCACHING\r\n$3\r\nYES\r\n";

/// What a command means to the cache.
pub(crate) enum Use {
    /// Its reply may come from there, and be kept there.
    Read {
        keys: Keys,
        /// The caller has asked for it to be kept.
        opted_in: bool,
    },
    /// It may change these keys.
    Write(Keys),
    /// It may change anything.
    WriteAnything,
    /// It changes nothing, unless these are past their time.
    Look(Keys),
    /// It changes nothing, unless something is past its time.
    LookAnywhere,
    None,
}

impl Connection {
    /// Turns tracking on, and keeps replies from now on.
    pub(crate) fn begin_caching(&self, config: CacheConfig) -> Result<()> {
        if self.protocol() != Protocol::Resp3 {
            return Err(Error::Refused("client-side caching needs RESP3: the server tells what has changed by pushes"));
        }
        let mut bytes = Vec::new();
        resp::encode_command(&mut bytes, &config.tracking());
        let place = self.with(|engine| engine.issue_change(&bytes, Change::Tracking))?;
        self.wait::<()>(place)?;
        self.with(|engine| {
            engine.caching.entries = Some(Box::new(Entries::new(config)));
            // It may have been made again on the way.
            engine.caching.connected(engine.config.protocol == Protocol::Resp3);
        })
    }

    /// Turns tracking off, and keeps nothing any more.
    pub(crate) fn end_caching(&self) -> Result<()> {
        let place = self.with(|engine| {
            engine.caching.end();
            engine.refresh_head();
            // It is not to come back with a reconnect, whatever becomes of this.
            engine.changed.remove(&Change::Tracking);
            let mut bytes = Vec::new();
            resp::encode_command(&mut bytes, &["CLIENT", "TRACKING", "OFF"]);
            engine.issue_encoded(&bytes, None)
        })?;
        self.wait::<()>(place)
    }

    /// Runs on the cache, if there is one.
    pub(crate) fn with_cache<R>(&self, run: impl FnOnce(&mut Entries, u64) -> R) -> Option<R> {
        self.with(|engine| {
            let issued = engine.issued;
            engine.caching.entries.as_mut().map(|entries| run(entries, issued))
        })
        .ok()?
    }

    /// Issues a command, or answers it from the cache.
    pub(crate) fn issue_cached(&self, encoded: Result<(Encoded, Use)>) -> u64 {
        let issued = self.with_guards(|engine| match encoded {
            Ok((encoded, what)) => engine.issue_cached(&encoded, what),
            Err(error) => engine.born_failed(error),
        });
        issued.unwrap_or(place::BUSY)
    }

    /// Issues a command by its name, which may change anything.
    pub(crate) fn issue_named_uncached(&self, name: &str, arguments: impl crate::args::ToArgs) -> u64 {
        let place = self.issue_named(name, arguments, false);
        self.with_cache(|entries, issued| entries.forget_all(issued));
        place
    }
}

impl Engine {
    fn issue_cached(&mut self, encoded: &Encoded, what: Use) -> u64 {
        let place = self.issued;
        let Some(entries) = &mut self.caching.entries else { return self.issue_encoded(&encoded.bytes, encoded.block) };
        match what {
            Use::None => {}
            Use::LookAnywhere if !entries.expires_unheard() => {}
            Use::LookAnywhere => entries.forget_all(place),
            Use::Look(keys) => return self.issue_look(encoded, keys),
            Use::WriteAnything => entries.forget_all(place),
            Use::Write(keys) => entries.write(place, &keys),
            Use::Read { keys, opted_in } => return self.read_cached(encoded, keys, opted_in),
        }
        self.issue_encoded(&encoded.bytes, encoded.block)
    }

    fn read_cached(&mut self, encoded: &Encoded, keys: Keys, opted_in: bool) -> u64 {
        // Only an answer that would be given has to be looked at twice.
        let has = self.caching.entries.as_ref().is_some_and(|entries| entries.has(&encoded.bytes));
        let fresh = has && self.look_for_invalidations();
        let Some(entries) = &mut self.caching.entries else { return place::BUSY };
        let (keep, permit) = (entries.covers(&keys, opted_in), entries.needs_permit());
        if fresh && let Some(reply) = entries.get(&encoded.bytes) {
            return self.caching.answer(reply);
        }
        if keep {
            entries.missed();
        }
        if keep && permit {
            return self.read_permitted(encoded, keys);
        }
        if !keep {
            return self.issue_look(encoded, keys);
        }
        let place = self.issue_encoded(&encoded.bytes, encoded.block);
        if let Place::Ordinary(place) = Place::of(place)
            && self.is_to_come(place)
            && let Some(entries) = &mut self.caching.entries
        {
            entries.expect(place, &encoded.bytes, keys);
            self.refresh_head();
            self.note_read(place, encoded);
        }
        place
    }

    /// What only reads may be sent again on another connection. (Its reply is not kept then.)
    fn note_read(&mut self, place: u64, encoded: &Encoded) {
        if !self.config.reconnect.is_never() {
            self.note_idempotent(place, encoded.bytes.clone());
        }
    }

    /// Issues a command whose reply is not to be kept.
    fn issue_look(&mut self, encoded: &Encoded, keys: Keys) -> u64 {
        let place = self.issue_encoded(&encoded.bytes, encoded.block);
        if let Place::Ordinary(place) = Place::of(place)
            && self.is_to_come(place)
            && let Some(entries) = &mut self.caching.entries
        {
            entries.expect_look(place, keys);
            self.refresh_head();
        }
        place
    }

    /// Issues a command whose reply is to be kept, behind the permit that the server wants to hear for it.
    fn read_permitted(&mut self, encoded: &Encoded, keys: Keys) -> u64 {
        let permit = match self.append_two(CACHING_YES, &encoded.bytes) {
            Ok(place) => place,
            Err(error) => return self.born_failed(error),
        };
        self.ring.detach(permit, self.next, self.issued);
        if let Some(entries) = &mut self.caching.entries {
            entries.expect_permit(permit);
            entries.expect(permit + 1, &encoded.bytes, keys);
            self.refresh_head();
            self.note_read(permit + 1, encoded);
        }
        self.after_issue(permit);
        permit + 1
    }

    /// Takes everything that the server has sent so far, without waiting. `false`: there is no end of it, or no server.
    fn look_for_invalidations(&mut self) -> bool {
        for _ in 0..READS {
            if !self.is_up() {
                return false;
            }
            self.input.make_room(usize::MAX);
            let Ok(came) = self.read_now() else { return false };
            if self.settle_whole().is_err() {
                return false;
            }
            if self.next == self.issued && self.input.len() > 0 && self.streaming.is_none() {
                self.look_at_surplus();
            }
            if !came {
                return self.is_up();
            }
        }
        false
    }
}
