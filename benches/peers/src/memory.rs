//! What handles, detached commands and streamed lists cost in memory, each in a process of its own.

use redefer::prelude::*;
use redefer::testing::Server;

use crate::measure::{in_a_child, memory};
use crate::{KEY, Outcome, VALUE, lrange};

const HANDLES: usize = 1_000_000;
const DETACHED: usize = 10_000_000;

pub fn run(server: &Server) -> Outcome {
    lrange::fill(server)?;
    let url = server.url();
    Connection::open(url.as_str())?.set(KEY, VALUE).wait()?;
    let grown = |case: &str| -> Outcome<f64> { Ok(in_a_child(&format!("memory:{case}"), &url)?[0]) };
    println!("\nMemory");
    let each = |name: &str, kib: f64| println!("  {name:<66} {:>7.1} bytes each", kib * 1024.0 / HANDLES as f64);
    each("1,000,000 handles of SET held, none waited for, no cap reached", grown("unread")?);
    each("1,000,000 handles of SET held, all replies read and stored", grown("stored")?);
    each("1,000,000 handles of GET held, replies of 15 bytes stored", grown("values")?);
    let peak = |name: &str, kib: f64| println!("  {name:<66} {:>7.2} MiB more at the peak", kib / 1024.0);
    peak("10,000,000 detached SETs", grown("detached")?);
    peak("10,000,000 detached SETs while one old handle is held", grown("held")?);
    peak("LRANGE of 1,000,000 x 26 bytes, iterated", grown("streamed")?);
    Ok(())
}

/// Prints by how many KiB the peak of the resident memory grew.
pub fn child(case: &str, url: &str) -> Outcome {
    let mut config = Config::from_url(url)?;
    if case == "unread" {
        config = config.max_outstanding(2 * HANDLES);
    }
    let conn = Connection::open(config)?;
    // The buffers belong to an idle client.
    for _ in 0..3 {
        let handles: Vec<_> = (0..1000).map(|_| conn.get::<String>(KEY)).collect();
        handles.into_iter().try_for_each(|handle| handle.wait().map(drop))?;
    }
    let idle = memory("VmHWM");
    match case {
        "unread" | "stored" => {
            let mut handles = Vec::with_capacity(HANDLES);
            handles.extend((0..HANDLES).map(|_| conn.set(KEY, VALUE)));
            if case == "stored" {
                conn.sync()?;
            }
            println!("{}", memory("VmHWM") - idle);
            handles.into_iter().for_each(Reply::detach);
        }
        "values" => {
            let mut handles = Vec::with_capacity(HANDLES);
            handles.extend((0..HANDLES).map(|_| conn.get::<String>(KEY)));
            conn.sync()?;
            println!("{}", memory("VmHWM") - idle);
            handles.into_iter().for_each(Reply::detach);
        }
        "detached" | "held" => {
            let held = (case == "held").then(|| conn.get::<String>(KEY));
            for _ in 0..DETACHED {
                conn.set(KEY, VALUE).detach();
            }
            conn.sync()?;
            println!("{}", memory("VmHWM") - idle);
            held.map(Reply::wait).transpose()?;
        }
        "streamed" => {
            for element in conn.lrange::<String>(lrange::LIST, 0, -1) {
                std::hint::black_box(element?);
            }
            println!("{}", memory("VmHWM") - idle);
        }
        _ => return Err(format!("{case}: no such case").into()),
    }
    Ok(())
}
