#include "router/schedule/predict.h"

#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "router/replicas/place.h"
#include "router/schedule/bypass.h"
#include "router/schedule/fair.h"
#include "router/schedule/routing.h"

#define NS_PER_US 1000
/* No sum of times is greater: 100 days. */
#define NS_MAX ((uint64_t)8640000 * 1000000000)
/* The share of a work that is done in a ns, of a work of 1 ns. */
#define RATE_ONE ((uint64_t)1 << 53)

/* Prompts that the compute share of a model is of. */
#define COMPUTE_WINDOW 1000000

static struct step_cost cost_of(const struct worker *w)
{
    const struct place_charges *at = charges_of(w);

    return at->cost.chunk > 0
               ? at->cost
               : costs_among(&at->costs, &scheduling_of(w->model)->costs);
}

static uint64_t backlog_of(const struct place_charges *at)
{
    return at->n_backlog - min_u64(at->n_backlog, at->n_computed);
}

void predict_step(struct worker *w, uint32_t us, uint32_t n_rows,
                  uint32_t n_prompt_tokens)
{
    struct place_charges *at = charges_of(w);
    struct costs *all = &scheduling_of(w->model)->costs;
    struct step_seen x = {us, n_rows, n_prompt_tokens, false};

    at->n_computed = min_u64(at->n_computed + n_prompt_tokens, at->n_backlog);
    x.more = backlog_of(at) > n_prompt_tokens;
    costs_add(&at->costs, &x);
    costs_add(all, &x);
    /* A place with few steps has the cost of its siblings, which changes. */
    if (at->costs.plain.n >= COSTS_LEAST) {
        at->cost = costs_among(&at->costs, all);
    }
}

uint32_t predict_rows(const struct worker *w)
{
    const struct place_charges *at = charges_of(w);
    uint32_t n = at->n_granted;

    n -= min_u32(n, at->n_computing);
    return PLANT(DECODES_FREE) ? 0 : n - min_u32(n, w->ledger.n_suspended);
}

static int64_t us_of(uint64_t ns)
{
    return (int64_t)(min_u64(ns, NS_MAX) / NS_PER_US);
}

/* Predicts a sequence that is granted at w in wait_us. */
static struct prediction at_place(const struct worker *w, int64_t wait_us,
                                  uint64_t n_compute, uint32_t n_output)
{
    struct step_cost c = cost_of(w);
    uint32_t rows = predict_rows(w), most = w->shard.max_rows;
    uint32_t all = rows + charges_of(w)->n_computing + 1;
    uint64_t before_ns =
        costs_prompt_ns(&c, backlog_of(charges_of(w)), rows, most);
    uint64_t step_ns = costs_step_ns(&c, all, most);
    struct prediction p = {.wait_us = wait_us};

    /* Prompts that run there now are done while it waits. */
    p.prompt_us = max_i64(wait_us, us_of(before_ns)) +
                  us_of(costs_prompt_ns(&c, n_compute, rows, most));
    p.first_us = p.prompt_us + us_of(costs_step_ns(&c, rows, most));
    p.end_us = p.first_us;
    if (n_output > 1) {
        p.end_us += us_of(min_u64(step_ns, NS_MAX / n_output) * (n_output - 1));
        p.others_us = us_of(min_u64((all - 1) * c.row_ns, NS_MAX / n_output) *
                            (n_output - 1));
    }
    return p;
}

struct prediction predict_at(const struct worker *w, uint64_t n_compute,
                             uint32_t n_output)
{
    return at_place(w, 0, n_compute, n_output);
}

int64_t predict_grain_us(const struct model *m)
{
    const struct costs *all = &scheduling_of(m)->costs;
    struct step_cost c = costs_among(all, all);

    return max_i64(us_of(PREFIX_UNIT * (c.token_ns + c.base_ns / c.chunk)), 1);
}

uint32_t predict_output(const struct queue_entry *e)
{
    return lengths_mean(lengths_for(e), e->n_generated, entry_max_tokens(e));
}

int64_t predict_steps_us(const struct worker *w, uint32_t n_steps)
{
    struct step_cost c = cost_of(w);
    uint64_t ns =
        costs_step_ns(&c, max_u32(predict_rows(w), 1), w->shard.max_rows);

    return us_of(min_u64(ns, NS_MAX / (n_steps + 1)) * n_steps);
}

/* ---- queues ---- */

static bool takes(const struct worker *w, const struct model *m,
                  uint64_t n_tokens)
{
    return w->model == m && worker_can_serve(w) && !place_drained(w) &&
           !place_ended(w) && place_fits_ever(w, n_tokens);
}

/* Returns n prompt tokens less those that are usually restored. */
static uint64_t to_compute(const struct model *m, uint64_t n)
{
    const struct model_scheduling *s = scheduling_of(m);

    return s->n_granted == 0 ? n
                             : (uint64_t)((double)n * ((double)s->n_compute /
                                                       (double)s->n_granted));
}

/* Entries of a queue that no run of it has seen. */
struct burst {
    uint64_t n, n_tokens; /* entries, and the mean of their tokens; n = 0: a run
                           * has found the queue without room */
};

/* Returns the sequences of n_tokens tokens for which w has room now. */
static uint64_t room_for(const struct worker *w, uint64_t n_tokens)
{
    struct need one = place_need(w, n_tokens);
    uint64_t n = UINT64_MAX;

    for (int c = 0; c < FLEET_CLASSES; c++) {
        if (one.of[c] > 0) {
            n = min_u64(n, place_units(w, (enum fleet_class)c) / one.of[c]);
        }
    }
    return n == UINT64_MAX ? 0 : n;
}

/* Returns the time that the places of m need for so much work, less the share
 * of it that finds room at once, in us. */
static int64_t work_us(const struct schedule *s, const struct model *m,
                       uint64_t n_prompt, uint64_t n_output,
                       const struct burst *b)
{
    uint64_t n_compute = to_compute(m, n_prompt);
    uint64_t rate = 0, n_room = 0;
    double share = 1;

    for (uint32_t i = 0; i < s->fleet->n_workers; i++) {
        const struct worker *w = s->fleet->workers[i];
        struct step_cost c;
        uint64_t ns, n, room;

        if (!takes(w, m, 0)) {
            continue;
        }
        c = cost_of(w);
        room = b->n > 0 ? min_u64(room_for(w, b->n_tokens), b->n) : 0;
        n_room += room;
        n = max_u64(charges_of(w)->n_granted + room, 1);
        ns = n_compute * c.token_ns +
             costs_step_ns(&c, (uint32_t)n, w->shard.max_rows) / n * n_output;
        rate += RATE_ONE / max_u64(ns, 1);
    }
    if (rate == 0) {
        return PREDICT_NEVER;
    }
    if (n_room > 0) {
        share -= (double)min_u64(n_room, b->n) / (double)b->n;
    }
    return (int64_t)(share * (double)us_of(RATE_ONE / rate));
}

/* Returns the time until an entry with this start and this work has room, in
 * us. */
static int64_t queue_us(const struct schedule *s, const struct model *m,
                        uint64_t start, uint64_t n_prompt, uint64_t n_output)
{
    const struct work *x = &scheduling_of(m)->waiting;
    uint64_t before = m->n_waiting > 0 ? fair_ahead(m, start) : 0;
    double share =
        x->cost > 0 ? (double)min_u64(before, x->cost) / (double)x->cost : 0;
    struct burst b = {.n = 0};

    n_prompt += (uint64_t)(share * (double)x->n_prompt);
    n_output += (uint64_t)(share * (double)x->n_output);
    if (!scheduling_of(m)->blocked) {
        b.n = 1 + (uint64_t)(share * m->n_waiting);
        b.n_tokens = (n_prompt + n_output) / b.n;
    }
    return work_us(s, m, n_prompt, n_output, &b);
}

/* Returns the earliest prediction over the places of e's model where e is
 * granted in wait_us. */
static struct prediction earliest(const struct schedule *s,
                                  const struct queue_entry *e, int64_t wait_us)
{
    struct prediction best = {.wait_us = PREDICT_NEVER,
                              .prompt_us = PREDICT_NEVER,
                              .first_us = PREDICT_NEVER,
                              .end_us = PREDICT_NEVER};
    uint64_t n_compute =
        to_compute(e->model, (uint64_t)e->n_prompt + e->n_generated);
    uint32_t n_output = predict_output(e);

    for (uint32_t i = 0; i < s->fleet->n_workers; i++) {
        const struct worker *w = s->fleet->workers[i];
        struct prediction p;

        if (takes(w, e->model, e->n_tokens)) {
            p = at_place(w, wait_us, n_compute, n_output);
            best = p.end_us < best.end_us ? p : best;
        }
    }
    return best;
}

struct prediction predict_waiting(struct schedule *s,
                                  const struct queue_entry *e)
{
    int64_t us = queue_us(s, e->model, e->turn.start, e->work.n_prompt,
                          e->work.n_output);

    return earliest(s, e, us == PREDICT_NEVER ? 0 : us);
}

struct prediction predict_arrival(struct schedule *s, const struct newcomer *x)
{
    struct prefix_prompt none = {.units = NULL};
    struct model *m = x->model;
    struct queue_entry e = {.model = m,
                            .tenant = x->tenant,
                            .group.route = x->route,
                            .n_prompt = x->n_prompt,
                            .n_tokens = (uint64_t)x->n_prompt + x->max_tokens,
                            .prompt = &none};
    int64_t us = 0;

    length_groups_seek(&scheduling_of(m)->lengths, x->tenant, &e.group);
    if (m->n_waiting > 0 || !routing_possible(s, &e)) {
        us = queue_us(s, m, fair_start(m, x->tenant, x->tier), x->n_prompt,
                      predict_output(&e));
    }
    return earliest(s, &e, us == PREDICT_NEVER ? 0 : us);
}

void predict_entered(struct queue_entry *e)
{
    struct work *x = &scheduling_of(e->model)->waiting;

    e->work = (struct work){(uint64_t)e->n_prompt + e->n_generated,
                            predict_output(e), e->turn.cost};
    x->n_prompt += e->work.n_prompt;
    x->n_output += e->work.n_output;
    x->cost += e->work.cost;
}

void predict_left(struct queue_entry *e)
{
    struct work *x = &scheduling_of(e->model)->waiting;

    if (PLANT(WORK_KEPT)) {
        return;
    }
    x->n_prompt -= e->work.n_prompt;
    x->n_output -= e->work.n_output;
    x->cost -= e->work.cost;
}

bool predict_is_exact(const struct model *m)
{
    const struct work *x = &scheduling_of(m)->waiting;
    struct work sum = {0};

    for (const struct list *at = m->waiting.next; at != &m->waiting;
         at = at->next) {
        const struct work *one =
            &LIST_OF(at, const struct queue_entry, queue)->work;

        sum.n_prompt += one->n_prompt;
        sum.n_output += one->n_output;
        sum.cost += one->cost;
    }
    return sum.n_prompt == x->n_prompt && sum.n_output == x->n_output &&
           sum.cost == x->cost;
}

void predict_granted(const struct queue_entry *e, uint64_t n_compute)
{
    struct model_scheduling *x = scheduling_of(e->model);

    x->n_granted += (uint64_t)e->n_prompt + e->n_generated;
    x->n_compute += n_compute;
    if (x->n_granted >= COMPUTE_WINDOW) {
        x->n_granted /= 2;
        x->n_compute /= 2;
    }
}
