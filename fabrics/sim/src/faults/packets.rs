//! Faults that strike single packets, each with its probability.
//!
//! They strike where packets enter the fabric. Lanes are reliable: what carries them repairs such faults.

use farcall_base::Random;
use serde::Deserialize;

use crate::time::Picos;
use crate::values;

/// The most bits that one corruption flips.
const FLIPPED_BITS_MAX: u64 = 3;

/// How often packets suffer what, each independently of the others.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PacketFaults {
    /// Lost.
    #[serde(deserialize_with = "values::fraction")]
    pub drop: f64,
    /// Sent twice.
    #[serde(deserialize_with = "values::fraction")]
    pub duplicate: f64,
    /// Held up for a moment, so that some of those behind overtake it.
    #[serde(deserialize_with = "values::fraction")]
    pub reorder: f64,
    /// Held up for long.
    #[serde(deserialize_with = "values::fraction")]
    pub delay: f64,
    /// Some bits flipped.
    #[serde(deserialize_with = "values::fraction")]
    pub corrupt: f64,
    /// Cut short.
    #[serde(deserialize_with = "values::fraction")]
    pub truncate: f64,
    /// The longest time that `reorder` holds a packet up.
    #[serde(rename = "reorder_us", deserialize_with = "values::micros")]
    pub reorder_max: Picos,
    /// The longest time that `delay` holds a packet up.
    #[serde(rename = "delay_us", deserialize_with = "values::micros")]
    pub delay_max: Picos,
}

impl Default for PacketFaults {
    /// No faults.
    fn default() -> Self {
        Self {
            drop: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            delay: 0.0,
            corrupt: 0.0,
            truncate: 0.0,
            reorder_max: Picos::from_nanos_f64(5e3),
            delay_max: Picos::from_nanos_f64(1e6),
        }
    }
}

/// What one packet has drawn.
#[derive(Clone, Debug)]
pub struct Fate {
    /// It is lost.
    pub drop: bool,
    /// It is sent twice.
    pub duplicate: bool,
    /// Some bits are flipped.
    pub corrupt: bool,
    /// It is cut short.
    pub truncate: bool,
    /// How long it is held up so that others overtake it.
    pub reorder: Option<Picos>,
    /// How long it is held up.
    pub delay: Option<Picos>,
    /// For the details.
    random: Random,
}

impl PacketFaults {
    /// Whether anything can happen to a packet at all.
    pub fn any(&self) -> bool {
        [self.drop, self.duplicate, self.reorder, self.delay, self.corrupt, self.truncate]
            .iter()
            .any(|probability| *probability > 0.0)
    }

    /// Draws what happens to one packet.
    pub fn draw(&self, random: &mut Random) -> Fate {
        let (drop, duplicate) = (random.chance(self.drop), random.chance(self.duplicate));
        let (corrupt, truncate) = (random.chance(self.corrupt), random.chance(self.truncate));
        let (reorder, delay) = (random.chance(self.reorder), random.chance(self.delay));
        let mut details = Random::new(random.bits());
        let mut span = |most: Picos| Picos(1 + details.below(most.0));
        let (reorder, delay) = (reorder.then(|| span(self.reorder_max)), delay.then(|| span(self.delay_max)));
        Fate { drop, duplicate, corrupt, truncate, reorder, delay, random: details }
    }
}

impl Fate {
    /// Flips some bits of a payload. Neighbouring ones, so that no flip undoes another but in a single byte.
    pub fn flip_bits(&mut self, bytes: &mut [u8]) {
        let bits = bytes.len() as u64 * 8;
        let (first, count) = (self.random.below(bits), 1 + self.random.below(FLIPPED_BITS_MAX));
        for bit in (first..first + count).map(|bit| bit % bits.max(1)).filter(|bit| *bit < bits) {
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }

    /// What is left of a payload of `length` bytes when it is cut short.
    pub fn shortened(&mut self, length: u32) -> u32 {
        self.random.below(u64::from(length)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_as_frequent_as_told() {
        let faults = PacketFaults { drop: 0.25, delay: 0.5, ..PacketFaults::default() };
        assert!(faults.any() && !PacketFaults::default().any());
        let mut random = Random::new(3);
        let fates: Vec<_> = (0..10_000).map(|_| faults.draw(&mut random)).collect();
        let dropped = fates.iter().filter(|fate| fate.drop).count();
        let delayed = fates.iter().filter(|fate| fate.delay.is_some()).count();
        assert!(
            (2_300..2_700).contains(&dropped) && (4_800..5_200).contains(&delayed),
            "{dropped}, {delayed}"
        );
        assert!(fates.iter().all(|fate| !fate.duplicate && fate.reorder.is_none() && !fate.corrupt));
        assert!(fates.iter().filter_map(|fate| fate.delay).all(|span| span <= faults.delay_max));
    }

    #[test]
    fn damage_changes_a_packet() {
        let mut random = Random::new(4);
        let faults = PacketFaults { corrupt: 1.0, truncate: 1.0, ..PacketFaults::default() };
        for length in 1..50 {
            let mut fate = faults.draw(&mut random);
            let mut bytes = vec![0; length];
            fate.flip_bits(&mut bytes);
            assert!(bytes.iter().any(|byte| *byte != 0));
            assert!(fate.shortened(length as u32) < length as u32);
        }
        faults.draw(&mut random).flip_bits(&mut []);
    }
}
