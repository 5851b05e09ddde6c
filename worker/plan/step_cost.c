#include "worker/plan/step_cost.h"

#include <string.h>

#define TERMS STEP_COST_TERMS

/* Sizes are divided by these, so that the pull is alike for all terms. */
#define ROWS_UNIT    16.0
#define PROMPTS_UNIT 256.0

/* A share of the mean square. */
#define PULL 0.001

void step_cost_init(struct step_cost *c)
{
    memset(c, 0, sizeof *c);
}

static void fill(double v[TERMS], uint32_t rows, uint32_t prompts)
{
    v[0] = 1;
    v[1] = rows / ROWS_UNIT;
    v[2] = prompts / PROMPTS_UNIT;
}

double step_cost_us(const struct step_cost *c, uint32_t rows, uint32_t prompts)
{
    double v[TERMS], us = 0;

    fill(v, rows, prompts);
    for (int i = 0; i < TERMS; i++) {
        us += v[i] * c->x[i];
    }
    return us;
}

struct step_cost_terms step_cost_terms(const struct step_cost *c)
{
    return (struct step_cost_terms){.base = c->x[0],
                                    .row = c->x[1] / ROWS_UNIT,
                                    .prompt = c->x[2] / PROMPTS_UNIT};
}

bool step_cost_known(const struct step_cost *c)
{
    return c->n >= STEP_COST_LEAST;
}

/* Solves a x = right by elimination; a is symmetric and positive definite.
 * Terms that are zero are left out. */
static void eliminate(double a[TERMS][TERMS], double x[TERMS],
                      const bool zero[TERMS])
{
    for (int i = 0; i < TERMS; i++) {
        for (int k = i + 1; k < TERMS && !zero[i]; k++) {
            double f = zero[k] ? 0 : a[k][i] / a[i][i];

            for (int j = i; j < TERMS; j++) {
                a[k][j] -= f * a[i][j];
            }
            x[k] -= f * x[i];
        }
    }
    for (int i = TERMS; i-- > 0;) {
        for (int j = i + 1; j < TERMS; j++) {
            x[i] -= a[i][j] * x[j];
        }
        x[i] = zero[i] ? 0 : x[i] / a[i][i];
    }
}

/* Solves without the terms that are zero; a term below 0 becomes zero.  Returns
 * whether there was none. */
static bool solve(struct step_cost *c, const double before[TERMS],
                  bool zero[TERMS])
{
    double a[TERMS][TERMS], pull = 0;
    bool good = true;

    memcpy(a, c->squares, sizeof a);
    for (int i = 0; i < TERMS; i++) {
        pull += a[i][i] * PULL / TERMS;
    }
    for (int i = 0; i < TERMS; i++) {
        a[i][i] += pull;
        c->x[i] = c->right[i] + pull * before[i];
    }
    eliminate(a, c->x, zero);
    for (int i = 0; i < TERMS; i++) {
        good = good && c->x[i] >= 0;
        zero[i] = zero[i] || c->x[i] < 0;
    }
    return good;
}

static void add(struct step_cost *c, const double v[TERMS], double us)
{
    for (int i = 0; i < TERMS; i++) {
        for (int j = 0; j < TERMS; j++) {
            c->squares[i][j] *= STEP_COST_FADE;
            c->squares[i][j] += v[i] / us * v[j] / us;
        }
        c->right[i] = c->right[i] * STEP_COST_FADE + v[i] / us;
    }
}

void step_cost_note(struct step_cost *c, uint32_t rows, uint32_t prompts,
                    uint32_t us)
{
    double most = STEP_COST_OUTLIER * step_cost_us(c, rows, prompts);
    double before[TERMS], v[TERMS];
    bool zero[TERMS] = {false};

    if (us == 0) {
        return;
    }
    memcpy(before, c->x, sizeof before);
    fill(v, rows, prompts);
    /* The first times must not be held to an estimate that nothing shows. */
    add(c, v, step_cost_known(c) && most >= 1 && us > most ? most : us);
    for (int i = 0; i < TERMS && !solve(c, before, zero); i++) {
    }
    c->n += c->n < STEP_COST_LEAST;
}
