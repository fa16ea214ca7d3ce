//! A script that is sent whole only where the server does not know it.

use std::cell::RefCell;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::args::{ArgWriter, Gathered, ToArg, ToArgs, cmd, gather};
use crate::commands::ScriptingCommands;
use crate::error::{Error, Result, WaitError};
use crate::execute::{Execute, Handle, Lasting};
use crate::resp::encode;
use crate::values::FromReply;

/// A Lua script with its SHA-1 digest, by which servers know it: cheap to clone, and to be shared among threads.
///
/// [`run`](Script::run) sends only the digest. If the server does not know it, the wait for the reply sends the script,
/// which the server keeps from then on.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use std::sync::LazyLock;
/// use redefer::{Script, prelude::*};
///
/// static TAKE: LazyLock<Script> = LazyLock::new(|| Script::new("
///     local left = redis.call('DECRBY', KEYS[1], ARGV[1])
///     if left < 0 then redis.call('INCRBY', KEYS[1], ARGV[1]) end
///     return left >= 0
/// "));
///
/// conn.set("stock", 3).wait()?;
/// let taken: Option<bool> = TAKE.run(&conn, "stock", 2).wait()?;
/// assert_eq!(taken, Some(true));
/// let taken: Option<bool> = TAKE.run(&conn, "stock", 2).wait()?;
/// assert_eq!(taken, None); // Lua's false is nil
/// # }
/// # Ok(())
/// # }
/// ```
///
/// # Order in a pipeline
///
/// A script that the server knows runs in its turn, like every command. One that it does not know runs *when its handle
/// is waited for*, after all commands that were issued until then: in
///
/// ```no_run
/// # fn main() -> redefer::Result<()> {
/// # let conn = redefer::Connection::open("redis://localhost")?;
/// # let script = redefer::Script::new("return redis.call('GET', KEYS[1])");
/// # use redefer::prelude::*;
/// let first = script.run::<String, _>(&conn, "k", ());
/// let second = conn.set("k", "new");
/// let value = first.wait()?;
/// # second.wait()
/// # }
/// ```
///
/// `value` is the old one if the server knows the script, and the new one if it does not. Where that matters, let the
/// server know the script first: [`script.load(&conn)`](Script::load) in front of the first `run` is enough, and need not
/// be waited for. A server forgets scripts when it restarts and with SCRIPT FLUSH; Redis since 7.4 and Valkey since 8.0
/// also forget those that came with EVAL, as this fallback sends them, and have not run for long, but none that were
/// loaded.
///
/// A handle that is dropped or [detached](ScriptReply::detach) sends nothing more. If the server does not know the script,
/// then it has not run, and the error `NOSCRIPT` goes to the connection's account, which
/// [`Connection::sync`](crate::Connection::sync) hands out.
///
/// A script that answers `NOSCRIPT No matching script` of its own accord, or hands on such an error of what it calls, looks
/// like one that the server does not know, and **runs twice**: let it answer something else.
///
/// # Batches and transactions
///
/// There nothing can be repeated, so take one of these, which work on everything that commands can be issued on:
///
/// - [`eval`](Script::eval) sends the script each time, and always runs in its turn;
/// - [`evalsha`](Script::evalsha) sends the digest, behind a [`load`](Script::load) that was issued before, in the same
///   batch or transaction or elsewhere.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use redefer::{Script, prelude::*};
///
/// let double = Script::new("return 2 * ARGV[1]");
/// let batch = conn.batch();
/// double.load(&batch);
/// let handles: Vec<Queued<'_, i64>> = (0..100).map(|n| double.evalsha(&batch, (), n)).collect();
/// batch.finish()?;
/// for (handle, n) in handles.into_iter().zip(0..) {
///     assert_eq!(handle.wait()?, 2 * n);
/// }
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Script {
    source: Arc<[u8]>,
    digest: Arc<str>,
}

impl Script {
    /// Keeps a source, and computes its digest. Nothing is sent.
    pub fn new(source: impl AsRef<[u8]>) -> Self {
        let source = source.as_ref();
        let digest = sha1_smol::Sha1::from(source).digest().to_string();
        Script { source: source.into(), digest: digest.into() }
    }

    /// The source.
    pub fn source(&self) -> &[u8] {
        &self.source
    }

    /// The SHA-1 digest of the source, as forty hexadecimal digits in lower case.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Runs the script: EVALSHA, and EVAL if the server does not know it. See the [type](Script) for when that is.
    ///
    /// The keys are given apart from the other arguments, so that a cluster can tell where to run it. Both may be empty:
    /// `()`. Keys and arguments are kept, as bytes, until the reply has come.
    ///
    /// On everything that is [`Lasting`], such as a connection or a [`Shared`](crate::Shared): in a batch and in a transaction
    /// take [`eval`](Script::eval) or [`evalsha`](Script::evalsha), since
    /// [nothing can be repeated there](Script#batches-and-transactions).
    pub fn run<T: FromReply, C: Lasting>(&self, on: C, keys: impl ToArgs, arguments: impl ToArgs) -> ScriptReply<C, T> {
        self.begin(on, ["EVALSHA", "EVAL"], keys, arguments)
    }

    /// Like [`run`](Script::run), but the script may not write, and replicas run it: EVALSHA_RO and EVAL_RO. Since 7.0.
    pub fn run_ro<T: FromReply, C: Lasting>(
        &self,
        on: C,
        keys: impl ToArgs,
        arguments: impl ToArgs,
    ) -> ScriptReply<C, T> {
        self.begin(on, ["EVALSHA_RO", "EVAL_RO"], keys, arguments)
    }

    /// Sends the script and runs it, on anything that commands can be issued on: EVAL.
    pub fn eval<T: FromReply, C: ScriptingCommands>(
        &self,
        on: C,
        keys: impl ToArgs,
        arguments: impl ToArgs,
    ) -> C::Reply<T> {
        on.eval(self.source(), keys, arguments)
    }

    /// Runs the script by its digest, on anything that commands can be issued on: EVALSHA. The error is `NOSCRIPT` if the
    /// server does not know it.
    pub fn evalsha<T: FromReply, C: ScriptingCommands>(
        &self,
        on: C,
        keys: impl ToArgs,
        arguments: impl ToArgs,
    ) -> C::Reply<T> {
        on.evalsha(self.digest(), keys, arguments)
    }

    /// Lets the server know the script without running it: SCRIPT LOAD. The reply is the digest.
    pub fn load<C: ScriptingCommands>(&self, on: C) -> C::Reply<String> {
        on.script_load(self.source())
    }

    fn begin<T: FromReply, C: Lasting>(
        &self,
        on: C,
        names: [&'static str; 2],
        keys: impl ToArgs,
        arguments: impl ToArgs,
    ) -> ScriptReply<C, T> {
        let gathered =
            gather(|out| keys.write_args(out)).and_then(|keys| Ok((keys, gather(|out| arguments.write_args(out))?)));
        let state = match gathered {
            Ok((keys, arguments)) => {
                let command = cmd(names[0]).arg(self.digest()).any_counted_keys(&keys).options(&arguments);
                let reply = on.execute(command);
                let source = Arc::clone(&self.source);
                State::Digest(reply, Box::new(Again { on, name: names[1], source, keys, arguments }))
            }
            Err(error) => State::Taken(Err(error)),
        };
        ScriptReply { state: RefCell::new(state) }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("digest", &self.digest).finish_non_exhaustive()
    }
}

/// Arguments that may be sent more than once.
impl ToArgs for &Gathered {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        encode::bulk_ranges(&self.bytes, 0).for_each(|range| out.arg(&self.bytes[range]));
    }
    const DIRECT: bool = true;
    fn count(&self) -> usize {
        self.count
    }
}

/// What it takes to send the script.
struct Again<C> {
    on: C,
    name: &'static str,
    source: Arc<[u8]>,
    keys: Gathered,
    arguments: Gathered,
}

impl<C: Lasting> Again<C> {
    fn send<T: FromReply>(&self) -> C::Reply<T> {
        let command = cmd(self.name).arg(Bytes(&self.source)).any_counted_keys(&self.keys).options(&self.arguments);
        self.on.execute(command)
    }
}

/// The source as one argument.
struct Bytes<'a>(&'a [u8]);

impl ToArg for Bytes<'_> {
    fn to_arg(&self) -> crate::args::Arg<'_> {
        self.0.into()
    }
    const DIRECT: bool = true;
}

enum State<C: Execute, T: FromReply> {
    /// The digest was sent.
    Digest(C::Reply<T>, Box<Again<C>>),
    /// The script was sent.
    Source(C::Reply<T>),
    /// The reply has come.
    Taken(Result<T>),
    /// While one of these becomes another.
    Nothing,
}

/// Whether the server does not know a script: what it says of itself, and not what a script makes it say.
fn is_unknown(error: &Error) -> bool {
    error.as_server_error().is_some_and(|error| error.message().starts_with(b"NOSCRIPT No matching script"))
}

/// The handle of a [script](Script::run) whose reply has not been read yet.
///
/// It is waited for like a [`Reply`](crate::Reply). If the server does not know the script, a wait sends it, and waits for that.
///
/// # Drop
///
/// Like that of a [`Reply`](crate::Reply); a script that the server does not know has not run then, and the error goes to the
/// connection's account.
#[must_use = "a script that the server does not know runs only when it is waited for"]
pub struct ScriptReply<C: Execute, T: FromReply> {
    state: RefCell<State<C, T>>,
}

impl<T: FromReply, C: Lasting> ScriptReply<C, T> {
    /// Waits for the reply and takes it. Blocks for at most [`Config::timeout`](crate::Config::timeout), and for as long
    /// again if the script has to be sent.
    ///
    /// # Errors
    ///
    /// Those of [`Reply::wait`](crate::Reply::wait).
    pub fn wait(self) -> Result<T> {
        match self.state.into_inner() {
            State::Digest(reply, again) => match reply.wait() {
                Err(error) if is_unknown(&error) => again.send().wait(),
                result => result,
            },
            State::Source(reply) => reply.wait(),
            State::Taken(result) => result,
            State::Nothing => Err(Error::Timeout),
        }
    }

    /// Waits at most this long, whatever the configuration says, and gives the handle back if that was not enough.
    ///
    /// # Errors
    ///
    /// Those of [`Reply::wait_timeout`](crate::Reply::wait_timeout).
    pub fn wait_timeout(self, time: Duration) -> Result<T, WaitError<Self>> {
        let until = Instant::now().checked_add(time);
        let reply = match self.state.into_inner() {
            State::Digest(reply, again) => match reply.wait_timeout(time) {
                Err(WaitError::Failed(error)) if is_unknown(&error) => again.send(),
                Err(WaitError::Timeout(reply)) => {
                    let state = RefCell::new(State::Digest(reply, again));
                    return Err(WaitError::Timeout(ScriptReply { state }));
                }
                Err(WaitError::Failed(error)) => return Err(error.into()),
                Ok(value) => return Ok(value),
            },
            State::Source(reply) => reply,
            State::Taken(result) => return Ok(result?),
            State::Nothing => return Err(Error::Timeout.into()),
        };
        let left = until.map_or(time, |until| until.saturating_duration_since(Instant::now()));
        reply.wait_timeout(left).map_err(|error| match error {
            WaitError::Timeout(reply) => WaitError::Timeout(ScriptReply { state: RefCell::new(State::Source(reply)) }),
            WaitError::Failed(error) => WaitError::Failed(error),
        })
    }

    /// Whether a wait would not block. Sends what has been gathered as far as the socket takes it, and reads what has
    /// arrived; never blocks. If that is the news that the server does not know the script, sends it.
    ///
    /// # Errors
    ///
    /// Those of [`Reply::is_ready`](crate::Reply::is_ready).
    pub fn is_ready(&self) -> Result<bool> {
        let busy = "the handle is being asked already";
        let mut state = self.state.try_borrow_mut().map_err(|_| Error::Refused(busy))?;
        loop {
            match &*state {
                State::Digest(reply, _) if !reply.is_ready()? => return Ok(false),
                State::Digest(..) => {}
                State::Source(reply) => return reply.is_ready(),
                State::Taken(_) | State::Nothing => return Ok(true),
            }
            if let State::Digest(reply, again) = mem::replace(&mut *state, State::Nothing) {
                *state = match reply.wait() {
                    Err(error) if is_unknown(&error) => State::Source(again.send()),
                    result => State::Taken(result),
                };
            }
        }
    }

    /// Gives the handle up without I/O. A script that the server does not know does not run then, and the error goes to
    /// the connection's account.
    pub fn detach(self) {
        match self.state.into_inner() {
            State::Digest(reply, _) | State::Source(reply) => reply.detach(),
            State::Taken(_) | State::Nothing => {}
        }
    }
}

impl<T: FromReply, C: Lasting> Handle<T> for ScriptReply<C, T> {
    fn wait(self) -> Result<T> {
        self.wait()
    }
    fn wait_timeout(self, time: Duration) -> Result<T, WaitError<Self>> {
        self.wait_timeout(time)
    }
    fn is_ready(&self) -> Result<bool> {
        self.is_ready()
    }
    fn detach(self) {
        self.detach()
    }
}

impl<T: FromReply, C: Execute> fmt::Debug for ScriptReply<C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptReply").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_server() {
        let script = Script::new("return 1");
        assert_eq!(script.digest(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert_eq!(script.source(), b"return 1");
        assert_eq!(format!("{:?}", script.clone()), format!("Script {{ digest: {:?}, .. }}", script.digest()));
    }

    #[test]
    fn only_the_server_itself_says_that_it_does_not_know_a_script() {
        let unknown = |message: &str| is_unknown(&Error::Server(crate::ServerError::new(message)));
        assert!(unknown("NOSCRIPT No matching script. Please use EVAL.") && unknown("NOSCRIPT No matching script."));
        assert!(!unknown("NOSCRIPT mine") && !unknown("ERR x") && !is_unknown(&Error::Nil));
    }
}
