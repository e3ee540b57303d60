//! A service and its clients tested against lost packets and crashes, in simulated time: `simulated_service
//! [SEED]`. The same seed gives the same run, so that a seed that breaks a rule is a bug report.
//!
//! Customers order; the shop writes each order into its books, which survive it, and answers. What was
//! ordered is numbered by its customer, so that a customer who got no answer can ask again: the shop knows
//! what is in its books. Take that line away and the rule at the end breaks.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::error::Error;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use farcall::parameters::Settings;
use farcall::simulated::{Action, Cluster, Outcome, PacketFaults, Profile, Program, Tasks};
use farcall::{Endpoint, Instant, Node, Service};

const ORDER: Service = Service(1);
const SHOP: u32 = 0;
const CUSTOMERS: u32 = 3;
const ORDERS: u32 = 100;

/// What survives a crash of the shop: who ordered, and the number of the order, in the order of writing.
#[derive(Default)]
pub struct Books {
    lines: Vec<(u32, u32)>,
    known: BTreeSet<(u32, u32)>,
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    /// How many orders are in the books, each as often as it was written.
    pub written: usize,
    /// How many different ones.
    pub different: usize,
    /// How many calls got no answer and were made again.
    pub repeated: u32,
    /// The simulated time that it took.
    pub lasted: Duration,
}

fn shop(node: &Node, books: &Arc<Mutex<Books>>, forgetful: bool) -> Box<dyn Program> {
    let endpoint = node.endpoint("basic+sim").expect("a simulated host");
    let books = Arc::clone(books);
    endpoint.serve(ORDER, move |request, reply| {
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        let (customer, order) = request.payload().split_at(4);
        let order = (number(customer), number(order));
        let mut books = books.lock().unwrap_or_else(PoisonError::into_inner);
        if books.known.insert(order) || forgetful {
            books.lines.push(order);
        }
        reply.send(b"");
    });
    Box::new(Tasks::new(endpoint, |_| async {}))
}

/// Orders one thing after the other, each until it is answered. Returns how often it had to ask again.
async fn order_all(endpoint: &Endpoint, customer: u32) -> u32 {
    let mut repeated = 0;
    for order in 0..ORDERS {
        let request = [customer.to_le_bytes(), order.to_le_bytes()].concat();
        loop {
            // After a crash this opens a session with the shop that came back.
            let shop = endpoint.peer(SHOP).expect("its endpoint was made before the first turn");
            let call = endpoint.call(shop, ORDER, &request).within(Duration::from_millis(20));
            if call.await.is_ok() {
                break;
            }
            repeated += 1;
        }
    }
    repeated
}

/// Runs the shop with a lost packet in fifty and three crashes; a forgetful one does not look into its books.
pub fn run(seed: u64, forgetful: bool) -> Result<Report, Box<dyn Error>> {
    let books = Arc::new(Mutex::new(Books::default()));
    let (done, repeated) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let settings = Settings::load([])?;
    let mut cluster = Cluster::new(Profile::load("connectx7-ndr")?, CUSTOMERS + 1, seed, settings)?;
    let survivor = Arc::clone(&books);
    cluster.start(SHOP, move |node| shop(&node, &survivor, forgetful));
    for customer in 1..=CUSTOMERS {
        let (done, repeated) = (Rc::clone(&done), Rc::clone(&repeated));
        cluster.start(customer, move |node| {
            let endpoint = node.endpoint("basic+sim").expect("a simulated host");
            let (done, repeated) = (Rc::clone(&done), Rc::clone(&repeated));
            Box::new(Tasks::new(endpoint, move |endpoint| async move {
                let again = order_all(&endpoint, customer).await;
                repeated.set(repeated.get() + again);
                done.set(done.get() + 1);
            }))
        });
    }
    cluster.fabric().act(&Action::Packets(PacketFaults { drop: 0.02, ..PacketFaults::default() }))?;
    for crash in 1..=3 {
        cluster.run_until(Instant::from_nanos(crash * 300_000));
        cluster.fabric().act(&Action::Crash(vec![SHOP]))?;
        cluster.run_until(Instant::from_nanos(crash * 300_000 + 100_000));
        cluster.fabric().act(&Action::Restart(vec![SHOP]))?;
    }
    let outcome = cluster.run_while(|| done.get() < CUSTOMERS);
    if outcome != Outcome::Done {
        return Err(format!("seed {seed}: the customers wait for ever ({outcome:?})").into());
    }
    let books = books.lock().unwrap_or_else(PoisonError::into_inner);
    let lasted = Duration::from_nanos(cluster.fabric().now().0 / 1000);
    Ok(Report { written: books.lines.len(), different: books.known.len(), repeated: repeated.get(), lasted })
}

fn main() -> Result<(), Box<dyn Error>> {
    let seed = std::env::args().nth(1).map_or(Ok(1), |seed| seed.parse())?;
    let report = run(seed, false)?;
    println!("seed {seed}: {report:?}");
    assert_eq!(report.written, (CUSTOMERS * ORDERS) as usize, "each order is in the books once");
    Ok(())
}
