//! Seeded random changes to inputs: what a run without coverage feedback can do.

use farcall_base::Random;

/// Numbers at the edges of fields.
const EDGES: &[u8] = &[0, 1, 2, 7, 8, 15, 16, 63, 64, 127, 128, 254, 255];

/// Changes `input` in a few places; `donor` is another input of the same target.
pub fn mutate(input: &mut Vec<u8>, donor: &[u8], random: &mut Random, bytes_max: usize) {
    for _ in 0..=random.index(6) {
        let at = random.index(input.len() + 1);
        match random.index(7) {
            0 if at < input.len() => input[at] ^= 1 << random.index(8),
            1 if at < input.len() => input[at] = random.bits() as u8,
            2 if at < input.len() => input[at] = EDGES[random.index(EDGES.len())],
            3 => input.truncate(at),
            4 => {
                let end = at + random.index(input.len() - at + 1).min(16);
                input.drain(at..end);
            }
            5 => {
                let fresh: Vec<u8> = (0..random.index(24)).map(|_| random.bits() as u8).collect();
                input.splice(at..at, fresh);
            }
            _ => {
                let start = random.index(donor.len() + 1);
                let end = start + random.index(donor.len() - start + 1).min(64);
                input.splice(at..at, donor[start..end].iter().copied());
            }
        }
    }
    input.truncate(bytes_max);
}
