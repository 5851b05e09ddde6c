#include "tests/sim/sessions.h"

#include "tests/sim/sim.h"

#define THINK_US 200000

/* Returns the ids of a choice that has ended: its prompt and tokens. */
static uint32_t ids_of(const struct sim_request *request, uint32_t choice)
{
    return request->n_prompt + request->choices[choice].n_got;
}

static bool is_whole(const struct sim_choice *c)
{
    return c->finish == SLUICE__V1__FINISH__FINISH_STOP ||
           c->finish == SLUICE__V1__FINISH__FINISH_LENGTH;
}

static void follow(struct sim *s, uint32_t number, uint64_t what)
{
    const struct sim_request *old = &s->requests[number];
    uint32_t choice = (uint32_t)what / 2;

    actor_follow(s, number, choice, ids_of(old, choice), what % 2 != 0);
}

static void cut(struct sim *s, uint32_t number, uint64_t choice)
{
    const struct sim_request *old = &s->requests[number];
    uint32_t n = ids_of(old, (uint32_t)choice);

    if (n > 1) {
        control_ask_range(s, old->client, number, (uint32_t)choice,
                          (uint32_t)rng_range(&s->will, 1, n - 1));
    }
}

/* Memory is kept unless a stop string ended the choice, which cancels it at its
 * worker. */
void sessions_ended(struct sim *s, struct sim_request *request)
{
    const struct prompt_draw *d = &s->options.pools.prompts;
    uint32_t choice = (uint32_t)rng_below(&s->will, request->n_choices);
    bool kept = request->keep_ms > 0 && !request->choices[choice].stopped;
    int64_t at_us = sim_now(s) + rng_octave(&s->will, 1, THINK_US);

    if (request->status != ST_OK || request->defect != DEFECT_NONE ||
        request->web || request->again || request->shared || s->closing ||
        !is_whole(&request->choices[choice])) {
        return;
    }
    if (kept && rng_chance(&s->will, d->range_of)) {
        clock_add(&s->clock, at_us, cut, request->number, choice);
    } else if (kept && rng_chance(&s->will, d->continue_of)) {
        clock_add(&s->clock, at_us, follow, request->number, choice * 2 + 1);
    } else if (rng_chance(&s->will, d->session_of)) {
        clock_add(&s->clock, at_us, follow, request->number, choice * 2);
    }
}

void sessions_cut(struct sim *s, uint32_t number, uint32_t choice,
                  uint32_t known)
{
    s->requests[number].cut = true;
    if (!s->closing && rng_below(&s->will, 4)) {
        actor_follow(s, number, choice, known, true);
    }
}
