//! The workload of `redis-benchmark`: small commands over fifty connections, one at a time on each or sixteen, beside that
//! program itself.

use std::process::{Command, Stdio};
use std::thread;

use redefer::prelude::*;
use redefer::testing::Server;

use crate::measure::{Seconds, children_cpu, median, time};
use crate::{Outcome, clients};

const CONNECTIONS: usize = 50;
const PIPELINES: [usize; 2] = [1, 16];
/// That of `redis-benchmark`, unless it is told otherwise.
const VALUE: &str = "xxx";

/// What has the commands of its tests.
trait Small: ConnectionCommands + StringCommands + ListCommands {}
impl<E: ConnectionCommands + StringCommands + ListCommands> Small for E {}

/// One of its tests, with its keys.
trait Test: Copy + Send {
    /// As `redis-benchmark` calls it.
    const NAME: &'static str;
    const WORDS: &'static [&'static str];
    type Reply: FromReply;

    fn issue<E: Small>(self, on: E) -> E::Reply<Self::Reply>;
}

macro_rules! tests {
    ($($test:ident $name:literal [$($word:expr),+] $reply:ty, |$on:ident| $issue:expr;)+) => {
        $(
            #[derive(Clone, Copy)]
            struct $test;

            impl Test for $test {
                const NAME: &'static str = $name;
                const WORDS: &'static [&'static str] = &[$($word),+];
                type Reply = $reply;

                fn issue<E: Small>(self, $on: E) -> E::Reply<$reply> {
                    $issue
                }
            }
        )+

        pub fn run(server: &Server, rounds: usize, commands: usize) -> Outcome {
            for pipeline in PIPELINES {
                println!(
                    "\n{:<44} {:>11} {:>6} {:>11}",
                    format!("{CONNECTIONS} connections, {pipeline} at a time on each"),
                    "commands/s", "times", "CPU s/mill"
                );
                // As long as without a pipeline, about.
                let commands = commands * pipeline.div_ceil(2);
                $(compare($test, server, rounds, commands, pipeline)?;)+
            }
            Ok(())
        }
    };
}

tests! {
    Ping "ping_mbulk" ["PING"] (), |on| on.ping();
    Set "set" ["SET", "key:__rand_int__", VALUE] (), |on| on.set("key:__rand_int__", VALUE);
    Get "get" ["GET", "key:__rand_int__"] Option<String>, |on| on.get("key:__rand_int__");
    Incr "incr" ["INCR", "counter:__rand_int__"] i64, |on| on.incr("counter:__rand_int__");
    Lpush "lpush" ["LPUSH", "mylist", VALUE] i64, |on| on.lpush("mylist", VALUE);
    Lpop "lpop" ["LPOP", "mylist"] Option<String>, |on| on.lpop("mylist");
}

type Client<T> = fn(T, &Server, usize, usize) -> Outcome<Seconds>;

fn compare<T: Test>(test: T, server: &Server, rounds: usize, commands: usize, pipeline: usize) -> Outcome {
    let contenders: [(&str, Client<T>); 5] = [
        ("redis-benchmark", redis_benchmark),
        ("redefer, one thread for all connections", one_thread),
        ("redefer, a thread for each connection", threads),
        ("redefer, 50 threads and one Shared", shared),
        ("redis, a thread for each connection", redis_threads),
    ];
    let witness = Connection::open(server.url())?;
    let mut seconds: Vec<Vec<Seconds>> = vec![Vec::new(); contenders.len()];
    for _ in 0..rounds {
        for ((name, run), seconds) in contenders.iter().zip(&mut seconds) {
            prepare(test, &witness, commands)?;
            let before = calls(&witness, T::WORDS[0])?;
            seconds.push(run(test, server, commands, pipeline)?);
            let done = calls(&witness, T::WORDS[0])? - before;
            if done < commands as u64 {
                return Err(format!("{name}: the server has run {done} {} of {commands}", T::WORDS[0]).into());
            }
        }
    }
    println!("{}", T::NAME);
    let millions = commands as f64 / 1e6;
    for ((name, _), mine) in contenders.iter().zip(&seconds) {
        let times = median(seconds[0].iter().zip(mine).map(|(theirs, mine)| theirs.wall / mine.wall));
        println!(
            "  {name:<42} {:>11.0} {times:>6.2} {:>11.2}",
            millions * 1e6 / median(mine.iter().map(|seconds| seconds.wall)),
            median(mine.iter().map(|seconds| seconds.cpu)) / millions,
        );
    }
    Ok(())
}

/// A list has as many elements as will be taken, and else none.
fn prepare<T: Test>(_: T, witness: &Connection, commands: usize) -> Outcome {
    witness.flushall().wait()?;
    if T::WORDS[0] == "LPOP" {
        let batch = witness.batch();
        for _ in 0..commands.div_ceil(1000) + CONNECTIONS {
            batch.lpush("mylist", [VALUE; 1000]);
        }
        batch.finish()?;
    }
    Ok(())
}

fn calls(witness: &Connection, name: &str) -> Outcome<u64> {
    let stats: String = witness.command("INFO", "commandstats").wait()?;
    let start = format!("cmdstat_{}:calls=", name.to_ascii_lowercase());
    let count = stats.lines().find_map(|line| line.strip_prefix(&*start)?.split(',').next()?.parse().ok());
    Ok(count.unwrap_or(0))
}

/// The real one: its own figure, and the CPU time of its process.
fn redis_benchmark<T: Test>(_: T, server: &Server, commands: usize, pipeline: usize) -> Outcome<Seconds> {
    let cpu = children_cpu();
    let mut command = Command::new("redis-benchmark");
    command.args(["-p", &server.port().to_string(), "-c", &CONNECTIONS.to_string(), "-n", &commands.to_string()]);
    let output = command.args(["-P", &pipeline.to_string(), "-t", T::NAME, "--csv"]).stdin(Stdio::null()).output()?;
    let text = String::from_utf8(output.stdout)?;
    // "test","rps", and latencies since 7.0.
    let rate = text.lines().last().and_then(|line| line.split(',').nth(1)?.trim_matches('"').parse::<f64>().ok());
    let rate = rate.ok_or_else(|| format!("redis-benchmark, {}: {text}", output.status))?;
    Ok(Seconds { wall: commands as f64 / rate, cpu: children_cpu() - cpu })
}

fn connections(server: &Server) -> Outcome<Vec<Connection>> {
    (0..CONNECTIONS).map(|_| Ok(Connection::open(server.url())?)).collect()
}

/// What `redis-benchmark` does, by lazy handles: one thread goes round all connections, waits for what it has issued on each the
/// last time, and issues again.
fn one_thread<T: Test>(test: T, server: &Server, commands: usize, pipeline: usize) -> Outcome<Seconds> {
    let conns = connections(server)?;
    time(|| {
        let mut all: Vec<Vec<Reply<'_, T::Reply>>> = conns.iter().map(|_| Vec::with_capacity(pipeline)).collect();
        for _ in 0..commands.div_ceil(CONNECTIONS * pipeline) {
            for (conn, handles) in conns.iter().zip(&mut all) {
                handles.drain(..).try_for_each(|handle| handle.wait().map(drop))?;
                handles.extend((0..pipeline).map(|_| test.issue(conn)));
                conn.flush()?;
            }
        }
        all.into_iter().flatten().try_for_each(|handle| Ok(handle.wait().map(drop)?))
    })
}

/// Runs so many rounds in each thread.
fn in_threads<C: FnMut() -> Outcome + Send>(rounds: usize, callers: Vec<C>) -> Outcome<Seconds> {
    time(|| {
        thread::scope(|scope| {
            let run = |mut call: C| scope.spawn(move || (0..rounds).all(|_| call().is_ok()));
            let threads: Vec<_> = callers.into_iter().map(run).collect();
            let good = threads.into_iter().all(|thread| thread.join().unwrap_or(false));
            if good { Ok(()) } else { Err("a caller failed".into()) }
        })
    })
}

fn round<T: Test, E: Small + Copy>(test: T, on: E, pipeline: usize) -> Outcome {
    if pipeline == 1 {
        test.issue(on).wait()?;
        return Ok(());
    }
    let handles: Vec<_> = (0..pipeline).map(|_| test.issue(on)).collect();
    handles.into_iter().try_for_each(|handle| Ok(handle.wait().map(drop)?))
}

fn threads<T: Test>(test: T, server: &Server, commands: usize, pipeline: usize) -> Outcome<Seconds> {
    let callers = connections(server)?.into_iter().map(|conn| move || round(test, &conn, pipeline)).collect();
    in_threads(commands.div_ceil(CONNECTIONS * pipeline), callers)
}

fn shared<T: Test>(test: T, server: &Server, commands: usize, pipeline: usize) -> Outcome<Seconds> {
    let shared = &Shared::open(server.url())?;
    let callers = (0..CONNECTIONS).map(|_| move || round(test, shared, pipeline)).collect();
    in_threads(commands.div_ceil(CONNECTIONS * pipeline), callers)
}

fn redis_threads<T: Test>(_: T, server: &Server, commands: usize, pipeline: usize) -> Outcome<Seconds> {
    let mut callers = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut conn = clients::redis_connection(&server.url())?;
        callers.push(move || {
            let command = || {
                let mut command = redis::cmd(T::WORDS[0]);
                command.arg(&T::WORDS[1..]);
                command
            };
            if pipeline == 1 {
                command().query::<redis::Value>(&mut conn)?;
                return Ok(());
            }
            let mut pipe = redis::Pipeline::with_capacity(pipeline);
            for _ in 0..pipeline {
                pipe.add_command(command());
            }
            pipe.query::<Vec<redis::Value>>(&mut conn)?;
            Ok(())
        });
    }
    in_threads(commands.div_ceil(CONNECTIONS * pipeline), callers)
}
