//! Sizes as tables write them.

use super::number::{Cell, DecimalMark, PrintedFigure, cell};

/// A size, and whether its suffix leaves open what it is a multiple of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeText {
    /// Bytes; of an open suffix by powers of 1024.
    pub bytes: f64,
    /// The number before an open suffix, and the power of 1000 or 1024 that the suffix is.
    pub suffix: Option<(f64, i32)>,
}

/// A number of bytes: `100`, `0`, `10K` (open), `4kB` (10^3), `1KiB` (2^10).
pub fn size_of(text: &str, mark: DecimalMark) -> Option<SizeText> {
    let (digits, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let number = match cell(digits, mark)? {
        Cell::Figure(PrintedFigure { value, .. }) => value,
        // Tools measure messages without a byte.
        Cell::Odd(value) if value == 0.0 && !value.is_sign_negative() => 0.0,
        Cell::Odd(_) | Cell::Missing => return None,
    };
    let unit = unit.trim();
    let power = match unit.chars().next().map(|c| c.to_ascii_uppercase()) {
        None | Some('B') => 0,
        Some('K') => 1,
        Some('M') => 2,
        Some('G') => 3,
        Some(_) => return None,
    };
    match unit.get(1.min(unit.len())..)? {
        _ if power == 0 => {
            matches!(unit, "" | "B" | "byte" | "bytes").then_some(SizeText { bytes: number, suffix: None })
        }
        "iB" | "i" => Some(SizeText { bytes: number * 1024_f64.powi(power), suffix: None }),
        "B" if unit.starts_with('k') => Some(SizeText { bytes: number * 1000_f64.powi(power), suffix: None }),
        "" | "B" | "b" => {
            Some(SizeText { bytes: number * 1024_f64.powi(power), suffix: Some((number, power)) })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_say_their_base_or_leave_it_open() {
        let size = |text| size_of(text, DecimalMark::Point).map(|size| (size.bytes, size.suffix));
        assert_eq!(size("100"), Some((100.0, None)));
        assert_eq!(size("0"), Some((0.0, None)));
        assert_eq!(size("1KiB"), Some((1024.0, None)));
        assert_eq!(size("4kB"), Some((4000.0, None)));
        assert_eq!(size("2M"), Some((2.0 * 1_048_576.0, Some((2.0, 2)))));
        for wrong in ["", "-1", "ten", "5X", "1Kx"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }
}
