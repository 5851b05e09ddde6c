/* fake_workers - workers whose engines compute nothing, to load a router.
 *
 *     fake_workers ENDPOINT N ROWS SEQUENCE_TOKENS [MODEL_DIR STEP_MS]
 *
 * N processes run the worker's own core over ZeroMQ with an engine that answers
 * at once: a token a row, ROWS rows a step, a pool of ROWS sequences of
 * SEQUENCE_TOKENS tokens.  A step begins when the previous one has been
 * acknowledged, so the router sets the pace and every StepOutput carries one
 * new token a row.  With MODEL_DIR they serve a model of the folder's name with
 * its tokenizer, a step takes STEP_MS or more, and the tokens spell the
 * alphabet, a letter each.  Ends on SIGTERM. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/wire/curve_keys.h"
#include "common/wire/frame.h"
#include "common/wire/loop.h"
#include "tests/bench/child.h"
#include "text/tokenizer.h"
#include "worker/worker_core.h"

#define WORKERS_MAX  64
#define BLOCK_TOKENS 32
#define VOCAB        32000
#define LETTERS      26
#define PATIENCE_US  20000 /* the acknowledgement was lost: continue */
#define N_STATE      10    /* where a frame states how much of it is state */

/* The arguments. */
struct fakes {
    const char *endpoint;
    uint32_t rows, sequence_tokens, step_ms;
    const char *model; /* NULL if not given */
    struct tokenizer *tokenizer;
    uint32_t letters[LETTERS]; /* tokens of the alphabet */
};

/* node_ops and engine in one, around the worker's core. */
struct fake {
    struct engine engine;
    struct worker_core *core;
    const struct plan *plan; /* in flight, or NULL */
    int64_t since_us;        /* of the plan */
    bool acknowledged;
    const struct fakes *args;
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

static uint32_t token_at(const struct fake *f, uint32_t index)
{
    return f->args->model != NULL ? f->args->letters[index % LETTERS]
                                  : 1 + index % 1000;
}

static bool is_done(const struct fake *f)
{
    int64_t us = loop_now_us() - f->since_us;

    return us >= (int64_t)f->args->step_ms * 1000 &&
           (f->acknowledged || us >= PATIENCE_US);
}

static bool fake_poll(struct engine *e, struct plan_result *out)
{
    struct fake *f = of(e);
    const struct plan *p = f->plan;

    if (p == NULL || !is_done(f)) {
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

        out->outcomes[i] = ROW_DONE;
        out->tokens[i] = row->sample ? token_at(f, row->index) : TOKEN_NONE;
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
    int64_t patience = f->since_us + PATIENCE_US;
    int64_t step = f->since_us + (int64_t)f->args->step_ms * 1000;

    if (f->plan == NULL) {
        return due;
    }
    if (!f->acknowledged && step < patience) {
        step = patience;
    }
    return step < due ? step : due;
}

static const struct node_ops node_ops = {node_opened, node_recv, node_lost,
                                         node_tick};

static void work(const struct fakes *a, int number)
{
    struct fake f = {.engine = {&engine_ops}, .args = a};
    char name[32];
    struct worker_options o = {.name = name,
                               .model = a->model != NULL ? a->model : "fake",
                               .device = "none",
                               .layer_end = 1,
                               .n_layers = 1,
                               .block_tokens = BLOCK_TOKENS,
                               .pool.block_bytes = 1024,
                               .pool.slot_bytes = 1024,
                               .pool.pages_per_block = 1,
                               .pool.pages_per_slot = 1,
                               .pool.slot_cap = a->rows,
                               .context = a->sequence_tokens,
                               .vocab = VOCAB,
                               .max_rows = a->rows,
                               .step_tokens = PLAN_TOKENS_MAX,
                               .chunk_tokens = PLAN_TOKENS_MAX,
                               .engine_depth = 1};
    struct curve_keys *keys;
    struct transport *t;
    struct loop loop;
    struct error e;

    snprintf(name, sizeof name, "fake-%d", number);
    o.pool.n_pages =
        a->rows * (1 + (a->sequence_tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS);
    if (a->tokenizer != NULL) {
        o.tokenizer.known = true;
        o.vocab = tokenizer_vocab(a->tokenizer);
        memcpy(o.tokenizer.hash, tokenizer_hash(a->tokenizer),
               sizeof o.tokenizer.hash);
    }
    if (curve_keys_load(&keys, getenv("SLUICE_KEY"), getenv("SLUICE_TRUST"),
                        &e) != ST_OK ||
        transport_connect(&t, a->endpoint, keys, &e) != ST_OK) {
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

static void spell(struct fakes *a, const char *model)
{
    char path[PATH_MAX];
    const char *name = strrchr(model, '/');
    struct error e;

    a->model = name != NULL ? name + 1 : model;
    snprintf(path, sizeof path, "%s/tokenizer.json", model);
    if (tokenizer_load(&a->tokenizer, path, &e) != ST_OK) {
        fprintf(stderr, "fake_workers: %s\n", e.text);
        exit(2);
    }
    for (size_t i = 0; i < LETTERS; i++) {
        char letter = (char)('a' + i);
        size_t n = 0;

        if (tokenizer_encode(a->tokenizer, &letter, 1, 0, &a->letters[i], 1, &n,
                             &e) != ST_OK ||
            n != 1) {
            fputs("fake_workers: a letter is not one token\n", stderr);
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    pid_t children[WORKERS_MAX];
    int n = argc == 5 || argc == 7 ? atoi(argv[2]) : 0, got = 0;
    struct fakes a = {0};
    sigset_t stop;

    if (n < 1 || n > WORKERS_MAX) {
        fputs("usage: fake_workers ENDPOINT N ROWS SEQUENCE_TOKENS "
              "[MODEL_DIR STEP_MS]\n",
              stderr);
        return 2;
    }
    a.endpoint = argv[1];
    a.rows = (uint32_t)atoi(argv[3]);
    a.sequence_tokens = (uint32_t)atoi(argv[4]);
    if (argc == 7) {
        spell(&a, argv[5]);
        a.step_ms = (uint32_t)atoi(argv[6]);
    }
    for (int i = 0; i < n; i++) {
        children[i] = child_new();
        if (children[i] == 0) {
            work(&a, i);
        }
    }
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    sigwait(&stop, &got);
    return children_end(children, n) == 0 ? 0 : 1;
}
