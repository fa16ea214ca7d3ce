//! Numbers as text. Servers write each integer in one way only, and so these accept one way only: what comes back as a
//! number is written again as the same bytes.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

/// More digits than this may overflow 64 bits, signed or not.
const SAFE_DIGITS: usize = 18;

/// The integer that `text` is: an optional `-`, then digits, without leading zeros, and not `-0`.
#[inline]
pub(crate) fn parse_i64(text: &[u8]) -> Option<i64> {
    match text {
        [b'-', b'0', ..] => None,
        // The magnitude of the least integer is one more than fits, hence the detour over `u64`.
        [b'-', digits @ ..] => 0i64.checked_sub_unsigned(parse_u64(digits)?),
        digits => parse_u64(digits)?.try_into().ok(),
    }
}

/// The integer that `text` is: digits without leading zeros. Cursors of SCAN use all 64 bits.
#[inline]
pub(crate) fn parse_u64(text: &[u8]) -> Option<u64> {
    match text {
        [] | [b'0', _, ..] => None,
        short if short.len() <= SAFE_DIGITS => short.iter().try_fold(0u64, |value, &byte| {
            let digit = byte.wrapping_sub(b'0');
            (digit < 10).then(|| value.wrapping_mul(10).wrapping_add(u64::from(digit)))
        }),
        long => parse_long(long),
    }
}

#[cold]
fn parse_long(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 { value.checked_mul(10)?.checked_add(u64::from(digit)) } else { None }
    })
}

/// The double that `text` is: decimal, with or without a fraction and an exponent, or `inf` or `nan`, each with an
/// optional `-`. What is too large for a double is infinite.
pub(crate) fn parse_f64(text: &[u8]) -> Option<f64> {
    let (negative, magnitude) = match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let value = match magnitude {
        b"inf" => f64::INFINITY,
        b"nan" => f64::NAN,
        // The standard library also takes `+1`, `infinity` and `NaN`: the first byte keeps these out.
        [b'0'..=b'9' | b'.', ..] => str::from_utf8(magnitude).ok()?.parse().ok()?,
        _ => return None,
    };
    Some(if negative { -value } else { value })
}

/// Whether `text` is a big number: an optional `-`, then digits.
pub(crate) fn is_big_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// A double as servers spell it: the shortest text that reads back as the same number, `inf`, `-inf` and `nan`.
pub(crate) fn double_text(x: f64) -> String {
    shorten(format!("{x:?}"))
}

/// The text of a float as Rust writes it, as servers spell it.
pub(crate) fn shorten(mut text: String) -> String {
    if text.ends_with(".0") {
        text.truncate(text.len().saturating_sub(2));
    }
    text.make_ascii_lowercase();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_spelling() {
        for value in [0, 1, -1, 9, 10, -10, 123_456_789, i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1] {
            assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
        }
        for text in ["", "-", "+1", "01", "-01", "-0", "00", " 1", "1 ", "1.0", "1e3", "0x1", "--1", "1-", "nan"] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn integers_one_past_the_range_are_refused() {
        assert_eq!(parse_i64(b"9223372036854775808"), None);
        assert_eq!(parse_i64(b"-9223372036854775809"), None);
        assert_eq!(parse_i64(b"-18446744073709551616"), None);
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(parse_u64(b"999999999999999999999999999999"), None);
        assert_eq!(parse_u64(b"-1"), None);
    }

    #[test]
    fn doubles_are_read_in_every_spelling_of_servers() {
        for (text, value) in [
            ("3", 3.0),
            ("-3", -3.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e308", 1e308),
            ("1E+2", 100.0),
            ("2.5e-3", 0.0025),
            ("0.10000000000000001", 0.1),
            ("1.7976931348623157e309", f64::INFINITY),
            ("-1.7976931348623157e309", f64::NEG_INFINITY),
            ("inf", f64::INFINITY),
            ("-inf", f64::NEG_INFINITY),
        ] {
            assert_eq!(parse_f64(text.as_bytes()), Some(value), "{text}");
        }
        assert!(parse_f64(b"-0").is_some_and(|zero| zero == 0.0 && zero.is_sign_negative()));
        assert!(parse_f64(b"nan").is_some_and(f64::is_nan));
        assert!(parse_f64(b"-nan").is_some_and(f64::is_nan));
    }

    #[test]
    fn what_is_no_double_is_refused() {
        for text in [
            "",
            "-",
            ".",
            "-.",
            "+1",
            "infinity",
            "Inf",
            "NaN",
            "nan(0)",
            "0x10",
            " 1",
            "1 ",
            "1e",
            "e5",
            "1_000",
            "1,5",
            "--1",
            "\u{0661}",
            "1\u{0661}",
            "1\n",
        ] {
            assert_eq!(parse_f64(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_f64(b"1\xff"), None);
    }

    #[test]
    fn big_numbers_are_digits() {
        assert!(is_big_number(b"3492890328409238509324850943850943825024385"));
        assert!(is_big_number(b"-1") && is_big_number(b"0"));
        for text in ["", "-", "+1", "1.5", "1e9", "12a", "--1"] {
            assert!(!is_big_number(text.as_bytes()), "{text:?}");
        }
    }
}
