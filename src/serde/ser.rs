//! A struct as fields with names.

use std::fmt::{self, Display};

use ::serde::Serialize;
use ::serde::ser::{self, Impossible, SerializeMap, SerializeStruct, Serializer};

/// Why a value cannot be fields.
#[derive(Debug)]
pub(super) enum Failure {
    /// It is more than one value, which is for JSON.
    Nested,
    Message(String),
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Nested => f.write_str("a value in a value"),
            Failure::Message(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Failure {}

impl ser::Error for Failure {
    fn custom<T: Display>(message: T) -> Self {
        Failure::Message(message.to_string())
    }
}

type Pairs = Vec<(String, Vec<u8>)>;

pub(super) fn to_fields<T: Serialize + ?Sized>(value: &T) -> Result<Pairs, Failure> {
    value.serialize(Whole)
}

/// One value; nothing if it is to be left out.
fn to_text<T: Serialize + ?Sized>(value: &T) -> Result<Option<Vec<u8>>, Failure> {
    match value.serialize(Part) {
        Err(Failure::Nested) => serde_json::to_vec(value).map(Some).map_err(ser::Error::custom),
        result => result,
    }
}

/// Methods that all do the same.
macro_rules! all {
    ($result:ty, $do:expr; $($method:ident($($argument:ty),*))*) => {$(
        fn $method(self, $(_: $argument),*) -> Result<$result, Failure> {
            $do
        }
    )*};
}

/// A value that is to be a struct or a map.
struct Whole;

fn no_struct<T>() -> Result<T, Failure> {
    Err(Failure::Message("only structs and maps have fields".into()))
}

impl Serializer for Whole {
    type Ok = Pairs;
    type Error = Failure;
    type SerializeSeq = Impossible<Pairs, Failure>;
    type SerializeTuple = Impossible<Pairs, Failure>;
    type SerializeTupleStruct = Impossible<Pairs, Failure>;
    type SerializeTupleVariant = Impossible<Pairs, Failure>;
    type SerializeMap = Gather;
    type SerializeStruct = Gather;
    type SerializeStructVariant = Impossible<Pairs, Failure>;

    all! { Pairs, no_struct();
        serialize_bool(bool)
        serialize_i8(i8)
        serialize_i16(i16)
        serialize_i32(i32)
        serialize_i64(i64)
        serialize_u8(u8)
        serialize_u16(u16)
        serialize_u32(u32)
        serialize_u64(u64)
        serialize_f32(f32)
        serialize_f64(f64)
        serialize_char(char)
        serialize_str(&str)
        serialize_bytes(&[u8])
        serialize_none()
        serialize_unit()
        serialize_unit_struct(&'static str)
        serialize_unit_variant(&'static str, u32, &'static str)
    }
    all! { Self::SerializeSeq, no_struct(); serialize_seq(Option<usize>) }
    all! { Self::SerializeTuple, no_struct(); serialize_tuple(usize) }
    all! { Self::SerializeTupleStruct, no_struct(); serialize_tuple_struct(&'static str, usize) }
    all! { Self::SerializeTupleVariant, no_struct();
        serialize_tuple_variant(&'static str, u32, &'static str, usize)
    }
    all! { Self::SerializeStructVariant, no_struct();
        serialize_struct_variant(&'static str, u32, &'static str, usize)
    }
    all! { Gather, Ok(Gather::default());
        serialize_map(Option<usize>)
        serialize_struct(&'static str, usize)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Pairs, Failure> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<Pairs, Failure> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Pairs, Failure> {
        no_struct()
    }
}

/// The fields so far.
#[derive(Default)]
struct Gather {
    pairs: Pairs,
    key: Option<String>,
}

impl Gather {
    fn field<T: Serialize + ?Sized>(&mut self, name: String, value: &T) -> Result<(), Failure> {
        let text = to_text(value).map_err(|error| Failure::Message(format!("field {name}: {error}")))?;
        self.pairs.extend(text.map(|text| (name, text)));
        Ok(())
    }
}

impl SerializeStruct for Gather {
    type Ok = Pairs;
    type Error = Failure;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Failure> {
        self.field(name.to_owned(), value)
    }

    fn end(self) -> Result<Pairs, Failure> {
        Ok(self.pairs)
    }
}

impl SerializeMap for Gather {
    type Ok = Pairs;
    type Error = Failure;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Failure> {
        let text = match key.serialize(Part) {
            Ok(text) => text.and_then(|text| String::from_utf8(text).ok()),
            Err(Failure::Nested) => None,
            Err(error) => return Err(error),
        };
        self.key = text;
        if self.key.is_none() { Err(Failure::Message("a key that is no text".into())) } else { Ok(()) }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        let name = self.key.take().unwrap_or_default();
        self.field(name, value)
    }

    fn end(self) -> Result<Pairs, Failure> {
        Ok(self.pairs)
    }
}

/// The value of one field.
struct Part;

type Text = Option<Vec<u8>>;

macro_rules! display {
    ($($method:ident($type:ty))*) => {$(
        fn $method(self, value: $type) -> Result<Text, Failure> {
            Ok(Some(value.to_string().into_bytes()))
        }
    )*};
}

impl Serializer for Part {
    type Ok = Text;
    type Error = Failure;
    type SerializeSeq = Impossible<Text, Failure>;
    type SerializeTuple = Impossible<Text, Failure>;
    type SerializeTupleStruct = Impossible<Text, Failure>;
    type SerializeTupleVariant = Impossible<Text, Failure>;
    type SerializeMap = Impossible<Text, Failure>;
    type SerializeStruct = Impossible<Text, Failure>;
    type SerializeStructVariant = Impossible<Text, Failure>;

    display! {
        serialize_i8(i8)
        serialize_i16(i16)
        serialize_i32(i32)
        serialize_i64(i64)
        serialize_i128(i128)
        serialize_u8(u8)
        serialize_u16(u16)
        serialize_u32(u32)
        serialize_u64(u64)
        serialize_u128(u128)
        serialize_f32(f32)
        serialize_f64(f64)
        serialize_char(char)
        serialize_str(&str)
    }

    fn serialize_bool(self, value: bool) -> Result<Text, Failure> {
        self.serialize_str(if value { "1" } else { "0" })
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<Text, Failure> {
        Ok(Some(value.to_vec()))
    }

    all! { Text, Ok(None);
        serialize_none()
        serialize_unit()
        serialize_unit_struct(&'static str)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Text, Failure> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<Text, Failure> {
        value.serialize(self)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Text, Failure> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Text, Failure> {
        Err(Failure::Nested)
    }

    all! { Self::SerializeSeq, Err(Failure::Nested); serialize_seq(Option<usize>) }
    all! { Self::SerializeTuple, Err(Failure::Nested); serialize_tuple(usize) }
    all! { Self::SerializeTupleStruct, Err(Failure::Nested); serialize_tuple_struct(&'static str, usize) }
    all! { Self::SerializeTupleVariant, Err(Failure::Nested);
        serialize_tuple_variant(&'static str, u32, &'static str, usize)
    }
    all! { Self::SerializeMap, Err(Failure::Nested); serialize_map(Option<usize>) }
    all! { Self::SerializeStruct, Err(Failure::Nested); serialize_struct(&'static str, usize) }
    all! { Self::SerializeStructVariant, Err(Failure::Nested);
        serialize_struct_variant(&'static str, u32, &'static str, usize)
    }
}
