//! Interval logs of HdrHistogram (`.hlog`): a line for each interval, with its histogram in base64 of zlib.
//!
//! The histograms are decoded here, because a file of others must not decide how much memory is taken, and
//! because what is damaged is left out and said. The format is V2 of HdrHistogram's `encodeIntoByteBuffer`:
//! a header of 40 bytes, then counts as zigzag LEB128, in which a negative one is a run of zeros.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

use super::{Imported, Row, table};
use crate::statistics::histogram::samples_needed;

/// Marks a histogram, and one that is compressed; the low bits of a byte say how wide words are.
const COOKIE: u32 = 0x1c84_9303;
const COMPRESSED_COOKIE: u32 = 0x1c84_9304;
const COOKIE_MASK: u32 = !0xf0;

/// The header of a histogram.
const HEADER_BYTES: usize = 40;

/// The longest histogram that is decoded: a range of 64 bits at five digits has less.
const HISTOGRAM_BYTES_MAX: usize = 16 << 20;

/// The most digits that a histogram keeps.
const DIGITS_MAX: u32 = 5;

/// Shares that a row takes from a histogram, as far as its samples support them.
const SHARES: [f64; 6] = [0.5, 0.75, 0.9, 0.99, 0.999, 0.9999];

/// One row for each interval that has samples.
pub fn read(text: &str) -> Option<Imported> {
    if !text.lines().take_while(|line| !is_interval(line)).any(is_title) {
        return None;
    }
    let intervals = text.lines().enumerate().filter(|(_, line)| is_interval(line));
    let (mut rows, mut damaged) = (Vec::new(), 0);
    for (index, line) in intervals {
        match interval(index + 1, line) {
            Some(row) => rows.extend(row),
            None => damaged += 1,
        }
    }
    let mut readings = vec!["values are nanoseconds: interval logs do not say".to_owned()];
    if damaged > 0 {
        readings.push(format!("{damaged} intervals are left out, because they could not be decoded"));
    }
    let readings: Vec<_> = readings.iter().map(String::as_str).collect();
    (!rows.is_empty()).then(|| table(rows, &readings))
}

fn is_title(line: &str) -> bool {
    line.starts_with("#[Histogram log format") || line.starts_with("\"StartTimestamp\",")
}

fn is_interval(line: &str) -> bool {
    line.starts_with("Tag=") || line.starts_with(|c: char| c.is_ascii_digit())
}

/// `Tag=a,0.127,1.007,2.769,HISTF…`: no row without samples, `None` when it is damaged.
fn interval(number: usize, line: &str) -> Option<Option<Row>> {
    let (tag, rest) = match line.strip_prefix("Tag=") {
        Some(tagged) => tagged.split_once(',').map(|(tag, rest)| (Some(tag), rest))?,
        None => (None, line),
    };
    let mut cells = rest.trim_end().split(',');
    let (_start, length, _max, encoded) = (cells.next()?, cells.next()?, cells.next()?, cells.next()?);
    let histogram = Histogram::decode(encoded)?;
    let samples = histogram.samples();
    if samples == 0 {
        return Some(None);
    }
    let mut row = Row::at(number);
    row.set("tag", tag);
    row.set("duration_s", Some(length));
    row.set("samples", Some(&samples.to_string()));
    row.set("min_ns", histogram.value_at(0.0).map(|value| value.to_string()).as_deref());
    row.set("mean_ns", Some(&format!("{:.1}", histogram.mean())));
    for share in SHARES.into_iter().filter(|share| samples >= samples_needed(*share)) {
        let value = histogram.value_at(share).map(|value| value.to_string());
        row.set(&format!("p{}_ns", share * 100.0), value.as_deref());
    }
    row.set("max_ns", histogram.value_at(1.0).map(|value| value.to_string()).as_deref());
    Some(Some(row))
}

/// Values and how often each came, rising.
#[derive(Debug, PartialEq)]
struct Histogram(Vec<(u64, u64)>);

impl Histogram {
    fn decode(encoded: &str) -> Option<Self> {
        let compressed = STANDARD.decode(encoded.trim()).ok()?;
        if word(&compressed, 0)? & COOKIE_MASK != COMPRESSED_COOKIE & COOKIE_MASK {
            return None;
        }
        let bytes = decompress_to_vec_zlib_with_limit(compressed.get(8..)?, HISTOGRAM_BYTES_MAX).ok()?;
        if word(&bytes, 0)? & COOKIE_MASK != COOKIE & COOKIE_MASK {
            return None;
        }
        let (payload, normalized, digits) = (word(&bytes, 4)?, word(&bytes, 8)?, word(&bytes, 12)?);
        let lowest = (u64::from(word(&bytes, 16)?) << 32) | u64::from(word(&bytes, 20)?);
        let counts = bytes.get(HEADER_BYTES..)?.get(..payload as usize)?;
        if normalized != 0 || digits > DIGITS_MAX {
            return None;
        }
        Scale::new(digits, lowest).values(counts).map(Self)
    }

    fn samples(&self) -> u64 {
        self.0.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count))
    }

    fn mean(&self) -> f64 {
        self.0.iter().map(|(value, count)| *value as f64 * *count as f64).sum::<f64>() / self.samples() as f64
    }

    /// The value that this share of the samples does not exceed.
    fn value_at(&self, share: f64) -> Option<u64> {
        let wanted = (share * self.samples() as f64).ceil().max(1.0) as u64;
        let mut seen = 0_u64;
        let reached = self.0.iter().find(|(_, count)| {
            seen = seen.saturating_add(*count);
            seen >= wanted
        });
        reached.or(self.0.last()).map(|(value, _)| *value)
    }
}

/// Which value each place of the counts stands for.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// The lowest bits that values do not have.
    unit_bits: u32,
    /// Half of the places of a bucket, as a power of two.
    half_bits: u32,
}

impl Scale {
    fn new(digits: u32, lowest: u64) -> Self {
        let exact: u64 = 2 * 10_u64.pow(digits.min(DIGITS_MAX));
        let half_bits = exact.next_power_of_two().trailing_zeros().max(1) - 1;
        Self { unit_bits: lowest.max(1).ilog2(), half_bits }
    }

    /// The middle of the values that share a place; `None` beyond 64 bits.
    fn value(self, place: u64) -> Option<u64> {
        let half = 1_u64 << self.half_bits;
        let bucket = (place >> self.half_bits).saturating_sub(1);
        let within = if place < half { place } else { (place & (half - 1)) + half };
        let shift = u32::try_from(bucket).ok()?.checked_add(self.unit_bits)?;
        let value = u128::from(within).checked_shl(shift).filter(|_| shift < 64)?;
        let middle = value + ((1_u128 << shift) >> 1);
        u64::try_from(middle).ok()
    }

    /// The values of all places with counts; `None` when the bytes are no counts.
    fn values(self, mut bytes: &[u8]) -> Option<Vec<(u64, u64)>> {
        let (mut values, mut place) = (Vec::new(), 0_u64);
        while !bytes.is_empty() {
            let (number, rest) = zigzag(bytes)?;
            bytes = rest;
            if number > 0 {
                values.push((self.value(place)?, number.unsigned_abs()));
            }
            place = place.checked_add(if number < 0 { number.unsigned_abs() } else { 1 })?;
        }
        Some(values)
    }
}

/// A big-endian word.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}

/// The first number, and the bytes behind it: seven bits a byte, the ninth byte whole.
fn zigzag(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let mut value = 0_u64;
    for (place, byte) in bytes.iter().enumerate().take(9) {
        let is_last = place == 8 || byte & 0x80 == 0;
        let bits = if place == 8 { *byte } else { byte & 0x7f };
        value |= u64::from(bits) << (7 * place);
        if is_last {
            let number = (value >> 1) as i64 ^ -((value & 1) as i64);
            return Some((number, &bytes[place + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use miniz_oxide::deflate::compress_to_vec_zlib;

    use super::*;

    /// The line of an interval whose counts are these numbers, before they are zigzag.
    fn line(tag: &str, digits: u32, numbers: &[i64]) -> String {
        let mut payload = Vec::new();
        for number in numbers {
            let mut zigzag = ((number << 1) ^ (number >> 63)) as u64;
            while zigzag >= 0x80 {
                payload.push(zigzag as u8 | 0x80);
                zigzag >>= 7;
            }
            payload.push(zigzag as u8);
        }
        let mut bytes = Vec::new();
        let header = [COOKIE, payload.len() as u32, 0, digits, 0, 1, 0, 3_600_000, 0x3ff0_0000, 0];
        header.iter().for_each(|word| bytes.extend(word.to_be_bytes()));
        bytes.extend(payload);
        let compressed = compress_to_vec_zlib(&bytes, 6);
        let mut all = COMPRESSED_COOKIE.to_be_bytes().to_vec();
        all.extend((compressed.len() as u32).to_be_bytes());
        all.extend(compressed);
        format!("{tag}0.127,1.007,2.769,{}\n", STANDARD.encode(all))
    }

    const TITLE: &str = "#[Histogram log format version 1.3]\n\"StartTimestamp\",\"Interval_Length\"\n";

    #[test]
    fn an_interval_is_a_row_of_what_its_samples_support() {
        // 100 times 10, 200 times 20, and one in the second bucket: place 2048 + 1 stands for 2050 and 2051.
        let counts = [-10, 100, -9, 200, -2028, 1];
        let table =
            read(&format!("{TITLE}{}", line("Tag=a,", 3, &counts))).expect("a log").expect("few cells");
        let headings = [
            "tag",
            "duration_s",
            "samples",
            "min_ns",
            "mean_ns",
            "p50_ns",
            "p75_ns",
            "p90_ns",
            "p99_ns",
            "max_ns",
        ];
        assert_eq!(table.headings, headings);
        assert_eq!(table.rows[0].1, ["a", "1.007", "301", "10", "23.4", "20", "20", "20", "20", "2051"]);
    }

    #[test]
    fn the_same_histogram_is_read_as_its_own_library_keeps_it() {
        let mut kept =
            hdrhistogram::Histogram::<u64>::new_with_bounds(1, 3_600_000, 3).expect("valid bounds");
        let scale = Scale::new(3, 1);
        for value in [0, 1, 2047, 2048, 4095, 4096, 100_000, 3_000_000] {
            kept.record(value).expect("in range");
            let place =
                (0..20_000).find(|place| scale.value(*place).is_some_and(|own| kept.equivalent(own, value)));
            assert!(place.is_some(), "{value} has a place");
        }
    }

    #[test]
    fn damaged_intervals_are_counted_and_left_out() {
        let good = line("", 3, &[-5, 40]);
        let cut = format!("{}\n", &good[..good.len() - 12]);
        let table =
            read(&format!("{TITLE}{good}{cut}5.0,1.0,1.0,!\nTag=x\n")).expect("a log").expect("few cells");
        assert_eq!(table.rows.len(), 1);
        assert!(table.readings.iter().any(|reading| reading.starts_with("3 intervals")), "{table:?}");
        assert_eq!(read(&good), None);
    }

    #[test]
    fn numbers_and_places_beyond_their_width_are_refused() {
        let scale = Scale::new(3, 1);
        assert_eq!(scale.values(&[0xff; 8]), None, "a number that is cut");
        let far = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(scale.values(&far), Some(Vec::new()), "the longest run of zeros");
        assert_eq!(scale.values(&[&far[..], &[2]].concat()), None, "a count behind it");
        assert_eq!(scale.values(&[&far[..], &far[..]].concat()), None, "two such runs");
        assert_eq!((scale.value(u64::MAX), Scale::new(5, u64::MAX).value(2)), (None, None));
    }
}
