// The store: objects are written, read, deleted and counted, under conditions. Rank 0 has the only shard.

#include "check.h"

int main(int count, char **arguments) {
    farcall_error_t error = FARCALL_ERROR_INIT;
    farcall_node_t *node;
    farcall_endpoint_t *endpoint;
    farcall_store_t *store;
    farcall_payload_t *value;
    const uint32_t shard = 0;
    uint64_t table, first, second, version;
    int64_t sum;
    uint32_t level;
    CHECK_SAID(farcall_node_open(NULL, &node, &error), error);
    CHECK_SAID(farcall_endpoint_open(node, count > 1 ? arguments[1] : "ring+shm", NULL, &endpoint, &error), error);
    CHECK_STATUS(farcall_store_open(endpoint, &shard, 0, &store), FARCALL_INVALID_ARGUMENT);
    CHECK_OK(farcall_store_open(endpoint, &shard, 1, &store));
    CHECK_STATUS(farcall_endpoint_close(endpoint), FARCALL_IN_USE);
    CHECK_SAID(farcall_store_create_table(store, "c", &table, &error), error);
    CHECK_STATUS(farcall_store_create_table(store, "", &table, &error), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_store_get(store, table, "k", 1, LONG_NS, &value, &version, &error), FARCALL_NO_OBJECT);
    CHECK_STATUS(farcall_store_get(store, table, "", 0, LONG_NS, &value, &version, &error), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_store_get(store, table + 1, "k", 1, LONG_NS, &value, &version, &error), FARCALL_UNKNOWN_TABLE);
    CHECK_SAID(farcall_store_put(store, table, "k", 1, "one", 3, FARCALL_ABSENT, LONG_NS, &first, &error), error);
    CHECK_STATUS(farcall_store_put(store, table, "k", 1, "two", 3, FARCALL_ABSENT, LONG_NS, &version, &error),
                 FARCALL_WRONG_VERSION);
    CHECK(version == first && strlen(error.text) > 0);
    CHECK_SAID(farcall_store_put(store, table, "k", 1, "two", 3, first, LONG_NS, &second, &error), error);
    CHECK(second > first);
    CHECK_SAID(farcall_store_get(store, table, "k", 1, LONG_NS, &value, &version, &error), error);
    CHECK(version == second && farcall_payload_length(value) == 3);
    CHECK(memcmp(farcall_payload_data(value), "two", 3) == 0);
    farcall_payload_release(value);
    CHECK_STATUS(farcall_store_increment(store, table, "k", 1, 1, LONG_NS, &sum, &version, &error), FARCALL_NOT_A_NUMBER);
    CHECK_SAID(farcall_store_increment(store, table, "n", 1, 40, LONG_NS, NULL, NULL, &error), error);
    CHECK_SAID(farcall_store_increment(store, table, "n", 1, 2, LONG_NS, &sum, &version, &error), error);
    CHECK(sum == 42);
    CHECK_STATUS(farcall_store_remove(store, table, "k", 1, first, LONG_NS, &version, &error), FARCALL_WRONG_VERSION);
    CHECK_SAID(farcall_store_remove(store, table, "k", 1, FARCALL_ANY_VERSION, LONG_NS, &version, &error), error);
    CHECK(version == second);
    CHECK_SAID(farcall_store_remove(store, table, "k", 1, FARCALL_ANY_VERSION, LONG_NS, &version, &error), error);
    CHECK(version == 0);
    CHECK_OK(farcall_store_level(store, &level));
    CHECK(level == 0);
    CHECK_SAID(farcall_store_create_table(store, "kept", &table, &error), error);
    CHECK_SAID(farcall_store_increment(store, table, "n", 1, 1, LONG_NS, &sum, NULL, &error), error);
    CHECK_OK(farcall_store_level(store, &level));
    CHECK(level == FARCALL_LEVEL_FLUSHED);
    CHECK_SAID(farcall_store_create_table_at(store, "new", FARCALL_LEVEL_FLUSHED, &table, &error), error);
    CHECK_SAID(farcall_store_put(store, table, "k", 1, "", 0, FARCALL_ABSENT, LONG_NS, NULL, &error), error);
    CHECK_OK(farcall_store_level(store, &level));
    CHECK(level == FARCALL_LEVEL_FLUSHED);
    CHECK_OK(farcall_table_number("new", &first));
    CHECK(first == table);
    CHECK_STATUS(farcall_store_create_table_at(store, "new", 2 << 1, &table, &error), FARCALL_LEVEL_REFUSED);
    CHECK(strstr(error.text, "survives less") != NULL);
    CHECK_STATUS(farcall_store_create_table_at(store, "other", 2 << 1, &table, &error), FARCALL_LEVEL_REFUSED);
    CHECK(strstr(error.text, "replicas") != NULL);
    CHECK_STATUS(farcall_store_create_table_at(store, "other", 8 << 1, &table, &error), FARCALL_INVALID_ARGUMENT);
    CHECK_SAID(farcall_store_create_table_at(store, "brief", 0, &table, &error), error);
    CHECK_OK(farcall_store_close(store));
    CHECK_OK(farcall_endpoint_close(endpoint));
    CHECK_OK(farcall_node_close(node));
    return 0;
}
