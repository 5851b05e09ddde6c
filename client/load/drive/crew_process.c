#include "client/load/drive/crew_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/load/drive/edge.h"
#include "common/base/monotonic.h"

#define IN  3 /* the process's descriptors */
#define OUT 4

#define PREPARE_US 3000000 /* before the run begins */

struct process {
    const struct crew_options *o;
    struct generator *generator;
    struct pipe_writer writer;
    bool flush, blocked, stopped;
};

/* ---- set-up ---- */

static void take_signals(pid_t parent)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    sigset_t none;

    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
        signal(ignored[i], SIG_IGN);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
    if (getppid() != parent) {
        _exit(1); /* the parent died before the call */
    }
}

/* The descriptors of other processes would keep their pipes open. */
static void take_descriptors(int out, int in)
{
    int high_out = fcntl(out, F_DUPFD, OUT + 1);
    int high_in = fcntl(in, F_DUPFD, OUT + 1);

    if (high_out < 0 || high_in < 0 || dup2(high_in, IN) < 0 ||
        dup2(high_out, OUT) < 0 || close_range(OUT + 1, UINT_MAX, 0) != 0) {
        _exit(1);
    }
    fcntl(IN, F_SETFD, FD_CLOEXEC);
    fcntl(OUT, F_SETFD, FD_CLOEXEC);
    fcntl(OUT, F_SETFL, O_NONBLOCK);
}

/* Waits until the parent has taken everything. */
static void drain(struct pipe_writer *w)
{
    struct pollfd item = {.fd = w->fd, .events = POLLOUT};

    while (w->n > 0 && !w->broken) {
        pipe_writer_flush(w);
        if (w->n > 0 && !w->broken) {
            poll(&item, 1, -1);
        }
    }
}

static void deliver(struct pipe_writer *w, enum crew_record kind,
                    const void *what, size_t n)
{
    drain(w);
    w->full = false;
    pipe_writer_add(w, kind, what, n, NULL, 0);
    drain(w);
}

static _Noreturn void fail(struct pipe_writer *w, const struct error *e)
{
    deliver(w, CREW_ERROR, e, sizeof *e);
    _exit(1);
}

/* ---- samples and orders ---- */

static void on_sample(void *arg, const struct sample *s, const uint32_t *gaps)
{
    struct process *p = arg;

    pipe_writer_add(&p->writer, CREW_SAMPLE, s, sizeof *s, gaps,
                    s->n_gaps * sizeof *gaps);
    p->flush |= p->writer.n >= PIPE_BLOCK;
}

static void on_pulse(void *arg, const struct pulse *pulse)
{
    struct process *p = arg;

    pipe_writer_add(&p->writer, CREW_PULSE, pulse, sizeof *pulse, NULL, 0);
    p->flush = true;
}

static int items(void *arg, struct pollfd *to)
{
    const struct process *p = arg;

    to[0] = (struct pollfd){.fd = IN, .events = POLLIN};
    to[1] = (struct pollfd){.fd = p->blocked ? OUT : -1, .events = POLLOUT};
    return 2;
}

/* An order is written at once and far smaller than a socket's buffer, so it
 * comes whole. */
static void take_orders(struct process *p, int64_t now_us)
{
    struct crew_order order;
    ssize_t n;

    while ((n = recv(IN, &order, sizeof order, MSG_DONTWAIT)) ==
           (ssize_t)sizeof order) {
        p->stopped = true;
        generator_stop(p->generator, now_us, order.kind == CREW_STOP_AT_ONCE);
    }
    if (n == 0) {
        _exit(1); /* the parent has given the run up */
    }
}

static void turn(void *arg, const struct pollfd *found, int n, int64_t now_us)
{
    struct process *p = arg;

    (void)n;
    if (found[0].revents != 0) {
        take_orders(p, now_us);
    }
    if (found[1].revents != 0 || (p->flush && !p->blocked)) {
        pipe_writer_flush(&p->writer);
        p->blocked = p->writer.n > 0;
        p->flush = false;
    }
    if (p->writer.full && !p->stopped) {
        p->stopped = true;
        generator_stop(p->generator, now_us, true);
    }
}

/* ---- the run ---- */

static int64_t wait_for_begin(void)
{
    struct crew_order order;
    ssize_t n;

    do {
        n = recv(IN, &order, sizeof order, MSG_WAITALL);
    } while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof order || order.kind != CREW_BEGIN) {
        _exit(1);
    }
    return order.at_us;
}

static enum status make(const struct crew_options *o, uint32_t index,
                        struct generator_options *g, struct error *e)
{
    struct plan_options options = *o->plan_options;
    enum status st;

    options.share = index;
    options.n_shares = o->n_processes;
    *g = o->generator;
    g->plan = o->plan;
    g->process = index;
    if (g->duration_us == 0) {
        g->duration_us = options.duration_us;
    }
    st = plan_restart(o->plan, &options, e);
    if (st == ST_OK) {
        st = prompt_maker_new(&g->prompts, o->prompt_options, e);
    }
    if (st == ST_OK) {
        st = g->ops->open(&g->target, o->target_options, e);
    }
    return st;
}

/* Prepares what is due first, so that no process begins with a backlog. */
static void prepare(struct generator *g)
{
    int64_t before_us = monotonic_us(), until_us = before_us + PREPARE_US;

    while (before_us < until_us && generator_prepare(g)) {
        int64_t now_us = monotonic_us();

        generator_turned(g, now_us - before_us);
        before_us = now_us;
    }
}

static void run(struct process *p, const struct generator_options *options)
{
    struct edge edge = {
        .ops = options->ops,
        .target = options->target,
        .items = items,
        .turn = turn,
        .arg = p,
    };

    p->generator = edge.generator = generator_new(options);
    prepare(p->generator);
    deliver(&p->writer, CREW_READY, NULL, 0);
    generator_begin(p->generator, wait_for_begin());
    edge_run(&edge);
}

void crew_process(const struct crew_options *o, uint32_t index, pid_t parent,
                  int out, int in)
{
    struct process p = {.o = o};
    struct generator_options options;
    struct error e = {0};

    take_signals(parent);
    take_descriptors(out, in);
    pipe_writer_init(&p.writer, OUT, CREW_PIPE_BYTES);
    if (make(o, index, &options, &e) != ST_OK) {
        fail(&p.writer, &e);
    }
    options.on_sample = on_sample;
    options.on_pulse = on_pulse;
    options.arg = &p;
    run(&p, &options);
    options.ops->close(&options.target);
    if (p.writer.full) {
        error_set(&e, ST_RESOURCE_EXHAUSTED,
                  "generator process %u made more samples than its parent "
                  "reads: over %u MiB wait; lower the rate or use fewer "
                  "processes",
                  index, CREW_PIPE_BYTES >> 20);
        fail(&p.writer, &e);
    }
    deliver(&p.writer, CREW_DONE, NULL, 0);
    _exit(0);
}
