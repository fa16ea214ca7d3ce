//! The trait, and what is one value: statuses, numbers, nil and errors.

use crate::error::{Error, Result, ServerError, UnexpectedReply};
use crate::resp::{Frame, number};

/// A type that a reply can be decoded into.
///
/// # What takes what
///
/// A type takes a value in each spelling that servers have for it: a score comes as text in RESP2 and as a double in
/// RESP3, fields and values come as a flat array, as an array of arrays or as a map. What counts is the frame that
/// arrived, not the protocol that was agreed on.
///
/// | type | takes |
/// | --- | --- |
/// | `()` | a status, such as `OK`, other than `QUEUED` |
/// | `bool` | a boolean, the integers 0 and 1, the texts `0` and `1` |
/// | `i8` … `i128`, `u16` … `u128`, `isize`, `usize` | an integer, text or a double that is one, a boolean |
/// | `f32`, `f64` | a double, an integer, a boolean, or text that is a number, `inf`, `-inf` or `nan` |
/// | `String`, `Box<str>`, `Rc<str>`, `Arc<str>`, `Cow<'static, str>`, `char` | UTF-8 text; numbers as text |
/// | `Vec<u8>`, `Box<[u8]>`, `Rc<[u8]>`, `Arc<[u8]>`, `[u8; N]` | any string; numbers as text |
/// | `Option<T>` | nil, or what `T` takes |
/// | `Result<T, ServerError>` | an error, or what `T` takes |
/// | `Result<T, redefer::Error>` | everything: what `T` does not take is the value of this one element |
/// | `Vec<T>`, `VecDeque`, `Box<[T]>`, `HashSet`, `BTreeSet` | an array, a set, the keys and values of a map in turn |
/// | the same of pairs `(K, V)`, `HashMap`, `BTreeMap` | a map, an array of arrays of two, a flat array of even size |
/// | `[T; N]`, tuples of up to twelve | exactly so many elements |
/// | [`Value`](crate::Value) | everything but an error that is the whole reply |
///
/// What a type does not take is an error and nothing worse: nil is [`Error::Nil`], an error reply [`Error::Server`],
/// the rest [`Error::UnexpectedReply`]. An empty array is not nil, except for a pair: ZPOPMIN answers a missing key
/// with an empty array where there would be a member and its score.
///
/// Where a list comes nested, it cannot be read as a flat one: `ZRANGE … WITHSCORES` is flat in RESP2 and nested in RESP3, so
/// ask for pairs, which take both. A flat list can be read as pairs and not as triples: read a `Vec<T>`, and take its
/// `chunks_exact(3)`.
///
/// There is nothing for `u8`: a `Vec<u8>` is bytes, and could not be told from a list of small numbers.
///
/// # Types of one's own
///
/// Let other types do the reading, or look at the [`Frame`]. [`Error::unexpected`] is the error for a frame of the
/// wrong kind, [`Error::custom`] is for everything else. Whatever is returned, the reply has been read whole, and the
/// connection can be used on; but not by `from_reply` itself.
///
/// ```
/// use std::collections::HashMap;
///
/// use redefer::resp::{Decoder, Frame};
/// use redefer::{Error, FromReply, Result};
///
/// /// From a string: `GET color`.
/// #[derive(Debug, PartialEq)]
/// struct Color(u32);
///
/// impl FromReply for Color {
///     fn from_reply(frame: Frame<'_>) -> Result<Self> {
///         let text = frame.as_bytes().ok_or_else(|| Error::unexpected("a color", &frame))?;
///         let digits = text.strip_prefix(b"#").and_then(|digits| str::from_utf8(digits).ok());
///         let digits = digits.ok_or_else(|| Error::custom("a color begins with #"))?;
///         u32::from_str_radix(digits, 16).map(Color).map_err(Error::custom)
///     }
/// }
///
/// /// From fields and values: `HGETALL user`.
/// #[derive(Debug, PartialEq)]
/// struct User {
///     name: String,
///     color: Option<String>,
/// }
///
/// impl FromReply for User {
///     fn from_reply(frame: Frame<'_>) -> Result<Self> {
///         let mut fields = HashMap::<String, String>::from_reply(frame)?;
///         let name = fields.remove("name").ok_or_else(|| Error::custom("a user has a name"))?;
///         Ok(User { name, color: fields.remove("color") })
///     }
/// }
///
/// let mut decoder = Decoder::new();
/// let (frame, _) = decoder.decode(b"$7\r\n#ff8000\r\n")?.expect("a whole reply");
/// assert_eq!(Color::from_reply(frame)?, Color(0xff8000));
///
/// let (frame, _) = decoder.decode(b"*2\r\n$4\r\nname\r\n$3\r\nAda\r\n")?.expect("a whole reply");
/// assert_eq!(User::from_reply(frame)?, User { name: "Ada".into(), color: None });
///
/// let (frame, _) = decoder.decode(b"$-1\r\n")?.expect("a whole reply");
/// assert_eq!(Option::<Color>::from_reply(frame)?, None);
/// # Ok::<(), Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a reply cannot be decoded into `{Self}`",
    note = "if this is `!` or `()`, no type was said: say it, `get::<String>(..)`, or give the variable one",
    note = "for a type of your own implement `FromReply`; a single `u8` is none, since `Vec<u8>` is bytes"
)]
pub trait FromReply: Sized {
    /// Decodes a frame, which is a whole reply or one element of it.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the frame is an error, [`Error::Nil`] if it is nil, and [`Error::UnexpectedReply`] or
    /// [`Error::Custom`] if it is something else that this type does not take.
    fn from_reply(frame: Frame<'_>) -> Result<Self>;

    /// Decodes a frame that is an element of another. Differs only for those that take errors as elements and not as
    /// replies.
    #[doc(hidden)]
    #[inline]
    fn from_element(frame: Frame<'_>) -> Result<Self> {
        Self::from_reply(frame)
    }

    /// Whether this is a pair, which comes as one element that is an aggregate, or as two elements.
    #[doc(hidden)]
    const PAIR: bool = false;

    /// Decodes a pair that came as two elements. Called only where [`PAIR`](FromReply::PAIR) is true.
    #[doc(hidden)]
    fn from_pair(first: Frame<'_>, _second: Frame<'_>) -> Result<Self> {
        Err(Error::unexpected("one element", &first))
    }

    /// Whether the frame stands for nil where this type is expected, so that an `Option` of it is `None`.
    #[doc(hidden)]
    #[inline]
    fn is_nil(frame: &Frame<'_>) -> bool {
        frame.is_nil()
    }
}

impl Error {
    /// The error for a frame that a type does not take, for implementations of [`FromReply`](crate::FromReply):
    /// [`Error::Server`] if the frame is an error, [`Error::Nil`] if it is nil, else [`Error::UnexpectedReply`].
    ///
    /// `expected` says in words what the type takes: `"an integer"`.
    #[cold]
    #[inline(never)]
    #[must_use]
    pub fn unexpected(expected: &'static str, frame: &Frame<'_>) -> Self {
        match frame {
            Frame::Error(message) => Error::Server(ServerError::new(message)),
            Frame::Null => Error::Nil,
            other => mismatch_of(expected, other.kind(), other),
        }
    }
}

/// The error for a frame of a kind that would do, with contents that do not.
#[cold]
#[inline(never)]
pub(super) fn mismatch(expected: &'static str, got: &'static str) -> Error {
    UnexpectedReply::new(expected, got).into()
}

/// The same, with a look at what came.
#[cold]
#[inline(never)]
fn mismatch_of(expected: &'static str, got: &'static str, frame: &Frame<'_>) -> Error {
    let error = UnexpectedReply::new(expected, got);
    match frame {
        Frame::Integer(n) => error.with_sample(n.to_string()),
        Frame::Double(x) => error.with_sample(number::double_text(*x)),
        other => match other.as_bytes() {
            // Bytes that are no text might be a secret, and say nothing to people.
            Some(text) if str::from_utf8(text).is_ok() => error.with_text(text),
            _ => error,
        },
    }
    .into()
}

impl FromReply for () {
    #[inline(always)]
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        match frame {
            Frame::SimpleString(b"QUEUED") => Err(mismatch("a status", "the status QUEUED")),
            Frame::SimpleString(_) => Ok(()),
            other => Err(Error::unexpected("a status", &other)),
        }
    }
}

impl FromReply for bool {
    #[inline]
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        match frame {
            Frame::Integer(0) | Frame::Boolean(false) => Ok(false),
            Frame::Integer(1) | Frame::Boolean(true) => Ok(true),
            Frame::Integer(_) => Err(mismatch_of("0 or 1", "another integer", &frame)),
            other => match other.as_bytes() {
                Some(b"0") => Ok(false),
                Some(b"1") => Ok(true),
                Some(_) => Err(mismatch_of("0 or 1", "text that is not one", &other)),
                None => Err(Error::unexpected("0 or 1", &other)),
            },
        }
    }
}

/// Integers up to this magnitude have neighbours as doubles, so that a double is exactly one of them.
const EXACT: f64 = (1u64 << f64::MANTISSA_DIGITS) as f64;

/// The integer that a double is, if it is exactly one. RESP2 sends scores as text, in which `3` is an integer; so the
/// `,3` of RESP3 is to be one, too.
#[cold]
fn exact_integer(x: f64) -> Option<i64> {
    (x.fract() == 0.0 && x.abs() < EXACT).then_some(x as i64)
}

/// Whether `text` is an integer of any size, in the one spelling that servers use.
fn is_integer(text: &[u8]) -> bool {
    match text.strip_prefix(b"-").unwrap_or(text) {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn parse_wide<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    if is_integer(text) { str::from_utf8(text).ok()?.parse().ok() } else { None }
}

/// Why a frame is not an integer of the type whose range `expected` names.
#[cold]
#[inline(never)]
fn no_integer(expected: &'static str, frame: &Frame<'_>) -> Error {
    match (frame, frame.as_bytes()) {
        (Frame::Integer(_), _) => mismatch_of(expected, "an integer out of its range", frame),
        (_, Some(text)) if is_integer(text) => mismatch_of(expected, "an integer out of its range", frame),
        (_, Some(_)) => mismatch_of(expected, "text that is not one", frame),
        (Frame::Double(_), _) => mismatch_of(expected, "another double", frame),
        _ => Error::unexpected(expected, frame),
    }
}

macro_rules! integers {
    ($parse:path: $($type:ty),*) => {$(
        impl FromReply for $type {
            #[inline]
            fn from_reply(frame: Frame<'_>) -> Result<Self> {
                let value = match frame {
                    Frame::Integer(n) => <$type>::try_from(n).ok(),
                    Frame::Boolean(b) => Some(b.into()),
                    Frame::Double(x) => exact_integer(x).and_then(|n| n.try_into().ok()),
                    other => other.as_bytes().and_then($parse).and_then(|n| <$type>::try_from(n).ok()),
                };
                value.ok_or_else(|| no_integer(concat!("an integer (", stringify!($type), ")"), &frame))
            }
        }
    )*};
}

integers!(number::parse_i64: i8, i16, i32, i64, isize);
integers!(number::parse_u64: u16, u32, u64, usize);
integers!(parse_wide::<i128>: i128);
integers!(parse_wide::<u128>: u128);

impl FromReply for f64 {
    #[inline]
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        match frame {
            Frame::Double(x) => Ok(x),
            Frame::Integer(n) => Ok(n as f64),
            Frame::Boolean(b) => Ok(b.into()),
            other => match other.as_bytes() {
                Some(text) => {
                    number::parse_f64(text).ok_or_else(|| mismatch_of("a number", "text that is not one", &other))
                }
                None => Err(Error::unexpected("a number", &other)),
            },
        }
    }
}

impl FromReply for f32 {
    #[inline]
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        f64::from_reply(frame).map(|x| x as f32)
    }
}

impl<T: FromReply> FromReply for Option<T> {
    #[inline]
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        if T::is_nil(&frame) { Ok(None) } else { T::from_reply(frame).map(Some) }
    }

    #[inline]
    fn from_element(frame: Frame<'_>) -> Result<Self> {
        if T::is_nil(&frame) { Ok(None) } else { T::from_element(frame).map(Some) }
    }
}

/// An error is the value of the one element, and the others can be had.
impl<T: FromReply> FromReply for Result<T, ServerError> {
    #[inline]
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        match frame {
            Frame::Error(message) => Ok(Err(ServerError::new(message))),
            other => T::from_reply(other).map(Ok),
        }
    }

    #[inline]
    fn is_nil(frame: &Frame<'_>) -> bool {
        T::is_nil(frame)
    }
}

/// Never an error: what one element gives is its value, whatever it is, and the others can be had.
///
/// As a whole reply, an error of the server is still that of the wait.
impl<T: FromReply> FromReply for Result<T> {
    #[inline]
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        Ok(T::from_reply(frame))
    }

    #[inline]
    fn from_element(frame: Frame<'_>) -> Result<Self> {
        Ok(T::from_element(frame))
    }

    const PAIR: bool = T::PAIR;

    #[inline]
    fn from_pair(first: Frame<'_>, second: Frame<'_>) -> Result<Self> {
        Ok(T::from_pair(first, second))
    }

    #[inline]
    fn is_nil(frame: &Frame<'_>) -> bool {
        T::is_nil(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{decode, refusal, with_frame};
    use super::*;

    #[test]
    fn a_status_is_success_and_nothing_else_is() {
        assert!(decode::<()>("+OK").is_ok());
        assert!(decode::<()>("+fine").is_ok(), "EVAL \"return {{ok='fine'}}\"");
        assert_eq!(refusal::<()>("+QUEUED"), "unexpected reply: expected a status, got the status QUEUED");
        for (wire, kind) in [(":1", "an integer"), ("$2 OK", "a bulk string"), ("*0", "an array"), ("#t", "a boolean")]
        {
            assert_eq!(refusal::<()>(wire), format!("unexpected reply: expected a status, got {kind}"));
        }
    }

    #[test]
    fn a_set_that_did_not_happen_is_none() {
        assert_eq!(decode::<Option<()>>("+OK").unwrap(), Some(()));
        assert_eq!(decode::<Option<()>>("$-1").unwrap(), None);
        assert_eq!(decode::<Option<()>>("_").unwrap(), None);
        assert!(decode::<Option<()>>("+QUEUED").is_err());
        assert!(matches!(decode::<()>("$-1"), Err(Error::Nil)));
    }

    #[test]
    fn nil_comes_in_three_kinds_and_is_none_of_the_empty_things() {
        for nil in ["$-1", "*-1", "_"] {
            assert_eq!(decode::<Option<String>>(nil).unwrap(), None);
            assert_eq!(decode::<Option<Vec<String>>>(nil).unwrap(), None);
            assert_eq!(decode::<Option<i64>>(nil).unwrap(), None);
            assert_eq!(decode::<Option<(String, f64)>>(nil).unwrap(), None);
            assert!(matches!(decode::<String>(nil), Err(Error::Nil)));
            assert!(matches!(decode::<Vec<String>>(nil), Err(Error::Nil)));
            assert!(matches!(decode::<i64>(nil), Err(Error::Nil)));
            assert!(matches!(decode::<f64>(nil), Err(Error::Nil)));
            assert!(matches!(decode::<bool>(nil), Err(Error::Nil)));
            assert!(matches!(decode::<(String, f64)>(nil), Err(Error::Nil)));
            assert!(matches!(decode::<[i64; 2]>(nil), Err(Error::Nil)));
            assert!(matches!(decode::<Result<i64, ServerError>>(nil), Err(Error::Nil)));
        }
        assert_eq!(decode::<Option<Vec<String>>>("*0").unwrap(), Some(vec![]));
        assert_eq!(decode::<Option<String>>("$0 ").unwrap(), Some(String::new()));
    }

    #[test]
    fn an_error_reply_is_the_error_of_every_type() {
        fn refused<T: FromReply>() -> bool {
            let error = with_frame("-WRONGTYPE", T::from_reply).err();
            error.is_some_and(|error| error.code() == Some("WRONGTYPE"))
        }
        assert!(refused::<()>() && refused::<bool>() && refused::<i64>() && refused::<u128>() && refused::<f64>());
        assert!(refused::<String>() && refused::<Vec<u8>>() && refused::<char>() && refused::<[u8; 3]>());
        assert!(refused::<Option<i64>>() && refused::<Vec<i64>>() && refused::<(i64, i64)>() && refused::<[i64; 2]>());
        assert!(refused::<std::collections::HashMap<String, String>>() && refused::<crate::Value>());
    }

    #[test]
    fn an_error_can_be_asked_for_as_a_value() {
        let reply = decode::<Result<i64, ServerError>>("!10 MYERR_bad!").unwrap();
        assert_eq!(reply, Err(ServerError::new("MYERR_bad!")));
        assert_eq!(decode::<Result<i64, ServerError>>(":5").unwrap(), Ok(5));
        assert_eq!(decode::<Option<Result<i64, ServerError>>>("_").unwrap(), None);
        assert_eq!(decode::<Result<Option<i64>, ServerError>>("_").unwrap(), Ok(None));
    }

    #[test]
    fn any_error_of_an_element_can_be_its_value() {
        let wire = "*4 $1 1 $3 two _ -E_x";
        let all = decode::<Vec<Result<i64>>>(wire).unwrap();
        assert!(matches!(
            &all[..],
            [Ok(1), Err(Error::UnexpectedReply(_)), Err(Error::Nil), Err(Error::Server(error))] if error.message() == b"E_x"
        ));
        let all = decode::<Vec<Option<Result<i64>>>>(wire).unwrap();
        assert!(matches!(&all[..], [Some(Ok(1)), Some(Err(_)), None, Some(Err(_))]));
        let pairs = "*2 *2 $1 a $1 1 *2 $1 b $3 two";
        for wire in [pairs, "*4 $1 a $1 1 $1 b $3 two", "%2 $1 a $1 1 $1 b $3 two"] {
            let all = decode::<Vec<Result<(String, i64)>>>(wire).unwrap();
            assert!(matches!(&all[..], [Ok((a, 1)), Err(Error::UnexpectedReply(_))] if a == "a"), "{wire}");
            let all = decode::<std::collections::HashMap<String, Result<i64>>>(wire).unwrap();
            assert!(matches!((&all["a"], &all["b"]), (Ok(1), Err(_))), "{wire}");
        }
        assert!(matches!(decode::<Result<i64>>("$3 two"), Ok(Err(Error::UnexpectedReply(_)))));
        assert!(matches!(decode::<Result<i64>>("_"), Ok(Err(Error::Nil))));
    }

    #[test]
    fn an_error_shows_what_came() {
        let text = |wire: &str| decode::<i64>(wire).unwrap_err().to_string().split_once(", got ").unwrap().1.to_owned();
        assert_eq!(text("$3 two"), r#"text that is not one: "two""#);
        assert_eq!(text("$4 a\"\\\u{1b}"), r#"text that is not one: "a\"\\\x1b""#);
        assert_eq!(text(",0.5"), "another double: 0.5");
        let long = "x".repeat(41);
        assert_eq!(text(&format!("$41 {long}")), format!("text that is not one: \"{}\"…", &long[..40]));
        assert_eq!(text(&format!("$40 {}", &long[..40])), format!("text that is not one: \"{}\"", &long[..40]));
        assert_eq!(text("*1 $3 two"), "an array");
        let secret = i64::from_reply(Frame::Bulk(b"\xffsecret")).unwrap_err().to_string();
        assert!(secret.ends_with("text that is not one"), "{secret}");
        assert_eq!(
            decode::<i64>("_").unwrap_err().to_string(),
            "the reply is nil: ask for an `Option` where it may be"
        );
    }

    #[test]
    fn booleans_are_zero_and_one_in_every_spelling() {
        for (no, yes) in [(":0", ":1"), ("#f", "#t"), ("$1 0", "$1 1")] {
            assert!(!decode::<bool>(no).unwrap());
            assert!(decode::<bool>(yes).unwrap());
        }
        for wire in [":2", ":-1", "+OK", "$4 true", "$0 ", "*0", ",1"] {
            assert!(decode::<bool>(wire).is_err(), "{wire}");
        }
    }

    #[test]
    fn integers_come_as_integers_as_text_and_as_doubles() {
        for wire in [":42", "$2 42", "+42", "(42", "=6 txt:42", ",42"] {
            assert_eq!(decode::<i64>(wire).unwrap(), 42);
            assert_eq!(decode::<u16>(wire).unwrap(), 42);
            assert_eq!(decode::<i128>(wire).unwrap(), 42);
            assert_eq!(decode::<usize>(wire).unwrap(), 42);
        }
        assert_eq!(decode::<i8>(":-128").unwrap(), -128);
        assert_eq!(decode::<i64>("$20 -9223372036854775808").unwrap(), i64::MIN);
        assert_eq!(decode::<i64>("#t").unwrap(), 1, "redis.setresp(3); return true");
        assert_eq!(decode::<u64>("$20 18446744073709551615").unwrap(), u64::MAX, "cursors of SCAN");
        let big = "1234567999999999999999999999999999999";
        assert_eq!(decode::<i128>(&format!("({big}")).unwrap().to_string(), big);
        assert_eq!(decode::<u128>(&format!("${} {big}", big.len())).unwrap().to_string(), big);
        assert_eq!(decode::<i128>(&format!("(-{big}")).unwrap().to_string(), format!("-{big}"));
    }

    #[test]
    fn integers_out_of_range_say_so() {
        let says = |kind| format!("unexpected reply: expected an integer ({kind}), got an integer out of its range");
        assert_eq!(refusal::<i8>(":128"), says("i8"));
        assert_eq!(refusal::<u64>(":-1"), says("u64"));
        assert_eq!(refusal::<u16>("$5 65536"), says("u16"));
        assert_eq!(refusal::<i64>("$19 9223372036854775808"), says("i64"));
        assert_eq!(refusal::<u64>("$2 -1"), says("u64"));
        assert_eq!(refusal::<i64>("(1234567999999999999999999999999999999"), says("i64"));
        assert_eq!(refusal::<u128>("$2 -1"), says("u128"));
    }

    #[test]
    fn text_that_is_no_integer_is_refused() {
        for wire in ["$0 ", "$1 a", "$2 +1", "$2 01", "$2 -0", "$3 1.5", "$1 -", "+OK", "$2 1_"] {
            let says = "unexpected reply: expected an integer (i64), got text that is not one";
            assert_eq!(refusal::<i64>(wire), says, "{wire}");
            assert!(decode::<u64>(wire).is_err() && decode::<i128>(wire).is_err() && decode::<u128>(wire).is_err());
        }
        for wire in [",3.5", ",inf", ",nan", ",1e300", ",9007199254740992"] {
            assert!(decode::<i64>(wire).is_err(), "{wire}");
        }
        assert_eq!(refusal::<i64>("*0"), "unexpected reply: expected an integer (i64), got an array");
    }

    #[test]
    fn doubles_are_the_same_in_both_protocols() {
        for (resp2, resp3, value) in [
            ("$3 2.5", ",2.5", 2.5),
            ("$3 inf", ",inf", f64::INFINITY),
            ("$4 -inf", ",-inf", f64::NEG_INFINITY),
            ("$6 1e+300", ",1e+300", 1e300),
            ("$19 0.10000000000000001", ",0.1", 0.1),
            ("$20 13.36138933897018433", ",13.36138933897018433", 13.361389338970184),
            (":3", ",3", 3.0),
            ("$2 -0", ",-0", -0.0),
        ] {
            assert_eq!(decode::<f64>(resp2).unwrap(), value);
            assert_eq!(decode::<f64>(resp3).unwrap(), value);
            assert_eq!(decode::<f32>(resp2).unwrap(), value as f32);
            assert_eq!(decode::<f32>(resp3).unwrap(), value as f32);
        }
        assert!(decode::<f64>(",nan").unwrap().is_nan() && decode::<f64>("$3 nan").unwrap().is_nan());
        assert!(decode::<f64>("$4 -nan").unwrap().is_nan() && decode::<f64>(",-nan").unwrap().is_nan());
        assert_eq!(refusal::<f64>("$3 abc"), "unexpected reply: expected a number, got text that is not one");
        assert_eq!(refusal::<f64>("~0"), "unexpected reply: expected a number, got a set");
    }
}
