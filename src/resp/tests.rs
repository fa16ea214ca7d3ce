//! The decoder, byte by byte. Each case is decoded whole, cut at every place, and in pieces of one byte, and must
//! neither change with the cut nor depend on what comes behind it.

use super::ProtocolError::*;
use super::*;

/// A frame as text, so that cases are easy to read.
fn show(frame: Frame<'_>) -> String {
    let list = |open: &str, elements: Elements<'_>, close: &str| {
        let announced = elements.len();
        let shown: Vec<String> = elements.map(show).collect();
        assert_eq!(shown.len(), announced, "every announced element is there");
        format!("{open}{}{close}", shown.join(" "))
    };
    match frame {
        Frame::SimpleString(text) => format!("+{}", text.escape_ascii()),
        Frame::Error(text) => format!("-{}", text.escape_ascii()),
        Frame::Integer(value) => format!("{value}"),
        Frame::Bulk(text) => format!("'{}'", text.escape_ascii()),
        Frame::Verbatim { format, text } => format!("{}:'{}'", format.escape_ascii(), text.escape_ascii()),
        Frame::Double(value) => format!("{value:?}"),
        Frame::BigNumber(text) => format!("({}", text.escape_ascii()),
        Frame::Boolean(value) => format!("{value}"),
        Frame::Null => "nil".into(),
        Frame::Array(elements) => list("[", elements, "]"),
        Frame::Set(elements) => list("~[", elements, "]"),
        Frame::Map(elements) => list("{", elements, "}"),
        Frame::Push(elements) => list(">[", elements, "]"),
    }
}

/// Decodes `bytes` as they arrive, `steps` being how many are there at each call: the frame, its length, its pushes.
fn in_steps(
    bytes: &[u8],
    steps: impl Iterator<Item = usize>,
) -> Result<Option<(String, usize, Vec<String>)>, ProtocolError> {
    let mut decoder = Decoder::new();
    for received in steps {
        if let Some((frame, len)) = decoder.decode(&bytes[..received])? {
            return Ok(Some((show(frame), len, decoder.pushes(bytes).map(show).collect())));
        }
    }
    Ok(None)
}

/// The same as [`in_steps`], while all is forgotten that may be: only the length is left to compare.
fn while_forgetting(bytes: &[u8], cut: usize) -> Result<Option<usize>, ProtocolError> {
    let mut scanner = Scanner::new(true);
    let mut front = 0;
    let pieces = (0..=bytes.len()).filter(|&received| received == bytes.len() || received % cut == 0);
    for received in pieces {
        let found = scanner.scan(&bytes[front..received])?;
        for push in scanner.take_pushes() {
            assert!(matches!(frame(&bytes[front..][push]), Some(Frame::Push(_))), "a push is still there");
        }
        if let Some(len) = found {
            assert!(scanner.is_idle());
            return Ok(Some(front + len));
        }
        let forgettable = scanner.forgettable();
        scanner.forget(forgettable);
        front += forgettable;
        assert!(front <= received, "what has not been given cannot be forgotten");
        assert_eq!(scanner.is_idle(), received == 0);
    }
    Ok(None)
}

fn decodes_to(bytes: &[u8], expected: &str, pushes: &[&str]) {
    let expected = Ok(Some((expected.to_owned(), bytes.len(), pushes.iter().map(|&push| push.to_owned()).collect())));
    for cut in 0..=bytes.len() {
        assert_eq!(in_steps(bytes, [cut, bytes.len()].into_iter()), expected, "cut at {cut}");
        if cut < bytes.len() {
            assert_eq!(in_steps(bytes, [cut].into_iter()), Ok(None), "only {cut} bytes");
        }
        if cut > 0 {
            assert_eq!(while_forgetting(bytes, cut), Ok(Some(bytes.len())), "forgetting every {cut} bytes");
        }
    }
    assert_eq!(in_steps(bytes, 0..=bytes.len()), expected, "byte by byte");
    for behind in [&b"\r\n"[..], b"+OK\r\n", b"\n", b"\xff", b":", b"|1\r\n"] {
        let longer = [bytes, behind].concat();
        assert_eq!(in_steps(&longer, [longer.len()].into_iter()), expected, "{behind:?} behind");
    }
}

fn is_refused(bytes: &[u8], expected: ProtocolError) {
    for cut in 0..=bytes.len() {
        assert_eq!(in_steps(bytes, [cut, bytes.len()].into_iter()), Err(expected), "cut at {cut}");
        if cut > 0 {
            assert_eq!(while_forgetting(bytes, cut), Err(expected), "forgetting every {cut} bytes");
        }
    }
    assert_eq!(in_steps(bytes, 0..=bytes.len()), Err(expected), "byte by byte");
    // Nor does it go away.
    let mut decoder = Decoder::new();
    assert_eq!(decoder.decode(bytes), Err(expected));
    assert_eq!(decoder.decode(b"+OK\r\n"), Err(expected));
    decoder.reset();
    assert_eq!(decoder.decode(b"+OK\r\n"), Ok(Some((Frame::SimpleString(b"OK"), 5))));
}

macro_rules! decodes {
    ($($name:ident: $bytes:expr => $expected:expr $(, pushes [$($push:expr),*])?;)*) => {
        $(#[test]
        fn $name() {
            decodes_to($bytes, $expected, &[$($($push),*)?]);
        })*
    };
}

macro_rules! refuses {
    ($($name:ident: $bytes:expr => $error:expr;)*) => {
        $(#[test]
        fn $name() {
            is_refused($bytes, $error);
        })*
    };
}

decodes! {
    ok_is_a_simple_string: b"+OK\r\n" => "+OK";
    pong_is_a_simple_string: b"+PONG\r\n" => "+PONG";
    queued_is_a_simple_string: b"+QUEUED\r\n" => "+QUEUED";
    a_simple_string_may_be_empty: b"+\r\n" => "+";
    a_simple_string_may_be_long: b"+Background append only file rewriting started\r\n"
        => "+Background append only file rewriting started";
    a_simple_string_may_hold_a_lone_cr: b"+a\rb\r\r\n" => "+a\\rb\\r";
    a_simple_string_may_hold_a_lone_lf: b"+\na\nb\n\r\n" => "+\\na\\nb\\n";
    a_long_simple_string_may_hold_lone_line_ends: b"+0123456789abcdef\rg\nh\n\r\r\n"
        => "+0123456789abcdef\\rg\\nh\\n\\r";
    a_simple_string_whose_cr_is_the_last_byte_read_by_hand: b"+0123456789abcd\r\n" => "+0123456789abcd";
    a_simple_string_need_not_be_utf8: b"+\xff\xfe\r\n" => "+\\xff\\xfe";
    an_error_has_its_message: b"-WRONGTYPE Operation against a key\r\n" => "-WRONGTYPE Operation against a key";
    an_error_may_have_no_code: b"-bad\r\n" => "-bad";
    an_error_may_be_empty: b"-\r\n" => "-";
    a_bulk_error_is_an_error: b"!22\r\nSYNTAX invalid\r\nsyntax\r\n" => "-SYNTAX invalid\\r\\nsyntax";
    a_bulk_error_may_be_empty: b"!0\r\n\r\n" => "-";

    zero_is_an_integer: b":0\r\n" => "0";
    an_integer_of_one_digit: b":7\r\n" => "7";
    an_integer_of_nine_digits: b":123456789\r\n" => "123456789";
    an_integer_of_ten_digits: b":9999999999\r\n" => "9999999999";
    a_negative_integer: b":-42\r\n" => "-42";
    a_negative_integer_of_one_digit: b":-1\r\n" => "-1";
    an_integer_of_seven_digits: b":1234567\r\n" => "1234567";
    an_integer_of_eight_digits: b":90000009\r\n" => "90000009";
    the_largest_integer: b":9223372036854775807\r\n" => "9223372036854775807";
    the_least_integer: b":-9223372036854775808\r\n" => "-9223372036854775808";

    a_bulk_string: b"$5\r\nhello\r\n" => "'hello'";
    an_empty_bulk_string_is_not_nil: b"$0\r\n\r\n" => "''";
    a_bulk_string_of_two_digits: b"$15\r\nsomemediumvalue\r\n" => "'somemediumvalue'";
    a_bulk_string_may_hold_crlf: b"$6\r\n\r\n\r\n\r\n\r\n" => "'\\r\\n\\r\\n\\r\\n'";
    a_bulk_string_may_look_like_frames: b"$9\r\n*1\r\n$-1\r\n\r\n" => "'*1\\r\\n$-1\\r\\n'";
    a_bulk_string_need_not_be_utf8: b"$2\r\n\xc3\x28\r\n" => "'\\xc3('";
    a_nil_string_is_nil: b"$-1\r\n" => "nil";
    a_nil_array_is_nil: b"*-1\r\n" => "nil";
    a_null_is_nil: b"_\r\n" => "nil";
    a_verbatim_string_has_its_format: b"=8\r\ntxt:text\r\n" => "txt:'text'";
    a_verbatim_string_may_be_empty: b"=4\r\nmkd:\r\n" => "mkd:''";
    a_verbatim_string_may_hold_colons: b"=7\r\ntxt::\r\n\r\n" => "txt:':\\r\\n'";

    true_is_a_boolean: b"#t\r\n" => "true";
    false_is_a_boolean: b"#f\r\n" => "false";
    a_double: b",3.25\r\n" => "3.25";
    a_double_without_a_fraction: b",3\r\n" => "3.0";
    a_double_that_begins_with_its_point: b",.5\r\n" => "0.5";
    a_double_that_ends_in_its_point: b",5.\r\n" => "5.0";
    a_double_with_an_exponent: b",1e308\r\n" => "1e308";
    a_double_beyond_the_range_is_infinite: b",1.7976931348623157e309\r\n" => "inf";
    an_infinite_double: b",inf\r\n" => "inf";
    a_negative_infinite_double: b",-inf\r\n" => "-inf";
    a_double_that_is_no_number: b",nan\r\n" => "NaN";
    a_negative_double_that_is_no_number: b",-nan\r\n" => "NaN";
    a_negative_zero_is_a_double: b",-0\r\n" => "-0.0";
    a_long_double: b",0.1000000000000000055511151231257827021181583404541015625\r\n" => "0.1";
    a_big_number: b"(3492890328409238509324850943850943825024385\r\n" => "(3492890328409238509324850943850943825024385";
    a_negative_big_number: b"(-12345678901234567890123\r\n" => "(-12345678901234567890123";

    an_empty_array_is_not_nil: b"*0\r\n" => "[]";
    an_array_of_every_type: b"*9\r\n+OK\r\n-ERR\r\n:1\r\n$1\r\na\r\n_\r\n#t\r\n,1.5\r\n(1\r\n=5\r\ntxt:a\r\n"
        => "[+OK -ERR 1 'a' nil true 1.5 (1 txt:'a']";
    an_array_of_ten_elements: b"*10\r\n:0\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n:7\r\n:8\r\n:9\r\n"
        => "[0 1 2 3 4 5 6 7 8 9]";
    arrays_inside_an_array: b"*3\r\n*2\r\n:1\r\n*0\r\n*-1\r\n*1\r\n*1\r\n$1\r\nx\r\n" => "[[1 []] nil [['x']]]";
    an_error_inside_an_array_is_an_element: b"*2\r\n-ERR no\r\n:1\r\n" => "[-ERR no 1]";
    a_set: b"~2\r\n+a\r\n+b\r\n" => "~[+a +b]";
    a_map_counts_pairs: b"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n" => "{+a 1 +b [2]}";
    an_empty_map: b"%0\r\n" => "{}";
    maps_inside_a_map: b"%1\r\n%1\r\n:1\r\n:2\r\n%0\r\n" => "{{1 2} {}}";
    a_push_is_a_frame: b">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n" => ">[+invalidate ['k']]";
    an_empty_push: b">0\r\n" => ">[]";

    an_attribute_is_skipped: b"|1\r\n+ttl\r\n:9\r\n:1\r\n" => "1";
    an_empty_attribute_is_skipped: b"|0\r\n:1\r\n" => "1";
    attributes_in_a_row_are_skipped: b"|1\r\n+a\r\n*1\r\n:1\r\n|1\r\n+b\r\n:2\r\n$-1\r\n" => "nil";
    an_attribute_of_an_aggregate_is_skipped: b"|1\r\n+a\r\n:1\r\n*1\r\n:2\r\n" => "[2]";
    attributes_of_elements_are_skipped: b"*2\r\n|1\r\n+a\r\n:1\r\n:2\r\n|1\r\n+b\r\n%0\r\n*1\r\n:3\r\n" => "[2 [3]]";
    an_attribute_inside_an_attribute_is_skipped: b"|1\r\n|1\r\n+a\r\n:1\r\n+b\r\n:2\r\n:3\r\n" => "3";
    an_attribute_of_a_push_is_skipped: b"|1\r\n+a\r\n:1\r\n>1\r\n+p\r\n" => ">[+p]";
    an_attribute_inside_a_push_is_skipped: b">2\r\n|1\r\n+a\r\n:1\r\n+p\r\n:1\r\n" => ">[+p 1]";

    a_push_before_the_first_element_is_lifted_out: b"*1\r\n>1\r\n+p\r\n:1\r\n" => "[1]", pushes [">[+p]"];
    a_push_between_elements_is_lifted_out: b"*2\r\n:1\r\n>2\r\n+p\r\n*1\r\n:9\r\n:2\r\n"
        => "[1 2]", pushes [">[+p [9]]"];
    pushes_in_a_row_are_lifted_out: b"*1\r\n>1\r\n:1\r\n>0\r\n>1\r\n:2\r\n:3\r\n"
        => "[3]", pushes [">[1]", ">[]", ">[2]"];
    a_push_inside_a_nested_array_is_lifted_out: b"*2\r\n*1\r\n>1\r\n+p\r\n:1\r\n:2\r\n" => "[[1] 2]", pushes [">[+p]"];
    a_push_between_a_key_and_its_value_is_lifted_out: b"%1\r\n+k\r\n>1\r\n+p\r\n+v\r\n" => "{+k +v}", pushes [">[+p]"];
    a_push_inside_a_set_is_lifted_out: b"~1\r\n>1\r\n+p\r\n+v\r\n" => "~[+v]", pushes [">[+p]"];
    a_push_with_an_attribute_is_lifted_out: b"*1\r\n|1\r\n+a\r\n:1\r\n>1\r\n+p\r\n:1\r\n" => "[1]", pushes [">[+p]"];
    a_push_inside_an_attribute_is_lifted_out: b"|1\r\n+a\r\n>1\r\n+p\r\n:1\r\n:2\r\n" => "2", pushes [">[+p]"];
    a_push_behind_the_last_element_of_a_nested_array: b"*2\r\n*1\r\n:1\r\n>1\r\n+p\r\n:2\r\n"
        => "[[1] 2]", pushes [">[+p]"];
}

refuses! {
    an_unknown_type_is_refused: b"@1\r\n" => UnknownType(b'@');
    a_line_end_is_no_type: b"\r\n" => UnknownType(b'\r');
    an_unknown_type_inside_an_array_is_refused: b"*2\r\n:1\r\nx\r\n" => UnknownType(b'x');
    http_is_refused: b"HTTP/1.1 400 Bad Request\r\n" => UnknownType(b'H');

    an_integer_with_a_plus_is_refused: b":+1\r\n" => BadInteger;
    an_integer_without_digits_is_refused: b":\r\n" => BadInteger;
    an_integer_that_is_a_sign_is_refused: b":-\r\n" => BadInteger;
    an_integer_of_two_zeros_is_refused: b":00\r\n+0123456789\r\n" => BadInteger;
    an_integer_without_digits_before_a_frame_is_refused: b":\r\n+0123456789\r\n" => BadInteger;
    an_integer_with_a_colon_before_a_frame_is_refused: b":1:3\r\n+0123456789\r\n" => BadInteger;
    an_integer_with_a_slash_before_a_frame_is_refused: b":1/3\r\n+0123456789\r\n" => BadInteger;
    an_integer_with_leading_zeros_is_refused: b":007\r\n" => BadInteger;
    a_negative_zero_is_no_integer: b":-0\r\n" => BadInteger;
    an_integer_with_a_letter_is_refused: b":12a\r\n" => BadInteger;
    an_integer_with_a_lone_cr_is_refused: b":12\r3\r\n" => BadInteger;
    an_integer_with_a_lone_lf_is_refused: b":12\n\r\n" => BadInteger;
    an_integer_one_too_large_is_refused: b":9223372036854775808\r\n" => BadInteger;
    an_integer_one_too_small_is_refused: b":-9223372036854775809\r\n" => BadInteger;
    an_integer_without_end_is_refused: b":11111111111111111111111111" => BadInteger;

    a_negative_length_is_refused: b"$-2\r\n" => BadLength;
    a_negative_length_of_two_digits_is_refused: b"$-10\r\n" => BadLength;
    a_length_of_minus_zero_is_refused: b"$-0\r\n" => BadLength;
    a_length_with_a_plus_is_refused: b"$+5\r\nhello\r\n" => BadLength;
    a_length_without_digits_is_refused: b"$\r\n\r\n" => BadLength;
    a_length_with_a_leading_zero_is_refused: b"$05\r\nhello\r\n" => BadLength;
    a_length_of_two_zeros_is_refused: b"$00\r\n\r\n" => BadLength;
    a_length_of_three_digits_with_a_leading_zero_is_refused: b"$010\r\n0123456789\r\n" => BadLength;
    a_length_with_a_letter_is_refused: b"$5x\r\n" => BadLength;
    a_length_with_a_lone_cr_is_refused: b"$5\rhello\r\n" => BadLength;
    a_length_with_a_lone_lf_is_refused: b"$5\nhello\r\n" => BadLength;
    a_length_without_end_is_refused: b"$111111111111111111111111111" => BadLength;
    a_count_of_minus_two_is_refused: b"*-2\r\n" => BadLength;
    a_count_with_a_leading_zero_is_refused: b"*01\r\n:1\r\n" => BadLength;
    a_count_with_a_plus_is_refused: b"*+1\r\n:1\r\n" => BadLength;
    a_count_without_digits_is_refused: b"*\r\n" => BadLength;
    a_negative_map_is_refused: b"%-1\r\n" => BadLength;
    a_negative_set_is_refused: b"~-1\r\n" => BadLength;
    a_negative_push_is_refused: b">-1\r\n" => BadLength;
    a_negative_attribute_is_refused: b"|-1\r\n" => BadLength;
    a_negative_bulk_error_is_refused: b"!-1\r\n" => BadLength;
    a_negative_verbatim_string_is_refused: b"=-1\r\n" => BadLength;

    the_largest_length_of_64_bits_is_refused: b"$9223372036854775807\r\n" => TooLong;
    a_length_of_unsigned_64_bits_is_refused: b"$18446744073709551615\r\n" => TooLong;
    a_length_beyond_64_bits_is_refused: b"$99999999999999999999\r\n" => TooLong;
    a_length_one_past_the_limit_is_refused: b"$4294967297\r\n" => TooLong;
    a_bulk_error_one_past_the_limit_is_refused: b"!4294967297\r\n" => TooLong;
    a_verbatim_string_one_past_the_limit_is_refused: b"=4294967297\r\n" => TooLong;
    an_array_of_unsigned_32_bits_is_refused: b"*4294967295\r\n" => TooManyElements;
    an_array_one_past_the_limit_is_refused: b"*2147483648\r\n" => TooManyElements;
    an_array_beyond_64_bits_is_refused: b"*99999999999999999999\r\n" => TooManyElements;
    a_set_one_past_the_limit_is_refused: b"~2147483648\r\n" => TooManyElements;
    a_push_one_past_the_limit_is_refused: b">2147483648\r\n" => TooManyElements;
    a_map_one_pair_past_the_limit_is_refused: b"%1073741824\r\n" => TooManyElements;
    a_map_whose_pairs_overflow_is_refused: b"%9223372036854775808\r\n" => TooManyElements;
    an_attribute_one_pair_past_the_limit_is_refused: b"|1073741824\r\n" => TooManyElements;

    a_bulk_string_without_crlf_is_refused: b"$2\r\nabcd" => MissingCrlf;
    a_bulk_string_longer_than_announced_is_refused: b"$2\r\nabc\r\n" => MissingCrlf;
    a_bulk_string_that_ends_in_lf_is_refused: b"$2\r\nab\n\n" => MissingCrlf;
    a_bulk_string_that_ends_in_cr_is_refused: b"$2\r\nab\r\r" => MissingCrlf;
    a_bulk_string_inside_an_array_without_crlf_is_refused: b"*1\r\n$12\r\n0123456789ab:1\r\n" => MissingCrlf;

    a_verbatim_string_without_a_format_is_refused: b"=3\r\ntxt\r\n" => BadVerbatim;
    an_empty_verbatim_string_is_refused: b"=0\r\n\r\n" => BadVerbatim;
    a_verbatim_string_without_a_colon_is_refused: b"=5\r\nabcde\r\n" => BadVerbatim;

    an_empty_double_is_refused: b",\r\n" => BadDouble;
    infinity_in_full_is_refused: b",infinity\r\n" => BadDouble;
    a_double_with_a_plus_is_refused: b",+1\r\n" => BadDouble;
    a_hexadecimal_double_is_refused: b",0x1p3\r\n" => BadDouble;
    a_double_with_a_space_is_refused: b", 1\r\n" => BadDouble;
    a_double_that_is_a_point_is_refused: b",.\r\n" => BadDouble;
    a_double_that_is_not_utf8_is_refused: b",1\xff\r\n" => BadDouble;
    a_boolean_in_full_is_refused: b"#true\r\n" => BadBoolean;
    a_boolean_in_upper_case_is_refused: b"#T\r\n" => BadBoolean;
    an_empty_boolean_is_refused: b"#\r\n" => BadBoolean;
    a_null_with_text_is_refused: b"_x\r\n" => BadNull;
    a_big_number_with_a_plus_is_refused: b"(+1\r\n" => BadBigNumber;
    a_big_number_with_a_point_is_refused: b"(1.5\r\n" => BadBigNumber;
    an_empty_big_number_is_refused: b"(\r\n" => BadBigNumber;
    a_big_number_that_is_a_sign_is_refused: b"(-\r\n" => BadBigNumber;

    a_streamed_string_is_refused: b"$?\r\n;4\r\nabcd\r\n;0\r\n" => Streamed;
    a_streamed_array_is_refused: b"*?\r\n:1\r\n.\r\n" => Streamed;
    a_streamed_set_is_refused: b"~?\r\n" => Streamed;
    a_streamed_map_is_refused: b"%?\r\n" => Streamed;
    a_piece_of_a_streamed_string_is_refused: b";4\r\nabcd\r\n" => Streamed;
    the_end_of_a_streamed_aggregate_is_refused: b".\r\n" => Streamed;

    a_push_inside_a_push_is_refused: b">2\r\n+p\r\n>1\r\n" => PushInPush;
    a_push_inside_an_array_of_a_push_is_refused: b">1\r\n*1\r\n>0\r\n" => PushInPush;
    a_push_inside_a_lifted_push_is_refused: b"*1\r\n>1\r\n>0\r\n" => PushInPush;
    a_push_inside_an_attribute_of_a_push_is_refused: b">1\r\n|1\r\n>0\r\n" => PushInPush;
}

#[test]
fn a_push_is_refused_in_resp2() {
    for bytes in [&b">1\r\n+p\r\n"[..], b"*1\r\n>1\r\n+p\r\n:1\r\n", b"|1\r\n+a\r\n:1\r\n>0\r\n"] {
        assert_eq!(Decoder::resp2().decode(bytes), Err(PushInResp2));
    }
    assert!(Decoder::resp2().decode(b"%1\r\n+a\r\n#t\r\n").is_ok_and(|frame| frame.is_some()));
}

#[test]
fn aggregates_may_be_as_deep_as_the_limit_and_no_deeper() {
    for opening in [&b"*1\r\n"[..], b"~1\r\n", b"|1\r\n:1\r\n"] {
        let pairs = opening[0] == b'|';
        let mut bytes = opening.repeat(MAX_DEPTH - 1);
        bytes.extend_from_slice(b"*1\r\n:1\r\n");
        if pairs {
            // Each attribute's value, then the frame that the attribute stands before.
            bytes.extend(b":1\r\n".repeat(MAX_DEPTH - 1));
        }
        let (_, len) = Decoder::new().decode(&bytes).unwrap().expect("whole");
        assert_eq!(len, bytes.len());

        let mut bytes = opening.repeat(MAX_DEPTH);
        bytes.extend_from_slice(b"*0\r\n");
        assert_eq!(Decoder::new().decode(&bytes), Err(TooDeep));
    }
    let mut bytes = b"*1\r\n".repeat(MAX_DEPTH);
    bytes.extend_from_slice(b">0\r\n:1\r\n");
    assert_eq!(Decoder::new().decode(&bytes), Err(TooDeep), "a push counts");
}

#[test]
fn a_million_nested_arrays_are_refused() {
    let bytes = b"*1\r\n".repeat(1_000_000);
    assert_eq!(Decoder::new().decode(&bytes), Err(TooDeep));
    // Nor do they end the stack of those who look at them without a scanner.
    let mut frames = 0;
    let mut elements = Elements::new(&bytes, 1);
    while let Some(element) = elements.next() {
        frames += 1;
        elements = element.as_elements().expect("an array");
    }
    assert_eq!(frames, 0, "the array is not whole");
}

#[test]
fn aggregates_side_by_side_are_not_deep() {
    let mut bytes = b"*100000\r\n".to_vec();
    bytes.extend(b"*1\r\n*0\r\n".repeat(100_000));
    let (frame, len) = Decoder::new().decode(&bytes).unwrap().expect("whole");
    assert_eq!((frame.as_elements().expect("an array").count(), len), (100_000, bytes.len()));
}

#[test]
fn the_largest_announced_aggregate_takes_no_memory() {
    for header in [&b"*2147483647\r\n"[..], b"%1073741823\r\n", b"~2147483647\r\n", b"|1073741823\r\n"] {
        let mut scanner = Scanner::new(true);
        assert_eq!(scanner.scan(header), Ok(None));
        assert_eq!(scanner.forgettable(), header.len());
    }
    let elements = Elements::new(b":1\r\n:2\r\n", 2_147_483_647);
    assert!(elements.size_hint().0 <= 3, "a collection would reserve room for it");
    assert_eq!(elements.collect::<Vec<_>>(), [Frame::Integer(1), Frame::Integer(2)]);
}

#[test]
fn the_longest_bulk_string_is_waited_for() {
    let header = b"$4294967296\r\nabc";
    let mut scanner = Scanner::new(true);
    assert_eq!(scanner.scan(header), if usize::BITS > 32 { Ok(None) } else { Err(TooLong) });
    assert_eq!(scanner.forgettable(), header.len());
}

#[test]
fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
    for kind in [b'+', b'-', b'('] {
        let mut bytes = vec![b'1'; MAX_LINE + 4];
        bytes[0] = kind;
        bytes[MAX_LINE + 1..][..2].copy_from_slice(b"\r\n");
        let longest = Decoder::new().decode(&bytes).unwrap().map(|(_, len)| len);
        assert_eq!(longest, Some(MAX_LINE + 3));
        for cut in [1, 17, MAX_LINE, MAX_LINE + 1, MAX_LINE + 2] {
            let mut scanner = Scanner::new(true);
            assert_eq!(scanner.scan(&bytes[..cut]), Ok(None));
            let n = scanner.forgettable();
            scanner.forget(n);
            assert_eq!(scanner.scan(&bytes[n..]), Ok(Some(MAX_LINE + 3 - n)));
        }

        bytes[MAX_LINE + 1..].copy_from_slice(b"1\r\n");
        assert_eq!(Decoder::new().decode(&bytes), Err(TooLong));
        for cut in [1, 17, MAX_LINE + 1, MAX_LINE + 2] {
            let mut scanner = Scanner::new(true);
            assert_eq!(scanner.scan(&bytes[..cut]), Ok(None));
            let n = scanner.forgettable();
            scanner.forget(n);
            assert_eq!(scanner.scan(&bytes[n..]), Err(TooLong));
        }
    }
}

#[test]
fn a_long_string_is_skipped_in_constant_memory() {
    for (head, tail) in [(&b"$1000000\r\n"[..], &b"\r\n"[..]), (b"+", b"\r\n"), (b"*2\r\n:1\r\n$1000000\r\n", b"\r\n")]
    {
        let all = [head, &b"\rxyz".repeat(250_000), tail].concat();
        let (mut scanner, mut buffer, mut most) = (Scanner::new(true), Vec::new(), 0);
        let mut end = None;
        for piece in all.chunks(1000) {
            buffer.extend_from_slice(piece);
            most = most.max(buffer.len());
            end = scanner.scan(&buffer).unwrap();
            if end.is_none() {
                let n = scanner.forgettable();
                scanner.forget(n);
                buffer.drain(..n);
            }
        }
        assert_eq!(end, Some(buffer.len()));
        assert!(most < 1100, "{most} bytes were held");
    }
}

#[test]
fn an_embedded_push_is_kept_until_it_is_taken() {
    let bytes = b"*3\r\n:1\r\n>2\r\n+p\r\n:5\r\n:2\r\n:3\r\n";
    let mut scanner = Scanner::new(true);
    assert_eq!(scanner.scan(&bytes[..17]), Ok(None));
    assert_eq!(scanner.forgettable(), 8, "not past the push that is open");
    scanner.forget(8);
    assert_eq!(scanner.scan(&bytes[8..24]), Ok(None));
    assert_eq!(scanner.forgettable(), 0, "not past the push that nobody has taken");
    assert_eq!((scanner.take_pushes().next(), scanner.take_pushes().next()), (Some(0..12), None));
    assert_eq!(scanner.take_pushes().count(), 0);
    assert_eq!(scanner.forgettable(), 16);
    scanner.forget(usize::MAX);
    assert_eq!(scanner.scan(&bytes[24..]), Ok(Some(bytes.len() - 24)));
}

#[test]
fn frames_are_decoded_one_after_the_other() {
    let bytes = b"+OK\r\n|1\r\n+a\r\n:1\r\n*1\r\n>1\r\n+p\r\n:7\r\n$1\r\nx\r\n_\r\n";
    let (mut decoder, mut at, mut shown) = (Decoder::new(), 0, Vec::new());
    while let Some((frame, len)) = decoder.decode(&bytes[at..]).unwrap() {
        shown.push((show(frame), decoder.pushes(&bytes[at..]).count()));
        at += len;
    }
    assert_eq!(at, bytes.len());
    assert_eq!(shown, [("+OK", 0), ("[7]", 1), ("'x'", 0), ("nil", 0)].map(|(text, n)| (text.to_owned(), n)));
}

#[test]
fn peek_decodes_scalars_and_names_aggregates() {
    for (bytes, expected) in [
        (&b""[..], Peek::Incomplete),
        (b"+OK\r\n:1\r\n", Peek::Scalar(Frame::SimpleString(b"OK"), 5)),
        (b"$3\r\nabc\r\n+", Peek::Scalar(Frame::Bulk(b"abc"), 9)),
        (b"$-1\r\n", Peek::Scalar(Frame::Null, 5)),
        (b"*-1\r\n", Peek::Scalar(Frame::Null, 5)),
        (b"*0\r\n", Peek::Aggregate),
        (b"*12\r\n", Peek::Aggregate),
        (b"|1\r\n", Peek::Aggregate),
        (b">1\r\n", Peek::Aggregate),
        (b"*12\r", Peek::Incomplete),
    ] {
        assert_eq!(peek(bytes), Ok(expected), "{:?}", bytes.escape_ascii().to_string());
    }
}

#[test]
fn headers_count_both_halves_of_pairs() {
    for (bytes, kind, elements, len) in [
        (&b"*3\r\n"[..], Aggregate::Array, 3, 4),
        (b"*1000000\r\n", Aggregate::Array, 1_000_000, 10),
        (b"~10\r\n", Aggregate::Set, 10, 5),
        (b">3\r\n", Aggregate::Push, 3, 4),
        (b"%12\r\n:1\r\n", Aggregate::Map, 24, 5),
        (b"|1\r\n", Aggregate::Attribute, 2, 4),
    ] {
        assert_eq!(header(bytes), Ok(Some(Header { kind, elements, len })));
        assert_eq!(header(&bytes[..3]), Ok(None));
    }
    assert_eq!(header(b"*-1\r\n"), Err(BadLength), "a nil array is no aggregate");
}

#[test]
fn elements_can_be_looked_at_and_copied() {
    let Some(Frame::Array(mut elements)) = frame(b"*3\r\n:1\r\n*1\r\n:2\r\n:3\r\n") else { panic!("an array") };
    assert_eq!((elements.len(), elements.size_hint()), (3, (3, Some(3))));
    assert_eq!(elements.peek(), Some(Frame::Integer(1)));
    assert_eq!(elements.next(), Some(Frame::Integer(1)));
    let copy = elements;
    assert_eq!(elements.by_ref().map(show).collect::<Vec<_>>(), ["[2]", "3"]);
    assert!(elements.is_empty() && elements.rest().is_empty() && elements.next().is_none());
    assert_eq!(copy.rest(), b"*1\r\n:2\r\n:3\r\n");
    assert_eq!(format!("{copy:?}"), "[Array([Integer(2)]), Integer(3)]");
}

#[test]
fn frames_say_what_they_are() {
    let array = frame(b"*1\r\n:1\r\n").expect("whole");
    assert!(array.is_aggregate() && !array.is_nil() && array.as_bytes().is_none());
    assert!(Frame::Null.is_nil() && !Frame::Null.is_aggregate());
    let text = Frame::Verbatim { format: *b"txt", text: b"hi" };
    assert_eq!((text.as_bytes(), text.kind()), (Some(&b"hi"[..]), "a verbatim string"));
    assert_eq!(Frame::Error(b"ERR").as_bytes(), None);
}

#[test]
fn every_short_integer_is_read_the_same_before_other_frames() {
    for value in (0..100_000).chain((0..1_000_000_000).step_by(99_991)).chain([99_999_999, 100_000_000]) {
        let bytes = format!(":{value}\r\n:1\r\n$5\r\nhello\r\n");
        let len = value.to_string().len() + 3;
        assert_eq!(peek(bytes.as_bytes()), Ok(Peek::Scalar(Frame::Integer(value), len)));
    }
}

#[test]
fn every_short_bulk_string_is_read_the_same() {
    for len in 0..1100 {
        let text = "x".repeat(len);
        let bytes = format!("${len}\r\n{text}\r\n:1\r\n");
        let whole = bytes.len() - 4;
        assert_eq!(peek(bytes.as_bytes()), Ok(Peek::Scalar(Frame::Bulk(text.as_bytes()), whole)));
        assert_eq!(peek(&bytes.as_bytes()[..whole]), Ok(Peek::Scalar(Frame::Bulk(text.as_bytes()), whole)));
        assert_eq!(peek(&bytes.as_bytes()[..whole - 1]), Ok(Peek::Incomplete));
    }
}

#[test]
fn a_protocol_error_is_small() {
    assert!(size_of::<ProtocolError>() <= 8);
    assert!(size_of::<Frame<'_>>() <= 32);
}

/// Pieces that are likely to be something, put together at random.
#[test]
fn no_bytes_make_it_panic() {
    const PIECES: [&[u8]; 24] = [
        b"+", b"-", b":", b"$", b"*", b"%", b"~", b">", b"|", b"=", b"!", b"#", b",", b"(", b"_", b"\r\n", b"\r",
        b"\n", b"0", b"1", b"2", b"4", b"txt:", b"\xff",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    };
    fn walk(frame: Frame<'_>) -> usize {
        frame.as_elements().map_or(1, |elements| elements.map(walk).sum())
    }
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..random(24)).flat_map(|_| PIECES[random(PIECES.len())]).copied().collect();
        let whole = in_steps(&bytes, [bytes.len()].into_iter());
        assert_eq!(whole, in_steps(&bytes, 0..=bytes.len()), "{}", bytes.escape_ascii());
        frame(&bytes).map(walk);
        Elements::new(&bytes, random(5) as u64).map(walk).sum::<usize>();
        let cut = 1 + random(8);
        assert_eq!(while_forgetting(&bytes, cut), whole.map(|whole| whole.map(|(_, len, _)| len)));
    }
}
