//! Which of 16,384 hash slots a key belongs to, as Redis Cluster says it: clients of Redis find the server of
//! a key by that, so shards are made of slots.

/// How many there are.
pub const HASH_SLOTS: u32 = 1 << 14;

/// The hash slot of a key: the CRC-16 (XMODEM) of it modulo 2¹⁴, or of what is between its first `{` and
/// the next `}` if that is something.
#[inline]
pub fn hash_slot(key: &[u8]) -> u32 {
    let hashed = if key.contains(&b'{') { tag_of(key) } else { key };
    u32::from(crc16(hashed)) % HASH_SLOTS
}

fn tag_of(key: &[u8]) -> &[u8] {
    let behind = key.iter().position(|&byte| byte == b'{').map_or(&[][..], |open| &key[open + 1..]);
    match behind.iter().position(|&byte| byte == b'}') {
        Some(bytes @ 1..) => &behind[..bytes],
        _ => key,
    }
}

/// The CRC-16 with the polynomial x¹⁶ + x¹² + x⁵ + 1, eight bytes at a time. It begins with 0, so zeros in
/// front change nothing, and the first bytes are filled up to eight with them.
#[inline]
fn crc16(bytes: &[u8]) -> u16 {
    let (head, words) = bytes.as_rchunks::<8>();
    let first = match bytes.first_chunk() {
        Some(_) if head.is_empty() => 0,
        Some(first) => u64::from_be_bytes(*first) >> (u64::BITS - 8 * head.len() as u32),
        None => head.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    words.iter().fold(with_word(0, first), |crc, word| with_word(crc, u64::from_be_bytes(*word)))
}

/// The CRC of what had this one with eight more bytes.
#[inline]
fn with_word(crc: u16, word: u64) -> u16 {
    let bytes = (word ^ u64::from(crc) << 48).to_le_bytes();
    (0..8).fold(0, |crc, number| crc ^ TABLES[number][usize::from(bytes[number])])
}

/// The CRC of a byte with so many zero bytes behind it as the table's number says.
static TABLES: [[u16; 256]; 8] = tables();

const fn tables() -> [[u16; 256]; 8] {
    const POLYNOMIAL: u16 = 0x1021;
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = crc << 1 ^ if crc & 0x8000 != 0 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut number = 1;
    while number < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before: u16 = tables[number - 1][byte];
            tables[number][byte] = before << 8 ^ tables[0][(before >> 8) as usize];
            byte += 1;
        }
        number += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One bit after the other.
    fn slow(bytes: &[u8]) -> u16 {
        let mut crc = 0_u16;
        for byte in bytes {
            crc ^= u16::from(*byte) << 8;
            for _ in 0..8 {
                crc = crc << 1 ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 };
            }
        }
        crc
    }

    #[test]
    fn the_checksum_is_that_of_xmodem() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        let bytes: Vec<_> = (0..100_u32).map(|number| (number * 151 % 253) as u8).collect();
        for length in 0..bytes.len() {
            assert_eq!(crc16(&bytes[..length]), slow(&bytes[..length]), "{length} bytes");
        }
    }

    #[test]
    fn keys_have_the_slots_that_redis_gives_them() {
        for (key, slot) in [(&b"foo"[..], 12_182), (b"somekey", 11_058), (b"foo{hash_tag}", 2515), (b"", 0)] {
            assert_eq!(hash_slot(key), slot, "{}", key.escape_ascii());
        }
        let same = |key: &[u8], other: &[u8]| assert_eq!(hash_slot(key), u32::from(slow(other)) % HASH_SLOTS);
        same(b"{user1000}.following", b"user1000");
        same(b"foo{}{bar}", b"foo{}{bar}");
        same(b"foo{{bar}}zap", b"{bar");
        same(b"foo{bar}{zap}", b"bar");
        same(b"foo{bar", b"foo{bar");
        same(b"a}b{c}", b"c");
    }
}
