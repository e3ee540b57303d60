//! Random operations beside a plain map that knows what must come of them.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// An operation on one of a few keys.
#[derive(Clone, Debug)]
enum Step {
    Get(u8),
    Put(u8, usize, Want),
    Delete(u8, Want),
    Increment(u8, i64),
    Scan(u16),
}

/// The condition of a write.
#[derive(Clone, Copy, Debug)]
enum Want {
    Always,
    Absent,
    Current,
    Old,
}

fn step() -> impl Strategy<Value = Step> {
    let want = prop_oneof![Just(Want::Always), Just(Want::Absent), Just(Want::Current), Just(Want::Old)];
    let length = prop_oneof![0..40_usize, 0..WHOLE_BYTES_MAX, 0..300_000_usize];
    prop_oneof![
        2 => any::<u8>().prop_map(Step::Get),
        6 => (any::<u8>(), length, want.clone()).prop_map(|(key, length, want)| Step::Put(key, length, want)),
        2 => (any::<u8>(), want).prop_map(|(key, want)| Step::Delete(key, want)),
        2 => (any::<u8>(), -3..4_i64).prop_map(|(key, amount)| Step::Increment(key, amount)),
        1 => any::<u16>().prop_map(Step::Scan),
    ]
}

/// What must be in the store.
#[derive(Default)]
struct Model {
    objects: BTreeMap<Vec<u8>, (u64, Vec<u8>)>,
    last_version: u64,
}

impl Model {
    fn version(&self, name: &[u8]) -> u64 {
        self.objects.get(name).map_or(0, |(version, _)| *version)
    }

    fn condition(&self, name: &[u8], want: Want) -> (Condition, bool) {
        let version = self.version(name);
        match want {
            Want::Always => (Condition::Always, true),
            Want::Absent => (Condition::Absent, version == 0),
            Want::Current => (Condition::Version(version), version != 0),
            Want::Old => (Condition::Version(version.wrapping_sub(1)), false),
        }
    }

    /// Notes a write that the store says it did.
    fn wrote(&mut self, name: &[u8], version: u64, contents: Vec<u8>) {
        assert!(version > self.last_version, "versions only rise");
        self.last_version = version;
        self.objects.insert(name.to_vec(), (version, contents));
    }
}

fn run(steps: Vec<Step>) {
    let (mut store, table) = store(MEMORY_BYTES_MIN);
    let mut model = Model::default();
    for (number, step) in steps.into_iter().enumerate() {
        apply(&mut store, table, &mut model, number as u64, step);
        let statistics = store.statistics();
        assert_eq!(statistics.objects, model.objects.len() as u64);
        assert!(statistics.used_bytes <= statistics.memory_bytes);
    }
    for (name, (version, contents)) in &model.objects {
        let object = store.get(name_in(table, name)).expect("a table").expect("it was never deleted");
        assert!((object.version(), object.to_vec()) == (*version, contents.clone()), "{name:?}");
    }
}

fn apply(store: &mut Store, table: TableId, model: &mut Model, seed: u64, step: Step) {
    let name = |number: u8| vec![number; 1 + usize::from(number % 60)];
    match step {
        Step::Get(number) => {
            let found = value_of(store, name_in(table, &name(number)));
            assert!(found == model.objects.get(&name(number)).map(|(_, contents)| contents.clone()));
        }
        Step::Put(number, length, want) => {
            let (name, contents) = (name(number), pattern(seed, length));
            let (condition, holds) = model.condition(&name, want);
            match store.put(name_in(table, &name), value(&contents), condition) {
                Ok(version) => {
                    assert!(holds, "{condition:?}");
                    model.wrote(&name, version, contents);
                }
                Err(WriteError::WrongVersion { version }) => {
                    assert_eq!((holds, version), (false, model.version(&name)));
                }
                Err(WriteError::OutOfMemory) => {
                    let statistics = store.statistics();
                    let left = statistics.live_bytes_max.saturating_sub(statistics.live_bytes);
                    assert!(left < object_bytes(name.len(), length) + (1 << 20), "{left} bytes were left");
                }
                Err(error) => panic!("{error}"),
            }
        }
        Step::Delete(number, want) => {
            let name = name(number);
            let (condition, holds) = model.condition(&name, want);
            let version = model.version(&name);
            let expected = if holds {
                Ok((version != 0).then_some(version))
            } else {
                Err(WriteError::WrongVersion { version })
            };
            assert_eq!(store.delete(name_in(table, &name), condition), expected);
            if holds {
                model.objects.remove(&name);
            }
        }
        Step::Increment(number, amount) => {
            let name = name(number);
            let text = model
                .objects
                .get(&name)
                .map_or(Some("0".to_owned()), |(_, contents)| String::from_utf8(contents.clone()).ok());
            let sum = text.and_then(|text| text.parse::<i64>().ok()).map(|before| before + amount);
            match store.increment(name_in(table, &name), amount) {
                Ok((version, found)) => {
                    assert_eq!(Some(found), sum);
                    model.wrote(&name, version, found.to_string().into_bytes());
                }
                Err(error) => assert_eq!((error, sum), (IncrementError::NotANumber, None)),
            }
        }
        Step::Scan(page_bytes) => {
            let (mut found, mut scan) = (BTreeMap::new(), Scan::new(table));
            let mut visit = |object: Object<'_>| {
                let twice = found.insert(object.key().to_vec(), (object.version(), object.to_vec()));
                assert!(twice.is_none(), "an object is met once");
            };
            while scan.page(store, usize::from(page_bytes), &mut visit) {}
            assert!(found == model.objects);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_store_does_what_a_map_would(steps in prop::collection::vec(step(), 1..400)) {
        run(steps);
    }
}
