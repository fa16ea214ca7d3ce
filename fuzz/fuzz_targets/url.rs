//! Any text is a URL or an error, never a panic, and neither the configuration nor the error shows a password.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redefer::Config;

/// Stands where only a password can be, escapes forgotten or not.
const SECRET: &str = "s3cr3t";

fuzz_target!(|text: &str| {
    if let Ok(config) = Config::from_url(text) {
        let one = format!("{:?}", config.clone().password("one"));
        let other = format!("{:?}", config.password("another"));
        assert_eq!(one, other, "Debug depends on the password");
    }
    if text.contains(SECRET) {
        return;
    }
    for url in [
        format!("redis://user:{SECRET}{text}"),
        format!("redis://:{text}{SECRET}@host"),
        format!("unix://user:{SECRET}{text}"),
        format!("unix://:{text}{SECRET}@/run/redis.sock"),
    ] {
        let shown = format!("{:?}", Config::from_url(&url));
        assert!(!shown.contains(SECRET), "{url:?} shows its password: {shown}");
    }
});
