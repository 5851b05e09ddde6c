/* The options of the core, from those of the program, the model and the pool.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/model/mtp.h"
#include "worker/program.h"

uint32_t program_window(const struct program *p)
{
    const struct model_config *c = &p->config;

    return config_count(c, MIXER_IN_WINDOWS, 0, c->shape.n_layers) > 0
               ? c->shape.window
               : 0;
}

struct costs_step program_step(const struct program *p)
{
    struct costs_step step = args_step(&p->args, p->config.shape.context);

    step.kept = p->kv.dtype;
    return step;
}

enum status program_drafts(struct program *p, struct error *e)
{
    struct args_drafts *d = &p->drafts;
    struct mtp_found mtp = {.text = "drafts: from the text"};
    enum status st = args_drafts(&p->args, d, e);

    if (st == ST_OK && d->most > 0 && d->drafter != DRAFTER_NGRAM) {
        st = mtp_find_in(&mtp, &p->config, p->args.model, e);
    }
    if (st != ST_OK || d->most == 0) {
        return st;
    }
    if (!mtp.usable && d->drafter == DRAFTER_MTP) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--drafter mtp: %s; give --drafter ngram, or leave "
                         "--drafts out",
                         mtp.text);
    }
    p->config.drafts = mtp.usable;
    log_info("drafts", "most=%u drafter=%s text=\"%s\"", d->most,
             mtp.usable ? "mtp" : "ngram", mtp.text);
    return ST_OK;
}

/* For tests of the pool: a read of a freed page then gives NaN. */
static bool is_poison_on(void)
{
    const char *text = getenv("SLUICE_POISON");

    return text != NULL && strcmp(text, "1") == 0;
}

/* args_check() has read it before. */
static struct worker_itl_options itl_of(const struct worker_args *a)
{
    struct worker_itl_options itl = {0};
    struct error e;

    return args_itl(a, &itl, &e) == ST_OK ? itl
                                          : (struct worker_itl_options){0};
}

struct worker_options program_core_options(const struct program *p)
{
    const struct worker_args *a = &p->args;
    const struct model_shape *s = &p->config.shape;
    struct worker_options o = {
        .name = p->name,
        .lineage = p->lineage,
        .model = p->config.name,
        .shared.kv_format = p->stated.kv_format,
        .shared.arithmetic = p->stated.arithmetic,
        .device = a->device,
        .tokenizer.known = p->tokenizer != NULL,
        .layer_begin = p->begin,
        .layer_end = p->end,
        .n_layers = s->n_layers,
        .block_tokens = a->block_tokens,
        .pool.block_bytes = p->sizes.block_bytes,
        .pool.slot_bytes = p->sizes.slot_bytes,
        .pool.checkpoint_bytes = p->sizes.checkpoint_bytes,
        .pool.n_pages = p->budget.pool.n_pages,
        .pool.pages_per_block = p->pages.pages_per_block,
        .pool.pages_per_slot = p->pages.pages_per_slot,
        .pool.window_pages = p->pages.window_pages,
        .window = program_window(p),
        .pool.slot_cap = p->budget.pool.slot_cap,
        .pool.host_pages = p->host_pages,
        .one_arithmetic = p->pages.one_arithmetic,
        .drafting.most = p->drafts.most,
        .drafting.chooses = p->drafts.automatic,
        .drafting.drafter = p->drafts.drafter,
        .drafting.has_mtp = config_drafts_at(&p->config, p->end),
        .drafting.keep_tokens = p->drafts.most > 0 ? args_keep_tokens(a) : 0,
        .itl = itl_of(a),
        .reuse = !a->no_reuse,
        .pool.checkpoint_share = (float)a->cache_checkpoints,
        .pool.tenant_share = (float)a->cache_tenant,
        .pool.poison = is_poison_on(),
        .weight_bytes = p->need.weight_bytes,
        .scratch_bytes = p->need.scratch_bytes,
        .pool.bytes = p->budget.pool.bytes,
        .context = s->context,
        .vocab = s->vocab,
        .n_eos = p->config.n_eos,
        .max_rows = a->max_rows,
        .step_tokens = a->step_tokens,
        .chunk_tokens = a->chunk_tokens,
        .engine_depth = a->engine_depth,
        .stage_endpoint = p->stage_endpoint,
        .keyed = p->daemon.keys != NULL,
        .hidden = s->hidden,
    };

    memcpy(o.fingerprint, shard_fingerprint(p->shard), sizeof o.fingerprint);
    if (p->tokenizer != NULL) {
        memcpy(o.tokenizer.hash, tokenizer_hash(p->tokenizer),
               sizeof o.tokenizer.hash);
    }
    memcpy(o.eos, p->config.eos, p->config.n_eos * sizeof o.eos[0]);
    return o;
}
