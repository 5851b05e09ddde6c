#include "tests/golden/shard_engines.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/backends/canary.h"

static void die(const char *text)
{
    fprintf(stderr, "shard_engines: %s\n", text);
    abort();
}

static void quiet(void *arg)
{
    engine_thread_quiet(arg);
}

static struct replica_stage stage_of(const struct shard_weights *w,
                                     const struct kernels_sizes *sizes)
{
    return (struct replica_stage){
        .begin = w->begin,
        .end = w->end,
        .n_layers = w->shape.n_layers,
        .vocab = w->shape.vocab,
        .hidden = w->shape.hidden,
        .has_blocks = sizes->pages_per_block > 0,
        .has_slots = sizes->pages_per_slot > 0,
        .pages_per_slot = sizes->pages_per_slot,
        .window = w->shape.window,
        .window_pages = sizes->window_pages,
        .one_arithmetic = sizes->one_arithmetic,
        .has_mtp = w->mtp != NULL,
    };
}

static void open_one(struct shard_engines *g, uint32_t i,
                     const struct shard_weights *w,
                     const struct kernels_options *k,
                     const struct replica_options *o, struct replica_stage *out)
{
    struct kernels_sizes sizes;
    struct error e;

    if (forward_new(&g->forward[i], w, k, &e) != ST_OK) {
        die(e.text);
    }
    forward_sizes(g->forward[i], &sizes);
    *out = stage_of(w, &sizes);
    if (forward_alloc_hidden(g->forward[i], o->engine_depth + 1, o->step_tokens,
                             &e) != ST_OK ||
        forward_alloc(g->forward[i], replica_pages(o, out), &e) != ST_OK ||
        (o->host_pages > 0 &&
         forward_alloc_host(g->forward[i], o->host_pages, &e) != ST_OK) ||
        engine_thread_new(&g->threads[i], g->forward[i], o->engine_depth, &e) !=
            ST_OK) {
        die(e.text);
    }
    /* A device compiles its kernels before a watchdog looks at it. */
    if (sizes.weight_bytes > 0 &&
        canary_run(forward_kernels(g->forward[i]), w, k, &e) != ST_OK) {
        die(e.text);
    }
    out->engine = engine_thread_engine(g->threads[i]);
    out->fd = engine_thread_fd(g->threads[i]);
    out->quiet = quiet;
    out->arg = g->threads[i];
}

void shard_engines_open(struct shard_engines *g,
                        const struct shard_weights *const *shards, uint32_t n,
                        const struct kernels_options *k,
                        const struct replica_options *o,
                        struct replica_stage *stages)
{
    g->n = n;
    for (uint32_t i = 0; i < n; i++) {
        open_one(g, i, shards[i], k, o, &stages[i]);
    }
}

void shard_engines_close(struct shard_engines *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        engine_thread_free(&g->threads[i]);
        forward_free(&g->forward[i]);
    }
}
