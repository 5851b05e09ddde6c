#include "worker/plan/step_room.h"

#include <float.h>
#include <string.h>

#include "common/base/minmax.h"
#include "common/base/plant.h"

void step_room_init(struct step_room *r, bool on, uint32_t target_us)
{
    memset(r, 0, sizeof *r);
    step_cost_init(&r->cost);
    r->on = on;
    r->target_us = target_us;
    r->credit_us = DBL_MAX; /* as much as there may be, once that is known */
}

static double plain_us(const struct step_room *r,
                       const struct step_room_plan *p)
{
    return step_cost_us(&r->cost, p->rows, 0);
}

/* Returns n as tokens, at most p->most.  An estimate may be larger than any
 * integer. */
static uint32_t tokens(const struct step_room_plan *p, double n)
{
    return n < p->most ? (uint32_t)n : p->most;
}

static uint32_t whole(const struct step_room *r, const struct step_room_plan *p)
{
    double plain = plain_us(r, p), token = step_cost_terms(&r->cost).prompt;
    double more = 1.0 / (ROOM_LOSS - 1);
    double per = token * more + (1 + more) * plain / p->most;
    uint32_t n = per > 0 ? tokens(p, plain / per) : p->most;

    return min_u32(n + (p->cut - n % p->cut) % p->cut, p->most);
}

static double target_us(const struct step_room *r,
                        const struct step_room_plan *p)
{
    return p->halved ? r->target_us / 2.0 : r->target_us;
}

/* Returns the most tokens within the target. */
static uint32_t within(const struct step_room *r,
                       const struct step_room_plan *p)
{
    double left = target_us(r, p) - plain_us(r, p);
    double token = step_cost_terms(&r->cost).prompt;

    if (r->target_us == 0 || !p->decodes || PLANT(TARGET_IGNORED)) {
        return p->most;
    }
    /* Decode alone takes longer: prompts get their cut all the same. */
    if (left <= 0) {
        return 0;
    }
    return token > 0 ? tokens(p, left / token) : p->most;
}

uint32_t step_room_tokens(struct step_room *r, const struct step_room_plan *p)
{
    uint32_t n = p->most;

    if (r->on && step_cost_known(&r->cost) && p->most > p->cut) {
        n = max_u32(p->cut, min_u32(whole(r, p), within(r, p)));
    }
    r->n_bounded += n < p->most;
    r->n_tokens = n;
    return n;
}

static void limit_credit(struct step_room *r, const struct step_room_plan *p)
{
    double most = ROOM_CREDIT * plain_us(r, p);

    if (r->credit_us > most) {
        r->credit_us = most;
    }
}

bool step_room_apart(struct step_room *r, const struct step_room_plan *p,
                     uint32_t n, uint32_t room)
{
    double cost;

    if (!r->on || !step_cost_known(&r->cost) || n >= room) {
        return false;
    }
    limit_credit(r, p);
    cost = plain_us(r, p) * (room - n) / room;
    if (cost > r->credit_us) {
        return false;
    }
    r->credit_us -= cost;
    r->n_apart++;
    return true;
}

void step_room_note(struct step_room *r, const struct step_room_plan *p,
                    uint32_t n)
{
    if (n > 0 && step_cost_known(&r->cost)) {
        r->credit_us += step_cost_us(&r->cost, p->rows, n) / ROOM_SPEND;
        limit_credit(r, p);
    }
}

bool step_room_exceeds(const struct step_room *r,
                       const struct step_room_plan *p, uint32_t n)
{
    double us = step_cost_us(&r->cost, p->rows, n);

    return r->on && r->target_us > 0 && step_cost_known(&r->cost) &&
           p->decodes && n > p->cut && us > target_us(r, p) * 1.001 + 1;
}
