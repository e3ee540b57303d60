//! The journal: whatever is cut off, a tuning goes on to the same end.

mod common;

use std::fs;
use std::path::Path;

use common::{Folder, SPACE, experiment, finish, rehearsed};
use farcall_base::Random;
use farcall_tune::journal::{Journal, JournalError};
use farcall_tune::landscape::Shape;
use farcall_tune::objective::Rehearsal;
use farcall_tune::search::Problem;
use farcall_tune::tuning::Tuning;

fn resume<'a>(problem: &'a Problem, path: &Path) -> Tuning<'a> {
    let (journal, begin, lines) = Journal::resume(path).unwrap_or_else(|error| panic!("{error}"));
    Tuning::resume(problem, &begin, journal, &lines).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_journal_cut_off_at_any_byte_leads_to_the_same_journal() {
    let (problem, plan) = rehearsed();
    let folder = Folder::new("cut");
    let mut objective = Rehearsal::new(&problem, Shape::PEAKED, 5);
    let mut tuning = Tuning::begin(&problem, &plan, Some(&folder.0)).expect("it begins");
    finish(&mut tuning, &mut objective);
    drop(tuning);
    let whole = folder.journal();
    let first_line = whole.iter().position(|byte| *byte == b'\n').expect("there are lines") + 1;
    let mut random = Random::new(1);
    let random_places = (0..25).map(|_| first_line + random.index(whole.len() - first_line));
    for place in [first_line, whole.len()].into_iter().chain(random_places) {
        fs::write(folder.0.join("journal.jsonl"), &whole[..place]).expect("it can be written");
        finish(&mut resume(&problem, &folder.0), &mut objective);
        assert!(folder.journal() == whole, "cut off after {place} bytes");
    }
}

#[test]
fn journals_that_do_not_belong_are_refused() {
    let (problem, plan) = rehearsed();
    let folder = Folder::new("foreign");
    let mut objective = Rehearsal::new(&problem, Shape::PEAKED, 5);
    assert!(matches!(Journal::resume(&folder.0), Err(JournalError::Missing { .. })));
    // What has no trial yet is no loss.
    drop(Tuning::begin(&problem, &plan, Some(&folder.0)).expect("it begins"));
    let mut tuning = Tuning::begin(&problem, &plan, Some(&folder.0)).expect("it begins again");
    for _ in 0..60 {
        assert!(tuning.step(&mut objective).expect("nothing fails"));
    }
    drop(tuning);
    let error = Tuning::begin(&problem, &plan, Some(&folder.0)).err().expect("there is one").to_string();
    assert!(error.contains("go on with --resume"), "{error}");
    let text = String::from_utf8(folder.journal()).expect("it is text");
    let (other, ..) = experiment(&format!("{}[[metric]]\nname = \"m\"", SPACE.replace("\"z\"", "\"w\"")));
    let (journal, begin, lines) = Journal::resume(&folder.0).expect("it is whole");
    let error = Tuning::resume(&other, &begin, journal, &lines).err().expect("another space").to_string();
    assert!(error.ends_with("was the experiment changed?"), "{error}");
    fs::write(folder.0.join("journal.jsonl"), text.replacen("\"trial\":7,", "\"trial\":", 1))
        .expect("written");
    let error = Journal::resume(&folder.0).expect_err("a line is damaged").to_string();
    assert!(error.starts_with("line 9 of ") && error.contains("is damaged"), "{error}");
}
