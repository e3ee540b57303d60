//! Parameters that are one of several words.

/// An enum whose variants have a word each.
pub trait Choice: Copy + 'static {
    /// The words, in the order of the variants.
    const WORDS: &'static [&'static str];

    /// The variant that a word names.
    fn from_word(word: &str) -> Option<Self>;

    /// The variant's word.
    fn word(self) -> &'static str;
}

/// Declares an enum that a parameter can have as its type: variants, their words and their documentation.
macro_rules! choice {
    ($(#[$attribute:meta])* $name:ident { $($variant:ident = $word:literal, $doc:literal;)+ }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[doc = $doc] $variant,)+
        }

        impl $crate::parameters::Choice for $name {
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }

            fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl $crate::parameters::value::Field for $name {
            fn from_value(value: $crate::parameters::Value) -> Self {
                match value {
                    $crate::parameters::Value::Choice(word) => {
                        <Self as $crate::parameters::Choice>::from_word(word).expect("the word is of this choice")
                    }
                    other => unreachable!("{other} is not a word, which the declaration promised"),
                }
            }

            fn to_value(&self, _: &$crate::parameters::Kind) -> $crate::parameters::Value {
                $crate::parameters::Value::Choice($crate::parameters::Choice::word(*self))
            }
        }
    };
}

pub(super) use choice;
