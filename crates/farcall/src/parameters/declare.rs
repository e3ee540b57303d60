//! The macro that turns the table of parameters into types and descriptions.

/// Declares groups of parameters. Each line is
/// `name: FieldType = "default", domain, Scope, "One line of documentation.";`
///
/// A field of a domain with `or_auto` has an `Option` as its type.
macro_rules! parameters {
    ($(
        $group_doc:literal
        $group:ident: $group_type:ident {
            $($name:ident: $field:ty = $default:literal, $domain:expr, $scope:ident, $doc:literal;)+
        }
    )+) => {
        $(
            #[doc = $group_doc]
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub struct $group_type {
                $(#[doc = $doc] pub $name: $field,)+
            }
        )+

        /// Every parameter's value, all valid. See the [module](crate::parameters) for where they come from.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Settings {
            $(#[doc = $group_doc] pub $group: $group_type,)+
        }

        /// The declared defaults, untouched by files and the environment.
        impl Default for Settings {
            fn default() -> Self {
                fn initial<T: $crate::parameters::value::Field>(domain: $crate::parameters::Domain, text: &str) -> T {
                    T::from_value(domain.parse(text).expect("declared defaults are valid"))
                }
                Self {
                    $($group: $group_type { $($name: initial($domain, $default),)+ },)+
                }
            }
        }

        /// All parameters, group by group.
        pub static PARAMETERS: &[$crate::parameters::Parameter] = &[$($(
            $crate::parameters::Parameter {
                name: concat!(stringify!($group), ".", stringify!($name)),
                domain: $domain,
                default: $default,
                scope: $crate::parameters::Scope::$scope,
                doc: $doc,
                set: |settings, value| {
                    settings.$group.$name = $crate::parameters::value::Field::from_value(value);
                },
                get: |settings| {
                    $crate::parameters::value::Field::to_value(&settings.$group.$name, &$domain.kind)
                },
            },
        )+)+];
    };
}

pub(super) use parameters;
