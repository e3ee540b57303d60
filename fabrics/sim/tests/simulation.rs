//! Programs, turns and time.

mod common;

use core::time::Duration;
use std::sync::{Arc, Mutex};

use common::fabric;
use farcall_base::Instant;
use farcall_driver::clock::Clock;
use farcall_driver::{Datagram, Destination, Packet};
use farcall_sim::{Action, Host, Outcome, Picos, Program, SimDatagram, Simulation};

const NOTHING: &[&str] = &["host.poll_ns=100", "host.receive_packet_ns=30", "host.send_packet_ns=0"];

/// When turns began, and how much they did.
type Diary = Arc<Mutex<Vec<(u64, usize)>>>;

/// Notes its turns, answers nothing, and asks for turns at the given times.
struct Idle {
    driver: SimDatagram,
    clock: Clock,
    deadlines: Vec<u64>,
    diary: Diary,
    packets: Vec<Packet>,
}

impl Idle {
    fn new(host: &Host, deadlines: &[u64], diary: &Diary) -> Self {
        let (driver, clock) = (host.datagram(), host.clock());
        Self { driver, clock, deadlines: deadlines.to_vec(), diary: diary.clone(), packets: Vec::new() }
    }
}

impl Program for Idle {
    fn turn(&mut self) -> usize {
        let now = self.clock.now().as_nanos();
        self.deadlines.retain(|deadline| *deadline > now);
        let received = self.driver.receive(&mut self.packets);
        self.packets.drain(..).for_each(|packet| self.driver.release(packet));
        self.diary.lock().expect("no panic").push((now, received));
        received
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().copied().map(Instant::from_nanos)
    }
}

fn take(diary: &Diary) -> Vec<(u64, usize)> {
    core::mem::take(&mut diary.lock().expect("no panic"))
}

/// A simulation of one program on host 0; others are driven by hand.
fn idle(overrides: &[&str], hosts: usize, deadlines: &'static [u64]) -> (Simulation, Diary) {
    let fabric = fabric(&[NOTHING, overrides].concat(), hosts);
    let (mut simulation, diary) = (Simulation::new(fabric), Diary::default());
    let shared = diary.clone();
    simulation.start(0, move |host| Box::new(Idle::new(host, deadlines, &shared)));
    (simulation, diary)
}

#[test]
fn an_idle_program_runs_at_its_deadlines_and_then_nothing_is_left() {
    let (mut simulation, diary) = idle(&[], 1, &[5_000, 7_000]);
    assert_eq!(simulation.run_while(|| true), Outcome::Quiet);
    // The poll that a turn costs comes first.
    assert_eq!(take(&diary), [(100, 0), (5_100, 0), (7_100, 0)]);
}

#[test]
fn a_run_can_end_at_a_time_and_go_on() {
    let (mut simulation, diary) = idle(&[], 1, &[5_000, 7_000]);
    assert_eq!(simulation.run_until(Instant::from_nanos(6_000)), Outcome::TimeReached);
    assert_eq!(simulation.fabric().now(), Picos(6_000_000));
    assert_eq!(take(&diary).len(), 2);
    assert_eq!(simulation.run_while(|| diary.lock().expect("no panic").is_empty()), Outcome::Done);
    assert_eq!(simulation.run_until(Instant::from_nanos(9_000)), Outcome::Quiet);
}

#[test]
fn an_arrival_is_noticed_after_half_a_poll_and_another_turn_follows() {
    let (mut simulation, diary) = idle(&[], 2, &[]);
    assert_eq!(simulation.run_while(|| true), Outcome::Quiet);
    take(&diary);
    let mut other = simulation.fabric().host(1).datagram();
    other.send(Destination(0), 0, &[&[1; 100]]).expect("room");
    other.flush();
    simulation.run_while(|| true);
    let turns = take(&diary);
    assert_eq!(turns.iter().map(|(_, received)| *received).collect::<Vec<_>>(), [1, 0]);
    // Half a poll and the poll of its turn; then the packet and the next poll.
    let in_memory = simulation.fabric().now().as_nanos() - 50 - 130;
    assert_eq!((turns[0].0, turns[1].0), (in_memory + 50 + 100, in_memory + 50 + 100 + 30 + 100));
}

#[test]
fn who_spends_time_falls_behind_and_its_clock_says_so() {
    let fabric = fabric(NOTHING, 1);
    let host = fabric.host(0);
    let clock = host.clock();
    let before = clock.now();
    host.spend(Duration::from_nanos(1234));
    host.spend_handler();
    assert_eq!((clock.now() - before).as_nanos(), 1234);
    assert_eq!(fabric.now(), Picos::ZERO);
}

#[test]
fn a_paused_host_runs_when_it_is_resumed() {
    let (mut simulation, diary) = idle(&[], 1, &[5_000]);
    simulation.run_until(Instant::from_nanos(1_000));
    simulation.fabric().act(&Action::Pause(vec![0])).expect("host 0");
    assert_eq!(simulation.run_until(Instant::from_nanos(9_000)), Outcome::Quiet);
    take(&diary);
    simulation.fabric().act(&Action::Resume(vec![0])).expect("host 0");
    simulation.run_while(|| true);
    assert_eq!(take(&diary).len(), 1);
}

#[test]
fn a_slow_host_takes_its_time() {
    let (mut simulation, diary) = idle(&[], 1, &[]);
    simulation.fabric().act(&Action::Slow { hosts: vec![0], factor: 10 }).expect("host 0");
    simulation.run_while(|| true);
    assert_eq!(take(&diary), [(1_000, 0)]);
}

#[test]
fn a_restarted_host_gets_a_new_program() {
    let fabric = fabric(NOTHING, 1);
    let mut simulation = Simulation::new(fabric.clone());
    let lives = Arc::new(Mutex::new(Vec::new()));
    let noted = lives.clone();
    simulation.start(0, move |host| {
        noted.lock().expect("no panic").push(host.incarnation());
        Box::new(Idle::new(host, &[], &Diary::default()))
    });
    for action in
        [Action::Crash(vec![0]), Action::Crash(vec![0]), Action::Restart(vec![0]), Action::Restart(vec![0])]
    {
        fabric.act(&action).expect("host 0");
        assert_eq!(simulation.run_while(|| true), Outcome::Quiet);
    }
    assert_eq!(*lives.lock().expect("no panic"), [0, 1]);
}

/// Says that it must run at once, always, and never does anything.
struct Restless;

impl Program for Restless {
    fn turn(&mut self) -> usize {
        0
    }

    fn next_deadline(&self) -> Option<Instant> {
        Some(Instant::ZERO)
    }
}

#[test]
fn a_restless_program_polls_and_time_goes_on() {
    let fabric = fabric(NOTHING, 1);
    let mut simulation = Simulation::new(fabric.clone());
    simulation.start(0, |_| Box::new(Restless));
    assert_eq!(simulation.run_until(Instant::from_nanos(100_000)), Outcome::TimeReached);
    let usage = fabric.host(0).usage();
    assert_eq!((usage.turns, usage.busy_turns, usage.busy), (1001, 0, Picos::ZERO));
}

#[test]
fn the_counter_file_shows_the_totals() {
    let (mut simulation, _) = idle(&["nic.mtu_bytes=777"], 2, &[]);
    let mut other = simulation.fabric().host(1).datagram();
    for _ in 0..5 {
        other.send(Destination(0), 0, &[&[1; 100]]).expect("room");
    }
    other.flush();
    simulation.run_while(|| true);
    let totals = simulation.fabric().totals();
    assert_eq!((totals.packets_sent, totals.packets_delivered, totals.bytes_delivered), (5, 5, 500));
    let shown = farcall_driver::CounterFile::open_process(std::process::id()).expect("this process");
    let events = |group: &farcall_driver::GroupSnapshot| {
        group.counters.iter().find(|counter| counter.name == "events").map(|counter| counter.value)
    };
    let groups = shown.groups.iter().filter(|group| group.label == "sim ideal");
    assert!(groups.filter_map(events).any(|count| count == totals.events), "{totals:?}");
}
