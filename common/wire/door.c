#include "common/wire/door.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/monotonic.h"

#define ACCEPTS 64 /* tried in one call, when the rules refuse */

/* The use of a descriptor. */
enum kind { FREE, LISTENING, GUARDED };

struct entry {
    /* Calls for any descriptor of the process read it. */
    _Atomic(uint8_t) kind;
    uint8_t door;
    bool spoke; /* has sent a message */
    bool ended; /* shut down here, and counted */
    atomic_bool trusted;
    _Atomic(uint32_t) generation; /* written under the lock */
    /* With keys: what came, and what was handed on. */
    _Atomic(uint32_t) scanned, taken;
    _Atomic(uint64_t) taken_bytes;
    uint32_t taken_before; /* at the last sweep */
    uint8_t stuck;         /* sweeps without progress */
    uint64_t address;
    int64_t due_us; /* when door_sweep() ends it */
    /* Only the I/O thread of the connection uses it. */
    struct zmtp_scan scan;
};

struct port {
    bool open, listens;
    atomic_bool drained; /* since the last sweep */
    struct door_config config;
    struct door_rules rules;
    struct door_counts counts;
};

/* The hooks have no argument to find their state by, so it is the process'. */
static struct {
    pthread_mutex_t lock; /* guards all but the kinds and the scanners */
    _Atomic(struct entry *) entries;
    uint32_t n_entries, n_used; /* entries; those that were ever guarded */
    uint32_t generation;
    int spare; /* given up to accept, and refuse, at the limit */
    struct port ports[DOOR_PORTS_MAX + 1];
} door = {.lock = PTHREAD_MUTEX_INITIALIZER, .spare = -1};

/* The door that the next listen() of this thread belongs to; 0: none. */
static _Thread_local unsigned expected;

/* The names are given to the assembler, because the C library declares the
 * functions with types and inline variants of its own. */
int door_hook_listen(int fd, int backlog) __asm__("listen");
int door_hook_accept(int fd, struct sockaddr *from, socklen_t *bytes,
                     int flags) __asm__("accept4");
ssize_t door_hook_recv(int fd, void *to, size_t n, int flags) __asm__("recv");
int door_hook_close(int fd) __asm__("close");

static int raw_close(int fd)
{
    return (int)syscall(SYS_close, fd);
}

static int raw_accept(int fd, struct sockaddr_storage *from, socklen_t *bytes,
                      int flags)
{
    *bytes = sizeof *from;
    return (int)syscall(SYS_accept4, fd, from, bytes, flags);
}

/* Returns the entry of a descriptor of this kind, NULL if it is another. */
static struct entry *entry_of(int fd, enum kind kind)
{
    struct entry *all =
        atomic_load_explicit(&door.entries, memory_order_acquire);

    if (all == NULL || fd < 0 || (uint32_t)fd >= door.n_entries ||
        atomic_load_explicit(&all[fd].kind, memory_order_acquire) != kind) {
        return NULL;
    }
    return &all[fd];
}

static struct entry *named(int fd, uint32_t generation)
{
    struct entry *e = entry_of(fd, GUARDED);

    return e != NULL && atomic_load(&e->generation) == generation ? e : NULL;
}

/* ---- doors ---- */

static uint64_t descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
        limit.rlim_cur > DOOR_FDS_MAX) {
        return DOOR_FDS_MAX;
    }
    return limit.rlim_cur;
}

/* Makes the table, of untouched memory, once. */
static void entries_make(void)
{
    struct entry *all;

    if (atomic_load(&door.entries) == NULL) {
        door.n_entries = (uint32_t)descriptor_limit();
        all = memory_must(calloc(door.n_entries, sizeof *all));
        atomic_store_explicit(&door.entries, all, memory_order_release);
    }
}

static void port_init(struct port *p, const struct door_config *c)
{
    p->open = true;
    p->listens = false;
    atomic_store(&p->drained, false);
    p->config = *c;
    p->counts = (struct door_counts){0};
}

unsigned door_open(const struct door_config *c, int64_t now_us)
{
    unsigned i = 1;

    pthread_mutex_lock(&door.lock);
    while (i <= DOOR_PORTS_MAX && door.ports[i].open) {
        i++;
    }
    if (i <= DOOR_PORTS_MAX) {
        entries_make();
        if (door.spare < 0) {
            door.spare = eventfd(0, EFD_CLOEXEC);
        }
        port_init(&door.ports[i], c);
        door_rules_init(&door.ports[i].rules, &c->limits, now_us);
        expected = i;
    }
    pthread_mutex_unlock(&door.lock);
    return i <= DOOR_PORTS_MAX ? i : 0;
}

bool door_listens(unsigned i)
{
    expected = 0;
    return door.ports[i].listens;
}

static void leave(struct entry *e)
{
    door_rules_leave(&door.ports[e->door].rules, e->address, e->spoke);
    atomic_store_explicit(&e->kind, FREE, memory_order_release);
}

/* libzmq may have left a descriptor open: nobody will account for it. */
void door_close(unsigned i)
{
    pthread_mutex_lock(&door.lock);
    expected = 0;
    for (uint32_t fd = 0; fd < door.n_used; fd++) {
        struct entry *e = entry_of((int)fd, GUARDED);

        if (e != NULL && e->door == i) {
            leave(e);
        }
    }
    door_rules_fini(&door.ports[i].rules);
    door.ports[i].open = false;
    pthread_mutex_unlock(&door.lock);
}

void door_limit(unsigned i, uint32_t connections, uint32_t per_address)
{
    pthread_mutex_lock(&door.lock);
    door.ports[i].rules.limits.connections = connections;
    door.ports[i].rules.limits.per_address = per_address;
    pthread_mutex_unlock(&door.lock);
}

struct door_counts door_counts(unsigned i)
{
    struct door_counts c;

    pthread_mutex_lock(&door.lock);
    c = door.ports[i].counts;
    pthread_mutex_unlock(&door.lock);
    return c;
}

/* ---- one connection ---- */

uint32_t door_generation(int fd)
{
    const struct entry *e;
    uint32_t generation;

    pthread_mutex_lock(&door.lock);
    e = entry_of(fd, GUARDED);
    generation = e != NULL ? e->generation : 0;
    pthread_mutex_unlock(&door.lock);
    return generation;
}

void door_trust(int fd, uint32_t generation)
{
    struct entry *e;

    pthread_mutex_lock(&door.lock);
    e = named(fd, generation);
    if (e != NULL) {
        atomic_store(&e->trusted, true);
    }
    pthread_mutex_unlock(&door.lock);
}

void door_dismiss(int fd, uint32_t generation, int64_t at_us)
{
    struct entry *e;

    pthread_mutex_lock(&door.lock);
    e = named(fd, generation);
    if (e != NULL && e->due_us > at_us) {
        e->due_us = at_us;
    }
    pthread_mutex_unlock(&door.lock);
}

/* libzmq still owns the descriptor: it is shut down here, and libzmq closes it
 * when it reads the end.  close() waits for the lock, so that the descriptor
 * is this connection's until then. */
static void end(int fd, struct entry *e)
{
    e->due_us = INT64_MAX;
    e->ended = true;
    shutdown(fd, SHUT_RDWR);
}

void door_cut(int fd, uint32_t generation, enum zmtp_fault fault)
{
    struct entry *e;

    pthread_mutex_lock(&door.lock);
    e = named(fd, generation);
    if (e != NULL && !e->ended) {
        door.ports[e->door].counts.cut[fault]++;
        end(fd, e);
    }
    pthread_mutex_unlock(&door.lock);
}

/* No lock: the call comes with each message.  A connection that takes the
 * place of an ended one within the call is credited with one frame. */
void door_taken(int fd, uint32_t generation, size_t bytes)
{
    struct entry *e = named(fd, generation);

    if (e != NULL) {
        atomic_fetch_add(&e->taken_bytes, bytes);
        atomic_fetch_add(&e->taken, 1);
    }
}

void door_drained(unsigned i)
{
    atomic_store(&door.ports[i].drained, true);
}

/* Returns whether e has had frames for DOOR_STUCK sweeps, none of which was
 * handed on although the port was read until it was empty.  More may be handed
 * on than has come: see door_taken(). */
static bool is_stuck(struct entry *e, bool drained)
{
    uint32_t taken = atomic_load(&e->taken);

    if ((int32_t)(atomic_load(&e->scanned) - taken) <= 0 ||
        taken != e->taken_before) {
        e->stuck = 0;
    } else if (drained) {
        e->stuck++;
    }
    e->taken_before = taken;
    return e->stuck >= DOOR_STUCK;
}

static void sweep_one(struct port *p, int fd, struct entry *e, bool drained,
                      int64_t now_us)
{
    if (e->ended) {
        return;
    }
    if (e->due_us <= now_us) {
        p->counts.cut[ZMTP_FINE] += !e->spoke;
        end(fd, e);
    } else if (p->config.curve && is_stuck(e, drained)) {
        p->counts.cut[ZMTP_PARTS]++;
        e->stuck = 0;
        end(fd, e);
    }
}

void door_sweep(unsigned i, int64_t now_us)
{
    bool drained = atomic_exchange(&door.ports[i].drained, false);

    pthread_mutex_lock(&door.lock);
    for (uint32_t fd = 0; fd < door.n_used; fd++) {
        struct entry *e = entry_of((int)fd, GUARDED);

        if (e != NULL && e->door == i) {
            sweep_one(&door.ports[i], (int)fd, e, drained, now_us);
        }
    }
    pthread_mutex_unlock(&door.lock);
}

/* ---- the hooks ---- */

int door_hook_listen(int fd, int backlog)
{
    struct entry *all = atomic_load(&door.entries);

    if (expected != 0 && (uint32_t)fd < door.n_entries) {
        all[fd].door = (uint8_t)expected;
        atomic_store_explicit(&all[fd].kind, LISTENING, memory_order_release);
        door.ports[expected].listens = true;
        /* libzmq accepts once for each event, so its listeners block.  Here a
         * refused connection is followed by another accept, which must not
         * wait: the thread serves all connections of the port. */
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    }
    return (int)syscall(SYS_listen, fd, backlog);
}

/* Returns whether the port may have this new descriptor.  The kernel gives out
 * the lowest number that is free, so the number is at most that of the
 * descriptors in use. */
static bool may_have(const struct port *p, int fd)
{
    uint64_t left = descriptor_limit();

    if (p->config.rank != DOOR_ALL) {
        left = left > DOOR_RESERVE ? left - DOOR_RESERVE : 0;
    }
    if (p->config.rank == DOOR_SECOND) {
        left -= left / 4;
    }
    return (uint64_t)fd < left && (uint32_t)fd < door.n_entries;
}

/* Judges a new connection; if it is accepted, guards it. */
static bool enter(unsigned i, int fd, const struct sockaddr *from)
{
    struct port *p = &door.ports[i];
    uint64_t address = door_address(from);
    int64_t now_us = monotonic_us();
    enum door_verdict v = DOOR_DESCRIPTORS;
    struct entry *e;

    pthread_mutex_lock(&door.lock);
    if (may_have(p, fd)) {
        v = door_rules_enter(&p->rules, address, now_us);
    }
    if (v == DOOR_OPEN) {
        e = &atomic_load(&door.entries)[fd];
        e->door = (uint8_t)i;
        e->address = address;
        e->spoke = e->ended = false;
        atomic_store(&e->generation, ++door.generation);
        atomic_store(&e->scanned, 0);
        atomic_store(&e->taken, 0);
        atomic_store(&e->taken_bytes, 0);
        e->taken_before = 0;
        e->stuck = 0;
        e->due_us = now_us + DOOR_SILENT_MS * INT64_C(1000);
        atomic_store(&e->trusted, false);
        zmtp_scan_init(&e->scan, p->config.curve);
        atomic_store_explicit(&e->kind, GUARDED, memory_order_release);
        door.n_used =
            (uint32_t)fd < door.n_used ? door.n_used : (uint32_t)fd + 1;
        p->counts.accepted++;
    } else {
        p->counts.refused[v]++;
    }
    pthread_mutex_unlock(&door.lock);
    return v == DOOR_OPEN;
}

/* At the limit of descriptors a waiting connection would keep its thread busy:
 * the spare descriptor is given up to refuse it. */
static void shed(unsigned i, int fd)
{
    struct sockaddr_storage from;
    socklen_t bytes;
    int got;

    pthread_mutex_lock(&door.lock);
    if (door.spare >= 0) {
        raw_close(door.spare);
    }
    got = raw_accept(fd, &from, &bytes, SOCK_CLOEXEC);
    if (got >= 0) {
        raw_close(got);
        door.ports[i].counts.refused[DOOR_DESCRIPTORS]++;
    }
    door.spare = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_unlock(&door.lock);
}

static void give_address(struct sockaddr *to, socklen_t *room,
                         const struct sockaddr_storage *from, socklen_t bytes)
{
    if (to != NULL && room != NULL) {
        memcpy(to, from, bytes < *room ? bytes : *room);
        *room = bytes;
    }
}

/* To libzmq, a refused connection is one that has gone before the accept.  Its
 * listener for ipc ends the program at EMFILE (4.3.4), so EMFILE becomes
 * EAGAIN too. */
static int accept_guarded(unsigned i, int fd, struct sockaddr *to,
                          socklen_t *room, int flags)
{
    struct sockaddr_storage from;
    socklen_t bytes;

    for (int n = 0; n < ACCEPTS; n++) {
        int got = raw_accept(fd, &from, &bytes, flags);

        if (got < 0 && (errno == EMFILE || errno == ENFILE)) {
            shed(i, fd);
        } else if (got < 0) {
            return got;
        } else if (enter(i, got, (const struct sockaddr *)&from)) {
            give_address(to, room, &from, bytes);
            return got;
        } else {
            raw_close(got);
        }
    }
    errno = EAGAIN;
    return -1;
}

int door_hook_accept(int fd, struct sockaddr *from, socklen_t *bytes, int flags)
{
    const struct entry *e = entry_of(fd, LISTENING);

    if (e == NULL) {
        return (int)syscall(SYS_accept4, fd, from, bytes, flags);
    }
    return accept_guarded(e->door, fd, from, bytes, flags);
}

/* The connection has spoken, or broken a rule.  Either happens once. */
static void note(struct entry *e, bool first, enum zmtp_fault fault)
{
    struct port *p = &door.ports[e->door];

    pthread_mutex_lock(&door.lock);
    if (first) {
        p->counts.spoke++;
        door_rules_spoke(&p->rules, e->address);
        e->spoke = true;
        e->due_us = INT64_MAX;
    }
    if (fault != ZMTP_FINE) {
        p->counts.cut[fault]++;
    }
    pthread_mutex_unlock(&door.lock);
}

/* Returns whether more has come on a connection than may wait in libzmq: with a
 * key, what it queues of whole messages.  The differences have signs: see
 * door_taken(). */
static bool has_too_much(struct entry *e, const struct door_config *c)
{
    uint64_t taken_bytes = atomic_load(&e->taken_bytes);
    int64_t bytes = (int64_t)(e->scan.bytes - taken_bytes);
    int32_t frames = (int32_t)(e->scan.messages - atomic_load(&e->taken));

    atomic_store(&e->scanned, e->scan.messages);
    if (taken_bytes == 0 && frames > DOOR_UNHEARD_MAX) {
        return true;
    }
    return c->curve && (frames > DOOR_UNTAKEN_MAX ||
                        bytes > (atomic_load(&e->trusted) ? c->trusted_untaken
                                                          : c->untaken_bytes));
}

ssize_t door_hook_recv(int fd, void *to, size_t n, int flags)
{
    ssize_t got = syscall(SYS_recvfrom, fd, to, n, flags, NULL, NULL);
    struct entry *e = got > 0 ? entry_of(fd, GUARDED) : NULL;
    const struct door_config *c;
    enum zmtp_fault before, fault;
    bool spoke;

    if (e == NULL || (flags & MSG_PEEK) != 0) {
        return got;
    }
    c = &door.ports[e->door].config;
    spoke = e->scan.spoke;
    before = e->scan.fault;
    fault =
        zmtp_scan(&e->scan, to, (size_t)got,
                  atomic_load(&e->trusted) ? c->trusted_max : c->message_max);
    if (fault == ZMTP_FINE && has_too_much(e, c)) {
        fault = e->scan.fault = ZMTP_PARTS;
    }
    if (e->scan.spoke != spoke || fault != before) {
        note(e, e->scan.spoke != spoke, fault);
    }
    if (fault != ZMTP_FINE) {
        errno = ECONNRESET;
        return -1;
    }
    return got;
}

/* A connection that was cut, or that a sweep has ended, is counted already. */
static void count_close(struct port *p, const struct entry *e)
{
    p->counts.closed++;
    if (p->config.curve && !e->spoke && e->due_us != INT64_MAX &&
        e->scan.fault == ZMTP_FINE) {
        p->counts.unbegun += !e->scan.greeted;
        p->counts.unfinished += e->scan.greeted;
    }
}

/* The account ends before the descriptor: afterwards the number may be that of
 * another connection. */
int door_hook_close(int fd)
{
    struct entry *e = entry_of(fd, GUARDED);

    if (e == NULL) {
        e = entry_of(fd, LISTENING);
        if (e != NULL) {
            atomic_store_explicit(&e->kind, FREE, memory_order_release);
        }
        return raw_close(fd);
    }
    pthread_mutex_lock(&door.lock);
    count_close(&door.ports[e->door], e);
    leave(e);
    pthread_mutex_unlock(&door.lock);
    return raw_close(fd);
}
