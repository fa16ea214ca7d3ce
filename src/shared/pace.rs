//! Whether a thread that waits yields the processor to the others first.
//!
//! With many threads at the table most of what a call costs is being put to sleep and woken. Both can be saved: a thread that
//! yields before it writes lets the others issue their commands, so that one write and one read do for all; and one that
//! yields before it sits down often finds its reply when it is back. A yield is a loss where the processors are busy with
//! something else: the kernel may let that run first, for milliseconds. A crowd gains even then, and a few threads gain
//! nothing. In between it is tried, and not done for a while when it took long.

use std::time::Duration;

/// So many threads are few.
#[cfg(not(all(loom, test)))]
const FEW: usize = 4;
/// Of the three threads of the model the second and the third yield.
#[cfg(all(loom, test))]
const FEW: usize = 1;

/// More than so many are a crowd.
const CROWD: usize = 32;

/// A yield that takes longer than this, and a little for each thread that waits, was a loss.
const LONG: Duration = Duration::from_micros(50);
const LONG_EACH: Duration = Duration::from_micros(3);

/// For how many waits no yield is tried after a loss: twice as many after each loss, half as many after each gain.
const PAUSE: u32 = 64;
const LONGEST_PAUSE: u32 = 16 * 1024;

/// What the last yields have shown.
#[derive(Debug)]
pub(super) struct Pace {
    /// So many waits are to come without a yield.
    left: u32,
    /// How many it will be after the next loss.
    pause: u32,
}

impl Pace {
    pub(super) fn new() -> Self {
        Pace { left: 0, pause: PAUSE }
    }

    /// Whether a thread yields, when so many wait, itself included. To be asked once in a wait.
    #[inline]
    pub(super) fn yields(&mut self, waiting: usize) -> bool {
        if waiting <= FEW || waiting > CROWD {
            return waiting > CROWD;
        }
        let yields = self.left == 0;
        self.left = self.left.saturating_sub(1);
        yields
    }

    /// Notes how long a yield took, with so many waiting.
    pub(super) fn yielded(&mut self, took: Duration, waiting: usize) {
        if waiting > CROWD {
            return;
        }
        if took <= LONG + LONG_EACH * waiting as u32 {
            self.pause = (self.pause / 2).max(PAUSE);
        } else {
            self.left = self.pause;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LOSS: Duration = Duration::from_millis(3);
    const GAIN: Duration = Duration::from_micros(10);

    fn pause(pace: &mut Pace) -> usize {
        (0..100_000).take_while(|_| !pace.yields(8)).count()
    }

    #[test]
    fn a_few_threads_never_yield_and_a_crowd_always_does() {
        let mut pace = Pace::new();
        for waiting in [0, 1, 2, FEW] {
            assert!(!pace.yields(waiting));
        }
        pace.yielded(LOSS, CROWD + 1);
        assert!(pace.yields(8));
        pace.yielded(LOSS, 8);
        assert!(pace.yields(CROWD + 1));
        assert!(!pace.yields(8));
    }

    #[test]
    fn pauses_grow_with_losses_and_shrink_with_gains() {
        let mut pace = Pace::new();
        for waits in [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 16_384] {
            pace.yielded(LOSS, 8);
            assert_eq!(pause(&mut pace), waits);
        }
        pace.yielded(GAIN, 8);
        assert_eq!(pause(&mut pace), 0);
        pace.yielded(LOSS, 8);
        assert_eq!(pause(&mut pace), 8192);
    }
}
