//! Who calls: the identity that the transport of the caller's session proves.

use farcall::policy::{self, read_principal};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// An identity, as policies name it.
#[pyclass(frozen, eq, module = "farcall")]
#[derive(Clone, PartialEq, Eq)]
pub struct Principal(pub policy::Principal);

#[pymethods]
impl Principal {
    /// `uid`, `key`, `identity`, `certificate`, `password`, or `none` when nothing is proven.
    #[getter]
    fn kind(&self) -> &'static str {
        match &self.0 {
            policy::Principal::Unproven => "none",
            policy::Principal::User(_) => "uid",
            policy::Principal::Key(_) => "key",
            policy::Principal::Identity(_) => "identity",
            policy::Principal::Certificate(_) => "certificate",
            policy::Principal::Password => "password",
        }
    }

    /// The number of the user of this machine; None of another kind.
    #[getter]
    fn uid(&self) -> Option<u32> {
        if let policy::Principal::User(uid) = self.0 { Some(uid) } else { None }
    }

    /// The name of the key or the identity, or the names of the certificate.
    #[getter]
    fn names(&self) -> Vec<String> {
        match &self.0 {
            policy::Principal::Key(name) => vec![name.to_string()],
            policy::Principal::Identity(name) => vec![name.to_string()],
            policy::Principal::Certificate(names) => names.to_vec(),
            _ => Vec::new(),
        }
    }

    /// Whether this is an identity that is written as in a policy, such as `uid 1000` or
    /// `certificate worker.example`, which is one of the names of a certificate.
    fn has(&self, identity: &str) -> PyResult<bool> {
        let asked = read_principal(identity).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(self.0.has(&asked))
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("Principal({})", self.0)
    }
}
