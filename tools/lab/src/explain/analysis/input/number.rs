//! Numbers as people and programs print them: decimal points and commas, groups of thousands, suffixes.
//!
//! A cell is one number or none. What could be read in two ways is read in the way that the rest of its
//! column decides, and the reading is reported.

/// A figure as it was printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrintedFigure {
    /// The figure.
    pub value: f64,
    /// How far the true one may be off because digits were left out.
    pub rounding: f64,
}

impl PrintedFigure {
    /// The figure in another unit.
    pub fn times(self, factor: f64) -> Self {
        Self { value: self.value * factor, rounding: self.rounding * factor }
    }
}

/// The sign between the whole part and the decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalMark {
    /// `3.14`, with commas, spaces, apostrophes or underscores between thousands.
    Point,
    /// `3,14`, with points, spaces, apostrophes or underscores between thousands.
    Comma,
}

/// What a cell holds where a number should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell {
    /// A number above 0.
    Figure(PrintedFigure),
    /// Nothing, or a word for nothing such as `-` or `n/a`.
    Missing,
    /// A number that nothing measured can be: not above 0, not finite.
    Odd(f64),
}

/// Words for a figure that is missing.
const MISSING: [&str; 9] = ["", "-", "--", "---", "n/a", "na", "none", "null", "?"];

/// Letters after a number, and what they multiply it by.
const MULTIPLIERS: [(&str, f64); 4] = [("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9)];

/// Units of time after a number, in nanoseconds; the longer ones first.
pub const TIME_UNITS: [(&str, f64); 13] = [
    ("nsec", 1.0),
    ("usec", 1e3),
    ("msec", 1e6),
    ("sec", 1e9),
    ("min", 60e9),
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// The number of a cell; `None` when it is neither a number nor a word for a missing one.
pub fn cell(text: &str, mark: DecimalMark) -> Option<Cell> {
    let text = text.trim();
    if MISSING.contains(&text.to_ascii_lowercase().as_str()) {
        return Some(Cell::Missing);
    }
    if let Some(odd) = not_a_number(text) {
        return Some(Cell::Odd(odd));
    }
    let (digits, factor) = MULTIPLIERS
        .iter()
        .find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?.trim_end(), *factor)))
        .unwrap_or((text, 1.0));
    Some(classified(plain(digits, mark)?.times(factor)))
}

/// The same of a time: with a unit of its own it is in nanoseconds, otherwise `nanos` is its unit.
pub fn time(text: &str, mark: DecimalMark, nanos: f64) -> Option<Cell> {
    let text = text.trim();
    let own = TIME_UNITS.iter().find_map(|(unit, own)| {
        let digits = text.strip_suffix(unit)?.trim_end();
        let odd = not_a_number(digits).map(Cell::Odd);
        odd.or_else(|| Some(classified(plain(digits, mark)?.times(*own))))
    });
    own.or_else(|| match cell(text, mark)? {
        Cell::Figure(figure) => Some(Cell::Figure(figure.times(nanos))),
        Cell::Odd(value) => Some(Cell::Odd(value * nanos)),
        Cell::Missing => Some(Cell::Missing),
    })
}

/// What programs print where a division failed.
fn not_a_number(text: &str) -> Option<f64> {
    match text.trim_start_matches(['-', '+']).to_ascii_lowercase().as_str() {
        "nan" => Some(f64::NAN),
        "inf" | "infinity" => Some(f64::INFINITY),
        _ => None,
    }
}

fn classified(figure: PrintedFigure) -> Cell {
    let usable = figure.value.is_finite() && figure.value > 0.0;
    if usable { Cell::Figure(figure) } else { Cell::Odd(figure.value) }
}

/// A number without a suffix.
fn plain(text: &str, mark: DecimalMark) -> Option<PrintedFigure> {
    let (decimal, group) = match mark {
        DecimalMark::Point => ('.', ','),
        DecimalMark::Comma => (',', '.'),
    };
    let (mantissa, exponent) = match text.find(['e', 'E']).filter(|at| text[..*at].ends_with(is_digit)) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, decimals) = mantissa.split_once(decimal).unwrap_or((mantissa, ""));
    if !mantissa.contains(is_digit) || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole = without_groups(whole, group)?;
    let value: f64 = format!("{whole}.{decimals}0e{exponent}").parse().ok()?;
    let places = decimals.len().min(15) as i32;
    Some(PrintedFigure { value, rounding: 0.5 * 10_f64.powi(exponent.saturating_sub(places)) })
}

fn is_digit(character: char) -> bool {
    character.is_ascii_digit()
}

/// The digits of a whole part; groups have to have three digits each.
fn without_groups(whole: &str, group: char) -> Option<String> {
    let digits = whole.trim_start_matches(['-', '+']);
    let sign = if whole.starts_with('-') { "-" } else { "" };
    let separators = [group, ' ', '\'', '_', '\u{a0}', '\u{202f}'];
    let mut parts = digits.split(separators);
    let first = parts.next()?;
    let rest: Vec<_> = parts.collect();
    let grouped =
        rest.is_empty() || (1..=3).contains(&first.len()) && rest.iter().all(|part| part.len() == 3);
    let all_digits = [first].iter().chain(&rest).all(|part| part.chars().all(is_digit));
    (grouped && all_digits && whole.len() - digits.len() <= 1)
        .then(|| format!("{sign}{}{}", if first.is_empty() { "0" } else { first }, rest.concat()))
}

/// What a column's cells say about its commas: `None` when no cell has one.
///
/// `1,5` and `0,250` can only be decimals, `1,234,567` and `1,234.5` only groups; where nothing decides,
/// groups are taken.
pub fn decimal_mark<'a>(cells: impl Iterator<Item = &'a str>) -> Option<DecimalMark> {
    let mut found = None;
    for cell in cells.filter(|cell| cell.contains(',')) {
        let after =
            cell.rsplit_once(',').map_or(0, |(_, after)| after.chars().take_while(|c| is_digit(*c)).count());
        let before = cell.split_once(',').map_or("", |(before, _)| before);
        let point_last = cell.rfind('.') > cell.rfind(',');
        let several = cell.matches(',').count() > 1;
        let leading_zero = before.trim_start_matches('-') == "0";
        if !point_last && !several && (after != 3 || leading_zero || before.contains('.')) {
            return Some(DecimalMark::Comma);
        }
        found = Some(DecimalMark::Point);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, mark: DecimalMark) -> Option<f64> {
        match cell(text, mark)? {
            Cell::Figure(figure) => Some(figure.value),
            _ => None,
        }
    }

    #[test]
    fn marks_and_groups_are_read_strictly() {
        let (point, comma) = (DecimalMark::Point, DecimalMark::Comma);
        for (text, mark, expected) in [
            ("3.15", point, 3.15),
            ("3,15", comma, 3.15),
            ("1,234,567.5", point, 1_234_567.5),
            ("1.234.567,5", comma, 1_234_567.5),
            ("1 234 567", point, 1_234_567.0),
            ("1'234", point, 1234.0),
            ("40.47k", point, 40_470.0),
            ("1.5e-3", point, 0.0015),
            (".5", point, 0.5),
        ] {
            assert_eq!(value(text, mark), Some(expected), "{text}");
        }
        for text in ["3,14", "1,2345", "12,34", "1,1", "x", "1.2.3", "--1", "1e", "0x10"] {
            assert_eq!(cell(text, point), None, "{text}");
        }
    }

    #[test]
    fn odd_and_missing_numbers_are_no_figures() {
        assert_eq!(cell("-", DecimalMark::Point), Some(Cell::Missing));
        assert_eq!(cell("0", DecimalMark::Point), Some(Cell::Odd(0.0)));
        assert_eq!(cell("-3", DecimalMark::Point), Some(Cell::Odd(-3.0)));
    }

    #[test]
    fn a_time_may_bring_its_unit() {
        let nanos = |text| match time(text, DecimalMark::Point, 1e6) {
            Some(Cell::Figure(figure)) => figure.value,
            other => panic!("{text} is {other:?}"),
        };
        assert_eq!((nanos("5"), nanos("5us"), nanos("1.5 ms"), nanos("2s")), (5e6, 5e3, 1.5e6, 2e9));
        assert_eq!(time("5 years", DecimalMark::Point, 1.0), None);
    }

    #[test]
    fn a_column_decides_what_its_commas_mean() {
        let mark = |cells: &[&str]| decimal_mark(cells.iter().copied());
        assert_eq!(mark(&["12", "3.5"]), None);
        assert_eq!(mark(&["1,234", "1,234,567"]), Some(DecimalMark::Point));
        assert_eq!(mark(&["1,234", "0,5"]), Some(DecimalMark::Comma));
        assert_eq!(mark(&["183,8", "5,1"]), Some(DecimalMark::Comma));
        assert_eq!(mark(&["1,234.5"]), Some(DecimalMark::Point));
    }
}
