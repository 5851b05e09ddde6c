#include "router/schedule/headroom.h"

#include <assert.h>
#include <inttypes.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "router/replicas/place.h"
#include "router/schedule/admission.h"

/* Sums of rooms or loads.  Blocks and memory are counted in tokens, because
 * places may have blocks of different sizes; a slot takes the tokens of the
 * blocks that its pages would give. */
struct amount {
    uint64_t tokens, slots, memory;
};

/* Sums over the open places of a model. */
struct survey {
    uint32_t n_open, block_tokens; /* block_tokens: of the largest blocks */
    uint64_t slot_tokens;          /* of the slot that takes the most memory */
    bool empty;                    /* no place has a sequence */
    struct amount room;
};

static bool is_open(const struct worker *w)
{
    return worker_can_serve(w) && !place_drained(w) && !place_ended(w);
}

/* Returns the tokens that a slot of one stage takes from its blocks; 0 if the
 * stage has only one of the classes. */
static uint64_t slot_tokens_at(const struct worker *stage)
{
    const struct class_ledger *k = stage->ledger.classes;
    const struct shard *s = &stage->shard;

    return k[BLOCKS].total > 0 && k[SLOTS].total > 0 && s->pages_per_block > 0
               ? (uint64_t)s->pages_per_slot * s->block_tokens /
                     s->pages_per_block
               : 0;
}

static uint64_t slot_tokens_of(const struct worker *w)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < worker_n_stages(w); i++) {
        uint64_t n = slot_tokens_at(worker_stage(w, i));
        most = n > most ? n : most;
    }
    return most;
}

static struct amount amount_of(const struct survey *s, const struct worker *w,
                               uint64_t blocks, uint64_t slots)
{
    uint64_t tokens = blocks * w->shard.block_tokens;

    return (struct amount){tokens, slots, tokens + slots * s->slot_tokens};
}

/* Returns the memory that is left at w, of the stage that has the least: a
 * place whose stages have one class each has the room of both. */
static uint64_t memory_of(const struct worker *w, const struct amount *both)
{
    uint64_t least = both->memory;

    for (uint32_t i = 0; i < worker_n_stages(w); i++) {
        const struct worker *s = worker_stage(w, i);
        uint64_t n = worker_room(s, PAGES) * s->shard.block_tokens;

        if (slot_tokens_at(s) > 0) {
            n /= s->shard.pages_per_block;
            least = n < least ? n : least;
        }
    }
    return least;
}

static struct amount room_of(const struct survey *s, const struct worker *w)
{
    struct amount a = {0, 0, 0};

    if (is_open(w)) {
        a = amount_of(s, w, place_room(w, BLOCKS), place_room(w, SLOTS));
        a.memory = memory_of(w, &a);
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
            uint64_t n = slot_tokens_of(w);
            s.slot_tokens = n > s.slot_tokens ? n : s.slot_tokens;
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
        s.room.slots += room.slots;
        s.room.memory += room.memory;
        if (w->shard.block_tokens > s.block_tokens) {
            s.block_tokens = w->shard.block_tokens;
        }
    }
    return s;
}

/* Returns the most that n sequences with these needs at w can take at other
 * places. */
static struct amount load_elsewhere(const struct survey *s,
                                    const struct worker *w, uint64_t blocks,
                                    uint64_t slots, uint32_t n)
{
    struct amount a = amount_of(s, w, blocks, slots);
    uint64_t more = 0;

    if (blocks > 0) { /* the last block of each sequence may be a larger one */
        more = (uint64_t)n * (s->block_tokens - w->shard.block_tokens);
    }
    a.tokens += more;
    a.memory += more;
    return a;
}

static bool absorbs(const struct amount *load, const struct amount *own,
                    const struct amount *more, const struct amount *room)
{
    return load->tokens + own->tokens + more->tokens <= room->tokens &&
           load->slots + own->slots + more->slots <= room->slots &&
           load->memory + own->memory + more->memory <= room->memory;
}

/* Returns true if the other places could hold the load of v once need is
 * granted at w. movable: the sequence could run at a place other than w, so
 * that it adds to the load of w. */
static bool others_absorb(const struct survey *s, const struct worker *v,
                          const struct worker *w, const struct need *need,
                          bool movable)
{
    bool here = v == w && movable;
    struct amount load = load_elsewhere(
        s, v, v->load[BLOCKS] + (here ? need->of[BLOCKS] : 0),
        v->load[SLOTS] + (here ? need->of[SLOTS] : 0), v->n_load + here);
    struct amount own = room_of(s, v), more = {0, 0, 0};

    if (v != w) {
        more = amount_of(s, w, need->of[BLOCKS], need->of[SLOTS]);
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
        m->headroom_off = false;
        return false;
    }
    if (!m->headroom_off) {
        log_warn("headroom-off", "model=%s workers=%" PRIu32, m->name,
                 s->n_open);
        m->headroom_off = true;
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

        if (v->model == w->model && (v->n_load > 0 || (v == w && movable)) &&
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
        w->n_load++;
        w->load[BLOCKS] += need->of[BLOCKS];
        w->load[SLOTS] += need->of[SLOTS];
    }
}

void headroom_release(struct queue_entry *e)
{
    struct worker *w = e->charged;

    if (w != NULL) {
        e->charged = NULL;
        w->n_load--;
        w->load[BLOCKS] -= e->charge.of[BLOCKS];
        w->load[SLOTS] -= e->charge.of[SLOTS];
    }
}
