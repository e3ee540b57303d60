//! The example of a simulated service keeps its rule, and would be found out if it did not.

#[path = "../examples/simulated_service.rs"]
#[allow(dead_code, reason = "`main` is for the command line")]
mod service;

use service::run;

#[test]
fn each_order_is_in_the_books_once_whatever_is_lost() {
    for seed in 1..=20 {
        let report = run(seed, false).expect("it ends");
        assert_eq!((report.written, report.different), (300, 300), "seed {seed}: {report:?}");
    }
    assert_eq!(run(7, false).expect("it ends"), run(7, false).expect("it ends"));
}

#[test]
fn a_shop_that_does_not_look_into_its_books_is_found_out() {
    let doubled = |&seed: &u64| run(seed, true).expect("it ends").written > 300;
    assert!((1..=20).any(|seed| doubled(&seed)), "twenty seeds, and no order was written twice");
}
