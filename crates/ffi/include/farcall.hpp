// farcall for C++17: the handles of farcall.h as objects that close themselves, failures as exceptions, and
// callbacks that are any callable. See docs/c.md; what each function does is said in farcall.h.
//
// Callables run inside polls, on the endpoint's thread. An exception that leaves one ends the program, as it
// does in any function that is `noexcept`.

#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "farcall.h"

namespace farcall {

using peer = farcall_peer_t;
using duration = std::chrono::nanoseconds;

// The time that the endpoint's settings give.
inline constexpr duration default_timeout{-1};

// A function that did not return FARCALL_OK.
class error : public std::exception {
public:
    error(farcall_status_t status, std::string text, unsigned code = 0)
        : status_(status), code_(code), text_(std::move(text)) {}
    const char *what() const noexcept override { return text_.c_str(); }
    farcall_status_t status() const noexcept { return status_; }
    // The code of a handler that refused.
    unsigned code() const noexcept { return code_; }

private:
    farcall_status_t status_;
    unsigned code_;
    std::string text_;
};

namespace detail {

inline std::uint64_t nanos(duration timeout) {
    return timeout.count() < 0 ? FARCALL_DEFAULT_TIMEOUT : static_cast<std::uint64_t>(timeout.count());
}

inline void check(farcall_status_t status, unsigned code = 0) {
    if (status != FARCALL_OK) {
        throw error(status, farcall_status_text(status), code);
    }
}

inline void check(farcall_status_t status, const farcall_error_t &said) {
    if (status != FARCALL_OK) {
        throw error(status, said.text);
    }
}

template <auto function> struct closes {
    template <typename handle> void operator()(handle *open) const noexcept { function(open); }
};

} // namespace detail

// What was received, kept as long as this.
class payload {
public:
    explicit payload(farcall_payload_t *taken) : handle_(taken) {}
    std::string_view view() const noexcept {
        return {static_cast<const char *>(farcall_payload_data(handle_.get())), farcall_payload_length(handle_.get())};
    }
    // Another holder of the same bytes.
    payload share() const { return payload(farcall_payload_share(handle_.get())); }

private:
    std::unique_ptr<farcall_payload_t, detail::closes<farcall_payload_release>> handle_;
};

// The duty to answer later, from any thread; dropped unanswered it says so.
class deferred {
public:
    explicit deferred(farcall_deferred_t *duty) : handle_(duty) {}
    void reply(std::string_view answer) {
        detail::check(farcall_deferred_reply(handle_.release(), answer.data(), answer.size()));
    }
    void refuse(std::uint8_t code, const std::string &why = "") {
        detail::check(farcall_deferred_refuse_because(handle_.release(), code, why.c_str()));
    }

private:
    std::unique_ptr<farcall_deferred_t, detail::closes<farcall_deferred_drop>> handle_;
};

// A request, while its handler runs.
class request {
public:
    explicit request(farcall_request_t *arrived) : handle_(arrived) {}
    std::string_view view() const noexcept {
        return {static_cast<const char *>(farcall_request_data(handle_)), farcall_request_length(handle_)};
    }
    peer from() const {
        peer caller;
        detail::check(farcall_request_origin(handle_, &caller, nullptr));
        return caller;
    }
    // Who calls, as policies write it, such as `uid 1000`; before the reply.
    std::string caller() const {
        std::string words(64, '\0');
        farcall_status_t status;
        while ((status = farcall_request_caller(handle_, nullptr, nullptr, &words[0], words.size())) ==
               FARCALL_TRUNCATED) {
            words.resize(2 * words.size());
        }
        detail::check(status);
        return words.c_str();
    }
    // Whether the caller has this identity, such as `certificate worker.example`; before the reply.
    bool caller_is(const std::string &identity) const {
        int yes;
        detail::check(farcall_request_caller_is(handle_, identity.c_str(), &yes));
        return yes != 0;
    }
    void reply(std::string_view answer) { detail::check(farcall_reply(handle_, answer.data(), answer.size())); }
    void refuse(std::uint8_t code, const std::string &why = "") {
        detail::check(farcall_refuse_because(handle_, code, why.c_str()));
    }
    deferred defer() {
        farcall_deferred_t *duty;
        detail::check(farcall_defer(handle_, &duty));
        return deferred(duty);
    }
    payload take() const {
        farcall_payload_t *taken;
        detail::check(farcall_request_take(handle_, &taken));
        return payload(taken);
    }

private:
    farcall_request_t *handle_;
};

// A process of a cluster.
class node {
public:
    static node from_environment() { return node(FARCALL_NODE_FROM_ENVIRONMENT, 0, nullptr); }
    static node local(std::uint32_t processes) { return node(FARCALL_NODE_LOCAL, processes, nullptr); }
    static node alone() { return node(FARCALL_NODE_ALONE, 0, nullptr); }
    static node open() { return node(FARCALL_NODE_OPEN, 0, nullptr); }
    static node open_at(const std::string &registry) { return node(FARCALL_NODE_OPEN, 0, registry.c_str()); }
    static node serving_names(const std::string &address) {
        return node(FARCALL_NODE_SERVING_NAMES, 0, address.c_str());
    }
    std::uint32_t rank() const {
        std::uint32_t rank;
        detail::check(farcall_node_rank(handle_.get(), &rank, nullptr));
        return rank;
    }
    std::string registry_address() const {
        char address[64];
        detail::check(farcall_node_registry_address(handle_.get(), address, sizeof address));
        return address;
    }
    void barrier(const std::string &name, duration timeout) const {
        farcall_error_t said = FARCALL_ERROR_INIT;
        detail::check(farcall_node_barrier(handle_.get(), name.c_str(), detail::nanos(timeout), &said), said);
    }
    farcall_node_t *get() const noexcept { return handle_.get(); }

private:
    node(std::uint32_t kind, std::uint32_t processes, const char *address) {
        farcall_node_options_t options = FARCALL_NODE_OPTIONS_INIT;
        farcall_error_t said = FARCALL_ERROR_INIT;
        farcall_node_t *opened;
        options.kind = kind;
        options.processes = processes;
        options.address = address;
        detail::check(farcall_node_open(&options, &opened, &said), said);
        handle_.reset(opened);
    }
    std::unique_ptr<farcall_node_t, detail::closes<farcall_node_close>> handle_;
};

// One thread's door to its peers.
class endpoint {
public:
    endpoint(const node &of, const std::string &transport) {
        farcall_error_t said = FARCALL_ERROR_INIT;
        farcall_endpoint_t *opened;
        detail::check(farcall_endpoint_open(of.get(), transport.c_str(), nullptr, &opened, &said), said);
        handle_.reset(opened);
    }
    peer find(std::uint32_t rank) {
        farcall_error_t said = FARCALL_ERROR_INIT;
        peer found;
        detail::check(farcall_peer(get(), rank, 0, FARCALL_DEFAULT_TIMEOUT, &found, &said), said);
        return found;
    }
    void serve(std::uint16_t service, std::function<void(request)> handler) {
        auto kept = std::make_unique<std::function<void(request)>>(std::move(handler));
        auto run = [](void *context, farcall_endpoint_t *, farcall_request_t *arrived) noexcept {
            (*static_cast<std::function<void(request)> *>(context))(request(arrived));
        };
        detail::check(farcall_serve(get(), service, run, kept.get()));
        handlers_[service] = std::move(kept);
    }
    payload call(peer to, std::uint16_t service, std::string_view bytes, duration timeout = default_timeout) {
        farcall_payload_t *answer;
        std::uint8_t code = 0;
        farcall_status_t status = farcall_call(get(), to, service, bytes.data(), bytes.size(), detail::nanos(timeout),
                                               &answer, &code);
        detail::check(status, code);
        return payload(answer);
    }
    // The callable gets what `farcall_answer_callback_t` gets, once.
    template <typename callable>
    void call_async(peer to, std::uint16_t service, std::string_view bytes, callable done,
                    duration timeout = default_timeout) {
        auto kept = std::make_unique<callable>(std::move(done));
        auto run = [](void *context, farcall_endpoint_t *, const farcall_answer_t *answer) noexcept {
            std::unique_ptr<callable> done(static_cast<callable *>(context));
            (*done)(*answer);
        };
        detail::check(farcall_call_async(get(), to, service, bytes.data(), bytes.size(), detail::nanos(timeout), run,
                                         kept.get(), nullptr));
        kept.release();
    }
    void send(peer to, std::uint32_t tag, std::string_view bytes, duration timeout = default_timeout) {
        detail::check(farcall_send(get(), to, tag, bytes.data(), bytes.size(), detail::nanos(timeout)));
    }
    payload receive(const peer *from, std::uint64_t tag, duration timeout = default_timeout) {
        farcall_payload_t *message;
        detail::check(farcall_receive(get(), from, tag, detail::nanos(timeout), &message, nullptr, nullptr));
        return payload(message);
    }
    std::size_t poll() {
        std::size_t done;
        detail::check(farcall_poll(get(), &done));
        return done;
    }
    std::size_t poll_idle() {
        std::size_t done;
        detail::check(farcall_poll_idle(get(), &done));
        return done;
    }
    farcall_endpoint_t *get() const noexcept { return handle_.get(); }

private:
    // Behind the handle, which is closed first.
    std::unordered_map<std::uint16_t, std::unique_ptr<std::function<void(request)>>> handlers_;
    std::unique_ptr<farcall_endpoint_t, detail::closes<farcall_endpoint_close>> handle_;
};

// A name, and the servers that listen under it; to be gone before its endpoint.
class connection {
public:
    connection(endpoint &by, const std::string &target, std::uint32_t balance = FARCALL_ROUND_ROBIN) {
        farcall_error_t said = FARCALL_ERROR_INIT;
        farcall_connection_t *connected;
        detail::check(farcall_connect(by.get(), target.c_str(), balance, &connected, &said), said);
        handle_.reset(connected);
    }
    payload call(std::uint16_t service, std::string_view bytes, duration timeout = default_timeout) {
        farcall_error_t said = FARCALL_ERROR_INIT;
        farcall_payload_t *answer;
        detail::check(farcall_connection_call(handle_.get(), service, bytes.data(), bytes.size(), detail::nanos(timeout),
                                              &answer, nullptr, &said),
                      said);
        return payload(answer);
    }

private:
    std::unique_ptr<farcall_connection_t, detail::closes<farcall_connection_close>> handle_;
};

// A group of processes for collective operations, which MPI calls a communicator; to be gone before its endpoint.
class group {
public:
    // All of the node's world.
    group(const node &of, endpoint &by, std::uint16_t number = 0) {
        farcall_error_t said = FARCALL_ERROR_INIT;
        farcall_group_t *opened;
        detail::check(farcall_group_open(of.get(), by.get(), number, nullptr, 0, &opened, &said), said);
        handle_.reset(opened);
    }
    void barrier(duration timeout = default_timeout) {
        farcall_error_t said = FARCALL_ERROR_INIT;
        detail::check(farcall_group_barrier(handle_.get(), detail::nanos(timeout), &said), said);
    }
    template <typename value>
    void broadcast(std::uint32_t root, value *values, std::size_t count, duration timeout = default_timeout) {
        static_assert(std::is_trivially_copyable<value>::value, "the bytes of a value are copied");
        farcall_error_t said = FARCALL_ERROR_INIT;
        detail::check(farcall_group_broadcast(handle_.get(), root, values, count * sizeof(value), detail::nanos(timeout),
                                              &said),
                      said);
    }
    // `op` is FARCALL_SUM or another of those.
    template <typename number>
    void all_reduce(number *values, std::size_t count, std::uint32_t op, duration timeout = default_timeout) {
        farcall_error_t said = FARCALL_ERROR_INIT;
        detail::check(farcall_group_all_reduce(handle_.get(), values, count, type_of<number>(), op, detail::nanos(timeout),
                                               &said),
                      said);
    }

private:
    template <typename number> static constexpr std::uint32_t type_of() {
        static_assert(std::is_arithmetic<number>::value && sizeof(number) <= 8, "numbers of up to 8 bytes are reduced");
        constexpr std::uint32_t place = sizeof(number) == 1 ? 0 : sizeof(number) == 2 ? 1 : sizeof(number) == 4 ? 2 : 3;
        return std::is_floating_point<number>::value ? FARCALL_FLOAT + place - 2
               : std::is_signed<number>::value       ? FARCALL_INT8 + place
                                                     : FARCALL_UINT8 + place;
    }
    std::unique_ptr<farcall_group_t, detail::closes<farcall_group_close>> handle_;
};

// An endpoint is listed under a name as long as this.
class listener {
public:
    listener(endpoint &of, const std::string &name) {
        farcall_error_t said = FARCALL_ERROR_INIT;
        farcall_listener_t *listed;
        detail::check(farcall_listen(of.get(), name.c_str(), &listed, &said), said);
        handle_.reset(listed);
    }

private:
    std::unique_ptr<farcall_listener_t, detail::closes<farcall_listener_close>> handle_;
};

// The number of the table of a name, whether or not there is one.
inline std::uint64_t table_number(const std::string &name) {
    std::uint64_t table;
    detail::check(farcall_table_number(name.c_str(), &table));
    return table;
}

// An object of the store as it was when it was read.
struct object {
    payload value;
    std::uint64_t version;
};

namespace detail {

// What a store's client and slots have in common; `handle` is either, with the functions for it.
template <typename handle, auto close, auto get_object, auto put_object, auto remove_object, auto add, auto level_of>
class objects {
public:
    std::optional<object> get(std::uint64_t table, std::string_view key, duration timeout = default_timeout) {
        farcall_error_t said = FARCALL_ERROR_INIT;
        farcall_payload_t *value;
        std::uint64_t version;
        farcall_status_t status =
            get_object(handle_.get(), table, key.data(), key.size(), nanos(timeout), &value, &version, &said);
        if (status == FARCALL_NO_OBJECT) {
            return std::nullopt;
        }
        check(status, said);
        return object{payload(value), version};
    }
    // Gives the new version. `expected` is a version, FARCALL_ABSENT or FARCALL_ANY_VERSION.
    std::uint64_t put(std::uint64_t table, std::string_view key, std::string_view value,
                      std::uint64_t expected = FARCALL_ANY_VERSION, duration timeout = default_timeout) {
        farcall_error_t said = FARCALL_ERROR_INIT;
        std::uint64_t version;
        check(put_object(handle_.get(), table, key.data(), key.size(), value.data(), value.size(), expected, nanos(timeout),
                         &version, &said),
              said);
        return version;
    }
    // Gives the version that the object had, 0 if there was none.
    std::uint64_t remove(std::uint64_t table, std::string_view key, std::uint64_t expected = FARCALL_ANY_VERSION,
                         duration timeout = default_timeout) {
        farcall_error_t said = FARCALL_ERROR_INIT;
        std::uint64_t version;
        check(remove_object(handle_.get(), table, key.data(), key.size(), expected, nanos(timeout), &version, &said), said);
        return version;
    }
    // Gives the sum.
    std::int64_t increment(std::uint64_t table, std::string_view key, std::int64_t amount,
                           duration timeout = default_timeout) {
        farcall_error_t said = FARCALL_ERROR_INIT;
        std::int64_t sum;
        check(add(handle_.get(), table, key.data(), key.size(), amount, nanos(timeout), &sum, nullptr, &said), said);
        return sum;
    }
    // What the last write survives, as `farcall_store_level` has it.
    std::uint32_t level() {
        std::uint32_t level;
        check(level_of(handle_.get(), &level));
        return level;
    }

protected:
    std::unique_ptr<handle, closes<close>> handle_;
};

using store_objects = objects<farcall_store_t, farcall_store_close, farcall_store_get, farcall_store_put, farcall_store_remove,
                              farcall_store_increment, farcall_store_level>;
using slot_objects = objects<farcall_slots_t, farcall_slots_detach, farcall_slots_get, farcall_slots_put, farcall_slots_remove,
                             farcall_slots_increment, farcall_slots_level>;

} // namespace detail

// A client of all shards of a store; to be gone before its endpoint.
class store : public detail::store_objects {
public:
    store(endpoint &by, std::initializer_list<std::uint32_t> ranks) {
        farcall_store_t *opened;
        detail::check(farcall_store_open(by.get(), ranks.begin(), ranks.size(), &opened));
        handle_.reset(opened);
    }
    // With a level, such as FARCALL_LEVEL_FLUSHED, that its writes survive; 0 is memory.
    std::uint64_t create_table(const std::string &name, std::uint32_t level = 0) {
        farcall_error_t said = FARCALL_ERROR_INIT;
        std::uint64_t table;
        detail::check(farcall_store_create_table_at(handle_.get(), name.c_str(), level, &table, &said), said);
        return table;
    }
};

// Slots of a store's daemon on this host; for the thread that made them.
class slots : public detail::slot_objects {
public:
    // `place` is what the store was started at, such as `127.0.0.1:7117`.
    explicit slots(const std::string &place) {
        farcall_error_t said = FARCALL_ERROR_INIT;
        farcall_slots_t *attached;
        detail::check(farcall_slots_attach(place.c_str(), nullptr, &attached, &said), said);
        handle_.reset(attached);
    }
    std::size_t depth() {
        std::size_t depth;
        detail::check(farcall_slots_depth(handle_.get(), &depth, nullptr));
        return depth;
    }
    // Throws with FARCALL_PEER_DEAD once the daemon is gone.
    void check() { detail::check(farcall_slots_check(handle_.get())); }
    // `next` gives what comes of these, with their tokens.
    void begin_get(std::uint64_t table, std::string_view key, std::uint64_t token) {
        detail::check(farcall_slots_begin_get(handle_.get(), table, key.data(), key.size(), token));
    }
    void begin_put(std::uint64_t table, std::string_view key, std::string_view value, std::uint64_t expected,
                   std::uint64_t token) {
        detail::check(farcall_slots_begin_put(handle_.get(), table, key.data(), key.size(), value.data(), value.size(),
                                              expected, token));
    }
    void begin_remove(std::uint64_t table, std::string_view key, std::uint64_t expected, std::uint64_t token) {
        detail::check(farcall_slots_begin_remove(handle_.get(), table, key.data(), key.size(), expected, token));
    }
    void begin_increment(std::uint64_t table, std::string_view key, std::int64_t amount, std::uint64_t token) {
        detail::check(farcall_slots_begin_increment(handle_.get(), table, key.data(), key.size(), amount, token));
    }
    // What has come of one; null if nothing has come since. Valid until the next use of the slots.
    const farcall_slot_outcome_t *next() {
        const farcall_slot_outcome_t *outcome;
        detail::check(farcall_slots_next(handle_.get(), &outcome));
        return outcome;
    }
};

} // namespace farcall
