//! What a collection of a durable table does, step by step, until the log has it.
//!
//! Each element that is put has a stamp, which no other one of its collection ever had: so the log knows
//! which of its records are still true, however often an element was replaced.

/// A step of a collection.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// An element is there, in place of the one of the same name.
    Put { stamp: u64, name: Box<[u8]>, value: Box<[u8]> },
    /// An element is gone.
    Remove { name: Box<[u8]> },
}

/// The steps of a collection, if its table is durable.
#[derive(Debug, Default)]
pub struct Trail(Option<Box<Steps>>);

#[derive(Debug, Default)]
struct Steps {
    next_stamp: u64,
    steps: Vec<Step>,
    is_cut: bool,
}

/// A copy of a collection is another one: its table decides whether it has a trail.
impl Clone for Trail {
    fn clone(&self) -> Self {
        Self(None)
    }
}

impl Trail {
    /// From now on steps are taken down, with stamps from this one on.
    pub fn begin(&mut self, next_stamp: u64) {
        self.0 = Some(Box::new(Steps { next_stamp, ..Steps::default() }));
    }

    /// Nothing is taken down any more.
    pub fn end(&mut self) {
        self.0 = None;
    }

    /// Whether steps are taken down.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// An element is put; gives its stamp.
    #[inline]
    pub fn put(&mut self, name: &[u8], value: &[u8]) -> Option<u64> {
        let steps = self.0.as_mut()?;
        let stamp = steps.next_stamp;
        steps.next_stamp = stamp.saturating_add(1);
        steps.steps.push(Step::Put { stamp, name: name.into(), value: value.into() });
        Some(stamp)
    }

    /// An element is removed.
    #[inline]
    pub fn remove(&mut self, name: &[u8]) {
        if let Some(steps) = &mut self.0 {
            steps.steps.push(Step::Remove { name: name.into() });
        }
    }

    /// Elements are removed at an end of a list.
    #[inline]
    pub fn cut(&mut self) {
        if let Some(steps) = &mut self.0 {
            steps.is_cut = true;
        }
    }

    /// The steps since this was last asked for, and whether a list was cut.
    pub fn take(&mut self) -> (Vec<Step>, bool) {
        self.0.as_mut().map_or((Vec::new(), false), |steps| {
            (core::mem::take(&mut steps.steps), core::mem::take(&mut steps.is_cut))
        })
    }
}
