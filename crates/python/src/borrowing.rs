//! What borrows an endpoint, in objects of Python, whose lifetimes no compiler knows.

use core::cell::RefCell;
use core::ops::{Deref, DerefMut};
use std::rc::{Rc, Weak};

use farcall::Endpoint;
use pyo3::PyResult;

use crate::errors::ClosedError;

/// Something that borrows an endpoint, with a share of the endpoint: the memory is there as long as this is.
pub struct Borrowing<T> {
    // In this order: the value is dropped first.
    value: T,
    _endpoint: Rc<Endpoint>,
}

impl<T> Borrowing<T> {
    /// What `make` makes of the endpoint. It must not keep the reference elsewhere than in its value.
    pub fn new<E>(
        endpoint: &Rc<Endpoint>,
        make: impl FnOnce(&'static Endpoint) -> Result<T, E>,
    ) -> Result<Self, E> {
        // SAFETY: the endpoint stays where it is as long as its count is above zero, and the share beside
        // the value is dropped after it.
        let lasting: &'static Endpoint = unsafe { &*Rc::as_ptr(endpoint) };
        Ok(Self { value: make(lasting)?, _endpoint: Rc::clone(endpoint) })
    }
}

impl<T> Deref for Borrowing<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Borrowing<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// Closed with its endpoint.
pub trait Close {
    fn close(&self);
}

/// A [`Borrowing`] that an object of Python holds, and its endpoint can end.
pub struct Child<T>(RefCell<Option<Rc<Borrowing<T>>>>);

impl<T: 'static> Child<T> {
    /// The child, in the list of its endpoint.
    pub fn new(value: Borrowing<T>, children: &RefCell<Vec<Weak<dyn Close>>>) -> Rc<Self> {
        let child = Rc::new(Self(RefCell::new(Some(Rc::new(value)))));
        let mut children = children.borrow_mut();
        children.retain(|child| child.strong_count() > 0);
        let listed: Rc<dyn Close> = Rc::clone(&child) as _;
        children.push(Rc::downgrade(&listed));
        child
    }

    /// What it is, unless it was closed. It lives until the last share is dropped.
    pub fn open(&self) -> PyResult<Rc<Borrowing<T>>> {
        self.0.borrow().clone().ok_or_else(|| ClosedError::new_err("this was closed; open it again"))
    }
}

impl<T> Close for Child<T> {
    fn close(&self) {
        drop(self.0.take());
    }
}
