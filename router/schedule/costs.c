#include "router/schedule/costs.h"

#include "common/base/minmax.h"

#define NS_PER_US 1000

static void add(struct step_sums *s, const struct step_seen *x)
{
    uint64_t rows = min_u32(x->n_rows, COSTS_ROWS_CAP);
    uint64_t us = min_u32(x->us, COSTS_US_CAP);

    if (s->n >= COSTS_LEAST) {
        us = min_u64(us, COSTS_PEAK * max_u64(s->us / s->n, NS_PER_US));
    }
    *s = (struct step_sums){.n = s->n + 1,
                            .us = s->us + us,
                            .rows = s->rows + rows,
                            .us_rows = s->us_rows + us * rows,
                            .rows_square = s->rows_square + rows * rows,
                            .tokens = s->tokens + x->n_prompt_tokens};
    if (s->n >= COSTS_WINDOW) {
        *s = (struct step_sums){s->n / 2,           s->us / 2,
                                s->rows / 2,        s->us_rows / 2,
                                s->rows_square / 2, s->tokens / 2};
    }
}

void costs_add(struct costs *c, const struct step_seen *x)
{
    if (x->n_prompt_tokens == 0) {
        add(&c->plain, x);
        return;
    }
    add(&c->mixed, x);
    if (x->more) {
        c->chunk =
            c->chunk == 0
                ? x->n_prompt_tokens
                : (uint32_t)((7 * (uint64_t)c->chunk + x->n_prompt_tokens + 7) /
                             8);
    }
}

static double min_double(double a, double b)
{
    return a < b ? a : b;
}

static bool known(const struct step_sums *s)
{
    return s->n >= COSTS_LEAST;
}

/* COSTS_WINDOW products of COSTS_US_CAP and COSTS_ROWS_CAP stay below 2^47,
 * and their product with the number of steps below 2^55. */
static void fit_plain(const struct step_sums *s, struct step_cost *out)
{
    uint64_t both = s->n * s->us_rows, apart = s->us * s->rows;
    uint64_t spread =
        s->n * s->rows_square - s->rows * s->rows + s->n * s->n / 4;

    out->row_ns = 0;
    if (both > apart && spread > 0) {
        double row = (double)(both - apart) / (double)spread;

        out->row_ns = (uint64_t)(min_double(row, COSTS_US_CAP) * NS_PER_US);
    }
    out->base_ns = s->us * NS_PER_US;
    out->base_ns -= min_u64(out->base_ns, out->row_ns * s->rows);
    out->base_ns /= s->n;
}

/* Returns the time of a prompt token in mixed steps, given base and row. */
static uint64_t token_ns(const struct step_sums *s, const struct step_cost *c)
{
    uint64_t all = s->us * NS_PER_US;
    uint64_t rest = s->n * c->base_ns + s->rows * c->row_ns;

    return (all - min_u64(all, rest)) / s->tokens;
}

/* Returns true if a differs from b by an eighth of b at least. */
static bool differs(uint64_t a, uint64_t b)
{
    return a < b ? b - a >= b / 8 : a - b > b / 8;
}

/* Returns the cost that c shows, and `other` where c shows nothing. */
static struct step_cost shown(const struct costs *c,
                              const struct step_cost *other)
{
    struct step_cost out = *other;

    if (known(&c->plain)) {
        fit_plain(&c->plain, &out);
    } else if (known(&c->mixed) && other->token_ns == 0) {
        /* Tokens take all the time of the mixed steps. */
        out.base_ns = out.row_ns = 0;
    }
    if (known(&c->mixed)) {
        out.token_ns = token_ns(&c->mixed, &out);
    }
    out.chunk = c->chunk > 0 ? c->chunk : out.chunk;
    return out;
}

struct step_cost costs_among(const struct costs *c, const struct costs *all)
{
    const struct step_cost none = {.base_ns = COSTS_STEP_US * NS_PER_US,
                                   .chunk = COSTS_CHUNK};
    struct step_cost siblings = shown(all, &none), own = shown(c, &siblings);
    uint64_t rows = c->plain.n > 0 ? c->plain.rows / c->plain.n : 0;

    if (!differs(own.base_ns + rows * own.row_ns,
                 siblings.base_ns + rows * siblings.row_ns)) {
        own.base_ns = siblings.base_ns;
        own.row_ns = siblings.row_ns;
    }
    if (!differs(own.token_ns, siblings.token_ns)) {
        own.token_ns = siblings.token_ns;
    }
    if (own.token_ns == 0 && !known(&c->mixed) && !known(&all->mixed)) {
        own.token_ns = COSTS_TOKEN_NS;
    }
    return own;
}

uint64_t costs_step_ns(const struct step_cost *c, uint32_t n_rows,
                       uint32_t max_rows)
{
    uint64_t all;

    if (max_rows == 0 || n_rows <= max_rows) {
        return c->base_ns + c->row_ns * n_rows;
    }
    all = c->base_ns + c->row_ns * max_rows;
    return all / max_rows * n_rows;
}

uint64_t costs_prompt_ns(const struct step_cost *c, uint64_t n_tokens,
                         uint32_t n_rows, uint32_t max_rows)
{
    uint64_t step_ns =
        c->base_ns +
        c->row_ns * (max_rows > 0 ? min_u32(n_rows, max_rows) : n_rows);

    return n_tokens * (c->token_ns + step_ns / c->chunk);
}
