//! A short list of sizes, as one parameter.

use core::fmt;

use super::quantity::{show_size, wide_size};

/// The most sizes in a list.
pub const SIZES_MAX: usize = 7;

/// Sizes below 4 GiB in bytes, each greater than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    count: u8,
    /// Those not in use are 0.
    bytes: [u32; SIZES_MAX],
}

impl Sizes {
    /// The sizes, in bytes.
    pub fn as_slice(&self) -> &[u32] {
        &self.bytes[..usize::from(self.count)]
    }

    /// Reads sizes between commas. `None` for another type, another order, or other than 1 to [`SIZES_MAX`]
    /// of them; numbers that are too long count as the largest.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut sizes = Self { count: 0, bytes: [0; SIZES_MAX] };
        for part in text.split(',') {
            let bytes = u32::try_from(wide_size(part)?).unwrap_or(u32::MAX);
            if sizes.as_slice().last().is_some_and(|last| *last >= bytes) {
                return None;
            }
            *sizes.bytes.get_mut(usize::from(sizes.count))? = bytes;
            sizes.count += 1;
        }
        Some(sizes)
    }

    /// The same list with every size between `min` and `max`; sizes that become equal become one.
    pub(super) fn clamp(&self, min: u32, max: u32) -> Self {
        let mut clamped = Self { count: 0, bytes: [0; SIZES_MAX] };
        for bytes in self.as_slice().iter().map(|bytes| *bytes.clamp(&min, &max)) {
            if clamped.as_slice().last() != Some(&bytes) {
                clamped.bytes[usize::from(clamped.count)] = bytes;
                clamped.count += 1;
            }
        }
        clamped
    }
}

/// The text that is read as the same list.
impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.as_slice().iter().map(|bytes| show_size(u64::from(*bytes))).collect();
        f.write_str(&texts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_alike() {
        for (text, bytes) in [("1K", &[1024][..]), ("300,1K,9000", &[300, 1024, 9000])] {
            let sizes = Sizes::parse(text).expect("a list of sizes");
            assert_eq!((sizes.as_slice(), sizes.to_string().as_str()), (bytes, text));
        }
        assert_eq!(Sizes::parse(" 1 , 2 ").map(|sizes| sizes.to_string()), Some("1,2".to_owned()));
    }

    #[test]
    fn what_is_no_ascending_list_is_refused() {
        for text in ["", ",", "1,", "2,1", "1,1", "a", "1,2,3,4,5,6,7,8"] {
            assert_eq!(Sizes::parse(text), None, "{text}");
        }
    }

    #[test]
    fn clamping_keeps_the_order() {
        let clamped = Sizes::parse("1,5,7,20,30").map(|sizes| sizes.clamp(4, 10).to_string());
        assert_eq!(clamped, Some("4,5,7,10".to_owned()));
    }
}
