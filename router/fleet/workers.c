#include "router/fleet/workers.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/plant.h"
#include "common/base/state_machine.h"
#include "common/split/page_unit.h"
#include "router/fleet/fleet.h"
#include "router/fleet/ledgers.h"

_Static_assert((GRANTS_UNSETTLED_MAX & (GRANTS_UNSETTLED_MAX - 1)) == 0,
               "a power of two");

/* The picture in workers.h as a table. */
static const struct sm_row worker_rows[WORKER_STATES] = {
    [WORKER_UP] = {"up", SM_TO(WORKER_SLOW) | SM_TO(WORKER_SILENT) |
                             SM_TO(WORKER_LOST)},
    [WORKER_SLOW] = {"slow", SM_TO(WORKER_UP) | SM_TO(WORKER_SILENT) |
                                 SM_TO(WORKER_LOST)},
    [WORKER_SILENT] = {"silent", SM_TO(WORKER_UP) | SM_TO(WORKER_LOST)},
    [WORKER_LOST] = {"lost", 0},
};

void worker_move(struct worker *w, enum worker_state to)
{
    sm_check(worker_rows, w->state, to, "worker", w->peer->name);
    w->state = to;
}

static const struct sm_row drain_rows[WORKER_DRAINS] = {
    [DRAIN_NONE] = {"none", SM_TO(DRAIN_ON) | SM_TO(DRAIN_LEAVES)},
    [DRAIN_ON] = {"on", SM_TO(DRAIN_NONE) | SM_TO(DRAIN_LEAVES)},
    [DRAIN_LEAVES] = {"leaves", 0},
};

void worker_drain_move(struct worker *w, enum worker_drain to)
{
    sm_check(drain_rows, w->drain, to, "drain", w->peer->name);
    w->drain = to;
}

const char *worker_state_name(const struct worker *w)
{
    return w->state == WORKER_UP && lineage_probation(w)
               ? "probation"
               : worker_rows[w->state].name;
}

/* out has room for the text and its terminator: shard_check() has compared the
 * length with the limit. */
static void copy_text(char *out, ProtobufCBinaryData d)
{
    if (d.len > 0) {
        memcpy(out, d.data, d.len);
    }
    out[d.len] = '\0';
}

static void read_shard(struct shard *to, const Sluice__V1__WorkerShard *s)
{
    *to = (struct shard){
        .layer_begin = s->layer_begin,
        .layer_end = s->layer_end,
        .n_layers = s->n_layers,
        .block_tokens = s->block_tokens,
        .context = s->context,
        .vocab = s->vocab,
        .max_rows = s->max_rows,
        .pages_per_block = s->pages_per_block,
        .pages_per_slot = s->pages_per_slot,
        .pages_per_checkpoint = s->pages_per_checkpoint,
        .window_tokens = s->window_tokens,
        .window_pages = s->window_pages,
        .chunk_tokens = s->chunk_tokens,
        .block_bytes = s->block_bytes,
        .slot_bytes = s->slot_bytes,
        .checkpoint_bytes = s->checkpoint_bytes,
        .weight_bytes = s->weight_bytes,
        .scratch_bytes = s->scratch_bytes,
        .pool_bytes = s->pool_bytes,
        .hidden = s->hidden,
        .step_tokens = s->step_tokens,
        .cut_tokens = s->cut_tokens,
    };
    copy_text(to->device, s->device);
    if (s->has_kv_format) {
        copy_text(to->kv_format, s->kv_format);
    }
    if (s->has_arithmetic) {
        copy_text(to->arithmetic, s->arithmetic);
    }
    /* Only a stage needs an endpoint, and only a stage's was checked. */
    if (s->layer_end - s->layer_begin < s->n_layers) {
        copy_text(to->stage_endpoint, s->stage_endpoint);
    }
}

struct worker *workers_add(struct fleet *fleet, struct router_peer *p,
                           struct model *m, const Sluice__V1__WorkerShard *s)
{
    struct worker *w = parts_alloc(&fleet->worker_parts, sizeof *w,
                                   offsetof(struct worker, parts));

    assert(fleet->n_workers < ROUTER_WORKERS_MAX);
    if (w == NULL ||
        (w->grants.ring =
             calloc(GRANTS_UNSETTLED_MAX, sizeof *w->grants.ring)) == NULL) {
        free(w);
        return NULL;
    }
    w->peer = p;
    w->model = m;
    m->slot = metric_slot(&fleet->base->model_names, m->name, strlen(m->name));
    w->state = WORKER_UP;
    read_shard(&w->shard, s);
    w->chunk_tokens = w->shard.chunk_tokens;
    ledger_read(&w->ledger, s->ledger);
    w->ledger.session = p->session; /* 0 in a Hello: the worker had none */
    w->grants.ring_size = GRANTS_UNSETTLED_MAX;
    liveness_open(fleet, w);
    lineage_begin(fleet, w, s);
    fleet->workers[fleet->n_workers++] = w;
    return w;
}

void workers_unlist(struct fleet *fleet, struct worker *w)
{
    uint32_t i = 0;

    while (fleet->workers[i] != w) {
        i++;
    }
    /* The order of arrival is kept, because routing and deals depend on it. */
    fleet->n_workers--;
    memmove(&fleet->workers[i], &fleet->workers[i + 1],
            (fleet->n_workers - i) * sizeof *fleet->workers);
}

void worker_died(struct worker *w, enum worker_death how)
{
    if (!w->peer->ended) {
        w->death = how;
    }
}

void workers_free(struct fleet *fleet, struct worker **pw)
{
    struct worker *w = *pw;

    *pw = NULL;
    liveness_close(fleet, w);
    free(w->grants.ring);
    model_release(fleet, &w->model);
    free(w);
}

/* A model may lack KV blocks or recurrent state slots.  A class with a total of
 * 0 costs nothing, or the sequence would never fit. */
static struct need to_need(const struct worker *w, uint64_t blocks,
                           uint64_t slots, uint64_t window_blocks)
{
    const struct class_ledger *k = w->ledger.classes;
    const struct shard *s = &w->shard;
    struct need n = {.window_blocks = window_blocks};

    n.of[BLOCKS] = k[BLOCKS].total > 0 ? blocks : 0;
    n.of[SLOTS] = k[SLOTS].total > 0 ? slots : 0;
    n.of[WINDOWS] = PLANT(WINDOWS_FREE) ? 0 : window_blocks * s->window_pages;
    n.of[PAGES] = n.of[BLOCKS] * s->pages_per_block +
                  n.of[SLOTS] * s->pages_per_slot + n.of[WINDOWS];
    return n;
}

struct need worker_share(const struct worker *w, const struct need *need)
{
    return to_need(w, need->of[BLOCKS], need->of[SLOTS], need->window_blocks);
}

static uint64_t window_blocks_of(const struct worker *w, uint64_t n_tokens)
{
    const struct shard *s = &w->shard;
    uint32_t window = PLANT(WINDOWS_WHOLE) ? s->context : s->window_tokens;

    return s->window_pages == 0 ? 0
                                : page_window_blocks(window, w->chunk_tokens,
                                                     s->block_tokens, n_tokens);
}

struct need worker_need(const struct worker *w, uint64_t n_tokens)
{
    uint32_t block = w->shard.block_tokens;

    return to_need(w, (n_tokens + block - 1) / block, 1,
                   window_blocks_of(w, n_tokens));
}

bool worker_fits_ever(const struct worker *w, uint64_t n_tokens)
{
    struct need n = worker_need(w, n_tokens);

    for (int c = 0; c < FLEET_CLASSES; c++) {
        if (n.of[c] > w->ledger.classes[c].total) {
            return false;
        }
    }
    return n_tokens <= w->shard.context;
}

uint32_t worker_pages_per(const struct shard *s, enum fleet_class c)
{
    switch (c) {
    case BLOCKS:
        return s->pages_per_block;
    case SLOTS:
        return s->pages_per_slot;
    case CHECKPOINTS:
        return s->pages_per_checkpoint;
    case WINDOWS:
        return s->window_pages > 0 ? 1 : 0;
    default:
        return 1;
    }
}

/* A faulty worker may report less than it was granted. */
static uint64_t less(uint64_t have, uint64_t owed)
{
    return have > owed ? have - owed : 0;
}

uint64_t worker_units(const struct worker *w, enum fleet_class c)
{
    const struct class_ledger *k = &w->ledger.classes[c];

    if (c == PAGES) {
        return less((uint64_t)k->free + k->cached, w->grants.owed[PAGES]);
    }
    return less(k->total, (uint64_t)k->held + k->granted + w->grants.owed[c]);
}

uint64_t worker_room(const struct worker *w, enum fleet_class c)
{
    uint32_t per = worker_pages_per(&w->shard, c);
    uint64_t units = worker_units(w, c), fit;

    if (per == 0) {
        return 0;
    }
    fit = worker_units(w, PAGES) / per;
    return units < fit ? units : fit;
}

bool worker_has_room(const struct worker *w, const struct need *need)
{
    for (int c = 0; c < FLEET_CLASSES; c++) {
        if (need->of[c] > worker_units(w, (enum fleet_class)c)) {
            return false;
        }
    }
    return true;
}

uint64_t worker_grant(struct worker *w, const struct need *need)
{
    assert(w->grants.last - w->ledger.grant < GRANTS_UNSETTLED_MAX);
    w->grants.last++;
    w->grants.ring[w->grants.last & (w->grants.ring_size - 1)] = *need;
    for (int c = 0; c < FLEET_CLASSES; c++) {
        w->grants.owed[c] += need->of[c];
    }
    return w->grants.last;
}
