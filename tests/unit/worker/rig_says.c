/* rig_says.c - The router's messages: submits, cancels, acknowledges. */
#include <string.h>

#include "common/wire/ids_hash.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig_internal.h"
#include "tests/unit/worker/stages/ring.h"

static void make_id(uint32_t id, uint8_t out[16])
{
    memset(out, 0xa5, 16);
    memcpy(out, &id, sizeof id);
}

int rig_choice_state(const struct rig *r, uint32_t id, uint32_t choice)
{
    uint8_t key[16];

    make_id(id, key);
    return worker_sequence_state(r->worker, key, choice);
}

int rig_state(const struct rig *r, uint32_t id)
{
    return rig_choice_state(r, id, 0);
}

static void fill_reuse(const struct rig_submit *s, struct rig_message *out)
{
    Sluice__V1__SubmitRequest *m = &out->m;

    if (s->tenant != NULL) {
        m->has_tenant = true;
        m->tenant = wire_text(s->tenant);
    }
    if (s->salt != NULL) {
        m->has_cache_salt = true;
        m->cache_salt = wire_text(s->salt);
    }
    m->has_cache = s->no_cache;
    m->cache = !s->no_cache;
    m->has_drafts = s->has_drafts;
    m->drafts = s->drafts;
    m->n_spans = s->n_spans;
    m->spans = (uint32_t *)(uintptr_t)s->spans;
    if (s->from != 0) {
        sluice__v1__sequence_ref__init(&out->from);
        make_id(s->from, out->from_id);
        out->from.request_id = (ProtobufCBinaryData){16, out->from_id};
        m->continue_from = &out->from;
    }
}

/* Sets the need of window pages as a router does. */
static void set_windows(const struct rig *r, uint32_t n, Sluice__V1__Need *need)
{
    const struct worker_options *o = &r->o;
    uint32_t chunk =
        o->chunk_tokens < o->step_tokens ? o->chunk_tokens : o->step_tokens;
    uint32_t all = (n + o->block_tokens - 1) / o->block_tokens;
    uint32_t most =
        (o->window + chunk + o->block_tokens - 1) / o->block_tokens + 1;

    need->has_windows = o->pool.window_pages > 0;
    need->windows = o->pool.window_pages * (all < most ? all : most);
}

void rig_message(struct rig *r, const struct rig_submit *s,
                 struct rig_message *out)
{
    uint32_t bt = r->o.block_tokens;
    Sluice__V1__SubmitRequest *m = &out->m;

    sluice__v1__submit_request__init(m);
    sluice__v1__sequence_ref__init(&out->ref);
    sluice__v1__need__init(&out->need);
    sluice__v1__sampling__init(&out->sampling);
    make_id(s->id, out->id);
    out->ref.request_id = (ProtobufCBinaryData){16, out->id};
    out->ref.has_choice = true;
    out->ref.choice = s->choice;
    if (r->o.pool.pages_per_block > 0) {
        out->need.blocks = (s->n_prompt + s->max_tokens + bt - 1) / bt;
    }
    set_windows(r, s->n_prompt + s->max_tokens, &out->need);
    if (s->grows > 0) {
        uint32_t n = s->n_prompt + s->n_generated + s->grows;

        m->has_grows = m->grows = true;
        out->need.blocks =
            r->o.pool.pages_per_block > 0 ? (n + bt - 1) / bt : 0;
        set_windows(r, n, &out->need);
    }
    out->need.slots = r->o.pool.pages_per_slot > 0 ? 1 : 0;
    out->sampling.has_seed = true;
    out->sampling.seed = s->id;
    out->sampling.has_ignore_eos = s->ignore_eos;
    out->sampling.ignore_eos = s->ignore_eos;
    out->sampling.has_logprobs = out->sampling.logprobs = s->logprobs;
    out->sampling.has_top_logprobs = s->n_top > 0;
    out->sampling.top_logprobs = s->n_top;
    if (s->penalise) {
        out->sampling.has_frequency_penalty = true;
        out->sampling.frequency_penalty = 0.5f;
    }
    out->n_ids = s->n_prompt + s->n_generated;
    for (uint32_t i = 0; i < s->n_prompt && i < RIG_IDS; i++) {
        out->ids[i] =
            s->prompt != NULL ? s->prompt[i] : rig_prompt_id(s->id, i);
    }
    fill_reuse(s, out);
    for (uint32_t i = 0; i < s->n_generated; i++) {
        out->ids[s->n_prompt + i] = s->generated[i];
    }
    m->sequence = &out->ref;
    m->need = &out->need;
    m->sampling = &out->sampling;
    m->n_prompt = s->n_prompt;
    m->n_generated = s->n_generated;
    m->max_tokens = s->max_tokens;
    m->has_keep_ms = s->keep_ms > 0;
    m->keep_ms = s->keep_ms;
    m->has_deadline_ms = s->deadline_ms > 0;
    m->deadline_ms = s->deadline_ms;
    m->has_have_index = s->has_have;
    m->have_index = s->have;
    m->tokens = out->ids;
    m->n_tokens = s->n_first > 0 ? s->n_first : out->n_ids;
    m->grant = r->grant + 1;
    if (r->ring != NULL) {
        ring_fill_stages(r->ring, &out->need,
                         (s->n_prompt + s->max_tokens + bt - 1) / bt,
                         &out->stages);
        m->stages = &out->stages.m;
    }
}

static uint32_t width_of(const Sluice__V1__Sampling *s)
{
    return s->logprobs || s->top_logprobs > 0 ? 1 + s->top_logprobs : 0;
}

uint64_t rig_send_submit(struct rig *r, const struct rig_message *m)
{
    r->grant = m->m.grant > r->grant ? m->m.grant : r->grant;
    assert_in_range(r->grant, 0, RIG_GRANTS - 1);
    r->heard[m->m.grant].width = width_of(&m->sampling);
    assert_int_equal(
        peer_call(r->peer, METHOD_WORKER_SUBMIT, &m->m.base, 0, ++r->tag, NULL),
        ST_OK);
    return r->tag;
}

uint64_t rig_submit(struct rig *r, const struct rig_submit *s)
{
    struct rig_message m;

    rig_message(r, s, &m);
    return rig_send_submit(r, &m);
}

void rig_part(struct rig *r, uint64_t grant, const struct rig_message *m,
              uint32_t offset, uint32_t n)
{
    Sluice__V1__SubmitPartMessage part = SLUICE__V1__SUBMIT_PART_MESSAGE__INIT;

    part.grant = grant;
    part.offset = offset;
    part.n_tokens = n;
    part.tokens = (uint32_t *)(uintptr_t)&m->ids[offset];
    assert_int_equal(
        peer_oneway(r->peer, METHOD_WORKER_SUBMIT_PART, &part.base), ST_OK);
}

static uint64_t cancel(struct rig *r, uint32_t id, uint32_t choice,
                       uint64_t grant)
{
    Sluice__V1__CancelRequest m = SLUICE__V1__CANCEL_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint8_t key[16];

    make_id(id, key);
    ref.request_id = (ProtobufCBinaryData){16, key};
    ref.has_choice = choice > 0;
    ref.choice = choice;
    m.sequence = &ref;
    m.has_grant = grant > 0;
    m.grant = grant;
    assert_int_equal(
        peer_call(r->peer, METHOD_WORKER_CANCEL, &m.base, 0, ++r->tag, NULL),
        ST_OK);
    return r->tag;
}

uint64_t rig_cancel(struct rig *r, uint32_t id)
{
    return cancel(r, id, 0, 0);
}

uint64_t rig_cancel_choice(struct rig *r, uint32_t id, uint32_t choice)
{
    return cancel(r, id, choice, 0);
}

uint64_t rig_cancel_grant(struct rig *r, uint32_t id, uint64_t grant)
{
    return cancel(r, id, 0, grant);
}

uint64_t rig_remove(struct rig *r, uint32_t id)
{
    Sluice__V1__RemoveRequest m = SLUICE__V1__REMOVE_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint8_t key[16];

    make_id(id, key);
    ref.request_id = (ProtobufCBinaryData){16, key};
    m.sequence = &ref;
    assert_int_equal(
        peer_call(r->peer, METHOD_WORKER_REMOVE, &m.base, 0, ++r->tag, NULL),
        ST_OK);
    return r->tag;
}

uint64_t rig_remove_range(struct rig *r, uint32_t id, uint32_t begin,
                          uint32_t end)
{
    Sluice__V1__RemoveRequest m = SLUICE__V1__REMOVE_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint8_t key[16];

    make_id(id, key);
    ref.request_id = (ProtobufCBinaryData){16, key};
    m.sequence = &ref;
    m.has_begin = true;
    m.begin = begin;
    m.has_end = end > 0;
    m.end = end;
    assert_int_equal(
        peer_call(r->peer, METHOD_WORKER_REMOVE, &m.base, 0, ++r->tag, NULL),
        ST_OK);
    return r->tag;
}

void rig_adopt_message(struct rig *r, const struct rig_submit *s,
                       struct rig_message *out)
{
    uint32_t tokens[RIG_CONTEXT];

    rig_message(r, s, out);
    rig_expect_choice(s->id, s->choice, s->n_prompt, s->have, tokens);
    out->m.has_adopt = out->m.adopt = true;
    out->m.has_have_index = true;
    out->m.has_ids_hash = true;
    out->m.ids_hash = ids_hash(IDS_HASH_START, out->ids, s->n_prompt);
    out->m.ids_hash = ids_hash(out->m.ids_hash, tokens, s->have);
    out->m.n_tokens = 0;
    out->need.blocks = out->need.slots = out->need.windows = 0;
}

uint64_t rig_adopt(struct rig *r, const struct rig_submit *s)
{
    struct rig_message m;
    struct rig_heard *h = &r->heard[r->grant + 1];

    rig_adopt_message(r, s, &m);
    h->n = s->have;
    rig_expect_choice(s->id, s->choice, s->n_prompt, s->have, h->tokens);
    return rig_send_submit(r, &m);
}

void rig_disown(struct rig *r, uint32_t id, uint32_t choice)
{
    Sluice__V1__DisownMessage m = SLUICE__V1__DISOWN_MESSAGE__INIT;
    uint8_t key[16];

    make_id(id, key);
    m.request_ids = (ProtobufCBinaryData){16, key};
    m.n_choice = 1;
    m.choice = &choice;
    assert_int_equal(peer_oneway(r->peer, METHOD_WORKER_DISOWN, &m.base),
                     ST_OK);
}

void rig_ack(struct rig *r, uint64_t grant, uint32_t index)
{
    Sluice__V1__AcknowledgeMessage m = SLUICE__V1__ACKNOWLEDGE_MESSAGE__INIT;

    m.n_grant = m.n_index = 1;
    m.grant = &grant;
    m.index = &index;
    assert_int_equal(peer_oneway(r->peer, METHOD_WORKER_ACKNOWLEDGE, &m.base),
                     ST_OK);
}
