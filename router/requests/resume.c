#include "router/requests/resume.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "common/wire/request_id.h"
#include "router/requests/choice_life.h"
#include "router/requests/request_end.h"

typedef Sluice__V1__GenerateRequest generate_message;

/* ---- checks ---- */

static enum status check_columns(const generate_message *m, struct error *e)
{
    uint64_t sum = 0;

    if (m->n_have_count != m->n || m->n_have_text != m->n ||
        m->n_have_ended != m->n) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "have_count, have_text and have_ended have %zu, %zu "
                         "and %zu entries; each needs one per choice, %" PRIu32,
                         m->n_have_count, m->n_have_text, m->n_have_ended,
                         m->n);
    }
    for (uint32_t c = 0; c < m->n; c++) {
        sum += m->have_count[c];
    }
    if (sum != m->n_have_tokens) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "have_count adds up to %" PRIu64
                         " tokens, but have_tokens has %zu",
                         sum, m->n_have_tokens);
    }
    return ST_OK;
}

static enum status too_many(uint32_t choice, uint32_t count, uint32_t max,
                            struct error *e)
{
    return error_set(e, ST_INVALID_ARGUMENT,
                     "choice %" PRIu32 ": have_count is %" PRIu32
                     ", more than max_tokens, %" PRIu32,
                     choice, count, max);
}

static enum status check_choices(const generate_message *m, struct error *e)
{
    for (uint32_t c = 0; c < m->n; c++) {
        if (m->has_max_tokens && m->have_count[c] > m->max_tokens) {
            return too_many(c, m->have_count[c], m->max_tokens, e);
        }
        if (m->have_count[c] == 0 && m->have_text[c] > 0) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "choice %" PRIu32 ": have_text is %" PRIu32
                             " bytes, but have_count is 0",
                             c, m->have_text[c]);
        }
    }
    return ST_OK;
}

static enum status check_ids(const generate_message *m, uint32_t vocab,
                             struct error *e)
{
    for (size_t i = 0; i < m->n_have_tokens; i++) {
        if (m->have_tokens[i] >= vocab) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "have_tokens: token %zu is %" PRIu32
                             ", but the vocabulary has %" PRIu32 " tokens",
                             i, m->have_tokens[i], vocab);
        }
    }
    return ST_OK;
}

enum status resume_check(const generate_message *m, uint32_t vocab,
                         struct error *e)
{
    enum status st = ST_OK;

    if (resume_asked(m)) {
        st = check_columns(m, e);
        st = st == ST_OK ? check_choices(m, e) : st;
        st = st == ST_OK ? check_ids(m, vocab, e) : st;
    }
    return st;
}

enum status resume_check_length(const struct request *request, struct error *e)
{
    for (uint32_t c = 0; c < request->n_choices; c++) {
        if (request->choices[c].out.n_client_has > request->max_tokens) {
            return too_many(c, request->choices[c].out.n_client_has,
                            request->max_tokens, e);
        }
    }
    return ST_OK;
}

/* ---- the old request ---- */

void resume_superseded(struct error *e)
{
    error_set(e, ST_ALREADY_EXISTS,
              "the request was resumed in another session");
}

static void end_call(struct requests *r, struct request *old)
{
    struct error e;

    resume_superseded(&e);
    pending_fail(r->fleet, &old->call, &e, RESUME_RETRY_MS);
    request_cancel(r, old, SLUICE__V1__CANCEL_REASON__CANCEL_CLIENT_GONE);
}

bool resume_make_way(struct requests *r, struct request *old,
                     const struct router_peer *p, uint32_t *retry_ms)
{
    uint8_t id[REQUEST_ID_BYTES];

    /* old may be freed below; only its id shows whether it is gone. */
    memcpy(id, old->id, sizeof id);
    *retry_ms = RESUME_RETRY_MS;
    /* A second call within one session is a client's error, not a resume. */
    if (pending_is_open(&old->call) && old->call.peer == p) {
        *retry_ms = 0;
    } else if (pending_is_open(&old->call)) {
        end_call(r, old);
    } else {
        request_release(r, old);
    }
    return request_find(r, id, sizeof id) == NULL;
}

/* ---- the new request ---- */

static bool take_choice(struct choice *choice, const uint32_t *tokens,
                        uint32_t n, uint32_t text, bool ended)
{
    choice->out.n_generated = choice->out.n_sent = choice->out.n_client_has = n;
    choice->text.skip_bytes = text;
    /* An ended choice generates no more, so its tokens are not needed. */
    if (!ended && n > 0) {
        if (!choice_reserve(choice, n)) {
            return false;
        }
        memcpy(choice->out.tokens, tokens, n * sizeof *tokens);
    }
    if (PLANT(RESUME_TEXT)) {
        choice->text.n_detokenized = n;
        choice->text.skip_bytes = 0;
    }
    if (PLANT(RESUME_TWICE) && n > 0 && !choice->request->sampling.logprobs) {
        choice->out.n_sent--;
    }
    return true;
}

void resume_count(struct requests *r, const struct request *request)
{
    r->base->metrics.resumed += request->resumed;
    r->base->metrics.had_ended += request->n_resumed_ended;
}

bool resume_take(struct requests *r, struct request *request,
                 const generate_message *m)
{
    char id[REQUEST_ID_TEXT];
    const uint32_t *tokens = m->have_tokens;
    struct error e;

    if (!resume_asked(m)) {
        return true;
    }
    request_id_format(request->id, id);
    log_info("resumed", "request=%s choices=%" PRIu32 " tokens=%zu", id, m->n,
             m->n_have_tokens);
    request->resumed = true;
    for (uint32_t c = 0; c < request->n_choices; c++) {
        if (!take_choice(&request->choices[c], tokens, m->have_count[c],
                         m->have_text[c], m->have_ended[c])) {
            error_set(&e, ST_RESOURCE_EXHAUSTED,
                      MEMORY_SENTENCE "the router has none left");
            request_refuse(r, request, &e, RETRY_MS_MIN);
            return false;
        }
        /* have_tokens is NULL if no choice has any. */
        if (m->have_count[c] > 0) {
            tokens += m->have_count[c];
        }
        if (m->have_ended[c]) {
            choice_end_silent(r, &request->choices[c]);
            request->n_resumed_ended++;
        }
    }
    if (request->n_unsent > 0) {
        return true;
    }
    resume_count(r, request);
    pending_end(r->fleet, &request->call, NULL);
    request_settle(r, request);
    return false;
}
