//! What there is to see and to set: counters of this process, parameters of a node.

use core::ffi::{c_char, c_void};
use std::ffi::CString;

use farcall::CounterFile;

use crate::border::guarded;
use crate::node::NodeHandle;
use crate::status::Status::{self, FARCALL_INVALID_ARGUMENT, FARCALL_RESOURCES};

/// Takes one counter; the texts are the library's, and valid while it runs. `group` is an endpoint, driver or
/// session, such as `ring+shm#0`, `text` a line for people.
pub type CounterCallback = Option<
    extern "C" fn(
        context: *mut c_void,
        group: *const c_char,
        name: *const c_char,
        value: u64,
        unit: *const c_char,
        text: *const c_char,
    ),
>;

/// Takes one parameter; the texts are the library's, and valid while it runs. `value` is that of the node,
/// `text` a line for people.
pub type ParameterCallback = Option<
    extern "C" fn(
        context: *mut c_void,
        name: *const c_char,
        value: *const c_char,
        standard: *const c_char,
        text: *const c_char,
    ),
>;

/// Gives `callback` every counter of this process, before it returns. FARCALL_RESOURCES where the system does
/// not let the process read its own.
///
/// From any thread. Allocates. Does not block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_counters(callback: CounterCallback, context: *mut c_void) -> Status {
    guarded(|| {
        let callback = callback.ok_or(FARCALL_INVALID_ARGUMENT)?;
        let snapshot = CounterFile::open_process(std::process::id()).map_err(|_| FARCALL_RESOURCES)?;
        for group in &snapshot.groups {
            let label = c_text(&group.label);
            for counter in &group.counters {
                let (name, unit) = (c_text(&counter.name), c_text(&counter.unit));
                let text = c_text(&counter.doc);
                callback(context, label.as_ptr(), name.as_ptr(), counter.value, unit.as_ptr(), text.as_ptr());
            }
        }
        Ok(())
    })
}

/// Gives `callback` every parameter with its value at this node, before it returns.
///
/// From any thread. Allocates. Does not block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_parameters(
    node: *const NodeHandle,
    callback: ParameterCallback,
    context: *mut c_void,
) -> Status {
    guarded(|| {
        // SAFETY: null or open, as in the header.
        let node = unsafe { node.as_ref() }.ok_or(FARCALL_INVALID_ARGUMENT)?;
        let callback = callback.ok_or(FARCALL_INVALID_ARGUMENT)?;
        for (parameter, value) in node.node.settings().iter() {
            let (name, value) = (c_text(parameter.name), c_text(&value.to_string()));
            let (standard, text) = (c_text(parameter.default), c_text(parameter.doc));
            callback(context, name.as_ptr(), value.as_ptr(), standard.as_ptr(), text.as_ptr());
        }
        Ok(())
    })
}

fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "")).expect("it has no zero")
}
