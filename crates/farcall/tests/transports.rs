//! The table of transports: each row can be named, and an endpoint over it is there or a sentence says why
//! not.

mod common;

use common::transports_without_launcher;
use farcall::bootstrap::Bootstrap;
use farcall::parameters::Settings;
use farcall::{Fabric, Node, Presence, TransportKind};

#[test]
fn every_transport_is_known_by_the_name_of_its_parts() {
    let mut names = std::collections::BTreeSet::new();
    for kind in TransportKind::every() {
        let parts = match kind {
            TransportKind::Pair { protocol, fabric, .. } => format!("{protocol:?}+{fabric:?}"),
            TransportKind::Tcp { secured, .. } => if secured { "tcp+tls" } else { "tcp" }.to_owned(),
            TransportKind::Library(library) => format!("{library:?}"),
            TransportKind::Auto | TransportKind::Listed(_) => format!("{kind:?}"),
        };
        assert_eq!(kind.name(), parts.to_lowercase());
        assert_eq!(kind.to_string(), kind.name());
        assert_eq!(kind.name().parse(), Ok(kind));
        assert!(names.insert(kind.name()), "{kind} is there twice");
        let line = kind.description();
        assert!(!line.is_empty() && !line.contains('\n') && !line.ends_with('.'), "{kind}: {line}");
    }
}

#[test]
fn what_needs_nothing_but_the_machine_connects_everywhere() {
    for kind in TransportKind::every() {
        let everywhere = [TransportKind::ALL, TransportKind::SEVERAL].concat().contains(&kind);
        assert_eq!(everywhere, kind.presence().is_none() && !kind.is_simulated(), "{kind}");
        let simulated = matches!(kind, TransportKind::Pair { fabric: Fabric::Sim, .. });
        assert_eq!(TransportKind::SIMULATED.contains(&kind), simulated, "{kind}");
        let of_a_library = matches!(kind, TransportKind::Library(_));
        assert_eq!(TransportKind::LIBRARIES.contains(&kind), of_a_library, "{kind}");
    }
}

#[test]
fn an_endpoint_over_a_transport_is_there_or_a_sentence_says_why_not() {
    let node = Node::new(Bootstrap::alone(), Settings::default());
    for kind in transports_without_launcher() {
        assert!(node.endpoint(kind.name()).is_ok(), "{kind} is here, and there is no endpoint");
    }
    for kind in TransportKind::every() {
        let is_absent = matches!(kind.presence(), Some(Presence::Absent { .. }));
        if is_absent || kind.is_simulated() {
            let why = node.endpoint(kind.name()).map(drop).expect_err("it is not here").to_string();
            assert!(why.contains(kind.name()) && why.lines().count() == 1, "{kind}: {why}");
        }
    }
}
