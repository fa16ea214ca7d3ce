//! A private cluster: several servers that have joined, with slots and replicas.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Builder, Server, explain, free_port, invalid};
use crate::commands::{
    ClusterCommands, ClusterFailover, ClusterNode, ClusterReset, ServerCommands, SlotMigration, SlotState,
};
use crate::connection::{Config, Connection};
use crate::error::Error;

/// How long the nodes may take to agree on something.
const AGREED_WITHIN: Duration = Duration::from_secs(60);
/// Between two looks at what the nodes say.
const PAUSE: Duration = Duration::from_millis(5);
/// How long a node may take to answer: it writes its file to disk before it does.
const PATIENCE: Duration = Duration::from_secs(30);
/// The setting of a replica that does not take over by itself.
const NO_FAILOVER: &str = "cluster-replica-no-failover";
/// How many slots there are.
const SLOTS: u16 = 16_384;

/// A private cluster of servers, running until this value is dropped. Needs Redis 7.0, Valkey, or later.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// use redefer::prelude::*;
///
/// let cluster = redefer::testing::Cluster::builder().primaries(3).replicas(0).start()?;
/// let owner = cluster.owner(0)?;
/// let conn = Connection::open(cluster.node(owner).url())?;
/// assert!(conn.cluster_info().wait()?.is_ok());
/// # Ok(())
/// # }
/// ```
///
/// Nodes are numbered from 0: first the primaries, which have about as many slots each, then the replicas, one of each primary
/// in turn. A number stays with its node whatever role it takes later, and is not used again when the node is
/// [removed](Cluster::remove_node).
///
/// Each node is a [`Server`] with its own private directory, and all end on drop. See the [module's page](super) for which
/// program is taken.
pub struct Cluster {
    nodes: Vec<Node>,
    builder: ClusterBuilder,
}

struct Node {
    server: Server,
    /// The port for TLS, if that is how nodes talk.
    tls_port: Option<u16>,
    id: String,
    /// It runs, is not paused, and belongs to the cluster.
    up: AtomicBool,
}

impl Node {
    /// The port that other nodes know it by.
    fn port(&self) -> u16 {
        self.tls_port.unwrap_or(self.server.port())
    }

    fn url(&self) -> String {
        self.tls_port.map_or_else(|| self.server.url(), |port| format!("rediss://127.0.0.1:{port}"))
    }
}

/// How to start a [`Cluster`].
#[derive(Debug, Clone)]
#[must_use = "a builder starts nothing before `start` is called"]
pub struct ClusterBuilder {
    primaries: usize,
    replicas: usize,
    node_timeout: Duration,
    program: Option<PathBuf>,
    settings: Vec<(String, String)>,
    password: Option<String>,
    tls: Option<Certificates>,
}

/// The files that nodes need for TLS.
#[derive(Debug, Clone)]
struct Certificates {
    chain: PathBuf,
    key: PathBuf,
    authority: PathBuf,
}

impl Default for ClusterBuilder {
    fn default() -> Self {
        ClusterBuilder {
            primaries: 3,
            replicas: 1,
            node_timeout: Duration::from_secs(2),
            program: None,
            settings: Vec::new(),
            password: None,
            tls: None,
        }
    }
}

impl ClusterBuilder {
    /// How many primaries; 3, if this is not called. With fewer than three no replica can take over by itself.
    pub fn primaries(mut self, primaries: usize) -> Self {
        self.primaries = primaries;
        self
    }

    /// How many replicas each primary has; 1, if this is not called.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// After which time a node that does not answer is taken for down (`cluster-node-timeout`), rounded to milliseconds; 2
    /// seconds, if this is not called. A failover takes about two to three times as long.
    pub fn node_timeout(mut self, time: Duration) -> Self {
        self.node_timeout = time;
        self
    }

    /// Takes this program instead of the first one found.
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = Some(path.into());
        self
    }

    /// Adds a line to the configuration file of every node: see [`Builder::config`](super::Builder::config).
    pub fn config(mut self, key: impl Into<String>, value: impl fmt::Display) -> Self {
        self.settings.push((key.into(), value.to_string()));
        self
    }

    /// Each node asks for this password (`requirepass`), and gives it to the others. It is not in [`Cluster::urls`]: give it to
    /// the [`Config`](crate::Config) of the client.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Each node has a port for TLS beside the other one, and speaks TLS with the others: a certificate for `127.0.0.1` with its
    /// chain, its private key, and the certificate of whoever vouches for it, all of them files in PEM. Clients need no
    /// certificate. [`Cluster::urls`] then has the ports for TLS.
    ///
    /// The server must have TLS; [`start`](ClusterBuilder::start) fails if it has not.
    pub fn tls(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        authority: impl Into<PathBuf>,
    ) -> Self {
        self.tls = Some(Certificates { chain: certificate.into(), key: key.into(), authority: authority.into() });
        self
    }

    /// Starts the nodes, joins them, hands out the slots, and returns when every node says that the cluster is in order and
    /// has the same idea of it. Takes a second or a few. No replica takes over before.
    ///
    /// # Errors
    ///
    /// Those of [`Server::start`]; [`io::ErrorKind::TimedOut`] when the nodes do not agree within a minute.
    pub fn start(self) -> io::Result<Cluster> {
        if self.primaries == 0 || self.primaries > usize::from(SLOTS) {
            return Err(invalid(format!("a cluster cannot have {} primaries", self.primaries)));
        }
        let mut cluster = Cluster { nodes: Vec::new(), builder: self };
        let (primaries, replicas) = (cluster.builder.primaries, cluster.builder.replicas);
        for index in 0..primaries * (1 + replicas) {
            let node = cluster.launch()?;
            let conn = cluster.open(&node.server)?;
            if cluster.builder.holds_replicas() {
                conn.config_set((NO_FAILOVER, "yes")).wait().map_err(other)?;
            }
            // Before they know each other, so that no two have the same.
            conn.cluster_set_config_epoch(index as u64 + 1).wait().map_err(other)?;
            if index < primaries {
                let bound = |index: usize| (index * usize::from(SLOTS) / primaries) as u16;
                conn.cluster_addslotsrange([bound(index)..=bound(index + 1) - 1]).wait().map_err(other)?;
            }
            if index > 0 {
                cluster.meet(&node)?;
            }
            cluster.nodes.push(node);
        }
        cluster.wait_until_known()?;
        for index in primaries..cluster.nodes.len() {
            cluster.replicate(index, index % primaries)?;
        }
        cluster.wait_until_agreed()?;
        if cluster.builder.holds_replicas() {
            for node in &cluster.nodes {
                cluster.open(&node.server)?.config_set((NO_FAILOVER, "no")).wait().map_err(other)?;
            }
        }
        Ok(cluster)
    }

    /// Whether replicas are kept from taking over while the cluster is put together: on a busy machine a node may be silent for
    /// longer than the timeout, and the replica that is to be given to it would wait for ever.
    fn holds_replicas(&self) -> bool {
        !self.settings.iter().any(|(key, _)| key.eq_ignore_ascii_case(NO_FAILOVER))
    }
}

impl Certificates {
    /// Starts a server that also speaks TLS, and says on which port.
    fn start(&self, builder: &Builder) -> io::Result<(Server, Option<u16>)> {
        let builder = builder
            .clone()
            .config("tls-cert-file", self.chain.display())
            .config("tls-key-file", self.key.display())
            .config("tls-ca-cert-file", self.authority.display())
            .config("tls-auth-clients", "no")
            .config("tls-cluster", "yes")
            .config("tls-replication", "yes");
        let mut tries = 0;
        loop {
            tries += 1;
            let port = free_port()?;
            match builder.clone().config("tls-port", port).start() {
                // Somebody else may have taken it before the server did.
                Err(error) if tries < 5 && error.to_string().contains("Address already in use") => {}
                started => return Ok((started?, Some(port))),
            }
        }
    }
}

impl Cluster {
    /// Starts three primaries with one replica each.
    ///
    /// # Errors
    ///
    /// Those of [`ClusterBuilder::start`].
    pub fn start() -> io::Result<Cluster> {
        Cluster::builder().start()
    }

    /// Settings for a cluster of another size.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::default()
    }

    /// The URLs of all nodes that have not been removed, whether they run or not; of their ports for TLS, if they have them.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().filter(|node| !node.id.is_empty()).map(Node::url).collect()
    }

    /// How many numbers of nodes have been given.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Never: there is at least one node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A node's server. To stop it, use [`kill`](Cluster::kill) and [`pause`](Cluster::pause) of the cluster, which then does
    /// not ask it.
    ///
    /// # Panics
    ///
    /// When there is no node of that number.
    #[must_use]
    pub fn node(&self, index: usize) -> &Server {
        &self.nodes[index].server
    }

    /// A node's ID.
    ///
    /// # Panics
    ///
    /// When there is no node of that number.
    #[must_use]
    pub fn id(&self, index: usize) -> &str {
        &self.nodes[index].id
    }

    /// The number of the node that listens on this port.
    #[must_use]
    pub fn index_of(&self, port: u16) -> Option<usize> {
        self.nodes.iter().position(|node| node.server.port() == port || node.tls_port == Some(port))
    }

    /// The node that has a slot, as the first node that is up sees it.
    ///
    /// # Errors
    ///
    /// Those of asking it; [`io::ErrorKind::NotFound`] when the slot belongs to none.
    pub fn owner(&self, slot: u16) -> io::Result<usize> {
        let nodes = self.view(self.first_up()?)?;
        let owner = nodes.iter().find(|node| node.slots.iter().any(|range| range.contains(&slot)));
        let owner = owner.and_then(|owner| self.nodes.iter().position(|node| node.id == owner.id));
        owner.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("slot {slot} belongs to no node")))
    }

    /// The replicas of a node, as the first node that is up sees it.
    ///
    /// # Errors
    ///
    /// Those of asking it.
    pub fn replicas_of(&self, index: usize) -> io::Result<Vec<usize>> {
        let nodes = self.view(self.first_up()?)?;
        let replicas = nodes.iter().filter(|node| node.primary.as_deref() == Some(&*self.nodes[index].id));
        Ok(replicas.filter_map(|replica| self.nodes.iter().position(|node| node.id == replica.id)).collect())
    }

    // Slots.

    /// Moves a slot to another node key by key, as `redis-cli --cluster reshard` does, and returns when all nodes have heard
    /// of it.
    ///
    /// # Errors
    ///
    /// Those of the commands; [`io::ErrorKind::TimedOut`] when the nodes do not agree within a minute.
    pub fn move_slot(&self, slot: u16, to: usize) -> io::Result<()> {
        let from = self.owner(slot)?;
        if from == to {
            return Ok(());
        }
        self.begin_move(slot, from, to)?;
        while self.move_keys(slot, from, to, 1)? > 0 {}
        self.finish_move(slot, from, to)?;
        self.wait_until_agreed()
    }

    /// Begins to move a slot: from here on the old node answers ASK for keys that it does not have.
    ///
    /// # Errors
    ///
    /// Those of the commands.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) -> io::Result<()> {
        self.set_slot(to, slot, SlotState::importing(&*self.nodes[from].id))?;
        self.set_slot(from, slot, SlotState::migrating(&*self.nodes[to].id))
    }

    /// Says to a node what a slot is to be. Valkey asks its replicas first, and gives up when they are slow.
    fn set_slot(&self, index: usize, slot: u16, state: SlotState) -> io::Result<()> {
        let conn = self.open(&self.nodes[index].server)?;
        self.until("the replicas take what becomes of a slot", || {
            match conn.cluster_setslot(slot, state.clone()).wait() {
                Err(error) if error.code() == Some("NOREPLICAS") => Ok(false),
                outcome => {
                    let explained = |error| explain(other(error), format!("node {index} does not take slot {slot}"));
                    outcome.map(|()| true).map_err(explained)
                }
            }
        })
    }

    /// Moves up to `count` keys of a slot, and says how many there were.
    ///
    /// # Errors
    ///
    /// Those of the commands.
    pub fn move_keys(&self, slot: u16, from: usize, to: usize, count: u64) -> io::Result<usize> {
        let conn = self.open(&self.nodes[from].server)?;
        let keys: Vec<Vec<u8>> = conn.cluster_getkeysinslot(slot, count).wait().map_err(other)?;
        if keys.is_empty() {
            return Ok(0);
        }
        let port = self.nodes[to].port();
        let password = self.builder.password.as_ref().map(|password| ("AUTH", password));
        let how = ((10_000, password), "KEYS");
        let moved = conn.command::<String>("MIGRATE", (("127.0.0.1", port), ("", 0), how, &keys));
        // NOKEY: they were deleted meanwhile.
        moved
            .wait()
            .map_err(|error| explain(other(error), format!("{} keys of slot {slot} did not move", keys.len())))?;
        Ok(keys.len())
    }

    /// Tells all primaries that a slot has moved, the new one first.
    ///
    /// # Errors
    ///
    /// Those of the commands.
    pub fn finish_move(&self, slot: u16, from: usize, to: usize) -> io::Result<()> {
        let others = (0..self.nodes.len()).filter(|index| ![from, to].contains(index));
        for index in [to, from].into_iter().chain(others) {
            if self.is_up(index) && self.is_primary(index)? {
                self.set_slot(index, slot, SlotState::node(&*self.nodes[to].id))?;
            }
        }
        Ok(())
    }

    /// Moves a slot by CLUSTER MIGRATESLOTS, and returns when all nodes have heard of it. Since Valkey 9.0.
    ///
    /// # Errors
    ///
    /// Those of the commands; [`io::ErrorKind::TimedOut`] when the nodes do not agree within a minute.
    pub fn migrate_slot(&self, slot: u16, to: usize) -> io::Result<()> {
        let from = self.owner(slot)?;
        if from == to {
            return Ok(());
        }
        let migration = SlotMigration::new([slot..=slot], &self.nodes[to].id);
        self.open(&self.nodes[from].server)?.cluster_migrateslots([migration]).wait().map_err(other)?;
        self.until("the slot has moved", || Ok(self.owner(slot)? == to))?;
        self.wait_until_agreed()
    }

    // Nodes.

    /// Ends a node at once (SIGKILL).
    pub fn kill(&self, index: usize) {
        self.nodes[index].up.store(false, Ordering::SeqCst);
        self.nodes[index].server.kill();
    }

    /// Starts a node again that was [killed](Cluster::kill); it remembers the cluster, and has no keys until it has them from
    /// its primary.
    ///
    /// # Errors
    ///
    /// Those of [`Server::restart`].
    pub fn restart(&self, index: usize) -> io::Result<()> {
        self.nodes[index].server.restart()?;
        self.nodes[index].up.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Stops a node (SIGSTOP): its connections stay, and nothing is read or answered.
    ///
    /// # Errors
    ///
    /// Those of [`Server::pause`].
    pub fn pause(&self, index: usize) -> io::Result<()> {
        self.nodes[index].up.store(false, Ordering::SeqCst);
        self.nodes[index].server.pause()
    }

    /// Lets a [paused](Cluster::pause) node go on.
    ///
    /// # Errors
    ///
    /// Those of [`Server::resume`].
    pub fn resume(&self, index: usize) -> io::Result<()> {
        self.nodes[index].server.resume()?;
        self.nodes[index].up.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Whether the node runs, is not paused, and has not been removed.
    #[must_use]
    pub fn is_up(&self, index: usize) -> bool {
        self.nodes[index].up.load(Ordering::SeqCst)
    }

    /// Whether the node takes itself for a primary.
    ///
    /// # Errors
    ///
    /// Those of asking it.
    pub fn is_primary(&self, index: usize) -> io::Result<bool> {
        Ok(self.view(index)?.iter().any(|node| node.is_myself() && !node.is_replica()))
    }

    /// Puts a replica in the place of its primary, which takes part in it, and returns when all nodes have heard of it.
    ///
    /// # Errors
    ///
    /// Those of the command; [`io::ErrorKind::TimedOut`] when it has not happened within a minute.
    pub fn fail_over(&self, replica: usize) -> io::Result<()> {
        self.open(&self.nodes[replica].server)?.cluster_failover().wait().map_err(other)?;
        self.until("the replica is a primary", || self.is_primary(replica))?;
        self.wait_until_agreed()
    }

    /// The same without the primary, which may be down (`CLUSTER FAILOVER TAKEOVER`): does not wait for the others to notice.
    ///
    /// # Errors
    ///
    /// Those of [`fail_over`](Cluster::fail_over).
    pub fn take_over(&self, replica: usize) -> io::Result<()> {
        self.open(&self.nodes[replica].server)?
            .cluster_failover_with(ClusterFailover::Takeover)
            .wait()
            .map_err(other)?;
        self.until("the replica is a primary", || self.is_primary(replica))?;
        self.wait_until_agreed()
    }

    /// Starts one more node, a primary without slots, joins it, and returns its number when all know it.
    ///
    /// # Errors
    ///
    /// Those of [`ClusterBuilder::start`].
    pub fn add_node(&mut self) -> io::Result<usize> {
        let node = self.launch()?;
        self.meet(&node)?;
        self.nodes.push(node);
        self.wait_until_known()?;
        self.wait_until_agreed()?;
        Ok(self.nodes.len() - 1)
    }

    /// Makes a node without slots the replica of another one, and returns when it has that one's keys.
    ///
    /// # Errors
    ///
    /// Those of the commands; [`io::ErrorKind::TimedOut`] when it has not happened within a minute.
    pub fn replicate(&self, replica: usize, primary: usize) -> io::Result<()> {
        let conn = self.open(&self.nodes[replica].server)?;
        conn.cluster_replicate(&*self.nodes[primary].id).wait().map_err(other)?;
        self.until("the replica is in step", || {
            let info = conn.info_sections("replication").wait().map_err(other)?;
            Ok(info.get("master_link_status") == Some("up"))
        })
    }

    /// Makes all others forget a node, which should have no slots, and ends it.
    ///
    /// # Errors
    ///
    /// Those of the commands; [`io::ErrorKind::TimedOut`] when the nodes do not agree within a minute.
    pub fn remove_node(&mut self, index: usize) -> io::Result<()> {
        let was_up = self.nodes[index].up.swap(false, Ordering::SeqCst);
        let id = std::mem::take(&mut self.nodes[index].id);
        for node in self.nodes.iter().filter(|node| node.up.load(Ordering::SeqCst)) {
            match self.open(&node.server)?.cluster_forget(&*id).wait() {
                // It has never heard of it, or has been told by another one.
                Err(Error::Server(error)) if error.to_string().contains("nknown node") => {}
                outcome => outcome.map_err(other)?,
            }
        }
        if was_up {
            // Else it would go on telling the others of itself.
            let _ = self.open(&self.nodes[index].server)?.cluster_reset_with(ClusterReset::Hard).wait();
        }
        self.nodes[index].server.kill();
        self.wait_until_agreed()
    }

    /// Returns when all nodes that are up say that the cluster is in order, that every slot belongs to a node that is up, and
    /// have the same idea of who has which slots and who is a replica of whom. So, when a primary was [killed](Cluster::kill)
    /// or [paused](Cluster::pause), this waits until a replica has taken over.
    ///
    /// # Errors
    ///
    /// Those of asking them; [`io::ErrorKind::TimedOut`] when they do not agree within a minute.
    pub fn wait_until_agreed(&self) -> io::Result<()> {
        self.until("all nodes agree", || {
            let mut first: Option<Vec<_>> = None;
            for index in (0..self.nodes.len()).filter(|index| self.is_up(*index)) {
                let conn = self.open(&self.nodes[index].server)?;
                if !conn.cluster_info().wait().map_err(other)?.is_ok() {
                    return Ok(false);
                }
                let mut view: Vec<_> = self
                    .view_of(&conn)?
                    .into_iter()
                    .filter(|node| self.is_member_up(node))
                    .map(|node| (node.id, node.slots, node.primary))
                    .collect();
                view.sort_by(|one, two| one.0.cmp(&two.0));
                let slots = view.iter().flat_map(|node| &node.1).map(ExactSizeIterator::len).sum::<usize>();
                if slots != usize::from(SLOTS) {
                    // A node that is down has some, which a replica has yet to take over.
                    return Ok(false);
                }
                if *first.get_or_insert_with(|| view.clone()) != view {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn is_member_up(&self, node: &ClusterNode) -> bool {
        self.nodes.iter().any(|known| known.id == node.id && known.up.load(Ordering::SeqCst))
    }

    /// All that are up know all that are up.
    fn wait_until_known(&self) -> io::Result<()> {
        let up: Vec<usize> = (0..self.nodes.len()).filter(|index| self.is_up(*index)).collect();
        self.until("all nodes know each other", || {
            for index in &up {
                let view = self.view(*index)?;
                let known = |index: &usize| {
                    let found = view.iter().find(|node| node.id == self.nodes[*index].id);
                    found.is_some_and(|node| node.connected && !node.has_flag("handshake"))
                };
                if !up.iter().all(known) {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn launch(&self) -> io::Result<Node> {
        let mut builder = Server::builder()
            .config("cluster-enabled", "yes")
            .config("cluster-node-timeout", self.builder.node_timeout.as_millis())
            // A replica takes over however long its link was down.
            .config("cluster-replica-validity-factor", 0)
            // Roles change only when a test says so, or a node fails.
            .config("cluster-allow-replica-migration", "no")
            .config("repl-diskless-sync-delay", 0);
        if let Some(program) = &self.builder.program {
            builder = builder.program(program);
        }
        for (key, value) in &self.builder.settings {
            builder = builder.config(key, value);
        }
        if let Some(password) = &self.builder.password {
            builder = builder.config("requirepass", password).config("masterauth", password);
        }
        let (server, tls_port) = match &self.builder.tls {
            None => (builder.start()?, None),
            Some(certificates) => certificates.start(&builder)?,
        };
        let id = self.open(&server)?.cluster_myid().wait().map_err(other)?;
        Ok(Node { server, tls_port, id, up: AtomicBool::new(true) })
    }

    fn meet(&self, node: &Node) -> io::Result<()> {
        let conn = self.open(&self.nodes[self.first_up()?].server)?;
        conn.cluster_meet("127.0.0.1", node.port()).wait().map_err(other)
    }

    fn open(&self, server: &Server) -> io::Result<Connection> {
        let mut config = Config::from_url(&server.url())
            .map_err(other)?
            .client_name("redefer-testing")
            .timeout(PATIENCE)
            .connect_timeout(PATIENCE);
        if let Some(password) = &self.builder.password {
            config = config.password(password);
        }
        Connection::open(config).map_err(other)
    }

    fn first_up(&self) -> io::Result<usize> {
        let up = (0..self.nodes.len()).find(|index| self.is_up(*index));
        up.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no node of the cluster is up"))
    }

    fn view(&self, index: usize) -> io::Result<Vec<ClusterNode>> {
        self.view_of(&self.open(&self.nodes[index].server)?)
    }

    fn view_of(&self, conn: &Connection) -> io::Result<Vec<ClusterNode>> {
        Ok(conn.cluster_nodes().wait().map_err(other)?.to_vec())
    }

    fn until(&self, what: &str, mut is_so: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
        let start = Instant::now();
        while !is_so()? {
            if start.elapsed() > AGREED_WITHIN {
                let views = self.nodes.iter().filter(|node| node.up.load(Ordering::SeqCst));
                let views: Vec<String> = views
                    .filter_map(|node| self.open(&node.server).ok()?.cluster_nodes().wait().ok())
                    .map(|nodes| nodes.iter().map(|node| format!("{}\n", node.text)).collect())
                    .collect();
                let text = format!("not within {AGREED_WITHIN:?}: {what}; the nodes say:\n{}", views.join("\n"));
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports: Vec<u16> = self.nodes.iter().map(|node| node.server.port()).collect();
        f.debug_struct("Cluster").field("ports", &ports).finish_non_exhaustive()
    }
}

fn other(error: Error) -> io::Error {
    io::Error::other(error)
}
