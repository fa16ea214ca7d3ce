//! Dialing again: the policy, and how a connection comes back.

use std::time::{Duration, Instant};

use super::Link;
use super::config::{Endpoint, LONGEST};
use super::deadline::Deadline;
use super::engine::Engine;
use super::events;
use super::lost::Loss;
use super::stream::{SlowTls, Stream};
use crate::error::{Error, Result};

/// Whether a connection that broke is made again, and how patiently: see [`Config::reconnect`](super::Config::reconnect).
///
/// ```
/// use std::time::Duration;
///
/// use redefer::{Config, Reconnect};
///
/// let policy = Reconnect::backoff().attempts(5).max_delay(Duration::from_secs(1));
/// let config = Config::tcp("127.0.0.1", 6379).reconnect(policy);
/// # let _ = config;
/// ```
///
/// # What happens
///
/// When the connection breaks, handles whose command was written, even in part, get
/// [`Error::ConnectionLost`](crate::Error::ConnectionLost): it may have run, and is never sent again, unless its caller
/// has said that it may be, by [`Connection::idempotent`](crate::Connection::idempotent). Commands that were not
/// written yet keep their places and their handles.
///
/// The next call that needs the server dials again, which is a wait, a flush, or a command when much has been gathered: it
/// connects, restores what the old connection had (see below), sends what was kept, and goes on. Nothing happens in between,
/// since there is no thread in the background; commands issued meanwhile are gathered. The first attempt
/// is made at once, later ones after delays that double, each shortened at random by up to half so that many clients do
/// not come back at the same time. When all attempts have failed, the commands that were kept get
/// [`Error::ConnectionLost`](crate::Error::ConnectionLost) too, and the connection rests: waits fail at once until the
/// longest delay has passed, and then one attempt is made for the next of them. The dialing also ends with the time of the
/// wait that it is done for: what was kept is then given up in the same way, with [`Sent::Unsent`](crate::Sent::Unsent) and what the
/// last attempt has met with, except by [`wait_timeout`](crate::Reply::wait_timeout), which gives the handle back. (On a
/// [`Shared`](crate::Shared) only the command of the wait is given up then.)
///
/// An error of the server that another attempt would not change (a wrong password, a user without permission) ends the
/// attempts.
///
/// # What is restored
///
/// | state | after the reconnect |
/// | --- | --- |
/// | protocol | asked for anew, as at the first time |
/// | user and password | those of the last successful AUTH, else asked from [`Config::credentials`](super::Config::credentials), else those of the configuration |
/// | database | that of the last successful SELECT |
/// | client name | that of the last successful CLIENT SETNAME |
/// | READONLY, CLIENT NO-EVICT, CLIENT NO-TOUCH, CLIENT IMPORT-SOURCE, CLIENT CAPA | sent again, if they had succeeded |
/// | WATCH | gone: a transaction on it is [`Error::Aborted`](crate::Error::Aborted), and one that was committed but not sent is lost |
/// | CLIENT TRACKING | refused under such a policy: keys that change while there is no connection would go unnoticed; a `cache::Cached` forgets everything and turns it on again |
/// | scripts, functions | belong to the server and not to the connection |
/// | subscriptions | refused under such a policy; a [`Subscriber`](crate::pubsub::Subscriber) subscribes again |
/// | CLIENT REPLY | refused on every [`Connection`](crate::Connection) |
/// | MONITOR | has a type of its own, [`Monitor`](crate::Monitor), which ends with its connection |
///
/// If one of these commands was on its way when the connection broke, nobody knows whether it succeeded; what was issued
/// behind it and not sent yet is lost with it, rather than run in a wrong database or as a wrong user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconnect {
    attempts: u32,
    first_delay: Duration,
    max_delay: Duration,
}

impl Reconnect {
    /// A connection that broke stays broken; every command from then on is an error. The default.
    #[must_use]
    pub fn never() -> Self {
        Reconnect { attempts: 0, ..Reconnect::backoff() }
    }

    /// Up to 8 attempts, the first at once, the second after up to 50 ms, and then twice as long each time, but at most
    /// 2 s: about 5 s in all.
    #[must_use]
    pub fn backoff() -> Self {
        Reconnect { attempts: 8, first_delay: Duration::from_millis(50), max_delay: Duration::from_secs(2) }
    }

    /// As [`backoff`](Reconnect::backoff), without an end of the attempts: for programs that have nothing better to do than to wait
    /// for their server. A wait still ends with its own time.
    #[must_use]
    pub fn forever() -> Self {
        Reconnect::backoff().attempts(u32::MAX)
    }

    /// How many attempts are made before the commands that were kept are given up. 0 is [`never`](Reconnect::never).
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// The longest delay before the second attempt; before later ones it doubles.
    #[must_use]
    pub fn first_delay(mut self, delay: Duration) -> Self {
        self.first_delay = delay.min(LONGEST);
        self
    }

    /// The longest delay before any attempt, and how long a connection rests after the last one. More than a hundred years is
    /// taken as a hundred years.
    ///
    /// A wait that takes the whole [`Config::timeout`](super::Config::timeout) makes an attempt of its own when half of that has
    /// passed since the last one, also in the middle of a delay, so that it finds a server that has come back. Such an attempt does
    /// not count, and there are 50 ms between two of them. A shorter [`wait_timeout`](crate::Reply::wait_timeout) may end in the
    /// middle of a delay, and so may waits with a timeout of less than 100 ms.
    #[must_use]
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = delay.min(LONGEST);
        self
    }

    pub(crate) fn most(&self) -> u32 {
        self.attempts
    }

    pub(crate) fn is_never(&self) -> bool {
        self.attempts == 0
    }

    /// Whether a connection that was there for so long was more than an attempt.
    pub(crate) fn has_lasted(&self, time: Duration) -> bool {
        time >= self.max_delay
    }

    /// How long to wait after so many attempts have failed.
    fn delay(&self, failed: u32) -> Duration {
        let doubled = match failed {
            0 => return Duration::ZERO,
            _ => self.first_delay.saturating_mul(1 << (failed - 1).min(16)),
        };
        doubled.min(self.max_delay).mul_f64(fastrand::f64().mul_add(0.5, 0.5))
    }
}

impl Default for Reconnect {
    fn default() -> Self {
        Reconnect::never()
    }
}

/// A connection that waits for being made again, be it one of commands or one that listens.
#[derive(Debug)]
pub(crate) struct Down {
    /// Why there is no connection: what broke it, or what the last attempt has met with.
    cause: Error,
    /// How many connections in a row did not bring a single reply.
    failed: u32,
    /// Before this time nothing is tried.
    not_before: Option<Instant>,
    /// When the last attempt had failed.
    since: Instant,
    /// How long the last attempt was given, if that was less than it may take.
    cut: Duration,
}

impl Down {
    pub(crate) fn new(cause: Error, failed: u32, policy: &Reconnect) -> Self {
        Down { cause, failed, not_before: not_before(failed, policy), since: Instant::now(), cut: Duration::ZERO }
    }

    pub(crate) fn cause(&self) -> &Error {
        &self.cause
    }

    pub(crate) fn failed(&self) -> u32 {
        self.failed
    }

    /// How long it is until the next attempt may be made.
    pub(crate) fn pause(&self) -> Duration {
        self.not_before.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()))
    }

    /// The same for waits of so long: half of that after the last attempt there is another one, which is early.
    fn pause_in_wait(&self, time: Option<Duration>) -> Duration {
        let soon = time.and_then(|time| self.since.checked_add((time / 2).max(SOONEST)));
        let left = soon.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        self.pause().min(left)
    }

    /// Whether all attempts have failed: from then on there is one for each time that something is wanted, and none before
    /// the longest delay has passed.
    pub(crate) fn is_resting(&self, policy: &Reconnect) -> bool {
        self.failed >= policy.attempts
    }

    /// An attempt has failed.
    pub(crate) fn fail(&mut self, error: Error, config: &super::Config) {
        let policy = &config.reconnect;
        let hopeless = ends_attempts(&error, config);
        let failed = if hopeless { policy.attempts } else { self.failed.saturating_add(1).min(policy.attempts) };
        *self = Down::new(error, failed, policy);
    }

    /// The same of one that was early, which the policy knows nothing of.
    fn fail_early(&mut self, error: Error, config: &super::Config) {
        if ends_attempts(&error, config) {
            return self.fail(error, config);
        }
        (self.cause, self.since) = (error, Instant::now());
    }

    /// An attempt was cut short by the caller's own time, which says nothing about the server.
    pub(crate) fn cut_short(&mut self, error: Error, time: Duration) {
        (self.cause, self.cut) = (error, time);
    }

    /// How much time the next attempt is given by a caller who has so much left, if it may exceed that: twice that of one
    /// that was cut short, so that a caller who is always in a hurry has a connection in the end.
    pub(crate) fn time(&self, left: Duration, whole: Duration) -> Duration {
        left.max(self.cut.saturating_mul(2)).min(whole)
    }
}

/// Between an early attempt and the one before it is no less than this.
const SOONEST: Duration = Duration::from_millis(50);

/// Whether an error leaves nothing to be tried.
fn ends_attempts(error: &Error, config: &super::Config) -> bool {
    // Whoever gives a password may give another one next time.
    is_hopeless(error) && config.credentials.is_none()
}

/// When the next attempt may be made after so many have failed.
fn not_before(failed: u32, policy: &Reconnect) -> Option<Instant> {
    let delay = if failed < policy.attempts { policy.delay(failed) } else { policy.max_delay };
    (!delay.is_zero()).then(|| Instant::now() + delay)
}

/// What is to be done so that there is a connection again.
pub(super) enum Dial {
    /// Nothing: there is one.
    Up,
    /// To wait, no longer than the caller wants to.
    Pause(Duration),
    Attempt(Box<Attempt>),
}

/// An attempt to make a connection again, which needs nothing of the old one.
pub(super) struct Attempt {
    config: super::Config,
    changed: Vec<Vec<u8>>,
    time: Duration,
    /// It is made for a wait that cannot wait for the delay of the policy.
    early: bool,
}

impl Attempt {
    /// Blocks for as long as connecting takes.
    pub(super) fn make(&self) -> Result<Engine> {
        Engine::connect(self.config.clone(), self.time, &self.changed)
    }
}

impl Engine {
    /// Makes sure that there is a connection, dialing again if there is none and the policy wants it.
    #[inline]
    pub(super) fn up(&mut self, deadline: &mut Deadline) -> Result<()> {
        if self.is_up() { Ok(()) } else { self.dial_again(deadline, true) }
    }

    /// The same, but without a pause: [`Error::Timeout`] if one would be needed.
    pub(super) fn up_at_once(&mut self, deadline: &mut Deadline) -> Result<()> {
        if self.is_up() { Ok(()) } else { self.dial_again(deadline, false) }
    }

    #[cold]
    fn dial_again(&mut self, deadline: &mut Deadline, patient: bool) -> Result<()> {
        match self.try_dialing(deadline, patient) {
            // Nobody will ask for this command again, and it has certainly not been sent: that is more than a timeout. The
            // others that were kept go with it, rather than each take as long.
            Err(Error::Timeout) if patient && !deadline.is_tentative() => Err(self.give_up()),
            outcome => outcome,
        }
    }

    fn try_dialing(&mut self, deadline: &mut Deadline, patient: bool) -> Result<()> {
        loop {
            match self.next_dial(deadline)? {
                Dial::Up => return Ok(()),
                Dial::Pause(_) if !patient => return Err(Error::Timeout),
                Dial::Pause(pause) => std::thread::sleep(pause),
                Dial::Attempt(attempt) => {
                    let outcome = attempt.make();
                    self.dialled(outcome, &attempt, deadline)?;
                }
            }
        }
    }

    /// What is to be done next so that there is a connection.
    pub(super) fn next_dial(&mut self, deadline: &mut Deadline) -> Result<Dial> {
        let Link::Down(down) = &self.link else { return self.check().map(|()| Dial::Up) };
        if down.is_resting(&self.config.reconnect) && !down.pause().is_zero() {
            return Err(self.give_up());
        }
        let (pause, early) = (down.pause_in_wait(self.config.timeout), !down.pause().is_zero());
        let left = deadline.left()?.unwrap_or(Duration::MAX);
        if !pause.is_zero() {
            return Ok(Dial::Pause(pause.min(left)));
        }
        Ok(Dial::Attempt(Box::new(Attempt {
            config: self.redial_config(),
            changed: self.changed.values().cloned().collect(),
            time: left.min(self.config.connect_timeout),
            early,
        })))
    }

    /// An attempt to make the connection again has come to this, within the time of whoever made it.
    pub(super) fn dialled(
        &mut self,
        outcome: Result<Engine>,
        attempt: &Attempt,
        deadline: &mut Deadline,
    ) -> Result<()> {
        let error = match outcome {
            Ok(fresh) => {
                self.adopt(fresh);
                // It may have broken already.
                return if !self.is_up() && self.is_resting() { self.check() } else { Ok(()) };
            }
            Err(error) => error,
        };
        let Link::Down(down) = &mut self.link else { return self.check() };
        // An attempt that was cut short by the caller's own deadline says nothing about the server.
        if attempt.time < self.config.connect_timeout
            && let Err(timeout) = deadline.left()
        {
            down.cut_short(error, attempt.time);
            return Err(timeout);
        }
        let (failed, told) = (down.failed().saturating_add(u32::from(!attempt.early)), error.clone());
        if attempt.early {
            down.fail_early(error, &self.config);
        } else {
            down.fail(error, &self.config);
        }
        let resting = down.is_resting(&self.config.reconnect);
        self.tell(move |server| events::attempt_failed(server, &told, failed));
        if resting { Err(self.give_up()) } else { Ok(()) }
    }

    fn is_resting(&self) -> bool {
        matches!(&self.link, Link::Down(down) if down.is_resting(&self.config.reconnect))
    }

    /// Lets go of what was kept: nothing can be sent.
    fn give_up(&mut self) -> Error {
        if let Link::Down(down) = &self.link {
            let (cause, told) = (down.cause.clone(), down.cause.clone());
            self.tell(move |server| events::given_up(server, &told));
            let (sent, _) = self.sent_before();
            let loss = Loss { from: self.next, until: self.issued, unsent: sent, partly: false, cause };
            self.lose(loss, false);
        }
        self.lost_error(super::place::NONE)
    }

    /// What the server is asked for when it is dialled again.
    pub(super) fn redial_config(&self) -> super::Config {
        self.config.clone().protocol(self.wanted)
    }

    /// Goes on with a new connection.
    pub(super) fn adopt(&mut self, fresh: Engine) {
        let Engine { stream, input, scanner, mut pushes, config, must_write, found_at, .. } = fresh;
        self.stream = stream;
        self.input = input;
        self.scanner = scanner;
        (self.must_write, self.demoted, self.found_at) = (must_write, false, found_at);
        self.config.protocol = config.protocol;
        self.caching.connected(config.protocol == super::Protocol::Resp3);
        pushes.drain(..).for_each(|push| self.keep_push(push));
        if let Link::Down(down) = std::mem::replace(&mut self.link, Link::Up) {
            self.fruitless = down.failed;
        }
        self.next_before = self.next;
        self.silent = false;
        self.wrote = false;
        self.stats.reconnects += 1;
        let (reconnects, resent) = (self.stats.reconnects, self.outstanding());
        self.tell(move |server| events::connected_again(server, reconnects, resent));
        self.refresh_head();
        if self.input.len() > 0 {
            self.look_at_surplus();
        }
    }

    /// Connects and agrees with the server on everything, in this time, and brings back what `changed` the connection
    /// before.
    pub(super) fn connect(mut config: super::Config, time: Duration, changed: &[Vec<u8>]) -> Result<Engine> {
        if let Some(ask) = &config.credentials {
            let credentials = ask().map_err(|error| Error::custom(format!("no credentials were given: {error}")))?;
            (config.user, config.password) = (credentials.user, Some(credentials.password));
        }
        events::dialing(&config);
        let server = config.endpoint.clone();
        let told = |error: &Error| events::not_connected(&server, error);
        // Of one that was looked for, the text says who is silent: a sentinel, or what it has named.
        let says_more = |error: &std::io::Error| matches!(server, Endpoint::Found(_)) || SlowTls::is(error);
        Engine::connect_to(config, time, changed)
            .map_err(|error| match error {
                Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut && !says_more(&error) => {
                    Error::Timeout
                }
                Error::Io(error) => {
                    std::io::Error::new(error.kind(), format!("cannot connect to {server}: {error}")).into()
                }
                error => error,
            })
            .inspect_err(told)
    }

    fn connect_to(mut config: super::Config, time: Duration, changed: &[Vec<u8>]) -> Result<Engine> {
        let start = Instant::now();
        let (found, stream) = match &config.endpoint {
            Endpoint::Found(found) => {
                let found = found.clone();
                let (stream, at) = found.connect(&config, start + time)?;
                (Some((found, at)), stream)
            }
            _ => (None, Stream::connect(&config, start + time)?),
        };
        // What breaks before there is a connection is an attempt that failed, and is not made again from inside it.
        let policy = std::mem::take(&mut config.reconnect);
        let mut engine = Engine::new(config, stream);
        let mut deadline = Deadline::new(Some(time.saturating_sub(start.elapsed())));
        let agreed = engine.handshake(&mut deadline).and_then(|()| {
            if let Some((found, at)) = found {
                engine.found_at = Some(at);
                engine.check_role(&found, &mut deadline)?;
            }
            engine.restore(changed, &mut deadline)
        });
        agreed.map_err(|error| match error {
            // There is no connection yet that could be lost.
            Error::ConnectionLost(lost) => lost.cause().clone(),
            error => error,
        })?;
        engine.config.reconnect = policy;
        engine.opened();
        events::connected(&engine.config);
        Ok(engine)
    }
}

/// Whether another attempt would fare no better.
pub(crate) fn is_hopeless(error: &Error) -> bool {
    match error {
        Error::Config(_) => true,
        // A certificate that is not accepted.
        Error::Io(error) => error.kind() == std::io::ErrorKind::InvalidData,
        Error::Server(error) => matches!(error.code(), Some("WRONGPASS" | "NOAUTH" | "NOPERM" | "DENIED")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_without_end_is_a_point_in_time() {
        let policy = Reconnect::backoff().first_delay(Duration::MAX).max_delay(Duration::MAX);
        for failed in [0, 1, 8, u32::MAX] {
            let down = Down::new(Error::Timeout, failed, &policy);
            assert_eq!(down.not_before.is_some(), failed > 0);
        }
    }

    #[test]
    fn attempts_that_are_cut_short_are_given_more_time_each_and_do_not_count() {
        let whole = Duration::from_secs(5);
        let mut down = Down::new(Error::Timeout, 0, &Reconnect::backoff());
        let mut times = Vec::new();
        loop {
            let time = down.time(Duration::from_secs(1), whole);
            times.push(time.as_secs());
            if time == whole {
                break;
            }
            down.cut_short(Error::Timeout, time);
        }
        assert_eq!((times, down.failed()), (vec![1, 2, 4, 5], 0));
        assert_eq!(down.time(Duration::MAX, whole), whole);
    }

    #[test]
    fn after_the_last_attempt_it_rests_for_the_longest_delay() {
        let config = super::super::Config::tcp("localhost", 1).reconnect(Reconnect::backoff().attempts(2));
        let mut down = Down::new(Error::Timeout, 0, &config.reconnect);
        assert!(down.pause().is_zero());
        down.fail(Error::Timeout, &config);
        assert!(!down.is_resting(&config.reconnect));
        for _ in 0..3 {
            down.fail(Error::Timeout, &config);
            assert!(down.is_resting(&config.reconnect) && down.pause() > Duration::from_secs(1));
            assert_eq!(down.failed(), 2);
        }
        // What another attempt would not change.
        let mut down = Down::new(Error::Timeout, 0, &config.reconnect);
        down.fail(Error::Config("wrong".into()), &config);
        assert!(down.is_resting(&config.reconnect));
    }

    #[test]
    fn a_wait_pauses_for_half_of_its_time_at_most() {
        let policy = Reconnect::backoff().first_delay(Duration::MAX).max_delay(Duration::MAX);
        let down = Down::new(Error::Timeout, 1, &policy);
        let hour = Duration::from_secs(3600);
        assert!(
            down.pause() > hour && down.pause_in_wait(None) > hour && down.pause_in_wait(Some(Duration::MAX)) > hour
        );
        let pause = down.pause_in_wait(Some(hour));
        assert!(pause <= hour / 2 && pause > hour / 4, "{pause:?}");
        assert!(Down::new(Error::Timeout, 0, &policy).pause_in_wait(Some(hour)).is_zero());
    }

    #[test]
    fn attempts_that_are_early_do_not_count_and_are_not_many() {
        let day = Duration::from_secs(24 * 3600);
        let policy = Reconnect::backoff().attempts(2).first_delay(day).max_delay(day);
        let config = super::super::Config::tcp("localhost", 1).reconnect(policy);
        let mut down = Down::new(Error::Timeout, 1, &config.reconnect);
        let not_before = down.not_before;
        for _ in 0..100 {
            down.fail_early(Error::Timeout, &config);
            assert!(!down.pause_in_wait(Some(Duration::from_nanos(1))).is_zero());
        }
        assert!(!down.is_resting(&config.reconnect) && down.not_before == not_before);
        down.fail_early(Error::Config("wrong".into()), &config);
        assert!(down.is_resting(&config.reconnect));
    }

    #[test]
    fn delays_double_up_to_the_longest_and_are_shortened_by_up_to_half() {
        let policy = Reconnect::backoff().first_delay(Duration::from_millis(100)).max_delay(Duration::from_millis(700));
        assert_eq!(policy.delay(0), Duration::ZERO);
        for (failed, longest) in [(1, 100), (2, 200), (3, 400), (4, 700), (5, 700), (u32::MAX, 700)] {
            let longest = Duration::from_millis(longest);
            for _ in 0..100 {
                let delay = policy.delay(failed);
                assert!(delay >= longest / 2 && delay <= longest, "{failed}: {delay:?}");
            }
        }
    }
}
