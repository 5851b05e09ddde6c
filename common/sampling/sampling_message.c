#include "common/sampling/sampling_message.h"

/* ---- checks ---- */

static enum status check_float(const char *name, float value, float least,
                               float most, struct error *e)
{
    /* Written so that NaN fails too. */
    if (value >= least && value <= most) {
        return ST_OK;
    }
    return error_set(e, ST_INVALID_ARGUMENT, "%s is %g, it must be %g to %g",
                     name, (double)value, (double)least, (double)most);
}

static enum status check_share(const char *name, float value, float least,
                               float most, struct error *e)
{
    if (value > least && value <= most) {
        return ST_OK;
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "%s is %g, it must be above %g and at most %g", name,
                     (double)value, (double)least, (double)most);
}

static enum status check_count(const char *name, uint32_t value, uint32_t least,
                               uint32_t most, struct error *e)
{
    if (value >= least && value <= most) {
        return ST_OK;
    }
    return error_set(e, ST_INVALID_ARGUMENT, "%s is %u, it must be %u to %u",
                     name, value, least, most);
}

/* One for each kind of SAMPLING_VALUES. */
#define CHECK_FLOAT(...) check_float(__VA_ARGS__)
#define CHECK_SHARE(...) check_share(__VA_ARGS__)
#define CHECK_COUNT(...) check_count(__VA_ARGS__)
#define CHECK_FLAG(...)  ST_OK /* the decoder makes every bool 0 or 1 */

static enum status check_values(const Sluice__V1__Sampling *m, uint32_t vocab,
                                struct error *e)
{
#define X(field, kind, unset, least, most)                             \
    if (CHECK_##kind(#field, m->field, (least), (most), e) != ST_OK) { \
        return e->code;                                                \
    }
    SAMPLING_VALUES(X)
#undef X
    if (m->top_k > vocab) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "top_k is %u, it must be 0 (all) to the vocabulary, "
                         "%u",
                         m->top_k, vocab);
    }
    return ST_OK;
}

/* Ids must ascend, so that no id comes twice and one set has one spelling:
 * router and worker compare the lists byte by byte. */
static enum status check_ids(const char *name, const uint32_t *ids, size_t n,
                             size_t most, uint32_t vocab, struct error *e)
{
    if (n > most) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s has %zu ids, it may have at most %zu", name, n,
                         most);
    }
    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= vocab) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "%s: id %u is not below the vocabulary, %u", name,
                             ids[i], vocab);
        }
        if (i > 0 && ids[i] <= ids[i - 1]) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "%s: id %u comes after %u, they must ascend and "
                             "each come once",
                             name, ids[i], ids[i - 1]);
        }
    }
    return ST_OK;
}

static enum status check_biases(const Sluice__V1__Sampling *m, uint32_t vocab,
                                struct error *e)
{
    if (m->n_bias_tokens != m->n_biases) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "bias_tokens has %zu ids and biases %zu values, they "
                         "must be equally many",
                         m->n_bias_tokens, m->n_biases);
    }
    if (check_ids("bias_tokens", m->bias_tokens, m->n_bias_tokens,
                  LOGIT_BIASES_MAX, vocab, e) != ST_OK) {
        return e->code;
    }
    for (size_t i = 0; i < m->n_biases; i++) {
        /* Negated, so that NaN fails too. */
        if (!(m->biases[i] >= -LOGIT_BIAS_MAX &&
              m->biases[i] <= LOGIT_BIAS_MAX)) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "the bias of token %u is %g, it must be %g to %g",
                             m->bias_tokens[i], (double)m->biases[i],
                             (double)-LOGIT_BIAS_MAX, (double)LOGIT_BIAS_MAX);
        }
    }
    return ST_OK;
}

enum status sampling_check(const Sluice__V1__Sampling *m, uint32_t vocab,
                           struct error *e)
{
    uint32_t most = vocab < TOP_LOGPROBS_MAX ? vocab : TOP_LOGPROBS_MAX;

    if (check_values(m, vocab, e) != ST_OK ||
        check_biases(m, vocab, e) != ST_OK ||
        check_ids("stop_tokens", m->stop_tokens, m->n_stop_tokens,
                  STOP_TOKENS_MAX, vocab, e) != ST_OK) {
        return e->code;
    }
    if (m->top_logprobs > most) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "top_logprobs is %u, it must be 0 to %u",
                         m->top_logprobs, most);
    }
    return ST_OK;
}

/* ---- to and from the wire ---- */

void sampling_read(struct sampling *out, const Sluice__V1__Sampling *m)
{
    *out = sampling_default();
    if (m == NULL) {
        return;
    }
#define X(field, kind, unset, least, most) out->field = m->field;
    SAMPLING_VALUES(X)
#undef X
    out->seed = m->has_seed ? m->seed : 0;
    out->logprobs = m->logprobs || m->top_logprobs > 0;
    out->n_top_logprobs = m->top_logprobs;
    out->n_biases = (uint32_t)m->n_biases;
    out->bias_tokens = m->bias_tokens;
    out->biases = m->biases;
    out->n_stop_tokens = (uint32_t)m->n_stop_tokens;
    out->stop_tokens = m->stop_tokens;
}

void sampling_write(const struct sampling *s, Sluice__V1__Sampling *out)
{
    sluice__v1__sampling__init(out);
    /* The schema has the same defaults, so a default need not travel.  These
     * three do, so that a captured message shows how a token was chosen. */
#define X(field, kind, unset, least, most)  \
    out->has_##field = s->field != (unset); \
    out->field = s->field;
    SAMPLING_VALUES(X)
#undef X
    out->has_temperature = out->has_top_k = out->has_top_p = true;
    out->has_seed = true;
    out->seed = s->seed;
    out->has_top_logprobs = s->n_top_logprobs > 0;
    out->top_logprobs = s->n_top_logprobs;
    out->n_bias_tokens = out->n_biases = s->n_biases;
    out->bias_tokens = (uint32_t *)(uintptr_t)s->bias_tokens;
    out->biases = (float *)(uintptr_t)s->biases;
    out->n_stop_tokens = s->n_stop_tokens;
    out->stop_tokens = (uint32_t *)(uintptr_t)s->stop_tokens;
}
