//! Histories that are known to have an order or none, and random ones against a search through all orders.

use farcall_base::Random;

use super::*;

fn parsed(lines: &str) -> Vec<Operation> {
    parse(&format!("{TITLE}\n{lines}")).expect("a history")
}

/// The operation at which it ends, if there is no order.
fn stuck(lines: &str) -> Option<usize> {
    let verdict = check(&parsed(lines));
    assert_eq!(verdict.undecided, Vec::<String>::new());
    verdict.unexplained.first().map(|unexplained| unexplained.operation)
}

#[test]
fn what_an_order_explains_is_right() {
    for right in [
        "1 k 0 9 put a done\n2 k 1 2 get nothing\n3 k 3 4 get found a",
        "1 k 0 - put a unknown\n2 k 1 2 get nothing\n2 k 3 4 get found a\n2 k 5 6 get found a",
        "1 k 0 - put a unknown\n2 k 1 2 put b done\n2 k 3 4 get found b\n2 k 7 8 get found a",
        "1 n 0 - add 5 unknown\n2 n 1 2 add 1 sum 1\n2 n 3 4 add 1 sum 7\n2 n 5 6 get found 7",
        "1 k 0 1 put a done\n1 k 2 3 delete done\n1 k 4 5 delete nothing\n1 k 6 7 get nothing",
        "1 a 0 1 put x done\n1 b 2 3 get nothing",
        // At the same time everything may have come first.
        "1 k 0 1 put a done\n2 k 1 1 get nothing\n2 k 1 2 get found a",
    ] {
        assert_eq!(stuck(right), None, "{right}");
    }
}

#[test]
fn what_no_order_explains_is_found_where_it_ends() {
    for (wrong, at) in [
        ("1 k 0 1 put a done\n2 k 2 3 get nothing", 1),
        ("1 k 0 1 put a done\n1 k 2 3 put b done\n2 k 4 5 get found a", 2),
        ("1 k 0 9 put a done\n2 k 1 2 get found a\n3 k 3 4 get nothing", 2),
        ("1 k 0 1 get found a", 0),
        ("1 n 0 1 add 1 sum 1\n2 n 2 3 add 1 sum 1", 1),
        ("1 n 0 - add 5 unknown\n2 n 1 2 add 1 sum 1\n2 n 3 4 add 1 sum 12", 2),
        ("1 k 0 - put a unknown\n2 k 1 2 get found a\n2 k 3 4 put b done\n2 k 5 6 get found a", 3),
        ("1 k 0 1 put a done\n1 k 2 3 delete nothing", 1),
    ] {
        assert_eq!(stuck(wrong), Some(at), "{wrong}");
    }
}

#[test]
fn a_history_is_read_as_it_was_written_and_says_what_is_wrong_with_it() {
    let mut random = Random::new(1);
    let history: Vec<_> = (0..50).flat_map(|_| drawn(&mut random, true)).collect();
    assert_eq!(parse(&write(&history)), Ok(history));
    assert_eq!(parse("something else"), Err(HistoryError::NoTitle));
    for (line, reason) in [
        ("x k 0 1 get nothing", "the client is no number"),
        ("1 k 2 1 get nothing", "it ends before it begins"),
        ("1 k 0 1 get done", "that is no outcome of such an operation"),
        ("1 k 0 - get nothing", "what is unknown has - for its end, and nothing else has"),
        ("1 k 0 1 get nothing more", "there is something behind it"),
        ("1 k 0 1 add x sum 1", "the amount is no number"),
        ("1 k 0 1 watch", "it asks for none of get, put, delete and add"),
    ] {
        let error = parse(&format!("{TITLE}\n# nothing\n\n{line}")).expect_err(line);
        assert_eq!(error, HistoryError::Malformed { line: 4, reason }, "{line}");
    }
}

/// A few operations on one key; whether they have an order is a matter of luck.
fn drawn(random: &mut Random, with_numbers: bool) -> Vec<Operation> {
    let mut history = Vec::new();
    for client in 0..1 + random.below(6) {
        let began = random.below(8);
        let word = |random: &mut Random| {
            let kinds: &[&str] = if with_numbers { &["a", "1", "2", "3"] } else { &["a", "b"] };
            kinds[random.index(kinds.len())].to_owned()
        };
        let (asked, told) = match random.below(if with_numbers { 5 } else { 3 }) {
            0 => (Asked::Put(word(random)), Told::Done),
            1 => (Asked::Get, Told::Found(word(random))),
            2 => (Asked::Get, Told::Nothing),
            3 => (Asked::Delete, if random.chance(0.5) { Told::Done } else { Told::Nothing }),
            _ => (Asked::Add(1 + random.below(2) as i64), Told::Sum(1 + random.below(4) as i64)),
        };
        let ended = began + random.below(6);
        let told = random.chance(0.8).then_some((ended, told));
        history.push(Operation { client, key: "k".to_owned(), began, told, asked });
    }
    history
}

/// Whether there is an order, by trying every one of every choice of the operations that may have happened.
fn has_order(left: &[&Operation], object: Option<&str>) -> bool {
    if left.iter().all(|operation| operation.told.is_none()) {
        return true;
    }
    (0..left.len()).any(|place| {
        let next = left[place];
        let is_first =
            left.iter().all(|other| other.told.as_ref().is_none_or(|(ended, _)| next.began <= *ended));
        let rest: Vec<_> = left.iter().copied().filter(|other| !core::ptr::eq(*other, next)).collect();
        is_first && alone(next, object).is_some_and(|after| has_order(&rest, after.as_deref()))
    })
}

/// What is there after an operation; `None` if it would have been told something else.
fn alone(Operation { asked, told, .. }: &Operation, object: Option<&str>) -> Option<Option<String>> {
    let told = told.as_ref().map(|(_, told)| told);
    let is_told = |right: &Told| told.is_none_or(|told| told == right);
    let kept = object.map(str::to_owned);
    match asked {
        Asked::Get => {
            is_told(&object.map_or(Told::Nothing, |value| Told::Found(value.to_owned()))).then_some(kept)
        }
        Asked::Put(value) => Some(Some(value.clone())),
        Asked::Delete => is_told(if object.is_some() { &Told::Done } else { &Told::Nothing }).then_some(None),
        Asked::Add(amount) => match object.map_or(Ok(0), str::parse::<i64>) {
            Ok(number) => is_told(&Told::Sum(number + amount)).then_some(Some((number + amount).to_string())),
            Err(_) => told.is_none().then_some(kept),
        },
    }
}

#[test]
fn it_agrees_with_a_search_through_all_orders() {
    let (mut right, mut wrong) = (0, 0);
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
        let with_numbers = random.chance(0.5);
        let history = drawn(&mut random, with_numbers);
        let expected = has_order(&history.iter().collect::<Vec<_>>(), None);
        let verdict = check(&history);
        assert_eq!(verdict.unexplained.is_empty(), expected, "seed {seed}:\n{}", write(&history));
        *(if expected { &mut right } else { &mut wrong }) += 1;
    }
    assert!(right > 1000 && wrong > 1000, "{right} have an order and {wrong} have none");
}
