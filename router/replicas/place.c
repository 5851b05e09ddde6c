#include "router/replicas/place.h"

#include <inttypes.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "router/base/named_numbers.h"

/* Loops over the stages of w that are not closed; over w alone if it has all
 * layers. */
#define EACH_STAGE(s, w)                                 \
    for (uint32_t i_ = 0; i_ < worker_n_stages(w); i_++) \
        if ((s = worker_stage(w, i_)) != NULL)

enum worker_state place_state(const struct worker *w)
{
    enum worker_state worst = WORKER_UP;
    const struct worker *s;

    EACH_STAGE(s, w)
    {
        worst = s->state > worst ? s->state : worst;
    }
    return worst;
}

bool place_ended(const struct worker *w)
{
    const struct worker *s;

    EACH_STAGE(s, w)
    {
        if (s->peer->ended) {
            return true;
        }
    }
    return false;
}

bool place_speaks(const struct worker *w, uint32_t minor)
{
    const struct worker *s;

    EACH_STAGE(s, w)
    {
        if (s->peer->minor < minor) {
            return false;
        }
    }
    return true;
}

bool place_drained(const struct worker *w)
{
    const struct worker *s;

    EACH_STAGE(s, w)
    {
        if (s->drain != DRAIN_NONE) {
            return true;
        }
    }
    return false;
}

bool place_leaves(const struct worker *w)
{
    const struct worker *s;

    EACH_STAGE(s, w)
    {
        if (s->drain == DRAIN_LEAVES) {
            return true;
        }
    }
    return false;
}

/* A class that the leader lacks may exist at a later stage, for instance slots
 * where only later layers are recurrent. */
struct need stages_need(const struct worker *w, uint64_t n_tokens)
{
    struct need need = worker_need(w, n_tokens);
    const struct worker *s;

    EACH_STAGE(s, w)
    {
        struct need n = worker_need(s, n_tokens);

        for (int c = 0; c < FLEET_CLASSES; c++) {
            need.of[c] = n.of[c] > need.of[c] ? n.of[c] : need.of[c];
        }
        if (n.window_blocks > need.window_blocks) {
            need.window_blocks = n.window_blocks;
        }
    }
    return need;
}

struct need place_sum(const struct worker *w, const struct need *need)
{
    struct need sum = {.window_blocks = 0};
    const struct worker *s;

    if (member_of(w)->replica == NULL) {
        return *need;
    }
    EACH_STAGE(s, w)
    {
        struct need n = place_share(s, need);

        for (int c = 0; c < FLEET_CLASSES; c++) {
            sum.of[c] += n.of[c];
        }
    }
    return sum;
}

bool stages_fit_ever(const struct worker *w, uint64_t n_tokens)
{
    const struct worker *s;

    EACH_STAGE(s, w)
    {
        if (!worker_fits_ever(s, n_tokens)) {
            return false;
        }
    }
    return true;
}

bool stages_have_room(const struct worker *w, const struct need *need)
{
    const struct worker *s;

    EACH_STAGE(s, w)
    {
        struct need n = place_share(s, need);

        if (!worker_has_room(s, &n) && !(s != w && PLANT(LEADERS_ROOM))) {
            return false;
        }
    }
    return true;
}

uint64_t place_total(const struct worker *w, enum fleet_class c)
{
    uint64_t least = 0;
    const struct worker *s;

    EACH_STAGE(s, w)
    {
        uint64_t n = s->ledger.classes[c].total;

        least = n > 0 && (least == 0 || n < least) ? n : least;
    }
    return least;
}

typedef uint64_t left_fn(const struct worker *w, enum fleet_class c);

static uint64_t least_left(const struct worker *w, enum fleet_class c,
                           left_fn *left)
{
    uint64_t least = UINT64_MAX;
    const struct worker *s;

    if (member_of(w)->replica == NULL) {
        return left(w, c);
    }
    EACH_STAGE(s, w)
    {
        if (s->ledger.classes[c].total > 0 && left(s, c) < least) {
            least = left(s, c);
        }
    }
    return least == UINT64_MAX ? 0 : least;
}

uint64_t place_room(const struct worker *w, enum fleet_class c)
{
    return least_left(w, c, worker_room);
}

uint64_t place_units(const struct worker *w, enum fleet_class c)
{
    return least_left(w, c, worker_units);
}

/* Returns true if n_tokens tokens exceed the pool of a by more than that of b,
 * in proportion. */
static bool is_tighter(const struct worker *a, const struct worker *b,
                       uint64_t n_tokens)
{
    uint64_t a_pages = worker_need(a, n_tokens).of[PAGES];
    uint64_t b_pages = worker_need(b, n_tokens).of[PAGES];

    return a_pages * b->ledger.classes[PAGES].total >
           b_pages * a->ledger.classes[PAGES].total;
}

const struct worker *place_tightest(const struct worker *w, uint64_t n_tokens)
{
    const struct worker *tightest = NULL, *s;

    EACH_STAGE(s, w)
    {
        if (!worker_fits_ever(s, n_tokens) &&
            (tightest == NULL || is_tighter(s, tightest, n_tokens))) {
            tightest = s;
        }
    }
    return tightest == NULL ? w : tightest;
}

uint64_t stages_grant(struct worker *w, const struct need *need)
{
    struct worker *s;

    EACH_STAGE(s, w)
    {
        struct need n = place_share(s, need);

        (void)worker_grant(s, &n);
    }
    return w->grants.last;
}

/* Both have counted the same Submits since this grant, so the distance to the
 * newest one is equal. */
uint64_t place_grant_at(const struct worker *w, const struct worker *stage,
                        uint64_t grant)
{
    return stage->grants.last - (w->grants.last - grant);
}

void place_more(struct worker *w)
{
    struct worker *s;

    EACH_STAGE(s, w)
    {
        s->n_running++;
    }
}

void place_less(struct replicas *r, struct worker *w)
{
    struct worker *s;

    EACH_STAGE(s, w)
    {
        s->n_running--;
        if (s->drain != DRAIN_NONE && s->n_running == 0) {
            r->fleet->events->drain_empty(r->fleet->above, s);
        }
    }
}

void place_moved(struct worker *w)
{
    struct worker *s;

    EACH_STAGE(s, w)
    {
        s->counts.n_moved++;
    }
}

/* ---- start and end of a place ---- */

static bool is_present(const struct replicas *r, const struct model *m)
{
    for (uint32_t i = 0; i < r->fleet->n_workers; i++) {
        const struct worker *w = r->fleet->workers[i];

        if (w->model == m && worker_can_serve(w) &&
            (!place_drained(w) || place_leaves(w) || w->n_running > 0)) {
            return true;
        }
    }
    return false;
}

void place_update_presence(struct replicas *r, struct model *m)
{
    model_set_present(r->fleet, m, is_present(r, m));
}

/* Returns whether the operator has stated the places of m. */
static bool is_stated(const struct replicas *r, const struct model *m)
{
    const struct router_options *o = &r->fleet->base->options;

    return named_number(o->places, o->n_places, m->name, 0) > 0;
}

void place_begin(struct replicas *r, struct worker *w)
{
    struct model *m = w->model;
    struct router_models *f = model_figures(r->fleet->base, m);
    uint32_t context = worker_context(w);

    w->serves = true;
    if (m->n_places == 0) {
        log_info("model-served", "model=%s context=%" PRIu32, m->name, context);
    }
    if (m->n_places++ == 0 || m->context < context) {
        m->context = context;
    }
    if (!is_stated(r, m) && m->n_places > f->model_places_expected) {
        f->model_places_expected = m->n_places;
    }
    place_update_presence(r, m);
    r->fleet->events->place_opened(r->fleet->above, m);
    model_touch(r->fleet, m);
}

void place_end(struct replicas *r, struct worker *w)
{
    struct model *m = w->model;
    struct router_models *f = model_figures(r->fleet->base, m);

    if (!w->serves) {
        return;
    }
    w->serves = false;
    if (place_drained(w) && !is_stated(r, m) && f->model_places_expected > 0) {
        f->model_places_expected--; /* on purpose */
    }
    /* Without any place, the last context stays: requests that wait for a
     * worker are checked against it. */
    if (--m->n_places > 0) {
        m->context = 0;
    } else if (!r->fleet->base->stopping) {
        log_info("model-unserved", "model=%s waiting=%" PRIu32, m->name,
                 m->n_waiting);
    }
    for (uint32_t i = 0; i < r->fleet->n_workers; i++) {
        const struct worker *other = r->fleet->workers[i];

        if (other->model == m && worker_can_serve(other) &&
            worker_context(other) > m->context) {
            m->context = worker_context(other);
        }
    }
}

void place_await(struct replicas *r, struct worker *w)
{
    struct model *m = w->model;

    m->n_loose++;
    /* An estimate, so that requests can be checked before a replica forms. */
    if (m->context == 0) {
        m->context = w->shard.context;
    }
    place_update_presence(r, m);
    model_touch(r->fleet, m);
}

/* ---- grants ---- */

/* An upper bound of an encoded Submit: SUBMIT_IDS_MAX ids, the lists of its
 * sampling parameters, and the other fields. */
#define SUBMIT_BYTES (60u << 10)

/* Returns why w, as place or stage, may not be granted one more sequence; NULL:
 * it may. */
static const char *refuses_grant(const struct worker *w)
{
    if (w->peer->ended) {
        return "its session has ended";
    }
    if (w->state != WORKER_UP) {
        return w->state == WORKER_SLOW ? "its oldest step is overdue"
                                       : "it is silent";
    }
    if (w->drain != DRAIN_NONE && !PLANT(DRAIN_GRANTS)) {
        return "it drains";
    }
    return w->grants.last - w->ledger.grant < GRANTS_UNSETTLED_MAX
               ? NULL
               : "its ledgers have not settled its newest grants";
}

/* Limits of Submits are checked at the leader only: it alone receives them.  A
 * later stage cannot refuse a sequence and ends the assembly instead. */
const char *place_refuses(const struct worker *w)
{
    if (!worker_can_serve(w)) {
        return "it waits for the other stages of its replica";
    }
    for (uint32_t i = 0; i < worker_n_stages(w); i++) {
        const char *why = refuses_grant(worker_stage(w, i));

        if (why != NULL) {
            return why;
        }
    }
    if (!worker_orphans_known(w)) {
        return "it has not listed the sequences of its earlier session";
    }
    if (w->n_running >= WORKER_LIVE_MAX) {
        return "it has as many sequences as one worker may";
    }
    if (w->grants.closed_until > w->ledger.grant) {
        return "it refused a sequence for want of room";
    }
    return peer_calls_left(w->peer->peer) > 0 &&
                   peer_room(w->peer->peer, LANE_SUBMIT) >= SUBMIT_BYTES
               ? NULL
               : "its link is full";
}

bool place_readmitted(const struct worker *w)
{
    for (uint32_t i = 0; i < worker_n_stages(w); i++) {
        if (!lineage_open(worker_stage(w, i), w->n_running)) {
            return false;
        }
    }
    return true;
}

/* Every stage computes a part of every token, so tokens clear all of them. */
void place_proved(struct replicas *r, struct worker *w)
{
    lineage_made(r->fleet, w, w->counts.n_tokens);
    for (uint32_t i = 1; i < worker_n_stages(w); i++) {
        lineage_made(r->fleet, worker_stage(w, i), w->counts.n_tokens);
    }
}

void place_ended_well(struct replicas *r, struct worker *w)
{
    for (uint32_t i = 0; i < worker_n_stages(w); i++) {
        lineage_ended_well(r->fleet, worker_stage(w, i));
    }
}
