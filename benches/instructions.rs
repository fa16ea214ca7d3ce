//! Instructions per command, and per message of a subscriber, counted by callgrind.
//!
//! ```text
//! cargo bench --features testing --bench instructions              # the table; fails if a limit is exceeded
//! cargo bench --features testing --bench instructions -- get       # the rows whose name contains `get`
//! cargo bench --features testing --bench instructions -- --profile set    # and where the instructions go
//! ```
//!
//! Each row is run twice in a process of its own under `valgrind --tool=callgrind`, with few and with many repetitions,
//! and the difference of the two counts is divided by that of the commands, so that start, connect and first
//! allocations cancel. The server is another process and is not counted. What is left to chance is in how many pieces
//! the replies arrive: each read costs a few hundred instructions, which is why the lower of two measurements is taken.
//!
//! This is a runner of its own and not one made with gungraun, because what is wanted is one number per command beside
//! its limit: gungraun prints the events of a whole benchmark function, compares runs and not two lengths of one run,
//! and needs a second program to be installed in the version of the library. This needs valgrind.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use redefer::cluster::{Cluster, ClusterReply};
use redefer::prelude::*;
use redefer::pubsub::{EventRef, Subscriber};
use redefer::testing::Server;

type Failure = Box<dyn std::error::Error>;

const KEY: &str = "somemediumkey2";
const VALUE: &str = "somemediumvalue";
const HASH: &str = "somemediumhash";
const LIST: &str = "somemediumlist";
const CHANNEL: &str = "somemediumchannel";
/// Elements of the list, of 26 bytes each.
const ELEMENTS: usize = 10_000;

/// One row of the table.
struct Row {
    name: &'static str,
    /// Commands that are outstanding at once; of the list's rows, elements; of a subscriber's, messages that are published
    /// by one script.
    window: usize,
    /// The most instructions that one may cost.
    limit: Option<u64>,
    run: Run,
}

/// What is measured, on what.
enum Run {
    Commands(fn(&Connection, usize) -> redefer::Result<()>),
    Messages(fn(&Subscriber, usize) -> redefer::Result<()>),
    Routed(fn(&Cluster, usize) -> redefer::Result<()>),
}

const fn row(name: &'static str, window: usize, limit: u64, run: fn(&Connection, usize) -> redefer::Result<()>) -> Row {
    Row { name, window, limit: if limit == 0 { None } else { Some(limit) }, run: Run::Commands(run) }
}

const fn messages(name: &'static str, window: usize, run: fn(&Subscriber, usize) -> redefer::Result<()>) -> Row {
    Row { name, window, limit: None, run: Run::Messages(run) }
}

/// A row on a cluster of three nodes.
const fn routed(name: &'static str, window: usize, limit: u64, run: fn(&Cluster, usize) -> redefer::Result<()>) -> Row {
    Row { name, window, limit: Some(limit), run: Run::Routed(run) }
}

const ROWS: &[Row] = &[
    row("SET", 256, 200, set),
    row("SET", 4096, 200, set),
    row("GET into String", 256, 420, get),
    row("GET into String", 4096, 420, get),
    row("GET into Vec<u8>", 256, 0, get_bytes),
    row("PING", 256, 110, ping),
    row("PING", 4096, 110, ping),
    row("INCR", 256, 0, incr),
    row("SET, one at a time", 1, 0, set),
    row("SET, a ring of handles", 256, 0, set_ring),
    row("SET dropped", 256, 220, set_dropped),
    row("SET detached", 256, 220, set_detached),
    row("SET detached", 4096, 220, set_detached),
    row("SET in a batch", 256, 220, set_in_a_batch),
    row("SET in a batch", 4096, 220, set_in_a_batch),
    row("SET in a transaction", 256, 600, set_in_a_transaction),
    row("SET in a transaction", 4096, 600, set_in_a_transaction),
    row("SET waited for in reverse", 256, 900, set_in_reverse),
    row("SET waited for in reverse", 4096, 900, set_in_reverse),
    row("HGETALL of 10 fields, HashMap", 256, 0, hgetall_map),
    row("HGETALL of 10 fields, Vec", 256, 0, hgetall_vec),
    row("LRANGE into String, an element", ELEMENTS, 0, lrange_strings),
    row("LRANGE into Vec<String>, an element", ELEMENTS, 0, lrange_collected),
    row("LRANGE for_each_bytes, an element", ELEMENTS, 0, lrange_bytes),
    messages("message, for_each", 256, messages_lent),
    messages("message, for_each", 4096, messages_lent),
    messages("message, next", 256, messages_owned),
    messages("message, next", 4096, messages_owned),
    messages("message, next, payload as String", 4096, messages_as_strings),
    routed("SET on a cluster", 256, 690, routed_set),
    routed("SET on a cluster", 4096, 690, routed_set),
    routed("GET into String on a cluster", 256, 930, routed_get),
    routed("SET on a cluster, detached", 256, 650, routed_set_detached),
    routed("SET on a cluster, in reverse", 256, 1020, routed_set_in_reverse),
];

/// Keys of different nodes, as long as the one of the other rows.
const KEYS: [&str; 8] = [
    "somemediumkey2",
    "somemediumkey3",
    "somemediumkey4",
    "somemediumkey5",
    "somemediumkey6",
    "somemediumkey7",
    "somemediumkey8",
    "somemediumkey9",
];

#[inline(never)]
fn routed_set(cluster: &Cluster, window: usize) -> redefer::Result<()> {
    let handles: Vec<_> = (0..window).map(|n| cluster.set(black_box(KEYS[n % 8]), black_box(VALUE))).collect();
    handles.into_iter().try_for_each(ClusterReply::wait)
}

#[inline(never)]
fn routed_get(cluster: &Cluster, window: usize) -> redefer::Result<()> {
    let handles: Vec<_> = (0..window).map(|n| cluster.get::<String>(black_box(KEYS[n % 8]))).collect();
    for handle in handles {
        black_box(handle.wait()?);
    }
    Ok(())
}

#[inline(never)]
fn routed_set_detached(cluster: &Cluster, window: usize) -> redefer::Result<()> {
    for n in 0..window {
        cluster.set(black_box(KEYS[n % 8]), black_box(VALUE)).detach();
    }
    cluster.sync()
}

#[inline(never)]
fn routed_set_in_reverse(cluster: &Cluster, window: usize) -> redefer::Result<()> {
    let handles: Vec<_> = (0..window).map(|n| cluster.set(black_box(KEYS[n % 8]), black_box(VALUE))).collect();
    handles.into_iter().rev().try_for_each(ClusterReply::wait)
}

fn wait_each<T: redefer::FromReply>(handles: &mut Vec<Reply<'_, T>>) -> redefer::Result<()> {
    for handle in handles.drain(..) {
        black_box(handle.wait()?);
    }
    Ok(())
}

/// Issues a window of commands, then waits for each in order; so often.
macro_rules! windows {
    ($($name:ident($conn:ident) -> $type:ty = $command:expr;)*) => {$(
        #[inline(never)]
        fn $name($conn: &Connection, window: usize) -> redefer::Result<()> {
            let mut handles: Vec<Reply<'_, $type>> = Vec::with_capacity(window);
            for _ in 0..window {
                handles.push($command);
            }
            wait_each(&mut handles)
        }
    )*};
}

windows! {
    set(conn) -> () = conn.set(black_box(KEY), black_box(VALUE));
    get(conn) -> String = conn.get(black_box(KEY));
    get_bytes(conn) -> Vec<u8> = conn.get(black_box(KEY));
    ping(conn) -> () = conn.ping();
    incr(conn) -> i64 = conn.incr(black_box("somemediumcounter"));
}

/// The oldest is waited for, a new one is issued: half a window outstanding.
#[inline(never)]
fn set_ring(conn: &Connection, window: usize) -> redefer::Result<()> {
    let mut handles = std::collections::VecDeque::with_capacity(window);
    for _ in 0..window {
        if handles.len() >= window / 2
            && let Some(handle) = handles.pop_front()
        {
            let () = Reply::wait(handle)?;
        }
        handles.push_back(conn.set(black_box(KEY), black_box(VALUE)));
    }
    handles.into_iter().try_for_each(Reply::wait)
}

#[inline(never)]
fn set_dropped(conn: &Connection, window: usize) -> redefer::Result<()> {
    let handles: Vec<_> = (0..window).map(|_| conn.set(black_box(KEY), black_box(VALUE))).collect();
    drop(black_box(handles));
    Ok(())
}

#[inline(never)]
fn set_detached(conn: &Connection, window: usize) -> redefer::Result<()> {
    for _ in 0..window {
        conn.set(black_box(KEY), black_box(VALUE)).detach();
    }
    conn.sync()
}

#[inline(never)]
fn set_in_a_batch(conn: &Connection, window: usize) -> redefer::Result<()> {
    let batch = conn.batch();
    for _ in 0..window {
        batch.set(black_box(KEY), black_box(VALUE));
    }
    batch.finish()
}

#[inline(never)]
fn set_in_a_transaction(conn: &Connection, window: usize) -> redefer::Result<()> {
    let mut handles = Vec::with_capacity(window);
    let tx = conn.transaction();
    for _ in 0..window {
        handles.push(tx.set(black_box(KEY), black_box(VALUE)));
    }
    tx.commit().wait()?;
    handles.into_iter().try_for_each(Queued::wait)
}

#[inline(never)]
fn set_in_reverse(conn: &Connection, window: usize) -> redefer::Result<()> {
    let handles: Vec<_> = (0..window).map(|_| conn.set(black_box(KEY), black_box(VALUE))).collect();
    handles.into_iter().rev().try_for_each(Reply::wait)
}

#[inline(never)]
fn hgetall_map(conn: &Connection, window: usize) -> redefer::Result<()> {
    let handles: Vec<_> = (0..window).map(|_| conn.hgetall::<String, String>(black_box(HASH))).collect();
    for handle in handles {
        black_box(handle.wait::<HashMap<_, _>>()?);
    }
    Ok(())
}

#[inline(never)]
fn hgetall_vec(conn: &Connection, window: usize) -> redefer::Result<()> {
    let handles: Vec<_> = (0..window).map(|_| conn.hgetall::<String, String>(black_box(HASH))).collect();
    for handle in handles {
        black_box(handle.wait::<Vec<_>>()?);
    }
    Ok(())
}

#[inline(never)]
fn lrange_strings(conn: &Connection, _: usize) -> redefer::Result<()> {
    for element in conn.lrange::<String>(black_box(LIST), 0, -1) {
        black_box(element?);
    }
    Ok(())
}

#[inline(never)]
fn lrange_collected(conn: &Connection, _: usize) -> redefer::Result<()> {
    black_box(conn.lrange::<String>(black_box(LIST), 0, -1).wait::<Vec<_>>()?);
    Ok(())
}

#[inline(never)]
fn lrange_bytes(conn: &Connection, _: usize) -> redefer::Result<()> {
    conn.lrange::<String>(black_box(LIST), 0, -1).for_each_bytes(|bytes| {
        black_box(bytes);
    })
}

#[inline(never)]
fn messages_lent(subscriber: &Subscriber, window: usize) -> redefer::Result<()> {
    let mut left = window;
    subscriber.for_each(|event| {
        if let EventRef::Message(message) = event {
            black_box((message.channel(), message.payload()));
            left -= 1;
        }
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
}

#[inline(never)]
fn messages_owned(subscriber: &Subscriber, window: usize) -> redefer::Result<()> {
    for _ in 0..window {
        black_box(subscriber.next()?);
    }
    Ok(())
}

#[inline(never)]
fn messages_as_strings(subscriber: &Subscriber, window: usize) -> redefer::Result<()> {
    for _ in 0..window {
        if let Some(message) = subscriber.next()?.and_then(|event| event.into_message()) {
            black_box(message.payload_as::<String>()?);
        }
    }
    Ok(())
}

/// What the measured process does: `REDEFER_BENCH` has the row, the repetitions and the server.
fn measured(task: &str) -> Result<(), Failure> {
    let mut words = task.split(' ');
    let mut word = || words.next().ok_or("REDEFER_BENCH: row repetitions url");
    let (row, repetitions, url) = (word()?.parse::<usize>()?, word()?.parse::<usize>()?, word()?);
    let row = &ROWS[row];
    match row.run {
        Run::Commands(run) => {
            let conn = Connection::open(url)?;
            (0..repetitions).try_for_each(|_| run(&conn, row.window))?;
        }
        Run::Messages(run) => {
            let conn = Connection::open(url)?;
            let subscriber = Subscriber::open(url)?;
            subscriber.subscribe(CHANNEL).wait()?;
            // One command for all messages of a window, which weighs little beside them.
            let publish = "for _ = 1, ARGV[1] do redis.call('PUBLISH', KEYS[1], ARGV[2]) end";
            for _ in 0..repetitions {
                conn.eval::<Option<i64>>(publish, CHANNEL, (row.window, VALUE)).wait()?;
                run(&subscriber, row.window)?;
            }
        }
        Run::Routed(run) => {
            let cluster = Cluster::open(url)?;
            (0..repetitions).try_for_each(|_| run(&cluster, row.window))?;
        }
    }
    Ok(())
}

fn main() -> Result<ExitCode, Failure> {
    if let Ok(task) = env::var("REDEFER_BENCH") {
        measured(&task)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (options, filters): (Vec<String>, Vec<String>) = env::args().skip(1).partition(|arg| arg.starts_with("--"));
    let profile = options.iter().any(|option| option == "--profile");

    let server = Server::start()?;
    let conn = Connection::open(server.url())?;
    conn.set(KEY, VALUE).wait()?;
    for n in 0..10 {
        conn.hset(HASH, (format!("field{n}"), format!("{VALUE}{n}"))).wait()?;
    }
    conn.rpush(LIST, vec!["abcdefghijklmnopqrstuvwxyz"; ELEMENTS]).wait()?;
    let nodes = redefer::testing::Cluster::builder().replicas(0).start()?;
    let cluster = Cluster::open(nodes.urls())?;
    KEYS.iter().try_for_each(|key| cluster.set(key, VALUE).wait())?;
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("callgrind");
    fs::create_dir_all(&dir)?;

    println!("Instructions per command (callgrind), beside {}", server.name());
    println!("{:<36} {:>6} {:>8} {:>6}", "", "window", "instr.", "limit");
    let mut exceeded = 0;
    for (index, row) in ROWS.iter().enumerate() {
        let name = row.name.to_lowercase();
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(&filter.to_lowercase())) {
            continue;
        }
        // Some 1,000 commands are few and five times as many are many, but at least one window and five.
        let few = (1024 / row.window).max(1);
        let many = few * 5;
        let commands = ((many - few) * row.window) as u64;
        let out = dir.join(format!("{index}.out"));
        let mut lowest = u64::MAX;
        for _ in 0..2 {
            let url = match row.run {
                Run::Routed(_) => nodes.node(0).url(),
                _ => server.url(),
            };
            let short = instructions(index, few, &url, &out)?;
            let long = instructions(index, many, &url, &out)?;
            lowest = lowest.min(long.saturating_sub(short) / commands);
        }
        let verdict = match row.limit {
            Some(limit) if lowest > limit => {
                exceeded += 1;
                format!("{limit:>6}  exceeded")
            }
            Some(limit) => format!("{limit:>6}  ok"),
            None => String::new(),
        };
        println!("{:<36} {:>6} {lowest:>8} {verdict}", row.name, row.window);
        if profile {
            annotate(&out)?;
        }
    }
    if exceeded > 0 {
        println!("{exceeded} over the limit");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs one row under callgrind and returns how many instructions that took in all.
fn instructions(row: usize, repetitions: usize, url: &str, out: &Path) -> Result<u64, Failure> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--dump-instr=no", "--dump-line=yes"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(env::current_exe()?)
        .env("REDEFER_BENCH", format!("{row} {repetitions} {url}"))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("valgrind cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("under valgrind: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let counts = fs::read_to_string(out)?;
    let total = counts.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
    Ok(total.ok_or("callgrind wrote no totals")?.trim().parse()?)
}

/// The functions in which most instructions were counted.
fn annotate(out: &Path) -> Result<(), Failure> {
    let output = Command::new("callgrind_annotate").args(["--auto=no", "--threshold=97"]).arg(out).output()?;
    for line in String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.contains('%')).take(25) {
        println!("    {line}");
    }
    Ok(())
}
