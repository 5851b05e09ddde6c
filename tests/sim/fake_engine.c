#include "tests/sim/fake_engine_internal.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#define LONG_US (5 * 1000000)

static void *zeroed(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);

    if (!p) {
        abort();
    }
    return p;
}

static uint64_t plan_hash(const struct plan *p)
{
    uint64_t h = XXH3_64bits_withSeed(p->tokens, p->n_tokens * 4, p->step);

    h = XXH3_64bits_withSeed(p->blocks, p->n_blocks * 4, h + p->n_rows);
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *r = &p->rows[i];

        h = mix64(h ^ r->sequence) + r->position + r->n_tokens + r->slot +
            r->block + r->index;
        h += mix64(r->history.n + (uint64_t)r->history.pages.root * 3);
    }
    return h;
}

static int64_t duration(struct fake_engine *e, const struct plan *p)
{
    const struct worker_draw *d = e->draw;
    int64_t us = rng_range(&e->rng, d->step_us / 2 + 1, d->step_us * 2);

    for (uint32_t i = 0; i < p->n_rows; i++) {
        us += (int64_t)d->token_us * p->rows[i].n_tokens;
    }
    us = rng_chance(&e->rng, d->slow_of) ? us * 30 : us;
    return d->long_of && rng_chance(&e->rng, d->long_of)
               ? rng_octave(&e->rng, LONG_US, 3 * LONG_US)
               : us;
}

/* The plan may stand still for a while in its middle, mostly for too long. */
static void draw_stand(struct fake_engine *e, struct flown *f)
{
    uint32_t of = e->draw->stand_of;

    if (of && !e->sim->calm && sim_now(e->sim) > e->stand_us + e->stood_us &&
        rng_chance(&e->rng, of)) {
        f->stand_us = e->stand_us = f->start_us + f->took_us / 2;
        f->stood_us = e->stood_us = rng_octave(&e->rng, 200000, 30000000);
        f->took_us += f->stood_us;
        sim_log(e->sim, "engine %u is about to stand still for %lld us", e->w,
                (long long)f->stood_us);
    }
}

int64_t fake_engine_stood_us(const struct fake_engine *e, int64_t *ago_us)
{
    int64_t now = sim_now(e->sim), until = e->stand_us + e->stood_us;

    *ago_us = now > until ? now - until : 0;
    return (now < until ? now : until) - e->stand_us;
}

static void write_cells(struct fake_engine *e, const struct plan *p,
                        const struct plan_row *r, const uint32_t *tokens)
{
    uint32_t bt = e->draw->block_tokens;

    for (uint32_t i = 0; i < r->n_tokens; i++) {
        uint32_t at = r->position + i;
        uint32_t block = p->blocks[r->block + at / bt];

        e->cells[(size_t)block * bt + at % bt] =
            (struct cell){tokens[i], at << 1 | r->kind};
    }
}

/* The whole history, as the table reaches it. */
static uint64_t attend(struct fake_engine *e, const struct plan *p,
                       const struct plan_row *r)
{
    uint32_t bt = e->draw->block_tokens;
    uint64_t a = 0;

    for (uint32_t at = 0; at < r->position + r->n_tokens; at++) {
        uint32_t block = p->blocks[r->block + at / bt];
        const struct cell *c = &e->cells[(size_t)block * bt + at % bt];

        if (c->where >> 1 != at &&
            !fake_engine_track(e, r->sequence)->tainted) {
            fake_engine_wrong(e, r, "a row reads a cell that is not its own");
        }
        a = oracle_attend(a, c->token, c->where >> 1, c->where & 1);
    }
    return a;
}

static uint64_t advance(struct fake_engine *e, const struct plan_row *r,
                        const uint32_t *tokens)
{
    struct slot_state *s = &e->slots[r->slot];

    if (s->n != r->position && !fake_engine_track(e, r->sequence)->tainted) {
        fake_engine_wrong(e, r, "a row continues a state that is not its own");
    }
    for (uint32_t i = 0; i < r->n_tokens; i++) {
        s->hash = oracle_advance(s->hash, tokens[i], r->kind);
    }
    s->n += r->n_tokens;
    return s->hash;
}

static uint64_t place(uint32_t token, uint32_t position)
{
    return mix64((uint64_t)position << 32 | token);
}

/* These ids have been run: what its history must be from now on. */
static void note_ids(struct tracked *t, const struct plan_row *r,
                     const uint32_t *tokens)
{
    for (uint32_t i = 0; i < r->n_tokens; i++) {
        t->ids += place(tokens[i], r->position + i);
    }
    t->n += r->n_tokens;
    t->n_prompt += r->kind == ROW_PROMPT ? r->n_tokens : 0;
}

static uint32_t history_id(const struct id_pages *p, uint32_t i)
{
    uint32_t page = p->memory[(p->root << p->shift) + (i >> p->shift)];

    return p->memory[(page << p->shift) + (i & ((1u << p->shift) - 1))];
}

/* What the penalties of a row look at, read as the plan has it; and is it the
 * ids that were run? */
static uint64_t remember(struct fake_engine *e, const struct plan_row *r,
                         uint32_t chained)
{
    const struct plan_history *y = &r->history;
    const struct tracked *t = fake_engine_track(e, r->sequence);
    uint64_t h = 0, ids = 0;

    for (uint32_t i = 0; i < y->n; i++) {
        uint32_t id = history_id(&y->pages, i);

        h = oracle_remember(h, id,
                            i < y->n_prompt ? ROW_PROMPT : ROW_GENERATED);
        ids += place(id, i);
    }
    if (r->chained) {
        h = oracle_remember(h, chained, ROW_GENERATED);
        ids += place(chained, y->n);
        e->sim->counts.cells.deeds[DEED_CHAINED_PENALTIES]++;
    }
    if (t->tainted) {
        return h;
    }
    if (y->n + r->chained != t->n || y->n_prompt != t->n_prompt) {
        fake_engine_wrong(e, r, "a history of another length");
    } else if (ids != t->ids) {
        fake_engine_wrong(e, r, "a history of other ids");
    }
    return h;
}

static void choose(struct fake_engine *e, const struct plan_row *r,
                   struct oracle *o, uint32_t chained, struct plan_result *out,
                   uint32_t row)
{
    const struct sampling *p = r->sampling;

    if (sampling_penalises(p)) {
        o->h = remember(e, r, chained);
    } else if (r->history.n) {
        fake_engine_wrong(e, r, "a history without penalties");
    }
    out->tokens[row] = oracle_next(o, e->model, p, r->choice, r->index);
    if (p->logprobs) {
        out->logprobs[row] = oracle_logprobs(o, e->model, out->tokens[row],
                                             p->n_top_logprobs, out->top[row]);
    }
}

static void run_row(struct fake_engine *e, const struct plan *p, uint32_t row,
                    struct plan_result *out)
{
    const struct plan_row *r = &p->rows[row];
    uint32_t chained = r->chained ? e->before.tokens[r->chain_row] : 0;
    const uint32_t *tokens = r->chained ? &chained : &p->tokens[r->token];
    struct oracle o = {0};

    if (r->chained && e->before.status != ST_OK) {
        fake_engine_track(e, r->sequence)->tainted = true;
        chained = 1;
    }
    note_ids(fake_engine_track(e, r->sequence), r, tokens);
    if (e->model->attention) {
        write_cells(e, p, r, tokens);
        o.a = r->sample ? attend(e, p, r) : 0;
    }
    if (e->model->linear) {
        o.s = advance(e, r, tokens);
    }
    out->tokens[row] = TOKEN_NONE;
    if (r->sample) {
        choose(e, r, &o, chained, out, row);
    }
}

static void break_rows(struct fake_engine *e, const struct plan *p)
{
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *r = &p->rows[i];

        fake_engine_track(e, r->sequence)->tainted = true;
        for (uint32_t k = 0; k < r->n_blocks; k++) {
            fake_engine_scribble(e, p->blocks[r->block + k]);
        }
        if (r->slot != SLOT_NONE) {
            e->slots[r->slot] = (struct slot_state){0x0bad, UINT32_MAX / 2};
        }
    }
}

static void run_plan(struct fake_engine *e, const struct plan *p,
                     struct plan_result *out)
{
    out->step = p->step;
    out->status = ST_OK;
    out->lost = false;
    out->hidden = NULL;
    out->n_rows = p->n_rows;
    for (uint32_t i = 0; i < p->n_zero; i++) {
        e->slots[p->zero_slots[i]] = (struct slot_state){0};
    }
    if (!e->sim->calm && rng_chance(&e->rng, e->draw->fail_of)) {
        e->sim->counts.failed_plans++;
        break_rows(e, p);
        (void)error_set(&out->error, ST_INTERNAL, "the fake device is broken");
        out->status = ST_INTERNAL;
        return;
    }
    for (uint32_t i = 0; i < p->n_rows; i++) {
        run_row(e, p, i, out);
    }
}

/* What it runs kills its worker, or it dies by itself. */
static bool dies(struct fake_engine *e, const struct plan *p)
{
    uint32_t node = SIM_FIRST_WORKER + e->w;

    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *r = &p->rows[i];
        struct generation *g = generation_poison(e->sim, r->sampling->seed);

        if (g && g->poison &&
            (g->poison_at == 0 || (r->sample && r->index == g->poison_at))) {
            auditor_poisoned(e->sim, node, &g->choices[r->choice]);
            return true;
        }
    }
    if (e->sim->options.crash[e->w] == CRASH_STEP &&
        node_crashes(e->sim, node)) {
        e->sim->counts.cells.deeds[DEED_CRASHED]++;
        return true;
    }
    return false;
}

static void note_pace(struct sim *s, const struct flown *f)
{
    s->counts.cells.deeds[DEED_LONG_STEP] +=
        f->took_us >= LONG_US && !f->stood_us;
    s->counts.cells.deeds[DEED_STOOD] +=
        f->stood_us > 500000 && f->stood_us < 1000000;
}

/* The oldest plan that is not done is. */
static void finish(struct sim *s, uint32_t w, uint64_t life)
{
    struct fake_engine *e = s->engines[w];
    uint32_t i = 0;

    if (!e || s->nodes[SIM_FIRST_WORKER + w].life != life) {
        return;
    }
    while (i < e->n_flying && e->flying[i].done) {
        i++;
    }
    if (plan_hash(e->flying[i].plan) != e->flying[i].hash) {
        fake_engine_wrong(e, NULL, "changed while in flight");
        return;
    }
    if (dies(e, e->flying[i].plan)) {
        faults_crash(s, SIM_FIRST_WORKER + w);
        return;
    }
    run_plan(e, e->flying[i].plan, &e->ready[i]);
    e->ready[i].device_us = (uint32_t)e->flying[i].took_us;
    note_pace(s, &e->flying[i]);
    e->before.status = e->ready[i].status;
    memcpy(e->before.tokens, e->ready[i].tokens,
           e->ready[i].n_rows * sizeof(*e->before.tokens));
    e->flying[i].done = true;
    e->finished++;
    s->counts.plans++;
    node_soon(s, SIM_FIRST_WORKER + w);
}

static enum status fake_submit(struct engine *seam, const struct plan *p)
{
    struct fake_engine *e = (struct fake_engine *)seam;
    struct sim *s = e->sim;
    struct flown f = {.plan = p,
                      .start_us =
                          e->free_us > sim_now(s) ? e->free_us : sim_now(s)};

    if (e->n_flying >= e->draw->depth) {
        return ST_RESOURCE_EXHAUSTED;
    }
    fake_engine_check(e, p);
    if (s->failed) {
        return ST_RESOURCE_EXHAUSTED;
    }
    memcpy(e->last_rows, p->rows, p->n_rows * sizeof(*p->rows));
    e->n_last_rows = p->n_rows;
    f.hash = plan_hash(p);
    f.took_us = duration(e, p);
    draw_stand(e, &f);
    e->free_us = f.start_us + f.took_us;
    e->flying[e->n_flying++] = f;
    clock_add(&s->clock, e->free_us, finish, e->w,
              s->nodes[SIM_FIRST_WORKER + e->w].life);
    return ST_OK;
}

static void let_go(struct fake_engine *e, const struct plan *p)
{
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *r = &p->rows[i];

        for (uint32_t k = 0; k < r->n_blocks; k++) {
            e->named_blocks -=
                --e->block_of[p->blocks[r->block + k]].plans == 0;
        }
        if (r->slot != SLOT_NONE) {
            e->named_slots -= --e->slot_of[r->slot].plans == 0;
        }
    }
}

/* A result is 100 KB, most of it of rows that are not there. */
static void take_result(struct plan_result *to, const struct plan_result *from)
{
    size_t n = from->n_rows;

    memcpy(to, from, offsetof(struct plan_result, tokens));
    to->device_us = from->device_us;
    memcpy(to->tokens, from->tokens, n * sizeof(*to->tokens));
    memcpy(to->logprobs, from->logprobs, n * sizeof(*to->logprobs));
    memcpy(to->top, from->top, n * sizeof(*to->top));
}

static bool fake_poll(struct engine *seam, struct plan_result *out)
{
    struct fake_engine *e = (struct fake_engine *)seam;

    if (e->n_flying == 0 || !e->flying[0].done) {
        return false;
    }
    take_result(out, &e->ready[0]);
    let_go(e, e->flying[0].plan);
    e->n_flying--;
    e->flying[0] = e->flying[1];
    if (e->n_flying && e->flying[0].done) {
        take_result(&e->ready[0], &e->ready[1]);
    }
    return true;
}

static uint64_t fake_progress(struct engine *seam)
{
    struct fake_engine *e = (struct fake_engine *)seam;
    uint64_t ticks = e->finished << 20;

    for (uint32_t i = 0; i < e->n_flying; i++) {
        const struct flown *f = &e->flying[i];
        int64_t now = sim_now(e->sim), ran = now - f->start_us;

        if (f->stood_us && now > f->stand_us) {
            int64_t stood = now - f->stand_us;

            ran -= stood < f->stood_us ? stood : f->stood_us;
        }
        if (!f->done && ran > 0) {
            ticks += (uint64_t)ran / 200;
        }
    }
    return ticks;
}

static const struct engine_ops fake_ops = {
    .submit = fake_submit, .poll = fake_poll, .progress = fake_progress};

struct fake_engine *fake_engine_new(struct sim *s, uint32_t w)
{
    struct fake_engine *e = malloc(sizeof(*e));
    const struct worker_draw *d = &s->options.workers[w];

    if (!e) {
        abort();
    }
    memset(e, 0, offsetof(struct fake_engine, last_rows));
    e->before.status = ST_OK;
    e->seam.ops = &fake_ops;
    e->sim = s;
    e->w = w;
    e->draw = d;
    e->model = &s->options.models[d->model];
    rng_init(&e->rng, s->seed, 100 + s->nodes[SIM_FIRST_WORKER + w].life);
    e->cells = zeroed((size_t)d->n_blocks * d->block_tokens, sizeof(*e->cells));
    e->slots = zeroed(d->n_slots, sizeof(*e->slots));
    e->block_of = zeroed(d->n_blocks, sizeof(*e->block_of));
    e->slot_of = zeroed(d->n_slots, sizeof(*e->slot_of));
    for (uint32_t i = 0; i < d->n_blocks; i++) {
        fake_engine_scribble(e, i);
        e->block_of[i].sequence = UINT64_MAX;
    }
    for (uint32_t i = 0; i < d->n_slots; i++) {
        e->slots[i] = (struct slot_state){0x0bad, UINT32_MAX / 2};
        e->slot_of[i].sequence = UINT64_MAX;
    }
    return e;
}

void fake_engine_free(struct fake_engine **ep)
{
    struct fake_engine *e = *ep;

    *ep = NULL;
    if (e) {
        free(e->cells);
        free(e->slots);
        free(e->block_of);
        free(e->slot_of);
        free(e);
    }
}

struct engine *fake_engine_seam(struct fake_engine *e)
{
    return &e->seam;
}

uint32_t fake_engine_named_blocks(const struct fake_engine *e)
{
    return e->named_blocks;
}

uint32_t fake_engine_named_slots(const struct fake_engine *e)
{
    return e->named_slots;
}
