//! Structs as JSON and as the fields of a hash, against a real server.
#![cfg(all(feature = "testing", feature = "serde"))]

mod support;

use std::collections::{BTreeMap, HashMap};

use redefer::prelude::*;
use redefer::serde::{Fields, Json, to_fields, to_json};
use redefer::{Result, args};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Address {
    street: String,
    number: u16,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
enum Role {
    #[default]
    Guest,
    #[serde(rename = "the admin")]
    Admin,
    Until(u64),
    Of {
        team: String,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Meters(f64);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Everything {
    text: String,
    letter: char,
    yes: bool,
    small: i8,
    big: i64,
    unsigned: u64,
    huge: u128,
    byte: u8,
    float: f64,
    single: f32,
    length: Meters,
    some: Option<i32>,
    none: Option<i32>,
    role: Role,
    admin: Role,
    until: Role,
    of: Role,
    tags: Vec<String>,
    pair: (i32, String),
    map: BTreeMap<String, i32>,
    address: Address,
    maybe: Option<Address>,
    deep: Option<Vec<Option<u8>>>,
    unit: (),
}

fn everything() -> Everything {
    Everything {
        text: "π \r\n\"{".into(),
        letter: 'é',
        yes: true,
        small: -7,
        big: i64::MIN,
        unsigned: u64::MAX,
        huge: u128::MAX,
        byte: 255,
        float: 0.1,
        single: 0.1,
        length: Meters(2.5),
        some: Some(3),
        none: None,
        role: Role::Guest,
        admin: Role::Admin,
        until: Role::Until(9),
        of: Role::Of { team: "a".into() },
        tags: vec!["x".into(), "y".into()],
        pair: (1, "z".into()),
        map: BTreeMap::from([("a".into(), 1)]),
        address: Address { street: "Main".into(), number: 5 },
        maybe: Some(Address::default()),
        deep: Some(vec![Some(1), None]),
        unit: (),
    }
}

#[test]
fn a_struct_is_json_in_a_string() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let all = everything();
    conn.set("k", Json(&all)).wait()?;
    assert_eq!(conn.get::<Json<Everything>>("k").wait()?.0, all);
    assert_eq!(conn.get::<String>("k").wait()?, to_json(&all)?);
    assert!(conn.get::<Option<Json<Everything>>>("none").wait()?.is_none());
    assert!(matches!(conn.get::<Json<Everything>>("none").wait(), Err(Error::Nil)));

    // As elements, and where the reply is a number.
    conn.rpush("l", [Json(Some(1)), Json(None)]).wait()?;
    conn.rpush("l", args::each((2..4).map(|n| Json(Some(n))))).wait()?;
    let list: Vec<Json<Option<i32>>> = conn.lrange("l", 0, -1).wait()?;
    assert_eq!(list.into_iter().map(|Json(n)| n).collect::<Vec<_>>(), [Some(1), None, Some(2), Some(3)]);
    assert_eq!(conn.eval::<Json<u8>>("return 7", (), ()).wait()?, Json(7));

    conn.set("k", "{\"text\": 1}").wait()?;
    let error = conn.get::<Json<Everything>>("k").wait().unwrap_err();
    assert!(error.to_string().starts_with("JSON of another form: invalid type: integer `1`"), "{error}");
    assert_eq!(conn.lpush("k", "x").wait().unwrap_err().code(), Some("WRONGTYPE"));
    assert_eq!(conn.hget::<Json<i32>>("k", "f").wait().unwrap_err().code(), Some("WRONGTYPE"));
    let odd = BTreeMap::from([((1, 2), 3)]);
    assert!(to_json(&odd).is_err());
    conn.sync()
}

#[test]
fn a_struct_is_the_fields_of_a_hash() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let all = everything();
    assert_eq!(conn.hset("h", Fields(&all)).wait()?, 22);
    let fields: HashMap<String, String> = conn.hgetall("h").wait()?;
    let right = [
        ("text", "π \r\n\"{"),
        ("letter", "é"),
        ("yes", "1"),
        ("small", "-7"),
        ("big", "-9223372036854775808"),
        ("unsigned", "18446744073709551615"),
        ("huge", "340282366920938463463374607431768211455"),
        ("byte", "255"),
        ("float", "0.1"),
        ("single", "0.1"),
        ("length", "2.5"),
        ("some", "3"),
        ("role", "Guest"),
        ("admin", "the admin"),
        ("until", r#"{"Until":9}"#),
        ("of", r#"{"Of":{"team":"a"}}"#),
        ("tags", r#"["x","y"]"#),
        ("pair", r#"[1,"z"]"#),
        ("map", r#"{"a":1}"#),
        ("address", r#"{"street":"Main","number":5}"#),
        ("maybe", r#"{"street":"","number":0}"#),
        ("deep", "[1,null]"),
    ];
    assert_eq!(fields.len(), right.len());
    for (name, text) in right {
        assert_eq!(fields[name], text, "{name}");
    }

    // The unit is left out, and has no way back but a default.
    #[derive(Debug, PartialEq, Deserialize)]
    struct Part {
        text: String,
        byte: u8,
        none: Option<i32>,
        #[serde(default)]
        unit: (),
    }
    let part = Part { text: all.text.clone(), byte: 255, none: None, unit: () };
    assert_eq!(conn.hgetall::<(), ()>("h").wait_as::<Fields<Part>>()?.0, part);
    conn.hset("h", ("unit", "")).wait()?;
    assert_eq!(conn.hgetall::<(), ()>("h").wait_as::<Fields<Everything>>()?.0, all);
    let queued = conn.batch().hgetall::<String, String>("h").wait_as::<Fields<Everything>>();
    assert_eq!(queued?.0, all);
    let by_script: Fields<Everything> = conn.eval("return redis.call('HGETALL', KEYS[1])", "h", ()).wait()?;
    assert_eq!(by_script.0, all);

    assert!(conn.hgetall::<(), ()>("none").wait_as::<Option<Fields<Part>>>()?.is_none());
    let error = conn.hgetall::<(), ()>("none").wait_as::<Fields<Part>>().unwrap_err();
    assert_eq!(error.to_string(), "a hash of another form: missing field `text`");
    conn.sync()
}

#[test]
fn numbers_that_are_none_and_words_for_yes_and_no() -> Result<()> {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Odd {
        high: f64,
        low: f32,
        a: bool,
        b: bool,
    }
    let server = support::server();
    let conn = support::open(&server);
    let odd = Odd { high: f64::INFINITY, low: f32::NEG_INFINITY, a: true, b: false };
    conn.hset("h", Fields(&odd)).wait()?;
    assert_eq!(conn.hgetall::<(), ()>("h").wait_as::<Fields<Odd>>()?.0, odd);
    conn.hset("h", [("a", "true"), ("b", "false")]).wait()?;
    assert_eq!(conn.hgetall::<(), ()>("h").wait_as::<Fields<Odd>>()?.0, odd);
    for (name, text, says) in [
        ("a", "yes", "field a: text that is none of 0, 1, true and false"),
        ("high", "tall", "field high: text that is no number"),
    ] {
        conn.hset("h", Fields(&odd)).wait()?;
        conn.hset("h", (name, text)).wait()?;
        let error = conn.hgetall::<(), ()>("h").wait_as::<Fields<Odd>>().unwrap_err();
        assert_eq!(error.to_string(), format!("a hash of another form: {says}"));
    }
    Ok(())
}

#[test]
fn maps_are_fields_and_other_values_are_not() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let map = BTreeMap::from([(7, Some(1.5)), (8, None)]);
    assert_eq!(conn.hset("h", Fields(&map)).wait()?, 1);
    let back: BTreeMap<i32, f64> = conn.hgetall::<(), ()>("h").wait_as::<Fields<_>>()?.0;
    assert_eq!(back, BTreeMap::from([(7, 1.5)]));

    let nothing = BTreeMap::from([("a", None::<i32>)]);
    assert!(matches!(conn.hset("h", Fields(&nothing)).wait(), Err(Error::Argument(_))));
    for error in [
        to_fields(&5).unwrap_err(),
        to_fields("text").unwrap_err(),
        to_fields(&[1, 2]).unwrap_err(),
        to_fields(&Role::Until(1)).unwrap_err(),
    ] {
        assert_eq!(error.to_string(), "only structs and maps have fields");
    }
    let odd = BTreeMap::from([("a", BTreeMap::from([((1, 2), 3)]))]);
    assert_eq!(to_fields(&odd).unwrap_err().to_string(), "field a: key must be a string");
    let error = to_fields(&BTreeMap::from([((1, 2), 3)])).unwrap_err();
    assert_eq!(error.to_string(), "a key that is no text");

    // Such an argument fails its command, and leaves nothing behind.
    assert!(matches!(conn.hset("h", Fields(5)).wait(), Err(Error::Custom(_))));
    assert!(matches!(conn.set("h", Json(&odd)).wait(), Err(Error::Custom(_))));
    conn.ping().wait()?;
    assert_eq!(conn.hlen("h").wait()?, 1);
    conn.sync()
}

#[test]
fn what_has_to_be_told_from_itself_is_text() -> Result<()> {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Outer {
        n: i32,
        #[serde(flatten)]
        rest: BTreeMap<String, String>,
    }
    let server = support::server();
    let conn = support::open(&server);
    let outer = Outer { n: 1, rest: BTreeMap::from([("a".into(), "5".into())]) };
    conn.hset("h", Fields(&outer)).wait()?;
    assert_eq!(conn.hgetall::<(), ()>("h").wait_as::<Fields<Outer>>()?.0, outer);
    Ok(())
}
