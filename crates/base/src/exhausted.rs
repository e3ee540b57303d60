//! What to do when the system has no more of something.

use std::error::Error;
use std::io;

/// Linux' numbers, which are those of all of its processors.
const NO_PROCESS: i32 = 11;
const NO_MEMORY: i32 = 12;
const NO_FILE_OF_SYSTEM: i32 = 23;
const NO_FILE: i32 = 24;
const FILE_TOO_LONG: i32 = 27;

/// The limit that an error of the system is about, if it is about one.
fn advice(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        NO_PROCESS => Some("raise the limits of processes and memory (ulimit -u, ulimit -v, pids.max)"),
        NO_MEMORY => Some("raise the limit of memory (ulimit -v)"),
        NO_FILE => Some("raise the limit of descriptors (ulimit -n)"),
        NO_FILE_OF_SYSTEM => Some("raise the system's limit of open files (fs.file-max)"),
        FILE_TOO_LONG => Some("raise the limit of file sizes (ulimit -f)"),
        _ => None,
    }
}

/// An error in its own words, and, where it comes from a limit of this process that they do not name, which
/// one that is.
pub fn explained(error: &(dyn Error + 'static)) -> String {
    let said = error.to_string();
    if said.contains("ulimit") {
        return said;
    }
    let causes = std::iter::successors(Some(error), |&error| error.source());
    let advice = causes.filter_map(|error| error.downcast_ref()).find_map(advice);
    advice.map_or(said.clone(), |advice| format!("{said}; {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("no door: {source}")]
    struct Outer {
        source: io::Error,
    }

    #[test]
    fn an_error_that_comes_from_a_limit_names_it_and_no_other_does() {
        let outer = |number| Outer { source: io::Error::from_raw_os_error(number) };
        assert!(
            explained(&outer(NO_FILE)).ends_with("(os error 24); raise the limit of descriptors (ulimit -n)")
        );
        assert!(explained(&io::Error::from_raw_os_error(NO_MEMORY)).ends_with("(ulimit -v)"));
        assert_eq!(explained(&outer(2)), "no door: No such file or directory (os error 2)");
        let said = io::Error::other("no thread (ulimit -u)");
        assert_eq!(explained(&said), "no thread (ulimit -u)");
    }
}
