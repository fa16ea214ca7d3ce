//! Replies that are fields with names: a map, or names and values in turn.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::resp::Frame;
use crate::values::{FromReply, Value};

/// Hands each field to `take`, which says whether it knows the name, and collects those that it does not know.
///
/// # Errors
///
/// When the frame is no map and no list of even length, and those of `take`.
pub(crate) fn fields<'a>(
    frame: Frame<'a>,
    expected: &'static str,
    mut take: impl FnMut(&[u8], Frame<'a>) -> Result<bool>,
) -> Result<HashMap<String, Value>> {
    let Some(mut elements) = frame.as_elements() else { return Err(Error::unexpected(expected, &frame)) };
    let mut other = HashMap::new();
    while let Some(name) = elements.next() {
        let Some(value) = elements.next() else {
            return Err(Error::custom(format!("{expected}: a name without a value")));
        };
        let known = match name.as_bytes() {
            Some(name) => take(name, value)?,
            None => false,
        };
        if !known {
            other.insert(text(name)?, Value::from_element(value)?);
        }
    }
    Ok(other)
}

/// Text that need not be UTF-8.
pub(crate) fn text(frame: Frame<'_>) -> Result<String> {
    Vec::<u8>::from_reply(frame).map(lossy)
}

/// Text that need not be UTF-8, or nothing.
pub(crate) fn optional_text(frame: Frame<'_>) -> Result<Option<String>> {
    Option::<Vec<u8>>::from_reply(frame).map(|bytes| bytes.map(lossy))
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
