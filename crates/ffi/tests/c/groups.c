// Collective operations of three processes: results, mistakes, and the death of a member.

#include "check.h"

#include <signal.h>
#include <unistd.h>

enum { MEMBERS = 3 };

static farcall_error_t error = FARCALL_ERROR_INIT;
static uint32_t own;

static void reductions(farcall_group_t *group) {
    int32_t sums[4] = {1, 2, 3, (int32_t)own};
    double greatest[2] = {own, -(double)own};
    uint8_t wrapped = 200;
    int16_t least = (int16_t)-own;
    float product = 2;
    CHECK_SAID(farcall_group_all_reduce(group, sums, 4, FARCALL_INT32, FARCALL_SUM, LONG_NS, &error), error);
    CHECK(sums[0] == 3 && sums[1] == 6 && sums[2] == 9 && sums[3] == 3);
    CHECK_SAID(farcall_group_all_reduce(group, greatest, 2, FARCALL_DOUBLE, FARCALL_MAX, LONG_NS, &error), error);
    CHECK(greatest[0] == 2 && greatest[1] == 0);
    CHECK_SAID(farcall_group_all_reduce(group, &wrapped, 1, FARCALL_UINT8, FARCALL_SUM, LONG_NS, &error), error);
    CHECK(wrapped == (uint8_t)600);
    CHECK_SAID(farcall_group_all_reduce(group, &least, 1, FARCALL_INT16, FARCALL_MIN, LONG_NS, &error), error);
    CHECK(least == -2);
    CHECK_SAID(farcall_group_all_reduce(group, &product, 1, FARCALL_FLOAT, FARCALL_PRODUCT, LONG_NS, &error), error);
    CHECK(product == 8);
    CHECK_SAID(farcall_group_all_reduce(group, NULL, 0, FARCALL_INT8, FARCALL_SUM, LONG_NS, &error), error);
}

static void exchanges(farcall_group_t *group) {
    uint64_t buffer[100], parts[MEMBERS], sent[MEMBERS], received[MEMBERS];
    uint64_t part = 10 + own;
    int i;
    for (i = 0; i < 100; i++) {
        buffer[i] = own == 2 ? (uint64_t)i : 0;
    }
    CHECK_SAID(farcall_group_broadcast(group, 2, buffer, sizeof buffer, LONG_NS, &error), error);
    CHECK(buffer[99] == 99);
    CHECK_SAID(farcall_group_all_gather(group, &part, sizeof part, parts, LONG_NS, &error), error);
    CHECK(parts[0] == 10 && parts[1] == 11 && parts[2] == 12);
    memset(parts, 0, sizeof parts);
    CHECK_SAID(farcall_group_gather(group, 1, &part, sizeof part, own == 1 ? parts : NULL, LONG_NS, &error), error);
    CHECK(parts[2] == (own == 1 ? 12 : 0));
    for (i = 0; i < MEMBERS; i++) {
        sent[i] = 10 * own + (uint64_t)i;
    }
    CHECK_SAID(farcall_group_all_to_all(group, sent, received, sizeof sent[0], LONG_NS, &error), error);
    for (i = 0; i < MEMBERS; i++) {
        CHECK(received[i] == 10 * (uint64_t)i + own);
    }
}

// None of these reaches the other members.
static void mistakes(farcall_node_t *node, farcall_endpoint_t *endpoint, farcall_group_t *group) {
    const uint32_t twice[2] = {0, 0};
    char memory[64];
    farcall_group_t *wrong;
    uint32_t rank, members;
    CHECK_STATUS(farcall_group_open(NULL, endpoint, 1, NULL, 0, &wrong, &error), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_group_open(node, NULL, 1, NULL, 0, &wrong, &error), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_group_open(node, endpoint, 1, NULL, 0, NULL, &error), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_group_open(node, endpoint, 1, twice, 2, &wrong, &error), FARCALL_INVALID_ARGUMENT);
    CHECK(strlen(error.text) > 0);
    CHECK_STATUS(farcall_group_open(node, endpoint, UINT16_MAX, NULL, 0, &wrong, &error), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_group_barrier(NULL, LONG_NS, &error), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_group_broadcast(group, MEMBERS, memory, 1, LONG_NS, &error), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_group_broadcast(group, 0, NULL, 1, LONG_NS, &error), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_group_all_reduce(group, memory, 1, 99, FARCALL_SUM, LONG_NS, NULL), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_group_all_reduce(group, memory, 1, FARCALL_INT8, 99, LONG_NS, NULL), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_group_all_reduce(group, (char *)NULL + 1, 1, FARCALL_INT64, FARCALL_SUM, LONG_NS, &error),
                 FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_group_all_gather(group, memory, 8, memory, LONG_NS, &error), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_group_all_to_all(group, memory, memory + 8, 8, LONG_NS, &error), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_group_all_gather(group, memory, SIZE_MAX, memory, LONG_NS, &error), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_group_rank(NULL, &rank, &members), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_endpoint_close(endpoint), FARCALL_IN_USE);
    CHECK_OK(farcall_group_close(NULL));
}

static void two_of_three(farcall_node_t *node, farcall_endpoint_t *endpoint) {
    const uint32_t ranks[2] = {2, 0};
    farcall_group_t *group;
    uint32_t rank, members;
    farcall_status_t opened = farcall_group_open(node, endpoint, 1, ranks, 2, &group, &error);
    if (own == 1) {
        CHECK_STATUS(opened, FARCALL_INVALID_ARGUMENT);
        return;
    }
    CHECK_SAID(opened, error);
    CHECK_OK(farcall_group_rank(group, &rank, &members));
    CHECK(members == 2 && rank == (own == 2 ? 0 : 1));
    CHECK_SAID(farcall_group_barrier(group, LONG_NS, &error), error);
    CHECK_OK(farcall_group_close(group));
}

// Ends this process at the last member, and says so at the others.
static void a_member_dies(farcall_group_t *group) {
    farcall_status_t status;
    CHECK_SAID(farcall_group_barrier(group, LONG_NS, &error), error);
    if (own == MEMBERS - 1) {
        raise(SIGKILL);
    }
    do {
        status = farcall_group_barrier(group, LONG_NS, &error);
    } while (status == FARCALL_OK);
    CHECK(status == FARCALL_PEER_DEAD || status == FARCALL_GROUP_FAILED);
    CHECK(strstr(error.text, "member") != NULL);
    CHECK(farcall_group_barrier(group, LONG_NS, &error) == status);
}

int main(int count, char **arguments) {
    farcall_node_options_t options = FARCALL_NODE_OPTIONS_INIT;
    farcall_node_t *node;
    farcall_endpoint_t *endpoint;
    farcall_group_t *group;
    uint32_t members;
    options.kind = FARCALL_NODE_LOCAL;
    options.processes = MEMBERS;
    CHECK_SAID(farcall_node_open(&options, &node, &error), error);
    CHECK_SAID(farcall_endpoint_open(node, count > 1 ? arguments[1] : "ring+shm", NULL, &endpoint, &error), error);
    CHECK_SAID(farcall_group_open(node, endpoint, 0, NULL, 0, &group, &error), error);
    CHECK_OK(farcall_group_rank(group, &own, &members));
    CHECK(members == MEMBERS);
    mistakes(node, endpoint, group);
    CHECK_SAID(farcall_group_barrier(group, FARCALL_DEFAULT_TIMEOUT, &error), error);
    reductions(group);
    exchanges(group);
    two_of_three(node, endpoint);
    a_member_dies(group);
    CHECK_OK(farcall_group_close(group));
    CHECK_OK(farcall_endpoint_close(endpoint));
    CHECK_OK(farcall_node_close(node));
    return 0;
}
