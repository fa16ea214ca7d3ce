//! A value that is longer than the memory it may take here: a file of its own, since the peak is that of the process.

#![cfg(all(feature = "testing", target_os = "linux"))]

mod support;

use std::io::{self, Read};

use redefer::{Result, prelude::*};

/// The most memory that this process has had, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_long_value_goes_in_and_out_in_constant_memory() -> Result<()> {
    // `REDEFER_VALUE=536870912` is the longest there is.
    let len = std::env::var("REDEFER_VALUE").map_or(96 << 20, |len| len.parse().unwrap());
    let server = support::server();
    let conn = support::open(&server);
    let before = peak();
    conn.set_from("film", io::repeat(b'x').take(len), len).wait()?;
    assert_eq!(conn.get::<Vec<u8>>("film").copy_to(&mut io::sink())?, len);
    let more = peak() - before;
    assert!(more <= 1024, "{more} KiB");
    conn.sync()
}
