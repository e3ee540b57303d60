//! Seeded random changes to inputs: what a run without coverage feedback can do.

/// A source of numbers that gives the same ones for the same seed (SplitMix64, by Steele, Lea and Flood,
/// 2014).
pub struct Random(u64);

impl Random {
    /// The source for a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound as u64) as usize
    }
}

/// Numbers at the edges of fields.
const EDGES: &[u8] = &[0, 1, 2, 7, 8, 15, 16, 63, 64, 127, 128, 254, 255];

/// Changes `input` in a few places; `donor` is another input of the same target.
pub fn mutate(input: &mut Vec<u8>, donor: &[u8], random: &mut Random, bytes_max: usize) {
    for _ in 0..=random.below(6) {
        let at = random.below(input.len() + 1);
        match random.below(7) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 if at < input.len() => input[at] = random.number() as u8,
            2 if at < input.len() => input[at] = EDGES[random.below(EDGES.len())],
            3 => input.truncate(at),
            4 => {
                let end = at + random.below(input.len() - at + 1).min(16);
                input.drain(at..end);
            }
            5 => {
                let fresh: Vec<u8> = (0..random.below(24)).map(|_| random.number() as u8).collect();
                input.splice(at..at, fresh);
            }
            _ => {
                let start = random.below(donor.len() + 1);
                let end = start + random.below(donor.len() - start + 1).min(64);
                input.splice(at..at, donor[start..end].iter().copied());
            }
        }
    }
    input.truncate(bytes_max);
}
