/* --stages N: measures one layer, computes the costs of the others, offers them
 * to the router, and waits for the layers that it assigns. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/costs.h"
#include "worker/engine/measure.h"
#include "worker/program.h"
#include "worker/stages/offer.h"

/* The measurements that the offer contains. */
struct layer_costs {
    struct split_model costs;
    struct measured measured;
    struct shard *layer;
};

/* Prefers a layer between the first, which brings the embedding, and the last,
 * which brings the head. */
static uint32_t layer_to_try(const struct program *p)
{
    return p->config.shape.n_layers > 2 ? 1 : 0;
}

static enum status costs_read(struct program *p, struct split_model *costs,
                              struct error *e)
{
    struct checkpoint *files = NULL;
    enum status st = checkpoint_open(&files, p->args.model, e);

    costs_of_shapes(costs, &p->config, &p->kv);
    if (st == ST_OK && p->config.drafts) {
        st = checkpoint_add_mtp(files, e);
    }
    st = st == ST_OK ? costs_of_files(costs, &p->config, files, e) : st;
    checkpoint_close(&files);
    return st;
}

/* Loads a layer, measures it and frees it.  The load also gives the
 * fingerprint, so the next one need not hash the model again. */
static enum status try_layer(struct program *p, struct layer_costs *t,
                             struct error *e)
{
    uint32_t layer = layer_to_try(p);
    struct kernels_options o = program_kernels(p);
    enum status st = program_read(p, &t->layer, layer, layer + 1, e);

    o.keep_tokens = 0; /* the offer counts these with each layer */
    if (st == ST_OK) {
        p->known = shard_known(t->layer);
        p->has_known = true;
        st = measure_layer(&t->measured, shard_weights(t->layer),
                           t->costs.layers[layer].weight_bytes, &o,
                           p->args.engine_depth + 1, e);
    }
    /* Freed before the offer: the router may assign other layers, and the
     * budget is for those. */
    shard_free(&t->layer);
    return st;
}

/* An offer describes layers alone, so the MTP layer is part of the last, and
 * what a layer keeps is part of its weights. */
static void add_drafts(const struct program *p, struct split_model *costs)
{
    struct costs_step step = program_step(p);

    costs_add_kept(costs, &p->config, &step);
    split_fold_drafts(costs);
}

/* The layers are not known yet, so this is the scratch of the stage that needs
 * most.  The measured layer has no head, but hidden states. */
static uint64_t scratch_bytes(const struct program *p, const struct measured *m)
{
    struct costs_step step = program_step(p);
    uint64_t head, middle, measured;

    step.threads = m->n_threads;
    step.keep_tokens = 0; /* as add_drafts() counts these */
    head = costs_stage_scratch(&p->config, &step, 0, p->config.shape.n_layers);
    middle = costs_stage_scratch(&p->config, &step, 0, 0);
    measured = m->scratch_bytes + costs_head_scratch(&p->config, &step);
    if (m->scratch_bytes <= middle) {
        return head > middle ? head : middle;
    }
    return measured;
}

static enum status offer_make(struct program *p, const struct layer_costs *t,
                              struct offer **out, struct error *e)
{
    struct budget_memory m = program_memory(p, t->measured.device_bytes);
    struct offer_options o = {
        .name = p->name,
        .lineage = p->lineage,
        .model = p->config.name,
        .kv_format = p->stated.kv_format,
        .arithmetic = p->stated.arithmetic,
        .stage_endpoint = p->stage_endpoint,
        .n_stages = p->args.stages,
        .scratch_bytes = scratch_bytes(p, &t->measured),
        .speed = t->measured.speed,
        .block_tokens = p->args.block_tokens,
        .context = p->config.shape.context,
        .max_rows = p->args.max_rows,
        .window_tokens = program_window(p),
        .chunk_tokens = args_chunk(&p->args),
        .costs = &t->costs,
    };

    if (budget_bytes(&o.budget_bytes, &m, e) != ST_OK) {
        return e->code;
    }
    memcpy(o.fingerprint, p->known.fingerprint, sizeof o.fingerprint);
    *out = offer_new(&o, transport_io(p->daemon.transport));
    if (*out == NULL) {
        return error_set(e, ST_INTERNAL,
                         "cannot make an offer with these options");
    }
    printf("sluice-worker %s offers itself: %s for %s in %u stages at %s; "
           "budget %.1f MiB, reads %.2f GB/s\n",
           SLUICE_VERSION, p->name, p->config.name, p->args.stages,
           p->args.router, (double)o.budget_bytes / (1024.0 * 1024.0),
           (double)o.speed / 1e9);
    fflush(stdout);
    return ST_OK;
}

struct offering {
    struct program *program;
    struct offer *offer;
};

static void on_signal(void *arg, int fd)
{
    const struct offering *o = arg;

    (void)fd;
    if (daemon_signal(&o->program->daemon)) {
        offer_stop(o->offer);
    }
}

static enum status offer_run(struct program *p, struct offer *f,
                             struct error *e)
{
    struct daemon *d = &p->daemon;
    struct offering o = {p, f};

    daemon_node(d, &offer_node_ops, f);
    p->phase = "waiting for the other stages and their layers";
    loop_add(&d->loop, d->signals, on_signal, &o);
    loop_run(&d->loop);
    switch (offer_ended(f, &p->begin, &p->end, e)) {
    case OFFER_ASSIGNED:
        return ST_OK;
    case OFFER_REFUSED:
        return error_wrap(e, "the router refused the offer");
    default:
        return error_set(e, ST_CANCELLED, "stopped");
    }
}

static enum status check_layers(const struct program *p, struct error *e)
{
    uint32_t n = p->config.shape.n_layers;

    return p->args.stages <= n
               ? ST_OK
               : error_set(e, ST_INVALID_ARGUMENT,
                           "--stages %u: the model has only %u layers",
                           p->args.stages, n);
}

enum status program_offer(struct program *p, struct error *e)
{
    struct offer *f = NULL;
    struct layer_costs *t;
    enum status st;

    /* A replica of one stage has all layers, so there is nothing to offer. */
    if (p->args.stages < 2) {
        return ST_OK;
    }
    t = calloc(1, sizeof *t);
    if (t == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    st = check_layers(p, e);
    st = st == ST_OK ? costs_read(p, &t->costs, e) : st;
    st = st == ST_OK ? try_layer(p, t, e) : st;
    if (st == ST_OK) {
        add_drafts(p, &t->costs);
        st = offer_make(p, t, &f, e);
    }
    free(t);
    st = st == ST_OK ? offer_run(p, f, e) : st;
    offer_free(&f);
    return st == ST_OK || st == ST_CANCELLED
               ? st
               : error_wrap(e, "%s", p->args.model);
}
