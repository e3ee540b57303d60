//! A factor: a parameter of the library or of a simulated fabric, at two levels.

use farcall::parameters::{Kind, Parameter, Settings, Value};

/// What the names of a simulated fabric's fields begin with.
pub const FABRIC: &str = "fabric.";

/// What separates two levels.
const SEPARATORS: &[char] = &['/', '|'];

/// The same of paths, which have slashes of their own.
const SEPARATORS_OF_PATHS: &[char] = &['|'];

/// A parameter at two levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    /// Group and name, such as `ring.inline_bytes`.
    pub name: String,
    /// The two levels; effects are of the second against the first.
    pub levels: [Level; 2],
}

/// A value of a factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// The value as people read it.
    pub text: String,
    /// What sets it, as `name=value`; `None` leaves the factor as it is.
    pub assignment: Option<String>,
}

/// Why something cannot be varied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactorError {
    /// There is no such parameter, or a value is not valid.
    #[error("{0}")]
    Parameter(String),
    /// Two values have to be chosen.
    #[error("`{0}` has more than two values; say which, as in {0}=A/B, or {0}=B against what it is now")]
    NoLevels(String),
    /// There is nothing to compare.
    #[error("`{name}` is {text} at both levels; give two that differ, as in {name}=A/B")]
    Same {
        /// The parameter.
        name: String,
        /// Its value.
        text: String,
    },
    /// Nothing between two commas.
    #[error("a factor is empty; write NAME=A/B or another form of one, and commas between several")]
    Empty,
    /// The second value of a factor behind a comma.
    #[error("`{text}` is no parameter; between two values of `{name}` is a slash, as in {levels}/{text}")]
    Comma {
        /// What was given.
        text: String,
        /// The parameter before it.
        name: String,
        /// How that was given.
        levels: String,
    },
    /// Two levels are what the designs here have.
    #[error("`{text}` has more than two levels; give two, as in NAME=A{separator}B")]
    TooMany {
        /// What was given.
        text: String,
        /// What separates its levels.
        separator: char,
    },
}

impl Factor {
    /// Reads several, which were separated by commas.
    pub fn parse_all(texts: &[String], settings: &Settings) -> Result<Vec<Self>, FactorError> {
        let mut before: Option<(&str, &str)> = None;
        let mut factors = Vec::new();
        for text in texts.iter().map(|text| text.trim()) {
            if text.is_empty() {
                return Err(FactorError::Empty);
            }
            // All names have a point between group and name; a fraction has digits around it.
            let is_name = text.contains('=') || text.contains('.') && text.parse::<f64>().is_err();
            if let Some((name, levels)) = before.filter(|_| !is_name) {
                let [text, name, levels] = [text, name, levels].map(str::to_owned);
                return Err(FactorError::Comma { text, name, levels });
            }
            factors.push(Self::parse(text, settings)?);
            before = text.split_once('=').map(|(name, _)| (name, text));
        }
        Ok(factors)
    }

    /// Whether both levels are given, so that it does not matter what the parameter is otherwise.
    pub fn has_two_levels(text: &str) -> bool {
        let Some((name, levels)) = text.split_once('=') else { return false };
        levels.contains(separators_of(name.trim(), &Settings::default()))
    }

    /// Reads `NAME=A/B`, `NAME=B` (against what it is in `settings`) or a `NAME` alone: of a switch, or of a
    /// number or size against the least that it can be. Of a path only `NAME=A|B` and `NAME=B`.
    pub fn parse(text: &str, settings: &Settings) -> Result<Self, FactorError> {
        let (name, levels) = match text.split_once('=') {
            Some((name, levels)) => (name.trim(), Some(levels)),
            None => (text.trim(), None),
        };
        let separators = separators_of(name, settings);
        let given: Vec<&str> =
            levels.map_or_else(Vec::new, |levels| levels.split(separators).map(str::trim).collect());
        if given.len() > 2 {
            return Err(FactorError::TooMany { text: text.to_owned(), separator: separators[0] });
        }
        let levels = match name.starts_with(FABRIC) {
            true => fabric_levels(name, &given)?,
            false => levels_of(name, &given, settings)?,
        };
        if levels[0].text == levels[1].text {
            return Err(FactorError::Same { name: name.to_owned(), text: levels[0].text.clone() });
        }
        Ok(Self { name: name.to_owned(), levels })
    }

    /// The level of a run.
    pub fn level(&self, second: bool) -> &Level {
        &self.levels[usize::from(second)]
    }

    /// The change, such as `ring.inline_bytes 200 -> 0`.
    pub fn change(&self) -> String {
        format!("{} {} -> {}", self.name, self.levels[0].text, self.levels[1].text)
    }
}

fn separators_of(name: &str, settings: &Settings) -> &'static [char] {
    let is_path = |(parameter, _): (&Parameter, Value)| {
        parameter.name == name && matches!(parameter.domain.kind, Kind::Path)
    };
    if settings.iter().any(is_path) { SEPARATORS_OF_PATHS } else { SEPARATORS }
}

/// What the fabric's own reader checks.
fn fabric_levels(name: &str, given: &[&str]) -> Result<[Level; 2], FactorError> {
    let level = |text: &&str| Level { text: (*text).to_owned(), assignment: Some(format!("{name}={text}")) };
    match given {
        [first, second] => Ok([level(first), level(second)]),
        [second] => Ok([Level { text: "as in the profile".to_owned(), assignment: None }, level(second)]),
        _ => Err(FactorError::NoLevels(name.to_owned())),
    }
}

fn levels_of(name: &str, given: &[&str], settings: &Settings) -> Result<[Level; 2], FactorError> {
    let parameter = settings.iter().find(|(parameter, _)| parameter.name == name);
    let Some((parameter, now)) = parameter else {
        let refused = settings.clone().assign(&format!("{name}=true")).err();
        return Err(FactorError::Parameter(refused.map_or_else(String::new, |error| error.to_string())));
    };
    let level = |text: &str| {
        let mut changed = settings.clone();
        let refused = |error: farcall::parameters::SettingsError| FactorError::Parameter(error.to_string());
        changed.assign(&format!("{name}={text}")).map_err(refused)?;
        let text = parameter.value(&changed).to_string();
        Ok(Level { assignment: Some(format!("{name}={text}")), text })
    };
    match (given, parameter.domain.kind) {
        ([first, second], _) => Ok([level(first)?, level(second)?]),
        ([second], _) => Ok([level(&now.to_string())?, level(second)?]),
        (_, Kind::Boolean) => {
            // What decides by itself is switched off, too.
            let [first, other] =
                if now.to_string() == "false" { ["false", "true"] } else { ["true", "false"] };
            Ok([level(first)?, level(other)?])
        }
        (_, Kind::Integer { min, .. } | Kind::Size { min, .. }) => {
            Ok([level(&now.to_string())?, level(&min.to_string())?])
        }
        _ => Err(FactorError::NoLevels(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Factor, String> {
        Factor::parse(text, &Settings::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn two_levels_one_level_and_switches_are_read() {
        let inline = read("ring.inline_bytes=0/200").expect("a parameter");
        assert_eq!(inline.change(), "ring.inline_bytes 0 -> 200");
        assert_eq!(read("ring.inline_bytes=0|200"), Ok(inline.clone()));
        assert_eq!(inline.level(true).assignment.as_deref(), Some("ring.inline_bytes=200"));
        let one = read("ring.ring_bytes=64K").expect("a parameter");
        assert_eq!(one.levels[1].text, "64K");
        assert_eq!(one.levels[0].text, "auto");
        assert_eq!(read("basic.checksum").expect("a switch").change(), "basic.checksum true -> false");
        assert_eq!(read("verbs.signal_period").expect("a number").change(), "verbs.signal_period 16 -> 1");
        assert_eq!(read("verbs.mtu").expect("a size").change(), "verbs.mtu auto -> 256");
        let key = read("security.key_file=/etc/farcall/key").expect("a path");
        assert_eq!(key.change(), "security.key_file auto -> /etc/farcall/key");
        let keys = read("security.key_file=/old/key|/new/key").expect("two paths");
        assert_eq!(keys.change(), "security.key_file /old/key -> /new/key");
        let fabric = read("fabric.link.gbps=200").expect("a field");
        assert_eq!(
            (fabric.levels[0].assignment.as_deref(), fabric.levels[1].assignment.as_deref()),
            (None, Some("fabric.link.gbps=200"))
        );
    }

    #[test]
    fn what_stands_between_commas_is_a_factor() {
        let read = |texts: &[&str]| {
            let texts: Vec<_> = texts.iter().map(|text| (*text).to_owned()).collect();
            let read = Factor::parse_all(&texts, &Settings::default());
            read.map(|factors| factors.len()).map_err(|error| error.to_string())
        };
        assert_eq!(read(&["ring.inline_bytes=0/200", " basic.checksum"]), Ok(2));
        let empty = "a factor is empty; write NAME=A/B or another form of one, and commas between several";
        for texts in [&[""][..], &["", ""], &["basic.checksum", ""]] {
            assert_eq!(read(texts), Err(empty.to_owned()), "{texts:?}");
        }
        for second in ["14", "1.5", "true", "2us"] {
            let sentence = format!(
                "`{second}` is no parameter; between two values of `fabric.link.gbps` is a slash, as in \
                 fabric.link.gbps=3/{second}"
            );
            assert_eq!(read(&["fabric.link.gbps=3", second]), Err(sentence));
        }
        assert!(Factor::has_two_levels("ring.inline_bytes=0/200") && !Factor::has_two_levels("tls.ca=/a/b"));
        assert!(!Factor::has_two_levels("ring.inline_bytes=0") && !Factor::has_two_levels("basic.checksum"));
    }

    #[test]
    fn what_cannot_be_varied_is_refused_in_one_sentence() {
        for (text, sentence) in [
            (
                "ring.inline_byte=0/1",
                "unknown parameter `ring.inline_byte`; did you mean `ring.inline_bytes`?",
            ),
            (
                "endpoint.idle",
                "`endpoint.idle` has more than two values; say which, as in endpoint.idle=A/B, or endpoint.idle=B against what it is now",
            ),
            (
                "ring.inline_bytes=7/7",
                "`ring.inline_bytes` is 7 at both levels; give two that differ, as in ring.inline_bytes=A/B",
            ),
            (
                "ring.inline_bytes=1/2/3",
                "`ring.inline_bytes=1/2/3` has more than two levels; give two, as in NAME=A/B",
            ),
            (
                "security.key_file=/a|/b|/c",
                "`security.key_file=/a|/b|/c` has more than two levels; give two, as in NAME=A|B",
            ),
            (
                "fabric.link.gbps",
                "`fabric.link.gbps` has more than two values; say which, as in fabric.link.gbps=A/B, or fabric.link.gbps=B against what it is now",
            ),
        ] {
            assert_eq!(read(text), Err(sentence.to_owned()), "{text}");
        }
        assert!(read("ring.ring_bytes=1").is_err_and(|error| error.contains("out of range")));
    }
}
