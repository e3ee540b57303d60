//! Files in folders that others may write to as well, or have written.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use farcall::bootstrap::random_incarnation;
use rustix::fs::{Access, OFlags, access};

/// How often another name is tried when one is taken.
const NAMES_MAX: usize = 16;

/// Writes a file beside its place and renames it: a reader sees all of one version or of the other, and what
/// stands at the place, a link too, is replaced and not followed. Its permissions stay.
pub fn write_beside(path: &Path, content: &[u8]) -> io::Result<()> {
    let earlier = fs::symlink_metadata(path).ok();
    // A device or a pipe was named on purpose, and cannot be replaced.
    if earlier.as_ref().is_some_and(|earlier| !earlier.is_file() && !earlier.is_symlink()) {
        return fs::write(path, content);
    }
    let (beside, mut file) = new_beside(path)?;
    let permissions = earlier.filter(|earlier| earlier.is_file()).map(|earlier| earlier.permissions().mode());
    let written = permissions
        .map_or(Ok(()), |mode| file.set_permissions(Permissions::from_mode(mode & 0o777)))
        .and_then(|()| file.write_all(content))
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // It is ours, and of no use.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A file that was not there, in the folder of another.
fn new_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    for _ in 0..NAMES_MAX {
        let mut beside = std::ffi::OsString::from(".");
        beside.push(name);
        beside.push(format!(".{:016x}.new", random_incarnation()));
        let beside = path.with_file_name(beside);
        match create_new(&beside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (beside, file)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// The text of a file of at most `bytes_max` bytes; `None` if it is longer. What is no regular file is
/// refused: of a pipe or a device that somebody put there nothing may ever come, or no end.
pub fn read_regular(path: &Path, bytes_max: u64) -> io::Result<Option<String>> {
    // To open a pipe would wait for whoever writes to it.
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    read_at_most(file, bytes_max)
}

/// As `read_regular`, of what a user names: the input of this process is read, too, whatever it is.
pub fn read_regular_or_own(path: &Path, bytes_max: u64) -> io::Result<Option<String>> {
    let is_own = ["/dev/stdin", "/dev/fd/", "/proc/self/fd/"];
    match path.to_str().is_some_and(|path| is_own.iter().any(|own| path.starts_with(own))) {
        true => read_at_most(File::open(path)?, bytes_max),
        false => read_regular(path, bytes_max),
    }
}

fn read_at_most(file: File, bytes_max: u64) -> io::Result<Option<String>> {
    let mut text = String::new();
    let length = file.take(bytes_max + 1).read_to_string(&mut text)?;
    Ok((length as u64 <= bytes_max).then_some(text))
}

/// Makes a file where there is none, not even a link.
pub fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)
}

/// Opens a file to be appended to, and makes it if there is none; a link is refused.
pub fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)
}

/// The program of that name on the search path, or at a path of its own if the name is one.
pub fn on_search_path(program: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(is_program);
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(is_program)
}

/// The scratch folders that there are: a signal ends a process without dropping anything.
static SCRATCH: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn scratch() -> MutexGuard<'static, Vec<PathBuf>> {
    SCRATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all scratch folders of this process, which is about to be ended by a signal.
pub fn remove_scratch_folders() {
    for path in scratch().drain(..) {
        // What cannot be removed is left to the system.
        let _ = fs::remove_dir_all(path);
    }
}

/// A folder for files of this process only, which goes with this value.
#[derive(Debug)]
pub struct ScratchFolder(PathBuf);

impl ScratchFolder {
    /// Makes it where temporary files are. Nobody else can guess its name, or look into it.
    pub fn new() -> io::Result<Self> {
        for _ in 0..NAMES_MAX {
            let path = std::env::temp_dir().join(format!("farcall-{:016x}", random_incarnation()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => {
                    made?;
                    scratch().push(path.clone());
                    return Ok(Self(path));
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where a file of this name is.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system.
        let _ = fs::remove_dir_all(&self.0);
        scratch().retain(|path| *path != self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(folder: &ScratchFolder) -> Vec<String> {
        let entries = fs::read_dir(&folder.0).expect("a folder").flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_link_in_the_place_of_a_file_is_replaced_and_not_followed() {
        let folder = ScratchFolder::new().expect("a folder");
        let (victim, place) = (folder.file("victim"), folder.file("best.env"));
        fs::write(&victim, "mine").expect("room");
        symlink(&victim, &place).expect("a link");
        write_beside(&place, b"new").expect("it is written");
        assert_eq!(fs::read(&victim).expect("it is there"), b"mine");
        assert_eq!(fs::read(&place).expect("it is there"), b"new");
        assert!(fs::symlink_metadata(&place).expect("it is there").is_file());
        assert_eq!(names(&folder), ["best.env", "victim"], "nothing is left beside");
        symlink(&victim, folder.file("sessions.jsonl")).expect("a link");
        assert!(append(&folder.file("sessions.jsonl")).is_err() && create_new(&place).is_err());
    }

    #[test]
    fn a_file_that_is_written_again_keeps_its_permissions() {
        let folder = ScratchFolder::new().expect("a folder");
        let place = folder.file("result");
        write_beside(&place, b"one").expect("it is written");
        fs::set_permissions(&place, Permissions::from_mode(0o600)).expect("it is ours");
        write_beside(&place, b"two").expect("it is written");
        let mode = fs::metadata(&place).expect("it is there").permissions().mode();
        assert_eq!((mode & 0o777, fs::read(&place).expect("it is there")), (0o600, b"two".to_vec()));
    }

    #[test]
    fn only_what_can_be_started_is_a_program() {
        let folder = ScratchFolder::new().expect("a folder");
        let place = folder.file("program");
        let name = place.to_str().expect("its name is text");
        fs::write(&place, "").expect("room");
        assert_eq!(on_search_path(name), None, "nobody may start it");
        fs::set_permissions(&place, Permissions::from_mode(0o700)).expect("it is ours");
        assert_eq!(on_search_path(name).as_deref(), Some(&*place));
        assert!(on_search_path("sh").is_some_and(|shell| shell.is_absolute()));
        assert_eq!(on_search_path("a program that nobody has"), None);
    }

    #[test]
    fn a_scratch_folder_is_private_and_goes() {
        let folder = ScratchFolder::new().expect("a folder");
        let path = folder.0.clone();
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o700);
        fs::write(folder.file("x"), "y").expect("room");
        assert!(scratch().contains(&path), "a signal would have it removed");
        drop(folder);
        assert!(!path.exists() && !scratch().contains(&path));
    }
}
