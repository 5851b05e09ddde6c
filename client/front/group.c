#include "client/front/group.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "client/front/lines.h"
#include "client/front/process.h"
#include "client/front/supervisor.h"
#include "common/base/log.h"

#define FDS_MAX (1 + 2 * SUPERVISOR_CHILDREN_MAX)

struct member {
    struct group *group;
    const struct group_child *child;
    uint32_t i;
    struct process process;
    struct lines out, err;
    bool ready;       /* its ready line has come */
    bool unborn;      /* no process could be made; an exit is due */
    int code, signal; /* of the last exit */
    int log;          /* descriptor of the log file, or -1 */
    char ready_line[LINES_BYTES_MAX + 1];
    char last[ERROR_TEXT]; /* last line of standard error */
};

struct group {
    const struct group_options *options;
    struct supervisor supervisor;
    struct member *members; /* [options->n] */
    int signals;            /* signalfd */
    bool terminal;          /* there was one at the start */
    bool up;                /* all children have been ready */
    bool interrupted;       /* no job starts any more */
    bool job_failed;        /* it could not start */
    struct process job;     /* pid 0: none runs */
    FILE *to;               /* progress */
    struct error failure;
};

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Prints a progress line at once: the output may be a pipe. */
static void __attribute__((format(printf, 2, 3)))
report(const struct member *m, const char *fmt, ...)
{
    va_list ap;
    FILE *to = m->group->to;

    fprintf(to, "%-8s ", m->child->name);
    va_start(ap, fmt);
    vfprintf(to, fmt, ap);
    va_end(ap);
    putc('\n', to);
    fflush(to);
}

/* ---- output of a child ---- */

static void on_out_line(void *arg, const char *line, size_t n)
{
    static const char mark[] = " ready: ";
    struct member *m = arg;
    const char *ready = m->ready ? NULL : strstr(line, mark);
    const char *shown = ready != NULL ? ready + 1 : line;
    char text[LINES_BYTES_MAX + 1];

    log_escape(text, sizeof text, shown, strlen(shown));
    report(m, "%s", text);
    if (strstr(line, " waiting for the router: ") != NULL) {
        supervisor_waits(&m->group->supervisor, m->i, now_ms());
    }
    if (ready != NULL) {
        m->ready = true;
        memcpy(m->ready_line, line, n + 1);
        supervisor_ready(&m->group->supervisor, m->i, now_ms());
    }
}

static void on_err_line(void *arg, const char *line, size_t n)
{
    struct member *m = arg;

    log_escape(m->last, sizeof m->last, line, n);
    if (m->log >= 0) {
        /* The result is ignored: a full disk must not stop the group. */
        dprintf(m->log, "%s\n", line);
        return;
    }
    fprintf(stderr, "%-8s %s\n", m->child->name, m->last);
}

/* Reads what there is.  Closes *fd at its end. */
static void drain(struct member *m, int *fd, struct lines *l, lines_fn *fn)
{
    char bytes[4096];
    ssize_t n;

    if (*fd < 0) {
        return;
    }
    while ((n = read(*fd, bytes, sizeof bytes)) > 0 ||
           (n < 0 && errno == EINTR)) {
        lines_push(l, bytes, n > 0 ? (size_t)n : 0, fn, m);
    }
    if (n == 0 || errno != EAGAIN) {
        lines_finish(l, fn, m);
        close(*fd);
        *fd = -1;
    }
}

static void drain_both(struct member *m)
{
    drain(m, &m->process.err, &m->err, on_err_line);
    drain(m, &m->process.out, &m->out, on_out_line);
}

/* ---- what the supervisor asks for ---- */

static void on_start(void *arg, uint32_t i)
{
    struct group *g = arg;
    struct member *m = &g->members[i];
    struct error e;

    m->ready = false;
    m->out.n = m->err.n = 0;
    report(m, "%s", m->child->doing);
    if (process_start(&m->process, m->child->argv, &e) != ST_OK) {
        snprintf(m->last, sizeof m->last, "%s", e.text);
        m->unborn = true;
    }
}

static void on_signal(void *arg, uint32_t i, bool kill_it)
{
    struct group *g = arg;

    if (g->members[i].process.pid > 0) {
        kill(g->members[i].process.pid, kill_it ? SIGKILL : SIGTERM);
    }
}

/* Describes the last exit: "exit code 5", "signal 9 (Killed)". */
static void describe_exit(const struct member *m, char *text, size_t size)
{
    if (m->signal != 0) {
        snprintf(text, size, "signal %d (%s)", m->signal, strsignal(m->signal));
    } else {
        snprintf(text, size, "exit code %d", m->code);
    }
}

static void on_restarts(void *arg, uint32_t i, int64_t backoff_ms)
{
    struct group *g = arg;
    char how[100];

    describe_exit(&g->members[i], how, sizeof how);
    report(&g->members[i], "ended by %s; starts again in %.1f s", how,
           (double)backoff_ms / 1000);
}

static void on_failed(void *arg, uint32_t i)
{
    struct group *g = arg;
    const struct member *m = &g->members[i];
    char how[100];

    if (m->process.pid > 0) { /* it runs, and waits */
        snprintf(how, sizeof how, "no answer of the router for %d s",
                 SUPERVISOR_WAIT_MS / 1000);
    } else {
        describe_exit(m, how, sizeof how);
    }
    error_set(&g->failure, ST_FAILED_PRECONDITION, "%s cannot start (%s): %s",
              m->child->name, how, m->last[0] != '\0' ? m->last : "no message");
}

static void on_up(void *arg)
{
    struct group *g = arg;
    uint32_t n = g->options->n;

    g->up = true;
    g->options->up(g->options->arg, n > 0 ? g->members[n - 1].ready_line : "");
}

static const struct supervisor_ops ops = {on_start, on_signal, on_restarts,
                                          on_failed, on_up};

/* ---- logs ---- */

static enum status log_open(struct member *m, const char *log_dir,
                            struct error *e)
{
    char path[4096];

    m->log = -1;
    if (log_dir == NULL) {
        return ST_OK;
    }
    if ((size_t)snprintf(path, sizeof path, "%s/%s.log", log_dir,
                         m->child->name) >= sizeof path) {
        return error_set(e, ST_INVALID_ARGUMENT, "--log-dir is too long");
    }
    m->log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return m->log >= 0 ? ST_OK
                       : error_set(e, ST_UNAVAILABLE, "cannot open %s: %s",
                                   path, strerror(errno));
}

/* ---- the loop ---- */

static void reap(struct group *g)
{
    for (uint32_t i = 0; i < g->options->n; i++) {
        struct member *m = &g->members[i];
        bool exited = m->unborn;

        if (exited) {
            m->code = -1;
            m->signal = 0;
        } else {
            exited = process_exited(&m->process, &m->code, &m->signal);
        }
        if (exited) {
            m->unborn = false;
            drain_both(m); /* the reason of the exit is in the last lines */
            process_close(&m->process);
            supervisor_exited(&g->supervisor, i, m->code, now_ms());
        }
    }
}

static bool has_terminal(void)
{
    int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

/* A child that is not ready yet may still have the default action of SIGHUP,
 * and has nothing to reload. */
static void reload(struct group *g)
{
    uint32_t n = 0;
    struct error e;

    for (uint32_t i = 0; i < g->options->n; i++) {
        struct member *m = &g->members[i];
        int old = m->log;

        if (old >= 0 && log_open(m, g->options->log_dir, &e) != ST_OK) {
            report(m, "keeps its log: %s", e.text);
            m->log = old;
        } else if (old >= 0) {
            close(old);
        }
        if (m->ready && m->process.pid > 0) {
            kill(m->process.pid, SIGHUP);
            n++;
        }
    }
    fprintf(g->to, "reloading: SIGHUP sent to %u programs\n", n);
    fflush(g->to);
}

/* Stops the job and then the group, or kills them at the second call. */
static void stop(struct group *g)
{
    bool first = !g->interrupted;

    if (first) {
        fprintf(g->to,
                "\nstopping; a second Ctrl-C kills the programs at once\n");
        fflush(g->to);
    }
    g->interrupted = true;
    if (g->job.pid > 0) {
        kill(g->job.pid, first ? SIGINT : SIGKILL);
    }
    if (g->job.pid <= 0 || !first) {
        supervisor_stop(&g->supervisor, now_ms());
    }
}

static void take_signals(struct group *g)
{
    struct signalfd_siginfo info;

    while (read(g->signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD) {
            continue; /* reap() looks at all children anyway */
        }
        /* A terminal that closes also sends SIGHUP: the group then stops. */
        if (info.ssi_signo == SIGHUP && (!g->terminal || has_terminal())) {
            reload(g);
            continue;
        }
        stop(g);
    }
}

/* Starts the next job.  Stops the group if there is none. */
static void next_job(struct group *g, int code)
{
    char *const *argv = NULL;

    if (!g->interrupted && !g->supervisor.failed) {
        argv = g->options->next_job(g->options->arg, code);
    }
    if (argv != NULL &&
        process_start_bare(&g->job, argv, &g->failure) != ST_OK) {
        g->job_failed = true;
        argv = NULL;
    }
    if (argv == NULL && !g->supervisor.stopping) {
        supervisor_stop(&g->supervisor, now_ms());
    }
}

/* Reaps the job that runs, and starts the next one. */
static void run_jobs(struct group *g)
{
    int code = 0, signal;

    if (!g->up || g->options->next_job == NULL) {
        return;
    }
    if (g->job.pid > 0 && process_exited(&g->job, &code, &signal)) {
        next_job(g, code);
    } else if (g->job.pid <= 0 && !g->supervisor.stopping) {
        next_job(g, 0);
    }
}

static void turn(struct group *g)
{
    struct pollfd fds[FDS_MAX];
    nfds_t n = 0;
    int64_t now = now_ms(), due = supervisor_tick(&g->supervisor, now);
    int64_t wait = due == SUPERVISOR_IDLE ? -1 : due > now ? due - now : 0;

    fds[n++] = (struct pollfd){.fd = g->signals, .events = POLLIN};
    for (uint32_t i = 0; i < g->options->n; i++) {
        /* poll() skips a negative descriptor. */
        fds[n++] =
            (struct pollfd){.fd = g->members[i].process.out, .events = POLLIN};
        fds[n++] =
            (struct pollfd){.fd = g->members[i].process.err, .events = POLLIN};
        wait = g->members[i].unborn ? 0 : wait;
    }
    poll(fds, n, wait > INT32_MAX ? INT32_MAX : (int)wait);
    take_signals(g);
    for (uint32_t i = 0; i < g->options->n; i++) {
        drain_both(&g->members[i]);
    }
    reap(g);
    run_jobs(g);
}

/* ---- set-up ---- */

/* Blocks the signals for good: they arrive through the descriptor alone. */
static int signals_open(void)
{
    sigset_t set;

    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0) {
        return -1;
    }
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static enum status group_open(struct group *g, struct error *e)
{
    enum status st = ST_OK;

    g->signals = signals_open();
    g->terminal = has_terminal();
    g->members = calloc(g->options->n + 1, sizeof *g->members);
    if (g->signals < 0 || g->members == NULL) {
        return error_set(e, ST_UNAVAILABLE, "cannot watch processes: %s",
                         strerror(errno));
    }
    supervisor_init(&g->supervisor, &ops, g);
    for (uint32_t i = 0; i < g->options->n; i++) {
        struct member *m = &g->members[i];

        m->group = g;
        m->child = &g->options->children[i];
        m->i = supervisor_add(&g->supervisor, m->child->start_level,
                              m->child->stop_level);
        m->process = (struct process){.out = -1, .err = -1};
        m->log = -1;
    }
    for (uint32_t i = 0; i < g->options->n && st == ST_OK; i++) {
        st = log_open(&g->members[i], g->options->log_dir, e);
    }
    return st;
}

static void group_close(struct group *g)
{
    for (uint32_t i = 0; g->members != NULL && i < g->options->n; i++) {
        process_close(&g->members[i].process);
        if (g->members[i].log >= 0) {
            close(g->members[i].log);
        }
    }
    free(g->members);
    if (g->signals >= 0) {
        close(g->signals);
    }
}

enum status group_run(const struct group_options *options, struct error *e)
{
    struct group g = {.options = options,
                      .signals = -1,
                      .to = options->progress != NULL ? options->progress
                                                      : stdout};
    enum status st = group_open(&g, e);

    if (st == ST_OK) {
        supervisor_begin(&g.supervisor);
        if (options->n == 0) {
            on_up(&g);
            run_jobs(&g);
        }
        while (!supervisor_ended(&g.supervisor) || g.job.pid > 0) {
            turn(&g);
        }
        if (g.supervisor.failed || g.job_failed) {
            *e = g.failure;
            st = g.failure.code;
        }
    }
    group_close(&g);
    return st;
}
