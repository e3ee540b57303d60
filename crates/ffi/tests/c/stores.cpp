// The store from C++: a client over the network, and slots of a daemon of this host. The first argument is the
// store's place, the second a transport.

#include <cstdio>
#include <cstdlib>
#include <farcall.hpp>

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                             \
            std::exit(1);                                                                                    \
        }                                                                                                    \
    } while (0)

static farcall_status_t failure_of(const std::function<void()> &what) {
    try {
        what();
    } catch (const farcall::error &error) {
        return error.status();
    }
    return FARCALL_OK;
}

static void by_slots(const char *place) {
    farcall::slots slots(place);
    std::uint64_t table = farcall::table_number("table");
    CHECK(!slots.get(table, "key"));
    std::uint64_t version = slots.put(table, "key", "value", FARCALL_ABSENT);
    CHECK(failure_of([&] { slots.put(table, "key", "", FARCALL_ABSENT); }) == FARCALL_WRONG_VERSION);
    auto found = slots.get(table, "key");
    CHECK(found && found->value.view() == "value" && found->version == version);
    CHECK(slots.increment(table, "number", 3) == 3 && slots.level() == 0);
    CHECK(slots.increment(farcall::table_number("kept"), "number", 3) == 3);
    CHECK(slots.level() == FARCALL_LEVEL_FLUSHED);
    CHECK(slots.remove(table, "key") == version);
    CHECK(failure_of([&] { slots.get(farcall::table_number("secret"), "key"); }) == FARCALL_NOT_ALLOWED);
    for (std::uint64_t token = 0; token < slots.depth(); token++) {
        slots.begin_increment(table, "counted", 1, token);
    }
    CHECK(failure_of([&] { slots.begin_get(table, "counted", 9); }) == FARCALL_TOO_MANY);
    std::int64_t most = 0;
    for (std::size_t came = 0; came < slots.depth();) {
        if (const farcall_slot_outcome_t *outcome = slots.next()) {
            CHECK(outcome->status == FARCALL_OK);
            most = outcome->sum > most ? outcome->sum : most;
            came += 1;
        }
    }
    CHECK(most == static_cast<std::int64_t>(slots.depth()));
    slots.check();
}

static void by_calls(const char *transport) {
    farcall::node node = farcall::node::from_environment();
    farcall::endpoint endpoint(node, transport);
    farcall::store store(endpoint, {0});
    CHECK(failure_of([&] { store.create_table("new", FARCALL_LEVEL_FLUSHED); }) == FARCALL_NOT_ALLOWED);
    std::uint64_t kept = store.create_table("kept", FARCALL_LEVEL_FLUSHED);
    CHECK(kept == farcall::table_number("kept"));
    CHECK(failure_of([&] { store.create_table("kept", 2 << 1); }) == FARCALL_LEVEL_REFUSED);
    CHECK(!store.get(kept, "key"));
    std::uint64_t version = store.put(kept, "key", "value");
    CHECK(store.level() == FARCALL_LEVEL_FLUSHED);
    auto found = store.get(kept, "key");
    CHECK(found && found->value.view() == "value" && found->version == version);
    CHECK(store.increment(kept, "calls", 2) == 2);
    CHECK(store.remove(kept, "key", version) == version);
    try {
        store.get(farcall::table_number("secret"), "key");
        CHECK(!"it was allowed");
    } catch (const farcall::error &error) {
        CHECK(error.status() == FARCALL_NOT_ALLOWED);
        CHECK(std::string(error.what()).find("may not read the table `secret`") != std::string::npos);
    }
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    by_slots(arguments[1]);
    by_calls(arguments[2]);
    return 0;
}
