//! The files of a checkout, and what a rule has to say about one of them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that belong to nobody's sources.
const SKIPPED_FOLDERS: [&str; 6] = ["target", ".git", "artifacts", "corpus", "seeds", "results"];

/// The checked kinds of files, by the end of their names; scripts have none.
const SUFFIXES: [&str; 5] = [".rs", ".md", ".toml", ".txt", "Makefile"];

/// A file of the checkout.
pub struct File {
    /// The path from the root, with `/`.
    pub path: String,
    /// Its content.
    pub text: String,
}

impl File {
    /// Whether it is a Rust source.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether it is a page of documentation.
    pub fn is_page(&self) -> bool {
        self.path.ends_with(".md")
    }

    /// Whether it is part of a product: below `src` of a crate, and neither a test, a fuzz target nor a conformance
    /// suite.
    pub fn is_product(&self) -> bool {
        let mut folders = self.path.split('/');
        let name = folders.next_back().unwrap_or_default();
        self.is_rust()
            && !self.path.starts_with("fuzz/")
            && name != "tests.rs"
            && folders.clone().any(|folder| folder == "src")
            && !folders
                .any(|folder| matches!(folder, "tests" | "testing" | "conformance" | "benches" | "examples"))
    }

    /// Whether it tells the past and so keeps its words.
    pub fn is_history(&self) -> bool {
        self.path.starts_with("docs/performance/20")
    }

    /// The crate that it is in, such as `crates/driver`; the first folder outside of the streets.
    pub fn owner(&self) -> &str {
        let depth = if ["crates/", "fabrics/", "tools/"].iter().any(|street| self.path.starts_with(street)) {
            2
        } else {
            1
        };
        let end = self.path.match_indices('/').nth(depth - 1).map_or(self.path.len(), |(at, _)| at);
        &self.path[..end]
    }
}

/// A checkout.
pub struct Tree {
    /// Its root.
    pub root: PathBuf,
    /// Its files, in the order of their paths.
    pub files: Vec<File>,
}

impl Tree {
    /// Reads the checkout that this crate is in.
    ///
    /// # Panics
    ///
    /// If a file cannot be read.
    pub fn of_this_checkout() -> Self {
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root is there");
        let mut files = Vec::new();
        read_folder(&root, &root, &mut files);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { root, files }
    }

    /// A tree of files that are not on disk, for tests of rules.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File { path: (*path).to_owned(), text: (*text).to_owned() };
        let mut files: Vec<_> = files.iter().map(file).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { root: PathBuf::new(), files }
    }

    /// The file at a path.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn file(&self, path: &str) -> &File {
        self.files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("{path} is missing"))
    }

    /// Whether there is a file or a folder at a path.
    pub fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.root.join(path).exists() && !self.root.as_os_str().is_empty()
            || self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }
}

fn read_folder(root: &Path, folder: &Path, files: &mut Vec<File>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let entry = entry.expect("the entry can be read");
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if entry.file_type().expect("the kind is known").is_dir() {
            if !SKIPPED_FOLDERS.contains(&name.as_str()) {
                read_folder(root, &path, files);
            }
        } else if SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) || folder.ends_with("scripts") {
            let path_of =
                path.strip_prefix(root).expect("it is below the root").to_string_lossy().replace('\\', "/");
            files.push(File { path: path_of, text: fs::read_to_string(&path).expect("it is text") });
        }
    }
}

/// What a rule found.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what to do.
    pub what: String,
}

impl Finding {
    /// A finding at a line of a file.
    pub fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}
