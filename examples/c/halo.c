// A ring of processes, each with a row of cells: heat flows, and neighbours exchange their edges at each step
// with posted receives. See docs/c.md.
//
//     ./halo 4 100

#include <farcall.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CELLS = 64, TO_LEFT = 1, TO_RIGHT = 2 };

struct halo {
    double left, right;
    int missing;
};

static void check(farcall_status_t status, const char *what) {
    if (status != FARCALL_OK) {
        fprintf(stderr, "halo: %s: %s\n", what, farcall_status_text(status));
        exit(1);
    }
}

// An edge of a neighbour has arrived.
static void arrived(void *context, farcall_endpoint_t *endpoint, const farcall_message_t *message) {
    struct halo *halo = context;
    (void)endpoint;
    check(message->status, "receive");
    *(message->tag == TO_RIGHT ? &halo->left : &halo->right) = *(const double *)message->data;
    halo->missing -= 1;
}

static void exchange(farcall_endpoint_t *endpoint, const farcall_peer_t neighbours[2], const double *cells,
                     struct halo *halo) {
    const uint64_t default_ns = FARCALL_DEFAULT_TIMEOUT;
    halo->missing = 2;
    check(farcall_receive_async(endpoint, &neighbours[0], TO_RIGHT, sizeof(double), default_ns, arrived, halo, NULL),
          "receive");
    check(farcall_receive_async(endpoint, &neighbours[1], TO_LEFT, sizeof(double), default_ns, arrived, halo, NULL),
          "receive");
    check(farcall_send_async(endpoint, neighbours[0], TO_LEFT, &cells[0], sizeof(double), default_ns, NULL, NULL, NULL),
          "send");
    check(farcall_send_async(endpoint, neighbours[1], TO_RIGHT, &cells[CELLS - 1], sizeof(double), default_ns, NULL,
                             NULL, NULL),
          "send");
    while (halo->missing > 0) {
        check(farcall_poll_idle(endpoint, NULL), "poll");
    }
}

int main(int count, char **arguments) {
    farcall_node_options_t options = FARCALL_NODE_OPTIONS_INIT;
    farcall_error_t error = FARCALL_ERROR_INIT;
    farcall_node_t *node;
    farcall_endpoint_t *endpoint;
    farcall_peer_t neighbours[2];
    double cells[CELLS] = {0}, next[CELLS], heat = 0;
    int steps = count > 2 ? atoi(arguments[2]) : 100, step, i;
    uint32_t rank, ranks;

    options.kind = FARCALL_NODE_LOCAL;
    options.processes = count > 1 ? (uint32_t)atoi(arguments[1]) : 2;
    if (farcall_node_open(&options, &node, &error) != FARCALL_OK ||
        farcall_endpoint_open(node, "ring+shm", NULL, &endpoint, &error) != FARCALL_OK) {
        fprintf(stderr, "halo: %s\n", error.text);
        return 1;
    }
    farcall_node_rank(node, &rank, &ranks);
    if (farcall_peer(endpoint, (rank + ranks - 1) % ranks, 0, FARCALL_DEFAULT_TIMEOUT, &neighbours[0], &error) ||
        farcall_peer(endpoint, (rank + 1) % ranks, 0, FARCALL_DEFAULT_TIMEOUT, &neighbours[1], &error)) {
        fprintf(stderr, "halo: %s\n", error.text);
        return 1;
    }
    if (rank == 0) {
        cells[0] = 1000;
    }
    for (step = 0; step < steps; step++) {
        struct halo halo;
        exchange(endpoint, neighbours, cells, &halo);
        for (i = 0; i < CELLS; i++) {
            double left = i == 0 ? halo.left : cells[i - 1], right = i == CELLS - 1 ? halo.right : cells[i + 1];
            next[i] = cells[i] + (left + right - 2 * cells[i]) / 4;
        }
        for (i = 0; i < CELLS; i++) {
            cells[i] = next[i];
        }
    }

    // All heat is still there: rank 0 asks each for its share.
    for (i = 0; i < CELLS; i++) {
        heat += cells[i];
    }
    if (rank == 0) {
        for (i = 1; i < (int)ranks; i++) {
            double share;
            check(farcall_receive_into(endpoint, NULL, 3, FARCALL_DEFAULT_TIMEOUT, &share, sizeof share, NULL, NULL, NULL),
                  "receive");
            heat += share;
        }
        printf("%u processes, %d steps: %.3f of 1000 units of heat\n", (unsigned)ranks, steps, heat);
    } else {
        farcall_peer_t first;
        farcall_peer(endpoint, 0, 0, FARCALL_DEFAULT_TIMEOUT, &first, NULL);
        check(farcall_send(endpoint, first, 3, &heat, sizeof heat, FARCALL_DEFAULT_TIMEOUT), "send");
    }
    farcall_node_barrier(node, "done", UINT64_C(10000000000), NULL);
    farcall_endpoint_close(endpoint);
    farcall_node_close(node);
    return rank == 0 && fabs(heat - 1000) > 0.001;
}
