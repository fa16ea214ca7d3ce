//! The protocol alone: bytes to frames and back, without I/O.
//!
//! A frame is a type byte, a header or a line that ends in CRLF, and for some types a body:
//!
//! | byte | name          | since | example                           | [`Frame`]                                     |
//! | ---- | ------------- | ----- | --------------------------------- | --------------------------------------------- |
//! | `+`  | simple string | RESP2 | `+OK␍␊`                           | [`SimpleString`](Frame::SimpleString)         |
//! | `-`  | simple error  | RESP2 | `-ERR no such key␍␊`              | [`Error`](Frame::Error)                       |
//! | `:`  | integer       | RESP2 | `:-42␍␊`                          | [`Integer`](Frame::Integer)                   |
//! | `$`  | bulk string   | RESP2 | `$5␍␊hello␍␊`, nil is `$-1␍␊`     | [`Bulk`](Frame::Bulk), [`Null`](Frame::Null)  |
//! | `*`  | array         | RESP2 | `*2␍␊:1␍␊:2␍␊`, nil is `*-1␍␊`    | [`Array`](Frame::Array), [`Null`](Frame::Null)|
//! | `_`  | null          | RESP3 | `_␍␊`                             | [`Null`](Frame::Null)                         |
//! | `#`  | boolean       | RESP3 | `#t␍␊`, `#f␍␊`                    | [`Boolean`](Frame::Boolean)                   |
//! | `,`  | double        | RESP3 | `,1.5␍␊`, `,-inf␍␊`, `,nan␍␊`     | [`Double`](Frame::Double)                     |
//! | `(`  | big number    | RESP3 | `(12345678901234567890␍␊`         | [`BigNumber`](Frame::BigNumber)               |
//! | `!`  | bulk error    | RESP3 | `!7␍␊ERR bad␍␊`                   | [`Error`](Frame::Error)                       |
//! | `=`  | verbatim      | RESP3 | `=8␍␊txt:text␍␊`                  | [`Verbatim`](Frame::Verbatim)                 |
//! | `%`  | map           | RESP3 | `%1␍␊+key␍␊:1␍␊` (counts pairs)   | [`Map`](Frame::Map)                           |
//! | `~`  | set           | RESP3 | `~1␍␊+member␍␊`                   | [`Set`](Frame::Set)                           |
//! | `>`  | push          | RESP3 | `>2␍␊+invalidate␍␊_␍␊`            | [`Push`](Frame::Push)                         |
//! | `\|` | attribute     | RESP3 | `\|1␍␊+ttl␍␊:9␍␊` before a value  | skipped                                       |
//!
//! The two protocols differ in the types a server uses, not in how a type is written, so one decoder reads both. The
//! exception is the push: it may come before any frame and between any two elements of an aggregate, is not counted as
//! an element there, and is refused by [`Decoder::resp2`]. Streamed strings and aggregates (`$?`, `*?`), which no
//! server sends, are refused.
//!
//! Decoding is strict and bounded. Numbers have one spelling: no `+`, no leading zeros, no `-0`. The limits are
//! [`MAX_DEPTH`], [`MAX_ELEMENTS`], [`MAX_BULK`] and [`MAX_LINE`]; the first three are checked when a header announces
//! more, before any memory is given out for it. A [`Frame`] borrows from the bytes and allocates nothing.
//!
//! # Examples
//!
//! ```
//! use redefer::resp::{Decoder, Frame};
//!
//! let mut decoder = Decoder::new();
//! let mut received = b"*2\r\n$5\r\nhel".to_vec();
//! assert_eq!(decoder.decode(&received)?, None); // needs more
//!
//! received.extend_from_slice(b"lo\r\n:7\r\n+OK\r\n");
//! let (frame, len) = decoder.decode(&received)?.expect("the array is whole");
//! let elements: Vec<Frame<'_>> = frame.as_elements().expect("an array").collect();
//! assert_eq!(elements, [Frame::Bulk(b"hello"), Frame::Integer(7)]);
//!
//! assert_eq!(decoder.decode(&received[len..])?, Some((Frame::SimpleString(b"OK"), 5)));
//! # Ok::<(), redefer::resp::ProtocolError>(())
//! ```

mod decode;
pub(crate) mod encode;
mod frame;
pub(crate) mod number;
mod scan;
#[cfg(test)]
mod tests;

pub(crate) use decode::{Aggregate, Header, Peek, frame, header, peek, short_bulk, short_integer, usual_status};
pub use encode::encode_command;
pub use frame::{Elements, Frame};
pub use scan::Decoder;
pub(crate) use scan::Scanner;

/// How many aggregates may be open inside one another, the outermost and attributes included.
pub const MAX_DEPTH: usize = 128;

/// How many elements an aggregate may announce. The pairs of a map or of an attribute count twice.
pub const MAX_ELEMENTS: u64 = i32::MAX as u64;

/// How many bytes a bulk string, a bulk error or a verbatim string may have: 4 GiB.
pub const MAX_BULK: u64 = 4 << 30;

/// How many bytes the line of a simple string, a simple error, a double or a big number may have: 64 MiB, since a
/// script may answer with a status of any length.
pub const MAX_LINE: usize = 64 << 20;

/// Why bytes are not the protocol. Nothing after them can be understood, so the connection they came from is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A frame began with a byte that is no type.
    #[error("unknown type byte 0x{0:02x}")]
    UnknownType(u8),

    /// The header of a bulk string or an aggregate was no number, had a spelling other than the shortest, or was
    /// negative where that has no meaning.
    #[error("malformed length")]
    BadLength,

    /// An integer was no number, had a spelling other than the shortest, or did not fit into 64 bits.
    #[error("malformed integer")]
    BadInteger,

    /// A double was no number.
    #[error("malformed double")]
    BadDouble,

    /// A big number was something else than digits.
    #[error("malformed big number")]
    BadBigNumber,

    /// A boolean was neither `t` nor `f`.
    #[error("malformed boolean")]
    BadBoolean,

    /// A null had something in it.
    #[error("malformed null")]
    BadNull,

    /// A verbatim string had no format of three bytes and a colon in front.
    #[error("malformed verbatim string")]
    BadVerbatim,

    /// A bulk string announced more than [`MAX_BULK`] bytes, or a line went on for more than [`MAX_LINE`].
    #[error("a string is longer than the limit")]
    TooLong,

    /// An aggregate announced more than [`MAX_ELEMENTS`] elements.
    #[error("an aggregate has more elements than the limit")]
    TooManyElements,

    /// More than [`MAX_DEPTH`] aggregates inside one another.
    #[error("aggregates are nested deeper than the limit")]
    TooDeep,

    /// The bytes of a bulk string were not followed by CRLF.
    #[error("a bulk string does not end in CRLF")]
    MissingCrlf,

    /// A streamed string or aggregate, whose length is not announced.
    #[error("streamed strings and aggregates are not supported")]
    Streamed,

    /// A push although the connection speaks RESP2.
    #[error("a push frame in RESP2")]
    PushInResp2,

    /// A push among the elements of a push.
    #[error("a push frame inside another")]
    PushInPush,

    /// A reply came although no command was outstanding.
    #[error("a reply that no command has asked for")]
    UnaskedReply,

    /// The replies of a transaction do not fit its commands: not one for each, or something else than QUEUED.
    #[error("the replies of a transaction are out of step")]
    OutOfStep,
}
