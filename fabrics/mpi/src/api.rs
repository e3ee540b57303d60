//! MPI's functions and constants, found in the library when it is first needed.
//!
//! The two binary interfaces differ in what handles are: pointers in Open MPI, 32-bit numbers in MPICH. Here
//! they are all words. On 64-bit little-endian machines, the only ones this is used on, a word that is passed
//! holds the number in the half that a callee looks at, and a cleared word that a callee writes its number
//! into holds just this number.
#![allow(missing_docs, reason = "functions and constants of a standard, documented there")]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use farcall_transport::Presence;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// A communicator, datatype, request or message.
pub type Handle = usize;

/// Room for an `MPI_Status` of any library; nobody looks into it here but MPI.
#[derive(Clone, Copy, Default)]
#[repr(C, align(8))]
pub struct MpiStatus([u64; 8]);

pub const MPI_SUCCESS: c_int = 0;
/// Longer than any library's text of its version.
const VERSION_BYTES: usize = 8192;

/// Declares the functions once: as fields, and as symbols to look up.
macro_rules! functions {
    ($($name:ident = $symbol:literal: fn($($argument:ty),*);)*) => {
        /// The functions.
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            fn find(library: &Library) -> Result<Self, libloading::Error> {
                $(
                    // SAFETY: the type is that of the function in the MPI standard, with handles as words
                    // (see above).
                    #[expect(unsafe_code, reason = "a function is looked up")]
                    let $name = unsafe {
                        *library.get::<unsafe extern "C" fn($($argument),*) -> c_int>(
                            concat!($symbol, "\0").as_bytes(),
                        )?
                    };
                )*
                Ok(Self { $($name,)* })
            }
        }
    };
}

functions! {
    get_library_version = "MPI_Get_library_version": fn(*mut c_char, *mut c_int);
    initialized = "MPI_Initialized": fn(*mut c_int);
    init_thread = "MPI_Init_thread": fn(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    query_thread = "MPI_Query_thread": fn(*mut c_int);
    finalize = "MPI_Finalize": fn();
    comm_dup = "MPI_Comm_dup": fn(Handle, *mut Handle);
    comm_set_errhandler = "MPI_Comm_set_errhandler": fn(Handle, Handle);
    comm_rank = "MPI_Comm_rank": fn(Handle, *mut c_int);
    bcast = "MPI_Bcast": fn(*mut c_void, c_int, Handle, c_int, Handle);
    isend = "MPI_Isend": fn(*const c_void, c_int, Handle, c_int, c_int, Handle, *mut Handle);
    irecv = "MPI_Irecv": fn(*mut c_void, c_int, Handle, c_int, c_int, Handle, *mut Handle);
    cancel = "MPI_Cancel": fn(*mut Handle);
    improbe = "MPI_Improbe": fn(c_int, c_int, Handle, *mut c_int, *mut Handle, *mut MpiStatus);
    get_count = "MPI_Get_count": fn(*const MpiStatus, Handle, *mut c_int);
    test = "MPI_Test": fn(*mut Handle, *mut c_int, *mut MpiStatus);
    testany = "MPI_Testany": fn(c_int, *mut Handle, *mut c_int, *mut c_int, *mut MpiStatus);
    waitany = "MPI_Waitany": fn(c_int, *mut Handle, *mut c_int, *mut MpiStatus);
}

/// A library with its constants.
pub struct Opened {
    pub functions: Functions,
    pub world: Handle,
    pub byte: Handle,
    pub any_source: c_int,
    /// Bytes of a handle in an array of the library's own.
    pub handle_bytes: usize,
    errors_return: Handle,
    /// Keeps the library, and with it the functions, in memory.
    _library: Library,
}

/// The libraries to try, in the order that the launcher suggests.
fn candidates() -> &'static [&'static str] {
    const OPEN_MPI: &str = "libmpi.so.40";
    const MPICH: [&str; 2] = ["libmpich.so.12", "libmpi.so.12"];
    let by_mpich =
        std::env::var_os("PMI_RANK").is_some() && std::env::var_os("OMPI_COMM_WORLD_RANK").is_none();
    if by_mpich { &[MPICH[0], MPICH[1], OPEN_MPI] } else { &[OPEN_MPI, MPICH[0], MPICH[1]] }
}

/// The library; opened at the first call, without being started. The error says why it cannot be used.
pub fn opened() -> Result<&'static Opened, &'static str> {
    static OPENED: OnceLock<Result<Opened, String>> = OnceLock::new();
    let opened = OPENED.get_or_init(|| {
        if cfg!(not(all(target_pointer_width = "64", target_endian = "little"))) {
            return Err("MPI is supported on 64-bit little-endian machines only".to_owned());
        }
        let mut failures = Vec::new();
        for name in candidates() {
            match open(name) {
                Ok(opened) => return Ok(opened),
                Err(error) => failures.push(error.to_string()),
            }
        }
        let failures = failures.join("; ");
        Err(format!("no MPI can be opened ({failures}); install one (Debian: libopenmpi3 or libmpich12)"))
    });
    opened.as_ref().map_err(String::as_str)
}

/// Opens a library. Its symbols are made global, because the modules that Open MPI opens itself want them.
fn open(name: &str) -> Result<Opened, libloading::Error> {
    // SAFETY: opening an MPI runs its constructors, which are made to run in any process.
    #[expect(unsafe_code, reason = "a library is opened")]
    let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL)? };
    let functions = Functions::find(&library)?;
    // SAFETY: only the address of the symbol is used, whatever it is.
    #[expect(unsafe_code, reason = "a symbol is looked up")]
    let address =
        |symbol: &[u8]| unsafe { library.get::<*mut c_void>(symbol).map(|found| found.as_raw_ptr().addr()) };
    Ok(match address(b"ompi_mpi_comm_world\0") {
        Ok(world) => Opened {
            functions,
            world,
            byte: address(b"ompi_mpi_byte\0")?,
            any_source: -1,
            handle_bytes: size_of::<Handle>(),
            errors_return: address(b"ompi_mpi_errors_return\0")?,
            _library: library,
        },
        // Fixed by the binary interface that MPICH shares with others.
        Err(_) => Opened {
            functions,
            world: 0x4400_0000,
            byte: 0x4c00_010d,
            any_source: -2,
            handle_bytes: size_of::<c_int>(),
            errors_return: 0x5400_0001,
            _library: library,
        },
    })
}

/// How many threads of a process call MPI. It is said when MPI is started, and so is the same for all
/// endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiThreads {
    /// Any number, at the same time.
    Multiple,
    /// One at a time, and no other thread is in MPI's way: it takes no locks then.
    Single,
}

impl MpiThreads {
    /// The standard's number for it; the higher, the more is allowed.
    fn level(self) -> c_int {
        match self {
            Self::Multiple => 3,
            Self::Single => 0,
        }
    }
}

/// MPI as it runs in this process.
pub struct Started {
    pub opened: &'static Opened,
    /// As in [`MpiThreads::level`].
    level: c_int,
    /// farcall's own communicator of all processes, for messages that fit a receive posted ahead.
    pub communicator: Handle,
    /// Another one, for longer ones that were announced.
    pub long: Handle,
    pub rank: u32,
    /// Drawn by rank 0: what the processes of one launch have in common.
    pub universe: u64,
}

/// MPI, started at the first call unless the program itself has; ended when the process exits normally. Not
/// for more threads than it was started for.
pub fn started(drawn: u64, threads: MpiThreads) -> Result<&'static Started, &'static str> {
    static STARTED: OnceLock<Result<Started, String>> = OnceLock::new();
    let opened = opened()?;
    let started = STARTED.get_or_init(|| start(opened, drawn, threads)).as_ref().map_err(String::as_str)?;
    if threads == MpiThreads::Multiple && started.is_for_one() {
        return Err(
            "MPI was started, or can only be, without the MPI_THREAD_MULTIPLE that several endpoints need; \
                    mpi.threads=single does without, for one",
        );
    }
    Ok(started)
}

impl Started {
    /// Whether there must be one endpoint at a time.
    pub fn is_for_one(&self) -> bool {
        self.level < MpiThreads::Multiple.level()
    }
}

#[expect(unsafe_code, reason = "calls of MPI")]
fn start(opened: &'static Opened, drawn: u64, threads: MpiThreads) -> Result<Started, String> {
    let functions = &opened.functions;
    let (mut running, mut level) = (0, 0);
    // SAFETY: allowed at any time.
    check(unsafe { (functions.initialized)(&mut running) }, "MPI_Initialized")?;
    if running == 0 {
        // A library may offer more than it was asked for; there is one endpoint all the same.
        level = init(opened, threads)?.min(threads.level());
    } else {
        // SAFETY: MPI runs.
        check(unsafe { (functions.query_thread)(&mut level) }, "MPI_Query_thread")?;
    }
    let (mut communicator, mut long, mut rank, mut universe) = (0, 0, 0, drawn);
    // SAFETY: MPI runs; all processes of the launch come here once, in the same order of collective calls.
    unsafe {
        for communicator in [&mut communicator, &mut long] {
            check((functions.comm_dup)(opened.world, communicator), "MPI_Comm_dup")?;
            check(
                (functions.comm_set_errhandler)(*communicator, opened.errors_return),
                "MPI_Comm_set_errhandler",
            )?;
        }
        check((functions.comm_rank)(communicator, &mut rank), "MPI_Comm_rank")?;
        let universe = (&raw mut universe).cast::<c_void>();
        check((functions.bcast)(universe, 8, opened.byte, 0, communicator), "MPI_Bcast")?;
    }
    Ok(Started { opened, level, communicator, long, rank: rank as u32, universe })
}

/// Starts MPI for one thread, as a program would that has no more, and gives the process's rank. Not together
/// with `started`.
pub fn start_for_one_thread(opened: &Opened) -> Result<c_int, String> {
    init(opened, MpiThreads::Single)?;
    let mut rank = 0;
    // SAFETY: MPI runs.
    #[expect(unsafe_code, reason = "a call of MPI")]
    check(unsafe { (opened.functions.comm_rank)(opened.world, &mut rank) }, "MPI_Comm_rank")?;
    Ok(rank)
}

/// Starts MPI, to be ended when the process exits; gives the level of threads that it offers.
fn init(opened: &Opened, threads: MpiThreads) -> Result<c_int, String> {
    let mut level = 0;
    // SAFETY: nobody else starts MPI: the caller sees to that, and that the program has not. Null stands for
    // no arguments. The function that ends it has the required type; if it cannot be registered, MPI is not
    // ended by us.
    #[expect(unsafe_code, reason = "calls of MPI")]
    unsafe {
        let start = || (opened.functions.init_thread)(null_mut(), null_mut(), threads.level(), &mut level);
        let code = farcall_pmix::watched(start);
        check(code, "MPI_Init_thread")?;
        libc::atexit(finalize);
    }
    Ok(level)
}

fn check(code: c_int, what: &str) -> Result<(), String> {
    if code == MPI_SUCCESS { Ok(()) } else { Err(format!("{what} failed with error {code}")) }
}

/// Whether a process of the launch is gone, for which the others would wait at their end.
static ANY_DEAD: AtomicBool = AtomicBool::new(false);

/// A process of the launch is gone: this one ends without a word to the others.
pub fn do_not_finalize() {
    ANY_DEAD.store(true, Ordering::Relaxed);
}

/// Launchers take a process that ends without this for one that crashed.
extern "C" fn finalize() {
    if ANY_DEAD.load(Ordering::Relaxed) {
        return;
    }
    if let Ok(opened) = opened() {
        // SAFETY: registered only after MPI was started here, and run once, when the process exits.
        #[expect(unsafe_code, reason = "a call of MPI")]
        let _code = unsafe { (opened.functions.finalize)() };
    }
}

/// Whether an MPI is on this machine, and which. It is not started.
pub fn presence() -> Presence {
    match opened() {
        Ok(opened) => Presence::Here { found: opened.version() },
        Err(why) => Presence::Absent { why: why.to_owned() },
    }
}

impl Opened {
    /// The library's own words, up to the first comma or line's end.
    #[expect(unsafe_code, reason = "a call of MPI")]
    fn version(&self) -> String {
        let (mut text, mut length) = (vec![0; VERSION_BYTES + 1], 0);
        // SAFETY: there is room for the longest text, and the function may be called before MPI is started.
        let code = unsafe { (self.functions.get_library_version)(text.as_mut_ptr(), &mut length) };
        if code != MPI_SUCCESS {
            return "an MPI that does not say its version".to_owned();
        }
        // SAFETY: the last byte is still 0.
        let words = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned();
        words.split([',', '\n']).next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
