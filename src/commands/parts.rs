//! What the options of commands are made of: flags, names with values, times.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

use crate::args::{Arg, ArgWriter, Fault, Gathered, ToArg, ToArgs, ToPairs, bytes_of, gather};
use crate::connection::EMPTY;
use crate::error::{Error, Result};

/// A word that is there or not.
#[derive(Debug)]
pub(crate) struct Flag(pub(crate) &'static str, pub(crate) bool);

impl ToArgs for Flag {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        if self.1 {
            out.arg(self.0);
        }
    }
    const DIRECT: bool = true;
    fn count(&self) -> usize {
        usize::from(self.1)
    }
}

/// A word and its values, or nothing.
#[derive(Debug)]
pub(crate) struct Named<T>(pub(crate) &'static str, pub(crate) Option<T>);

impl<T: ToArgs> ToArgs for Named<T> {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        if let Some(values) = &self.1 {
            out.arg(self.0);
            values.write_args(out);
        }
    }
    const DIRECT: bool = T::DIRECT;
    fn count(&self) -> usize {
        self.1.as_ref().map_or(0, |values| 1 + values.count())
    }
}

/// A list that may not be empty, for a command that is issued by its name.
#[derive(Debug)]
pub(crate) struct AtLeastOne<A>(pub(crate) A);

impl<A: ToArgs> ToArgs for AtLeastOne<A> {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        let before = out.count();
        self.0.write_args(out);
        if out.count() == before {
            out.fail(Error::Argument(EMPTY));
        }
    }
}

/// Options within options, or nothing.
#[derive(Debug)]
pub(crate) struct Maybe<'a, T>(pub(crate) Option<&'a T>);

impl<'a, T> ToArgs for Maybe<'a, T>
where
    &'a T: ToArgs,
{
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        if let Some(options) = self.0 {
            options.write_args(out);
        }
    }
    const DIRECT: bool = <&'a T>::DIRECT;
    fn count(&self) -> usize {
        self.0.map_or(0, |options| options.count())
    }
}

/// Makes arguments of an option type, and of a reference to one, from its method `parts`.
macro_rules! parts_to_args {
    ($($type:ty),* $(,)?) => {$(
        impl $crate::args::ToArgs for $type {
            fn write_args(&self, out: &mut $crate::args::ArgWriter<'_>) {
                self.parts().write_args(out);
            }
            const DIRECT: bool = true;
            fn count(&self) -> usize {
                self.parts().count()
            }
        }
        impl $crate::args::ToArgs for &$type {
            fn write_args(&self, out: &mut $crate::args::ArgWriter<'_>) {
                self.parts().write_args(out);
            }
            const DIRECT: bool = true;
            fn count(&self) -> usize {
                self.parts().count()
            }
        }
    )*};
}

/// Makes one argument of an enum whose method `word` gives it.
macro_rules! word_to_arg {
    ($($type:ty),* $(,)?) => {$(
        impl $crate::args::ToArg for $type {
            #[inline]
            fn to_arg(&self) -> $crate::args::Arg<'_> {
                $crate::args::Arg::from(self.word())
            }
            const DIRECT: bool = true;
        }
    )*};
}

pub(crate) use {parts_to_args, word_to_arg};

/// An argument that is kept among options; nothing, if it cannot be sent: that fails the command that the options are for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owned<B = Vec<u8>>(pub(crate) Option<B>);

impl Owned {
    pub(crate) fn new(argument: impl ToArg) -> Self {
        Owned(bytes_of(&argument).ok().map(Cow::into_owned))
    }
}

impl<B: AsRef<[u8]>> ToArg for Owned<B> {
    fn to_arg(&self) -> Arg<'_> {
        match &self.0 {
            Some(bytes) => Arg::Bytes(bytes.as_ref()),
            None => Arg::Failed(Fault::Failed.error()),
        }
    }
    const DIRECT: bool = true;
}

impl<B: AsRef<[u8]>> fmt::Debug for Owned<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(bytes) => String::from_utf8_lossy(bytes.as_ref()).fmt(f),
            None => f.write_str("an argument that cannot be sent"),
        }
    }
}

/// Pairs whose number is written before them. Those of foreign types are gathered first, since only writing them tells
/// how many they are.
#[derive(Debug)]
pub(crate) struct Pairs<P> {
    pairs: P,
    gathered: Option<Result<Gathered>>,
    count: usize,
}

impl<P: ToPairs> Pairs<P> {
    pub(crate) fn new(pairs: P) -> Self {
        if P::DIRECT {
            let count = pairs.count();
            return Pairs { pairs, gathered: None, count };
        }
        let gathered = gather(|out| pairs.write_args(out));
        let count = gathered.as_ref().map_or(0, |gathered| gathered.count);
        Pairs { pairs, gathered: Some(gathered), count }
    }

    /// How many pairs there are.
    pub(crate) fn len(&self) -> usize {
        self.count / 2
    }
}

impl<P: ToPairs> ToArgs for Pairs<P> {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        match &self.gathered {
            None => self.pairs.write_args(out),
            Some(Ok(gathered)) => gathered.write_args(out),
            Some(Err(error)) => out.fail(error.clone()),
        }
    }
    const DIRECT: bool = P::DIRECT;
    fn count(&self) -> usize {
        self.count
    }
}

/// Whole milliseconds, rounded up so that nothing ends before its time.
pub(crate) fn millis(time: Duration) -> i64 {
    let whole = time.as_secs().saturating_mul(1000);
    let part = time.subsec_nanos().div_ceil(1_000_000);
    i64::try_from(whole.saturating_add(part.into())).unwrap_or(i64::MAX)
}

/// Whole seconds, rounded up.
pub(crate) fn seconds(time: Duration) -> i64 {
    let part = u64::from(time.subsec_nanos() > 0);
    i64::try_from(time.as_secs().saturating_add(part)).unwrap_or(i64::MAX)
}

/// Milliseconds since the epoch, rounded up.
pub(crate) fn unix_millis(time: SystemTime) -> i64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => millis(after),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |n| -n),
    }
}

/// Seconds since the epoch, rounded up.
pub(crate) fn unix_seconds(time: SystemTime) -> i64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => seconds(after),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |n| -n),
    }
}

/// A timeout in milliseconds as servers take it, where zero is for ever or has another meaning of its own: nothing is
/// zero, and any time is at least 1.
pub(crate) fn timeout_millis(time: Option<Duration>) -> i64 {
    time.map_or(0, |time| millis(time).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::each;

    #[test]
    fn times_are_rounded_up_to_the_unit() {
        let cases = [(0, 0, 0), (1, 1, 1), (1_000_000, 1, 1), (1_000_001, 2, 1), (1_500_000_000, 1500, 2)];
        for (nanos, ms, s) in cases {
            let time = Duration::from_nanos(nanos);
            assert_eq!((millis(time), seconds(time)), (ms, s), "{time:?}");
            let time = SystemTime::UNIX_EPOCH + time;
            assert_eq!((unix_millis(time), unix_seconds(time)), (ms, s), "{time:?}");
        }
        assert_eq!((millis(Duration::MAX), seconds(Duration::MAX)), (i64::MAX, i64::MAX));
        let before = SystemTime::UNIX_EPOCH - Duration::from_micros(2_999_900);
        assert_eq!((unix_millis(before), unix_seconds(before)), (-2999, -2));
    }

    #[test]
    fn a_timeout_of_zero_is_not_for_ever() {
        assert_eq!(timeout_millis(None), 0);
        assert_eq!(timeout_millis(Some(Duration::ZERO)), 1);
        assert_eq!(timeout_millis(Some(Duration::from_micros(1100))), 2);
    }

    #[test]
    fn every_kind_of_argument_can_be_kept() {
        assert_eq!(Owned::new("a").0.unwrap(), b"a");
        assert_eq!(Owned::new(String::from("a")).0.unwrap(), b"a");
        assert_eq!(Owned::new(-7).0.unwrap(), b"-7");
        assert_eq!(Owned::new(u64::MAX).0.unwrap(), b"18446744073709551615");
        assert_eq!(Owned::new(0.5).0.unwrap(), b"0.5");
        assert_eq!(Owned::new('x').0.unwrap(), b"x");
    }

    #[test]
    fn pairs_are_counted_with_or_without_writing_them() {
        let direct = Pairs::new([("a", 1), ("b", 2)]);
        let gathered = Pairs::new(each([("a", 1), ("b", 2)]));
        for (len, count) in [(direct.len(), direct.count()), (gathered.len(), gathered.count())] {
            assert_eq!((len, count), (2, 4));
        }
        let mut buf = Vec::new();
        let mut out = ArgWriter::new(&mut buf, 0);
        gathered.write_args(&mut out);
        let end = out.end().unwrap();
        assert_eq!(&buf[..end], b"$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n");
    }
}
