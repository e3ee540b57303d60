//! The table of all parameters: the one place to add one, in one line.

use core::net::IpAddr;
use core::time::Duration;

use crate::bootstrap::{LEASE_MAX, LEASE_MIN};

use super::choice::choice;
use super::declare::parameters;
use super::domain::Domain;
use super::name::{Name, Text};
use super::quantity::{G, K, M};
use super::sizes::Sizes;

choice! {
    /// What an endpoint does while there is nothing to do.
    Idle {
        Spin = "spin", "Polls without a pause: the least latency, and a core of its own.";
        Yield = "yield", "Polls, and lets other threads run in between.";
        Block = "block", "Polls for a while, then sleeps until a peer wakes it.";
    }
}

choice! {
    /// Who connects the queue pairs of `ring+verbs`.
    ConnectBy {
        Auto = "auto", "rdma_cm where the device cannot do without it (iWARP, or no address of RoCE), else the handshake.";
        Bootstrap = "bootstrap", "The handshake of the two endpoints, in which they tell each other their queue pairs.";
        Cm = "cm", "rdma_cm, by IP address.";
    }
}

choice! {
    /// How many threads of a process use MPI.
    MpiThreads {
        Multiple = "multiple", "Any number, each with endpoints of its own.";
        Single = "single", "One, with one endpoint at a time; MPI may be started without MPI_THREAD_MULTIPLE.";
    }
}

choice! {
    /// Whose shared memory is read in place, and whose is copied before it is looked at.
    ShmTrust {
        SameUser = "same-user", "Memory of the same user's processes is read in place, that of others copied.";
        All = "all", "All is read in place.";
        None = "none", "All is copied.";
    }
}

choice! {
    /// What a process says on standard error beside its results.
    LogLevel {
        Off = "off", "Nothing.";
        Errors = "errors", "What does not work any more.";
        Warnings = "warnings", "That, and what is not as it should be.";
        All = "all", "That, and what somebody may wait for.";
    }
}

const MICROSECOND: Duration = Duration::from_micros(1);
const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

parameters! {
    "The `ring` transport: batches through a byte ring in the peer's memory."
    ring: RingSettings {
        ring_bytes: Option<usize> = "auto", Domain::power_of_two(4 * K, 64 * M).or_auto(), Endpoint, "Bytes in the ring that each peer writes into, taken when it connects; of more than 256K only streams use the rest. auto takes 4M of shared memory, more than a core's own caches hold, and 256K where all of it is pinned for a card.";
        inline_bytes: Option<usize> = "auto", Domain::size(0, 64 * K).or_auto(), Endpoint, "Longest payload that is copied through the ring, of calls 8191 at most; longer ones are lent as blocks. auto takes 8184, and 16K where peers read lent blocks in place.";
        batch_bytes: usize = "512", Domain::size(64, M), Endpoint, "Most bytes put into the first record of a turn, unless one message needs more. Each that is filled doubles it for the next, up to 16K, of requests up to half of those in flight.";
        calls_max: usize = "4096", Domain::integer(1, 65535, "calls"), Session, "Most unanswered calls of one session, each way.";
        message_bytes_max: usize = "8M", Domain::size(1, G), Session, "Longest request or response.";
        rest_interval: Duration = "1s", Domain::duration(MICROSECOND, HOUR), Endpoint, "How often an endpoint that finds nothing to do looks which of its sessions carry little. They go through the first 16K of a ring again, and give the memory of the rest back.";
    }
    "The `shm` driver: memory shared by the processes of one machine."
    shm: ShmSettings {
        block_bytes: usize = "64M", Domain::size(64 * K, 16 * G), Endpoint, "Memory from which one endpoint lends large payloads to its peers.";
        directory: Option<Text> = "auto", Domain::path().or_auto(), Endpoint, "Folder of the sockets at which processes meet; shared between containers it connects them, whatever namespaces they have. At most 64 bytes; made for this user alone if it is not there. auto takes farcall in $XDG_RUNTIME_DIR or /run/user/UID, where there is one, beside names of the network namespace.";
        allow: Text = "same-user", Domain::allow(), Endpoint, "The processes that may share memory with this one: same-user, group:G and users:A,B (those too), or any that reach the socket. Both sides apply their own.";
        trust: ShmTrust = "same-user", Domain::choice::<ShmTrust>(), Endpoint, "Whose memory is read in place. What others write is copied before it is looked at, and each of them reads a block memory of its own instead of the one for all.";
        process_bytes_max: usize = "32G", Domain::size(M, 1024 * G), Endpoint, "Most memory of one process's endpoints that is mapped here; each takes its ring and its block memory.";
        mapped_bytes_max: usize = "512G", Domain::size(M, 64 * 1024 * G), Endpoint, "The same for all processes together.";
        nontemporal: Option<bool> = "auto", Domain::boolean().or_auto(), Endpoint, "Whether long payloads, and many short messages at a time, are copied into shared memory by non-temporal stores: payloads are faster so where the peer's core is far and slower where it is near, messages on some processors; auto tries both now and then, for each peer.";
    }
    "The `basic` transport: unscheduled bytes first, grants for the rest."
    basic: BasicSettings {
        rtt_bytes: usize = "16K", Domain::size(K, 16 * M), Session, "Bytes sent before the first grant, and the least that is granted ahead.";
        window_bytes: usize = "16M", Domain::size(K, G), Endpoint, "Most bytes of one peer that are granted ahead of their arrival: as far as this, rate and round trip are measured and decide. No more than rtt_bytes measures nothing.";
        resend_interval: Duration = "2ms", Domain::duration(Duration::from_micros(100), Duration::from_secs(10)), Endpoint, "Silence after which missing bytes are asked for again.";
        calls_max: usize = "4096", Domain::integer(1, 65535, "calls"), Session, "Most unanswered calls of one session, each way.";
        message_bytes_max: usize = "8M", Domain::size(1, G), Session, "Longest request or response.";
        checksum: Option<bool> = "auto", Domain::boolean().or_auto(), Session, "Whether packets carry a checksum of their own; auto takes one unless the network checks packets itself, as RDMA does.";
    }
    "The `homa` transport: grants to the shortest messages first, by priorities."
    homa: HomaSettings {
        rtt_bytes: usize = "16K", Domain::size(K, 16 * M), Session, "Bytes sent before the first grant, and the least that is granted ahead.";
        window_bytes: usize = "16M", Domain::size(K, G), Endpoint, "Most bytes of one peer that are granted ahead of their arrival: as far as this, rate and round trip are measured and decide. No more than rtt_bytes measures nothing.";
        grant_bytes: Option<usize> = "auto", Domain::size(K, 16 * M).or_auto(), Endpoint, "Least bytes in a grant, unless fewer are left; auto takes two packets or a quarter of rtt_bytes, whichever is more.";
        overcommit: u16 = "8", Domain::integer(1, 64, "messages"), Endpoint, "Most messages, each of another sender, that are granted bytes at a time.";
        priorities: Option<u8> = "auto", Domain::integer(1, 8, "priorities").or_auto(), Endpoint, "Priorities to use; auto takes all that the driver has.";
        unscheduled_priorities: Option<u8> = "auto", Domain::integer(1, 7, "priorities").or_auto(), Endpoint, "Priorities for bytes that need no grant; auto learns from the traffic.";
        cutoffs: Option<Sizes> = "auto", Domain::sizes(1, G as u32, 7).or_auto(), Endpoint, "Lengths of messages that part those priorities; auto learns from the traffic.";
        fifo_permille: u16 = "50", Domain::integer(0, 1000, "of 1000 bytes"), Endpoint, "Share of grants, and of bytes sent, for the oldest message instead of the shortest.";
        link_gbps: Option<u32> = "auto", Domain::integer(1, 1600, "Gb/s").or_auto(), Endpoint, "Rate of the link, by which packets are paced; auto knows that of simulated fabrics, and does not pace on others.";
        backlog: Option<Duration> = "auto", Domain::duration(Duration::ZERO, MILLISECOND).or_auto(), Endpoint, "Most time that the link may take for packets already given to it, when it is paced; auto takes that of two full packets.";
        resend_interval: Duration = "2ms", Domain::duration(Duration::from_micros(100), Duration::from_secs(10)), Endpoint, "Silence after which missing bytes are asked for again.";
        calls_max: usize = "4096", Domain::integer(1, 65535, "calls"), Session, "Most unanswered calls of one session, each way.";
        message_bytes_max: usize = "8M", Domain::size(1, G), Session, "Longest request or response.";
        checksum: Option<bool> = "auto", Domain::boolean().or_auto(), Session, "Whether packets carry a checksum of their own; auto takes one unless the network checks packets itself, as RDMA does.";
    }
    "What peers may cost an endpoint of `basic` or `homa`."
    peers: PeersSettings {
        sessions_max: u16 = "4096", Domain::integer(1, 32768, "sessions"), Endpoint, "Most sessions at a time; openers beyond go on trying until one ends or their time is over.";
        sessions_per_host: u16 = "1024", Domain::integer(1, 32768, "sessions"), Endpoint, "Most of them that one host opened: an IPv4 address, or an IPv6 network of 64 bits.";
        half_open_max: u16 = "1024", Domain::integer(1, 16384, "sessions"), Endpoint, "Most sessions that others have asked for and not confirmed; beyond, the oldest makes room.";
        half_open_per_host: u16 = "256", Domain::integer(1, 16384, "sessions"), Endpoint, "Most of those that one host asked for; beyond, it gets no answer.";
        cookies_from: u16 = "64", Domain::integer(0, 16384, "sessions"), Endpoint, "With this many of those an opener has to prove its address first, which takes a round trip more.";
        session_bytes: usize = "64M", Domain::size(M, 64 * G), Endpoint, "Most bytes that a peer can make the endpoint hold in one session: results, parts of messages, slots, messages that wait; two of the longest messages, or eight times endpoint.unexpected_bytes, if that is more. Its requests have to come again beyond that.";
        bytes: usize = "1G", Domain::size(M, 64 * G), Endpoint, "Most bytes of all sessions together; twice those of one if that is more. Half is for whichever asks first, and each session has an equal share of the rest.";
        keep_time: Duration = "10s", Domain::duration(MILLISECOND, HOUR), Endpoint, "Time that a result waits for its acknowledgement, or a part of a request for the rest, without a word about it from the peer.";
        messages: bool = "true", Domain::boolean(), Endpoint, "Whether tagged messages are taken; where they are not, the session of a peer that sends one ends. For services that only answer calls.";
    }
    "The `udp` driver: packets through the kernel's sockets."
    udp: UdpSettings {
        mtu_bytes: Option<usize> = "auto", Domain::size(576, 65507).or_auto(), Endpoint, "Longest packet; auto takes the most that the interface carries unfragmented.";
        bind_address: Option<IpAddr> = "auto", Domain::ip_address().or_auto(), Endpoint, "Address to receive at; auto takes the one that reaches the other ranks.";
        port: Option<u16> = "auto", Domain::integer(1, 65535, "").or_auto(), Endpoint, "Port of a process's first endpoint; each further one of the same transport takes the next. auto takes any that is free.";
        connect: bool = "true", Domain::boolean(), Endpoint, "Whether a second socket is connected to a peer from which all packets come, so that the kernel need not search the way of each packet to it.";
    }
    "The `tcp` transport: messages over connections of the kernel's TCP."
    tcp: TcpSettings {
        bind_address: Option<IpAddr> = "auto", Domain::ip_address().or_auto(), Endpoint, "Address to listen at; auto takes the one that reaches the other ranks.";
        port: Option<u16> = "auto", Domain::integer(1, 65535, "").or_auto(), Endpoint, "Port of a process's first endpoint; each further one takes the next. auto takes any that is free.";
        calls_max: usize = "4096", Domain::integer(1, 65535, "calls"), Session, "Most unanswered calls of one session, each way.";
        message_bytes_max: usize = "8M", Domain::size(1, G), Session, "Longest request or response.";
        piece_bytes: usize = "64K", Domain::size(4 * K, 8 * M), Endpoint, "Bytes of a long message that leave in one piece; other messages leave between two pieces.";
        queue_bytes: usize = "1G", Domain::size(M, 64 * G), Endpoint, "Most bytes that wait until one peer reads, or two of the longest messages, if that is more. Calls wait from half of it on; a peer that lets more answers pile up loses its connection.";
        sessions_max: u16 = "4096", Domain::integer(1, 32768, "sessions"), Endpoint, "Most sessions at a time; openers beyond are refused.";
        sessions_per_host: u16 = "1024", Domain::integer(1, 32768, "sessions"), Endpoint, "Most of them that one host opened: an IPv4 address, or an IPv6 network of 64 bits.";
        introduction_timeout: Duration = "2s", Domain::duration(MILLISECOND, HOUR), Endpoint, "Time that one who connects has to ask for a session.";
        strangers: u16 = "1024", Domain::integer(1, 32768, "connections"), Endpoint, "Most connections that have not asked for a session yet; beyond, the oldest makes room.";
        strangers_per_host: u16 = "256", Domain::integer(1, 32768, "connections"), Endpoint, "Most of them from one host: an IPv4 address, or an IPv6 network of 64 bits; beyond, its oldest makes room.";
    }
    "TLS for `tcp+tls`: a cluster key, or certificates. Changed files hold for new connections."
    tls: TlsSettings {
        cluster_key: Option<Text> = "auto", Domain::path().or_auto(), Endpoint, "File with the key that all processes of the cluster share: for this transport alone. auto takes that of security.key_file; without it certificates are used.";
        cert: Option<Text> = "auto", Domain::path().or_auto(), Endpoint, "File with the certificate of this process, in PEM, and those between it and the authority.";
        key: Option<Text> = "auto", Domain::path().or_auto(), Endpoint, "File with the private key of that certificate, in PEM, which its owner alone may read.";
        ca: Option<Text> = "auto", Domain::path().or_auto(), Endpoint, "File with the authorities, in PEM, whose certificates are believed.";
        check_address: bool = "true", Domain::boolean(), Endpoint, "Whether the certificate of one that is connected to must name the IP address where it is; false takes any certificate of tls.ca.";
    }
    "Keys for packets of `basic` and `homa`, and for `tcp+tls`; and who may do what."
    security: SecuritySettings {
        key_file: Option<Text> = "auto", Domain::path().or_auto(), Endpoint, "File with the keys that all processes of the cluster share, one a line, which its owner alone may read; farcall key generate makes one. With it nothing is sent or taken that is not sealed, and transports that cannot seal are refused; auto takes none.";
        identity_file: Option<Text> = "auto", Domain::path().or_auto(), Endpoint, "File with the private key of this process, which its owner alone may read; farcall key generate --identity makes one. With it peers over packets are let in only if they prove to have a key that security.peers_file lists, all other transports are refused, and security.key_file is needed, too; auto takes none.";
        peers_file: Option<Text> = "auto", Domain::path().or_auto(), Endpoint, "File with the public keys of the peers, a name and a key a line, which nobody but its owner can write; farcall key show says what to write there. A changed file holds for new sessions. Needed with security.identity_file.";
        policy_file: Option<Text> = "auto", Domain::path().or_auto(), Endpoint, "File with the rules that say who may call, send, read, write and administer what, which nobody but its owner can write; what they do not allow is refused. A changed file holds within a second or two. auto takes none: everything is allowed.";
    }
    "The `verbs` driver: RDMA over InfiniBand or Ethernet."
    verbs: VerbsSettings {
        device: Option<Name> = "auto", Domain::name().or_auto(), Endpoint, "RDMA device to use; auto takes the one that reaches the other ranks.";
        port: Option<u8> = "auto", Domain::integer(1, 255, "").or_auto(), Endpoint, "Port of that device, from 1; auto takes an active one.";
        gid_index: Option<u8> = "auto", Domain::integer(0, 255, "").or_auto(), Endpoint, "Place of the port's address in its table; auto takes the one that reaches the other ranks.";
        connect: ConnectBy = "auto", Domain::choice::<ConnectBy>(), Endpoint, "Who connects the queue pairs of ring+verbs: bootstrap has the two endpoints tell each other their queue pairs, cm has rdma_cm do it by IP address; auto takes cm where the device cannot do without it (iWARP, or no address of RoCE). All endpoints of a cluster need the same.";
        mtu: Option<usize> = "auto", Domain::power_of_two(256, 4096).or_auto(), Endpoint, "Longest packet; auto takes what the link carries.";
        block_bytes: usize = "32M", Domain::power_of_two(64 * K, 16 * G), Endpoint, "Memory from which one endpoint of ring+verbs lends large payloads, and as much again to read those of its peers into; all of it is pinned.";
        peer_ring_bytes: usize = "4M", Domain::power_of_two(4 * K, G), Endpoint, "Longest ring of a peer of ring+verbs, or our own if that is longer: as much is pinned for what leaves to it.";
        pinned_bytes: usize = "8G", Domain::size(M, 1024 * G), Endpoint, "Most bytes that the process may have pinned when a peer of ring+verbs connects; peers beyond are refused.";
        signal_period: u16 = "16", Domain::integer(1, 64, "requests"), Endpoint, "Requests to send of which one is reported by the card when it is done.";
        inline_bytes: usize = "200", Domain::size(0, K), Endpoint, "Longest payload that travels inside its request instead of being fetched by the card; less where the card takes less.";
        huge_pages: bool = "true", Domain::boolean(), Endpoint, "Whether buffers lie in huge pages, as far as the system has some.";
    }
    "The `ucx` transport: messages of UCX, whose own variables (`UCX_TLS` and others) hold too."
    ucx: UcxSettings {
        error_handling: bool = "true", Domain::boolean(), Endpoint, "Whether UCX is to notice and to survive dead peers, for which it does without shared memory.";
        calls_max: usize = "4096", Domain::integer(1, 65535, "calls"), Session, "Most unanswered calls of one session, each way.";
        message_bytes_max: usize = "8M", Domain::size(1, G), Session, "Longest request or response.";
    }
    "The `mpi` transport: messages of MPI, between processes that one launcher started."
    mpi: MpiSettings {
        threads: MpiThreads = "multiple", Domain::choice::<MpiThreads>(), Endpoint, "For how many threads MPI is started: single allows one endpoint of a process at a time, and no other thread that uses MPI; Open MPI takes locks in every call otherwise. All endpoints of a process need the same.";
        calls_max: usize = "4096", Domain::integer(1, 65535, "calls"), Session, "Most unanswered calls of one session, each way.";
        message_bytes_max: usize = "8M", Domain::size(1, G), Session, "Longest request or response.";
    }
    "The `ofi` transport and driver: libfabric, whose own variables (`FI_PROVIDER` and others) hold too."
    ofi: OfiSettings {
        provider: Option<Name> = "auto", Domain::name().or_auto(), Endpoint, "Provider of libfabric, such as tcp or shm; auto takes its first choice among those for networks.";
        mtu_bytes: Option<usize> = "auto", Domain::size(576, 65507).or_auto(), Endpoint, "Longest packet of basic+ofi and homa+ofi; auto takes what the provider carries, or Ethernet where it does not say.";
        eager_bytes: usize = "8K", Domain::size(0, M), Endpoint, "Longest payload of ofi that travels whole; memory for longer ones is set aside when they are announced.";
        inject_bytes: usize = "4K", Domain::size(0, 64 * K), Endpoint, "Longest message or packet that the provider copies at once, so that it needs no completion; less where the provider copies less.";
        tx_depth: u16 = "256", Domain::integer(1, 65535, "messages"), Endpoint, "Most messages that the provider is given to send at a time, others wait; most packets that can be queued.";
        rx_depth: u16 = "256", Domain::integer(1, 65535, "buffers"), Endpoint, "Buffers that wait for messages or packets.";
        calls_max: usize = "4096", Domain::integer(1, 65535, "calls"), Session, "Most unanswered calls of one session of ofi, each way.";
        message_bytes_max: usize = "8M", Domain::size(1, G), Session, "Longest request or response of ofi.";
    }
    "Faults injected into the packets that an endpoint sends, for tests and experiments. Lanes of `ring` lose nothing: of these they have only delays by a time."
    fault: FaultSettings {
        drop_permille: u16 = "0", Domain::integer(0, 1000, "of 1000 packets"), Endpoint, "Packets lost.";
        duplicate_permille: u16 = "0", Domain::integer(0, 1000, "of 1000 packets"), Endpoint, "Packets sent twice.";
        reorder_permille: u16 = "0", Domain::integer(0, 1000, "of 1000 packets"), Endpoint, "Packets overtaken by later ones.";
        delay_permille: u16 = "0", Domain::integer(0, 1000, "of 1000 packets"), Endpoint, "Packets kept back, at most 256 at a time.";
        delay_time: Option<Duration> = "auto", Domain::duration(Duration::from_nanos(1), SECOND).or_auto(), Endpoint, "How long they are kept back; auto draws one to 64 turns of the poll loop for each.";
        corrupt_permille: u16 = "0", Domain::integer(0, 1000, "of 1000 packets"), Endpoint, "Packets with flipped bits.";
        truncate_permille: u16 = "0", Domain::integer(0, 1000, "of 1000 packets"), Endpoint, "Packets that lose their end.";
        seed: u64 = "1", Domain::integer(0, u64::MAX, ""), Endpoint, "Where the draws of the faults begin.";
    }
    "The network of this machine."
    net: NetSettings {
        interface: Option<Name> = "auto", Domain::name().or_auto(), Endpoint, "Interface at whose address endpoints are reached; auto takes the one that leads to the registry.";
        life_port: Option<u16> = "auto", Domain::integer(1, 65535, "").or_auto(), Process, "TCP port at which the process confirms that it is alive while its endpoints are not polled: the first free one of the 64 from it on, since each process of a host needs its own. The first endpoint at an address decides. auto takes any that is free.";
    }
    "Names under which endpoints listen."
    names: NamesSettings {
        lease: Duration = "5s", Domain::duration(LEASE_MIN, LEASE_MAX), Endpoint, "Time after which a registry forgets the names of a process that it has not heard of.";
    }
    "What a process says on standard error."
    log: LogSettings {
        level: LogLevel = "all", Domain::choice::<LogLevel>(), Endpoint, "What is said beside results; of each kind five messages in ten seconds at most, and the number of the others. What the last node that was made says holds for its process.";
    }
    "Endpoints, whatever their transport."
    endpoint: EndpointSettings {
        call_timeout: Duration = "10s", Domain::duration(MICROSECOND, HOUR), Endpoint, "Time after which a call fails unless it was given a deadline of its own.";
        message_timeout: Duration = "3600s", Domain::duration(MICROSECOND, HOUR), Endpoint, "Time after which a send or receive fails unless it was given a deadline of its own.";
        unexpected_bytes: usize = "1M", Domain::size(64 * K, G), Endpoint, "Most bytes of each peer's messages that wait here for a receive; senders wait then. A message counts 64 more.";
        peer_timeout: Duration = "1s", Domain::duration(MILLISECOND, HOUR), Endpoint, "Silence after which a peer counts as dead, if its process is silent too: one that lives and does not poll is late.";
        poll_timeout: Option<Duration> = "auto", Domain::duration(MILLISECOND, HOUR).or_auto(), Endpoint, "Time for which a peer may not poll although its process lives, at least peer_timeout; auto sets no limit: it is late as long as its process lives.";
        idle: Idle = "block", Domain::choice::<Idle>(), Endpoint, "What a waiting endpoint does when there is nothing to do.";
        resolve_timeout: Duration = "10s", Domain::duration(MILLISECOND, HOUR), Endpoint, "Time that a peer may take to make its endpoint known.";
        spin_time: Duration = "20us", Domain::duration(Duration::ZERO, SECOND), Endpoint, "Time without events before a waiting endpoint yields or sleeps, unless its waits are short.";
        spin_time_max: Duration = "200us", Domain::duration(Duration::ZERO, SECOND), Endpoint, "Time for which an endpoint waits awake instead of spin_time, and callers of its client with it, while its last waits were shorter; waits that turn out longer take at most a sixteenth of the time, and other threads of its core run meanwhile; no more than spin_time switches it off.";
    }
}
