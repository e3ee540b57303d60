// farcall for C and C++: calls, messages and collective operations between processes, and the store.
//
// Made by cbindgen from crates/ffi/src; the page is docs/c.md.
//
// An endpoint belongs to the thread that opened it, and its functions answer FARCALL_WRONG_THREAD elsewhere
// and FARCALL_FORKED in a child. Everything happens inside polls: handlers and callbacks run there, on the
// endpoint's thread. Inside of them functions that begin something may be called, and functions that poll or
// wait answer FARCALL_IN_CALLBACK. Callbacks must return: no longjmp and no C++ exception may leave them.
//
// Pointers that a function does not call optional must not be null. A handle must not be used after the
// function that closes, sends, releases or drops it. The library installs no signal handlers, keeps no
// global state but its counters, and never ends the process: what should not fail and does is
// FARCALL_PANICKED.


#pragma once

#include <stddef.h>
#include <stdint.h>

// The version of the header and the library together: a program runs with a library of the same number.
#define FARCALL_ABI_VERSION 1

// The time that the endpoint's settings give: `endpoint.call_timeout` or `endpoint.message_timeout`.
#define FARCALL_DEFAULT_TIMEOUT UINT64_MAX

// Bytes of a reason that `farcall_refuse_because` sends; the rest is cut off.
#define FARCALL_REASON_BYTES_MAX 1024

// Bytes of an error's text, with the zero at its end.
#define FARCALL_ERROR_TEXT_BYTES 512

// What the environment describes: a rendezvous address, a list of hosts or a launcher; alone without.
#define FARCALL_NODE_FROM_ENVIRONMENT 0

// One of `size` processes of this program on this machine. The first starts the others, which run the same
// program with the same arguments; they end with the first.
#define FARCALL_NODE_LOCAL 1

// A cluster of this process only.
#define FARCALL_NODE_ALONE 2

// Without a rank: serves and calls by name. Names are kept where `address` says, `host:port` or
// `farcall://host:port`; where it is null, where the variable FARCALL_NAMES says.
#define FARCALL_NODE_OPEN 3

// As FARCALL_NODE_OPEN, and serves the registry itself, at `address` of this machine.
#define FARCALL_NODE_SERVING_NAMES 4

// The transport proves nothing of the caller.
#define FARCALL_CALLER_UNPROVEN 0

// A process of a user of this machine, as the kernel says.
#define FARCALL_CALLER_USER 1

// One of those that have a cluster key.
#define FARCALL_CALLER_KEY 2

// The holder of a certificate.
#define FARCALL_CALLER_CERTIFICATE 3

// One that knows a password.
#define FARCALL_CALLER_PASSWORD 4

// The holder of a private key whose public half is listed in `security.peers_file`.
#define FARCALL_CALLER_IDENTITY 5

// Asks for messages with any tag.
#define FARCALL_ANY_TAG UINT64_MAX

// Each server in turn.
#define FARCALL_ROUND_ROBIN 0

// Of two servers drawn at random the one with fewer calls in flight over this connection.
#define FARCALL_TWO_CHOICES 1

// Elements of `farcall_group_all_reduce`, in the byte order of this machine.
#define FARCALL_INT8 0

// As FARCALL_INT8.
#define FARCALL_INT16 1

// As FARCALL_INT8.
#define FARCALL_INT32 2

// As FARCALL_INT8.
#define FARCALL_INT64 3

// As FARCALL_INT8.
#define FARCALL_UINT8 4

// As FARCALL_INT8.
#define FARCALL_UINT16 5

// As FARCALL_INT8.
#define FARCALL_UINT32 6

// As FARCALL_INT8.
#define FARCALL_UINT64 7

// As FARCALL_INT8.
#define FARCALL_FLOAT 8

// As FARCALL_INT8.
#define FARCALL_DOUBLE 9

// Adds; integers wrap around.
#define FARCALL_SUM 0

// Multiplies; integers wrap around.
#define FARCALL_PRODUCT 1

// Takes the lesser.
#define FARCALL_MIN 2

// Takes the greater.
#define FARCALL_MAX 3

// Writes whatever there is.
#define FARCALL_ANY_VERSION UINT64_MAX

// Writes only if there is no object.
#define FARCALL_ABSENT 0

// A write is on the disks of all processes that have it.
#define FARCALL_LEVEL_FLUSHED 1

// How a function or an operation ended. Numbers keep their meaning in later versions; new ones may be added.
enum farcall_status_t
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // It did what it should.
    FARCALL_OK = 0,
    // An argument is null that must not be, a text is not UTF-8 or means nothing, or a number is out of
    // range.
    FARCALL_INVALID_ARGUMENT = 1,
    // The program was compiled with a header that this library does not serve.
    FARCALL_VERSION_MISMATCH = 2,
    // The endpoint belongs to another thread: the one that opened it.
    FARCALL_WRONG_THREAD = 3,
    // The endpoint was opened by the parent of this process, before a fork.
    FARCALL_FORKED = 4,
    // The function polls or waits, and so cannot be called inside a callback.
    FARCALL_IN_CALLBACK = 5,
    // Something that was made from the handle is still open; close that first.
    FARCALL_IN_USE = 6,
    // The library failed in a way that it should not. The operation may have happened.
    FARCALL_PANICKED = 7,
    // The request has its reply, or was deferred.
    FARCALL_ALREADY_REPLIED = 8,
    // The operating system refused something that is needed.
    FARCALL_RESOURCES = 9,
    // There is no such transport.
    FARCALL_UNKNOWN_TRANSPORT = 10,
    // A parameter has no such name or value.
    FARCALL_SETTINGS = 11,
    // The process has no place in its cluster, or the registry cannot be reached.
    FARCALL_BOOTSTRAP = 12,
    // The deadline passed. What was asked for may have happened, or happen yet.
    FARCALL_TIMED_OUT = 20,
    // It was cancelled.
    FARCALL_CANCELLED = 21,
    // The operation cannot be cancelled any more, and will complete.
    FARCALL_TOO_LATE = 22,
    // The operation had completed before.
    FARCALL_OVER = 23,
    // The peer's process ended, or it was silent for longer than the limit.
    FARCALL_PEER_DEAD = 30,
    // The peer closed the session.
    FARCALL_PEER_CLOSED = 31,
    // The peer was restarted; the session belonged to its former life.
    FARCALL_PEER_RESTARTED = 32,
    // Nothing answers at the peer's address.
    FARCALL_PEER_UNREACHABLE = 33,
    // The session to the peer ended for another reason: the network is broken, or a side broke the protocol.
    FARCALL_PEER_FAILED = 34,
    // The session to the peer is down; connect again. Nothing was sent.
    FARCALL_NOT_CONNECTED = 35,
    // The peer is not known.
    FARCALL_UNKNOWN_PEER = 36,
    // No server listens under the name, as far as is known, or none could be reached. Nothing ran.
    FARCALL_NO_SERVER = 37,
    // The peer does not serve this service.
    FARCALL_UNKNOWN_SERVICE = 40,
    // The server is leaving and takes no more requests; nothing ran.
    FARCALL_LEAVING = 41,
    // The peer's handler gave no answer.
    FARCALL_ABANDONED = 42,
    // The peer's handler ran, but its answer was longer than the session carries.
    FARCALL_ANSWER_TOO_LONG = 43,
    // The peer's handler refused, with a code that it chose.
    FARCALL_REFUSED = 44,
    // Longer than the session carries; nothing was sent.
    FARCALL_TOO_LONG = 45,
    // Too many operations are in flight; complete some first. Nothing was sent.
    FARCALL_TOO_MANY = 46,
    // What arrived is longer than the memory for it.
    FARCALL_TRUNCATED = 47,
    // The policy of the peer, or of the store, does not allow it. Nothing ran, and nothing was changed.
    FARCALL_NOT_ALLOWED = 48,
    // There is no such object.
    FARCALL_NO_OBJECT = 60,
    // There is no such table; create it first.
    FARCALL_UNKNOWN_TABLE = 61,
    // The object has another version than the expected one. Nothing was changed.
    FARCALL_WRONG_VERSION = 62,
    // The store has no memory left, or no room in its log or for another table. Nothing was changed.
    FARCALL_STORE_FULL = 63,
    // The object is not a number, or the sum is out of range. Nothing was changed.
    FARCALL_NOT_A_NUMBER = 64,
    // The store speaks another version of the protocol.
    FARCALL_MISUNDERSTOOD = 65,
    // The disk of durable tables has failed. A write may have happened.
    FARCALL_DISK_FAILED = 66,
    // The store cannot give the table that level: it has no log or too few replicas, or there is a table of
    // that name whose level survives less. Nothing was changed at the shard that refused.
    FARCALL_LEVEL_REFUSED = 67,
    // The store takes no writes of the table now: too few backups hold its log, or another process may be
    // the primary. Nothing was changed; ask again.
    FARCALL_NOT_REPLICATED = 68,
    // A member of the group failed or gave up, or their arguments differ. The group is of no further use.
    FARCALL_GROUP_FAILED = 80,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum farcall_status_t farcall_status_t;
#else
typedef int32_t farcall_status_t;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A name, and sessions to the servers that listen under it. Belongs to the endpoint's thread.
typedef struct farcall_connection_t farcall_connection_t;

// The duty to answer a request later, from any thread, also after the endpoint was closed.
typedef struct farcall_deferred_t farcall_deferred_t;

// One thread's door to its peers. Belongs to the thread that opened it.
typedef struct farcall_endpoint_t farcall_endpoint_t;

// A member's view of a group of processes, which MPI calls a communicator. Belongs to the endpoint's thread.
typedef struct farcall_group_t farcall_group_t;

// An endpoint is listed under a name until this is closed.
typedef struct farcall_listener_t farcall_listener_t;

// Memory that can be written in place and sent without a copy, until it is sent or dropped.
typedef struct farcall_loan_t farcall_loan_t;

// A process of a cluster. May be used by all threads at the same time.
typedef struct farcall_node_t farcall_node_t;

// What was received, kept until it is released. Holders may be on any thread, one at a time.
//
// Short bytes are copied into the handle, and its memory is used again: to receive them, look at them and
// release them allocates nothing.
typedef struct farcall_payload_t farcall_payload_t;

// A request, read where it arrived. Valid while the handler runs.
typedef struct farcall_request_t farcall_request_t;

// Slots of a daemon. Belong to the thread that attached to it.
typedef struct farcall_slots_t farcall_slots_t;

// A client of all shards of a store. Belongs to the endpoint's thread.
typedef struct farcall_store_t farcall_store_t;

// Which process of which cluster to be. Begin with `FARCALL_NODE_OPTIONS_INIT`.
typedef struct farcall_node_options_t {
    // `sizeof(farcall_node_options_t)`.
    size_t size;
    // FARCALL_NODE_FROM_ENVIRONMENT or another of those.
    uint32_t kind;
    // The number of processes, for FARCALL_NODE_LOCAL.
    uint32_t processes;
    // The address of the registry.
    const char *address;
} farcall_node_options_t;

// What went wrong, in one sentence that says what to do. The caller's memory; begin with
// `FARCALL_ERROR_INIT`.
typedef struct farcall_error_t {
    // `sizeof(farcall_error_t)`.
    size_t size;
    // What the function returned.
    farcall_status_t status;
    // The sentence, cut to fit, with a zero at its end. Written when the function fails.
    char text[FARCALL_ERROR_TEXT_BYTES];
} farcall_error_t;

// An endpoint of another process that a session leads to. To be copied and compared, member by member.
typedef struct farcall_peer_t {
    // The session: another one when the peer is connected to again.
    uint32_t session;
    // The rank of its process, as that says itself; UINT32_MAX without one.
    uint32_t rank;
    // The number of the endpoint within its process.
    uint32_t endpoint;
} farcall_peer_t;

// Is told that a session ended: `status` says why. Everything in flight to the peer has ended for the same
// reason, or ends soon.
typedef void (*farcall_peer_down_callback_t)(void *context,
                                             struct farcall_endpoint_t *endpoint,
                                             struct farcall_peer_t peer,
                                             farcall_status_t status);

// Serves a request: reads it, and replies with one of the functions below, now or later.
typedef void (*farcall_handler_t)(void *context,
                                  struct farcall_endpoint_t *endpoint,
                                  struct farcall_request_t *request);

// How a call ended. The library's memory, valid while the callback runs.
typedef struct farcall_answer_t {
    // `sizeof(farcall_answer_t)` of the library, which may be larger than the program's.
    size_t size;
    // FARCALL_OK, or why there is no answer.
    farcall_status_t status;
    // The code of a handler that refused.
    uint32_t code;
    // The answer, read where it arrived; null when there is none. With FARCALL_REFUSED what the handler said
    // about it, and with FARCALL_NOT_ALLOWED what the policy does not allow whom, as UTF-8 without a zero at
    // its end.
    const void *data;
    // Its length in bytes.
    size_t length;
} farcall_answer_t;

// Takes the end of a call, once.
typedef void (*farcall_answer_callback_t)(void *context,
                                          struct farcall_endpoint_t *endpoint,
                                          const struct farcall_answer_t *answer);

// Takes the end of a send, once: FARCALL_OK when its memory is free and the message cannot be taken back.
typedef void (*farcall_sent_callback_t)(void *context,
                                        struct farcall_endpoint_t *endpoint,
                                        farcall_status_t status);

// A piece of memory that is read.
typedef struct farcall_piece_t {
    // Where it is; null is allowed where there are no bytes.
    const void *data;
    // Its length in bytes.
    size_t length;
} farcall_piece_t;

// How a receive ended. The library's memory, valid while the callback runs.
typedef struct farcall_message_t {
    // `sizeof(farcall_message_t)` of the library, which may be larger than the program's.
    size_t size;
    // FARCALL_OK, or why there is no message.
    farcall_status_t status;
    // The tag of the message.
    uint32_t tag;
    // Its sender.
    struct farcall_peer_t peer;
    // Its bytes, read where they arrived; null when there is no message.
    const void *data;
    // Its length in bytes.
    size_t length;
} farcall_message_t;

// Takes a message, or the reason why there is none.
typedef void (*farcall_message_callback_t)(void *context,
                                           struct farcall_endpoint_t *endpoint,
                                           const struct farcall_message_t *message);

// What has come of a request that was begun. The library's memory, valid until the next function of the
// slots.
typedef struct farcall_slot_outcome_t {
    // `sizeof(farcall_slot_outcome_t)` of the library, which may be larger than the program's.
    size_t size;
    // What the request was begun with.
    uint64_t token;
    // FARCALL_OK, FARCALL_NO_OBJECT of a read, or what went wrong.
    farcall_status_t status;
    // What a write survives, as `farcall_store_level` has it.
    uint32_t level;
    // That of the object afterwards; of a removed one that which it had, 0 if there was none; with
    // FARCALL_WRONG_VERSION that of the one that is there, 0 if there is none.
    uint64_t version;
    // The sum, of an addition.
    int64_t sum;
    // The value that was read; null otherwise.
    const void *value;
    // Its length in bytes.
    size_t length;
} farcall_slot_outcome_t;

// Takes one counter; the texts are the library's, and valid while it runs. `group` is an endpoint, driver or
// session, such as `ring+shm#0`, `text` a line for people.
typedef void (*farcall_counter_callback_t)(void *context,
                                           const char *group,
                                           const char *name,
                                           uint64_t value,
                                           const char *unit,
                                           const char *text);

// Takes one parameter; the texts are the library's, and valid while it runs. `value` is that of the node,
// `text` a line for people.
typedef void (*farcall_parameter_callback_t)(void *context,
                                             const char *name,
                                             const char *value,
                                             const char *standard,
                                             const char *text);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of this library, such as `0.1.0`. From any thread. Neither allocates nor blocks.
const char *farcall_version(void);

// What a status means, as one sentence that lives as long as the program. Any number is allowed.
//
// From any thread. Neither allocates nor blocks.
const char *farcall_status_text(int32_t status);

// Makes this process a member of its cluster: `farcall_node_open` with the version that the program was
// compiled with, which that function passes.
//
// `options` may be null: those of FARCALL_NODE_OPTIONS_INIT.
//
// From any thread. Allocates. Blocks until the cluster has taken the process in, for 30 s at most.
farcall_status_t farcall_node_open_version(uint32_t version,
                                           const struct farcall_node_options_t *options,
                                           struct farcall_node_t **node,
                                           struct farcall_error_t *error);

// Leaves the cluster. Endpoints of the node may be closed before or after. Null is allowed.
//
// From any thread. Frees. Does not block.
farcall_status_t farcall_node_close(struct farcall_node_t *node);

// This process's rank, from 0, and the number of ranks; UINT32_MAX and 0 without a rank. Either place may be
// null. From any thread. Neither allocates nor blocks.
farcall_status_t farcall_node_rank(const struct farcall_node_t *node, uint32_t *rank, uint32_t *ranks);

// Where processes of this machine reach the registry that this node serves, as `host:port`, written with a
// zero at its end. FARCALL_INVALID_ARGUMENT of a node that serves none; FARCALL_TRUNCATED if there is no
// room for it: 64 bytes are enough.
//
// From any thread. Allocates. Does not block.
farcall_status_t farcall_node_registry_address(const struct farcall_node_t *node,
                                               char *address,
                                               size_t bytes);

// Returns when every rank has called it with the same name.
//
// From any thread. Allocates. Blocks for `timeout_ns` at most.
farcall_status_t farcall_node_barrier(const struct farcall_node_t *node,
                                      const char *name,
                                      uint64_t timeout_ns,
                                      struct farcall_error_t *error);

// Opens an endpoint over the transport of that name, such as `ring+shm`, `basic+udp` or `auto`.
//
// `settings` is null, or a list of texts such as `ring.ring_bytes=1M` that ends with a null; they overrule
// those of the environment.
//
// From any thread: the endpoint belongs to it from then on. Allocates. Blocks as long as the transport needs
// to be set up.
farcall_status_t farcall_endpoint_open(const struct farcall_node_t *node,
                                       const char *transport,
                                       const char *const *settings,
                                       struct farcall_endpoint_t **endpoint,
                                       struct farcall_error_t *error);

// Closes an endpoint and its sessions; what is in flight never completes. FARCALL_IN_USE as long as a
// connection or something else that was made from it is open. Null is allowed. A forked child leaves the
// endpoint of its parent alone: FARCALL_FORKED.
//
// From the endpoint's thread, not inside a callback. Frees. Blocks briefly.
farcall_status_t farcall_endpoint_close(struct farcall_endpoint_t *endpoint);

// Finds the endpoint of that number of the process of that rank, over the same transport, and starts a
// session unless there is one; calls may be made at once.
//
// From the endpoint's thread, not inside a callback. Allocates. Blocks until the peer has published its
// endpoint, for `timeout_ns` at most (of endpoint 0; of others, and by default, `endpoint.resolve_timeout`).
farcall_status_t farcall_peer(struct farcall_endpoint_t *endpoint,
                              uint32_t rank,
                              uint32_t number,
                              uint64_t timeout_ns,
                              struct farcall_peer_t *peer,
                              struct farcall_error_t *error);

// Polls until the session to a peer is up, or has ended: then the status says why.
//
// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks.
farcall_status_t farcall_wait_for_peer(struct farcall_endpoint_t *endpoint, struct farcall_peer_t peer);

// Ends the session to a peer; what is in flight to it completes with FARCALL_PEER_CLOSED.
//
// From the endpoint's thread, not inside a callback. Neither polls nor blocks.
farcall_status_t farcall_close_peer(struct farcall_endpoint_t *endpoint, struct farcall_peer_t peer);

// From now on `callback` is notified of sessions that end; null is nobody.
//
// From the endpoint's thread. Neither allocates, polls nor blocks. The callback runs inside later polls.
farcall_status_t farcall_on_peer_down(struct farcall_endpoint_t *endpoint,
                                      farcall_peer_down_callback_t callback,
                                      void *context);

// One turn: sends what is queued, receives, runs handlers and callbacks. `done`, which may be null, is how
// much there was to do.
//
// From the endpoint's thread, not inside a callback. Does not block. Allocates only for what is long or must
// be kept.
farcall_status_t farcall_poll(struct farcall_endpoint_t *endpoint, size_t *done);

// As `farcall_poll`; if there was nothing to do, polls a few times more, then spins, yields or blocks as
// `endpoint.idle` says, for 100 ms at most, so that the caller can look at what else it waits for.
farcall_status_t farcall_poll_idle(struct farcall_endpoint_t *endpoint, size_t *done);

// Cancels an operation that has a callback. FARCALL_OK: the callback ran, or runs in the next poll, with
// FARCALL_CANCELLED. FARCALL_TOO_LATE: it completes in another way. FARCALL_OVER: it had completed.
//
// From the endpoint's thread, not inside a callback. Neither polls nor blocks.
farcall_status_t farcall_cancel(struct farcall_endpoint_t *endpoint, uint32_t operation);

// The bytes of a payload, valid until it is released; null of null.
//
// From any thread. Neither allocates nor blocks.
const void *farcall_payload_data(const struct farcall_payload_t *payload);

// The length of a payload in bytes; 0 of null. From any thread. Neither allocates nor blocks.
size_t farcall_payload_length(const struct farcall_payload_t *payload);

// Another holder of the same bytes, without a copy of long ones; null of null.
//
// From any thread. Allocates. Does not block.
struct farcall_payload_t *farcall_payload_share(const struct farcall_payload_t *payload);

// Ends the use of a payload; memory that the sender lent is returned to it. Null is allowed.
//
// From any thread, also after the endpoint was closed. Frees, or keeps a little for the next payloads of the
// thread. Does not block.
void farcall_payload_release(struct farcall_payload_t *payload);

// Lends memory to be written in place and sent by one of the functions that end in `_loan`, or to be given
// back by `farcall_loan_drop`. What is in it is left over from earlier loans.
//
// From the endpoint's thread, also inside a callback. Allocates. Does not block. FARCALL_RESOURCES if there
// is no memory left to lend.
farcall_status_t farcall_loan(struct farcall_endpoint_t *endpoint,
                              size_t bytes,
                              struct farcall_loan_t **loan);

// The memory of a loan; null of null. From the thread that fills it. Neither allocates nor blocks.
void *farcall_loan_data(struct farcall_loan_t *loan);

// Its length in bytes; 0 of null. From the thread that fills it. Neither allocates nor blocks.
size_t farcall_loan_length(const struct farcall_loan_t *loan);

// Shortens a loan to its first `bytes`: what will be sent.
//
// From the thread that fills it. Neither allocates nor blocks. FARCALL_INVALID_ARGUMENT if it is shorter.
farcall_status_t farcall_loan_truncate(struct farcall_loan_t *loan, size_t bytes);

// Gives a loan back unsent. Null is allowed.
//
// From any thread, also after the endpoint was closed. Frees. Does not block.
void farcall_loan_drop(struct farcall_loan_t *loan);

// Serves a service, 0 to 65534: `handler` gets every request for it, during polls. A later handler replaces
// an earlier one. A handler that returns without a reply tells the caller so (FARCALL_ABANDONED).
//
// From the endpoint's thread, not inside a callback. Allocates. Neither polls nor blocks.
farcall_status_t farcall_serve(struct farcall_endpoint_t *endpoint,
                               uint16_t service,
                               farcall_handler_t handler,
                               void *context);

// The bytes of a request, valid while the handler runs. In the handler. Neither allocates nor blocks.
const void *farcall_request_data(const struct farcall_request_t *request);

// Its length in bytes. In the handler. Neither allocates nor blocks.
size_t farcall_request_length(const struct farcall_request_t *request);

// The caller, who can be called back; and the service that was called. Either place may be null.
//
// In the handler. Neither allocates nor blocks.
farcall_status_t farcall_request_origin(const struct farcall_request_t *request,
                                        struct farcall_peer_t *peer,
                                        uint16_t *service);

// Takes the bytes of a request, to be released later; long ones that lie in the caller's memory are not
// copied.
//
// In the handler. Allocates. Does not block.
farcall_status_t farcall_request_take(const struct farcall_request_t *request,
                                      struct farcall_payload_t **payload);

// Answers a request; the bytes are copied.
//
// In the handler, once. Neither polls nor blocks. Allocates where the bytes must be kept.
farcall_status_t farcall_reply(struct farcall_request_t *request, const void *data, size_t length);

// As `farcall_reply`, with a loan, which is gone in any case.
farcall_status_t farcall_reply_loan(struct farcall_request_t *request, struct farcall_loan_t *loan);

// Refuses a request, with a code of the handler's choice.
//
// In the handler, once. Neither allocates, polls nor blocks.
farcall_status_t farcall_refuse(struct farcall_request_t *request, uint8_t code);

// As `farcall_refuse`, and says why, in a text of which FARCALL_REASON_BYTES_MAX bytes are sent: the caller
// gets it with the code.
//
// In the handler, once. Allocates. Neither polls nor blocks.
farcall_status_t farcall_refuse_because(struct farcall_request_t *request, uint8_t code, const char *why);

// Postpones the answer: the handler may return, and `deferred` be used by any thread.
//
// In the handler, once. Allocates. Neither polls nor blocks.
farcall_status_t farcall_defer(struct farcall_request_t *request, struct farcall_deferred_t **deferred);

// Answers a request that was deferred; the bytes are copied, and sent by the next poll of the endpoint,
// which is woken for it. `deferred` is gone in any case.
//
// From any thread. Allocates and frees. Does not block.
farcall_status_t farcall_deferred_reply(struct farcall_deferred_t *deferred, const void *data, size_t length);

// As `farcall_deferred_reply`, with a loan, which is gone in any case.
farcall_status_t farcall_deferred_reply_loan(struct farcall_deferred_t *deferred,
                                             struct farcall_loan_t *loan);

// Refuses a request that was deferred, with a code of the server's choice. `deferred` is gone.
//
// From any thread. Allocates and frees. Does not block.
farcall_status_t farcall_deferred_refuse(struct farcall_deferred_t *deferred, uint8_t code);

// As `farcall_deferred_refuse`, and says why; see `farcall_refuse_because`. `deferred` is gone in any case.
//
// From any thread. Allocates and frees. Does not block.
farcall_status_t farcall_deferred_refuse_because(struct farcall_deferred_t *deferred,
                                                 uint8_t code,
                                                 const char *why);

// Drops the duty: the caller is told that there will be no answer. Null is allowed.
//
// From any thread. Allocates and frees. Does not block.
void farcall_deferred_drop(struct farcall_deferred_t *deferred);

// Who calls, by what the transport of its session proves and nothing that it says of itself: `kind` is
// FARCALL_CALLER_USER or another of those, and `user` the number of the user, UINT32_MAX of another kind.
// `words` gets the identity as policies write it, such as `uid 1000`, with a zero at its end;
// FARCALL_TRUNCATED if there is no room for it. Places may be null, and `bytes` then 0.
//
// In the handler, before the reply: FARCALL_ALREADY_REPLIED afterwards. Allocates. Neither polls nor blocks.
farcall_status_t farcall_request_caller(const struct farcall_request_t *request,
                                        uint32_t *kind,
                                        uint32_t *user,
                                        char *words,
                                        size_t bytes);

// Whether the caller has an identity, written as in a policy: `uid 1000`, `key 5f1a0c7d2e9b8364`,
// `identity worker-3`, `certificate worker.example`, which is one of the names of its certificate. `yes` is
// 1 or 0. FARCALL_INVALID_ARGUMENT if `identity` is none.
//
// In the handler, before the reply: FARCALL_ALREADY_REPLIED afterwards. Allocates. Neither polls nor blocks.
farcall_status_t farcall_request_caller_is(const struct farcall_request_t *request,
                                           const char *identity,
                                           int32_t *yes);

// Calls a service of a peer and waits for the answer, which is to be released with
// `farcall_payload_release`. `code`, which may be null, is that of a handler that refused.
//
// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for `timeout_ns` at most,
// as `endpoint.idle` says. Of what is short, 232 bytes at most, it allocates only at first;
// `farcall_call_into` spares the copy, too.
farcall_status_t farcall_call(struct farcall_endpoint_t *endpoint,
                              struct farcall_peer_t peer,
                              uint16_t service,
                              const void *data,
                              size_t length,
                              uint64_t timeout_ns,
                              struct farcall_payload_t **answer,
                              uint8_t *code);

// As `farcall_call`, with a loan, which is gone in any case.
farcall_status_t farcall_call_loan(struct farcall_endpoint_t *endpoint,
                                   struct farcall_peer_t peer,
                                   uint16_t service,
                                   struct farcall_loan_t *loan,
                                   uint64_t timeout_ns,
                                   struct farcall_payload_t **answer,
                                   uint8_t *code);

// As `farcall_call`, and copies the answer into `room` bytes at `into`; `got` is its length. For answers
// that are longer FARCALL_TRUNCATED, with as many of its bytes as there is room for. Does not allocate for
// what is short.
farcall_status_t farcall_call_into(struct farcall_endpoint_t *endpoint,
                                   struct farcall_peer_t peer,
                                   uint16_t service,
                                   const void *data,
                                   size_t length,
                                   uint64_t timeout_ns,
                                   void *into,
                                   size_t room,
                                   size_t *got,
                                   uint8_t *code);

// Calls a service of a peer; `callback` gets the answer, once, during a later poll. `operation`, which may
// be null, is its number for `farcall_cancel`. When the call cannot be made the status says why, and there
// is no callback.
//
// From the endpoint's thread, also inside a callback. Neither polls nor blocks. Allocates where the bytes
// must be kept.
farcall_status_t farcall_call_async(struct farcall_endpoint_t *endpoint,
                                    struct farcall_peer_t peer,
                                    uint16_t service,
                                    const void *data,
                                    size_t length,
                                    uint64_t timeout_ns,
                                    farcall_answer_callback_t callback,
                                    void *context,
                                    uint32_t *operation);

// As `farcall_call_async`, with a loan, which is gone in any case.
farcall_status_t farcall_call_loan_async(struct farcall_endpoint_t *endpoint,
                                         struct farcall_peer_t peer,
                                         uint16_t service,
                                         struct farcall_loan_t *loan,
                                         uint64_t timeout_ns,
                                         farcall_answer_callback_t callback,
                                         void *context,
                                         uint32_t *operation);

// Takes an answer, to be released later; a long one that lies in the peer's memory is not copied. `answer`
// is the pointer that the callback got.
//
// In the callback. Allocates. Does not block. FARCALL_INVALID_ARGUMENT if there is no answer.
farcall_status_t farcall_answer_take(const struct farcall_answer_t *answer,
                                     struct farcall_payload_t **payload);

// Sends a message and waits until it has left: the bytes were copied, and it cannot be taken back. That the
// peer has received it is not said by that.
//
// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for `timeout_ns` at most,
// where the peer makes no room.
farcall_status_t farcall_send(struct farcall_endpoint_t *endpoint,
                              struct farcall_peer_t peer,
                              uint32_t tag,
                              const void *data,
                              size_t length,
                              uint64_t timeout_ns);

// Sends a message, which leaves with the next poll; `callback`, which may be null, gets its end during a
// later poll. `operation`, which may be null, is its number for `farcall_cancel`, UINT32_MAX if it has ended
// already. The bytes are copied.
//
// From the endpoint's thread, also inside a callback. Neither polls nor blocks. Allocates where the bytes
// must be kept.
farcall_status_t farcall_send_async(struct farcall_endpoint_t *endpoint,
                                    struct farcall_peer_t peer,
                                    uint32_t tag,
                                    const void *data,
                                    size_t length,
                                    uint64_t timeout_ns,
                                    farcall_sent_callback_t callback,
                                    void *context,
                                    uint32_t *operation);

// As `farcall_send_async`, with a loan, which is gone in any case.
farcall_status_t farcall_send_loan_async(struct farcall_endpoint_t *endpoint,
                                         struct farcall_peer_t peer,
                                         uint32_t tag,
                                         struct farcall_loan_t *loan,
                                         uint64_t timeout_ns,
                                         farcall_sent_callback_t callback,
                                         void *context,
                                         uint32_t *operation);

// Sends several messages to one peer, in their order; their ends are not reported. `sent`, which may be
// null, is the number of those that were accepted: the first that was not ends it, and the status says why.
//
// From the endpoint's thread, not inside a callback. Neither polls nor blocks: poll between batches.
// Allocates where the bytes must be kept.
farcall_status_t farcall_send_many(struct farcall_endpoint_t *endpoint,
                                   struct farcall_peer_t peer,
                                   uint32_t tag,
                                   const struct farcall_piece_t *pieces,
                                   size_t count,
                                   size_t *sent);

// Waits for a message from `from`, null for any sender, with that tag or FARCALL_ANY_TAG, and copies it into
// `room` bytes at `into`. `got`, `sender` and `sender_tag` may be null. A message that is longer ends the
// receive with FARCALL_TRUNCATED and is gone; `got` is its length then.
//
// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for `timeout_ns` at most.
// Does not allocate for what is short.
farcall_status_t farcall_receive_into(struct farcall_endpoint_t *endpoint,
                                      const struct farcall_peer_t *from,
                                      uint64_t tag,
                                      uint64_t timeout_ns,
                                      void *into,
                                      size_t room,
                                      size_t *got,
                                      struct farcall_peer_t *sender,
                                      uint32_t *sender_tag);

// As `farcall_receive_into`, and keeps the message, to be released with `farcall_payload_release`; a long
// one that lies in the sender's memory is not copied. Allocates.
farcall_status_t farcall_receive(struct farcall_endpoint_t *endpoint,
                                 const struct farcall_peer_t *from,
                                 uint64_t tag,
                                 uint64_t timeout_ns,
                                 struct farcall_payload_t **message,
                                 struct farcall_peer_t *sender,
                                 uint32_t *sender_tag);

// Asks for a message of at most `room` bytes, or of SIZE_MAX, from `from`, null for any sender,
// with that tag or FARCALL_ANY_TAG; `callback` gets it, once, during a later poll. A longer one ends the
// receive with FARCALL_TRUNCATED. `operation`, which may be null, is its number for `farcall_cancel`.
//
// From the endpoint's thread, also inside a callback. Neither polls nor blocks.
farcall_status_t farcall_receive_async(struct farcall_endpoint_t *endpoint,
                                       const struct farcall_peer_t *from,
                                       uint64_t tag,
                                       size_t room,
                                       uint64_t timeout_ns,
                                       farcall_message_callback_t callback,
                                       void *context,
                                       uint32_t *operation);

// Gives messages that no receive waits for to `callback`, during polls, instead of letting them wait.
//
// From the endpoint's thread, not inside a callback. Allocates. Neither polls nor blocks.
farcall_status_t farcall_on_message(struct farcall_endpoint_t *endpoint,
                                    farcall_message_callback_t callback,
                                    void *context);

// Takes a message, to be released later; a long one that lies in the sender's memory is not copied.
// `message` is the pointer that the callback got.
//
// In the callback. Allocates. Does not block. FARCALL_INVALID_ARGUMENT if there is no message.
farcall_status_t farcall_message_take(const struct farcall_message_t *message,
                                      struct farcall_payload_t **payload);

// Lists the endpoint under `name`, of 1 to 64 bytes without spaces, as one of its servers. Does not wait for
// the registry, which is told when it is there. When the process dies the name is withdrawn.
//
// From the endpoint's thread, not inside a callback. Allocates. Neither polls nor blocks.
farcall_status_t farcall_listen(struct farcall_endpoint_t *endpoint,
                                const char *name,
                                struct farcall_listener_t **listener,
                                struct farcall_error_t *error);

// Withdraws the name. Null is allowed.
//
// From any thread. Frees. Does not block.
void farcall_listener_close(struct farcall_listener_t *listener);

// Leaves before a planned stop: the name is withdrawn, requests that arrive from now on do not run and go to
// other servers, and those that have arrived are answered. `unanswered`, which may be null, is the number of
// those that were not in time. `listener` is gone, and so are the handlers of the endpoint.
//
// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for `timeout_ns` at most.
farcall_status_t farcall_listener_leave(struct farcall_listener_t *listener,
                                        struct farcall_endpoint_t *endpoint,
                                        uint64_t timeout_ns,
                                        size_t *unanswered);

// Connects to the servers of a name (`orders`), of a name at another registry (`farcall://host:7117/orders`),
// or at an address (`basic+udp://host:7001`). `balance` is FARCALL_ROUND_ROBIN or FARCALL_TWO_CHOICES. Does
// not wait: servers come and go behind it. To be closed before the endpoint.
//
// From the endpoint's thread, not inside a callback. Allocates. Neither polls nor blocks.
farcall_status_t farcall_connect(struct farcall_endpoint_t *endpoint,
                                 const char *target,
                                 uint32_t balance,
                                 struct farcall_connection_t **connection,
                                 struct farcall_error_t *error);

// Closes a connection; sessions stay until the endpoint is closed. Null is allowed.
//
// From the endpoint's thread, not inside a callback. Frees. Neither polls nor blocks.
farcall_status_t farcall_connection_close(struct farcall_connection_t *connection);

// One of the servers, with a session that is up or opening, for calls and messages that must go to the same.
// FARCALL_NO_SERVER if there is none within `timeout_ns`.
//
// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for `timeout_ns` at most.
farcall_status_t farcall_connection_peer(struct farcall_connection_t *connection,
                                         uint64_t timeout_ns,
                                         struct farcall_peer_t *peer,
                                         struct farcall_error_t *error);

// Calls a service of one of the servers and waits for the answer, which is to be released with
// `farcall_payload_release`. The call goes to another server if it certainly did not run at the first.
// `code`, which may be null, is that of a handler that refused.
//
// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for `timeout_ns` at most,
// the search for a server included. Allocates.
farcall_status_t farcall_connection_call(struct farcall_connection_t *connection,
                                         uint16_t service,
                                         const void *data,
                                         size_t length,
                                         uint64_t timeout_ns,
                                         struct farcall_payload_t **answer,
                                         uint8_t *code,
                                         struct farcall_error_t *error);

// The descriptor of an endpoint: readable when it has to be polled, as long as a wait is announced with
// `farcall_prepare_wait`. It stays the same, and belongs to the endpoint.
//
// From the endpoint's thread, not inside a callback. Allocates. Neither polls nor blocks.
farcall_status_t farcall_endpoint_fd(struct farcall_endpoint_t *endpoint, int32_t *fd);

// Announces a wait for the descriptor, after polls that found nothing to do. `timeout_ns` is how long it may
// last at most; 0 that there is something to do after all: nothing is announced then.
//
// From the endpoint's thread, not inside a callback. Polls: callbacks run. Allocates. Does not block.
farcall_status_t farcall_prepare_wait(struct farcall_endpoint_t *endpoint, uint64_t *timeout_ns);

// The wait is over; does nothing if none was announced.
//
// From the endpoint's thread, not inside a callback. Neither polls nor blocks.
farcall_status_t farcall_finish_wait(struct farcall_endpoint_t *endpoint);

// Waits until the endpoint has to be polled, for `timeout_ns` at most.
//
// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks.
farcall_status_t farcall_wait(struct farcall_endpoint_t *endpoint, uint64_t timeout_ns);

// Makes the group of these ranks of the node's world, of which this process is one; all of the world where
// `ranks` is null. Groups of an endpoint that exist at the same time or one after another have different
// numbers, the same at all members. Uses endpoint 0 of each process. Exchanges no messages. To be closed
// before the endpoint.
//
// From the endpoint's thread, not inside a callback. Allocates. Neither polls nor blocks.
farcall_status_t farcall_group_open(const struct farcall_node_t *node,
                                    struct farcall_endpoint_t *endpoint,
                                    uint16_t number,
                                    const uint32_t *ranks,
                                    size_t members,
                                    struct farcall_group_t **group,
                                    struct farcall_error_t *error);

// Ends the use of a group. Null is allowed.
//
// From the endpoint's thread, not inside a callback. Frees. Neither polls nor blocks.
farcall_status_t farcall_group_close(struct farcall_group_t *group);

// The number of this member, from 0 in the order of the ranks, and the number of members. Either place may
// be null.
//
// From the endpoint's thread, not while an operation of the group waits. Neither allocates nor blocks.
farcall_status_t farcall_group_rank(struct farcall_group_t *group, uint32_t *rank, uint32_t *members);

// Returns when all members have called it. FARCALL_DEFAULT_TIMEOUT is 30 s, here and in the functions below.
// A group whose operation failed is of no further use, at any member; `error` names the member at fault.
//
// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for `timeout_ns` at most.
// Allocates.
farcall_status_t farcall_group_barrier(struct farcall_group_t *group,
                                       uint64_t timeout_ns,
                                       struct farcall_error_t *error);

// Fills a buffer at all members with what the root has in it; as long at all of them.
//
// As `farcall_group_barrier`.
farcall_status_t farcall_group_broadcast(struct farcall_group_t *group,
                                         uint32_t root,
                                         void *buffer,
                                         size_t length,
                                         uint64_t timeout_ns,
                                         struct farcall_error_t *error);

// Combines the values of all members element by element, in place: `element` is FARCALL_DOUBLE or another of
// those, `op` FARCALL_SUM or another of those. All have the same bits afterwards.
//
// As `farcall_group_barrier`.
farcall_status_t farcall_group_all_reduce(struct farcall_group_t *group,
                                          void *values,
                                          size_t count,
                                          uint32_t element,
                                          uint32_t op,
                                          uint64_t timeout_ns,
                                          struct farcall_error_t *error);

// Collects a part of each member, `length` bytes at all of them, in `parts` at the root, which has room for
// all, in the order of the members. `parts` of the others may be null.
//
// As `farcall_group_barrier`.
farcall_status_t farcall_group_gather(struct farcall_group_t *group,
                                      uint32_t root,
                                      const void *part,
                                      size_t length,
                                      void *parts,
                                      uint64_t timeout_ns,
                                      struct farcall_error_t *error);

// Collects a part of each member, `length` bytes at all of them, in `parts` at all members.
//
// As `farcall_group_barrier`.
farcall_status_t farcall_group_all_gather(struct farcall_group_t *group,
                                          const void *part,
                                          size_t length,
                                          void *parts,
                                          uint64_t timeout_ns,
                                          struct farcall_error_t *error);

// Gives each member its part of `sent`, `length` bytes for each, and collects in `received` what the members
// had for this one. The two do not overlap.
//
// As `farcall_group_barrier`.
farcall_status_t farcall_group_all_to_all(struct farcall_group_t *group,
                                          const void *sent,
                                          void *received,
                                          size_t length,
                                          uint64_t timeout_ns,
                                          struct farcall_error_t *error);

// Makes a client of the shards on these ranks of the node's world: shard 0 on the first, and so on. To be
// closed before the endpoint.
//
// From the endpoint's thread, not inside a callback. Allocates. Neither polls nor blocks.
farcall_status_t farcall_store_open(struct farcall_endpoint_t *endpoint,
                                    const uint32_t *ranks,
                                    size_t shards,
                                    struct farcall_store_t **store);

// Ends the use of a store. Null is allowed.
//
// From the endpoint's thread, not inside a callback. Frees. Neither polls nor blocks.
farcall_status_t farcall_store_close(struct farcall_store_t *store);

// Creates a table on all shards, unless there is one of that name; `table` is its number.
//
// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for
// `endpoint.call_timeout` at most. Allocates.
farcall_status_t farcall_store_create_table(struct farcall_store_t *store,
                                            const char *name,
                                            uint64_t *table,
                                            struct farcall_error_t *error);

// As `farcall_store_create_table`, of a table whose writes survive what `level` says, as
// `farcall_store_level` has it: FARCALL_LEVEL_FLUSHED, or `2 << 1` for two other processes that have them,
// or both. A table that exists and survives as much stays as it is. A shard that cannot give the level
// refuses, with a sentence: FARCALL_LEVEL_REFUSED. Of several shards others may have created the table then.
farcall_status_t farcall_store_create_table_at(struct farcall_store_t *store,
                                               const char *name,
                                               uint32_t level,
                                               uint64_t *table,
                                               struct farcall_error_t *error);

// The number of the table of a name, whether or not there is one.
//
// From any thread. Neither polls, blocks nor allocates.
farcall_status_t farcall_table_number(const char *name, uint64_t *table);

// Reads an object: its value, to be released with `farcall_payload_release`, and its version, which may be
// null. FARCALL_NO_OBJECT if there is none.
//
// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for `timeout_ns` at most.
// Allocates.
farcall_status_t farcall_store_get(struct farcall_store_t *store,
                                   uint64_t table,
                                   const void *key,
                                   size_t key_length,
                                   uint64_t timeout_ns,
                                   struct farcall_payload_t **value,
                                   uint64_t *version,
                                   struct farcall_error_t *error);

// Writes an object if the one that is there has version `expected`, FARCALL_ABSENT or FARCALL_ANY_VERSION.
// `version`, which may be null, is that of the object afterwards; with FARCALL_WRONG_VERSION that of the one
// that is there, 0 if there is none.
//
// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for `timeout_ns` at most.
// Allocates.
farcall_status_t farcall_store_put(struct farcall_store_t *store,
                                   uint64_t table,
                                   const void *key,
                                   size_t key_length,
                                   const void *value,
                                   size_t value_length,
                                   uint64_t expected,
                                   uint64_t timeout_ns,
                                   uint64_t *version,
                                   struct farcall_error_t *error);

// Deletes an object if the one that is there has version `expected`, or FARCALL_ANY_VERSION. `version`,
// which may be null, is that which it had, 0 if there was none.
//
// As `farcall_store_put`.
farcall_status_t farcall_store_remove(struct farcall_store_t *store,
                                      uint64_t table,
                                      const void *key,
                                      size_t key_length,
                                      uint64_t expected,
                                      uint64_t timeout_ns,
                                      uint64_t *version,
                                      struct farcall_error_t *error);

// Adds to the number that an object is, in decimal digits; one that does not exist counts as 0. `sum` and
// `version` may be null.
//
// As `farcall_store_put`.
farcall_status_t farcall_store_increment(struct farcall_store_t *store,
                                         uint64_t table,
                                         const void *key,
                                         size_t key_length,
                                         int64_t amount,
                                         uint64_t timeout_ns,
                                         int64_t *sum,
                                         uint64_t *version,
                                         struct farcall_error_t *error);

// What the last write through this handle survives that was answered: that of its table when it was written.
// 0 is nothing. Bit 0 is FARCALL_LEVEL_FLUSHED: the disks of the processes that have it. The bits above it
// are a number: `level >> 1` other processes have it.
//
// From the endpoint's thread, not inside a callback. Neither polls, blocks nor allocates.
farcall_status_t farcall_store_level(struct farcall_store_t *store, uint32_t *level);

// Attaches to a daemon of a store on this host, which shares memory with this process from then on. `store`
// is what `farcall kv serve --at` was given, such as `127.0.0.1:7117`. `settings` is null, or as in
// `farcall_endpoint_open`. FARCALL_NO_SERVER if there is no daemon, FARCALL_REFUSED if it takes no more
// clients.
//
// From any thread: the slots belong to it from then on. Allocates. Blocks for 2 s at most for each daemon of
// the store on this host, and before that for as long as the resolver of the system takes to look up the
// host of `store`, if that is a name and no address.
farcall_status_t farcall_slots_attach(const char *store,
                                      const char *const *settings,
                                      struct farcall_slots_t **slots,
                                      struct farcall_error_t *error);

// Leaves the daemon, which gives the slots to others, also while a forked child lives. What was begun has no
// outcome any more, and may have happened, or happen yet. Null is allowed. A forked child leaves the slots
// of its parent alone: FARCALL_FORKED.
//
// From the slots' thread. Frees. Neither polls nor blocks.
farcall_status_t farcall_slots_detach(struct farcall_slots_t *slots);

// How many requests can be in flight at a time, and how many outcomes `farcall_slots_next` owes. Either
// place may be null.
//
// From the slots' thread. Neither polls, blocks nor allocates.
farcall_status_t farcall_slots_depth(struct farcall_slots_t *slots, size_t *depth, size_t *in_flight);

// Whether the daemon still lives: FARCALL_PEER_DEAD if it does not. Functions that wait, and
// `farcall_slots_next`, look now and then by themselves.
//
// From the slots' thread. Makes a system call. Neither polls, blocks nor allocates.
farcall_status_t farcall_slots_check(struct farcall_slots_t *slots);

// As `farcall_store_get`, through a slot. `table` is of `farcall_table_number`. FARCALL_TOO_MANY if all
// slots are in use, FARCALL_ANSWER_TOO_LONG if the value is longer than a slot: read it with a client of the
// store.
//
// From the slots' thread. Blocks for `timeout_ns` at most, and spins meanwhile; by default for 11 s. Runs no
// callbacks. Allocates the value.
farcall_status_t farcall_slots_get(struct farcall_slots_t *slots,
                                   uint64_t table,
                                   const void *key,
                                   size_t key_length,
                                   uint64_t timeout_ns,
                                   struct farcall_payload_t **value,
                                   uint64_t *version,
                                   struct farcall_error_t *error);

// As `farcall_store_put`, through a slot. FARCALL_TOO_LONG if key and value do not fit into a slot, which
// has the bytes of `farcall kv serve --slot-bytes` less 20: write it with a client of the store.
// FARCALL_TOO_MANY if all slots are in use. Nothing was changed then. With FARCALL_PEER_DEAD and
// FARCALL_TIMED_OUT it may have happened.
//
// From the slots' thread. Blocks for `timeout_ns` at most, and spins meanwhile; by default for 11 s. Runs no
// callbacks. Allocates only at first.
farcall_status_t farcall_slots_put(struct farcall_slots_t *slots,
                                   uint64_t table,
                                   const void *key,
                                   size_t key_length,
                                   const void *value,
                                   size_t value_length,
                                   uint64_t expected,
                                   uint64_t timeout_ns,
                                   uint64_t *version,
                                   struct farcall_error_t *error);

// As `farcall_store_remove`, through a slot.
//
// As `farcall_slots_put`.
farcall_status_t farcall_slots_remove(struct farcall_slots_t *slots,
                                      uint64_t table,
                                      const void *key,
                                      size_t key_length,
                                      uint64_t expected,
                                      uint64_t timeout_ns,
                                      uint64_t *version,
                                      struct farcall_error_t *error);

// As `farcall_store_increment`, through a slot.
//
// As `farcall_slots_put`.
farcall_status_t farcall_slots_increment(struct farcall_slots_t *slots,
                                         uint64_t table,
                                         const void *key,
                                         size_t key_length,
                                         int64_t amount,
                                         uint64_t timeout_ns,
                                         int64_t *sum,
                                         uint64_t *version,
                                         struct farcall_error_t *error);

// What the last write survives that was waited for through these slots; as `farcall_store_level`.
//
// From the slots' thread. Neither polls, blocks nor allocates.
farcall_status_t farcall_slots_level(struct farcall_slots_t *slots, uint32_t *level);

// Begins to read an object: `farcall_slots_next` gives its outcome, with the token. Key and value of a
// request are copied before this returns. FARCALL_TOO_MANY if all slots are in use, FARCALL_TOO_LONG if the
// key is longer than a slot, FARCALL_PEER_DEAD if the daemon is gone: nothing was begun.
//
// From the slots' thread. Neither polls nor blocks. Allocates only at first.
farcall_status_t farcall_slots_begin_get(struct farcall_slots_t *slots,
                                         uint64_t table,
                                         const void *key,
                                         size_t key_length,
                                         uint64_t token);

// Begins to write an object, if the one that is there has version `expected`, FARCALL_ABSENT or
// FARCALL_ANY_VERSION.
//
// As `farcall_slots_begin_get`.
farcall_status_t farcall_slots_begin_put(struct farcall_slots_t *slots,
                                         uint64_t table,
                                         const void *key,
                                         size_t key_length,
                                         const void *value,
                                         size_t value_length,
                                         uint64_t expected,
                                         uint64_t token);

// Begins to delete an object, if the one that is there has version `expected`, or FARCALL_ANY_VERSION.
//
// As `farcall_slots_begin_get`.
farcall_status_t farcall_slots_begin_remove(struct farcall_slots_t *slots,
                                            uint64_t table,
                                            const void *key,
                                            size_t key_length,
                                            uint64_t expected,
                                            uint64_t token);

// Begins to add to the number that an object is.
//
// As `farcall_slots_begin_get`.
farcall_status_t farcall_slots_begin_increment(struct farcall_slots_t *slots,
                                               uint64_t table,
                                               const void *key,
                                               size_t key_length,
                                               int64_t amount,
                                               uint64_t token);

// Looks for what has come of the requests that were begun: `outcome` is the next, in whatever order they
// come, and null if nothing has come since. To be called again and again. Once the daemon has ended every
// request that it has not answered has the status FARCALL_PEER_DEAD; it may have happened.
//
// From the slots' thread. Polls: looks at shared memory, and runs no callbacks; in many thousand looks makes
// a system call. Neither blocks nor allocates.
farcall_status_t farcall_slots_next(struct farcall_slots_t *slots,
                                    const struct farcall_slot_outcome_t **outcome);

// Gives `callback` every counter of this process, before it returns. FARCALL_RESOURCES where the system does
// not let the process read its own.
//
// From any thread. Allocates. Does not block.
farcall_status_t farcall_counters(farcall_counter_callback_t callback, void *context);

// Gives `callback` every parameter with its value at this node, before it returns.
//
// From any thread. Allocates. Does not block.
farcall_status_t farcall_parameters(const struct farcall_node_t *node,
                                    farcall_parameter_callback_t callback,
                                    void *context);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#define FARCALL_ERROR_INIT {sizeof(farcall_error_t), FARCALL_OK, {0}}

#define FARCALL_NODE_OPTIONS_INIT {sizeof(farcall_node_options_t), FARCALL_NODE_FROM_ENVIRONMENT, 0, NULL}

// Makes this process a member of its cluster; see `farcall_node_open_version`.
static inline farcall_status_t farcall_node_open(const farcall_node_options_t *options,
                                                 farcall_node_t **node, farcall_error_t *error) {
    return farcall_node_open_version(FARCALL_ABI_VERSION, options, node, error);
}
