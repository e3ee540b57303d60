//! The text of a table: headings and rows of cells, whatever separates them.

use super::number::{Cell, DecimalMark, PrintedFigure, time};
use super::table::{COLUMNS_MAX, ROWS_MAX, TableError};

/// A table before anything is said of what its cells mean.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextTable {
    /// The headings.
    pub headings: Vec<String>,
    /// Line of the file, from 1, and as many cells as there are headings.
    pub rows: Vec<(usize, Vec<String>)>,
    /// How the text was read where it is not plain commas, in sentences.
    pub readings: Vec<String>,
    /// Figures that its program prints beside their parts.
    pub sums: Vec<PrintedSum>,
}

/// A figure and what the program calls it.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedFigure {
    /// Its name.
    pub name: &'static str,
    /// The figure, in the unit of all of the sum.
    pub figure: PrintedFigure,
}

impl NamedFigure {
    /// A figure of text, in multiples of a unit; `None` where the text is none, or nothing was measured.
    pub fn of(name: &'static str, text: &str, unit: f64) -> Option<Self> {
        match time(text, DecimalMark::Point, unit)? {
            Cell::Figure(figure) => Some(Self { name, figure }),
            Cell::Missing | Cell::Odd(_) => None,
        }
    }
}

/// What is the sum of what.
#[derive(Clone, Debug, PartialEq)]
pub struct PrintedSum {
    /// The line of the whole.
    pub line: usize,
    /// The whole.
    pub whole: NamedFigure,
    /// Its parts.
    pub parts: Vec<NamedFigure>,
    /// By what part of the whole they may differ besides rounding, because the program measures the whole by
    /// itself.
    pub tolerance: f64,
}

/// What a table has too many of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// More than [`ROWS_MAX`] rows.
    Rows,
    /// More than [`COLUMNS_MAX`] columns.
    Columns,
}

/// What separates cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    Comma,
    Semicolon,
    Tab,
    Bar,
}

impl Separator {
    /// The one that divides heading and first row into as many cells; a comma when none does.
    fn of(heading: &str, row: Option<&str>) -> Self {
        let divides = |separator: &Self| {
            let cells = separator.cells(heading).len();
            cells > 1 && row.is_none_or(|row| separator.cells(row).len() == cells)
        };
        [Self::Semicolon, Self::Tab, Self::Bar].into_iter().find(divides).unwrap_or(Self::Comma)
    }

    fn character(self) -> char {
        match self {
            Self::Comma => ',',
            Self::Semicolon => ';',
            Self::Tab => '\t',
            Self::Bar => '|',
        }
    }

    /// The sentence for a separator that is no comma.
    fn reading(self) -> Option<String> {
        let name = match self {
            Self::Comma => return None,
            Self::Semicolon => "semicolons",
            Self::Tab => "tabs",
            Self::Bar => "bars",
        };
        Some(format!("cells are separated by {name}"))
    }

    /// The cells of a line; what stands in double quotes is one. Of too many the first that is too many is
    /// the last.
    fn cells(self, line: &str) -> Vec<String> {
        let line = if self == Self::Bar { line.trim().trim_matches('|') } else { line };
        let mut cells = vec![String::new()];
        let mut quoted = false;
        for character in line.chars() {
            if cells.len() > COLUMNS_MAX {
                break;
            }
            let cell = cells.last_mut().expect("there is always one");
            match character {
                '"' => quoted = !quoted,
                _ if character == self.character() && !quoted => cells.push(String::new()),
                _ => cell.push(character),
            }
        }
        cells.iter().map(|cell| cell.trim().to_owned()).collect()
    }
}

/// The lines that count: a byte order mark, comments that begin with `#`, empty lines and the rule under the
/// heading of a table with bars are none.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_rule = |line: &str| line.contains("--") && line.chars().all(|c| " |-:+=".contains(c));
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(move |(_, line)| !line.is_empty() && !line.starts_with('#') && !is_rule(line))
}

/// Splits text into cells.
pub fn parse(table: &str, text: &str) -> Result<TextTable, TableError> {
    let mut lines = lines(text).peekable();
    let (_, heading) = lines.next().ok_or_else(|| TableError::NoHeading { table: table.to_owned() })?;
    let separator = Separator::of(heading, lines.peek().map(|(_, row)| *row));
    let mut parsed = TextTable {
        headings: separator.cells(heading),
        readings: separator.reading().into_iter().collect(),
        ..TextTable::default()
    };
    if parsed.headings.len() > COLUMNS_MAX {
        return Err(TableError::of_excess(table, Excess::Columns));
    }
    for (line, text) in lines {
        if parsed.rows.len() == ROWS_MAX {
            return Err(TableError::of_excess(table, Excess::Rows));
        }
        let cells = separator.cells(text);
        if cells.len() != parsed.headings.len() {
            return Err(TableError::Cells {
                table: table.to_owned(),
                line,
                cells: cells.len(),
                headings: parsed.headings.len(),
            });
        }
        parsed.rows.push((line, cells));
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> TextTable {
        parse("t", text).expect("a table")
    }

    #[test]
    fn separators_are_those_of_the_heading() {
        for text in ["a,b\n1,2\n", "a;b\n1;2\n", "a\tb\n1\t2\n", "| a | b |\n|---|---|\n| 1 | 2 |\n"] {
            let table = read(text);
            assert_eq!(
                (table.headings, &table.rows[0].1[..]),
                (vec!["a".into(), "b".into()], &["1", "2"].map(String::from)[..])
            );
        }
        assert_eq!(read("a;b\n1,5;2\n").rows[0].1, ["1,5", "2"]);
        assert_eq!(read("a,b\n\"1,234\",2\n").rows[0].1, ["1,234", "2"]);
        assert_eq!(read("a;b,c\n1,2\n").headings, ["a;b", "c"]);
    }

    #[test]
    fn too_many_cells_are_refused_before_they_are_kept() {
        let wide = "p50_us,".repeat(1_000_000);
        assert_eq!(parse("t", &wide), Err(TableError::TooWide { table: "t".to_owned() }));
        let long = "p50_us\n".to_owned() + &"1\n".repeat(ROWS_MAX + 1);
        assert_eq!(parse("t", &long), Err(TableError::TooLong { table: "t".to_owned() }));
        assert_eq!(Separator::Comma.cells(&wide).len(), COLUMNS_MAX + 1);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_heading() {
        assert_eq!(read("\u{feff}size,p50_us\r\n1,2\r\n").headings, ["size", "p50_us"]);
    }
}
