//! The context of a trace goes with calls of gRPC, from scope to scope, in the metadata that is there anyway.

mod common;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::helloworld::greeter_client::GreeterClient;
use common::helloworld::greeter_server::{Greeter, GreeterServer};
use common::helloworld::{HelloReply, HelloRequest};
use common::{over_each, serve};
use farcall::spans::{Keep, Resource, SpanRecorder, TraceContext};
use tonic::{Request, Response, Status};

const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// Says in which scope it runs, which it must also find in the extensions; first it may wait.
struct Scope;

#[tonic::async_trait]
impl Greeter for Scope {
    async fn say_hello(&self, request: Request<HelloRequest>) -> Result<Response<HelloReply>, Status> {
        let given = request.extensions().get::<TraceContext>().cloned();
        let headers = ["traceparent", "tracestate"].map(|name| request.metadata().contains_key(name));
        match request.into_inner().name.as_str() {
            "later" => tokio::task::yield_now().await,
            "nobody" => return Err(Status::not_found("there is nobody")),
            _ => {}
        }
        let scope = TraceContext::current();
        if scope != given {
            return Err(Status::internal("scope and extension differ"));
        }
        let text = |context: TraceContext| {
            format!("{} {}", context.traceparent(), context.state().unwrap_or_default())
        };
        Ok(Response::new(HelloReply { message: format!("{:?} {headers:?}", scope.map(text)) }))
    }
}

fn hello(name: &str) -> Request<HelloRequest> {
    Request::new(HelloRequest { name: name.into() })
}

fn given() -> TraceContext {
    TraceContext::from_headers(GIVEN.as_bytes(), Some(b"rojo=1")).expect("a header")
}

/// One test at a time: a process has one recorder.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_scope_reaches_the_handler_and_own_or_malformed_metadata_is_respected_or_dropped() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    over_each(|transport| async move {
        let pair = serve(transport, GreeterServer::new(Scope));
        let mut client = GreeterClient::new(pair.channel.clone());
        let mut ask = async |request| client.say_hello(request).await.expect("a reply").into_inner().message;
        assert_eq!(ask(hello("now")).await, "None [false, false]");
        for name in ["now", "later"] {
            let said = TraceContext::scope(Some(given()), ask(hello(name))).await;
            assert_eq!(said, format!("Some(\"{GIVEN} rojo=1\") [true, true]"), "{transport}");
        }
        let with = |parents: &[&'static str], state: &'static str| {
            let mut request = hello("now");
            for parent in parents {
                request.metadata_mut().append("traceparent", parent.parse().expect("metadata"));
            }
            request.metadata_mut().insert("tracestate", state.parse().expect("metadata"));
            request
        };
        let own = TraceContext::scope(Some(given()), ask(with(&[OTHER], "a=b"))).await;
        assert_eq!(own, format!("Some(\"{OTHER} a=b\") [true, true]"), "the program's own stays");
        assert_eq!(ask(with(&[OTHER], "a=b=c")).await, format!("Some(\"{OTHER} \") [true, false]"));
        assert_eq!(ask(with(&["00-no-header-01"], "a=b")).await, "None [false, false]");
        assert_eq!(ask(with(&[OTHER, GIVEN], "a=b")).await, "None [false, false]", "two say nothing");
    });
}

/// What a recorder has written.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn both_ends_are_spans_with_the_name_of_the_method_and_the_status() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    over_each(|transport| async move {
        let written = Written::default();
        let keep = Keep { slowest: 9, window: Duration::from_secs(3600) };
        let recorder = SpanRecorder::start(Resource::process("greeter"), keep, written.clone()).expect("one");
        let pair = serve(transport, GreeterServer::new(Scope));
        let mut client = GreeterClient::new(pair.channel.clone());
        client.say_hello(hello("later")).await.expect("a reply");
        client.say_hello(hello("nobody")).await.expect_err("there is nobody");
        drop(recorder);
        let text = String::from_utf8(written.0.lock().expect("nobody panics").clone()).expect("text");
        let count = |what: &str| text.matches(what).count();
        assert_eq!(count("\"name\":\"/helloworld.Greeter/SayHello\""), 4, "{transport}: {text}");
        assert_eq!((count("\"kind\":3"), count("\"kind\":2"), count("parentSpanId")), (2, 2, 2));
        // The caller's channel sees a response; that it is a failure stands in its headers.
        assert_eq!(count("Some requested entity was not found"), 1, "{text}");
    });
}
