//! Power cuts of a whole machine: a virtual one, with a kernel, a file system and a disk that has a cache. It
//! loses its power at a random write under load of `kv serve` with a flushed table, is started again, and
//! what is there is held against a ledger outside.
//!
//! `make test-power` runs it; it takes half a minute and more for each cut.

#[path = "power/mod.rs"]
mod power;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use farcall_base::{Random, seed_of_stream};
use power::disk::PoweredDisk;
use power::guest::{LEDGER_BYTES, TELLS};
use power::plan::{Found, Ledger};

/// Set in the machine: the seed and the first round.
const ROLE: &str = "FARCALL_TEST_ROLE";

/// How often the power is cut.
const CUTS: &str = "FARCALL_TEST_POWER_CUTS";

/// Repeats a run, as far as a machine does the same again.
const SEED: &str = "FARCALL_TEST_POWER_SEED";

/// The disk: a log of 64 MiB and its file system.
const DISK_BYTES: u64 = 160 << 20;

/// The power goes within this number of writes to the disk.
const WRITES_MAX: u64 = 600;

/// Far longer than a machine takes for that, in seconds.
const MACHINE_WITHIN_S: u32 = 900;

/// A machine, without power when dropped.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        // Both fail only when it has ended. What it runs in ends with it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Bench {
    folder: PathBuf,
    disk: PoweredDisk,
    test: &'static str,
    seed: u64,
    boots: u32,
}

impl Bench {
    fn new(test: &'static str, seed: u64, lies: bool) -> Self {
        let folder = std::env::temp_dir().join(format!("farcall-power-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("room");
        let image = folder.join("image");
        fs::File::create(&image).and_then(|file| file.set_len(DISK_BYTES)).expect("room");
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        let made = Command::new("mkfs.ext4").arg("-q").arg(&image).env("PATH", path).status();
        assert!(made.expect("mkfs.ext4 is there").success(), "a file system");
        let disk = PoweredDisk::new(fs::read(&image).expect("it was made"), lies);
        fs::write(folder.join("ledger"), vec![b' '; LEDGER_BYTES]).expect("room");
        Self { folder, disk, test, seed, boots: 0 }
    }

    /// The last round that was answered.
    fn answered(&self) -> u64 {
        let text = fs::read_to_string(self.folder.join("ledger")).expect("it was made");
        text.trim().parse().unwrap_or(0)
    }

    /// Starts the machine and reads what it finds on its disk.
    fn boot(&mut self, first: u64) -> Result<(Machine, Found), String> {
        self.boots += 1;
        let socket = self.folder.join(format!("disk-{}", self.boots));
        self.disk.serve(&socket);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/rdma-vm");
        let mut command = Command::new(script);
        command.args(["--no-rdma", "--memory", "1024", "--timeout", &MACHINE_WITHIN_S.to_string()]);
        command.arg("--disk").arg(format!("nbd+unix:///?socket={}", socket.display()));
        command.arg("--disk").arg(self.folder.join("ledger"));
        let inside = "mkdir -p /run/power && mount -t ext4 /dev/vda /run/power && \
            exec \"$0\" --exact \"$1\" --include-ignored --nocapture";
        command.args(["bash", "-c", inside]).arg(std::env::current_exe().expect("a path")).arg(self.test);
        command.env(ROLE, format!("{} {first}", self.seed));
        let mut machine = Machine(command.stdout(Stdio::piped()).spawn().expect("the script runs"));
        let (mut found, mut said) = (Found::new(), String::new());
        for line in BufReader::new(machine.0.stdout.take().expect("it is piped")).lines() {
            let line = line.map_err(|error| error.to_string())?;
            said += &format!("{line}\n");
            let Some(told) = line.strip_prefix(TELLS) else { continue };
            if told == " that is all" {
                return Ok((machine, found));
            }
            let told = told.trim().split_once(' ').and_then(|(key, sum)| Some((key, sum.parse().ok()?)));
            let (key, sum) = told.ok_or_else(|| format!("it says `{line}`"))?;
            found.insert(key.to_owned(), sum);
        }
        Err(format!("it does not come up again:\n{said}"))
    }

    /// Cuts the power this number of times; says what was wrong after which cut.
    fn cut(&mut self, cuts: u64) -> Result<(), String> {
        let seed = self.seed;
        let mut ledger = Ledger::new(seed);
        let mut random = Random::new(seed_of_stream(seed, 0));
        for cut in 0..=cuts {
            // One that was cut before a round was answered was in the first one that it had.
            let answered = self.answered().max(ledger.next - 1);
            let next = if cut == 0 { 1 } else { answered + 2 };
            let at = |why| format!("seed {seed}, cut {cut}: {why}");
            let (machine, found) = self.boot(next).map_err(at)?;
            if cut > 0
                && let Some(wrong) = ledger.reopen(answered, found)
            {
                return Err(at(wrong));
            }
            if cut == cuts {
                break;
            }
            let writes = 1 + random.below(WRITES_MAX);
            let is_cut = self.disk.cut_after(writes, random.bits());
            let within = Duration::from_secs(u64::from(MACHINE_WITHIN_S));
            is_cut.recv_timeout(within).map_err(|_| at("it writes nothing any more".to_owned()))?;
            drop(machine);
            println!(
                "cut {} at write {writes}, {} rounds, {} flushes",
                cut + 1,
                self.answered(),
                self.disk.flushes()
            );
        }
        Ok(())
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// In the machine: what it does there.
fn is_guest() -> bool {
    let Ok(role) = std::env::var(ROLE) else { return false };
    let (seed, first) = role.split_once(' ').expect("the test gives two numbers");
    let number = |word: &str| word.parse().expect("a number");
    power::guest::run(number(seed), number(first), "/run/power/data", "/dev/vdb");
    true
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
#[ignore = "takes a virtual machine: make test-power"]
fn what_was_answered_survives_every_power_cut() {
    if is_guest() {
        return;
    }
    let (seed, cuts) = (number(SEED, u64::from(std::process::id())), number(CUTS, 3));
    println!("{SEED}={seed}");
    let mut bench = Bench::new("what_was_answered_survives_every_power_cut", seed, false);
    bench.cut(cuts).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(bench.answered() > cuts, "something was written");
}

/// Such a disk is outside the promise; that it is found out shows that the test sees what is lost.
#[test]
#[ignore = "takes a virtual machine: make test-power"]
fn a_disk_that_ignores_flushes_is_found_out() {
    if is_guest() {
        return;
    }
    let seed = number(SEED, u64::from(std::process::id()));
    println!("{SEED}={seed}");
    let mut bench = Bench::new("a_disk_that_ignores_flushes_is_found_out", seed, true);
    let wrong = bench.cut(10).expect_err("what was answered is lost");
    println!("{wrong}");
}
