//! Strings as sequences of bits, and of integers of a few bits.

mod options;

use crate::args::{ToArg, ToArgs, cmd};
use crate::execute::Execute;

pub use options::{BitOp, BitType, BitUnit, Bitfield, BitfieldRo, Overflow};

/// Commands on the bits of strings.
///
/// Bits are counted from zero, the highest of each byte first. A string grows with zeros as far as it is written to, and
/// what is behind its end reads as zeros; a key that does not exist is an empty string. On a key of another type each
/// command fails with `WRONGTYPE`.
///
/// ```
/// # fn main() -> redefer::Result<()> {
/// # #[cfg(feature = "testing")] {
/// # let server = redefer::testing::Server::start()?;
/// # let conn = redefer::Connection::open(server.url())?;
/// use redefer::commands::{BitType, Bitfield, Overflow};
/// use redefer::prelude::*;
///
/// conn.setbit("visited:2024-02-29", 1037, true).wait()?;
/// assert_eq!(conn.bitcount("visited:2024-02-29").wait()?, 1);
///
/// // Counters of four bits that stop at 15.
/// let nibble = BitType::u::<4>();
/// let change = Bitfield::new().overflow(Overflow::Sat).incrby_nth(nibble, 0, 9).incrby_nth(nibble, 0, 9);
/// let values: Vec<Option<i64>> = conn.bitfield("counters", &change).wait()?;
/// assert_eq!(values, [Some(9), Some(15)]);
/// # }
/// # Ok(())
/// # }
/// ```
pub trait BitmapCommands: Execute {
    /// How many bits are one.
    ///
    /// [BITCOUNT](https://redis.io/docs/latest/commands/bitcount/)
    fn bitcount(self, key: impl ToArg) -> Self::Reply<i64> {
        self.execute(cmd("BITCOUNT").key(key))
    }

    /// How many bits are one between two positions, both included; negative ones are counted from the end.
    ///
    /// [BITCOUNT](https://redis.io/docs/latest/commands/bitcount/)
    fn bitcount_range(self, key: impl ToArg, start: i64, end: i64, unit: BitUnit) -> Self::Reply<i64> {
        self.execute(cmd("BITCOUNT").key(key).arg(start).arg(end).options(unit.option()))
    }

    /// Reads, writes and increments integers of a few bits. The reply has a value for each, in order: the one that is
    /// there, the former one, the new one; `None` where nothing was done because of [`Overflow::Fail`].
    ///
    /// [BITFIELD](https://redis.io/docs/latest/commands/bitfield/)
    fn bitfield(self, key: impl ToArg, operations: &Bitfield) -> Self::MultiBulk<Option<i64>> {
        self.execute_multi(cmd("BITFIELD").key(key).options(operations))
    }

    /// Reads integers of a few bits, also on replicas. The reply has a value for each, in order. Since 6.0.
    ///
    /// [BITFIELD_RO](https://redis.io/docs/latest/commands/bitfield_ro/)
    fn bitfield_ro(self, key: impl ToArg, operations: &BitfieldRo) -> Self::MultiBulk<i64> {
        self.execute_multi(cmd("BITFIELD_RO").key(key).options(operations))
    }

    /// Combines strings bit by bit, and makes the result the new value of `destination`. The reply is its length in
    /// bytes, which is that of the longest; it is removed if that is 0.
    ///
    /// [BITOP](https://redis.io/docs/latest/commands/bitop/)
    fn bitop(self, operation: BitOp, destination: impl ToArg, keys: impl ToArgs) -> Self::Reply<i64> {
        self.execute(cmd("BITOP").arg(operation).key(destination).keys(keys))
    }

    /// The position of the first bit that is one, or zero. -1 if there is none; but behind a string of ones the first zero
    /// is at its end.
    ///
    /// [BITPOS](https://redis.io/docs/latest/commands/bitpos/)
    fn bitpos(self, key: impl ToArg, bit: bool) -> Self::Reply<i64> {
        self.execute(cmd("BITPOS").key(key).arg(bit))
    }

    /// Like [`bitpos`](BitmapCommands::bitpos), from this byte on; a negative one is counted from the end. The position is
    /// still counted from the beginning.
    ///
    /// [BITPOS](https://redis.io/docs/latest/commands/bitpos/)
    fn bitpos_from(self, key: impl ToArg, bit: bool, start: i64) -> Self::Reply<i64> {
        self.execute(cmd("BITPOS").key(key).arg(bit).arg(start))
    }

    /// Like [`bitpos`](BitmapCommands::bitpos), between two positions, both included; negative ones are counted from the
    /// end. -1 if there is none between them, also of zeros.
    ///
    /// [BITPOS](https://redis.io/docs/latest/commands/bitpos/)
    fn bitpos_range(self, key: impl ToArg, bit: bool, start: i64, end: i64, unit: BitUnit) -> Self::Reply<i64> {
        self.execute(cmd("BITPOS").key(key).arg(bit).arg(start).arg(end).options(unit.option()))
    }

    /// One bit.
    ///
    /// [GETBIT](https://redis.io/docs/latest/commands/getbit/)
    #[inline]
    fn getbit(self, key: impl ToArg, offset: u64) -> Self::Reply<bool> {
        self.execute(cmd("GETBIT").key(key).arg(offset))
    }

    /// Changes one bit. The reply is what it was.
    ///
    /// [SETBIT](https://redis.io/docs/latest/commands/setbit/)
    #[inline]
    fn setbit(self, key: impl ToArg, offset: u64, bit: bool) -> Self::Reply<bool> {
        self.execute(cmd("SETBIT").key(key).arg(offset).arg(bit))
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorder::{Recorder, sent};
    use super::*;

    impl BitmapCommands for &Recorder {}

    #[test]
    fn bitmap_commands_are_encoded_with_their_keys() {
        assert_eq!(sent(|on| on.bitcount("k")), "BITCOUNT [k]");
        assert_eq!(sent(|on| on.bitcount_range("k", 0, -1, BitUnit::Byte)), "BITCOUNT [k] 0 -1");
        assert_eq!(sent(|on| on.bitcount_range("k", 0, -1, BitUnit::Bit)), "BITCOUNT [k] 0 -1 BIT");
        assert_eq!(sent(|on| on.bitop(BitOp::Not, "d", "a")), "BITOP NOT [d] [a]");
        assert_eq!(sent(|on| on.bitop(BitOp::AndOr, "d", ["a", "b"])), "BITOP ANDOR [d] [a] [b]");
        assert_eq!(sent(|on| on.bitop(BitOp::And, "d", ())), "refused");
        assert_eq!(sent(|on| on.bitpos("k", true)), "BITPOS [k] 1");
        assert_eq!(sent(|on| on.bitpos_from("k", false, -2)), "BITPOS [k] 0 -2");
        assert_eq!(sent(|on| on.bitpos_range("k", true, 1, 2, BitUnit::Byte)), "BITPOS [k] 1 1 2");
        assert_eq!(sent(|on| on.bitpos_range("k", true, 1, 2, BitUnit::Bit)), "BITPOS [k] 1 1 2 BIT");
        assert_eq!(sent(|on| on.getbit("k", 7)), "GETBIT [k] 7");
        assert_eq!(sent(|on| on.setbit("k", 7, true)), "SETBIT [k] 7 1");
    }

    #[test]
    fn bitfields_are_encoded_in_the_order_given() {
        let operations = Bitfield::new()
            .get(BitType::u::<8>(), 3)
            .get_nth(BitType::I16, 2)
            .overflow(Overflow::Fail)
            .set(BitType::i::<64>(), 0, i64::MIN)
            .set_nth(BitType::U8, 1, 255)
            .overflow(Overflow::Wrap)
            .incrby(BitType::U63, 5, -1)
            .incrby_nth(BitType::I8, 0, 1);
        assert_eq!(
            sent(|on| on.bitfield("k", &operations)),
            "BITFIELD [k] GET u8 3 GET i16 #2 OVERFLOW FAIL SET i64 0 -9223372036854775808 SET u8 #1 255 OVERFLOW WRAP \
             INCRBY u63 5 -1 INCRBY i8 #0 1"
        );
        assert_eq!(sent(|on| on.bitfield("k", &Bitfield::new())), "BITFIELD [k]");
        let gets = BitfieldRo::new().get(BitType::U8, 3).get_nth(BitType::I16, 2);
        assert_eq!(sent(|on| on.bitfield_ro("k", &gets)), "BITFIELD_RO [k] GET u8 3 GET i16 #2");
    }
}
