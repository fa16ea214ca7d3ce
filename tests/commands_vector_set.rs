//! Commands on vector sets, against a real server that has them.
#![cfg(feature = "testing")]

mod support;

use redefer::Result;
use redefer::commands::{SimilarTo, VaddOptions, Vector, VectorMatch, VectorQuantization, VsimOptions};
use redefer::prelude::*;

/// A server, if it has vector sets.
fn server() -> Option<support::Private> {
    let server = support::server();
    let info: Vec<Value> = support::open(&server).command("COMMAND", ("INFO", "VADD")).wait().unwrap();
    info.first().is_some_and(|entry| !entry.is_nil()).then_some(server)
}

fn close(found: f64, right: f64) -> bool {
    (found - right).abs() < 0.01
}

fn is(found: &[f32], right: &[f32]) -> bool {
    found.len() == right.len() && found.iter().zip(right).all(|(a, b)| close((*a).into(), (*b).into()))
}

/// Three vectors: the axis x, the axis y, and what is between, with attributes.
fn axes(conn: &Connection) -> Result<()> {
    assert!(conn.vadd("v", &[1.0, 0.0], "x").wait()?);
    assert!(conn.vadd("v", Vector::Values(&[0.0, 1.0]), "y").wait()?);
    let attributes = VaddOptions::new().setattr(r#"{"n":1}"#);
    assert!(conn.vadd_with("v", &vec![2.0, 2.0], "xy", &attributes).wait()?);
    Ok(())
}

#[test]
fn elements_are_added_looked_at_and_removed() -> Result<()> {
    let Some(server) = server() else { return Ok(()) };
    let conn = support::open(&server);
    axes(&conn)?;
    assert!(!conn.vadd("v", &[1.0, 0.0][..], "x").wait()?);
    assert_eq!((conn.vcard("v").wait()?, conn.vcard("none").wait()?), (3, 0));
    assert_eq!(conn.vdim("v").wait()?, 2);
    assert_eq!(conn.vdim("none").wait().unwrap_err().code(), Some("ERR"));
    assert!(conn.vismember("v", "x").wait()? && !conn.vismember("v", "z").wait()?);
    assert!(!conn.vismember("none", "x").wait()?);

    assert!(is(&conn.vemb("v", "xy").wait()?.unwrap(), &[2.0, 2.0]));
    assert_eq!(conn.vemb("v", "z").wait()?, None);
    let raw = conn.vemb_raw("v", "xy").wait()?.unwrap();
    assert_eq!((raw.quantization.as_str(), raw.data), ("int8", vec![127, 127]));
    assert!(close(raw.norm, 8f64.sqrt()) && close(raw.range.unwrap(), 0.5f64.sqrt()));
    assert_eq!(conn.vemb_raw("v", "z").wait()?, None);

    assert_eq!(conn.vgetattr::<String>("v", "xy").wait()?, r#"{"n":1}"#);
    assert_eq!(conn.vgetattr::<Option<String>>("v", "x").wait()?, None);
    assert!(conn.vsetattr("v", "x", "{}").wait()? && !conn.vsetattr("v", "z", "{}").wait()?);
    assert_eq!(conn.vgetattr::<Option<String>>("v", "x").wait()?.as_deref(), Some("{}"));
    assert!(conn.vsetattr("v", "x", "").wait()?);
    assert_eq!(conn.vgetattr::<Option<String>>("v", "x").wait()?, None);

    assert_eq!(conn.vrandmember::<Option<String>>("none").wait()?, None);
    assert!(["x", "y", "xy"].contains(&&*conn.vrandmember::<String>("v").wait()?));
    let mut all: Vec<String> = conn.vrandmember_count("v", 9).wait()?;
    all.sort();
    assert_eq!(all, ["x", "xy", "y"]);
    assert_eq!(conn.vrandmember_count::<String>("v", -7).count(), 7);
    assert_eq!(conn.vrandmember_count::<String>("none", 2).count(), 0);

    assert!(conn.vrem("v", "x").wait()? && !conn.vrem("v", "x").wait()?);
    assert_eq!(conn.vcard("v").wait()?, 2);
    Ok(())
}

#[test]
fn vectors_are_kept_as_asked() -> Result<()> {
    let Some(server) = server() else { return Ok(()) };
    let conn = support::open(&server);
    let options = VaddOptions::new().reduce(2).cas().quantization(VectorQuantization::Binary).ef(100).m(8);
    assert!(conn.vadd_with("b", &[1.0, 2.0, 3.0], "e", &options.setattr("{}")).wait()?);
    assert_eq!(conn.vdim("b").wait()?, 2);
    let raw = conn.vemb_raw("b", "e").wait()?.unwrap();
    assert_eq!((raw.quantization.as_str(), raw.data.len(), raw.range), ("bin", 8, None));
    let info = conn.vinfo("b").wait()?.unwrap();
    assert_eq!((info.quantization.as_str(), info.dimensions, info.size, info.m), ("bin", 2, 1, 8));
    assert_eq!((info.projection_input_dimensions, info.attributes_count), (3, 1));
    assert!(info.max_node_uid > 0 && info.max_level < 20, "{info:?}");
    assert!(info.other.is_empty(), "{:?}", info.other);
    assert_eq!(conn.vinfo("none").wait()?, None);

    let options = VaddOptions::new().quantization(VectorQuantization::None);
    conn.vadd_with("f", &[3.0, 4.0], "e", &options).wait()?;
    let raw = conn.vemb_raw("f", "e").wait()?.unwrap();
    let bytes = [0.6f32.to_le_bytes(), 0.8f32.to_le_bytes()].concat();
    assert_eq!((raw.quantization.as_str(), raw.data, raw.norm, raw.range), ("f32", bytes, 5.0, None));
    assert_eq!(conn.vemb("f", "e").wait()?, Some(vec![3.0, 4.0]));
    conn.vadd_with("q", &[3.0, 4.0], "e", &options.quantization(VectorQuantization::Q8)).wait()?;
    assert_eq!(conn.vinfo("q").wait()?.unwrap().quantization, "int8");
    Ok(())
}

#[test]
fn neighbours_are_listed() -> Result<()> {
    let Some(server) = server() else { return Ok(()) };
    let conn = support::open(&server);
    conn.vadd("v", &[1.0, 0.0], "x").wait()?;
    conn.vadd("v", &[1.0, 1.0], "xy").wait()?;
    // On how many levels an element is, is left to chance; the lowest is the last, and has all of them.
    let links = conn.vlinks::<String>("v", "x").wait()?.unwrap();
    assert_eq!(*links.last().unwrap(), ["xy"]);
    assert!(links.concat().iter().all(|name| name == "xy"));
    let links = conn.vlinks_withscores::<String>("v", "x").wait()?.unwrap();
    let lowest = links.last().unwrap();
    assert!(lowest.len() == 1 && lowest[0].0 == "xy" && close(lowest[0].1, 0.853), "{links:?}");
    assert_eq!(conn.vlinks::<String>("v", "z").wait()?, None);
    assert_eq!(conn.vlinks_withscores::<String>("none", "x").wait()?, None);
    Ok(())
}

#[test]
fn similar_elements_are_found() -> Result<()> {
    let Some(server) = server() else { return Ok(()) };
    let conn = support::open(&server);
    axes(&conn)?;
    let to_x = || SimilarTo::element("x");
    assert_eq!(conn.vsim::<String>("v", to_x()).wait::<Vec<_>>()?, ["x", "xy", "y"]);
    assert_eq!(conn.vsim::<String>("v", &[0.1, 1.0]).wait::<Vec<_>>()?, ["y", "xy", "x"]);
    assert_eq!(conn.vsim::<String>("v", Vector::Values(&[0.1, 1.0])).wait::<Vec<_>>()?, ["y", "xy", "x"]);
    let to_this = SimilarTo::Vector(Vector::Fp32(&[0.1, 1.0]));
    assert_eq!(conn.vsim::<String>("v", to_this).wait::<Vec<_>>()?, ["y", "xy", "x"]);
    let to_y = SimilarTo::Element(b"y".to_vec());
    let unsendable = SimilarTo::element(redefer::Arg::Failed(redefer::Error::custom("no bytes")));
    assert_eq!(unsendable, SimilarTo::Unsendable);
    assert_eq!(conn.vsim::<String>("v", to_y).wait::<Vec<_>>()?, ["y", "xy", "x"]);
    assert_eq!(conn.vsim::<String>("none", to_x()).count(), 0);
    let lost = conn.vsim::<String>("v", SimilarTo::element("z")).wait::<Vec<_>>();
    assert_eq!(lost.unwrap_err().code(), Some("ERR"));

    let none = VsimOptions::new();
    let found = |options: &VsimOptions| conn.vsim_with::<String>("v", to_x(), options).wait::<Vec<_>>();
    assert_eq!(found(&none.clone().count(2))?, ["x", "xy"]);
    assert_eq!(found(&none.clone().ef(50).truth().nothread())?, ["x", "xy", "y"]);
    assert_eq!(found(&none.clone().filter(".n == 1").filter_ef(100))?, ["xy"]);
    assert_eq!(found(&none.clone().epsilon(0.2))?, ["x", "xy"]);

    let pairs: Vec<(String, f64)> = conn.vsim_withscores("v", to_x(), &none).wait()?;
    let right = [("x", 1.0), ("xy", 0.853), ("y", 0.5)];
    for ((name, similarity), right) in pairs.iter().zip(right) {
        assert!(name == right.0 && close(*similarity, right.1), "{pairs:?}");
    }
    assert_eq!(conn.vsim_withscores::<String>("none", to_x(), &none).count(), 0);

    let pairs = conn.vsim_withattribs::<String, String>("v", to_x(), &none).wait::<Vec<_>>()?;
    assert_eq!(pairs, [("x".into(), None), ("xy".into(), Some(r#"{"n":1}"#.into())), ("y".into(), None)]);
    let matches = conn.vsim_withscores_withattribs::<String, String>("v", to_x(), &none).wait()?;
    assert_eq!(matches.iter().map(|found| &*found.element).collect::<Vec<_>>(), ["x", "xy", "y"]);
    let VectorMatch { similarity, attributes, .. } = matches.into_iter().nth(1).unwrap();
    assert!(close(similarity, 0.853) && attributes.as_deref() == Some(r#"{"n":1}"#));
    assert!(conn.vsim_withscores_withattribs::<String, String>("none", to_x(), &none).wait()?.is_empty());
    Ok(())
}

#[test]
fn vectors_work_in_batches_and_transactions() -> Result<()> {
    fn add<C: VectorSetCommands + Copy>(on: C, element: &str) -> C::MultiBulk<(String, f64)> {
        on.vadd("v", &[1.0, 0.0], element).detach();
        on.vsim_withscores("v", &[1.0, 0.0], &VsimOptions::new())
    }
    let Some(server) = server() else { return Ok(()) };
    let conn = support::open(&server);
    let batch = conn.batch();
    let found = add(&batch, "a");
    batch.finish()?;
    assert_eq!(found.wait::<Vec<_>>()?.len(), 1);
    let tx = conn.transaction();
    let found = add(&tx, "b");
    tx.commit().wait()?;
    assert_eq!(found.wait::<Vec<_>>()?.len(), 2);
    Ok(())
}
