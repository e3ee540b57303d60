//! What packet transports count for other processes to see.

use farcall_driver::probes;
use farcall_protocol::calls::{Calls, Policy};

use super::mailbox::Mailbox;

farcall_driver::declare_counters! {
    /// What happened to the packets and calls of one transport.
    pub struct PacketCounters {
        calls_made: "calls" => "Calls made here: each tagged message is one, too",
        messages_sent: "messages" => "Tagged messages that left",
        beyond_window: "messages" => "Tagged messages that left past a full window, because a receive waited for them",
        retransmissions: "packets" => "Packets with bytes that were sent before",
        silences: "messages" => "Messages that waited in silence until they were asked for",
        silence_time: "ns" => "How long they waited, all together",
        resends_sent: "packets" => "Asked for bytes once more",
        restarts_sent: "packets" => "Asked for requests from the start",
        busy_sent: "packets" => "Said to be alive but not there yet",
        grants_sent: "packets" => "Permitted bytes of long messages",
        acknowledges_sent: "packets" => "Acknowledged results by packets of their own",
        acknowledges_asked: "packets" => "Asked whether callers are done with results",
        cutoffs_sent: "packets" => "Told peers which priorities messages should have",
        stale: "packets" => "Came twice, or too late to matter",
        malformed: "packets" => "Dropped: no correct peer sends them",
        checksum_errors: "packets" => "Dropped: altered on their way",
        unknown_sessions: "packets" => "Dropped: of sessions that are over",
        resets_sent: "packets" => "Answered packets of sessions that are over",
        pings_sent: "packets" => "Asked for signs of life",
        lives_asked: "questions" => "Asked whether the process of a silent peer lives",
        lives_found: "answers" => "Found that the process of a silent peer lives: the peer is late",
        assembly_full: "packets" => "Long messages that had to wait: their peer makes us hold too much",
        requests_refused: "packets" => "Requests that had to come again: their peer makes us hold too much",
        requests_abandoned: "requests" => "Dropped: their peer did not send the rest",
        results_abandoned: "results" => "Dropped: their peer neither acknowledged nor asked for them",
        held_bytes: "bytes" => "Held for peers now: results, parts of messages, slots, messages that wait",
        orphaned_bytes: "bytes" => "Held now of messages whose sessions are over",
        established: "sessions" => "Opening from here, or up, now",
        half_open: "sessions" => "Asked for by others and not confirmed now",
        half_open_replaced: "sessions" => "Made room for younger ones before they were confirmed",
        refused_full: "sessions" => "Refused for want of room",
        refused_host: "sessions" => "Refused because their host has as many as one may have",
        refused_key: "sessions" => "Refused because their opener has no cluster key, or another one",
        refused_identity: "sessions" => "Refused or given up because the peer does not prove who it is, is not known, or is not the one looked for",
        openings_dropped: "packets" => "OPENs of members of the cluster that were not read: their host has many half-open sessions, or many that could not be read",
        forged: "packets" => "Dropped: not sealed with the keys of their session, or without a code of the cluster",
        replayed: "packets" => "Dropped: came before, or too late to tell",
        handshakes_resent: "packets" => "OPENs and confirmations sent again",
        queue_full: "packets" => "Of sessions, that found the queue full and wait for a timer",
        retries_sent: "packets" => "Asked openers to prove their addresses",
        from_elsewhere: "packets" => "Dropped: not from where their session is",
        moved: "sessions" => "Went on at another address of the peer",
        path_probes: "packets" => "Asked whether packets of a length arrive, because long ones had to be sent again",
        paths_shortened: "times" => "Found that a path drops long packets, and carries shorter ones",
        path_bytes: "bytes" => "The longest packet that passes on the worst path of those now; 0 where all carry all",
        parts_sent: "packets" => "Parts of packets that are too long for their path",
        parts_received: "packets" => "Parts that came of such packets",
    }
}

impl PacketCounters {
    /// Brings the counters up to date with the protocol's own.
    #[inline(never)]
    pub(super) fn follow<B: AsRef<[u8]>, P: Policy>(&self, calls: &Calls<B, P>, mail: &Mailbox) {
        let (messages, sessions) = (calls.counters(), calls.sessions().counters());
        self.calls_made.set(messages.calls);
        self.messages_sent.set(mail.sent);
        self.beyond_window.set(mail.sent_beyond);
        if probes::ARE_BUILT && messages.retransmissions > self.retransmissions.get() {
            probes::retransmission(messages.retransmissions - self.retransmissions.get());
        }
        self.retransmissions.set(messages.retransmissions);
        self.silences.set(messages.silences);
        self.silence_time.set(messages.silence_nanos);
        self.resends_sent.set(messages.resends_sent);
        self.restarts_sent.set(messages.restarts_sent);
        self.busy_sent.set(messages.busy_sent);
        self.grants_sent.set(messages.grants_sent);
        self.acknowledges_sent.set(messages.acknowledges_sent);
        self.acknowledges_asked.set(messages.acknowledges_asked);
        self.cutoffs_sent.set(messages.cutoffs_sent);
        self.stale.set(messages.stale);
        self.malformed.set(messages.malformed + sessions.malformed);
        self.checksum_errors.set(sessions.checksum_errors);
        self.unknown_sessions.set(sessions.unknown_sessions);
        self.resets_sent.set(sessions.resets_sent);
        self.pings_sent.set(sessions.pings_sent);
        self.lives_asked.set(sessions.lives_asked);
        self.lives_found.set(sessions.lives_found);
        self.assembly_full.set(messages.assembly_full);
        self.requests_refused.set(messages.requests_refused);
        self.requests_abandoned.set(messages.requests_abandoned);
        self.results_abandoned.set(messages.results_abandoned);
        self.held_bytes.set(calls.held_bytes() as u64);
        self.orphaned_bytes.set(mail.orphaned_bytes as u64);
        self.established.set(calls.sessions().established() as u64);
        self.half_open.set(calls.sessions().half_open() as u64);
        self.half_open_replaced.set(sessions.half_open_replaced);
        self.refused_full.set(sessions.refused_full);
        self.refused_host.set(sessions.refused_host);
        self.refused_key.set(sessions.refused_key);
        self.refused_identity.set(sessions.refused_identity);
        self.openings_dropped.set(sessions.openings_dropped);
        self.forged.set(sessions.forged);
        self.replayed.set(sessions.replayed);
        self.handshakes_resent.set(sessions.handshakes_resent);
        self.queue_full.set(sessions.queue_full);
        self.retries_sent.set(sessions.retries_sent);
        self.from_elsewhere.set(sessions.from_elsewhere);
        self.moved.set(sessions.moved);
        self.path_probes.set(sessions.path_probes);
        self.paths_shortened.set(sessions.paths_shortened);
        if sessions.paths_shortened > 0 {
            self.path_bytes.set(u64::from(calls.sessions().shortest_path_bytes()));
        }
        self.parts_sent.set(sessions.parts_sent);
        self.parts_received.set(sessions.parts_received);
    }
}
