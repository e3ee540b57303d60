//! OTPO's format with all its options, and how its mistakes are told.

use super::*;
use crate::space::{Environments, Rows};

fn error(text: &str) -> String {
    read(text).expect_err(text).to_string()
}

#[test]
fn every_option_has_its_place() {
    let file = read(concat!(
        "# a comment\n\n",
        "fcoll -p static dynamic two_phase\n",
        "fcoll_dynamic_num_io_procs -i \"fcoll dynamic =\" -p {1 4}\n",
        "low -v -d 32 -r 1 64 -t increment * 2 -i \"num low >\"\n",
        "num -d 9 -r 0 30 -t increment + 10\n",
        "queues -a \"P,$num$,$low$\"\n",
    ))
    .expect("the file is right");
    let [fcoll, procs, low, num] = &file.parameter[..] else { panic!("{:?}", file.parameter) };
    assert_eq!(fcoll.environment.as_deref(), Some("OMPI_MCA_fcoll"));
    assert_eq!((fcoll.kind.as_str(), procs.kind.as_str()), ("categorical", "integer"));
    assert_eq!(procs.when.as_deref(), Some("fcoll == 'dynamic'"));
    assert_eq!((low.environment.as_deref(), low.is_virtual), (None, true));
    assert_eq!(num.default, Some(toml::Value::Integer(10)), "the value closest to the default");
    assert_eq!(file.require, [RequireEntry { that: "num > low".to_owned() }]);
    assert_eq!(file.emit[0].template, "P,{num},{low}");
    let space = file.space().expect("the space is right");
    let rows = Rows::of(&space, 1).expect("there are rows");
    // num 10 leaves low 1 2 4 8, num 20 also 16, num 30 the same; fcoll has 3 values, of which one has 2
    // numbers.
    assert_eq!(rows.len(), (4 + 5 + 5) * (2 + 2));
    assert_eq!(Environments::of(&space, &rows).len(), rows.len());
}

#[test]
fn mistakes_are_told_with_their_line() {
    assert_eq!(error("a -p 1\nb 10 100"), "line 2: `10` belongs to no option; values are listed after -p");
    assert_eq!(error("a -i \"a 1 =\" 10"), "line 1: `10` belongs to no option; values are listed after -p");
    assert_eq!(error("a -q 1"), "line 1: there is no option `-q`; use -d, -p, -r, -t, -i, -v and -a");
    assert_eq!(error("a -d 1"), "line 1: `a` has no values; list them after -p, or give -r and -t");
    assert_eq!(error("a -r 1"), "line 1: `-r` needs two numbers");
    assert_eq!(error("a -r 1 8 -t double"), "line 1: `-t` needs `increment`, an operator and a number");
    assert_eq!(error("a -r 8 1 -t increment * 2"), "line 1: the range of `a` is empty or too long");
    assert_eq!(
        error("a -p 1 -i \"a >\""),
        "line 1: the condition `a >` has an operator with fewer than two operands before it"
    );
    assert_eq!(error("a -p 1 -i \"a"), "line 1: a quotation mark is not closed");
    assert_eq!(error("a -a \"$b\""), "line 1: a `$` in `$b` has no partner");
}
