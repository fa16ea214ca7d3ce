//! Commands on the bits of strings, against a real server.
#![cfg(feature = "testing")]

mod support;

use redefer::Result;
use redefer::commands::{BitOp, BitType, BitUnit, Bitfield, BitfieldRo, Overflow};
use redefer::prelude::*;

#[test]
fn bits_are_read_written_and_counted() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    assert!(!conn.setbit("k", 7, true).wait()?);
    assert!(conn.setbit("k", 7, true).wait()?);
    assert!(conn.getbit("k", 7).wait()? && !conn.getbit("k", 6).wait()? && !conn.getbit("none", 0).wait()?);
    assert_eq!(conn.get::<Vec<u8>>("k").wait()?, [1]);

    conn.set("k", "foobar").wait()?;
    assert_eq!(conn.bitcount("k").wait()?, 26);
    assert_eq!(conn.bitcount("none").wait()?, 0);
    assert_eq!(conn.bitcount_range("k", 0, 0, BitUnit::Byte).wait()?, 4);
    assert_eq!(conn.bitcount_range("k", -1, -1, BitUnit::Byte).wait()?, 4);
    conn.set("k", [0x00, 0xff, 0xf0]).wait()?;
    assert_eq!((conn.bitpos("k", true).wait()?, conn.bitpos("k", false).wait()?), (8, 0));
    assert_eq!(conn.bitpos_from("k", false, 1).wait()?, 20);
    assert_eq!(conn.bitpos_from("k", true, -1).wait()?, 16);
    assert_eq!(conn.bitpos_range("k", false, 1, 1, BitUnit::Byte).wait()?, -1);
    assert_eq!((conn.bitpos("none", true).wait()?, conn.bitpos("none", false).wait()?), (-1, 0));
    if server.version() >= (7, 0, 0) {
        assert_eq!(conn.bitcount_range("k", 5, 17, BitUnit::Bit).wait()?, 10);
        assert_eq!(conn.bitpos_range("k", true, 9, 15, BitUnit::Bit).wait()?, 9);
    }
    Ok(())
}

#[test]
fn strings_are_combined() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    conn.mset([("a", &[0b1100_u8][..]), ("b", &[0b1010]), ("c", &[0b0110])]).wait()?;
    let result = |op, keys: &[&str]| -> Result<u8> {
        assert_eq!(conn.bitop(op, "d", keys).wait()?, 1);
        Ok(conn.get::<[u8; 1]>("d").wait()?[0])
    };
    assert_eq!(result(BitOp::And, &["a", "b"])?, 0b1000);
    assert_eq!(result(BitOp::Or, &["a", "b"])?, 0b1110);
    assert_eq!(result(BitOp::Xor, &["a", "b"])?, 0b0110);
    assert_eq!(result(BitOp::Not, &["a"])?, 0b1111_0011);
    assert_eq!(conn.bitop(BitOp::And, "d", "none").wait()?, 0);
    assert_eq!(conn.exists("d").wait()?, 0);
    assert!(matches!(conn.bitop(BitOp::And, "d", ()).wait(), Err(Error::Argument(_))));
    // Only Redis 8.2 has these.
    if conn.bitop(BitOp::Diff, "d", ["a", "b"]).wait().is_ok() {
        assert_eq!(result(BitOp::Diff, &["a", "b", "c"])?, 0b0000);
        assert_eq!(result(BitOp::Diff, &["a", "b"])?, 0b0100);
        assert_eq!(result(BitOp::Diff1, &["a", "b"])?, 0b0010);
        assert_eq!(result(BitOp::AndOr, &["a", "b", "c"])?, 0b1100);
        assert_eq!(result(BitOp::One, &["a", "b", "c"])?, 0);
        assert_eq!(result(BitOp::One, &["a", "b"])?, 0b0110);
    } else {
        assert!(conn.bitop(BitOp::One, "d", ["a", "b"]).wait().unwrap_err().as_server_error().is_some());
    }
    Ok(())
}

#[test]
fn integers_of_a_few_bits_are_read_and_changed() -> Result<()> {
    let server = support::server();
    let conn = support::open(&server);
    let run = |key: &str, operations: &Bitfield| conn.bitfield(key, operations).wait::<Vec<_>>();
    let operations = Bitfield::new()
        .set(BitType::U8, 0, 200)
        .get(BitType::U8, 0)
        .get(BitType::I8, 0)
        .set_nth(BitType::I16, 1, -2)
        .get_nth(BitType::I16, 1)
        .get_nth(BitType::U16, 1)
        .incrby_nth(BitType::U8, 0, 5)
        .incrby(BitType::i::<5>(), 100, 1);
    let right = [0, 200, -56, 0, -2, 65534, 205, 1].map(Some);
    assert_eq!(run("k", &operations)?, right);

    let u2 = BitType::u::<2>();
    let both = |overflow| Bitfield::new().overflow(overflow).incrby(u2, 0, 3).incrby(u2, 0, 2);
    assert_eq!(run("w", &both(Overflow::Wrap))?, [Some(3), Some(1)]);
    assert_eq!(run("s", &both(Overflow::Sat))?, [Some(3), Some(3)]);
    assert_eq!(run("f", &both(Overflow::Fail))?, [Some(3), None]);
    assert_eq!(run("e", &Bitfield::new())?, []);
    let widest = Bitfield::new().set(BitType::I64, 0, i64::MIN).get(BitType::I64, 0).set(BitType::U63, 64, i64::MAX);
    assert_eq!(run("l", &widest)?, [Some(0), Some(i64::MIN), Some(0)]);
    for (bits, kind) in (1..=64).map(|bits| (bits, BitType::signed(bits).unwrap())) {
        let operations = Bitfield::new().set(kind, 0, -1).get(kind, 0);
        assert_eq!(run(&format!("i{bits}"), &operations)?, [Some(0), Some(-1)]);
    }
    for (bits, kind) in (1..=63).map(|bits| (bits, BitType::unsigned(bits).unwrap())) {
        let most = i64::MAX >> (63 - bits);
        let operations = Bitfield::new().set(kind, 0, most).get(kind, 0);
        assert_eq!(run(&format!("u{bits}"), &operations)?, [Some(0), Some(most)]);
    }
    assert!(
        [BitType::signed(0), BitType::signed(65), BitType::unsigned(0), BitType::unsigned(64)]
            .iter()
            .all(Option::is_none)
    );

    let gets = BitfieldRo::new().get(BitType::U8, 0).get_nth(BitType::I16, 1);
    assert_eq!(conn.bitfield_ro("k", &gets).wait::<Vec<_>>()?, [205, -2]);
    assert_eq!(conn.bitfield_ro("none", &gets).wait::<Vec<_>>()?, [0, 0]);
    Ok(())
}

#[test]
fn bits_work_in_batches_and_transactions() -> Result<()> {
    fn set<C: BitmapCommands>(on: C) -> C::Reply<bool> {
        on.setbit("k", 3, true)
    }
    let server = support::server();
    let conn = support::open(&server);
    let batch = conn.batch();
    let was = set(&batch);
    batch.finish()?;
    assert!(!was.wait()?);
    let tx = conn.transaction();
    let was = set(&tx);
    tx.commit().wait()?;
    assert!(was.wait()?);
    Ok(())
}
