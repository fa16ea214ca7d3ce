//! The turns that threads take, in every order that loom finds: run by `make loom`.
//!
//! The table is the real one; the wire is a few numbers, and a socket where that matters. The server answers what has been
//! written, in order, by the time that a thread has read, and a thread that reads when nothing has been written would never be
//! answered: that fails the model, as does a thread that still waits, be it on its seat or for the socket, when all others have
//! ended.

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::sync::lock;
use super::turn::{Look, Seat, Table, Turn, Wire};
use crate::connection::{Aside, Deadline, Want};
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
    /// A thread sends.
    sending: bool,
    /// The socket did not take all that was sent.
    full: bool,
    /// The connection has broken while a thread sent, and will be when that is back.
    doomed: bool,
    /// What is written goes there, and takes its time.
    socket: Option<Arc<Socket>>,
    /// The next thread that reads panics.
    bomb: bool,
    /// A read brings one reply at most.
    slowly: bool,
    /// Whoever hears of a break calls at this table.
    listener: Option<Arc<Table<Fake>>>,
    aside: Vec<Aside>,
}

/// A narrow socket, to a peer that reads no command before the reply of the one before has been taken.
#[derive(Default)]
struct Socket {
    pipe: Mutex<Pipe>,
    changed: Condvar,
}

#[derive(Default)]
struct Pipe {
    /// So many commands have been written.
    written: u64,
    /// The replies of so many have been taken.
    taken: u64,
    /// A thread is about to take one.
    reading: bool,
}

impl Pipe {
    fn takes_more(&self) -> bool {
        self.written == self.taken
    }

    fn has_a_reply(&self) -> bool {
        self.written > self.taken
    }
}

impl Socket {
    /// Writes up to so many commands, and says how many.
    fn write(&self, count: u64) -> u64 {
        let takes_one = |pipe: &mut Pipe| {
            let takes = pipe.takes_more();
            pipe.written += u64::from(takes);
            takes
        };
        (0..count).take_while(|_| self.change(takes_one)).count() as u64
    }

    fn change<R>(&self, change: impl FnOnce(&mut Pipe) -> R) -> R {
        let changed = change(&mut lock(&self.pipe));
        self.changed.notify_all();
        changed
    }

    /// Waits until there is a reply, or room if that is wanted. There is no clock: a time is over at once. A reply that another
    /// thread is about to take is none, which is as if it was looked at again and again until then.
    fn wait(&self, reading: bool, writing: bool, patient: bool) {
        let mut pipe = lock(&self.pipe);
        while patient && !(pipe.has_a_reply() && (reading || !pipe.reading)) && !(writing && pipe.takes_more()) {
            pipe = self.changed.wait(pipe).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

enum Errand {
    Read {
        until: u64,
    },
    /// Sends so many commands, or what of them the socket takes.
    Send {
        socket: Option<Arc<Socket>>,
        count: u64,
        sent: u64,
    },
    /// Waits for the socket. `reading`: for all, and takes what there is.
    Await {
        socket: Arc<Socket>,
        reading: bool,
        writing: bool,
        patient: bool,
    },
    Panic,
}

impl Fake {
    fn issue(&mut self) -> u64 {
        self.issued += 1;
        self.issued - 1
    }

    /// Writes as much as the socket takes.
    fn write(&mut self) -> bool {
        self.full = false;
        if self.sending {
            return true;
        }
        let Some(socket) = &self.socket else {
            self.flushed = self.issued;
            return true;
        };
        self.flushed += socket.write(self.issued - self.flushed);
        self.flushed == self.issued
    }

    fn break_off(&mut self) {
        if self.away || self.sending {
            // Those who are away know better what has been sent, and what has come.
            self.doomed = true;
            return;
        }
        self.doomed = false;
        self.breaks += 1;
        if let Some(table) = self.listener.clone() {
            self.aside.push(Box::new(move || assert!(call(&table, &mut patient()).is_ok())));
        }
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
    const IN_ORDER: bool = true;

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

    fn turn(&mut self, at: u64) -> Turn {
        if at < self.next { Turn::Settled } else { Turn::Sit }
    }

    fn breaks(&mut self) -> u64 {
        self.breaks
    }

    fn is_unwritten(&mut self, at: u64) -> bool {
        at >= self.flushed && self.flushed < self.issued && !self.doomed
    }

    fn is_sending(&mut self) -> bool {
        self.sending
    }

    fn is_doomed(&mut self) -> bool {
        self.doomed
    }

    fn leave_to_send(&mut self) -> Option<Errand> {
        if self.full {
            return None;
        }
        assert!(!self.sending && self.flushed < self.issued, "two threads send, or there is nothing to send");
        self.sending = true;
        Some(Errand::Send { socket: self.socket.clone(), count: self.issued - self.flushed, sent: 0 })
    }

    fn unwritten(&mut self) -> u64 {
        self.issued - self.flushed
    }

    fn flush(&mut self, _: u64) -> bool {
        self.write()
    }

    fn leave(&mut self, deadline: &mut Deadline) -> Result<Errand> {
        let patient = deadline.left()?.is_none();
        assert!(!self.away, "two threads read");
        assert!(!self.doomed, "a thread reads, and parts of replies may be missing");
        self.away = true;
        if std::mem::take(&mut self.bomb) {
            return Ok(Errand::Panic);
        }
        let writing = self.flushed < self.issued && !self.sending;
        assert!(writing || self.flushed > self.next, "a thread reads, and there is nothing to come");
        if let Some(socket) = self.socket.clone() {
            socket.change(|pipe| pipe.reading = true);
            return Ok(Errand::Await { socket, reading: true, writing, patient });
        }
        Ok(Errand::Read { until: if self.slowly { self.flushed.min(self.next + 1) } else { self.flushed } })
    }

    fn leave_to_write(&mut self, _: u64, deadline: &mut Deadline) -> Result<Errand> {
        let patient = deadline.left()?.is_none();
        let socket = self.socket.clone().expect("without a socket there is always room");
        // Whoever reads may leave, so this ends with a reply as well.
        Ok(Errand::Await { socket, reading: false, writing: true, patient })
    }

    fn go(mut errand: Errand) -> Errand {
        match &mut errand {
            Errand::Read { .. } => {}
            Errand::Send { socket, count, sent } => {
                *sent = socket.as_ref().map_or(*count, |socket| socket.write(*count));
            }
            Errand::Await { socket, reading, writing, patient } => socket.wait(*reading, *writing, *patient),
            Errand::Panic => std::panic::resume_unwind(Box::new("a bomb")),
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
                if breaks == self.breaks && !self.doomed {
                    self.next = self.next.max(until);
                }
            }
            Errand::Send { count, sent, .. } => {
                self.sending = false;
                self.full = sent < count;
                self.flushed += sent;
            }
            Errand::Await { socket, reading, .. } => {
                if reading {
                    self.away = false;
                    self.next = socket.change(|pipe| {
                        (pipe.taken, pipe.reading) = (pipe.written, false);
                        pipe.taken
                    });
                }
                self.write();
            }
            Errand::Panic => {}
        }
        if self.doomed {
            self.break_off();
        }
        Ok(())
    }

    fn missing(&mut self, _: super::turn::Errand) {
        self.away = false;
        self.break_off();
    }

    fn has_aside(&mut self) -> bool {
        !self.aside.is_empty()
    }

    fn aside(&mut self) -> Vec<Aside> {
        std::mem::take(&mut self.aside)
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

fn narrow() -> Fake {
    Fake { socket: Some(Arc::default()), ..Fake::default() }
}

#[test]
fn whoever_writes_to_a_full_socket_is_read_for() {
    explore(|| {
        threads(narrow(), 2, |_, table| {
            for _ in 0..2 {
                assert!(matches!(call(table, &mut patient()), Ok(Ok(_))));
            }
        });
    });
}

#[test]
fn whoever_has_no_time_to_write_leaves_nobody_behind() {
    explore(|| {
        threads(narrow(), 3, |n, table| {
            let mut deadline = if n == 2 { hasty() } else { patient() };
            let outcome = call(table, &mut deadline);
            assert!(matches!(outcome, Ok(Ok(_))) || n == 2 && outcome.is_err());
        });
    });
}

#[test]
fn whoever_hears_of_a_break_may_come_to_the_table() {
    explore(|| {
        let table = Arc::new(Table::new(Fake { breaks_in: Some(1), ..Fake::default() }));
        table.visit().wire().listener = Some(table.clone());
        let other = {
            let table = table.clone();
            thread::spawn(move || assert!(call(&table, &mut patient()).is_ok()))
        };
        assert!(call(&table, &mut patient()).is_ok());
        other.join().expect("no thread panics");
        table.visit().wire().listener = None;
        assert!(table.visit().is_empty());
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
