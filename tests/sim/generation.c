#include "tests/sim/generation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/inference.pb-c.h"
#include "tests/sim/sim.h"

#define DROP_US      1000
#define LATE_US      10000
#define KEEP_SURE_MS 500

static void wrong(struct generation *g, const char *what)
{
    sim_fail(g->sim, (int32_t)g->number, "%s", what);
}

static const struct fake_model *model_of(const struct generation *g)
{
    return &g->sim->options.models[g->model];
}

/* Compare what came since the last time; the prompt is fed first. */
static void check_tokens(struct generation *g)
{
    const struct fake_model *m = model_of(g);

    if (!g->seed_known) {
        return;
    }
    for (uint32_t i = g->oracle.n; i < g->n_prompt; i++) {
        oracle_feed(&g->oracle, m, g->prompt[i], ROW_PROMPT);
    }
    for (; g->n_checked < g->n_got; g->n_checked++) {
        uint32_t i = g->n_checked;

        if (i && !g->ignore_eos && oracle_is_eos(m, g->got[i - 1])) {
            wrong(g, "a token after the end token");
            return;
        }
        if (g->got[i] != oracle_next(&g->oracle, m, &g->sampling, i)) {
            sim_fail(g->sim, (int32_t)g->number, "token %u is wrong", i);
            return;
        }
        oracle_feed(&g->oracle, m, g->got[i], ROW_GENERATED);
    }
}

void generation_seed(struct generation *g, uint64_t seed)
{
    if (g->seed_known && g->sampling.seed != seed) {
        wrong(g, "the seed changed");
    }
    g->sampling.seed = seed;
    g->seed_known = true;
    check_tokens(g);
}

static void check_figures(struct generation *g,
                          const Sluice__V1__GenerateFigures *f)
{
    /* A text that was cancelled before it was encoded has no ids. */
    bool no_ids = g->as_text && f->n_prompt == 0 && g->n_got == 0 &&
                  g->finish == SLUICE__V1__FINISH__FINISH_CANCELLED;

    generation_seed(g, f->seed);
    if ((f->n_prompt != g->n_prompt && !no_ids) || f->n_generated != g->n_got) {
        wrong(g, "figures that do not tell what came");
    }
}

static void on_chunk(void *arg, const ProtobufCMessage *msg)
{
    struct generation *g = arg;
    const Sluice__V1__GenerateChunk *c = (const void *)msg;

    if (g->n_ends || g->finish) {
        wrong(g, "a chunk after the end");
        return;
    }
    if (c->n_tokens && c->first_index != g->n_got) {
        sim_fail(g->sim, (int32_t)g->number, "chunk at %u, %u wanted",
                 c->first_index, g->n_got);
        return;
    }
    if (c->n_tokens > g->max_tokens - g->n_got) {
        wrong(g, "more tokens than asked for");
        return;
    }
    if (c->n_tokens) {
        memcpy(&g->got[g->n_got], c->tokens, c->n_tokens * sizeof(*g->got));
        g->n_got += (uint32_t)c->n_tokens;
        g->sim->counts.tokens += c->n_tokens;
    }
    check_tokens(g);
    g->finish = c->has_finish ? c->finish : 0;
    if (c->figures && !g->sim->failed) {
        check_figures(g, c->figures);
    }
}

/* Its lease has just begun, and nothing here could have ended it. */
static void check_kept(struct generation *g)
{
    const struct sim *s = g->sim;
    bool awake = s->nodes[g->client].paused_us <= g->asked_us;

    if (g->keep_ms >= KEEP_SURE_MS && !s->options.faulty && !g->end_asked &&
        !g->again && !g->shared && awake &&
        cells_state(s, g->number) != CELL_KEPT) {
        wrong(g, "what was to be kept is gone");
    }
}

/* Finished by itself: is this all, and the reason the right one? */
static void check_whole(struct generation *g)
{
    bool eos = g->n_got && !g->ignore_eos &&
               oracle_is_eos(model_of(g), g->got[g->n_got - 1]);
    bool stop = g->finish == SLUICE__V1__FINISH__FINISH_STOP;

    if (g->defect != DEFECT_NONE) {
        wrong(g, "a wrong request was served");
    } else if (!g->seed_known) {
        wrong(g, "an end without figures");
    } else if (stop != eos) {
        wrong(g, "a wrong reason for the end");
    } else if (!stop && g->n_got != g->max_tokens) {
        wrong(g, "an end before the last token");
    } else {
        check_kept(g);
    }
}

static bool past_deadline(const struct generation *g)
{
    return g->deadline_ms &&
           sim_now(g->sim) >= g->asked_us + (int64_t)g->deadline_ms * 1000;
}

/* A refusal that the figures must explain. */
static bool refused_rightly(const struct generation *g)
{
    return !generation_fits(g->sim, g) || g->sim->full_us >= g->asked_us;
}

/* Is this status an ending that this seed explains? */
static bool explained(const struct generation *g)
{
    const struct sim *s = g->sim;

    switch ((int)g->status) {
    case ST_CANCELLED:
        return g->end_asked;
    case ST_DEADLINE_EXCEEDED:
        return past_deadline(g);
    case ST_RESOURCE_EXHAUSTED:
        return s->options.faulty || refused_rightly(g);
    case ST_UNAVAILABLE:
        return s->options.faulty || g->end_asked;
    case ST_ALREADY_EXISTS:
        return g->again || g->shared;
    case ST_NOT_FOUND: /* a new router knows no model until a worker comes */
        return s->options.faulty;
    case ST_INTERNAL:
        return s->options.faulty && g->defect == DEFECT_NONE;
    default:
        return false;
    }
}

/* The client's own clock ends a call, so no fault excuses a late end; only a
 * sleeper notices later. */
static void check_deadline(struct generation *g)
{
    const struct sim_node *n = &g->sim->nodes[g->client];
    int64_t deadline = g->asked_us + (int64_t)g->deadline_ms * 1000;

    if (g->deadline_ms && n->paused_us <= g->asked_us &&
        sim_now(g->sim) > deadline + LATE_US) {
        wrong(g, "an end long past the deadline");
    }
}

static void check_end(struct generation *g)
{
    const struct sim *s = g->sim;
    bool wrong_asked = g->defect != DEFECT_NONE || !generation_fits(s, g);

    check_deadline(g);

    if (g->status == ST_OK) {
        switch (g->finish) {
        case SLUICE__V1__FINISH__FINISH_STOP:
        case SLUICE__V1__FINISH__FINISH_LENGTH:
            check_whole(g);
            break;
        case SLUICE__V1__FINISH__FINISH_CANCELLED:
            if (!g->end_asked) {
                wrong(g, "cancelled, but nobody asked for it");
            }
            break;
        case SLUICE__V1__FINISH__FINISH_FAILED:
            if (!s->options.faulty) {
                wrong(g, "failed without a fault");
            }
            break;
        default:
            wrong(g, "OK without a last chunk");
        }
    } else if (!explained(g) &&
               !(wrong_asked &&
                 (g->status == ST_INVALID_ARGUMENT ||
                  g->status == ST_OUT_OF_RANGE || g->status == ST_NOT_FOUND ||
                  g->status == ST_UNAVAILABLE))) {
        sim_fail(g->sim, (int32_t)g->number, "an end without a reason: %s",
                 status_name(g->status));
    }
}

static void on_end(void *arg, enum status status, const ProtobufCMessage *reply,
                   const struct error *e, uint32_t retry_after_ms)
{
    struct generation *g = arg;

    (void)reply;
    (void)retry_after_ms;
    sim_log(g->sim, "request %u ends %s, finish %u, %u tokens%s%s", g->number,
            status_name(status), g->finish, g->n_got, e ? ": " : "",
            e ? e->text : "");
    g->sim->n_open -= g->n_ends == 0;
    g->ended_us = sim_now(g->sim);
    g->status = status;
    if (g->n_ends++) {
        wrong(g, "a second end");
    }
    if (!g->sim->failed) {
        check_end(g);
    }
    if (!g->sim->failed) {
        actor_ended(g->sim, g);
    }
}

static const struct client_call_ops ops = {on_chunk, on_end};

static void fill_sampling(const struct generation *g, Sluice__V1__Sampling *p)
{
    sluice__v1__sampling__init(p);
    p->has_temperature = p->has_top_k = p->has_top_p = true;
    p->temperature = g->sampling.temperature;
    p->top_k = g->sampling.top_k;
    p->top_p = g->defect == DEFECT_TOP_P ? 2.0f : g->sampling.top_p;
    p->has_seed = g->seed_given;
    p->seed = g->sampling.seed;
    p->has_ignore_eos = p->ignore_eos = g->ignore_eos;
}

bool generation_ask(struct sim *s, struct generation *g)
{
    Sluice__V1__GenerateRequest r = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__Sampling sampling;
    char name[8], text[SIM_PROMPT_MAX];

    (void)snprintf(name, sizeof(name), "m%u",
                   g->defect == DEFECT_MODEL ? 7 : g->model);
    fill_sampling(g, &sampling);
    r.request_id = (ProtobufCBinaryData){sizeof(g->id), g->id};
    r.model = (ProtobufCBinaryData){strlen(name), (uint8_t *)name};
    if (g->as_text) {
        for (uint32_t i = 0; i < g->n_prompt; i++) {
            text[i] = (char)g->prompt[i];
        }
        r.has_text = true;
        r.text = (ProtobufCBinaryData){g->n_prompt, (uint8_t *)text};
    } else {
        r.tokens = g->prompt;
        r.n_tokens = g->n_prompt;
    }
    r.has_max_tokens = true;
    r.max_tokens = g->max_tokens;
    r.sampling = &sampling;
    r.has_keep_ms = g->keep_ms != 0;
    r.keep_ms = g->keep_ms;
    r.has_want_text = true;
    r.want_text = false;
    g->asked_us = sim_now(s);
    if (s->nodes[g->client].dropped_us + DROP_US > sim_now(s)) {
        g->end_asked = true; /* it goes with the session that is to end */
    }
    return client_core_call(s->nodes[g->client].core, METHOD_INFERENCE_GENERATE,
                            &r.base, g->deadline_ms, &ops, g,
                            &g->call) == ST_OK;
}

void generation_end_asked(struct sim *s, const struct generation *g)
{
    for (uint32_t i = 0; i < s->n_generations; i++) {
        struct generation *o = &s->generations[i];

        if (memcmp(o->id, g->id, sizeof(g->id)) == 0) {
            o->end_asked = true;
        }
    }
}

uint32_t generation_blocks(const struct generation *g, uint32_t block_tokens)
{
    return (g->n_prompt + g->max_tokens + block_tokens - 1) / block_tokens;
}

bool generation_fits(const struct sim *s, const struct generation *g)
{
    const struct fake_model *m = &s->options.models[g->model];

    for (uint32_t i = 0; i < s->options.n_workers; i++) {
        const struct worker_draw *w = &s->options.workers[i];

        if (w->model == g->model &&
            (!m->attention ||
             generation_blocks(g, w->block_tokens) <= w->n_blocks)) {
            return true;
        }
    }
    return false;
}

void generation_fini(struct generation *g)
{
    free(g->prompt);
    free(g->got);
}
