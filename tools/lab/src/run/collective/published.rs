//! Figures that others have published of the same operations, to be put beside simulated ones.

/// Which published series a simulation stands beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    /// Omni-Path 100, two nodes a machine, as first measured.
    September2019,
    /// The same without the limit of receiving that the nodes of a machine shared.
    October2019,
}

impl Series {
    /// Its name in the data.
    pub const fn name(self) -> &'static str {
        match self {
            Self::September2019 => "2019-09",
            Self::October2019 => "2019-10",
        }
    }

    /// The published rate of a shuffle, in Gb/s a node; `None` when this one was not published.
    pub fn gbps(self, nodes: u32, message_bytes: usize) -> Option<f64> {
        rows()
            .find(|row| (row.series, row.nodes, row.message_bytes) == (self.name(), nodes, message_bytes))
            .map(|row| row.gbps)
    }
}

/// The data, with its sources.
const DATA: &str = include_str!("../../../data/omni-path-100-shuffle.csv");

struct Row {
    series: &'static str,
    nodes: u32,
    message_bytes: usize,
    gbps: f64,
}

fn rows() -> impl Iterator<Item = Row> {
    DATA.lines().filter(|line| !line.starts_with('#')).filter_map(parse)
}

fn parse(line: &'static str) -> Option<Row> {
    let mut fields = line.split(',');
    Some(Row {
        series: fields.next()?,
        nodes: fields.next()?.parse().ok()?,
        message_bytes: fields.next()?.parse().ok()?,
        gbps: fields.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_data_is_a_row() {
        let lines = DATA.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!((rows().count(), lines), (64, 64));
        assert_eq!(Series::September2019.gbps(20, 40_000), Some(35.71));
        assert_eq!(Series::October2019.gbps(160, 40_000), Some(27.6));
        assert_eq!(Series::October2019.gbps(7, 40_000), None);
    }
}
