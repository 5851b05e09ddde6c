#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/load/plan/plan.h"
#include "client/load/plan/plan_state.h"
#include "common/base/quote.h"

static void add(struct plan *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A text that is too long is cut. */
static void add(struct plan *p, const char *fmt, ...)
{
    size_t n = strlen(p->text);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(p->text + n, sizeof p->text - n, fmt, ap);
    va_end(ap);
}

static const char *or_else(const char *text, const char *fallback)
{
    return text != NULL ? text : fallback;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static void add_load(struct plan *p, const struct plan_options *o)
{
    if (p->closed) {
        add(p, "closed loop: %u at once", p->concurrency);
        if (o->think != NULL) {
            add(p, ", pauses of %s", o->think);
        }
    } else if (p->replay) {
        add(p, "open loop: arrivals of the trace");
        if (p->speed != 1) {
            add(p, ", %.3g times as fast", p->speed);
        }
    } else {
        add(p, "open loop: ");
        if (o->rate_fixed > 0) {
            add(p, "%.4g", o->rate_fixed);
        } else {
            add(p, "%s", o->rate);
        }
        if (o->rate_factor > 0 && o->rate_factor != 1) {
            add(p, " times %.4g", o->rate_factor);
        }
        add(p, " a second, %s", or_else(o->arrivals, "poisson"));
        if (o->bursts != NULL) {
            add(p, ", bursts %s", o->bursts);
        }
    }
}

static void add_drawn(struct plan *p, const struct plan_options *o)
{
    add(p, "; prompts of %s tokens", or_else(o->prompt, "256"));
    if (o->prefix != NULL) {
        add(p, " after a shared prefix of %s", o->prefix);
    }
    add(p, ", outputs of %s", or_else(o->output, "64"));
    if (o->turns != NULL) {
        add(p, "; sessions of %s turns, each adds %s tokens after %s", o->turns,
            or_else(o->turn_prompt, "64"), or_else(o->turn_think, "1s"));
    }
    if (o->branches != NULL) {
        add(p, ", branches %s", o->branches);
    }
}

static void add_dataset(struct plan *p)
{
    size_t n = p->dataset->n_rows;

    add(p, "; prompts of %s, %zu rows", quote(base_name(p->dataset_path)).text,
        n);
    if (p->n_fits < n) {
        add(p, "; %zu of them exceed the context of %u tokens and are left out",
            n - p->n_fits, p->recipe.context);
    }
}

static void add_trace(struct plan *p)
{
    add(p, "; lengths of %s, %zu rows", quote(base_name(p->trace_path)).text,
        p->trace->n_rows);
    if (p->asked_scale != 1) {
        add(p, ", tokens times %.3g", p->asked_scale);
    }
}

void plan_write_text(struct plan *p, const struct plan_options *o)
{
    p->text[0] = '\0';
    add_load(p, o);
    if (p->trace != NULL) {
        add_trace(p);
    } else if (p->dataset != NULL) {
        add_dataset(p);
    } else {
        add_drawn(p, o);
    }
    if (p->recipe.scale < p->asked_scale) {
        add(p, "; scaled to %.3g to fit a context of %u tokens",
            p->recipe.scale / p->asked_scale, p->recipe.context);
    }
    if (p->n_variants > 0) {
        add(p, "; %u contents, repeated", p->n_variants);
    }
}

const char *plan_text(const struct plan *p)
{
    return p->text;
}
