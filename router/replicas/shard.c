/* shard.c - Checks the shard in a worker's Hello. */
#include "router/replicas/shard.h"

#include <inttypes.h>

#include "common/wire/endpoint.h"
#include "router/fleet/ledgers.h"
#include "router/fleet/workers.h"

/* One number of the shard with its bounds, both inclusive. */
struct bound {
    const char *name;
    uint64_t value, min, max;
};

static enum status check_bounds(const struct bound *b, unsigned n,
                                struct error *e)
{
    for (unsigned i = 0; i < n; i++) {
        if (b[i].value < b[i].min || b[i].value > b[i].max) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "shard: %s is %" PRIu64 ", must be %" PRIu64
                             "..%" PRIu64,
                             b[i].name, b[i].value, b[i].min, b[i].max);
        }
    }
    return ST_OK;
}

static enum status check_numbers(const Sluice__V1__WorkerShard *s,
                                 struct error *e)
{
    /* In order: the bounds of layer_end and layer_begin use checked values. */
    const struct bound bounds[] = {
        {"n_layers", s->n_layers, 1, MODEL_LAYERS_MAX},
        {"layer_end", s->layer_end, 1, s->n_layers},
        {"layer_begin", s->layer_begin, 0, (uint64_t)s->layer_end - 1},
        {"block_tokens", s->block_tokens, 1, SHARD_BLOCK_TOKENS_MAX},
        {"block_bytes", s->block_bytes, 0, SHARD_BYTES_MAX},
        {"slot_bytes", s->slot_bytes, 0, SHARD_BYTES_MAX},
        {"checkpoint_bytes", s->checkpoint_bytes, 0, SHARD_BYTES_MAX},
        {"pages_per_block", s->pages_per_block, 0, SHARD_PAGES_MAX},
        {"pages_per_slot", s->pages_per_slot, 0, SHARD_PAGES_MAX},
        {"pages_per_checkpoint", s->pages_per_checkpoint, 0, SHARD_PAGES_MAX},
        {"window_tokens", s->window_tokens, 0, MODEL_CONTEXT_MAX},
        {"window_pages", s->window_pages, 0, SHARD_PAGES_MAX},
        {"chunk_tokens", s->chunk_tokens, 0, STEP_TOKENS_MAX},
        {"context", s->context, 1, MODEL_CONTEXT_MAX},
        {"vocab", s->vocab, 1, MODEL_VOCAB_MAX},
        {"max_rows", s->max_rows, 1, STEP_ROWS_MAX},
        {"hidden", s->hidden, 0, MODEL_HIDDEN_MAX},
        {"step_tokens", s->step_tokens, 0, STEP_TOKENS_MAX},
        {"cut_tokens", s->cut_tokens, 0, STEP_TOKENS_MAX},
        {"weight_bytes", s->weight_bytes, 0, SHARD_BYTES_MAX},
        {"scratch_bytes", s->scratch_bytes, 0, SHARD_BYTES_MAX},
        {"pool_bytes", s->pool_bytes, 0, SHARD_BYTES_MAX},
    };

    return check_bounds(bounds, sizeof bounds / sizeof *bounds, e);
}

static enum status check_word(ProtobufCBinaryData name, const char *what,
                              int most, struct error *e)
{
    bool valid = name.len >= 1 && name.len <= (size_t)most;

    for (size_t i = 0; valid && i < name.len; i++) {
        valid = name.data[i] > ' ' && name.data[i] < 0x7f;
    }
    return valid ? ST_OK
                 : error_set(e, ST_INVALID_ARGUMENT,
                             "the %s must be 1..%d bytes of ASCII without "
                             "blanks",
                             what, most);
}

enum status shard_check_format(ProtobufCBinaryData name, struct error *e)
{
    return check_word(name, "KV format", KV_FORMAT_MAX, e);
}

enum status shard_check_arithmetic(ProtobufCBinaryData id, struct error *e)
{
    return check_word(id, "arithmetic id", ARITHMETIC_MAX, e);
}

static enum status check_texts(const Sluice__V1__WorkerShard *s,
                               struct error *e)
{
    if (!wire_text_ok(s->model, 1, MODEL_NAME_MAX)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "shard: the model's name must be 1..%d bytes of "
                         "UTF-8",
                         MODEL_NAME_MAX);
    }
    if (!wire_text_ok(s->device, 0, SHARD_DEVICE_MAX)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "shard: the device must be at most %d bytes of UTF-8",
                         SHARD_DEVICE_MAX);
    }
    if (s->has_lineage && !wire_text_ok(s->lineage, 1, PEER_NAME_MAX)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "shard: the lineage must be 1..%d bytes of UTF-8",
                         PEER_NAME_MAX);
    }
    if (s->has_kv_format && shard_check_format(s->kv_format, e) != ST_OK) {
        return error_wrap(e, "shard");
    }
    if (s->has_arithmetic &&
        shard_check_arithmetic(s->arithmetic, e) != ST_OK) {
        return error_wrap(e, "shard");
    }
    if (s->fingerprint.len != 16) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "shard: the fingerprint is %zu bytes long, must be 16",
                         s->fingerprint.len);
    }
    if (s->tokenizer.len != 0 && s->tokenizer.len != 16) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "shard: the tokenizer's hash is %zu bytes long, must "
                         "be 16 or 0",
                         s->tokenizer.len);
    }
    return ST_OK;
}

/* The pages that Hello announces, for the checks of its ledger. */
static struct shard pages_of(const Sluice__V1__WorkerShard *s)
{
    return (struct shard){.pages_per_block = s->pages_per_block,
                          .pages_per_slot = s->pages_per_slot,
                          .pages_per_checkpoint = s->pages_per_checkpoint,
                          .window_pages = s->window_pages};
}

/* The fields of window layers are given together.  A stage without such layers
 * may give chunk_tokens alone. */
static enum status check_windows(const Sluice__V1__WorkerShard *s,
                                 struct error *e)
{
    bool has_total =
        s->ledger->windows != NULL && s->ledger->windows->total > 0;

    if ((s->window_tokens > 0) != (s->window_pages > 0)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "shard: window_tokens is %" PRIu32
                         " and window_pages is %" PRIu32
                         ": window layers need both, other shards have neither",
                         s->window_tokens, s->window_pages);
    }
    if (s->window_pages > 0 && s->chunk_tokens == 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "shard: chunk_tokens is 0, but with window layers it "
                         "must be 1..%d",
                         STEP_TOKENS_MAX);
    }
    if (s->window_pages > 0 && !has_total) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "shard: window_pages is %" PRIu32
                         ", but the ledger has no window pages",
                         s->window_pages);
    }
    return ST_OK;
}

/* A class may have a cap, so that its total is less than the pages give. */
static enum status check_total(const Sluice__V1__WorkerShard *s,
                               enum fleet_class of,
                               const Sluice__V1__ClassLedger *c,
                               struct error *e)
{
    struct shard pages = pages_of(s);
    uint32_t per = worker_pages_per(&pages, of);

    if (c->total > SHARD_CLASS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "shard: the ledger has %" PRIu32
                         " %s, but at most %d are possible",
                         c->total, ledger_class_names[of], SHARD_CLASS_MAX);
    }
    if (c->total > 0 &&
        (per == 0 || (uint64_t)c->total * per > s->ledger->pages->total)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "shard: the ledger has %" PRIu32 " %s of %" PRIu32
                         " pages, but %" PRIu32 " pages in total",
                         c->total, ledger_class_names[of], per,
                         s->ledger->pages->total);
    }
    return ST_OK;
}

static enum status check_totals(const Sluice__V1__WorkerShard *s,
                                struct error *e)
{
    const Sluice__V1__Ledger *l = s->ledger;
    enum status st = check_total(s, PAGES, l->pages, e);

    if (st == ST_OK) {
        st = check_total(s, BLOCKS, l->blocks, e);
    }
    if (st == ST_OK) {
        st = check_total(s, SLOTS, l->slots, e);
    }
    if (st == ST_OK && l->windows != NULL) {
        st = check_total(s, WINDOWS, l->windows, e);
    }
    return st == ST_OK ? check_total(s, CHECKPOINTS, l->checkpoints, e) : st;
}

static enum status check_ledger(const Sluice__V1__WorkerShard *s,
                                struct error *e)
{
    const Sluice__V1__Ledger *l = s->ledger;
    struct shard pages = pages_of(s);
    enum status st = check_totals(s, e);

    if (st == ST_OK &&
        (ledger_columns_check(&pages, l, ST_INVALID_ARGUMENT, e) != ST_OK ||
         ledger_counts_check(l, ST_INVALID_ARGUMENT, e) != ST_OK)) {
        st = error_wrap(e, "shard");
    }
    /* The session that the ledger belongs to starts with this Hello. */
    if (st == ST_OK && (l->session | l->snapshot | l->grant) != 0) {
        st = error_set(e, ST_INVALID_ARGUMENT,
                       "shard: the ledger of a Hello must have session, "
                       "snapshot and grant 0");
    }
    if (st == ST_OK && l->blocks->total == 0 && l->slots->total == 0 &&
        s->window_pages == 0) {
        st = error_set(e, ST_INVALID_ARGUMENT,
                       "shard: the pool has neither blocks nor slots");
    }
    return st;
}

/* Checks the fields that only a stage needs: the endpoint for the stage before
 * it, and the width of the x that it receives. */
static enum status check_stage(const Sluice__V1__WorkerShard *s, bool keyed,
                               struct error *e)
{
    if (!s->has_stage_endpoint) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "shard: layers %" PRIu32 "-%" PRIu32 " of %" PRIu32
                         " are a stage of several, so stage_endpoint must "
                         "be set: the stage before it connects there",
                         s->layer_begin, s->layer_end, s->n_layers);
    }
    if (endpoint_of_peer(s->stage_endpoint.data, s->stage_endpoint.len, NULL,
                         keyed, e) != ST_OK) {
        return error_wrap(e, "shard: stage_endpoint");
    }
    if (s->hidden == 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "shard: hidden is 0, but a stage of several must set "
                         "it to the width of x");
    }
    if (s->n_live != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "shard: n_live is %" PRIu32 ", must be 0: no sequence "
                         "of a stage outlives its assembly",
                         s->n_live);
    }
    return ST_OK;
}

/* Texts come first because their lengths bound later copies.  block_tokens is
 * checked to be above 0 before it divides. */
enum status shard_check(const Sluice__V1__WorkerShard *s, bool keyed,
                        struct error *e)
{
    enum status st = check_texts(s, e);

    if (st == ST_OK) {
        st = check_numbers(s, e);
    }
    if (st == ST_OK && SHARD_BLOCK_TOKENS_MAX % s->block_tokens != 0) {
        st = error_set(e, ST_INVALID_ARGUMENT,
                       "shard: block_tokens is %" PRIu32 ", must divide %d",
                       s->block_tokens, SHARD_BLOCK_TOKENS_MAX);
    }
    if (st == ST_OK && s->n_live > WORKER_ORPHANS_MAX) {
        st = error_set(e, ST_INVALID_ARGUMENT,
                       "shard: n_live is %" PRIu32
                       ", but at most %d sequences may outlive a session",
                       s->n_live, WORKER_ORPHANS_MAX);
    }
    if (st == ST_OK) {
        st = check_windows(s, e);
    }
    if (st == ST_OK) {
        st = check_ledger(s, e);
    }
    if (st == ST_OK && (s->layer_begin != 0 || s->layer_end != s->n_layers)) {
        st = check_stage(s, keyed, e);
    }
    return st;
}
