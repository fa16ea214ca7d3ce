//! Connections to nodes: made at once, or where threads share the cluster, by one of them without the books.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::config::{ReadFrom, Way};
use super::core::{Core, LEAST};
use super::redirect::Address;
use crate::connection::{Config, Connection};
use crate::error::{Error, Result};

/// Whether a node can be sent commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Up,
    /// When a thread has connected to it.
    Later,
}

/// A connection to a node that is to be made.
pub(super) struct Dial {
    pub(super) n: u16,
    way: Way,
    first: Option<Vec<u8>>,
    /// How long it is given, if that is not all of the time there is.
    cut_short: Option<Duration>,
    /// It is being made.
    _claim: Arc<()>,
}

impl Dial {
    /// Blocks.
    pub(super) fn make(&self) -> Result<Connection> {
        Connection::open_node(self.way.config(), self.first.as_slice())
    }
}

impl Core {
    /// How to connect to the node at an address.
    pub(super) fn way_to(&self, address: &Address) -> Way {
        let mut config = self.config.base.clone();
        // The cluster counts for itself.
        config.max_outstanding = usize::MAX;
        // A wait is not to take much longer than it may because of this.
        config.connect_timeout = config.connect_timeout.min(config.timeout.unwrap_or(Duration::MAX));
        self.config.way_to(address, config)
    }

    /// The same, where nobody else waits for the books.
    pub(super) fn node_config(&self, address: &Address) -> Config {
        self.way_to(address).config()
    }

    /// Makes sure that there is a connection to a node, or that a thread will make one.
    pub(super) fn connect(&mut self, n: u16) -> Result<Reach> {
        let Some(node) = self.nodes.get_mut(usize::from(n)) else {
            return Err(Error::Refused("there is no such node"));
        };
        if let Some(conn) = &mut node.conn {
            if !conn.is_lost() {
                return Ok(Reach::Up);
            }
            self.bury(n);
        }
        let node = &mut self.nodes[usize::from(n)];
        if let (Some(at), Some(cause)) = (node.not_before, &node.cause)
            && at > Instant::now()
        {
            return Err(cause.clone());
        }
        if self.shared {
            node.wanted.get_or_insert_with(Instant::now);
            return Ok(Reach::Later);
        }
        // Whoever waits for something else is not kept by this for much longer than they want to wait.
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()).max(node.cut_short * 2));
        let dial = self.dial(n, left);
        let opened = dial.make();
        self.dialled(&dial, opened).map(|()| Reach::Up)
    }

    /// How to connect to a node in this time.
    pub(super) fn dial(&mut self, n: u16, time: Option<Duration>) -> Dial {
        let node = &self.nodes[usize::from(n)];
        let mut way = self.way_to(&node.address);
        let whole = way.config.connect_timeout;
        let given = time.map_or(whole, |time| time.max(LEAST).min(whole));
        way.config.connect_timeout = given;
        let cut_short = (given < whole).then_some(given);
        let first = (self.config.read_from != ReadFrom::Primary).then(|| b"*1\r\n$8\r\nREADONLY\r\n".to_vec());
        let claim = Arc::new(());
        self.nodes[usize::from(n)].dial = Arc::downgrade(&claim);
        Dial { n, way, first, cut_short, _claim: claim }
    }

    /// Takes a connection that was made, or notes why there is none.
    pub(super) fn dialled(&mut self, dial: &Dial, opened: Result<Connection>) -> Result<()> {
        let node = &mut self.nodes[usize::from(dial.n)];
        node.dial = Weak::new();
        node.wanted = None;
        match opened {
            Ok(mut conn) => {
                conn.share(self.shared);
                self.connected += 1;
                node.connected(conn, self.connected);
                Ok(())
            }
            Err(error) => {
                node.not_connected(&error, dial.cut_short);
                if self.shared && dial.cut_short.is_some() && error.is_timeout() {
                    // Others may have more time, and make the next attempt.
                    (node.not_before, node.cause) = (None, None);
                }
                self.stale = true;
                Err(error)
            }
        }
    }
}
