//! Time, CPU time and memory.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Outcome;

/// Seconds on the clock, and seconds of CPU, user and system, of this process.
#[derive(Clone, Copy, Default)]
pub struct Seconds {
    pub wall: f64,
    pub cpu: f64,
}

pub fn time(run: impl FnOnce() -> Outcome) -> Outcome<Seconds> {
    let (cpu, wall) = (cpu(), Instant::now());
    run()?;
    Ok(Seconds { wall: wall.elapsed().as_secs_f64(), cpu: self::cpu() - cpu })
}

fn cpu() -> f64 {
    cpu_of(libc::RUSAGE_SELF)
}

/// Seconds of CPU of the processes that this one has started and that have ended.
pub fn children_cpu() -> f64 {
    cpu_of(libc::RUSAGE_CHILDREN)
}

fn cpu_of(who: libc::c_int) -> f64 {
    // SAFETY: the structure is plain numbers, and is filled by the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    if values.is_empty() { f64::NAN } else { values[values.len() / 2] }
}

/// Resident memory of this process in KiB: what it is (`VmRSS`) and what it was at most (`VmHWM`).
pub fn memory(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim_start_matches(':').split_ascii_whitespace().next()?.parse().ok()).unwrap_or(f64::NAN)
}

/// Runs this program again for one measurement, and returns the numbers that it prints.
pub fn in_a_child(task: &str, url: &str) -> Outcome<Vec<f64>> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.args(["--child", task, url]).stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{task}: {}", output.status).into());
    }
    let numbers = String::from_utf8(output.stdout)?;
    numbers.split_ascii_whitespace().map(|number| Ok(number.parse()?)).collect()
}
