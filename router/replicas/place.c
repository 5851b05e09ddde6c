#include "router/replicas/place.h"

#include "common/base/plant.h"
#include "router/router_state.h"

/* A worker of all layers is asked itself; of a replica, every stage that is
 * still there. */
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

bool place_drained(const struct worker *w)
{
    const struct worker *s;

    EACH_STAGE(s, w)
    {
        if (s->drain.on) {
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
        if (s->drain.leaving) {
            return true;
        }
    }
    return false;
}

struct need stages_need(const struct worker *w, uint64_t n_tokens)
{
    struct need need = worker_need(w, n_tokens);
    const struct worker *s;

    EACH_STAGE(s, w)
    {
        struct need n = worker_need(s, n_tokens);

        for (int c = 0; c < POOL_CLASSES; c++) {
            need.of[c] = n.of[c] > need.of[c] ? n.of[c] : need.of[c];
        }
    }
    return need;
}

struct need place_sum(const struct worker *w, const struct need *need)
{
    struct need sum = {{0}};
    const struct worker *s;

    if (w->replica == NULL) {
        return *need;
    }
    EACH_STAGE(s, w)
    {
        struct need n = place_share(s, need);

        for (int c = 0; c < POOL_CLASSES; c++) {
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

uint64_t place_total(const struct worker *w, enum pool_class c)
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

uint64_t place_room(const struct worker *w, enum pool_class c)
{
    uint64_t least = UINT64_MAX;
    const struct worker *s;

    if (w->replica == NULL) {
        return worker_room(w, c);
    }
    EACH_STAGE(s, w)
    {
        if (s->ledger.classes[c].total > 0 && worker_room(s, c) < least) {
            least = worker_room(s, c);
        }
    }
    return least == UINT64_MAX ? 0 : least;
}

const struct worker *place_tightest(const struct worker *w, uint64_t n_tokens)
{
    const struct worker *least = NULL, *s;

    EACH_STAGE(s, w)
    {
        if (!worker_fits_ever(s, n_tokens) &&
            (least == NULL || s->ledger.classes[BLOCKS].total <
                                  least->ledger.classes[BLOCKS].total)) {
            least = s;
        }
    }
    return least == NULL ? w : least;
}

uint64_t stages_grant(struct worker *w, const struct need *need)
{
    struct worker *s;

    EACH_STAGE(s, w)
    {
        struct need n = place_share(s, need);

        (void)worker_grant(s, &n);
    }
    return w->last_grant;
}

/* Both have counted the same Submits since. */
uint64_t place_grant_at(const struct worker *w, const struct worker *stage,
                        uint64_t grant)
{
    return stage->last_grant - (w->last_grant - grant);
}

void place_more(struct worker *w)
{
    struct worker *s;

    EACH_STAGE(s, w)
    {
        s->n_running++;
    }
}

void place_less(struct router_core *r, struct worker *w)
{
    struct worker *s;

    EACH_STAGE(s, w)
    {
        s->n_running--;
        drain_less(r, s);
    }
}

void place_moved(struct worker *w)
{
    struct worker *s;

    EACH_STAGE(s, w)
    {
        s->n_moved++;
    }
}
