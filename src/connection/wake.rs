//! How one thread interrupts another that waits for the server: a second descriptor in its poll.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::Socket;

/// What a thread that waits is woken by. Only the thread that reads touches the socket of the connection; the others leave
/// word where it finds it, and [`wake`](Waker::wake).
#[derive(Debug)]
pub(crate) struct Waker {
    /// There is word. Looked at before each wait, so that a byte read too early loses nothing.
    told: AtomicBool,
    platform: platform::Pair,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Waker> {
        Ok(Waker { told: AtomicBool::new(false), platform: platform::Pair::new()? })
    }

    /// Says that there is word. What it is about was put in place before.
    pub(crate) fn wake(&self) {
        if !self.told.swap(true, Ordering::AcqRel) {
            self.platform.tell();
        }
    }

    /// Whether there was word since the last time.
    #[inline]
    pub(crate) fn heard(&self) -> bool {
        self.told.load(Ordering::Acquire) && self.told.swap(false, Ordering::AcqRel)
    }

    /// Waits for at most this long until there is word, or bytes to read from the socket, or if `writing`, room to write. May
    /// return early, so the caller looks at all of it.
    pub(super) fn wait(&self, socket: Option<(&Socket, bool)>, time: Option<Duration>) -> io::Result<()> {
        if self.told.load(Ordering::Acquire) {
            return Ok(());
        }
        self.platform.wait(socket, time)
    }
}

/// A socket that a thread waits for while others use its connection.
pub(crate) struct Watched {
    /// Whose it is, by the number of whoever asked for it.
    pub(crate) of: u16,
    pub(super) socket: Arc<Socket>,
    /// Room to write is of interest as well.
    pub(crate) writing: bool,
    /// There is something to be read or written, or nobody knows.
    pub(crate) ready: Cell<bool>,
}

impl Watched {
    /// Waits for this socket alone, while another thread reads from it. May return early.
    pub(crate) fn wait(&self, time: Option<Duration>) -> io::Result<()> {
        super::stream::await_socket(&self.socket, false, self.writing, time)
    }
}

impl Waker {
    /// The same for several sockets, and notes which of them are ready.
    pub(crate) fn wait_for(&self, sockets: &[Watched], time: Option<Duration>) -> io::Result<()> {
        if self.told.load(Ordering::Acquire) {
            return Ok(());
        }
        self.platform.wait_for(sockets, time)
    }
}

/// A wish of another thread that a read which waits shall end.
#[derive(Debug)]
pub(crate) struct Stop {
    pub(crate) waker: Waker,
    wanted: AtomicBool,
}

impl Stop {
    pub(crate) fn new() -> io::Result<Stop> {
        Ok(Stop { waker: Waker::new()?, wanted: AtomicBool::new(false) })
    }

    /// Ends the read that waits, or else the next one.
    pub(crate) fn stop(&self) {
        self.wanted.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Whether it is wanted.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// The same, and no longer from then on.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        self.is_wanted() && self.wanted.swap(false, Ordering::AcqRel)
    }
}

#[cfg(unix)]
mod platform {
    use std::io::{self, Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use socket2::Socket;

    use super::Watched;

    #[derive(Debug)]
    pub(super) struct Pair {
        near: UnixStream,
        far: UnixStream,
    }

    impl Pair {
        pub(super) fn new() -> io::Result<Pair> {
            let (near, far) = UnixStream::pair()?;
            near.set_nonblocking(true)?;
            far.set_nonblocking(true)?;
            Ok(Pair { near, far })
        }

        pub(super) fn tell(&self) {
            // A pair that is full wakes as well.
            let _ = (&self.far).write(&[0]);
        }

        pub(super) fn wait(&self, socket: Option<(&Socket, bool)>, time: Option<Duration>) -> io::Result<()> {
            let time = time.and_then(|time| Timespec::try_from(time).ok());
            let near = PollFd::new(&self.near, PollFlags::IN);
            let (told, outcome) = match socket {
                None => {
                    let mut fds = [near];
                    let outcome = poll(&mut fds, time.as_ref());
                    (!fds[0].revents().is_empty(), outcome)
                }
                Some((socket, writing)) => {
                    let flags = if writing { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
                    let mut fds = [near, PollFd::new(socket, flags)];
                    let outcome = poll(&mut fds, time.as_ref());
                    (!fds[0].revents().is_empty(), outcome)
                }
            };
            match outcome {
                Err(rustix::io::Errno::INTR) => return Ok(()),
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
            if told {
                self.hear();
            }
            Ok(())
        }

        pub(super) fn wait_for(&self, sockets: &[Watched], time: Option<Duration>) -> io::Result<()> {
            let time = time.and_then(|time| Timespec::try_from(time).ok());
            let mut fds = Vec::with_capacity(1 + sockets.len());
            fds.push(PollFd::new(&self.near, PollFlags::IN));
            for watched in sockets {
                let flags = if watched.writing { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
                fds.push(PollFd::new(&watched.socket, flags));
            }
            match poll(&mut fds, time.as_ref()) {
                Err(rustix::io::Errno::INTR) => return Ok(()),
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
            for (watched, fd) in sockets.iter().zip(&fds[1..]) {
                watched.ready.set(!fd.revents().is_empty());
            }
            if !fds[0].revents().is_empty() {
                self.hear();
            }
            Ok(())
        }

        /// Takes what was told.
        fn hear(&self) {
            let mut bytes = [0; 64];
            while matches!((&self.near).read(&mut bytes), Ok(n) if n == bytes.len()) {}
        }
    }
}

/// Without poll: short waits.
#[cfg(not(unix))]
mod platform {
    use std::io;
    use std::mem::MaybeUninit;
    use std::time::Duration;

    use socket2::Socket;

    use super::Watched;

    const SLICE: Duration = Duration::from_millis(5);

    #[derive(Debug)]
    pub(super) struct Pair;

    impl Pair {
        pub(super) fn new() -> io::Result<Pair> {
            Ok(Pair)
        }

        pub(super) fn tell(&self) {}

        pub(super) fn wait(&self, socket: Option<(&Socket, bool)>, time: Option<Duration>) -> io::Result<()> {
            let slice = time.unwrap_or(SLICE).clamp(Duration::from_millis(1), SLICE);
            let Some((socket, _)) = socket else {
                std::thread::sleep(slice);
                return Ok(());
            };
            let armed = socket.read_timeout()?;
            socket.set_read_timeout(Some(slice))?;
            // Whatever it says, the read that follows says it again.
            let _ = socket.peek(&mut [MaybeUninit::uninit()]);
            socket.set_read_timeout(armed)
        }

        pub(super) fn wait_for(&self, sockets: &[Watched], time: Option<Duration>) -> io::Result<()> {
            std::thread::sleep(time.unwrap_or(SLICE).min(SLICE));
            sockets.iter().for_each(|watched| watched.ready.set(true));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_that_was_left_before_the_wait_ends_it_at_once() -> io::Result<()> {
        let waker = Waker::new()?;
        for _ in 0..1000 {
            waker.wake();
            waker.wake();
            waker.wait(None, None)?;
            assert!(waker.heard());
            assert!(!waker.heard());
        }
        Ok(())
    }

    #[test]
    fn a_thread_that_waits_is_woken_by_another() -> io::Result<()> {
        let waker = Waker::new()?;
        std::thread::scope(|scope| {
            scope.spawn(|| waker.wake());
            while !waker.heard() {
                waker.wait(None, None)?;
            }
            Ok(())
        })
    }
}
