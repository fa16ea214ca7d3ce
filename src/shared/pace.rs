//! Whether a thread that waits yields the processor to the others first.
//!
//! With many threads at the table most of what a call costs is being put to sleep and woken. Both can be saved: a thread that
//! yields before it writes lets the others issue their commands, so that one write and one read do for all; and one that
//! yields before it sits down often finds its reply when it is back. A few threads gain nothing by that. And where the
//! processors are busy with something else a yield is a loss: the kernel lets that run first, for milliseconds. So threads yield
//! when there are many, and for a while do not after a yield that took so long.

use std::time::Duration;

/// So many threads are few.
#[cfg(not(all(loom, test)))]
const FEW: usize = 10;
/// Of the three threads of the model the second and the third yield.
#[cfg(all(loom, test))]
const FEW: usize = 1;

/// A yield that takes longer than this, and a little for each thread that waits, was a loss: the threads have their turns in less,
/// and what else there is to run keeps a processor for longer.
const LONG: Duration = Duration::from_millis(1);
const LONG_EACH: Duration = Duration::from_micros(8);

/// One yield of so many is timed.
const TIMED: u32 = 8;

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
    yields: u32,
    losses: u32,
}

/// A yield that is timed: how many losses there had been when it began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed(u32);

impl Pace {
    pub(super) fn new() -> Self {
        Pace { left: 0, pause: PAUSE, yields: 0, losses: 0 }
    }

    /// Whether a thread yields, when so many wait, itself included. To be asked once in a wait.
    #[inline]
    pub(super) fn yields(&mut self, waiting: usize) -> bool {
        if waiting <= FEW {
            return false;
        }
        let yields = self.left == 0;
        self.left = self.left.saturating_sub(1);
        yields
    }

    /// Whether the next yield is to be timed.
    #[inline]
    pub(super) fn timed(&mut self) -> Option<Timed> {
        self.yields = self.yields.wrapping_add(1);
        // The first one after a loss says whether that is over.
        let timed = self.pause > PAUSE || self.yields.is_multiple_of(TIMED);
        timed.then_some(Timed(self.losses))
    }

    /// Notes how long a yield took, with so many waiting.
    pub(super) fn yielded(&mut self, timed: Timed, took: Duration, waiting: usize) {
        if took <= LONG + LONG_EACH * waiting as u32 {
            self.pause = (self.pause / 2).max(PAUSE);
        } else if timed.0 == self.losses {
            // Those who yielded at the same time lose by the same thing, and count once.
            self.losses = self.losses.wrapping_add(1);
            self.left = self.pause;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LOSS: Duration = Duration::from_millis(3);
    const GAIN: Duration = Duration::from_micros(500);

    fn pause(pace: &mut Pace) -> usize {
        (0..100_000).take_while(|_| !pace.yields(FEW + 1)).count()
    }

    /// A yield that is timed.
    fn timed(pace: &mut Pace) -> Timed {
        (0..).find_map(|_: u32| pace.timed()).expect("one of some")
    }

    fn yielded(pace: &mut Pace, took: Duration) {
        let timed = timed(pace);
        pace.yielded(timed, took, 100);
    }

    #[test]
    fn a_few_threads_never_yield_and_many_do_until_it_is_a_loss() {
        let mut pace = Pace::new();
        for waiting in 0..=FEW {
            assert!(!pace.yields(waiting));
        }
        assert!(pace.yields(FEW + 1));
        yielded(&mut pace, GAIN);
        assert!(pace.yields(1000));
        yielded(&mut pace, LOSS);
        assert!(!pace.yields(1000));
    }

    #[test]
    fn pauses_grow_with_losses_and_shrink_with_gains() {
        let mut pace = Pace::new();
        for waits in [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 16_384] {
            yielded(&mut pace, LOSS);
            assert_eq!(pause(&mut pace), waits);
        }
        yielded(&mut pace, GAIN);
        assert_eq!(pause(&mut pace), 0);
        yielded(&mut pace, LOSS);
        assert_eq!(pause(&mut pace), 8192);
    }

    #[test]
    fn those_who_yielded_at_the_same_time_lose_once() {
        let mut pace = Pace::new();
        let together = [(); 5].map(|()| timed(&mut pace));
        for timed in together {
            pace.yielded(timed, LOSS, 100);
            assert!(pause(&mut pace) <= 64);
        }
        yielded(&mut pace, LOSS);
        assert_eq!(pause(&mut pace), 128);
    }

    #[test]
    fn after_a_loss_every_yield_is_timed() {
        let mut pace = Pace::new();
        assert_eq!((0..64).filter(|_| pace.timed().is_some()).count(), 8);
        yielded(&mut pace, LOSS);
        assert_eq!((0..64).filter(|_| pace.timed().is_some()).count(), 64);
        yielded(&mut pace, GAIN);
        assert_eq!((0..64).filter(|_| pace.timed().is_some()).count(), 8);
    }
}
