#include "client/load/plan/recipe.h"

#include <stddef.h>

#include "common/base/quote.h"

static bool whole(double x, double min, double max)
{
    return x >= min && x <= max && x == (double)(uint32_t)x;
}

static enum status parse_prefix(struct recipe *r, const char *text,
                                struct error *e)
{
    const char *at = text;
    double n, groups = 1;
    bool ok = spread_number(&at, &n);

    if (ok && *at == 'x') {
        at++;
        ok = spread_number(&at, &groups);
    }
    if (!ok || *at != '\0' || !whole(n, 1, PLAN_TOKENS_MAX) ||
        !whole(groups, 1, PLAN_PREFIX_MAX)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--prefix %s is no prefix; give for example 256, or "
                         "256x10: ten prefixes of 256 tokens; at most %d "
                         "tokens and %d prefixes",
                         quote(text).text, PLAN_TOKENS_MAX, PLAN_PREFIX_MAX);
    }
    r->prefix = (uint32_t)n;
    r->n_prefixes = (uint32_t)groups;
    return ST_OK;
}

static enum status parse_branches(struct recipe *r, const char *text,
                                  struct error *e)
{
    const char *at = text;
    double share, n;

    if (!spread_number(&at, &share) || *at++ != 'x' ||
        !spread_number(&at, &n) || *at != '\0' || share > 1 ||
        !whole(n, 2, PLAN_BRANCH_MAX)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--branches %s is no branch; give for example 0.2x3: "
                         "a fifth of the turns has 3 successors; at most %d",
                         quote(text).text, PLAN_BRANCH_MAX);
    }
    r->branch = share;
    r->n_branches = (uint32_t)n;
    return ST_OK;
}

static enum status parse_trees(struct recipe *r, const struct plan_options *o,
                               struct error *e)
{
    struct spread_range turns = {
        .option = "--turns", .min = 1, .max = PLAN_TURNS_MAX};
    enum status st = ST_OK;

    r->turns = spread_always(1);
    r->has_turns = o->turns != NULL;
    if (o->turns != NULL) {
        st = spread_parse(&r->turns, o->turns, &turns, e);
    }
    if (st == ST_OK && o->prefix != NULL) {
        st = parse_prefix(r, o->prefix, e);
    }
    if (st == ST_OK && o->branches != NULL) {
        st = parse_branches(r, o->branches, e);
    }
    return st;
}

static enum status parse_spreads(struct recipe *r, const struct plan_options *o,
                                 struct error *e)
{
    const struct {
        struct spread *out;
        const char *option, *text, *fallback;
        bool time;
    } rows[] = {
        {&r->prompt, "--prompt", o->prompt, "256", false},
        {&r->output, "--output", o->output, "64", false},
        {&r->turn_prompt, "--turn-prompt", o->turn_prompt, "64", false},
        {&r->turn_think, "--turn-think", o->turn_think, "1s", true},
        {&r->think, "--think", o->think, "0", true},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *text =
            rows[i].text != NULL ? rows[i].text : rows[i].fallback;
        struct spread_range range = {.option = rows[i].option,
                                     .min = rows[i].time ? 0 : 1,
                                     .max = rows[i].time ? (double)SPREAD_US_MAX
                                                         : PLAN_TOKENS_MAX,
                                     .time = rows[i].time};
        enum status st = spread_parse(rows[i].out, text, &range, e);

        if (st != ST_OK) {
            return st;
        }
    }
    return ST_OK;
}

enum status recipe_parse(struct recipe *out, const struct plan_options *o,
                         struct error *e)
{
    enum status st;

    *out =
        (struct recipe){.seed = o->seed, .context = o->context_max, .scale = 1};
    st = parse_spreads(out, o, e);
    if (st == ST_OK) {
        st = parse_trees(out, o, e);
    }
    if (st == ST_OK && o->context_max == 1) {
        st = error_set(e, ST_INVALID_ARGUMENT,
                       "a context of 1 token has no room for a prompt and an "
                       "output");
    }
    return st;
}

void recipe_fit(struct recipe *r)
{
    double turns = spread_high(&r->turns);
    double longest = r->prefix + spread_high(&r->prompt) +
                     (turns - 1) * spread_high(&r->turn_prompt) +
                     turns * spread_high(&r->output);

    r->scale = 1;
    if (r->context > 0 && longest > r->context) {
        r->scale = r->context / longest;
    }
}
