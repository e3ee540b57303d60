//! Spaces from their files: which are refused, which rows they have, and what the lint finds.

use super::*;
use crate::experiment::ExperimentFile;
use crate::import::otpo;

fn file(text: &str) -> ExperimentFile {
    toml::from_str(text).unwrap_or_else(|error| panic!("{error}"))
}

fn space(text: &str) -> Space {
    file(text).space().unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str) -> String {
    file(text).space().expect_err(text).to_string()
}

fn rows(space: &Space) -> Rows {
    Rows::of(space, 1).unwrap_or_else(|error| panic!("{error}"))
}

fn findings(space: &Space) -> Vec<String> {
    let rows = rows(space);
    lint(space, &rows, &Environments::of(space, &rows)).iter().map(SpaceFinding::to_string).collect()
}

const PROTOCOLS: &str = r#"
    [[parameter]]
    name = "protocol"
    kind = "categorical"
    values = ["eager", "rendezvous"]
    environment = "PROTOCOL"

    [[parameter]]
    name = "threshold"
    kind = "size"
    range = "1K..8K *2"
    default = "4K"
    when = "protocol == 'rendezvous'"
    environment = "THRESHOLD"

    [[parameter]]
    name = "window"
    kind = "integer"
    values = [1, 2, 4]
    environment = "WINDOW"

    [[require]]
    that = "threshold <= 4K || window == 1"
"#;

#[test]
fn the_published_space_of_otpo_has_37730_rows_and_16170_environments() {
    let file = otpo::read(include_str!("../../../../examples/tuning/otpo-openib.params"))
        .expect("the file is right");
    let space = file.space().expect("the space is right");
    let rows = rows(&space);
    assert_eq!(rows.len(), 37_730);
    let Coverage::Whole { candidates, rejected, merged } = rows.coverage() else {
        panic!("all of it is listed")
    };
    assert_eq!((*candidates, *merged), (642_978, 0));
    assert_eq!(rejected.iter().sum::<u128>(), 642_978 - 37_730);
    let environments = Environments::of(&space, &rows);
    assert_eq!(environments.len(), 16_170);
    assert_eq!((0..environments.len()).map(|one| environments.rows_of(one)).sum::<usize>(), 37_730);
    assert_eq!(
        findings(&space),
        [
            "parameter `queue_2_size` never reaches the program: nothing that is emitted mentions it",
            "no valid row has `queue_1_num` = 1",
            "no valid row has `queue_2_num` = 1",
            "no valid row has `queue_2_num` = 2",
            "no valid row has `queue_2_low` = 1",
            "37730 rows are only 16170 different ones to the program; each of these is measured once",
        ]
    );
}

#[test]
fn parameters_out_of_play_have_one_row() {
    let space = space(PROTOCOLS);
    let rows = rows(&space);
    // Eager: 3 windows. Rendezvous: 3 thresholds up to 4K with 3 windows, 8K with one.
    assert_eq!(rows.len(), 3 + 3 * 3 + 1);
    let coverage = Coverage::Whole { candidates: 24, rejected: vec![2], merged: 9 };
    assert_eq!(rows.coverage(), &coverage, "what is missing is accounted for");
    let eager = rows.row(0);
    assert_eq!(eager, [0, NOT_IN_PLAY, 0]);
    let described: Vec<_> =
        space.describe(eager).into_iter().map(|(name, value)| name + "=" + &value).collect();
    assert_eq!(described, ["protocol=eager", "window=1"]);
    let rendered = space.render(eager, "");
    let variables: Vec<_> = rendered.environment().collect();
    assert_eq!(variables, [("PROTOCOL", "eager"), ("WINDOW", "1")]);
    assert!(findings(&space).is_empty(), "{:?}", findings(&space));
}

#[test]
fn rows_are_found_by_their_levels() {
    let space = space(PROTOCOLS);
    let rows = rows(&space);
    for id in 0..rows.len() {
        assert_eq!(rows.find(rows.row(id)), Some(id));
    }
    assert_eq!(rows.find(&[0, 1, 0]), None);
    assert_eq!(rows.reference(&space), 0);
    let rendezvous = space.with_level(rows.row(0), 0, 1).expect("it is valid");
    assert_eq!((rendezvous.as_slice(), space.changes(&rendezvous)), ([1, 2, 0].as_slice(), 1));
    assert_eq!(space.with_level(rows.row(0), 1, 0), None, "it is not in play");
    assert_eq!(space.with_level(&[1, 3, 0], 2, 1), None, "the requirement forbids it");
}

#[test]
fn spaces_too_large_to_list_are_sampled_without_invalid_rows() {
    let parameter = |index: usize| {
        format!(
            "[[parameter]]\nname = \"p{index}\"\nkind = \"integer\"\nrange = \"1..40 +1\"\nenvironment = \"P{index}\"\n"
        )
    };
    let parameters: String = (0..8).map(parameter).collect();
    for requirement in
        ["p0 < p1", "p0 < p1 && p1 < p2 && p2 < p3 && p3 < p4 && p4 < p5 && p5 < p6 && p6 < p7"]
    {
        let space = space(&format!("{parameters}[[require]]\nthat = \"{requirement}\"\n"));
        let rows = rows(&space);
        assert!(matches!(rows.coverage(), Coverage::Sample { candidates } if *candidates == 40_u128.pow(8)));
        assert!(rows.len() > 1_000, "{} rows", rows.len());
        assert!(rows.iter().all(|row| space.is_valid(row)), "{requirement}");
        assert_eq!(rows, Rows::of(&space, 1).expect("it worked before"), "the seed decides");
    }
}

#[test]
fn the_lint_finds_what_nobody_meant() {
    let space = space(
        r#"
        [[parameter]]
        name = "dead"
        kind = "boolean"
        virtual = true
        [[parameter]]
        name = "constant"
        kind = "real"
        values = [0.5]
        environment = "CONSTANT"
        [[parameter]]
        name = "short"
        kind = "integer"
        range = "1..100 *2"
        default = 64
        environment = "SHORT"
        [[parameter]]
        name = "idle"
        kind = "duration"
        values = ["1us", "2us"]
        when = "short > 0"
        environment = "IDLE"
        [[require]]
        that = "short < 50"
        [[require]]
        that = "short < 60"
        "#,
    );
    assert_eq!(
        findings(&space),
        [
            "parameter `dead` never reaches the program: nothing that is emitted mentions it",
            "parameter `constant` has only one value, 0.5",
            "the range of parameter `short` stops at 64 and never reaches 100",
            "the requirement `short < 60` rejects nothing that those before it leave",
            "the defaults break the requirement `short < 50`; the valid row closest to them is the reference",
            "the defaults break the requirement `short < 60`; the valid row closest to them is the reference",
            "no valid row has `short` = 64",
            "the condition `short > 0` of parameter `idle` always holds",
            "24 rows are only 12 different ones to the program; each of these is measured once",
        ]
    );
}

fn with(more: &str) -> String {
    error(&format!("[[parameter]]\nname = \"a\"\nkind = \"integer\"\n{more}"))
}

#[test]
fn mistakes_are_one_sentence_each() {
    assert_eq!(error(""), "the space has no parameters; add a [[parameter]]");
    assert_eq!(with(""), "parameter `a` needs either `values` or `range`");
    assert_eq!(with("values = []"), "parameter `a` has no values; list at least one");
    assert_eq!(with("values = [1, 1]"), "parameter `a` has the value 1 twice; remove one");
    assert_eq!(with("values = [1.5]"), "parameter `a`: `1.5` is not a whole number such as 8");
    assert_eq!(
        with("range = \"8..1 *2\""),
        "parameter `a`: the range `8..1 *2` is empty: its step does not lead from the first value to the last"
    );
    assert_eq!(
        with("values = [1, 8]\ndefault = 7"),
        "the default 7 of parameter `a` is not one of its values; the nearest is 8"
    );
    assert_eq!(with("values = [1]\nunit = \"us\""), "parameter `a`: `unit` is for sizes and durations");
    assert_eq!(
        with("values = [1]\nwhen = \"b > 1\""),
        "the condition of `a` `b > 1` cannot be read: there is no parameter `b`; did you mean `a`? A word as a value needs quotes"
    );
    assert_eq!(
        with("values = [1]\nwhen = \"a > 1\""),
        "the conditions of a depend on each other in a circle; remove one of them"
    );
    assert_eq!(
        with("values = [1]\n[[require]]\nthat = \"a == 'x'\""),
        "the requirement `a == 'x'` makes no sense: a comparison of a number with a word never holds; words need quotes and numbers must not have any"
    );
    assert_eq!(
        with("values = [1]\n[[emit]]\nenvironment = \"X\"\ntemplate = \"{aa}\""),
        "`{aa}` in `{aa}` is no parameter; did you mean `{a}`?"
    );
    assert_eq!(
        with("values = [1]\nenvironment = \"X\"\n[[emit]]\nenvironment = \"X\"\ntemplate = \"{a}\""),
        "the environment variable `X` is set twice; remove one"
    );
    assert_eq!(
        error("[[parameter]]\nname = \"a b\"\nkind = \"integer\"\nvalues = [1]"),
        "`a b` is no name for a parameter; use letters, digits, `_` and `.`, a letter first"
    );
    assert_eq!(
        error("[[parameter]]\nname = \"a\"\nkind = \"int\"\nvalues = [1]"),
        "parameter `a`: there is no kind `int`; did you mean `size`?"
    );
    let two = "[[parameter]]\nname = \"a\"\nkind = \"integer\"\nvalues = [1]\n".repeat(2);
    assert_eq!(error(&two), "the name `a` is given to two parameters; rename one");
}

#[test]
fn a_space_without_rows_names_the_requirement_that_rejects_the_most() {
    let space = space(
        "[[parameter]]\nname = \"a\"\nkind = \"integer\"\nvalues = [1, 2]\n[[require]]\nthat = \"a > 2\"",
    );
    let error = Rows::of(&space, 1).expect_err("there is no row").to_string();
    assert_eq!(error, "no combination of values satisfies the requirements; `a > 2` rejects the most");
}

#[test]
fn values_are_written_as_the_program_reads_them() {
    let space = space(
        r#"
        [[parameter]]
        name = "size"
        kind = "size"
        values = ["auto", "64K"]
        environment = "SIZE"
        [[parameter]]
        name = "pages"
        kind = "size"
        values = ["8K"]
        unit = "K"
        environment = "PAGES"
        [[parameter]]
        name = "wait"
        kind = "duration"
        values = ["1500us"]
        environment = "WAIT"
        [[parameter]]
        name = "interval"
        kind = "duration"
        values = ["2ms"]
        unit = "us"
        environment = "INTERVAL"
        [[parameter]]
        name = "on"
        kind = "boolean"
        words = ["n", "y"]
        environment = "ON"
        "#,
    );
    let row = [1, 0, 0, 0, 1];
    let rendered = space.render(&row, "");
    let values: Vec<_> = rendered.environment().map(|(_, text)| text.to_owned()).collect();
    assert_eq!(values, ["65536", "8", "1500us", "2000", "y"]);
}
