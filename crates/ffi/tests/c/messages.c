// Tagged messages between two processes: waited for, with callbacks, in batches, on loan, cancelled, handled.

#include "check.h"

enum { ORDER = 1, BATCH = 2, LENT = 3, LONG = 4, DONE = 5, HANDLED = 6, READY = 7 };
enum { MESSAGES = 1000, LONG_BYTES = 300000 };

struct seen {
    int messages, cancelled, truncated, other;
    uint32_t next;
    farcall_payload_t *kept;
};

static void take(void *context, farcall_endpoint_t *endpoint, const farcall_message_t *message) {
    struct seen *seen = context;
    (void)endpoint;
    CHECK(message->size >= sizeof *message);
    if (message->status == FARCALL_CANCELLED) {
        CHECK_STATUS(farcall_message_take(message, &seen->kept), FARCALL_INVALID_ARGUMENT);
        seen->cancelled += 1;
    } else if (message->status == FARCALL_TRUNCATED) {
        seen->truncated += 1;
    } else if (message->status == FARCALL_OK) {
        uint32_t number;
        CHECK(message->length == sizeof number);
        memcpy(&number, message->data, sizeof number);
        CHECK(number == seen->next++);
        seen->messages += 1;
    } else {
        seen->other += 1;
    }
}

static void keep(void *context, farcall_endpoint_t *endpoint, const farcall_message_t *message) {
    struct seen *seen = context;
    (void)endpoint;
    CHECK(message->status == FARCALL_OK && message->tag == LENT);
    CHECK_OK(farcall_message_take(message, &seen->kept));
}

static void sent(void *context, farcall_endpoint_t *endpoint, farcall_status_t status) {
    int *count = context;
    (void)endpoint;
    CHECK(status == FARCALL_OK);
    *count += 1;
}

static void send_all(farcall_endpoint_t *endpoint, farcall_peer_t peer) {
    farcall_piece_t pieces[MESSAGES];
    static uint32_t numbers[MESSAGES];
    uint32_t i;
    int ends = 0;
    size_t done, accepted;
    farcall_loan_t *loan;
    unsigned char *bytes = malloc(LONG_BYTES);
    // The other side has posted receives for each of these, or has not yet: both are right.
    for (i = 0; i < MESSAGES; i++) {
        CHECK_OK(farcall_send_async(endpoint, peer, ORDER, &i, sizeof i, LONG_NS, sent, &ends, NULL));
        CHECK_OK(farcall_poll(endpoint, NULL));
    }
    while (ends < MESSAGES) {
        CHECK_OK(farcall_poll_idle(endpoint, NULL));
    }
    for (i = 0; i < MESSAGES; i++) {
        numbers[i] = i;
        pieces[i].data = &numbers[i];
        pieces[i].length = sizeof numbers[i];
    }
    for (done = 0; done < MESSAGES; done += accepted) {
        CHECK_OK(farcall_send_many(endpoint, peer, BATCH, pieces + done, 50, &accepted));
        CHECK(accepted == 50);
        CHECK_OK(farcall_poll(endpoint, NULL));
    }
    memset(bytes, 9, LONG_BYTES);
    CHECK_OK(farcall_loan(endpoint, LONG_BYTES, &loan));
    memset(farcall_loan_data(loan), 9, LONG_BYTES);
    CHECK_OK(farcall_send_loan_async(endpoint, peer, LENT, loan, LONG_NS, NULL, NULL, NULL));
    CHECK_OK(farcall_send(endpoint, peer, LONG, bytes, LONG_BYTES, LONG_NS));
    CHECK_OK(farcall_send(endpoint, peer, LONG, bytes, 10, LONG_NS));
    CHECK_OK(farcall_send(endpoint, peer, LONG, NULL, 0, LONG_NS));
    free(bytes);
    // Messages that no receive waits for are handled from here on.
    CHECK_OK(farcall_receive_into(endpoint, &peer, READY, LONG_NS, NULL, 0, NULL, NULL, NULL));
    for (i = 0; i < 100; i++) {
        CHECK_OK(farcall_send(endpoint, peer, HANDLED, &i, sizeof i, LONG_NS));
    }
    CHECK_OK(farcall_receive_into(endpoint, &peer, DONE, LONG_NS, NULL, 0, NULL, NULL, NULL));
}

static void receive_all(farcall_endpoint_t *endpoint, farcall_peer_t peer) {
    struct seen seen = {0, 0, 0, 0, 0, NULL};
    uint32_t operation, tag;
    unsigned char small[16];
    farcall_payload_t *payload;
    farcall_peer_t sender;
    size_t got, i;
    for (i = 0; i < MESSAGES; i++) {
        CHECK_OK(farcall_receive_async(endpoint, &peer, ORDER, 4, LONG_NS, take, &seen, NULL));
    }
    CHECK_OK(farcall_receive_async(endpoint, NULL, 77, SIZE_MAX, LONG_NS, take, &seen, &operation));
    CHECK_STATUS(farcall_receive_async(endpoint, NULL, FARCALL_ANY_TAG - 1, 4, LONG_NS, take, &seen, NULL),
                 FARCALL_INVALID_ARGUMENT);
    while (seen.messages < MESSAGES) {
        CHECK_OK(farcall_poll_idle(endpoint, NULL));
    }
    CHECK_OK(farcall_cancel(endpoint, operation));
    while (seen.cancelled == 0) {
        CHECK_OK(farcall_poll(endpoint, NULL));
    }
    CHECK_STATUS(farcall_cancel(endpoint, operation), FARCALL_OVER);
    for (i = 0; i < MESSAGES; i++) {
        uint32_t number = 0;
        CHECK_OK(farcall_receive_into(endpoint, NULL, BATCH, LONG_NS, &number, sizeof number, &got, &sender, &tag));
        CHECK(number == i && got == sizeof number);
        CHECK(tag == BATCH && sender.rank == peer.rank);
    }
    CHECK_OK(farcall_receive_async(endpoint, &peer, LENT, SIZE_MAX, LONG_NS, keep, &seen, NULL));
    while (seen.kept == NULL) {
        CHECK_OK(farcall_poll_idle(endpoint, NULL));
    }
    CHECK(farcall_payload_length(seen.kept) == LONG_BYTES);
    CHECK(((const unsigned char *)farcall_payload_data(seen.kept))[LONG_BYTES - 1] == 9);
    farcall_payload_release(seen.kept);
    CHECK_OK(farcall_receive(endpoint, &peer, FARCALL_ANY_TAG, LONG_NS, &payload, NULL, &tag));
    CHECK(tag == LONG && farcall_payload_length(payload) == LONG_BYTES);
    farcall_payload_release(payload);
    CHECK_STATUS(farcall_receive_into(endpoint, &peer, LONG, LONG_NS, small, 4, &got, NULL, NULL), FARCALL_TRUNCATED);
    CHECK(got == 10);
    CHECK_OK(farcall_receive_into(endpoint, &peer, LONG, LONG_NS, small, 4, &got, NULL, NULL));
    CHECK(got == 0);
    CHECK_STATUS(farcall_receive_into(endpoint, &peer, 88, 1000000, small, 4, &got, NULL, NULL), FARCALL_TIMED_OUT);
    seen.messages = 0;
    seen.next = 0;
    CHECK_OK(farcall_on_message(endpoint, take, &seen));
    CHECK_OK(farcall_send(endpoint, peer, READY, NULL, 0, LONG_NS));
    while (seen.messages < 100) {
        CHECK_OK(farcall_poll_idle(endpoint, NULL));
    }
    CHECK(seen.other == 0 && seen.truncated == 0);
    CHECK_OK(farcall_send(endpoint, peer, DONE, NULL, 0, LONG_NS));
}

int main(int count, char **arguments) {
    farcall_node_options_t options = FARCALL_NODE_OPTIONS_INIT;
    farcall_error_t error = FARCALL_ERROR_INIT;
    farcall_node_t *node;
    farcall_endpoint_t *endpoint;
    farcall_peer_t peer;
    uint32_t rank;
    options.kind = FARCALL_NODE_LOCAL;
    options.processes = 2;
    CHECK_SAID(farcall_node_open(&options, &node, &error), error);
    CHECK_OK(farcall_node_rank(node, &rank, NULL));
    CHECK_SAID(farcall_endpoint_open(node, count > 1 ? arguments[1] : "ring+shm", NULL, &endpoint, &error), error);
    CHECK_SAID(farcall_peer(endpoint, 1 - rank, 0, LONG_NS, &peer, &error), error);
    if (rank == 0) {
        send_all(endpoint, peer);
    } else {
        receive_all(endpoint, peer);
    }
    CHECK_SAID(farcall_node_barrier(node, "done", LONG_NS, &error), error);
    CHECK_OK(farcall_endpoint_close(endpoint));
    CHECK_OK(farcall_node_close(node));
    return 0;
}
