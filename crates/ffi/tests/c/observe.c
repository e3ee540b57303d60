// Counters and parameters.

#include "check.h"

struct found {
    int counters, sessions, parameters, idle;
};

static void counter(void *context, const char *group, const char *name, uint64_t value, const char *unit,
                    const char *text) {
    struct found *found = context;
    (void)value;
    CHECK(strlen(unit) > 0 && strlen(text) > 0);
    found->counters += 1;
    found->sessions += strncmp(group, "ring+shm#0", 10) == 0 && strstr(name, "sessions") != NULL;
}

static void parameter(void *context, const char *name, const char *value, const char *standard,
                      const char *text) {
    struct found *found = context;
    CHECK(strlen(standard) > 0 && strlen(text) > 0);
    found->parameters += 1;
    found->idle += strcmp(name, "endpoint.idle") == 0 && strlen(value) > 0;
}

int main(void) {
    farcall_node_options_t options = FARCALL_NODE_OPTIONS_INIT;
    farcall_error_t error = FARCALL_ERROR_INIT;
    farcall_node_t *node;
    farcall_endpoint_t *endpoint;
    struct found found = {0, 0, 0, 0};
    char address[64];
    options.kind = FARCALL_NODE_ALONE;
    CHECK(strlen(farcall_version()) > 0);
    CHECK_SAID(farcall_node_open(&options, &node, &error), error);
    CHECK_STATUS(farcall_node_registry_address(node, address, sizeof address), FARCALL_INVALID_ARGUMENT);
    CHECK_SAID(farcall_endpoint_open(node, "ring+shm", NULL, &endpoint, &error), error);
    CHECK_OK(farcall_counters(counter, &found));
    CHECK(found.counters > 5 && found.sessions > 0);
    CHECK_OK(farcall_parameters(node, parameter, &found));
    CHECK(found.parameters > 20 && found.idle == 1);
    CHECK_STATUS(farcall_counters(NULL, NULL), FARCALL_INVALID_ARGUMENT);
    CHECK_OK(farcall_close_peer(endpoint, (farcall_peer_t){1, 2, 3}));
    farcall_listener_close(NULL);
    CHECK_OK(farcall_endpoint_close(endpoint));
    CHECK_OK(farcall_node_close(node));
    options.size = 4;
    CHECK_STATUS(farcall_node_open(&options, &node, &error), FARCALL_INVALID_ARGUMENT);
    return 0;
}
