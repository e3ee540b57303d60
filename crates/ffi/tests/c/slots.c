// Slots of a daemon of this host: objects one by one and many in flight, what its policy refuses, and its end.
// The first argument is the store's place. The daemon is stopped when this says so, and ended when it says
// the next.

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static farcall_slots_t *slots;
static uint64_t table, kept, secret, none;
static farcall_error_t error = FARCALL_ERROR_INIT;

static void one_by_one(void) {
    uint64_t first, second, version;
    int64_t sum;
    uint32_t level = 7;
    farcall_payload_t *value;
    char bytes[200] = {0};
    CHECK_STATUS(farcall_slots_get(slots, table, "k", 1, LONG_NS, &value, &version, &error), FARCALL_NO_OBJECT);
    CHECK_SAID(farcall_slots_put(slots, table, "k", 1, "one", 3, FARCALL_ABSENT, LONG_NS, &first, &error), error);
    CHECK_STATUS(farcall_slots_put(slots, table, "k", 1, "two", 3, FARCALL_ABSENT, LONG_NS, &version, &error),
                 FARCALL_WRONG_VERSION);
    CHECK(version == first && strlen(error.text) > 0);
    CHECK_SAID(farcall_slots_put(slots, table, "k", 1, "two", 3, first, LONG_NS, &second, &error), error);
    CHECK_SAID(farcall_slots_get(slots, table, "k", 1, FARCALL_DEFAULT_TIMEOUT, &value, &version, &error), error);
    CHECK(version == second && farcall_payload_length(value) == 3);
    CHECK(memcmp(farcall_payload_data(value), "two", 3) == 0);
    farcall_payload_release(value);
    CHECK_STATUS(farcall_slots_increment(slots, table, "k", 1, 1, LONG_NS, &sum, NULL, &error), FARCALL_NOT_A_NUMBER);
    CHECK_SAID(farcall_slots_increment(slots, table, "n", 1, 42, LONG_NS, &sum, &version, &error), error);
    CHECK(sum == 42);
    CHECK_OK(farcall_slots_level(slots, &level));
    CHECK(level == 0);
    CHECK_SAID(farcall_slots_put(slots, kept, "k", 1, "", 0, FARCALL_ANY_VERSION, LONG_NS, NULL, &error), error);
    CHECK_OK(farcall_slots_level(slots, &level));
    CHECK(level == FARCALL_LEVEL_FLUSHED);
    CHECK_STATUS(farcall_slots_remove(slots, table, "k", 1, first, LONG_NS, &version, &error), FARCALL_WRONG_VERSION);
    CHECK_SAID(farcall_slots_remove(slots, table, "k", 1, FARCALL_ANY_VERSION, LONG_NS, &version, &error), error);
    CHECK(version == second);
    CHECK_STATUS(farcall_slots_put(slots, table, "k", 1, bytes, sizeof bytes, FARCALL_ANY_VERSION, LONG_NS, NULL, &error),
                 FARCALL_TOO_LONG);
    CHECK_STATUS(farcall_slots_get(slots, table, "", 0, LONG_NS, &value, NULL, &error), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_slots_get(slots, none, "k", 1, LONG_NS, &value, NULL, &error), FARCALL_NOT_ALLOWED);
}

static void refused(void) {
    farcall_payload_t *value;
    CHECK_STATUS(farcall_slots_get(slots, secret, "k", 1, LONG_NS, &value, NULL, &error), FARCALL_NOT_ALLOWED);
    CHECK(strstr(error.text, "policy") != NULL);
    CHECK_STATUS(farcall_slots_increment(slots, secret, "k", 1, 1, LONG_NS, NULL, NULL, &error), FARCALL_NOT_ALLOWED);
}

// The next outcome, however long it takes.
static const farcall_slot_outcome_t *outcome(void) {
    const farcall_slot_outcome_t *next = NULL;
    while (next == NULL) {
        CHECK_OK(farcall_slots_next(slots, &next));
    }
    return next;
}

static void in_flight(void) {
    const farcall_slot_outcome_t *next;
    size_t depth, owed, i, round;
    uint64_t seen;
    CHECK_OK(farcall_slots_depth(slots, &depth, &owed));
    CHECK(depth == 4 && owed == 0);
    CHECK_OK(farcall_slots_next(slots, &next));
    CHECK(next == NULL);
    for (round = 0; round < 100; round++) {
        for (i = 0; i < depth; i++) {
            char key = (char)('a' + i);
            CHECK_OK(farcall_slots_begin_put(slots, table, &key, 1, &key, 1, FARCALL_ANY_VERSION, i));
        }
        CHECK_STATUS(farcall_slots_begin_get(slots, table, "a", 1, 9), FARCALL_TOO_MANY);
        for (i = 0, seen = 0; i < depth; i++) {
            next = outcome();
            CHECK(next->status == FARCALL_OK && next->version > 0 && next->token < depth);
            seen |= UINT64_C(1) << next->token;
        }
        CHECK(seen == 15);
    }
    CHECK_OK(farcall_slots_begin_get(slots, table, "b", 1, 1));
    next = outcome();
    CHECK(next->status == FARCALL_OK && next->length == 1 && memcmp(next->value, "b", 1) == 0);
    CHECK_OK(farcall_slots_begin_get(slots, table, "none", 4, 2));
    next = outcome();
    CHECK(next->token == 2 && next->status == FARCALL_NO_OBJECT && next->value == NULL);
    CHECK_OK(farcall_slots_begin_put(slots, table, "b", 1, "", 0, FARCALL_ABSENT, 3));
    next = outcome();
    CHECK(next->status == FARCALL_WRONG_VERSION && next->version > 0);
    CHECK_OK(farcall_slots_begin_increment(slots, kept, "n", 1, 5, 4));
    next = outcome();
    CHECK(next->status == FARCALL_OK && next->sum == 5 && next->level == FARCALL_LEVEL_FLUSHED);
    CHECK_OK(farcall_slots_begin_remove(slots, table, "b", 1, FARCALL_ANY_VERSION, 5));
    next = outcome();
    CHECK(next->status == FARCALL_OK && next->version > 0);
    CHECK_OK(farcall_slots_begin_get(slots, secret, "b", 1, 6));
    CHECK(outcome()->status == FARCALL_NOT_ALLOWED);
    CHECK_STATUS(farcall_slots_begin_get(slots, table, "", 0, 7), FARCALL_INVALID_ARGUMENT);
}

static void *use_elsewhere(void *context) {
    (void)context;
    CHECK_STATUS(farcall_slots_check(slots), FARCALL_WRONG_THREAD);
    CHECK_STATUS(farcall_slots_detach(slots), FARCALL_WRONG_THREAD);
    return NULL;
}

static void mistakes(const char *store) {
    pthread_t thread;
    farcall_slots_t *other;
    const char *wrong[] = {"shm.nothing=1", NULL};
    CHECK(pthread_create(&thread, NULL, use_elsewhere, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_STATUS(farcall_slots_attach(store, wrong, &other, &error), FARCALL_SETTINGS);
    CHECK_STATUS(farcall_slots_attach("nonsense", NULL, &other, &error), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_slots_attach("127.0.0.1:1", NULL, &other, &error), FARCALL_NO_SERVER);
    CHECK(strstr(error.text, "start it first") != NULL);
    CHECK_STATUS(farcall_slots_attach(store, NULL, &other, &error), FARCALL_REFUSED);
    CHECK_STATUS(farcall_slots_attach(store, NULL, NULL, &error), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_slots_check(NULL), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_slots_next(slots, NULL), FARCALL_INVALID_ARGUMENT);
    CHECK_STATUS(farcall_table_number("", &table), FARCALL_INVALID_ARGUMENT);
    CHECK_OK(farcall_slots_detach(NULL));
}

// A child that was forked meanwhile does not hold the place of slots that their owner has left: the daemon has
// one place, and looks who is gone before it takes the next.
static void leave_beside_a_child(const char *store) {
    int ends[2], ended;
    pid_t child;
    char byte;
    CHECK(pipe(ends) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(ends[1]);
        if (farcall_slots_detach(slots) != FARCALL_FORKED) {
            _exit(1);
        }
        _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(ends[0]);
    CHECK_OK(farcall_slots_check(slots));
    CHECK_OK(farcall_slots_detach(slots));
    CHECK_SAID(farcall_slots_attach(store, NULL, &slots, &error), error);
    close(ends[1]);
    CHECK(waitpid(child, &ended, 0) == child && ended == 0);
}

static void say(const char *what) {
    char line[16];
    puts(what);
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin) != NULL);
}

static void to_the_end(void) {
    size_t owed;
    CHECK_OK(farcall_slots_check(slots));
    say("stop");
    CHECK_STATUS(farcall_slots_put(slots, table, "k", 1, "", 0, FARCALL_ANY_VERSION, 1000000, NULL, &error),
                 FARCALL_TIMED_OUT);
    CHECK_OK(farcall_slots_begin_put(slots, table, "k", 1, "", 0, FARCALL_ANY_VERSION, 1));
    CHECK_OK(farcall_slots_begin_get(slots, table, "k", 1, 2));
    say("end");
    CHECK(outcome()->status == FARCALL_PEER_DEAD);
    CHECK(outcome()->status == FARCALL_PEER_DEAD);
    CHECK_OK(farcall_slots_depth(slots, NULL, &owed));
    CHECK(owed == 0);
    CHECK_STATUS(farcall_slots_check(slots), FARCALL_PEER_DEAD);
    CHECK_STATUS(farcall_slots_begin_get(slots, table, "k", 1, 3), FARCALL_PEER_DEAD);
    CHECK_STATUS(farcall_slots_get(slots, table, "k", 1, LONG_NS, NULL, NULL, &error), FARCALL_PEER_DEAD);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    CHECK_OK(farcall_table_number("table", &table));
    CHECK_OK(farcall_table_number("kept", &kept));
    CHECK_OK(farcall_table_number("secret", &secret));
    CHECK_OK(farcall_table_number("none", &none));
    CHECK_SAID(farcall_slots_attach(arguments[1], NULL, &slots, &error), error);
    one_by_one();
    refused();
    in_flight();
    mistakes(arguments[1]);
    CHECK_OK(farcall_table_number("table", &table));
    leave_beside_a_child(arguments[1]);
    to_the_end();
    CHECK_OK(farcall_slots_detach(slots));
    return 0;
}
