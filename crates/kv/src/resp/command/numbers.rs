//! Commands on numbers, which are strings of decimal digits.
//!
//! Sums of fractions are exact as long as they have at most 17 digits behind the point, and 21 in front of
//! it: 0.1 and 0.2 are 0.3.

use super::call::{Call, Done, Refusal, string, value};
use crate::store::{Condition, Expiry};

pub fn incr(call: &mut Call<'_>) -> Done {
    add(call, 1)
}

pub fn decr(call: &mut Call<'_>) -> Done {
    add(call, -1)
}

pub fn incrby(call: &mut Call<'_>) -> Done {
    let amount = call.integer(2)?;
    add(call, amount)
}

pub fn decrby(call: &mut Call<'_>) -> Done {
    let amount = call.integer(2)?.checked_neg();
    add(call, amount.ok_or(Refusal::of("ERR decrement would overflow"))?)
}

#[inline]
fn add(call: &mut Call<'_>, amount: i64) -> Done {
    let name = call.name(1)?;
    let sum = match call.store().increment(name, amount) {
        Ok((_, sum)) => sum,
        Err(error) => {
            string(call.shard.store(), name)?;
            return Err(error.into());
        }
    };
    call.reply.integer(sum);
    Ok(())
}

pub fn incrbyfloat(call: &mut Call<'_>) -> Done {
    let name = call.name(1)?;
    let old = string(call.shard.store(), name)?;
    if old.is_some_and(|object| object.is_long()) {
        return Err(Refusal::NOT_A_FLOAT);
    }
    let old = old.map(|object| object.to_vec());
    let old = old.as_deref().unwrap_or(b"0");
    let sum = sum(old, call.args.at(2))?;
    call.store().put_until(name, value(sum.as_bytes())?, Condition::Always, Expiry::Keep)?;
    call.reply.bulk(sum.as_bytes());
    Ok(())
}

/// Digits behind the point of a sum.
const FRACTION_DIGITS: i32 = 17;

/// The sum of two numbers, as text.
pub fn sum(one: &[u8], other: &[u8]) -> Result<String, Refusal> {
    let (float, other_float) = (float(one)?, float(other)?);
    if let (Some(one), Some(other)) = (fixed(one), fixed(other))
        && let Some(sum) = one.checked_add(other)
    {
        return Ok(fixed_text(sum));
    }
    let sum = float + other_float;
    if !sum.is_finite() {
        return Err(Refusal::of("ERR increment would produce NaN or Infinity"));
    }
    let text = format!("{sum:.17}");
    Ok(text.trim_end_matches('0').trim_end_matches('.').to_owned())
}

/// A number as Redis takes it: nothing in front, nothing behind.
pub fn float(text: &[u8]) -> Result<f64, Refusal> {
    let text = core::str::from_utf8(text).map_err(|_| Refusal::NOT_A_FLOAT)?;
    let number: f64 = text.parse().map_err(|_| Refusal::NOT_A_FLOAT)?;
    // What has digits and is infinite is too large for a number.
    let is_too_large = number.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit());
    if number.is_nan() || is_too_large { Err(Refusal::NOT_A_FLOAT) } else { Ok(number) }
}

/// A number as so many of the smallest fractions, if it is exactly so many.
fn fixed(text: &[u8]) -> Option<i128> {
    let text = core::str::from_utf8(text).ok()?;
    let (digits, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let number: i128 = format!("{whole}{fraction}").parse().ok()?;
    let shift = FRACTION_DIGITS.checked_add(exponent)? - i32::try_from(fraction.len()).ok()?;
    match u32::try_from(shift) {
        Ok(shift) => number.checked_mul(10_i128.checked_pow(shift)?),
        Err(_) => {
            let divisor = 10_i128.checked_pow(shift.unsigned_abs())?;
            (number % divisor == 0).then_some(number / divisor)
        }
    }
}

fn fixed_text(number: i128) -> String {
    let unit = 10_u128.pow(FRACTION_DIGITS as u32);
    let (whole, fraction) = (number.unsigned_abs() / unit, number.unsigned_abs() % unit);
    let sign = if number < 0 { "-" } else { "" };
    let text = format!("{sign}{whole}.{fraction:017}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_where_they_can_be() {
        for (one, other, expected) in [
            ("0.1", "0.2", "0.3"),
            ("3", "1.1", "4.1"),
            ("5.0e3", "200", "5200"),
            ("17179869184", "1.5", "17179869185.5"),
            ("1", "-1.5", "-0.5"),
            ("-1", "1", "0"),
        ] {
            assert_eq!(sum(one.as_bytes(), other.as_bytes()).as_deref(), Ok(expected), "{one} {other}");
        }
        for text in ["", " 1", "1 ", "a", "0x1p", "nan", "1e309", "-1e400"] {
            assert_eq!(sum(text.as_bytes(), b"1"), Err(Refusal::NOT_A_FLOAT), "{text}");
        }
        let large = sum(b"1e300", b"1").expect("a number");
        assert!(large.starts_with("1000000000000000052504760255204420248704") && large.len() == 301);
        let infinite = Refusal::of("ERR increment would produce NaN or Infinity");
        for (one, other) in [("inf", "1"), ("1.7e308", "1.7e308"), ("inf", "-inf")] {
            assert_eq!(sum(one.as_bytes(), other.as_bytes()), Err(infinite.clone()));
        }
    }
}
