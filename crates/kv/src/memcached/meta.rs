//! Meta commands: a key, and flags of one letter, some with a token.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::parse::{Direction, KEY_BYTES_MAX, Malformed, Mode, Words, checked_key, number, signed};

/// The longest token that is given back as it came.
const OPAQUE_BYTES_MAX: usize = 32;

/// Which command it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVerb {
    Get,
    Set,
    Delete,
    Add,
}

impl MetaVerb {
    /// The flags that it has.
    fn flags(self) -> &'static [u8] {
        match self {
            Self::Get => b"bcfkOqstvNRT",
            Self::Set => b"bckOqsCFIMNT",
            Self::Delete => b"bkOqCIT",
            Self::Add => b"bckOqtvCDJMNT",
        }
    }
}

/// A meta command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta<'a> {
    pub verb: MetaVerb,
    /// The key, decoded.
    pub key: Cow<'a, [u8]>,
    /// The key as it was sent, which is how it is given back.
    pub sent_key: &'a [u8],
    /// All flags as they were sent: answers give theirs in that order.
    pub flags: Words<'a>,
    pub value: &'a [u8],
    pub options: Options,
}

/// What the flags say that do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub is_quiet: bool,
    /// The value is wanted.
    pub gives_value: bool,
    /// When the object expires from now on.
    pub exptime: Option<i64>,
    /// An object that is not there is created, and expires so.
    pub creates: Option<i64>,
    /// A client is asked for a new value when the object has fewer seconds than this.
    pub renews: Option<i64>,
    /// The version that the object must have.
    pub compare: Option<u64>,
    pub flags: u32,
    /// It becomes, or may be, stale.
    pub is_stale: bool,
    /// How a value is stored.
    pub mode: Mode,
    pub direction: Direction,
    pub amount: u64,
    /// The number that is created.
    pub initial: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            is_quiet: false,
            gives_value: false,
            exptime: None,
            creates: None,
            renews: None,
            compare: None,
            flags: 0,
            is_stale: false,
            mode: Mode::Set,
            direction: Direction::Up,
            amount: 1,
            initial: 0,
        }
    }
}

impl<'a> Meta<'a> {
    /// Understands what is behind the command's name, and length of the value if it has one.
    pub fn parse(verb: MetaVerb, sent_key: &'a [u8], flags: Words<'a>) -> Result<Self, Malformed> {
        checked_key(sent_key)?;
        let (mut options, mut seen) = (Options::default(), 0_u128);
        for word in flags {
            let (&flag, token) = word.split_first().ok_or(Malformed::Flag)?;
            if !verb.flags().contains(&flag) {
                return Err(Malformed::Flag);
            }
            if seen & 1 << flag != 0 {
                return Err(Malformed::SameFlag);
            }
            seen |= 1 << flag;
            options.take(verb, flag, token)?;
        }
        let key = match seen & 1 << b'b' {
            0 => Cow::Borrowed(sent_key),
            _ => Cow::Owned(BASE64.decode(sent_key).map_err(|_| Malformed::Encoding)?),
        };
        if !(1..=KEY_BYTES_MAX).contains(&key.len()) {
            return Err(Malformed::Encoding);
        }
        Ok(Self { verb, key, sent_key, flags, value: b"", options })
    }
}

impl Meta<'_> {
    /// Whether the key was sent in base64.
    pub fn is_encoded(&self) -> bool {
        matches!(self.key, Cow::Owned(_))
    }
}

impl Options {
    fn take(&mut self, verb: MetaVerb, flag: u8, token: &[u8]) -> Result<(), Malformed> {
        let unsigned = || number(token).ok_or(Malformed::Token);
        let seconds = || signed(token).ok_or(Malformed::Token);
        match flag {
            b'q' => self.is_quiet = true,
            b'v' => self.gives_value = true,
            b'T' => self.exptime = Some(seconds()?),
            b'N' => self.creates = Some(seconds()?),
            b'R' => self.renews = Some(seconds()?),
            b'C' => self.compare = Some(unsigned()?),
            b'F' => self.flags = u32::try_from(unsigned()?).map_err(|_| Malformed::Token)?,
            b'D' => self.amount = number(token).ok_or(Malformed::Amount)?,
            b'J' => self.initial = number(token).ok_or(Malformed::Token)?,
            b'I' => self.is_stale = true,
            b'M' if verb == MetaVerb::Set => self.mode = store_mode(token)?,
            b'M' => self.direction = direction(token)?,
            b'O' if token.len() > OPAQUE_BYTES_MAX => return Err(Malformed::Opaque),
            _ => {}
        }
        Ok(())
    }
}

fn store_mode(token: &[u8]) -> Result<Mode, Malformed> {
    match token.to_ascii_uppercase().as_slice() {
        b"E" => Ok(Mode::Add),
        b"A" => Ok(Mode::Append),
        b"P" => Ok(Mode::Prepend),
        b"R" => Ok(Mode::Replace),
        b"S" => Ok(Mode::Set),
        _ => Err(Malformed::MetaMode),
    }
}

fn direction(token: &[u8]) -> Result<Direction, Malformed> {
    match token {
        b"I" | b"i" | b"+" => Ok(Direction::Up),
        b"D" | b"d" | b"-" => Ok(Direction::Down),
        _ => Err(Malformed::MetaMode),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse<'a>(verb: MetaVerb, key: &'a [u8], flags: &'a [u8]) -> Result<Meta<'a>, Malformed> {
        Meta::parse(verb, key, Words(flags))
    }

    #[test]
    fn flags_are_understood() {
        let meta = parse(MetaVerb::Get, b"Zm9v", b" b v t Oabc R30 N60 q").expect("good flags");
        let options = Options {
            is_quiet: true,
            gives_value: true,
            renews: Some(30),
            creates: Some(60),
            ..Options::default()
        };
        assert_eq!((&*meta.key, meta.options), (&b"foo"[..], options));
        let meta = parse(MetaVerb::Add, b"k", b" Md D7 J9 T-1").expect("good flags");
        assert_eq!((meta.options.direction, meta.options.amount), (Direction::Down, 7));
        assert_eq!((meta.options.initial, meta.options.exptime), (9, Some(-1)));
        let meta = parse(MetaVerb::Set, b"k", b" F4294967295 Ma I C5").expect("good flags");
        assert_eq!((meta.options.flags, meta.options.mode), (u32::MAX, Mode::Append));
        assert_eq!((meta.options.is_stale, meta.options.compare), (true, Some(5)));
    }

    #[test]
    fn flags_that_make_no_sense_are_refused() {
        for (verb, flags, why) in [
            (MetaVerb::Get, &b" x"[..], Malformed::Flag),
            (MetaVerb::Get, b" h", Malformed::Flag),
            (MetaVerb::Get, b" M", Malformed::Flag),
            (MetaVerb::Get, "\u{e9}".as_bytes(), Malformed::Flag),
            (MetaVerb::Get, b" v v", Malformed::SameFlag),
            (MetaVerb::Get, b" T", Malformed::Token),
            (MetaVerb::Get, b" O0123456789abcdef0123456789abcdef0", Malformed::Opaque),
            (MetaVerb::Set, b" F4294967296", Malformed::Token),
            (MetaVerb::Set, b" MX", Malformed::MetaMode),
            (MetaVerb::Add, b" D-1", Malformed::Amount),
            (MetaVerb::Delete, b" Cx", Malformed::Token),
        ] {
            let found = parse(verb, b"k", flags).map(drop);
            assert_eq!(found, Err(why), "{verb:?} {}", flags.escape_ascii());
        }
        for key in [&b"Zm9"[..], b"-", b"===="] {
            assert_eq!(parse(MetaVerb::Get, key, b" b").map(drop), Err(Malformed::Encoding));
        }
    }
}
