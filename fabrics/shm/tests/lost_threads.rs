//! Files of a peer whose server does not answer: they hang who looks at them or closes them, and it must not
//! be the thread that others wait for.
//!
//! The file is one of FUSE, served by this test up to the point where it is of interest: it is opened, and
//! neither `fstat` nor a close is ever answered.
#![allow(unsafe_code, reason = "mounting a file system takes a system call")]

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use farcall_driver::conformance::until;
use farcall_driver::{LaneDriver, LaneEvent};
use farcall_shm::{ShmConfig, ShmLanes};

mod raw;
use raw::{Offer, call, memory, receive, send};

const RING_BYTES: usize = 4096;

/// Operations and sizes of the protocol, of `linux/fuse.h`.
const LOOKUP: u32 = 1;
const OPEN: u32 = 14;
const INIT: u32 = 26;
const HEADER_BYTES: usize = 40;
const FILE_INODE: u64 = 2;
const LONG_SECONDS: u64 = 3600;
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// A mounted folder with a file in it that hangs.
struct Hanging {
    folder: PathBuf,
    device: Option<OwnedFd>,
}

impl Hanging {
    /// `None` where this process may not mount such a thing.
    fn mount() -> Option<Self> {
        let device: OwnedFd = File::options().read(true).write(true).open("/dev/fuse").ok()?.into();
        let folder = std::env::temp_dir().join(format!("farcall-hanging-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let text = |text: &[u8]| CString::new(text).expect("no zeros");
        let (at, options) = (text(folder.as_os_str().as_bytes()), text(options.as_bytes()));
        // SAFETY: all texts end with a zero and live through the call.
        let result = unsafe {
            libc::mount(c"farcall".as_ptr(), at.as_ptr(), c"fuse".as_ptr(), 0, options.as_ptr().cast())
        };
        if result != 0 {
            std::fs::remove_dir(&folder).expect("the test's own folder");
            return None;
        }
        let server = File::from(device.try_clone().expect("a descriptor to spare"));
        std::thread::spawn(move || serve(server));
        Some(Self { folder, device: Some(device) })
    }

    fn open(&self) -> OwnedFd {
        File::open(self.folder.join("file")).expect("the server opens it").into()
    }
}

/// Ends the connection, whereupon all that hung fails.
impl Drop for Hanging {
    fn drop(&mut self) {
        let at = CString::new(self.folder.as_os_str().as_bytes()).expect("no zeros");
        // SAFETY: a text that ends with a zero.
        unsafe { libc::umount2(at.as_ptr(), libc::MNT_FORCE | libc::MNT_DETACH) };
        self.device = None;
        _ = std::fs::remove_dir(&self.folder);
    }
}

/// Answers until the file is open.
fn serve(mut device: File) {
    let mut request = vec![0; REQUEST_BYTES_MAX];
    while let Ok(bytes) = device.read(&mut request) {
        assert!(bytes >= HEADER_BYTES);
        let number = |at: usize| u32::from_le_bytes(request[at..at + 4].try_into().expect("four bytes"));
        let body = match number(4) {
            INIT => init(),
            LOOKUP => entry(),
            OPEN => vec![0; 16],
            _ => continue,
        };
        let mut answer = ((16 + body.len()) as u32).to_le_bytes().to_vec();
        answer.extend([0; 4]);
        answer.extend(&request[8..16]);
        answer.extend(body);
        if device.write(&answer).is_err() {
            return;
        }
    }
}

/// Version 7.31, and nothing special.
fn init() -> Vec<u8> {
    let mut body = vec![0; 64];
    body[0] = 7;
    body[4] = 31;
    body[20..24].copy_from_slice(&4096u32.to_le_bytes());
    body
}

/// A file of a length that is known for a long time.
fn entry() -> Vec<u8> {
    let mut body = vec![0; 128];
    body[..8].copy_from_slice(&FILE_INODE.to_le_bytes());
    body[16..24].copy_from_slice(&LONG_SECONDS.to_le_bytes());
    body[40..48].copy_from_slice(&FILE_INODE.to_le_bytes());
    body[40 + 60..40 + 64].copy_from_slice(&(libc::S_IFREG | 0o444).to_le_bytes());
    body[40 + 64] = 1;
    body
}

#[test]
fn a_descriptor_that_hangs_whoever_looks_at_or_closes_it_stops_nobody() {
    let Some(hanging) = Hanging::mount() else {
        println!("skipped: this process may not mount a file system of its own");
        return;
    };
    let lanes = || {
        let config = ShmConfig { ring_bytes: RING_BYTES, block_bytes: 1 << 16, ..ShmConfig::default() };
        ShmLanes::new(config).expect("memory")
    };
    let mut driver = lanes();
    // It is there before the file is open here: its start closes what it has of this process, too. And it is
    // another process, because this one's turn is about to come to a halt.
    let mut honest = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "an_honest_process", "--ignored", "--nocapture"])
        .env("FARCALL_TEST_TARGET", String::from_utf8_lossy(driver.address().as_bytes()).into_owned())
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("this program runs");
    // Our own last close of the file would hang as well.
    let file = core::mem::ManuallyDrop::new(hanging.open());
    let (blocks, bell) = (memory(4096, true), memory(0, false));
    let socket = call(&driver.address());
    send(&socket, &Offer::good(RING_BYTES, b"").encode(), &[file.as_fd(), blocks.as_fd(), bell.as_fd()]);
    drop(honest.stdin.take());
    match until("an honest process", || driver.poll_event()) {
        LaneEvent::Accepted { hello, .. } => assert_eq!(hello, b"honest"),
        other => panic!("instead of the honest process: {other:?}"),
    }
    honest.kill().expect("our own child");
    honest.wait().expect("our own child");
    let down = until("its death", || driver.poll_event());
    assert!(matches!(down, LaneEvent::Down { .. }), "{down:?}");
    drop(hanging);
    let (answer, _) = receive(&socket);
    assert!(answer.is_empty() || answer[0] == b'R', "{answer:?}");
}

/// Connects to the driver in the environment, when its input ends, and waits for the end of the lane.
#[test]
#[ignore = "the other process of this program's test"]
fn an_honest_process() {
    let target = std::env::var("FARCALL_TEST_TARGET").expect("started by another test");
    let config = ShmConfig { ring_bytes: RING_BYTES, block_bytes: 1 << 16, ..ShmConfig::default() };
    let mut lanes = ShmLanes::new(config).expect("memory");
    _ = std::io::stdin().read_to_end(&mut Vec::new());
    let address = farcall_base::Address::new(target.as_bytes()).expect("an address");
    lanes.connect(&address, b"honest", core::time::Duration::from_secs(20)).expect("an address of this kind");
    loop {
        if let Some(LaneEvent::Down { .. }) = lanes.poll_event() {
            return;
        }
        std::thread::yield_now();
    }
}
