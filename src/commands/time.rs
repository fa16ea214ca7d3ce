//! Times as the servers take them.

use std::time::Duration;

use crate::args::{Arg, ToArg};

/// The shortest time that every server takes as a time: the older ones take 0.001 s for ever.
const SHORTEST: Duration = Duration::from_millis(2);

/// How long a command is to block, as the server will see it: rounded up to whole milliseconds, at least 2 ms, so that
/// no `Duration` becomes the 0 that means for ever. `None` is for ever.
pub(crate) fn block_time(timeout: impl Into<Option<Duration>>) -> Option<Duration> {
    timeout.into().map(|time| whole_millis(time.max(SHORTEST)))
}

/// Rounded up to whole milliseconds.
fn whole_millis(time: Duration) -> Duration {
    let over = time.subsec_nanos() % 1_000_000;
    if over == 0 { time } else { time.saturating_add(Duration::from_nanos(u64::from(1_000_000 - over))) }
}

/// What [`block_time`] gave, in seconds with a fraction; for ever is 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seconds(pub(crate) Option<Duration>);

impl ToArg for Seconds {
    fn to_arg(&self) -> Arg<'_> {
        Arg::Double(self.0.map_or(0.0, |time| time.as_millis() as f64 / 1000.0))
    }
    const DIRECT: bool = true;
}

/// A time in milliseconds, rounded up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Millis(pub(crate) Duration);

impl ToArg for Millis {
    fn to_arg(&self) -> Arg<'_> {
        Arg::Unsigned(u64::try_from(whole_millis(self.0).as_millis()).unwrap_or(u64::MAX))
    }
    const DIRECT: bool = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(timeout: impl Into<Option<Duration>>) -> f64 {
        match Seconds(block_time(timeout)).to_arg() {
            Arg::Double(x) => x,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn no_duration_is_for_ever() {
        assert_eq!(sent(None), 0.0);
        assert_eq!(sent(Duration::ZERO), 0.002);
        assert_eq!(sent(Duration::from_nanos(1)), 0.002);
        assert_eq!(sent(Duration::from_micros(1_999)), 0.002);
        assert_eq!(sent(Duration::from_micros(2_001)), 0.003);
        assert_eq!(sent(Duration::from_millis(50)), 0.05);
        assert_eq!(sent(Some(Duration::from_millis(1_234))), 1.234);
        assert_eq!(sent(Duration::from_secs(86_400 * 365)), 31_536_000.0);
        assert!(sent(Duration::MAX) > 1e19);
        assert_eq!(block_time(Duration::ZERO), Some(SHORTEST));
        assert_eq!(block_time(None), None);
    }

    #[test]
    fn milliseconds_are_rounded_up() {
        for (time, millis) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_millis(7), 7),
            (Duration::from_micros(7_001), 8),
            (Duration::MAX, u64::MAX),
        ] {
            assert_eq!(Millis(time).to_arg(), Arg::Unsigned(millis), "{time:?}");
        }
    }
}
