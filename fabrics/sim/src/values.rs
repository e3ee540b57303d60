//! How the numbers of profiles and schedules are read: each kind of value has its range, and a message for
//! what lies outside.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::time::{PerByte, Picos};

/// The longest time that a profile may give, in nanoseconds: an hour.
const NANOS_MAX: f64 = 3.6e12;
/// The fastest rate: what takes less than a picosecond a byte cannot be told from nothing.
const GBPS_MAX: f64 = 8_000.0;
/// The most of anything that is counted: bytes, packets, machines.
const COUNT_MAX: u64 = 1 << 32;

fn number<'de, D: Deserializer<'de>>(deserializer: D, least: f64, most: f64) -> Result<f64, D::Error> {
    let value = f64::deserialize(deserializer)?;
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(D::Error::custom(format_args!("must be from {least} to {most}, not {value}")))
}

/// A time in nanoseconds, from 0.
pub fn nanos<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Picos, D::Error> {
    number(deserializer, 0.0, NANOS_MAX).map(Picos::from_nanos_f64)
}

/// A time in nanoseconds, from 1.
pub fn positive_nanos<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Picos, D::Error> {
    number(deserializer, 1.0, NANOS_MAX).map(Picos::from_nanos_f64)
}

/// A time in microseconds, from 0.
pub fn micros<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Picos, D::Error> {
    number(deserializer, 0.0, NANOS_MAX / 1e3).map(|micros| Picos::from_nanos_f64(micros * 1e3))
}

/// A cost in nanoseconds for each byte.
pub fn nanos_per_byte<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PerByte, D::Error> {
    number(deserializer, 0.0, NANOS_MAX).map(PerByte::of_nanos)
}

/// A rate in gigabits per second.
pub fn gbps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PerByte, D::Error> {
    let gbps = f64::deserialize(deserializer)?;
    if gbps > 0.0 && gbps <= GBPS_MAX {
        return Ok(PerByte::at_gbps(gbps));
    }
    Err(D::Error::custom(format_args!("a rate must be above 0 and at most {GBPS_MAX} Gb/s, not {gbps}")))
}

/// A number from 0 to 1.
pub fn fraction<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    number(deserializer, 0.0, 1.0)
}

/// How many, from 0.
pub fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    counted(deserializer, 0)
}

/// How many, from 1.
pub fn positive_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    counted(deserializer, 1)
}

fn counted<'de, D: Deserializer<'de>>(deserializer: D, least: u64) -> Result<usize, D::Error> {
    let value = i64::deserialize(deserializer)?;
    match u64::try_from(value) {
        Ok(count) if (least..=COUNT_MAX).contains(&count) => Ok(count as usize),
        _ => Err(D::Error::custom(format_args!("must be from {least} to {COUNT_MAX}, not {value}"))),
    }
}

/// A power of two.
pub fn power_of_two<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let count = counted(deserializer, 1)?;
    if count.is_power_of_two() {
        return Ok(count);
    }
    Err(D::Error::custom(format_args!("must be a power of two, not {count}")))
}
