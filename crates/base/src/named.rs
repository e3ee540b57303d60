//! Enums whose variants have names on command lines and in records.

/// Gives the variants of an enum their names: `ALL`, `name`, `Display` and `FromStr` follow. With a sentence
/// behind each name there is `about`, too, in the words of a help.
///
/// ```
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// enum Order {
///     First,
///     Last,
/// }
/// farcall_base::named!(Order: First = "first", Last = "last");
///
/// assert_eq!("last".parse(), Ok(Order::Last));
/// assert_eq!("next".parse::<Order>(), Err("`next` is none of first, last".to_owned()));
/// ```
#[macro_export]
macro_rules! named {
    ($named:ident: $($variant:ident = $name:literal),+ $(,)?) => {
        impl $named {
            /// All of them.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name on command lines and in records.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl ::core::fmt::Display for $named {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.pad(self.name())
            }
        }

        impl ::core::str::FromStr for $named {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let known = Self::ALL.into_iter().find(|one| one.name() == text);
                known.ok_or_else(|| format!("`{text}` is none of {}", [$($name),+].join(", ")))
            }
        }
    };
    ($named:ident: $($variant:ident = $name:literal, $about:literal;)+) => {
        $crate::named!($named: $($variant = $name),+);

        impl $named {
            /// What it is, in the words of a help.
            pub const fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => $about,)+
                }
            }
        }
    };
}
