//! Which host runs on which machine.
//!
//! Published figures often confound the number of servers with the number of machines; here the map is part
//! of the run.

use farcall_base::Random;
use serde::Deserialize;

use crate::config::ConfigError;
use crate::profile::{Profile, ProfileError};

/// How hosts are laid out over machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// One machine after the other is filled.
    #[default]
    InOrder,
    /// One host on each machine, then a second one on each, and so on.
    Spread,
    /// The places of `in-order`, dealt out at random.
    Shuffled {
        /// Draws the order.
        seed: u64,
    },
    /// Each host's machine.
    Machines(Vec<usize>),
}

impl Placement {
    /// The machine of each of `hosts` hosts.
    pub(crate) fn machines(&self, hosts: usize, profile: &Profile) -> Result<Vec<u32>, ProfileError> {
        let topology = &profile.topology;
        let (machines, servers) = (topology.machines(), topology.servers_per_machine());
        if hosts == 0 || hosts > topology.places() {
            let (profile, places) = (profile.name.clone(), topology.places());
            return Err(ProfileError::TooManyHosts { profile, hosts, places });
        }
        let map: Vec<usize> = match self {
            Self::InOrder => (0..hosts).map(|host| host / servers).collect(),
            Self::Spread => (0..hosts).map(|host| host % machines).collect(),
            Self::Shuffled { seed } => {
                let mut places: Vec<usize> = (0..hosts).map(|host| host / servers).collect();
                shuffle(&mut places, *seed);
                places
            }
            Self::Machines(list) => listed(list, hosts, profile)?,
        };
        Ok(map.into_iter().map(|machine| machine as u32).collect())
    }
}

/// Fisher and Yates' shuffle.
fn shuffle(places: &mut [usize], seed: u64) {
    let mut random = Random::new(seed);
    for last in (1..places.len()).rev() {
        places.swap(last, random.below(last as u64 + 1) as usize);
    }
}

fn listed(list: &[usize], hosts: usize, profile: &Profile) -> Result<Vec<usize>, ProfileError> {
    let wrong =
        |message: String| Err(ConfigError::field(&profile.name, "placement.machines", message).into());
    let (machines, servers) = (profile.topology.machines(), profile.topology.servers_per_machine());
    let Some(list) = list.get(..hosts) else {
        return wrong(format!("names the machines of {} hosts, not of {hosts}", list.len()));
    };
    let mut taken = vec![0; machines];
    for machine in list {
        let Some(count) = taken.get_mut(*machine) else {
            return wrong(format!("there is no machine {machine}: the topology has {machines}"));
        };
        *count += 1;
        if *count > servers {
            return wrong(format!("machine {machine} has places for {servers} hosts only"));
        }
    }
    Ok(list.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(placement: &str) -> Profile {
        let topology = "topology={ single-switch = { machines = 4, servers_per_machine = 2 } }";
        Profile::load_with("ideal", &[topology, placement]).expect("correct")
    }

    fn machines(placement: &str, hosts: usize) -> Result<Vec<u32>, String> {
        let profile = profile(placement);
        profile.placement.machines(hosts, &profile).map_err(|error| error.to_string())
    }

    #[test]
    fn hosts_are_laid_out_as_told() {
        assert_eq!(machines("placement=in-order", 5), Ok(vec![0, 0, 1, 1, 2]));
        assert_eq!(machines("placement=spread", 5), Ok(vec![0, 1, 2, 3, 0]));
        assert_eq!(machines("placement={ machines = [3, 1, 3, 0] }", 3), Ok(vec![3, 1, 3]));
    }

    #[test]
    fn a_shuffle_uses_the_same_places_in_an_order_of_its_seed() {
        let dealt = |seed: u64| machines(&format!("placement={{ shuffled = {{ seed = {seed} }} }}"), 8);
        let mut sorted = dealt(1).expect("it fits");
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(dealt(1), dealt(1));
        assert!((2..10).any(|seed| dealt(seed) != dealt(1)), "all seeds deal alike");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (placement, hosts, said) in [
            ("placement=in-order", 9, "places for 8 hosts, not for 9"),
            ("placement=in-order", 0, "not for 0"),
            ("placement={ machines = [1, 1, 1] }", 3, "machine 1 has places for 2"),
            ("placement={ machines = [4] }", 1, "no machine 4"),
            ("placement={ machines = [0] }", 2, "machines of 1 hosts, not of 2"),
        ] {
            let error = machines(placement, hosts).expect_err(placement);
            assert!(error.contains(said) && error.contains("`ideal`"), "{error}");
        }
    }
}
