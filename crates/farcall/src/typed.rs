//! Services over types of serde: a request and a reply that are values, and errors that the handler defines.
//!
//! Values are encoded by [postcard](https://docs.rs/postcard), whose
//! [format](https://postcard.jamesmunns.com/wire-format) is written down and stable: integers take as many
//! bytes as they need, and nothing describes the types, so that both sides must have the same ones. An answer
//! is the `Result` of the handler. What comes from a peer is decoded within bounds: a value is at most
//! [`DEPTH_MAX`] levels deep, takes all bytes of its message, and has no more parts than those can be worth.
//! How much memory a part takes is up to its type. For other formats and for plain memory use the calls that
//! take bytes.

mod decode;
mod traced;

use core::any::type_name;
use core::marker::PhantomData;
use core::time::Duration;
use std::fmt::Debug;
use std::io;

use farcall_base::Principal;
use farcall_transport::Service;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::decode::DEPTH_MAX;
use self::decode::value_of;
use self::traced::{REFUSED, ended, failure_of, in_scope, received, sent};

use crate::client::{Client, ClientCall, ClientConnection, ClientError};
use crate::endpoint::{CallError, Endpoint, Peer, Reply};
use crate::spans::{BegunSpan, TraceContext, begin_call};

/// With this code requests are refused that are not of the service's type.
pub const MALFORMED: u8 = 255;

/// A service and the types that both sides agree on.
///
/// ```
/// use farcall::{Service, typed::TypedService};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Order { article: u32, pieces: u16 }
///
/// #[derive(Debug, Serialize, Deserialize)]
/// enum NoOrder { Unknown, SoldOut { left: u16 } }
///
/// struct Orders;
///
/// impl TypedService for Orders {
///     const SERVICE: Service = Service(10);
///     type Request = Order;
///     type Reply = u64;
///     type Error = NoOrder;
/// }
/// ```
pub trait TypedService {
    /// The number that the service has at its server.
    const SERVICE: Service;
    /// What is asked.
    type Request: Serialize + DeserializeOwned;
    /// What is answered.
    type Reply: Serialize + DeserializeOwned;
    /// Why there is no answer, in the handler's words.
    type Error: Serialize + DeserializeOwned + Debug;
    /// Whether requests carry the context of their trace ([`spans`](crate::spans)) in front: a byte without
    /// one, 29 and the state with one. A part of what both sides agree on, as the types are.
    const TRACED: bool = false;
}

/// Why a typed call has no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypedError<E: Debug> {
    /// The handler ran and says why not.
    #[error("the handler refused: {0:?}")]
    Handler(E),
    /// The server could not read the request: it has another type for the service. The handler did not run.
    #[error("the server could not decode the request; do both sides have the same types?")]
    RequestMalformed,
    /// The reply cannot be read: the server has another type for the service. The handler ran.
    #[error("the reply cannot be decoded ({why}); do both sides have the same types?")]
    ReplyMalformed {
        /// The words of the decoder.
        why: String,
    },
    /// The request has no encoding, such as a sequence of unknown length. Nothing ran.
    #[error("the request cannot be encoded: {why}")]
    NotEncoded {
        /// The words of the encoder.
        why: String,
    },
    /// The call ended without an answer.
    #[error(transparent)]
    Call(#[from] ClientError),
}

/// Who calls a typed service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The caller; can be called back.
    pub peer: Peer,
    /// Who it is, as far as the transport of its session proves it.
    pub principal: Principal,
}

/// What a typed call gives.
pub type TypedResult<S> = Result<<S as TypedService>::Reply, TypedError<<S as TypedService>::Error>>;

impl Endpoint {
    /// Serves a typed service inside the poll, as [`Endpoint::serve`] does.
    pub fn serve_typed<S: TypedService>(
        &self,
        mut handler: impl FnMut(S::Request) -> Result<S::Reply, S::Error> + Send + 'static,
    ) {
        self.serve(S::SERVICE, move |request, reply| match received::<S>(request.payload()) {
            Some((value, span)) => answer::<S>(reply, span, || handler(value)),
            None => reply.refuse(MALFORMED),
        });
    }

    /// As [`Endpoint::serve_typed`], for a handler that wants to know who calls.
    pub fn serve_typed_by_caller<S: TypedService>(
        &self,
        mut handler: impl FnMut(&Caller, S::Request) -> Result<S::Reply, S::Error> + Send + 'static,
    ) {
        self.serve(S::SERVICE, move |request, reply| match received::<S>(request.payload()) {
            Some((value, span)) => {
                let caller = Caller { peer: request.peer(), principal: reply.principal() };
                answer::<S>(reply, span, || handler(&caller, value));
            }
            None => reply.refuse(MALFORMED),
        });
    }

    /// Serves a typed service by `threads` threads, as [`Endpoint::serve_blocking`] does.
    ///
    /// # Errors
    /// The system has not as many threads to give.
    pub fn serve_typed_blocking<S: TypedService>(
        &self,
        threads: usize,
        handler: impl Fn(S::Request) -> Result<S::Reply, S::Error> + Send + Sync + 'static,
    ) -> io::Result<()> {
        self.serve_blocking(S::SERVICE, threads, move |request, reply| {
            let Some((value, mut span)) = received::<S>(request.payload()) else {
                return reply.refuse(MALFORMED);
            };
            span.iter_mut().for_each(|span| request.in_span(span));
            let result = in_scope(span.as_ref(), || handler(value));
            match postcard::to_stdvec(&result) {
                Ok(answer) => reply.send(answer),
                Err(_) => drop(reply),
            }
            ended(span, result.is_err().then_some(REFUSED));
        })
    }

    /// Calls a typed service and polls until it is complete.
    pub fn call_typed<S: TypedService>(
        &self,
        peer: Peer,
        request: &S::Request,
        within: Duration,
    ) -> TypedResult<S> {
        let mut span = S::TRACED.then(|| begin_call(type_name::<S>(), S::SERVICE));
        let payload = encode::<S>(request, span.as_ref())?;
        let call = self.call(peer, S::SERVICE, &payload).within(within).start();
        if let (Some(span), Ok(call)) = (&mut span, &call) {
            call.in_span(span);
        }
        // Handlers that run while this waits are not on behalf of the caller's request.
        let _none = S::TRACED.then(|| TraceContext::enter(None));
        let answer = call.and_then(|call| call.wait());
        let result = decode::<S>(answer.as_deref().map_err(|error| error.clone().into()));
        ended(span, failure_of::<S>(&result).as_deref());
        result
    }
}

impl Client {
    /// Prepares a call to a typed service.
    ///
    /// # Errors
    /// The request has no encoding.
    pub fn call_typed<S: TypedService>(
        &self,
        peer: Peer,
        request: &S::Request,
    ) -> Result<TypedCall<S>, TypedError<S::Error>> {
        TypedCall::new(request, |payload| self.call(peer, S::SERVICE, payload))
    }
}

impl ClientConnection {
    /// Prepares a call to a typed service of one of the servers.
    ///
    /// # Errors
    /// The request has no encoding.
    pub fn call_typed<S: TypedService>(
        &self,
        request: &S::Request,
    ) -> Result<TypedCall<S>, TypedError<S::Error>> {
        TypedCall::new(request, |payload| self.call(S::SERVICE, payload))
    }
}

/// A typed call that is about to be made. Nothing is sent before `send` or `wait`, and its span begins then;
/// the context that it hands on is that of the scope in which it was prepared.
#[must_use = "a call is sent by `send` or `wait`"]
pub struct TypedCall<S> {
    call: ClientCall,
    span: Option<BegunSpan>,
    of: PhantomData<fn() -> S>,
}

impl<S: TypedService> TypedCall<S> {
    fn new(
        request: &S::Request,
        call: impl FnOnce(Vec<u8>) -> ClientCall,
    ) -> Result<Self, TypedError<S::Error>> {
        let mut span = S::TRACED.then(|| begin_call(type_name::<S>(), S::SERVICE));
        let mut call = call(encode::<S>(request, span.as_ref())?);
        if let Some(span) = &mut span {
            call = call.in_span(span);
        }
        Ok(Self { call, span, of: PhantomData })
    }

    /// As [`ClientCall::within`].
    pub fn within(mut self, timeout: Duration) -> Self {
        self.call = self.call.within(timeout);
        self
    }

    /// Sends the call, when the future is first polled; dropping the future cancels it.
    pub async fn send(self) -> TypedResult<S> {
        let answer = self.call.await;
        end::<S>(self.span, answer.as_deref())
    }

    /// Sends the call and blocks this thread until it is complete, as [`ClientCall::wait`].
    pub fn wait(self) -> TypedResult<S> {
        let answer = self.call.wait();
        end::<S>(self.span, answer.as_deref())
    }
}

/// Runs a handler and answers with what it gave.
fn answer<S: TypedService>(
    reply: Reply<'_>,
    mut span: Option<BegunSpan>,
    handler: impl FnOnce() -> Result<S::Reply, S::Error>,
) {
    span.iter_mut().for_each(|span| reply.in_span(span));
    let result = in_scope(span.as_ref(), handler);
    match postcard::to_stdvec(&result) {
        Ok(answer) => reply.send(&answer),
        // The caller is told that there is no answer.
        Err(_) => drop(reply),
    }
    ended(span, result.is_err().then_some(REFUSED));
}

fn encode<S: TypedService>(
    request: &S::Request,
    span: Option<&BegunSpan>,
) -> Result<Vec<u8>, TypedError<S::Error>> {
    sent(request, span).map_err(|error| TypedError::NotEncoded { why: error.to_string() })
}

/// Ends a typed call of a client.
fn end<S: TypedService>(span: Option<BegunSpan>, answer: Result<&[u8], &ClientError>) -> TypedResult<S> {
    let result = decode::<S>(answer.map_err(Clone::clone));
    ended(span, failure_of::<S>(&result).as_deref());
    result
}

fn decode<S: TypedService>(answer: Result<&[u8], ClientError>) -> TypedResult<S> {
    let bytes = answer.map_err(|error| match error {
        ClientError::Call(CallError::Refused { code: MALFORMED, .. }) => TypedError::RequestMalformed,
        error => TypedError::Call(error),
    })?;
    let result: Result<S::Reply, S::Error> =
        value_of(bytes).map_err(|why| TypedError::ReplyMalformed { why })?;
    result.map_err(TypedError::Handler)
}
