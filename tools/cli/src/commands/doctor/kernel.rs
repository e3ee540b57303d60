//! What the kernel says in files, read below a folder that stands for `/`, so that tests can be other
//! machines.

use std::fs;
use std::path::PathBuf;

/// The files of a kernel.
pub struct Kernel {
    root: PathBuf,
}

impl Kernel {
    /// Those of this machine.
    pub fn of_this_machine() -> Self {
        Self { root: PathBuf::from("/") }
    }

    /// The text of a file without its line end; `None` where it cannot be read.
    pub fn text(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.place(path)).ok()?;
        Some(text.trim().to_owned())
    }

    /// The number in a file.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// Where a link leads.
    pub fn link(&self, path: &str) -> Option<String> {
        Some(fs::read_link(self.place(path)).ok()?.to_str()?.to_owned())
    }

    /// The names in a folder, in order.
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.place(path)).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.filter_map(|entry| entry.file_name().to_str().map(str::to_owned)).collect();
        names.sort_unstable();
        names
    }

    /// What stands behind `name` at the begin of a line, and behind the colon where there is one.
    pub fn field(&self, path: &str, name: &str) -> Option<String> {
        let text = self.text(path)?;
        let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix([':', ' ', '\t']))?;
        Some(rest.trim().to_owned())
    }

    /// Bytes that programs may still take without others being pushed out.
    pub fn memory_available(&self) -> Option<u64> {
        let text = self.field("/proc/meminfo", "MemAvailable")?;
        let kib: u64 = text.split_whitespace().next()?.parse().ok()?;
        kib.checked_mul(1024)
    }

    fn place(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

/// The choice in brackets: of `always [madvise] never` it is `madvise`.
pub fn chosen(text: &str) -> &str {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text, |(word, _)| word)
}

/// Numbers of a list such as `0-3,8`.
pub fn numbers(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        Some(first..=last)
    };
    list.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A folder with these files; taken away when this is dropped.
    pub struct Machine {
        pub kernel: Kernel,
    }

    impl Machine {
        pub fn of(name: &str, files: &[(&str, &str)]) -> Self {
            let folder = format!("farcall-doctor-{}-{name}", std::process::id());
            let kernel = Kernel { root: std::env::temp_dir().join(folder) };
            for (path, text) in files {
                let place = kernel.place(path);
                fs::create_dir_all(place.parent().expect("below the root")).expect("a folder");
                fs::write(place, text).expect("a file");
            }
            Self { kernel }
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            // A machine without files has no folder.
            let _ = fs::remove_dir_all(&self.kernel.root);
        }
    }

    #[test]
    fn fields_choices_and_lists_are_read() {
        let machine = Machine::of("fields", &[("/a", "ab 3\nb: 4\n"), ("/d/x", "7\n")]);
        let kernel = &machine.kernel;
        assert_eq!(kernel.field("/a", "b").as_deref(), Some("4"));
        assert_eq!(kernel.field("/a", "ab").as_deref(), Some("3"));
        assert_eq!((kernel.field("/a", "a"), kernel.text("/none")), (None, None));
        assert_eq!((kernel.number("/d/x"), kernel.names("/d")), (Some(7), vec!["x".to_owned()]));
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(numbers("0-2,8"), [0, 1, 2, 8]);
        assert_eq!(numbers("").len(), 0);
    }
}
