/* Virtual time for a flight controller that was built for simulation and knows only the clock of the machine.
 *
 * Preloaded (LD_PRELOAD) into the process of the firmware. Its clock stands still while the vehicle moves, and the vehicle stands still while
 * the firmware works: a reading of the clock takes TICK_NS, a pause takes as long as it says, and at every sample of the vehicle the firmware
 * waits for the next packet. Nothing depends on the load of the machine, and equal flights are equal bit by bit.
 *
 * Threads that only receive packets become coroutines, which run when their packet is there; all others never start. Packets that the firmware
 * sends are kept, the last one for each port. Firmware and vehicle exchange them through the socket whose number is HEAVYTOP_LINK:
 *
 *     firmware -> vehicle   uint64 time in ns, then for each port of HEAVYTOP_SENDS: uint32 length, bytes (room for SIZE)
 *     vehicle -> firmware   for each port of HEAVYTOP_RECEIVES: uint32 length, bytes (room for SIZE); length 0: no packet
 *
 * Without HEAVYTOP_LINK time is real and only the ports change: servers listen on 127.0.0.1, at HEAVYTOP_SERVE plus their distance from
 * HEAVYTOP_SERVER, so that several processes do not meet and nothing outside of the machine can connect. Packets are not sent.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define TICK_NS 200    /* of one reading of the clock */
#define IDLE_NS 50000  /* pause of the idle loop of the firmware, which keeps the load of the machine low ... */
#define IDLE_TAKES 5000 /* ... and takes this time here */
#define SIZE 256
#define PORTS 4
#define WORKERS 8
#define STACK (256 * 1024)

struct packet { uint32_t length; unsigned char bytes[SIZE]; };
struct worker { ucontext_t context; void *(*run)(void *); void *argument; int port; bool started, ready; };

static int link_fd = -1;
static uint64_t now_ns, next_ns, period_ns;
static int send_ports[PORTS], receive_ports[PORTS], sends, receives;
static struct packet outgoing[PORTS], incoming[PORTS];
static int port_of_fd[1024];
static struct worker workers[WORKERS];
static int worker_count;
static struct worker *current;
static ucontext_t firmware;

static int ports_from(const char *text, int *ports)
{
    int count = 0;
    while (text && *text && count < PORTS) {
        ports[count++] = (int)strtol(text, (char **)&text, 10);
        if (*text == ',') text++;
    }
    return count;
}

__attribute__((constructor)) static void begin(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* no firmware outlives its simulation */
    const char *link = getenv("HEAVYTOP_LINK");
    if (!link) return;
    link_fd = atoi(link);
    period_ns = next_ns = strtoull(getenv("HEAVYTOP_PERIOD_NS"), NULL, 10);
    sends = ports_from(getenv("HEAVYTOP_SENDS"), send_ports);
    receives = ports_from(getenv("HEAVYTOP_RECEIVES"), receive_ports);
}

static int index_of(const int *ports, int count, int port)
{
    for (int k = 0; k < count; k++)
        if (ports[k] == port) return k;
    return -1;
}

static void transfer(void *data, size_t size, bool out)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = out ? write(link_fd, (char *)data + done, size - done) : read(link_fd, (char *)data + done, size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(0); /* the vehicle is gone: the flight is over */
        done += (size_t)n;
    }
}

static void resume(struct worker *worker)
{
    current = worker;
    swapcontext(&firmware, &worker->context);
    current = NULL;
}

/* The end of a sample: hand the packets over, wait for the next ones, let the threads that receive them work. */
static void exchange(void)
{
    unsigned char message[sizeof(uint64_t) + PORTS * sizeof(struct packet)];
    size_t size = sizeof now_ns;
    memcpy(message, &now_ns, sizeof now_ns);
    for (int k = 0; k < sends; k++, size += sizeof(struct packet)) memcpy(message + size, &outgoing[k], sizeof(struct packet));
    transfer(message, size, true);
    for (int k = 0; k < sends; k++) outgoing[k].length = 0;
    transfer(incoming, (size_t)receives * sizeof(struct packet), false);
    for (int k = 0; k < receives; k++)
        for (int j = 0; j < worker_count && incoming[k].length; j++) {
            struct worker *worker = &workers[j];
            if (!worker->started) { worker->started = true; resume(worker); } /* up to its first wait */
            if (worker->port == receive_ports[k]) { worker->ready = true; resume(worker); }
        }
}

static void advance(uint64_t by)
{
    if (current) return; /* no time passes while a packet is received */
    uint64_t end = now_ns + by;
    while (end >= next_ns) {
        now_ns = next_ns;
        next_ns += period_ns;
        exchange();
    }
    now_ns = end;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (link_fd < 0) {
        static int (*real)(clockid_t, struct timespec *);
        if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
        return real(clock, time);
    }
    advance(TICK_NS);
    time->tv_sec = (time_t)(now_ns / 1000000000u);
    time->tv_nsec = (long)(now_ns % 1000000000u);
    return 0;
}

int nanosleep(const struct timespec *wanted, struct timespec *left)
{
    if (link_fd < 0) {
        static int (*real)(const struct timespec *, struct timespec *);
        if (!real) real = (int (*)(const struct timespec *, struct timespec *))dlsym(RTLD_NEXT, "nanosleep");
        return real(wanted, left);
    }
    uint64_t ns = (uint64_t)wanted->tv_sec * 1000000000u + (uint64_t)wanted->tv_nsec;
    advance(ns == IDLE_NS ? IDLE_TAKES : ns);
    if (left) left->tv_sec = left->tv_nsec = 0;
    return 0;
}

static void entry(void)
{
    current->run(current->argument);
    swapcontext(&current->context, &firmware); /* ended: never resumed with a packet again */
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    if (link_fd < 0) {
        static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
        if (!real) real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
        return real(thread, attributes, run, argument);
    }
    (void)attributes;
    if (worker_count == WORKERS) return EAGAIN;
    struct worker *worker = &workers[worker_count++];
    *worker = (struct worker){.run = run, .argument = argument};
    getcontext(&worker->context);
    worker->context.uc_stack.ss_sp = malloc(STACK);
    worker->context.uc_stack.ss_size = STACK;
    worker->context.uc_link = &firmware;
    makecontext(&worker->context, entry, 0);
    *thread = (pthread_t)worker_count;
    return 0;
}

/* A thread waits for packets: it goes on when its port has one. */
int select(int count, fd_set *reading, fd_set *writing, fd_set *failing, struct timeval *limit)
{
    if (link_fd < 0 || !current) {
        static int (*real)(int, fd_set *, fd_set *, fd_set *, struct timeval *);
        if (!real) real = (int (*)(int, fd_set *, fd_set *, fd_set *, struct timeval *))dlsym(RTLD_NEXT, "select");
        return real(count, reading, writing, failing, limit);
    }
    struct worker *self = current;
    self->port = 0;
    for (int fd = 0; reading && fd < count && fd < 1024; fd++)
        if (FD_ISSET(fd, reading) && port_of_fd[fd]) self->port = port_of_fd[fd];
    self->ready = false;
    swapcontext(&self->context, &firmware);
    return self->ready ? 1 : 0;
}

ssize_t recvfrom(int fd, void *restrict data, size_t size, int flags, struct sockaddr *restrict from, socklen_t *restrict length)
{
    int k = link_fd < 0 || fd >= 1024 ? -1 : index_of(receive_ports, receives, port_of_fd[fd]);
    if (k < 0) {
        static ssize_t (*real)(int, void *restrict, size_t, int, struct sockaddr *restrict, socklen_t *restrict);
        if (!real) real = (ssize_t (*)(int, void *restrict, size_t, int, struct sockaddr *restrict, socklen_t *restrict))dlsym(RTLD_NEXT, "recvfrom");
        return real(fd, data, size, flags, from, length);
    }
    size_t n = incoming[k].length < size ? incoming[k].length : size;
    memcpy(data, incoming[k].bytes, n);
    return (ssize_t)n;
}

ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t length)
{
    int port = to && to->sa_family == AF_INET ? ntohs(((const struct sockaddr_in *)to)->sin_port) : 0;
    int k = link_fd < 0 ? -1 : index_of(send_ports, sends, port);
    if (k >= 0 && size <= SIZE) {
        outgoing[k].length = (uint32_t)size;
        memcpy(outgoing[k].bytes, data, size);
        return (ssize_t)size;
    }
    if (port && (link_fd >= 0 || getenv("HEAVYTOP_SERVE"))) return (ssize_t)size; /* a port that no one reads, or another simulator */
    static ssize_t (*real)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    if (!real) real = (ssize_t (*)(int, const void *, size_t, int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "sendto");
    return real(fd, data, size, flags, to, length);
}

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
    static int (*real)(int, const struct sockaddr *, socklen_t);
    if (!real) real = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "bind");
    int port = address->sa_family == AF_INET    ? ntohs(((const struct sockaddr_in *)address)->sin_port)
               : address->sa_family == AF_INET6 ? ntohs(((const struct sockaddr_in6 *)address)->sin6_port)
                                                : 0;
    if (!port) return real(fd, address, length);
    if (fd < 1024) port_of_fd[fd] = port;
    int kind = 0;
    socklen_t size = sizeof kind;
    getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &size);
    const char *serve = getenv("HEAVYTOP_SERVE"), *server = getenv("HEAVYTOP_SERVER");
    if (kind == SOCK_DGRAM || link_fd >= 0 || !serve || !server) return 0; /* no port is opened */
    uint16_t moved = htons((uint16_t)(atoi(serve) + port - atoi(server)));
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 local = {.sin6_family = AF_INET6, .sin6_port = moved, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
        return real(fd, (struct sockaddr *)&local, sizeof local);
    }
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = moved, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return real(fd, (struct sockaddr *)&local, sizeof local);
}
