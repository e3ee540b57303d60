//! MPI benchmarks: OSU's, and Intel's.

use super::{Imported, Row, numbers, table};

/// OSU's: rows under a heading that begins with `# Size`.
pub fn osu(text: &str) -> Option<Imported> {
    let title = |line: &str| {
        line.strip_prefix("# OSU ").map(|rest| rest.split(" v").next().unwrap_or(rest).to_owned())
    };
    let heading = |line: &str| line.starts_with("# Size").then(|| line.trim_start_matches("# ").to_owned());
    under_headings(text, title, heading, &[])
}

/// Intel's: rows under a heading that begins with `#bytes` and has `#repetitions`.
pub fn intel(text: &str) -> Option<Imported> {
    let title = |line: &str| line.strip_prefix("# Benchmarking ").map(|rest| rest.trim().to_owned());
    let heading = |line: &str| {
        let is_one = line.starts_with("#bytes") && line.contains("#repetitions");
        is_one.then(|| {
            let line = line
                .replace("#bytes", "size")
                .replace("#repetitions", "iterations")
                .replace("t[usec]", "time[usec]");
            line.replace("t_", "").replace("time[usec]", "mean[usec]")
        })
    };
    under_headings(text, title, heading, &["one message is in flight at a time"])
}

fn under_headings(
    text: &str,
    title: impl Fn(&str) -> Option<String>,
    heading: impl Fn(&str) -> Option<String>,
    readings: &[&str],
) -> Option<Imported> {
    let mut rows = Vec::new();
    let (mut headings, mut test, mut block): (Vec<String>, Option<String>, usize) = (Vec::new(), None, 0);
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if let Some(title) = title(trimmed) {
            // The same benchmark again is another series.
            block += 1;
            test = Some(if block > 1 { format!("{title}, {block}") } else { title });
        } else if let Some(line) = heading(trimmed) {
            headings = split(&line);
        } else if let Some(cells) = numbers(trimmed, headings.len()).filter(|_| !headings.is_empty()) {
            let mut row = Row::at(index + 1);
            row.set("series", test.as_deref());
            for (heading, cell) in headings.iter().zip(&cells) {
                row.set(heading, Some(cell));
            }
            if !readings.is_empty() {
                row.set("in_flight", Some("1"));
            }
            rows.push(row);
        }
    }
    (!headings.is_empty()).then(|| table(rows, readings))
}

/// Headings of a line: between two spaces or more, or after a closing bracket.
fn split(line: &str) -> Vec<String> {
    let line = line.replace(") ", ")  ").replace("] ", "]  ").replace('\t', "  ");
    let words = line.split("  ").map(str::trim).filter(|heading| !heading.is_empty());
    // Some headings are a single space apart.
    words
        .flat_map(
            |heading| if heading.contains(['(', '[']) { vec![heading] } else { heading.split(' ').collect() },
        )
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn osu_prints_sizes_and_one_quantity_or_several() {
        let table = osu("# OSU MPI Latency Test v5.6.2\n# Size          Latency (us)\n0   1.06\n8  1.10\n")
            .expect("OSU")
            .expect("few cells");
        assert_eq!(table.headings, ["series", "Size", "Latency (us)"]);
        assert_eq!(table.rows[0].1, ["MPI Latency Test", "0", "1.06"]);
        let bare = osu("# Size  Latency (us)\n0 1.06\n").expect("OSU").expect("few cells");
        assert_eq!(bare.rows[0].1, ["0", "1.06"]);
        let rates = osu("# Size                  MB/s        Messages/s\n1   5.1  5100000\n")
            .expect("OSU")
            .expect("few cells");
        assert_eq!(rates.headings, ["Size", "MB/s", "Messages/s"]);
        let all = osu(
            "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations\n1 2 1 3 100\n",
        );
        assert_eq!(all.expect("OSU").expect("few cells").headings[3], "Max Latency(us)");
    }

    #[test]
    fn intel_prints_repetitions_and_times() {
        let text =
            "# Benchmarking PingPong \n#bytes #repetitions      t[usec]   Mbytes/sec\n4 1000 3.26 1.23\n";
        let table = intel(text).expect("Intel's").expect("few cells");
        assert_eq!(table.headings, ["series", "size", "iterations", "mean[usec]", "Mbytes/sec", "in_flight"]);
        assert_eq!(intel("#bytes #iterations\n1 2\n"), None);
    }
}
