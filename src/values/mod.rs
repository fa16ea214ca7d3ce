//! What a reply can be decoded into.
//!
//! [`FromReply`] is the trait, and its documentation lists the types; [`Value`] is a reply of any shape. A frame is all
//! that a type gets to see: it does not know the command, nor which protocol was agreed on.

mod collections;
mod from_reply;
mod text;
mod value;

pub(crate) use collections::Layout;
pub use from_reply::FromReply;
pub use value::Value;

#[cfg(test)]
mod testing {
    use super::FromReply;
    use crate::Result;
    use crate::resp::{Decoder, Frame};

    /// The frame that `wire` is, with spaces in place of CRLF, and what `T` makes of it.
    pub(super) fn decode<T: FromReply>(wire: &str) -> Result<T> {
        with_frame(wire, T::from_reply)
    }

    pub(super) fn with_frame<R>(wire: &str, look: impl FnOnce(Frame<'_>) -> R) -> R {
        let bytes = format!("{wire} ").replace(' ', "\r\n").into_bytes();
        let (frame, len) = Decoder::new().decode(&bytes).expect("it is the protocol").expect("it is whole");
        assert_eq!(len, bytes.len(), "{wire}: one frame and nothing more");
        look(frame)
    }

    /// What the error says, for a reply that `T` cannot take, without its look at what came.
    pub(super) fn refusal<T: FromReply>(wire: &str) -> String {
        match decode::<T>(wire) {
            Ok(_) => panic!("{wire} was taken"),
            Err(crate::Error::UnexpectedReply(error)) => {
                format!("unexpected reply: expected {}, got {}", error.expected(), error.got())
            }
            Err(error) => error.to_string(),
        }
    }
}
