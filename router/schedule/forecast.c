#include "router/schedule/forecast.h"

#include <string.h>

#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "router/replicas/place.h"

#define MILLION 1000000

/* Returns horizon k: 8, 12, 16, 24, ... */
static uint32_t horizon(uint32_t k)
{
    return (k % 2 == 0 ? 8u : 12u) << (k / 2);
}

/* A sequence as a forecast sees it. */
struct outlook {
    const struct worker *w;
    struct lengths *lengths;
    uint32_t n_prompt, n, max_tokens;
    uint64_t share; /* of all, those that are longer than n */
    uint64_t held;  /* pages that it returns when it ends */
};

static struct outlook outlook_of(const struct queue_entry *e,
                                 const struct worker *w, const struct claim *c,
                                 uint32_t n)
{
    struct outlook o = {.w = w,
                        .lengths = lengths_for(e),
                        .n_prompt = e->n_prompt,
                        .n = n,
                        .max_tokens = entry_max_tokens(e)};
    uint64_t now = place_need(w, (uint64_t)e->n_prompt + n).of[PAGES];

    o.share = lengths_share(o.lengths, n);
    o.held = max_u64(now, c->need.of[PAGES]);
    return o;
}

/* Returns the pages of o after n_steps if it still runs then, and in *p the
 * probability of that, of LENGTHS_ONE.  before: the steps until the horizon
 * before, past which it ends at max_tokens. */
static uint64_t pages_at(const struct outlook *o, uint32_t before,
                         uint32_t n_steps, uint64_t *p)
{
    uint64_t n = min_u64((uint64_t)o->n + n_steps, o->max_tokens);
    uint64_t pages;

    if ((uint64_t)o->n + before >= o->max_tokens) {
        *p = 0;
        return 0;
    }
    *p = LENGTHS_ONE;
    if (o->share > 0) {
        uint32_t alive = (uint32_t)min_u64(n, o->max_tokens - 1);

        *p =
            lengths_share(o->lengths, alive) * (uint64_t)LENGTHS_ONE / o->share;
    }
    pages = place_need(o->w, o->n_prompt + n).of[PAGES];
    return max_u64(pages, o->held);
}

/* Adds o, which starts at horizon `start` and holds nothing before. */
static void add_from(struct forecast *f, const struct outlook *o,
                     uint32_t start)
{
    uint32_t first = horizon(start), before = first;

    for (uint32_t k = start; k < FORECAST_HORIZONS; k++) {
        uint64_t p, pages = pages_at(o, before - first, horizon(k) - first, &p);

        f->mean[k] += (int64_t)(p * pages);
        f->variance[k] += pages * pages * (p * (LENGTHS_ONE - p) / LENGTHS_ONE);
        before = horizon(k);
    }
}

static void add(struct forecast *f, const struct outlook *o)
{
    uint64_t most =
        place_need(o->w, (uint64_t)o->n_prompt + o->max_tokens).of[PAGES];

    f->greatest += most > o->held ? most - o->held : 0;
    for (uint32_t k = 0; k < FORECAST_HORIZONS; k++) {
        uint32_t before = k > 0 ? horizon(k - 1) : 0;
        uint64_t p, pages = pages_at(o, before, horizon(k), &p);

        f->mean[k] += (int64_t)(p * pages) - (int64_t)(o->held * LENGTHS_ONE);
        f->variance[k] += pages * pages * (p * (LENGTHS_ONE - p) / LENGTHS_ONE);
    }
}

/* Returns what e, which may grow, has not taken yet of its expected need, as it
 * was seen last. */
static struct need growth_of(const struct queue_entry *e,
                             const struct worker *w)
{
    const struct need *all = &e->claim.expected, *had = &e->claim.need;
    struct need has = place_need(w, (uint64_t)e->n_prompt + e->n_seen);
    struct need out = {.window_blocks = 0};
    uint64_t n = max_u64(has.window_blocks, had->window_blocks);

    if (!e->claim.grows) {
        return out;
    }
    out.window_blocks = all->window_blocks - min_u64(all->window_blocks, n);
    for (int c = 0; c < FLEET_CLASSES; c++) {
        n = max_u64(has.of[c], had->of[c]);
        out.of[c] = all->of[c] - min_u64(all->of[c], n);
    }
    return out;
}

static void add_growth(struct forecast *f, const struct need *n)
{
    f->growth.window_blocks += n->window_blocks;
    for (int c = 0; c < FLEET_CLASSES; c++) {
        f->growth.of[c] += n->of[c];
    }
}

static void take_growth(struct forecast *f, const struct need *n)
{
    f->growth.window_blocks -=
        min_u64(f->growth.window_blocks, n->window_blocks);
    for (int c = 0; c < FLEET_CLASSES; c++) {
        f->growth.of[c] -= min_u64(f->growth.of[c], n->of[c]);
    }
}

/* Adds one to f, or takes it out. */
static void combine(struct forecast *f, const struct forecast *one, bool in)
{
    f->greatest = in ? f->greatest + one->greatest
                     : f->greatest - min_u64(f->greatest, one->greatest);
    for (uint32_t k = 0; k < FORECAST_HORIZONS; k++) {
        uint64_t v = one->variance[k];

        f->mean[k] += in ? one->mean[k] : -one->mean[k];
        f->variance[k] += in ? v : -min_u64(f->variance[k], v);
    }
}

/* Returns the forecast of o alone: of those at equal places, one is made. */
static const struct forecast *alone(const struct queue_entry *e,
                                    const struct outlook *o)
{
    struct forecast_memo *m = &scheduling_of(e->model)->memo;
    const struct shard *s = &o->w->shard;
    struct forecast_key key;

    memset(&key, 0, sizeof key);
    key.lengths = o->lengths;
    key.version = o->lengths->version;
    key.held = o->held;
    key.replica = member_of(o->w)->replica;
    key.n_prompt = o->n_prompt;
    key.n = o->n;
    key.max_tokens = o->max_tokens;
    key.block_tokens = s->block_tokens;
    key.pages_per_block = s->pages_per_block;
    key.pages_per_slot = s->pages_per_slot;
    key.window_tokens = s->window_tokens;
    key.window_pages = s->window_pages;
    key.chunk_tokens = o->w->chunk_tokens;
    if (memcmp(&m->key, &key, sizeof key) != 0) {
        m->key = key;
        m->one = (struct forecast){.made = true};
        add(&m->one, o);
    }
    return &m->one;
}

static const struct forecast *forecast_of(const struct worker *w)
{
    struct place_charges *at = charges_of(w);
    struct forecast *f = &at->forecast;

    if (f->made && f->n_since <= (uint64_t)FORECAST_STALE * at->n_granted) {
        return f;
    }
    *f = (struct forecast){.made = true};
    for (struct list *l = at->granted.next; l != &at->granted; l = l->next) {
        struct queue_entry *e = LIST_OF(l, struct queue_entry, granted);
        struct outlook o = outlook_of(e, w, &e->claim, e->n_made);
        struct need growth;

        e->n_seen = e->n_made;
        growth = growth_of(e, w);
        add(f, &o);
        add_growth(f, &growth);
    }
    return f;
}

/* Adds e to the forecast of w, or takes it out as it was seen last.  The
 * learned lengths have changed a little since: the next forecast forgets the
 * rest. */
static void change(const struct queue_entry *e, const struct worker *w, bool in)
{
    struct forecast *f = &charges_of(w)->forecast;
    struct outlook o = outlook_of(e, w, &e->claim, e->n_seen);
    struct need growth = growth_of(e, w);

    if (f->made) {
        combine(f, alone(e, &o), in);
        (in ? add_growth : take_growth)(f, &growth);
    }
}

void forecast_add(struct queue_entry *e, struct worker *w)
{
    e->n_made = e->n_seen = e->n_generated;
    list_append(&charges_of(w)->granted, &e->granted);
    change(e, w, true);
}

void forecast_remove(struct queue_entry *e)
{
    if (e->committed != NULL) {
        list_remove(&e->granted);
        change(e, e->committed, false);
    }
}

void forecast_made(struct queue_entry *e, uint32_t n_made)
{
    if (e->committed != NULL && n_made > e->n_made) {
        charges_of(e->committed)->forecast.n_since += n_made - e->n_made;
    }
    e->n_made = n_made;
}

/* All counts are whole numbers below 2^63; the products in double differ by a
 * rounding at most. */
static bool sum_within(int64_t mean, uint64_t variance, uint64_t room,
                       uint32_t margin)
{
    double z = (double)margin / FORECAST_ONE;
    double left = (double)room - (double)mean / LENGTHS_ONE;

    return left >= 0 && left * left >= z * z * ((double)variance / LENGTHS_ONE);
}

static bool within(const struct forecast *f, uint32_t k, uint64_t room,
                   uint32_t margin)
{
    return sum_within(f->mean[k], f->variance[k], room, margin);
}

struct need forecast_growth(const struct worker *w)
{
    return forecast_of(w)->growth;
}

bool forecast_fits(const struct queue_entry *e, const struct worker *w,
                   const struct claim *c)
{
    struct outlook o = outlook_of(e, w, c, e->n_generated);
    uint64_t room = place_room(w, PAGES);
    uint32_t margin = scheduling_of(e->model)->margin;
    const struct forecast *f, *one;

    if (room < o.held) {
        return false;
    }
    room -= o.held;
    f = forecast_of(w);
    one = alone(e, &o);
    if (f->greatest + one->greatest <= room || PLANT(FORECAST_IGNORED)) {
        return true;
    }
    for (uint32_t k = 0; k < FORECAST_HORIZONS; k++) {
        if (!sum_within(f->mean[k] + one->mean[k],
                        f->variance[k] + one->variance[k], room, margin)) {
            return false;
        }
    }
    return true;
}

static bool within_from(const struct forecast *f, uint32_t k, uint64_t room)
{
    while (k < FORECAST_HORIZONS && within(f, k, room, FORECAST_ONE)) {
        k++;
    }
    return k == FORECAST_HORIZONS;
}

uint32_t forecast_steps(uint32_t k)
{
    return horizon(k);
}

uint32_t forecast_start(const struct queue_entry *e, const struct worker *w,
                        const struct claim *c)
{
    struct outlook o = outlook_of(e, w, c, e->n_generated);
    uint64_t room = place_room(w, PAGES);

    for (uint32_t k = 0; k < FORECAST_HORIZONS; k++) {
        struct forecast f = *forecast_of(w);

        add_from(&f, &o, k);
        if (within_from(&f, k, room)) {
            return k;
        }
    }
    return FORECAST_HORIZONS;
}

bool forecast_leaves(const struct queue_entry *e, const struct claim *c,
                     const struct worker *w, const struct queue_entry *first,
                     const struct claim *claim_of_first, uint32_t k)
{
    struct outlook o = outlook_of(e, w, c, e->n_generated);
    struct outlook later =
        outlook_of(first, w, claim_of_first, first->n_generated);
    struct forecast f = *forecast_of(w);
    uint64_t room = place_room(w, PAGES);

    if (k == FORECAST_HORIZONS || room < o.held) {
        return false;
    }
    add(&f, &o);
    add_from(&f, &later, k);
    return within_from(&f, k, room - o.held);
}

void forecast_suspended(struct queue_entry *e)
{
    struct model_scheduling *m = scheduling_of(e->model);

    if (!e->was_suspended) {
        e->was_suspended = true;
        m->margin = min_u32(m->margin + FORECAST_STEP, FORECAST_MOST);
    }
}

void forecast_ended(const struct schedule *s, const struct queue_entry *e)
{
    struct model_scheduling *m = scheduling_of(e->model);
    uint64_t target = s->base->options.suspensions;
    uint32_t step = (uint32_t)(FORECAST_STEP * target / (MILLION - target));

    if (!e->was_suspended) {
        m->margin = m->margin > FORECAST_LEAST + step ? m->margin - step
                                                      : FORECAST_LEAST;
    }
}
