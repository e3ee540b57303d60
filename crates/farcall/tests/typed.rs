//! Services over types: values there, values and typed errors back, and words for sides that do not agree.

mod common;

use common::{LONG, Pair, settings};
use farcall::typed::{MALFORMED, TypedError, TypedService};
use farcall::{CallError, Client, Reason, Service, TransportKind};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    article: String,
    pieces: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum NoOrder {
    Unknown,
    SoldOut { left: u16 },
}

/// The service as both sides should have it.
struct Orders;

impl TypedService for Orders {
    const SERVICE: Service = Service(10);
    type Request = Order;
    type Reply = (u64, Vec<Order>);
    type Error = NoOrder;
}

/// The same number with a request that the server cannot read.
struct OtherRequest;

impl TypedService for OtherRequest {
    const SERVICE: Service = Orders::SERVICE;
    type Request = u8;
    type Reply = (u64, Vec<Order>);
    type Error = NoOrder;
}

/// The same number with a reply that is longer than what the server sends.
struct OtherReply;

impl TypedService for OtherReply {
    const SERVICE: Service = Orders::SERVICE;
    type Request = Order;
    type Reply = [u64; 32];
    type Error = NoOrder;
}

fn take(order: Order) -> Result<(u64, Vec<Order>), NoOrder> {
    match order.pieces {
        0 => Err(NoOrder::Unknown),
        pieces if pieces > 100 => Err(NoOrder::SoldOut { left: 100 }),
        pieces => Ok((u64::MAX - u64::from(pieces), vec![order; 2])),
    }
}

fn pair(is_blocking: bool) -> Pair {
    Pair::new(TransportKind::RING_SHM, settings(&["endpoint.idle=block"]), move |server| {
        if is_blocking {
            server.serve_typed_blocking::<Orders>(2, take).expect("threads");
        } else {
            server.serve_typed::<Orders>(take);
        }
    })
}

fn order(pieces: u16) -> Order {
    Order { article: "nails".into(), pieces }
}

#[test]
fn values_and_errors_of_the_handler_arrive() {
    for is_blocking in [false, true] {
        let Pair { client, server, .. } = &pair(is_blocking);
        let call = |pieces| client.call_typed::<Orders>(*server, &order(pieces), LONG);
        assert_eq!(call(7), Ok((u64::MAX - 7, vec![order(7); 2])));
        assert_eq!(call(0), Err(TypedError::Handler(NoOrder::Unknown)));
        assert_eq!(call(101), Err(TypedError::Handler(NoOrder::SoldOut { left: 100 })));
    }
}

#[test]
fn sides_with_other_types_are_told() {
    for is_blocking in [false, true] {
        let Pair { client, server, .. } = &pair(is_blocking);
        let error = client.call_typed::<OtherRequest>(*server, &200, LONG).expect_err("it is no order");
        assert_eq!(error, TypedError::RequestMalformed);
        let error = client.call_typed::<OtherReply>(*server, &order(1), LONG).expect_err("it is too short");
        assert!(matches!(error, TypedError::ReplyMalformed { .. }), "{error}");
        let raw = client.call(*server, Orders::SERVICE, &[0xff; 3]).within(LONG).wait();
        assert_eq!(
            raw.expect_err("it is no order"),
            CallError::Refused { code: MALFORMED, why: Reason::default() }
        );
    }
}

#[test]
fn clients_make_typed_calls_too() {
    let settings = settings(&["endpoint.idle=block"]);
    let pair = Pair::new(TransportKind::BASIC_UDP, settings.clone(), |server| {
        server.serve_typed::<Orders>(take);
    });
    let endpoint = pair.node.endpoint_with(TransportKind::BASIC_UDP, &settings).expect("an endpoint");
    let server = endpoint.peer(0).expect("it is known");
    let client = Client::start(endpoint).expect("a thread");
    let call = |pieces| client.call_typed::<Orders>(server, &order(pieces)).expect("it has an encoding");
    assert_eq!(call(7).within(LONG).wait(), Ok((u64::MAX - 7, vec![order(7); 2])));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let refused = runtime.block_on(call(0).within(LONG).send());
    assert_eq!(refused, Err(TypedError::Handler(NoOrder::Unknown)));
}
