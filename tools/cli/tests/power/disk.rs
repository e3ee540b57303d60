//! A disk with a cache that its power goes with: a server of the Network Block Device protocol, for one
//! machine at a time.
//!
//! What was written and not flushed when the power is cut is there afterwards or not, sector by sector, each
//! as any of the writes to it left it.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use farcall_base::Random;

const SECTOR: usize = 512;

/// Magic numbers and constants of the protocol's specification.
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_UNSUPPORTED: u32 = 1 << 31 | 1;
/// It has flags, can flush, and flushes single writes.
const FLAGS: u16 = 1 | 1 << 2 | 1 << 3;
const FORCE_UNIT_ACCESS: u16 = 1;

struct Cut {
    writes_left: u64,
    random: Random,
    told: Sender<()>,
}

struct Platters {
    /// What is there for certain.
    stable: Vec<u8>,
    /// What a read finds.
    current: Vec<u8>,
    /// What the writes since the last flush have left, in their order.
    unflushed: BTreeMap<usize, Vec<[u8; SECTOR]>>,
    has_power: bool,
    /// The power goes at the write after this number of them, and then it is said there.
    cut: Option<Cut>,
    /// It answers that it has flushed, and has not.
    lies: bool,
    flushes: u64,
}

impl Platters {
    fn write(&mut self, at: usize, data: &[u8]) {
        self.current[at..at + data.len()].copy_from_slice(data);
        for (number, sector) in data.chunks_exact(SECTOR).enumerate() {
            let sector = sector.try_into().expect("one sector");
            self.unflushed.entry(at / SECTOR + number).or_default().push(sector);
        }
    }

    fn flush(&mut self) {
        self.flushes += 1;
        if !self.lies {
            for sector in core::mem::take(&mut self.unflushed).into_keys() {
                let range = sector * SECTOR..(sector + 1) * SECTOR;
                self.stable[range.clone()].copy_from_slice(&self.current[range]);
            }
        }
    }

    /// Counts down to the cut.
    fn count(&mut self) {
        if let Some(cut) = &mut self.cut {
            cut.writes_left = cut.writes_left.saturating_sub(1);
        }
        if let Some(Cut { mut random, told, .. }) = self.cut.take_if(|cut| cut.writes_left == 0) {
            self.lose(&mut random);
            // The test may have ended.
            let _ = told.send(());
        }
    }

    fn lose(&mut self, random: &mut Random) {
        self.has_power = false;
        // How much survives is different each time: from all to next to nothing.
        let share = random.below(101);
        for (sector, versions) in core::mem::take(&mut self.unflushed) {
            if random.below(100) < share {
                let version = versions[random.index(versions.len())];
                self.stable[sector * SECTOR..(sector + 1) * SECTOR].copy_from_slice(&version);
            }
        }
        self.current.clone_from(&self.stable);
    }
}

/// A disk; all handles are of one.
#[derive(Clone)]
pub struct PoweredDisk(Arc<Mutex<Platters>>);

impl PoweredDisk {
    /// One with this content; one that lies loses what it has not flushed though it has said so.
    pub fn new(content: Vec<u8>, lies: bool) -> Self {
        let (stable, current, unflushed) = (content.clone(), content, BTreeMap::new());
        Self(Arc::new(Mutex::new(Platters {
            stable,
            current,
            unflushed,
            has_power: false,
            cut: None,
            lies,
            flushes: 0,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Platters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The power is back: the next machine that connects there is served.
    pub fn serve(&self, socket: &Path) {
        let listener = UnixListener::bind(socket).expect("the test's own folder");
        self.lock().has_power = true;
        let disk = self.clone();
        thread::spawn(move || {
            let (stream, _) = listener.accept().expect("it listens");
            // It ends with the machine, or with the power.
            let _ = disk.serve_machine(stream);
        });
    }

    /// The power goes at the write after this number of them: that one and all before it are there or not,
    /// and nothing is answered any more. Then it is said there.
    pub fn cut_after(&self, writes: u64, seed: u64) -> Receiver<()> {
        let (told, cut) = channel();
        self.lock().cut = Some(Cut { writes_left: writes, random: Random::new(seed), told });
        cut
    }

    /// How often it was flushed.
    pub fn flushes(&self) -> u64 {
        self.lock().flushes
    }

    fn serve_machine(&self, mut stream: UnixStream) -> io::Result<()> {
        stream.write_all(b"NBDMAGICIHAVEOPT\0\x01")?;
        let mut flags = [0; 4];
        stream.read_exact(&mut flags)?;
        while !self.option(&mut stream)? {}
        while self.request(&mut stream)? {}
        Ok(())
    }

    /// One option of the handshake; says whether it was the last.
    fn option(&self, stream: &mut UnixStream) -> io::Result<bool> {
        let magic = read_u64(stream)?;
        assert_eq!(magic, OPTION_MAGIC, "an option");
        let (option, bytes) = (read_u32(stream)?, read_u32(stream)?);
        io::copy(&mut stream.take(u64::from(bytes)), &mut io::sink())?;
        let reply = |stream: &mut UnixStream, kind: u32, data: &[u8]| {
            let (option, bytes) = (option.to_be_bytes(), (data.len() as u32).to_be_bytes());
            stream.write_all(
                &[&OPTION_REPLY.to_be_bytes()[..], &option, &kind.to_be_bytes(), &bytes, data].concat(),
            )
        };
        if option != OPTION_GO {
            return reply(stream, REPLY_UNSUPPORTED, b"").map(|()| false);
        }
        let bytes = self.lock().stable.len() as u64;
        let export = [&0_u16.to_be_bytes()[..], &bytes.to_be_bytes(), &FLAGS.to_be_bytes()].concat();
        reply(stream, REPLY_INFO, &export)?;
        reply(stream, REPLY_ACK, b"").map(|()| true)
    }

    /// One request; says whether another may follow.
    fn request(&self, stream: &mut UnixStream) -> io::Result<bool> {
        assert_eq!(read_u32(stream)?, REQUEST_MAGIC, "a request");
        let head = read_u32(stream)?;
        let (flags, kind) = ((head >> 16) as u16, head as u16);
        let (handle, at, bytes) = (read_u64(stream)?, read_u64(stream)? as usize, read_u32(stream)? as usize);
        let mut data = vec![0; if kind == 1 { bytes } else { 0 }];
        stream.read_exact(&mut data)?;
        let mut answer = [&REPLY_MAGIC.to_be_bytes()[..], &[0; 4], &handle.to_be_bytes()].concat();
        let mut platters = self.lock();
        if !platters.has_power {
            return Ok(false);
        }
        match kind {
            0 => answer.extend_from_slice(&platters.current[at..at + bytes]),
            1 => {
                platters.write(at, &data);
                platters.count();
                if !platters.has_power {
                    return Ok(false);
                }
                if flags & FORCE_UNIT_ACCESS != 0 {
                    platters.flush();
                }
            }
            2 => return Ok(false),
            3 => platters.flush(),
            _ => panic!("a kind of request that was not offered: {kind}"),
        }
        // The answer is on its way while there is power.
        stream.write_all(&answer)?;
        Ok(true)
    }
}

fn read_u32(stream: &mut UnixStream) -> io::Result<u32> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

fn read_u64(stream: &mut UnixStream) -> io::Result<u64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}
