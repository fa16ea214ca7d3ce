//! Text and bytes.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use super::FromReply;
use super::from_reply::mismatch;
use crate::error::{Error, Result};
use crate::resp::{Frame, number};

/// The bytes of a frame that is a string or a number. RESP2 has only text for doubles and only integers for booleans,
/// so these are written as RESP2 would have them.
#[inline]
fn bytes<'a>(frame: Frame<'a>) -> Result<Cow<'a, [u8]>> {
    match frame.as_bytes() {
        Some(bytes) => Ok(Cow::Borrowed(bytes)),
        None => written(&frame).map(|text| Cow::Owned(text.into_bytes())),
    }
}

/// A number as text.
#[inline(never)]
fn written(frame: &Frame<'_>) -> Result<String> {
    match *frame {
        Frame::Integer(n) => Ok(itoa::Buffer::new().format(n).to_owned()),
        Frame::Boolean(b) => Ok(String::from(if b { "1" } else { "0" })),
        Frame::Double(x) => Ok(number::double_text(x)),
        _ => Err(Error::unexpected("a string", frame)),
    }
}

#[cold]
#[inline(never)]
fn not_utf8() -> Error {
    mismatch("UTF-8 text", "bytes that are not UTF-8")
}

/// The text that `bytes` are, in a string of exactly its length.
///
/// The check of the standard library goes byte by byte up to an aligned address and in the last words, which is all
/// there is of a short text. So that is copied to an aligned block of zeros first, half a block from either end, and
/// the block checked: a character that is cut off at the end of the text is also cut off by a zero.
#[inline]
fn string(bytes: &[u8]) -> Result<String> {
    #[repr(align(16))]
    struct Block<const N: usize>([u8; N]);

    macro_rules! padded {
        ($block:literal) => {{
            const HALF: usize = $block / 2;
            let mut block = Block([0; $block]);
            block.0[..HALF].copy_from_slice(&bytes[..HALF]);
            block.0[bytes.len() - HALF..bytes.len()].copy_from_slice(&bytes[bytes.len() - HALF..]);
            str::from_utf8(&block.0).map(|text| String::from(&text[..bytes.len()]))
        }};
    }

    let text = match bytes.len() {
        8..=16 => padded!(16),
        17..=32 => padded!(32),
        _ => str::from_utf8(bytes).map(String::from),
    };
    text.map_err(|_| not_utf8())
}

impl FromReply for String {
    #[inline(always)]
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        match frame {
            Frame::Bulk(bytes) => string(bytes),
            frame => other_string(&frame),
        }
    }
}

#[inline(never)]
fn other_string(frame: &Frame<'_>) -> Result<String> {
    match frame.as_bytes() {
        Some(bytes) => string(bytes),
        None => written(frame),
    }
}

macro_rules! text {
    ($($type:ty),*) => {$(
        impl FromReply for $type {
            fn from_reply(frame: Frame<'_>) -> Result<Self> {
                match frame.as_bytes() {
                    Some(bytes) => str::from_utf8(bytes).map(Self::from).map_err(|_| not_utf8()),
                    None => written(&frame).map(Self::from),
                }
            }
        }
    )*};
}

text!(Box<str>, Rc<str>, Arc<str>);

impl FromReply for Cow<'static, str> {
    #[inline]
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        String::from_reply(frame).map(Cow::Owned)
    }
}

/// Exactly one character.
impl FromReply for char {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let bytes = bytes(frame)?;
        let mut chars = str::from_utf8(&bytes).map_err(|_| not_utf8())?.chars();
        match (chars.next(), chars.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err(mismatch("one character", "an empty string")),
            _ => Err(mismatch("one character", "more text")),
        }
    }
}

macro_rules! bytes {
    ($($type:ty),*) => {$(
        impl FromReply for $type {
            #[inline]
            fn from_reply(frame: Frame<'_>) -> Result<Self> {
                match frame.as_bytes() {
                    Some(bytes) => Ok(Self::from(bytes)),
                    None => written(&frame).map(|text| Self::from(text.into_bytes())),
                }
            }
        }
    )*};
}

bytes!(Vec<u8>, Box<[u8]>, Rc<[u8]>, Arc<[u8]>);

/// Exactly `N` bytes.
impl<const N: usize> FromReply for [u8; N] {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let bytes = bytes(frame)?;
        let expected = "a string of the length asked for";
        let got = if bytes.len() < N { "a shorter one" } else { "a longer one" };
        Self::try_from(&*bytes).map_err(|_| mismatch(expected, got))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{decode, refusal, with_frame};
    use super::*;

    #[test]
    fn text_comes_in_every_kind_of_string() {
        for wire in ["$5 hello", "+hello", "=9 txt:hello"] {
            assert_eq!(decode::<String>(wire).unwrap(), "hello");
            assert_eq!(&*decode::<Box<str>>(wire).unwrap(), "hello");
            assert_eq!(&*decode::<Rc<str>>(wire).unwrap(), "hello");
            assert_eq!(&*decode::<Arc<str>>(wire).unwrap(), "hello");
            assert_eq!(decode::<Cow<'static, str>>(wire).unwrap(), "hello");
            assert_eq!(decode::<Vec<u8>>(wire).unwrap(), b"hello");
            assert_eq!(&*decode::<Box<[u8]>>(wire).unwrap(), b"hello");
            assert_eq!(&*decode::<Rc<[u8]>>(wire).unwrap(), b"hello");
            assert_eq!(&*decode::<Arc<[u8]>>(wire).unwrap(), b"hello");
            assert_eq!(decode::<[u8; 5]>(wire).unwrap(), *b"hello");
        }
        assert_eq!(decode::<String>("$0 ").unwrap(), "");
        assert_eq!(decode::<String>("(1234567999999999999").unwrap(), "1234567999999999999");
    }

    #[test]
    fn numbers_are_text_as_the_older_protocol_would_have_them() {
        for (wire, text) in [
            (":-42", "-42"),
            ("#t", "1"),
            ("#f", "0"),
            (",3", "3"),
            (",2.5", "2.5"),
            (",0.10000000000000001", "0.1"),
            (",1e+300", "1e300"),
            (",inf", "inf"),
            (",-inf", "-inf"),
            (",nan", "nan"),
        ] {
            assert_eq!(decode::<String>(wire).unwrap(), text);
            assert_eq!(decode::<Vec<u8>>(wire).unwrap(), text.as_bytes());
            assert_eq!(&*decode::<Arc<str>>(wire).unwrap(), text);
        }
        assert_eq!(decode::<char>(":7").unwrap(), '7');
    }

    #[test]
    fn text_of_every_length_is_checked_to_its_end() {
        for n in 0..80 {
            for end in ["", "é", "€", "🦀"] {
                let text = "x".repeat(n) + end;
                let read = String::from_reply(Frame::Bulk(text.as_bytes())).unwrap();
                assert_eq!(read, text);
                assert_eq!(read.capacity(), text.len(), "exactly what it needs");
                if !end.is_empty() {
                    let cut = &text.as_bytes()[..text.len() - 1];
                    assert!(String::from_reply(Frame::Bulk(cut)).is_err(), "a character cut at its end, after {n}");
                    let cut = &text.as_bytes()[n + 1..];
                    assert!(String::from_reply(Frame::Bulk(cut)).is_err(), "a character without its beginning");
                }
            }
            let mut zeros = vec![0; n];
            assert_eq!(String::from_reply(Frame::Bulk(&zeros)).unwrap().as_bytes(), zeros);
            zeros.push(0xff);
            assert!(String::from_reply(Frame::Bulk(&zeros)).is_err());
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_as_text_and_taken_as_bytes() {
        let frame = Frame::Bulk(b"a\xffb\r\n");
        let says = "unexpected reply: expected UTF-8 text, got bytes that are not UTF-8";
        assert_eq!(String::from_reply(frame).unwrap_err().to_string(), says);
        assert_eq!(Arc::<str>::from_reply(frame).unwrap_err().to_string(), says);
        assert_eq!(char::from_reply(Frame::Bulk(b"\xff")).unwrap_err().to_string(), says);
        assert_eq!(Vec::<u8>::from_reply(frame).unwrap(), b"a\xffb\r\n");
    }

    #[test]
    fn a_list_is_no_string_and_a_string_no_list() {
        assert_eq!(refusal::<String>("*1 $1 a"), "unexpected reply: expected a string, got an array");
        assert_eq!(refusal::<Vec<u8>>("*1 :1"), "unexpected reply: expected a string, got an array");
        assert_eq!(refusal::<Vec<String>>("$1 a"), "unexpected reply: expected an array, got a bulk string");
        assert_eq!(decode::<Vec<Vec<u8>>>("*2 $1 a $1 b").unwrap(), [b"a", b"b"]);
        assert_eq!(decode::<Vec<String>>("*2 $1 a $1 b").unwrap(), ["a", "b"]);
        with_frame("%0", |map| assert!(String::from_reply(map).is_err()));
    }

    #[test]
    fn characters_and_byte_arrays_have_an_exact_length() {
        assert_eq!(decode::<char>("$2 é").unwrap(), 'é');
        assert_eq!(refusal::<char>("$0 "), "unexpected reply: expected one character, got an empty string");
        assert_eq!(refusal::<char>("$2 ab"), "unexpected reply: expected one character, got more text");
        let says = |got| format!("unexpected reply: expected a string of the length asked for, got {got}");
        assert_eq!(refusal::<[u8; 3]>("$2 ab"), says("a shorter one"));
        assert_eq!(refusal::<[u8; 3]>("$4 abcd"), says("a longer one"));
    }
}
