//! Near and far: where a virtual machine's host has put its cores; and crowded, when somebody else uses them,
//! too.
//!
//! A cache line goes to a core that shares a cache, and comes back, in about 100 ns, and to one that does not
//! in 250 to 500 ns. The host moves cores at will, some every minute. All figures about short messages
//! follow, so a measurement states its regime, figures of different regimes are never compared, and one
//! during which the cores moved is void. The same is true of a core whose other thread somebody uses: there
//! what is bound by instructions takes up to twice as long, and what waits for lines does not.

use core::fmt;

/// Shorter round trips of a cache line than this, in nanoseconds, are near.
const NEAR_NANOS_MAX: f64 = 200.0;

/// Cores have moved when one of two distances is more than this many times the other. Within one regime
/// distances vary by up to a third, with the place of the line in the shared cache.
const MOVED_RATIO: f64 = 1.5;

/// How two cores stand to each other, and to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Regime {
    /// They share a cache.
    Near,
    /// They do not.
    Far,
    /// They share a cache, and one of them also works for somebody else.
    NearCrowded,
    /// They do not, and one of them also works for somebody else.
    FarCrowded,
    /// No line goes from one to the other: they are the ranks of a launcher, which nobody looked at.
    Ranks,
}

/// What was seen of two cores at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// The time of a cache line there and back.
    pub distance_nanos: f64,
    /// Whether somebody else uses one of them; `None` where nobody looked, or cannot.
    pub is_crowded: Option<bool>,
}

impl From<f64> for Standing {
    /// Only the distance is known.
    fn from(distance_nanos: f64) -> Self {
        Self { distance_nanos, is_crowded: None }
    }
}

impl Regime {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 5] = [Self::Near, Self::Far, Self::NearCrowded, Self::FarCrowded, Self::Ranks];

    /// As which it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
            Self::NearCrowded => "near-crowded",
            Self::FarCrowded => "far-crowded",
            Self::Ranks => "ranks",
        }
    }

    /// The one that is shown as `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|regime| regime.name() == name)
    }

    /// The regime of cores that stand like this.
    pub fn of(standing: Standing) -> Self {
        if standing.distance_nanos.is_infinite() {
            return Self::Ranks;
        }
        match (standing.distance_nanos < NEAR_NANOS_MAX, standing.is_crowded.unwrap_or(false)) {
            (true, false) => Self::Near,
            (false, false) => Self::Far,
            (true, true) => Self::NearCrowded,
            (false, true) => Self::FarCrowded,
        }
    }
}

impl fmt::Display for Regime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The regime throughout a measurement, from what was seen before and after it; `None` when the cores moved,
/// or others came to them or went.
pub fn regime_between(before: impl Into<Standing>, after: impl Into<Standing>) -> Option<Regime> {
    let (before, after) = (before.into(), after.into());
    let short = before.distance_nanos.min(after.distance_nanos);
    let long = before.distance_nanos.max(after.distance_nanos);
    let steady = long <= short * MOVED_RATIO && Regime::of(before) == Regime::of(after);
    steady.then(|| Regime::of(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_distance_has_a_regime() {
        assert_eq!(regime_between(110.0, 130.0), Some(Regime::Near));
        assert_eq!(regime_between(330.0, 250.0), Some(Regime::Far));
        assert_eq!(regime_between(f64::INFINITY, f64::INFINITY), Some(Regime::Ranks));
    }

    #[test]
    fn moved_cores_have_none() {
        assert_eq!(regime_between(75.0, 270.0), None);
        assert_eq!(regime_between(270.0, 75.0), None);
        assert_eq!(regime_between(190.0, 210.0), None, "regimes are not mixed, however small the step");
        assert_eq!(regime_between(250.0, 500.0), None);
    }

    #[test]
    fn crowded_cores_are_a_regime_of_their_own() {
        let crowded = |distance_nanos| Standing { distance_nanos, is_crowded: Some(true) };
        assert_eq!(regime_between(crowded(110.0), crowded(130.0)), Some(Regime::NearCrowded));
        assert_eq!(regime_between(crowded(300.0), crowded(310.0)), Some(Regime::FarCrowded));
        assert_eq!(regime_between(crowded(110.0), 110.0), None, "others went meanwhile");
        assert_eq!(regime_between(110.0, crowded(110.0)), None, "others came meanwhile");
    }

    #[test]
    fn each_is_found_by_its_name() {
        for regime in Regime::ALL {
            assert_eq!(Regime::named(&regime.to_string()), Some(regime));
        }
        assert_eq!(Regime::named("nearby"), None);
    }
}
