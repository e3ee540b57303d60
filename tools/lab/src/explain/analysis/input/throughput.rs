//! Units of throughput, and what each may mean.

use core::fmt;

/// The unit of a throughput in bytes or bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThroughputUnit {
    /// 10^9 bits per second.
    Gigabits,
    /// 10^6 bits per second.
    Megabits,
    /// Bits per second.
    Bits,
    /// Bytes per second.
    Bytes,
    /// 10^3 or 2^10 bytes per second: not said.
    Kilobytes,
    /// 2^10 bytes per second.
    Kibibytes,
    /// 10^6 or 2^20 bytes per second: not said.
    Megabytes,
    /// 2^20 bytes per second.
    Mebibytes,
    /// 10^9 or 2^30 bytes per second: not said.
    Gigabytes,
    /// 2^30 bytes per second.
    Gibibytes,
}

impl ThroughputUnit {
    /// Bytes per second that one of the unit may be, the decimal reading first.
    pub fn readings(self) -> &'static [f64] {
        match self {
            Self::Gigabits => &[125e6],
            Self::Megabits => &[125e3],
            Self::Bits => &[0.125],
            Self::Bytes => &[1.0],
            Self::Kilobytes => &[1e3, 1024.0],
            Self::Kibibytes => &[1024.0],
            Self::Megabytes => &[1e6, 1_048_576.0],
            Self::Mebibytes => &[1_048_576.0],
            Self::Gigabytes => &[1e9, 1_073_741_824.0],
            Self::Gibibytes => &[1_073_741_824.0],
        }
    }

    /// The least bits per second that one of the unit can mean.
    pub fn bits(self) -> f64 {
        self.readings()[0] * 8.0
    }

    /// What a finding has to add to a figure that was converted: nothing where the unit is plain.
    pub fn reading_taken(self) -> String {
        match self.readings() {
            [_] => String::new(),
            readings => format!(", 1 {self} taken as {} bytes/s", readings[0]),
        }
    }
}

impl fmt::Display for ThroughputUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Gigabits => "Gb/s",
            Self::Megabits => "Mb/s",
            Self::Bits => "b/s",
            Self::Bytes => "B/s",
            Self::Kilobytes => "KB/s",
            Self::Kibibytes => "KiB/s",
            Self::Megabytes => "MB/s",
            Self::Mebibytes => "MiB/s",
            Self::Gigabytes => "GB/s",
            Self::Gibibytes => "GiB/s",
        })
    }
}
