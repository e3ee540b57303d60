//! The path of a small message over shared memory costs no allocation and no system call.
//!
//! Allocations are counted by the test's own allocator. System calls are forbidden by a filter of the kernel
//! that ends the process at the first one, in a child process on both of its threads.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

mod common;

use common::{LONG, Pair, settings};
use farcall::{Endpoint, Event, Loan, Peer, Service, Tag, TransportKind};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

const ECHO: Service = Service(1);
const SEAL: Service = Service(2);

/// Messages with this tag come back with the other.
const THERE: Tag = Tag(1);
const BACK: Tag = Tag(2);

/// Calls made while allocations or system calls are watched.
const CALLS: usize = 100_000;

/// Set in the child that runs without system calls.
const CHILD_VARIABLE: &str = "FARCALL_TEST_WITHOUT_SYSTEM_CALLS";

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static WATCHING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether the thread has an endpoint. The test harness allocates, too, when it says that a test takes
    /// long.
    static CONVERSES: Cell<bool> = const { Cell::new(false) };
}

#[expect(unsafe_code, reason = "an allocator cannot be written otherwise")]
// SAFETY: every request is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let counts = WATCHING.load(Ordering::Relaxed) && CONVERSES.get();
        ALLOCATIONS.fetch_add(u64::from(counts), Ordering::Relaxed);
        // SAFETY: the caller's promise is the system allocator's condition.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System.alloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn spinning_pair(traced: bool) -> Pair {
    // Spinning endpoints never sleep, so neither side may need the kernel at all.
    let pair = Pair::new(TransportKind::RING_SHM, settings(&["endpoint.idle=spin"]), move |endpoint| {
        CONVERSES.set(true);
        endpoint.tracer().switch(traced);
        endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
        endpoint.serve(SEAL, |_, reply| {
            forbid_system_calls();
            reply.send(b"sealed");
        });
        endpoint.on_message(|context, message| {
            context.send(message.peer(), BACK, &message[..]).detach().expect("room");
        });
    });
    CONVERSES.set(true);
    pair.client.tracer().switch(traced);
    pair
}

/// What is in flight at a time.
const WINDOW: usize = 64;

/// More than that to begin with: whatever is more than ever before takes memory, on either side.
const WARM_WINDOW: usize = 2 * WINDOW;

fn lent(endpoint: &Endpoint, payload: &[u8]) -> Loan {
    let mut loan = endpoint.loan(payload.len()).expect("memory");
    loan.copy_from_slice(payload);
    loan
}

/// Exchanges with callbacks; one call at a time, then a window of calls as events, then messages there and
/// back as futures, every other one out of memory on loan, and as events.
fn converse(client: &Endpoint, server: Peer, calls: usize, window: usize) {
    converse_by_callbacks(client, server, calls / 4, window);
    for _ in 0..calls / 2 {
        let answer = client.call(server, ECHO, b"thirty bytes of a small request").within(LONG).wait();
        assert_eq!(answer.expect("an echo").len(), 31);
    }
    let (mut sent, mut done) = (0, 0);
    while done < calls / 2 {
        while sent < calls / 2 && sent - done < window {
            client.call(server, ECHO, b"eight ..").within(LONG).post(sent as u64).expect("sent");
            sent += 1;
        }
        client.poll(|_, event| {
            assert!(matches!(event, Event::Completed { outcome: Ok(_), .. }));
            done += 1;
        });
    }
    for number in 0..calls / 2 {
        let back = client.receive(server, BACK).within(LONG).start().expect("posted");
        let send = match number % 2 {
            0 => client.send(server, THERE, b"eight .."),
            _ => client.send(server, THERE, lent(client, b"eight ..")),
        };
        send.within(LONG).wait().expect("sent");
        assert_eq!(&back.wait().expect("a message")[..], b"eight ..");
    }
    let (mut sent, mut done) = (0, 0);
    while done < calls / 2 {
        while sent < calls / 2 && sent - done < window {
            client.receive(server, BACK).within(LONG).post(sent as u64).expect("posted");
            drop(client.send(server, THERE, b"more than fits a slot").within(LONG).start().expect("sent"));
            sent += 1;
        }
        client.poll(|_, event| {
            assert!(matches!(event, Event::Received { outcome: Ok(_), .. }));
            done += 1;
        });
    }
}

/// Calls, receives and sends whose callbacks have run.
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// A window of exchanges, each a call and a message there and back, with callbacks that keep something.
fn converse_by_callbacks(client: &Endpoint, server: Peer, exchanges: usize, window: usize) {
    const PARTS: usize = 3;
    ENDED.store(0, Ordering::Relaxed);
    let end = |is_right: bool, number: usize| {
        assert!(is_right, "exchange {number}");
        ENDED.fetch_add(1, Ordering::Relaxed);
    };
    let mut begun = 0;
    while ENDED.load(Ordering::Relaxed) < PARTS * exchanges {
        while begun < exchanges && PARTS * begun < ENDED.load(Ordering::Relaxed) + PARTS * window {
            let (number, bytes) = (begun, b"eight ..");
            let call = client.call(server, ECHO, bytes).within(LONG);
            call.then(move |_, outcome| end(outcome.is_ok(), number)).expect("sent");
            let receive = client.receive(server, BACK).within(LONG);
            receive.then(move |_, outcome| end(outcome.is_ok(), number)).expect("posted");
            let send = client.send(server, THERE, bytes).within(LONG);
            send.then(move |_, outcome| end(outcome.is_ok(), number)).expect("sent");
            begun += 1;
        }
        client.poll(|_, _| {});
    }
}

/// The tests of this file must not count each other's allocations.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn small_calls_and_messages_allocate_nothing() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for traced in [false, true] {
        let pair = spinning_pair(traced);
        ALLOCATIONS.store(0, Ordering::SeqCst);
        WATCHING.store(true, Ordering::SeqCst);
        converse(&pair.client, pair.server, 10_000, WARM_WINDOW);
        let warm = ALLOCATIONS.load(Ordering::SeqCst);
        assert_ne!(warm, 0, "the counter counts what the first calls and messages allocate");
        converse(&pair.client, pair.server, CALLS, WINDOW);
        WATCHING.store(false, Ordering::SeqCst);
        let allocations = ALLOCATIONS.load(Ordering::SeqCst) - warm;
        assert_eq!(allocations, 0, "allocations in {CALLS} calls and messages, traced: {traced}");
    }
}

#[test]
fn small_calls_and_messages_make_no_system_call() {
    if std::env::var_os(CHILD_VARIABLE).is_some() {
        return run_without_system_calls();
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let this_test = ["--exact", "small_calls_and_messages_make_no_system_call", "--nocapture"];
    let child = |value: &str| {
        let program = std::env::current_exe().expect("the test's own path");
        Command::new(program).args(this_test).env(CHILD_VARIABLE, value).status().expect("a child runs")
    };
    let status = child("converse");
    assert!(status.success(), "a system call ended the child: {status}");
    let status = child("yield");
    assert_eq!(status.signal(), Some(SIGSYS), "the filter must catch a system call, or it proves nothing");
}

/// The number of the signal that the filter sends.
const SIGSYS: i32 = 31;

fn run_without_system_calls() {
    let yields = std::env::var(CHILD_VARIABLE).is_ok_and(|value| value == "yield");
    let pair = spinning_pair(true);
    converse(&pair.client, pair.server, 10_000, WARM_WINDOW);
    let sealed = pair.client.call(pair.server, SEAL, b"").within(LONG).wait().expect("sealed");
    assert_eq!(&sealed[..], b"sealed");
    drop(sealed);
    // Ending a process takes more system calls than ending well should allow, so another thread does it.
    std::thread::spawn(|| {
        while !DONE.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        std::process::exit(0);
    });
    forbid_system_calls();
    converse(&pair.client, pair.server, CALLS, WINDOW);
    if yields {
        std::thread::yield_now();
    }
    DONE.store(true, Ordering::Release);
    loop {
        std::hint::spin_loop();
    }
}

/// Set when the conversation without system calls is over.
static DONE: AtomicBool = AtomicBool::new(false);

/// From now on the first system call of this thread ends the process, but for advice about memory: a ring
/// grows under load, and gives pages back when a second had few messages, as it may on a busy machine.
/// Neither is on the path of a message.
fn forbid_system_calls() {
    let target = TargetArch::try_from(std::env::consts::ARCH).expect("a known processor");
    let allowed = BTreeMap::from([(libc::SYS_madvise, Vec::new())]);
    let filter = SeccompFilter::new(allowed, SeccompAction::KillProcess, SeccompAction::Allow, target);
    let program = BpfProgram::try_from(filter.expect("a filter")).expect("a program");
    seccompiler::apply_filter(&program).expect("the kernel takes filters");
}
