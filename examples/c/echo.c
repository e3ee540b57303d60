// Two processes of this machine: one serves, the other calls. See docs/c.md.
//
//     cc -std=c99 echo.c $(pkg-config --cflags --libs farcall) -o echo && ./echo

#include <farcall.h>
#include <stdio.h>

enum { ECHO = 1 };

static void echo(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    (void)context;
    (void)endpoint;
    farcall_reply(request, farcall_request_data(request), farcall_request_length(request));
}

static int fail(const char *what, const char *why) {
    fprintf(stderr, "echo: %s: %s\n", what, why);
    return 1;
}

int main(int count, char **arguments) {
    const char *transport = count > 1 ? arguments[1] : "ring+shm";
    farcall_node_options_t options = FARCALL_NODE_OPTIONS_INIT;
    farcall_error_t error = FARCALL_ERROR_INIT;
    farcall_node_t *node;
    farcall_endpoint_t *endpoint;
    farcall_peer_t server;
    farcall_payload_t *answer;
    farcall_status_t status;
    uint32_t rank;

    options.kind = FARCALL_NODE_LOCAL; // the first process starts the second, which arrives here too
    options.processes = 2;
    if (farcall_node_open(&options, &node, &error) != FARCALL_OK) {
        return fail("node", error.text);
    }
    if (farcall_endpoint_open(node, transport, NULL, &endpoint, &error) != FARCALL_OK) {
        return fail("endpoint", error.text);
    }
    farcall_serve(endpoint, ECHO, echo, NULL);
    farcall_node_rank(node, &rank, NULL);
    while (rank == 1) { // until the first process ends
        farcall_poll_idle(endpoint, NULL);
    }

    if (farcall_peer(endpoint, 1, 0, FARCALL_DEFAULT_TIMEOUT, &server, &error) != FARCALL_OK) {
        return fail("peer", error.text);
    }
    status = farcall_call(endpoint, server, ECHO, "hello", 5, FARCALL_DEFAULT_TIMEOUT, &answer, NULL);
    if (status != FARCALL_OK) {
        return fail("call", farcall_status_text(status));
    }
    printf("%.*s\n", (int)farcall_payload_length(answer), (const char *)farcall_payload_data(answer));
    farcall_payload_release(answer);
    farcall_endpoint_close(endpoint);
    farcall_node_close(node);
    return 0;
}
