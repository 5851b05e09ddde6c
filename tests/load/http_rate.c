/* http_rate.c - The HTTP target alone, driven on an absolute schedule.
 *
 * Prints the rate, the lag from the intended start to the send, and the CPU
 * time of a request.  With several processes the figures are of all of them
 * together. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/load/drive/http_target.h"
#include "common/base/monotonic.h"
#include "common/base/option.h"

#define AHEAD_MAX  4096 /* prepared requests */
#define AHEAD_STEP 4    /* prepared in a turn */

#define RATE_OPTIONS(X)                                                  \
    X(target, STRING, "URL", NULL, "the server", 0, 0)                   \
    X(rate, F64, "N", "20000", "requests per second", 0.1, 1000000)      \
    X(time, MS, "TIME", "5s", "how long", 100, 3600000)                  \
    X(prompt, U32, "N", "8", "ids of a prompt", 1, 1000000)              \
    X(output, U32, "N", "4", "tokens of an answer", 1, 100000)           \
    X(ahead, U32, "N", "256", "requests prepared ahead", 1, AHEAD_MAX)   \
    X(processes, U32, "N", "1", "processes", 1, 16)                      \
    X(connections, U32, "N", "0", "connections of a process; 0: any", 0, \
      65536)                                                             \
    X(chat, FLAG, NULL, NULL, "chat with a short text", 0, 0)            \
    X(key, STRING, "KEY", NULL, "API key", 0, 0)                         \
    X(insecure, FLAG, NULL, NULL, "accept any certificate", 0, 0)        \
    X(help, FLAG, NULL, NULL, "print this and exit", 0, 0)

OPTION_TABLE(rate_options, RATE_OPTIONS);

struct ask {
    int64_t due_us, first_us;
    bool ended;
};

/* Reports of a process to its parent. */
struct summary {
    uint64_t n_ok, n_bad, n_events, n_lags;
    int64_t took_us, cpu_us, user_us, turn_max_us;
    int64_t ttft_sum_us;
    char why[120];
};

static struct rate_options options;
static struct summary sum;
static int64_t *lags;
static uint64_t n_open;

static void on_sent(void *arg, int64_t now)
{
    lags[sum.n_lags++] = now - ((struct ask *)arg)->due_us;
}

static void on_output(void *arg, int64_t now, uint32_t n, const uint32_t *ids,
                      size_t n_ids, const char *text, size_t n_text)
{
    struct ask *a = arg;

    (void)n, (void)ids, (void)n_ids, (void)text, (void)n_text;
    sum.n_events++;
    a->first_us = a->first_us == 0 ? now : a->first_us;
}

static void on_end(void *arg, int64_t now, const struct call_end *end)
{
    struct ask *a = arg;

    (void)now;
    if (end->outcome == OUTCOME_OK) {
        sum.n_ok++;
        sum.ttft_sum_us += a->first_us - a->due_us;
    } else {
        sum.n_bad++;
        snprintf(sum.why, sizeof sum.why, "%s", end->why);
    }
    n_open--;
    free(a);
}

static const struct call_ops ops = {on_sent, on_output, on_end};

struct run {
    struct target *t;
    struct prompt prompt;
    struct call *ahead[AHEAD_MAX];
    struct ask *asks[AHEAD_MAX];
    uint64_t n_prepared, n_started, n_total;
    int64_t start_us;
    double gap_us;
};

static int64_t due_of(const struct run *r, uint64_t i)
{
    return r->start_us + (int64_t)((double)i * r->gap_us);
}

static void prepare(struct run *r)
{
    for (int i = 0; i < AHEAD_STEP && r->n_prepared < r->n_total &&
                    r->n_prepared - r->n_started < options.ahead;
         i++) {
        struct ask *a = calloc(1, sizeof *a);
        struct call_request q = {.prompt = &r->prompt,
                                 .max_tokens = options.output,
                                 .number = r->n_prepared,
                                 .ops = &ops,
                                 .arg = a};
        struct error e;
        size_t bytes;

        a->due_us = due_of(r, r->n_prepared);
        r->asks[r->n_prepared % AHEAD_MAX] = a;
        r->ahead[r->n_prepared % AHEAD_MAX] =
            http_target.prepare(r->t, &q, &bytes, &e);
        r->n_prepared++;
    }
}

static void turn(struct run *r)
{
    struct pollfd items[TARGET_ITEMS];
    int64_t due, next, now = monotonic_us();
    struct timespec wait = {0};
    int n;

    while (r->n_started < r->n_prepared && due_of(r, r->n_started) <= now) {
        n_open++;
        http_target.start(r->t, r->ahead[r->n_started++ % AHEAD_MAX], now);
        now = monotonic_us();
    }
    prepare(r);
    n = http_target.items(r->t, items, &due);
    next = r->n_started < r->n_total ? due_of(r, r->n_started) : due;
    next = due < next ? due : next;
    if (next > now && r->n_prepared - r->n_started >=
                          (options.ahead < r->n_total - r->n_started
                               ? options.ahead
                               : r->n_total - r->n_started)) {
        int64_t left = next - now < 1000000 ? next - now : 1000000;

        wait.tv_nsec = left * 1000 < 1000000000 ? left * 1000 : 999999999;
    }
    ppoll(items, (nfds_t)n, &wait, NULL);
    now = monotonic_us();
    http_target.turn(r->t, items, n, now);
    now = monotonic_us() - now;
    sum.turn_max_us = now > sum.turn_max_us ? now : sum.turn_max_us;
}

static int64_t us_of(struct timeval t)
{
    return (int64_t)t.tv_sec * 1000000 + t.tv_usec;
}

static void drive(struct run *r, uint32_t process, int64_t start)
{
    struct rusage before, after;

    r->gap_us = 1e6 * options.processes / options.rate;
    r->n_total = (uint64_t)((double)options.time * 1000 / r->gap_us);
    r->start_us = start + (int64_t)(r->gap_us * process / options.processes);
    lags = calloc(r->n_total, sizeof *lags);
    while (r->n_prepared < r->n_total && r->n_prepared < options.ahead) {
        prepare(r);
    }
    getrusage(RUSAGE_SELF, &before);
    while (r->n_started < r->n_total || n_open > 0) {
        turn(r);
    }
    getrusage(RUSAGE_SELF, &after);
    sum.took_us = monotonic_us() - r->start_us;
    sum.user_us = us_of(after.ru_utime) - us_of(before.ru_utime);
    sum.cpu_us = sum.user_us + us_of(after.ru_stime) - us_of(before.ru_stime);
}

static void put(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;

    while (n > 0) {
        ssize_t part = write(fd, p, n);

        if (part <= 0) {
            exit(1);
        }
        p += part;
        n -= (size_t)part;
    }
}

static void set_prompt(struct prompt *p)
{
    static char text[] = "How are you?";

    if (options.chat) {
        p->text = text;
        p->n_text = sizeof text - 1;
        return;
    }
    p->n_ids = options.prompt;
    p->ids = calloc(options.prompt, sizeof *p->ids);
    for (uint32_t i = 0; i < options.prompt; i++) {
        p->ids[i] = i * 7919 % 50000;
    }
}

static void child(int to, uint32_t process, int64_t start)
{
    static struct run r;
    struct target_options o = {.endpoint = options.target,
                               .model = "fake",
                               .key = options.key,
                               .stream = true,
                               .chat = options.chat,
                               .insecure = options.insecure,
                               .n_connections = options.connections,
                               .connect_ms = 10000};
    struct error e;

    prctl(PR_SET_TIMERSLACK, 1000); /* else ppoll() is up to 50 us late */
    if (http_target.open(&r.t, &o, &e) != ST_OK) {
        fprintf(stderr, "http_rate: %s\n", e.text);
        exit(1);
    }
    set_prompt(&r.prompt);
    drive(&r, process, start);
    http_target.close(&r.t);
    put(to, &sum, sizeof sum);
    put(to, lags, sum.n_lags * sizeof *lags);
    exit(0);
}

static bool get(int fd, void *bytes, size_t n)
{
    char *p = bytes;

    while (n > 0) {
        ssize_t part = read(fd, p, n);

        if (part <= 0) {
            return false;
        }
        p += part;
        n -= (size_t)part;
    }
    return true;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void print(const struct summary *s, int64_t *all)
{
    uint64_t n = s->n_ok + s->n_bad;

    qsort(all, s->n_lags, sizeof *all, by_value);
    printf("%.0f requests/s, %.0f events/s, %llu ok, %llu not ok%s%s\n",
           (double)n * 1e6 / (double)s->took_us,
           (double)s->n_events * 1e6 / (double)s->took_us,
           (unsigned long long)s->n_ok, (unsigned long long)s->n_bad,
           s->n_bad > 0 ? ": " : "", s->why);
    if (s->n_lags > 0 && n > 0) {
        printf("lag us: p50 %lld, p99 %lld, p99.9 %lld, max %lld; longest turn "
               "%lld\n",
               (long long)all[s->n_lags / 2],
               (long long)all[s->n_lags * 99 / 100],
               (long long)all[s->n_lags * 999 / 1000],
               (long long)all[s->n_lags - 1], (long long)s->turn_max_us);
        printf("CPU of a request: %.1f us, %.1f in the program; mean time to "
               "first token %.0f us\n",
               (double)s->cpu_us / (double)n, (double)s->user_us / (double)n,
               (double)s->ttft_sum_us / (double)s->n_ok);
    }
}

static bool collect(int fd, struct summary *all, int64_t **lag)
{
    struct summary s;

    if (!get(fd, &s, sizeof s)) {
        return false;
    }
    *lag = realloc(*lag, (all->n_lags + s.n_lags) * sizeof **lag + 1);
    if (*lag == NULL || !get(fd, *lag + all->n_lags, s.n_lags * sizeof **lag)) {
        return false;
    }
    all->n_lags += s.n_lags;
    all->n_ok += s.n_ok;
    all->n_bad += s.n_bad;
    all->n_events += s.n_events;
    all->cpu_us += s.cpu_us;
    all->user_us += s.user_us;
    all->ttft_sum_us += s.ttft_sum_us;
    all->took_us = s.took_us > all->took_us ? s.took_us : all->took_us;
    all->turn_max_us =
        s.turn_max_us > all->turn_max_us ? s.turn_max_us : all->turn_max_us;
    if (s.n_bad > 0) {
        memcpy(all->why, s.why, sizeof all->why);
    }
    return true;
}

int main(int argc, char **argv)
{
    struct summary all = {0};
    int64_t *lag = NULL, start = monotonic_us() + 500000;
    int fds[16];
    bool ok = true;
    struct error e;

    if (option_parse_alone(rate_options_rows, OPTION_COUNT(rate_options_rows),
                           &options, argc, argv, &e) != ST_OK ||
        (options.target == NULL && !options.help)) {
        fprintf(stderr, "http_rate: %s\n",
                options.target == NULL ? "--target is missing" : e.text);
        return 2;
    }
    if (options.help) {
        option_print(stdout, rate_options_rows,
                     OPTION_COUNT(rate_options_rows));
        return 0;
    }
    for (uint32_t i = 0; i < options.processes; i++) {
        int ends[2];

        if (pipe(ends) != 0) {
            return 1;
        }
        if (fork() == 0) {
            child(ends[1], i, start);
        }
        close(ends[1]);
        fds[i] = ends[0];
    }
    for (uint32_t i = 0; i < options.processes; i++) {
        ok &= collect(fds[i], &all, &lag);
    }
    while (wait(NULL) > 0) {
    }
    print(&all, lag);
    free(lag);
    return ok ? 0 : 1;
}
