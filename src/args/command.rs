//! A command: its name, its arguments, and which of them are keys.

use std::time::Duration;

use super::{ArgWriter, ToArg, ToArgs};

/// How long a command may keep the connection waiting on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// At most this long.
    For(Duration),
    /// Until something happens.
    Forever,
}

/// A command that has not been issued: a name and nested pairs of arguments, so that its encoding is compiled for just
/// this shape and nothing is allocated.
///
/// Only the command methods of this crate make these; for a command that has none, use
/// [`Execute::command`](crate::commands::Execute::command).
#[derive(Debug)]
pub struct Command<A> {
    name: &'static str,
    arguments: A,
    block: Option<Block>,
}

/// Begins a command.
#[inline(always)]
pub(crate) const fn cmd(name: &'static str) -> Command<()> {
    Command { name, arguments: (), block: None }
}

impl<A> Command<A> {
    #[inline(always)]
    fn and<B>(self, next: B) -> Command<(A, B)> {
        Command { name: self.name, arguments: (self.arguments, next), block: self.block }
    }

    /// A key.
    #[inline(always)]
    pub(crate) fn key<K: ToArg>(self, key: K) -> Command<(A, Key<K>)> {
        self.and(Key(key))
    }

    /// One key or more.
    #[inline(always)]
    pub(crate) fn keys<K: ToArgs>(self, keys: K) -> Command<(A, Keys<K>)> {
        self.and(Keys(keys))
    }

    /// The number of keys, and then the keys, of which there is at least one.
    #[inline(always)]
    pub(crate) fn counted_keys<K: ToArgs>(self, keys: K) -> Command<(A, Counted<Keys<K>>)> {
        self.and(Counted(Keys(keys)))
    }

    /// The number of keys, which may be none, and then the keys: scripts.
    #[inline(always)]
    pub(crate) fn any_counted_keys<K: ToArgs>(self, keys: K) -> Command<(A, Counted<Any<K>>)> {
        self.and(Counted(Any(keys)))
    }

    /// Keys and values in turn, at least one pair.
    #[inline(always)]
    pub(crate) fn key_values<P: ToArgs>(self, pairs: P) -> Command<(A, KeyValues<P>)> {
        self.and(KeyValues(pairs))
    }

    /// One argument.
    #[inline(always)]
    pub(crate) fn arg<B: ToArg>(self, argument: B) -> Command<(A, One<B>)> {
        self.and(One(argument))
    }

    /// One argument or more: an empty list is refused without I/O.
    #[inline(always)]
    pub(crate) fn args<B: ToArgs>(self, arguments: B) -> Command<(A, Many<B>)> {
        self.and(Many(arguments))
    }

    /// The number of arguments, and then the arguments, of which there is at least one.
    #[inline(always)]
    pub(crate) fn counted_args<B: ToArgs>(self, arguments: B) -> Command<(A, Counted<Many<B>>)> {
        self.and(Counted(Many(arguments)))
    }

    /// Any number of arguments, none included: options.
    #[inline(always)]
    pub(crate) fn options<B: ToArgs>(self, arguments: B) -> Command<(A, Any<B>)> {
        self.and(Any(arguments))
    }

    /// Says that the server may take this long to answer on purpose: `None` is for ever.
    #[inline(always)]
    pub(crate) fn blocking(mut self, time: Option<Duration>) -> Self {
        self.block = Some(time.map_or(Block::Forever, Block::For));
        self
    }

    #[inline(always)]
    pub(crate) fn block(&self) -> Option<Block> {
        self.block
    }

    #[inline(always)]
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    #[inline(always)]
    pub(crate) fn arguments(&self) -> &A {
        &self.arguments
    }
}

/// The arguments of a [`Command`].
pub trait Arguments {
    /// Whether all are of this crate's types, so that they may be encoded while the connection is in use.
    const DIRECT: bool;
    /// How many there are. Asked only where `DIRECT` is true.
    fn count(&self) -> usize;
    /// Writes them, or says that a list is empty that must not be.
    fn write(&self, out: &mut ArgWriter<'_>) -> Result<(), Unwritten>;
}

/// Why arguments were not written whole.
#[derive(Debug)]
pub enum Unwritten {
    /// A list is empty where the server needs an element.
    Empty,
}

impl Arguments for () {
    const DIRECT: bool = true;
    #[inline(always)]
    fn count(&self) -> usize {
        0
    }
    #[inline(always)]
    fn write(&self, _: &mut ArgWriter<'_>) -> Result<(), Unwritten> {
        Ok(())
    }
}

impl<A: Arguments, B: Arguments> Arguments for (A, B) {
    const DIRECT: bool = A::DIRECT && B::DIRECT;
    #[inline(always)]
    fn count(&self) -> usize {
        self.0.count() + self.1.count()
    }
    #[inline(always)]
    fn write(&self, out: &mut ArgWriter<'_>) -> Result<(), Unwritten> {
        self.0.write(out)?;
        self.1.write(out)
    }
}

/// One key.
#[derive(Debug)]
pub(crate) struct Key<K>(K);

impl<K: ToArg> Arguments for Key<K> {
    const DIRECT: bool = K::DIRECT;
    #[inline(always)]
    fn count(&self) -> usize {
        1
    }
    #[inline(always)]
    fn write(&self, out: &mut ArgWriter<'_>) -> Result<(), Unwritten> {
        let start = out.pos;
        out.arg(&self.0);
        out.mark_key(start);
        Ok(())
    }
}

/// One argument that is no key.
#[derive(Debug)]
pub(crate) struct One<A>(A);

impl<A: ToArg> Arguments for One<A> {
    const DIRECT: bool = A::DIRECT;
    #[inline(always)]
    fn count(&self) -> usize {
        1
    }
    #[inline(always)]
    fn write(&self, out: &mut ArgWriter<'_>) -> Result<(), Unwritten> {
        out.arg(&self.0);
        Ok(())
    }
}

/// Writes a list and says whether it was empty.
#[inline(always)]
fn write_some<A: ToArgs>(list: &A, out: &mut ArgWriter<'_>) -> Result<(), Unwritten> {
    let before = out.count();
    list.write_args(out);
    if out.count() == before && !out.is_unsendable() { Err(Unwritten::Empty) } else { Ok(()) }
}

/// One key or more.
#[derive(Debug)]
pub(crate) struct Keys<K>(K);

impl<K: ToArgs> Arguments for Keys<K> {
    const DIRECT: bool = K::DIRECT;
    fn count(&self) -> usize {
        self.0.count()
    }
    fn write(&self, out: &mut ArgWriter<'_>) -> Result<(), Unwritten> {
        let start = out.pos;
        write_some(&self.0, out)?;
        out.mark_keys(start, 1);
        Ok(())
    }
}

/// Keys and values in turn.
#[derive(Debug)]
pub(crate) struct KeyValues<P>(P);

impl<P: ToArgs> Arguments for KeyValues<P> {
    const DIRECT: bool = P::DIRECT;
    fn count(&self) -> usize {
        self.0.count()
    }
    fn write(&self, out: &mut ArgWriter<'_>) -> Result<(), Unwritten> {
        let start = out.pos;
        write_some(&self.0, out)?;
        out.mark_keys(start, 2);
        Ok(())
    }
}

/// One argument or more.
#[derive(Debug)]
pub(crate) struct Many<A>(A);

impl<A: ToArgs> Arguments for Many<A> {
    const DIRECT: bool = A::DIRECT;
    fn count(&self) -> usize {
        self.0.count()
    }
    fn write(&self, out: &mut ArgWriter<'_>) -> Result<(), Unwritten> {
        write_some(&self.0, out)
    }
}

/// Any number of arguments.
#[derive(Debug)]
pub(crate) struct Any<A>(A);

impl<A: ToArgs> Arguments for Any<A> {
    const DIRECT: bool = A::DIRECT;
    fn count(&self) -> usize {
        self.0.count()
    }
    fn write(&self, out: &mut ArgWriter<'_>) -> Result<(), Unwritten> {
        self.0.write_args(out);
        Ok(())
    }
}

/// A list with its length before it.
#[derive(Debug)]
pub(crate) struct Counted<L>(L);

/// Writes a list behind its length, says whether it was empty, and gives the position of its first element.
fn write_counted<A: ToArgs>(list: &A, out: &mut ArgWriter<'_>) -> Result<usize, Unwritten> {
    let before = out.count();
    let start = out.counted(list);
    if out.count() == before + 1 && !out.is_unsendable() { Err(Unwritten::Empty) } else { Ok(start) }
}

impl<K: ToArgs> Arguments for Counted<Keys<K>> {
    const DIRECT: bool = K::DIRECT;
    fn count(&self) -> usize {
        1 + self.0.0.count()
    }
    fn write(&self, out: &mut ArgWriter<'_>) -> Result<(), Unwritten> {
        let start = write_counted(&self.0.0, out)?;
        out.mark_keys(start, 1);
        Ok(())
    }
}

impl<K: ToArgs> Arguments for Counted<Any<K>> {
    const DIRECT: bool = K::DIRECT;
    fn count(&self) -> usize {
        1 + self.0.0.count()
    }
    fn write(&self, out: &mut ArgWriter<'_>) -> Result<(), Unwritten> {
        let start = out.counted(&self.0.0);
        out.mark_keys(start, 1);
        Ok(())
    }
}

impl<A: ToArgs> Arguments for Counted<Many<A>> {
    const DIRECT: bool = A::DIRECT;
    fn count(&self) -> usize {
        1 + self.0.0.count()
    }
    fn write(&self, out: &mut ArgWriter<'_>) -> Result<(), Unwritten> {
        write_counted(&self.0.0, out).map(drop)
    }
}
