//! Replies that are fields with names, as structs: what is not known is kept, and what is missing is empty.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use crate::error::{Error, Result, UnexpectedReply};
use crate::resp::{Elements, Frame};
use crate::values::{FromReply, Value};

/// What a part of a reply of the server's own can be: what [`FromReply`] takes, but text need not be UTF-8. Names of
/// users, clients, groups and files are any bytes, and one of them must not hide all the rest of a reply.
pub(crate) trait Field: Sized {
    fn field(frame: Frame<'_>) -> Result<Self>;
}

impl Field for String {
    fn field(frame: Frame<'_>) -> Result<Self> {
        let bytes = Vec::<u8>::from_reply(frame)?;
        Ok(String::from_utf8(bytes).unwrap_or_else(|error| text(error.as_bytes())))
    }
}

impl<T: Field> Field for Option<T> {
    fn field(frame: Frame<'_>) -> Result<Self> {
        if frame.is_nil() { Ok(None) } else { T::field(frame).map(Some) }
    }
}

impl<T: Field> Field for Vec<T> {
    fn field(frame: Frame<'_>) -> Result<Self> {
        elements(&frame, "a list")?.map(T::field).collect()
    }
}

impl<T: Field> Field for HashMap<String, T> {
    fn field(frame: Frame<'_>) -> Result<Self> {
        let mut map = HashMap::new();
        each_field(&frame, "names and values", |name, value| {
            map.insert(text(name), T::field(value)?);
            Ok(())
        })?;
        Ok(map)
    }
}

/// Parts of replies that are decoded as whole replies are.
macro_rules! fields {
    ($($type:ty),* $(,)?) => {$(
        impl $crate::commands::record::Field for $type {
            fn field(frame: $crate::resp::Frame<'_>) -> $crate::Result<Self> {
                $crate::FromReply::from_element(frame)
            }
        }
    )*};
}

pub(crate) use fields;

fields!(u16, u32, u64, i64, f64, bool, Vec<u8>, Value);

/// A field that is decoded as a whole reply is.
pub(crate) fn plain<T: FromReply>(frame: Frame<'_>) -> Result<T> {
    T::from_element(frame)
}

/// The names and values of a map, or of an array in which they alternate.
pub(crate) fn each_field(
    frame: &Frame<'_>,
    expected: &'static str,
    mut field: impl FnMut(&[u8], Frame<'_>) -> Result<()>,
) -> Result<()> {
    let mut elements = elements(frame, expected)?;
    while let Some(name) = elements.next() {
        let Some(value) = elements.next() else {
            return Err(UnexpectedReply::new(expected, "an odd number of elements").into());
        };
        // What has no text for a name can't be one that is known.
        if let Some(name) = name.as_bytes() {
            field(name, value)?;
        }
    }
    Ok(())
}

/// The elements of an aggregate, and the error if the frame is none.
pub(crate) fn elements<'a>(frame: &Frame<'a>, expected: &'static str) -> Result<Elements<'a>> {
    frame.as_elements().ok_or_else(|| Error::unexpected(expected, frame))
}

/// The next element, decoded; what a type is by default if there is none, since older servers send fewer.
pub(crate) fn next<T: Field + Default>(elements: &mut Elements<'_>) -> Result<T> {
    elements.next().map_or_else(|| Ok(T::default()), T::field)
}

/// Bytes as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The text of a reply that is to be taken apart.
pub(crate) fn whole_text(frame: &Frame<'_>, expected: &'static str) -> Result<String> {
    match frame.as_bytes() {
        Some(bytes) => Ok(text(bytes)),
        None => Err(Error::unexpected(expected, frame)),
    }
}

/// A point in time so long after the beginning of 1970.
pub(crate) fn since_epoch(time: Duration) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(time)
}

/// A time of the clock in milliseconds; 0 is none.
pub(crate) fn unix_millis(frame: Frame<'_>) -> Result<Option<SystemTime>> {
    let millis = Option::<u64>::from_reply(frame)?.unwrap_or(0);
    Ok(if millis == 0 { None } else { since_epoch(Duration::from_millis(millis)) })
}

/// A time of the clock in seconds; 0 is none.
pub(crate) fn unix_seconds(frame: Frame<'_>) -> Result<Option<SystemTime>> {
    let seconds = Option::<u64>::from_reply(frame)?.unwrap_or(0);
    Ok(if seconds == 0 { None } else { since_epoch(Duration::from_secs(seconds)) })
}

/// A length of time in seconds with a fraction.
pub(crate) fn seconds(frame: Frame<'_>) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(f64::from_reply(frame)?).unwrap_or_default())
}

/// A length of time in milliseconds.
pub(crate) fn millis(frame: Frame<'_>) -> Result<Duration> {
    u64::from_reply(frame).map(Duration::from_millis)
}

/// Makes a struct of a reply whose fields have names.
///
/// A field is decoded as its type is a [`Field`], or by the function behind `=`. One that the server leaves out is the
/// default of its type, and those that are not listed go to `other`.
macro_rules! record {
    (
        $(#[$doc:meta])*
        $name:ident $(<$generic:ident>)?: $expected:literal {
            $($(#[$field_doc:meta])* $wire:literal $field:ident: $type:ty $(= $decode:path)?,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        #[non_exhaustive]
        pub struct $name $(<$generic>)? {
            $($(#[$field_doc])* pub $field: $type,)*
            /// What else the server says, by name: the fields that this version of the crate does not know.
            pub other: std::collections::HashMap<String, $crate::Value>,
        }

        impl $(<$generic: $crate::FromReply>)? $crate::FromReply for $name $(<$generic>)? {
            fn from_reply(frame: $crate::resp::Frame<'_>) -> $crate::Result<Self> {
                $(let mut $field: Option<$type> = None;)*
                let mut other = std::collections::HashMap::new();
                $crate::commands::record::each_field(&frame, $expected, |name, value| {
                    match name {
                        $(name if name == $wire.as_bytes() => {
                            $field = Some($crate::commands::record::record!(@decode value $($decode)?));
                        })*
                        _ => {
                            let name = $crate::commands::record::text(name);
                            other.insert(name, $crate::FromReply::from_element(value)?);
                        }
                    }
                    Ok(())
                })?;
                Ok($name { $($field: $field.unwrap_or_default(),)* other })
            }
        }

        impl $(<$generic: $crate::FromReply>)? $crate::commands::record::Field for $name $(<$generic>)? {
            fn field(frame: $crate::resp::Frame<'_>) -> $crate::Result<Self> {
                $crate::FromReply::from_element(frame)
            }
        }
    };
    (@decode $value:ident) => {
        $crate::commands::record::Field::field($value)?
    };
    (@decode $value:ident $decode:path) => {
        $decode($value)?
    };
}

pub(crate) use record;

#[cfg(test)]
#[expect(unreachable_pub, reason = "what the macro makes is public")]
mod tests {
    use super::*;
    use crate::resp::Decoder;

    record! {
        /// Something.
        Thing: "a thing" {
            /// Its name.
            "name" name: Option<String>,
            /// Others.
            "others" others: Vec<String>,
            /// By name.
            "named" named: HashMap<String, Vec<u8>>,
        }
    }

    fn decode(wire: &[u8]) -> Result<Thing> {
        Thing::from_reply(Decoder::new().decode(wire)?.expect("it is whole").0)
    }

    #[test]
    fn a_name_of_any_bytes_hides_nothing() -> Result<()> {
        let wire = b"%4\r\n$4\r\nname\r\n$2\r\na\xff\r\n+others\r\n*2\r\n$1\r\n\xfe\r\n+b\r\n+named\r\n*2\r\n$1\r\n\xfd\r\n+c\r\n\
            $1\r\n\xfc\r\n:7\r\n";
        let thing = decode(wire)?;
        assert_eq!(thing.name.as_deref(), Some("a\u{fffd}"));
        assert_eq!(thing.others, ["\u{fffd}", "b"]);
        assert_eq!(thing.named["\u{fffd}"], b"c");
        assert_eq!(thing.other["\u{fffd}"].as_i64(), Some(7));
        Ok(())
    }

    #[test]
    fn what_is_missing_is_empty_and_what_is_cut_off_is_an_error() -> Result<()> {
        assert_eq!(decode(b"*0\r\n")?, Thing::default());
        assert_eq!(decode(b"*2\r\n*0\r\n:1\r\n")?, Thing::default(), "no name at all");
        assert!(matches!(decode(b"*1\r\n+name\r\n"), Err(Error::UnexpectedReply(_))));
        assert!(matches!(decode(b":1\r\n"), Err(Error::UnexpectedReply(_))));
        assert!(matches!(decode(b"_\r\n"), Err(Error::Nil)));
        Ok(())
    }
}
