/* fake_workers - workers whose engines compute nothing, to load a router.
 *
 *     fake_workers ENDPOINT N ROWS SEQUENCE_TOKENS
 *
 * N processes run the worker's own core over ZeroMQ with an engine that answers
 * at once: a token a row, ROWS rows a step, a pool of ROWS sequences of
 * SEQUENCE_TOKENS tokens.  A step begins when the previous one has been
 * acknowledged, so the router sets the pace and every StepOutput carries one
 * new token a row.  Ends on SIGTERM. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/wire/frame.h"
#include "common/wire/loop.h"
#include "tests/bench/child.h"
#include "worker/worker_core.h"

#define WORKERS_MAX  64
#define BLOCK_TOKENS 32
#define VOCAB        32000
#define PATIENCE_US  20000 /* the acknowledgement was lost: continue */
#define N_STATE      10    /* where a frame states how much of it is state */

/* node_ops and engine in one, around the worker's core. */
struct fake {
    struct engine engine;
    struct worker_core *core;
    const struct plan *plan; /* in flight, or NULL */
    int64_t since_us;        /* of the plan */
    bool acknowledged;
};

static struct fake *of(struct engine *e)
{
    return (struct fake *)e; /* its first member */
}

static enum status fake_submit(struct engine *e, const struct plan *p)
{
    struct fake *f = of(e);

    if (f->plan != NULL) {
        return ST_RESOURCE_EXHAUSTED;
    }
    f->plan = p;
    f->since_us = loop_now_us();
    return ST_OK;
}

static bool fake_poll(struct engine *e, struct plan_result *out)
{
    struct fake *f = of(e);
    const struct plan *p = f->plan;

    if (p == NULL ||
        (!f->acknowledged && loop_now_us() - f->since_us < PATIENCE_US)) {
        return false;
    }
    f->plan = NULL;
    f->acknowledged = false;
    out->step = p->step;
    out->status = ST_OK;
    out->n_rows = p->n_rows;
    out->lost = false;
    out->hidden = NULL;
    out->device_us = 1;
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *row = &p->rows[i];

        out->tokens[i] = row->sample ? 1 + row->index % 1000 : TOKEN_NONE;
    }
    return true;
}

static uint64_t fake_progress(struct engine *e)
{
    (void)e;
    return 0;
}

static const struct engine_ops engine_ops = {fake_submit, fake_poll,
                                             fake_progress};

/* Calls the core's own entries; frames from the router set the pace. */
static void node_opened(void *node, struct peer_id who)
{
    worker_node_ops.opened(((struct fake *)node)->core, who);
}

static void node_recv(void *node, struct peer_id from, struct frame **frame)
{
    struct fake *f = node;

    f->acknowledged |= get_u16((*frame)->data + N_STATE) > 0;
    worker_node_ops.recv(f->core, from, frame);
}

static void node_lost(void *node, struct peer_id who)
{
    worker_node_ops.lost(((struct fake *)node)->core, who);
}

static int64_t node_tick(void *node, int64_t now_us)
{
    struct fake *f = node;
    int64_t due = worker_node_ops.tick(f->core, now_us);
    int64_t step = f->since_us + PATIENCE_US;

    return f->plan != NULL && step < due ? step : due;
}

static const struct node_ops node_ops = {node_opened, node_recv, node_lost,
                                         node_tick};

static void work(const char *endpoint, int number, uint32_t rows,
                 uint32_t sequence_tokens)
{
    struct fake f = {.engine = {&engine_ops}};
    char name[32];
    struct worker_options o = {.name = name,
                               .model = "fake",
                               .device = "none",
                               .layer_end = 1,
                               .n_layers = 1,
                               .block_tokens = BLOCK_TOKENS,
                               .block_bytes = 1024,
                               .slot_bytes = 1024,
                               .n_slots = rows,
                               .pages_per_block = 1,
                               .pages_per_slot = 1,
                               .context = sequence_tokens,
                               .vocab = VOCAB,
                               .max_rows = rows,
                               .step_tokens = PLAN_TOKENS_MAX,
                               .chunk_tokens = PLAN_TOKENS_MAX,
                               .engine_depth = 1};
    struct transport *t;
    struct loop loop;
    struct error e;

    snprintf(name, sizeof name, "fake-%d", number);
    o.n_blocks = rows * ((sequence_tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS);
    if (transport_connect(&t, endpoint, &e) != ST_OK) {
        fprintf(stderr, "fake_workers: %s\n", e.text);
        exit(1);
    }
    f.core = worker_new(&o, transport_io(t), &f.engine);
    if (f.core == NULL) {
        fputs("fake_workers: no worker can be made of these numbers\n", stderr);
        exit(1);
    }
    loop_init(&loop, t, &node_ops, &f);
    loop_run(&loop);
    exit(0);
}

int main(int argc, char **argv)
{
    pid_t children[WORKERS_MAX];
    int n = argc == 5 ? atoi(argv[2]) : 0, got = 0;
    sigset_t stop;

    if (n < 1 || n > WORKERS_MAX) {
        fputs("usage: fake_workers ENDPOINT N ROWS SEQUENCE_TOKENS\n", stderr);
        return 2;
    }
    for (int i = 0; i < n; i++) {
        children[i] = child_new();
        if (children[i] == 0) {
            work(argv[1], i, (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]));
        }
    }
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    sigwait(&stop, &got);
    return children_end(children, n) == 0 ? 0 : 1;
}
