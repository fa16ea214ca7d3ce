//! A struct from fields with names.

use ::serde::de::value::{MapDeserializer, StrDeserializer};
use ::serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use ::serde::forward_to_deserialize_any;
use serde_json::Error;

pub(super) fn from_fields<T: DeserializeOwned>(fields: &[(Vec<u8>, Option<Vec<u8>>)]) -> Result<T, Error> {
    T::deserialize(Whole(fields))
}

/// All fields. One whose value is nil is not there.
struct Whole<'a>(&'a [(Vec<u8>, Option<Vec<u8>>)]);

impl<'de> Deserializer<'de> for Whole<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let pairs = self.0.iter().filter_map(|(name, value)| Some((Name(name), Part { name, value: value.as_ref()? })));
        visitor.visit_map(MapDeserializer::new(pairs))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

/// The name of a field, which may also be the key of a map.
struct Name<'a>(&'a [u8]);

/// The value of one field.
#[derive(Clone, Copy)]
struct Part<'a> {
    name: &'a [u8],
    value: &'a [u8],
}

impl<'de> IntoDeserializer<'de, Error> for Name<'de> {
    type Deserializer = Part<'de>;
    fn into_deserializer(self) -> Part<'de> {
        Part { name: self.0, value: self.0 }
    }
}

impl<'de> IntoDeserializer<'de, Error> for Part<'de> {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'a> Part<'a> {
    /// An error with the name of the field in front.
    fn named(&self, error: impl std::fmt::Display) -> Error {
        Error::custom(format_args!("field {}: {error}", String::from_utf8_lossy(self.name)))
    }

    fn text(&self) -> Result<&'a str, Error> {
        str::from_utf8(self.value).map_err(|_| self.named("bytes that are not UTF-8"))
    }

    fn parse<T: std::str::FromStr>(&self, expected: &str) -> Result<T, Error> {
        self.text()?.parse().map_err(|_| self.named(format_args!("text that is no {expected}")))
    }
}

macro_rules! numbers {
    ($expected:literal: $($method:ident $visit:ident),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.parse($expected)?).map_err(|error: Error| self.named(error))
        }
    )*};
}

macro_rules! texts {
    ($($method:ident),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.visit_borrowed_str(self.text()?).map_err(|error: Error| self.named(error))
        }
    )*};
}

macro_rules! nested {
    ($($method:ident($($argument:ident: $type:ty),*))*) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, Error> {
            let mut json = serde_json::Deserializer::from_slice(self.value);
            let value = json.$method($($argument,)* visitor).and_then(|value| json.end().map(|()| value));
            value.map_err(|error| self.named(error))
        }
    )*};
}

impl<'de> Deserializer<'de> for Part<'de> {
    type Error = Error;

    numbers! { "integer": deserialize_i8 visit_i8, deserialize_i16 visit_i16, deserialize_i32 visit_i32 }
    numbers! { "integer": deserialize_i64 visit_i64, deserialize_i128 visit_i128, deserialize_u8 visit_u8 }
    numbers! { "integer": deserialize_u16 visit_u16, deserialize_u32 visit_u32, deserialize_u64 visit_u64 }
    numbers! { "integer": deserialize_u128 visit_u128 }
    numbers! { "number": deserialize_f32 visit_f32, deserialize_f64 visit_f64 }
    texts! { deserialize_char, deserialize_str, deserialize_string }

    /// Where nothing says what the value is to be: text, or else bytes.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match str::from_utf8(self.value) {
            Ok(text) => visitor.visit_borrowed_str(text),
            Err(_) => visitor.visit_borrowed_bytes(self.value),
        }
        .map_err(|error: Error| self.named(error))
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            b"1" | b"true" => visitor.visit_bool(true),
            b"0" | b"false" => visitor.visit_bool(false),
            _ => Err(self.named("text that is none of 0, 1, true and false")),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_bytes(self.value)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    /// The name of a variant, or JSON if it has content.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let text = self.text()?;
        let value = if text.starts_with('{') && !variants.contains(&text) {
            let mut json = serde_json::Deserializer::from_str(text);
            json.deserialize_enum(name, variants, visitor).and_then(|value| json.end().map(|()| value))
        } else {
            visitor.visit_enum(StrDeserializer::new(text))
        };
        value.map_err(|error: Error| self.named(error))
    }

    nested! {
        deserialize_seq()
        deserialize_tuple(len: usize)
        deserialize_tuple_struct(name: &'static str, len: usize)
        deserialize_map()
        deserialize_struct(name: &'static str, fields: &'static [&'static str])
    }
}
