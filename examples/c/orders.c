// A service that any process may call by name, and as many servers of it as one likes. See docs/c.md.
//
//     farcall registry &
//     ./orders serve & ./orders serve & ./orders call

#include <farcall.h>
#include <stdio.h>
#include <string.h>

enum { ORDER = 1 };

static void take_order(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    (void)context;
    (void)endpoint;
    farcall_reply(request, farcall_request_data(request), farcall_request_length(request));
}

static int fail(const char *what, const char *why) {
    fprintf(stderr, "orders: %s: %s\n", what, why);
    return 1;
}

static int serve(farcall_endpoint_t *endpoint) {
    farcall_error_t error = FARCALL_ERROR_INIT;
    farcall_listener_t *listener;
    farcall_serve(endpoint, ORDER, take_order, NULL);
    if (farcall_listen(endpoint, "orders", &listener, &error) != FARCALL_OK) {
        return fail("listen", error.text);
    }
    for (;;) {
        farcall_poll_idle(endpoint, NULL);
    }
}

static int call(farcall_endpoint_t *endpoint) {
    farcall_error_t error = FARCALL_ERROR_INIT;
    farcall_connection_t *orders;
    int i;
    if (farcall_connect(endpoint, "orders", FARCALL_TWO_CHOICES, &orders, &error) != FARCALL_OK) {
        return fail("connect", error.text);
    }
    for (i = 1; i <= 3; i++) {
        char order[16];
        farcall_payload_t *answer;
        snprintf(order, sizeof order, "order %d", i);
        if (farcall_connection_call(orders, ORDER, order, strlen(order), FARCALL_DEFAULT_TIMEOUT, &answer, NULL,
                                    &error) != FARCALL_OK) {
            return fail("call", error.text);
        }
        printf("%.*s\n", (int)farcall_payload_length(answer), (const char *)farcall_payload_data(answer));
        farcall_payload_release(answer);
    }
    farcall_connection_close(orders);
    return 0;
}

int main(int count, char **arguments) {
    const char *transport = count > 2 ? arguments[2] : "ring+shm";
    farcall_node_options_t options = FARCALL_NODE_OPTIONS_INIT;
    farcall_error_t error = FARCALL_ERROR_INIT;
    farcall_node_t *node;
    farcall_endpoint_t *endpoint;
    int result;

    if (count < 2 || (strcmp(arguments[1], "serve") != 0 && strcmp(arguments[1], "call") != 0)) {
        return fail("usage", "orders serve|call [TRANSPORT]");
    }
    options.kind = FARCALL_NODE_OPEN; // the registry is where FARCALL_NAMES says
    if (farcall_node_open(&options, &node, &error) != FARCALL_OK) {
        return fail("node", error.text);
    }
    if (farcall_endpoint_open(node, transport, NULL, &endpoint, &error) != FARCALL_OK) {
        return fail("endpoint", error.text);
    }
    result = arguments[1][0] == 's' ? serve(endpoint) : call(endpoint);
    farcall_endpoint_close(endpoint);
    farcall_node_close(node);
    return result;
}
