//! Values of any type that [`serde`](https://serde.rs) knows, as JSON in a string, or as the fields of a hash. With the
//! feature `serde`.
//!
//! [`Json`] is one argument or one reply. [`Fields`] are the fields and values of a hash: pairs for HSET, and what
//! HGETALL answers, as [`hgetall_as`](crate::commands::HashCommands::hgetall_as) takes it.
//!
//! ```
//! # fn main() -> redefer::Result<()> {
//! # #[cfg(feature = "testing")] {
//! # let server = redefer::testing::Server::start()?;
//! # let conn = redefer::Connection::open(server.url())?;
//! use redefer::prelude::*;
//! use redefer::serde::{Fields, Json};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize, PartialEq, Debug)]
//! struct User {
//!     name: String,
//!     age: u32,
//!     email: Option<String>,
//!     tags: Vec<String>,
//! }
//!
//! let ada = User { name: "Ada".into(), age: 36, email: None, tags: vec!["math".into()] };
//!
//! // As JSON in a string.
//! conn.set("user:json", Json(&ada)).wait()?;
//! let Json(user) = conn.get::<Json<User>>("user:json").wait()?;
//! assert_eq!(user, ada);
//! let nobody: Option<Json<User>> = conn.get("user:none").wait()?;
//! assert!(nobody.is_none());
//!
//! // As a hash, each field by its name; what is nested is JSON, and what is `None` is left out.
//! conn.hset("user:hash", Fields(&ada)).wait()?;
//! conn.hincrby("user:hash", "age", 1).wait()?;
//! let Fields(user) = conn.hgetall_as::<Fields<User>>("user:hash").wait()?;
//! assert_eq!(user, User { age: 37, ..ada });
//! let nobody: Option<Fields<User>> = conn.hgetall_as("user:none").wait()?;
//! assert!(nobody.is_none());
//! # }
//! # Ok(())
//! # }
//! ```

mod de;
mod ser;

use ::serde::Serialize;
use ::serde::de::DeserializeOwned;

use crate::args::{Arg, ArgWriter, ToArg, ToArgs, ToPairs};
use crate::error::{Error, Result};
use crate::resp::Frame;
use crate::values::FromReply;

/// A value as JSON text: an argument if the type is `Serialize`, of references, too (`Json(&user)`), and a reply if it is
/// `Deserialize`. Nil is [`Error::Nil`]; ask for an `Option<Json<T>>`.
///
/// JSON has no infinite numbers and no `NaN`: they are sent as `null`.
///
/// A value that cannot be JSON (a map whose keys are no text and no numbers, or an error of a `Serialize` written by hand)
/// fails its command with [`Error::Custom`], and nothing of it is sent. Only where a value is kept among options, such as
/// [`VaddOptions::setattr`](crate::commands::VaddOptions::setattr), it is a panic: use [`to_json`] there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Json<T>(pub T);

impl<T: Serialize> ToArg for Json<T> {
    fn to_arg(&self) -> Arg<'_> {
        match serde_json::to_vec(&self.0) {
            Ok(text) => Arg::Owned(text),
            Err(error) => Arg::Failed(Error::custom(format!("a value that cannot be JSON: {error}"))),
        }
    }
}

impl<T: DeserializeOwned> FromReply for Json<T> {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let value = match frame.as_bytes() {
            Some(text) => serde_json::from_slice(text),
            None => serde_json::from_slice(&Vec::<u8>::from_reply(frame)?),
        };
        value.map(Json).map_err(|error| Error::custom(format!("JSON of another form: {error}")))
    }
}

/// A value as JSON text, which is an argument.
///
/// # Errors
///
/// [`Error::Custom`] if the value cannot be JSON; see [`Json`].
pub fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(Error::custom)
}

/// A struct, or a map, as the fields of a hash: pairs of arguments if the type is `Serialize`, of references, too
/// (`Fields(&user)`), and a reply if it is `Deserialize`.
///
/// | in Rust | in the hash |
/// | --- | --- |
/// | integers, floating point numbers | as text: `-7`, `2.5`, `inf` |
/// | `bool` | `1` or `0`; read from `true` and `false`, too |
/// | `String`, `&str`, `char` | as it is |
/// | bytes (`serde_bytes`) | as they are |
/// | `Option` | `Some` is its content; `None` is left out, and a field that is not there is read as `None` |
/// | `()` and unit structs | left out; read only with `#[serde(default)]` |
/// | variants without content | their name |
/// | structs around one value | that value |
/// | all that is nested: lists, tuples, maps, structs, other variants | JSON text |
///
/// `rename`, `default`, `skip` and their kin work as ever. Fields of the hash that the type does not have are ignored.
/// HSET with a value whose fields are all `None` is refused, since there is nothing to send; and it does not delete the
/// field of an earlier value that is `None` now: delete the key before, in one transaction, or give the field another
/// meaning for nothing.
///
/// A hash does not say of what type a value is. So where a type has to be told from the value itself, in `flatten`, in
/// fields of type `serde_json::Value`, and in enums that are tagged inside or not at all, values can only be read as text;
/// those are better as [`Json`]. Inside JSON there is no infinity: it becomes `null`.
///
/// A key that does not exist has no fields: an `Option<Fields<T>>` is `None` then.
///
/// As arguments, a value that is no struct and no map, or has something nested that cannot be JSON (see [`Json`]), fails its
/// command with [`Error::Custom`], and nothing of it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fields<T>(pub T);

impl<T: Serialize> ToArgs for Fields<T> {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        match ser::to_fields(&self.0) {
            Ok(fields) => fields.write_args(out),
            Err(error) => out.fail(Error::custom(format!("a value that cannot be the fields of a hash: {error}"))),
        }
    }
}

impl<T: Serialize> ToPairs for Fields<T> {}

impl<T: DeserializeOwned> FromReply for Fields<T> {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let fields = Vec::<(Vec<u8>, Option<Vec<u8>>)>::from_reply(frame)?;
        de::from_fields(&fields).map(Fields).map_err(|error| Error::custom(format!("a hash of another form: {error}")))
    }

    /// HGETALL answers a key that does not exist with nothing.
    fn is_nil(frame: &Frame<'_>) -> bool {
        frame.is_nil() || frame.as_elements().is_some_and(|elements| elements.is_empty())
    }
}

/// A struct, or a map, as the fields and values of a hash, which are pairs of arguments: see [`Fields`].
///
/// # Errors
///
/// [`Error::Custom`] if the value is no struct and no map, or has something nested that cannot be JSON.
pub fn to_fields<T: Serialize + ?Sized>(value: &T) -> Result<Vec<(String, Vec<u8>)>> {
    ser::to_fields(value).map_err(Error::custom)
}
