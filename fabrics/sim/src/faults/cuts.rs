//! Which hosts cannot reach which.

/// A bit for each ordered pair of hosts.
#[derive(Clone, Debug, Default)]
pub struct Cuts {
    hosts: usize,
    /// Empty while nothing is cut.
    bits: Vec<u64>,
}

impl Cuts {
    /// All of `hosts` hosts reach each other.
    pub fn none(hosts: usize) -> Self {
        Self { hosts, bits: Vec::new() }
    }

    /// What `from` sends does not reach `to` any more.
    pub fn cut(&mut self, from: u32, to: u32) {
        if self.bits.is_empty() {
            self.bits = vec![0; (self.hosts * self.hosts).div_ceil(64)];
        }
        let (word, bit) = self.place(from, to);
        self.bits[word] |= 1 << bit;
    }

    /// All reach each other again.
    pub fn heal(&mut self) {
        self.bits.clear();
    }

    /// Whether what `from` sends is lost on its way to `to`.
    #[inline]
    pub fn separate(&self, from: u32, to: u32) -> bool {
        if self.bits.is_empty() {
            return false;
        }
        let (word, bit) = self.place(from, to);
        self.bits[word] >> bit & 1 == 1
    }

    fn place(&self, from: u32, to: u32) -> (usize, usize) {
        let index = from as usize * self.hosts + to as usize;
        (index / 64, index % 64)
    }
}
