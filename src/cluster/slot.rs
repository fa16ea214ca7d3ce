//! The hash slot of a key.

use crc::{CRC_16_XMODEM, Crc, Table};

/// How many slots a cluster has.
pub(crate) const SLOTS: usize = 16_384;

static CRC: Crc<u16, Table<1>> = Crc::<u16, Table<1>>::new(&CRC_16_XMODEM);

/// The hash slot of a key, from 0 to 16,383: of the part in the first `{…}` if that is not empty, else of all of it.
///
/// Commands on several keys work on a cluster if all are of one slot.
///
/// ```
/// use redefer::cluster::slot_of;
///
/// assert_eq!(slot_of("foo"), 12_182);
/// assert_eq!(slot_of("{foo}:name"), slot_of(b"foo"));
/// ```
#[must_use]
#[inline]
pub fn slot_of(key: impl AsRef<[u8]>) -> u16 {
    CRC.checksum(hash_tag(key.as_ref())) % SLOTS as u16
}

/// Up to this length a key is looked through byte by byte.
const SHORT: usize = 24;

/// What of a key is hashed, here and by a [`Ring`](crate::Ring): what is between its first brace and the next closing one, if
/// that is anything.
#[inline]
pub(crate) fn hash_tag(key: &[u8]) -> &[u8] {
    // A key is short, and mostly has none: a call would cost more than the look.
    let open = if key.len() <= SHORT { key.iter().position(|byte| *byte == b'{') } else { memchr::memchr(b'{', key) };
    if let Some(open) = open
        && let Some(len) = memchr::memchr(b'}', &key[open + 1..])
        && len > 0
    {
        &key[open + 1..open + 1 + len]
    } else {
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(CRC.checksum(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b"somekey"), 11_058);
        assert_eq!(slot_of(b""), 0);
    }

    #[test]
    fn a_tag_is_the_first_one_and_not_empty() {
        for (key, hashed) in [
            ("{user1000}.following", "user1000"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar}{zap}", "bar"),
            ("foo{bar", "foo{bar"),
            ("foo}bar{", "foo}bar{"),
            ("}{a}", "a"),
            ("{}a", "{}a"),
            ("", ""),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), hashed.as_bytes(), "{key}");
        }
    }
}
