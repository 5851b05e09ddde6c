/* The later stages' shares of their leader's sequences.  In the rig the leader
 * passes them on by a function call, at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/router/rig.h"

static struct fake *stage_of(const struct fake *leader, uint32_t i)
{
    struct rig *rig = leader->rig;

    for (uint32_t k = 0; k < rig->n_fakes; k++) {
        struct fake *f = rig->fakes[k];
        if (f->n_stages > 1 && f->assembly == leader->assembly &&
            f->stage == i) {
            return f;
        }
    }
    return NULL;
}

static bool leads(const struct fake *w)
{
    return w->n_stages > 1 && w->stage == 0;
}

static void let_go(struct fake *f, struct sequence *x)
{
    worker_release(f, x);
    x->used = false;
}

/* Every Submit makes one Open, in order of grants, and every grant fits. */
static void take(struct fake *f, const struct sequence *o)
{
    struct sequence *s = f->sequences;

    f->grants_in_order = f->grants_in_order && o->grant == f->ledger.grant + 1;
    f->ledger.grant = o->grant;
    if (!o->used) {
        return;
    }
    while (s->used) {
        s++;
        assert_true(s < f->sequences + RIG_SEQUENCES);
    }
    *s = *o;
    assert_true(s->blocks <= f->classes[0].free);
    assert_true(s->slots <= f->classes[1].free);
    assert_true(s->windows <= f->classes[4].free);
    f->classes[4].free -= s->windows;
    f->classes[4].granted += s->windows;
    f->classes[0].free -= s->blocks;
    f->classes[0].granted += s->blocks;
    f->classes[1].free -= s->slots;
    f->classes[1].granted += s->slots;
    if (s->cancelled && !f->hold_removes) {
        let_go(f, s);
    }
}

void stage_opens(struct fake *f)
{
    for (uint32_t i = 0; i < f->n_opens; i++) {
        take(f, &f->opens[i]);
    }
    f->n_opens = 0;
}

void stages_open(struct fake *leader, const Sluice__V1__SubmitRequest *m,
                 bool nothing)
{
    const Sluice__V1__StageGrants *g = m->stages;
    size_t n = leads(leader) ? leader->n_stages - 1 : 0;

    assert_true((g != NULL) == leads(leader));
    for (size_t i = 0; i < n; i++) {
        struct fake *f = stage_of(leader, (uint32_t)i + 1);
        struct sequence *o;

        assert_true(g->n_grant == n && g->n_blocks == n && g->n_slots == n &&
                    g->n_checkpoints == n &&
                    (g->n_windows == n || g->n_windows == 0));
        assert_true(f != NULL && f->n_opens < RIG_SEQUENCES);
        o = &f->opens[f->n_opens++];
        *o = (struct sequence){.used = !nothing,
                               .choice = m->sequence->choice,
                               .call = m->grant,
                               .grant = g->grant[i],
                               .blocks = g->blocks[i],
                               .slots = g->slots[i]};
        o->windows = g->n_windows > 0 ? g->windows[i] : 0;
        memcpy(o->id, m->sequence->request_id.data, sizeof o->id);
        f->n_voids += nothing;
        if (!f->hold_opens) {
            stage_opens(f);
        }
    }
}

/* Finds a share by the leader's grant, which identifies it in the assembly;
 * also among those that wait to be opened. */
static struct sequence *share_of(struct fake *f, const struct sequence *s)
{
    for (int i = 0; f != NULL && i < RIG_SEQUENCES; i++) {
        if (f->sequences[i].used && f->sequences[i].call == s->grant) {
            return &f->sequences[i];
        }
    }
    for (uint32_t i = 0; f != NULL && i < f->n_opens; i++) {
        if (f->opens[i].used && f->opens[i].call == s->grant) {
            return &f->opens[i];
        }
    }
    return NULL;
}

void stages_receipt(struct fake *leader, const struct sequence *s,
                    struct stage_columns *columns, Sluice__V1__Receipt *r)
{
    uint32_t *blocks = columns->blocks, *slots = columns->slots;

    for (uint32_t i = 0; leads(leader) && i < leader->n_stages; i++) {
        const struct sequence *x =
            i == 0 ? s : share_of(stage_of(leader, i), s);

        blocks[i] = x == NULL ? 0 : x->blocks;
        slots[i] = x == NULL ? 0 : x->slots;
        r->blocks += i == 0 ? 0 : blocks[i];
        r->slots += i == 0 ? 0 : slots[i];
        r->n_stage_blocks = r->n_stage_slots = i + 1;
        columns->windows[i] = x == NULL ? 0 : x->windows;
        r->windows += i == 0 ? 0 : columns->windows[i];
        r->has_windows = r->windows > 0;
        r->n_stage_windows = r->has_windows ? i + 1 : 0;
    }
    r->stage_windows = columns->windows;
    if (leader->receipt_stages != 0) {
        r->n_stage_blocks = r->n_stage_slots =
            leader->receipt_stages > 0 ? (size_t)leader->receipt_stages : 0;
    }
    r->stage_blocks = blocks;
    r->stage_slots = slots;
}

void stages_release(struct fake *leader, const struct sequence *s)
{
    for (uint32_t i = 1; leads(leader) && i < leader->n_stages; i++) {
        struct fake *f = stage_of(leader, i);
        struct sequence *x = share_of(f, s);

        if (x != NULL) {
            x->cancelled = true;
        }
        if (f != NULL && !f->hold_removes) {
            stage_removes(f);
        }
    }
}

void stage_removes(struct fake *f)
{
    for (int i = 0; i < RIG_SEQUENCES; i++) {
        struct sequence *x = &f->sequences[i];
        if (x->used && x->cancelled) {
            let_go(f, x);
        }
    }
}

struct fake *rig_stage_with(struct rig *rig, const char *name, uint32_t begin,
                            uint32_t end, uint32_t blocks, uint32_t slots)
{
    struct fake *f = fake_stage_new(rig, name, begin, end);

    f->classes[0].total = f->classes[0].free = blocks;
    f->classes[1].total = f->classes[1].free = slots;
    fake_hello(f);
    assert_true(f->up);
    return f;
}

void rig_replica(struct rig *rig, struct fake **w, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        char name[16];

        snprintf(name, sizeof name, "w%u", i);
        w[i] = rig_stage(rig, name, i, i + 1 < n ? i + 1 : 4);
    }
    assert_int_equal(w[0]->n_stages, n);
}

struct router_worker_view fake_view(const struct fake *w)
{
    struct router_worker_view v;

    for (uint32_t i = 0; router_worker_view(w->rig->router, i, &v); i++) {
        if (v.id.v == w->id.v) {
            return v;
        }
    }
    fail_msg("%s is not here", w->name);
    return v;
}
