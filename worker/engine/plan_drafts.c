#include "worker/engine/plan_drafts.h"

#include "common/base/minmax.h"
#include "worker/engine/plan_pages.h"

static enum status check_replay(const struct plan_bounds *b,
                                const struct plan_replay *r, struct error *e)
{
    enum status st = plan_check_slot(b, r->slot, "slot to replay", e);

    if (st == ST_OK &&
        (r->n_tokens == 0 || r->n_tokens > DRAFTS_MAX + 1 ||
         !in_range_u32(r->keep_at, r->n_tokens, b->keep_tokens))) {
        st = error_set(e, ST_INTERNAL,
                       "%u inputs at %u of %u kept ones; a row keeps 1 to %d",
                       r->n_tokens, r->keep_at, b->keep_tokens, DRAFTS_MAX + 1);
    }
    return st == ST_OK ? plan_mark(b->marks, r->slot, b->pages_per_slot,
                                   "replayed page", e)
                       : st;
}

/* Without linear layers there is nothing to replay.  The last stage replays
 * what it keeps by itself. */
enum status plan_check_replays(const struct plan_bounds *b,
                               const struct plan *p, struct error *e)
{
    enum status st = ST_OK;

    plan_clear_marks(b->kept, b->keep_tokens);
    plan_clear_marks(b->marks, b->n_pages);
    if (!b->has_deltanet || p->n_replays == 0) {
        return ST_OK;
    }
    if (!b->drafts || !plan_gives_hidden(b)) {
        return error_set(e, ST_INTERNAL, "%u replays for layers %u-%u of %u%s",
                         p->n_replays, b->begin, b->end, b->shape->n_layers,
                         b->drafts ? "" : ", whose kernels have no drafts");
    }
    for (uint32_t i = 0; i < p->n_replays && st == ST_OK; i++) {
        if (check_replay(b, &p->replays[i], e) != ST_OK) {
            st = error_wrap(e, "replay %u", i);
        }
    }
    return st;
}

/* The slot of a row with drafts stays as it is, so no state can be saved, nor
 * can a later pass continue from it. */
static enum status check_kept(const struct plan_bounds *b,
                              const struct plan_row *r, uint32_t at,
                              struct error *e)
{
    if (r->kind != ROW_GENERATED || r->n_saves > 0 ||
        r->n_tokens > b->max_tokens ||
        !in_range_u32(at, r->n_tokens, b->keep_tokens)) {
        return error_set(e, ST_INTERNAL,
                         "%u inputs of a %s row with %u saves to keep at %u of "
                         "%u, in a pass of %u tokens",
                         r->n_tokens,
                         r->kind == ROW_GENERATED ? "generated" : "prompt",
                         r->n_saves, at, b->keep_tokens, b->max_tokens);
    }
    return ST_OK;
}

/* An earlier stage reads where the inputs are kept. */
static enum status check_early(const struct plan_bounds *b,
                               const struct plan_row *r, struct error *e)
{
    enum status st = ST_OK;

    if (!plan_keeps(b, r)) {
        return ST_OK;
    }
    if (!b->drafts || r->n_tokens > DRAFTS_MAX + 1) {
        return error_set(e, ST_INTERNAL,
                         "%u inputs to keep; at most %d, and none by kernels "
                         "without drafts",
                         r->n_tokens, DRAFTS_MAX + 1);
    }
    st = check_kept(b, r, r->keep_at, e);
    return st == ST_OK
               ? plan_mark(b->kept, r->keep_at, r->n_tokens, "kept input", e)
               : st;
}

static enum status check_verified(const struct plan_bounds *b,
                                  const struct plan_row *r, struct error *e)
{
    if (r->n_drafts == 0) {
        return ST_OK;
    }
    if (!b->drafts || r->n_drafts > DRAFTS_MAX ||
        r->n_tokens != r->n_drafts + 1 || r->kind != ROW_GENERATED ||
        !r->sample || r->chained || r->n_tokens > b->max_tokens) {
        return error_set(
            e, ST_INTERNAL,
            "%u drafts of %u tokens; at most %d drafts and %u tokens, in a "
            "generated row that samples and is not chained, by kernels with "
            "drafts",
            r->n_drafts, r->n_tokens, DRAFTS_MAX, b->max_tokens);
    }
    return b->has_deltanet ? check_kept(b, r, 0, e) : ST_OK;
}

static enum status check_proposed(const struct plan_bounds *b,
                                  const struct plan_row *r, struct error *e)
{
    if ((r->mtp && !b->has_mtp) || (r->propose > 0 && !plan_proposes(b, r)) ||
        r->propose > DRAFTS_MAX) {
        return error_set(e, ST_INTERNAL,
                         "%u drafts to propose; at most %d, in a row that "
                         "samples, and only by an MTP layer",
                         r->propose, DRAFTS_MAX);
    }
    if (plan_has_mtp(b, r) && !r->sample && r->next >= b->shape->vocab) {
        return error_set(e, ST_INTERNAL, "next token id %u of %u", r->next,
                         b->shape->vocab);
    }
    return ST_OK;
}

enum status plan_check_drafts(const struct plan_bounds *b,
                              const struct plan_row *r, struct error *e)
{
    enum status st;

    if (plan_gives_hidden(b)) {
        return check_early(b, r, e);
    }
    st = check_verified(b, r, e);
    return st == ST_OK ? check_proposed(b, r, e) : st;
}
