#include "tests/sim/choice.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/utf8.h"
#include "tests/sim/sim.h"

#define GONE_US 20000 /* ticks of a gateway, and time to call off */

static void wrong(struct sim_choice *c, const char *what)
{
    sim_fail(c->request->sim, (int32_t)c->request->number, "choice %u: %s",
             c->number, what);
}

static const struct fake_model *model_of(const struct sim_choice *c)
{
    return &c->request->sim->options.models[c->request->model];
}

static void *allocate(size_t n, size_t size)
{
    void *p = malloc(n * size + 1);

    if (!p) {
        abort();
    }
    return p;
}

void sim_choice_init(struct sim_choice *c, struct sim_request *request,
                     uint32_t number)
{
    size_t n = request->max_tokens, n_top = request->sampling.n_top_logprobs;

    *c = (struct sim_choice){.request = request, .number = number};
    c->got = allocate(n, sizeof(*c->got));
    if (request->sampling.logprobs) {
        c->logprobs = allocate(n, sizeof(*c->logprobs));
        c->top_tokens = allocate(n * n_top, sizeof(*c->top_tokens));
        c->top_logprobs = allocate(n * n_top, sizeof(*c->top_logprobs));
    }
    if (sim_request_has_text(request)) {
        c->text = allocate((n + 1) * VOCABULARY_BYTES + PLAIN_MAX, 3);
        c->text_end = allocate(n, sizeof(*c->text_end));
    }
}

void sim_choice_fini(struct sim_choice *c)
{
    free(c->got);
    free(c->logprobs);
    free(c->top_tokens);
    free(c->top_logprobs);
    free(c->text);
    free(c->text_end);
}

/* ---- tokens and logprobs ---- */

static void check_logprobs(struct sim_choice *c, uint32_t i)
{
    uint32_t n_top = c->request->sampling.n_top_logprobs;
    struct token_logprob top[TOP_LOGPROBS_MAX];
    float own = oracle_logprobs(&c->oracle, model_of(c), c->got[i], n_top, top);
    bool same = memcmp(&own, &c->logprobs[i], sizeof(own)) == 0;

    for (uint32_t k = 0; k < n_top; k++) {
        size_t at = (size_t)i * n_top + k;

        same = same && top[k].token == c->top_tokens[at] &&
               memcmp(&top[k].logprob, &c->top_logprobs[at], sizeof(own)) == 0;
    }
    if (!same) {
        sim_fail(c->request->sim, (int32_t)c->request->number,
                 "choice %u: wrong logprobs for token %u", c->number, i);
    }
}

static void check_token(struct sim_choice *c, uint32_t i)
{
    const struct sim_request *request = c->request;
    const struct fake_model *m = model_of(c);

    if (i && oracle_ends(m, &request->sampling, c->got[i - 1])) {
        wrong(c, "token received after the end token");
    } else if (c->got[i] !=
               oracle_next(&c->oracle, m, &request->sampling, c->number, i)) {
        sim_fail(request->sim, (int32_t)request->number,
                 "choice %u: wrong token at index %u", c->number, i);
    } else if (request->sampling.logprobs) {
        check_logprobs(c, i);
    }
}

void sim_choice_check(struct sim_choice *c)
{
    const struct sim_request *request = c->request;
    const struct fake_model *m = model_of(c);

    sim_request_feed(request, &c->oracle);
    for (; c->n_checked < c->n_got && !request->sim->failed; c->n_checked++) {
        check_token(c, c->n_checked);
        oracle_feed(&c->oracle, m, c->got[c->n_checked], ROW_GENERATED);
    }
}

/* ---- text ---- */

/* The token that ends the sequence has no text. */
static void add_text(struct sim_choice *c, uint32_t from)
{
    const struct sim_request *request = c->request;

    for (uint32_t i = from; i < c->n_got; i++) {
        if (!oracle_ends(model_of(c), &request->sampling, c->got[i])) {
            c->n_text += plain_push(&c->plain, c->got[i], c->text + c->n_text);
        }
        c->text_end[i] = (uint32_t)c->n_text;
    }
}

static void take_text(struct sim_choice *c, const Sluice__V1__GenerateChunk *m)
{
    size_t n = m->text.len;

    if (n == 0) {
        return;
    }
    if (!c->request->want_text) {
        wrong(c, "text received that was not requested");
    } else if (!utf8_valid(m->text.data, n, NULL)) {
        wrong(c, "text is not valid UTF-8");
    } else if (c->n_text_received > c->n_text ||
               n > c->n_text - c->n_text_received ||
               memcmp(c->text + c->n_text_received, m->text.data, n) != 0) {
        wrong(c, "text does not match the tokens");
    } else {
        c->n_text_received += n;
    }
}

struct match {
    size_t begin, end;
    uint32_t string;
    bool found;
};

/* Returns the match that ends first; of these, the one that begins first; of
 * equal ones, the first in the request. */
static struct match first_stop(const struct sim_choice *c)
{
    const struct sim_request *request = c->request;
    struct match m = {0};

    for (size_t end = 1; end <= c->n_text && !m.found; end++) {
        for (uint32_t k = 0; k < request->n_stops; k++) {
            size_t n = strlen(request->stops[k]);

            if (n <= end &&
                memcmp(c->text + end - n, request->stops[k], n) == 0 &&
                (!m.found || end - n < m.begin)) {
                m = (struct match){end - n, end, k, true};
            }
        }
    }
    return m;
}

static void count_stop(struct sim_choice *c, const struct match *m)
{
    struct cells *cells = &c->request->sim->counts.cells;
    uint32_t last = c->n_got - 1;
    size_t begin = last ? c->text_end[last - 1] : 0;

    cells->deeds[DEED_STOP_BORDER] += m->begin == begin;
    cells->deeds[DEED_STOP_ACROSS] += m->begin < begin;
    cells->deeds[DEED_STOP_FIRST] += last == 0;
    cells->deeds[DEED_STOP_MOVED] += c->n_moves != 0;
    cells->deeds[DEED_STOP_AT_LENGTH] += c->n_got == c->request->max_tokens;
    cells->deeds[DEED_STOP_BROKEN] += m->end > c->text_end[last];
    if (c->n_checked == c->n_got &&
        oracle_ends(model_of(c), &c->request->sampling,
                    oracle_next(&c->oracle, model_of(c), &c->request->sampling,
                                c->number, c->n_got))) {
        cells->deeds[DEED_STOP_BEFORE_END]++;
    }
}

/* Returns the time after which a stopped choice must hold no memory on a
 * worker, from the moment its client received the end: a message to the worker,
 * and the plans that name the sequence. */
static int64_t gone_us(const struct sim *s)
{
    bool staged = options_has_stages(&s->options);
    int64_t us = 0, ways = staged ? 10 * (SIM_WORKERS + 1) : 10;

    for (uint32_t i = 0; i < s->options.n_workers; i++) {
        const struct worker_draw *d = &s->options.workers[i];
        int64_t step_us =
            (d->step_us * 2 + (int64_t)d->token_us * d->step_tokens) *
            (d->slow_of ? 30 : 1) * d->depth;

        if (staged) { /* this many plans may be ahead at every stage */
            us += step_us * SIM_WORKERS;
        } else {
            us = us > step_us ? us : step_us;
        }
    }
    return ways * (s->options.delay_us + s->options.jitter_us) + 2 * us;
}

static void check_gone(struct sim *s, uint32_t number, uint64_t choice)
{
    const struct sim_request *request = &s->requests[number];
    enum cell_state state = cells_state(s, number, (uint32_t)choice);

    if (state < CELL_KEPT && !sim_short && !request->shared &&
        !request->again) {
        sim_fail(s, (int32_t)number,
                 "choice %u: ended by a stop string or left by its client, "
                 "but still in state %s",
                 (uint32_t)choice, cell_state_names[state]);
    }
}

static void stopped(struct sim_choice *c, const struct match *stop)
{
    struct sim *s = c->request->sim;

    count_stop(c, stop);
    if (c->submitted_conn &&
        !network_conn(&s->network, c->submitted_conn)->open[END_PEER]) {
        s->counts.cells.deeds[DEED_STOP_LOST]++;
    }
    if (!s->options.faulty) {
        clock_add(&s->clock, sim_now(s) + gone_us(s), check_gone,
                  c->request->number, c->number);
    }
}

/* Completes the text: an incomplete character at the end is text too, and may
 * be the end of a stop string. */
static struct match end_text(struct sim_choice *c)
{
    struct match stop = first_stop(c);

    if (!stop.found) {
        c->n_text += plain_finish(&c->plain, c->text + c->n_text);
        stop = first_stop(c);
    }
    return stop;
}

/* Returns whether a choice was cancelled before a worker of the model was up.
 * The router then cannot make text, and does not send the held-back text
 * (router/calls/early.h). */
static bool cancelled_early(const struct sim_choice *c,
                            const Sluice__V1__GenerateChunk *m)
{
    return c->finish == SLUICE__V1__FINISH__FINISH_CANCELLED && c->n_had > 0 &&
           c->n_had == c->n_got && m->text.len == 0;
}

/* Checks that all text up to the first stop string was sent, and that no token
 * follows the one that completed it. */
static void last_text(struct sim_choice *c, const Sluice__V1__GenerateChunk *m)
{
    struct match stop = end_text(c);

    if (cancelled_early(c, m)) {
        return;
    }
    if (c->stopped != stop.found ||
        (stop.found && c->stop_string != stop.string)) {
        sim_fail(c->request->sim, (int32_t)c->request->number,
                 "choice %u: ended by stop string %d, expected %d", c->number,
                 c->stopped ? (int)c->stop_string : -1,
                 stop.found ? (int)stop.string : -1);
    } else if (c->stopped && c->finish != SLUICE__V1__FINISH__FINISH_STOP) {
        wrong(c, "stop string reported, but the finish reason is not STOP");
    } else if (stop.found && c->n_got > 1 &&
               c->text_end[c->n_got - 2] >= stop.end) {
        wrong(c, "token received after the stop string");
    }
    if (stop.found) {
        c->n_text = stop.begin;
        stopped(c, &stop);
    }
    take_text(c, m);
    if (c->request->want_text && c->n_text_received != c->n_text) {
        sim_fail(c->request->sim, (int32_t)c->request->number,
                 "choice %u: received %zu bytes of text, expected %zu",
                 c->number, c->n_text_received, c->n_text);
    }
}

/* ---- a choice that nobody takes ---- */

static void expect_token(struct sim_choice *c, uint32_t i)
{
    const struct sim_request *request = c->request;
    const struct fake_model *m = model_of(c);
    uint32_t n_top = request->sampling.n_top_logprobs;
    struct token_logprob top[TOP_LOGPROBS_MAX];

    c->got[i] = oracle_next(&c->oracle, m, &request->sampling, c->number, i);
    if (c->logprobs) {
        c->logprobs[i] = oracle_logprobs(&c->oracle, m, c->got[i], n_top, top);
        for (uint32_t k = 0; k < n_top; k++) {
            c->top_tokens[(size_t)i * n_top + k] = top[k].token;
            c->top_logprobs[(size_t)i * n_top + k] = top[k].logprob;
        }
    }
    oracle_feed(&c->oracle, m, c->got[i], ROW_GENERATED);
    c->n_got = c->n_checked = i + 1;
    if (c->text) {
        add_text(c, i);
    }
}

void sim_choice_expect(struct sim_choice *c)
{
    const struct sim_request *request = c->request;
    const struct fake_model *m = model_of(c);
    struct match stop = {0};
    bool ends = false;

    sim_request_feed(request, &c->oracle);
    for (uint32_t i = 0; i < request->max_tokens && !ends && !stop.found; i++) {
        expect_token(c, i);
        ends = oracle_ends(m, &request->sampling, c->got[i]);
        if (c->text && request->n_stops) {
            stop = first_stop(c);
        }
    }
    if (c->text) {
        stop = end_text(c);
        c->n_text = stop.found ? stop.begin : c->n_text;
    }
    c->stopped = stop.found;
    c->finish = ends || stop.found ? SLUICE__V1__FINISH__FINISH_STOP
                                   : SLUICE__V1__FINISH__FINISH_LENGTH;
}

void sim_request_gone_soon(const struct sim_request *request)
{
    struct sim *s = request->sim;
    int64_t us = gone_us(s) + GONE_US + 2 * (int64_t)s->options.text_us;

    for (uint32_t i = 0; i < request->n_choices && !s->options.faulty; i++) {
        clock_add(&s->clock, sim_now(s) + us, check_gone, request->number, i);
    }
}

/* ---- chunks ---- */

static bool columns_fit(const struct sim_choice *c,
                        const Sluice__V1__GenerateChunk *m)
{
    const struct sampling *p = &c->request->sampling;
    size_t n = p->logprobs ? m->n_tokens : 0;

    return m->n_logprobs == n && m->n_top_tokens == n * p->n_top_logprobs &&
           m->n_top_logprobs == n * p->n_top_logprobs;
}

static void take_logprobs(struct sim_choice *c,
                          const Sluice__V1__GenerateChunk *m)
{
    size_t n_top = c->request->sampling.n_top_logprobs;

    memcpy(&c->logprobs[c->n_got], m->logprobs,
           m->n_logprobs * sizeof(*m->logprobs));
    if (m->n_top_tokens) {
        memcpy(&c->top_tokens[c->n_got * n_top], m->top_tokens,
               m->n_top_tokens * sizeof(*m->top_tokens));
        memcpy(&c->top_logprobs[c->n_got * n_top], m->top_logprobs,
               m->n_top_logprobs * sizeof(*m->top_logprobs));
    }
}

static void take_tokens(struct sim_choice *c,
                        const Sluice__V1__GenerateChunk *m)
{
    uint32_t from = c->n_got;

    memcpy(&c->got[c->n_got], m->tokens, m->n_tokens * sizeof(*c->got));
    if (c->logprobs) {
        take_logprobs(c, m);
    }
    c->n_got += (uint32_t)m->n_tokens;
    c->request->sim->counts.tokens += m->n_tokens;
    if (c->text) {
        add_text(c, from);
    }
}

void sim_choice_chunk(struct sim_choice *c, const Sluice__V1__GenerateChunk *m)
{
    struct sim_request *request = c->request;

    if (c->finish) {
        wrong(c, "chunk received after the end");
        return;
    }
    if (m->n_tokens && m->first_index != c->n_got) {
        sim_fail(request->sim, (int32_t)request->number,
                 "choice %u: chunk at index %u, expected %u", c->number,
                 m->first_index, c->n_got);
        return;
    }
    if (m->n_tokens > request->max_tokens - c->n_got) {
        wrong(c, "more tokens than max_tokens");
        return;
    }
    if (!columns_fit(c, m)) {
        wrong(c, "logprobs do not match the number of tokens");
        return;
    }
    if (m->n_tokens) {
        take_tokens(c, m);
    }
    c->finish = m->has_finish ? m->finish : 0;
    c->figured = m->figures != NULL;
    c->stopped = m->has_stop_string;
    c->stop_string = m->stop_string;
    sim_choice_check(c);
    if (c->text && !c->finish) {
        take_text(c, m);
    } else if (c->text) {
        last_text(c, m);
    } else if (m->has_text || c->stopped) {
        wrong(c, "text received from a model without a tokenizer");
    }
}

void sim_choice_check_whole(struct sim_choice *c)
{
    const struct sim_request *request = c->request;
    bool ends = c->n_got && oracle_ends(model_of(c), &request->sampling,
                                        c->got[c->n_got - 1]);
    bool stop = c->finish == SLUICE__V1__FINISH__FINISH_STOP;

    if (!c->figured) {
        wrong(c, "last chunk has no figures");
    } else if (c->stopped) {
        return;
    } else if (stop != ends) {
        wrong(c, "wrong finish reason");
    } else if (!stop && c->n_got != request->max_tokens) {
        wrong(c, "ended by length before max_tokens");
    } else if (stop &&
               sampling_stops(&request->sampling, c->got[c->n_got - 1])) {
        request->sim->counts.cells.deeds[DEED_STOP_TOKEN]++;
        request->sim->counts.cells.deeds[DEED_STOP_TOKEN_NO_EOS] +=
            request->sampling.ignore_eos;
    }
}
