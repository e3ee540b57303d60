// A link between two network namespaces: carries IP packets from a TUN device of one to that of the other and
// back, at a rate, with a delay, a queue that drops at its end, and random loss. Each direction is by itself.
//
//     relay NAMESPACE NAMESPACE MBIT_PER_SECOND DELAY_US LOST_PERMILLE QUEUE_BYTES SEED
//
// Says "ready" when both devices ("link0") are there, and at its end (SIGTERM) what passed and what was dropped.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { PACKET_BYTES_MAX = 9216, PACKETS = 1 << 14 };

struct packet {
    uint64_t arrives_at;
    uint32_t bytes;
    unsigned char data[PACKET_BYTES_MAX];
};

// One direction: what is on its way, in order.
struct direction {
    int from, to;
    uint64_t free_at, passed, lost, dropped;
    uint32_t head, tail;
    struct packet *way;
};

static volatile sig_atomic_t over;
static uint64_t random_state;

static void stop(int signal) {
    (void)signal;
    over = 1;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t now_nanos(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t draw(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

// A TUN device in a namespace; this process stays where it is.
static int device(const char *namespace) {
    char path[256];
    snprintf(path, sizeof path, "/var/run/netns/%s", namespace);
    int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), there = open(path, O_RDONLY | O_CLOEXEC);
    if (home < 0 || there < 0 || setns(there, CLONE_NEWNET)) fail(path);
    int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (tun < 0) fail("/dev/net/tun");
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    strcpy(request.ifr_name, "link0");
    if (ioctl(tun, TUNSETIFF, &request)) fail("TUNSETIFF");
    if (setns(home, CLONE_NEWNET)) fail("setns");
    close(home);
    close(there);
    return tun;
}

// Takes in what the sending namespace gave to the link.
static void take_in(struct direction *direction, uint64_t mbit, uint64_t delay, uint64_t permille, uint64_t queue) {
    while (direction->head - direction->tail < PACKETS) {
        struct packet *packet = &direction->way[direction->head % PACKETS];
        ssize_t bytes = read(direction->from, packet->data, PACKET_BYTES_MAX);
        if (bytes <= 0) return;
        uint64_t now = now_nanos(), free_at = direction->free_at > now ? direction->free_at : now;
        if (draw() % 1000 < permille) {
            direction->lost++;
            continue;
        }
        if ((free_at - now) * mbit / 8000 > queue) {
            direction->dropped++;
            continue;
        }
        direction->free_at = free_at + (uint64_t)bytes * 8000 / mbit;
        packet->bytes = (uint32_t)bytes;
        packet->arrives_at = direction->free_at + delay;
        direction->head++;
    }
}

// Hands over what has arrived; when the next one will, or never.
static uint64_t hand_over(struct direction *direction) {
    while (direction->tail != direction->head) {
        struct packet *packet = &direction->way[direction->tail % PACKETS];
        if (packet->arrives_at > now_nanos()) return packet->arrives_at;
        if (write(direction->to, packet->data, packet->bytes) < 0) direction->dropped++;
        else direction->passed++;
        direction->tail++;
    }
    return UINT64_MAX;
}

int main(int count, char **words) {
    if (count != 8) {
        fprintf(stderr, "relay NAMESPACE NAMESPACE MBIT_PER_SECOND DELAY_US LOST_PERMILLE QUEUE_BYTES SEED\n");
        return 2;
    }
    uint64_t mbit = strtoull(words[3], 0, 10), delay = strtoull(words[4], 0, 10) * 1000;
    uint64_t permille = strtoull(words[5], 0, 10), queue = strtoull(words[6], 0, 10);
    random_state = strtoull(words[7], 0, 10) * 0x9e3779b97f4a7c15 + 1;
    int ends[2] = {device(words[1]), device(words[2])};
    struct direction directions[2];
    memset(directions, 0, sizeof directions);
    for (int at = 0; at < 2; at++) {
        directions[at].from = ends[at];
        directions[at].to = ends[1 - at];
        directions[at].way = malloc(sizeof(struct packet) * PACKETS);
        if (!directions[at].way) fail("malloc");
    }
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    printf("ready\n");
    fflush(stdout);
    struct pollfd polled[2] = {{.fd = ends[0], .events = POLLIN}, {.fd = ends[1], .events = POLLIN}};
    while (!over) {
        uint64_t next = UINT64_MAX;
        for (int at = 0; at < 2; at++) {
            take_in(&directions[at], mbit, delay, permille, queue);
            uint64_t one = hand_over(&directions[at]);
            next = one < next ? one : next;
        }
        uint64_t now = now_nanos(), wait = next == UINT64_MAX ? 100000000 : next > now ? next - now : 0;
        struct timespec time = {.tv_sec = 0, .tv_nsec = (long)wait};
        if (wait > 0 && ppoll(polled, 2, &time, 0) < 0 && errno != EINTR) fail("ppoll");
    }
    for (int at = 0; at < 2; at++) {
        struct direction *one = &directions[at];
        printf("from %s: %llu packets passed, %llu lost, %llu dropped by the queue\n", words[1 + at],
               (unsigned long long)one->passed, (unsigned long long)one->lost, (unsigned long long)one->dropped);
    }
    return 0;
}
