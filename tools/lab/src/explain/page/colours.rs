//! One colour for one transport, on every chart of every page.
//!
//! What shares a colour on one chart differs in its line: solid, dashed, dotted, thin and thick, which print
//! and colour-blind readers can tell apart as well.

/// The colours of `style.css`.
const COLOURS: usize = 12;
/// The first that stands for no transport of the table below.
const FIRST_FREE: usize = 9;
/// The colour of limits and published figures.
pub const REFERENCE: usize = 8;
/// The kinds of lines of `style.css`.
pub const LINES: usize = 6;

/// Transports that are met most.
const OWN: [(&str, usize); 11] = [
    ("ring+shm", 0),
    ("basic+udp", 1),
    ("homa+udp", 2),
    ("tcp", 3),
    ("tcp+tls", 3),
    ("ucx", 4),
    ("mpi", 5),
    ("ring+sim", 6),
    ("basic+sim", 7),
    ("published", REFERENCE),
    ("limit", REFERENCE),
];

/// The colour of a curve or bar: that of the transport in its name; by the name itself where there is none.
pub fn of(name: &str) -> usize {
    let mut words = name.split([' ', ',', ';', ':']);
    let own = words.find_map(|word| OWN.iter().find(|(transport, _)| *transport == word));
    own.map_or_else(|| by_text(name.split([',', ';']).next().unwrap_or(name)), |(_, colour)| *colour)
}

/// The same text has the same colour on every page.
fn by_text(text: &str) -> usize {
    let sum = text.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    FIRST_FREE + sum % (COLOURS - FIRST_FREE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_has_its_colour_wherever_its_name_stands() {
        assert_eq!(of("ring+shm, p50"), of("echo100 ring+shm"));
        assert_ne!(of("basic+udp"), of("homa+udp"));
        assert_eq!(of("published, p50"), REFERENCE);
        assert_eq!(of("another, p50"), of("another, p99"));
        assert!(of("another") >= FIRST_FREE && of("another") < COLOURS);
        let style = include_str!("style.css");
        for colour in 0..COLOURS {
            for class in [format!(".c{colour} "), format!(".k{colour} "), format!("rect.f{colour} ")] {
                assert!(style.contains(&class), "{class}");
            }
            assert_eq!(style.matches(&format!("--c{colour}: ")).count(), 3, "light, dark and print");
        }
        for line in 1..LINES {
            assert!(style.contains(&format!(".d{line} ")) && style.contains(&format!(".b{line} ")));
        }
    }
}
