//! Units, operations and integers of a few bits.

use crate::args::{Arg, ArgWriter, ToArg, ToArgs};
use crate::commands::parts::word_to_arg;

/// What positions count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BitUnit {
    /// Bytes.
    #[default]
    Byte,
    /// Bits. Since 7.0.
    Bit,
}

impl BitUnit {
    /// What is sent; bytes are what servers count by themselves.
    pub(super) fn option(self) -> Option<&'static str> {
        match self {
            BitUnit::Byte => None,
            BitUnit::Bit => Some("BIT"),
        }
    }
}

/// How BITOP combines the bits at one position: see [`bitop`](super::BitmapCommands::bitop).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BitOp {
    /// One where all are.
    And,
    /// One where any is.
    Or,
    /// One where an odd number of them is.
    Xor,
    /// One where the only key's is zero.
    Not,
    /// One where the first key's is, and none of the others'. Redis, since 8.2.
    Diff,
    /// One where any but the first key's is, and not the first's. Redis, since 8.2.
    Diff1,
    /// One where the first key's is, and any of the others'. Redis, since 8.2.
    AndOr,
    /// One where exactly one is. Redis, since 8.2.
    One,
}

impl BitOp {
    fn word(&self) -> &'static str {
        match self {
            BitOp::And => "AND",
            BitOp::Or => "OR",
            BitOp::Xor => "XOR",
            BitOp::Not => "NOT",
            BitOp::Diff => "DIFF",
            BitOp::Diff1 => "DIFF1",
            BitOp::AndOr => "ANDOR",
            BitOp::One => "ONE",
        }
    }
}

/// What becomes of a value that does not fit: see [`Bitfield::overflow`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// It goes on from the other end of the range.
    #[default]
    Wrap,
    /// It stays at the end of the range.
    Sat,
    /// Nothing is done, and the reply is `None`.
    Fail,
}

impl Overflow {
    fn word(&self) -> &'static str {
        match self {
            Overflow::Wrap => "WRAP",
            Overflow::Sat => "SAT",
            Overflow::Fail => "FAIL",
        }
    }
}

word_to_arg!(BitOp, Overflow);

/// An integer of a few bits, with or without a sign.
///
/// ```
/// use redefer::commands::BitType;
///
/// let small = BitType::u::<5>();                  // checked when the program is compiled
/// assert_eq!(BitType::unsigned(5), Some(small));  // and when it runs
/// assert_eq!(BitType::unsigned(64), None);
/// ```
///
/// ```compile_fail
/// let _too_wide = redefer::commands::BitType::u::<64>();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BitType {
    signed: bool,
    bits: u8,
}

impl BitType {
    /// One byte without a sign.
    pub const U8: BitType = BitType::u::<8>();
    /// Two bytes without a sign.
    pub const U16: BitType = BitType::u::<16>();
    /// Four bytes without a sign.
    pub const U32: BitType = BitType::u::<32>();
    /// 63 bits, the most without a sign.
    pub const U63: BitType = BitType::u::<63>();
    /// One byte with a sign.
    pub const I8: BitType = BitType::i::<8>();
    /// Two bytes with a sign.
    pub const I16: BitType = BitType::i::<16>();
    /// Four bytes with a sign.
    pub const I32: BitType = BitType::i::<32>();
    /// Eight bytes with a sign.
    pub const I64: BitType = BitType::i::<64>();

    /// An integer without a sign, of 1 to 63 bits; other widths do not compile.
    pub const fn u<const BITS: u8>() -> Self {
        const { assert!(BITS >= 1 && BITS <= 63, "an integer without a sign has 1 to 63 bits") }
        BitType { signed: false, bits: BITS }
    }

    /// An integer with a sign, of 1 to 64 bits; other widths do not compile.
    pub const fn i<const BITS: u8>() -> Self {
        const { assert!(BITS >= 1 && BITS <= 64, "an integer with a sign has 1 to 64 bits") }
        BitType { signed: true, bits: BITS }
    }

    /// An integer without a sign, if it has 1 to 63 bits.
    pub const fn unsigned(bits: u8) -> Option<Self> {
        if bits >= 1 && bits <= 63 { Some(BitType { signed: false, bits }) } else { None }
    }

    /// An integer with a sign, if it has 1 to 64 bits.
    pub const fn signed(bits: u8) -> Option<Self> {
        if bits >= 1 && bits <= 64 { Some(BitType { signed: true, bits }) } else { None }
    }
}

impl ToArg for BitType {
    fn to_arg(&self) -> Arg<'_> {
        Arg::from(format!("{}{}", if self.signed { 'i' } else { 'u' }, self.bits))
    }
    const DIRECT: bool = true;
}

/// Where an integer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Offset {
    Bit(u64),
    Nth(u64),
}

impl ToArg for Offset {
    fn to_arg(&self) -> Arg<'_> {
        match self {
            Offset::Bit(bit) => Arg::Unsigned(*bit),
            Offset::Nth(index) => Arg::from(format!("#{index}")),
        }
    }
    const DIRECT: bool = true;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operation {
    Get(BitType, Offset),
    Set(BitType, Offset, i64),
    Incrby(BitType, Offset, i64),
    Overflow(Overflow),
}

impl ToArgs for Operation {
    fn write_args(&self, out: &mut ArgWriter<'_>) {
        match *self {
            Operation::Get(kind, offset) => ("GET", kind, offset).write_args(out),
            Operation::Set(kind, offset, value) => ("SET", kind, offset, value).write_args(out),
            Operation::Incrby(kind, offset, by) => ("INCRBY", kind, offset, by).write_args(out),
            Operation::Overflow(overflow) => ("OVERFLOW", overflow).write_args(out),
        }
    }
    const DIRECT: bool = true;
    fn count(&self) -> usize {
        match self {
            Operation::Get(..) => 3,
            Operation::Set(..) | Operation::Incrby(..) => 4,
            Operation::Overflow(_) => 2,
        }
    }
}

/// What BITFIELD is to do, one after the other: see [`bitfield`](super::BitmapCommands::bitfield).
///
/// An integer is at an offset, which is a bit, or it is the `nth` of those that lie side by side, each of the same width,
/// counted from zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct Bitfield {
    operations: Vec<Operation>,
}

impl Bitfield {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn and(mut self, operation: Operation) -> Self {
        self.operations.push(operation);
        self
    }

    /// Reads the integer at a bit.
    pub fn get(self, kind: BitType, offset: u64) -> Self {
        self.and(Operation::Get(kind, Offset::Bit(offset)))
    }

    /// Reads the nth integer.
    pub fn get_nth(self, kind: BitType, index: u64) -> Self {
        self.and(Operation::Get(kind, Offset::Nth(index)))
    }

    /// Writes the integer at a bit; its value is what was there.
    pub fn set(self, kind: BitType, offset: u64, value: i64) -> Self {
        self.and(Operation::Set(kind, Offset::Bit(offset), value))
    }

    /// Writes the nth integer; its value is what was there.
    pub fn set_nth(self, kind: BitType, index: u64, value: i64) -> Self {
        self.and(Operation::Set(kind, Offset::Nth(index), value))
    }

    /// Adds to the integer at a bit; its value is what is there now.
    pub fn incrby(self, kind: BitType, offset: u64, increment: i64) -> Self {
        self.and(Operation::Incrby(kind, Offset::Bit(offset), increment))
    }

    /// Adds to the nth integer; its value is what is there now.
    pub fn incrby_nth(self, kind: BitType, index: u64, increment: i64) -> Self {
        self.and(Operation::Incrby(kind, Offset::Nth(index), increment))
    }

    /// What becomes of values that do not fit, from here on; at first they wrap around.
    pub fn overflow(self, overflow: Overflow) -> Self {
        self.and(Operation::Overflow(overflow))
    }
}

/// What BITFIELD_RO is to read, one after the other: see [`bitfield_ro`](super::BitmapCommands::bitfield_ro).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct BitfieldRo {
    operations: Vec<Operation>,
}

impl BitfieldRo {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the integer at a bit.
    pub fn get(mut self, kind: BitType, offset: u64) -> Self {
        self.operations.push(Operation::Get(kind, Offset::Bit(offset)));
        self
    }

    /// Reads the nth integer.
    pub fn get_nth(mut self, kind: BitType, index: u64) -> Self {
        self.operations.push(Operation::Get(kind, Offset::Nth(index)));
        self
    }
}

macro_rules! operations_to_args {
    ($($type:ty),*) => {$(
        impl ToArgs for $type {
            fn write_args(&self, out: &mut ArgWriter<'_>) {
                self.operations.write_args(out);
            }
            const DIRECT: bool = true;
            fn count(&self) -> usize {
                self.operations.count()
            }
        }
    )*};
}

operations_to_args!(&Bitfield, &BitfieldRo);
