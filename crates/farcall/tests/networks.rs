//! What networks do to sessions: loss, paths that carry less than they seem to, links that go down and come
//! up again, addresses that change. Over real sockets, between network namespaces.

mod common;

use common::network::{Network, Process, has_played_role};

const OVER: [&str; 4] = ["basic+udp", "homa+udp", "tcp", "auto"];

/// Calls of all kinds of lengths, each of which is answered.
fn converse(client: &mut Process) {
    for (bytes, answer) in [(30, 30), (1400, 30), (30, 1400), (100_000, 30), (30, 100_000), (9000, 9000)] {
        client.calls(bytes, answer);
    }
}

#[test]
fn packets_that_are_lost_cost_nothing_but_time() {
    const TEST: &str = "packets_that_are_lost_cost_nothing_but_time";
    if has_played_role() {
        return;
    }
    for transport in OVER {
        let Some(network) = Network::new(1500) else { return };
        let (_server, mut client) = network.pair(TEST, transport);
        network.run("r", "iptables -A FORWARD -m statistic --mode random --probability 0.05 -j DROP");
        for _ in 0..3 {
            converse(&mut client);
        }
    }
}

#[test]
fn a_path_that_drops_long_packets_works_with_shorter_ones_and_says_so() {
    const TEST: &str = "a_path_that_drops_long_packets_works_with_shorter_ones_and_says_so";
    if has_played_role() {
        return;
    }
    for (mtu_bytes, passes) in [(1500, 1400), (9000, 3000)] {
        for transport in OVER {
            let Some(network) = Network::new(mtu_bytes) else { return };
            let (mut server, mut client) = network.pair(TEST, transport);
            if transport == "tcp" || transport == "auto" {
                // The kernel's own search, which is off unless an administrator turns it on.
                for host in ["s", "c"] {
                    network.run(host, "sysctl -qw net.ipv4.tcp_mtu_probing=1");
                }
            }
            network.run("r", &format!("iptables -A FORWARD -m length --length {}: -j DROP", passes + 1));
            converse(&mut client);
            if transport.ends_with("udp") {
                for side in [&mut server, &mut client] {
                    assert!(side.counts("paths_shortened") > 0, "over {transport}, {mtu_bytes} bytes");
                    let longest = side.counts("path_bytes");
                    assert!((1..=passes - 28).contains(&longest), "over {transport}: {longest} bytes");
                }
            }
        }
    }
}

#[test]
fn a_link_whose_mtu_is_lowered_is_noticed() {
    const TEST: &str = "a_link_whose_mtu_is_lowered_is_noticed";
    if has_played_role() {
        return;
    }
    for transport in OVER {
        let Some(network) = Network::new(9000) else { return };
        let (_server, mut client) = network.pair(TEST, transport);
        converse(&mut client);
        for (host, other, mtu_bytes) in [("r", "s", 1500), ("r", "c", 1400)] {
            network.run(host, &format!("ip link set {other} mtu {mtu_bytes}"));
            network.run(other, &format!("ip link set {host} mtu {mtu_bytes}"));
            converse(&mut client);
        }
    }
}

#[test]
fn a_link_that_goes_down_and_comes_up_again_ends_nothing_but_what_waited_too_long() {
    const TEST: &str = "a_link_that_goes_down_and_comes_up_again_ends_nothing_but_what_waited_too_long";
    if has_played_role() {
        return;
    }
    for transport in OVER {
        let Some(network) = Network::new(1500) else { return };
        let (_server, mut client) = network.pair(TEST, transport);
        // For the moment that it takes, and for longer than a silent peer is believed in.
        for attempts in [0, 1] {
            network.run("r", "ip link set s down");
            client.tell("call 30 30");
            for _ in 0..attempts {
                let outcome = client.outcome();
                assert_ne!(outcome, "answered", "over {transport}, without a link");
                client.tell("call 30 30");
            }
            network.run("r", "ip link set s up");
            let waited = client.outcome();
            let failures = client.calls_until_answered(100_000, 100_000);
            println!("over {transport}: `{waited}`, then {failures} calls that failed");
        }
    }
}

#[test]
fn a_client_behind_an_address_translation_goes_on_when_its_port_changes() {
    const TEST: &str = "a_client_behind_an_address_translation_goes_on_when_its_port_changes";
    if has_played_role() {
        return;
    }
    for transport in OVER {
        let Some(network) = Network::new(1500) else { return };
        let translate = |verb: &str, ports: &str| {
            network.run(
                "r",
                &format!("iptables -t nat {verb} POSTROUTING -o s -p udp -j MASQUERADE --to-ports {ports}"),
            );
        };
        network.run("r", "iptables -t nat -A POSTROUTING -o s -p tcp -j MASQUERADE");
        let mut ports = ["20000-20999", "30000-30999"];
        translate("-A", ports[0]);
        let (mut server, mut client) = network.pair(TEST, transport);
        converse(&mut client);
        let mut change = |client: &mut Process| {
            translate("-D", ports[0]);
            ports.reverse();
            translate("-A", ports[0]);
            // With the link the router forgets what it has translated so far.
            network.run("r", "ip link set s down");
            network.run("r", "ip link set s up");
            client.calls_until_answered(100_000, 100_000);
        };
        if transport.ends_with("udp") {
            // The very session goes on, unless the machine had no time for either side, which then was silent
            // for too long.
            let goes_on = (0..5).any(|_| {
                change(&mut client);
                converse(&mut client);
                server.counts("moved") > 0
            });
            assert!(goes_on, "over {transport}");
        } else {
            change(&mut client);
        }
    }
}
