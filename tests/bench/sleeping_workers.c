/* sleeping_workers - workers whose engines sleep, to measure scheduling.
 *
 *     sleeping_workers ENDPOINT N PAGES ROWS BASE_US ROW_US TOKEN_US
 *         [FIRST REUSE STEP CHUNK MODEL]
 *
 * N processes, named w<FIRST> and so on, run the worker's own core over ZeroMQ.
 * The model is a transformer of one layer: a page is a block of 32 positions.
 * A step takes BASE_US, ROW_US for each row that generates, and TOKEN_US for
 * each prompt token.  A sequence ends by itself after as many tokens as its
 * seed, so that requests state their lengths.  REUSE 0: no prefix is reused.
 * STEP, CHUNK: tokens of a step, and of a prompt in a step.  Ends on SIGTERM.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/curve_keys.h"
#include "common/wire/loop.h"
#include "tests/bench/child.h"
#include "worker/worker_core.h"

#define WORKERS_MAX  64
#define BLOCK_TOKENS 32
#define VOCAB        32000
#define END_TOKEN    0
#define CONTEXT      32768

struct sleeping {
    const char *endpoint, *model;
    uint32_t pages, rows, first, step, chunk;
    int64_t base_us, row_us, token_us;
    bool reuse;
};

/* node_ops and engine in one, around the worker's core. */
struct sleeper {
    struct engine engine;
    struct worker_core *core;
    const struct plan *plan; /* in flight, or NULL */
    int64_t due_us;
    const struct sleeping *args;
};

static struct sleeper *of(struct engine *e)
{
    return (struct sleeper *)e; /* its first member */
}

static int64_t cost_us(const struct sleeping *a, const struct plan *p)
{
    int64_t us = a->base_us;

    for (uint32_t i = 0; i < p->n_rows; i++) {
        us += p->rows[i].kind == ROW_PROMPT ? a->token_us * p->rows[i].n_tokens
                                            : a->row_us;
    }
    return us;
}

static enum status sleep_submit(struct engine *e, const struct plan *p)
{
    struct sleeper *s = of(e);

    if (s->plan != NULL) {
        return ST_RESOURCE_EXHAUSTED;
    }
    s->plan = p;
    s->due_us = loop_now_us() + cost_us(s->args, p);
    return ST_OK;
}

static uint32_t token_of(const struct plan_row *row)
{
    if (!row->sample) {
        return TOKEN_NONE;
    }
    return (uint64_t)row->index + 1 >= row->sampling->seed
               ? END_TOKEN
               : 1 + row->index % 1000;
}

static bool sleep_poll(struct engine *e, struct plan_result *out)
{
    struct sleeper *s = of(e);
    const struct plan *p = s->plan;

    if (p == NULL || loop_now_us() < s->due_us) {
        return false;
    }
    s->plan = NULL;
    out->step = p->step;
    out->status = ST_OK;
    out->n_rows = p->n_rows;
    out->lost = false;
    out->hidden = NULL;
    out->device_us = (uint32_t)cost_us(s->args, p);
    for (uint32_t i = 0; i < p->n_rows; i++) {
        out->outcomes[i] = ROW_DONE;
        out->tokens[i] = token_of(&p->rows[i]);
    }
    return true;
}

static uint64_t sleep_progress(struct engine *e)
{
    (void)e;
    return (uint64_t)loop_now_us() / 1000;
}

static const struct engine_ops engine_ops = {sleep_submit, sleep_poll,
                                             sleep_progress};

static void node_opened(void *node, struct peer_id who)
{
    worker_node_ops.opened(((struct sleeper *)node)->core, who);
}

static void node_recv(void *node, struct peer_id from, struct frame **frame)
{
    worker_node_ops.recv(((struct sleeper *)node)->core, from, frame);
}

static void node_lost(void *node, struct peer_id who)
{
    worker_node_ops.lost(((struct sleeper *)node)->core, who);
}

static int64_t node_tick(void *node, int64_t now_us)
{
    struct sleeper *s = node;
    int64_t due = worker_node_ops.tick(s->core, now_us);

    return s->plan != NULL && s->due_us < due ? s->due_us : due;
}

static const struct node_ops node_ops = {node_opened, node_recv, node_lost,
                                         node_tick};

static void work(const struct sleeping *a, uint32_t number)
{
    struct sleeper s = {.engine = {&engine_ops}, .args = a};
    char name[32];
    struct worker_options o = {.name = name,
                               .model = a->model,
                               .device = "none",
                               .layer_end = 1,
                               .n_layers = 1,
                               .block_tokens = BLOCK_TOKENS,
                               .pool.n_pages = a->pages,
                               .pool.block_bytes = 1024,
                               .pool.pages_per_block = 1,
                               .pool.slot_cap = a->rows,
                               .pool.tenant_share = 1,
                               .one_arithmetic = true,
                               .reuse = a->reuse,
                               .itl.bounded = true, /* as by default */
                               .context = CONTEXT,
                               .vocab = VOCAB,
                               .eos = {END_TOKEN},
                               .n_eos = 1,
                               .max_rows = a->rows,
                               .step_tokens = a->step,
                               .chunk_tokens = a->chunk,
                               .engine_depth = 1};
    struct curve_keys *keys;
    struct transport *t;
    struct loop loop;
    struct error e;

    snprintf(name, sizeof name, "w%u", (unsigned)number);
    if (curve_keys_load(&keys, getenv("SLUICE_KEY"), getenv("SLUICE_TRUST"),
                        &e) != ST_OK ||
        transport_connect(&t, a->endpoint, keys, &e) != ST_OK) {
        fprintf(stderr, "sleeping_workers: %s\n", e.text);
        exit(1);
    }
    s.core = worker_new(&o, transport_io(t), &s.engine);
    if (s.core == NULL) {
        fputs("sleeping_workers: no worker can be made of these numbers\n",
              stderr);
        exit(1);
    }
    loop_init(&loop, t, &node_ops, &s);
    loop_run(&loop);
    exit(0);
}

static uint32_t number(char **argv, int argc, int i, uint32_t otherwise)
{
    return i < argc ? (uint32_t)strtoul(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    pid_t children[WORKERS_MAX];
    uint32_t n = number(argv, argc, 2, 0);
    struct sleeping a = {.pages = number(argv, argc, 3, 0),
                         .rows = number(argv, argc, 4, 0),
                         .base_us = number(argv, argc, 5, 0),
                         .row_us = number(argv, argc, 6, 0),
                         .token_us = number(argv, argc, 7, 0),
                         .first = number(argv, argc, 8, 0),
                         .reuse = number(argv, argc, 9, 1) > 0,
                         .step = number(argv, argc, 10, 2048),
                         .chunk = number(argv, argc, 11, 1024)};
    sigset_t stop;
    int got;

    if (argc < 8 || n < 1 || n > WORKERS_MAX) {
        fputs("usage: sleeping_workers ENDPOINT N PAGES ROWS BASE_US ROW_US "
              "TOKEN_US [FIRST REUSE STEP CHUNK MODEL]\n",
              stderr);
        return 2;
    }
    a.endpoint = argv[1];
    a.model = argc > 12 ? argv[12] : "sleeping";
    for (uint32_t i = 0; i < n; i++) {
        children[i] = child_new();
        if (children[i] == 0) {
            work(&a, a.first + i);
        }
    }
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    sigwait(&stop, &got);
    return children_end(children, (int)n) == 0 ? 0 : 1;
}
