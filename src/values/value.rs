//! A reply of any shape.

use std::fmt;

use super::FromReply;
use crate::error::{Error, Result, ServerError};
use crate::resp::{Elements, Frame, number};

/// An owned reply of any shape, for when the shape is not known beforehand.
///
/// A reply that is an error is none of these: as with every other type it is [`Error::Server`]. Errors *inside* a reply
/// are values, and harm no other.
///
/// Where the shape is known, another type is shorter and cheaper: [`FromReply`](crate::FromReply) lists them.
///
/// # Examples
///
/// ```
/// use redefer::resp::Decoder;
/// use redefer::{FromReply, Value};
///
/// let (frame, _) = Decoder::new().decode(b"*2\r\n:1\r\n$5\r\nhello\r\n")?.expect("a whole reply");
/// let value = Value::from_reply(frame)?;
/// assert_eq!(value, Value::Array(vec![Value::Integer(1), Value::Bulk(b"hello".to_vec())]));
/// assert_eq!(value.elements()[1].as_str(), Some("hello"));
/// # Ok::<(), redefer::Error>(())
/// ```
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Nil, in any of its three spellings.
    Nil,
    /// A short text without line ends, mostly a status such as `OK`.
    SimpleString(Vec<u8>),
    /// An error inside a reply.
    Error(ServerError),
    /// A signed integer.
    Integer(i64),
    /// A string of any bytes.
    Bulk(Vec<u8>),
    /// A string for humans.
    Verbatim {
        /// What the text is written in: `txt` or `mkd`.
        format: [u8; 3],
        /// The text, without its format.
        text: Vec<u8>,
    },
    /// A floating point number.
    Double(f64),
    /// An integer of any size, as an optional `-` and digits.
    BigNumber(Vec<u8>),
    /// True or false.
    Boolean(bool),
    /// An ordered list.
    Array(Vec<Value>),
    /// A list in no order and without repetition.
    Set(Vec<Value>),
    /// Keys and their values, in the order in which they came.
    Map(Vec<(Value, Value)>),
    /// A message that answers no command.
    Push(Vec<Value>),
}

impl Value {
    /// Whether this is nil. An empty string and an empty array are not.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        matches!(self, Value::Nil)
    }

    /// The bytes of a string of any kind, or the digits of a big number.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::SimpleString(text) | Value::Bulk(text) | Value::Verbatim { text, .. } | Value::BigNumber(text) => {
                Some(text)
            }
            _ => None,
        }
    }

    /// The text of a string of any kind, if it is UTF-8, or the digits of a big number.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        str::from_utf8(self.as_bytes()?).ok()
    }

    /// An integer, or a string that is one.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Integer(n) => Some(*n),
            other => number::parse_i64(other.as_bytes()?),
        }
    }

    /// A double, an integer, or a string that is a number.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Double(x) => Some(*x),
            Value::Integer(n) => Some(*n as f64),
            other => number::parse_f64(other.as_bytes()?),
        }
    }

    /// A boolean, or one of the integers 0 and 1.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Boolean(value) => Some(*value),
            Value::Integer(0) => Some(false),
            Value::Integer(1) => Some(true),
            _ => None,
        }
    }

    /// An error inside a reply.
    #[must_use]
    pub fn as_error(&self) -> Option<&ServerError> {
        match self {
            Value::Error(error) => Some(error),
            _ => None,
        }
    }

    /// The elements of an array, a set or a push; of anything else, none. A map has [`pairs`](Value::pairs).
    #[must_use]
    pub fn elements(&self) -> &[Value] {
        match self {
            Value::Array(elements) | Value::Set(elements) | Value::Push(elements) => elements,
            _ => &[],
        }
    }

    /// The keys and values of a map in any of the shapes in which servers send one: a map, a list of lists of two, a flat list
    /// of even length. So they are the same in both protocols; of anything else, there are none.
    ///
    /// ```
    /// # fn main() -> redefer::Result<()> {
    /// # #[cfg(feature = "testing")] {
    /// # let server = redefer::testing::Server::start()?;
    /// # let conn = redefer::Connection::open(server.url())?;
    /// use redefer::prelude::*;
    ///
    /// conn.hset("computer", ("os", "linux", "cores", 8)).wait()?;
    /// let fields: Value = conn.command("HGETALL", "computer").wait()?;
    /// assert_eq!(fields.pairs().count(), 2);
    /// assert_eq!(fields.get("cores").and_then(Value::as_i64), Some(8));
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    pub fn pairs(&self) -> impl Iterator<Item = (&Value, &Value)> {
        fn two(list: &[Value]) -> Option<(&Value, &Value)> {
            if let [key, value] = list { Some((key, value)) } else { None }
        }
        let (map, list) = match self {
            Value::Map(pairs) => (&pairs[..], &[][..]),
            other => (&[][..], other.elements()),
        };
        let nested = !list.is_empty() && list.iter().all(|element| two(element.elements()).is_some());
        let flat = if list.len().is_multiple_of(2) { list } else { &[] };
        let (nested, flat) = if nested { (list, &[][..]) } else { (&[][..], flat) };
        map.iter()
            .map(|(key, value)| (key, value))
            .chain(nested.iter().filter_map(|element| two(element.elements())))
            .chain(flat.chunks_exact(2).filter_map(two))
    }

    /// The value of this key, of those that [`pairs`](Value::pairs) gives; of equal keys, the last one counts.
    #[must_use]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<&Value> {
        self.pairs().filter(|(name, _)| name.as_bytes() == Some(key.as_ref())).last().map(|(_, value)| value)
    }

    /// The elements of an array, a set or a push, and the keys and values of a map in turn. Anything else is `None`.
    #[must_use]
    pub fn into_vec(self) -> Option<Vec<Value>> {
        match self {
            Value::Array(elements) | Value::Set(elements) | Value::Push(elements) => Some(elements),
            Value::Map(pairs) => Some(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect()),
            _ => None,
        }
    }
}

/// An aggregate whose elements are not all built yet.
struct Open<'a> {
    elements: Elements<'a>,
    built: Vec<Value>,
    close: fn(Vec<Value>) -> Value,
}

fn close_map(elements: Vec<Value>) -> Value {
    let mut pairs = Vec::with_capacity(elements.len() / 2);
    let mut elements = elements.into_iter();
    while let (Some(key), Some(value)) = (elements.next(), elements.next()) {
        pairs.push((key, value));
    }
    Value::Map(pairs)
}

/// A frame that is no aggregate, or else the beginning of one.
fn leaf(frame: Frame<'_>) -> Result<Value, Open<'_>> {
    let (elements, close): (_, fn(_) -> _) = match frame {
        Frame::Null => return Ok(Value::Nil),
        Frame::SimpleString(text) => return Ok(Value::SimpleString(text.to_vec())),
        Frame::Error(message) => return Ok(Value::Error(ServerError::new(message))),
        Frame::Integer(n) => return Ok(Value::Integer(n)),
        Frame::Bulk(bytes) => return Ok(Value::Bulk(bytes.to_vec())),
        Frame::Verbatim { format, text } => return Ok(Value::Verbatim { format, text: text.to_vec() }),
        Frame::Double(x) => return Ok(Value::Double(x)),
        Frame::BigNumber(digits) => return Ok(Value::BigNumber(digits.to_vec())),
        Frame::Boolean(value) => return Ok(Value::Boolean(value)),
        Frame::Array(elements) => (elements, Value::Array),
        Frame::Set(elements) => (elements, Value::Set),
        Frame::Map(elements) => (elements, close_map),
        Frame::Push(elements) => (elements, Value::Push),
    };
    // As much room as the bytes take, for the reason that `Items` has.
    let room = elements.len().min(elements.rest().len() / size_of::<Value>() + 1);
    Err(Open { elements, built: Vec::with_capacity(room), close })
}

/// Builds a value without recursion: the open aggregates are on a stack of their own. What is built is nested no deeper
/// than [`MAX_DEPTH`](crate::resp::MAX_DEPTH), which drop, clone and comparison descend with a few kilobytes of stack.
fn build(mut frame: Frame<'_>) -> Value {
    let mut open: Vec<Open<'_>> = Vec::new();
    loop {
        let mut done = match leaf(frame) {
            Ok(value) => Some(value),
            Err(aggregate) => {
                open.push(aggregate);
                None
            }
        };
        frame = loop {
            let Some(mut innermost) = open.pop() else {
                // The outermost is done, and only then is none open.
                return done.unwrap_or(Value::Nil);
            };
            innermost.built.extend(done.take());
            if let Some(next) = innermost.elements.next() {
                open.push(innermost);
                break next;
            }
            done = Some((innermost.close)(innermost.built));
        };
    }
}

impl FromReply for Value {
    #[inline]
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        match frame {
            Frame::Error(message) => Err(Error::Server(ServerError::new(message))),
            other => Ok(build(other)),
        }
    }

    #[inline]
    fn from_element(frame: Frame<'_>) -> Result<Self> {
        Ok(build(frame))
    }
}

/// Text as text, and other bytes with escapes.
struct Text<'a>(&'a [u8]);

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match str::from_utf8(self.0) {
            Ok(text) => fmt::Debug::fmt(text, f),
            Err(_) => write!(f, "b\"{}\"", self.0.escape_ascii()),
        }
    }
}

struct Pairs<'a>(&'a [(Value, Value)]);

impl fmt::Debug for Pairs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(key, value)| (key, value))).finish()
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Nil => f.write_str("Nil"),
            Value::SimpleString(text) => f.debug_tuple("SimpleString").field(&Text(text)).finish(),
            Value::Error(error) => f.debug_tuple("Error").field(&Text(error.message())).finish(),
            Value::Integer(n) => f.debug_tuple("Integer").field(n).finish(),
            Value::Bulk(bytes) => f.debug_tuple("Bulk").field(&Text(bytes)).finish(),
            Value::Verbatim { format, text } => {
                f.debug_struct("Verbatim").field("format", &Text(format)).field("text", &Text(text)).finish()
            }
            Value::Double(x) => f.debug_tuple("Double").field(x).finish(),
            Value::BigNumber(digits) => write!(f, "BigNumber({})", digits.escape_ascii()),
            Value::Boolean(value) => f.debug_tuple("Boolean").field(value).finish(),
            Value::Array(elements) => f.debug_tuple("Array").field(elements).finish(),
            Value::Set(elements) => f.debug_tuple("Set").field(elements).finish(),
            Value::Map(pairs) => f.debug_tuple("Map").field(&Pairs(pairs)).finish(),
            Value::Push(elements) => f.debug_tuple("Push").field(elements).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::testing::decode;
    use super::*;
    use crate::resp::MAX_DEPTH;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    #[test]
    fn every_kind_of_frame_is_a_value() {
        for (wire, value) in [
            ("$-1", Value::Nil),
            ("*-1", Value::Nil),
            ("_", Value::Nil),
            ("+OK", Value::SimpleString(b"OK".into())),
            (":-7", Value::Integer(-7)),
            ("$0 ", bulk("")),
            ("$5 hello", bulk("hello")),
            ("=8 mkd:text", Value::Verbatim { format: *b"mkd", text: b"text".into() }),
            (",2.5", Value::Double(2.5)),
            (
                "(1234567999999999999999999999999999999",
                Value::BigNumber(b"1234567999999999999999999999999999999".into()),
            ),
            ("#t", Value::Boolean(true)),
            ("*0", Value::Array(vec![])),
            ("~3 :0 :1 :2", Value::Set(vec![Value::Integer(0), Value::Integer(1), Value::Integer(2)])),
            (
                "%2 $1 a :1 +b *0",
                Value::Map(vec![
                    (bulk("a"), Value::Integer(1)),
                    (Value::SimpleString(b"b".into()), Value::Array(vec![])),
                ]),
            ),
            (">2 $16 server-cpu-usage :42", Value::Push(vec![bulk("server-cpu-usage"), Value::Integer(42)])),
        ] {
            assert_eq!(decode::<Value>(wire).unwrap(), value);
        }
    }

    #[test]
    fn values_are_nested_as_the_reply_is() {
        let wire =
            "*1 %3 $12 library_name $5 mylib $6 engine $3 LUA $9 functions *1 %2 $4 name $1 f $5 flags ~1 +no-writes";
        let function = Value::Map(vec![
            (bulk("name"), bulk("f")),
            (bulk("flags"), Value::Set(vec![Value::SimpleString(b"no-writes".into())])),
        ]);
        let library = Value::Map(vec![
            (bulk("library_name"), bulk("mylib")),
            (bulk("engine"), bulk("LUA")),
            (bulk("functions"), Value::Array(vec![function])),
        ]);
        assert_eq!(decode::<Value>(wire).unwrap(), Value::Array(vec![library]), "FUNCTION LIST");
        let wire = "*3 *0 *2 :1 *1 *0 :2";
        let inner = Value::Array(vec![Value::Integer(1), Value::Array(vec![Value::Array(vec![])])]);
        assert_eq!(decode::<Value>(wire).unwrap(), Value::Array(vec![Value::Array(vec![]), inner, Value::Integer(2)]));
    }

    #[test]
    fn an_error_is_an_error_as_a_reply_and_a_value_inside_one() {
        assert!(matches!(decode::<Value>("-bad"), Err(Error::Server(error)) if error.message() == b"bad"));
        assert!(matches!(decode::<Option<Value>>("-bad"), Err(Error::Server(_))));
        let error = || Value::Error(ServerError::new("bad"));
        assert_eq!(decode::<Value>("*1 -bad").unwrap(), Value::Array(vec![error()]));
        assert_eq!(decode::<Vec<Value>>("*2 :1 -bad").unwrap(), [Value::Integer(1), error()]);
        assert_eq!(decode::<Vec<Option<Value>>>("*2 _ -bad").unwrap(), [None, Some(error())]);
        assert_eq!(decode::<(Value, Value)>("*2 _ -bad").unwrap(), (Value::Nil, error()));
        assert_eq!(decode::<HashMap<String, Value>>("*2 $1 a -bad").unwrap()["a"], error());
        let result = decode::<Result<Value, ServerError>>("-bad").unwrap();
        assert_eq!(result, Err(ServerError::new("bad")));
    }

    #[test]
    fn nil_is_a_value_and_none() {
        assert_eq!(decode::<Option<Value>>("_").unwrap(), None);
        assert_eq!(decode::<Vec<Value>>("*2 $-1 :1").unwrap(), [Value::Nil, Value::Integer(1)]);
        assert!(decode::<Vec<Value>>("_").is_err());
    }

    #[test]
    fn the_deepest_reply_is_built_compared_and_dropped_on_a_small_stack() {
        let wire = format!("{}:1", "*1 ".repeat(MAX_DEPTH));
        let small = std::thread::Builder::new().stack_size(256 * 1024);
        let test = move || {
            let mut value = decode::<Value>(&wire).unwrap();
            assert_eq!(value.clone(), value);
            assert_eq!(format!("{value:?}").matches("Array").count(), MAX_DEPTH);
            for _ in 0..MAX_DEPTH {
                value = value.into_vec().unwrap().remove(0);
            }
            assert_eq!(value, Value::Integer(1));
            drop(decode::<Value>(&wire).unwrap());
        };
        small.spawn(test).unwrap().join().unwrap();
    }

    #[test]
    fn accessors_take_what_the_value_can_be_read_as() {
        let read = |wire| decode::<Value>(wire).unwrap();
        assert_eq!(read("$2 42").as_i64(), Some(42));
        assert_eq!(read(":42").as_f64(), Some(42.0));
        assert_eq!(read("$3 2.5").as_f64(), Some(2.5));
        assert_eq!(read(",2.5").as_f64(), Some(2.5));
        assert_eq!(read("+OK").as_str(), Some("OK"));
        assert_eq!(read("(12").as_str(), Some("12"));
        assert_eq!(read(":1").as_bool(), Some(true));
        assert_eq!(read("#f").as_bool(), Some(false));
        assert_eq!(read(":2").as_bool(), None);
        assert_eq!(read("*0").as_str(), None);
        assert!(read("_").is_nil() && !read("*0").is_nil() && !read("$0 ").is_nil());
        assert_eq!(Value::Bulk(vec![0xff]).as_str(), None);
        assert_eq!(Value::Bulk(vec![0xff]).as_bytes(), Some(&[0xff][..]));
        assert_eq!(read("~2 :1 :2").elements(), [Value::Integer(1), Value::Integer(2)]);
        assert_eq!(read(":1").elements(), []);
        assert_eq!(read("%1 $1 a :1").into_vec(), Some(vec![bulk("a"), Value::Integer(1)]));
        assert_eq!(read(":1").into_vec(), None);
        assert_eq!(read("*1 -bad").elements()[0].as_error(), Some(&ServerError::new("bad")));
    }

    #[test]
    fn pairs_are_the_same_in_every_shape_of_a_map() {
        let read = |wire| decode::<Value>(wire).unwrap();
        for wire in ["%2 $1 a :1 $1 b *0", "*4 $1 a :1 $1 b *0", "*2 *2 $1 a :1 *2 $1 b *0", "~2 *2 $1 a :1 *2 $1 b *0"]
        {
            let value = read(wire);
            let pairs: Vec<_> = value.pairs().collect();
            assert_eq!(pairs, [(&bulk("a"), &Value::Integer(1)), (&bulk("b"), &Value::Array(vec![]))], "{wire}");
            assert_eq!(value.get("a"), Some(&Value::Integer(1)));
            assert_eq!(value.get(b"c"), None);
        }
        for wire in ["*0", "%0", "*3 :1 :2 :3", "$1 a", "_", "*1 *3 :1 :2 :3"] {
            assert_eq!(read(wire).pairs().count(), 0, "{wire}");
        }
        assert_eq!(read("%2 $1 a :1 $1 a :2").get("a"), Some(&Value::Integer(2)));
    }

    #[test]
    fn debug_output_is_readable() {
        let value = decode::<Value>("*4 $1 a _ %1 +k ,1.5 (12").unwrap();
        let says = r#"Array([Bulk("a"), Nil, Map({SimpleString("k"): Double(1.5)}), BigNumber(12)])"#;
        assert_eq!(format!("{value:?}"), says);
        assert_eq!(format!("{:?}", Value::Bulk(b"a\xff\r".into())), r#"Bulk(b"a\xff\r")"#);
        assert_eq!(format!("{:?}", Value::Error(ServerError::new("ERR x"))), r#"Error("ERR x")"#);
    }
}
