#include "client/load/figures/search.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define MIN_SHARE 1024 /* of the first load: the smallest that is tried */

void search_bounds(uint64_t k, uint64_t n, double *low, double *high)
{
    const double z = 1.959964;
    double total = (double)n, p, centre, half;

    *low = 0;
    *high = 1;
    if (n == 0) {
        return;
    }
    p = (double)k / total;
    centre = p + z * z / (2 * total);
    half = z * sqrt(p * (1 - p) / total + z * z / (4 * total * total));
    *low = fmax(0, (centre - half) / (1 + z * z / total));
    *high = fmin(1, (centre + half) / (1 + z * z / total));
}

/* ---- loads ---- */

/* Returns a load that may be tried. */
static double bounded(const struct search *s, double load)
{
    const struct search_options *o = &s->options;

    load = o->whole ? round(load) : load;
    load = o->max > 0 ? fmin(load, o->max) : load;
    return fmax(load, o->min);
}

/* Begins a trial, unless all have been used: contradictory servers would
 * otherwise be bracketed for ever. */
static void begin(struct search *s, enum search_kind kind, double load)
{
    struct search_trial *t;

    if (s->n_trials == SEARCH_TRIALS) {
        s->done = true;
        return;
    }
    t = &s->trials[s->n_trials++];
    memset(t, 0, sizeof *t);
    t->load = s->load = load;
    t->kind = s->kind = kind;
}

void search_init(struct search *s, const struct search_options *o)
{
    struct search_options *mine = &s->options;

    memset(s, 0, sizeof *s);
    *mine = *o;
    mine->repeats = o->repeats == 0 ? 1 : o->repeats;
    mine->first = o->first > 0 ? o->first : 1;
    if (o->whole) {
        mine->min = fmax(1, ceil(o->min));
        mine->max = floor(o->max);
    } else if (!(o->min > 0)) {
        mine->min = mine->first / MIN_SHARE;
    }
    begin(s, SEARCH_BRACKET, bounded(s, mine->first));
}

/* Relative to the lower end, as the result is that end.  Whole numbers cannot
 * be closer than 1. */
static bool narrow(const struct search *s)
{
    return s->high - s->low <= s->options.tolerance * s->low ||
           (s->options.whole && s->high - s->low <= 1);
}

/* The arithmetic mean: near the end of the search, where most trials are, it
 * differs from the geometric one by little. */
static double middle(const struct search *s)
{
    double mid = (s->low + s->high) / 2;

    return s->options.whole ? floor(mid) : mid;
}

/* Begins the trial that the bracket asks for, or ends the search. */
static void advance(struct search *s)
{
    double max = s->options.max;

    if (s->low > 0 && s->high > 0) {
        if (narrow(s)) {
            begin(s, SEARCH_CONFIRM, s->low);
        } else {
            begin(s, SEARCH_BISECT, middle(s));
        }
    } else if (s->low > 0) {
        if (max > 0 && s->low >= max) {
            begin(s, SEARCH_CONFIRM, s->low);
        } else {
            begin(s, SEARCH_BRACKET, bounded(s, 2 * s->low));
        }
    } else if (s->high > s->options.min) {
        begin(s, SEARCH_BRACKET, bounded(s, s->high / 2));
    } else {
        s->done = true; /* the smallest load misses */
    }
}

/* ---- verdicts ---- */

/* Both bounds must agree before repeats run out: a short run of good luck is
 * no proof. */
static enum search_verdict judge(const struct search *s,
                                 const struct search_trial *t)
{
    double low, high, attain = s->options.attain;

    search_bounds(t->n_good, t->n_wanted, &low, &high);
    if (low >= attain) {
        return SEARCH_MEETS;
    }
    if (high < attain) {
        return SEARCH_MISSES;
    }
    if (t->n_runs < s->options.repeats) {
        return SEARCH_OPEN;
    }
    return (double)t->n_good >= attain * (double)t->n_wanted ? SEARCH_MEETS
                                                             : SEARCH_MISSES;
}

/* Returns the largest load below `load` whose last trial met; 0: none. */
static double met_below(const struct search *s, double load)
{
    double best = 0;

    for (uint32_t i = 0; i < s->n_trials; i++) {
        const struct search_trial *t = &s->trials[i];
        bool is_last = true;

        for (uint32_t k = i + 1; k < s->n_trials; k++) {
            is_last = is_last && s->trials[k].load != t->load;
        }
        if (is_last && t->verdict == SEARCH_MEETS && t->load < load &&
            t->load > best) {
            best = t->load;
        }
    }
    return best;
}

/* Returns the smallest load above `load` whose trial missed; 0: none. */
static double missed_above(const struct search *s, double load)
{
    double best = 0;

    for (uint32_t i = 0; i < s->n_trials; i++) {
        const struct search_trial *t = &s->trials[i];

        if (t->verdict == SEARCH_MISSES && t->load > load &&
            (best == 0 || t->load < best)) {
            best = t->load;
        }
    }
    return best;
}

/* Moves the bracket to a trial's side.  A later trial outweighs earlier ones:
 * a server may be slower than it was. */
static void take_verdict(struct search *s, const struct search_trial *t)
{
    if (t->verdict == SEARCH_MEETS) {
        s->low = t->load;
        s->high = missed_above(s, t->load);
    } else {
        s->high = t->load;
        s->low = met_below(s, t->load);
    }
}

/* The load met twice: now it must miss beyond. */
static void go_beyond(struct search *s)
{
    double load = s->low * SEARCH_BEYOND_X;

    load = bounded(s, s->options.whole ? ceil(load) : load);
    if (load <= s->low) {
        s->capped = s->done = true;
    } else {
        begin(s, SEARCH_BEYOND, load);
    }
}

bool search_next(struct search *s, double *load)
{
    *load = s->load;
    return !s->done;
}

void search_take(struct search *s, uint64_t n_good, uint64_t n_wanted,
                 bool valid)
{
    struct search_trial *t = &s->trials[s->n_trials - 1];

    assert(!s->done && n_good <= n_wanted);
    if (!valid || n_wanted == 0) {
        s->invalid = s->done = true;
        return;
    }
    t->n_good += n_good;
    t->n_wanted += n_wanted;
    t->n_runs++;
    t->verdict = judge(s, t);
    if (t->verdict == SEARCH_OPEN) {
        return; /* once more */
    }
    if (t->kind == SEARCH_BEYOND && t->verdict == SEARCH_MISSES) {
        s->confirmed = s->done = true;
        return;
    }
    if (t->kind == SEARCH_CONFIRM && t->verdict == SEARCH_MEETS) {
        go_beyond(s);
        return;
    }
    take_verdict(s, t);
    advance(s);
}

double search_result(const struct search *s)
{
    return s->low;
}
