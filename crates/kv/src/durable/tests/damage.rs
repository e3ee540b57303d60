//! Damage in a log: copies put together, and a log that is looked at while it is used.

use super::*;

/// A log of several groups in its head, and what its disk has.
fn log_of_groups() -> (SimulatedDisk, Durable, Store, TableId) {
    let disk = SimulatedDisk::new(1, Faults::default());
    let (mut durable, mut store, table) = with_table(&disk);
    for number in 0..8_u8 {
        let bytes = [number; 3000];
        let value = Value::new(&bytes).expect("within the limit");
        durable.put(&mut store, name(table, &[number]), value, Condition::Always).expect("room");
        settle(&mut durable, &mut store);
    }
    (disk, durable, store, table)
}

/// A copy of a log may end anywhere: it is refused, with where it ends, as long as something is missing.
#[test]
fn a_log_that_is_cut_off_is_refused_at_whatever_length() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let (mut durable, mut store, table) = with_table(&disk);
    let long = vec![7; 900_000];
    for number in 0..20_u8 {
        let value = Value::new(&long).expect("within the limit");
        while durable.put(&mut store, name(table, &[number % 8]), value, Condition::Always).is_err() {
            durable.turn(&mut store, &Results::default());
        }
        settle(&mut durable, &mut store);
    }
    rest(&mut durable, &mut store);
    let used: Vec<u32> = durable.journal.frames().live().map(|ending| ending.frame).collect();
    assert!(used.len() > 2, "{used:?}");
    let needed = used.iter().map(|frame| format::frame_at(frame + 1)).max().expect("some");
    drop(durable);
    let platter = disk.platter();
    let step = format::FRAME_BYTES as u64 / 4;
    let mut lengths: Vec<u64> = (0..platter.len() as u64).step_by(step as usize).skip(1).collect();
    lengths.extend([BLOCK_BYTES as u64, FRAMES_AT - BLOCK_BYTES as u64, FRAMES_AT + BLOCK_BYTES as u64]);
    let mut cut = 0;
    for bytes in lengths {
        let copy = SimulatedDisk::new(1, Faults::default());
        let mut image: Box<dyn Disk> = Box::new(copy.clone());
        let mut blocks = Blocks::zeroed(bytes as usize);
        blocks.copy_from_slice(&platter[..bytes as usize]);
        image.begin(Job::Extend { bytes });
        assert_eq!(image.wait().expect("it is done").outcome, Ok(()));
        image.begin(Job::Write { at: 0, blocks, flush: true });
        assert_eq!(image.wait().expect("it is done").outcome, Ok(()));
        let exported = SavedLog::read(&mut *image).map(|_| ());
        let opened = open(&copy, (0, 1)).map(|_| ());
        assert_eq!(exported, opened, "{bytes} bytes");
        cut += u32::from(matches!(opened, Err(LogError::CutOff { .. })));
        assert!(opened.is_err() || bytes >= needed, "{bytes} bytes of {needed}");
    }
    assert!(cut > 8, "{cut}");
}

/// Whether exactly this is composed of the copies.
fn composes(part: &Part, copies: &[&[u8]], right: &[u8]) -> bool {
    farcall_replica::Certificate::compose(part, copies).is_some_and(|composed| composed == right)
}

fn with_a_bit_flipped(whole: &[u8], at: usize) -> Vec<u8> {
    let mut copy = whole.to_vec();
    copy[at] ^= 1;
    copy
}

#[test]
fn what_the_log_holds_is_composed_of_damaged_copies_in_whichever_order() {
    let (disk, durable, ..) = log_of_groups();
    let platter = disk.platter();
    let frame = format::FRAME_BYTES;
    // The superblocks, the head, and a frame with nothing.
    let parts = [
        (0, [8, 65_536 + 8, 5000]),
        (FRAMES_AT, [8, 4096 + 100, 8 * 4096]),
        (FRAMES_AT + frame as u64, [8, 9, 10]),
    ];
    for (place, flips) in parts {
        let part = durable.journal.part_around(place + 70_000).expect("nothing is in flight");
        assert_eq!(part.at, place);
        let whole = &platter[part.at as usize..(part.at + part.bytes) as usize];
        assert!(composes(&part, &[whole], whole), "part at {place}");
        for at in flips {
            let damaged = with_a_bit_flipped(whole, at);
            // Where nothing is needed, what is here is right.
            let right = if place > FRAMES_AT { &damaged } else { whole };
            assert!(composes(&part, &[&damaged, whole], right), "part at {place}, byte {at}");
            assert!(composes(&part, &[whole, &damaged], whole), "part at {place}, byte {at}");
        }
    }
}

#[test]
fn groups_that_are_damaged_in_different_copies_are_put_together_and_the_same_one_is_lost() {
    let (disk, durable, ..) = log_of_groups();
    let platter = disk.platter();
    let part = durable.journal.part_around(FRAMES_AT).expect("nothing is in flight");
    let whole = &platter[FRAMES_AT as usize..][..format::FRAME_BYTES];
    let damaged = |at: usize| with_a_bit_flipped(whole, at);
    let (first, second, same) = (damaged(4096 + 100), damaged(4 * 4096), damaged(4096 + 200));
    assert!(composes(&part, &[&first, &second], whole), "other groups are damaged in each");
    let is_lost = |copies: &[&[u8]]| farcall_replica::Certificate::compose(&part, copies).is_none();
    assert!(is_lost(&[&first, &same]), "the group is whole in neither");
    assert!(is_lost(&[&first]) && is_lost(&[&vec![0; whole.len()]]) && is_lost(&[]));
    // Behind the end of the log anything may lie; a frame of an earlier moment lacks the last groups.
    let behind = damaged(format::FRAME_BYTES - 1);
    assert!(composes(&part, &[&behind, &first], &behind));
    let mut earlier = whole.to_vec();
    earlier[6 * 4096..].fill(0);
    assert!(is_lost(&[&earlier]) && composes(&part, &[&earlier, &behind], whole));
}

/// Looks at a whole log.
fn look(durable: &mut Durable, store: &mut Store, (run, repairs): (u64, bool)) -> Vec<(u64, Fate)> {
    for _ in 0..1_000_000 {
        if let Some(outcome) = durable.scrub(run, repairs) {
            assert!(outcome.bytes > FRAMES_AT, "it read what is needed");
            return outcome.damage.iter().map(|part| (part.at, part.fate)).collect();
        }
        durable.turn(store, &Results::default());
    }
    panic!("it never ends");
}

#[test]
fn what_is_damaged_in_a_log_without_replicas_is_found_and_superblocks_are_written_again() {
    let (disk, mut durable, mut store, table) = log_of_groups();
    assert_eq!(look(&mut durable, &mut store, (1, false)), []);
    let superblock = SUPERBLOCK_SLOT_OF_FIRST_LIFE;
    disk.flip_bit(superblock + 9, 0);
    assert_eq!(look(&mut durable, &mut store, (2, false)), [(0, Fate::Reparable)]);
    assert_eq!(look(&mut durable, &mut store, (3, true)), [(0, Fate::Repaired)]);
    assert_eq!(look(&mut durable, &mut store, (4, false)), []);
    // Where nothing is needed nothing is damaged.
    disk.flip_bit(FRAMES_AT + format::FRAME_BYTES as u64 - 1, 0);
    assert_eq!(look(&mut durable, &mut store, (5, false)), []);
    disk.flip_bit(FRAMES_AT + 3 * BLOCK_BYTES as u64 + 100, 0);
    let lost = [(FRAMES_AT, Fate::Lost)];
    assert_eq!(look(&mut durable, &mut store, (6, true)), lost, "no copy has it");
    assert_eq!(look(&mut durable, &mut store, (5, false)), [], "what a run has found is its own");
    let value = Value::new(b"value").expect("short");
    assert!(durable.put(&mut store, name(table, b"k"), value, Condition::Always).is_ok(), "it goes on");
}

/// A disk that cannot read what is looked at has not failed for the log.
#[test]
fn what_cannot_be_read_when_it_is_looked_at_is_said_and_the_log_goes_on() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let (mut durable, mut store, table) = with_table(&disk);
    settle(&mut durable, &mut store);
    rest(&mut durable, &mut store);
    assert_eq!(durable.scrub(1, false), None);
    disk.set_faults(Faults { fails_from: Some(0), ..Faults::default() });
    let found = look(&mut durable, &mut store, (1, false));
    assert_eq!(found, [(0, Fate::Reparable), (FRAMES_AT, Fate::Lost)]);
    disk.set_faults(Faults::default());
    let value = Value::new(b"value").expect("short");
    durable.put(&mut store, name(table, b"k"), value, Condition::Always).expect("it goes on");
    settle(&mut durable, &mut store);
    assert_eq!(durable.failure(), None);
}

/// Groups are flushed, segments opened and cleaned while the log is looked at: none of that is damage.
#[test]
fn a_log_that_is_written_and_cleaned_while_it_is_looked_at_is_whole() {
    let disk = SimulatedDisk::new(1, Faults { polls_max: 3, ..Faults::default() });
    let (mut durable, mut store, table) = with_table(&disk);
    let (mut looks, mut run) = (0, 1);
    let long = vec![7; 200_000];
    for number in 0..600_u32 {
        let value = Value::new(&long).expect("within the limit");
        let key = [(number % 5) as u8];
        while durable.put(&mut store, name(table, &key), value, Condition::Always).is_err() {
            durable.turn(&mut store, &Results::default());
        }
        for _ in 0..20 {
            durable.turn(&mut store, &Results::default());
            if let Some(outcome) = durable.scrub(run, true) {
                assert_eq!(outcome.damage, [], "look {run}");
                (looks, run) = (looks + 1, run + 1);
            }
        }
    }
    assert!(durable.status().statistics.cleaned > 3 && looks > 3, "{looks} looks: {:?}", durable.status());
}
