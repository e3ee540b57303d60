// Services by name, an event loop, and what is seen when a process is killed: the server, then the client.

#include "check.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ECHO = 1, DIE = 2, NEVER = 3 };

static const char *transport = "ring+shm";
static farcall_deferred_t *kept;

static void echo(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    (void)context, (void)endpoint;
    CHECK_OK(farcall_reply(request, farcall_request_data(request), farcall_request_length(request)));
}

static void die(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    (void)context, (void)endpoint, (void)request;
    raise(SIGKILL);
}

static void never(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    (void)context, (void)endpoint;
    CHECK_OK(farcall_defer(request, &kept));
}

static void went(void *context, farcall_endpoint_t *endpoint, farcall_peer_t peer, farcall_status_t status) {
    farcall_status_t *seen = context;
    (void)peer;
    CHECK_STATUS(farcall_poll(endpoint, NULL), FARCALL_IN_CALLBACK);
    *seen = status;
}

static void ended(void *context, farcall_endpoint_t *endpoint, const farcall_answer_t *answer) {
    farcall_status_t *seen = context;
    (void)endpoint;
    *seen = answer->status;
}

static void open_at(const char *registry, farcall_node_t **node, farcall_endpoint_t **endpoint) {
    farcall_node_options_t options = FARCALL_NODE_OPTIONS_INIT;
    farcall_error_t error = FARCALL_ERROR_INIT;
    options.kind = FARCALL_NODE_OPEN;
    options.address = registry;
    CHECK_SAID(farcall_node_open(&options, node, &error), error);
    CHECK_SAID(farcall_endpoint_open(*node, transport, NULL, endpoint, &error), error);
}

// A process of its own, with what was read from the pipe: where the registry is.
static pid_t begin(void (*run)(const char *registry), int *to_child) {
    int ends[2];
    pid_t child;
    CHECK(pipe(ends) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char registry[64] = {0};
        close(ends[1]);
        CHECK(read(ends[0], registry, sizeof registry - 1) > 0);
        run(registry);
        exit(0);
    }
    close(ends[0]);
    *to_child = ends[1];
    return child;
}

// Serves in an event loop of its own.
static void serve(const char *registry) {
    farcall_node_t *node;
    farcall_endpoint_t *endpoint;
    farcall_listener_t *listener;
    farcall_error_t error = FARCALL_ERROR_INIT;
    struct pollfd wanted;
    open_at(registry, &node, &endpoint);
    CHECK_OK(farcall_serve(endpoint, ECHO, echo, NULL));
    CHECK_OK(farcall_serve(endpoint, DIE, die, NULL));
    CHECK_SAID(farcall_listen(endpoint, "victim", &listener, &error), error);
    CHECK_OK(farcall_endpoint_fd(endpoint, &wanted.fd));
    wanted.events = POLLIN;
    for (;;) {
        size_t done = 0;
        uint64_t at_most = 0;
        CHECK_OK(farcall_poll(endpoint, &done));
        if (done > 0) {
            continue;
        }
        CHECK_OK(farcall_prepare_wait(endpoint, &at_most));
        if (at_most > 0) {
            CHECK(poll(&wanted, 1, at_most > LONG_NS ? 30000 : (int)(at_most / 1000000 + 1)) >= 0);
            CHECK_OK(farcall_finish_wait(endpoint));
        }
    }
}

// Calls, and is killed while it waits.
static void call(const char *registry) {
    farcall_node_t *node;
    farcall_endpoint_t *endpoint;
    farcall_connection_t *connection;
    farcall_error_t error = FARCALL_ERROR_INIT;
    open_at(registry, &node, &endpoint);
    CHECK_SAID(farcall_connect(endpoint, "survivor", FARCALL_TWO_CHOICES, &connection, &error), error);
    farcall_connection_call(connection, NEVER, "x", 1, LONG_NS, NULL, NULL, NULL);
    CHECK(!"it was to be killed");
}

static void kill_and_wait(pid_t child, int kills) {
    int how;
    if (kills) {
        CHECK(kill(child, SIGKILL) == 0);
    }
    CHECK(waitpid(child, &how, 0) == child);
    CHECK(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
}

// A copy of this process may not use its endpoint.
static void forked(farcall_endpoint_t *endpoint) {
    int how;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK_STATUS(farcall_poll(endpoint, NULL), FARCALL_FORKED);
        CHECK_STATUS(farcall_endpoint_close(endpoint), FARCALL_FORKED);
        _exit(0);
    }
    CHECK(waitpid(child, &how, 0) == child);
    CHECK(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static void a_server_dies(farcall_endpoint_t *endpoint, pid_t server) {
    farcall_connection_t *connection;
    farcall_error_t error = FARCALL_ERROR_INIT;
    farcall_payload_t *answer;
    farcall_peer_t peer;
    farcall_status_t down = FARCALL_OK, end = FARCALL_OK;
    CHECK_SAID(farcall_connect(endpoint, "victim", FARCALL_ROUND_ROBIN, &connection, &error), error);
    CHECK_STATUS(farcall_endpoint_close(endpoint), FARCALL_IN_USE);
    CHECK_SAID(farcall_connection_call(connection, ECHO, "hello", 5, LONG_NS, &answer, NULL, &error), error);
    CHECK(farcall_payload_length(answer) == 5);
    farcall_payload_release(answer);
    CHECK_SAID(farcall_connection_peer(connection, LONG_NS, &peer, &error), error);
    CHECK_OK(farcall_on_peer_down(endpoint, went, &down));
    CHECK_OK(farcall_call_async(endpoint, peer, DIE, NULL, 0, LONG_NS, ended, &end, NULL));
    while (down == FARCALL_OK || end == FARCALL_OK) {
        CHECK_OK(farcall_wait(endpoint, LONG_NS));
        CHECK_OK(farcall_poll(endpoint, NULL));
    }
    CHECK_STATUS(down, FARCALL_PEER_DEAD);
    CHECK_STATUS(end, FARCALL_PEER_DEAD);
    kill_and_wait(server, 0);
    CHECK_STATUS(farcall_connection_call(connection, ECHO, "x", 1, 100000000, &answer, NULL, &error), FARCALL_NO_SERVER);
    CHECK(strlen(error.text) > 0);
    CHECK_OK(farcall_connection_close(connection));
    CHECK_STATUS(farcall_connect(endpoint, "two words", 0, &connection, &error), FARCALL_INVALID_ARGUMENT);
}

static void a_client_dies(farcall_endpoint_t *endpoint, pid_t client) {
    farcall_listener_t *listener;
    farcall_error_t error = FARCALL_ERROR_INIT;
    farcall_status_t down = FARCALL_OK;
    size_t unanswered = 77;
    CHECK_OK(farcall_serve(endpoint, NEVER, never, NULL));
    CHECK_SAID(farcall_listen(endpoint, "survivor", &listener, &error), error);
    CHECK_OK(farcall_on_peer_down(endpoint, went, &down));
    while (kept == NULL) {
        CHECK_OK(farcall_poll_idle(endpoint, NULL));
    }
    kill_and_wait(client, 1);
    // What was tried of the server that died may end meanwhile, as unreachable.
    while (down != FARCALL_PEER_DEAD) {
        CHECK_OK(farcall_poll_idle(endpoint, NULL));
    }
    CHECK_OK(farcall_deferred_reply(kept, "too late", 8));
    CHECK_OK(farcall_poll(endpoint, NULL));
    CHECK_OK(farcall_listener_leave(listener, endpoint, LONG_NS, &unanswered));
    CHECK(unanswered == 0);
}

int main(int count, char **arguments) {
    farcall_node_options_t options = FARCALL_NODE_OPTIONS_INIT;
    farcall_error_t error = FARCALL_ERROR_INIT;
    farcall_node_t *node;
    farcall_endpoint_t *endpoint;
    char registry[64], tight[4];
    int to_server, to_client;
    pid_t server, client;
    if (count > 1) {
        transport = arguments[1];
    }
    // Before there are threads.
    server = begin(serve, &to_server);
    client = begin(call, &to_client);
    options.kind = FARCALL_NODE_SERVING_NAMES;
    options.address = "127.0.0.1:0";
    CHECK_SAID(farcall_node_open(&options, &node, &error), error);
    CHECK_STATUS(farcall_node_registry_address(node, tight, sizeof tight), FARCALL_TRUNCATED);
    CHECK_OK(farcall_node_registry_address(node, registry, sizeof registry));
    CHECK_SAID(farcall_endpoint_open(node, transport, NULL, &endpoint, &error), error);
    forked(endpoint);
    CHECK(write(to_server, registry, strlen(registry)) > 0);
    a_server_dies(endpoint, server);
    CHECK(write(to_client, registry, strlen(registry)) > 0);
    a_client_dies(endpoint, client);
    CHECK_OK(farcall_endpoint_close(endpoint));
    CHECK_OK(farcall_node_close(node));
    return 0;
}
