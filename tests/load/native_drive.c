/* native_drive - The native target of sluice-load against a real router.
 *
 *     native_drive ENDPOINT mix N TOKENS   N requests: a fifth each is
 *                                          cancelled after some chunks,
 *                                          cancelled at once, disconnected,
 *                                          read slowly, and left alone
 *     native_drive ENDPOINT cuts N TOKENS  the same without slow readers
 *     native_drive ENDPOINT resume N TOKENS
 *                                          N requests that survive the router;
 *                                          prints "running" after the first
 *                                          output
 *     native_drive ENDPOINT close N TOKENS closes while N requests run
 *     native_drive ENDPOINT rate N         starts per second, short prompts
 *     native_drive ENDPOINT start IDS      CPU time of start() with IDS ids
 *
 * Every request of mix must end as it was meant to, in order and without a
 * leak, equal prompts must have equal outputs, and at the end the cluster must
 * hold nothing. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/lib/client.h"
#include "client/load/drive/ask.h"
#include "client/load/drive/cluster.h"
#include "client/load/drive/native_target.h"
#include "client/load/drive/outputs.h"
#include "common/wire/loop.h"

#define OPEN_MAX    12
#define CONTENTS    6
#define PROMPT_IDS  24
#define QUIET_US    (INT64_C(600) * 1000000) /* longest time without an end */
#define AUDIT_US    (INT64_C(60) * 1000000)
#define RATE_OPEN   512
#define START_TRIES 100

enum fate { RUN, CANCEL, CANCEL_AT_ONCE, DISCONNECT, SLOW, FATES };

struct request {
    struct call *call;
    uint64_t number;
    enum fate fate;
    uint32_t after; /* chunks before the fate */
    uint32_t n_chunks, n_tokens;
    uint64_t hash;
    int64_t sent_us, end_us;
    bool ended;
};

static struct {
    struct target *target;
    struct target_facts facts;
    struct target_options options;
    struct outputs *outputs;
    struct request *requests; /* [n] */
    uint32_t n, n_begun, n_ended, max_tokens, n_open_max;
    uint64_t receipts, met, compared, resumed;
    int64_t slowest_us, gap_us;
    bool says_running, only_ok, closes;
    struct call *spare;
} drive;

static void die(uint64_t number, const char *what, const char *why)
{
    fprintf(stderr, "native_drive: FAILED: request %" PRIu64 ": %s: %s\n",
            number, what, why);
    exit(1);
}

/* ---- events ---- */

static void on_sent(void *arg, int64_t now_us)
{
    struct request *q = arg;

    if (q->sent_us != 0) {
        die(q->number, "sent", "twice");
    }
    q->sent_us = now_us;
}

static void on_output(void *arg, int64_t now_us, uint32_t n,
                      const uint32_t *ids, size_t n_ids, const char *text,
                      size_t n_text)
{
    struct request *q = arg;

    (void)text;
    if (q->ended || q->sent_us == 0 || now_us < q->sent_us) {
        die(q->number, "output", "before the send or after the end");
    }
    if (n_ids != n || n_text != 0) {
        die(q->number, "output", "not the ids alone");
    }
    if (drive.says_running) {
        drive.says_running = false;
        puts("running");
        fflush(stdout);
    }
    q->n_tokens += n;
    q->n_chunks++;
    for (size_t i = 0; i < n_ids; i++) {
        q->hash = (q->hash ^ ids[i]) * 0x100000001b3u;
    }
    if (q->n_chunks == q->after &&
        (q->fate == CANCEL || q->fate == DISCONNECT)) {
        native_target.give_up(
            drive.target, q->call,
            q->fate == CANCEL ? GIVE_UP_CANCEL : GIVE_UP_DISCONNECT, now_us);
    }
}

/* The first output of a content is learned, the others are compared. */
static void compare(const struct request *q)
{
    struct sample s = {.content = q->number % CONTENTS,
                       .output_hash = q->hash,
                       .n_output = q->n_tokens,
                       .outcome = OUTCOME_OK};
    enum outputs_verdict v = outputs_compare(drive.outputs, &s);

    if (v == OUTPUTS_DIFFERS) {
        die(q->number, "output", "differs from that of an equal prompt");
    }
    drive.compared += v == OUTPUTS_EQUAL;
    (void)outputs_learn(drive.outputs, &s);
}

static void check_whole(const struct request *q, const struct call_end *e)
{
    if (e->outcome != OUTCOME_OK || q->n_tokens != drive.max_tokens ||
        e->n_output != q->n_tokens || e->n_prompt == 0 || e->queue_us < 0) {
        die(q->number, "end", e->why);
    }
    compare(q);
}

static void check_cancelled(const struct request *q, const struct call_end *e)
{
    if (e->outcome != OUTCOME_CANCELLED || !e->has_receipt) {
        die(q->number, "cancel", e->why);
    }
    drive.receipts++;
    drive.met += q->n_tokens < drive.max_tokens;
}

static void check_end(struct request *q, const struct call_end *e)
{
    if (e->leaked || e->bad_stream) {
        die(q->number, e->leaked ? "leaked" : "bad stream", e->why);
    }
    switch (q->fate) {
    case CANCEL:
    case CANCEL_AT_ONCE:
        check_cancelled(q, e);
        break;
    case DISCONNECT: /* it may be cut early, or end before its moment */
        if (e->outcome == OUTCOME_DISCONNECTED) {
            drive.met++;
        } else {
            check_whole(q, e);
        }
        break;
    case SLOW:
        if (q->end_us - q->sent_us > drive.slowest_us) {
            drive.slowest_us = q->end_us - q->sent_us;
        }
        check_whole(q, e);
        break;
    default:
        check_whole(q, e);
        break;
    }
}

static void on_end(void *arg, int64_t now_us, const struct call_end *e)
{
    struct request *q = arg;

    if (q->ended) {
        die(q->number, "end", "twice");
    }
    q->ended = true;
    q->end_us = now_us;
    drive.resumed += e->n_resumes > 0;
    drive.gap_us = e->gap_us > drive.gap_us ? e->gap_us : drive.gap_us;
    drive.n_ended++;
    if (drive.outputs != NULL) {
        check_end(q, e);
    } else if (drive.only_ok && e->outcome != OUTCOME_OK) {
        die(q->number, "end", e->why);
    }
    if (drive.spare != NULL && drive.closes) { /* as a closed loop does */
        native_target.start(drive.target, drive.spare, now_us);
        drive.spare = NULL;
    }
}

static const struct call_ops ops = {on_sent, on_output, on_end};

/* ---- requests ---- */

static struct call *prepare(struct request *q, uint32_t n_ids)
{
    struct prompt p = {.n_ids = n_ids, .ids = calloc(n_ids, sizeof *p.ids)};
    struct call_request r = {.prompt = &p,
                             .max_tokens = drive.max_tokens,
                             .number = q->number,
                             .slow_reader = q->fate == SLOW,
                             .disconnects = q->fate == DISCONNECT,
                             .ops = &ops,
                             .arg = q};
    struct call *c;
    struct error e;
    size_t bytes;

    for (uint32_t i = 0; p.ids != NULL && i < n_ids; i++) {
        p.ids[i] = (uint32_t)(1 + (q->number % CONTENTS * 31 + i * 7919) %
                                      (drive.facts.vocab - 1));
    }
    c = p.ids == NULL ? NULL
                      : native_target.prepare(drive.target, &r, &bytes, &e);
    if (c == NULL) {
        die(q->number, "prepare", e.text);
    }
    free(p.ids);
    return c;
}

static void begin(enum fate fate)
{
    struct request *q = &drive.requests[drive.n_begun];

    q->number = drive.n_begun++;
    q->fate = fate;
    q->after = 1 + (uint32_t)(q->number / FATES % 4);
    q->call = prepare(q, PROMPT_IDS);
    native_target.start(drive.target, q->call, loop_now_us());
    if (fate == CANCEL_AT_ONCE) {
        native_target.give_up(drive.target, q->call, GIVE_UP_CANCEL,
                              loop_now_us());
    }
}

/* The loop of a generator: items, poll, turn. */
static void turn(int64_t wait_us)
{
    struct pollfd items[TARGET_ITEMS];
    int64_t due_us, us;
    int n = native_target.items(drive.target, items, &due_us);
    struct timespec wait = {0};

    us = due_us - loop_now_us();
    us = us < wait_us ? us : wait_us;
    if (us > 0) {
        wait = (struct timespec){us / 1000000, us % 1000000 * 1000};
    }
    (void)ppoll(items, (nfds_t)n, &wait, NULL);
    native_target.turn(drive.target, items, n, loop_now_us());
}

/* n_fates: how many of enum fate, in turn. */
static void run_all(uint32_t n_fates)
{
    int64_t quiet_us = loop_now_us() + QUIET_US;
    uint32_t n_ended = 0;

    drive.requests = calloc(drive.n, sizeof *drive.requests);
    while (drive.n_ended < drive.n) {
        while (drive.n_begun < drive.n &&
               drive.n_begun - drive.n_ended < drive.n_open_max) {
            begin((enum fate)(drive.n_begun % n_fates));
        }
        turn(1000000);
        if (drive.n_ended > n_ended) {
            n_ended = drive.n_ended;
            quiet_us = loop_now_us() + QUIET_US;
        } else if (loop_now_us() > quiet_us) {
            die(n_ended, "end", "none for too long");
        }
    }
}

/* ---- modes ---- */

static void check_cluster(struct cluster *c)
{
    struct cluster_point p;
    char text[200];

    do { /* a router that has just started lists no worker yet */
        while (!cluster_turn(c, 100000, &p)) {
        }
    } while (p.n_workers == 0);
    if (p.pages_total == 0 || p.slots_total == 0) {
        die(0, "cluster", "its point has no pool");
    }
    if (!cluster_audit(c, AUDIT_US, text, sizeof text)) {
        die(0, "audit", text);
    }
    puts(text);
}

static void mix(const char *endpoint, uint32_t n_fates)
{
    struct cluster *c;
    struct error e;

    drive.outputs = outputs_new(CONTENTS);
    drive.n_open_max = OPEN_MAX;
    drive.says_running = n_fates == 1;
    run_all(n_fates);
    native_target.close(&drive.target);
    if (cluster_open(&c, &(struct cluster_router){.endpoint = endpoint}, &e) !=
        ST_OK) {
        die(0, "cluster", e.text);
    }
    check_cluster(c);
    cluster_close(&c);
    printf("%" PRIu32 " requests, %" PRIu64 " receipts, %" PRIu64
           " given up before the end, %" PRIu64 " outputs equal, slowest "
           "reader %" PRId64 " ms, %" PRIu64 " resumed, longest gap %" PRId64
           " us\n",
           drive.n_ended, drive.receipts, drive.met, drive.compared,
           drive.slowest_us / 1000, drive.resumed, drive.gap_us);
    outputs_free(&drive.outputs);
}

/* A request that is started by the end of another one ends too, and one that
 * was never started is freed. */
static void close_early(void)
{
    struct request *q;
    struct target *t;
    uint32_t n_ended;

    drive.requests = calloc(drive.n + 1, sizeof *drive.requests);
    while (drive.n_begun < drive.n) {
        begin((enum fate)(drive.n_begun % SLOW));
    }
    q = &drive.requests[drive.n];
    drive.spare = prepare(q, PROMPT_IDS);
    (void)prepare(q, PROMPT_IDS);
    while (drive.requests[0].n_chunks == 0) {
        turn(1000000);
    }
    n_ended = drive.n_ended;
    drive.closes = true;
    t = drive.target;
    native_target.close(&t);
    drive.target = NULL;
    if (drive.n_ended != drive.n + 1 || n_ended > drive.n - drive.n / SLOW) {
        die(drive.n_ended, "close", "not every request has ended");
    }
    printf("%" PRIu32 " ended by close\n", drive.n_ended);
}

static void rate(void)
{
    int64_t from_us = loop_now_us(), us;

    drive.n_open_max = RATE_OPEN;
    drive.only_ok = true;
    run_all(1);
    us = loop_now_us() - from_us;
    printf("%" PRIu32 " requests in %" PRId64 " ms: %.0f a second\n", drive.n,
           us / 1000, drive.n * 1e6 / (double)us);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Other programs on the machine do not count. */
static int64_t cpu_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void start_long(uint32_t n_ids)
{
    int64_t us[START_TRIES];

    drive.requests = calloc(START_TRIES, sizeof *drive.requests);
    drive.only_ok = true;
    for (uint32_t i = 0; i < START_TRIES; i++) {
        struct request *q = &drive.requests[i];

        q->number = i;
        q->call = prepare(q, n_ids);
        us[i] = cpu_us();
        native_target.start(drive.target, q->call, loop_now_us());
        us[i] = cpu_us() - us[i];
        while (!q->ended) {
            turn(1000000);
        }
    }
    qsort(us, START_TRIES, sizeof *us, by_value);
    printf("start() with %" PRIu32 " ids: median %" PRId64
           " us, longest %" PRId64 " us\n",
           n_ids, us[START_TRIES / 2], us[START_TRIES - 1]);
}

static void open_target(const char *endpoint, bool resume)
{
    struct error e;

    drive.options = (struct target_options){.endpoint = endpoint,
                                            .top_p = 1,
                                            .n = 1,
                                            .ignore_eos = true,
                                            .resume = resume,
                                            .connect_ms = 10000};
    if (native_ask(&drive.options, &drive.facts, &e) != ST_OK ||
        native_target.open(&drive.target, &drive.options, &e) != ST_OK) {
        die(0, "open", e.text);
    }
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fputs("usage: native_drive ENDPOINT mix N TOKENS | cuts N TOKENS | "
              "resume N TOKENS | close N TOKENS | rate N | start IDS\n",
              stderr);
        return 2;
    }
    open_target(argv[1], strcmp(argv[2], "resume") == 0);
    drive.n = (uint32_t)strtoul(argv[3], NULL, 10);
    drive.max_tokens = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 1;
    if (strcmp(argv[2], "mix") == 0) {
        mix(argv[1], FATES);
    } else if (strcmp(argv[2], "cuts") == 0) {
        mix(argv[1], SLOW);
    } else if (drive.options.resume) {
        mix(argv[1], 1);
    } else if (strcmp(argv[2], "close") == 0) {
        close_early();
    } else if (strcmp(argv[2], "rate") == 0) {
        rate();
    } else {
        start_long(drive.n);
    }
    native_target.close(&drive.target);
    free(drive.requests);
    return 0;
}
