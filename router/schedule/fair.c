#include "router/schedule/fair.h"

#include <string.h>

#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "router/base/named_numbers.h"

#define UNIT (1 << 20) /* of the clock, for a token at weight 1 */

static uint32_t weight_of(const struct schedule *s, uint32_t tenant)
{
    const struct router_options *o = &s->base->options;
    const char *name = metric_slot_name(&s->base->tenant_names, tenant);

    return name != NULL ? named_number(o->weights, o->n_weights, name, 1) : 1;
}

static struct fairness *fairness_of(const struct queue_entry *e)
{
    return &scheduling_of(e->model)->fairness;
}

void fair_arrived(const struct schedule *s, struct queue_entry *e)
{
    struct fairness *f = fairness_of(e);
    struct turn *t = &e->turn;
    uint32_t n =
        lengths_expect(lengths_for(e), e->n_generated, entry_max_tokens(e));

    if (e->model->n_waiting == 0) {
        f->clock = max_u64(f->clock, f->latest);
    }
    t->unit = UNIT / weight_of(s, e->tenant);
    t->cost = e->n_prompt + n;
    t->start = fair_start(e->model, e->tenant, t->tier);
    f->unit[e->tenant] = t->unit;
    for (int k = (int)t->tier; k < FAIR_TIERS; k++) {
        uint64_t *end = &f->end[k][e->tenant];

        f->start[k][e->tenant] = max_u64(f->start[k][e->tenant], t->start);
        *end = max_u64(*end, t->start) + (uint64_t)t->cost * t->unit;
    }
    f->latest = max_u64(f->latest, f->end[FAIR_TIERS - 1][e->tenant]);
}

void fair_entered(const struct schedule *s, const struct queue_entry *e)
{
    struct fairness *f = fairness_of(e);

    if (f->n_waiting[e->tenant]++ == 0) {
        f->weights += weight_of(s, e->tenant);
    }
}

void fair_left(const struct schedule *s, const struct queue_entry *e)
{
    struct fairness *f = fairness_of(e);

    if (--f->n_waiting[e->tenant] == 0) {
        f->weights -= weight_of(s, e->tenant);
    }
}

uint32_t fair_waiting(const struct model *m, uint32_t tenant)
{
    return scheduling_of(m)->fairness.n_waiting[tenant];
}

uint32_t fair_share(const struct schedule *s, const struct model *m,
                    uint32_t tenant, uint32_t n)
{
    const struct fairness *f = &scheduling_of(m)->fairness;
    uint64_t own = weight_of(s, tenant);
    uint64_t all = f->weights + (f->n_waiting[tenant] == 0 ? own : 0);

    return (uint32_t)(n * own / all);
}

bool fair_before(const struct queue_entry *x, const struct queue_entry *y)
{
    const struct turn *a = &x->turn, *b = &y->turn;

    if (a->start != b->start && !PLANT(TENANTS_FORGOTTEN)) {
        return a->start < b->start;
    }
    return a->tier != b->tier ? a->tier < b->tier : a->number < b->number;
}

bool fair_is_early(const struct queue_entry *e)
{
    return e->turn.start <= fairness_of(e)->clock;
}

struct list *fair_position(const struct queue_entry *e, bool early)
{
    struct list *waiting = &e->model->waiting;
    struct list *at = early ? waiting->next : waiting;

    while (early && at != waiting &&
           fair_before(LIST_OF(at, struct queue_entry, queue), e)) {
        at = at->next;
    }
    while (!early && at->prev != waiting &&
           fair_before(e, LIST_OF(at->prev, struct queue_entry, queue))) {
        at = at->prev;
    }
    return at;
}

bool fair_is_ordered(const struct model *m)
{
    uint64_t last = 0;

    for (const struct list *at = m->waiting.next; at != &m->waiting;
         at = at->next) {
        uint64_t start =
            LIST_OF(at, const struct queue_entry, queue)->turn.start;

        if (start < last) {
            return false;
        }
        last = start;
    }
    return true;
}

uint64_t fair_start(const struct model *m, uint32_t tenant, enum fair_tier tier)
{
    const struct fairness *f = &scheduling_of(m)->fairness;

    return max_u64(f->clock,
                   max_u64(f->end[tier][tenant], f->start[tier][tenant]));
}

uint64_t fair_ahead(const struct model *m, uint64_t start)
{
    const struct fairness *f = &scheduling_of(m)->fairness;
    uint64_t sum = 0;

    for (uint32_t t = 0; t < METRIC_SLOTS; t++) {
        uint64_t to = 0;

        for (int k = 0; k < FAIR_TIERS; k++) {
            to = max_u64(to, max_u64(f->end[k][t], f->start[k][t]));
        }
        to = min_u64(to, start);

        if (f->unit[t] > 0 && to > f->clock) {
            sum += (to - f->clock) / f->unit[t];
        }
    }
    return sum;
}

void fair_granted(struct queue_entry *e)
{
    struct fairness *f = fairness_of(e);

    f->clock = max_u64(f->clock, e->turn.start);
}

void fair_ended(struct queue_entry *e, uint64_t n_used)
{
    struct fairness *f = fairness_of(e);
    struct turn *t = &e->turn;

    for (int k = (int)t->tier; k < FAIR_TIERS; k++) {
        uint64_t *end = &f->end[k][e->tenant];

        if (n_used >= t->cost) {
            *end += (n_used - t->cost) * t->unit;
            f->latest = max_u64(f->latest, *end);
        } else {
            *end -= min_u64(*end, (t->cost - n_used) * t->unit);
        }
    }
    t->cost = (uint32_t)n_used; /* charged once */
}
