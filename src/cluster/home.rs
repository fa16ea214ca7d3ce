//! The primary of a slot, looked for each time that it is dialled: what a sharded subscription follows.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::config::ClusterConfig;
use super::redirect::Address;
use super::topology::learn_from;
use crate::connection::{Config, Connection, Endpoint, Find, Reconnect};
use crate::error::Result;

/// Where a slot is.
pub(super) struct Home {
    slot: u16,
    config: ClusterConfig,
    /// Nodes that can be asked, those first that were told of last.
    known: Mutex<Vec<Address>>,
}

/// The least time that a node is given to answer.
const LEAST: Duration = Duration::from_millis(20);

impl Home {
    pub(super) fn new(slot: u16, config: ClusterConfig, known: Vec<Address>) -> Self {
        Home { slot, config, known: Mutex::new(known) }
    }

    /// What one node says, and who else can be asked from now on.
    fn ask(&self, config: Config, asked: &Address) -> Result<Endpoint> {
        let until = Instant::now() + config.connect_timeout;
        let (_, ranges) = learn_from(asked.clone(), Connection::open(config)?, until)?;
        let home = ranges.iter().find(|range| (range.first..=range.last).contains(&self.slot));
        let home = home.ok_or(super::core::NO_OWNER)?.primary.clone();
        let mut told: Vec<Address> =
            ranges.into_iter().flat_map(|range| [range.primary].into_iter().chain(range.replicas)).collect();
        told.sort();
        told.dedup();
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = told;
        Ok(self.config.endpoint(&home))
    }
}

impl Find for Home {
    fn find(&self, until: Instant) -> Result<Vec<Endpoint>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        fastrand::shuffle(&mut known);
        let known = known.into_iter().map(|address| (self.config.endpoint(&address), address));
        let seeds = self.config.seeds.iter().map(|seed| (seed.endpoint.clone(), Address::of_endpoint(&seed.endpoint)));
        let mut places: Vec<(Endpoint, Address)> = known.chain(seeds).collect();
        let mut failure = None;
        while !places.is_empty() {
            let (endpoint, asked) = places.remove(0);
            // One that does not answer must not use up the time of those behind it, nor that of dialling what is found.
            let share = until.saturating_duration_since(Instant::now()) / (places.len() + 2) as u32;
            let mut config = self.config.base.clone().reconnect(Reconnect::never()).connect_timeout(share.max(LEAST));
            config.endpoint = endpoint;
            match self.ask(config, &asked) {
                Ok(home) => return Ok(vec![home]),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or(super::core::NO_OWNER))
    }

    fn roles(&self) -> &'static [&'static str] {
        &[]
    }

    fn what(&self) -> String {
        format!("the primary of slot {}", self.slot)
    }

    fn slot(&self) -> Option<u16> {
        Some(self.slot)
    }
}

impl fmt::Debug for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Home").field("slot", &self.slot).finish_non_exhaustive()
    }
}
