//! The checkout keeps the rules of the house.
//!
//! `FARCALL_TIDY_LOWER=1 cargo test -p farcall-tidy --test tidy -- --test-threads=1` lowers the numbers of `allowed.txt`
//! to what there is. It raises none.

use std::sync::LazyLock;
use std::{env, fs};

use farcall_tidy::{
    Allowed, Finding, Tree, allowed, items, orders, pages, picture, records, reference, style, words,
};

static TREE: LazyLock<Tree> = LazyLock::new(Tree::of_this_checkout);

/// Fails with one line for each finding.
fn none(mut findings: Vec<Finding>) {
    findings.sort();
    let lines: Vec<_> = findings.iter().map(Finding::to_string).collect();
    assert!(lines.is_empty(), "{} findings:\n{}", lines.len(), lines.join("\n"));
}

/// Fails with what is not allowed for the file of a finding.
fn none_but_allowed_by_file(rule: &str, findings: Vec<Finding>) {
    none_but_allowed(rule, findings, |finding| finding.path.clone());
}

/// Fails with what is not allowed for the crate of a finding.
fn none_but_allowed_by_crate(rule: &str, findings: Vec<Finding>) {
    none_but_allowed(rule, findings, |finding| TREE.file(&finding.path).owner().to_owned());
}

fn none_but_allowed(rule: &str, findings: Vec<Finding>, key: fn(&Finding) -> String) {
    let allowed = Allowed::of_rule(&TREE, rule);
    if env::var_os("FARCALL_TIDY_LOWER").is_some() {
        let lowered = allowed.lowered(&TREE, &findings, key);
        fs::write(TREE.root.join(allowed::PATH), lowered).expect("the allowances can be written");
    } else {
        none(allowed.judge(findings, key));
    }
}

#[test]
fn lines_have_at_most_110_columns() {
    none_but_allowed_by_file("columns", style::long_lines(&TREE));
}

#[test]
fn the_words_are_those_of_the_glossary() {
    none_but_allowed_by_file("words", words::uses(&TREE, &words::banned(&TREE)));
}

#[test]
fn every_crate_and_folder_is_in_the_map() {
    none(pages::unmapped(&TREE));
}

#[test]
fn what_pages_name_is_there() {
    none([pages::stale_paths(&TREE), pages::broken_links(&TREE)].into_iter().flatten().collect());
}

#[test]
fn every_page_is_a_chapter_of_the_book_and_links_lead_to_headings() {
    none([pages::not_in_the_book(&TREE), pages::broken_anchors(&TREE)].into_iter().flatten().collect());
}

#[test]
fn the_reference_and_the_picture_are_those_of_the_sources() {
    for (path, text) in [
        (reference::COUNTERS, reference::counters(&TREE)),
        (reference::ERRORS, reference::errors(&TREE)),
        (picture::PICTURE, picture::picture(&TREE)),
    ] {
        if env::var_os("FARCALL_TIDY_LOWER").is_some() {
            fs::write(TREE.root.join(path), text).expect("the page can be written");
        } else {
            let is_same = fs::read_to_string(TREE.root.join(path)).unwrap_or_default() == text;
            assert!(is_same, "FARCALL_TIDY_LOWER=1 cargo test -p farcall-tidy writes {path}");
        }
    }
}

#[test]
fn every_implementation_of_a_seam_has_a_conformance_suite() {
    none(pages::unlisted_seams(&TREE));
}

#[test]
fn every_thread_is_in_a_table_of_threads() {
    none(pages::unlisted_threads(&TREE));
}

#[test]
fn orders_of_adding_are_what_was_done_before() {
    none(orders::broken(&TREE));
}

#[test]
fn decision_records_are_about_code_that_exists() {
    none(records::decisions(&TREE));
}

#[test]
fn walks_lead_through_code_that_exists() {
    none(records::walks(&TREE));
}

#[test]
fn forced_attributes_do_not_become_more() {
    none_but_allowed_by_crate("forced", style::forced_attributes(&TREE));
}

#[test]
fn tiny_files_do_not_become_more() {
    none_but_allowed_by_crate("tiny", style::tiny_files(&TREE));
}

#[test]
fn public_items_are_used() {
    none_but_allowed_by_file("dead", items::dead(&TREE));
}

#[test]
fn nothing_is_a_stub_or_of_one_machine() {
    none(style::forbidden(&TREE));
}

#[test]
fn dead_code_is_not_hidden() {
    none_but_allowed_by_file("hidden", style::hidden_dead_code(&TREE));
}
