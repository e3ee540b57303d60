//! A server that sends messages back when asked to, and counts those that it is asked to receive.

use std::sync::{Arc, Mutex};

use farcall::{AnySource, Context, Endpoint, Peer, Service, Tag};

use super::{LONG, Pair, and_auto, assign_to_transports, settings, transports};

/// Sends the message back with the tag that follows.
const ECHO: Service = Service(1);
/// Receives as many messages as asked for with the tag asked for, and answers when it has them all.
const COUNT: Service = Service(2);

/// The limit on calls in these tests; packets have room for nine bytes less of a message.
pub const LIMIT: usize = 1 << 20;
pub const MESSAGE_BYTES_MAX: usize = LIMIT - 9;

/// Messages with this tag come back with the next one.
pub const THERE: Tag = Tag(7);
pub const BACK: Tag = Tag(8);

/// Sends what comes with [`THERE`] back.
fn echo(context: &mut Context<'_>) {
    let posted = context.receive(AnySource, THERE).within(LONG).then(|context, outcome| {
        if let Ok(message) = outcome {
            let sent = context.send(message.peer(), BACK, message.take()).within(LONG).then(|_, _| {});
            sent.expect("room");
            echo(context);
        }
    });
    posted.expect("room");
}

fn serve(endpoint: &Endpoint) {
    endpoint.serve(ECHO, |_, mut reply| {
        echo(reply.context());
        reply.send(b"");
    });
    endpoint.serve(COUNT, |request, reply| {
        let words: Vec<u32> = request
            .payload()
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().expect("four")))
            .collect();
        let (peer, tag, count) = (request.peer(), Tag(words[0]), words[1]);
        let (deferred, mut context) = reply.defer();
        let numbers: Arc<Mutex<(Vec<u8>, Option<_>)>> = Arc::new(Mutex::new((Vec::new(), Some(deferred))));
        take(&mut context, peer, tag, count, &numbers);
    });
}

/// Receives `left` messages and answers with the first bytes of all.
fn take(
    context: &mut Context<'_>,
    peer: Peer,
    tag: Tag,
    left: u32,
    state: &Arc<Mutex<(Vec<u8>, Option<farcall::Deferred>)>>,
) {
    if left == 0 {
        let mut state = state.lock().expect("one thread");
        let deferred = state.1.take().expect("answered once");
        return context.reply(deferred, &state.0);
    }
    let next = Arc::clone(state);
    let posted = context.receive(peer, tag).within(LONG).then(move |context, outcome| {
        next.lock().expect("one thread").0.push(outcome.as_ref().expect("a message")[0]);
        take(context, peer, tag, left - 1, &next);
    });
    posted.expect("room");
}

pub fn pairs() -> impl Iterator<Item = Pair> {
    // Many threads spin at once, and none of them is dead.
    let mut settings = settings(&["endpoint.unexpected_bytes=64K", "endpoint.peer_timeout=30s"]);
    assign_to_transports(&mut settings, "message_bytes_max", LIMIT);
    and_auto(transports()).map(move |kind| {
        println!("over {kind}");
        Pair::new(kind, settings.clone(), serve)
    })
}

pub fn start_echo(pair: &Pair) {
    pair.client.call(pair.server, ECHO, b"").within(LONG).wait().expect("an answer");
}

/// Asks the server to receive, and gives its answer once all has come.
pub fn ask_to_count(pair: &Pair, tag: Tag, count: u32) -> farcall::Pending<'_> {
    let request = [tag.0.to_le_bytes(), count.to_le_bytes()].concat();
    pair.client.call(pair.server, COUNT, &request).within(LONG).start().expect("sent")
}
