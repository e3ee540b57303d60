//! Integers in decimal digits: how numbers are stored, and how the Redis protocol writes them.

/// The longest number has a sign and 19 digits.
pub const DIGITS_MAX: usize = 20;

/// A number in its one form: a sign, and digits without zeros in front.
#[inline]
pub fn parse(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, text),
    };
    match digits {
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut number: u64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number * 10 + u64::from(digit - b'0');
    }
    match is_negative {
        false => i64::try_from(number).ok(),
        true if number == 1 << 63 => Some(i64::MIN),
        true => i64::try_from(number).ok().map(|number| -number),
    }
}

/// Writes a number into memory; gives where it is.
#[inline]
pub fn write(number: i64, to: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut at = DIGITS_MAX;
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        to[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        to[at] = b'-';
    }
    &to[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_form() {
        for (text, number) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("99999999999999999999", None),
            ("+1", None),
            ("01", None),
            ("-0", None),
            ("", None),
            ("-", None),
            ("1 ", None),
        ] {
            assert_eq!(parse(text.as_bytes()), number, "{text}");
        }
    }

    #[test]
    fn numbers_are_written_in_full() {
        for number in [0, 9, 10, -1, i64::MAX, i64::MIN] {
            assert_eq!(write(number, &mut [0; DIGITS_MAX]), number.to_string().as_bytes());
        }
    }
}
