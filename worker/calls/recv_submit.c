/* Submit: one sequence, with the grant that the router took from our room.
 *
 *   1 the grant is the next one, or the session is broken
 *   2 it is for such a worker: of all layers, or one that leads (leader.h)
 *   3 a tombstone: CANCELLED
 *   4 adopt: an orphan (orphans.h), or NOT_FOUND
 *   5 every field is checked; the sentence names the field and the limit
 *   6 an orphan has its name: that ends
 *   7 it runs already: adopt it, if the worker leads nothing
 *   8 the need fits the free room, or RESOURCE_EXHAUSTED
 *   9 all ids here: OK; else the answer waits for SubmitPart
 *
 * Whatever the answer, the grant is used up, those at other stages too. */
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/plant.h"
#include "common/sampling/sampling_message.h"
#include "worker/sequences/orphans.h"
#include "worker/stages/leader.h"

/* A need may be a block over the context: the router adds room for drafts. */
#define NEED_SPARE_BLOCKS 1u

enum status submit_check_ids(const struct worker_core *w, const uint32_t *ids,
                             size_t n, uint32_t offset, struct error *e)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= w->o.vocab) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "id %u at position %zu is not below the "
                             "vocabulary, %u",
                             ids[i], offset + i, w->o.vocab);
        }
    }
    return ST_OK;
}

static enum status check_lengths(const struct worker_core *w,
                                 const Sluice__V1__SubmitRequest *m,
                                 struct error *e)
{
    if (m->n_prompt == 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "n_prompt is 0, a prompt has at least 1 id");
    }
    if (m->max_tokens == 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "max_tokens is 0, it must be at least 1");
    }
    if ((uint64_t)m->n_prompt + m->max_tokens > w->o.context) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "n_prompt %u and max_tokens %u are over the context "
                         "of %u",
                         m->n_prompt, m->max_tokens, w->o.context);
    }
    if (m->n_generated > m->max_tokens) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "n_generated is %u, at most max_tokens, %u",
                         m->n_generated, m->max_tokens);
    }
    if (m->n_tokens > m->n_prompt + m->n_generated) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%zu ids came, n_prompt and n_generated announce %u",
                         m->n_tokens, m->n_prompt + m->n_generated);
    }
    return ST_OK;
}

static uint32_t have_of(const Sluice__V1__SubmitRequest *m)
{
    return m->has_have_index ? m->have_index : m->n_generated;
}

static enum status check_sampling(const struct worker_core *w,
                                  const Sluice__V1__SubmitRequest *m,
                                  struct error *e)
{
    const Sluice__V1__Sampling *s = m->sampling;

    if (!s->has_seed) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "seed is missing: the router draws one where the "
                         "client names none");
    }
    if (sampling_check(s, w->o.vocab, e) != ST_OK) {
        return e->code;
    }
    /* Those of tokens made elsewhere are not here to be told. */
    if ((s->logprobs || s->top_logprobs > 0) && have_of(m) < m->n_generated) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "have_index is %u, with logprobs it must be at least "
                         "n_generated, %u",
                         have_of(m), m->n_generated);
    }
    return ST_OK;
}

static uint32_t blocks_for(const struct worker_core *w, uint32_t n_tokens)
{
    uint32_t bt = w->o.block_tokens;

    return w->o.n_blocks == 0 ? 0 : n_tokens / bt + (n_tokens % bt != 0);
}

enum status submit_check_need(const struct worker_core *w,
                              const struct pool_need *need, uint32_t n_ids,
                              struct error *e)
{
    uint32_t slots = w->o.n_slots > 0 ? 1 : 0;
    uint32_t least = blocks_for(w, n_ids);
    uint32_t most = w->o.n_blocks == 0
                        ? 0
                        : blocks_for(w, w->o.context) + NEED_SPARE_BLOCKS;

    if (need->n[POOL_BLOCKS] < least || need->n[POOL_BLOCKS] > most) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "need has %u blocks, %u ids need %u to %u blocks of "
                         "%u ids",
                         need->n[POOL_BLOCKS], n_ids, least, most,
                         w->o.block_tokens);
    }
    if (need->n[POOL_SLOTS] != slots) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "need has %u slots, a sequence needs %u here",
                         need->n[POOL_SLOTS], slots);
    }
    if (need->n[POOL_CHECKPOINTS] > w->o.n_checkpoints) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "need has %u checkpoints, this worker has %u",
                         need->n[POOL_CHECKPOINTS], w->o.n_checkpoints);
    }
    return ST_OK;
}

static struct pool_need need_of(const Sluice__V1__SubmitRequest *m)
{
    return (struct pool_need){
        {m->need->blocks, m->need->slots, m->need->checkpoints}};
}

static enum status check_submit(const struct worker_core *w,
                                const Sluice__V1__SubmitRequest *m,
                                struct error *e)
{
    struct pool_need need = need_of(m);

    if (m->continue_from != NULL) {
        return error_set(e, ST_UNIMPLEMENTED,
                         "continue_from is not built yet: submit the whole "
                         "prompt");
    }
    if (m->has_keep_ms && m->keep_ms > KEEP_MS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "keep_ms is %u, it must be at most %u", m->keep_ms,
                         KEEP_MS_MAX);
    }
    if (check_lengths(w, m, e) != ST_OK || check_sampling(w, m, e) != ST_OK ||
        submit_check_need(w, &need, m->n_prompt + m->max_tokens, e) != ST_OK) {
        return e->code;
    }
    return submit_check_ids(w, m->tokens, m->n_tokens, 0, e);
}

/* ---- a sequence that is here already ---- */

/* Its tokens are those that this Submit would lead to. */
bool submit_is_same(const struct sequence *s,
                    const Sluice__V1__SubmitRequest *m)
{
    struct sampling asked;

    sampling_read(&asked, m->sampling);
    return s->n_prompt == m->n_prompt && s->max_tokens == m->max_tokens &&
           sampling_same(&s->sampling, &asked);
}

/* Can what the router lacks still be told?  Of a finished one the ids are
 * gone that were acknowledged; logprobs go when their window moves on. */
bool submit_can_tell(const struct sequence *s, uint32_t have)
{
    bool ended = s->finish != FINISH_NONE;
    bool complete = finish_is_whole(s->finish);

    if (s->sampling.logprobs &&
        !logprobs_reach(&s->logprobs, have, s->pending)) {
        return false;
    }
    return !ended ||
           (complete && (s->state != SEQUENCE_FINISHED || have >= s->acked));
}

/* The old grant is forgotten; what it holds is charged to the new one. */
void submit_regrant(struct worker_core *w, struct sequence *s,
                    const Sluice__V1__SubmitRequest *m)
{
    uint32_t have = PLANT(ADOPT_STALE) ? s->n_generated : have_of(m);
    char name[SEQUENCE_NAME];

    log_info("sequence-adopted", "request=%s grant=%llu old=%llu state=%s",
             sequence_name(&s->key, name), (unsigned long long)m->grant,
             (unsigned long long)s->grant, sequence_state_name(s->state));
    w->metrics.adopted++;
    sequence_set_grant(&w->table, s, m->grant);
    s->acked = have < s->n_generated ? have : s->n_generated;
    s->row_sent = s->told = s->forgotten = false;
    s->sent_running = 0;
    if (s->acked < s->n_generated || s->finish != FINISH_NONE) {
        list_push(&w->out, s);
    }
    w->changed = true;
}

/* It runs, but its way is not known to its end any more: the new one makes
 * the same tokens again, and their logprobs. */
static void supersede(struct worker_core *w, struct sequence *s)
{
    char name[SEQUENCE_NAME];

    log_info("sequence-restarted", "request=%s grant=%llu generated=%u",
             sequence_name(&s->key, name), (unsigned long long)s->grant,
             s->n_generated);
    sequence_clear_key(&w->table, s);
    s->forgotten = true;
    worker_end(w, s, FINISH_CANCELLED);
}

/* Make way for a new start, or say why not.  same: it is what the new one
 * will be. */
static enum status replace(struct worker_core *w, struct peer *p,
                           struct sequence *s, bool same, struct error *e)
{
    switch (s->state) {
    case SEQUENCE_FINISHED:
        worker_forget(w, s);
        return ST_OK;
    case SEQUENCE_RECEIVING:
        error_set(e, ST_ABORTED, "submitted again before all its ids came");
        peer_fail(p, s->call, e, 0);
        s->call = 0;
        s->forgotten = true;
        sequence_clear_key(&w->table, s);
        worker_end(w, s, FINISH_CANCELLED);
        return ST_OK;
    case SEQUENCE_RELEASING: /* by itself, under its own grant */
        sequence_clear_key(&w->table, s);
        return ST_OK;
    case SEQUENCE_KEPT:
        return error_set(e, ST_ABORTED,
                         "the sequence is %s: remove it, wait for the "
                         "receipt, submit it again",
                         sequence_state_name(s->state));
    default:
        if (!same) {
            return error_set(e, ST_ALREADY_EXISTS,
                             "the sequence runs with %u prompt ids, max_tokens "
                             "%u, or other sampling parameters: cancel it or "
                             "take another request_id",
                             s->n_prompt, s->max_tokens);
        }
        supersede(w, s);
        return ST_OK;
    }
}

/* ---- a new one ---- */

/* What the Submit says of it; false if there is no room for its logprobs. */
static bool fill(struct worker_core *w, struct sequence *s,
                 const Sluice__V1__SubmitRequest *m)
{
    uint32_t have = have_of(m);
    struct sampling sampling;

    s->n_prompt = m->n_prompt;
    s->max_tokens = m->max_tokens;
    s->n_generated = m->n_generated;
    s->n_announced = m->n_prompt + m->n_generated;
    s->n_received = (uint32_t)m->n_tokens;
    s->acked = have < m->n_generated ? have : m->n_generated;
    s->keep_ms = m->keep_ms;
    paged_write(&w->table.slab, &s->tokens, 0, m->tokens, s->n_received);
    sampling_read(&sampling, m->sampling);
    return sequence_set_sampling(&w->table, s, &sampling);
}

static struct sequence *
make(struct worker_core *w, const Sluice__V1__SubmitRequest *m, struct error *e)
{
    struct pool_need need = need_of(m);
    struct sequence *s;

    if (pool_grant(&w->pool, &need, e) != ST_OK) {
        return NULL;
    }
    do {
        s = sequence_new(&w->table, m->n_prompt + m->max_tokens,
                         m->need->blocks);
    } while (s == NULL && orphans_make_room(w));
    if (s != NULL && !fill(w, s, m)) {
        sequence_free(&w->table, &s);
    }
    if (s == NULL) {
        pool_ungrant(&w->pool, &need);
        error_set(e, ST_RESOURCE_EXHAUSTED,
                  "%u sequences are live or not yet acknowledged, at most %u, "
                  "less where their ids and logprobs fill the memory",
                  w->table.n_live, w->table.capacity);
        return NULL;
    }
    s->need = need;
    return s;
}

void submit_complete(struct worker_core *w, struct peer *p, struct sequence *s)
{
    Sluice__V1__Nothing reply = SLUICE__V1__NOTHING__INIT;
    enum sequence_finish finish;

    peer_end(p, s->call, &reply.base);
    s->call = 0;
    w->changed = true;
    if (s->acked < s->n_generated) {
        list_push(&w->out, s);
    }
    sequence_move(&w->table, s, SEQUENCE_QUEUED);
    /* Moved here after its last token: there is nothing left to do. */
    finish = step_finish(w, s);
    if (finish != FINISH_NONE) {
        worker_end(w, s, finish);
        return;
    }
    batcher_add(&w->batcher, s);
    FP(WORKER_SUBMIT);
}

/* Everything after the grant; an error is the answer. */
static enum status take_in(struct worker_core *w, struct peer *p, uint64_t call,
                           const Sluice__V1__SubmitRequest *m, struct error *e)
{
    Sluice__V1__Nothing reply = SLUICE__V1__NOTHING__INIT;
    struct sequence_key key;
    struct sequence *s;
    bool same;

    if (leader_check(w, m, e) != ST_OK || !worker_key(m->sequence, &key, e)) {
        return e->code;
    }
    if (tombstone_take(&w->tombstones, &key, m->grant)) {
        return error_set(e, ST_CANCELLED, "cancelled before it came");
    }
    if (m->adopt) {
        if (orphan_adopt(w, &key, m, e) != ST_OK) {
            return e->code;
        }
        peer_end(p, call, &reply.base);
        return ST_OK;
    }
    if (check_submit(w, m, e) != ST_OK) {
        return e->code;
    }
    s = sequence_by_key(&w->table, &key);
    if (s != NULL && s->orphan) {
        orphan_end(w, s); /* are its ids the same?  They have not all come */
        s = NULL;
    }
    same = s != NULL && submit_is_same(s, m);
    if (same && s->state != SEQUENCE_RECEIVING && !assembly_leads(w) &&
        submit_can_tell(s, have_of(m))) {
        submit_regrant(w, s, m);
        peer_end(p, call, &reply.base);
        return ST_OK;
    }
    if (s != NULL && replace(w, p, s, same, e) != ST_OK) {
        return e->code;
    }
    s = make(w, m, e);
    if (s == NULL) {
        return e->code;
    }
    sequence_set_key(&w->table, s, &key);
    sequence_set_grant(&w->table, s, m->grant);
    s->call = call;
    leader_open(w, s, m);
    if (s->n_received == s->n_announced) {
        submit_complete(w, p, s);
    }
    return ST_OK;
}

void worker_recv_submit(struct worker_core *w, struct peer *p, uint64_t call,
                        const Sluice__V1__SubmitRequest *m)
{
    struct error e;

    if (m->grant != w->ledger.grant + 1) {
        worker_break(w, m->grant <= w->ledger.grant
                            ? "a grant number came twice"
                            : "a grant number is missing");
        return;
    }
    w->ledger.grant = m->grant;
    w->changed = true;
    w->metrics.submits++;
    if (take_in(w, p, call, m, &e) != ST_OK) {
        w->metrics.refused++;
        log_info("submit-refused", "grant=%llu status=%s why=\"%s\"",
                 (unsigned long long)m->grant, status_name(e.code), e.text);
        leader_void(w, m);
        peer_fail(p, call, &e,
                  e.code == ST_RESOURCE_EXHAUSTED ? REPORT_US / 1000 : 0);
    }
}
