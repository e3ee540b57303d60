//! What the driver adds to bare socket calls: round trips and one-way streams, interleaved in blocks so that
//! both see the same machine.
//!
//! `cargo bench -p farcall-udp`; two threads on cores 0 and 1. A block's figure is the median of its round
//! trips; the ratio is the median over pairs of neighbouring blocks, which a machine that changes its pace
//! disturbs least.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use farcall_driver::{Datagram, Destination, Packet};
use farcall_udp::{UdpConfig, UdpDriver};

const BLOCKS: usize = 40;
const ROUND_TRIPS_PER_BLOCK: usize = 4_000;
const STREAM_TIME: Duration = Duration::from_millis(300);

fn main() {
    // Without `--bench` this is a test run, which has nothing to measure.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    for bytes in [30, 100, 1_000, 4_000, 10_000, 60_000] {
        compare_round_trips(bytes);
    }
    for (bytes, config) in [
        (100, UdpConfig::default()),
        (100, UdpConfig { segmentation: false, ..UdpConfig::default() }),
        (1_400, UdpConfig::default()),
        (1_400, UdpConfig { segmentation: false, ..UdpConfig::default() }),
        (1_400, UdpConfig { coalescing: Some(true), ..UdpConfig::default() }),
        (1_400, UdpConfig { copy_bytes_max: 0, ..UdpConfig::default() }),
        (4_000, UdpConfig::default()),
        (4_000, UdpConfig { copy_bytes_max: 0, ..UdpConfig::default() }),
        (8_000, UdpConfig::default()),
        (8_000, UdpConfig { copy_bytes_max: 0, ..UdpConfig::default() }),
        (16_000, UdpConfig::default()),
        (32_000, UdpConfig::default()),
        (65_000, UdpConfig::default()),
    ] {
        stream(bytes, &config);
    }
}

fn compare_round_trips(bytes: usize) {
    let (mut bare_nanos, mut driver_nanos) = (Vec::new(), Vec::new());
    for _ in 0..BLOCKS {
        bare_nanos.push(bare_block(bytes));
        driver_nanos.push(driver_block(bytes));
    }
    let mut ratios: Vec<_> =
        bare_nanos.iter().zip(&driver_nanos).map(|(bare, driver)| *driver as f64 / *bare as f64).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    bare_nanos.sort_unstable();
    driver_nanos.sort_unstable();
    let (bare, driver) = (bare_nanos[BLOCKS / 2], driver_nanos[BLOCKS / 2]);
    let (bare_best, driver_best) = (bare_nanos[0], driver_nanos[0]);
    println!(
        "round trip of {bytes} B: bare {bare} ns (best block {bare_best}), driver {driver} ns (best block \
         {driver_best}), ratio {:.3} (quartiles {:.3} and {:.3})",
        ratios[BLOCKS / 2],
        ratios[BLOCKS / 4],
        ratios[BLOCKS * 3 / 4]
    );
}

fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    // Without the second core the figures are bad, but comparable.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

fn bare_block(bytes: usize) -> u64 {
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    for socket in &sockets {
        socket.set_nonblocking(true).expect("a non-blocking socket");
    }
    let to = sockets.each_ref().map(|socket| socket.local_addr().expect("an address"));
    let [near, far] = sockets;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(1);
            let mut buffer = vec![0; 65_536];
            for _ in 0..ROUND_TRIPS_PER_BLOCK {
                let (length, from) = spin(|| far.recv_from(&mut buffer).ok());
                far.send_to(&buffer[..length], from).expect("sent");
            }
        });
        pin(0);
        let mut buffer = vec![0; 65_536];
        median_nanos(|| {
            near.send_to(&buffer[..bytes], to[1]).expect("sent");
            spin(|| near.recv_from(&mut buffer).ok());
        })
    })
}

fn driver_block(bytes: usize) -> u64 {
    let [mut near, mut far] = [(); 2].map(|()| UdpDriver::bind(&UdpConfig::default()).expect("a driver"));
    let to = near.resolve(&far.address()).expect("a destination");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(1);
            let mut packets = Vec::with_capacity(64);
            for _ in 0..ROUND_TRIPS_PER_BLOCK {
                let packet = next(&mut far, &mut packets);
                send(&mut far, packet.source(), &packet);
                far.flush();
                far.release(packet);
            }
        });
        pin(0);
        let payload = vec![0; bytes];
        let mut packets = Vec::with_capacity(64);
        median_nanos(|| {
            send(&mut near, to, &payload);
            near.flush();
            let packet = next(&mut near, &mut packets);
            near.release(packet);
        })
    })
}

/// One packet in two parts, as protocols send them.
fn send(driver: &mut UdpDriver, to: Destination, payload: &[u8]) {
    let (header, rest) = payload.split_at(payload.len().min(18));
    driver.send(to, 0, &[header, rest]).expect("room");
}

fn next(driver: &mut UdpDriver, packets: &mut Vec<Packet>) -> Packet {
    spin(|| {
        driver.receive(packets);
        packets.pop()
    })
}

fn spin<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(result) = attempt() {
            return result;
        }
    }
}

fn median_nanos(mut round_trip: impl FnMut()) -> u64 {
    let mut nanos: Vec<u64> = (0..ROUND_TRIPS_PER_BLOCK)
        .map(|_| {
            let start = Instant::now();
            round_trip();
            start.elapsed().as_nanos() as u64
        })
        .collect();
    nanos.sort_unstable();
    nanos[nanos.len() / 2]
}

/// Sends as fast as the driver takes packets, and reports what arrives.
fn stream(bytes: usize, config: &UdpConfig) {
    let [mut near, mut far] = [(); 2].map(|()| UdpDriver::bind(config).expect("a driver"));
    let to = near.resolve(&far.address()).expect("a destination");
    let stop = AtomicBool::new(false);
    let (sent, received) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            pin(1);
            let (mut packets, mut received) = (Vec::with_capacity(64), 0_u64);
            while !stop.load(Ordering::Relaxed) {
                received += far.receive(&mut packets) as u64;
                packets.drain(..).for_each(|packet| far.release(packet));
            }
            received
        });
        pin(0);
        let payload = vec![0; bytes];
        let (start, mut sent) = (Instant::now(), 0_u64);
        while start.elapsed() < STREAM_TIME {
            for _ in 0..32 {
                send(&mut near, to, &payload);
            }
            near.flush();
            sent += 32;
        }
        stop.store(true, Ordering::Relaxed);
        (sent, receiver.join().expect("the receiver"))
    });
    let seconds = STREAM_TIME.as_secs_f64();
    println!(
        "stream of {bytes} B (segmentation {}, coalescing {:?}, copied up to {}): sent {:.2} M/s, received {:.2} M/s, \
         {:.2} GB/s",
        config.segmentation,
        config.coalescing,
        config.copy_bytes_max,
        sent as f64 / seconds / 1e6,
        received as f64 / seconds / 1e6,
        (received * bytes as u64) as f64 / seconds / 1e9
    );
}
