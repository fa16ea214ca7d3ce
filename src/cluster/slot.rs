//! The hash slot of a key.

use crc::{CRC_16_XMODEM, Crc, Table};

/// How many slots a cluster has.
pub(crate) const SLOTS: usize = 16_384;

/// How many bytes the table works on at a time.
const BLOCK: usize = 16;

static CRC: Crc<u16, Table<BLOCK>> = Crc::<u16, Table<BLOCK>>::new(&CRC_16_XMODEM);

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
    let key = key.as_ref();
    // Most keys are short and have no tag, which is seen at a glance.
    if key.len() <= BLOCK {
        let block = padded(key);
        if !has_brace(&block) {
            return checksum(block, &[]) % SLOTS as u16;
        }
    }
    slot_of_long(key)
}

/// The same of a key that may have a tag, or has more than a block.
#[inline(never)]
fn slot_of_long(key: &[u8]) -> u16 {
    let hashed = hash_tag(key);
    let (first, rest) = hashed.split_at(hashed.len() % BLOCK);
    checksum(padded(first), rest) % SLOTS as u16
}

/// The checksum of a block and of as many whole ones as there are behind it.
#[inline(always)]
fn checksum(first: [u8; BLOCK], mut rest: &[u8]) -> u16 {
    let mut block = &first;
    let mut digest = CRC.digest();
    loop {
        digest.update(block);
        match rest.split_first_chunk() {
            Some((next, behind)) => (block, rest) = (next, behind),
            None => return digest.finalize(),
        }
    }
}

/// At most a block, behind zeros: these do not change a checksum that begins with zero.
#[inline(always)]
fn padded(bytes: &[u8]) -> [u8; BLOCK] {
    const HALF: usize = BLOCK / 2;
    let (mut block, n) = ([0; BLOCK], bytes.len());
    if n >= HALF {
        // Two stores of fixed size that may overlap, and no call.
        block[BLOCK - n..][..HALF].copy_from_slice(&bytes[..HALF]);
        block[HALF..].copy_from_slice(&bytes[n - HALF..]);
    } else {
        block[BLOCK - n..].copy_from_slice(bytes);
    }
    block
}

/// Looks at all of it, which is one comparison of vectors.
#[inline(always)]
fn has_brace(block: &[u8; BLOCK]) -> bool {
    block.iter().fold(false, |found, byte| found | (*byte == b'{'))
}

/// What of a key is hashed, here and by a [`Ring`](crate::Ring): what is between its first brace and the next closing one, if
/// that is anything.
#[inline]
pub(crate) fn hash_tag(key: &[u8]) -> &[u8] {
    if let Some(open) = memchr::memchr(b'{', key)
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
        assert_eq!(checksum(padded(b"123456789"), &[]), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b"somekey"), 11_058);
        assert_eq!(slot_of(b""), 0);
    }

    #[test]
    fn keys_of_every_length_have_the_slot_that_a_byte_at_a_time_comes_to() {
        let bytewise = Crc::<u16, Table<1>>::new(&CRC_16_XMODEM);
        let bytes: Vec<u8> = (0..100).map(|n: u8| n.wrapping_mul(37).wrapping_add(200)).collect();
        assert!(!bytes.contains(&b'{'));
        for start in 0..20 {
            for end in start..bytes.len() {
                let key = &bytes[start..end];
                assert_eq!(slot_of(key), bytewise.checksum(key) % SLOTS as u16);
                let tagged = [b"{", key, b"}."].concat();
                assert_eq!(slot_of(&tagged), bytewise.checksum(hash_tag(&tagged)) % SLOTS as u16);
            }
        }
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
