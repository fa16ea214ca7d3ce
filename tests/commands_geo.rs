//! Commands on places, against a real server.
#![cfg(feature = "testing")]

mod support;

use redefer::Result;
use redefer::commands::{
    GeoFrom, GeoPlace, GeoShape, GeoUnit, GeoaddOptions, GeoradiusOptions, GeosearchOptions, GeosearchstoreOptions,
};
use redefer::prelude::*;

const KM: GeoUnit = GeoUnit::Kilometers;
const PALERMO: (f64, f64) = (13.361_389, 38.115_556);
const CATANIA: (f64, f64) = (15.087_269, 37.502_669);
const MIDDLE: (f64, f64) = (15.0, 37.0);

fn sicily(conn: &Connection) -> Result<()> {
    let places = [(PALERMO.0, PALERMO.1, "Palermo"), (CATANIA.0, CATANIA.1, "Catania")];
    assert_eq!(conn.geoadd("geo", places).wait()?, 2);
    Ok(())
}

fn close(found: f64, right: f64) -> bool {
    (found - right).abs() < 0.001
}

fn is_at(found: Option<(f64, f64)>, (longitude, latitude): (f64, f64)) -> bool {
    found.is_some_and(|found| close(found.0, longitude) && close(found.1, latitude))
}

fn names<T>(places: &[GeoPlace<T>]) -> Vec<&T> {
    places.iter().map(|place| &place.member).collect()
}

#[test]
fn places_are_added_and_moved() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    sicily(&conn)?;
    assert_eq!(conn.geoadd("geo", (PALERMO.0, PALERMO.1, "Palermo")).wait()?, 0);
    let moved = [(1.0, 1.0, "Palermo"), (2.0, 2.0, "new")];
    assert_eq!(conn.geoadd_with("geo", moved, GeoaddOptions::new().nx()).wait()?, 1);
    assert!(is_at(conn.geopos("geo", "Palermo").wait::<Vec<_>>()?[0], PALERMO));
    assert_eq!(conn.geoadd_with("geo", args::each(moved), GeoaddOptions::new().xx().ch()).wait()?, 1);
    assert!(is_at(conn.geopos("geo", "Palermo").wait::<Vec<_>>()?[0], (1.0, 1.0)));
    let none = Vec::<(f64, f64, String)>::new();
    assert!(matches!(conn.geoadd("geo", none).wait(), Err(Error::Argument(_))));
    assert_eq!(conn.geoadd("geo", (200, 0, "off")).wait().unwrap_err().code(), Some("ERR"));
    Ok(())
}

#[test]
fn places_are_measured() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    sicily(&conn)?;
    let right = [
        (GeoUnit::Meters, 166_274.151_6),
        (GeoUnit::Kilometers, 166.2742),
        (GeoUnit::Feet, 545_518.87),
        (GeoUnit::Miles, 103.3182),
    ];
    for (unit, distance) in right {
        assert!(close(conn.geodist("geo", "Palermo", "Catania", unit).wait()?.unwrap(), distance), "{unit:?}");
    }
    assert_eq!(conn.geodist("geo", "Palermo", "none", KM).wait()?, None);
    let hashes: Vec<Option<String>> = conn.geohash("geo", ["Palermo", "none", "Catania"]).wait()?;
    assert_eq!(hashes, [Some("sqc8b49rny0".into()), None, Some("sqdtr74hyu0".into())]);
    assert_eq!(conn.geohash("none", "a").wait::<Vec<_>>()?, [None]);
    // A nil in front does not make pairs of what follows.
    let places: Vec<Option<(f64, f64)>> = conn.geopos("geo", ["none", "Palermo", "Catania"]).wait()?;
    assert!(places[0].is_none() && is_at(places[1], PALERMO) && is_at(places[2], CATANIA), "{places:?}");
    let mut one_by_one = conn.geopos("geo", ["none", "Palermo"]);
    assert_eq!(one_by_one.next().unwrap()?, None);
    assert!(is_at(one_by_one.next().unwrap()?, PALERMO) && one_by_one.next().is_none());
    assert_eq!(conn.geopos("none", "m").wait::<Vec<_>>()?, [None]);
    Ok(())
}

#[test]
fn places_are_found() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    sicily(&conn)?;
    let (point, member) = (GeoFrom::LonLat(MIDDLE.0, MIDDLE.1), GeoFrom::member("Palermo"));
    let wide = GeoShape::Radius(200.0, KM);
    let found: Vec<String> = conn.geosearch("geo", &point, &GeoShape::Radius(100.0, KM)).wait()?;
    assert_eq!(found, ["Catania"]);
    let square = GeoShape::Box { width: 400.0, height: 400.0, unit: KM };
    let mut found: Vec<String> = conn.geosearch("geo", &point, &square).wait()?;
    found.sort();
    assert_eq!(found, ["Catania", "Palermo"]);
    let narrow = GeoShape::Box { width: 400_000.0, height: 100.0, unit: GeoUnit::Meters };
    assert_eq!(member, GeoFrom::Member(b"Palermo".to_vec()));
    let unsendable = GeoFrom::member(redefer::Arg::Failed(redefer::Error::custom("no bytes")));
    assert_eq!(unsendable, GeoFrom::Unsendable);
    assert_eq!(conn.geosearch::<String>("geo", &member, &narrow).wait::<Vec<_>>()?, ["Palermo"]);
    assert_eq!(conn.geosearch::<String>("none", &point, &wide).count(), 0);
    let lost = conn.geosearch::<String>("geo", &GeoFrom::member("none"), &wide).wait::<Vec<_>>();
    assert_eq!(lost.unwrap_err().code(), Some("ERR"));

    let all = GeosearchOptions::new().withcoord().withdist().withhash();
    let found: Vec<GeoPlace<String>> = conn.geosearch_with("geo", &point, &wide, all.asc()).wait()?;
    assert_eq!(names(&found), ["Catania", "Palermo"]);
    assert!(close(found[0].distance.unwrap(), 56.4413) && close(found[1].distance.unwrap(), 190.4424));
    assert_eq!((found[0].hash, found[1].hash), (Some(3_479_447_370_796_909), Some(3_479_099_956_230_698)));
    assert!(is_at(found[0].coordinates, CATANIA) && is_at(found[1].coordinates, PALERMO));

    let none = GeosearchOptions::new();
    let found: Vec<GeoPlace<String>> = conn.geosearch_with("geo", &point, &wide, none.desc()).wait()?;
    assert_eq!(names(&found), ["Palermo", "Catania"]);
    assert!(found[0].distance.is_none() && found[0].hash.is_none() && found[0].coordinates.is_none());
    let found: Vec<GeoPlace<String>> = conn.geosearch_with("geo", &point, &wide, none.count(1)).wait()?;
    assert_eq!(names(&found), ["Catania"]);
    assert_eq!(conn.geosearch_with::<String>("geo", &point, &wide, none.count(1).any()).count(), 1);
    for options in [none.withdist(), none.withhash(), none.withcoord()] {
        let found: Vec<GeoPlace<String>> = conn.geosearch_with("geo", &member, &narrow, options).wait()?;
        let place = &found[0];
        assert_eq!(place.distance, (options == none.withdist()).then_some(0.0));
        assert_eq!(place.hash.is_some(), options == none.withhash());
        assert_eq!(place.coordinates.is_some(), options == none.withcoord());
    }
    Ok(())
}

#[test]
fn places_in_a_polygon_are_found() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    sicily(&conn)?;
    let polygon = GeoShape::Polygon(vec![(12.0, 38.0), (14.0, 38.0), (14.0, 39.0), (12.0, 39.0)]);
    let options = GeosearchOptions::new().withcoord();
    let found = conn.geosearch_with::<String>("geo", &GeoFrom::LonLat(0.0, 0.0), &polygon, options).wait::<Vec<_>>();
    match found {
        Ok(found) => assert!(names(&found) == ["Palermo"] && is_at(found[0].coordinates, PALERMO)),
        // Only Valkey 9 has it.
        Err(error) => assert_eq!(error.code(), Some("ERR")),
    }
    Ok(())
}

#[test]
fn what_is_found_is_stored() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    sicily(&conn)?;
    let (point, wide) = (GeoFrom::LonLat(MIDDLE.0, MIDDLE.1), GeoShape::Radius(200.0, KM));
    assert_eq!(conn.geosearchstore("d", "geo", &point, &wide).wait()?, 2);
    assert!(is_at(conn.geopos("d", "Palermo").wait::<Vec<_>>()?[0], PALERMO));
    let options = GeosearchstoreOptions::new();
    let nearest = options.asc().count(1).storedist();
    assert_eq!(conn.geosearchstore_with("d", "geo", &point, &wide, nearest).wait()?, 1);
    assert!(close(conn.zscore("d", "Catania").wait()?.unwrap(), 56.4413));
    assert_eq!(conn.geosearchstore_with("d", "geo", &point, &wide, options.desc().count(1)).wait()?, 1);
    assert_eq!(conn.zrange::<String>("d", 0, -1).wait::<Vec<_>>()?, ["Palermo"]);
    assert_eq!(conn.geosearchstore_with("d", "geo", &point, &wide, options.count(1).any()).wait()?, 1);
    assert_eq!(conn.geosearchstore("d", "none", &point, &wide).wait()?, 0);
    assert_eq!(conn.exists("d").wait()?, 0);

    let options = GeoradiusOptions::new();
    assert_eq!(conn.georadius_store("d", "geo", MIDDLE, 200.0, KM, options).wait()?, 2);
    assert!(is_at(conn.geopos("d", "Palermo").wait::<Vec<_>>()?[0], PALERMO));
    assert_eq!(conn.georadius_store("d", "geo", MIDDLE, 200.0, KM, options.desc().count(1)).wait()?, 1);
    let nearest = options.asc().count(1).storedist();
    assert_eq!(conn.georadiusbymember_store("d", "geo", "Palermo", 200.0, KM, nearest).wait()?, 1);
    assert_eq!(conn.zscore("d", "Palermo").wait()?, Some(0.0));
    assert_eq!(conn.georadiusbymember_store("d", "geo", "Palermo", 200.0, KM, options.count(1).any()).wait()?, 1);
    Ok(())
}

#[test]
fn the_old_searches_find_the_same() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    sicily(&conn)?;
    let first = GeosearchOptions::new().asc().count(1).withdist();
    assert_eq!(conn.georadius::<String>("geo", MIDDLE, 100.0, KM).wait::<Vec<_>>()?, ["Catania"]);
    assert_eq!(conn.georadius_ro::<String>("geo", MIDDLE, 100.0, KM).wait::<Vec<_>>()?, ["Catania"]);
    assert_eq!(conn.georadiusbymember::<String>("geo", "Palermo", 100.0, KM).wait::<Vec<_>>()?, ["Palermo"]);
    assert_eq!(conn.georadiusbymember_ro::<String>("geo", "Palermo", 200.0, KM).count(), 2);
    for found in [
        conn.georadius_with::<String>("geo", MIDDLE, 200.0, KM, first),
        conn.georadius_ro_with::<String>("geo", MIDDLE, 200.0, KM, first),
    ] {
        let found: Vec<_> = found.wait()?;
        assert_eq!(names(&found), ["Catania"]);
        assert!(close(found[0].distance.unwrap(), 56.4413) && found[0].coordinates.is_none());
    }
    let all = first.withcoord().withhash();
    for found in [
        conn.georadiusbymember_with::<String>("geo", "Palermo", 200.0, KM, all),
        conn.georadiusbymember_ro_with::<String>("geo", "Palermo", 200.0, KM, all),
    ] {
        let found: Vec<_> = found.wait()?;
        assert_eq!(names(&found), ["Palermo"]);
        assert_eq!(found[0].distance, Some(0.0));
        assert!(is_at(found[0].coordinates, PALERMO) && found[0].hash == Some(3_479_099_956_230_698));
    }
    Ok(())
}

#[test]
fn places_work_in_batches_and_transactions() -> Result<()> {
    fn add<C: GeoCommands>(on: C) -> C::Reply<i64> {
        on.geoadd("geo", (1.0, 2.0, "a"))
    }
    fn look<C: GeoCommands>(on: C) -> C::MultiBulk<Option<(f64, f64)>> {
        on.geopos("geo", ["none", "a"])
    }
    let server = support::server();
    let conn = support::open(&server);
    let batch = conn.batch();
    let (added, places) = (add(&batch), look(&batch));
    batch.finish()?;
    assert_eq!(added.wait()?, 1);
    assert!(is_at(places.wait::<Vec<_>>()?[1], (1.0, 2.0)));
    let tx = conn.transaction();
    let (added, places) = (add(&tx), look(&tx));
    tx.commit().wait()?;
    assert_eq!(added.wait()?, 0);
    assert!(is_at(places.wait::<Vec<_>>()?[1], (1.0, 2.0)));
    Ok(())
}
