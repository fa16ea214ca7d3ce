//! Units, shapes, options and results of the commands on places.

use crate::args::{Each, ToArg, ToArgs, TryEach};
use crate::commands::parts::{Flag, Maybe, Named, Owned, parts_to_args, word_to_arg};
use crate::error::{Error, Result};
use crate::resp::Frame;
use crate::values::FromReply;

/// What distances are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GeoUnit {
    /// Meters.
    Meters,
    /// Kilometers.
    Kilometers,
    /// Feet.
    Feet,
    /// Miles.
    Miles,
}

impl GeoUnit {
    fn word(&self) -> &'static str {
        match self {
            GeoUnit::Meters => "m",
            GeoUnit::Kilometers => "km",
            GeoUnit::Feet => "ft",
            GeoUnit::Miles => "mi",
        }
    }
}

word_to_arg!(GeoUnit);

/// Places: longitude, latitude and member of each.
///
/// One place is a tuple, `(13.361389, 38.115556, "Palermo")`. Several are a slice, array or vector of tuples, or
/// [`each`](crate::args::each) or [`try_each`](crate::args::try_each) of an iterator.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of places",
    label = "neither a place `(longitude, latitude, member)`, nor a slice, array or vector of places",
    note = "wrap an iterator of places into `args::each`"
)]
pub trait ToPlaces: ToArgs {}

impl<A: ToArg, B: ToArg, C: ToArg> ToPlaces for (A, B, C) {}
impl<A: ToArg, B: ToArg, C: ToArg> ToPlaces for &(A, B, C) {}
impl<T: ToPlaces> ToPlaces for &[T] {}
impl<T: ToPlaces> ToPlaces for Vec<T> {}
impl<T: ToPlaces> ToPlaces for &Vec<T> {}
impl<T: ToPlaces, const N: usize> ToPlaces for [T; N] {}
impl<T: ToPlaces, const N: usize> ToPlaces for &[T; N] {}
impl<I: Iterator<Item: ToPlaces>> ToPlaces for Each<I> {}
impl<T: ToPlaces, I: Iterator<Item = Result<T>>> ToPlaces for TryEach<I> {}

/// Options of GEOADD: see [`geoadd_with`](super::GeoCommands::geoadd_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct GeoaddOptions {
    condition: Option<&'static str>,
    ch: bool,
}

impl GeoaddOptions {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only adds places, and leaves those that are there alone. In place of [`xx`](GeoaddOptions::xx).
    pub fn nx(mut self) -> Self {
        self.condition = Some("NX");
        self
    }

    /// Only moves places that are there, and adds none. In place of [`nx`](GeoaddOptions::nx).
    pub fn xx(mut self) -> Self {
        self.condition = Some("XX");
        self
    }

    /// Answers how many places were added or moved, not only how many were added.
    pub fn ch(mut self) -> Self {
        self.ch = true;
        self
    }

    fn parts(&self) -> impl ToArgs {
        (self.condition, Flag("CH", self.ch))
    }
}

/// The middle of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum GeoFrom {
    /// A member of the same key; the search fails if there is none of that name. See [`GeoFrom::member`].
    Member(Vec<u8>),
    /// A longitude and a latitude.
    LonLat(f64, f64),
    /// A member that cannot be sent: the search fails.
    Unsendable,
}

impl GeoFrom {
    /// A member of the same key; the search fails if there is none of that name.
    pub fn member(member: impl ToArg) -> Self {
        Owned::new(member).0.map_or(GeoFrom::Unsendable, GeoFrom::Member)
    }

    fn parts(&self) -> impl ToArgs {
        let (member, point) = match self {
            GeoFrom::Member(member) => (Some(Owned(Some(&**member))), None),
            GeoFrom::LonLat(longitude, latitude) => (None, Some((*longitude, *latitude))),
            GeoFrom::Unsendable => (Some(Owned(None)), None),
        };
        (Named("FROMMEMBER", member), Named("FROMLONLAT", point))
    }
}

/// The shape of a search, around its middle.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GeoShape {
    /// A circle with this radius.
    Radius(f64, GeoUnit),
    /// A rectangle along the axes.
    Box {
        /// From west to east.
        width: f64,
        /// From north to south.
        height: f64,
        /// What both are in.
        unit: GeoUnit,
    },
    /// A polygon with these corners, each a longitude and a latitude, of which there are at least three. It has its own
    /// middle, so that the one given is not sent. Only Valkey, since 9.0.
    Polygon(Vec<(f64, f64)>),
}

impl GeoShape {
    /// The middle, where one is to be sent.
    pub(super) fn from<'a>(&self, from: &'a GeoFrom) -> impl ToArgs + use<'a> {
        Maybe(if matches!(self, GeoShape::Polygon(_)) { None } else { Some(from) })
    }

    fn parts(&self) -> impl ToArgs {
        let (round, square, polygon) = match self {
            GeoShape::Radius(radius, unit) => (Some((*radius, *unit)), None, None),
            GeoShape::Box { width, height, unit } => (None, Some((*width, *height, *unit)), None),
            GeoShape::Polygon(corners) => (None, None, Some((corners.len(), corners))),
        };
        (Named("BYRADIUS", round), Named("BYBOX", square), Named("BYPOLYGON", polygon))
    }
}

/// Which places a search finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Which {
    order: Option<&'static str>,
    count: Option<u64>,
    any: bool,
}

impl Which {
    fn parts(&self) -> impl ToArgs + use<> {
        (self.order, Named("COUNT", self.count), Flag("ANY", self.any && self.count.is_some()))
    }
}

macro_rules! which {
    ($type:ident) => {
        impl $type {
            /// No options.
            pub fn new() -> Self {
                Self::default()
            }

            /// The nearest first.
            pub fn asc(mut self) -> Self {
                self.which.order = Some("ASC");
                self
            }

            /// The farthest first.
            pub fn desc(mut self) -> Self {
                self.which.order = Some("DESC");
                self
            }

            /// At most this many, of those that are nearest. Zero is refused by the server.
            pub fn count(mut self, count: u64) -> Self {
                self.which.count = Some(count);
                self
            }

            /// With [`count`](Self::count): the search ends when that many are found, which then need not be the nearest.
            /// Since 6.2.
            pub fn any(mut self) -> Self {
                self.which.any = true;
                self
            }
        }
    };
}

which!(GeosearchOptions);
which!(GeosearchstoreOptions);
which!(GeoradiusOptions);

/// Options of GEOSEARCH, and of the older searches: see [`geosearch_with`](super::GeoCommands::geosearch_with).
///
/// ```
/// use redefer::commands::GeosearchOptions;
///
/// let _the_nearest_and_how_far = GeosearchOptions::new().asc().count(1).withdist();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct GeosearchOptions {
    which: Which,
    withcoord: bool,
    withdist: bool,
    withhash: bool,
}

impl GeosearchOptions {
    /// Each with its longitude and latitude.
    pub fn withcoord(mut self) -> Self {
        self.withcoord = true;
        self
    }

    /// Each with its distance, in the unit of the search.
    pub fn withdist(mut self) -> Self {
        self.withdist = true;
        self
    }

    /// Each with the number that is its score.
    pub fn withhash(mut self) -> Self {
        self.withhash = true;
        self
    }

    fn parts(&self) -> impl ToArgs {
        (
            self.which.parts(),
            Flag("WITHCOORD", self.withcoord),
            Flag("WITHDIST", self.withdist),
            Flag("WITHHASH", self.withhash),
        )
    }
}

/// Options of GEOSEARCHSTORE: see [`geosearchstore_with`](super::GeoCommands::geosearchstore_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct GeosearchstoreOptions {
    which: Which,
    storedist: bool,
}

impl GeosearchstoreOptions {
    /// Stores the distances as scores, in the unit of the search, so that the result is no set of places.
    pub fn storedist(mut self) -> Self {
        self.storedist = true;
        self
    }

    fn parts(&self) -> impl ToArgs {
        (self.which.parts(), Flag("STOREDIST", self.storedist))
    }
}

/// Options of GEORADIUS and GEORADIUSBYMEMBER where they store what they find: see
/// [`georadius_store`](super::GeoCommands::georadius_store).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct GeoradiusOptions {
    which: Which,
    storedist: bool,
}

impl GeoradiusOptions {
    /// Stores the distances as scores, in the unit of the search, so that the result is no set of places.
    pub fn storedist(mut self) -> Self {
        self.storedist = true;
        self
    }

    /// The word in front of the destination.
    pub(super) fn store(&self) -> &'static str {
        if self.storedist { "STOREDIST" } else { "STORE" }
    }

    fn parts(&self) -> impl ToArgs {
        self.which.parts()
    }
}

parts_to_args!(GeoaddOptions, GeoFrom, GeoShape, GeosearchOptions, GeosearchstoreOptions, GeoradiusOptions);

/// A place that a search has found, with what was asked for of it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct GeoPlace<T> {
    /// Its name.
    pub member: T,
    /// How far it is from the middle, in the unit of the search: with [`withdist`](GeosearchOptions::withdist).
    pub distance: Option<f64>,
    /// The number that is its score: with [`withhash`](GeosearchOptions::withhash).
    pub hash: Option<u64>,
    /// Its longitude and latitude: with [`withcoord`](GeosearchOptions::withcoord).
    pub coordinates: Option<(f64, f64)>,
}

/// The parts are told apart by their kinds: a distance is text, a hash an integer, coordinates are an array.
impl<T: FromReply> FromReply for GeoPlace<T> {
    fn from_reply(frame: Frame<'_>) -> Result<Self> {
        let Some(mut elements) = frame.as_elements() else {
            return Ok(GeoPlace { member: T::from_reply(frame)?, distance: None, hash: None, coordinates: None });
        };
        let member = elements.next().ok_or_else(|| Error::custom("a place without a name"))?;
        let mut place = GeoPlace { member: T::from_element(member)?, distance: None, hash: None, coordinates: None };
        for part in elements {
            match part {
                Frame::Integer(_) => place.hash = Some(u64::from_reply(part)?),
                part if part.is_aggregate() => place.coordinates = Some(<(f64, f64)>::from_reply(part)?),
                part => place.distance = Some(f64::from_reply(part)?),
            }
        }
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Decoder;

    fn decode(wire: &str) -> Result<GeoPlace<String>> {
        let bytes = format!("{wire} ").replace(' ', "\r\n").into_bytes();
        let (frame, _) = Decoder::new().decode(&bytes)?.expect("it is whole");
        GeoPlace::from_reply(frame)
    }

    #[test]
    fn each_part_of_a_place_is_optional_and_known_by_its_kind() {
        let member = String::from("a");
        let bare = GeoPlace { member, ..GeoPlace::default() };
        let at = Some((1.5, 2.5));
        assert_eq!(decode("$1 a").unwrap(), bare);
        assert_eq!(decode("*2 $1 a :7").unwrap(), GeoPlace { hash: Some(7), ..bare.clone() });
        assert_eq!(decode("*2 $1 a $6 0.5000").unwrap(), GeoPlace { distance: Some(0.5), ..bare.clone() });
        for pair in ["*2 $3 1.5 $3 2.5", "*2 ,1.5 ,2.5"] {
            let all = GeoPlace { distance: Some(0.5), hash: Some(7), coordinates: at, ..bare.clone() };
            assert_eq!(decode(&format!("*4 $1 a $3 0.5 :7 {pair}")).unwrap(), all);
            assert_eq!(decode(&format!("*2 $1 a {pair}")).unwrap(), GeoPlace { coordinates: at, ..bare.clone() });
        }
        assert!(decode("*0").is_err() && decode("_").is_err() && decode("*2 $1 a $1 x").is_err());
    }
}
