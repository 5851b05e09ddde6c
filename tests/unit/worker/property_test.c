/* Thousands of random operations against a model of the rules.
 *
 * The model keeps the need and the ids of every accepted sequence.  After every
 * turn the rig checks the identity of the ledger, and audits the pool.  This
 * test also checks:
 *
 *  - a Submit is accepted if and only if its need fits the free room
 *  - the charge equals the need of the live sequences
 *  - a receipt reports what the sequence was charged; a second one reports zero
 *  - tokens belong to the sequence, each index once and in order
 *  - logprobs belong to the tokens, whatever was lost or repeated
 *  - every accepted Submit ends, with all its tokens unless it was cancelled
 *  - orphans are adopted from any index that the router has */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"

#define OPERATIONS 2000
#define IDS        24

struct model {
    bool known;   /* submitted and accepted in this session */
    bool stopped; /* cancelled, removed or failed: it may end early */
    bool partial; /* waits for parts */
    bool orphan;  /* its session is over */
    uint64_t grant, tag;
    uint32_t n_prompt, max_tokens, have, blocks, windows, sent;
    uint32_t n_elsewhere; /* tokens that came with its Submit */
    uint32_t heard;       /* an orphan's */
};

struct walk {
    struct rig *r;
    uint64_t seed;
    struct model m[IDS];
    uint32_t accepted, refused, freed, lost, failed, ended, restarted;
    uint32_t adopted, disowned;
};

/* Chooses the sampling of the id-th sequence. */
static void ask(struct rig_submit *s)
{
    s->logprobs = s->id % 3 != 0;
    s->n_top = s->logprobs ? s->id % (TOP_LOGPROBS_MAX + 1) : 0;
    s->penalise = s->id % 2 == 0;
}

static uint32_t below(struct walk *k, uint32_t n)
{
    k->seed = k->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(k->seed >> 33) % n;
}

static bool is_live(const struct rig *r, uint32_t id)
{
    int state = rig_state(r, id);

    return state >= 1 && state <= 4;
}

/* Returns the blocks of a live sequence: a kept one has those of its computed
 * positions only, all but its last. */
static uint32_t blocks_of(const struct walk *k, uint32_t i)
{
    const struct model *m = &k->m[i];
    uint32_t n = m->n_prompt + m->max_tokens - 1, bt = k->r->o.block_tokens;

    return rig_state(k->r, i + 1) == 4 ? (n + bt - 1) / bt : m->blocks;
}

/* The charge is the need of the live sequences, and of those that a running
 * plan still names. */
static void check_charge(struct walk *k)
{
    struct worker_account a = rig_account(k->r);
    uint32_t blocks = 0, slots = 0, windows = 0, kept = 0;

    for (uint32_t i = 0; i < IDS; i++) {
        if (is_live(k->r, i + 1)) {
            blocks += blocks_of(k, i);
            slots++;
            windows += k->m[i].windows;
            kept += rig_state(k->r, i + 1) == 4 ? k->m[i].windows : 0;
        }
    }
    /* A kept sequence has what its last row saw. */
    assert_true(a.windows.held + a.windows.granted >= windows - kept);
    assert_true(rig_inflight(k->r) > 0 ||
                a.windows.held + a.windows.granted <= windows);
    if (rig_inflight(k->r) == 0) {
        assert_int_equal(a.blocks.held + a.blocks.granted, blocks);
        assert_int_equal(a.slots.held + a.slots.granted, slots);
    } else {
        assert_true(a.blocks.held + a.blocks.granted >= blocks);
        assert_true(a.slots.held + a.slots.granted >= slots);
    }
}

static void check_tokens(struct walk *k, const struct model *m, uint32_t id)
{
    const struct rig_heard *h = &k->r->heard[m->grant];
    uint32_t expect[RIG_CONTEXT];

    if (!m->known) {
        return;
    }
    rig_expect(id, m->n_prompt, m->max_tokens, expect);
    assert_in_range(h->n, 0, m->max_tokens);
    assert_memory_equal(h->tokens, expect, h->n * sizeof *expect);
    if (h->finish == SLUICE__V1__FINISH__FINISH_LENGTH) {
        assert_int_equal(h->n, m->max_tokens);
    }
    if (h->finish != 0 && !m->stopped) {
        assert_int_equal(h->finish, SLUICE__V1__FINISH__FINISH_LENGTH);
    }
}

static void submit(struct walk *k)
{
    uint32_t i = below(k, IDS), ids[RIG_CONTEXT];
    struct worker_account a = rig_account(k->r);
    struct model *m = &k->m[i];
    struct rig_submit s = {.id = i + 1, .n_prompt = 1 + below(k, 200)};
    struct rig_message message;
    uint64_t tag;
    bool fits;

    /* Leaves sequences alone that are live or not forgotten. */
    if (rig_state(k->r, s.id) != 0 || m->partial) {
        return;
    }
    s.max_tokens = 1 + below(k, 40);
    s.n_generated = below(k, 3) == 0 ? below(k, s.max_tokens) : 0;
    s.keep_ms = below(k, 4) == 0 ? 1 + below(k, 100) : 0;
    rig_expect(s.id, s.n_prompt, s.max_tokens, ids);
    s.generated = ids;
    s.n_first = below(k, 3) == 0 ? 1 + below(k, s.n_prompt) : 0;
    ask(&s);
    rig_message(k->r, &s, &message);
    fits = message.need.blocks + message.need.windows +
                   k->r->o.pool.pages_per_slot <=
               a.pages.free &&
           a.slots.held + a.slots.granted < k->r->o.pool.slot_cap;
    tag = rig_send_submit(k->r, &message);
    k->r->heard[k->r->grant].n = s.n_generated;
    memcpy(k->r->heard[k->r->grant].tokens, ids, s.n_generated * sizeof *ids);
    rig_turn(k->r);
    if (fits != (!k->r->ends[tag].ended || k->r->ends[tag].status == ST_OK)) {
        fail_msg("fits %d: %s", fits, k->r->ends[tag].text);
    }
    if (!fits) {
        assert_int_equal(k->r->ends[tag].status, ST_RESOURCE_EXHAUSTED);
        k->refused++;
        return;
    }
    k->accepted++;
    *m = (struct model){.known = true,
                        .partial = !k->r->ends[tag].ended,
                        .grant = k->r->grant,
                        .tag = tag,
                        .n_prompt = s.n_prompt,
                        .max_tokens = s.max_tokens,
                        .sent = s.n_first,
                        .n_elsewhere = s.n_generated,
                        .blocks = message.need.blocks,
                        .windows = message.need.windows};
    if (m->partial) {
        m->have = s.n_generated;
    }
}

static void part(struct walk *k)
{
    uint32_t i = below(k, IDS), ids[RIG_CONTEXT], n;
    struct model *m = &k->m[i];
    struct rig_submit s = {.id = i + 1, .generated = ids};
    struct rig_message message;

    if (!m->partial) {
        return;
    }
    s.n_prompt = m->n_prompt;
    s.max_tokens = m->max_tokens;
    s.n_generated = m->have;
    rig_expect(s.id, s.n_prompt, s.max_tokens, ids);
    rig_message(k->r, &s, &message);
    n = 1 + below(k, message.n_ids - m->sent);
    rig_part(k->r, m->grant, &message, m->sent, n);
    m->sent += n;
    rig_turn(k->r);
    if (m->sent == message.n_ids) {
        assert_true(k->r->ends[m->tag].ended);
        assert_int_equal(k->r->ends[m->tag].status, ST_OK);
        m->partial = false;
    }
}

static void take_away(struct walk *k)
{
    uint32_t i = below(k, IDS);
    struct model *m = &k->m[i];
    int before = rig_state(k->r, i + 1);
    uint32_t blocks = blocks_of(k, i);
    uint64_t tag;

    /* A cancel of an unknown sequence leaves a tombstone; cancel_test.c
     * covers that. */
    if (before == 0) {
        return;
    }
    tag = below(k, 2) ? rig_cancel(k->r, i + 1) : rig_remove(k->r, i + 1);
    rig_turn(k->r);
    for (int n = 0; !k->r->ends[tag].ended; n++) {
        assert_in_range(n, 0, k->r->o.engine_depth);
        assert_true(rig_step(k->r));
    }
    assert_int_equal(k->r->ends[tag].status, ST_OK);
    assert_int_equal(k->r->ends[tag].receipt.state, before);
    assert_int_equal(k->r->ends[tag].receipt.blocks, before <= 4 ? blocks : 0);
    if (before == 4) {
        assert_true(k->r->ends[tag].receipt.windows <= m->windows);
    } else {
        assert_int_equal(k->r->ends[tag].receipt.windows,
                         before < 4 ? m->windows : 0);
    }
    assert_false(is_live(k->r, i + 1));
    m->stopped = m->stopped || before <= 4;
    if (m->partial) {
        assert_int_equal(k->r->ends[m->tag].status, ST_CANCELLED);
        m->partial = m->known = false;
    }
    k->freed++;
}

/* Adopts from the router's index or before: the worker still has those
 * tokens. */
static void adopt_orphan(struct walk *k, uint32_t i)
{
    struct model *m = &k->m[i];
    struct rig_submit s = {.id = i + 1,
                           .n_prompt = m->n_prompt,
                           .max_tokens = m->max_tokens,
                           .has_have = true,
                           .have = m->heard};
    uint64_t tag;

    if (below(k, 4) == 0) {
        rig_disown(k->r, i + 1, 0);
        rig_turn(k->r);
        assert_int_equal(rig_state(k->r, i + 1), 0);
        *m = (struct model){.known = false};
        k->disowned++;
        return;
    }
    ask(&s);
    if (rig_state(k->r, i + 1) < 4 && m->heard > m->n_elsewhere) {
        s.have -= below(k, m->heard - m->n_elsewhere + 1);
    }
    tag = rig_adopt(k->r, &s);
    m->grant = k->r->grant;
    m->known = true;
    m->orphan = false;
    rig_turn(k->r);
    assert_int_equal(k->r->ends[tag].status, ST_OK);
    k->adopted++;
}

/* With logprobs it cannot be sent from its first token if that came from
 * elsewhere: it starts anew, if the old one's room is free already. */
static void adopt(struct walk *k)
{
    uint32_t i = below(k, IDS);
    struct model *m = &k->m[i];
    struct rig_submit s = {.id = i + 1, .has_have = true};
    int before = rig_state(k->r, i + 1);
    bool restarts;
    uint64_t tag;

    if (m->orphan) {
        if (before != 0) {
            adopt_orphan(k, i);
        }
        return;
    }
    if (before < 1 || before > 4 || m->partial) {
        return;
    }
    s.n_prompt = m->n_prompt;
    s.max_tokens = m->max_tokens;
    s.have = before == 4 ? m->max_tokens : 0;
    ask(&s);
    restarts = before != 4 && s.logprobs && m->n_elsewhere > 0;
    tag = rig_submit(k->r, &s);
    if (before == 4) {
        k->r->heard[k->r->grant] = k->r->heard[m->grant];
    }
    m->grant = k->r->grant;
    rig_turn(k->r);
    if (restarts && k->r->ends[tag].status == ST_RESOURCE_EXHAUSTED) {
        *m = (struct model){.known = false};
        return;
    }
    assert_int_equal(k->r->ends[tag].status, ST_OK);
    m->n_elsewhere = restarts ? 0 : m->n_elsewhere;
    k->restarted += restarts;
}

static void lose(struct walk *k)
{
    for (uint32_t i = 0; i < IDS; i++) {
        struct model *m = &k->m[i];

        if (m->known && !m->partial) {
            m->heard = k->r->heard[m->grant].n;
            m->orphan = true;
        }
        m->known = m->partial = false;
    }
    rig_lose(k->r);
    rig_reconnect(k->r);
    for (uint32_t i = 0; i < IDS; i++) {
        if (!k->m[i].orphan || rig_state(k->r, i + 1) == 0) {
            k->m[i] = (struct model){.known = false};
        }
    }
    k->lost++;
}

static void break_step(struct walk *k)
{
    const struct plan *p = rig_plan(k->r, 0);

    if (p == NULL) {
        return;
    }
    for (uint32_t i = 0; i < IDS; i++) {
        int state = rig_state(k->r, i + 1);

        /* Any running sequence may be in it. */
        k->m[i].stopped = k->m[i].stopped || state == 2 || state == 3;
    }
    k->r->fail_next = "a random failure";
    rig_step(k->r);
    k->failed++;
}

static void operate(struct walk *k)
{
    switch (below(k, 20)) {
    case 0:
    case 1:
    case 2:
        submit(k);
        break;
    case 3:
    case 4:
    case 5:
        part(k);
        break;
    case 6:
        take_away(k);
        break;
    case 7:
        adopt(k);
        break;
    case 8:
        rig_advance(k->r, 1000 * (int64_t)(1 + below(k, 30)));
        break;
    case 9:
        k->r->acknowledge = below(k, 3) != 0;
        break;
    case 10:
        if (below(k, 20) == 0) {
            lose(k);
        }
        break;
    case 11:
        if (below(k, 6) == 0) {
            break_step(k);
        }
        break;
    default:
        rig_step(k->r);
    }
}

static void finish(struct walk *k)
{
    k->r->acknowledge = true;
    for (uint32_t i = 0; i < IDS; i++) {
        if (k->m[i].partial) {
            rig_cancel(k->r, i + 1);
            k->m[i].known = false;
        }
    }
    rig_turn(k->r);
    rig_run(k->r);
    rig_advance(k->r, ORPHAN_US + 800000);
    for (uint32_t i = 0; i < IDS; i++) {
        check_tokens(k, &k->m[i], i + 1);
        if (k->m[i].known) {
            assert_int_not_equal(k->r->heard[k->m[i].grant].finish, 0);
            k->ended++;
        }
    }
    rig_check_empty(k->r);
}

/* Sums over all walks: a walk without operations would prove nothing. */
static struct {
    uint32_t accepted, refused, freed, lost, failed, ended, restarted;
    uint32_t adopted, disowned;
} all;

static void walk(uint64_t seed)
{
    struct worker_options o;
    struct walk k = {.seed = seed};

    rig_defaults(&o);
    o.pool.n_pages = 64 + 2 * 3;
    o.pool.slot_cap = 6;
    o.engine_depth = 1 + (uint32_t)(seed % 2);
    o.max_rows = 1 + below(&k, 8);
    o.chunk_tokens = 1 + below(&k, 130);
    o.step_tokens = 1 + below(&k, 300);
    if (seed % 3 == 0) {
        o.window = 1 + below(&k, 60);
        o.pool.window_pages = 1 + below(&k, 3);
        o.pool.n_pages += 40;
    }
    rig_draw_drafts(&o, seed);
    k.r = rig_new(&o);
    k.r->drafts = (enum rig_drafts)(seed / 2 % 4);
    for (int i = 0; i < OPERATIONS; i++) {
        operate(&k);
        check_charge(&k);
        for (uint32_t j = 0; j < IDS; j++) {
            check_tokens(&k, &k.m[j], j + 1);
        }
    }
    finish(&k);
    all.accepted += k.accepted;
    all.refused += k.refused;
    all.freed += k.freed;
    all.lost += k.lost;
    all.failed += k.failed;
    all.ended += k.ended;
    all.restarted += k.restarted;
    all.adopted += k.adopted;
    all.disowned += k.disowned;
    rig_free(&k.r);
}

static uint64_t only; /* only this seed; 0: all */

static void holds_under_random_operations(void **state)
{
    (void)state;
    if (only != 0) {
        walk(only);
        return;
    }
    for (uint64_t seed = 1; seed <= 36; seed++) {
        walk(seed * 7919);
    }
    assert_true(all.accepted > 2000 && all.refused > 1000);
    assert_true(all.freed > 500 && all.ended > 100);
    assert_true(all.lost > 30 && all.failed > 100 && all.restarted > 5);
    assert_true(all.adopted > 20 && all.disowned > 10);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_under_random_operations),
    };

    log_setup(LOG_OFF, NULL, NULL);
    only = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
