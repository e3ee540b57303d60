//! Long values on a disk whose power is cut: what was there before is there as a whole, or what came.

use farcall_base::{Principal, Random};
use farcall_disk::testing::Faults;

use super::{World, seed};
use crate::resp::command::Taken;
use crate::resp::input::Input;
use crate::resp::parse::{LIMITS, Parser};
use crate::resp::reply::{Protocol, Reply};
use crate::resp::session::Session;
use crate::resp::spares::Spares;

impl World {
    /// Sends what has come of a request, whose bytes begin with the input; gives its reply once it ran.
    /// A turn of the log lies between any two steps.
    fn receive(&mut self, parser: &mut Parser, input: &mut Input) -> Option<Vec<u8>> {
        for _ in 0..100_000 {
            if let Some(length) = parser.parse(input, LIMITS).expect("a request") {
                let mut reply = Reply::new(Vec::new(), Protocol::default());
                let args = parser.args(&input[..length]);
                if self.engine.execute(args, &mut self.session, &mut reply, &mut self.shard) {
                    self.states.push(self.state());
                    self.waiting.push((self.states.len() - 1, self.engine.take_needed()));
                    input.cut(0..length);
                    parser.reset();
                    return Some(reply.into_bytes());
                }
            } else {
                parser.long()?;
                let taken = self.engine.take_long(&mut self.session, parser, input, &mut self.shard);
                if taken.expect("a request") == Taken::Some {
                    return None;
                }
            }
            self.turn();
            if self.disk.is_dark() {
                return None;
            }
        }
        panic!("the log takes it at last");
    }

    /// Sends a request in parts of this length, with a turn of the log behind each; gives the reply, or
    /// nothing if the power goes.
    fn send(&mut self, words: &[&[u8]], part: usize) -> Option<Vec<u8>> {
        let request = request(words);
        let (mut parser, mut input) = (Parser::default(), Input::default());
        for bytes in request.chunks(part) {
            input.extend(bytes, &mut Spares::default());
            if let Some(reply) = self.receive(&mut parser, &mut input) {
                return Some(reply);
            }
            self.turn();
            self.engine.keep_up(&mut self.shard);
        }
        None
    }
}

fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    request
}

/// A value that tells where each part of it belongs.
fn long_value(seed: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 4096) as u8 ^ at as u8 ^ seed).collect()
}

/// The power goes at each job of the disk while a long value is sent: the old one is there, or the new one,
/// as a whole, and nothing of what was not whole takes memory.
#[test]
fn long_values_are_there_as_a_whole_whenever_the_power_goes() {
    let mut random = Random::new(seed());
    let (old, new) = (long_value(1, 2_100_000), long_value(2, 3_200_000));
    let (mut found, mut is_done, mut jobs) = ([0, 0], false, 0);
    while !is_done {
        let mut world = World::new(random.bits());
        assert!(world.send(&[b"SET", b"k", &old], 200_000).is_some(), "there is power");
        world.settle();
        let taken = world.shard.store().taken_bytes();
        world.disk.set_faults(Faults { power_fails_after: Some(jobs), ..Faults::default() });
        let part = 1 + random.below(300_000) as usize;
        let sent = world.send(&[b"SET", b"k", &new], part).is_some();
        (0..100).for_each(|_| world.turn());
        is_done = sent && !world.disk.is_dark();
        world.cut(&mut random);
        let is_new = world.states[0].values().any(|(text, _)| text.starts_with("3200000 bytes"));
        found[usize::from(is_new)] += 1;
        while world.shard.store_mut().sweep() {}
        world.settle();
        let more = if is_new { new.len() - old.len() } else { 0 };
        let now = world.shard.store().taken_bytes();
        assert!(now < taken + more + 200_000, "{now} bytes are taken, {taken} before, at job {jobs}");
        // Another value can be written, and is there after the next cut.
        assert!(is_done || world.send(&[b"SET", b"k", &old], 200_000).is_some() || world.disk.is_dark());
        world.settle();
        world.cut(&mut random);
        jobs += 1;
    }
    assert!(
        found.iter().all(|times| *times > 0),
        "the old one is there {} times, {} the new",
        found[0],
        found[1]
    );
}

/// Commands that change long values, with cuts at random jobs.
#[test]
fn what_becomes_of_long_values_survives_any_cut() {
    let mut random = Random::new(seed());
    let mut world = World::new(random.bits());
    for round in 0..24 {
        let jobs = random.below(40);
        world.disk.set_faults(Faults { power_fails_after: Some(jobs), ..Faults::default() });
        for step in 0..random.below(10) {
            let key = format!("k{}", random.below(2));
            let other = format!("k{}", random.below(2));
            let value = long_value((round * 10 + step) as u8, 1_100_000 + random.below(900_000) as usize);
            let time = (1 + random.below(40)).to_string();
            let offset = random.below(1_000_000).to_string();
            let (key, other, value) = (key.as_bytes(), other.as_bytes(), &value[..]);
            let words: &[&[u8]] = match random.below(14) {
                0..3 => &[b"SET", key, value],
                3 => &[b"SET", key, value, b"PX", time.as_bytes()],
                4 | 5 => &[b"APPEND", key, &value[..20_000 + offset.len() * 30_000]],
                6 | 7 => &[b"SETRANGE", key, offset.as_bytes(), &value[..40_000]],
                8 => &[b"RENAME", key, other],
                9 => &[b"DEL", key],
                12 | 13 => &[b"COPY", key, other, b"REPLACE"],
                10 => &[b"PEXPIRE", key, time.as_bytes()],
                _ => &[b"SET", key, b"short"],
            };
            world.now_ms += random.below(4);
            world.begin_turn();
            world.send(words, 150_000);
            world.engine.keep_up(&mut world.shard);
            (0..random.below(4)).for_each(|_| world.turn());
        }
        world.cut(&mut random);
    }
}

/// Enough for several revolutions of the log, with values that stay, are replaced, and are never whole.
#[test]
fn long_values_survive_the_cleaning_of_the_log() {
    let mut random = Random::new(seed());
    let mut world = World::new(random.bits());
    let stays = long_value(200, 5_000_000);
    assert!(world.send(&[b"SET", b"stays", &stays], 1 << 18).is_some(), "there is power");
    for life in 0..2 {
        for round in 0..30 {
            let value = long_value(round, 3_000_000);
            let key: &[u8] = if round % 2 == 0 { b"a" } else { b"b" };
            assert!(world.send(&[b"SET", key, &value], 1 << 18).is_some(), "there is power");
            assert!(world.send(&[b"SETRANGE", b"stays", b"70000", &[round; 40_000]], 1 << 18).is_some());
            let lost = request(&[b"SET", b"lost", &value]);
            let (mut parser, mut input) = (Parser::default(), Input::default());
            input.extend(&lost[..2_000_000], &mut Spares::default());
            assert_eq!(world.receive(&mut parser, &mut input), None);
            world.session = Session::new(1, String::new(), Principal::Unproven, true, 0);
            world.engine.keep_up(&mut world.shard);
            world.settle();
        }
        let status = world.shard.log_status().expect("a log");
        assert!(life == 0 || status.statistics.cleaned > 3, "{status:?}");
        let needed = 5_000_000 + 2 * 3_000_000;
        assert!((needed..needed + 200_000).contains(&status.live_bytes), "{status:?}");
        (world.states, world.answered) = (vec![world.state()], 0);
        world.cut(&mut random);
        assert_eq!(world.states[0].len(), 3);
    }
}
