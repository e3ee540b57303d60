//! What a packet through shared memory costs: in one thread, which is the code alone, and between two threads, there
//! and back, which adds the transfer of its cache line. Medians of batches, in nanoseconds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use farcall_driver::{Datagram, Destination, Packet};
use farcall_shm::{ShmDatagram, ShmDatagramConfig};

/// Operations between two looks at the clock.
const BATCH: u32 = 1000;
/// Batches of each figure.
const BATCHES: usize = 201;

fn main() {
    let config = ShmDatagramConfig { may_sleep: false, ..ShmDatagramConfig::default() };
    let [mut near, mut far] = [(); 2].map(|()| ShmDatagram::new(config.clone()).expect("shared memory"));
    let to = near.resolve(&far.address()).expect("an address of this kind");
    let mut packets = Vec::with_capacity(64);
    for bytes in [30, 100, 1000, 4096] {
        let payload = vec![7; bytes];
        let one = median(|| pass(&mut near, &mut far, to, &payload, &mut packets));
        println!("one thread, {bytes} B: {one:.1} ns a packet sent, received and released");
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| echo(&mut far, &stop));
        for bytes in [30, 100, 1000] {
            let payload = vec![7; bytes];
            let round_trip = median(|| call(&mut near, to, &payload, &mut packets));
            println!("two threads, {bytes} B: {round_trip:.1} ns there and back");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

fn median(mut operation: impl FnMut()) -> f64 {
    let mut batches: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            (0..BATCH).for_each(|_| operation());
            start.elapsed().as_nanos() as f64 / f64::from(BATCH)
        })
        .collect();
    batches.sort_by(f64::total_cmp);
    batches[BATCHES / 2]
}

fn pass(
    near: &mut ShmDatagram,
    far: &mut ShmDatagram,
    to: Destination,
    bytes: &[u8],
    packets: &mut Vec<Packet>,
) {
    near.send(to, 0, &[bytes]).expect("room");
    near.flush();
    take(far, packets);
}

fn call(near: &mut ShmDatagram, to: Destination, bytes: &[u8], packets: &mut Vec<Packet>) {
    near.send(to, 0, &[bytes]).expect("room");
    near.flush();
    take(near, packets);
}

fn take(driver: &mut ShmDatagram, packets: &mut Vec<Packet>) {
    while driver.receive(packets) == 0 {
        core::hint::spin_loop();
    }
    packets.drain(..).for_each(|packet| driver.release(packet));
}

fn echo(driver: &mut ShmDatagram, stop: &AtomicBool) {
    let mut packets = Vec::with_capacity(64);
    while !stop.load(Ordering::Relaxed) {
        driver.receive(&mut packets);
        for packet in packets.drain(..) {
            driver.send(packet.source(), 0, &[&packet]).expect("room");
            driver.release(packet);
        }
        driver.flush();
    }
}
