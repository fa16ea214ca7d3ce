//! How much memory a process takes, for tests that run in one of their own.

use std::process::Command;

use redefer::Result;

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;

/// What the growth of a process may be that should not grow: allocators take memory in steps of their own.
pub const NOISE: u64 = 2 * MIB;

/// Runs `work` in a process of its own, so that no other test's memory is measured.
pub fn alone(work: impl FnOnce() -> Result<()>) -> Result<()> {
    const NAME: &str = "REDEFER_TEST_ALONE";
    let thread = std::thread::current();
    let test = thread.name().expect("tests run in threads named for them");
    if std::env::var(NAME).as_deref() == Ok(test) {
        return work();
    }
    let output = Command::new(std::env::current_exe()?)
        .args([test, "--exact", "--nocapture", "--test-threads=2"])
        .env(NAME, test)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    print!("{text}");
    assert!(output.status.success() && text.contains("1 passed"), "{test} in a process of its own: {text}");
    Ok(())
}

/// A line of this process's status, in bytes.
fn status(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("this runs on Linux");
    let value =
        status.lines().find_map(|text| text.strip_prefix(line)?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    value.expect("a line with a number of kB") * KIB
}

pub fn peak() -> u64 {
    status("VmHWM:")
}

pub fn resident() -> u64 {
    status("VmRSS:")
}

/// How much the peak grows while `work` runs.
pub fn growth(what: &str, work: impl FnOnce() -> Result<()>) -> Result<u64> {
    let before = peak();
    work()?;
    let grown = peak() - before;
    println!("{what}: the peak grew by {} KiB", grown / KIB);
    Ok(grown)
}
