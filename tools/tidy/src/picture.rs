//! The picture of the README: how many times the messages of others, from the table of current figures.

use core::fmt::Write;

use crate::Tree;

/// Where it is.
pub const PICTURE: &str = "docs/performance/peers.svg";
/// Where the figures are.
const FIGURES: &str = "docs/performance/current.md";

/// Pixels: of the names on the left, of a bar's row, of one factor of two, and above the first row.
const NAMES: f64 = 150.0;
const ROW: f64 = 30.0;
const DOUBLING: f64 = 105.0;
const HEAD: f64 = 64.0;
/// The axis ends at this many times: 2⁵.
const DOUBLINGS: u32 = 5;

/// Colours for light and dark pages.
const STYLE: &str = "text{font:14px system-ui,sans-serif;fill:#1f2328}.s{font-size:12px;fill:#59636e}\
    .b{fill:#1f6feb}.l{stroke:#d1d9e0}.e{stroke:#59636e;stroke-width:2}\
    @media(prefers-color-scheme:dark){text{fill:#f0f6fc}.s{fill:#9198a1}.b{fill:#58a6ff}.l{stroke:#3d444d}\
    .e{stroke:#9198a1}}";

/// The picture's text.
pub fn picture(tree: &Tree) -> String {
    let rows = rows(&tree.file(FIGURES).text);
    let width = NAMES + DOUBLING * f64::from(DOUBLINGS) + 30.0;
    let height = HEAD + ROW * rows.len() as f64 + 10.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"Messages a second: farcall's over the other's\">\n<style>{STYLE}</style>\n\
         <text x=\"0\" y=\"18\">Messages of 8 B a second between two processes: farcall's over the other's\
         </text>\n<text class=\"s\" x=\"0\" y=\"36\">ring+shm, 1 to 1000 in flight, cores near and far, \
         interleaved in the same minutes; right of 1 × farcall is faster</text>\n"
    );
    let mut add = |arguments: core::fmt::Arguments<'_>| {
        writeln!(svg, "{arguments}").expect("a string takes everything");
    };
    for doubling in 0..=DOUBLINGS {
        let (x, class) = (NAMES + DOUBLING * f64::from(doubling), if doubling == 0 { "e" } else { "l" });
        add(format_args!(
            "<line class=\"{class}\" x1=\"{x}\" x2=\"{x}\" y1=\"{HEAD}\" y2=\"{}\"/>\
             <text class=\"s\" x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{} ×</text>",
            height - 8.0,
            HEAD - 6.0,
            1 << doubling,
        ));
    }
    for (row, (name, least, most)) in rows.iter().enumerate() {
        let y = HEAD + ROW * row as f64 + 6.0;
        let [from, to] = [least, most].map(|times| NAMES + DOUBLING * times.log2());
        add(format_args!(
            "<text x=\"0\" y=\"{}\">{name}</text><rect class=\"b\" x=\"{from:.1}\" y=\"{y}\" width=\"{:.1}\" \
             height=\"18\" rx=\"3\"/><text class=\"s\" x=\"{:.1}\" y=\"{}\">{least} to {most} ×</text>",
            y + 14.0,
            to - from,
            to + 6.0,
            y + 14.0,
        ));
    }
    svg + "</svg>\n"
}

/// The peers of the table, each with the least and the greatest ratio of its first column.
fn rows(page: &str) -> Vec<(&str, f64, f64)> {
    let (_, section) = page.split_once("## Next to others").expect("the page has the section");
    let table =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let parsed = table.skip(2).filter_map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let (name, cell) = (cells.next()?, cells.next()?);
        let numbers: Vec<f64> = cell.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
        let name = name.split(',').next().unwrap_or(name);
        Some((name, numbers.iter().copied().reduce(f64::min)?, numbers.iter().copied().reduce(f64::max)?))
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_from_the_least_ratio_to_the_greatest() {
        let page = "## Next to others\n\ntext\n\n| | 8 B | 1 KB |\n|---|---|---|\n| UCX 1.22 | 1.05 and 3.7, 1.48 | 9 |\n| Aeron, to a handler | 1.7 to 3.8 | 9 |\n";
        assert_eq!(rows(page), [("UCX 1.22", 1.05, 3.7), ("Aeron", 1.7, 3.8)]);
        let svg = picture(&Tree::of(&[(FIGURES, page)]));
        assert!(svg.contains("1.05 to 3.7 ×") && svg.ends_with("</svg>\n"));
    }
}
