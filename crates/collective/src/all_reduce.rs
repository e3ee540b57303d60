//! All-reduces: the values of all members, combined, at all of them.
//!
//! The order in which values are combined is fixed by the algorithm and the size of the group
//! ([`AllReduce`]), never by the order in which messages arrive. So the result is the same bit for bit at all
//! members and in every run, also for floating-point numbers.

use crate::algorithms::AllReduce;
use crate::broadcast::{Binomial, pieces, two_parts};
use crate::error::CollectiveError;
use crate::group::{Collective, Group, Kind};
use crate::join::both;

/// A number that can be reduced. It travels in little-endian order.
pub trait Element: Copy {
    /// Its length.
    const BYTES: usize;
    /// Writes it to the first [`Element::BYTES`] bytes.
    fn write(self, bytes: &mut [u8]);
    /// Reads what [`Element::write`] wrote.
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! elements {
    ($($number:ty),*) => {$(
        impl Element for $number {
            const BYTES: usize = size_of::<$number>();

            #[inline]
            fn write(self, bytes: &mut [u8]) {
                bytes[..Self::BYTES].copy_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(*bytes.first_chunk().expect("a whole element"))
            }
        }
    )*};
}

elements!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

/// The sum; of integers it must not overflow.
pub fn sum<T: core::ops::Add<Output = T>>(one: T, other: T) -> T {
    one + other
}

/// The lesser of two; the first if they are equal or cannot be compared.
pub fn min<T: PartialOrd>(one: T, other: T) -> T {
    if other < one { other } else { one }
}

/// The greater of two; the first if they are equal or cannot be compared.
pub fn max<T: PartialOrd>(one: T, other: T) -> T {
    if other > one { other } else { one }
}

impl Group<'_> {
    /// Combines the values of all members element by element with `combine`, and leaves the result in
    /// `values` at all of them. All members give as many values and the same operation.
    ///
    /// `combine` must be associative, up to rounding; [`AllReduce::Ring`], the choice for many values, also
    /// takes it to be commutative. On an error the values are neither the old ones nor the result.
    ///
    /// ```
    /// # use farcall::Node;
    /// # use farcall_collective::{Group, GroupId, max, sum};
    /// # let node = Node::alone()?;
    /// # let endpoint = node.endpoint("ring+shm")?;
    /// # let mut group = Group::new(&endpoint, GroupId::new(0), node.rank(), 0..node.size())?;
    /// let mut values = [0.5; 1000];
    /// group.all_reduce(&mut values, sum).wait()?;
    /// let mut latest = [group.own()];
    /// group.all_reduce(&mut latest, max).wait()?;
    /// assert_eq!(latest, [group.size() - 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn all_reduce<'a, T: Element>(
        &'a mut self,
        values: &'a mut [T],
        combine: impl Fn(T, T) -> T + 'a,
    ) -> Collective<'a, ()> {
        let group = &*self;
        group.operation(Kind::AllReduce, async move {
            let mut bytes = vec![0; values.len() * T::BYTES];
            for (place, value) in bytes.chunks_exact_mut(T::BYTES).zip(&*values) {
                value.write(place);
            }
            let reduction = Reduction {
                group,
                combine: |own: &mut [u8], other: &[u8], side| combine_all(own, other, side, &combine),
            };
            match group.algorithms().all_reduce.choose(bytes.len()) {
                AllReduce::RecursiveDoubling => reduction.by_doubling(&mut bytes).await?,
                AllReduce::Ring => reduction.around_ring(&mut bytes, T::BYTES).await?,
                AllReduce::Binomial => reduction.by_tree(&mut bytes).await?,
            }
            for (value, place) in values.iter_mut().zip(bytes.chunks_exact(T::BYTES)) {
                *value = T::read(place);
            }
            Ok(())
        })
    }
}

/// On which side of the own values another member's stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

fn combine_all<T: Element>(own: &mut [u8], other: &[u8], side: Side, combine: impl Fn(T, T) -> T) {
    for (own, other) in own.chunks_exact_mut(T::BYTES).zip(other.chunks_exact(T::BYTES)) {
        let (mine, theirs) = (T::read(own), T::read(other));
        let combined = if side == Side::Left { combine(theirs, mine) } else { combine(mine, theirs) };
        combined.write(own);
    }
}

/// A reduction of bytes, of which `combine` knows what they mean.
struct Reduction<'g, 'e, F> {
    group: &'g Group<'e>,
    combine: F,
}

impl<F: Fn(&mut [u8], &[u8], Side)> Reduction<'_, '_, F> {
    async fn by_doubling(&self, values: &mut [u8]) -> Result<(), CollectiveError> {
        let (group, own) = (self.group, self.group.own());
        // The power of two that is left when the first members have combined in pairs, of which the odd ones
        // go on.
        let count = 1 << group.size().ilog2();
        let pairs = group.size() - count;
        let mut got = vec![0; values.len()];
        let number = if own < 2 * pairs {
            if own % 2 == 0 {
                group.send(own + 1, values).await?;
                return group.receive_into(own + 1, values).await;
            }
            group.receive_into(own - 1, &mut got).await?;
            (self.combine)(values, &got, Side::Left);
            own / 2
        } else {
            own - pairs
        };
        let mut distance = 1;
        while distance < count {
            let partner = number ^ distance;
            let member = if partner < pairs { 2 * partner + 1 } else { partner + pairs };
            both(group.send(member, values), group.receive_into(member, &mut got)).await?;
            (self.combine)(values, &got, if partner < number { Side::Left } else { Side::Right });
            distance *= 2;
        }
        if own < 2 * pairs { group.send(own - 1, values).await } else { Ok(()) }
    }

    /// In each round a member passes the block on that it combined last, and combines the one that it gets.
    async fn around_ring(&self, values: &mut [u8], element_bytes: usize) -> Result<(), CollectiveError> {
        let (group, own, size) = (self.group, self.group.own(), self.group.size());
        let elements = values.len() / element_bytes;
        let block = |number: u32| {
            let block = pieces(elements, size, number % size..number % size + 1);
            block.start * element_bytes..block.end * element_bytes
        };
        let mut got = vec![0; elements.div_ceil(size as usize) * element_bytes];
        for round in 0..size - 1 {
            let (given, next) = (block(own + size - round), block(own + size - round - 1));
            let (given, next) = two_parts(values, given, next);
            let got = &mut got[..next.len()];
            both(group.send(group.behind(1), given), group.receive_into(group.before(1), got)).await?;
            (self.combine)(next, got, Side::Left);
        }
        // The block of the member behind is complete here.
        group.pass_pieces_around(own + 1, block, values).await
    }

    async fn by_tree(&self, values: &mut [u8]) -> Result<(), CollectiveError> {
        let tree = Binomial::new(self.group, 0);
        let mut got = vec![0; values.len()];
        for child in tree.children_from_near() {
            self.group.receive_into(child, &mut got).await?;
            (self.combine)(values, &got, Side::Right);
        }
        if let Some(parent) = tree.parent() {
            self.group.send(parent, values).await?;
        }
        self.group.binomial_broadcast(0, values).await
    }
}
