#include "client/load/plan/pace.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "client/load/plan/spread.h"
#include "common/base/quote.h"

#define END_S ((double)PACE_END_US / 1e6)

/* ---- parsing ---- */

struct item {
    double from, to; /* rates */
    double seconds;  /* INFINITY: lasts */
};

static bool read_duration(const char **text, double *seconds)
{
    double us;

    if (!spread_time(text, &us) || us <= 0) {
        return false;
    }
    *seconds = us / 1e6;
    return *seconds <= END_S;
}

static bool read_item(const char **text, struct item *out)
{
    out->seconds = INFINITY;
    if (!spread_number(text, &out->from)) {
        return false;
    }
    out->to = out->from;
    if (**text == 'x') {
        (*text)++;
        return read_duration(text, &out->seconds);
    }
    if (strncmp(*text, "..", 2) == 0) {
        *text += 2;
        return spread_number(text, &out->to) && *(*text)++ == '/' &&
               read_duration(text, &out->seconds);
    }
    return true;
}

static enum status refuse(const char *rate, const char *why, struct error *e)
{
    return error_set(e, ST_INVALID_ARGUMENT,
                     "--rate %s: %s; give for example 20, 5..50/60s or "
                     "10x30s,20x30s",
                     quote(rate).text, why);
}

/* Returns the integral from the start of part to t. */
static double within(const struct pace_part *part, double t)
{
    double dt = t - part->from;

    return part->rate * dt + part->slope * dt * dt / 2;
}

static void add_part(struct pace *p, double from, double rate, double slope)
{
    struct pace_part *part = &p->parts[p->n];

    *part = (struct pace_part){.from = from, .rate = rate, .slope = slope};
    if (p->n > 0) {
        part->count =
            p->parts[p->n - 1].count + within(&p->parts[p->n - 1], from);
    }
    p->n++;
}

static enum status parse_items(struct pace *p, const char *rate,
                               double *highest, struct error *e)
{
    const char *text = rate;
    struct item item;
    double at = 0;

    *highest = 0;
    do {
        if (p->n == PACE_ITEMS_MAX) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "--rate has more than %d items", PACE_ITEMS_MAX);
        }
        if (!read_item(&text, &item)) {
            return refuse(rate, "no rate", e);
        }
        *highest = fmax(*highest, fmax(item.from, item.to));
        if (isinf(item.seconds)) {
            add_part(p, at, item.from, 0);
            return *text == '\0' ? ST_OK : refuse(rate, "not the end", e);
        }
        add_part(p, at, item.from, (item.to - item.from) / item.seconds);
        at += item.seconds;
    } while (*text++ == ',');
    add_part(p, at, item.to, 0);
    return text[-1] == '\0' ? ST_OK : refuse(rate, "not the end", e);
}

static enum status parse_bursts(struct pace *p, const char *bursts,
                                struct error *e)
{
    const char *text = bursts;

    if (!spread_number(&text, &p->burst) || *text++ != 'x' ||
        !read_duration(&text, &p->burst_s) || *text++ != '/' ||
        !read_duration(&text, &p->of_s) || *text != '\0' ||
        p->burst_s > p->of_s || p->burst_s < 1e-3 || p->burst < 1e-3 ||
        p->burst > PACE_RATE_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--bursts %s is no burst; give for example "
                         "40x2s/20s: 40 more a second, 2 s of each 20 s",
                         quote(bursts).text);
    }
    return ST_OK;
}

enum status pace_parse(struct pace *out, const char *rate, const char *bursts,
                       struct error *e)
{
    double highest;
    enum status st;

    memset(out, 0, sizeof *out);
    st = parse_items(out, rate, &highest, e);
    if (st != ST_OK) {
        return st;
    }
    if (highest > PACE_RATE_MAX || highest <= 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--rate %s must exceed 0 and be at most %.0f a second",
                         quote(rate).text, PACE_RATE_MAX);
    }
    return bursts == NULL ? ST_OK : parse_bursts(out, bursts, e);
}

void pace_scale(struct pace *p, double factor)
{
    for (uint32_t i = 0; i < p->n; i++) {
        p->parts[i].rate *= factor;
        p->parts[i].slope *= factor;
        p->parts[i].count *= factor;
    }
    p->burst *= factor;
}

/* ---- integral ---- */

/* Returns the time of a burst's start (even) or end (odd). */
static double edge_at(const struct pace *p, uint64_t edge)
{
    double of_s = p->of_s;

    return edge % 2 == 0 ? (double)(edge / 2) * of_s + (of_s - p->burst_s)
                         : (double)(edge / 2 + 1) * of_s;
}

/* Returns the integral of the bursts at t, if `edge` is the next edge.  Not a
 * running sum, so that no error grows with time. */
static double burst_count(const struct pace *p, uint64_t edge, double t)
{
    double whole = (double)(edge / 2) * p->burst_s;
    double open = edge % 2 == 0 ? 0 : t - edge_at(p, edge - 1);

    return p->burst * (whole + open);
}

static void set_ends(struct pace_cursor *c)
{
    const struct pace *p = c->pace;
    const struct pace_part *part = &p->parts[c->part];
    double next = c->part + 1 < p->n ? part[1].from : INFINITY;
    bool bursts = p->burst > 0;

    c->to = bursts ? fmin(next, edge_at(p, c->edge)) : next;
    c->rate = part->rate + part->slope * (c->from - part->from);
    c->slope = part->slope;
    c->count = part->count + within(part, c->from);
    c->count_to = INFINITY;
    if (isfinite(c->to)) {
        c->count_to = part->count + within(part, c->to);
    } else if (c->rate <= 0) {
        c->count_to = c->count;
    }
    if (bursts) {
        c->rate += c->edge % 2 == 0 ? 0 : p->burst;
        c->count += burst_count(p, c->edge, c->from);
        c->count_to += burst_count(p, c->edge, c->to);
    }
}

void pace_begin(struct pace_cursor *c, const struct pace *p)
{
    *c = (struct pace_cursor){.pace = p};
    set_ends(c);
}

static void advance(struct pace_cursor *c)
{
    const struct pace *p = c->pace;

    c->from = c->to;
    if (c->part + 1 < p->n && p->parts[c->part + 1].from <= c->from) {
        c->part++;
    }
    if (p->burst > 0 && edge_at(p, c->edge) <= c->from) {
        c->edge++;
    }
    set_ends(c);
}

bool pace_reach(struct pace_cursor *c, double count, int64_t *us)
{
    double left, root, t;

    while (count >= c->count_to) {
        if (c->to > END_S) {
            return false;
        }
        advance(c);
    }
    /* The root of rate * dt + slope * dt^2 / 2 = left, in the form that
     * subtracts nothing. */
    left = fmax(count - c->count, 0);
    root = sqrt(fmax(c->rate * c->rate + 2 * c->slope * left, 0));
    t = c->from + (left > 0 ? 2 * left / (c->rate + root) : 0);
    t = fmin(t, c->to);
    if (t > END_S) {
        return false;
    }
    *us = llround(t * 1e6);
    return true;
}

double pace_count(const struct pace *p, int64_t us)
{
    double t = (double)us / 1e6, count;
    const struct pace_part *part = p->parts;
    uint64_t periods;

    while (part + 1 < p->parts + p->n && part[1].from <= t) {
        part++;
    }
    count = part->count + within(part, t);
    if (p->burst > 0) {
        periods = (uint64_t)(t / p->of_s);
        count += burst_count(p, 2 * periods, t);
        if (t > edge_at(p, 2 * periods)) {
            count += p->burst * (t - edge_at(p, 2 * periods));
        }
    }
    return count;
}
