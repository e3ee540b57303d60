//! The machinery in virtual time, under every protocol.

use super::Policy;
use crate::basic::BasicPolicy;
use crate::homa::HomaPolicy;

/// A policy that the tests run under, in its default configuration.
pub(crate) trait Tested: Policy + Default {}

impl Tested for BasicPolicy {}

impl Tested for HomaPolicy {}

/// Makes each of these functions a test of every protocol.
macro_rules! for_every_protocol {
    ($($case:ident),+ $(,)?) => {
        for_every_protocol!(@module basic, BasicPolicy, $($case),+);
        for_every_protocol!(@module homa, HomaPolicy, $($case),+);
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
mod costs;
mod identified;
mod keyed;
mod lifecycle;
mod loss;
mod properties;
mod short_paths;
mod strangers;
pub(crate) mod world;
