#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire/ids_hash.h"
#include "router/base/router_limits.h"
#include "tests/unit/router/rig.h"

static struct sequence *by_id(struct fake *w, const uint8_t *id,
                              uint32_t choice)
{
    for (int i = 0; i < RIG_SEQUENCES; i++) {
        struct sequence *s = &w->sequences[i];
        if (s->used && memcmp(s->id, id, 16) == 0 && s->choice == choice) {
            return s;
        }
    }
    return NULL;
}

/* A Submit{adopt} has only the position and the tokens of the router. */
static void check_adopt(const struct sequence *s,
                        const Sluice__V1__SubmitRequest *m)
{
    uint64_t h = ids_hash(IDS_HASH_START, s->ids, s->n_prompt);

    for (uint32_t i = 0; i < m->have_index; i++) {
        uint32_t token = choice_token(s->id, s->choice, i);
        h = ids_hash(h, &token, 1);
    }
    assert_true(m->has_ids_hash && m->ids_hash == h);
    assert_int_equal(m->n_tokens + m->n_generated, 0);
    assert_int_equal(m->need->blocks + m->need->slots + m->need->windows, 0);
    assert_true(m->has_have_index);
}

static void worker_on_adopt(struct fake *w, uint64_t call,
                            const Sluice__V1__SubmitRequest *m)
{
    struct sequence *s =
        by_id(w, m->sequence->request_id.data, m->sequence->choice);
    Sluice__V1__Nothing none = SLUICE__V1__NOTHING__INIT;
    struct error e;

    w->n_adopts++;
    w->ledger.grant = m->grant;
    if (s == NULL || !s->orphan || w->loses_orphans) {
        error_set(&e, ST_NOT_FOUND, "it lives here no more");
        peer_fail(w->peer, call, &e, 0);
        return;
    }
    check_adopt(s, m);
    s->orphan = false;
    s->grant = m->grant;
    s->call = call;
    s->acked = s->have_index = m->have_index;
    if (!w->hold_submits) {
        peer_end(w->peer, call, &none.base);
    }
}

static void worker_on_disown(struct fake *w, const Sluice__V1__DisownMessage *m)
{
    assert_int_equal(m->request_ids.len, 16 * m->n_choice);
    assert_in_range(m->n_choice, 1, 2048);
    w->n_disowned += (uint32_t)m->n_choice;
    for (size_t i = 0; i < m->n_choice; i++) {
        struct sequence *s =
            by_id(w, m->request_ids.data + 16 * i, m->choice[i]);

        if (s != NULL && s->orphan) {
            worker_release(w, s);
            s->used = false;
        }
    }
}

static void copy_name(char out[80], ProtobufCBinaryData d)
{
    snprintf(out, 80, "%.*s", (int)d.len, (const char *)d.data);
}

/* Takes what concerns reuse out of a Submit. */
static void take_reuse(struct sequence *s, const Sluice__V1__SubmitRequest *m)
{
    uint64_t sum = 0;

    copy_name(s->tenant, m->tenant);
    copy_name(s->salt, m->cache_salt);
    s->uncached = !m->cache;
    s->has_drafts = m->has_drafts;
    s->urgent = m->urgent;
    s->deadline_ms = m->deadline_ms;
    s->drafts = m->drafts;
    s->n_spans = (uint32_t)m->n_spans;
    for (uint32_t i = 0; i < m->n_spans; i++) {
        s->spans[i] = m->spans[i];
        sum += m->spans[i];
    }
    assert_true(m->n_spans == 0 || sum == m->n_prompt);
}

/* Returns true if another choice of the request took over what m names. */
static bool has_sibling(const struct fake *w, const struct sequence *s)
{
    for (int i = 0; i < RIG_SEQUENCES; i++) {
        const struct sequence *x = &w->sequences[i];
        if (x->used && x->continues && memcmp(x->id, s->id, 16) == 0) {
            return true;
        }
    }
    return false;
}

/* Takes over the kept sequence that m names.  Returns false if the Submit was
 * refused. */
static bool take_kept(struct fake *w, struct sequence *s,
                      const Sluice__V1__SubmitRequest *m)
{
    struct sequence *kept =
        by_id(w, m->continue_from->request_id.data, m->continue_from->choice);
    struct error e;

    w->n_continues++;
    s->continues = has_sibling(w, s);
    if (s->continues) {
        return true;
    }
    if (kept == NULL || kept->finish == 0 || w->refuse_continues != ST_OK) {
        error_set(&e,
                  w->refuse_continues != ST_OK ? w->refuse_continues
                                               : ST_NOT_FOUND,
                  "it is not kept here");
        peer_fail(w->peer, s->call, &e, 0);
        s->used = false;
        return false;
    }
    worker_release(w, kept);
    kept->used = false;
    s->continues = true;
    return true;
}

/* The design's main invariant: a grant always fits. */
static void take_grant(struct fake *w, const struct sequence *s)
{
    assert_true(s->blocks <= w->classes[0].free);
    assert_true(s->slots <= w->classes[1].free);
    assert_true(s->windows <= w->classes[4].free);
    w->classes[0].free -= s->blocks;
    w->classes[0].granted += s->blocks;
    w->classes[1].free -= s->slots;
    w->classes[1].granted += s->slots;
    w->classes[4].free -= s->windows;
    w->classes[4].granted += s->windows;
}

static void worker_on_submit(struct fake *w, uint64_t call,
                             const Sluice__V1__SubmitRequest *m)
{
    struct sequence *s = NULL;

    w->grants_in_order = w->grants_in_order && m->grant == w->last_grant + 1;
    w->last_grant = m->grant;
    if (m->adopt) {
        worker_on_adopt(w, call, m);
        return;
    }
    w->n_submits++;
    for (int i = 0; i < RIG_SEQUENCES && s == NULL; i++) {
        if (!w->sequences[i].used) {
            s = &w->sequences[i];
        }
    }
    assert_non_null(s);
    free(s->ids);
    *s = (struct sequence){.used = true,
                           .grant = m->grant,
                           .call = call,
                           .blocks = m->need->blocks,
                           .slots = m->need->slots,
                           .windows = m->need->windows,
                           .n_prompt = m->n_prompt,
                           .n_given = m->n_generated,
                           .n_tokens = m->n_generated,
                           .max_tokens = m->max_tokens,
                           .have_index = m->have_index,
                           .acked = m->have_index,
                           .keep_ms = m->keep_ms,
                           .grows = m->grows,
                           .seed = m->sampling->seed,
                           .draw_index = m->sampling->draw_index,
                           .draw_choice = m->sampling->draw_choice};
    memcpy(s->id, m->sequence->request_id.data, 16);
    assert_true(m->sequence->has_choice);
    s->choice = m->sequence->choice;
    take_reuse(s, m);
    s->ids = calloc(m->n_prompt + m->n_generated, sizeof *s->ids);
    if (m->n_tokens > 0) {
        memcpy(s->ids, m->tokens, m->n_tokens * sizeof *s->ids);
    }
    s->n_ids = (uint32_t)m->n_tokens;
    w->ledger.grant = m->grant;
    if (w->refuse_submits != ST_OK) {
        struct error e;
        error_set(&e, w->refuse_submits, "not now");
        peer_fail(w->peer, call, &e, 0);
        s->used = false;
        stages_open(w, m, true);
        return;
    }
    if (m->continue_from != NULL && !take_kept(w, s, m)) {
        stages_open(w, m, true);
        return;
    }
    stages_open(w, m, false);
    take_grant(w, s);
    if (!w->hold_submits) {
        Sluice__V1__Nothing none = SLUICE__V1__NOTHING__INIT;
        peer_end(w->peer, call, &none.base);
    }
}

static void worker_on_part(struct fake *w,
                           const Sluice__V1__SubmitPartMessage *m)
{
    for (int i = 0; i < RIG_SEQUENCES; i++) {
        struct sequence *s = &w->sequences[i];
        if (s->used && s->grant == m->grant) {
            assert_int_equal(m->offset, s->n_ids);
            memcpy(s->ids + s->n_ids, m->tokens, m->n_tokens * sizeof *s->ids);
            s->n_ids += (uint32_t)m->n_tokens;
            w->n_parts++;
        }
    }
}

void worker_release(struct fake *w, struct sequence *s)
{
    stages_release(w, s);
    w->classes[0].granted -= s->blocks;
    w->classes[0].free += s->blocks;
    w->classes[1].granted -= s->slots;
    w->classes[1].free += s->slots;
    w->classes[4].granted -= s->windows;
    w->classes[4].free += s->windows;
    s->blocks = s->slots = s->windows = 0;
}

static void worker_on_ack(struct fake *w,
                          const Sluice__V1__AcknowledgeMessage *m)
{
    w->n_acks++;
    for (size_t k = 0; k < m->n_grant; k++) {
        w->last_ack_grant = m->grant[k];
        w->last_ack_index = m->index[k];
        for (int i = 0; i < RIG_SEQUENCES; i++) {
            struct sequence *s = &w->sequences[i];
            if (!s->used || s->grant != m->grant[k]) {
                continue;
            }
            if (m->index[k] == UINT32_MAX ||
                (s->finish != 0 && m->index[k] >= s->n_tokens)) {
                if (m->index[k] == UINT32_MAX) {
                    worker_release(w, s);
                }
                s->used = s->keep_ms > 0 && m->index[k] != UINT32_MAX;
                s->finished = true;
            } else if (m->index[k] > s->acked) {
                s->acked = m->index[k];
            }
        }
    }
}

static void answer_removal(struct fake *w, const struct held *h)
{
    Sluice__V1__Receipt r = SLUICE__V1__RECEIPT__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    struct sequence *s = by_id(w, h->id, h->choice);
    struct stage_columns columns = {{0}, {0}, {0}};
    uint8_t copy[16];

    memcpy(copy, h->id, 16);
    ref.request_id = (ProtobufCBinaryData){16, copy};
    ref.has_choice = true;
    ref.choice = h->choice;
    r.sequence = &ref;
    if (s != NULL) {
        r.state = s->finish != 0 ? SLUICE__V1__SEQUENCE_STATE__SEQUENCE_KEPT
                  : s->n_tokens == 0
                      ? SLUICE__V1__SEQUENCE_STATE__SEQUENCE_QUEUED
                      : SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE;
        r.n_generated = s->n_tokens;
        r.blocks = s->blocks;
        r.slots = s->slots;
        r.has_windows = s->windows > 0;
        r.windows = s->windows;
        stages_receipt(w, s, &columns, &r);
        r.blocks = w->receipt_blocks != 0 ? w->receipt_blocks : r.blocks;
        r.micros = h->choice == 1 ? 18 : 17;
        r.snapshot = w->ledger.snapshot + 1;
        worker_release(w, s);
        s->used = false;
        s->cancelled = true;
    }
    if (w->spoil_receipt != NULL) {
        w->spoil_receipt(&r);
    }
    peer_end(w->peer, h->call, &r.base);
}

static void worker_on_removal(struct fake *w, uint64_t call,
                              const Sluice__V1__SequenceRef *ref)
{
    struct held *h = &w->held[w->n_held];

    assert_true(w->n_held < RIG_HELD && ref->has_choice);
    h->call = call;
    memcpy(h->id, ref->request_id.data, 16);
    h->choice = ref->choice;
    if (w->hold_receipts) {
        w->n_held++;
    } else {
        answer_removal(w, h);
    }
}

void worker_receipt(struct fake *w)
{
    struct held h = w->held[0];

    assert_true(w->n_held > 0);
    w->n_held--;
    memmove(w->held, w->held + 1, w->n_held * sizeof h);
    answer_removal(w, &h);
}

static void worker_on_audit(struct fake *w, uint64_t call)
{
    Sluice__V1__AuditReply a = SLUICE__V1__AUDIT_REPLY__INIT;
    uint32_t live = 0;

    if (w->mute_audit) {
        return;
    }
    for (int i = 0; i < RIG_SEQUENCES; i++) {
        live += w->sequences[i].used && w->sequences[i].finish == 0;
    }
    w->ledger.session = w->session;
    w->ledger.snapshot++;
    w->ledger.has_n_decode = true;
    w->ledger.n_decode = live;
    if (w->audit_session != 0) {
        w->ledger.session = w->audit_session;
    }
    w->classes[0].free += w->broken_audit;
    fake_pages(w);
    a.ledger = &w->ledger;
    a.n_differences = w->audit_differences;
    a.has_text = w->audit_text != NULL;
    if (a.has_text) {
        a.text = wire_text(w->audit_text);
    }
    peer_end(w->peer, call, &a.base);
    w->classes[0].free -= w->broken_audit;
    w->ledger.session = w->session;
}

static void answer_range(struct fake *w, uint64_t call, uint8_t *id)
{
    Sluice__V1__Receipt r = SLUICE__V1__RECEIPT__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;

    ref.request_id = (ProtobufCBinaryData){16, id};
    ref.has_choice = true;
    r.sequence = &ref;
    r.state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_KEPT;
    r.n_generated = by_id(w, id, 0)->n_tokens;
    r.has_position = true;
    r.position = w->range_position;
    if (w->spoil_receipt != NULL) {
        w->spoil_receipt(&r);
    }
    peer_end(w->peer, call, &r.base);
}

static void worker_on_range(struct fake *w, uint64_t call,
                            const Sluice__V1__RemoveRequest *m)
{
    uint8_t id[16];

    assert_true(m->has_grant && m->sequence->has_choice && !m->has_end);
    memcpy(id, m->sequence->request_id.data, sizeof id);
    w->n_ranges++;
    w->begin_of_range = m->begin;
    if (w->hold_ranges) {
        w->range_call = call;
        memcpy(w->held[0].id, id, sizeof id);
    } else {
        answer_range(w, call, id);
    }
}

void worker_range(struct fake *w)
{
    answer_range(w, w->range_call, w->held[0].id);
}

static void write_hash(uint8_t *out, struct prefix_hash h)
{
    for (int b = 0; b < 8; b++) {
        out[b] = (uint8_t)(h.lo >> (8 * b));
        out[8 + b] = (uint8_t)(h.hi >> (8 * b));
    }
}

void worker_index(struct fake *w, uint8_t id, uint32_t skip, uint32_t n,
                  bool appear, bool snapshot)
{
    static uint8_t hashes[INDEX_EVENTS_MAX * PREFIX_HASH_BYTES];
    uint32_t tokens[INDEX_EVENTS_MAX], ids[PREFIX_UNIT];
    struct prefix_hash h = prefix_hash_root(&w->prefix_key, NULL, 0);
    Sluice__V1__IndexMessage m = SLUICE__V1__INDEX_MESSAGE__INIT;

    for (uint32_t u = 0; u < skip + n; u++) {
        for (uint32_t i = 0; i < PREFIX_UNIT; i++) {
            ids[i] = ((u * PREFIX_UNIT + i) * 3 + id) % RIG_VOCAB;
        }
        h = prefix_hash_next(&w->prefix_key, h, ids);
        if (u >= skip) {
            write_hash(hashes + (size_t)(u - skip) * PREFIX_HASH_BYTES, h);
            tokens[u - skip] = appear ? (u + 1) * PREFIX_UNIT : 0;
        }
    }
    w->index_next = w->index_next == 0 ? 1 : w->index_next;
    m.first = w->index_next;
    m.has_snapshot = m.snapshot = snapshot;
    m.hashes = (ProtobufCBinaryData){n * PREFIX_HASH_BYTES, hashes};
    m.tokens = tokens;
    m.n_tokens = n;
    w->index_next += n;
    assert_int_equal(peer_oneway(w->peer, METHOD_REGISTRY_INDEX, &m.base),
                     ST_OK);
    rig_run(w->rig);
}

void fake_worker_hears(struct fake *w, const struct method_row *m,
                       uint64_t call, const ProtobufCMessage *request)
{
    const Sluice__V1__CancelRequest *c = (const void *)request;

    switch (m->number) {
    case METHOD_WORKER_SUBMIT:
        worker_on_submit(w, call, (const void *)request);
        break;
    case METHOD_WORKER_SUBMIT_PART:
        worker_on_part(w, (const void *)request);
        break;
    case METHOD_WORKER_ACKNOWLEDGE:
        worker_on_ack(w, (const void *)request);
        break;
    case METHOD_WORKER_DISOWN:
        worker_on_disown(w, (const void *)request);
        break;
    case METHOD_WORKER_CANCEL:
        w->n_cancels++;
        w->last_reason = c->reason;
        worker_on_removal(w, call, c->sequence);
        break;
    case METHOD_WORKER_INDEX_SNAPSHOT:
        w->n_index_snapshots++;
        break;
    case METHOD_WORKER_REMOVE:
        if (((const Sluice__V1__RemoveRequest *)(const void *)request)
                ->has_begin) {
            worker_on_range(w, call, (const void *)request);
            break;
        }
        w->n_removes++;
        worker_on_removal(
            w, call,
            ((const Sluice__V1__RemoveRequest *)(const void *)request)
                ->sequence);
        break;
    case METHOD_WORKER_AUDIT:
        worker_on_audit(w, call);
        break;
    default:
        fake_stage_hears(w, m, call, request);
        break;
    }
}

uint32_t choice_token(const uint8_t id[16], uint32_t choice, uint32_t index)
{
    return (id[0] * 131u + choice * 17u + index * 7u + 1) % RIG_VOCAB;
}

uint32_t fake_token(const uint8_t id[16], uint32_t index)
{
    return choice_token(id, 0, index);
}

struct sequence *worker_choice_of(struct fake *w, uint8_t id, uint32_t choice)
{
    uint8_t full[16];

    memset(full, id, 16);
    return by_id(w, full, choice);
}

struct sequence *worker_sequence_of(struct fake *w, uint8_t id)
{
    return worker_choice_of(w, id, 0);
}

void worker_report(struct fake *w)
{
    Sluice__V1__ReportMessage m = SLUICE__V1__REPORT_MESSAGE__INIT;

    w->ledger.snapshot++;
    fake_pages(w);
    m.ledger = &w->ledger;
    assert_int_equal(peer_oneway(w->peer, METHOD_REGISTRY_REPORT, &m.base),
                     ST_OK);
}

/* Fills in the column of the orphans that grow.  Returns its length: 0 if none
 * does, or if there are other rows than those of the orphans. */
static size_t grows_of(const struct fake *w, size_t n_rows, uint32_t *grows)
{
    size_t n = 0, sum = 0;

    for (int i = 0; i < RIG_SEQUENCES; i++) {
        const struct sequence *s = &w->sequences[i];

        if (s->used && s->orphan) {
            grows[n++] = s->grows;
            sum += s->grows;
        }
    }
    return sum > 0 && n == n_rows && !w->hides_growth ? n : 0;
}

void worker_live_rows(struct fake *w, size_t bytes, size_t n_choice,
                      size_t n_generated, const uint8_t *ids,
                      const uint32_t *choice, const uint32_t *generated)
{
    Sluice__V1__LiveMessage m = SLUICE__V1__LIVE_MESSAGE__INIT;
    uint32_t grows[RIG_SEQUENCES];

    m.request_ids = (ProtobufCBinaryData){bytes, (uint8_t *)(uintptr_t)ids};
    m.n_choice = n_choice;
    m.n_n_generated = n_generated;
    m.choice = (uint32_t *)(uintptr_t)choice;
    m.grows = grows;
    m.n_grows = grows_of(w, n_choice, grows);
    m.n_generated = (uint32_t *)(uintptr_t)generated;
    m.expires_ms = w->live_ms;
    assert_int_equal(peer_oneway(w->peer, METHOD_REGISTRY_LIVE, &m.base),
                     ST_OK);
}

void worker_live(struct fake *w, uint32_t expires_ms)
{
    uint8_t ids[RIG_SEQUENCES * 16];
    uint32_t choice[RIG_SEQUENCES], generated[RIG_SEQUENCES];
    size_t n = 0;

    for (int i = 0; i < RIG_SEQUENCES; i++) {
        const struct sequence *s = &w->sequences[i];
        if (s->used && s->orphan) {
            memcpy(ids + 16 * n, s->id, 16);
            choice[n] = s->choice;
            generated[n++] = s->n_tokens;
        }
    }
    w->live_ms = expires_ms;
    worker_live_rows(w, 16 * n, n, n, ids, choice, generated);
}

void worker_make(struct fake *w, struct sequence *s, uint32_t n,
                 uint32_t finish)
{
    assert_non_null(s);
    s->n_tokens += n;
    s->finish = finish;
    if (finish != 0 && s->keep_ms == 0) {
        worker_release(w, s);
    }
}

void worker_say(struct fake *w, Sluice__V1__StepOutputMessage *m)
{
    m->step = ++w->step;
    if (m->ledger == NULL) {
        w->ledger.snapshot++;
        fake_pages(w);
        m->ledger = &w->ledger;
    }
    assert_int_equal(
        peer_oneway(w->peer, METHOD_REGISTRY_STEP_OUTPUT, &m->base), ST_OK);
}

void worker_step(struct fake *w)
{
    worker_step_with(w, NULL);
}

void worker_step_with(struct fake *w, Sluice__V1__Ledger *l)
{
    static uint32_t tokens[8192];
    uint64_t grant[RIG_SEQUENCES];
    uint32_t first[RIG_SEQUENCES], count[RIG_SEQUENCES];
    uint32_t finish[RIG_SEQUENCES], state[RIG_SEQUENCES];
    uint32_t reused[RIG_SEQUENCES];
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    size_t n = 0;

    for (int i = 0; i < RIG_SEQUENCES; i++) {
        const struct sequence *s = &w->sequences[i];
        if (!s->used || s->finished || s->orphan) {
            continue;
        }
        grant[n] = s->grant;
        first[n] = s->acked;
        count[n] = s->n_tokens - s->acked;
        finish[n] = s->finish;
        reused[n] = s->reused;
        m.n_reused = s->reused > 0 ? 1 : m.n_reused;
        state[n] = s->n_tokens > 0
                       ? SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE
                       : SLUICE__V1__SEQUENCE_STATE__SEQUENCE_PREFILL;
        for (uint32_t k = s->acked; k < s->n_tokens; k++) {
            assert_true(m.n_tokens < 8192);
            tokens[m.n_tokens++] = choice_token(s->id, s->choice, k);
        }
        n++;
    }
    m.has_device_us = m.has_n_prompt_tokens = w->device_us > 0;
    m.device_us = w->device_us;
    m.n_prompt_tokens = w->n_prompt_tokens;
    m.ledger = l;
    m.grant = grant;
    m.first_index = first;
    m.count = count;
    m.finish = finish;
    m.state = state;
    m.tokens = tokens;
    m.n_grant = m.n_first_index = m.n_count = m.n_finish = m.n_state = n;
    m.n_reused = m.n_reused > 0 ? n : 0;
    m.reused = reused;
    worker_say(w, &m);
}

void worker_give(struct fake *w, uint8_t id, uint32_t choice, uint32_t n,
                 uint32_t finish)
{
    worker_make(w, worker_choice_of(w, id, choice), n, finish);
    worker_step(w);
    rig_run(w->rig);
}
