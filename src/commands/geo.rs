//! Places on earth, kept in sorted sets.

mod options;

use crate::args::{ToArg, ToArgs, cmd};
use crate::execute::Execute;
use crate::values::FromReply;

pub use options::{
    GeoFrom, GeoPlace, GeoShape, GeoUnit, GeoaddOptions, GeoradiusOptions, GeosearchOptions, GeosearchstoreOptions,
    ToPlaces,
};

/// Commands on places.
///
/// A place is a longitude and a latitude in degrees, in this order, and a member of a sorted set whose score stands for
/// them; so what is true of sorted sets is true here, and ZREM removes a place. Coordinates come back rounded, to less
/// than a meter. A key that does not exist holds no places. On a key of another type each command fails with `WRONGTYPE`.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use redefer::commands::{GeoFrom, GeoShape, GeoUnit, GeosearchOptions};
/// use redefer::prelude::*;
///
/// conn.geoadd("Sicily", [(13.361389, 38.115556, "Palermo"), (15.087269, 37.502669, "Catania")]).wait()?;
/// let meters = conn.geodist("Sicily", "Palermo", "Catania", GeoUnit::Meters).wait()?;
/// assert!(meters.is_some_and(|meters| (meters - 166_274.0).abs() < 1.0));
///
/// let (from, near) = (GeoFrom::LonLat(15.0, 37.0), GeoShape::Radius(100.0, GeoUnit::Kilometers));
/// let names: Vec<String> = conn.geosearch("Sicily", &from, &near).wait()?;
/// assert_eq!(names, ["Catania"]);
/// for place in conn.geosearch_with::<String>("Sicily", &from, &near, GeosearchOptions::new().asc().withdist()) {
///     let place = place?;
///     println!("{}: {:?} km", place.member, place.distance);
/// }
/// # }
/// # Ok(())
/// # }
/// ```
pub trait GeoCommands: Execute {
    /// Adds places, or moves those that are there: longitude, latitude and member of each, in this order, which is the
    /// server's. The reply is how many were added.
    ///
    /// [GEOADD](https://redis.io/docs/latest/commands/geoadd/)
    fn geoadd(self, key: impl ToArg, places: impl ToPlaces) -> Self::Reply<i64> {
        self.execute(cmd("GEOADD").key(key).args(places))
    }

    /// Like [`geoadd`](GeoCommands::geoadd), with options that say what may be added or moved, and what is counted.
    /// Since 6.2.
    ///
    /// [GEOADD](https://redis.io/docs/latest/commands/geoadd/)
    fn geoadd_with(self, key: impl ToArg, places: impl ToPlaces, options: GeoaddOptions) -> Self::Reply<i64> {
        self.execute(cmd("GEOADD").key(key).options(options).args(places))
    }

    /// The distance between two members; `None` if one of them is missing.
    ///
    /// [GEODIST](https://redis.io/docs/latest/commands/geodist/)
    fn geodist(
        self,
        key: impl ToArg,
        first: impl ToArg,
        second: impl ToArg,
        unit: GeoUnit,
    ) -> Self::Reply<Option<f64>> {
        self.execute(cmd("GEODIST").key(key).arg(first).arg(second).arg(unit))
    }

    /// The [Geohash](https://en.wikipedia.org/wiki/Geohash) of each member, of eleven characters, in the order asked;
    /// `None` for one that is missing.
    ///
    /// [GEOHASH](https://redis.io/docs/latest/commands/geohash/)
    fn geohash(self, key: impl ToArg, members: impl ToArgs) -> Self::MultiBulk<Option<String>> {
        self.execute_multi(cmd("GEOHASH").key(key).args(members))
    }

    /// Longitude and latitude of each member, in the order asked; `None` for one that is missing.
    ///
    /// [GEOPOS](https://redis.io/docs/latest/commands/geopos/)
    fn geopos(self, key: impl ToArg, members: impl ToArgs) -> Self::MultiBulk<Option<(f64, f64)>> {
        self.execute_multi(cmd("GEOPOS").key(key).args(members))
    }

    /// The members around a longitude and latitude. Deprecated by the servers:
    /// [`geosearch`](GeoCommands::geosearch) does the same.
    ///
    /// [GEORADIUS](https://redis.io/docs/latest/commands/georadius/)
    fn georadius<T: FromReply>(
        self,
        key: impl ToArg,
        (longitude, latitude): (f64, f64),
        radius: f64,
        unit: GeoUnit,
    ) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("GEORADIUS").key(key).arg(longitude).arg(latitude).arg(radius).arg(unit))
    }

    /// Like [`georadius`](GeoCommands::georadius), with options that say which, and what of each. Deprecated by the
    /// servers: [`geosearch_with`](GeoCommands::geosearch_with) does the same.
    ///
    /// [GEORADIUS](https://redis.io/docs/latest/commands/georadius/)
    fn georadius_with<T: FromReply>(
        self,
        key: impl ToArg,
        (longitude, latitude): (f64, f64),
        radius: f64,
        unit: GeoUnit,
        options: GeosearchOptions,
    ) -> Self::MultiBulk<GeoPlace<T>> {
        self.execute_multi(
            cmd("GEORADIUS").key(key).arg(longitude).arg(latitude).arg(radius).arg(unit).options(options),
        )
    }

    /// Like [`georadius`](GeoCommands::georadius), but makes the places the new value of `destination`, whatever that was.
    /// The reply is how many they are. Deprecated by the servers: [`geosearchstore`](GeoCommands::geosearchstore) does
    /// the same.
    ///
    /// [GEORADIUS](https://redis.io/docs/latest/commands/georadius/)
    fn georadius_store(
        self,
        destination: impl ToArg,
        key: impl ToArg,
        (longitude, latitude): (f64, f64),
        radius: f64,
        unit: GeoUnit,
        options: GeoradiusOptions,
    ) -> Self::Reply<i64> {
        let command = cmd("GEORADIUS").key(key).arg(longitude).arg(latitude).arg(radius).arg(unit);
        self.execute(command.options(options).arg(options.store()).key(destination))
    }

    /// The members around another one, which comes with them. Deprecated by the servers:
    /// [`geosearch`](GeoCommands::geosearch) does the same.
    ///
    /// [GEORADIUSBYMEMBER](https://redis.io/docs/latest/commands/georadiusbymember/)
    fn georadiusbymember<T: FromReply>(
        self,
        key: impl ToArg,
        member: impl ToArg,
        radius: f64,
        unit: GeoUnit,
    ) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("GEORADIUSBYMEMBER").key(key).arg(member).arg(radius).arg(unit))
    }

    /// Like [`georadiusbymember`](GeoCommands::georadiusbymember), with options that say which, and what of each.
    /// Deprecated by the servers: [`geosearch_with`](GeoCommands::geosearch_with) does the same.
    ///
    /// [GEORADIUSBYMEMBER](https://redis.io/docs/latest/commands/georadiusbymember/)
    fn georadiusbymember_with<T: FromReply>(
        self,
        key: impl ToArg,
        member: impl ToArg,
        radius: f64,
        unit: GeoUnit,
        options: GeosearchOptions,
    ) -> Self::MultiBulk<GeoPlace<T>> {
        self.execute_multi(cmd("GEORADIUSBYMEMBER").key(key).arg(member).arg(radius).arg(unit).options(options))
    }

    /// Like [`georadiusbymember`](GeoCommands::georadiusbymember), but makes the places the new value of `destination`,
    /// whatever that was. The reply is how many they are. Deprecated by the servers:
    /// [`geosearchstore`](GeoCommands::geosearchstore) does the same.
    ///
    /// [GEORADIUSBYMEMBER](https://redis.io/docs/latest/commands/georadiusbymember/)
    fn georadiusbymember_store(
        self,
        destination: impl ToArg,
        key: impl ToArg,
        member: impl ToArg,
        radius: f64,
        unit: GeoUnit,
        options: GeoradiusOptions,
    ) -> Self::Reply<i64> {
        let command = cmd("GEORADIUSBYMEMBER").key(key).arg(member).arg(radius).arg(unit);
        self.execute(command.options(options).arg(options.store()).key(destination))
    }

    /// Like [`georadiusbymember`](GeoCommands::georadiusbymember), but runs on replicas, too. Deprecated by the servers:
    /// [`geosearch`](GeoCommands::geosearch) does the same.
    ///
    /// [GEORADIUSBYMEMBER_RO](https://redis.io/docs/latest/commands/georadiusbymember_ro/)
    fn georadiusbymember_ro<T: FromReply>(
        self,
        key: impl ToArg,
        member: impl ToArg,
        radius: f64,
        unit: GeoUnit,
    ) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("GEORADIUSBYMEMBER_RO").key(key).arg(member).arg(radius).arg(unit))
    }

    /// Like [`georadiusbymember_ro`](GeoCommands::georadiusbymember_ro), with options that say which, and what of each.
    /// Deprecated by the servers: [`geosearch_with`](GeoCommands::geosearch_with) does the same.
    ///
    /// [GEORADIUSBYMEMBER_RO](https://redis.io/docs/latest/commands/georadiusbymember_ro/)
    fn georadiusbymember_ro_with<T: FromReply>(
        self,
        key: impl ToArg,
        member: impl ToArg,
        radius: f64,
        unit: GeoUnit,
        options: GeosearchOptions,
    ) -> Self::MultiBulk<GeoPlace<T>> {
        self.execute_multi(cmd("GEORADIUSBYMEMBER_RO").key(key).arg(member).arg(radius).arg(unit).options(options))
    }

    /// Like [`georadius`](GeoCommands::georadius), but runs on replicas, too. Deprecated by the servers:
    /// [`geosearch`](GeoCommands::geosearch) does the same.
    ///
    /// [GEORADIUS_RO](https://redis.io/docs/latest/commands/georadius_ro/)
    fn georadius_ro<T: FromReply>(
        self,
        key: impl ToArg,
        (longitude, latitude): (f64, f64),
        radius: f64,
        unit: GeoUnit,
    ) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("GEORADIUS_RO").key(key).arg(longitude).arg(latitude).arg(radius).arg(unit))
    }

    /// Like [`georadius_ro`](GeoCommands::georadius_ro), with options that say which, and what of each. Deprecated by the
    /// servers: [`geosearch_with`](GeoCommands::geosearch_with) does the same.
    ///
    /// [GEORADIUS_RO](https://redis.io/docs/latest/commands/georadius_ro/)
    fn georadius_ro_with<T: FromReply>(
        self,
        key: impl ToArg,
        (longitude, latitude): (f64, f64),
        radius: f64,
        unit: GeoUnit,
        options: GeosearchOptions,
    ) -> Self::MultiBulk<GeoPlace<T>> {
        self.execute_multi(
            cmd("GEORADIUS_RO").key(key).arg(longitude).arg(latitude).arg(radius).arg(unit).options(options),
        )
    }

    /// The members in a shape around a place, in no order. Never nil. Since 6.2.
    ///
    /// [GEOSEARCH](https://redis.io/docs/latest/commands/geosearch/)
    fn geosearch<T: FromReply>(self, key: impl ToArg, from: &GeoFrom, shape: &GeoShape) -> Self::MultiBulk<T> {
        self.execute_multi(cmd("GEOSEARCH").key(key).options(shape.from(from)).options(shape))
    }

    /// Like [`geosearch`](GeoCommands::geosearch), with options that say which, and what of each: each comes with its
    /// distance, its coordinates and its hash if these were asked for.
    ///
    /// [GEOSEARCH](https://redis.io/docs/latest/commands/geosearch/)
    fn geosearch_with<T: FromReply>(
        self,
        key: impl ToArg,
        from: &GeoFrom,
        shape: &GeoShape,
        options: GeosearchOptions,
    ) -> Self::MultiBulk<GeoPlace<T>> {
        self.execute_multi(cmd("GEOSEARCH").key(key).options(shape.from(from)).options(shape).options(options))
    }

    /// Like [`geosearch`](GeoCommands::geosearch), but makes the places the new value of `destination`, whatever that was.
    /// The reply is how many they are. Since 6.2.
    ///
    /// [GEOSEARCHSTORE](https://redis.io/docs/latest/commands/geosearchstore/)
    fn geosearchstore(
        self,
        destination: impl ToArg,
        source: impl ToArg,
        from: &GeoFrom,
        shape: &GeoShape,
    ) -> Self::Reply<i64> {
        self.execute(cmd("GEOSEARCHSTORE").key(destination).key(source).options(shape.from(from)).options(shape))
    }

    /// Like [`geosearchstore`](GeoCommands::geosearchstore), with options that say which, and what is stored.
    ///
    /// [GEOSEARCHSTORE](https://redis.io/docs/latest/commands/geosearchstore/)
    fn geosearchstore_with(
        self,
        destination: impl ToArg,
        source: impl ToArg,
        from: &GeoFrom,
        shape: &GeoShape,
        options: GeosearchstoreOptions,
    ) -> Self::Reply<i64> {
        let command = cmd("GEOSEARCHSTORE").key(destination).key(source);
        self.execute(command.options(shape.from(from)).options(shape).options(options))
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorder::{Recorder, sent};
    use super::*;
    use crate::args::each;

    impl GeoCommands for &Recorder {}

    const KM: GeoUnit = GeoUnit::Kilometers;

    #[test]
    fn places_are_encoded_with_their_keys() {
        assert_eq!(sent(|on| on.geoadd("k", (1.5, 2, "m"))), "GEOADD [k] 1.5 2 m");
        assert_eq!(sent(|on| on.geoadd("k", [(1, 2, "m"), (3, 4, "n")])), "GEOADD [k] 1 2 m 3 4 n");
        assert_eq!(sent(|on| on.geoadd("k", each([(1, 2, "m")]))), "GEOADD [k] 1 2 m");
        assert_eq!(sent(|on| on.geoadd("k", Vec::<(f64, f64, &str)>::new())), "refused");
        let options = GeoaddOptions::new().xx().ch();
        assert_eq!(sent(|on| on.geoadd_with("k", vec![(1, 2, "m")], options)), "GEOADD [k] XX CH 1 2 m");
        let options = GeoaddOptions::new().nx();
        assert_eq!(sent(|on| on.geoadd_with("k", (1, 2, "m"), options)), "GEOADD [k] NX 1 2 m");
        assert_eq!(sent(|on| on.geodist("k", "a", "b", GeoUnit::Meters)), "GEODIST [k] a b m");
        assert_eq!(sent(|on| on.geodist("k", "a", "b", GeoUnit::Miles)), "GEODIST [k] a b mi");
        assert_eq!(sent(|on| on.geodist("k", "a", "b", GeoUnit::Feet)), "GEODIST [k] a b ft");
        assert_eq!(sent(|on| on.geohash("k", ["a", "b"])), "GEOHASH [k] a b");
        assert_eq!(sent(|on| on.geopos("k", "a")), "GEOPOS [k] a");
        assert_eq!(sent(|on| on.geopos("k", ())), "refused");
    }

    #[test]
    fn searches_are_encoded_with_their_keys() {
        let (member, point) = (GeoFrom::member("m"), GeoFrom::LonLat(15.0, 37.5));
        let (round, square) = (GeoShape::Radius(2.5, KM), GeoShape::Box { width: 3.0, height: 4.0, unit: KM });
        let polygon = GeoShape::Polygon(vec![(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)]);
        let all = GeosearchOptions::new().withcoord().withdist().withhash().count(3).any().desc();
        assert_eq!(
            sent(|on| on.geosearch::<String>("k", &member, &round)),
            "GEOSEARCH [k] FROMMEMBER m BYRADIUS 2.5 km"
        );
        assert_eq!(sent(|on| on.geosearch::<String>("k", &member, &polygon)), "GEOSEARCH [k] BYPOLYGON 3 1 2 3 4 5 6");
        assert_eq!(
            sent(|on| on.geosearch_with::<String>("k", &point, &square, all)),
            "GEOSEARCH [k] FROMLONLAT 15 37.5 BYBOX 3 4 km DESC COUNT 3 ANY WITHCOORD WITHDIST WITHHASH"
        );
        assert_eq!(
            sent(|on| on.geosearchstore("d", "k", &member, &round)),
            "GEOSEARCHSTORE [d] [k] FROMMEMBER m BYRADIUS 2.5 km"
        );
        let options = GeosearchstoreOptions::new().asc().count(3).any().storedist();
        assert_eq!(
            sent(|on| on.geosearchstore_with("d", "k", &member, &round, options)),
            "GEOSEARCHSTORE [d] [k] FROMMEMBER m BYRADIUS 2.5 km ASC COUNT 3 ANY STOREDIST"
        );
    }

    #[test]
    fn the_old_searches_are_encoded_with_their_keys() {
        let at = (15.0, 37.5);
        let first = GeosearchOptions::new().asc().count(1);
        assert_eq!(sent(|on| on.georadius::<String>("k", at, 2.0, KM)), "GEORADIUS [k] 15 37.5 2 km");
        assert_eq!(
            sent(|on| on.georadius_with::<String>("k", at, 2.0, KM, first)),
            "GEORADIUS [k] 15 37.5 2 km ASC COUNT 1"
        );
        assert_eq!(
            sent(|on| on.georadius_store("d", "k", at, 2.0, KM, GeoradiusOptions::new().desc().count(2).any())),
            "GEORADIUS [k] 15 37.5 2 km DESC COUNT 2 ANY STORE [d]"
        );
        assert_eq!(
            sent(|on| on.georadiusbymember_store("d", "k", "m", 2.0, KM, GeoradiusOptions::new().storedist())),
            "GEORADIUSBYMEMBER [k] m 2 km STOREDIST [d]"
        );
        assert_eq!(sent(|on| on.georadiusbymember::<String>("k", "m", 2.0, KM)), "GEORADIUSBYMEMBER [k] m 2 km");
        assert_eq!(
            sent(|on| on.georadiusbymember_with::<String>("k", "m", 2.0, KM, first)),
            "GEORADIUSBYMEMBER [k] m 2 km ASC COUNT 1"
        );
        assert_eq!(sent(|on| on.georadiusbymember_ro::<String>("k", "m", 2.0, KM)), "GEORADIUSBYMEMBER_RO [k] m 2 km");
        assert_eq!(
            sent(|on| on.georadiusbymember_ro_with::<String>("k", "m", 2.0, KM, first)),
            "GEORADIUSBYMEMBER_RO [k] m 2 km ASC COUNT 1"
        );
        assert_eq!(sent(|on| on.georadius_ro::<String>("k", at, 2.0, KM)), "GEORADIUS_RO [k] 15 37.5 2 km");
        assert_eq!(
            sent(|on| on.georadius_ro_with::<String>("k", at, 2.0, KM, first)),
            "GEORADIUS_RO [k] 15 37.5 2 km ASC COUNT 1"
        );
    }
}
