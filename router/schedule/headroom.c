#include "router/schedule/headroom.h"

#include <assert.h>
#include <inttypes.h>

#include "common/base/log.h"
#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "router/replicas/place.h"
#include "router/schedule/admission.h"
#include "router/schedule/forecast.h"

/* Sums of rooms or loads.  Blocks, window blocks and memory are counted in
 * tokens, because places may have blocks of different sizes; in memory, slots
 * and window blocks take the tokens of the blocks that their pages would give.
 */
struct amount {
    uint64_t tokens, windows, slots, memory;
};

/* Sums over the open places of a model. */
struct survey {
    uint32_t n_open, block_tokens; /* block_tokens: of the largest blocks */
    uint32_t chunk_tokens;         /* the longest */
    uint64_t slot_tokens;          /* of the slot that takes the most memory */
    uint64_t window_pages; /* of the largest window block beside blocks */
    bool empty;            /* no place has a sequence */
    struct amount room;
};

static bool is_open(const struct worker *w)
{
    return worker_can_serve(w) && !place_drained(w) && !place_ended(w);
}

/* Returns true if several classes of the stage share its pages. */
static bool is_mixed(const struct worker *stage)
{
    const struct class_ledger *k = stage->ledger.classes;

    return (k[BLOCKS].total > 0 && stage->shard.pages_per_block > 0) +
               (k[SLOTS].total > 0) + (k[WINDOWS].total > 0) >
           1;
}

/* Returns the tokens of so many pages of the stage, at a page for a block. */
static uint64_t page_tokens(const struct worker *stage, uint64_t pages)
{
    const struct shard *s = &stage->shard;

    return pages * s->block_tokens /
           (s->pages_per_block > 0 ? s->pages_per_block : 1);
}

/* Returns the tokens that a slot of one stage takes from its blocks and
 * windows; 0 if the stage has only one of the classes. */
static uint64_t slot_tokens_at(const struct worker *stage)
{
    return is_mixed(stage) && stage->ledger.classes[SLOTS].total > 0
               ? page_tokens(stage, stage->shard.pages_per_slot)
               : 0;
}

/* Adds the slots and window blocks of the stages of w to the survey. */
static void survey_units(struct survey *s, const struct worker *w)
{
    for (uint32_t i = 0; i < worker_n_stages(w); i++) {
        const struct worker *stage = worker_stage(w, i);

        s->slot_tokens = max_u64(s->slot_tokens, slot_tokens_at(stage));
        if (is_mixed(stage)) {
            s->window_pages =
                max_u64(s->window_pages, stage->shard.window_pages);
        }
    }
}

static struct amount amount_of(const struct survey *s, const struct worker *w,
                               const struct need *need)
{
    uint64_t tokens = need->of[BLOCKS] * w->shard.block_tokens;
    uint64_t windows = need->window_blocks * w->shard.block_tokens;

    return (struct amount){tokens, windows, need->of[SLOTS],
                           tokens + windows * s->window_pages +
                               need->of[SLOTS] * s->slot_tokens};
}

/* Returns the memory that is left at w, of the stage that has the least: a
 * place whose stages have one class each has the room of both. */
static uint64_t memory_of(const struct worker *w, const struct amount *both)
{
    uint64_t least = both->memory;

    for (uint32_t i = 0; i < worker_n_stages(w); i++) {
        const struct worker *s = worker_stage(w, i);
        uint64_t n = page_tokens(s, worker_room(s, PAGES));

        if (is_mixed(s)) {
            least = n < least ? n : least;
        }
    }
    return least;
}

/* Returns the window blocks that fit at the stage of w that has the least room
 * for them; 0 if none has window layers. */
static uint64_t window_room(const struct worker *w)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < worker_n_stages(w); i++) {
        const struct worker *s = worker_stage(w, i);

        if (s->shard.window_pages > 0) {
            uint64_t n = worker_room(s, WINDOWS) / s->shard.window_pages;
            least = n < least ? n : least;
        }
    }
    return least == UINT64_MAX ? 0 : least;
}

static void take_least(uint64_t *from, uint64_t n)
{
    *from -= min_u64(*from, n);
}

/* Takes out of the room of w what its sequences are expected to grow into. */
static void leave_growth(const struct survey *s, const struct worker *w,
                         struct amount *room)
{
    struct need growth = forecast_growth(w);
    struct amount a = amount_of(s, w, &growth);

    take_least(&room->tokens, a.tokens);
    take_least(&room->windows, a.windows);
    take_least(&room->memory, a.memory);
}

static struct amount room_of(const struct survey *s, const struct worker *w)
{
    struct amount a = {0, 0, 0, 0};

    if (is_open(w)) {
        struct need room = {.of = {[BLOCKS] = place_room(w, BLOCKS),
                                   [SLOTS] = place_room(w, SLOTS)},
                            .window_blocks = window_room(w)};

        a = amount_of(s, w, &room);
        a.memory = memory_of(w, &a);
        leave_growth(s, w, &a);
    }
    return a;
}

static struct survey survey_model(const struct fleet *fleet,
                                  const struct model *m)
{
    struct survey s = {.empty = true};

    for (uint32_t i = 0; i < fleet->n_workers; i++) {
        const struct worker *w = fleet->workers[i];

        if (w->model == m && is_open(w)) {
            survey_units(&s, w);
        }
    }
    for (uint32_t i = 0; i < fleet->n_workers; i++) {
        const struct worker *w = fleet->workers[i];
        struct amount room;

        if (w->model != m) {
            continue;
        }
        room = room_of(&s, w);
        s.n_open += is_open(w);
        s.empty = s.empty && w->n_running == 0;
        s.room.tokens += room.tokens;
        s.room.windows += room.windows;
        s.room.slots += room.slots;
        s.room.memory += room.memory;
        if (w->shard.block_tokens > s.block_tokens) {
            s.block_tokens = w->shard.block_tokens;
        }
        if (w->chunk_tokens > s.chunk_tokens) {
            s.chunk_tokens = w->chunk_tokens;
        }
    }
    return s;
}

/* Returns the most that n sequences with these needs at w can take at other
 * places. */
static struct amount load_elsewhere(const struct survey *s,
                                    const struct worker *w,
                                    const struct need *load, uint32_t n)
{
    struct amount a = amount_of(s, w, load);
    uint64_t block = s->block_tokens;
    uint64_t more = n * (block - w->shard.block_tokens);
    uint64_t longer = s->chunk_tokens - w->chunk_tokens;

    /* The last block of each sequence may be a larger one, and so may the first
     * and the last of its window, which has a chunk that may be longer. */
    if (load->of[BLOCKS] > 0) {
        a.tokens += more;
        a.memory += more;
    }
    if (load->window_blocks > 0) {
        more = 2 * more + n * ((longer + block - 1) / block * block);
        a.windows += more;
        a.memory += more * s->window_pages;
    }
    return a;
}

static bool absorbs(const struct amount *load, const struct amount *own,
                    const struct amount *more, const struct amount *room)
{
    return load->tokens + own->tokens + more->tokens <= room->tokens &&
           load->windows + own->windows + more->windows <= room->windows &&
           load->slots + own->slots + more->slots <= room->slots &&
           load->memory + own->memory + more->memory <= room->memory;
}

static void add_need(struct need *sum, const struct need *n)
{
    for (int c = 0; c < FLEET_CLASSES; c++) {
        sum->of[c] += n->of[c];
    }
    sum->window_blocks += n->window_blocks;
}

static void take_need(struct need *sum, const struct need *n)
{
    for (int c = 0; c < FLEET_CLASSES; c++) {
        sum->of[c] -= n->of[c];
    }
    sum->window_blocks -= n->window_blocks;
}

/* Returns true if the other places could hold the load of v once need is
 * granted at w. movable: the sequence could run at a place other than w, so
 * that it adds to the load of w. */
static bool others_absorb(const struct survey *s, const struct worker *v,
                          const struct worker *w, const struct need *need,
                          bool movable)
{
    bool here = v == w && movable;
    struct need sum = charges_of(v)->load;
    struct amount load, own = room_of(s, v), more = {0, 0, 0, 0};

    if (here) {
        add_need(&sum, need);
    }
    load = load_elsewhere(s, v, &sum, charges_of(v)->n_load + here);
    if (v != w) {
        more = amount_of(s, w, need);
    }
    /* s->room is the sum over all places, so the room of v itself is added on
     * the left: that is the same as leaving it out on the right, without a
     * second sum. */
    return absorbs(&load, &own, &more, &s->room);
}

/* With one open place the rule would forbid every grant, so it is off.  Logs
 * the change once. */
static bool is_alone(struct model *m, const struct survey *s)
{
    if (s->n_open >= 2) {
        scheduling_of(m)->headroom_off = false;
        return false;
    }
    if (!scheduling_of(m)->headroom_off) {
        log_warn("headroom-off", "model=%s workers=%" PRIu32, m->name,
                 s->n_open);
        scheduling_of(m)->headroom_off = true;
    }
    return true;
}

bool headroom_allows(struct schedule *s, const struct queue_entry *e,
                     const struct worker *w, const struct need *need)
{
    const struct fleet *fleet = s->fleet;
    struct survey survey;
    bool movable;

    /* Room for a sequence that ran before was kept free by earlier
     * decisions. */
    if (!s->base->options.headroom || PLANT(NO_HEADROOM) || e->ran) {
        return true;
    }
    survey = survey_model(fleet, w->model);
    if (is_alone(w->model, &survey) || survey.empty) {
        return true;
    }
    movable = admission_elsewhere(fleet, e->model, e->n_tokens, w);
    for (uint32_t i = 0; i < fleet->n_workers; i++) {
        const struct worker *v = fleet->workers[i];

        if (v->model == w->model &&
            (charges_of(v)->n_load > 0 || (v == w && movable)) &&
            !others_absorb(&survey, v, w, need, movable)) {
            return false;
        }
    }
    return true;
}

void headroom_charge(struct schedule *s, struct queue_entry *e,
                     struct worker *w, const struct need *need)
{
    /* The charge is stored in the entry: workers come and go, so whether
     * another place could hold e may have changed by the time it is
     * released. */
    assert(e->charged == NULL);
    if (s->base->options.headroom &&
        admission_elsewhere(s->fleet, e->model, e->n_tokens, w)) {
        e->charged = w;
        e->charge = *need;
        charges_of(w)->n_load++;
        add_need(&charges_of(w)->load, need);
    }
}

void headroom_release(struct queue_entry *e)
{
    struct worker *w = e->charged;

    if (w != NULL) {
        e->charged = NULL;
        charges_of(w)->n_load--;
        take_need(&charges_of(w)->load, &e->charge);
    }
}
