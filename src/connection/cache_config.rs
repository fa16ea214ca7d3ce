//! How much a cache on a connection keeps, how the server tracks it, and what it has done.

/// How much a cache keeps, and how the server tracks what it has.
///
/// ```
/// use redefer::cache::CacheConfig;
///
/// // Whatever begins like this, whether it has been read or not; and no word about what this connection writes itself.
/// let config = CacheConfig::new().entries(100_000).bytes(64 << 20).broadcast(["user:", "page:"]).no_loop();
/// # let _ = config;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    pub(super) entries: usize,
    pub(super) bytes: usize,
    pub(super) broadcast: bool,
    pub(super) prefixes: Vec<Vec<u8>>,
    pub(super) opt_in: bool,
    pub(super) no_loop: bool,
}

impl CacheConfig {
    /// Up to 10,000 replies and 16 MiB; the server tracks every key that is read.
    #[must_use]
    pub fn new() -> Self {
        CacheConfig {
            entries: 10_000,
            bytes: 16 << 20,
            broadcast: false,
            prefixes: Vec::new(),
            opt_in: false,
            no_loop: false,
        }
    }

    /// How many replies are kept at most. Beyond that those go that were used least recently. With 0 none is kept.
    #[must_use]
    pub fn entries(mut self, entries: usize) -> Self {
        self.entries = entries;
        self
    }

    /// How many bytes are kept at most: commands, keys and replies, and about 256 bytes more for each of them. A reply that is
    /// larger than this alone is not kept.
    #[must_use]
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// The server remembers nothing of what was read, and tells of every change of a key with one of these prefixes; without
    /// a prefix, of every key there is (`BCAST`). Only such keys are kept.
    ///
    /// For caches of many clients, whose tables would be large on the server. The prefixes must not overlap.
    #[must_use]
    pub fn broadcast(mut self, prefixes: impl IntoIterator<Item: AsRef<[u8]>>) -> Self {
        self.broadcast = true;
        self.prefixes = prefixes.into_iter().map(|prefix| prefix.as_ref().to_vec()).collect();
        self
    }

    /// Only replies to commands that are issued on [`Cached::opted_in`](crate::cache::Cached::opted_in) are kept (`OPTIN`). They cost a second command each,
    /// CLIENT CACHING, in the same write.
    #[must_use]
    pub fn opt_in(mut self) -> Self {
        self.opt_in = true;
        self
    }

    /// The server does not tell of what this connection changes itself (`NOLOOP`). The cache knows: a key is forgotten when
    /// a command that may change it is issued. Without [`broadcast`](CacheConfig::broadcast) servers do not tell of a key either
    /// that expires just when this connection asks for it: so it is also forgotten when a reply says that there may be none, and
    /// commands that look at keys they do not name, such as SCAN, RANDOMKEY and `eval_ro`, empty the cache.
    #[must_use]
    pub fn no_loop(mut self) -> Self {
        self.no_loop = true;
        self
    }

    /// The command that turns tracking on.
    pub(super) fn tracking(&self) -> Vec<&[u8]> {
        let mut words: Vec<&[u8]> = vec![b"CLIENT", b"TRACKING", b"ON"];
        if self.broadcast {
            words.push(b"BCAST");
        }
        for prefix in &self.prefixes {
            words.extend([&b"PREFIX"[..], prefix]);
        }
        if self.opt_in {
            words.push(b"OPTIN");
        }
        if self.no_loop {
            words.push(b"NOLOOP");
        }
        words
    }
}

impl Default for CacheConfig {
    fn default() -> Self {
        CacheConfig::new()
    }
}

/// What a cache has done, and what it has now: see [`Cached::cache_stats`](crate::cache::Cached::cache_stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Commands that were answered from memory.
    pub hits: u64,
    /// Commands whose reply would have been kept, and was not there.
    pub misses: u64,
    /// Replies that are kept now.
    pub entries: u64,
    /// About how many bytes of memory they take now.
    pub bytes: u64,
    /// Keys that the server has said are changed.
    pub invalidations: u64,
    /// Replies that had to go because there were too many.
    pub evictions: u64,
    /// How often everything was forgotten: the server has said that all keys are changed, or the connection was lost.
    pub flushes: u64,
}

impl CacheStats {
    /// Hits among all commands that could have been one, from 0 to 1; 0 when there was none.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        let calls = self.hits + self.misses;
        if calls == 0 { 0.0 } else { self.hits as f64 / calls as f64 }
    }
}
