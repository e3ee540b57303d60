//! Reading a profile.

use std::io;

use super::Profile;
use crate::config::{self, ConfigError};

/// The smallest ring that the conformance suite of lanes works with.
const RING_BYTES_MIN: usize = 4096;

/// The names and texts of the profiles that are part of the program.
pub const EMBEDDED: &[(&str, &str)] = &[
    ("ideal", include_str!("../../profiles/ideal.toml")),
    ("connectx2-qdr", include_str!("../../profiles/connectx2-qdr.toml")),
    ("omni-path-100", include_str!("../../profiles/omni-path-100.toml")),
    ("connectx7-ndr", include_str!("../../profiles/connectx7-ndr.toml")),
];

/// Why a profile cannot be used. Each is one sentence that names the file and the field.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Neither an embedded name nor a file that can be read: correct the name.
    #[error("there is no fabric profile `{name}`: as a file, {source}; the embedded ones are {known}")]
    NotFound {
        /// What was asked for.
        name: String,
        /// The embedded profiles.
        known: String,
        /// Why it could not be read as a file.
        source: io::Error,
    },
    /// The profile says something wrong, or not enough: correct it.
    #[error("fabric profile {0}")]
    Wrong(#[from] ConfigError),
    /// More hosts than places: use fewer, or a larger topology.
    #[error("fabric profile `{profile}`, `topology`: there are places for {places} hosts, not for {hosts}")]
    TooManyHosts {
        /// The profile.
        profile: String,
        /// How many were asked for.
        hosts: usize,
        /// How many there is room for.
        places: usize,
    },
}

impl Profile {
    /// The embedded profile of that name, or the one in that file.
    pub fn load(name_or_file: &str) -> Result<Self, ProfileError> {
        Self::load_with(name_or_file, &[])
    }

    /// As [`Profile::load`], with fields replaced: each override is `section.field=value`.
    pub fn load_with(name_or_file: &str, overrides: &[&str]) -> Result<Self, ProfileError> {
        if let Some((name, text)) = EMBEDDED.iter().find(|(name, _)| *name == name_or_file) {
            return Self::parse(name, text, overrides);
        }
        let text = std::fs::read_to_string(name_or_file).map_err(|source| {
            let known: Vec<_> = EMBEDDED.iter().map(|(name, _)| *name).collect();
            ProfileError::NotFound { name: name_or_file.to_owned(), known: known.join(", "), source }
        })?;
        Self::parse(name_or_file, &text, overrides)
    }

    /// The profile in `text`, known by `name` in messages.
    pub fn parse(name: &str, text: &str, overrides: &[&str]) -> Result<Self, ProfileError> {
        let mut profile: Self = config::read(name, text, overrides)?;
        name.clone_into(&mut profile.name);
        profile.check()?;
        Ok(profile)
    }

    /// What no field can know alone.
    fn check(&self) -> Result<(), ProfileError> {
        let nic = &self.nic;
        let wire_bytes = nic.mtu_bytes + self.link.header_bytes;
        if nic.signal_period > nic.send_queue_packets {
            return Err(
                self.wrong("nic.signal_period", "no completion would come before the send queue is full")
            );
        }
        if nic.mtu_bytes > u32::MAX as usize / 2 {
            return Err(self.wrong("nic.mtu_bytes", "no packet is that long"));
        }
        if self.switch.port_buffer_bytes < wire_bytes {
            return Err(self.wrong("switch.port_buffer_bytes", "the longest packet does not fit"));
        }
        if nic.receive_buffer_bytes < nic.mtu_bytes {
            return Err(self.wrong("nic.receive_buffer_bytes", "the longest packet does not fit"));
        }
        if self.lanes.ring_bytes < RING_BYTES_MIN {
            return Err(self.wrong("lanes.ring_bytes", "a ring has at least 4096 bytes"));
        }
        Ok(())
    }

    fn wrong(&self, field: &str, message: &str) -> ProfileError {
        ConfigError::field(&self.name, field, message).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ideal_with(overrides: &[&str]) -> Result<Profile, String> {
        Profile::load_with("ideal", overrides).map_err(|error| error.to_string())
    }

    #[test]
    fn every_embedded_profile_loads() {
        for (name, _) in EMBEDDED {
            let profile = Profile::load(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(profile.name, *name);
        }
    }

    #[test]
    fn a_profile_may_be_a_file() {
        let error = Profile::load("no/such/profile.toml").expect_err("there is no such file").to_string();
        assert!(error.contains("`no/such/profile.toml`") && error.contains("connectx7-ndr"), "{error}");
        let path = std::env::temp_dir().join(format!("farcall-profile-{}.toml", std::process::id()));
        let (_, text) = EMBEDDED[0];
        std::fs::write(&path, text).expect("a temporary file");
        let profile = Profile::load(path.to_str().expect("a plain path"));
        std::fs::remove_file(&path).expect("it was just written");
        assert_eq!(profile.expect("a correct profile").host, ideal_with(&[]).expect("correct").host);
    }

    #[test]
    fn overrides_replace_fields() {
        let profile = ideal_with(&["nic.mtu_bytes=1234", " placement = spread"]).expect("correct");
        assert_eq!((profile.nic.mtu_bytes, profile.placement), (1234, crate::Placement::Spread));
    }

    #[test]
    fn a_profile_that_is_too_small_gets_more_of_what_it_has() {
        let racks = Profile::load("omni-path-100").expect("it is embedded");
        let (few, many) = (racks.scaled_to(100), racks.scaled_to(1_000));
        assert_eq!(few, racks);
        assert_eq!(
            (many.topology.places(), many.topology.to_string()),
            (1_024, "16 racks of 32 machines".into())
        );
        let switch = ideal_with(&["topology.single-switch.servers_per_machine=2"]).expect("correct");
        let larger = switch.scaled_to(4_001);
        assert_eq!(larger.topology.to_string(), "2001 machines at one switch");
        assert_eq!(Profile { topology: switch.topology, ..larger }, switch, "nothing else changes");
    }

    #[test]
    fn what_is_wrong_is_said_in_one_sentence_with_file_and_field() {
        let cases = [
            ("host.pol_ns=1", "unknown field `pol_ns`", "host"),
            ("host.poll_ns=0", "must be from 1 to", "host.poll_ns"),
            ("link.gbps=-3", "above 0 and at most 8000 Gb/s, not -3", "link.gbps"),
            ("nic.mtu_bytes=soon", "invalid type", "nic.mtu_bytes"),
            ("nic.signal_period=100000", "send queue is full", "nic.signal_period"),
            ("lanes.ring_bytes=5000", "power of two", "lanes.ring_bytes"),
            ("topology={ ring = {} }", "unknown variant `ring`", "topology"),
            ("topology.single-switch.machines=0", "must be from 1", "topology.single-switch.machines"),
            ("switch.port_buffer_bytes=10", "longest packet does not fit", "switch.port_buffer_bytes"),
        ];
        for (set, said, field) in cases {
            let error = ideal_with(&[set]).expect_err(set);
            assert!(error.contains("`ideal`") && error.contains(said), "{set}: {error}");
            assert!(error.contains(field) && !error.contains('\n'), "{set}: {error}");
        }
        let error = ideal_with(&["poll_ns"]).expect_err("no value");
        assert!(error.contains("section.field=value"), "{error}");
    }

    #[test]
    fn a_missing_field_is_named() {
        let (_, text) = EMBEDDED[0];
        let without: String = text
            .lines()
            .filter(|line| !line.starts_with("poll_ns"))
            .fold(String::new(), |all, line| all + line + "\n");
        let error = Profile::parse("mine.toml", &without, &[]).expect_err("a field is missing").to_string();
        assert!(error.contains("missing field `poll_ns`") && error.contains("`mine.toml`"), "{error}");
        let error = Profile::parse("mine.toml", "a = 1\nb = = 2", &[]).expect_err("no TOML").to_string();
        assert!(error.contains("`mine.toml`, line 2") && !error.contains('\n'), "{error}");
    }
}
