//! The tests of NCCL and RCCL, such as `all_reduce_perf`.

use super::{Imported, Row, table};

/// One row for each size and place of the result.
pub fn read(text: &str) -> Option<Imported> {
    let mut rows: Vec<Row> = Vec::new();
    // Which column of a line each figure has, once for each place.
    let mut columns: Vec<usize> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<_> = line.trim_start().trim_start_matches('#').split_whitespace().collect();
        if words.first() == Some(&"size") && words.contains(&"algbw") && words.contains(&"busbw") {
            let times = words.iter().enumerate().filter(|(_, word)| **word == "time");
            columns = times.map(|(column, _)| column).collect();
        } else if !line.trim_start().starts_with('#') && !columns.is_empty() {
            rows.extend(places(index + 1, &words, &columns));
        }
    }
    let readings = ["one operation is in flight at a time"];
    (!rows.is_empty()).then(|| table(rows, &readings))
}

fn places(line: usize, words: &[&str], columns: &[usize]) -> Vec<Row> {
    let is_figure = |word: &&str| word.parse::<f64>().is_ok();
    let names = ["out-of-place", "in-place"];
    let row = |(column, place): (&usize, &&str)| {
        let figures = words.get(*column..column + 3)?;
        let size = words.first().filter(|word| is_figure(word))?;
        figures.iter().all(is_figure).then(|| {
            let mut row = Row::at(line);
            row.set("place", Some(place));
            row.set("size", Some(size));
            row.set("in_flight", Some("1"));
            for (heading, figure) in ["mean_us", "algbw (GB/s)", "busbw (GB/s)"].iter().zip(figures) {
                // Of a few bytes a rate has no digits.
                let has_digits = figure.contains(|c: char| ('1'..='9').contains(&c));
                row.set(heading, has_digits.then_some(*figure));
            }
            row
        })
    };
    columns.iter().zip(&names).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_of_a_line_is_a_row() {
        let text = "# nThread 1 nGpus 8\n\
            # size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n\
            # (B) (elements) (us) (GB/s) (GB/s) (us) (GB/s) (GB/s)\n\
                       8 2 float sum -1 12.50 0.00 0.00 0 12.34 0.00 0.00 0\n\
                 1048576 262144 float sum -1 60.10 17.45 30.53 0 59.80 17.53 30.69 N/A\n\
            # Avg bus bandwidth    : 30.61\n";
        let table = read(text).expect("NCCL's tests").expect("few cells");
        assert_eq!(table.headings, ["place", "size", "in_flight", "mean_us", "algbw (GB/s)", "busbw (GB/s)"]);
        assert_eq!(table.rows.len(), 4);
        assert_eq!(table.rows[0].1, ["out-of-place", "8", "1", "12.50", "", ""]);
        assert_eq!(table.rows[3].1, ["in-place", "1048576", "1", "59.80", "17.53", "30.69"]);
        assert_eq!(read("size time algbw busbw\n"), None);
    }
}
