//! The text of a policy, and of what the program is asked about one.
//!
//! The grammar is on the page about policies; here is one function for each of its rules.

use core::iter::Peekable;
use core::str::FromStr;

use farcall_base::{Principal, printable};

use super::{Object, Policy, Right, Rights, Rule, Who};

/// Of what was read instead, an error shows this many characters.
const SHOWN_CHARACTERS_MAX: usize = 64;

/// The last service that handlers can have: the two behind it carry messages.
const SERVICE_MAX: u16 = u16::MAX - 2;

/// A part of a line that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} is wanted instead of {found}")]
pub struct Misread {
    /// What should be there.
    pub wanted: &'static str,
    /// What is.
    pub found: String,
}

/// A text that is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {misread}")]
pub struct PolicyError {
    /// Which line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub misread: Misread,
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let mut rules = Vec::new();
        for (content, line) in text.lines().zip(1..) {
            let rule = Line::of(content).rule().map_err(|misread| PolicyError { line, misread })?;
            rules.extend(rule.map(|(object, rights, who)| Rule { line, object, rights, who }));
        }
        Ok(Self { rules })
    }
}

/// Reads what is to be done, such as `service 10: call`.
///
/// # Errors
/// It is something else, or more than one right or service.
pub fn read_act(text: &str) -> Result<(Object, Right), Misread> {
    let mut line = Line::of(text);
    let object = line.object()?;
    line.expect(&Token::Colon, "`:`")?;
    let right = line.right(&object)?;
    line.end()?;
    Ok((object, right))
}

/// Reads a principal, such as `uid 1000`; `none` proves nothing.
///
/// # Errors
/// It is something else.
pub fn read_principal(text: &str) -> Result<Principal, Misread> {
    let mut line = Line::of(text);
    let principal = match line.peek_word() {
        Some("none") => {
            line.next()?;
            Principal::Unproven
        }
        Some("certificate") => {
            let mut names = Vec::new();
            line.next()?;
            loop {
                names.push(line.name("the name of a certificate")?);
                if !line.skip_comma()? {
                    break Principal::Certificate(names.into());
                }
            }
        }
        _ => match line.who()? {
            Who::Is(principal) => principal,
            Who::Any | Who::Named(_) => return Err(Misread { wanted: IDENTITY, found: "`any`".to_owned() }),
        },
    };
    line.end()?;
    Ok(principal)
}

const OBJECT: &str = "`service`, `messages`, `table` or `store`";
const WHO: &str = "`uid`, `key`, `identity`, `certificate`, `password` or `any`";
const IDENTITY: &str = "`uid`, `key`, `identity`, `certificate`, `password` or `none`";
const SERVICE: &str = "the number of a service (0 to 65533), a range such as `10-19`, or `*`";

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// A name between quotes.
    Quoted(String),
    Colon,
    Comma,
    /// The line ends within a name.
    Unquoted,
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Self::Word(word) => {
                let start: String = word.chars().take(SHOWN_CHARACTERS_MAX).collect();
                format!("`{}`", printable(&start))
            }
            Self::Quoted(_) => "a name in quotes".to_owned(),
            Self::Colon => "`:`".to_owned(),
            Self::Comma => "`,`".to_owned(),
            Self::Unquoted => "a `\"` that no other one follows".to_owned(),
        }
    }
}

/// The parts of a line, which end at its comment.
struct Tokens<'t>(&'t str);

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        self.0 = self.0.trim_start();
        let first = self.0.chars().next().filter(|&first| first != '#')?;
        let (token, taken) = match first {
            ':' => (Token::Colon, 1),
            ',' => (Token::Comma, 1),
            '"' => quoted(self.0),
            _ => {
                let ends = |c: char| c.is_whitespace() || matches!(c, ':' | ',' | '"' | '#');
                let length = self.0.find(ends).unwrap_or(self.0.len());
                (Token::Word(self.0[..length].to_owned()), length)
            }
        };
        self.0 = &self.0[taken..];
        Some(token)
    }
}

/// A name between quotes, in which a backslash lets the next character stand for itself; and its length.
fn quoted(text: &str) -> (Token, usize) {
    let (mut name, mut is_escaped) = (String::new(), false);
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if is_escaped => {
                name.push(character);
                is_escaped = false;
            }
            '\\' => is_escaped = true,
            '"' => return (Token::Quoted(name), at + 1),
            _ => name.push(character),
        }
    }
    (Token::Unquoted, text.len())
}

/// What is left of a line.
struct Line<'t>(Peekable<Tokens<'t>>);

impl<'t> Line<'t> {
    fn of(text: &'t str) -> Self {
        Self(Tokens(text).peekable())
    }

    /// `rule = object ":" right { "," right } "by" who { "," who }`, or nothing.
    fn rule(&mut self) -> Result<Option<(Object, Rights, Vec<Who>)>, Misread> {
        if self.0.peek().is_none() {
            return Ok(None);
        }
        let object = self.object()?;
        self.expect(&Token::Colon, "`:`")?;
        let mut rights = Rights::NONE.with(self.right(&object)?);
        while self.skip_comma()? {
            rights = rights.with(self.right(&object)?);
        }
        self.expect(&Token::Word("by".to_owned()), "`,` or `by`")?;
        let mut who = vec![self.who()?];
        while self.skip_comma()? {
            who.push(self.who()?);
        }
        self.end()?;
        Ok(Some((object, rights, who)))
    }

    /// `object = "service" services | "messages" | "table" ( name | "*" ) | "store"`
    fn object(&mut self) -> Result<Object, Misread> {
        match self.word(OBJECT)?.as_str() {
            "service" => self.services(),
            "messages" => Ok(Object::Messages),
            "table" => match self.0.peek() {
                Some(Token::Word(word)) if word == "*" => {
                    self.next()?;
                    Ok(Object::Table(None))
                }
                _ => Ok(Object::Table(Some(self.name("the name of a table, or `*`,")?))),
            },
            "store" => Ok(Object::Store),
            other => Err(misread(OBJECT, Some(&Token::Word(other.to_owned())))),
        }
    }

    /// `services = number [ "-" number ] | "*"`
    fn services(&mut self) -> Result<Object, Misread> {
        let word = self.word(SERVICE)?;
        if word == "*" {
            return Ok(Object::Services(0, SERVICE_MAX));
        }
        let (first, last) = word.split_once('-').unwrap_or((&word, &word));
        let number = |text: &str| number::<u16>(text).filter(|number| *number <= SERVICE_MAX);
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Object::Services(first, last)),
            _ => Err(misread(SERVICE, Some(&Token::Word(word.clone())))),
        }
    }

    /// `right = "call" | "send" | "read" | "write" | "administer"`, as far as the object has it.
    fn right(&mut self, object: &Object) -> Result<Right, Misread> {
        let wanted = match object {
            Object::Services(..) => "`call`",
            Object::Messages => "`send`",
            Object::Table(_) => "`read`, `write` or `administer`",
            Object::Store => "`administer`",
        };
        let word = self.word(wanted)?;
        let right = match word.as_str() {
            "call" => Some(Right::Call),
            "send" => Some(Right::Send),
            "read" => Some(Right::Read),
            "write" => Some(Right::Write),
            "administer" => Some(Right::Administer),
            _ => None,
        };
        let right = right.filter(|right| object.rights().has(*right));
        right.ok_or_else(|| misread(wanted, Some(&Token::Word(word))))
    }

    /// `who = "uid" number | "key" digits | "identity" name | "certificate" name | "password" | "any"`
    fn who(&mut self) -> Result<Who, Misread> {
        match self.word(WHO)?.as_str() {
            "uid" => {
                let wanted = "the number of a user, as `id -u` says it,";
                let word = self.word(wanted)?;
                let user = number(&word).ok_or_else(|| misread(wanted, Some(&Token::Word(word))))?;
                Ok(Who::Is(Principal::User(user)))
            }
            "key" => {
                let wanted = "the name of a key, as `farcall key show` says it,";
                let word = self.word(wanted)?;
                let name = word.parse().map_err(|_| misread(wanted, Some(&Token::Word(word.clone()))))?;
                Ok(Who::Is(Principal::Key(name)))
            }
            "identity" => {
                let name = self.name("the name of a peer of security.peers_file")?;
                Ok(Who::Is(Principal::Identity(name.into())))
            }
            "certificate" => Ok(Who::Named(self.name("the name of a certificate")?)),
            "password" => Ok(Who::Is(Principal::Password)),
            "any" => Ok(Who::Any),
            other => Err(misread(WHO, Some(&Token::Word(other.to_owned())))),
        }
    }

    /// `name = word | quoted`
    fn name(&mut self, wanted: &'static str) -> Result<String, Misread> {
        match self.0.next() {
            Some(Token::Word(name) | Token::Quoted(name)) if !name.is_empty() => Ok(name),
            other => Err(misread(wanted, other.as_ref())),
        }
    }

    fn word(&mut self, wanted: &'static str) -> Result<String, Misread> {
        match self.0.next() {
            Some(Token::Word(word)) => Ok(word),
            other => Err(misread(wanted, other.as_ref())),
        }
    }

    fn peek_word(&mut self) -> Option<&str> {
        match self.0.peek() {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn next(&mut self) -> Result<Token, Misread> {
        self.0.next().ok_or_else(|| misread("more", None))
    }

    fn expect(&mut self, token: &Token, wanted: &'static str) -> Result<(), Misread> {
        match self.0.next() {
            Some(found) if found == *token => Ok(()),
            other => Err(misread(wanted, other.as_ref())),
        }
    }

    /// Whether the list goes on.
    fn skip_comma(&mut self) -> Result<bool, Misread> {
        let goes_on = self.0.peek() == Some(&Token::Comma);
        if goes_on {
            self.next()?;
        }
        Ok(goes_on)
    }

    fn end(&mut self) -> Result<(), Misread> {
        match self.0.next() {
            None => Ok(()),
            other => Err(misread("the end of the line", other.as_ref())),
        }
    }
}

/// A number in decimal digits alone.
fn number<N: FromStr>(text: &str) -> Option<N> {
    let are_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| are_digits)
}

fn misread(wanted: &'static str, found: Option<&Token>) -> Misread {
    Misread { wanted, found: found.map_or_else(|| "the end of the line".to_owned(), Token::shown) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "
        # who may what
        service 10: call by uid 1000, uid 1001   # orders
        service 20-29: call by key 0a000000000000ff
        messages: send by certificate \"spiffe://example/worker\"
        table users: read, write by certificate web.example
        table \"a \\\"b\\\": c\": read by password
        table *: read by uid 0
        store: administer by uid 0
        service *: call by uid 0
    ";

    fn policy() -> Policy {
        POLICY.parse().expect("it is a policy")
    }

    fn line_of(who: &str, act: &str) -> Option<usize> {
        let (object, right) = read_act(act).expect("an act");
        policy().allows(&read_principal(who).expect("a principal"), &object, right)
    }

    #[test]
    fn the_first_line_that_allows_is_named_and_the_rest_is_refused() {
        assert_eq!(policy().len(), 8);
        assert_eq!(line_of("uid 1001", "service 10: call"), Some(3));
        assert_eq!(line_of("uid 1002", "service 10: call"), None);
        assert_eq!(line_of("uid 0", "service 10: call"), Some(10));
        assert_eq!(line_of("key 0A000000000000FF", "service 25: call"), Some(4));
        assert_eq!(line_of("key 0a000000000000ff", "service 30: call"), None);
        assert_eq!(line_of("certificate x, \"spiffe://example/worker\"", "messages: send"), Some(5));
        assert_eq!(line_of("certificate web.example", "table users: write"), Some(6));
        assert_eq!(line_of("certificate web.example", "table users: administer"), None);
        assert_eq!(line_of("certificate web.example", "table other: read"), None);
        assert_eq!(line_of("password", "table \"a \\\"b\\\": c\": read"), Some(7));
        assert_eq!(line_of("uid 0", "table anything: read"), Some(8));
        assert_eq!(line_of("uid 0", "table anything: write"), None);
        assert_eq!(line_of("uid 0", "store: administer"), Some(9));
        assert_eq!(line_of("none", "service 10: call"), None);
    }

    #[test]
    fn whoever_is_any_needs_to_prove_nothing() {
        let policy: Policy = "service 1: call by any".parse().expect("a policy");
        for text in ["none", "uid 7", "password", "certificate a"] {
            let who = read_principal(text).expect("a principal");
            assert_eq!(policy.allows(&who, &Object::Services(1, 1), Right::Call), Some(1));
            assert_eq!(policy.services_of(&who), [(1, 1)]);
        }
    }

    #[test]
    fn an_identity_is_what_this_side_calls_it() {
        let policy: Policy =
            "service 1: call by identity worker-3, identity \"a b\"".parse().expect("a policy");
        let allows = |who: &str| {
            policy.allows(&read_principal(who).expect("a principal"), &Object::Services(1, 1), Right::Call)
        };
        assert_eq!((allows("identity worker-3"), allows("identity \"a b\"")), (Some(1), Some(1)));
        for other in ["identity worker-4", "certificate worker-3", "key 0a000000000000ff", "none"] {
            assert_eq!(allows(other), None, "{other}");
        }
    }

    #[test]
    fn a_table_of_the_name_of_all_is_one_table() {
        let policy: Policy = "table \"*\": read by any".parse().expect("a policy");
        let table = |name: &str| Object::Table(Some(name.to_owned()));
        assert_eq!(policy.allows(&Principal::Unproven, &table("*"), Right::Read), Some(1));
        assert_eq!(policy.allows(&Principal::Unproven, &table("users"), Right::Read), None);
    }

    #[test]
    fn an_error_names_the_line_and_what_is_wanted() {
        let why = |text: &str| text.parse::<Policy>().expect_err(text).to_string();
        assert_eq!(
            why("# one\n\nallow all"),
            "line 3: `service`, `messages`, `table` or `store` is wanted instead of `allow`"
        );
        assert_eq!(why("service 10: read by any"), "line 1: `call` is wanted instead of `read`");
        assert_eq!(why("service 10: call"), "line 1: `,` or `by` is wanted instead of the end of the line");
        assert!(why("service 10 call by any").ends_with("`:` is wanted instead of `call`"));
        assert!(why("table \"a: read by any").ends_with("instead of a `\"` that no other one follows"));
        assert!(why("service 1: call by uid root").contains("as `id -u` says it,"));
        assert!(why("service 1: call by key abc").contains("as `farcall key show` says it,"));
        assert!(
            why("service 1: call by any any").ends_with("the end of the line is wanted instead of `any`")
        );
        for number in ["65534", "-1", "9-8", "+1", "1-2-3", "x", "4294967297"] {
            assert!(why(&format!("service {number}: call by any")).contains("the number of a service"));
        }
        for line in ["table : read by any", "table \"\": read by any", "table x: read by any,", "by", ":"] {
            assert!(why(line).starts_with("line 1: "), "{line}");
        }
    }

    #[test]
    fn what_a_rule_says_of_others_cannot_control_a_terminal() {
        let error = format!("\u{1b}[2J{}", "x".repeat(1000)).parse::<Policy>().expect_err("no rule");
        assert!(error.to_string().contains("\\u{1b}[2J"));
        assert!(error.to_string().len() < 300);
    }
}
