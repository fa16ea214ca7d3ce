//! What the memory is used for.

use std::collections::HashMap;

use crate::commands::record::record;
use crate::values::Value;

record! {
    /// What the server's memory is used for, in bytes: the reply of [`memory_stats`](super::ServerCommands::memory_stats).
    ///
    /// Differences, such as `dataset_bytes`, may well be negative on a server with little in it.
    MemoryStats: "statistics of the memory" {
        /// The most that was ever allocated.
        "peak.allocated" peak_allocated: i64,
        /// What is allocated.
        "total.allocated" total_allocated: i64,
        /// What was allocated when the server had started.
        "startup.allocated" startup_allocated: i64,
        /// The replication backlog.
        "replication.backlog" replication_backlog: i64,
        /// What the buffers of all clients that are replicas take.
        "clients.slaves" clients_replicas: i64,
        /// What the buffers of all other clients take.
        "clients.normal" clients_normal: i64,
        /// The links of the cluster's bus. Since 7.0.
        "cluster.links" cluster_links: i64,
        /// The buffers for the append-only file.
        "aof.buffer" aof_buffer: i64,
        /// Scripts that are kept.
        "lua.caches" lua_caches: i64,
        /// Functions. Since 7.0.
        "functions.caches" functions_caches: i64,
        /// All of the above, and the tables of the databases.
        "overhead.total" overhead_total: i64,
        /// How many keys there are in all databases.
        "keys.count" keys_count: i64,
        /// What a key takes on average.
        "keys.bytes-per-key" keys_bytes_per_key: i64,
        /// What the data takes: the total without the overhead.
        "dataset.bytes" dataset_bytes: i64,
        /// The data in percent of what was allocated since the start.
        "dataset.percentage" dataset_percentage: f64,
        /// The total in percent of the peak.
        "peak.percentage" peak_percentage: f64,
        /// What the allocator gave away.
        "allocator.allocated" allocator_allocated: i64,
        /// What is in the allocator's pages that are in use.
        "allocator.active" allocator_active: i64,
        /// What the allocator has in physical memory.
        "allocator.resident" allocator_resident: i64,
        /// `active` by `allocated` of the allocator.
        "allocator-fragmentation.ratio" allocator_fragmentation_ratio: f64,
        /// `active` without `allocated` of the allocator.
        "allocator-fragmentation.bytes" allocator_fragmentation_bytes: i64,
        /// `resident` by `active` of the allocator.
        "allocator-rss.ratio" allocator_rss_ratio: f64,
        /// `resident` without `active` of the allocator.
        "allocator-rss.bytes" allocator_rss_bytes: i64,
        /// The physical memory of the process by that of the allocator.
        "rss-overhead.ratio" rss_overhead_ratio: f64,
        /// The physical memory of the process without that of the allocator.
        "rss-overhead.bytes" rss_overhead_bytes: i64,
        /// The physical memory of the process by what is allocated.
        "fragmentation" fragmentation: f64,
        /// The physical memory of the process without what is allocated.
        "fragmentation.bytes" fragmentation_bytes: i64,
    }
}

impl MemoryStats {
    /// What the tables of each database take, by its number: sizes in bytes by name, such as
    /// `overhead.hashtable.main`.
    #[must_use]
    pub fn databases(&self) -> HashMap<u32, HashMap<String, i64>> {
        let numbered = |(name, value): (&String, &Value)| {
            let number = name.strip_prefix("db.")?.parse().ok()?;
            let items = value.clone().into_vec()?;
            let sizes =
                items.chunks_exact(2).filter_map(|pair| Some((pair[0].as_str()?.to_owned(), pair[1].as_i64()?)));
            Some((number, sizes.collect()))
        };
        self.other.iter().filter_map(numbered).collect()
    }
}
