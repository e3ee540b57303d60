//! The machinery in virtual time, under every protocol.

use super::Policy;
use crate::basic::BasicPolicy;

/// A policy that the tests run under, in its default configuration.
pub(crate) trait Tested: Policy + Default {}

impl Tested for BasicPolicy {}

/// Makes each of these functions a test of every protocol.
macro_rules! for_every_protocol {
    ($($case:ident),+ $(,)?) => {
        for_every_protocol!(@module basic, BasicPolicy, $($case),+);
    };
    (@module $name:ident, $policy:ident, $($case:ident),+) => {
        mod $name {
            $(
                #[test]
                fn $case() {
                    super::$case::<super::super::$policy>();
                }
            )+
        }
    };
}

mod calls;
mod lifecycle;
mod loss;
mod properties;
pub(crate) mod world;
