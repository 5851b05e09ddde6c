/* A leader that reuses prefixes over several stages, and whatever comes:
 * Submits, continuations, ranges, cancels, failed steps, refused plans, an
 * index that is lost, in any order.  What does not fit a stage, or is not
 * there, fails (ring_stages.h). */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/stages/ring.h"

#define SEEDS 40

static void options(struct worker_options *o)
{
    ring_options(o);
    o->pool.n_pages = 512;
    o->reuse = true;
    o->layer_end = 2;
}

/* Writes a prompt of n ids that begins like prompt `first` for `same` ids. */
static void make_prompt(uint32_t *out, uint32_t n, uint32_t first,
                        uint32_t same, uint32_t then)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] = rig_prompt_id(i < same ? first : then, i);
    }
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)rand() % n;
}

/* A sequence that may be kept. */
struct kept {
    uint32_t id, n_prompt;
    uint64_t grant;
    const char *tenant;
    uint32_t ids[RIG_CONTEXT];
};

static const char *any_tenant(void)
{
    static const char *const tenants[] = {NULL, NULL, "a", "b"};

    return tenants[below(4)];
}

/* Continues it, or submits the same ids again. */
static void continue_random(struct rig *r, struct kept *k, uint32_t id)
{
    const struct rig_heard *h = &r->heard[k->grant];
    uint32_t n = k->n_prompt + h->n, more = below(100);
    struct rig_submit s = {.id = id,
                           .max_tokens = 1 + below(40),
                           .prompt = k->ids,
                           .tenant = k->tenant,
                           .from = below(4) > 0 ? k->id : 0,
                           .keep_ms = below(2) == 0 ? 200 : 0};
    uint32_t choices = below(4) == 0 ? 2 : 1;

    if (k->id == 0 || h->finish == 0) {
        return;
    }
    if (n + more + s.max_tokens >= RIG_CONTEXT) {
        k->id = 0;
        return;
    }
    memcpy(k->ids + k->n_prompt, h->tokens, h->n * sizeof *k->ids);
    for (uint32_t i = n; i < n + more; i++) {
        k->ids[i] = rig_prompt_id(20, i);
    }
    s.n_prompt = n + more;
    for (s.choice = 0; s.choice < choices; s.choice++) {
        rig_submit(r, &s);
    }
    k->id = id;
    k->grant = r->grant;
    k->n_prompt = s.n_prompt;
    if (choices > 1) {
        k->id = 0;
    }
}

static void submit_random(struct rig *r, struct kept *k, uint32_t id)
{
    uint32_t ids[RIG_CONTEXT];
    struct rig_submit s = {.id = id,
                           .tenant = any_tenant(),
                           .n_prompt = 1 + below(300),
                           .max_tokens = 1 + below(below(3) == 0 ? 80 : 8),
                           .prompt = ids,
                           .no_cache = below(6) == 0,
                           .penalise = below(6) == 0 && !r->counts,
                           .keep_ms = below(2) == 0 ? 200 : 0};
    uint32_t n = below(5) == 0 ? 3 : 1;

    make_prompt(ids, s.n_prompt, below(3), below(300), 10 + below(3));
    for (s.choice = 0; s.choice < n; s.choice++) {
        rig_submit(r, &s);
    }
    if (n == 1 && s.keep_ms > 0 && (k->id == 0 || below(8) == 0)) {
        *k = (struct kept){.id = id,
                           .n_prompt = s.n_prompt,
                           .grant = r->grant,
                           .tenant = s.tenant};
        memcpy(k->ids, ids, s.n_prompt * sizeof *ids);
    }
}

static void act(struct rig *r, struct kept *k, uint32_t *id)
{
    uint32_t which = *id > 0 ? 1 + below(*id) : 1;

    switch (below(15)) {
    case 0:
    case 1:
        if (rig_account(r).n_sequences < 40) {
            submit_random(r, k, ++*id);
        }
        break;
    case 10:
        if (rig_account(r).n_sequences < 40) {
            continue_random(r, k, ++*id);
        }
        break;
    case 2:
        rig_cancel(r, which);
        break;
    case 3:
        if (below(12) == 0) {
            r->ring->fail_next = "a stage";
        }
        break;
    case 4:
        if (below(12) == 0) {
            r->fail_next = "the leader's";
        }
        break;
    case 5:
        rig_remove_range(r, below(2) == 0 ? which : k->id, below(300), 0);
        break;
    case 6:
        rig_advance(r, 1000);
        if (below(30) == 0) {
            worker_clear_index(r->worker);
        }
        break;
    case 11:
        r->refuse_once = r->refuse_once || below(20) == 0;
        break;
    case 7:
    case 8:
    case 9:
        (void)rig_step(r);
        break;
    default:
        (void)ring_step(r->ring);
    }
    rig_turn(r);
}

/* Counts of messages in all seeds. */
struct came {
    uint32_t from, cut, anew, twins, gone, accepted, refused;
};

static void count(const struct rig *r, struct came *n)
{
    for (uint32_t i = 0; i < r->ring->n_said; i++) {
        const struct ring_said *s = &r->ring->said[i];

        if (s->method == METHOD_STAGE_RESTORE) {
            n->from += s->has_from;
            n->cut += s->cut;
        } else if (s->method == METHOD_STAGE_FORWARD) {
            n->twins += s->n_twins;
            n->anew +=
                (s->kind[0] & SLUICE__V1__STAGE_ROW__STAGE_ROW_ANEW) != 0;
        }
        n->gone += s->method == METHOD_STAGE_GONE;
    }
}

/* Lets every other model have windows; the leader may lack their layers. */
static void set_windows(struct worker_options *o, unsigned seed)
{
    if (seed / 4 % 2 == 1) {
        o->window = 3 + seed % 40;
        o->pool.window_pages = seed % 3;
        o->pool.n_pages += 40;
    }
}

/* Lets most leaders draft, with more or less room, from the text or by an MTP
 * layer. */
static void set_drafts(struct rig *r, unsigned seed)
{
    if (seed % 7 != 0) {
        ring_drafts(r->ring, 5 + seed % 30, seed % 4 != 3);
        r->drafts = (enum rig_drafts)(seed % 4);
        r->counts = seed % 4 == 3;
    }
}

/* Submits may be refused for want of room, because nobody counts it here; the
 * stages fit whatever the leader lets in. */
static void holds_whatever_comes(void **state)
{
    static const struct mirror_stage shapes[][2] = {
        {{512, 1, 2, 2}, {512, 1, 2, 1}},
        {{260, 1, 3, 1}, {300, 1, 0, 0}},
        {{150, 1, 0, 0}, {120, 0, 1, 1}},
        {{240, 1, 2, 1}, {140, 0, 0, 3}},
    };
    static const struct mirror_stage plain[][2] = {
        {{512, 1, 2, 0}, {512, 1, 2, 0}},
        {{160, 1, 3, 0}, {300, 1, 0, 0}},
        {{150, 1, 0, 0}, {20, 0, 1, 0}},
        {{140, 1, 2, 0}, {140, 1, 2, 0}},
    };

    struct came n = {.from = 0};

    (void)state;
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        struct kept kept = {.id = 0};
        struct worker_options o;
        struct rig *r;
        uint32_t id = 0;

        options(&o);
        o.pool.n_pages = 120;
        o.pool.tenant_share = seed % 3 == 0 ? 0.2f : 1;
        o.pool.pages_per_slot = seed % 5 == 0 ? 0 : o.pool.pages_per_slot;
        o.engine_depth = 1 + seed % 2;
        o.drafting.most = 1 + seed % DRAFTS_MAX;
        o.drafting.keep_tokens = 40;
        set_windows(&o, seed);
        srand(seed);
        r = ring_rig_with(3, &o, (o.window > 0 ? shapes : plain)[seed % 4]);
        r->ring->has_runs = true;
        set_drafts(r, seed);
        for (int i = 0; i < 1500; i++) {
            act(r, &kept, &id);
        }
        ring_run(r->ring);
        rig_advance(r, 250000); /* leases end */
        ring_run(r->ring);
        if (r->n_broken > 0) {
            fail_msg("seed %u: %s", seed, r->broken_why);
        }
        count(r, &n);
        n.accepted += r->ring->n_accepted;
        n.refused += r->ring->n_refused;
        ring_rig_end(&r);
    }
    assert_true(n.from > 0 && n.cut > 0 && n.anew > 0);
    assert_true(n.twins > 0 && n.gone > 0);
    assert_true(n.accepted > 1000 && n.refused > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_whatever_comes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
