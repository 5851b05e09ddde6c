/* schedule_load - requests of a plan, over one connection, and when they got
 * what.
 *
 *     schedule_load ENDPOINT MODEL CLOSED <PLAN
 *
 * A line of the plan is a request:
 *
 *     GROUP AT_US TENANT PROMPT PREFIX SHARED MAX_TOKENS LENGTH DEADLINE_MS
 *
 * GROUP: a number for the report.  AT_US: when it is sent, after the start; -1:
 * as soon as fewer than CLOSED of those with -1 are open, in their order.
 * PROMPT: tokens, of which the first SHARED are those of the prefix PREFIX, and
 * the rest its own.  LENGTH: tokens after which it ends (sleeping_workers.c).
 * DEADLINE_MS: 0: none.  A line of the output is a request that has ended:
 *
 *     NUMBER GROUP SENT_US FIRST_US END_US N_TOKENS CACHED STATUS RETRY_MS
 *     WORKER
 *
 * Times are after the start; FIRST_US -1: no token; NUMBER: its line in the
 * plan, from 0.  Ends when all have ended. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "common/wire/loop.h"
#include "proto/inference.pb-c.h"

#define REQUESTS_MAX 65536
#define PROMPT_MAX   32768
#define WAIT_MS      100

struct request {
    uint32_t number, group, n_prompt, prefix, n_shared, max_tokens;
    uint64_t length;
    uint32_t deadline_ms, n_tokens, n_cached;
    int64_t at_us, sent_us, first_us;
    char tenant[32], worker[80];
};

static struct {
    struct client *client;
    const char *model;
    int64_t start_us;
    struct request *of;
    uint32_t n, n_open, n_closed, n_ended;
} load;

static int64_t now_us(void)
{
    return loop_now_us() - load.start_us;
}

static void on_chunk(void *arg, const ProtobufCMessage *message)
{
    const Sluice__V1__GenerateChunk *m = (const void *)message;
    struct request *r = arg;

    if (m->n_tokens > 0 && r->first_us < 0) {
        r->first_us = now_us();
    }
    r->n_tokens += (uint32_t)m->n_tokens;
    if (m->figures != NULL) {
        r->n_cached = m->figures->n_cached;
        if (m->figures->has_worker) {
            snprintf(r->worker, sizeof r->worker, "%.*s",
                     (int)m->figures->worker.len,
                     (const char *)m->figures->worker.data);
        }
    }
}

static void on_end(void *arg, enum status status, const ProtobufCMessage *reply,
                   const struct error *e, uint32_t retry_after_ms)
{
    struct request *r = arg;

    (void)reply, (void)e;
    printf("%" PRIu32 " %" PRIu32 " %" PRId64 " %" PRId64 " %" PRId64
           " %" PRIu32 " %" PRIu32 " %s %" PRIu32 " %s\n",
           r->number, r->group, r->sent_us, r->first_us, now_us(), r->n_tokens,
           r->n_cached, status_name(status), retry_after_ms,
           r->worker[0] != '\0' ? r->worker : "-");
    load.n_open--;
    load.n_closed -= r->at_us < 0;
    load.n_ended++;
}

/* Ids of a prefix depend on its number alone, other ids on the request's. */
static void write_prompt(uint32_t *ids, const struct request *r)
{
    for (uint32_t i = 0; i < r->n_prompt; i++) {
        uint32_t of = i < r->n_shared ? 7919 * r->prefix : 104729 * r->number;

        ids[i] = 1 + (of + 31 * i) % 31000;
    }
}

static void begin(struct request *r)
{
    static const struct client_call_ops ops = {on_chunk, on_end};
    static uint32_t ids[PROMPT_MAX];
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__Sampling sampling = SLUICE__V1__SAMPLING__INIT;
    uint64_t id[2] = {(uint64_t)getpid() << 32 | 1, r->number + 1};

    write_prompt(ids, r);
    sampling.has_seed = 1;
    sampling.seed = r->length;
    m.sampling = &sampling;
    m.request_id = (ProtobufCBinaryData){sizeof id, (uint8_t *)id};
    m.model = (ProtobufCBinaryData){strlen(load.model), (uint8_t *)load.model};
    m.n_tokens = r->n_prompt;
    m.tokens = ids;
    m.has_max_tokens = m.has_want_text = m.has_tenant = 1;
    m.max_tokens = r->max_tokens;
    m.want_text = 0;
    m.tenant = (ProtobufCBinaryData){strlen(r->tenant), (uint8_t *)r->tenant};
    r->sent_us = now_us();
    r->first_us = -1;
    load.n_open++;
    load.n_closed += r->at_us < 0;
    if (client_begin(load.client, METHOD_INFERENCE_GENERATE, &m.base,
                     r->deadline_ms, &ops, r, NULL) != ST_OK) {
        fputs("schedule_load: a request could not be sent\n", stderr);
        exit(1);
    }
}

static void read_plan(void)
{
    char line[256];

    while (fgets(line, sizeof line, stdin) != NULL) {
        struct request r = {.number = load.n};

        if (load.n == REQUESTS_MAX ||
            sscanf(line,
                   "%" SCNu32 " %" SCNd64 " %31s %" SCNu32 " %" SCNu32
                   " %" SCNu32 " %" SCNu32 " %" SCNu64 " %" SCNu32,
                   &r.group, &r.at_us, r.tenant, &r.n_prompt, &r.prefix,
                   &r.n_shared, &r.max_tokens, &r.length,
                   &r.deadline_ms) != 9 ||
            r.n_prompt > PROMPT_MAX) {
            fprintf(stderr, "schedule_load: no request: %s", line);
            exit(2);
        }
        load.of[load.n++] = r;
    }
}

/* Sends what is due.  Returns the milliseconds until the next is. */
static uint32_t send_due(uint32_t *next, uint32_t closed)
{
    int64_t wait_us = WAIT_MS * 1000;

    for (int kind = 0; kind < 2; kind++) {
        while (next[kind] < load.n) {
            struct request *r = &load.of[next[kind]];

            if ((r->at_us < 0) != (kind == 1)) {
                next[kind]++;
                continue;
            }
            if (kind == 1 && load.n_closed >= closed) {
                break;
            }
            if (kind == 0 && r->at_us > now_us()) {
                int64_t left = r->at_us - now_us();

                wait_us = left < wait_us ? left : wait_us;
                break;
            }
            begin(r);
            next[kind]++;
        }
    }
    return wait_us > 0 ? (uint32_t)(wait_us / 1000) : 0;
}

int main(int argc, char **argv)
{
    struct client_config config = {.key = getenv("SLUICE_KEY"),
                                   .trust = getenv("SLUICE_TRUST")};
    uint32_t next[2] = {0, 0}, closed;
    struct error e;

    if (argc != 4) {
        fputs("usage: schedule_load ENDPOINT MODEL CLOSED <PLAN\n", stderr);
        return 2;
    }
    config.endpoint = argv[1];
    load.model = argv[2];
    closed = (uint32_t)strtoul(argv[3], NULL, 10);
    load.of = calloc(REQUESTS_MAX, sizeof *load.of);
    if (load.of == NULL) {
        return 1;
    }
    read_plan();
    if (client_open(&load.client, &config, &e) != ST_OK) {
        fprintf(stderr, "schedule_load: %s\n", e.text);
        return 1;
    }
    load.start_us = loop_now_us();
    while (load.n_ended < load.n) {
        client_turn(load.client, send_due(next, closed));
    }
    client_close(&load.client);
    return 0;
}
