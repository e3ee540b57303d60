//! What a program says, as far as anybody will read it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The most of an output that is read: what a benchmark prints by mistake in an endless loop is not worth the
/// memory.
const OUTPUT_MAX: u64 = 16 << 20;

/// The most of each stream that is kept in a log.
const LOG_MAX: usize = 256 << 10;

/// The text in a file; what is not UTF-8 is replaced.
pub(super) fn read(path: &Path) -> String {
    let mut bytes = Vec::new();
    // A file that cannot be read is an output that says nothing.
    let _ = File::open(path).and_then(|file| file.take(OUTPUT_MAX).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The end of a text, which tells more about a failure than the beginning.
pub(super) fn tail(text: &str) -> &str {
    let mut begin = text.len().saturating_sub(LOG_MAX);
    while !text.is_char_boundary(begin) {
        begin += 1;
    }
    &text[begin..]
}
