//! How many hosts send to a machine at the time.
//!
//! Counted in windows of time: a host counts from its first packet in a window to the end of the next. That
//! takes one comparison a packet and no list of times.

use crate::time::Picos;

/// The hosts that a machine heard of lately.
#[derive(Debug)]
pub struct Sources {
    window: Picos,
    /// The number of the window in which each host was last heard, plus one.
    heard_in: Vec<u64>,
    /// The window that is being counted, plus one.
    current: u64,
    count: u32,
    count_before: u32,
}

impl Sources {
    /// Nobody yet, of `hosts` hosts.
    pub fn new(hosts: usize, window: Picos) -> Self {
        let window = window.max(Picos(1));
        Self { window, heard_in: vec![0; hosts], current: 0, count: 0, count_before: 0 }
    }

    /// Notes a packet of `source`; returns how many others send.
    #[inline]
    pub fn heard(&mut self, source: u32, at: Picos) -> u32 {
        let window = at.0 / self.window.0 + 1;
        if window != self.current {
            self.count_before = if window == self.current + 1 { self.count } else { 0 };
            (self.current, self.count) = (window, 0);
        }
        let heard_in = &mut self.heard_in[source as usize];
        if *heard_in != window {
            *heard_in = window;
            self.count += 1;
        }
        self.count.max(self.count_before) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_count_in_their_window_and_the_next() {
        let mut sources = Sources::new(10, Picos(100));
        assert_eq!(sources.heard(0, Picos(5)), 0);
        assert_eq!((sources.heard(1, Picos(10)), sources.heard(0, Picos(11))), (1, 1));
        assert_eq!(sources.heard(2, Picos(99)), 2);
        assert_eq!(sources.heard(0, Picos(100)), 2, "three were heard in the window before");
        assert_eq!(sources.heard(0, Picos(200)), 0, "the others have been silent for a window");
        assert_eq!(sources.heard(1, Picos(900)), 0);
    }
}
