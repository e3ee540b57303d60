//! Whose processes are measured: this program's, or those of another build of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use farcall::bootstrap::own_executable;

/// A program that can be made a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program(Option<PathBuf>);

/// Why a file cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// It cannot be looked at.
    #[error("{path}: {why}")]
    NotThere {
        /// The file that was asked for.
        path: String,
        /// The system's words.
        why: String,
    },
    /// It is no file that can be run.
    #[error("{path} is no program: it must be another build of farcall")]
    NotExecutable {
        /// The file that was asked for.
        path: String,
    },
}

impl Program {
    /// This program.
    pub const THIS: Self = Self(None);

    /// Another build of this program. Whether it is one shows when it is given its first job.
    pub fn other(path: &Path) -> Result<Self, ProgramError> {
        let named = || path.display().to_string();
        let not_there =
            |error: std::io::Error| ProgramError::NotThere { path: named(), why: error.to_string() };
        let whole = path.canonicalize().map_err(not_there)?;
        let what = fs::metadata(&whole).map_err(not_there)?;
        if !what.is_file() || what.permissions().mode() & 0o111 == 0 {
            return Err(ProgramError::NotExecutable { path: named() });
        }
        Ok(Self(Some(whole)))
    }

    /// The file to start, which is this program's even if another has been put in its place meanwhile.
    pub(crate) fn path(&self) -> PathBuf {
        self.0.clone().unwrap_or_else(own_executable)
    }

    /// What stands behind the name of one of its processes in an error: nothing for this program's.
    pub(crate) fn suffix(&self) -> String {
        self.0.as_ref().map_or_else(String::new, |path| format!(" ({})", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_run_is_a_program() {
        let missing = Program::other(Path::new("/nowhere/farcall")).expect_err("there is no such file");
        assert_eq!(missing.to_string(), "/nowhere/farcall: No such file or directory (os error 2)");
        let folder = Program::other(Path::new("/proc")).expect_err("a folder");
        assert_eq!(folder.to_string(), "/proc is no program: it must be another build of farcall");
        assert!(Program::other(Path::new("/proc/self/status")).is_err(), "a file that cannot be run");
        let this = Program::other(Path::new("/proc/self/exe")).expect("this program");
        assert!(this.path().is_absolute() && this.suffix().starts_with(" (/"));
        assert_eq!(
            (Program::THIS.path(), Program::THIS.suffix()),
            (PathBuf::from("/proc/self/exe"), String::new())
        );
    }
}
