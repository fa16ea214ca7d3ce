//! The turns that threads take, in every order that loom finds: run by `make loom`.
//!
//! The table is the real one; the wire is a few numbers. The server answers what has been written, in order, by the time
//! that a thread has read, and a thread that reads when nothing has been written would never be answered: that fails the
//! model, as does a thread that is still parked when all others have ended.

use loom::sync::Arc;
use loom::thread;

use super::turn::{Look, Seat, Table, Wire};
use crate::connection::{Deadline, Want};
use crate::error::{Error, Result};

/// The reply of a place, or that it was lost.
type Reply = std::result::Result<u64, ()>;

#[derive(Default)]
struct Fake {
    issued: u64,
    flushed: u64,
    next: u64,
    taken: Vec<u64>,
    /// These places were lost.
    lost: std::ops::Range<u64>,
    breaks: u64,
    /// The first outstanding place survives a break, and is written again.
    keeps: bool,
    /// The reads to come after which the connection breaks.
    breaks_in: Option<u32>,
    /// A thread reads.
    away: bool,
    /// So many writes are taken only in part, and wait for room.
    full: u32,
    /// The next thread that reads panics.
    bomb: bool,
    /// A read brings one reply at most.
    slowly: bool,
}

enum Errand {
    Read { until: u64 },
    Write,
    Panic,
}

impl Fake {
    fn issue(&mut self) -> u64 {
        self.issued += 1;
        self.issued - 1
    }

    fn break_off(&mut self) {
        self.breaks += 1;
        if std::mem::take(&mut self.keeps) && self.next < self.issued {
            self.lost = self.next + 1..self.issued;
            self.flushed = self.next;
        } else {
            self.lost = self.next..self.issued;
            (self.next, self.flushed) = (self.issued, self.issued);
        }
    }
}

impl Wire for Fake {
    type Reply = Reply;
    type Outing = Errand;
    type Back = Errand;

    fn seat() -> Arc<Seat<Reply>> {
        Seat::new()
    }

    fn look(&mut self, want: Want) -> Look<Reply> {
        let (place, at) = match want {
            Want::Reply(place) => (Some(place), place),
            Want::Settled(until) | Want::Written(until) | Want::Room(until) => (None, until - 1),
        };
        match place {
            _ if at >= self.next && !self.lost.contains(&at) => Look::NotYet(at),
            Some(place) => Look::Here(self.take(place)),
            None => Look::Here(Ok(at)),
        }
    }

    fn take(&mut self, place: u64) -> Reply {
        assert!(place < self.next || self.lost.contains(&place), "place {place} was taken before it was read");
        assert!(!self.taken.contains(&place), "place {place} was taken twice");
        self.taken.push(place);
        if self.lost.contains(&place) { Err(()) } else { Ok(place) }
    }

    fn settled(&mut self) -> u64 {
        self.next
    }

    fn breaks(&mut self) -> u64 {
        self.breaks
    }

    fn is_unwritten(&mut self, at: u64) -> bool {
        at >= self.flushed && self.flushed < self.issued
    }

    fn unwritten(&mut self) -> u64 {
        self.issued - self.flushed
    }

    fn flush(&mut self) -> bool {
        if self.full > 0 {
            return false;
        }
        self.flushed = self.issued;
        true
    }

    fn leave(&mut self, deadline: &mut Deadline) -> Result<Errand> {
        deadline.left()?;
        assert!(!self.away, "two threads read");
        self.away = true;
        if std::mem::take(&mut self.bomb) {
            return Ok(Errand::Panic);
        }
        // Else it waits for room as well.
        assert!(self.full > 0 || self.flushed > self.next, "a thread reads, and there is nothing to come");
        Ok(Errand::Read { until: if self.slowly { self.flushed.min(self.next + 1) } else { self.flushed } })
    }

    fn leave_to_write(&mut self, deadline: &mut Deadline) -> Result<Errand> {
        deadline.left()?;
        Ok(Errand::Write)
    }

    fn go(errand: Errand) -> Errand {
        if let Errand::Panic = errand {
            std::panic::resume_unwind(Box::new("a bomb"));
        }
        errand
    }

    fn back(&mut self, back: Errand, _: &mut Deadline) -> Result<()> {
        match back {
            Errand::Read { until } => {
                self.away = false;
                let breaks = self.breaks;
                if let Some(reads) = &mut self.breaks_in {
                    *reads -= 1;
                    if *reads == 0 {
                        self.breaks_in = None;
                        self.break_off();
                    }
                }
                if breaks == self.breaks {
                    self.next = self.next.max(until);
                }
            }
            Errand::Write | Errand::Panic => {}
        }
        if self.full > 0 {
            self.full -= 1;
            self.flush();
        }
        Ok(())
    }

    fn missing(&mut self) {
        self.away = false;
        self.break_off();
    }
}

fn explore(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(run);
}

/// Issues a command and waits for its reply.
fn call(table: &Table<Fake>, deadline: &mut Deadline) -> Result<Reply> {
    let place = table.visit().wire().issue();
    wait(table, place, deadline)
}

fn wait(table: &Table<Fake>, place: u64, deadline: &mut Deadline) -> Result<Reply> {
    let mut visit = table.visit();
    let outcome = visit.wait(Want::Reply(place), deadline);
    if let Ok(Ok(reply)) = outcome {
        assert_eq!(reply, place, "a reply at the wrong caller");
    }
    outcome
}

fn patient() -> Deadline {
    Deadline::new(None)
}

/// It is over at the second look at it.
fn hasty() -> Deadline {
    Deadline::new(Some(std::time::Duration::ZERO))
}

/// So many threads, each with its number.
fn threads(wire: Fake, count: usize, run: impl Fn(usize, &Table<Fake>) + Copy + Send + Sync + 'static) {
    let table = Arc::new(Table::new(wire));
    let others: Vec<_> = (1..count)
        .map(|n| {
            let table = table.clone();
            thread::spawn(move || run(n, &table))
        })
        .collect();
    run(0, &table);
    others.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
    assert!(table.visit().is_empty(), "nobody waits, and nobody is noted to do something");
}

#[test]
fn two_threads_get_their_replies() {
    explore(|| {
        threads(Fake::default(), 2, |_, table| {
            for _ in 0..2 {
                assert!(matches!(call(table, &mut patient()), Ok(Ok(_))));
            }
        });
    });
}

#[test]
fn three_threads_get_their_replies() {
    explore(|| {
        threads(Fake { slowly: true, ..Fake::default() }, 3, |_, table| {
            assert!(matches!(call(table, &mut patient()), Ok(Ok(_))));
        });
    });
}

#[test]
fn whoever_times_out_leaves_nobody_behind() {
    explore(|| {
        threads(Fake { slowly: true, ..Fake::default() }, 3, |n, table| {
            if n == 2 {
                assert!(matches!(call(table, &mut hasty()), Ok(Ok(_)) | Err(Error::Timeout)));
            } else {
                assert!(matches!(call(table, &mut patient()), Ok(Ok(_))));
            }
        });
    });
}

#[test]
fn whoever_panics_while_it_reads_leaves_nobody_behind() {
    explore(|| {
        threads(Fake { bomb: true, ..Fake::default() }, 3, |_, table| {
            let call = || call(table, &mut patient());
            // Those that were lost with it are told, the others go on.
            match std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)) {
                Err(_) | Ok(Ok(_)) => {}
                Ok(Err(error)) => panic!("{error}"),
            }
        });
    });
}

#[test]
fn a_break_is_told_to_all() {
    explore(|| {
        threads(Fake { breaks_in: Some(1), ..Fake::default() }, 3, |_, table| {
            assert!(call(table, &mut patient()).is_ok());
        });
    });
}

#[test]
fn a_break_is_told_to_those_behind_one_that_survives_it() {
    explore(|| {
        threads(Fake { breaks_in: Some(1), keeps: true, ..Fake::default() }, 3, |_, table| {
            assert!(call(table, &mut patient()).is_ok());
        });
    });
}

#[test]
fn whoever_cannot_write_all_leaves_nobody_behind() {
    explore(|| {
        threads(Fake { full: 2, ..Fake::default() }, 3, |n, table| {
            let mut deadline = if n == 2 { hasty() } else { patient() };
            let outcome = call(table, &mut deadline);
            assert!(matches!(outcome, Ok(Ok(_))) || n == 2 && outcome.is_err());
        });
    });
}

#[test]
fn threads_wait_for_more_than_their_replies() {
    explore(|| {
        threads(Fake::default(), 3, |n, table| {
            if n == 2 {
                let mut visit = table.visit();
                let place = visit.wire().issue();
                assert!(visit.wait(Want::Settled(place + 1), &mut patient()).is_ok());
            } else {
                assert!(matches!(call(table, &mut patient()), Ok(Ok(_))));
            }
        });
    });
}
