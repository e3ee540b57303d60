//! Near and far: where a virtual machine's host has put its cores.
//!
//! A cache line goes to a core that shares a cache, and comes back, in about 100 ns, and to one that does not in 250
//! to 500 ns. The host moves cores at will, some every minute. All figures about short messages follow, so a
//! measurement states its regime, figures of different regimes are never compared, and one during which the cores
//! moved is void.

use core::fmt;

/// Shorter round trips of a cache line than this, in nanoseconds, are near.
const NEAR_NANOS_MAX: f64 = 200.0;

/// Cores have moved when one of two distances is more than so many times the other. Within one regime distances
/// vary by up to a third, with the place of the line in the shared cache.
const MOVED_RATIO: f64 = 1.5;

/// How far two cores are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Regime {
    /// They share a cache.
    Near,
    /// They do not.
    Far,
}

impl Regime {
    /// The regime in which a cache line takes `nanos` there and back.
    pub fn of(nanos: f64) -> Self {
        if nanos < NEAR_NANOS_MAX { Self::Near } else { Self::Far }
    }
}

impl fmt::Display for Regime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Near => "near",
            Self::Far => "far",
        })
    }
}

/// The regime throughout a measurement, from the distances before and after it; `None` when the cores moved.
pub fn regime_between(before_nanos: f64, after_nanos: f64) -> Option<Regime> {
    let (short, long) =
        if before_nanos < after_nanos { (before_nanos, after_nanos) } else { (after_nanos, before_nanos) };
    let steady = long <= short * MOVED_RATIO && Regime::of(short) == Regime::of(long);
    steady.then(|| Regime::of(long))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_distance_has_a_regime() {
        assert_eq!(regime_between(110.0, 130.0), Some(Regime::Near));
        assert_eq!(regime_between(330.0, 250.0), Some(Regime::Far));
    }

    #[test]
    fn moved_cores_have_none() {
        assert_eq!(regime_between(75.0, 270.0), None);
        assert_eq!(regime_between(270.0, 75.0), None);
        assert_eq!(regime_between(190.0, 210.0), None, "regimes are not mixed, however small the step");
        assert_eq!(regime_between(250.0, 500.0), None);
    }
}
