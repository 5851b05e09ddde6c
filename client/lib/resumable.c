/* resumable.c - A request that survives its connection. */
#include "client/lib/resumable.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/wire/session.h"

#define SHORT_RETRY_MS 1000 /* after a lack of memory */

static_assert(RESUMABLE_FIRST_MS * 1000 > SESSION_OPEN_US,
              "an unanswered connection is followed by another attempt");

/* Ends the request.  The state changes first, because on_end may free it. */
static void end_request(struct resumable *s, enum status status,
                        const struct error *e, uint32_t retry_after_ms)
{
    s->state = RESUMABLE_ENDED;
    client_core_unwait(s->core, &s->wait);
    s->options.ops->on_end(s->options.arg, status, e, retry_after_ms);
}

/* ---- chunks ---- */

/* Checks that a chunk continues its choice.  A gap or a repetition would
 * silently corrupt the text, so it ends the request DATA_LOSS instead. */
static enum status check_chunk(const struct resumable *s,
                               const Sluice__V1__GenerateChunk *m,
                               struct error *e)
{
    const struct resumable_choice *k;

    if (m->choice >= s->n_choices) {
        return error_set(e, ST_DATA_LOSS,
                         "bad chunk from the router: choice %u of %u",
                         m->choice, s->n_choices);
    }
    k = &s->choices[m->choice];
    if (k->ended) {
        return error_set(e, ST_DATA_LOSS,
                         "bad chunk from the router: tokens of choice %u "
                         "after its end",
                         m->choice);
    }
    if (m->n_tokens > 0 && m->first_index != k->n) {
        return error_set(e, ST_DATA_LOSS,
                         "bad chunk from the router: tokens from index %u, "
                         "expected index %u",
                         m->first_index, k->n);
    }
    return ST_OK;
}

static bool keep_tokens(struct resumable_choice *k, const uint32_t *tokens,
                        size_t n)
{
    size_t size = k->size == 0 ? 64 : k->size;
    uint32_t *grown;

    while (size < k->n + n) {
        size *= 2;
    }
    if (size != k->size) {
        grown = realloc(k->tokens, size * sizeof(*k->tokens));
        if (grown == NULL) {
            return false;
        }
        k->tokens = grown;
        k->size = (uint32_t)size;
    }
    memcpy(k->tokens + k->n, tokens, n * sizeof(*tokens));
    return true;
}

/* Notes what a later call has to send: tokens, bytes of text, ended choices. */
static bool take_chunk(struct resumable *s, const Sluice__V1__GenerateChunk *m)
{
    struct resumable_choice *k = &s->choices[m->choice];

    if (s->options.resume_ms > 0 && m->n_tokens > 0 &&
        !keep_tokens(k, m->tokens, m->n_tokens)) {
        return false;
    }
    k->n += (uint32_t)m->n_tokens;
    k->n_text += m->has_text ? (uint32_t)m->text.len : 0;
    k->ended = m->finish != SLUICE__V1__FINISH__FINISH_RUNNING;
    return true;
}

/* Ends resuming: the new router has sent a chunk or the end. */
static void resumed(struct resumable *s)
{
    if (s->lost_us != NODE_IDLE) {
        s->n_resumes++;
        s->gap_us += s->options.io->now_us(s->options.io) - s->lost_us;
        s->lost_us = NODE_IDLE;
        s->backoff_us = RESUMABLE_BACKOFF_US;
        client_core_unwait(s->core, &s->wait);
    }
}

static void on_chunk(void *arg, const ProtobufCMessage *message)
{
    struct resumable *s = arg;
    const Sluice__V1__GenerateChunk *m =
        (const Sluice__V1__GenerateChunk *)message;
    struct error e;

    if (s->state != RESUMABLE_OPEN) {
        return;
    }
    if (check_chunk(s, m, &e) != ST_OK) {
        end_request(s, e.code, &e, 0);
        client_core_cancel(s->core, s->call);
        return;
    }
    resumed(s);
    if (!take_chunk(s, m)) {
        (void)error_set(&e, ST_RESOURCE_EXHAUSTED,
                        MEMORY_SENTENCE "the client has none for the tokens");
        end_request(s, e.code, &e, SHORT_RETRY_MS);
        client_core_cancel(s->core, s->call);
        return;
    }
    s->options.ops->on_chunk(s->options.arg, m);
}

/* ---- again ---- */

static bool has_all(const struct resumable *s)
{
    for (uint32_t c = 0; c < s->n_choices; c++) {
        if (!s->choices[c].ended) {
            return false;
        }
    }
    return s->n_choices > 0; /* 0 is invalid, and the router's to reject */
}

/* Ends the request with the reason for its loss, and with the core's trouble
 * unless the reason already contains it. */
static void give_up(struct resumable *s, enum status code)
{
    const char *trouble = client_core_trouble(s->core);
    bool more = !client_core_up(s->core) && *trouble != '\0' &&
                strstr(s->why.text, trouble) == NULL;
    struct error e;

    (void)error_set(&e, code, "%s%s%s; no router accepted the request in time",
                    s->why.text, more ? "; " : "", more ? trouble : "");
    end_request(s, code, &e, 0);
}

/* Returns the time at which resume_ms end. */
static int64_t give_up_at_us(const struct resumable *s)
{
    uint32_t ms = s->options.resume_ms;

    return s->waits_us + (int64_t)(ms > 0 ? ms : RESUMABLE_FIRST_MS) * 1000;
}

static int64_t jitter(struct resumable *s, int64_t us)
{
    struct node_io *io = s->options.io;

    return (int64_t)(io->random(io) % (uint64_t)(us + 1));
}

/* Calls again after a pause.  The pause is random by half, so that the clients
 * of a lost router do not reach the next one at the same moment.  At the
 * deadline or at the end of resume_ms the request gives up instead. */
static void call_later(struct resumable *s, uint32_t retry_after_ms)
{
    int64_t now_us = s->options.io->now_us(s->options.io);
    int64_t asked_us = (int64_t)retry_after_ms * 1000;
    int64_t due_us, end_us = give_up_at_us(s);

    if (now_us >= s->deadline_us) {
        give_up(s, ST_DEADLINE_EXCEEDED);
        return;
    }
    if (now_us >= end_us) {
        give_up(s, ST_UNAVAILABLE);
        return;
    }
    if (asked_us > RESUMABLE_RETRY_MAX_US) {
        asked_us = RESUMABLE_RETRY_MAX_US;
    }
    if (asked_us < s->backoff_us / 2) {
        asked_us = s->backoff_us / 2;
    }
    s->backoff_us = s->backoff_us * 2 < RESUMABLE_BACKOFF_MAX_US
                        ? s->backoff_us * 2
                        : RESUMABLE_BACKOFF_MAX_US;
    due_us = now_us + asked_us + jitter(s, asked_us);
    due_us = due_us < end_us ? due_us : end_us;
    due_us = due_us < s->deadline_us ? due_us : s->deadline_us;
    s->state = RESUMABLE_WAITING;
    client_core_wait(s->core, &s->wait, due_us);
}

/* Returns whether a refusal while resuming is retryable. */
static bool is_retryable(const struct resumable *s, enum status status,
                         uint32_t retry_after_ms)
{
    switch ((int)status) {
    case ST_UNAVAILABLE:
        return true;
    case ST_RESOURCE_EXHAUSTED: /* from the router, or for its Hello */
        return retry_after_ms > 0 || !client_core_up(s->core);
    case ST_ALREADY_EXISTS:
        return retry_after_ms > 0;
    default:
        return false;
    }
}

/* Returns whether a call ended because its session was lost, not because the
 * request failed.  ALREADY_EXISTS with a retry_after_ms counts as a loss too:
 * the router has another call of this request_id, such as an older one of this
 * client that a slow network delivered later. */
static bool is_loss(const struct resumable *s, enum status status,
                    uint32_t retry_after_ms)
{
    if (status == ST_ALREADY_EXISTS) {
        return retry_after_ms > 0;
    }
    return status == ST_UNAVAILABLE && !client_core_up(s->core) &&
           client_core_refused(s->core) == ST_OK;
}

/* Notes a loss: its time, its reason, and the start of resume_ms. */
static void note_loss(struct resumable *s, const struct error *e)
{
    int64_t now_us = s->options.io->now_us(s->options.io);
    bool first = s->lost_us == NODE_IDLE;

    /* A call that waits for a session does not end with a session.  This call
     * was therefore open in a session, whose router had accepted it, and
     * resume_ms start again. */
    if (first || e->code == ST_UNAVAILABLE) {
        s->waits_us = now_us;
        s->why = *e;
        if (!client_core_up(s->core)) { /* the core has the cause */
            (void)error_set(&s->why, ST_UNAVAILABLE, "%s",
                            client_core_trouble(s->core));
        }
    }
    if (first) {
        s->lost_us = now_us;
        if (s->options.ops->on_lost != NULL) {
            s->options.ops->on_lost(s->options.arg, s->why.text);
        }
    }
}

static void on_end(void *arg, enum status status, const ProtobufCMessage *reply,
                   const struct error *e, uint32_t retry_after_ms)
{
    struct resumable *s = arg;
    bool resumes = s->options.resume_ms > 0 && !client_core_ending(s->core);

    (void)reply;
    if (s->state != RESUMABLE_OPEN) {
        return;
    }
    if (status == ST_OK) {
        resumed(s);
        end_request(s, ST_OK, NULL, 0);
    } else if (resumes && is_loss(s, status, retry_after_ms)) {
        if (has_all(s)) { /* only the End is missing, and it carries no data */
            end_request(s, ST_OK, NULL, 0);
            return;
        }
        note_loss(s, e);
        call_later(s, retry_after_ms);
    } else if (resumes && s->lost_us != NODE_IDLE &&
               is_retryable(s, status, retry_after_ms)) {
        s->why = *e;
        call_later(s, retry_after_ms);
    } else {
        end_request(s, status, e, retry_after_ms);
    }
}

/* ---- calls ---- */

/* The received part of each choice, as fields of the next request. */
struct received {
    uint32_t count[CHOICES_MAX], text[CHOICES_MAX];
    protobuf_c_boolean ended[CHOICES_MAX];
    uint32_t *tokens; /* owned */
};

/* Adds the received parts to a request; the tokens of all choices are one
 * array, in the order of the choices. */
static bool put_received(const struct resumable *s, struct received *h,
                         Sluice__V1__GenerateRequest *m)
{
    size_t n = 0;

    for (uint32_t c = 0; c < s->n_choices; c++) {
        n += s->choices[c].n;
    }
    h->tokens = malloc(n * sizeof(*h->tokens) + 1);
    if (h->tokens == NULL) {
        return false;
    }
    m->have_tokens = h->tokens;
    for (uint32_t c = 0; c < s->n_choices; c++) {
        const struct resumable_choice *k = &s->choices[c];

        h->count[c] = k->n;
        h->text[c] = k->n_text;
        h->ended[c] = k->ended;
        if (k->n > 0) {
            memcpy(h->tokens + m->n_have_tokens, k->tokens,
                   k->n * sizeof(*k->tokens));
            m->n_have_tokens += k->n;
        }
    }
    m->n_have_count = m->n_have_text = m->n_have_ended = s->n_choices;
    m->have_count = h->count;
    m->have_text = h->text;
    m->have_ended = h->ended;
    return true;
}

static const struct client_call_ops call_ops = {on_chunk, on_end};

/* Calls Generate with the time left, and after a loss with the received
 * parts.  The core copies the request, so the parts are freed at once. */
static enum status call_generate(struct resumable *s, int64_t now_us)
{
    Sluice__V1__GenerateRequest m = *s->request;
    struct received have = {.tokens = NULL};
    uint32_t left_ms = 0;
    enum status st;

    if (s->deadline_us != NODE_IDLE) {
        left_ms = (uint32_t)((s->deadline_us - now_us + 999) / 1000);
    }
    if (s->lost_us != NODE_IDLE && !put_received(s, &have, &m)) {
        return ST_RESOURCE_EXHAUSTED;
    }
    s->state = RESUMABLE_OPEN;
    st = client_core_call(s->core, METHOD_INFERENCE_GENERATE, &m.base, left_ms,
                          &call_ops, s, &s->call);
    free(have.tokens);
    return st;
}

/* Calls again after a backoff.  If the core has no free call, the request
 * waits for another backoff. */
static void call_again(struct resumable *s, int64_t now_us)
{
    enum status st = call_generate(s, now_us);
    struct error e;

    if (st == ST_OK) {
        client_core_wait(s->core, &s->wait, give_up_at_us(s));
    } else if (st == ST_RESOURCE_EXHAUSTED) {
        call_later(s, 0);
    } else {
        (void)error_set(&e, ST_UNAVAILABLE,
                        "%s; the request cannot be resumed, because it is too "
                        "long together with the tokens received",
                        s->why.text);
        end_request(s, ST_UNAVAILABLE, &e, 0);
    }
}

/* Starts resume_ms for a call that waits for its first session. */
static void await_session(struct resumable *s, int64_t now_us)
{
    const char *trouble = client_core_trouble(s->core);

    (void)error_set(&s->why, ST_UNAVAILABLE, "%s",
                    *trouble != '\0' ? trouble : "not connected to a router");
    s->waits_us = now_us;
    client_core_wait(s->core, &s->wait, give_up_at_us(s));
}

/* The backoff is over, or no session came within resume_ms. */
static void on_wait(struct client_wait *w)
{
    struct resumable *s =
        (struct resumable *)((char *)w - offsetof(struct resumable, wait));
    int64_t now_us = s->options.io->now_us(s->options.io);
    struct error e;

    if (client_core_ending(s->core)) {
        (void)error_set(&e, ST_UNAVAILABLE, "the client is closing");
        end_request(s, ST_UNAVAILABLE, &e, 0);
    } else if (s->state == RESUMABLE_WAITING) {
        if (now_us >= s->deadline_us || now_us >= give_up_at_us(s)) {
            call_later(s, 0); /* gives up */
        } else {
            call_again(s, now_us);
        }
    } else if (!client_core_up(s->core)) {
        give_up(s, ST_UNAVAILABLE);
        client_core_cancel(s->core, s->call);
    }
}

enum status resumable_begin(struct resumable *s, struct client_core *core,
                            const Sluice__V1__GenerateRequest *request,
                            const struct resumable_options *options)
{
    int64_t now_us = options->io->now_us(options->io);

    *s = (struct resumable){
        .core = core,
        .options = *options,
        .request = request,
        .deadline_us = NODE_IDLE,
        .lost_us = NODE_IDLE,
        .backoff_us = RESUMABLE_BACKOFF_US,
        .wait = {.fire = on_wait},
        .n_choices = request->n < CHOICES_MAX ? request->n : CHOICES_MAX};
    enum status st;

    if (options->deadline_ms > 0) {
        s->deadline_us = now_us + (int64_t)options->deadline_ms * 1000;
    }
    st = call_generate(s, now_us);
    if (st != ST_OK) {
        s->state = RESUMABLE_ENDED;
    } else if (!client_core_up(core)) {
        await_session(s, now_us);
    }
    return st;
}

void resumable_cancel(struct resumable *s)
{
    enum resumable_state state = s->state;
    struct error e;

    if (state == RESUMABLE_ENDED) {
        return;
    }
    (void)error_set(&e, ST_CANCELLED, "cancelled by the caller");
    end_request(s, ST_CANCELLED, &e, 0);
    if (state == RESUMABLE_OPEN) {
        client_core_cancel(s->core, s->call);
    }
}

void resumable_fini(struct resumable *s)
{
    for (uint32_t c = 0; c < s->n_choices; c++) {
        free(s->choices[c].tokens);
    }
    s->n_choices = 0;
}
