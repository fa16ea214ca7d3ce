//! hiredis is what Debian's libhiredis-dev installs; `scripts/bench.sh` sees to that.

fn main() {
    println!("cargo:rustc-link-lib=hiredis");
    println!("cargo:rerun-if-changed=build.rs");
}
