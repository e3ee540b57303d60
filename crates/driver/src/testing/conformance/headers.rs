//! Declarations of a C library against the library's own headers.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Asserts that expressions of C have the values given with them, by the headers named. False where the
/// headers or a C compiler are not installed.
///
/// A small program prints sizes, offsets and constants; nothing is linked against the library.
pub fn agree_with_headers(headers: &[&str], compared: &[(&str, u64)]) -> bool {
    let includes: String = headers.iter().map(|header| format!("#include <{header}>\n")).collect();
    let prints: String = compared
        .iter()
        .map(|(expression, _)| format!("printf(\"%llu\\n\", (unsigned long long)({expression}));\n"))
        .collect();
    let source = format!(
        "#include <stdio.h>\n#include <stddef.h>\n{includes}int main(void) {{\n{prints}return 0; }}\n"
    );
    let Some(printed) = output_of(&source) else { return false };
    assert_eq!(printed.lines().count(), compared.len());
    for ((expression, here), there) in compared.iter().zip(printed.lines()) {
        assert_eq!(here.to_string(), there, "{expression}");
    }
    true
}

/// What a C program prints; `None` when it cannot be compiled.
fn output_of(source: &str) -> Option<String> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("farcall-headers-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let (file, program) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&file, source).expect("room");
    let compiled = Command::new("cc").arg(&file).arg("-o").arg(&program).output();
    let printed = compiled
        .ok()
        .filter(|compiled| compiled.status.success())
        .map(|_| Command::new(&program).output().expect("it was compiled").stdout);
    std::fs::remove_dir_all(&folder).expect("it was created above");
    printed.map(|bytes| String::from_utf8(bytes).expect("numbers"))
}
