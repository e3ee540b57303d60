//! A command as the table describes it.

use super::call::{Call, Done};
use crate::decimal;
use crate::resp::parse::Args;

/// A command.
#[derive(Debug)]
pub struct Command {
    /// Its name, in small letters.
    pub name: &'static str,
    /// How many arguments it takes, its name included; at least that many when negative.
    pub arity: i32,
    /// What it is about.
    pub group: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// What it may do.
    pub effect: Effect,
    /// Which arguments are keys: the first, the last, counted from the end when negative, and every how many.
    pub keys: (i32, i32, i32),
    /// The argument that says how many keys follow it, beside those, if one does.
    pub counted: Option<usize>,
    /// Whether clients may use it that have not said the password.
    pub is_for_strangers: bool,
    /// Whether it runs at once, also within a transaction.
    pub is_at_once: bool,
    /// The commands that it consists of.
    pub subcommands: &'static [&'static str],
    pub run: fn(&mut Call<'_>) -> Done,
}

/// What a command may do to objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It has nothing to do with them.
    None,
    /// It reads some.
    Reads,
    /// It changes some, and takes no more memory.
    Writes,
    /// It may take more memory.
    Grows,
}

impl Command {
    /// Whether it takes this many arguments.
    #[inline]
    pub fn takes(&self, arguments: usize) -> bool {
        let arguments = arguments as i64;
        let arity = i64::from(self.arity);
        arguments == arity || arity < 0 && arguments >= -arity
    }

    /// Whether it is asked which commands it consists of.
    #[inline]
    pub fn is_asked_for_help(&self, args: Args<'_>) -> bool {
        !self.subcommands.is_empty() && args.len() == 2 && args.at(1).eq_ignore_ascii_case(b"help")
    }

    /// The arguments that are keys.
    pub fn keys_of<'a>(&self, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
        let counted = self.counted.and_then(|at| Some((at + 1, decimal::parse(args.get(at)?)?)));
        let counted = counted.map_or(0..0, |(first, count)| {
            let left = args.len().saturating_sub(first);
            first..first + usize::try_from(count).unwrap_or(0).min(left)
        });
        let (first, last, step) = self.keys;
        let last = if last < 0 { args.len() as i64 + i64::from(last) } else { i64::from(last) };
        let keys = if first > 0 { first as usize..(last + 1) as usize } else { 0..0 };
        let keys = keys.step_by(step.max(1) as usize).chain(counted);
        keys.filter_map(move |number| args.get(number))
    }

    /// Its flags, in Redis's words.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        let effect: &[_] = match self.effect {
            Effect::None => &[],
            Effect::Reads => &["readonly"],
            Effect::Writes => &["write"],
            Effect::Grows => &["write", "denyoom"],
        };
        let counted = self.counted.map(|_| "movablekeys");
        effect.iter().copied().chain(self.is_for_strangers.then_some("no_auth")).chain(counted)
    }

    pub(super) const fn new(
        name: &'static str,
        arity: i32,
        (group, effect): (&'static str, Effect),
        keys: (i32, i32, i32),
        run: fn(&mut Call<'_>) -> Done,
        summary: &'static str,
    ) -> Self {
        let subcommands = &[] as &[_];
        let (is_for_strangers, is_at_once) = (false, false);
        let counted = None;
        Self {
            name,
            arity,
            group,
            summary,
            effect,
            keys,
            counted,
            is_for_strangers,
            is_at_once,
            subcommands,
            run,
        }
    }

    pub(super) const fn counts_keys_at(self, argument: usize) -> Self {
        Self { counted: Some(argument), ..self }
    }

    pub(super) const fn open(self) -> Self {
        Self { is_for_strangers: true, ..self }
    }

    pub(super) const fn at_once(self) -> Self {
        Self { is_at_once: true, ..self }
    }

    pub(super) const fn of(self, subcommands: &'static [&'static str]) -> Self {
        Self { subcommands, ..self }
    }
}
