// The C++ header: a server by name and its client in two processes, messages, and exceptions.

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

enum : std::uint16_t { ECHO = 1, REFUSE = 2, LATER = 3, STOP = 4, WHO = 5 };

static farcall_status_t failure_of(const std::function<void()> &what) {
    try {
        what();
    } catch (const farcall::error &error) {
        return error.status();
    }
    return FARCALL_OK;
}

static void serve(farcall::endpoint &endpoint) {
    bool is_over = false;
    std::unique_ptr<farcall::deferred> kept;
    endpoint.serve(ECHO, [](farcall::request request) { request.reply(request.view()); });
    endpoint.serve(REFUSE, [](farcall::request request) { request.refuse(9, "nine"); });
    endpoint.serve(LATER, [&](farcall::request request) {
        kept = std::make_unique<farcall::deferred>(request.defer());
    });
    endpoint.serve(WHO, [](farcall::request request) {
        CHECK(!request.caller_is("certificate worker.example"));
        request.reply(request.caller());
    });
    endpoint.serve(STOP, [&](farcall::request request) {
        is_over = true;
        request.reply("");
    });
    farcall::peer client = endpoint.find(0);
    CHECK(endpoint.receive(&client, 5).view() == "a message");
    while (!is_over) {
        endpoint.poll_idle();
        if (kept) {
            kept->reply("later");
            kept.reset();
        }
    }
    endpoint.poll();
}

static void call(farcall::endpoint &endpoint) {
    farcall::peer server = endpoint.find(1);
    endpoint.send(server, 5, "a message");
    farcall::payload answer = endpoint.call(server, ECHO, "hello");
    farcall::payload shared = answer.share();
    CHECK(shared.view() == "hello" && answer.view() == "hello");
    CHECK(endpoint.call(server, LATER, "").view() == "later");
    try {
        endpoint.call(server, REFUSE, "");
        CHECK(!"it was refused");
    } catch (const farcall::error &error) {
        CHECK(error.status() == FARCALL_REFUSED && error.code() == 9);
    }
    CHECK(failure_of([&] { endpoint.call(server, 99, ""); }) == FARCALL_UNKNOWN_SERVICE);
    farcall::payload who = endpoint.call(server, WHO, "");
    CHECK(who.view().substr(0, 4) == "uid " || who.view() == "a peer without an identity");
    int ended = 0;
    for (int i = 0; i < 10; i++) {
        endpoint.call_async(server, ECHO, "x", [&](const farcall_answer_t &end) {
            CHECK(end.status == FARCALL_OK && end.length == 1);
            ended += 1;
        });
    }
    while (ended < 10) {
        endpoint.poll_idle();
    }
    endpoint.call(server, STOP, "");
}

static void by_name() {
    farcall::node registry = farcall::node::serving_names("127.0.0.1:0");
    farcall::endpoint endpoint(registry, "ring+shm");
    farcall::listener listener(endpoint, "wrapper");
    farcall::connection connection(endpoint, "wrapper");
    CHECK(failure_of([&] { farcall::connection(endpoint, "two words"); }) == FARCALL_INVALID_ARGUMENT);
    endpoint.serve(ECHO, [](farcall::request request) { request.reply(request.view()); });
    CHECK(connection.call(ECHO, "to myself").view() == "to myself");
    CHECK(failure_of([&] { farcall::node::open_at("nonsense"); }) == FARCALL_INVALID_ARGUMENT);
}

static void together(farcall::node &node, farcall::endpoint &endpoint) {
    farcall::group group(node, endpoint);
    double halves[3] = {0.5, 1.5, 2.5};
    std::uint16_t greatest = static_cast<std::uint16_t>(node.rank());
    int root = node.rank() == 1 ? 7 : 0;
    group.all_reduce(halves, 3, FARCALL_SUM);
    group.all_reduce(&greatest, 1, FARCALL_MAX);
    group.broadcast(1, &root, 1);
    group.barrier();
    CHECK(halves[0] == 1 && halves[2] == 5 && greatest == 1 && root == 7);
    CHECK(failure_of([&] { group.broadcast(2, &root, 1); }) == FARCALL_INVALID_ARGUMENT);
}

int main(int count, char **arguments) {
    farcall::node node = farcall::node::local(2);
    farcall::endpoint endpoint(node, count > 1 ? arguments[1] : "ring+shm");
    together(node, endpoint);
    if (node.rank() == 1) {
        serve(endpoint);
    } else {
        by_name();
        call(endpoint);
    }
    node.barrier("done", std::chrono::seconds(30));
    return 0;
}
