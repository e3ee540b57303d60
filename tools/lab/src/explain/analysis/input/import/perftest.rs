//! perftest: `ib_write_bw`, `ib_send_lat` and the like.

use super::{Imported, Row, numbers, table};

/// Rows under a heading that begins with `#bytes #iterations`.
pub fn read(text: &str) -> Option<Imported> {
    let mut rows = Vec::new();
    let (mut headings, mut test) = (Vec::new(), None);
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.ends_with(" Test") {
            test = Some(trimmed.to_owned());
        } else if trimmed.starts_with("#bytes") && trimmed.contains("#iterations") {
            headings = headings_of(trimmed);
        } else if let Some(cells) = numbers(trimmed, headings.len()).filter(|_| !headings.is_empty()) {
            let mut row = Row::at(index + 1);
            row.set("test", test.as_deref());
            for (heading, cell) in headings.iter().zip(&cells) {
                row.set(heading, Some(cell.as_str()).filter(|cell| !is_no_peak(heading, cell)));
            }
            rows.push(row);
        }
    }
    (!headings.is_empty()).then(|| table(rows, &[]))
}

/// A peak of nothing is one that was not measured, as in runs of a time (`-D`).
fn is_no_peak(heading: &str, cell: &str) -> bool {
    heading.contains("peak") && cell.parse() == Ok(0.0)
}

/// Headings have spaces in them and end with their unit in brackets, or begin with `#`.
fn headings_of(line: &str) -> Vec<String> {
    let mut headings = Vec::new();
    let mut words: Vec<&str> = Vec::new();
    for word in line.split_whitespace() {
        words.push(word);
        if word.starts_with('#') || word.ends_with(']') {
            let heading = words.join(" ");
            headings.push(heading.trim_start_matches('#').to_owned());
            words.clear();
        }
    }
    headings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_have_their_units_in_their_headings() {
        let text = "                    RDMA_Write BW Test\n Dual-port : OFF\n\
                    ------\n #bytes     #iterations  BW peak[MB/sec]  BW average[MB/sec]  MsgRate[Mpps]\n \
                    65536      5000             2759.53            2759.41\t\t   0.044151\n------\n";
        let table = read(text).expect("perftest").expect("few cells");
        assert_eq!(
            table.headings,
            ["test", "bytes", "iterations", "BW peak[MB/sec]", "BW average[MB/sec]", "MsgRate[Mpps]"]
        );
        assert_eq!(
            table.rows[0].1,
            ["RDMA_Write BW Test", "65536", "5000", "2759.53", "2759.41", "0.044151"]
        );
        assert_eq!(table.rows[0].0, 5);
        let table = read(&text.replace("2759.53", "0.00")).expect("perftest").expect("few cells");
        assert!(table.rows[0].1.iter().all(|cell| cell != "0.00"), "{table:?}");
    }

    #[test]
    fn latencies_have_percentiles() {
        let text = "#bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   \
                    99% percentile[usec]   99.9% percentile[usec]\n2 1000 0.96 6.11 0.99 1.00 0.05 1.12 6.11\n";
        let table = read(text).expect("perftest").expect("few cells");
        assert_eq!(table.headings.len(), 9);
        assert_eq!(table.headings[7], "99% percentile[usec]");
        assert_eq!(read("bytes,iterations\n1,2\n"), None);
    }
}
