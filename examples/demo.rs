//! What `make demo` runs: one job done in five ways and one list read in three, with what each costs, then the promise
//! that no handle ever sees the reply of another one.
//!
//! The server is a private one, started here and ended on return. All counts are from `Connection::stats`.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use redefer::commands::{Handle, PauseMode};
use redefer::testing::Server;
use redefer::{Protocol, Result, Stats, WaitError, prelude::*};

/// The job: so many visits of a web page, four commands each. All handles at once stay below `max_outstanding`.
const VISITS: i64 = 15_000;
const COMMANDS: i64 = 4 * VISITS;
/// Visits in the ring: 256 handles.
const RING: usize = 64;
/// Visits in a transaction: 1,000 commands.
const IN_TRANSACTION: i64 = 250;
const ELEMENTS: usize = 1_000_000;
const PAGE: &str = "<html><body>The page that every visitor gets to see.</body></html>";
const BAR: usize = 24;

/// The handles of one visit, on a connection, a batch or a transaction alike.
type Visit<C> =
    (<C as Execute>::Reply<()>, <C as Execute>::Reply<String>, <C as Execute>::Reply<i64>, <C as Execute>::Reply<i64>);

/// Issues the four commands of a visit and waits for none.
fn visit<C: StringCommands + ListCommands + Copy>(on: C, n: i64) -> Visit<C> {
    (on.set(format!("session:{n}"), "active"), on.get("page"), on.incr("visits"), on.rpush("log", n))
}

/// Waits for the four replies of the `n`th visit and looks at each.
fn check<S, P, N>((saved, page, count, logged): (S, P, N, N), n: i64) -> Result<()>
where
    S: Handle<()>,
    P: Handle<String>,
    N: Handle<i64>,
{
    saved.wait()?;
    assert_eq!(page.wait()?, PAGE);
    assert_eq!(count.wait()?, n);
    assert_eq!(logged.wait()?, n);
    Ok(())
}

fn plain(conn: &Connection) -> Result<()> {
    for n in 1..=VISITS {
        conn.set(format!("session:{n}"), "active").wait()?;
        assert_eq!(conn.get::<String>("page").wait()?, PAGE);
        assert_eq!(conn.incr("visits").wait()?, n);
        assert_eq!(conn.rpush("log", n).wait()?, n);
    }
    Ok(())
}

fn kept(conn: &Connection) -> Result<()> {
    let visits: Vec<_> = (1..=VISITS).map(|n| visit(conn, n)).collect();
    visits.into_iter().zip(1..).try_for_each(|(visit, n)| check(visit, n))
}

fn ring(conn: &Connection) -> Result<()> {
    let mut ring = VecDeque::with_capacity(RING);
    for n in 1..=VISITS {
        if ring.len() == RING {
            let (n, oldest): (i64, Visit<&Connection>) = ring.pop_front().expect("it is full");
            check(oldest, n)?;
        }
        ring.push_back((n, visit(conn, n)));
    }
    ring.into_iter().try_for_each(|(n, visit)| check(visit, n))
}

fn batch(conn: &Connection) -> Result<()> {
    let batch = conn.batch();
    for n in 1..=VISITS {
        visit(&batch, n); // dropped: its errors would be told by `finish`
    }
    let visits = batch.get::<i64>("visits");
    batch.finish()?;
    assert_eq!(visits.wait()?, VISITS);
    Ok(())
}

fn transactions(conn: &Connection) -> Result<()> {
    for first in (1..=VISITS).step_by(IN_TRANSACTION as usize) {
        let tx = conn.transaction();
        let visits: Vec<_> = (first..first + IN_TRANSACTION).map(|n| visit(&tx, n)).collect();
        tx.commit().wait()?;
        visits.into_iter().zip(first..).try_for_each(|(visit, n)| check(visit, n))?;
    }
    Ok(())
}

/// What one way of doing something has cost.
struct Measured {
    name: &'static str,
    code: &'static str,
    time: Duration,
    /// Counters before and after.
    stats: (Stats, Stats),
    /// The most memory that this process held meanwhile, in MiB.
    peak: Option<f64>,
}

impl Measured {
    fn count(&self, field: impl Fn(&Stats) -> u64) -> u64 {
        field(&self.stats.1) - field(&self.stats.0)
    }

    /// How often the connection stood waiting for the server.
    fn round_trips(&self) -> u64 {
        self.count(|stats| stats.round_trips)
    }

    fn per_second(&self, number: f64) -> f64 {
        number / self.time.as_secs_f64()
    }
}

type Way = fn(&Connection) -> Result<()>;

fn measure(conn: &Connection, name: &'static str, code: &'static str, way: Way) -> Result<Measured> {
    if io::stderr().is_terminal() {
        eprint!("running: {name}");
    }
    let reset = fs::write("/proc/self/clear_refs", "5"); // the peak is measured anew
    let (before, start) = (conn.stats(), Instant::now());
    way(conn)?;
    let (time, after) = (start.elapsed(), conn.stats());
    let peak = reset.ok().and_then(|()| peak());
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
    Ok(Measured { name, code, time, stats: (before, after), peak })
}

/// The most memory that this process held, in MiB. Nothing where the system does not tell.
fn peak() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?;
    Some(kib.parse::<f64>().ok()? / 1024.0)
}

/// A number with a comma at every thousand.
fn number(n: f64) -> String {
    let digits = format!("{n:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A bar for a share between 0 and 1, in eighths of a character.
fn bar(share: f64) -> String {
    let eighths = ((share * (BAR * 8) as f64).round() as usize).max(1);
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    "█".repeat(eighths / 8) + rest
}

fn trips(row: &Measured) -> String {
    number(row.round_trips() as f64)
}

fn table(unit: &str, replies: f64, rows: &[Measured], show_peak: bool) {
    let mib = |bytes: u64| format!("{:.2}", bytes as f64 / 1048576.0);
    let last = if show_peak { "peak MiB" } else { "writes" };
    println!("{:30}{last:>12}{:>9}{:>9}{unit:>13}", "                   round trips", "MiB out", "MiB in");
    let fastest = rows.iter().map(|row| row.per_second(replies)).fold(0.0, f64::max);
    for row in rows {
        let peak = row.peak.map_or("unknown".into(), |mib| format!("{mib:.1}"));
        let last = if show_peak { peak } else { number(row.count(|s| s.writes) as f64) };
        println!(
            "{:<19}{:>11}{last:>12}{:>9}{:>9}{:>13}  {}",
            row.name,
            trips(row),
            mib(row.count(|s| s.bytes_written)),
            mib(row.count(|s| s.bytes_read)),
            number(row.per_second(replies)),
            bar(row.per_second(replies) / fastest),
        );
    }
    println!();
    for row in rows {
        println!("  {:<17}{}", row.name, row.code);
    }
    println!();
}

fn job(conn: &Connection) -> Result<Vec<Measured>> {
    let ways: [(&str, &str, Way); 5] = [
        ("plain calls", "conn.set(k, v).wait()?;  a round trip for each", plain),
        ("handles kept", "let r = conn.set(k, v);  … all issued …  r.wait()?;  the same calls", kept),
        ("ring of 256", "oldest.wait()?; ring.push(conn.set(k, v));  bounded, for streams of work", ring),
        ("batch", "batch.set(k, v);  … batch.finish()?;  results not kept, errors told at the end", batch),
        ("transactions", "tx.set(k, v);  … tx.commit().wait()?;  MULTI … EXEC, 1,000 commands in each", transactions),
    ];
    let mut rows = Vec::new();
    for (name, code, way) in ways {
        conn.flushall().wait()?;
        conn.set("page", PAGE).wait()?;
        rows.push(measure(conn, name, code, way)?);
        // The same commands have run, whichever way.
        assert_eq!(conn.llen("log").wait()?, VISITS);
        assert_eq!(conn.dbsize().wait()?, VISITS + 3);
    }
    Ok(rows)
}

fn list(conn: &Connection) -> Result<Vec<Measured>> {
    conn.flushall().wait()?;
    let batch = conn.batch();
    for first in (0..ELEMENTS).step_by(1000) {
        batch.rpush("list", args::each((first..first + 1000).map(|n| format!("element number {n:011}"))));
    }
    batch.finish()?;
    let ways: [(&str, &str, Way); 3] = [
        ("bytes, borrowed", "conn.lrange::<Vec<u8>>(k, 0, -1).for_each_bytes(|bytes| …)?;", |conn| {
            let mut bytes = 0;
            conn.lrange::<Vec<u8>>("list", 0, -1).for_each_bytes(|element| bytes += element.len())?;
            assert_eq!(bytes, 26 * ELEMENTS);
            Ok(())
        }),
        ("one by one", "for element in conn.lrange::<String>(k, 0, -1) { let element = element?; … }", |conn| {
            let mut bytes = 0;
            for element in conn.lrange::<String>("list", 0, -1) {
                bytes += element?.len();
            }
            assert_eq!(bytes, 26 * ELEMENTS);
            Ok(())
        }),
        ("all at once", "let all: Vec<String> = conn.lrange(k, 0, -1).wait()?;", |conn| {
            let all: Vec<String> = conn.lrange("list", 0, -1).wait()?;
            assert_eq!(all.iter().map(String::len).sum::<usize>(), 26 * ELEMENTS);
            Ok(())
        }),
    ];
    ways.into_iter().map(|(name, code, way)| measure(conn, name, code, way)).collect()
}

/// The beginning of an error.
fn short(error: &Error) -> String {
    let text = error.to_string();
    if text.len() > 28 { format!("{text:.27}…") } else { text }
}

fn promise(conn: &Connection, server: &Server) -> Result<()> {
    println!("No handle ever sees the reply of another one:\n");
    conn.flushall().wait()?;
    conn.mset([("text", "hello"), ("a", "1"), ("b", "2"), ("c", "3")]).wait()?;

    let (a, wrong, b) = (conn.get::<i64>("a"), conn.incr("text"), conn.get::<i64>("b"));
    let error = wrong.wait().expect_err("text is no number");
    assert_eq!((a.wait()?, b.wait()?), (1, 2));
    println!("  ✓ an error in the middle is that handle's alone:  Ok(1), Err({}), Ok(2)", short(&error));

    let (text, a) = (conn.get::<i64>("text"), conn.get::<i64>("a"));
    let error = text.wait().expect_err("it is no number");
    assert_eq!(a.wait()?, 1);
    println!("  ✓ so is a reply of another type:  Err({}), Ok(1)", short(&error));

    conn.rpush("list", args::each(0..1000)).wait()?;
    let mut list = conn.lrange::<i64>("list", 0, -1);
    let c = conn.get::<i64>("c");
    assert_eq!(list.next().transpose()?, Some(0));
    drop(list);
    assert_eq!(c.wait()?, 3);
    println!("  ✓ a list of 1,000 is given up after its first element; the GET behind it:  Ok(3)");

    std::mem::forget(conn.get::<i64>("a"));
    let (b, c) = (conn.get::<i64>("b"), conn.get::<i64>("c"));
    assert_eq!((c.wait()?, b.wait()?), (3, 2));
    println!("  ✓ one handle is forgotten, two are waited for in reverse:  Ok(3), Ok(2)");

    let other = Connection::open(server.url())?;
    other.client_pause_with(Duration::from_millis(200), PauseMode::All).wait()?;
    let (a, start) = (conn.get::<i64>("a"), Instant::now());
    let Err(WaitError::Timeout(a)) = a.wait_timeout(Duration::from_millis(20)) else { panic!("the server is paused") };
    let gave_up = start.elapsed();
    a.detach();
    assert_eq!(conn.get::<i64>("b").wait()?, 2);
    println!("  ✓ the server stalls: GET a is given up after {gave_up:.0?}; the next, GET b, gets b:  Ok(2)");

    conn.sync()?;
    assert!(!conn.is_broken());
    println!("  ✓ and after all that the connection is in step: {} replies outstanding\n", conn.outstanding());
    Ok(())
}

fn main() -> Result<()> {
    let start = Instant::now();
    let server = Server::start()?;
    let conn = Connection::open(server.url())?;
    let (major, minor, patch) = server.version();
    let protocol = if conn.protocol() == Protocol::Resp3 { "RESP3" } else { "RESP2" };
    println!("redefer on a private {} {major}.{minor}.{patch} at {}, {protocol}\n", server.name(), server.url());

    // First, while the process is small. Shown second.
    let lists = list(&conn)?;

    println!("The same {} commands (SET, GET, INCR, RPUSH) in five ways; bars by speed.", number(COMMANDS as f64));
    println!("A round trip: the connection had written something and stood waiting for the server.\n");
    let rows = job(&conn)?;
    table("replies/s", COMMANDS as f64, &rows, false);

    println!("A list of {} elements of 26 bytes, read in three ways; bars by speed.", number(ELEMENTS as f64));
    println!("\"peak MiB\" is all the memory of this process.\n");
    table("elements/s", ELEMENTS as f64, &lists, true);

    promise(&conn, &server)?;

    let (plain, kept) = (&rows[0], &rows[1]);
    let once = if kept.round_trips() == 1 { "round trip" } else { "round trips" };
    println!("What was seen, in one run of each: calls waited for one by one took {} round trips.", trips(plain));
    println!(
        "The same calls, with their handles kept and waited for later, took {} {once}, and brought\n\
         {:.0} times as many replies per second.",
        trips(kept),
        plain.time.div_duration_f64(kept.time)
    );
    if let [_, Measured { peak: Some(one), .. }, Measured { peak: Some(all), .. }] = lists[..] {
        println!("Read one by one, the list passed through {one:.1} MiB; all at once it took {all:.1} MiB.");
    }
    println!("\nTook {:.1} s. Next: `cargo run --example tour`, README.md,", start.elapsed().as_secs_f64());
    println!("`make doc` (the module `cookbook` has complete programs), `make bench` (beside other clients).");
    Ok(())
}
