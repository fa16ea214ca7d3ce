//! redefer beside other clients, in one run on one machine:
//!
//! ```text
//! cargo run --release --manifest-path benches/peers/Cargo.toml                      # everything, in some minutes
//! … -- --rounds 9 --commands 500000 throughput lrange                               # some of it, more exactly
//! ```
//!
//! The parts are `throughput`, `lrange`, `messages`, `cache`, `sending` and `memory`, and `benchmark`, `shared` and `build`, which
//! run only when asked for. Times are medians of the rounds, in each of which every client has its turn; so ratios can be trusted, and
//! seconds only as far as the machine is idle. Each server is
//! private, `redefer::testing::Server`. It shares the processors with the clients, as always on one machine.

mod benchmark;
mod build;
mod cache;
mod clients;
mod hiredis;
mod lrange;
mod measure;
mod memory;
mod messages;
mod sending;
mod shared;
mod throughput;

use redefer::testing::Server;

pub type Failure = Box<dyn std::error::Error>;
pub type Outcome<T = ()> = Result<T, Failure>;

/// The workload of redispp.
pub const KEY: &str = "somemediumkey2";
pub const VALUE: &str = "somemediumvalue";

/// How much is measured.
struct Extent {
    rounds: usize,
    commands: usize,
}

fn main() -> Outcome {
    let mut extent = Extent { rounds: 7, commands: 200_000 };
    let mut parts = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--rounds" => extent.rounds = value()?.parse()?,
            "--commands" => extent.commands = value()?.parse()?,
            // What this program starts itself with, for measurements that need a process of their own.
            "--child" => return child(&value()?, &value()?),
            "throughput" | "lrange" | "messages" | "cache" | "sending" | "memory" | "benchmark" | "shared"
            | "build" => parts.push(arg),
            _ => {
                let known = "throughput, lrange, messages, cache, sending, memory, benchmark, shared, build, --rounds or --commands";
                return Err(format!("{arg}: not {known}").into());
            }
        }
    }
    let server = Server::start()?;
    println!("{} {:?}, medians of {} rounds", server.name(), server.version(), extent.rounds);
    // On a busy machine the client's CPU time is no longer spent while the server works, and every ratio drops.
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let processors = std::thread::available_parallelism()?;
    println!("{processors} processors, load {} at the start", load.split(' ').next().unwrap_or("?"));
    let wanted = |part| parts.is_empty() || parts.iter().any(|given| given == part);
    if wanted("throughput") {
        throughput::run(&server, extent.rounds, extent.commands)?;
    }
    if wanted("lrange") {
        lrange::run(&server, extent.rounds)?;
    }
    if wanted("messages") {
        messages::run(extent.rounds, extent.commands * 5)?;
    }
    if wanted("cache") {
        cache::run(&server, extent.rounds, extent.commands)?;
    }
    if wanted("sending") {
        sending::run(&server, extent.rounds)?;
    }
    if wanted("memory") {
        memory::run(&server)?;
    }
    if parts.iter().any(|part| part == "benchmark") {
        benchmark::run(&server, extent.rounds, extent.commands)?;
    }
    if parts.iter().any(|part| part == "shared") {
        shared::run(&server, extent.rounds)?;
    }
    if parts.iter().any(|part| part == "build") {
        build::run(extent.rounds)?;
    }
    Ok(())
}

fn child(task: &str, url: &str) -> Outcome {
    match task.split_once(':') {
        Some(("lrange", client)) => lrange::child(client, url),
        Some(("messages", task)) => messages::child(task, url),
        Some(("memory", case)) => memory::child(case, url),
        _ => Err(format!("{task}: no such task").into()),
    }
}
