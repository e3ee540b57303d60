//! Files of objects: any bytes, and any lines between a first and a last one that are right.

#[path = "../../tools/cli/src/commands/kv/saved.rs"]
mod decoder;

use decoder::{FORMAT, Gathering, Line, Lines, Part, SavedObjects, Summed, decode_line, verify};
use farcall_kv::{KEY_BYTES_MAX, TABLES_MAX, VALUE_BYTES_MAX};

/// The first line of a file of tables `t` and `u`.
const HEADER: &str = concat!(
    r#"{"schema":"farcall.kv.backup.v1","tables":["#,
    r#"{"table":"t","level":"flushed"},{"table":"u","level":"memory"}]}"#
);

/// What is taken is within the limits, no more than there is, and the same when it is read again.
pub fn run(bytes: &[u8]) {
    check(bytes);
    check(&with_ends(bytes));
    import(bytes);
}

/// A file whose first and last line are what they should be.
fn with_ends(lines: &[u8]) -> Vec<u8> {
    assert!(HEADER.contains(FORMAT));
    let mut file = format!("{HEADER}\n").into_bytes();
    file.extend_from_slice(lines);
    if file.last() != Some(&b'\n') {
        file.push(b'\n');
    }
    let is_whole = |line: &&[u8]| match decode_line(line) {
        Ok(Line::Part(part)) => part.offset.checked_add(part.bytes.len() as u64) == Some(part.value_bytes),
        line => !matches!(line, Ok(Line::Withdrawn(_))),
    };
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let objects = lines.filter(is_whole).count();
    let mut end = Summed::new(Vec::new());
    end.crc = crc32c::crc32c(&file);
    end.end(objects as u64).expect("memory");
    file.extend_from_slice(&end.out);
    file
}

fn check(file: &[u8]) {
    let Ok((tables, objects)) = verify(file) else { return };
    assert!(tables.len() <= TABLES_MAX);
    let mut again = SavedObjects::open(file).expect("it was taken");
    let (mut count, mut bytes) = (0, 0);
    // The value that is not whole yet.
    let mut begun: Option<(Vec<u8>, u64)> = None;
    while let Some((table, line)) = again.next().expect("it was taken") {
        assert!(tables.contains_key(&table), "its table is named");
        let key = match line {
            Line::Object((key, value)) => {
                assert!(value.len() <= VALUE_BYTES_MAX && begun.is_none());
                count += 1;
                bytes += value.len();
                key
            }
            Line::Part(Part { key, value_bytes, offset, bytes: part }) => {
                assert!(begun.take().map_or(offset == 0, |begun| begun == (key.clone(), offset)));
                let end = offset + part.len() as u64;
                begun = Some((key.clone(), end)).filter(|_| end < value_bytes);
                count += u64::from(begun.is_none());
                bytes += part.len();
                key
            }
            Line::Withdrawn(key) => {
                assert!(begun.take().is_some_and(|(begun, _)| begun == key));
                key
            }
        };
        assert!((1..=KEY_BYTES_MAX).contains(&key.len()));
        bytes += key.len();
    }
    assert!(count == objects && begun.is_none());
    assert!(bytes <= file.len(), "no line has more than it says");
    // Of a file that is whole nothing can be missing at its end.
    assert!(verify(&file[..file.len() - 2]).is_err(), "its end is damaged");
}

fn import(bytes: &[u8]) {
    let mut lines = Lines::new(bytes);
    let (mut gathering, mut is_whole) = (Gathering::default(), true);
    while let Ok(Some(line)) = lines.next() {
        let bytes = match decode_line(line) {
            Ok(Line::Object((key, value))) => key.len() + value.len(),
            Ok(Line::Part(part)) => {
                if let Ok(whole) = gathering.take(&part) {
                    is_whole = whole;
                }
                part.key.len() + part.bytes.len()
            }
            Ok(Line::Withdrawn(key)) => key.len(),
            Err(_) => continue,
        };
        assert!(bytes <= line.len(), "no line has more than it says");
    }
    assert!(lines.number() <= bytes.len() as u64 + 1, "each line has a byte");
    let rest = gathering.give_up();
    assert_eq!(rest.is_none(), is_whole, "what is not whole is known");
    assert!(rest.is_none_or(|part| part.offset < part.value_bytes));
}
