//! A cluster of one's own, with slots that move and a primary that is killed while commands go on.

use std::time::{Duration, Instant};

use redefer::cluster::{Cluster, slot_of};
use redefer::prelude::*;
use redefer::testing;

fn main() -> redefer::Result<()> {
    let nodes = testing::Cluster::builder().node_timeout(Duration::from_secs(1)).start()?;
    println!("three primaries and three replicas: {}", nodes.urls().join(" "));
    let cluster = Cluster::open(nodes.urls())?;

    // Commands for all nodes, outstanding at once.
    let names = ["Ada", "Grace", "Barbara", "Frances"];
    let sets: Vec<_> = names.iter().map(|name| cluster.set(format!("user:{name}"), name)).collect();
    for (set, name) in sets.into_iter().zip(names) {
        set.wait()?;
        let slot = slot_of(format!("user:{name}").as_bytes());
        println!("{name} is in slot {slot}, of node {}", nodes.owner(slot)?);
    }
    let all: Vec<String> = cluster.mget(names.map(|name| format!("user:{name}"))).wait()?;
    assert_eq!(all, names);
    println!("{} keys on all nodes together", cluster.dbsize().wait()?);

    // What belongs together has a tag.
    let tx = cluster.transaction();
    let visits = tx.incr("{user:Ada}:visits");
    tx.set("{user:Ada}:seen", "today");
    tx.commit().wait()?;
    println!("Ada was here {} times", visits.wait()?);

    // A slot moves to another node, and nobody notices.
    let slot = slot_of(b"user:Ada");
    let to = (nodes.owner(slot)? + 1) % 3;
    nodes.move_slot(slot, to)?;
    println!("slot {slot} moved to node {to}; Ada is still {}", cluster.get::<String>("user:Ada").wait()?);
    println!("{} redirects were followed", cluster.stats().redirects);

    // Its primary is killed. What is sent meanwhile waits for the replica to take over; what may have run is told.
    nodes.kill(to);
    let start = Instant::now();
    let mut lost = 0;
    let visits = loop {
        match cluster.incr("{user:Ada}:visits").wait() {
            Ok(visits) => break visits,
            Err(error) if error.is_connection_lost() => lost += 1,
            Err(error) => return Err(error),
        }
    };
    println!("{visits} visits, {:?} after the end of a primary, with {lost} commands lost", start.elapsed());

    // The same cluster for many threads at once.
    let shared = cluster.into_shared()?;
    let before = shared.get::<u64>("{user:Ada}:visits").wait()?;
    std::thread::scope(|scope| {
        let visitors: Vec<_> = (0..50).map(|_| scope.spawn(|| shared.incr("{user:Ada}:visits").wait())).collect();
        visitors.into_iter().try_for_each(|visitor| visitor.join().expect("no thread panics").map(drop))
    })?;
    println!("{} visits by fifty threads", shared.get::<u64>("{user:Ada}:visits").wait()? - before);
    Ok(())
}
