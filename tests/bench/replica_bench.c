/* replica_bench - measures whether all stages of a replica are busy.
 *
 *     replica_bench [--stages N] [--rows N] [--step-us N] [--depth N] [--json]
 *
 * Real cores are joined in memory with engines that take the same time for
 * every step and compute nothing.  So the only visible time is that which
 * stages wait for each other and for the cores.  Each microbatch has N rows,
 * each row 64 tokens.  A stage's share is the time of its steps over the time
 * from the leader's first plan to the last result.
 *
 * The engines sleep, so a busy machine affects the result little. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/monotonic.h"
#include "tests/golden/replica.h"

#define HIDDEN 1024u
#define VOCAB  1000u
#define PROMPT 8u

/* An engine whose plans take step_us each, one after the other. */
struct sleeper {
    struct engine engine;
    int fd;
    int64_t step_us;
    bool last;
    const struct plan *plans[ENGINE_DEPTH_MAX];
    int64_t end_us[ENGINE_DEPTH_MAX];
    uint32_t n, depth;
    uint64_t n_done;
    int64_t first_us, last_us; /* begin and end */
    float *hidden;
};

static struct sleeper *of(struct engine *e)
{
    return (struct sleeper *)(void *)e;
}

static void set_timer(struct sleeper *s)
{
    int64_t at = s->n > 0 ? s->end_us[0] : 0;
    struct itimerspec t = {
        .it_value = {.tv_sec = at / 1000000, .tv_nsec = at % 1000000 * 1000}};

    if (timerfd_settime(s->fd, TFD_TIMER_ABSTIME, &t, NULL) != 0) {
        abort();
    }
}

static enum status sleeper_submit(struct engine *e, const struct plan *p)
{
    struct sleeper *s = of(e);
    int64_t begin = monotonic_us();

    if (s->n == s->depth) {
        return ST_RESOURCE_EXHAUSTED;
    }
    s->first_us = s->first_us == 0 ? begin : s->first_us;
    begin = s->n > 0 ? s->end_us[s->n - 1] : begin;
    s->plans[s->n] = p;
    s->end_us[s->n++] = begin + s->step_us;
    set_timer(s);
    return ST_OK;
}

static bool sleeper_poll(struct engine *e, struct plan_result *out)
{
    struct sleeper *s = of(e);
    const struct plan *p = s->plans[0];

    if (s->n == 0 || monotonic_us() < s->end_us[0]) {
        return false;
    }
    out->step = p->step;
    out->status = ST_OK;
    out->lost = false;
    out->n_rows = p->n_rows;
    out->device_us = (uint32_t)s->step_us;
    out->hidden = s->last ? NULL : s->hidden;
    for (uint32_t i = 0; i < p->n_rows; i++) {
        out->outcomes[i] = ROW_DONE;
        out->tokens[i] = s->last && p->rows[i].sample ? 1 : TOKEN_NONE;
    }
    s->last_us = s->end_us[0];
    s->n--;
    s->n_done++;
    memmove(&s->plans[0], &s->plans[1], s->n * sizeof s->plans[0]);
    memmove(&s->end_us[0], &s->end_us[1], s->n * sizeof s->end_us[0]);
    set_timer(s);
    return true;
}

static uint64_t sleeper_progress(struct engine *e)
{
    (void)e;
    return (uint64_t)monotonic_us(); /* always progresses */
}

static const struct engine_ops sleeper_ops = {.submit = sleeper_submit,
                                              .poll = sleeper_poll,
                                              .progress = sleeper_progress};

static void quiet(void *arg)
{
    const struct sleeper *s = arg;
    uint64_t n;

    while (read(s->fd, &n, sizeof n) == sizeof n) {
    }
}

static void sleeper_open(struct sleeper *s, uint32_t i, uint32_t n,
                         int64_t step_us, const struct replica_options *o,
                         struct replica_stage *out)
{
    s->engine.ops = &sleeper_ops;
    s->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    s->step_us = step_us;
    s->last = i + 1 == n;
    s->depth = o->engine_depth;
    s->hidden = calloc((size_t)o->step_tokens * HIDDEN, sizeof *s->hidden);
    if (s->fd < 0 || s->hidden == NULL) {
        abort();
    }
    *out = (struct replica_stage){.begin = i,
                                  .end = i + 1,
                                  .n_layers = n,
                                  .vocab = VOCAB,
                                  .hidden = HIDDEN,
                                  .has_blocks = true,
                                  .engine = &s->engine,
                                  .fd = s->fd,
                                  .quiet = quiet,
                                  .arg = s};
}

static void fill_asks(struct replica_ask *asks, uint32_t n)
{
    static const uint32_t ids[PROMPT] = {1, 2, 3, 4, 5, 6, 7, 8};

    for (uint32_t i = 0; i < n; i++) {
        Sluice__V1__Sampling sampling = SLUICE__V1__SAMPLING__INIT;

        sampling.has_seed = true;
        asks[i] = (struct replica_ask){.ids = ids,
                                       .n_prompt = PROMPT,
                                       .max_tokens = REPLICA_TOKENS,
                                       .sampling = sampling};
    }
}

static void report(const struct sleeper *s, uint32_t n, uint32_t n_rows,
                   bool json)
{
    double least = 1;
    int64_t span_us = s[0].first_us;

    for (uint32_t i = 0; i < n; i++) {
        span_us = s[i].last_us > span_us ? s[i].last_us : span_us;
    }
    span_us -= s[0].first_us;
    printf(json ? "{\"stages\": %u, \"rows\": %u, \"step_us\": %lld, "
                  "\"depth\": %u, \"busy\": ["
                : "%u stages, %u rows a microbatch, steps of %lld us, "
                  "depth %u: ",
           n, n_rows, (long long)s[0].step_us, s[0].depth);
    for (uint32_t i = 0; i < n; i++) {
        double share =
            (double)s[i].n_done * (double)s[i].step_us / (double)span_us;

        printf("%s%.4f", i > 0 ? ", " : "", share);
        least = share < least ? share : least;
    }
    printf(json ? "], \"least\": %.4f}\n" : ", least %.4f\n", least);
}

static void run(uint32_t n, uint32_t n_rows, int64_t step_us, uint32_t depth,
                bool json)
{
    struct replica_options o = {.block_tokens = 16,
                                .step_tokens = 512,
                                .chunk_tokens = 64,
                                .max_rows = 64,
                                .engine_depth = depth,
                                .at_once = n * n_rows,
                                .context = 512,
                                .room = REPLICA_ASKS};
    static struct replica_ask asks[REPLICA_ASKS];
    static struct sleeper sleepers[REPLICA_STAGES];
    static struct replica_stage stages[REPLICA_STAGES];
    struct replica *r;

    for (uint32_t i = 0; i < n; i++) {
        sleeper_open(&sleepers[i], i, n, step_us, &o, &stages[i]);
    }
    fill_asks(asks, n * n_rows);
    r = replica_new(stages, n, &o);
    replica_run(r, asks, n * n_rows);
    replica_free(&r);
    report(sleepers, n, n_rows, json);
    for (uint32_t i = 0; i < n; i++) {
        close(sleepers[i].fd);
        free(sleepers[i].hidden);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"stages", required_argument, NULL, 'n'},
        {"rows", required_argument, NULL, 'r'},
        {"step-us", required_argument, NULL, 's'},
        {"depth", required_argument, NULL, 'd'},
        {"json", no_argument, NULL, 'j'},
        {NULL, 0, NULL, 0}};
    uint32_t n = 3, n_rows = 8, step_us = 5000, depth = 1;
    bool json = false, known = true;
    int o;

    while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
        uint32_t value = optarg ? (uint32_t)strtoul(optarg, NULL, 10) : 0;

        n = o == 'n' ? value : n;
        n_rows = o == 'r' ? value : n_rows;
        step_us = o == 's' ? value : step_us;
        depth = o == 'd' ? value : depth;
        json = json || o == 'j';
        known = known && o != '?';
    }
    if (!known || optind < argc || n < 2 || n > REPLICA_STAGES || n_rows < 1 ||
        n * n_rows > REPLICA_ASKS || step_us < 1 || depth < 1 ||
        depth > ENGINE_DEPTH_MAX) {
        fprintf(stderr,
                "usage: replica_bench [--stages N] [--rows N] [--step-us N] "
                "[--depth N] [--json]\n"
                "2 to %d stages, %d rows in all, a depth of 1 to %d\n",
                REPLICA_STAGES, REPLICA_ASKS, ENGINE_DEPTH_MAX);
        return 2;
    }
    log_setup(LOG_ERROR, NULL, NULL);
    run(n, n_rows, step_us, depth, json);
    return 0;
}
