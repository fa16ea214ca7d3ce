//! How a cluster is reached, and how it is used.

use std::fmt;
use std::sync::Arc;

use super::redirect::Address;
use crate::connection::{Config, Endpoint, IntoConfig};
use crate::error::{Error, Result};

/// Where commands that only read are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReadFrom {
    /// To the primary of their slot, so that a reply has everything that was written before.
    #[default]
    Primary,
    /// To its replicas in turn, and to the primary where there is none that can be reached. **A reply may be older than what
    /// was written before**, also by the same caller, and reads and writes of a slot have no order among them.
    Replica,
    /// To the primary and its replicas in turn, with the same reservation.
    Any,
}

/// How a [`Cluster`](super::Cluster) is reached, and how it is used.
///
/// ```no_run
/// use redefer::Config;
/// use redefer::cluster::{Cluster, ClusterConfig, ReadFrom};
///
/// # fn main() -> redefer::Result<()> {
/// let config = ClusterConfig::new("redis://app:secret@node1:7000")?
///     .seed("redis://node2:7000")?
///     .read_from(ReadFrom::Replica);
/// let cluster = Cluster::open(config)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    pub(super) base: Config,
    pub(super) seeds: Vec<Config>,
    pub(super) read_from: ReadFrom,
    pub(super) redirects: u8,
    pub(super) resolve: Option<Resolve>,
}

/// Where a node is reached that is announced under this name and port.
#[derive(Clone)]
pub(super) struct Resolve(Arc<Mapping>);

type Mapping = dyn Fn(&str, u16) -> (String, u16) + Send + Sync;

/// How a node is connected to. The function that is asked where it is reached is its author's, and may take its time: nobody asks
/// it who holds the books.
pub(super) struct Way {
    pub(super) config: Config,
    resolve: Option<(Resolve, Address)>,
}

impl Way {
    /// To a place that needs no asking.
    pub(super) fn known(config: Config) -> Self {
        Way { config, resolve: None }
    }

    /// Asks where that is.
    pub(super) fn config(&self) -> Config {
        let mut config = self.config.clone();
        if let Some((Resolve(resolve), address)) = &self.resolve {
            let (host, port) = resolve(&address.host, address.port);
            config.endpoint = Endpoint::Tcp { host, port };
        }
        config
    }
}

impl fmt::Debug for Resolve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolve")
    }
}

impl ClusterConfig {
    /// A cluster that is reached by one of its nodes. User, password, TLS, timeouts, buffers and protocol are taken from this
    /// for all nodes; the [`reconnect`](Config::reconnect) policy is not used, since lost connections are made again anyway.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a URL or a configuration that cannot be used.
    pub fn new(config: impl IntoConfig) -> Result<Self> {
        let base = config.into_config()?;
        Ok(ClusterConfig {
            seeds: vec![base.clone()],
            base,
            read_from: ReadFrom::Primary,
            redirects: 16,
            resolve: None,
        })
    }

    /// One more node that the cluster may be reached by, for when others are down. Only its address is used; all else is as in
    /// [`new`](ClusterConfig::new).
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a URL or a configuration that cannot be used, or with another user or password than there, or with
    /// TLS where there is none: nodes of a cluster have these in common.
    pub fn seed(mut self, config: impl IntoConfig) -> Result<Self> {
        let seed = config.into_config()?;
        let differs = |own: &Option<Vec<u8>>, base: &Option<Vec<u8>>| own.is_some() && own != base;
        if differs(&seed.user, &self.base.user) || differs(&seed.password, &self.base.password) {
            return Err(Error::Config(
                "the nodes of a cluster have one user and password: give it with the first".into(),
            ));
        }
        if seed.has_tls() && !self.base.has_tls() {
            return Err(Error::Config(
                "TLS is for all nodes of a cluster or for none: configure it with the first".into(),
            ));
        }
        self.seeds.push(seed);
        Ok(self)
    }

    /// More nodes that the cluster may be reached by: see [`seed`](ClusterConfig::seed).
    ///
    /// ```no_run
    /// use redefer::Config;
    /// use redefer::cluster::{Cluster, ClusterConfig};
    ///
    /// # fn main() -> redefer::Result<()> {
    /// let nodes = ["redis://node1:7000", "redis://node2:7000", "redis://node3:7000"];
    /// let config = ClusterConfig::new(Config::from_url(nodes[0])?.password("secret"))?.seeds(&nodes[1..])?;
    /// let cluster = Cluster::open(config)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The first one of `seed`.
    pub fn seeds(self, configs: impl IntoIterator<Item: IntoConfig>) -> Result<Self> {
        configs.into_iter().try_fold(self, |config, seed| config.seed(seed))
    }

    /// Where commands that only read are sent; to primaries, if this is not called.
    #[must_use]
    pub fn read_from(mut self, from: ReadFrom) -> Self {
        self.read_from = from;
        self
    }

    /// Asks a function where nodes are reached, for clients that see other addresses than nodes do, as behind NAT or a port
    /// forwarding: it is given the host and the port that a node is announced under, and returns those to connect to.
    ///
    /// It is called each time before a node is connected to, by the thread that does so, and must not use the cluster. Threads that
    /// [share](super::SharedCluster) it are not kept by how long that takes, unless they need the same connection. It is not
    /// asked for the addresses that the cluster was opened with. With TLS the certificate is checked for the host that it
    /// returns, if no [server name](crate::TlsConfig) is configured.
    ///
    /// ```no_run
    /// use redefer::cluster::{Cluster, ClusterConfig};
    ///
    /// # fn main() -> redefer::Result<()> {
    /// let config = ClusterConfig::new("redis://localhost:17000")?
    ///     .resolve_with(|_, port| ("localhost".to_owned(), port + 10_000));
    /// let cluster = Cluster::open(config)?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn resolve_with(mut self, resolve: impl Fn(&str, u16) -> (String, u16) + Send + Sync + 'static) -> Self {
        self.resolve = Some(Resolve(Arc::new(resolve)));
        self
    }

    /// How the node at an address is connected to, with the rest of this configuration.
    pub(super) fn way_to(&self, address: &Address, mut config: Config) -> Way {
        config.endpoint = Endpoint::Tcp { host: address.host.clone(), port: address.port };
        Way { config, resolve: self.resolve.clone().map(|resolve| (resolve, address.clone())) }
    }

    /// Where the node at an address is connected to.
    pub(super) fn endpoint(&self, address: &Address) -> Endpoint {
        self.way_to(address, self.base.clone()).config().endpoint
    }

    /// How many times one command follows MOVED and ASK before it fails with that error; 16, if this is not called.
    #[must_use]
    pub fn redirects(mut self, most: u8) -> Self {
        self.redirects = most;
        self
    }
}

/// What a cluster can be opened with: what a connection can be opened with, a [`ClusterConfig`], or several URLs, as an array, a
/// slice or a vector.
pub trait IntoClusterConfig: sealed::Sealed {
    #[doc(hidden)]
    fn into_cluster_config(self) -> Result<ClusterConfig>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! of_one {
    ($($one:ty),*) => {$(
        impl sealed::Sealed for $one {}
        impl IntoClusterConfig for $one {
            fn into_cluster_config(self) -> Result<ClusterConfig> {
                ClusterConfig::new(self)
            }
        }
    )*};
}

of_one!(&str, String, &String, Config);

impl sealed::Sealed for ClusterConfig {}
impl IntoClusterConfig for ClusterConfig {
    fn into_cluster_config(self) -> Result<ClusterConfig> {
        Ok(self)
    }
}

fn of_many<U: AsRef<str>>(urls: &[U]) -> Result<ClusterConfig> {
    let (first, others) = urls.split_first().ok_or_else(|| Error::Config("no node to begin with".to_owned()))?;
    ClusterConfig::new(first.as_ref())?.seeds(others.iter().map(AsRef::as_ref))
}

impl<U: AsRef<str>> sealed::Sealed for &[U] {}
impl<U: AsRef<str>> IntoClusterConfig for &[U] {
    fn into_cluster_config(self) -> Result<ClusterConfig> {
        of_many(self)
    }
}

impl<U: AsRef<str>> sealed::Sealed for Vec<U> {}
impl<U: AsRef<str>> IntoClusterConfig for Vec<U> {
    fn into_cluster_config(self) -> Result<ClusterConfig> {
        of_many(&self)
    }
}

impl<U: AsRef<str>> sealed::Sealed for &Vec<U> {}
impl<U: AsRef<str>> IntoClusterConfig for &Vec<U> {
    fn into_cluster_config(self) -> Result<ClusterConfig> {
        of_many(self)
    }
}

impl<U: AsRef<str>, const N: usize> sealed::Sealed for [U; N] {}
impl<U: AsRef<str>, const N: usize> IntoClusterConfig for [U; N] {
    fn into_cluster_config(self) -> Result<ClusterConfig> {
        of_many(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_have_what_the_first_one_has_or_nothing() {
        let of = |first: &str, seed: &str| ClusterConfig::new(first).unwrap().seed(seed);
        let refused = |first: &str, seed: &str| match of(first, seed) {
            Err(Error::Config(text)) => text,
            other => panic!("{seed}: {other:?}"),
        };
        for seed in ["redis://b", "redis://:secret@b", "redis+unix:///run/b.sock"] {
            assert_eq!(of("redis://:secret@a", seed).unwrap().seeds.len(), 2);
        }
        let many = ClusterConfig::new("redis://a").unwrap().seeds(["redis://b", "redis://c"]).unwrap();
        assert_eq!(many.seeds.len(), 3);
        for (first, seed) in [
            ("redis://:secret@a", "redis://:Other@b"),
            ("redis://:secret@a", "redis://user:secret@b"),
            ("redis://a", "redis://:Other@b"),
        ] {
            let text = refused(first, seed);
            assert!(text.contains("one user and password") && !text.contains("Other"), "{text}");
        }
        let second = ClusterConfig::new("redis://a").unwrap().seeds(["redis://b", "redis://:Other@c"]);
        assert!(matches!(second, Err(Error::Config(_))));
        #[cfg(feature = "tls")]
        {
            assert!(refused("redis://a", "rediss://b").contains("TLS"));
            assert!(of("rediss://a", "redis://b").is_ok());
        }
    }
}
