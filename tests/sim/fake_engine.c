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

static uint64_t hash_copies(const struct plan_copy *c, uint32_t n, uint64_t h)
{
    for (uint32_t i = 0; i < n; i++) {
        h = mix64(h ^ c[i].from) + c[i].n + (uint64_t)c[i].kind * 7;
    }
    return h;
}

/* Hashes everything that the engine may read. */
static uint64_t plan_hash(const struct fake_engine *e, const struct plan *p)
{
    uint64_t h = p->step;

    h = fake_engine_takes_hidden(e)
            ? XXH3_64bits_withSeed(
                  p->hidden, (size_t)p->n_tokens * FAKE_HIDDEN * sizeof(float),
                  h)
            : XXH3_64bits_withSeed(p->tokens, p->n_tokens * 4, h);
    h = XXH3_64bits_withSeed(p->blocks, p->n_blocks * 4, h + p->n_rows);
    h = hash_copies(p->before, p->n_before, h);
    h = hash_copies(p->after, p->n_after, h);
    h = hash_copies(p->poison, p->n_poison, h);
    for (uint32_t i = 0; i < p->n_saves; i++) {
        h = mix64(h ^ p->saves[i].position) + p->saves[i].page;
    }
    for (uint32_t i = 0; i < p->n_replays; i++) {
        h = mix64(h ^ p->replays[i].slot) + p->replays[i].keep_at +
            ((uint64_t)p->replays[i].n_tokens << 32);
    }
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *r = &p->rows[i];

        h = mix64(h ^ r->sequence) + r->position + r->n_tokens + r->slot +
            r->block + r->index + r->source + r->save + r->n_saves;
        h += mix64((uint64_t)r->n_drafts << 40 | (uint64_t)r->propose << 32 |
                   (uint64_t)r->mtp << 31) *
                 (r->n_drafts + r->propose + r->mtp) +
             r->next + r->keep + r->keep_at;
        h += mix64((uint64_t)r->window << 40 | (uint64_t)r->n_window << 20 |
                   r->window_first);
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

/* Draws whether the plan stalls in its middle, usually for too long. */
static void draw_stand(struct fake_engine *e, struct flown *f)
{
    uint32_t of = e->draw->stand_of;

    if (of && !e->sim->calm && sim_now(e->sim) > e->stand_us + e->stood_us &&
        rng_chance(&e->rng, of)) {
        e->stand_before_us = e->stand_us;
        e->stood_before_us = e->stood_us;
        f->stand_us = e->stand_us = f->start_us + f->took_us / 2;
        f->stood_us = e->stood_us = rng_octave(&e->rng, 200000, 30000000);
        f->took_us += f->stood_us;
        replicas_stands(e->sim, SIM_FIRST_WORKER + e->w);
        sim_log(e->sim, "engine %u will stall for %lld us", e->w,
                (long long)f->stood_us);
    }
}

int64_t fake_engine_stood_us(const struct fake_engine *e, int64_t *ago_us)
{
    int64_t now = sim_now(e->sim), until = e->stand_us + e->stood_us;

    *ago_us = now > until ? now - until : 0;
    return (now < until ? now : until) - e->stand_us;
}

bool fake_engine_stood_lately(const struct fake_engine *e, int64_t least_us,
                              int64_t ago_us)
{
    int64_t ago, us = fake_engine_stood_us(e, &ago);
    int64_t before_us = e->stand_before_us + e->stood_before_us;

    return (us >= least_us && ago < ago_us) ||
           (e->stood_before_us >= least_us &&
            sim_now(e->sim) - before_us < ago_us);
}

/* With several stages, a poison or a damage always shows at the same one: the
 * first or the last. */
bool fake_engine_shows(const struct fake_engine *e,
                       const struct sim_request *request)
{
    return request->number % 2 ? !fake_engine_takes_hidden(e)
                               : !fake_engine_gives_hidden(e);
}

/* Returns whether the worker dies: of a sequence that it runs, or by itself. */
static bool dies(struct fake_engine *e, const struct plan *p)
{
    uint32_t node = SIM_FIRST_WORKER + e->w;

    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *r = &p->rows[i];
        struct sim_request *request =
            r->sampling ? sim_request_poison(e->sim, r->sampling->seed) : NULL;

        if (request && request->poison && fake_engine_shows(e, request) &&
            (request->poison_at == 0 ||
             (r->sample && request->poison_at >= r->index &&
              request->poison_at - r->index <= r->n_drafts))) {
            auditor_poisoned(e->sim, node, &request->choices[r->choice]);
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

/* Completes the oldest plan that is not done. */
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
    if (plan_hash(e, e->flying[i].plan) != e->flying[i].hash) {
        fake_engine_wrong(e, NULL, "plan changed while in flight");
        return;
    }
    if (dies(e, e->flying[i].plan)) {
        faults_crash(s, SIM_FIRST_WORKER + w);
        return;
    }
    fake_engine_run(e, e->flying[i].plan, e->flying[i].alone, &e->ready[i]);
    e->ready[i].device_us = (uint32_t)e->flying[i].took_us;
    e->ready[i].draft_us =
        e->ready[i].draft_us > 0 ? e->ready[i].device_us / 8 : 0;
    note_pace(s, &e->flying[i]);
    e->before.status = e->ready[i].status;
    memcpy(e->before.tokens, e->ready[i].tokens,
           e->ready[i].n_rows * sizeof(*e->before.tokens));
    e->flying[i].done = true;
    e->finished++;
    s->counts.plans++;
    node_soon(s, SIM_FIRST_WORKER + w);
}

/* Returns whether the core would not end a sequence of the plan if the plan
 * were refused: none is computed again, here or by a plan whose result it has
 * not. */
static bool may_refuse(struct fake_engine *e, const struct plan *p)
{
    bool ok = p->n_rows > 1 && !e->sim->calm;

    for (uint32_t i = 0; i < e->n_flying && ok; i++) {
        ok = !e->flying[i].alone;
    }
    for (uint32_t i = 0; i < p->n_rows && ok; i++) {
        const struct tracked *t = fake_engine_track(e, p->rows[i].sequence);

        ok = !t->again && !t->refused && p->rows[i].position >= t->next;
    }
    return ok;
}

/* Returns whether the plan is refused, without any effect.  Half of those with
 * copies are, because they are rare, and the core must not lose the copies. */
static bool refuses(struct fake_engine *e, const struct plan *p)
{
    uint32_t of = e->pool->refuse_of;
    bool refused =
        of && may_refuse(e, p) && rng_chance(&e->rng, p->n_before ? 5000 : of);

    for (uint32_t i = 0; i < p->n_rows && refused; i++) {
        fake_engine_track(e, p->rows[i].sequence)->refused = true;
    }
    e->sim->counts.cells.deeds[DEED_PLAN_REFUSED] += refused;
    return refused;
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
    if (refuses(e, p)) {
        return ST_RESOURCE_EXHAUSTED;
    }
    f.named = e->flying[e->n_flying].named;
    f.cap_named = e->flying[e->n_flying].cap_named;
    fake_engine_check(e, p, &f);
    if (s->failed) {
        e->flying[e->n_flying] = f;
        return ST_RESOURCE_EXHAUSTED;
    }
    memcpy(e->last_rows, p->rows, p->n_rows * sizeof(*p->rows));
    e->n_last_rows = p->n_rows;
    f.hash = plan_hash(e, p);
    f.took_us = duration(e, p);
    draw_stand(e, &f);
    e->free_us = f.start_us + f.took_us;
    e->flying[e->n_flying++] = f;
    clock_add(&s->clock, e->free_us, finish, e->w,
              s->nodes[SIM_FIRST_WORKER + e->w].life);
    return ST_OK;
}

/* Copies the used rows only: a result is 100 KB, mostly unused rows. */
static void take_result(struct plan_result *to, const struct plan_result *from,
                        const struct plan *p)
{
    size_t n = from->n_rows;

    memcpy(to, from, offsetof(struct plan_result, tokens));
    to->device_us = from->device_us;
    memcpy(to->tokens, from->tokens, n * sizeof(*to->tokens));
    memcpy(to->outcomes, from->outcomes, n * sizeof(*to->outcomes));
    memcpy(to->logprobs, from->logprobs, n * sizeof(*to->logprobs));
    memcpy(to->top, from->top, n * sizeof(*to->top));
    fake_drafts_take(to, from, p);
}

/* Clears the hidden states of the previous result. */
static void forget_hidden(struct fake_engine *e)
{
    size_t floats = (size_t)e->draw->step_tokens * FAKE_HIDDEN;

    if (e->hidden && e->polled) {
        memset(e->hidden + (e->polled - 1) % HIDDEN_RING * floats, 0,
               floats * sizeof(float));
    }
}

static bool fake_poll(struct engine *seam, struct plan_result *out)
{
    struct fake_engine *e = (struct fake_engine *)seam;
    struct flown first;

    if (e->n_flying == 0 || !e->flying[0].done) {
        return false;
    }
    forget_hidden(e);
    take_result(out, &e->ready[0], e->flying[0].plan);
    fake_memory_let_go(e, &e->flying[0]);
    e->polled++;
    e->n_flying--;
    first = e->flying[0];
    e->flying[0] = e->flying[1];
    e->flying[1] = first; /* its array is used again */
    if (e->n_flying && e->flying[0].done) {
        take_result(&e->ready[0], &e->ready[1], e->flying[0].plan);
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
    memset(e, 0, offsetof(struct fake_engine, tracked));
    e->before.status = ST_OK;
    e->seam.ops = &fake_ops;
    e->sim = s;
    e->w = w;
    e->draw = d;
    e->pool = &s->options.pools.workers[w];
    e->model = &s->options.models[d->model];
    e->shard = options_shard(&s->options, w);
    rng_init(&e->rng, s->seed, 100 + s->nodes[SIM_FIRST_WORKER + w].life);
    e->per_slot = e->shard.linear ? e->pool->pages_per_slot : 0;
    e->tables = e->shard.windows ? s->options.windows.tables[w] : 0;
    e->n_memory = e->pool->n_pages + e->pool->host_pages;
    e->pages = zeroed(e->n_memory, sizeof(*e->pages));
    if (e->shard.attention || e->tables > 0) {
        e->cells =
            zeroed((size_t)e->n_memory * d->block_tokens, sizeof(*e->cells));
    }
    if (fake_engine_gives_hidden(e)) {
        uint32_t n = s->options.drafts.keep_tokens[w];

        e->kept = zeroed(n, sizeof(*e->kept));
        for (uint32_t i = 0; i < n; i++) {
            e->kept[i].sequence = NOBODY;
        }
        e->hidden = zeroed((size_t)HIDDEN_RING * d->step_tokens,
                           FAKE_HIDDEN * sizeof(float));
    }
    fake_memory_spoil(e, 0, e->n_memory, PAGE_GARBAGE);
    for (uint32_t i = 0; i < e->n_memory; i++) {
        e->pages[i].sequence = NOBODY;
        e->pages[i].request = NO_REQUEST;
    }
    return e;
}

void fake_engine_free(struct fake_engine **ep)
{
    struct fake_engine *e = *ep;

    *ep = NULL;
    if (e) {
        for (uint32_t i = 0; i < ENGINE_DEPTH_MAX; i++) {
            free(e->flying[i].named);
        }
        free(e->pages);
        free(e->cells);
        free(e->hidden);
        free(e->kept);
        free(e);
    }
}

struct engine *fake_engine_seam(struct fake_engine *e)
{
    return &e->seam;
}

uint32_t fake_engine_named(const struct fake_engine *e)
{
    return e->n_named;
}

uint32_t fake_engine_rows(const struct fake_engine *e)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < e->n_flying; i++) {
        n += e->flying[i].plan->n_rows;
    }
    return n;
}
