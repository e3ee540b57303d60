//! What `farcall compare` needs of the folder for temporary files, and says of the rows that write there.

use core::time::Duration;

use farcall_lab::compare::BudgetRow;
use farcall_lab::run::recovery;
use farcall_lab::units::Size;
use rustix::fs::statvfs;

use crate::ahead::checks;
use crate::ahead::memory::{free_bytes, memory_words};
use crate::failure::Failure;

/// The length of a log that the absolute budget is of.
const BUDGET_BYTES: usize = 1 << 30;

/// Both sides of a block read the log once; so much of it a second, about.
const BYTES_PER_SECOND: u64 = 500 << 20;

/// Refuses rows for which there is no room.
pub fn check(rows: &[BudgetRow]) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    if rows.iter().any(BudgetRow::needs_folder) {
        wrong.extend(checks::temporary_files().err());
    }
    for bytes in rows.iter().filter_map(BudgetRow::log_bytes) {
        wrong.extend(fits(bytes as u64, free_on_disk(), free_bytes()).err());
    }
    Failure::all(wrong)
}

/// What the folder for temporary files may still take, as far as the system says.
fn free_on_disk() -> Option<u64> {
    let system = statvfs(std::env::temp_dir()).ok()?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}

/// Whether a log of this many bytes has room on the disk, and its objects in memory.
fn fits(bytes: u64, disk: Option<u64>, memory: Option<u64>) -> Result<(), Failure> {
    let (on_disk, in_memory) = (recovery::disk_bytes(bytes), recovery::memory_bytes(bytes));
    let size = Size(bytes as usize);
    if let Some(free) = disk.filter(|free| *free < on_disk) {
        return Err(Failure::Run(format!(
            "--log-size: a log of {size} takes some {} in {}, which has {} free; give it less, or name another folder with \
             TMPDIR",
            memory_words(on_disk),
            std::env::temp_dir().display(),
            memory_words(free)
        )));
    }
    if let Some(free) = memory.filter(|free| *free < in_memory) {
        return Err(Failure::Run(format!(
            "--log-size: the objects of a log of {size} take up to {} of memory, and this machine has {} free; give it \
             less",
            memory_words(in_memory),
            memory_words(free)
        )));
    }
    Ok(())
}

/// How long both sides of a block of a recovery last, about.
pub fn recoveries_last(bytes: usize) -> Duration {
    Duration::from_secs_f64(2.0 * bytes as f64 / BYTES_PER_SECOND as f64)
}

/// What is to be known of the rows that write to the disk.
pub fn heading<'a>(rows: impl Iterator<Item = &'a BudgetRow> + Clone) -> Vec<String> {
    let mut lines = Vec::new();
    if rows.clone().any(BudgetRow::is_of_disk) {
        let folder = std::env::temp_dir();
        lines.push(format!("# what is flushed, and logs, are in {}", folder.display()));
        lines.extend(checks::no_disk().map(|what| format!("# warning: {what}")));
    }
    if let Some(bytes) = rows.filter_map(BudgetRow::log_bytes).find(|&bytes| bytes != BUDGET_BYTES) {
        let (size, whole) = (Size(bytes), Size(BUDGET_BYTES));
        lines.push(format!(
            "# the log of the row recovery{size} has {size}; --log-size {whole} is that of the budget of 1.5 s"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_without_room_is_refused_with_what_helps() {
        let said = |disk, memory| {
            let refused = fits(1 << 30, Some(disk), Some(memory)).err();
            refused.map_or_else(String::new, |failure| failure.sentences().concat())
        };
        assert_eq!(said(4 << 30, 4 << 30), "");
        let on_disk = said(1 << 29, 4 << 30);
        assert!(on_disk.starts_with("--log-size: a log of 1G takes some 1.0 GiB in "), "{on_disk}");
        assert!(
            on_disk.contains("which has 512 MiB free; give it less, or name another folder"),
            "{on_disk}"
        );
        let in_memory = said(4 << 30, 1 << 30);
        assert!(
            in_memory.ends_with("of memory, and this machine has 1.0 GiB free; give it less"),
            "{in_memory}"
        );
    }
}
