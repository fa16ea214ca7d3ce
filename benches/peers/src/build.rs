//! Clean release builds of a program that depends on redefer, and of one that depends on the `redis` crate.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::measure::{children_cpu, median, time};

pub fn run(rounds: usize) -> Outcome {
    let dir = std::env::temp_dir().join(format!("redefer-build-{}", std::process::id()));
    let measured = measure(&dir, rounds);
    fs::remove_dir_all(&dir)?;
    measured
}

fn measure(dir: &Path, rounds: usize) -> Outcome {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let packages = [("redefer", format!("redefer = {{ path = {here:?} }}")), ("redis", String::from("redis = \"1\""))];
    for (name, dependency) in &packages {
        let package = dir.join(name);
        fs::create_dir_all(package.join("src"))?;
        let head =
            "[package]\nname = \"built\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n";
        fs::write(package.join("Cargo.toml"), format!("{head}{dependency}\n"))?;
        fs::write(package.join("src/main.rs"), "fn main() {}\n")?;
        cargo(&package, &["fetch"])?;
    }
    // In turns, so that what else the machine does bears on both.
    let mut seconds = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for ((name, _), seconds) in packages.iter().zip(&mut seconds) {
            let package = dir.join(name);
            let target = package.join("target");
            if target.exists() {
                fs::remove_dir_all(&target)?;
            }
            let before = children_cpu();
            let spent = time(|| cargo(&package, &["build", "--release", "--offline"]))?;
            seconds.push((spent.wall, children_cpu() - before));
        }
    }
    println!("\nClean release build, default features, medians of {rounds}");
    println!("  {:<34} {:>8} {:>8} {:>8}", "", "seconds", "CPU s", "crates");
    for ((name, _), seconds) in packages.iter().zip(&seconds) {
        let lock = fs::read_to_string(dir.join(name).join("Cargo.lock"))?;
        // Those of other platforms included.
        let crates = lock.matches("[[package]]").count() - 1;
        let (wall, cpu) = (median(seconds.iter().map(|s| s.0)), median(seconds.iter().map(|s| s.1)));
        println!("  {name:<34} {wall:>8.1} {cpu:>8.1} {crates:>8}");
    }
    Ok(())
}

fn cargo(package: &Path, arguments: &[&str]) -> Outcome {
    let mut cargo = Command::new("cargo");
    let target = package.join("target");
    let status = cargo.args(arguments).arg("--quiet").current_dir(package).env("CARGO_TARGET_DIR", target).status()?;
    if status.success() { Ok(()) } else { Err(format!("cargo {}: {status}", arguments[0]).into()) }
}
