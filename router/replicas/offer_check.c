/* offer_check.c - Checks the offer in the Hello of a worker without layers. */
#include <inttypes.h>

#include "common/split/layer_split.h"
#include "common/wire/endpoint.h"
#include "router/replicas/offers.h"
#include "router/replicas/shard.h"

static enum status check_range(const char *name, uint64_t value, uint64_t min,
                               uint64_t max, struct error *e)
{
    if (value < min || value > max) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "offer: %s is %" PRIu64 ", must be %" PRIu64
                         "..%" PRIu64,
                         name, value, min, max);
    }
    return ST_OK;
}

static enum status check_numbers(const Sluice__V1__WorkerOffer *o,
                                 struct error *e)
{
    const struct {
        const char *name;
        uint64_t value, min, max;
    } bounds[] = {
        {"n_layers", o->n_layers, 2, MODEL_LAYERS_MAX},
        {"n_stages", o->n_stages, 2,
         o->n_layers < STAGES_MAX ? o->n_layers : STAGES_MAX},
        {"budget_bytes", o->budget_bytes, 1, SHARD_BYTES_MAX},
        {"speed", o->speed, 1, (uint64_t)SPLIT_SPEED_MAX},
        {"scratch_bytes", o->scratch_bytes, 0, SHARD_BYTES_MAX},
        {"embed_bytes", o->embed_bytes, 0, SHARD_BYTES_MAX},
        {"head_bytes", o->head_bytes, 0, SHARD_BYTES_MAX},
        {"block_tokens", o->block_tokens, 1, SHARD_BLOCK_TOKENS_MAX},
        {"context", o->context, 1, MODEL_CONTEXT_MAX},
        {"window_tokens", o->window_tokens, 0, MODEL_CONTEXT_MAX},
        {"chunk_tokens", o->chunk_tokens, 0, STEP_TOKENS_MAX},
        {"max_rows", o->max_rows, 1, STEP_ROWS_MAX},
    };
    enum status st = ST_OK;

    for (unsigned i = 0; st == ST_OK && i < sizeof bounds / sizeof *bounds;
         i++) {
        st = check_range(bounds[i].name, bounds[i].value, bounds[i].min,
                         bounds[i].max, e);
    }
    if (st == ST_OK && SHARD_BLOCK_TOKENS_MAX % o->block_tokens != 0) {
        st = error_set(e, ST_INVALID_ARGUMENT,
                       "offer: block_tokens is %" PRIu32 ", must divide %d",
                       o->block_tokens, SHARD_BLOCK_TOKENS_MAX);
    }
    return st;
}

static enum status check_texts(const Sluice__V1__WorkerOffer *o, bool keyed,
                               struct error *e)
{
    if (!wire_text_ok(o->model, 1, MODEL_NAME_MAX)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "offer: the model's name must be 1..%d bytes of UTF-8",
                         MODEL_NAME_MAX);
    }
    if (o->has_kv_format && shard_check_format(o->kv_format, e) != ST_OK) {
        return error_wrap(e, "offer");
    }
    if (o->has_arithmetic &&
        shard_check_arithmetic(o->arithmetic, e) != ST_OK) {
        return error_wrap(e, "offer");
    }
    if (o->fingerprint.len != 16) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "offer: the fingerprint is %zu bytes long, must be 16",
                         o->fingerprint.len);
    }
    if (o->has_lineage && !wire_text_ok(o->lineage, 1, PEER_NAME_MAX)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "offer: the lineage must be 1..%d bytes of UTF-8",
                         PEER_NAME_MAX);
    }
    if (o->has_stage_endpoint &&
        endpoint_of_peer(o->stage_endpoint.data, o->stage_endpoint.len, NULL,
                         keyed, e) != ST_OK) {
        return error_wrap(e, "offer: stage_endpoint");
    }
    return ST_OK;
}

static enum status check_window(const Sluice__V1__WorkerOffer *o, uint32_t i,
                                struct error *e)
{
    uint64_t tokens = (uint64_t)o->context + o->block_tokens;

    if (o->kv_bytes[i] > 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "offer: layer %" PRIu32
                         " has both kv_bytes and window_bytes; a layer attends "
                         "to all positions or to a window",
                         i);
    }
    return check_range("a layer's window_bytes", o->window_bytes[i], 0,
                       SHARD_BYTES_MAX / tokens, e);
}

/* kv_bytes is per token, so its limit keeps the bytes of a whole context,
 * rounded up to blocks, within SPLIT_BYTES_MAX: the deal's sums cannot
 * overflow. */
static enum status check_layer(const Sluice__V1__WorkerOffer *o, uint32_t i,
                               struct error *e)
{
    uint64_t tokens = (uint64_t)o->context + o->block_tokens;
    uint64_t window = o->n_window_bytes > 0 ? o->window_bytes[i] : 0;
    enum status st = check_range("a layer's layer_bytes", o->layer_bytes[i], 1,
                                 SHARD_BYTES_MAX, e);

    if (st == ST_OK) {
        st = check_range("a layer's kv_bytes", o->kv_bytes[i], 0,
                         SHARD_BYTES_MAX / tokens, e);
    }
    if (st == ST_OK) {
        st = check_range("a layer's slot_bytes", o->slot_bytes[i], 0,
                         SHARD_BYTES_MAX, e);
    }
    if (st == ST_OK && window > 0) {
        st = check_window(o, i, e);
    }
    if (st == ST_OK && o->n_step_bytes > 0) {
        st = check_range("a layer's step_bytes", o->step_bytes[i], 1,
                         o->layer_bytes[i], e);
    }
    if (st == ST_OK && o->kv_bytes[i] + o->slot_bytes[i] + window == 0) {
        st = error_set(e, ST_INVALID_ARGUMENT,
                       "offer: layer %" PRIu32
                       " has neither KV nor a recurrent state: kv_bytes and "
                       "slot_bytes are 0",
                       i);
    }
    return st;
}

/* The window layers of a model are alike: each page of a window block has as
 * many of them. */
static enum status check_window_fields(const Sluice__V1__WorkerOffer *o,
                                       struct error *e)
{
    uint64_t most = 0;

    for (size_t i = 0; i < o->n_window_bytes; i++) {
        uint64_t w = o->window_bytes[i];

        if (w > 0 && most > 0 && w != most) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "offer: layer %zu has %" PRIu64
                             " window_bytes, a layer before it %" PRIu64
                             ": all window layers must have the same",
                             i, w, most);
        }
        most = w > most ? w : most;
    }
    if ((most > 0) != (o->window_tokens > 0) ||
        (most > 0) != (o->chunk_tokens > 0)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "offer: window_bytes is at most %" PRIu64
                         ", window_tokens is %" PRIu32
                         " and chunk_tokens is %" PRIu32
                         ": models with window layers need all of them, others "
                         "have none",
                         most, o->window_tokens, o->chunk_tokens);
    }
    return ST_OK;
}

static enum status check_layers(const Sluice__V1__WorkerOffer *o,
                                struct error *e)
{
    enum status st = ST_OK;

    if (o->n_layer_bytes != o->n_layers || o->n_kv_bytes != o->n_layers ||
        o->n_slot_bytes != o->n_layers) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "offer: %" PRIu32 " layers, but %zu layer_bytes, %zu "
                         "kv_bytes and %zu slot_bytes",
                         o->n_layers, o->n_layer_bytes, o->n_kv_bytes,
                         o->n_slot_bytes);
    }
    if (o->n_window_bytes != 0 && o->n_window_bytes != o->n_layers) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "offer: %" PRIu32 " layers, but %zu window_bytes",
                         o->n_layers, o->n_window_bytes);
    }
    if (o->n_step_bytes != 0 && o->n_step_bytes != o->n_layers) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "offer: %" PRIu32 " layers, but %zu step_bytes",
                         o->n_layers, o->n_step_bytes);
    }
    for (uint32_t i = 0; st == ST_OK && i < o->n_layers; i++) {
        st = check_layer(o, i, e);
    }
    return st == ST_OK ? check_window_fields(o, e) : st;
}

/* Texts first: their lengths are what later code copies.  The number of layers
 * is checked before the lists that it sizes. */
enum status offer_check(const Sluice__V1__WorkerOffer *o, bool keyed,
                        struct error *e)
{
    enum status st = check_texts(o, keyed, e);

    if (st == ST_OK) {
        st = check_numbers(o, e);
    }
    if (st == ST_OK) {
        st = check_layers(o, e);
    }
    return st;
}
