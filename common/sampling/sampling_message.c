#include "common/sampling/sampling_message.h"

/* ---- checks ---- */

/* Written so that what is not a number fails too. */
static bool within(float value, float least, float most)
{
    return value >= least && value <= most;
}

static enum status range(const char *name, float value, float least, float most,
                         struct error *e)
{
    if (within(value, least, most)) {
        return ST_OK;
    }
    return error_set(e, ST_INVALID_ARGUMENT, "%s is %g, it must be %g to %g",
                     name, (double)value, (double)least, (double)most);
}

static enum status check_shape(const Sluice__V1__Sampling *m, uint32_t vocab,
                               struct error *e)
{
    if (range("temperature", m->temperature, 0, TEMPERATURE_MAX, e) != ST_OK ||
        range("min_p", m->min_p, 0, 1, e) != ST_OK) {
        return e->code;
    }
    if (!(m->top_p > 0 && m->top_p <= 1)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "top_p is %g, it must be above 0 and at most 1",
                         (double)m->top_p);
    }
    if (m->top_k > vocab) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "top_k is %u, it must be 0 (all) to the vocabulary, "
                         "%u",
                         m->top_k, vocab);
    }
    return ST_OK;
}

static enum status check_penalties(const Sluice__V1__Sampling *m,
                                   struct error *e)
{
    if (range("repetition_penalty", m->repetition_penalty,
              REPETITION_PENALTY_MIN, REPETITION_PENALTY_MAX, e) != ST_OK ||
        range("presence_penalty", m->presence_penalty, -PENALTY_MAX,
              PENALTY_MAX, e) != ST_OK ||
        range("frequency_penalty", m->frequency_penalty, -PENALTY_MAX,
              PENALTY_MAX, e) != ST_OK) {
        return e->code;
    }
    return ST_OK;
}

/* Ascending: no id twice, and one order for one set. */
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
        if (!within(m->biases[i], -LOGIT_BIAS_MAX, LOGIT_BIAS_MAX)) {
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

    if (check_shape(m, vocab, e) != ST_OK || check_penalties(m, e) != ST_OK ||
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
    out->temperature = m->temperature;
    out->top_k = m->top_k;
    out->top_p = m->top_p;
    out->min_p = m->min_p;
    out->repetition_penalty = m->repetition_penalty;
    out->presence_penalty = m->presence_penalty;
    out->frequency_penalty = m->frequency_penalty;
    out->seed = m->has_seed ? m->seed : 0;
    out->ignore_eos = m->ignore_eos;
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
    out->has_temperature = out->has_top_k = out->has_top_p = true;
    out->temperature = s->temperature;
    out->top_k = s->top_k;
    out->top_p = s->top_p;
    out->has_min_p = s->min_p != 0;
    out->min_p = s->min_p;
    out->has_repetition_penalty = s->repetition_penalty != 1;
    out->repetition_penalty = s->repetition_penalty;
    out->has_presence_penalty = s->presence_penalty != 0;
    out->presence_penalty = s->presence_penalty;
    out->has_frequency_penalty = s->frequency_penalty != 0;
    out->frequency_penalty = s->frequency_penalty;
    out->has_seed = true;
    out->seed = s->seed;
    out->has_ignore_eos = out->ignore_eos = s->ignore_eos;
    out->has_logprobs = out->logprobs = s->logprobs;
    out->has_top_logprobs = s->n_top_logprobs > 0;
    out->top_logprobs = s->n_top_logprobs;
    out->n_bias_tokens = out->n_biases = s->n_biases;
    out->bias_tokens = (uint32_t *)(uintptr_t)s->bias_tokens;
    out->biases = (float *)(uintptr_t)s->biases;
    out->n_stop_tokens = s->n_stop_tokens;
    out->stop_tokens = (uint32_t *)(uintptr_t)s->stop_tokens;
}
