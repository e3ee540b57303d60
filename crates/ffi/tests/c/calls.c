// Calls between two processes: waited for, with callbacks, on loan, refused, deferred, cancelled.

#include "check.h"

#include <pthread.h>

enum { ECHO = 1, REFUSE = 2, IGNORE = 3, LATER = 4, COUNT = 5, SILENT = 6, STOP = 7, CHAIN = 8, LENT = 9, TAKEN = 10, BECAUSE = 11, NOBODY = 99 };

static int is_over;
static farcall_deferred_t *kept[64];
static int kept_count;

static void echo(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    (void)context, (void)endpoint;
    CHECK_OK(farcall_reply(request, farcall_request_data(request), farcall_request_length(request)));
    CHECK_STATUS(farcall_reply(request, NULL, 0), FARCALL_ALREADY_REPLIED);
}

static void refuse(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    (void)context, (void)endpoint;
    CHECK_OK(farcall_refuse(request, 77));
}

static void refuse_because(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    (void)context, (void)endpoint;
    CHECK_STATUS(farcall_refuse_because(request, 78, NULL), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_refuse_because(request, 78, "\xff"), FARCALL_INVALID_ARGUMENT);
    CHECK_OK(farcall_refuse_because(request, 78, "closed on Mondays"));
    CHECK_STATUS(farcall_refuse_because(request, 78, "again"), FARCALL_ALREADY_REPLIED);
}

static void ignore(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    (void)context, (void)endpoint, (void)request;
}

static void *answer_later(void *deferred) {
    CHECK_OK(farcall_deferred_reply(deferred, "later", 5));
    return NULL;
}

// Another thread answers.
static void later(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    farcall_deferred_t *deferred;
    pthread_t thread;
    (void)context, (void)endpoint;
    CHECK_OK(farcall_defer(request, &deferred));
    CHECK(pthread_create(&thread, NULL, answer_later, deferred) == 0);
    CHECK(pthread_detach(thread) == 0);
}

static void count(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    int *calls = context;
    (void)endpoint;
    *calls += 1;
    CHECK_OK(farcall_reply(request, calls, sizeof *calls));
}

// Never answers.
static void silent(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    (void)context, (void)endpoint;
    CHECK(kept_count < 64);
    CHECK_OK(farcall_defer(request, &kept[kept_count++]));
}

static void stop(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    (void)context, (void)endpoint;
    is_over = 1;
    CHECK_OK(farcall_reply(request, NULL, 0));
}

static void lent(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    size_t length = farcall_request_length(request);
    const unsigned char *data = farcall_request_data(request);
    farcall_loan_t *loan;
    unsigned char *bytes;
    size_t i;
    (void)context;
    CHECK_OK(farcall_loan(endpoint, length + 1, &loan));
    CHECK(farcall_loan_length(loan) == length + 1);
    bytes = farcall_loan_data(loan);
    for (i = 0; i < length; i++) {
        bytes[i] = (unsigned char)(data[i] + 1);
    }
    CHECK_STATUS(farcall_loan_truncate(loan, length + 2), FARCALL_INVALID_ARGUMENT);
    CHECK_OK(farcall_loan_truncate(loan, length));
    CHECK_OK(farcall_reply_loan(request, loan));
}

// Replies with what a call of its own to the caller gives.
static void chained(void *deferred, farcall_endpoint_t *endpoint, const farcall_answer_t *answer) {
    (void)endpoint;
    CHECK(answer->status == FARCALL_OK);
    CHECK_OK(farcall_deferred_reply(deferred, answer->data, answer->length));
}

static void chain(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    farcall_peer_t peer;
    uint16_t service;
    farcall_deferred_t *deferred;
    (void)context;
    CHECK_OK(farcall_request_origin(request, &peer, &service));
    CHECK(service == CHAIN);
    CHECK_STATUS(farcall_poll(endpoint, NULL), FARCALL_IN_CALLBACK);
    CHECK_STATUS(farcall_endpoint_close(endpoint), FARCALL_IN_CALLBACK);
    CHECK_OK(farcall_defer(request, &deferred));
    CHECK_OK(farcall_call_async(endpoint, peer, ECHO, "and back", 8, LONG_NS, chained, deferred, NULL));
}

// Answers with a loan of what it took, and refuses what is empty.
static void take_and_defer(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    farcall_payload_t *payload;
    farcall_deferred_t *deferred;
    farcall_loan_t *loan;
    size_t length;
    (void)context;
    CHECK_OK(farcall_request_take(request, &payload));
    CHECK_OK(farcall_defer(request, &deferred));
    CHECK_STATUS(farcall_defer(request, &deferred), FARCALL_ALREADY_REPLIED);
    length = farcall_payload_length(payload);
    if (length == 0) {
        CHECK_OK(farcall_deferred_refuse(deferred, 5));
    } else if (length == 1) {
        CHECK_OK(farcall_deferred_refuse_because(deferred, 6, "too short"));
    } else {
        CHECK_OK(farcall_loan(endpoint, length, &loan));
        memcpy(farcall_loan_data(loan), farcall_payload_data(payload), length);
        CHECK_OK(farcall_deferred_reply_loan(deferred, loan));
    }
    farcall_payload_release(payload);
}

struct tally {
    int ok, cancelled, other;
    size_t bytes;
};

static void counted(void *context, farcall_endpoint_t *endpoint, const farcall_answer_t *answer) {
    struct tally *tally = context;
    (void)endpoint;
    CHECK(answer->size >= sizeof *answer);
    if (answer->status == FARCALL_OK) {
        tally->ok += 1;
        tally->bytes += answer->length;
    } else if (answer->status == FARCALL_CANCELLED) {
        tally->cancelled += 1;
    } else {
        tally->other += 1;
    }
}

static void refused(void *context, farcall_endpoint_t *endpoint, const farcall_answer_t *answer) {
    char *said = context;
    farcall_payload_t *payload;
    (void)endpoint;
    CHECK_STATUS(answer->status, FARCALL_REFUSED);
    CHECK_STATUS(farcall_answer_take(answer, &payload), FARCALL_INVALID_ARGUMENT);
    CHECK(answer->length < 64);
    memcpy(said, answer->data, answer->length);
    said[answer->length] = (char)answer->code;
}

static void taken(void *context, farcall_endpoint_t *endpoint, const farcall_answer_t *answer) {
    farcall_payload_t **payload = context;
    (void)endpoint;
    CHECK_OK(farcall_answer_take(answer, payload));
}

struct elsewhere {
    farcall_endpoint_t *endpoint;
    farcall_peer_t peer;
};

static void *use_elsewhere(void *context) {
    struct elsewhere *elsewhere = context;
    CHECK_STATUS(farcall_poll(elsewhere->endpoint, NULL), FARCALL_WRONG_THREAD);
    CHECK_STATUS(farcall_call(elsewhere->endpoint, elsewhere->peer, ECHO, "x", 1, LONG_NS, NULL, NULL),
                 FARCALL_WRONG_THREAD);
    CHECK_STATUS(farcall_endpoint_close(elsewhere->endpoint), FARCALL_WRONG_THREAD);
    return NULL;
}

static void waited(farcall_endpoint_t *endpoint, farcall_peer_t peer) {
    char into[32];
    size_t got;
    uint8_t code = 0;
    farcall_payload_t *answer, *shared;
    CHECK_OK(farcall_call_into(endpoint, peer, ECHO, "hello", 5, LONG_NS, into, sizeof into, &got, &code));
    CHECK(got == 5 && memcmp(into, "hello", 5) == 0);
    CHECK_STATUS(farcall_call_into(endpoint, peer, ECHO, "hello", 5, LONG_NS, into, 2, &got, NULL),
                 FARCALL_TRUNCATED);
    CHECK(got == 5 && memcmp(into, "he", 2) == 0);
    CHECK_OK(farcall_call(endpoint, peer, ECHO, NULL, 0, FARCALL_DEFAULT_TIMEOUT, &answer, NULL));
    CHECK(farcall_payload_length(answer) == 0);
    farcall_payload_release(answer);
    CHECK_OK(farcall_call(endpoint, peer, ECHO, "kept", 4, LONG_NS, &answer, NULL));
    shared = farcall_payload_share(answer);
    farcall_payload_release(answer);
    CHECK(farcall_payload_length(shared) == 4 && memcmp(farcall_payload_data(shared), "kept", 4) == 0);
    farcall_payload_release(shared);
    CHECK_STATUS(farcall_call(endpoint, peer, REFUSE, "x", 1, LONG_NS, &answer, &code), FARCALL_REFUSED);
    CHECK(code == 77);
    CHECK_STATUS(farcall_call(endpoint, peer, IGNORE, "x", 1, LONG_NS, &answer, &code), FARCALL_ABANDONED);
    CHECK(code == 0);
    CHECK_STATUS(farcall_call(endpoint, peer, NOBODY, "x", 1, LONG_NS, &answer, NULL), FARCALL_UNKNOWN_SERVICE);
    CHECK_STATUS(farcall_call(endpoint, peer, SILENT, "x", 1, 1000000, &answer, NULL), FARCALL_TIMED_OUT);
    CHECK_OK(farcall_call_into(endpoint, peer, LATER, "x", 1, LONG_NS, into, sizeof into, &got, NULL));
    CHECK(got == 5 && memcmp(into, "later", 5) == 0);
    CHECK_OK(farcall_call_into(endpoint, peer, CHAIN, "x", 1, LONG_NS, into, sizeof into, &got, NULL));
    CHECK(got == 8 && memcmp(into, "and back", 8) == 0);
}

// The end of a text is the code.
static void reasons(farcall_endpoint_t *endpoint, farcall_peer_t peer) {
    char said[4][64] = {"", "", "", ""};
    CHECK_OK(farcall_call_async(endpoint, peer, REFUSE, "x", 1, LONG_NS, refused, said[0], NULL));
    CHECK_OK(farcall_call_async(endpoint, peer, BECAUSE, "x", 1, LONG_NS, refused, said[1], NULL));
    CHECK_OK(farcall_call_async(endpoint, peer, TAKEN, "", 0, LONG_NS, refused, said[2], NULL));
    CHECK_OK(farcall_call_async(endpoint, peer, TAKEN, "x", 1, LONG_NS, refused, said[3], NULL));
    while (said[0][0] == 0 || said[1][0] == 0 || said[2][0] == 0 || said[3][0] == 0) {
        CHECK_OK(farcall_poll_idle(endpoint, NULL));
    }
    CHECK(strcmp(said[0], "M") == 0 && strcmp(said[1], "closed on MondaysN") == 0);
    CHECK(strcmp(said[2], "\5") == 0 && strcmp(said[3], "too short\6") == 0);
}

static void asynchronous(farcall_endpoint_t *endpoint, farcall_peer_t peer) {
    struct tally tally = {0, 0, 0, 0};
    uint32_t operation, over = 0;
    farcall_payload_t *payload = NULL;
    int i;
    for (i = 0; i < 20; i++) {
        CHECK_OK(farcall_call_async(endpoint, peer, ECHO, "0123456789", (size_t)i / 2, LONG_NS, counted, &tally, &over));
    }
    CHECK_OK(farcall_call_async(endpoint, peer, SILENT, "x", 1, LONG_NS, counted, &tally, &operation));
    while (tally.ok < 20) {
        CHECK_OK(farcall_poll_idle(endpoint, NULL));
    }
    CHECK(tally.bytes == 90);
    CHECK_OK(farcall_cancel(endpoint, operation));
    CHECK_STATUS(farcall_cancel(endpoint, over), FARCALL_OVER);
    while (tally.cancelled == 0) {
        CHECK_OK(farcall_poll(endpoint, NULL));
    }
    CHECK(tally.other == 0);
    CHECK_OK(farcall_call_async(endpoint, peer, ECHO, "taken", 5, LONG_NS, taken, &payload, NULL));
    while (payload == NULL) {
        CHECK_OK(farcall_poll_idle(endpoint, NULL));
    }
    CHECK(farcall_payload_length(payload) == 5 && memcmp(farcall_payload_data(payload), "taken", 5) == 0);
    farcall_payload_release(payload);
}

static void loans(farcall_endpoint_t *endpoint, farcall_peer_t peer) {
    size_t sizes[] = {0, 1, 1000, 100000, 1000000};
    size_t i, k;
    struct tally tally = {0, 0, 0, 0};
    farcall_loan_t *loan;
    uint8_t code = 0;
    for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        farcall_payload_t *answer;
        const unsigned char *data;
        CHECK_OK(farcall_loan(endpoint, sizes[i], &loan));
        memset(farcall_loan_data(loan), 7, sizes[i]);
        CHECK_OK(farcall_call_loan(endpoint, peer, LENT, loan, LONG_NS, &answer, NULL));
        CHECK(farcall_payload_length(answer) == sizes[i]);
        data = farcall_payload_data(answer);
        for (k = 0; k < sizes[i]; k++) {
            CHECK(data[k] == 8);
        }
        farcall_payload_release(answer);
        CHECK_OK(farcall_loan(endpoint, sizes[i], &loan));
        farcall_loan_drop(loan);
    }
    CHECK_OK(farcall_loan(endpoint, 50000, &loan));
    memset(farcall_loan_data(loan), 7, 50000);
    CHECK_OK(farcall_call_loan_async(endpoint, peer, TAKEN, loan, LONG_NS, counted, &tally, NULL));
    while (tally.ok == 0) {
        CHECK_OK(farcall_poll_idle(endpoint, NULL));
    }
    CHECK(tally.bytes == 50000);
    CHECK_STATUS(farcall_call(endpoint, peer, TAKEN, NULL, 0, LONG_NS, NULL, &code), FARCALL_REFUSED);
    CHECK(code == 5);
}

static void mistakes(farcall_endpoint_t *endpoint, farcall_peer_t peer) {
    struct elsewhere elsewhere;
    farcall_peer_t nobody = {12345, 6, 7};
    pthread_t thread;
    elsewhere.endpoint = endpoint, elsewhere.peer = peer;
    CHECK(pthread_create(&thread, NULL, use_elsewhere, &elsewhere) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_STATUS(farcall_poll(NULL, NULL), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_call(endpoint, peer, ECHO, NULL, 1, LONG_NS, NULL, NULL), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_call(endpoint, nobody, ECHO, "x", 1, LONG_NS, NULL, NULL), FARCALL_NOT_CONNECTED);
    CHECK_STATUS(farcall_serve(endpoint, 65535, echo, NULL), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_serve(endpoint, ECHO, NULL, NULL), FARCALL_INVALID_ARGUMENT);
    CHECK_OK(farcall_endpoint_close(NULL));
    CHECK(strcmp(farcall_status_text(FARCALL_TIMED_OUT), "the deadline passed") == 0);
    CHECK(strcmp(farcall_status_text(123456), "a status of a later version") == 0);
}

int main(int count_of_arguments, char **arguments) {
    farcall_node_options_t options = FARCALL_NODE_OPTIONS_INIT;
    farcall_error_t error = FARCALL_ERROR_INIT;
    farcall_node_t *node;
    farcall_endpoint_t *endpoint;
    farcall_peer_t peer;
    uint32_t rank, ranks;
    const char *settings[] = {"endpoint.idle=block", NULL}, *wrong[] = {"endpoint.idel=block", NULL};
    const char *transport = count_of_arguments > 1 ? arguments[1] : "ring+shm";
    int calls = 0;
    CHECK_STATUS(farcall_node_open_version(FARCALL_ABI_VERSION + 1, NULL, &node, &error), FARCALL_VERSION_MISMATCH);
    CHECK(strstr(error.text, "compile it again") != NULL);
    options.kind = FARCALL_NODE_LOCAL;
    options.processes = 2;
    CHECK_SAID(farcall_node_open(&options, &node, &error), error);
    CHECK_OK(farcall_node_rank(node, &rank, &ranks));
    CHECK(ranks == 2 && rank < 2);
    CHECK_STATUS(farcall_endpoint_open(node, "pigeon", NULL, &endpoint, &error), FARCALL_UNKNOWN_TRANSPORT);
    CHECK_STATUS(farcall_endpoint_open(node, transport, wrong, &endpoint, &error), FARCALL_SETTINGS);
    CHECK(strstr(error.text, "endpoint.idle") != NULL);
    CHECK_SAID(farcall_endpoint_open(node, transport, settings, &endpoint, &error), error);
    CHECK_OK(farcall_serve(endpoint, ECHO, echo, NULL));
    CHECK_OK(farcall_serve(endpoint, REFUSE, refuse, NULL));
    CHECK_OK(farcall_serve(endpoint, BECAUSE, refuse_because, NULL));
    CHECK_OK(farcall_serve(endpoint, IGNORE, ignore, NULL));
    CHECK_OK(farcall_serve(endpoint, LATER, later, NULL));
    CHECK_OK(farcall_serve(endpoint, COUNT, count, &calls));
    CHECK_OK(farcall_serve(endpoint, SILENT, silent, NULL));
    CHECK_OK(farcall_serve(endpoint, STOP, stop, NULL));
    CHECK_OK(farcall_serve(endpoint, CHAIN, chain, NULL));
    CHECK_OK(farcall_serve(endpoint, LENT, lent, NULL));
    CHECK_OK(farcall_serve(endpoint, TAKEN, take_and_defer, NULL));
    if (rank == 1) {
        while (!is_over) {
            CHECK_OK(farcall_poll_idle(endpoint, NULL));
        }
        // Those that wait for an answer are told that there is none.
        while (kept_count > 0) {
            farcall_deferred_drop(kept[--kept_count]);
        }
        CHECK_OK(farcall_poll(endpoint, NULL));
    } else {
        CHECK_SAID(farcall_peer(endpoint, 1, 0, FARCALL_DEFAULT_TIMEOUT, &peer, &error), error);
        CHECK_OK(farcall_wait_for_peer(endpoint, peer));
        waited(endpoint, peer);
        reasons(endpoint, peer);
        asynchronous(endpoint, peer);
        loans(endpoint, peer);
        mistakes(endpoint, peer);
        CHECK_OK(farcall_call(endpoint, peer, STOP, NULL, 0, LONG_NS, NULL, NULL));
    }
    CHECK_SAID(farcall_node_barrier(node, "done", LONG_NS, &error), error);
    CHECK_OK(farcall_endpoint_close(endpoint));
    CHECK_OK(farcall_node_close(node));
    return 0;
}
