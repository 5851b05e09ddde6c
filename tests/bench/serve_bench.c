/* serve_bench - measures how long a new request and a cancel take.
 *
 *     serve_bench ENDPOINT BACKGROUND PROBES
 *
 * Uses real daemons.  While BACKGROUND requests decode, PROBES more arrive one
 * after the other: each joins the running batch, generates a few tokens, and is
 * cancelled.  Prints one line of JSON with, for each probe, microseconds:
 *
 *     join    from the call to its first token, at the client
 *     cancel  from the call to the receipt, at the client
 *     free    from the cancel's arrival at the worker until the memory was
 *             free, as the receipt reports
 *     step    device time of the worker's last step */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/client.h"
#include "proto/admin.pb-c.h"
#include "proto/inference.pb-c.h"
#include "tests/bench/machine.h"

#define BACKGROUND_MAX 64
#define PROMPT         32
#define LONG_TOKENS    3000
#define PROBE_TOKENS   4 /* before the cancel, and up to 7 more */

struct probe {
    double join_us, cancel_us;
    uint64_t free_us, step_us;
};

struct bench {
    struct client *streams; /* connection of the background */
    struct client *probes, *admin;
    uint32_t n_background, n_live; /* n_live: those with a first token */
    bool done;
};

struct stream {
    struct bench *bench;
    uint8_t id[16];
    bool live;
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "serve_bench: %s: %s\n", what, why);
    exit(1);
}

static void new_id(uint8_t id[16])
{
    static uint64_t last;

    memset(id, 0xb5, 16);
    last++;
    memcpy(id, &last, sizeof last);
}

static void begin(struct client *c, uint8_t id[16], uint32_t max_tokens,
                  const struct client_call_ops *ops, void *arg)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__Sampling sampling = SLUICE__V1__SAMPLING__INIT;
    uint32_t prompt[PROMPT];
    enum status st;

    new_id(id);
    for (uint32_t i = 0; i < PROMPT; i++) {
        prompt[i] = 300 + (i * 37 + id[0]) % 1000;
    }
    sampling.has_ignore_eos = sampling.ignore_eos = 1;
    m.sampling = &sampling;
    m.request_id = (ProtobufCBinaryData){16, id};
    m.n_tokens = PROMPT;
    m.tokens = prompt;
    m.has_max_tokens = m.has_want_text = 1;
    m.max_tokens = max_tokens;
    m.want_text = 0;
    st = client_begin(c, METHOD_INFERENCE_GENERATE, &m.base, 0, ops, arg, NULL);
    if (st != ST_OK) {
        die("a generation could not be sent", status_name(st));
    }
}

/* ---- the background: restarted when it ends ---- */

static void background_begin(struct stream *s);

static void background_chunk(void *arg, const ProtobufCMessage *message)
{
    struct stream *s = arg;

    (void)message;
    s->bench->n_live += !s->live;
    s->live = true;
}

static void background_end(void *arg, enum status status,
                           const ProtobufCMessage *reply, const struct error *e,
                           uint32_t retry_after_ms)
{
    (void)reply, (void)retry_after_ms;
    if (((struct stream *)arg)->bench->done) {
        return;
    }
    if (status != ST_OK) {
        die("the background failed", e != NULL ? e->text : "");
    }
    background_begin(arg);
}

static void background_begin(struct stream *s)
{
    static const struct client_call_ops ops = {background_chunk,
                                               background_end};

    begin(s->bench->streams, s->id, LONG_TOKENS, &ops, s);
}

/* ---- a probe ---- */

/* Waits for any part of a step; otherwise all probes arrive when a step
 * ends. */
static void wait_some(struct bench *b, uint64_t step_us)
{
    double end = machine_now() +
                 1e-6 * (double)(rand() % 1000) / 1000.0 * (double)step_us;

    while (machine_now() < end) {
        client_turn(b->streams, 0);
    }
}

struct newcomer {
    uint32_t n_tokens;
    double first_at;
    bool ended;
};

static void probe_chunk(void *arg, const ProtobufCMessage *message)
{
    struct newcomer *p = arg;

    if (p->n_tokens == 0) {
        p->first_at = machine_now();
    }
    p->n_tokens +=
        (uint32_t)((const Sluice__V1__GenerateChunk *)(const void *)message)
            ->n_tokens;
}

static void probe_end(void *arg, enum status status,
                      const ProtobufCMessage *reply, const struct error *e,
                      uint32_t retry_after_ms)
{
    (void)reply, (void)retry_after_ms;
    if (status != ST_OK && status != ST_CANCELLED) {
        die("a probe failed", e != NULL ? e->text : status_name(status));
    }
    ((struct newcomer *)arg)->ended = true;
}

static void take_step(void *arg, const ProtobufCMessage *reply)
{
    const Sluice__V1__ListWorkersReply *m = (const void *)reply;

    if (m->n_workers > 0 && m->workers[0]->has_step_us) {
        ((struct probe *)arg)->step_us = m->workers[0]->step_us;
    }
}

/* out[-1] is the previous probe. */
static void run_probe(struct bench *b, uint32_t number, struct probe *out)
{
    static const struct client_call_ops ops = {probe_chunk, probe_end};
    Sluice__V1__ListRequest all = SLUICE__V1__LIST_REQUEST__INIT;
    struct newcomer p = {0};
    struct client_receipt receipt;
    struct error e;
    uint64_t step_us = number == 0 ? 0 : out[-1].step_us;
    uint8_t id[16];
    double began;

    wait_some(b, step_us);
    began = machine_now();
    begin(b->probes, id, LONG_TOKENS, &ops, &p);
    while (p.n_tokens < PROBE_TOKENS + number % 8 && !p.ended) {
        client_turn(b->probes, 50);
        client_turn(b->streams, 0);
    }
    out->join_us = (p.first_at - began) * 1e6;
    wait_some(b, step_us);
    began = machine_now();
    if (client_cancel(b->probes, id, CLIENT_ALL_CHOICES, 0, &receipt, &e) !=
        ST_OK) {
        die("a cancel failed", e.text);
    }
    out->cancel_us = (machine_now() - began) * 1e6;
    out->free_us = receipt.micros;
    while (!p.ended) {
        client_turn(b->probes, 50);
    }
    client_turn(b->streams, 0);
    if (client_call(b->admin, METHOD_ADMIN_LIST_WORKERS, &all.base, 0,
                    take_step, out, &e) != ST_OK) {
        die("the list of workers", e.text);
    }
}

/* ---- the bench ---- */

static struct client *open_client(const char *endpoint, bool admin)
{
    struct client_config config = {.endpoint = endpoint, .admin = admin};
    struct client *c;
    struct error e;

    if (client_open(&c, &config, &e) != ST_OK) {
        die("no connection", e.text);
    }
    return c;
}

#define PRINT_ALL(name, format, value)                     \
    do {                                                   \
        printf("\"%s\": [", name);                         \
        for (uint32_t i = 0; i < n; i++) {                 \
            printf("%s" format, i > 0 ? ", " : "", value); \
        }                                                  \
        printf("]");                                       \
    } while (0)

static void print(const struct bench *b, const struct probe *p, uint32_t n)
{
    printf("{\"background\": %u, ", b->n_background);
    PRINT_ALL("join_us", "%.0f", p[i].join_us);
    printf(", ");
    PRINT_ALL("cancel_us", "%.0f", p[i].cancel_us);
    printf(", ");
    PRINT_ALL("free_us", "%" PRIu64, p[i].free_us);
    printf(", ");
    PRINT_ALL("step_us", "%" PRIu64, p[i].step_us);
    printf("}\n");
}

int main(int argc, char **argv)
{
    static struct stream background[BACKGROUND_MAX];
    struct bench b = {.n_background = argc == 4 ? (uint32_t)atoi(argv[2]) : 0};
    uint32_t n = argc == 4 ? (uint32_t)atoi(argv[3]) : 0;
    struct probe *probes = calloc(n + 1, sizeof *probes);

    if (n == 0 || b.n_background > BACKGROUND_MAX || probes == NULL) {
        fputs("usage: serve_bench ENDPOINT BACKGROUND PROBES\n", stderr);
        return 2;
    }
    b.streams = open_client(argv[1], false);
    b.probes = open_client(argv[1], false);
    b.admin = open_client(argv[1], true);
    for (uint32_t i = 0; i < b.n_background; i++) {
        background[i].bench = &b;
        background_begin(&background[i]);
    }
    while (b.n_live < b.n_background) {
        client_turn(b.streams, 50);
    }
    for (uint32_t i = 0; i < n; i++) {
        run_probe(&b, i, &probes[i]);
    }
    print(&b, probes, n);
    b.done = true;
    client_close(&b.admin);
    client_close(&b.probes);
    client_close(&b.streams);
    free(probes);
    return 0;
}
