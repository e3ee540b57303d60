// What calls and messages cost from C: `price CALLS MESSAGES`, two processes over ring+shm. Rank r runs on the
// r-th core that the process may use. Prints the median round trip of 30 B in nanoseconds, with an answer that
// is kept and with one that comes into the caller's memory, and messages of 8 B in a second: one by one, and in
// batches of 10. See scripts/bench-c.

#define _GNU_SOURCE

#include <farcall.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ECHO = 1, STOP = 2, TAG = 7, BATCH = 10 };

static size_t arrived;
static int is_over;

#define MUST(expression)                                                                                     \
    do {                                                                                                     \
        farcall_status_t status_ = (expression);                                                             \
        if (status_ != FARCALL_OK) {                                                                         \
            fprintf(stderr, "%s: %s\n", #expression, farcall_status_text(status_));                          \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static void echo(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    (void)context;
    (void)endpoint;
    MUST(farcall_reply(request, farcall_request_data(request), farcall_request_length(request)));
}

static void stop(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    (void)context;
    (void)endpoint;
    is_over = 1;
    MUST(farcall_reply(request, NULL, 0));
}

static void count_message(void *context, farcall_endpoint_t *endpoint, const farcall_message_t *message) {
    (void)context;
    (void)endpoint;
    arrived += message->status == FARCALL_OK;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static int by_size(const void *left, const void *right) {
    double difference = *(const double *)left - *(const double *)right;
    return (difference > 0) - (difference < 0);
}

#define CALLS_PER_BLOCK 20

// The core of a rank, of those that this process may use.
static void pin(uint32_t rank) {
    cpu_set_t allowed, one;
    int core, found = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        return;
    }
    for (core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &allowed) && found++ == (int)rank) {
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
    }
}

// The median over blocks of calls: to read the clock takes a tenth of one.
static double echo_ns(farcall_endpoint_t *endpoint, farcall_peer_t peer, size_t calls, int is_kept) {
    size_t blocks = calls / CALLS_PER_BLOCK, warm_up = blocks / 10 + 1, block, call;
    double *times = malloc((blocks + 1) * sizeof *times), median;
    char bytes[30] = {0}, into[30];
    for (block = 0; block < warm_up + blocks; block++) {
        double begun = now();
        for (call = 0; call < CALLS_PER_BLOCK; call++) {
            farcall_payload_t *answer;
            if (!is_kept) {
                MUST(farcall_call_into(endpoint, peer, ECHO, bytes, sizeof bytes, FARCALL_DEFAULT_TIMEOUT,
                                       into, sizeof into, NULL, NULL));
                continue;
            }
            MUST(farcall_call(endpoint, peer, ECHO, bytes, sizeof bytes, FARCALL_DEFAULT_TIMEOUT, &answer,
                              NULL));
            farcall_payload_release(answer);
        }
        if (block >= warm_up) {
            times[block - warm_up] = (now() - begun) / CALLS_PER_BLOCK;
        }
    }
    qsort(times, blocks, sizeof *times, by_size);
    median = times[blocks / 2];
    free(times);
    return median;
}

// Messages in a second, until the last has arrived: the call behind them is answered after it.
static double rate(farcall_endpoint_t *endpoint, farcall_peer_t peer, size_t messages, int in_batches) {
    char bytes[8] = {0};
    farcall_piece_t pieces[BATCH];
    size_t sent, done = 0, i;
    double begun;
    for (i = 0; i < BATCH; i++) {
        pieces[i].data = bytes;
        pieces[i].length = sizeof bytes;
    }
    begun = now();
    while (done < messages) {
        if (in_batches) {
            farcall_status_t status = farcall_send_many(endpoint, peer, TAG, pieces, BATCH, &sent);
            done += sent;
            // Messages for which the peer has made no room are operations in flight, of which there is a limit.
            MUST(status == FARCALL_TOO_MANY ? farcall_poll_idle(endpoint, NULL) : status);
        } else {
            MUST(farcall_send(endpoint, peer, TAG, bytes, sizeof bytes, FARCALL_DEFAULT_TIMEOUT));
            done += 1;
        }
    }
    MUST(farcall_call(endpoint, peer, ECHO, bytes, 1, FARCALL_DEFAULT_TIMEOUT, NULL, NULL));
    return 1e9 * (double)done / (now() - begun);
}

int main(int count, char **arguments) {
    const char *settings[] = {"endpoint.idle=spin", NULL};
    farcall_node_options_t options = FARCALL_NODE_OPTIONS_INIT;
    farcall_error_t error = FARCALL_ERROR_INIT;
    farcall_node_t *node;
    farcall_endpoint_t *endpoint;
    farcall_peer_t peer;
    uint32_t rank;
    size_t calls = count > 1 ? (size_t)atol(arguments[1]) : 100000;
    size_t messages = count > 2 ? (size_t)atol(arguments[2]) : 5000000;
    options.kind = FARCALL_NODE_LOCAL;
    options.processes = 2;
    MUST(farcall_node_open(&options, &node, &error));
    MUST(farcall_node_rank(node, &rank, NULL));
    pin(rank);
    MUST(farcall_endpoint_open(node, "ring+shm", settings, &endpoint, &error));
    MUST(farcall_serve(endpoint, ECHO, echo, NULL));
    MUST(farcall_serve(endpoint, STOP, stop, NULL));
    MUST(farcall_on_message(endpoint, count_message, NULL));
    if (rank == 1) {
        while (!is_over) {
            MUST(farcall_poll_idle(endpoint, NULL));
        }
        MUST(farcall_poll(endpoint, NULL));
    } else {
        MUST(farcall_peer(endpoint, 1, 0, FARCALL_DEFAULT_TIMEOUT, &peer, &error));
        MUST(farcall_wait_for_peer(endpoint, peer));
        printf("%.0f ", echo_ns(endpoint, peer, calls, 1));
        printf("%.0f ", echo_ns(endpoint, peer, calls, 0));
        printf("%.0f ", rate(endpoint, peer, messages, 0));
        printf("%.0f\n", rate(endpoint, peer, messages, 1));
        MUST(farcall_call(endpoint, peer, STOP, NULL, 0, FARCALL_DEFAULT_TIMEOUT, NULL, NULL));
    }
    MUST(farcall_node_barrier(node, "done", UINT64_C(60000000000), &error));
    MUST(farcall_endpoint_close(endpoint));
    MUST(farcall_node_close(node));
    return 0;
}
