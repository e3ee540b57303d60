//! Processes of a cluster.

use core::ffi::c_char;
use core::time::Duration;

use farcall::bootstrap::Bootstrap;
use farcall::parameters::Settings;
use farcall::{Node, NodeError};

use crate::FARCALL_ABI_VERSION;
use crate::border::{ErrorText, Failure, bytes_mut, give, guarded, reported, text};
use crate::status::Status::{
    self, FARCALL_BOOTSTRAP, FARCALL_INVALID_ARGUMENT, FARCALL_SETTINGS, FARCALL_TIMED_OUT,
    FARCALL_VERSION_MISMATCH,
};

/// What the environment describes: a rendezvous address, a list of hosts or a launcher; alone without.
pub const FARCALL_NODE_FROM_ENVIRONMENT: u32 = 0;
/// One of `size` processes of this program on this machine. The first starts the others, which run the same
/// program with the same arguments; they end with the first.
pub const FARCALL_NODE_LOCAL: u32 = 1;
/// A cluster of this process only.
pub const FARCALL_NODE_ALONE: u32 = 2;
/// Without a rank: serves and calls by name. Names are kept where `address` says, `host:port` or
/// `farcall://host:port`; where it is null, where the variable FARCALL_NAMES says.
pub const FARCALL_NODE_OPEN: u32 = 3;
/// As FARCALL_NODE_OPEN, and serves the registry itself, at `address` of this machine.
pub const FARCALL_NODE_SERVING_NAMES: u32 = 4;

/// Which process of which cluster to be. Begin with `FARCALL_NODE_OPTIONS_INIT`.
#[repr(C)]
pub struct NodeOptions {
    /// `sizeof(farcall_node_options_t)`.
    pub size: usize,
    /// FARCALL_NODE_FROM_ENVIRONMENT or another of those.
    pub kind: u32,
    /// The number of processes, for FARCALL_NODE_LOCAL.
    pub processes: u32,
    /// The address of the registry.
    pub address: *const c_char,
}

/// A process of a cluster. May be used by all threads at the same time.
pub struct NodeHandle {
    pub node: Node,
}

/// Makes this process a member of its cluster: `farcall_node_open` with the version that the program was
/// compiled with, which that function passes.
///
/// `options` may be null: those of FARCALL_NODE_OPTIONS_INIT.
///
/// From any thread. Allocates. Blocks until the cluster has taken the process in, for 30 s at most.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_node_open_version(
    version: u32,
    options: *const NodeOptions,
    node: *mut *mut NodeHandle,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            if version != FARCALL_ABI_VERSION {
                let text = format!(
                    "the program was compiled with version {version} of farcall.h, and the library is of version \
                     {FARCALL_ABI_VERSION}; compile it again, or load the library that it was made for"
                );
                return Err(Failure::new(FARCALL_VERSION_MISMATCH, text));
            }
            if node.is_null() {
                return Err(Failure::argument("the place for the node is null"));
            }
            let opened = open(options.as_ref())?;
            give(node, Box::into_raw(Box::new(NodeHandle { node: opened })));
            Ok(())
        })
    }
}

/// # Safety
/// Texts of `options` end with a zero.
unsafe fn open(options: Option<&NodeOptions>) -> Result<Node, Failure> {
    let default = NodeOptions {
        size: size_of::<NodeOptions>(),
        kind: FARCALL_NODE_FROM_ENVIRONMENT,
        processes: 0,
        address: core::ptr::null(),
    };
    let options = options.unwrap_or(&default);
    if options.size != size_of::<NodeOptions>() {
        return Err(Failure::argument(
            "the size of the options is wrong; begin with FARCALL_NODE_OPTIONS_INIT",
        ));
    }
    // SAFETY: as promised.
    let address = || unsafe { text(options.address, "the address") };
    match options.kind {
        FARCALL_NODE_FROM_ENVIRONMENT => Node::from_env(),
        FARCALL_NODE_LOCAL => Node::local(options.processes),
        FARCALL_NODE_ALONE => Settings::load([])
            .map(|settings| Node::new(Bootstrap::alone(), settings))
            .map_err(NodeError::from),
        FARCALL_NODE_OPEN if options.address.is_null() => Node::open(),
        FARCALL_NODE_OPEN => Node::open_at(address()?),
        FARCALL_NODE_SERVING_NAMES => Node::serving_names(address()?),
        _ => return Err(Failure::argument("there is no such kind of node")),
    }
    .map_err(|error| {
        let status = match &error {
            NodeError::Settings(_) => FARCALL_SETTINGS,
            NodeError::Registry { .. } => FARCALL_INVALID_ARGUMENT,
            NodeError::Names(_) | NodeError::Bootstrap(_) => FARCALL_BOOTSTRAP,
        };
        Failure::new(status, error)
    })
}

/// Leaves the cluster. Endpoints of the node may be closed before or after. Null is allowed.
///
/// From any thread. Frees. Does not block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_node_close(node: *mut NodeHandle) -> Status {
    guarded(|| {
        if !node.is_null() {
            // SAFETY: it was made by `farcall_node_open`, and is used no more.
            drop(unsafe { Box::from_raw(node) });
        }
        Ok(())
    })
}

/// # Safety
/// `node` is null or open.
unsafe fn opened<'a>(node: *const NodeHandle) -> Result<&'a Node, Status> {
    // SAFETY: as promised.
    unsafe { node.as_ref() }.map(|handle| &handle.node).ok_or(FARCALL_INVALID_ARGUMENT)
}

/// This process's rank, from 0, and the number of ranks; UINT32_MAX and 0 without a rank. Either place may be
/// null. From any thread. Neither allocates nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_node_rank(
    node: *const NodeHandle,
    rank: *mut u32,
    ranks: *mut u32,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let node = opened(node)?;
        give(rank, node.rank());
        give(ranks, node.size());
        Ok(())
    })
}

/// Where processes of this machine reach the registry that this node serves, as `host:port`, written with a
/// zero at its end. FARCALL_INVALID_ARGUMENT of a node that serves none; FARCALL_TRUNCATED if there is no
/// room for it: 64 bytes are enough.
///
/// From any thread. Allocates. Does not block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_node_registry_address(
    node: *const NodeHandle,
    address: *mut c_char,
    bytes: usize,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let text = opened(node)?.registry_address().ok_or(FARCALL_INVALID_ARGUMENT)?.to_string();
        let room = bytes_mut(address.cast(), bytes)?;
        let place = room.get_mut(..=text.len()).ok_or(Status::FARCALL_TRUNCATED)?;
        let (place, end) = place.split_at_mut(text.len());
        place.copy_from_slice(text.as_bytes());
        end[0] = 0;
        Ok(())
    })
}

/// Returns when every rank has called it with the same name.
///
/// From any thread. Allocates. Blocks for `timeout_ns` at most.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_node_barrier(
    node: *const NodeHandle,
    name: *const c_char,
    timeout_ns: u64,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            let (node, name) = (opened(node)?, text(name, "the name of the barrier")?);
            let outcome = node.barrier(name, Duration::from_nanos(timeout_ns));
            outcome.map_err(|error| Failure::new(FARCALL_TIMED_OUT, error))
        })
    }
}
