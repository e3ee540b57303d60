//! Whatever stands in a file, it is read or refused.

use farcall_tune::experiment::ExperimentFile;
use farcall_tune::expression::parse;
use farcall_tune::import::{libfabric, open_mpi, otpo, ucx};
use farcall_tune::space::Template;
use proptest::prelude::*;

/// Texts that look a little like what is expected.
fn words(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    let word = prop_oneof![4 => prop::sample::select(words).prop_map(str::to_owned), 1 => ".{0,3}"];
    prop::collection::vec(word, 0..30).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn conditions(text in words(&["a", " b ", "&&", "||", "(", ")", "!", "not ", "==", "<", "-", "/", "1", "64K", "'x'", "true"])) {
        if let Ok(expression) = parse(&text, &["a", "b"]) {
            let _ = expression.holds(&|_| None);
            prop_assert!(expression.parameters().iter().all(|index| *index < 2));
        }
    }

    #[test]
    fn templates(text in words(&["{", "}", "{a}", "{b}", "a", "{{", "{trial.directory}"])) {
        if let Ok(template) = Template::parse(&text, &["a", "b"]) {
            prop_assert!(template.fill(&|_| Some("x"), "d").is_some());
        }
    }

    #[test]
    fn files_of_otpo(text in words(&["a ", "-p ", "-r ", "1 ", "8 ", "-t ", "increment ", "* ", "2 ", "-i ", "\"a 1 >\" ", "-v ", "-a ", "\"$a$\" ", "\n", "{", "}"])) {
        if let Ok(file) = otpo::read(&text) {
            let _ = file.space();
        }
    }

    #[test]
    fn experiments(text in words(&["[[parameter]]\n", "name = \"a\"\n", "kind = \"integer\"\n", "values = [1, 2]\n", "range = \"1..8 *2\"\n", "[objective]\n", "command = [\"x\", \"{a}\"]\n", "[[metric]]\n", "pattern = '(x)'\n", "default = 1\n"])) {
        if let Ok(file) = ExperimentFile::read(&text) {
            let _ = file.experiment();
        }
    }

    #[test]
    fn listings(text in words(&["# FI_A: Integer\n", "# syntax: integer\n", "UCX_A=3\n", "mca:a:b:param:c:value:1\n", "mca:a:b:param:c:type:int\n", "# default 3\n", ":", "=", "-9", "1e400"])) {
        for file in [ucx(&text), open_mpi(&text), libfabric(&text)].into_iter().flatten() {
            prop_assert!(file.space().is_ok(), "{:?}", file.space());
        }
    }
}
