#include "router/fleet/lineage.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include <xxhash.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "common/base/state_machine.h"
#include "router/fleet/fleet.h"
#include "router/fleet/workers.h"

static bool is_expired(const struct fleet *fleet, const struct lineage *l)
{
    return fleet->base->now_us - l->died_us >= LINEAGE_QUIET_US;
}

static struct lineage *find_lineage(struct fleet *fleet, const char *name)
{
    for (uint32_t i = 0; i < fleet->lineages.n; i++) {
        struct lineage *l = &fleet->lineages.of[i];
        if (strcmp(l->name, name) == 0) {
            return is_expired(fleet, l) ? NULL : l;
        }
    }
    return NULL;
}

/* Returns the entry of a name, expired or not, or else an entry that the name
 * may overwrite.  The oldest death is the one whose backoff matters least. */
static struct lineage *find_or_evict(struct fleet *fleet, const char *name)
{
    struct lineages *all = &fleet->lineages;
    struct lineage *oldest = &all->of[0];

    for (uint32_t i = 0; i < all->n; i++) {
        struct lineage *l = &all->of[i];
        if (strcmp(l->name, name) == 0) {
            return l;
        }
        oldest = l->died_us < oldest->died_us ? l : oldest;
    }
    return all->n < LINEAGES_MAX ? &all->of[all->n++] : oldest;
}

/* The shift is checked first: 2^31 s is above READMIT_US_MAX by far, and a
 * larger shift would overflow.  The random part keeps workers that crashed
 * together from being readmitted together. */
static int64_t readmit_delay_us(struct fleet *fleet, uint32_t n_barren)
{
    int64_t us = READMIT_US_MAX;

    if (n_barren - 2 < 31 && (1000000ll << (n_barren - 2)) < us) {
        us = 1000000ll << (n_barren - 2);
    }
    return us + (int64_t)(fleet->base->io->random(fleet->base->io) %
                          (uint64_t)(us / 8));
}

/* The picture in lineage.h as a table. */
static const struct sm_row life_rows[LIFE_STATES] = {
    [LIFE_OPEN] = {"open", SM_TO(LIFE_DELAYED)},
    [LIFE_DELAYED] = {"delayed", SM_TO(LIFE_PROBATION) | SM_TO(LIFE_OPEN)},
    [LIFE_PROBATION] = {"probation", SM_TO(LIFE_OPEN)},
};

static void move(struct worker *w, enum life_state to)
{
    sm_check(life_rows, w->life.state, to, "life", w->peer->name);
    w->life.state = to;
}

bool lineage_probation(const struct worker *w)
{
    return w->life.state != LIFE_OPEN;
}

bool lineage_delayed(const struct worker *w)
{
    return w->life.state == LIFE_DELAYED;
}

static void readmit_fire(void *room, struct event *e)
{
    struct fleet *fleet = room;
    struct worker *w = EVENT_OF(e, struct worker, life.readmit);

    move(w, LIFE_PROBATION);
    model_touch(fleet, w->model);
    if (!PLANT(READMIT_UNLOOKED)) {
        fleet->events->readmitted(fleet->above);
    }
}

static void put_on_probation(struct fleet *fleet, struct worker *w)
{
    int64_t wait_us = readmit_delay_us(fleet, w->life.n_barren);

    move(w, LIFE_DELAYED);
    event_init(&w->life.readmit, readmit_fire, fleet);
    event_set(fleet->base, &w->life.readmit, fleet->base->now_us + wait_us);
    log_warn("worker-probation",
             "worker=%s lineage=%s barren=%" PRIu32 " readmit_ms=%" PRId64,
             w->peer->name, w->life.lineage, w->life.n_barren, wait_us / 1000);
}

static void name_lineage(struct worker *w, const Sluice__V1__WorkerShard *s)
{
    struct life *f = &w->life;

    memcpy(f->lineage, w->peer->lineage, sizeof f->lineage);
    /* Trials compare lineages by this hash, where 0 stands for none. */
    f->hash = XXH3_64bits(f->lineage, strlen(f->lineage)) | 1;
    f->number = s->has_life ? s->life : 0;
}

/* A worker connects again when its engine has made progress, so it was ended
 * too early. */
static void note_return(struct worker *w, struct lineage *l)
{
    if (l->life == 0 || l->life != w->life.number) {
        return;
    }
    if (l->hung && l->n_returns < HUNG_RETURNS_MAX) {
        l->n_returns++;
    }
    l->hung = false;
    w->live.n_returns = l->n_returns;
}

void lineage_begin(struct fleet *fleet, struct worker *w,
                   const Sluice__V1__WorkerShard *s)
{
    struct lineage *l;

    name_lineage(w, s);
    l = find_lineage(fleet, w->life.lineage);
    if (l == NULL) {
        return;
    }
    note_return(w, l);
    /* The same process is back, so only its session had ended. */
    if (l->life != 0 && l->life == w->life.number && !l->sure) {
        l->n_barren = l->n_before;
        l->sure = true; /* a death is taken back once */
        fleet->events->life_went_on(fleet->above, l->life);
    }
    w->life.n_barren = l->n_barren;
    if (w->life.n_barren >= 2) {
        put_on_probation(fleet, w);
    }
}

bool lineage_open(const struct worker *w, uint32_t n_running)
{
    if (!lineage_probation(w) || PLANT(PROBATION_IGNORED)) {
        return true;
    }
    return w->life.state == LIFE_PROBATION && n_running == 0;
}

static void reset_barren(struct fleet *fleet, struct worker *w)
{
    struct lineage *l;

    if (w->life.good) {
        return;
    }
    w->life.good = true;
    w->life.n_barren = 0;
    l = find_lineage(fleet, w->life.lineage);
    if (l != NULL) {
        l->n_barren = l->n_before = 0;
    }
}

static void end_probation(struct fleet *fleet, struct worker *w)
{
    if (lineage_probation(w)) {
        move(w, LIFE_OPEN);
        event_clear(fleet->base, &w->life.readmit);
        model_touch(fleet, w->model);
        log_info("worker-readmitted", "worker=%s lineage=%s", w->peer->name,
                 w->life.lineage);
    }
}

void lineage_made(struct fleet *fleet, struct worker *w, uint64_t n_tokens)
{
    if (n_tokens >= TRIAL_TOKENS) {
        end_probation(fleet, w);
    }
    if (n_tokens >= LIFE_TOKENS) {
        reset_barren(fleet, w);
    }
}

void lineage_ended_well(struct fleet *fleet, struct worker *w)
{
    end_probation(fleet, w);
    reset_barren(fleet, w);
}

void lineage_end(struct fleet *fleet, struct worker *w, bool charged)
{
    bool barren = !w->life.good && !charged;
    struct lineage *l;

    event_clear(fleet->base, &w->life.readmit);
    if (w->death == DEATH_NONE) {
        return;
    }
    l = find_or_evict(fleet, w->life.lineage);
    if (strcmp(l->name, w->life.lineage) != 0 || is_expired(fleet, l)) {
        *l = (struct lineage){.n_barren = 0};
        memcpy(l->name, w->life.lineage, sizeof l->name);
    }
    /* n_before lets lineage_begin() take this death back.  A hung worker is
     * fenced for a fault of its own, so its death counts even if the same life
     * comes back. */
    l->n_returns = l->life == w->life.number ? l->n_returns : 0;
    l->hung = w->death == DEATH_HUNG;
    l->n_before = l->n_barren;
    l->n_barren += barren;
    l->life = w->life.number;
    l->sure = w->death == DEATH_HUNG;
    l->died_us = fleet->base->now_us;
    fleet->base->metrics.barren_lives += barren;
}

uint32_t lineage_readmit_ms(const struct fleet *fleet, const struct worker *w)
{
    int64_t left_us = w->life.readmit.timer.due_us - fleet->base->now_us;

    return lineage_delayed(w) && left_us > 0
               ? (uint32_t)((left_us + 999) / 1000)
               : 0;
}
