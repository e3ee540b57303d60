//! A few bytes as numbers.

/// Up to two words of bytes, as little-endian numbers, behind which there are clear ones; `None` when they
/// are more. Two reads that overlap, of a length that is known, are less than the call of a function that
/// copies.
#[inline]
pub fn words_of(bytes: &[u8]) -> Option<[u64; 2]> {
    let length = bytes.len() as u32;
    if let (Some(&head), Some(&tail)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let beyond_first = 8 * (length - u64::BITS / 8);
        if beyond_first > u64::BITS {
            return None;
        }
        let tail = u64::from_le_bytes(tail);
        return Some([u64::from_le_bytes(head), tail.checked_shr(u64::BITS - beyond_first).unwrap_or(0)]);
    }
    if let (Some(&head), Some(&tail)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (head, tail) = (u64::from(u32::from_le_bytes(head)), u64::from(u32::from_le_bytes(tail)));
        return Some([head | tail << (8 * (length - u32::BITS / 8)), 0]);
    }
    Some([bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)), 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_bytes_and_clear_ones_behind_them() {
        let bytes: Vec<u8> = (1..=17_u8).map(|byte| byte.wrapping_mul(113)).collect();
        for length in 0..=16 {
            let mut padded = [0; 16];
            padded[..length].copy_from_slice(&bytes[..length]);
            assert_eq!(
                words_of(&bytes[..length]).map(|words| words.map(u64::to_le_bytes).concat()),
                Some(padded.to_vec())
            );
        }
        assert_eq!(words_of(&bytes), None);
    }
}
