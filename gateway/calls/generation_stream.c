/* generation_stream.c - From the chunks of the router to the answer. */
#include "common/base/plant.h"
#include "gateway/calls/generation.h"

struct emit {
    struct generation *g;
    uint32_t index;
    struct generation_choice *choice;
};

static void emit(void *arg, const struct output_event *event)
{
    const struct emit *to = arg;

    to->choice->reasoning = event->kind == OUTPUT_REASONING;
    openai_answer_output(to->g->answer, to->index, event);
}

static void put_text(struct emit *to, const char *text, size_t n)
{
    struct output_event event = {.kind = OUTPUT_CONTENT, .text = text, .n = n};

    if (to->choice->parser != NULL) {
        output_parser_push(to->choice->parser, text, n, emit, to);
    } else if (n > 0) {
        emit(to, &event);
    }
}

/* Returns the length of the whole characters in text[0..n), which may end in
 * the middle of text. */
static size_t whole_characters(const char *text, size_t n, size_t len)
{
    while (n > 0 && n < len && ((unsigned char)text[n] & 0xc0) == 0x80) {
        n--;
    }
    return n;
}

static bool is_over(const struct generation_choice *choice)
{
    return choice->parser != NULL && output_parser_done(choice->parser);
}

/* Gives the text to the parser in pieces as long as its tokens, and counts the
 * tokens of reasoning.  A chunk has the tokens that arrived together, so that
 * a count of whole chunks would depend on time.  Returns how many tokens belong
 * to the answer, which its parser may end. */
static size_t put_tokens(struct emit *to, const Sluice__V1__GenerateChunk *m)
{
    const struct tokenizer *t = served_tokenizer(to->g->model);
    const char *text = (const char *)m->text.data;
    size_t len = m->has_text ? m->text.len : 0, at = 0, end = 0;

    for (size_t i = 0; i < m->n_tokens; i++) {
        size_t n = 0;

        if (t != NULL && i + 1 < m->n_tokens) {
            (void)tokenizer_token(t, m->tokens[i], &n);
            end = end + n < len ? end + n : len;
            n = whole_characters(text, end, len) - at;
        } else {
            n = i + 1 < m->n_tokens ? 0 : len - at;
        }
        if (n > 0) {
            put_text(to, text + at, n);
        }
        at += n;
        to->g->usage.reasoning += to->choice->reasoning;
        if (is_over(to->choice)) {
            return i + 1;
        }
    }
    if (at < len) { /* text without a token */
        put_text(to, text + at, len - at);
    }
    return m->n_tokens;
}

/* Checks the lists whose lengths depend on each other. */
static bool logprobs_fit(const struct sampling *s,
                         const Sluice__V1__GenerateChunk *m)
{
    size_t n_top = m->n_tokens * s->n_top_logprobs;

    return m->n_logprobs == m->n_tokens && m->n_top_tokens == n_top &&
           m->n_top_logprobs == n_top;
}

static void put_logprobs(struct generation *g, uint32_t index,
                         const Sluice__V1__GenerateChunk *m, size_t n)
{
    struct openai_logprobs l = {.n_tokens = (uint32_t)n,
                                .n_top = g->request->sampling.n_top_logprobs,
                                .tokens = m->tokens,
                                .logprobs = m->logprobs,
                                .top_tokens = m->top_tokens,
                                .top_logprobs = m->top_logprobs};

    openai_answer_logprobs(g->answer, index, &l);
}

/* Choices share one prompt: only the choice that computed it shows how much was
 * reused. */
static void count_cached(struct generation *g, struct generation_prompt *p,
                         const Sluice__V1__GenerateFigures *f)
{
    uint32_t n = f->n_cached;

    if (!f->has_n_cached || (p->has_cached && p->n_cached <= n)) {
        return;
    }
    g->usage.cached += n;
    g->usage.cached -= p->n_cached;
    p->n_cached = n;
    p->has_cached = true;
}

static void count(struct generation *g, struct generation_prompt *p,
                  const Sluice__V1__GenerateChunk *m, size_t n)
{
    if (g->first_us == 0 && m->n_tokens > 0) {
        g->first_us = service_now_us(g->service);
    }
    if (!PLANT(GATEWAY_USAGE_OFF) ||
        m->finish == SLUICE__V1__FINISH__FINISH_RUNNING) {
        g->usage.completion += n;
    }
    /* The length of a prompt that the router encoded comes with the figures. */
    if (m->figures != NULL && p->ids == NULL && p->n_ids == 0) {
        p->n_ids = m->figures->n_prompt;
        g->usage.prompt += p->n_ids;
    }
    if (m->figures != NULL) {
        count_cached(g, p, m->figures);
    }
    openai_answer_usage(g->answer, &g->usage);
}

void generation_uncount(struct generation_prompt *p)
{
    if (p->counted) {
        p->counted = false;
        p->g->usage.prompt -= p->n_ids;
    }
}

static const char *reason_of(const struct generation_choice *choice,
                             Sluice__V1__Finish finish)
{
    if (finish == SLUICE__V1__FINISH__FINISH_LENGTH) {
        return "length";
    }
    return choice->parser != NULL && output_parser_called(choice->parser)
               ? "tool_calls"
               : "stop";
}

/* The default, not the context or the request, may have ended a choice. */
static void note_length(struct generation_prompt *p, Sluice__V1__Finish finish)
{
    const struct generation *g = p->g;
    const struct openai_request *r = g->request;

    if (finish == SLUICE__V1__FINISH__FINISH_LENGTH && !r->has_max_tokens &&
        p->max_tokens == generation_tokens(g->service, g->dialect, r)) {
        p->cut = true;
    }
}

static void fail(struct generation *g, enum status st, const char *why)
{
    struct openai_error e;
    struct error from;

    (void)error_set(&from, st, "%s", why);
    openai_error_of_status(&e, st, &from);
    generation_fail(g, &e, 0);
}

/* Returns why a chunk ends the whole request, NULL if it does not. */
static const char *trouble(const struct generation *g,
                           const Sluice__V1__GenerateChunk *m)
{
    const struct sampling *s = &g->request->sampling;

    switch ((int)m->finish) {
    case SLUICE__V1__FINISH__FINISH_CANCELLED:
        return "the request was cancelled by an operator";
    case SLUICE__V1__FINISH__FINISH_FAILED:
        return "the worker failed to run the sequence";
    default:
        return (s->logprobs || s->n_top_logprobs > 0) && !logprobs_fit(s, m)
                   ? "the router sent logprobs that do not fit their tokens"
                   : NULL;
    }
}

/* Puts a chunk's tokens into the answer; returns how many belong to it. */
static size_t put_chunk(struct emit *to, const Sluice__V1__GenerateChunk *m)
{
    size_t n = m->n_tokens;

    if (!PLANT(GATEWAY_LAST_CHUNK) ||
        m->finish == SLUICE__V1__FINISH__FINISH_RUNNING) {
        n = put_tokens(to, m);
    }
    if (to->g->request->sampling.logprobs && n > 0) {
        put_logprobs(to->g, to->index, m, n);
    }
    return n;
}

/* Ends a choice.  After the last one, the call has nothing to do: it is
 * cancelled if the router goes on. */
static void close_choice(struct emit *to, struct generation_prompt *p,
                         const char *reason)
{
    to->choice->closed = true;
    p->n_closed++;
    openai_answer_finish(to->g->answer, to->index, reason);
    if (!generation_whole(to->g) || p->n_closed < to->g->request->n) {
        return;
    }
    p->enough = true;
    if (p->n_finished < p->n_closed) {
        resumable_cancel(&p->stream);
    }
}

static void on_chunk(void *arg, const Sluice__V1__GenerateChunk *m)
{
    struct generation_prompt *p = arg;
    struct generation *g = p->g;
    struct generation_choice *choice = &p->choices[m->choice];
    uint32_t index = PLANT(GATEWAY_MIXES_CHOICES)
                         ? m->choice
                         : p->index * g->request->n + m->choice;
    struct emit to = {g, index, choice};
    const char *why = trouble(g, m);
    bool is_last = m->finish != SLUICE__V1__FINISH__FINISH_RUNNING;
    size_t n = 0;

    if (g->state == GENERATION_OVER) {
        return;
    }
    p->answered = true;
    p->n_finished += is_last;
    if (why != NULL) {
        fail(g, ST_INTERNAL, why);
        return;
    }
    generation_answer(g);
    if (g->state == GENERATION_OVER) {
        return;
    }
    if (!choice->closed) {
        n = put_chunk(&to, m);
    }
    count(g, p, m, n);
    if (choice->closed) {
        return;
    }
    if (is_over(choice)) {
        close_choice(&to, p, "tool_calls");
    } else if (is_last) {
        if (choice->parser != NULL) {
            output_parser_finish(choice->parser, emit, &to);
        }
        note_length(p, m->finish);
        if (m->has_stop_string) {
            openai_answer_stopped(g->answer, index, m->stop_string);
        }
        close_choice(&to, p, reason_of(choice, m->finish));
    } else {
        openai_answer_flush(g->answer, index);
        (void)!generation_whole(g);
    }
}

/* The answer is complete. */
static void finish(struct generation *g)
{
    generation_remark(g);
    openai_answer_end(g->answer, &g->usage);
    if (!generation_whole(g)) {
        return;
    }
    if (g->x != NULL) { /* a stream; a whole answer ended its exchange */
        generation_end_stream(g);
    }
    generation_over(g);
}

void generation_finish_empty(struct generation *g)
{
    generation_answer(g);
    for (uint32_t i = 0;
         g->state != GENERATION_OVER && i < openai_request_choices(g->request);
         i++) {
        openai_answer_finish(g->answer, i, "length");
    }
    if (g->state != GENERATION_OVER && generation_whole(g)) {
        finish(g);
    }
}

static void on_end(void *arg, enum status status, const struct error *e,
                   uint32_t retry_after_ms)
{
    struct generation_prompt *p = arg;
    struct generation *g = p->g;
    struct openai_error error;

    if (!PLANT(UPSTREAM_PLACE_LEAK) || status == ST_OK) {
        upstream_give(g->service->upstream, p->core);
    }
    p->core = NULL;
    if (g->state == GENERATION_OVER) {
        return;
    }
    if (status != ST_OK && !p->enough) {
        if (!p->answered) {
            generation_uncount(p);
        }
        openai_error_of_status(&error, status, e);
        if (status == ST_DEADLINE_EXCEEDED) {
            openai_error_set(&error, 504, NULL, NULL,
                             "the timeout of %.3f s passed before the answer "
                             "was complete",
                             (double)g->request->timeout_ms / 1000);
        }
        generation_fail(g, &error, retry_after_ms);
    } else if (++g->n_ended == g->n_prompts) {
        generation_answer(g); /* a choice may end without any chunk */
        if (g->state != GENERATION_OVER) {
            finish(g);
        }
    }
}

const struct resumable_ops generation_stream_ops = {.on_chunk = on_chunk,
                                                    .on_end = on_end};
