//! Any number of arguments.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use super::{ArgWriter, ToArg};
use crate::error::Result;

/// A value that is any number of arguments: see the [module](crate::args).
///
/// For a type of your own, write each argument in turn. Like [`ToArg`], it runs before the connection is touched, and it can
/// [`fail`](ArgWriter::fail). To pass a reference to it as well, implement the trait for `&T` too.
///
/// A list without elements is refused where the server needs one: see the [module](crate::args).
///
/// ```
/// use redefer::{ToArgs, args::ArgWriter};
///
/// struct Point { x: f64, y: f64 }
///
/// impl ToArgs for Point {
///     fn write_args(&self, out: &mut ArgWriter<'_>) {
///         out.arg(&self.x);
///         out.arg(&self.y);
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the arguments of a command",
    label = "not an argument, nor a tuple, slice, array, vector, set or map of arguments",
    note = "wrap an iterator into `args::each`; for a type of your own implement `ToArgs`, and for references to it as well"
)]
pub trait ToArgs {
    /// Writes the arguments in order.
    fn write_args(&self, out: &mut ArgWriter<'_>);

    /// Whether the arguments are all of this crate's types: see [`ToArg::DIRECT`].
    #[doc(hidden)]
    const DIRECT: bool = false;

    /// How many there are, the same on every call. Asked only where [`DIRECT`](ToArgs::DIRECT) is true.
    #[doc(hidden)]
    fn count(&self) -> usize {
        0
    }
}

/// Any number of pairs of arguments: fields and values of a hash, keys and values of MSET, scores and members.
///
/// One pair is a tuple of two, and a tuple of four, six or more is as many pairs: `("os", "linux", "cores", 8)`. Several
/// are also a slice, array, vector or map of pairs, or [`each`] of an iterator.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of pairs",
    label = "neither a pair `(a, b)`, nor a tuple, slice, array, vector or map of pairs",
    note = "wrap an iterator of pairs into `args::each`; for a type of your own implement `ToArgs` and `ToPairs`"
)]
pub trait ToPairs: ToArgs {}

impl<T: ToArg> ToArgs for T {
    #[inline(always)]
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        out.arg(self);
    }
    const DIRECT: bool = T::DIRECT;
    #[inline(always)]
    fn count(&self) -> usize {
        1
    }
}

macro_rules! option_to_args {
    ($($type:ty),*) => {$(
        /// Nothing, or what is in it: one argument or a list.
        impl<T: ToArgs> ToArgs for $type {
            fn write_args(&self, out: &mut ArgWriter<'_>) {
                if let Some(arguments) = self {
                    arguments.write_args(out);
                }
            }
            const DIRECT: bool = T::DIRECT;
            fn count(&self) -> usize {
                self.as_ref().map_or(0, T::count)
            }
        }
        impl<T: ToPairs> ToPairs for $type {}
    )*};
}

option_to_args!(Option<T>, &Option<T>);

macro_rules! list_to_args {
    ($([$($generics:tt)*] $type:ty),* $(,)?) => {$(
        impl<T: ToArgs, $($generics)*> ToArgs for $type {
            fn write_args(&self, out: &mut ArgWriter<'_>) {
                for item in self.iter() {
                    item.write_args(out);
                }
            }
            const DIRECT: bool = T::DIRECT;
            fn count(&self) -> usize {
                self.iter().map(T::count).sum()
            }
        }
        impl<T: ToPairs, $($generics)*> ToPairs for $type {}
    )*};
}

list_to_args!(
    [] &[T],
    [] Vec<T>,
    [] &Vec<T>,
    [] Box<[T]>,
    [] &Box<[T]>,
    [] Rc<[T]>,
    [] &Rc<[T]>,
    [] Arc<[T]>,
    [] &Arc<[T]>,
    [const N: usize] [T; N],
    [const N: usize] &[T; N],
    [] VecDeque<T>,
    [] &VecDeque<T>,
    [] BTreeSet<T>,
    [] &BTreeSet<T>,
    [S] HashSet<T, S>,
    [S] &HashSet<T, S>,
);

macro_rules! map_to_args {
    ($([$($generics:tt)*] $type:ty),* $(,)?) => {$(
        impl<K: ToArg, V: ToArg, $($generics)*> ToArgs for $type {
            fn write_args(&self, out: &mut ArgWriter<'_>) {
                for (key, value) in self.iter() {
                    out.arg(key);
                    out.arg(value);
                }
            }
            const DIRECT: bool = K::DIRECT && V::DIRECT;
            fn count(&self) -> usize {
                2 * self.len()
            }
        }
        impl<K: ToArg, V: ToArg, $($generics)*> ToPairs for $type {}
    )*};
}

map_to_args!([] BTreeMap<K, V>, [] &BTreeMap<K, V>, [S] HashMap<K, V, S>, [S] &HashMap<K, V, S>);

macro_rules! tuple_to_args {
    ($(($($name:ident $index:tt),+))*) => {$(
        impl<$($name: ToArgs),+> ToArgs for ($($name,)+) {
            #[inline(always)]
            fn write_args(&self, out: &mut ArgWriter<'_>) {
                $(self.$index.write_args(out);)+
            }
            const DIRECT: bool = $($name::DIRECT)&&+;
            #[inline(always)]
            fn count(&self) -> usize {
                0 $(+ self.$index.count())+
            }
        }
        impl<$($name: ToArgs),+> ToArgs for &($($name,)+) {
            #[inline(always)]
            fn write_args(&self, out: &mut ArgWriter<'_>) {
                (**self).write_args(out);
            }
            const DIRECT: bool = $($name::DIRECT)&&+;
            #[inline(always)]
            fn count(&self) -> usize {
                (**self).count()
            }
        }
    )*};
}

tuple_to_args! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11)
}

macro_rules! tuple_to_pairs {
    ($(($($name:ident),+))*) => {$(
        impl<$($name: ToArg),+> ToPairs for ($($name,)+) {}
        impl<$($name: ToArg),+> ToPairs for &($($name,)+) {}
    )*};
}

tuple_to_pairs! {
    (A, B)
    (A, B, C, D)
    (A, B, C, D, E, F)
    (A, B, C, D, E, F, G, H)
    (A, B, C, D, E, F, G, H, I, J)
    (A, B, C, D, E, F, G, H, I, J, K, L)
}

/// No arguments at all: `conn.command("PING", ())`.
impl ToArgs for () {
    fn write_args(&self, _: &mut ArgWriter<'_>) {}
    const DIRECT: bool = true;
    fn count(&self) -> usize {
        0
    }
}

/// What an iterator yields, as arguments: made by [`each`].
pub struct Each<I>(Cell<Option<I>>);

/// What an iterator yields before its first error, as arguments: made by [`try_each`].
pub struct TryEach<I>(Cell<Option<I>>);

/// Takes what `items` yields as arguments, each item one ([`ToArg`]) or several ([`ToArgs`]).
///
/// The items are gathered before the connection is touched, so the iterator may itself use the connection. For one that may
/// fail, such as the elements of another reply, see [`try_each`].
///
/// ```no_run
/// use redefer::{args, prelude::*};
///
/// fn fill(conn: &Connection) -> redefer::Result<i64> {
///     conn.rpush("squares", args::each((0..10).map(|n| n * n))).wait()
/// }
/// ```
pub fn each<I: IntoIterator<Item: ToArgs>>(items: I) -> Each<I::IntoIter> {
    Each(Cell::new(Some(items.into_iter())))
}

/// Like [`each`], for an iterator of results: its first error becomes the error of the command, of which nothing is sent.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use redefer::{args, prelude::*};
///
/// conn.rpush("letters", ["a", "b"]).wait()?;
/// let doubled = conn.lrange::<String>("letters", 0, -1).map(|letter| Ok(letter?.repeat(2)));
/// assert_eq!(conn.rpush("doubled", args::try_each(doubled)).wait()?, 2);
/// # }
/// # Ok(())
/// # }
/// ```
pub fn try_each<T: ToArgs, I: IntoIterator<Item = Result<T>>>(items: I) -> TryEach<I::IntoIter> {
    TryEach(Cell::new(Some(items.into_iter())))
}

impl<T: ToArgs, I: Iterator<Item = Result<T>>> ToArgs for TryEach<I> {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        for item in self.0.take().into_iter().flatten() {
            match item {
                Ok(item) => item.write_args(out),
                Err(error) => return out.fail(error),
            }
        }
    }
}

impl<T: ToPairs, I: Iterator<Item = Result<T>>> ToPairs for TryEach<I> {}

impl<I> std::fmt::Debug for TryEach<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TryEach").finish_non_exhaustive()
    }
}

impl<I: Iterator<Item: ToArgs>> ToArgs for Each<I> {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        for item in self.0.take().into_iter().flatten() {
            item.write_args(out);
        }
    }
}

impl<I: Iterator<Item: ToPairs>> ToPairs for Each<I> {}

impl<I> std::fmt::Debug for Each<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Each").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(list: impl ToArgs) -> (String, usize) {
        let mut buf = Vec::new();
        let mut out = ArgWriter::new(&mut buf, 0);
        list.write_args(&mut out);
        let (end, count) = (out.end().unwrap_or(0), out.count());
        buf.truncate(end);
        (String::from_utf8(buf).unwrap(), count)
    }

    fn check<L: ToArgs>(list: L, want: &[&str]) {
        if L::DIRECT {
            assert_eq!(list.count(), want.len());
        }
        let text: String = want.iter().map(|w| format!("${}\r\n{w}\r\n", w.len())).collect();
        assert_eq!(written(list), (text, want.len()));
    }

    #[test]
    fn every_kind_of_list_is_written_in_order() {
        check("one", &["one"]);
        check(b"bytes", &["bytes"]);
        check(b"bytes".to_vec(), &["bytes"]);
        check((), &[]);
        check(Some(1), &["1"]);
        check(None::<i64>, &[]);
        check(Some(("COUNT", 1)), &["COUNT", "1"]);
        check(None::<(&str, i64)>, &[]);
        check(Some(vec!["a", "b"]), &["a", "b"]);
        check(("a", &None::<String>, Some([1, 2])), &["a", "1", "2"]);
        check(Box::<[&str]>::from(["a"]), &["a"]);
        check(Rc::<[i64]>::from([1, 2]), &["1", "2"]);
        check(Arc::<[(&str, i64)]>::from([("a", 1)]), &["a", "1"]);
        check(Box::<[u8]>::from(*b"bytes"), &["bytes"]);
        check(
            (u128::MAX, i128::MIN),
            &["340282366920938463463374607431768211455", "-170141183460469231731687303715884105728"],
        );
        check(("a", 1), &["a", "1"]);
        check(["a", "b"], &["a", "b"]);
        check(&["a", "b"][..], &["a", "b"]);
        check(vec![String::from("a")], &["a"]);
        check([("a", 1), ("b", 2)], &["a", "1", "b", "2"]);
        check(BTreeMap::from([("a", 1.5), ("b", 2.0)]), &["a", "1.5", "b", "2"]);
        check(HashMap::from([("a", 1)]), &["a", "1"]);
        check(("a", ["b", "c"], Some("d"), 5u64), &["a", "b", "c", "d", "5"]);
        check(each((0..3).map(|n| n * 2)), &["0", "2", "4"]);
        check(each([("a", 1), ("b", 2)]), &["a", "1", "b", "2"]);
        check(Vec::<&str>::new(), &[]);
    }
}
