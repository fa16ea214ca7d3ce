//! Replies that are fields with names, as structs: what is not known is kept, and what is missing is empty.

use std::time::{Duration, SystemTime};

use crate::error::{Error, Result};
use crate::resp::{Elements, Frame};
use crate::values::FromReply;

/// The names and values of a map, or of an array in which they alternate.
pub(crate) fn each_field(
    frame: &Frame<'_>,
    expected: &'static str,
    mut field: impl FnMut(&[u8], Frame<'_>) -> Result<()>,
) -> Result<()> {
    let mut elements = elements(frame, expected)?;
    while let (Some(name), Some(value)) = (elements.next(), elements.next()) {
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
pub(crate) fn next<T: FromReply + Default>(elements: &mut Elements<'_>) -> Result<T> {
    elements.next().map_or_else(|| Ok(T::default()), T::from_reply)
}

/// A name of bytes as text.
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

/// Makes a struct of a reply whose fields have names.
///
/// A field is decoded by its type, or by the function behind `=`. One that the server leaves out is the default of its
/// type, and those that are not listed go to `other`.
macro_rules! record {
    (
        $(#[$doc:meta])*
        $name:ident: $expected:literal {
            $($(#[$field_doc:meta])* $wire:literal $field:ident: $type:ty $(= $decode:path)?,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
            /// What else the server says, by name: the fields that this version of the crate does not know.
            pub other: std::collections::HashMap<String, $crate::Value>,
        }

        impl $crate::FromReply for $name {
            fn from_reply(frame: $crate::resp::Frame<'_>) -> $crate::Result<Self> {
                let mut record = Self::default();
                $crate::commands::server::record::each_field(&frame, $expected, |name, value| {
                    match name {
                        $(name if name == $wire.as_bytes() => {
                            record.$field = $crate::commands::server::record::record!(@decode value $($decode)?);
                        })*
                        _ => {
                            let name = $crate::commands::server::record::text(name);
                            record.other.insert(name, $crate::FromReply::from_element(value)?);
                        }
                    }
                    Ok(())
                })?;
                Ok(record)
            }
        }
    };
    (@decode $value:ident) => {
        $crate::FromReply::from_reply($value)?
    };
    (@decode $value:ident $decode:path) => {
        $decode($value)?
    };
}

pub(crate) use record;
