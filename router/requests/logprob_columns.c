#include "router/requests/logprob_columns.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "router/base/router_limits.h"

typedef Sluice__V1__StepOutputMessage step_message;

/* ---- checks ---- */

static enum status check_columns(const step_message *m, struct error *e)
{
    uint64_t values = 0, tops = 0;

    if (m->n_width != 0 && m->n_width != m->n_grant) {
        return error_set(e, ST_DATA_LOSS,
                         "the columns of StepOutput differ in length");
    }
    for (size_t i = 0; i < m->n_grant; i++) {
        uint32_t width = logprob_columns_width(m, i);
        if (width > 1 + TOP_LOGPROBS_MAX) {
            return error_set(e, ST_DATA_LOSS,
                             "%" PRIu32
                             " logprobs per token exceed the limit of "
                             "%d",
                             width, 1 + TOP_LOGPROBS_MAX);
        }
        values += (uint64_t)m->count[i] * width;
        tops += width > 0 ? (uint64_t)m->count[i] * (width - 1) : 0;
    }
    if (values != m->n_logprobs || tops != m->n_top_tokens) {
        return error_set(e, ST_DATA_LOSS,
                         "the rows of StepOutput add up to %" PRIu64
                         " logprobs and %" PRIu64 " top tokens, but it holds "
                         "%zu and %zu",
                         values, tops, m->n_logprobs, m->n_top_tokens);
    }
    if (values > STEP_LOGPROBS_MAX) {
        return error_set(e, ST_DATA_LOSS,
                         "StepOutput has %" PRIu64 " logprobs, at most %d are "
                         "allowed",
                         values, STEP_LOGPROBS_MAX);
    }
    return ST_OK;
}

/* Returns true if x can be a logprob.  NaN compares false, so it is rejected
 * too. */
static bool is_logprob(float x)
{
    return x <= 0;
}

/* Checks the values [width] of one token. values[0] is the token's own and need
 * not be among the best. */
static enum status check_values(const float *values, uint32_t width,
                                struct error *e)
{
    for (uint32_t k = 0; k < width; k++) {
        if (!is_logprob(values[k])) {
            return error_set(e, ST_DATA_LOSS,
                             "logprob %g is not the logarithm of a probability",
                             (double)values[k]);
        }
        if (k > 1 && values[k] > values[k - 1]) {
            return error_set(e, ST_DATA_LOSS,
                             "top logprob %g follows %g, which is smaller",
                             (double)values[k], (double)values[k - 1]);
        }
    }
    return ST_OK;
}

enum status logprob_columns_check(const step_message *m, uint32_t vocab,
                                  struct error *e)
{
    const float *values = m->logprobs;

    if (check_columns(m, e) != ST_OK) {
        return e->code;
    }
    for (size_t i = 0; i < m->n_grant; i++) {
        uint32_t width = logprob_columns_width(m, i);
        for (uint32_t k = 0; width > 0 && k < m->count[i]; k++) {
            if (check_values(values, width, e) != ST_OK) {
                return e->code;
            }
            values += width;
        }
    }
    for (size_t i = 0; i < m->n_top_tokens; i++) {
        if (m->top_tokens[i] >= vocab) {
            return error_set(e, ST_DATA_LOSS,
                             "top token %" PRIu32
                             " is outside the vocabulary of %" PRIu32 " tokens",
                             m->top_tokens[i], vocab);
        }
    }
    return ST_OK;
}

/* ---- columns of unsent tokens ---- */

struct logprob_columns *logprob_columns_new(uint32_t n_top)
{
    struct logprob_columns *l = calloc(1, sizeof *l);

    if (l != NULL) {
        l->n_top = n_top;
    }
    return l;
}

static void columns_release(struct logprob_columns *l)
{
    free(l->own);
    free(l->top);
    free(l->top_tokens);
    l->own = l->top = NULL;
    l->top_tokens = NULL;
    l->size = 0;
}

void logprob_columns_free(struct logprob_columns **l)
{
    if (*l != NULL) {
        columns_release(*l);
        free(*l);
        *l = NULL;
    }
}

/* Returns false without memory; the column is then as it was. */
static bool resize_column(void *column, uint32_t size, size_t bytes)
{
    void **at = column;
    /* One byte more, as the size is 0 for a column without top tokens. */
    void *grown = realloc(*at, size * bytes + 1);

    if (grown != NULL) {
        *at = grown;
    }
    return grown != NULL;
}

/* Every entry of the three columns has 4 bytes: float and uint32_t. */
static void move_to_front(void *column, const struct logprob_columns *l,
                          uint32_t entries)
{
    memmove(column, (char *)column + 4 * (size_t)l->begin * entries,
            4 * (size_t)l->n * entries);
}

/* Makes room for n more tokens.  The unsent tokens move to the front only when
 * that frees half of the size, or when the size doubles: each token is moved
 * less than twice on average. */
bool logprob_columns_reserve(struct logprob_columns *l, uint32_t n)
{
    uint32_t size = l->size == 0 ? 8 : l->size;

    if (l->begin + l->n + n <= l->size) {
        return true;
    }
    if (l->begin < size / 2 || l->n + n > size) {
        do {
            size *= 2;
        } while (size < l->n + n);
        if (!resize_column(&l->own, size, sizeof *l->own) ||
            !resize_column(&l->top, size, sizeof *l->top * l->n_top) ||
            !resize_column(&l->top_tokens, size,
                           sizeof *l->top_tokens * l->n_top)) {
            return false;
        }
        l->size = size;
    }
    if (l->begin > 0 && l->n > 0) {
        move_to_front(l->own, l, 1);
        move_to_front(l->top, l, l->n_top);
        move_to_front(l->top_tokens, l, l->n_top);
    }
    l->begin = 0;
    return true;
}

void logprob_columns_add(struct logprob_columns *l, const float *values,
                         const uint32_t *top_tokens, uint32_t skip, uint32_t n)
{
    size_t k = l->n_top, at;

    at = l->begin + l->n;
    for (size_t i = skip; i < skip + (size_t)n; i++, at++) {
        l->own[at] = values[i * (1 + k)];
        if (k > 0) {
            memcpy(l->top + at * k, values + i * (1 + k) + 1,
                   k * sizeof *values);
            memcpy(l->top_tokens + at * k, top_tokens + i * k,
                   k * sizeof *top_tokens);
        }
    }
    l->n += n;
}

void logprob_columns_show(const struct logprob_columns *l, uint32_t n,
                          Sluice__V1__GenerateChunk *c)
{
    size_t begin = (size_t)l->begin * l->n_top;

    assert(n <= l->n);
    if (n == 0) {
        return;
    }
    c->n_logprobs = n;
    c->logprobs = l->own + l->begin;
    c->n_top_tokens = c->n_top_logprobs = (size_t)n * l->n_top;
    c->top_tokens = l->top_tokens + begin;
    c->top_logprobs = l->top + begin;
}

void logprob_columns_drop(struct logprob_columns *l, uint32_t n)
{
    assert(n <= l->n);
    l->n -= n;
    l->begin = l->n == 0 ? 0 : l->begin + n;
    /* A burst of unsent tokens must not hold its memory for the rest of the
     * sequence. */
    if (l->n == 0 && l->size > LOGPROBS_IDLE) {
        columns_release(l);
    }
}
