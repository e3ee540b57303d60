//! Files of objects, line by line: what `kv backup --export` and `kv export` write.
//!
//! Of a value that is longer than 1 MiB they have a line for each part, one behind the other, so that whoever
//! reads holds a part at a time. Where the value changed while it was read another line takes back what was
//! written of it: a backup has none of these.
//!
//! A file of a backup begins with what it is and which tables there are, and ends with the number of its
//! objects and a checksum of all lines before, so that one that was cut off or changed is refused before
//! anything is written. Whoever reads holds one line at a time, and of a line no more than its objects have:
//! what it says besides is passed over.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use farcall_base::printable;
use farcall_kv::store::Condition;
use farcall_kv::wire::PutPartRequest;
use farcall_kv::{Name, TABLES_MAX, TableId, Value};
use serde::Deserialize;
use serde_json::error::Category;

/// What the first line of a file says that it is.
pub const FORMAT: &str = "farcall.kv.backup.v1";

/// The longest line: base64 and escapes of JSON make a value of 1 MiB up to six times as long.
pub const LINE_BYTES_MAX: u64 = 8 << 20;

pub type KeyAndValue = (Vec<u8>, Vec<u8>);

/// Why a file is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The number of the line.
    pub line: u64,
    pub why: String,
}

/// A line that begins a file.
#[derive(Deserialize)]
struct HeaderLine {
    schema: Option<String>,
    tables: Option<Vec<TableLine>>,
}

#[derive(Deserialize)]
struct TableLine {
    table: String,
    level: String,
}

/// Any other line.
#[derive(Deserialize)]
struct ObjectLine {
    table: Option<String>,
    key: Option<String>,
    key_base64: Option<String>,
    value: Option<String>,
    value_base64: Option<String>,
    part: Option<String>,
    part_base64: Option<String>,
    value_bytes: Option<u64>,
    offset: Option<u64>,
    withdrawn: Option<bool>,
    objects: Option<u64>,
    crc32c: Option<String>,
}

impl ObjectLine {
    fn decode(line: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|error| match error.classify() {
            Category::Data => format!("it is no object: {error}"),
            Category::Io | Category::Syntax | Category::Eof => format!("it is no JSON: {error}"),
        })
    }

    fn key_and_value(mut self) -> Result<KeyAndValue, String> {
        let key = self.key()?;
        let value = bytes_of("value", self.value, self.value_base64)?;
        Value::new(&value).map_err(|error| error.to_string())?;
        Ok((key, value))
    }

    fn key(&mut self) -> Result<Vec<u8>, String> {
        let key = bytes_of("key", self.key.take(), self.key_base64.take())?;
        Name::new(TableId(0), &key).map_err(|error| error.to_string())?;
        Ok(key)
    }

    fn part(mut self) -> Result<Part, String> {
        let key = self.key()?;
        let bytes = bytes_of("part", self.part, self.part_base64)?;
        let (Some(value_bytes), Some(offset)) = (self.value_bytes, self.offset) else {
            return Err("its part has no `value_bytes` or no `offset`".to_owned());
        };
        Ok(Part { key, value_bytes, offset, bytes })
    }

    fn line(mut self) -> Result<Line, String> {
        if self.withdrawn == Some(true) {
            return self.key().map(Line::Withdrawn);
        }
        match (&self.part, &self.part_base64) {
            (None, None) => self.key_and_value().map(Line::Object),
            _ => self.part().map(Line::Part),
        }
    }
}

/// A line that says something of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    Object(KeyAndValue),
    /// A part of a value that is longer than 1 MiB.
    Part(Part),
    /// The parts that there were of this key's value are none of it.
    Withdrawn(Vec<u8>),
}

/// A part of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub key: Vec<u8>,
    /// The length of the whole value.
    pub value_bytes: u64,
    /// Where the part begins in it.
    pub offset: u64,
    pub bytes: Vec<u8>,
}

impl Part {
    /// What a shard is asked for it; the number is that of the upload.
    pub fn request(
        &self,
        table: TableId,
        condition: Condition,
        upload: u64,
    ) -> Result<PutPartRequest<'_>, String> {
        let Self { key, value_bytes, offset, bytes } = self;
        let name = Name::new(table, key).map_err(|error| error.to_string())?;
        let (value_bytes, offset) = (*value_bytes, *offset);
        Ok(PutPartRequest { name, condition, upload, value_bytes, offset, part: bytes })
    }
}

/// Bytes that are text, or in base64 where they are none.
fn bytes_of(name: &str, text: Option<String>, encoded: Option<String>) -> Result<Vec<u8>, String> {
    match (text, encoded) {
        (Some(text), None) => Ok(text.into_bytes()),
        (None, Some(encoded)) => {
            STANDARD.decode(encoded).map_err(|error| format!("`{name}_base64` is no base64: {error}"))
        }
        (Some(_), Some(_)) => Err(format!("it has both `{name}` and `{name}_base64`")),
        (None, None) => Err(format!("it has neither `{name}` nor `{name}_base64`")),
    }
}

/// A line of an export, whichever table it is of.
pub fn decode_line(line: &[u8]) -> Result<Line, String> {
    ObjectLine::decode(line)?.line()
}

/// How much there is of a value whose parts come line by line, in their order and one value at a time.
#[derive(Default)]
pub struct Gathering(Option<Part>);

impl Gathering {
    /// Why no other line than the next part may follow, if that is so.
    pub fn lacks(&self) -> Option<String> {
        let Part { key, value_bytes, offset, .. } = self.0.as_ref()?;
        let key = key.escape_ascii();
        Some(format!(
            "the next part of the value of `{key}` is missing: {offset} of {value_bytes} bytes were there"
        ))
    }

    /// Takes the next part; says whether the value is whole with it.
    pub fn take(&mut self, part: &Part) -> Result<bool, String> {
        let Part { key, value_bytes, offset, bytes } = part;
        let is_next =
            |begun: &Part| (&begun.key, begun.value_bytes, begun.offset) == (key, *value_bytes, *offset);
        match &self.0 {
            Some(begun) if !is_next(begun) => return Err(self.lacks().unwrap_or_default()),
            None if *offset > 0 => return Err("the parts in front of it are missing".to_owned()),
            _ => {}
        }
        // The number is any that a part of this place may have.
        let request = part.request(TableId(0), Condition::Always, u64::from(*offset > 0));
        if bytes.is_empty() || !request.is_ok_and(|request| request.is_part()) {
            let sentence = "it is no part of a value of more than 1 MiB: `value_bytes`, `offset` or its \
                            length is wrong";
            return Err(sentence.to_owned());
        }
        let offset = offset + bytes.len() as u64;
        let begun = Part { key: key.clone(), value_bytes: *value_bytes, offset, bytes: Vec::new() };
        self.0 = Some(begun).filter(|begun| begun.offset < begun.value_bytes);
        Ok(self.0.is_none())
    }

    /// The parts that were there of this key's value are taken back.
    pub fn take_back(&mut self, key: &[u8]) -> Result<Option<Part>, String> {
        match &self.0 {
            Some(begun) if begun.key == key => Ok(self.0.take()),
            _ => Err("it takes parts back that are not there".to_owned()),
        }
    }

    /// A part of nothing behind those that were there, if the value is not whole.
    pub fn give_up(&mut self) -> Option<Part> {
        self.0.take()
    }
}

/// The lines of a file, one at a time.
pub struct Lines<R> {
    from: R,
    number: u64,
    /// Of all lines before the last one.
    crc: u32,
    last: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub fn new(from: R) -> Self {
        Self { from, number: 0, crc: 0, last: Vec::new() }
    }

    /// The next line; `None` behind the last.
    pub fn next(&mut self) -> Result<Option<&[u8]>, Wrong> {
        self.crc = crc32c::crc32c_append(self.crc, &self.last);
        self.last.clear();
        self.number += 1;
        let read = Read::take(&mut self.from, LINE_BYTES_MAX + 1).read_until(b'\n', &mut self.last);
        read.map_err(|error| self.wrong(format!("it cannot be read: {error}")))?;
        if self.last.len() as u64 > LINE_BYTES_MAX {
            return Err(self.wrong(format!("it has more than {LINE_BYTES_MAX} bytes")));
        }
        Ok(Some(&self.last[..]).filter(|line| !line.is_empty()))
    }

    /// The number of the line that was read last.
    pub fn number(&self) -> u64 {
        self.number
    }

    fn wrong(&self, why: String) -> Wrong {
        Wrong { line: self.number, why }
    }
}

/// A file of a backup, behind its first line.
pub struct SavedObjects<R> {
    lines: Lines<R>,
    tables: BTreeMap<String, String>,
    objects: u64,
    /// A value that is not whole yet, and its table.
    gathering: (String, Gathering),
}

impl<R: BufRead> SavedObjects<R> {
    /// Reads the first line of a file.
    pub fn open(from: R) -> Result<Self, Wrong> {
        let mut lines = Lines::new(from);
        let first = lines.next()?.unwrap_or_default();
        let header: Result<HeaderLine, _> = serde_json::from_slice(first);
        let header = header.map_err(|error| {
            lines.wrong(format!("it is no file of `farcall kv backup --export`: {error}"))
        })?;
        match header.schema.as_deref() {
            Some(FORMAT) => {}
            Some(other) if other.starts_with("farcall.kv.backup.") => {
                let other = printable(other);
                let why =
                    format!("the file has format `{other}`, and this farcall understands `{FORMAT}` only");
                return Err(lines.wrong(why));
            }
            _ => {
                let why = "it is no file of `farcall kv backup --export`; `kv import` reads `kv export`";
                return Err(lines.wrong(why.to_owned()));
            }
        }
        let tables = header.tables.ok_or_else(|| lines.wrong("it names no tables".to_owned()))?;
        if tables.len() > TABLES_MAX {
            return Err(lines.wrong(format!("it names more than {TABLES_MAX} tables")));
        }
        if let Some(error) = tables.iter().find_map(|line| TableId::of(&line.table).err()) {
            return Err(lines.wrong(error.to_string()));
        }
        let tables = tables.into_iter().map(|TableLine { table, level }| (table, level)).collect();
        Ok(Self { lines, tables, objects: 0, gathering: Default::default() })
    }

    /// The next line and the table that it is of; `None` at the end, which is what was written.
    pub fn next(&mut self) -> Result<Option<(String, Line)>, Wrong> {
        let Some(line) = self.lines.next()? else {
            return Err(self.lines.wrong("the file was cut off: its end is missing".to_owned()));
        };
        let line = ObjectLine::decode(line);
        let line = line.map_err(|why| self.lines.wrong(format!("the file was damaged or cut off: {why}")))?;
        let Some(table) = line.table.clone() else { return self.end(&line).map(|()| None) };
        if !self.tables.contains_key(&table) {
            let why = "the object is of a table that the file does not name";
            return Err(self.lines.wrong(why.to_owned()));
        }
        let line = line.line().map_err(|why| self.lines.wrong(why))?;
        let is_whole = self.gather(&table, &line).map_err(|why| self.lines.wrong(why))?;
        self.objects += u64::from(is_whole);
        Ok(Some((table, line)))
    }

    /// Takes a line in its order; says whether an object is whole with it.
    fn gather(&mut self, table: &str, line: &Line) -> Result<bool, String> {
        let (of, gathering) = &mut self.gathering;
        match (gathering.lacks(), line) {
            (Some(lacks), Line::Object(_)) => return Err(lacks),
            (Some(lacks), _) if of != table => return Err(lacks),
            _ => table.clone_into(of),
        }
        match line {
            Line::Object(_) => Ok(true),
            Line::Part(part) => gathering.take(part),
            Line::Withdrawn(key) => gathering.take_back(key).map(|_| false),
        }
    }

    fn end(&mut self, line: &ObjectLine) -> Result<(), Wrong> {
        if line.crc32c.is_none() {
            return Err(self.lines.wrong("it is no object".to_owned()));
        }
        if let Some(lacks) = self.gathering.1.lacks() {
            return Err(self.lines.wrong(lacks));
        }
        let crc = format!("{:08x}", self.lines.crc);
        let is_whole = (line.objects, line.crc32c.as_deref()) == (Some(self.objects), Some(&*crc));
        if is_whole && self.lines.next()?.is_none() {
            return Ok(());
        }
        let why = "the file was damaged: what it ends with is not what was written";
        Err(self.lines.wrong(why.to_owned()))
    }
}

/// Makes sure that a file is whole; gives its tables and their levels, and how many objects it has.
pub fn verify(from: impl BufRead) -> Result<(BTreeMap<String, String>, u64), Wrong> {
    let mut saved = SavedObjects::open(from)?;
    while saved.next()?.is_some() {}
    Ok((saved.tables, saved.objects))
}

/// A file that is written, and the checksum of its lines.
pub struct Summed<W> {
    pub out: W,
    pub crc: u32,
}

impl<W: Write> Summed<W> {
    pub fn new(out: W) -> Self {
        Self { out, crc: 0 }
    }

    pub fn line(&mut self, line: &serde_json::Value) -> io::Result<()> {
        let text = format!("{line}\n");
        self.crc = crc32c::crc32c_append(self.crc, text.as_bytes());
        self.out.write_all(text.as_bytes())
    }

    /// Writes the line at the end.
    pub fn end(&mut self, objects: u64) -> io::Result<()> {
        let crc = format!("{:08x}", self.crc);
        self.line(&serde_json::json!({ "objects": objects, "crc32c": crc }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(lines: &[serde_json::Value]) -> Vec<u8> {
        let mut out = Summed::new(Vec::new());
        let tables = json!([{ "table": "t", "level": "flushed" }]);
        out.line(&json!({ "schema": FORMAT, "tables": tables })).expect("memory");
        lines.iter().for_each(|line| out.line(line).expect("memory"));
        out.end(lines.len() as u64).expect("memory");
        out.out
    }

    fn sentence(bytes: &[u8]) -> String {
        verify(bytes).expect_err("it is refused").why
    }

    #[test]
    fn a_file_that_was_changed_or_cut_off_is_refused() {
        let whole = file(&[json!({ "table": "t", "version": 1, "key": "a", "value": "b" })]);
        let tables = BTreeMap::from([("t".to_owned(), "flushed".to_owned())]);
        assert_eq!(verify(&whole[..]), Ok((tables, 1)));
        // Without the end of its last line it is whole as well.
        for at in 0..whole.len() - 1 {
            assert!(verify(&whole[..at]).is_err(), "cut at {at}");
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(verify(&damaged[..]).is_err(), "byte {at}");
        }
        let newer = String::from_utf8(whole).expect("text").replace("backup.v1", "backup.v2");
        assert!(sentence(newer.as_bytes()).contains("understands `farcall.kv.backup.v1` only"));
    }

    #[test]
    fn what_breaks_a_limit_is_refused_before_anything_is_written() {
        let of = |key: &str, value: &str| json!({ "table": "t", "key": key, "value": value });
        let (key, value) = ("k".repeat(70_000), "v".repeat((1 << 20) + 1));
        for wrong in [of(&key, "v"), of("k", &value), json!({ "table": "u", "key": "k", "value": "v" })] {
            assert_eq!(verify(&file(&[of("k", "v"), wrong])[..]).expect_err("it is refused").line, 3);
        }
        let endless = vec![b' '; LINE_BYTES_MAX as usize + 2];
        assert!(sentence(&endless).contains("has more than 8388608 bytes"));
        let tables: Vec<_> =
            (0..=TABLES_MAX).map(|number| json!({ "table": format!("t{number}"), "level": "" })).collect();
        let many = format!("{}\n", json!({ "schema": FORMAT, "tables": tables }));
        assert!(sentence(many.as_bytes()).contains("more than"));
    }

    #[test]
    fn what_a_line_says_besides_is_passed_over_and_bytes_stand_in_one_way() {
        let besides = br#"{"key":"a","value_base64":"/wA=","x":[[1,2,3],{"y":null}]}"#;
        assert_eq!(decode_line(besides), Ok(Line::Object((b"a".to_vec(), vec![0xff, 0]))));
        for wrong in [
            r#"{"key":"a"}"#,
            r#"{"key":"a","key_base64":"YQ==","value":"b"}"#,
            r#"{"key":1,"value":"b"}"#,
            r#"{"key_base64":"?","value":"b"}"#,
            "[]",
            "",
        ] {
            assert!(decode_line(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_line_may_be_a_part_of_a_value_or_take_parts_back() {
        let part = Part { key: b"a".to_vec(), value_bytes: 9, offset: 4, bytes: vec![0xff, 0] };
        let line = br#"{"key":"a","value_bytes":9,"offset":4,"part_base64":"/wA="}"#;
        assert_eq!(decode_line(line), Ok(Line::Part(part)));
        let line = br#"{"key_base64":"/wA=","withdrawn":true}"#;
        assert_eq!(decode_line(line), Ok(Line::Withdrawn(vec![0xff, 0])));
        for wrong in [
            r#"{"key":"a","offset":4,"part":"b"}"#,
            r#"{"key":"a","value_bytes":9,"part":"b"}"#,
            r#"{"key":"a","value_bytes":9,"offset":-1,"part":"b"}"#,
            r#"{"value_bytes":9,"offset":4,"part":"b"}"#,
            r#"{"key":"a","value_bytes":9,"offset":4,"part":"b","part_base64":"Yg=="}"#,
            r#"{"withdrawn":true}"#,
            r#"{"key":"a","withdrawn":false}"#,
        ] {
            assert!(decode_line(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_backup_with_a_value_that_is_not_whole_is_refused() {
        const BYTES: usize = (2 << 20) + 5;
        let of = |table: &str, key: &str, offset: usize, bytes: usize| {
            let part = "x".repeat(bytes);
            json!({ "table": table, "key": key, "value_bytes": BYTES, "offset": offset, "part": part })
        };
        let all: Vec<_> = (0..BYTES).step_by(256 << 10).collect();
        let part = |at: &usize| of("t", "k", *at, (BYTES - at).min(256 << 10));
        let lines: Vec<_> = all.iter().map(part).collect();
        let written = |lines: &[serde_json::Value], objects: u64| {
            let mut out = Summed::new(Vec::new());
            let tables = json!([{ "table": "t", "level": "flushed" }, { "table": "u", "level": "flushed" }]);
            out.line(&json!({ "schema": FORMAT, "tables": tables })).expect("memory");
            lines.iter().for_each(|line| out.line(line).expect("memory"));
            out.end(objects).expect("memory");
            out.out
        };
        assert_eq!(verify(&written(&lines, 1)[..]).map(|(_, objects)| objects), Ok(1));
        let lacks = "the next part of the value of `k` is missing: 1048576 of 2097157 bytes were there";
        let other = |line: serde_json::Value| [&lines[..4], &[line], &lines[4..]].concat();
        for (broken, why) in [
            (lines[..4].to_vec(), lacks),
            ([&lines[..4], &lines[5..]].concat(), lacks),
            (other(json!({ "table": "t", "key": "a", "value": "b" })), lacks),
            (other(of("t", "j", 1 << 20, 256 << 10)), lacks),
            (other(of("u", "k", 1 << 20, 256 << 10)), lacks),
            (lines[1..].to_vec(), "the parts in front of it are missing"),
            (other(of("t", "k", 1 << 20, 5)), "it is no part of a value of more than 1 MiB"),
        ] {
            let found = verify(&written(&broken, 1)[..]).expect_err("it is refused");
            assert!(found.why.contains(why), "{}", found.why);
        }
        // One object too many, or none, is not what was written.
        for objects in [0, 2] {
            assert!(verify(&written(&lines, objects)[..]).is_err());
        }
    }
}
