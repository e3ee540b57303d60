//! A consumer that reads all of a message.
//!
//! Messages that are handed out in place would cost their receiver nothing if nobody looked at them. So
//! receivers of measurements read every word. That is the measurement's own work, none of the transport's: it
//! should take as few instructions as the processor allows.

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "functions for wide vectors may be called only where there are any")
)]

/// Reads every word of some bytes by the widest loads that the processor has. Returns their sum.
#[inline]
pub fn read_every_word(bytes: &[u8]) -> u64 {
    // The shortest messages of measurements are a word: any loop would take ten times as long as the read.
    match bytes.try_into() {
        Ok(word) => u64::from_ne_bytes(word),
        Err(_) => sum_of_words(bytes),
    }
}

#[cfg(target_arch = "x86_64")]
fn sum_of_words(bytes: &[u8]) -> u64 {
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has what the function was compiled for.
        unsafe { sum_by_avx512(bytes) }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the same.
        unsafe { sum_by_avx2(bytes) }
    } else {
        sum_in_loop(bytes)
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn sum_of_words(bytes: &[u8]) -> u64 {
    sum_in_loop(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn sum_by_avx512(bytes: &[u8]) -> u64 {
    sum_in_loop(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_by_avx2(bytes: &[u8]) -> u64 {
    sum_in_loop(bytes)
}

/// A sum that compiles to the vectors of the function that it is inlined into.
#[inline(always)]
fn sum_in_loop(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let of_rest = rest.iter().fold(0, |sum: u64, &byte| sum.wrapping_add(byte.into()));
    words.iter().fold(of_rest, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_looks_at_every_byte() {
        let mut bytes = vec![0; 201];
        for at in [0, 63, 64, 199, 200] {
            bytes[at] = 1;
            assert_ne!(read_every_word(&bytes), 0, "byte {at} counts");
            bytes[at] = 0;
        }
        for at in 0..8 {
            let mut word = [0; 8];
            word[at] = 1;
            assert_ne!(read_every_word(&word), 0, "byte {at} of a word counts");
        }
    }

    #[test]
    fn wide_vectors_and_narrow_ones_sum_up_the_same() {
        let bytes: Vec<u8> = (0..1000_u32).map(|byte| (byte * 37 % 251) as u8).collect();
        for length in [0, 1, 7, 8, 9, 63, 64, 65, 128, 500, 1000] {
            let (bytes, sum) = (&bytes[..length], sum_in_loop(&bytes[..length]));
            assert_eq!(read_every_word(bytes), sum, "{length} bytes");
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has what the function was compiled for.
                assert_eq!(unsafe { sum_by_avx2(bytes) }, sum, "{length} bytes by AVX2");
            }
        }
    }
}
