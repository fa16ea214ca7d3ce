//! The turns that threads take when replies come from several nodes, in every order that loom finds: run by `make loom`.
//!
//! The table is the real one; the wire is a few numbers. Even places are of a node that there is a connection to, odd ones of
//! one that a thread has to connect to first. Whoever waits for the sockets when nothing is to come waits until it is woken: if
//! it never is, or somebody sits for ever, loom says so.

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::connection::{Deadline, Want};
use crate::error::{Error, Result};
use crate::shared::turn::{self, Look, Seat, Table, Turn, Wire};

type Reply = u64;

/// Wakes the thread that waits for the sockets.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    there: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.there.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.there.wait(rung).unwrap();
        }
        *rung = false;
    }
}

#[derive(Default)]
struct Fake {
    issued: u64,
    parked: Vec<u64>,
    unwritten: Vec<u64>,
    written: Vec<u64>,
    here: Vec<u64>,
    /// There is a connection to the second node, or a thread makes one.
    up: bool,
    dialling: bool,
    /// The next thread that connects panics, or so many do in vain.
    bomb: bool,
    in_vain: u32,
    /// A thread waits for the sockets.
    watching: bool,
    bell: Arc<Bell>,
    events: u64,
    served: u64,
}

enum Errand {
    Read,
    Wait(Arc<Bell>),
    Dial { bomb: bool },
}

impl Fake {
    fn issue(&mut self, odd: bool) -> u64 {
        let place = self.issued * 2 + u64::from(odd);
        self.issued += 1;
        if odd && !self.up {
            self.parked.push(place)
        } else {
            self.unwritten.push(place)
        }
        place
    }

    fn event(&mut self) {
        self.events += 1;
        if self.watching {
            self.bell.ring();
        }
    }

    fn wants_dial(&self) -> bool {
        !self.up && !self.dialling
    }
}

impl Wire for Fake {
    const IN_ORDER: bool = false;

    type Reply = Reply;
    type Outing = Errand;
    type Back = Errand;

    fn seat() -> Arc<Seat<Reply>> {
        Seat::new()
    }

    fn look(&mut self, want: Want) -> Look<Reply> {
        let Want::Reply(place) = want else { unreachable!("nothing else is wanted here") };
        if self.here.contains(&place) { Look::Here(self.take(place)) } else { Look::NotYet(place) }
    }

    fn take(&mut self, place: u64) -> Reply {
        let before = self.here.len();
        self.here.retain(|here| *here != place);
        assert_eq!(before - 1, self.here.len(), "place {place} is taken once, and when it is here");
        place
    }

    fn turn(&mut self, at: u64) -> Turn {
        if self.here.contains(&at) {
            Turn::Settled
        } else if self.parked.contains(&at) && self.wants_dial() {
            Turn::Rise
        } else {
            Turn::Sit
        }
    }

    fn stirred(&mut self) -> bool {
        std::mem::replace(&mut self.served, self.events) != self.events
    }

    fn breaks(&mut self) -> u64 {
        self.events
    }

    fn is_unwritten(&mut self, at: u64) -> bool {
        self.unwritten.contains(&at)
    }

    fn unwritten(&mut self) -> u64 {
        self.unwritten.len() as u64
    }

    fn flush(&mut self, _: u64) -> bool {
        self.written.append(&mut self.unwritten);
        if self.watching {
            // The replies ring.
            self.bell.ring();
        }
        true
    }

    fn leave(&mut self, deadline: &mut Deadline) -> Result<Errand> {
        deadline.left()?;
        assert!(!self.watching, "two threads wait for the sockets");
        self.watching = true;
        Ok(if self.written.is_empty() { Errand::Wait(self.bell.clone()) } else { Errand::Read })
    }

    fn leave_to_write(&mut self, _: u64, _: &mut Deadline) -> Result<Errand> {
        unreachable!("all is written at once")
    }

    fn leave_aside(&mut self, at: u64, _: bool, deadline: &mut Deadline) -> Result<Option<Errand>> {
        if !(self.parked.contains(&at) && self.wants_dial()) {
            return Ok(None);
        }
        deadline.left()?;
        self.dialling = true;
        Ok(Some(Errand::Dial { bomb: std::mem::take(&mut self.bomb) }))
    }

    fn go(errand: Errand) -> Errand {
        match &errand {
            Errand::Wait(bell) => bell.wait(),
            Errand::Dial { bomb: true } => std::panic::resume_unwind(Box::new("a bomb")),
            Errand::Read | Errand::Dial { bomb: false } => {}
        }
        errand
    }

    fn back(&mut self, back: Errand, _: &mut Deadline) -> Result<()> {
        match back {
            Errand::Read | Errand::Wait(_) => {
                self.watching = false;
                self.here.append(&mut self.written);
                self.event();
            }
            Errand::Dial { .. } => {
                self.dialling = false;
                match self.in_vain.checked_sub(1) {
                    Some(left) => self.in_vain = left,
                    None => {
                        self.up = true;
                        self.written.append(&mut self.parked);
                    }
                }
                self.event();
            }
        }
        Ok(())
    }

    fn missing(&mut self, _: turn::Errand) {
        self.dialling = false;
        self.event();
    }
}

fn explore(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(run);
}

fn call(table: &Table<Fake>, odd: bool, deadline: &mut Deadline) -> Result<()> {
    let place = table.visit().wire().issue(odd);
    let reply = table.visit().wait(Want::Reply(place), deadline)?;
    assert_eq!(reply, place, "a reply at the wrong caller");
    Ok(())
}

fn patient() -> Deadline {
    Deadline::new(None)
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
fn threads_of_several_nodes_get_their_replies() {
    explore(|| {
        threads(Fake::default(), 3, |n, table| {
            assert!(call(table, n == 1, &mut patient()).is_ok());
        });
    });
}

#[test]
fn one_of_those_who_wait_for_a_connection_makes_it() {
    explore(|| {
        threads(Fake::default(), 3, |n, table| {
            assert!(call(table, n > 0, &mut patient()).is_ok());
        });
    });
}

#[test]
fn whoever_connects_in_vain_tries_again_or_another_does() {
    explore(|| {
        threads(Fake { in_vain: 1, ..Fake::default() }, 3, |n, table| {
            assert!(call(table, n > 0, &mut patient()).is_ok());
        });
    });
}

#[test]
fn whoever_panics_while_it_connects_leaves_nobody_behind() {
    explore(|| {
        threads(Fake { bomb: true, ..Fake::default() }, 3, |n, table| {
            let call = || call(table, n > 0, &mut patient());
            assert!(!matches!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)), Ok(Err(_))));
        });
    });
}

#[test]
fn whoever_times_out_leaves_nobody_behind() {
    explore(|| {
        threads(Fake::default(), 3, |n, table| {
            // It is over at the second look at it.
            let mut deadline = if n == 2 { Deadline::new(Some(std::time::Duration::ZERO)) } else { patient() };
            let outcome = call(table, n > 0, &mut deadline);
            assert!(outcome.is_ok() || n == 2 && matches!(outcome, Err(Error::Timeout)));
        });
    });
}
