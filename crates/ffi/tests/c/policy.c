// A policy: who calls, which services it allows and refuses, and what is said of it.

#define _POSIX_C_SOURCE 200809L

#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

enum { MINE = 1, ANYBODY = 2, NOBODY = 3, STOP = 4 };

static int is_over;
static char myself[32];

// Says who calls, and what the policy calls that.
static void who(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    char words[64], short_of_room[4];
    uint32_t kind, user;
    int yes;
    (void)context;
    (void)endpoint;
    CHECK_OK(farcall_request_caller(request, &kind, &user, words, sizeof words));
    CHECK_OK(farcall_request_caller(request, NULL, NULL, NULL, 0));
    CHECK_STATUS(farcall_request_caller(request, NULL, NULL, short_of_room, sizeof short_of_room), FARCALL_TRUNCATED);
    CHECK_OK(farcall_request_caller_is(request, myself, &yes));
    CHECK(yes == (kind == FARCALL_CALLER_USER));
    CHECK((kind == FARCALL_CALLER_USER) == (strcmp(words, myself) == 0));
    CHECK(user == (kind == FARCALL_CALLER_USER ? (uint32_t)getuid() : UINT32_MAX));
    CHECK(kind == FARCALL_CALLER_USER || kind == FARCALL_CALLER_UNPROVEN);
    CHECK_OK(farcall_request_caller_is(request, "certificate worker.example", &yes));
    CHECK(yes == 0);
    CHECK_STATUS(farcall_request_caller_is(request, "user 7", &yes), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_request_caller_is(request, NULL, &yes), FARCALL_INVALID_ARGUMENT);
    CHECK_OK(farcall_reply(request, words, strlen(words)));
    CHECK_STATUS(farcall_request_caller(request, &kind, NULL, NULL, 0), FARCALL_ALREADY_REPLIED);
    CHECK_STATUS(farcall_request_caller(NULL, &kind, NULL, NULL, 0), FARCALL_INVALID_ARGUMENT);
}

static void never(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    (void)context;
    (void)endpoint;
    (void)request;
    CHECK(!"a refused request never runs");
}

static void stop(void *context, farcall_endpoint_t *endpoint, farcall_request_t *request) {
    (void)context;
    (void)endpoint;
    is_over = 1;
    CHECK_OK(farcall_reply(request, NULL, 0));
}

static void note_refusal(void *context, farcall_endpoint_t *endpoint, const farcall_answer_t *answer) {
    char said[256];
    (void)endpoint;
    CHECK(answer->status == FARCALL_NOT_ALLOWED && answer->length < sizeof said);
    memcpy(said, answer->data, answer->length);
    said[answer->length] = 0;
    CHECK(strstr(said, "may not call service 3") != NULL);
    *(int *)context += 1;
}

static void call(farcall_endpoint_t *endpoint, farcall_peer_t peer, const char *transport) {
    farcall_payload_t *answer;
    int refused = 0, is_known;
    CHECK_OK(farcall_call(endpoint, peer, ANYBODY, NULL, 0, LONG_NS, &answer, NULL));
    is_known = farcall_payload_length(answer) == strlen(myself) &&
               memcmp(farcall_payload_data(answer), myself, strlen(myself)) == 0;
    farcall_payload_release(answer);
    // The kernel says who shares memory; without keys packets and plain TCP prove nothing.
    CHECK(is_known || strstr(transport, "shm") == NULL);
    CHECK(!is_known || (strstr(transport, "udp") == NULL && strcmp(transport, "tcp") != 0));
    CHECK_STATUS(farcall_call(endpoint, peer, NOBODY, NULL, 0, LONG_NS, NULL, NULL), FARCALL_NOT_ALLOWED);
    CHECK(strcmp(farcall_status_text(FARCALL_NOT_ALLOWED), "the policy does not allow it") == 0);
    CHECK_OK(farcall_call_async(endpoint, peer, NOBODY, NULL, 0, LONG_NS, note_refusal, &refused, NULL));
    while (refused == 0) {
        CHECK_OK(farcall_poll_idle(endpoint, NULL));
    }
    CHECK_STATUS(farcall_call(endpoint, peer, MINE, NULL, 0, LONG_NS, NULL, NULL),
                 is_known ? FARCALL_OK : FARCALL_NOT_ALLOWED);
    CHECK_OK(farcall_call(endpoint, peer, STOP, NULL, 0, LONG_NS, NULL, NULL));
}

int main(int count, char **arguments) {
    farcall_node_options_t options = FARCALL_NODE_OPTIONS_INIT;
    farcall_error_t error = FARCALL_ERROR_INIT;
    farcall_node_t *node;
    farcall_endpoint_t *endpoint;
    farcall_peer_t peer;
    uint32_t rank;
    char path[64], setting[128];
    const char *transport = count > 1 ? arguments[1] : "ring+shm", *settings[] = {setting, NULL};
    FILE *policy;
    sprintf(myself, "uid %u", (unsigned)getuid());
    options.kind = FARCALL_NODE_LOCAL;
    options.processes = 2;
    CHECK_SAID(farcall_node_open(&options, &node, &error), error);
    CHECK_OK(farcall_node_rank(node, &rank, NULL));
    if (rank == 1) {
        sprintf(path, "/tmp/farcall-policy-%u", (unsigned)getpid());
        sprintf(setting, "security.policy_file=%s", path);
        umask(077);
        CHECK((policy = fopen(path, "w")) != NULL);
        fprintf(policy, "service 1: call by %s\nservice 2: call by any\nservice 4: call by any\n", myself);
        CHECK(fclose(policy) == 0);
        CHECK_SAID(farcall_endpoint_open(node, transport, settings, &endpoint, &error), error);
        CHECK_OK(farcall_serve(endpoint, MINE, who, NULL));
        CHECK_OK(farcall_serve(endpoint, ANYBODY, who, NULL));
        CHECK_OK(farcall_serve(endpoint, NOBODY, never, NULL));
        CHECK_OK(farcall_serve(endpoint, STOP, stop, NULL));
        while (!is_over) {
            CHECK_OK(farcall_poll_idle(endpoint, NULL));
        }
        CHECK_OK(farcall_poll(endpoint, NULL));
        CHECK(remove(path) == 0);
    } else {
        const char *nowhere[] = {"security.policy_file=/nowhere/policy", NULL};
        CHECK_STATUS(farcall_endpoint_open(node, transport, nowhere, &endpoint, &error), FARCALL_SETTINGS);
        CHECK(strstr(error.text, "/nowhere/policy") != NULL);
        CHECK_SAID(farcall_endpoint_open(node, transport, NULL, &endpoint, &error), error);
        CHECK_SAID(farcall_peer(endpoint, 1, 0, FARCALL_DEFAULT_TIMEOUT, &peer, &error), error);
        CHECK_OK(farcall_wait_for_peer(endpoint, peer));
        call(endpoint, peer, transport);
    }
    CHECK_SAID(farcall_node_barrier(node, "done", LONG_NS, &error), error);
    CHECK_OK(farcall_endpoint_close(endpoint));
    CHECK_OK(farcall_node_close(node));
    return 0;
}
