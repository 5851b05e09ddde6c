/* Submit: one sequence, with the grant that the router took from this worker's
 * room.
 *
 *   1 the grant is the next one, or the session is broken
 *   2 the role allows it: a worker with all layers, or a leader (role.h)
 *   3 a tombstone: CANCELLED
 *   4 adopt: an orphan (orphans.h), or NOT_FOUND
 *   5 every field is checked; the error names the field and the limit
 *   6 an orphan of that name ends
 *   7 a sequence of that name runs: adopt it, where the role adopts
 *   8 the need fits the room, free and cached, or RESOURCE_EXHAUSTED; where
 *     sequences grow, the Submit waits instead (suspend.h)
 *   9 all ids have come: OK; otherwise the answer waits for SubmitPart
 *
 * Any answer uses up the grant, and those at other stages too. */
#include <string.h>

#include "common/base/log.h"
#include "common/sampling/sampling_message.h"
#include "worker/calls/calls.h"
#include "worker/sequence/windows.h"
#include "worker/sequences/continue.h"
#include "worker/sequences/deadline.h"
#include "worker/sequences/ending.h"
#include "worker/sequences/orphans.h"
#include "worker/sequences/ranges.h"
#include "worker/sequences/submit.h"

static enum status check_lengths(const struct sequences *q,
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
    if ((uint64_t)m->n_prompt + m->max_tokens > q->base->o.context) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "n_prompt %u and max_tokens %u exceed the context "
                         "of %u",
                         m->n_prompt, m->max_tokens, q->base->o.context);
    }
    if (m->n_generated > m->max_tokens) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "n_generated is %u, it must be at most max_tokens, %u",
                         m->n_generated, m->max_tokens);
    }
    if (m->n_tokens > m->n_prompt + m->n_generated) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%zu ids came, but n_prompt and n_generated announce "
                         "%u",
                         m->n_tokens, m->n_prompt + m->n_generated);
    }
    return ST_OK;
}

static enum status check_sampling(const struct sequences *q,
                                  const Sluice__V1__SubmitRequest *m,
                                  struct error *e)
{
    const Sluice__V1__Sampling *s = m->sampling;

    if (!s->has_seed) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "seed is missing; the router draws one if the client "
                         "gives none");
    }
    if (sampling_check(s, q->base->o.vocab, e) != ST_OK) {
        return e->code;
    }
    /* This worker has no logprobs of tokens that another one generated. */
    if ((s->logprobs || s->top_logprobs > 0) &&
        submit_have(m) < m->n_generated) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "have_index is %u, but with logprobs it must be at "
                         "least n_generated, %u",
                         submit_have(m), m->n_generated);
    }
    return ST_OK;
}

static struct pool_need need_of(const Sluice__V1__SubmitRequest *m)
{
    return (struct pool_need){{m->need->blocks, m->need->slots,
                               m->need->checkpoints, m->need->windows}};
}

/* The runs alternate, so none of them is empty. */
static enum status check_spans(const Sluice__V1__SubmitRequest *m,
                               struct error *e)
{
    uint64_t sum = 0;

    if (m->n_spans > SPANS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "spans has %zu runs, at most %d are allowed",
                         m->n_spans, SPANS_MAX);
    }
    for (size_t i = 0; i < m->n_spans; i++) {
        if (m->spans[i] == 0) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "run %zu of spans is empty", i);
        }
        sum += m->spans[i];
    }
    if (m->n_spans > 0 && sum != m->n_prompt) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "spans has %llu positions, n_prompt is %u",
                         (unsigned long long)sum, m->n_prompt);
    }
    return ST_OK;
}

static enum status check_scope(const Sluice__V1__SubmitRequest *m,
                               struct error *e)
{
    if (m->tenant.len > TENANT_NAME_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "tenant has %zu bytes, it may have %d", m->tenant.len,
                         TENANT_NAME_MAX);
    }
    return m->cache_salt.len <= CACHE_SALT_MAX
               ? ST_OK
               : error_set(e, ST_INVALID_ARGUMENT,
                           "cache_salt has %zu bytes, it may have %d",
                           m->cache_salt.len, CACHE_SALT_MAX);
}

static enum status check_submit(const struct sequences *q,
                                const Sluice__V1__SubmitRequest *m,
                                struct error *e)
{
    struct pool_need need = need_of(m);
    /* Beyond the ids that are known, a sequence may grow. */
    uint32_t n_ids = m->n_prompt + (m->grows ? m->n_generated : m->max_tokens);

    if (m->has_keep_ms && m->keep_ms > KEEP_MS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "keep_ms is %u, it must be at most %u", m->keep_ms,
                         KEEP_MS_MAX);
    }
    if (m->drafts > DRAFTS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "drafts is %u, it must be at most %d", m->drafts,
                         DRAFTS_MAX);
    }
    if (check_lengths(q, m, e) != ST_OK || check_sampling(q, m, e) != ST_OK ||
        check_spans(m, e) != ST_OK || check_scope(m, e) != ST_OK ||
        submit_check_need(q, &need, n_ids, e) != ST_OK ||
        suspend_check(q, m, e) != ST_OK || continue_check(q, m, e) != ST_OK) {
        return e->code;
    }
    return submit_check_ids(q, m->tokens, m->n_tokens, 0, e);
}

/* ---- a sequence that is here already ---- */

/* s runs, but some of the tokens that the router lacks cannot be sent any more.
 * The new sequence generates the same tokens and logprobs again. */
static void supersede_sequence(struct sequences *q, struct sequence *s)
{
    char name[SEQUENCE_NAME];

    log_debug("sequence-restarted", "request=%s grant=%llu generated=%u",
              sequence_name(&s->key, name), (unsigned long long)s->grant,
              s->portable.n_generated);
    sequence_clear_key(&q->table, s);
    ending_cancel(q, s);
}

/* Ends s to make way for a new sequence of its name, or refuses.  same: s is
 * what the new one would be. */
static enum status replace_sequence(struct sequences *q, struct peer *p,
                                    struct sequence *s, bool same,
                                    struct error *e)
{
    switch (s->state) {
    case SEQUENCE_FINISHED:
        ending_forget(q, s);
        return ST_OK;
    case SEQUENCE_RECEIVING:
        error_set(e, ST_ABORTED, "submitted again before all its ids had come");
        peer_fail(p, s->arrival.call, e, 0);
        s->arrival.call = 0;
        sequence_clear_key(&q->table, s);
        ending_cancel(q, s);
        return ST_OK;
    case SEQUENCE_RELEASING: /* finishes under its own grant */
        sequence_clear_key(&q->table, s);
        return ST_OK;
    case SEQUENCE_KEPT:
        /* The router counts it as ended once its heir was accepted. */
        if (continuation_has_heir(&s->continuation)) {
            sequence_clear_key(&q->table, s);
            return ST_OK;
        }
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
                             s->portable.n_prompt, s->portable.max_tokens);
        }
        supersede_sequence(q, s);
        return ST_OK;
    }
}

/* ---- a new sequence ---- */

/* Fills s from the Submit.  Returns false if its logprobs find no room. */
static bool fill_sequence(struct sequences *q, struct sequence *s,
                          const Sluice__V1__SubmitRequest *m)
{
    uint32_t have = submit_have(m);
    struct sampling sampling;

    s->portable.n_prompt = m->n_prompt;
    s->portable.max_tokens = m->max_tokens;
    s->portable.n_generated = m->n_generated;
    s->arrival.n_announced = m->n_prompt + m->n_generated;
    s->arrival.n_received = (uint32_t)m->n_tokens;
    s->portable.acked = have < m->n_generated ? have : m->n_generated;
    s->portable.keep_ms = m->keep_ms;
    suspend_open(q, s, m);
    deadline_open(q, s, m);
    if (m->n_generated > 0) {
        s->plan.lost = m->n_prompt + m->n_generated - 1;
        s->plan.waste = WASTE_MOVED;
    }
    drafts_open(&s->drafts,
                m->has_drafts && m->drafts < q->base->o.drafting.most
                    ? m->drafts
                    : q->base->o.drafting.most,
                m->urgent);
    s->portable.cache = m->cache;
    s->portable.n_scope =
        (uint8_t)prefix_scope(s->portable.scope, m->tenant.data, m->tenant.len,
                              m->cache_salt.data, m->cache_salt.len);
    s->portable.n_spans = (uint32_t)m->n_spans;
    if (m->n_spans > 0) {
        memcpy(s->portable.spans, m->spans, m->n_spans * sizeof *m->spans);
    }
    paged_write(&q->table.slab, &s->portable.tokens, 0, m->tokens,
                s->arrival.n_received);
    sampling_read(&sampling, m->sampling);
    return sequence_set_sampling(&q->table, s, &sampling);
}

/* Ends a sequence that can go, for its ids and its place in the table.  Returns
 * false if there is none. */
static bool make_place(struct sequences *q, const Sluice__V1__SubmitRequest *m)
{
    struct sequence *s;

    if (orphans_make_room(q)) {
        return true;
    }
    s = ranges_to_end(q, m);
    if (s != NULL) {
        ending_release(q, s);
    }
    return s != NULL;
}

/* Makes its arrays.  Returns NULL if there is no room for them. */
static struct sequence *new_arrays(struct sequences *q,
                                   const Sluice__V1__SubmitRequest *m)
{
    uint32_t n = m->n_prompt + m->max_tokens;
    struct sequence *s = sequence_new(&q->table, n, submit_table(q, m));

    if (s != NULL &&
        !windows_make(&q->table, s, windows_blocks(&q->table.windows, n))) {
        sequence_free(&q->table, &s);
    }
    return s;
}

static struct sequence *new_sequence(struct sequences *q,
                                     const Sluice__V1__SubmitRequest *m,
                                     struct error *e)
{
    struct sequence *s;

    do {
        s = new_arrays(q, m);
    } while (s == NULL && make_place(q, m));
    if (s != NULL && !fill_sequence(q, s, m)) {
        sequence_free(&q->table, &s);
    }
    if (s == NULL) {
        error_set(
            e, ST_RESOURCE_EXHAUSTED,
            "%u sequences are live or not yet acknowledged; at most %u fit, "
            "or fewer where their ids and logprobs fill the memory",
            q->table.n_live, q->table.capacity);
    }
    return s;
}

/* Evicts until the need is free.  The prefix that s will restore goes last: the
 * router may have chosen this worker for it. */
static enum status make_room(struct sequences *q, const struct sequence *s,
                             const struct pool_need *need,
                             const Sluice__V1__SubmitRequest *m,
                             struct error *e)
{
    uint32_t spare = reuse_spare(&q->reuse, s);

    prefix_make_room(q->reuse.index, need, spare);
    return q->role.ops->make_room == NULL
               ? ST_OK
               : q->role.ops->make_room(q->role.self, m, spare, e);
}

static struct sequence *make_sequence(struct sequences *q,
                                      const Sluice__V1__SubmitRequest *m,
                                      struct error *e)
{
    struct pool_need need = need_of(m);
    struct sequence *s = new_sequence(q, m, e);

    if (s == NULL) {
        return NULL;
    }
    if (suspend_is_idle(q) && make_room(q, s, &need, m, e) == ST_OK &&
        pool_grant(&q->pool, &need, e) == ST_OK) {
        s->memory.need = need;
    } else if (!suspend_admit(q, s, &need, e)) {
        sequence_free(&q->table, &s);
    }
    return s;
}

/* Does everything after the grant.  An error is the answer to the call. */
static enum status take_submit(struct sequences *q, struct peer *p,
                               uint64_t call,
                               const Sluice__V1__SubmitRequest *m,
                               struct error *e)
{
    Sluice__V1__Nothing reply = SLUICE__V1__NOTHING__INIT;
    struct sequence_key key;
    struct sequence *s;
    bool same;

    if (q->role.ops->check(q->role.self, m, e) != ST_OK ||
        !sequence_key_read(&key, m->sequence, e)) {
        return e->code;
    }
    if (tombstones_take(&q->tombstones, &key, m->grant)) {
        return error_set(e, ST_CANCELLED, "cancelled before it came");
    }
    if (m->adopt) {
        if (orphan_adopt(q, &key, m, e) != ST_OK) {
            return e->code;
        }
        peer_end(p, call, &reply.base);
        return ST_OK;
    }
    if (check_submit(q, m, e) != ST_OK) {
        return e->code;
    }
    s = sequence_by_key(&q->table, &key);
    if (s != NULL && orphan_is(s)) {
        orphan_end(q, s); /* its ids cannot be compared yet */
        s = NULL;
    }
    same = s != NULL && submit_is_same(s, m);
    if (same && s->state != SEQUENCE_RECEIVING && q->role.ops->adopts &&
        submit_can_send(s, submit_have(m))) {
        submit_regrant(q, s, m);
        peer_end(p, call, &reply.base);
        return ST_OK;
    }
    if (s != NULL && replace_sequence(q, p, s, same, e) != ST_OK) {
        return e->code;
    }
    s = make_sequence(q, m, e);
    if (s == NULL) {
        return e->code;
    }
    sequence_set_key(&q->table, s, &key);
    sequence_set_grant(&q->table, s, m->grant);
    s->arrival.call = call;
    continue_open(q, s, m);
    q->role.ops->open(q->role.self, s, m);
    if (s->arrival.n_received == s->arrival.n_announced) {
        submit_complete(q, p, s);
    }
    return ST_OK;
}

void worker_recv_submit(const struct worker_calls *c, struct peer *p,
                        uint64_t call, const request_of_WORKER_SUBMIT *m)
{
    struct sequences *q = c->sequences;
    struct error e;

    if (m->grant != q->ledger.grant + 1) {
        base_break(c->base, m->grant <= q->ledger.grant
                                ? "a grant number came twice"
                                : "a grant number is missing");
        return;
    }
    q->ledger.grant = m->grant;
    q->report.changed = true;
    q->base->metrics.submits++;
    if (take_submit(q, p, call, m, &e) != ST_OK) {
        q->base->metrics.refused++;
        log_info("submit-refused", "grant=%llu status=%s why=\"%s\"",
                 (unsigned long long)m->grant, status_name(e.code), e.text);
        q->role.ops->refuse(q->role.self, m);
        peer_fail(p, call, &e,
                  e.code == ST_RESOURCE_EXHAUSTED ? REPORT_US / 1000 : 0);
    }
}
