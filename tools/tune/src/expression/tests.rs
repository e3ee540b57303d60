//! What conditions mean, and which have no meaning.

use super::*;

const NAMES: [&str; 5] = ["num", "low", "mode", "size", "on"];

fn values() -> [Option<Value>; 5] {
    [
        Some(Value::Number(8.0)),
        Some(Value::Number(4.0)),
        Some(Value::Word("eager".to_owned())),
        Some(Value::Word("auto".to_owned())),
        None,
    ]
}

fn holds(text: &str) -> Option<bool> {
    let values = values();
    let expression = parse(text, &NAMES).unwrap_or_else(|error| panic!("{text}: {error}"));
    expression.holds(&|index| values[index].as_ref())
}

#[test]
fn operators_bind_as_in_other_languages() {
    for text in [
        "num > low",
        "num == 2 * low",
        "num - low - 4 == 0",
        "2 + 3 * 2 = num",
        "num % 3 == 2 && !(low > 4)",
        "low > num || mode == 'eager'",
        "not low > num and mode != \"late\"",
        "8K == 8192 && 10us == 10000 && -low < 0",
        "num",
        "true",
    ] {
        assert_eq!(holds(text), Some(true), "{text}");
    }
    for text in ["num <= low", "mode == 'late'", "num - (low - 4) == 0", "low - low", "num >= 9 || false"] {
        assert_eq!(holds(text), Some(false), "{text}");
    }
}

#[test]
fn what_depends_on_a_missing_value_is_unknown() {
    for text in ["on", "!on", "on && true", "on || false", "size > 100", "num / (low - 4) > 1", "on == on"] {
        assert_eq!(holds(text), None, "{text}");
    }
    assert_eq!(holds("on || true"), Some(true));
    assert_eq!(holds("on && false"), Some(false));
    assert_eq!(holds("size == 'auto'"), Some(true));
}

#[test]
fn mistakes_are_named() {
    let error = |text: &str| parse(text, &NAMES).expect_err(text).to_string();
    assert_eq!(
        error("nun > 3"),
        "there is no parameter `nun`; did you mean `num`? A word as a value needs quotes"
    );
    assert_eq!(error("num >"), "the condition ends where a value is expected");
    assert_eq!(error("num 3"), "`3` is not expected there");
    assert_eq!(error("(num > 3"), "the condition ends where a value is expected");
    assert_eq!(error("num > 3)"), "`)` is not expected there");
    assert_eq!(error("mode == 'eager"), "a quotation mark is not closed");
    assert_eq!(error("num > 3x"), "`3x` is not a number, a size such as 64K or a duration such as 10us");
    assert_eq!(error("num ~ 3"), "`~` means nothing in a condition");
    assert_eq!(parse(&"(".repeat(1000), &NAMES), Err(ExpressionError::TooDeep));
}

#[test]
fn what_can_never_be_meant_is_refused() {
    let types = |index: usize| [Types::from(Type::Number), Type::Word.into()][index];
    let check = |text: &str| parse(text, &["n", "w"]).expect(text).check(&types);
    for text in ["n == 3", "w == 'a' && n", "n + 1 > 2 || w != 'b'"] {
        assert_eq!(check(text), Ok(()), "{text}");
    }
    assert!(matches!(check("n == 'a'"), Err(TypeError::NeverEqual { .. })));
    assert!(matches!(check("w > 3"), Err(TypeError::NotANumber { .. })));
    assert!(matches!(check("w"), Err(TypeError::NotACondition { .. })));
    assert!(matches!(check("n > 3 && w"), Err(TypeError::NotACondition { .. })));
}

#[test]
fn parameters_are_listed_once() {
    let expression = parse("size == 1 || num > low && num < 3", &NAMES).expect("it is an expression");
    assert_eq!(expression.parameters(), [0, 1, 3]);
}
