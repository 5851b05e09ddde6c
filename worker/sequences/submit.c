#include "worker/sequences/submit.h"

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/plant.h"
#include "common/sampling/sampling_message.h"
#include "worker/sequence/windows.h"
#include "worker/sequences/continue.h"
#include "worker/sequences/deadline.h"
#include "worker/sequences/ending.h"
#include "worker/sequences/orphans.h"
#include "worker/sequences/report.h"
#include "worker/sequences/step.h"

/* The router may add one block for speculative tokens, beyond the context. */
#define NEED_SPARE_BLOCKS 1u

/* ---- checks ---- */

enum status submit_check_ids(const struct sequences *q, const uint32_t *ids,
                             size_t n, uint32_t offset, struct error *e)
{
    uint32_t vocab = q->base->o.vocab;

    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= vocab) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "id %u at position %zu is not below the "
                             "vocabulary, %u",
                             ids[i], offset + i, vocab);
        }
    }
    return ST_OK;
}

static uint32_t blocks_for(const struct worker_options *o, uint32_t n_tokens)
{
    uint32_t bt = o->block_tokens;

    return o->pool.pages_per_block == 0 ? 0
                                        : n_tokens / bt + (n_tokens % bt != 0);
}

/* A later stage does not have the chunk_tokens of the leader, which its rows
 * have at most.  More than a sequence can hold is harmless. */
static enum status check_windows(const struct sequences *q, uint32_t need,
                                 uint32_t n_ids, struct error *e)
{
    const struct worker_options *o = &q->base->o;
    struct window_rules r = q->table.windows;
    uint64_t most = 0;
    uint32_t least;

    if (worker_options_role(o) == ROLE_STAGE) {
        r.chunk_tokens = 1;
    }
    least = windows_blocks(&r, n_ids) * r.pages;
    if (r.pages > 0) {
        most = (uint64_t)r.pages *
               (o->context / o->block_tokens + 1 + NEED_SPARE_BLOCKS);
    }
    return need >= least && need <= most
               ? ST_OK
               : error_set(e, ST_INVALID_ARGUMENT,
                           "need has %u window pages, %u ids need %u to %llu",
                           need, n_ids, least, (unsigned long long)most);
}

enum status submit_check_need(const struct sequences *q,
                              const struct pool_need *need, uint32_t n_ids,
                              struct error *e)
{
    const struct worker_options *o = &q->base->o;
    uint32_t slots = o->pool.pages_per_slot > 0 ? 1 : 0;
    uint32_t least = blocks_for(o, n_ids);
    uint32_t most = o->pool.pages_per_block == 0
                        ? 0
                        : blocks_for(o, o->context) + NEED_SPARE_BLOCKS;

    if (need->n[POOL_BLOCKS] < least || need->n[POOL_BLOCKS] > most) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "need has %u blocks, %u ids need %u to %u blocks of "
                         "%u ids",
                         need->n[POOL_BLOCKS], n_ids, least, most,
                         o->block_tokens);
    }
    if (check_windows(q, need->n[POOL_WINDOWS], n_ids, e) != ST_OK) {
        return e->code;
    }
    if (need->n[POOL_SLOTS] != slots) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "need has %u slots, a sequence needs %u here",
                         need->n[POOL_SLOTS], slots);
    }
    /* Checkpoints come from free pages. */
    if (need->n[POOL_CHECKPOINTS] > 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "need has %u checkpoints, none are granted",
                         need->n[POOL_CHECKPOINTS]);
    }
    return ST_OK;
}

uint32_t submit_table(const struct sequences *q,
                      const Sluice__V1__SubmitRequest *m)
{
    uint32_t most = blocks_for(&q->base->o, m->n_prompt + m->max_tokens);

    return m->need->blocks > most ? m->need->blocks : most;
}

/* ---- a sequence that is here already ---- */

uint32_t submit_have(const Sluice__V1__SubmitRequest *m)
{
    return m->has_have_index ? m->have_index : m->n_generated;
}

bool submit_is_same(const struct sequence *s,
                    const Sluice__V1__SubmitRequest *m)
{
    struct sampling asked;

    sampling_read(&asked, m->sampling);
    return s->portable.n_prompt == m->n_prompt &&
           s->portable.max_tokens == m->max_tokens &&
           sampling_same(&s->portable.sampling, &asked);
}

/* A finished sequence has dropped the ids that were acknowledged, and so has
 * one that other stages are removing; a ring of logprobs drops what its window
 * has passed. */
bool submit_can_send(const struct sequence *s, uint32_t have)
{
    bool ended = s->finish != FINISH_NONE;
    bool complete = finish_is_whole(s->finish);

    if (s->portable.sampling.logprobs &&
        !logprobs_reach(&s->portable.logprobs, have, s->plan.pending)) {
        return false;
    }
    return !ended ||
           (complete && orphan_has_ids(s, s->portable.n_prompt + have) &&
            (s->state != SEQUENCE_FINISHED || have >= s->portable.acked));
}

/* The old grant is forgotten; what s holds is charged to the new one. */
void submit_regrant(struct sequences *q, struct sequence *s,
                    const Sluice__V1__SubmitRequest *m)
{
    uint32_t have =
        PLANT(ADOPT_STALE) ? s->portable.n_generated : submit_have(m);
    char name[SEQUENCE_NAME];

    log_debug("sequence-adopted", "request=%s grant=%llu old=%llu state=%s",
              sequence_name(&s->key, name), (unsigned long long)m->grant,
              (unsigned long long)s->grant, sequence_state_name(s->state));
    q->base->metrics.adopted++;
    sequence_set_grant(&q->table, s, m->grant);
    deadline_open(q, s, m);
    deadline_arm(q, s);
    s->portable.acked =
        have < s->portable.n_generated ? have : s->portable.n_generated;
    report_restart(s);
    if (s->portable.acked < s->portable.n_generated ||
        s->finish != FINISH_NONE) {
        sequence_push(&q->out, s);
    }
    q->report.changed = true;
}

/* ---- a new sequence ---- */

void submit_complete(struct sequences *q, struct peer *p, struct sequence *s)
{
    Sluice__V1__Nothing reply = SLUICE__V1__NOTHING__INIT;
    enum sequence_finish finish;
    struct error e;

    if (continue_complete(q, s, &e) != ST_OK) {
        q->base->metrics.refused++;
        peer_fail(p, s->arrival.call, &e, 0);
        s->arrival.call = 0;
        ending_cancel(q, s);
        return;
    }
    peer_end(p, s->arrival.call, &reply.base);
    s->arrival.call = 0;
    q->report.changed = true;
    /* The router may lack tokens that another worker generated. */
    if (s->portable.acked < s->portable.n_generated) {
        sequence_push(&q->out, s);
    }
    if (suspension_waits(&s->suspension)) {
        struct sequence *kept = suspend_enter(q, s);

        if (kept != NULL) {
            ending_release(q, kept);
        }
    } else {
        sequence_move(&q->table, s, SEQUENCE_QUEUED);
    }
    deadline_arm(q, s);
    /* A sequence that moved here after its last token needs no step. */
    finish = step_finish(q, s);
    if (finish != FINISH_NONE) {
        ending_finish(q, s, finish);
        return;
    }
    if (!suspension_waits(&s->suspension)) {
        batcher_add(&q->batcher, s);
    }
    FP(WORKER_SUBMIT);
}
