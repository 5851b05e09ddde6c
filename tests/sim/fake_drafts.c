/* fake_drafts.c - Rows with drafts, and the MTP layer.
 *
 * A row writes the cells of all its drafts, as a real engine does; those of
 * refused drafts stay until later rows write the positions again.  The slot
 * gets the state behind the last accepted draft.
 *
 * The MTP layer has a mark at each position that it computed.  It finds the
 * right tokens in the oracle of the request, and drafts some of them wrong. */
#include <string.h>

#include "tests/sim/fake_engine_internal.h"

/* The tokens that follow those of a row. */
struct behind {
    struct fake_hidden hidden;
    struct slot_state state;
};

static bool is_last(const struct fake_engine *e)
{
    return !fake_engine_gives_hidden(e);
}

/* ---- checks of plans ---- */

void fake_drafts_settle(const struct fake_engine *e, const struct plan_row *r,
                        struct tracked *t)
{
    if (r->position < t->next && t->next - r->position <= t->slack) {
        t->next = r->position;
    }
    t->slack = is_last(e) ? 0 : r->n_drafts;
}

static void check_shape(struct fake_engine *e, const struct plan_row *r)
{
    if (r->n_drafts > DRAFTS_MAX || r->n_tokens != r->n_drafts + 1) {
        fake_engine_wrong(e, r, "row has a wrong number of drafts");
    } else if (r->kind != ROW_GENERATED || !r->sample || r->n_saves > 0 ||
               r->chained) {
        fake_engine_wrong(e, r, "row cannot have drafts");
    }
}

/* Checks that no draft is more than the worker or the request allows. */
static void check_number(struct fake_engine *e, const struct plan_row *r,
                         const struct tracked *t)
{
    const struct sim_request *q =
        t->request == NO_REQUEST ? NULL : &e->sim->requests[t->request];

    if (!fake_engine_takes_hidden(e) &&
        r->n_drafts > e->sim->options.drafts.most[e->w]) {
        fake_engine_wrong(e, r, "more drafts than --drafts");
    } else if (q && q->has_drafts && r->n_drafts > q->drafts && !q->shared &&
               !q->again) {
        fake_engine_wrong(e, r, "more drafts than the request allows");
    } else if (q && r->index + r->n_drafts >= q->max_tokens) {
        fake_engine_wrong(e, r, "drafts past max_tokens");
    }
}

static void claim_proposals(struct fake_engine *e, const struct plan *p,
                            const struct plan_row *r)
{
    uint32_t bt = e->draw->block_tokens, end = r->position + r->n_tokens;

    for (uint32_t k = (end - 1) / bt + 1;
         k * bt < end + r->propose - 1 && !e->sim->failed; k++) {
        uint32_t page = p->blocks[r->block + k];

        if (!fake_in_memory(e, page, 1)) {
            fake_engine_wrong(e, r, "block number out of range");
        } else if (fake_memory_is_others(e, page, r->sequence)) {
            fake_engine_wrong(e, r, "proposals in a block in flight");
        } else {
            fake_engine_claim(e, r, page);
        }
    }
}

static void check_mtp(struct fake_engine *e, const struct plan *p,
                      const struct plan_row *r)
{
    uint32_t end = r->position + r->n_tokens + r->propose;

    if (!options_has_mtp(&e->sim->options, e->w)) {
        fake_engine_wrong(e, r, "row of an MTP layer that is not there");
    } else if (r->propose > DRAFTS_MAX || (r->propose > 0 && !r->sample)) {
        fake_engine_wrong(e, r, "wrong number of proposals");
    } else if ((uint64_t)r->n_blocks * e->draw->block_tokens < end) {
        fake_engine_wrong(e, r, "block table does not cover the proposals");
    } else if (r->propose > 0) {
        claim_proposals(e, p, r);
    }
}

void fake_drafts_check(struct fake_engine *e, const struct plan *p,
                       const struct plan_row *r, struct tracked *t)
{
    bool has_ids = !fake_engine_takes_hidden(e) || r->mtp || r->n_drafts > 0;

    if (r->n_drafts > 0) {
        check_shape(e, r);
        check_number(e, r, t);
    }
    if (e->sim->failed || !is_last(e)) {
        return;
    }
    if (r->mtp) {
        check_mtp(e, p, r);
    } else if (r->propose > 0) {
        fake_engine_wrong(e, r, "proposals without the MTP layer");
    }
    if (t->has_next && has_ids && !t->tainted &&
        p->tokens[r->token] != t->next_id) {
        fake_engine_wrong(e, r, "the id behind the row before was another");
    }
    t->has_next = r->mtp && !r->sample;
    t->next_id = r->next;
}

static bool has_eos(const struct fake_engine *e, const struct plan *p)
{
    return p->n_eos == e->model->n_eos &&
           memcmp(p->eos, e->model->eos, p->n_eos * sizeof(*p->eos)) == 0;
}

/* Checks the replays of a stage before the last one. */
static void check_replays(struct fake_engine *e, const struct plan *p)
{
    uint32_t n = e->sim->options.drafts.keep_tokens[e->w];

    if (p->n_replays > 0 && (is_last(e) || !e->shard.linear)) {
        fake_engine_wrong(e, NULL, "replays where the engine has its own");
    }
    for (uint32_t i = 0; i < p->n_replays && !e->sim->failed; i++) {
        const struct plan_replay *y = &p->replays[i];

        if (y->n_tokens == 0 || y->n_tokens > DRAFTS_MAX + 1 ||
            y->keep_at > n || y->n_tokens > n - y->keep_at ||
            !fake_is_slot(e, y->slot)) {
            fake_engine_wrong(e, NULL, "replay out of range");
        }
    }
}

void fake_drafts_check_plan(struct fake_engine *e, const struct plan *p)
{
    uint32_t n_kept = 0;

    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *r = &p->rows[i];

        n_kept += r->n_drafts > 0 ? r->n_tokens : 0;
        if (fake_row_is_twin(r) && (r->n_drafts > 0 || r->propose > 0)) {
            fake_engine_wrong(e, r, "twin with drafts");
        }
    }
    check_replays(e, p);
    if (n_kept > e->sim->options.drafts.keep_tokens[e->w]) {
        fake_engine_wrong(e, NULL, "more kept inputs than keep_tokens");
    }
    if (n_kept > 0 && is_last(e) && !has_eos(e, p)) {
        fake_engine_wrong(e, NULL, "the end tokens are not the model's");
    }
}

/* ---- rows ---- */

/* Returns the state behind each token, in behind[n_tokens]. */
static void advance(struct fake_engine *e, const struct plan_row *r,
                    const uint32_t *ids, struct behind *behind)
{
    struct slot_state s = fake_memory_state(e, r, r->slot);
    bool tainted = fake_engine_track(e, r->sequence)->tainted;

    if (s.n > 0) {
        fake_memory_check_owner(e, r, r->slot);
    }
    if ((!s.whole || s.n != r->position) && !tainted) {
        fake_engine_wrong(e, r, "row continues a state of another position");
    }
    s.n = r->position;
    s.hash ^= tainted ? 0x5b0117 : 0;
    for (uint32_t i = 0; i < r->n_tokens; i++) {
        s.hash = oracle_advance(s.hash, ids[i], fake_engine_kind(e, r->kind));
        s.n++;
        behind[i].state = s;
    }
}

/* Returns the hidden state behind token i: of the stages before, and of the
 * memory here. */
static struct fake_hidden look(struct fake_engine *e, const struct plan *p,
                               const struct plan_row *r, uint32_t i,
                               const struct slot_state *s)
{
    struct fake_hidden h = {0};
    struct plan_row one = *r;

    one.position += i;
    one.n_tokens = 1;
    if (fake_engine_takes_hidden(e)) {
        (void)fake_hidden_get(&h,
                              p->hidden + (size_t)(r->token + i) * FAKE_HIDDEN,
                              e->model->salt, e->shard.begin);
    }
    if (e->shard.attention) {
        h.a = fake_hidden_join(h.has_a, h.a, fake_run_attend(e, p, &one));
        h.has_a = true;
    }
    if (e->tables > 0) {
        h.w = fake_hidden_join(h.has_w, h.w, fake_windows_see(e, p, &one));
        h.has_w = true;
    }
    if (e->shard.linear) {
        h.s = fake_hidden_join(h.has_s, h.s, s->hash);
        h.has_s = true;
    }
    return h;
}

static void count(struct fake_engine *e, const struct plan_row *r, uint32_t n,
                  bool ended)
{
    uint64_t *deeds = e->sim->counts.cells.deeds;
    const struct tracked *t = fake_engine_track(e, r->sequence);

    deeds[DEED_DRAFT_ACCEPTED] += n;
    deeds[DEED_DRAFT_REFUSED] += r->n_drafts - n;
    deeds[DEED_DRAFT_STOP] += ended;
    deeds[DEED_DRAFT_STAGED] += fake_engine_takes_hidden(e) ? n : 0;
    deeds[DEED_DRAFT_LOGPROBS] += r->sampling->logprobs ? n : 0;
    deeds[DEED_DRAFT_PENALTIES] += sampling_penalises(r->sampling) ? n : 0;
    deeds[DEED_DRAFT_NGRAM] += options_has_mtp(&e->sim->options, e->w) ? 0 : n;
    deeds[DEED_DRAFT_LENGTH] +=
        n > 0 && t->request != NO_REQUEST &&
        r->index + n + 1 == e->sim->requests[t->request].max_tokens;
}

/* Accepts drafts while they are right, and chooses one more token.  Returns
 * false if the logits are damaged. */
static bool verify(struct fake_engine *e, const struct plan_row *r,
                   const uint32_t *ids, const struct behind *behind,
                   struct plan_result *out, uint32_t row)
{
    struct token_logprob top[TOP_LOGPROBS_MAX] = {{0}};
    struct fake_token x = {.top = top};
    struct oracle o = {0};
    uint32_t n = 0;
    bool same;

    if (!fake_run_remember(e, r, 0, &o)) {
        return false;
    }
    for (;; n++) {
        o.a = behind[n].hidden.a;
        o.s = behind[n].hidden.s;
        o.w = behind[n].hidden.w;
        if (!fake_run_choose(e, r, &o, r->index + n, &x)) {
            e->sim->counts.cells.deeds[DEED_DRAFT_DAMAGED] += n > 0;
            return false;
        }
        same = n < r->n_drafts && x.token == ids[1 + n];
        if (!same || oracle_ends(e->model, r->sampling, x.token)) {
            break;
        }
        out->draft_logprobs[row][n] = x.logprob;
        memcpy(out->draft_top[row][n], top, sizeof(top));
        o.h = oracle_remember(o.h, x.token, ROW_GENERATED);
    }
    out->n_accepted[row] = (uint8_t)n;
    fake_run_put(out, row, &x);
    count(e, r, n, same);
    return true;
}

/* Notes the ids that the sequence goes on with. */
static void note(struct tracked *t, const struct plan_row *r,
                 const uint32_t *ids, uint32_t from, uint32_t n)
{
    struct plan_row part = *r;

    part.position += from;
    part.n_tokens = n;
    fake_run_note(t, &part, ids + from);
}

/* Keeps the inputs of the row for a replay, and passes all of its tokens on. */
static void pass_on(struct fake_engine *e, const struct plan_row *r,
                    const uint32_t *ids, const struct behind *behind)
{
    const struct tracked *t = fake_engine_track(e, r->sequence);
    uint32_t n = e->sim->options.drafts.keep_tokens[e->w];

    if (r->keep != e->shard.linear) {
        fake_engine_wrong(e, r,
                          "row with drafts keeps no inputs, or needs not");
        return;
    }
    if (r->keep_at > n || r->n_tokens > n - r->keep_at) {
        fake_engine_wrong(e, r, "inputs are kept out of range");
        return;
    }
    for (uint32_t i = 0; i < r->n_tokens; i++) {
        struct fake_hidden h = behind[i].hidden;

        h.token = ids[i];
        h.where = (r->position + i) << 1 | r->kind;
        h.tainted = t->tainted;
        h.again = t->anew && r->position == t->restored;
        fake_engine_give(e, r, i, &h);
        e->kept[r->keep_at + i] = (struct kept){
            r->sequence, ids[i], r->position + i, t->request, r->kind};
    }
}

void fake_drafts_forget(struct fake_engine *e, const struct plan_row *r)
{
    for (uint32_t i = 0; i < r->n_tokens && r->keep; i++) {
        e->kept[r->keep_at + i].sequence = NOBODY;
    }
}

/* A slot that is free by now may have anything, and gets garbage. */
void fake_drafts_replay(struct fake_engine *e, const struct plan_replay *y)
{
    const struct kept *k = &e->kept[y->keep_at];
    struct plan_row r = {.sequence = k->sequence, .position = k->position};
    const struct page *first = &e->pages[y->slot];
    struct slot_state s = {0};

    for (uint32_t i = 0; i < y->n_tokens; i++) {
        if (k[i].sequence == NOBODY || k[i].sequence != k->sequence ||
            k[i].position != k->position + i) {
            fake_engine_wrong(e, &r, "replay of what is not kept any more");
            return;
        }
    }
    if (first->kind != PAGE_POISON) {
        s = fake_memory_state(e, &r, y->slot);
    }
    if (!s.whole || s.n != k->position) {
        fake_memory_spoil(e, y->slot, e->per_slot, PAGE_GARBAGE);
        return;
    }
    for (uint32_t i = 0; i < y->n_tokens; i++, s.n++) {
        s.hash =
            oracle_advance(s.hash, k[i].token, fake_engine_kind(e, k[i].kind));
    }
    fake_memory_put_state(e, y->slot, s, k->request);
}

/* Checks that a stage got the ids of the row as well. */
static void check_ids(struct fake_engine *e, const struct plan *p,
                      const struct plan_row *r, const uint32_t *ids)
{
    for (uint32_t i = 0; i < r->n_tokens && fake_engine_takes_hidden(e); i++) {
        if (p->tokens[r->token + i] != ids[i]) {
            fake_engine_wrong(e, r, "ids differ from the hidden states");
            return;
        }
    }
}

void fake_drafts_run(struct fake_engine *e, const struct plan *p, uint32_t row,
                     const uint32_t *ids, struct plan_result *out)
{
    const struct plan_row *r = &p->rows[row];
    struct tracked *t = fake_engine_track(e, r->sequence);
    struct behind behind[DRAFTS_MAX + 1];
    uint32_t n;

    memset(behind, 0, sizeof(behind));
    check_ids(e, p, r, ids);
    fake_run_write(e, p, r, ids);
    if (e->shard.linear) {
        advance(e, r, ids, behind);
    }
    for (uint32_t i = 0; i < r->n_tokens; i++) {
        behind[i].hidden = look(e, p, r, i, &behind[i].state);
    }
    if (!is_last(e)) {
        pass_on(e, r, ids, behind);
        return;
    }
    note(t, r, ids, 0, 1);
    if (!verify(e, r, ids, behind, out, row)) {
        fake_run_damaged(e, r, row, out);
        return;
    }
    n = out->n_accepted[row];
    note(t, r, ids, 1, n);
    t->next -= r->n_drafts - n;
    if (e->shard.linear) {
        fake_memory_put_state(e, r->slot, behind[n].state, t->request);
    }
}

/* ---- the MTP layer ---- */

/* Checks that the layer computed all positions before the row, and marks those
 * of the row: n. */
static void mark(struct fake_engine *e, const struct plan *p,
                 const struct plan_row *r, uint32_t n)
{
    uint32_t bt = e->draw->block_tokens;
    bool tainted = fake_engine_track(e, r->sequence)->tainted;

    for (uint32_t at = 0; at < r->position + n; at++) {
        struct page *page = &e->pages[p->blocks[r->block + at / bt]];
        uint64_t bit = (uint64_t)1 << at % bt;

        if (at >= r->position) {
            page->mtp |= bit;
        } else if ((page->mtp & bit) == 0 && !tainted) {
            fake_engine_wrong(e, r, "the MTP layer lacks an earlier position");
            return;
        }
    }
}

/* Brings *o to the right tokens of the choice up to that index.  Returns false
 * if the request is not known. */
static bool find_truth(const struct fake_engine *e, const struct plan_row *r,
                       uint32_t index, struct oracle *o)
{
    const struct tracked *t =
        fake_engine_track((struct fake_engine *)(uintptr_t)e, r->sequence);
    const struct sim_request *q;
    uint32_t end;

    if (t->request == NO_REQUEST) {
        return false;
    }
    q = &e->sim->requests[t->request];
    if (r->choice >= q->n_choices || q->prompt == NULL) {
        return false;
    }
    end = q->n_prompt + index;
    *o = q->choices[r->choice].oracle;
    if (o->n > end) { /* its client is ahead of a sequence that came back */
        *o = (struct oracle){0};
    }
    sim_request_feed(q, o);
    while (o->n < end) {
        uint32_t token = oracle_next(o, e->model, r->sampling, r->choice,
                                     o->n - q->n_prompt);

        oracle_feed(o, e->model, token, ROW_GENERATED);
    }
    return o->n == end;
}

static void draft(struct fake_engine *e, const struct plan_row *r,
                  uint32_t index, uint32_t row, struct plan_result *out)
{
    const struct draft_draw *d = &e->sim->options.drafts;
    uint32_t n = rng_chance(&e->rng, d->few_of)
                     ? (uint32_t)rng_below(&e->rng, r->propose + 1)
                     : r->propose;
    struct oracle o;
    bool known = find_truth(e, r, index, &o);

    for (uint32_t i = 0; i < n; i++) {
        bool right = known && rng_chance(&e->rng, d->right_of[e->w]);
        uint32_t token =
            known ? oracle_next(&o, e->model, r->sampling, r->choice, index + i)
                  : 0;

        if (known) {
            oracle_feed(&o, e->model, token, ROW_GENERATED);
        }
        out->drafts[row][i] =
            right ? token
                  : (token + (uint32_t)rng_range(&e->rng, 1, 7)) %
                        e->model->vocab;
    }
    out->n_drafts[row] = (uint8_t)n;
}

void fake_drafts_propose(struct fake_engine *e, const struct plan *p,
                         uint32_t row, struct plan_result *out)
{
    const struct plan_row *r = &p->rows[row];
    uint32_t n = r->n_drafts > 0 ? out->n_accepted[row] : 0;

    if (!is_last(e)) {
        return;
    }
    mark(e, p, r, r->n_drafts > 0 ? 1 + n : r->n_tokens);
    out->draft_us = 1;
    if (r->propose > 0 && !e->sim->failed) {
        draft(e, r, r->index + n + 1, row, out);
    }
}

void fake_drafts_take(struct plan_result *to, const struct plan_result *from,
                      const struct plan *p)
{
    for (uint32_t i = 0; i < from->n_rows; i++) {
        const struct plan_row *r = &p->rows[i];

        if (r->n_drafts > 0) {
            memcpy(to->draft_logprobs[i], from->draft_logprobs[i],
                   sizeof(to->draft_logprobs[i]));
            memcpy(to->draft_top[i], from->draft_top[i],
                   sizeof(to->draft_top[i]));
        }
        if (r->propose > 0) {
            to->n_drafts[i] = from->n_drafts[i];
            memcpy(to->drafts[i], from->drafts[i], sizeof(to->drafts[i]));
        }
    }
    to->draft_us = from->draft_us;
}
