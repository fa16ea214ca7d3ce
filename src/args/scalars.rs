//! One argument.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use crate::error::Error;
use crate::resp::number;

/// The bytes of one argument.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Arg<'a> {
    /// Bytes that are there already.
    Bytes(&'a [u8]),
    /// An integer, sent as text.
    Integer(i64),
    /// An unsigned integer, sent as text.
    Unsigned(u64),
    /// A double, sent as the shortest text that reads back as the same number; `inf`, `-inf` and `nan` for those.
    Double(f64),
    /// Bytes made for the occasion.
    Owned(Vec<u8>),
    /// No argument at all: the command fails with this error, and nothing of it is sent.
    Failed(Error),
}

/// Two that failed are never equal, since errors cannot be compared.
impl PartialEq for Arg<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Arg::Bytes(a), Arg::Bytes(b)) => a == b,
            (Arg::Integer(a), Arg::Integer(b)) => a == b,
            (Arg::Unsigned(a), Arg::Unsigned(b)) => a == b,
            (Arg::Double(a), Arg::Double(b)) => a == b,
            (Arg::Owned(a), Arg::Owned(b)) => a == b,
            _ => false,
        }
    }
}

impl<'a> From<&'a [u8]> for Arg<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Arg::Bytes(bytes)
    }
}

impl<'a> From<&'a str> for Arg<'a> {
    fn from(text: &'a str) -> Self {
        Arg::Bytes(text.as_bytes())
    }
}

impl From<Vec<u8>> for Arg<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Arg::Owned(bytes)
    }
}

impl From<String> for Arg<'_> {
    fn from(text: String) -> Self {
        Arg::Owned(text.into_bytes())
    }
}

/// A value that can be one argument of a command: a key, a member, a payload, a number.
///
/// A value that cannot be sent is [`Arg::Failed`]. A panic in [`to_arg`](ToArg::to_arg) leaves nothing of the command behind. The method runs before the connection is
/// touched, so it may itself use the connection.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a command",
    label = "not text, bytes or a number",
    note = "for a type of your own implement `ToArg`; a single `u8` is none, since `[u8]` is bytes",
    note = "an `Option` is none either, since there is no nil to be sent; in a list of arguments it is nothing or one of them",
    note = "a type that serde can serialise is one inside `redefer::serde::Json`, with the feature `serde`"
)]
pub trait ToArg {
    /// The argument's bytes.
    fn to_arg(&self) -> Arg<'_>;

    /// Whether `to_arg` is known to do nothing but look at the value, so that it may run while the connection is in
    /// use. Only for the types of this crate.
    #[doc(hidden)]
    const DIRECT: bool = false;
}

impl ToArg for Arg<'_> {
    fn to_arg(&self) -> Arg<'_> {
        match self {
            Arg::Bytes(bytes) => Arg::Bytes(bytes),
            Arg::Owned(bytes) => Arg::Bytes(bytes),
            Arg::Integer(n) => Arg::Integer(*n),
            Arg::Unsigned(n) => Arg::Unsigned(*n),
            Arg::Double(x) => Arg::Double(*x),
            Arg::Failed(error) => Arg::Failed(error.clone()),
        }
    }
    // Since it may be an error.
    const DIRECT: bool = false;
}

macro_rules! bytes_to_arg {
    ($($(#[$generics:meta])? $type:ty),* $(,)?) => {$(
        impl ToArg for $type {
            #[inline(always)]
            fn to_arg(&self) -> Arg<'_> {
                Arg::Bytes(self.as_ref())
            }
            const DIRECT: bool = true;
        }
    )*};
}

bytes_to_arg!(str, String, [u8], Vec<u8>);

impl<const N: usize> ToArg for [u8; N] {
    #[inline(always)]
    fn to_arg(&self) -> Arg<'_> {
        Arg::Bytes(self)
    }
    const DIRECT: bool = true;
}

macro_rules! number_to_arg {
    ($variant:ident: $($type:ty),*) => {$(
        impl ToArg for $type {
            #[inline(always)]
            fn to_arg(&self) -> Arg<'_> {
                Arg::$variant((*self).into())
            }
            const DIRECT: bool = true;
        }
    )*};
}

number_to_arg!(Integer: i8, i16, i32, i64, bool);
number_to_arg!(Unsigned: u16, u32, u64);
number_to_arg!(Double: f64);

impl ToArg for isize {
    fn to_arg(&self) -> Arg<'_> {
        Arg::Integer(*self as i64)
    }
    const DIRECT: bool = true;
}

impl ToArg for usize {
    fn to_arg(&self) -> Arg<'_> {
        Arg::Unsigned(*self as u64)
    }
    const DIRECT: bool = true;
}

macro_rules! text_to_arg {
    ($($type:ty),*) => {$(
        impl ToArg for $type {
            fn to_arg(&self) -> Arg<'_> {
                Arg::from(self.to_string())
            }
            const DIRECT: bool = true;
        }
    )*};
}

text_to_arg!(i128, u128, char);

impl ToArg for f32 {
    fn to_arg(&self) -> Arg<'_> {
        // As text first: 0.1f32 is to be sent as 0.1, not as the double nearest to it.
        Arg::from(number::shorten(format!("{self:?}")))
    }
    const DIRECT: bool = true;
}

macro_rules! pointer_to_arg {
    ($($pointer:ty),*) => {$(
        impl<T: ToArg + ?Sized> ToArg for $pointer {
            #[inline(always)]
            fn to_arg(&self) -> Arg<'_> {
                (**self).to_arg()
            }
            const DIRECT: bool = T::DIRECT;
        }
    )*};
}

pointer_to_arg!(&T, &mut T, Box<T>, Rc<T>, Arc<T>);

impl<T: ToArg + ToOwned + ?Sized> ToArg for Cow<'_, T> {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        (**self).to_arg()
    }
    // `Deref` of a Cow calls `Borrow` of its owned type, which may be anybody's.
    const DIRECT: bool = false;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_sent_as_the_shortest_text() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (0.1, "0.1"),
            (1e300, "1e300"),
            (1.5e-9, "1.5e-9"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (f64::MAX, "1.7976931348623157e308"),
        ];
        for (x, text) in cases {
            assert_eq!(number::double_text(x), text);
        }
        assert_eq!(0.1f32.to_arg(), Arg::Owned(b"0.1".to_vec()));
    }

    #[test]
    fn pointers_are_what_they_point_to() {
        assert_eq!("k".to_arg(), Arg::Bytes(b"k"));
        assert_eq!((&&String::from("k")).to_arg(), Arg::Bytes(b"k"));
        assert_eq!(Box::new(5i64).to_arg(), Arg::Integer(5));
        assert_eq!(Cow::Borrowed("k").to_arg(), Arg::Bytes(b"k"));
        assert_eq!(Arc::<str>::from("k").to_arg(), Arg::Bytes(b"k"));
        assert_eq!(true.to_arg(), Arg::Integer(1));
        assert_eq!(u128::MAX.to_arg(), Arg::Owned(b"340282366920938463463374607431768211455".to_vec()));
        assert_eq!('é'.to_arg(), Arg::Owned("é".into()));
    }
}
