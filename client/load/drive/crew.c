#include "client/load/drive/crew.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/load/drive/crew_process.h"
#include "client/load/drive/edge.h"
#include "client/load/drive/flight.h"
#include "common/base/memory.h"
#include "common/base/monotonic.h"

#define READ_BYTES     ((size_t)1 << 20)
#define READS_PER_TURN 4
#define PIPE_SIZE      (1 << 20) /* asked of the system */

_Static_assert(sizeof(struct sample) % 8 == 0, "gaps follow a sample");
_Static_assert(sizeof(struct pipe_record) + sizeof(struct sample) +
                       FLIGHT_GAPS_MAX * sizeof(uint32_t) <
                   READ_BYTES,
               "the largest record fits");

struct member {
    pid_t pid; /* 0: none, or reaped */
    int in, out;
    bool ready, done;
    char *bytes; /* [READ_BYTES] */
    size_t n;
};

struct crew {
    struct member members[CREW_MAX]; /* [n] */
    uint32_t n, n_open;              /* n_open: their pipes have not ended */
    int64_t began_us;
};

/* What to do with records; on_sample is NULL before the run. */
struct taker {
    void (*on_sample)(void *arg, const struct sample *s, const uint32_t *gaps);
    void (*on_pulse)(void *arg, const struct pulse *p);
    void *arg;
};

/* ---- records ---- */

static enum status take_sample(const struct taker *t, const char *bytes,
                               size_t n, struct error *e)
{
    struct sample s;

    if (n < sizeof s) {
        return error_set(e, ST_DATA_LOSS, "a sample is cut off");
    }
    memcpy(&s, bytes, sizeof s);
    if (s.n_gaps > (n - sizeof s) / sizeof(uint32_t)) {
        return error_set(e, ST_DATA_LOSS, "a sample's gaps are cut off");
    }
    t->on_sample(t->arg, &s,
                 (const uint32_t *)(const void *)(bytes + sizeof s));
    return ST_OK;
}

static enum status take_pulse(const struct taker *t, const char *bytes,
                              size_t n, struct error *e)
{
    struct pulse p;

    if (n < sizeof p) {
        return error_set(e, ST_DATA_LOSS, "a pulse is cut off");
    }
    memcpy(&p, bytes, sizeof p);
    t->on_pulse(t->arg, &p);
    return ST_OK;
}

static enum status take_error(const char *bytes, size_t n, struct error *e)
{
    struct error theirs;

    if (n < sizeof theirs) {
        return error_set(e, ST_DATA_LOSS, "an error is cut off");
    }
    memcpy(&theirs, bytes, sizeof theirs);
    theirs.text[sizeof theirs.text - 1] = '\0';
    return error_set(e, theirs.code == ST_OK ? ST_INTERNAL : theirs.code, "%s",
                     theirs.text);
}

static enum status take(struct member *m, const struct taker *t, uint32_t kind,
                        const char *bytes, size_t n, struct error *e)
{
    switch (kind) {
    case CREW_READY:
        m->ready = true;
        return ST_OK;
    case CREW_DONE:
        m->done = true;
        return ST_OK;
    case CREW_ERROR:
        return take_error(bytes, n, e);
    case CREW_SAMPLE:
        return take_sample(t, bytes, n, e);
    case CREW_PULSE:
        return take_pulse(t, bytes, n, e);
    default:
        return error_set(e, ST_DATA_LOSS, "a record of unknown kind %u", kind);
    }
}

/* Takes the whole records that were read. */
static enum status take_all(struct member *m, const struct taker *t,
                            struct error *e)
{
    size_t at = 0;
    enum status st = ST_OK;

    while (st == ST_OK && m->n - at >= sizeof(struct pipe_record)) {
        struct pipe_record r;

        memcpy(&r, m->bytes + at, sizeof r);
        if (r.size % 8 != 0 || r.size > READ_BYTES - sizeof r) {
            return error_set(e, ST_DATA_LOSS, "a record of %u bytes", r.size);
        }
        if (m->n - at < sizeof r + r.size) {
            break;
        }
        st = take(m, t, r.kind, m->bytes + at + sizeof r, r.size, e);
        at += sizeof r + r.size;
    }
    memmove(m->bytes, m->bytes + at, m->n - at);
    m->n -= at;
    return st;
}

/* ---- processes ---- */

static void reap(struct member *m, int *how)
{
    while (waitpid(m->pid, how, 0) < 0 && errno == EINTR) {
    }
    m->pid = 0;
}

static void kill_all(struct crew *c)
{
    int how;

    for (uint32_t i = 0; i < c->n; i++) {
        if (c->members[i].pid > 0) {
            kill(c->members[i].pid, SIGKILL);
        }
    }
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->members[i].pid > 0) {
            reap(&c->members[i], &how);
        }
    }
}

/* Takes the end of a process's pipe. */
static enum status take_end(struct crew *c, struct member *m, struct error *e)
{
    uint32_t index = (uint32_t)(m - c->members);
    pid_t pid = m->pid;
    int how = 0;

    close(m->in);
    m->in = -1;
    c->n_open--;
    reap(m, &how);
    if (WIFSIGNALED(how)) {
        return error_set(e, ST_DATA_LOSS,
                         "generator process %u (pid %d) was killed by signal "
                         "%d (%s): its samples are missing",
                         index, (int)pid, WTERMSIG(how),
                         strsignal(WTERMSIG(how)));
    }
    if (!m->done) {
        return error_set(e, ST_DATA_LOSS,
                         "generator process %u (pid %d) ended with exit code "
                         "%d in the middle of the run: its samples are missing",
                         index, (int)pid, WEXITSTATUS(how));
    }
    return ST_OK;
}

/* Reads what has come from a process. */
static enum status take_from(struct crew *c, struct member *m,
                             const struct taker *t, struct error *e)
{
    enum status st = ST_OK;

    for (int i = 0; i < READS_PER_TURN && st == ST_OK; i++) {
        ssize_t n = read(m->in, m->bytes + m->n, READ_BYTES - m->n);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return ST_OK;
        }
        if (n <= 0) {
            return take_end(c, m, e);
        }
        m->n += (size_t)n;
        st = take_all(m, t, e);
    }
    return st;
}

static enum status take_from_all(struct crew *c, const struct taker *t,
                                 struct error *e)
{
    enum status st = ST_OK;

    for (uint32_t i = 0; i < c->n && st == ST_OK; i++) {
        if (c->members[i].in >= 0) {
            st = take_from(c, &c->members[i], t, e);
        }
    }
    if (st != ST_OK) {
        kill_all(c);
    }
    return st;
}

/* ---- the start ---- */

static void close_two(int fds[2])
{
    close(fds[0]);
    close(fds[1]);
}

static enum status start_one(struct crew *c, const struct crew_options *o,
                             struct error *e)
{
    struct member *m = &c->members[c->n];
    pid_t parent = getpid();
    int up[2], down[2];

    if (pipe2(up, O_CLOEXEC) != 0) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "pipe: %s", strerror(errno));
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, down) != 0) {
        close_two(up);
        return error_set(e, ST_RESOURCE_EXHAUSTED, "socketpair: %s",
                         strerror(errno));
    }
    m->pid = fork();
    if (m->pid == 0) {
        crew_process(o, c->n, parent, up[1], down[1]);
    }
    if (m->pid < 0) {
        m->pid = 0;
        close_two(up);
        close_two(down);
        return error_set(e, ST_RESOURCE_EXHAUSTED, "fork: %s", strerror(errno));
    }
    close(up[1]);
    close(down[1]);
    m->in = up[0];
    m->out = down[0];
    fcntl(m->in, F_SETFL, O_NONBLOCK);
    fcntl(m->in, F_SETPIPE_SZ, PIPE_SIZE); /* the default serves too */
    m->bytes = memory_must(malloc(READ_BYTES));
    c->n++;
    c->n_open++;
    return ST_OK;
}

static bool all_ready(const struct crew *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (!c->members[i].ready) {
            return false;
        }
    }
    return true;
}

/* An order that a dead process cannot take is no error here: the end of its
 * pipe is. */
static void order_all(struct crew *c, enum crew_order_kind kind, int64_t at_us)
{
    struct crew_order order = {kind, at_us};

    for (uint32_t i = 0; i < c->n; i++) {
        (void)send(c->members[i].out, &order, sizeof order,
                   MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

static enum status start_all(struct crew *c, const struct crew_options *o,
                             struct error *e)
{
    const struct taker none = {0};
    struct pollfd items[CREW_MAX];
    enum status st = ST_OK;

    while (st == ST_OK && c->n < o->n_processes) {
        st = start_one(c, o, e);
    }
    while (st == ST_OK && !all_ready(c)) {
        poll(items, (nfds_t)crew_items(c, items), -1);
        st = take_from_all(c, &none, e);
    }
    return st;
}

enum status crew_start(struct crew **out, const struct crew_options *o,
                       struct error *e)
{
    struct crew *c;
    enum status st;

    *out = NULL;
    if (o->n_processes < 1 || o->n_processes > CREW_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u generator processes: 1 to %d are possible",
                         o->n_processes, CREW_MAX);
    }
    c = memory_must(calloc(1, sizeof *c));
    st = start_all(c, o, e);
    if (st != ST_OK) {
        crew_free(&c);
        return st;
    }
    c->began_us = monotonic_us() + CREW_BEGIN_US;
    order_all(c, CREW_BEGIN, c->began_us);
    *out = c;
    return ST_OK;
}

/* ---- the run ---- */

int64_t crew_began_us(const struct crew *c)
{
    return c->began_us;
}

int crew_items(const struct crew *c, struct pollfd *items)
{
    int n = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        if (c->members[i].in >= 0) {
            items[n++] =
                (struct pollfd){.fd = c->members[i].in, .events = POLLIN};
        }
    }
    return n;
}

bool crew_turn(struct crew *c,
               void (*on_sample)(void *arg, const struct sample *s,
                                 const uint32_t *gaps),
               void (*on_pulse)(void *arg, const struct pulse *p), void *arg,
               enum status *status, struct error *e)
{
    const struct taker t = {on_sample, on_pulse, arg};

    *status = take_from_all(c, &t, e);
    return *status == ST_OK && c->n_open > 0;
}

void crew_stop(struct crew *c, bool at_once)
{
    order_all(c, at_once ? CREW_STOP_AT_ONCE : CREW_STOP, 0);
}

void crew_free(struct crew **self)
{
    struct crew *c = *self;

    if (c == NULL) {
        return;
    }
    kill_all(c);
    for (uint32_t i = 0; i < c->n; i++) {
        struct member *m = &c->members[i];

        if (m->in >= 0) {
            close(m->in);
        }
        close(m->out);
        free(m->bytes);
    }
    free(c);
    *self = NULL;
}
