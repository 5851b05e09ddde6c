#include "tests/unit/router/rig_engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/minmax.h"
#include "common/base/splitmix.h"

#define FAMILY    7
#define PROMPT    8192 /* tokens at most */
#define REPORT_US 250000

static uint32_t prompt_of(const struct engines *s)
{
    return s->load.n_prefix + s->load.n_own;
}

static uint8_t id_of(uint32_t i)
{
    return (uint8_t)(i % 255 + 1);
}

void engines_join(struct engines *s)
{
    static const char *const names[ENGINES_MAX] = {"w1", "w2", "w3", "w4"};

    assert_true(s->n_engines < ENGINES_MAX);
    s->of[s->n_engines].w =
        rig_worker(s->rig, names[s->n_engines],
                   s->load.blocks > 0 ? s->load.blocks : 8000, s->load.slots);
    s->n_engines++;
}

static void ask(struct engines *s)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    static uint32_t ids[PROMPT];
    struct engine_request *o = &s->all[s->n];
    uint32_t half = s->load.length / 2;
    uint8_t id[16];

    assert_true(prompt_of(s) <= PROMPT && s->n < RIG_RECORDS);
    memset(id, id_of(s->n), 16);
    for (uint32_t i = 0; i < prompt_of(s); i++) {
        ids[i] =
            (i * 3 + (i < s->load.n_prefix ? FAMILY : s->n + 8)) % RIG_VOCAB;
    }
    *o = (struct engine_request){.came_us = s->rig->now, .granted_us = -1};
    o->length = half + (uint32_t)(splitmix_next(&s->random) % (2 * half + 1));
    m.model = wire_text("tiny");
    m.request_id = (ProtobufCBinaryData){16, id};
    m.tokens = ids;
    m.n_tokens = prompt_of(s);
    m.has_max_tokens = true;
    m.max_tokens = s->load.max_tokens;
    m.has_cache = true;
    m.cache = s->load.reuse;
    if (s->before != NULL) {
        s->before(s, o);
    }
    client_call(s->c, METHOD_INFERENCE_GENERATE, &m.base, 0);
    s->n++;
    rig_run(s->rig);
}

/* Finds the place of request i, and what that restores of its prompt. */
static void seat(struct engines *s, uint32_t i)
{
    struct engine_request *o = &s->all[i];

    for (uint32_t p = 0; o->at == NULL && p < s->n_engines; p++) {
        struct engine *g = &s->of[p];
        struct sequence *q = worker_sequence_of(g->w, id_of(i));

        if (q != NULL && q->finish == 0) {
            o->at = g->w;
            o->granted_us = s->rig->now - o->came_us;
            g->n_granted++;
            if (g->warm && !q->uncached) {
                o->n_done = q->reused = s->load.n_prefix;
            }
        }
    }
}

static void seat_all(struct engines *s)
{
    for (uint32_t i = s->oldest; i < s->n; i++) {
        seat(s, i);
    }
}

static bool runs_at(const struct engine_request *o, const struct engine *g)
{
    return o->at == g->w && o->end_us == 0;
}

static void begin_step(struct engines *s, struct engine *g)
{
    const struct engine_load *l = &s->load;

    g->n_rows = g->n_tokens = 0;
    for (uint32_t i = s->oldest; i < s->n; i++) {
        uint32_t left = prompt_of(s) - s->all[i].n_done;

        if (runs_at(&s->all[i], g)) {
            g->n_rows += left == 0;
            g->n_tokens += min_u32(left, l->chunk - g->n_tokens);
        }
    }
    g->busy = g->n_rows + g->n_tokens > 0;
    g->w->device_us =
        l->base_us + l->row_us * g->n_rows + l->token_us * g->n_tokens;
    g->w->n_prompt_tokens = g->n_tokens;
    g->due_us = s->rig->now + g->w->device_us;
}

static void make(struct engines *s, struct engine *g, uint32_t i)
{
    struct sequence *q = worker_sequence_of(g->w, id_of(i));
    struct engine_request *o = &s->all[i];
    bool ends = q->n_tokens + 1 == o->length;

    if (o->first_us == 0) {
        o->first_us = s->rig->now - o->came_us;
    }
    if (ends) {
        o->end_us = s->rig->now - o->came_us;
    }
    worker_make(g->w, q, 1, ends ? SLUICE__V1__FINISH__FINISH_STOP : 0);
}

/* Sequences that came after the step had begun find nothing left of it. */
static void advance(struct engines *s, struct engine *g, uint32_t i)
{
    struct engine_request *o = &s->all[i];
    uint32_t left = prompt_of(s) - o->n_done, n = min_u32(left, g->n_tokens);

    o->n_done += n;
    g->n_tokens -= n;
    if (left > 0 ? n == left : g->n_rows > 0) {
        g->n_rows -= left == 0;
        make(s, g, i);
    }
}

static void warm_up(struct engines *s, struct engine *g)
{
    bool done = false;

    for (uint32_t i = s->oldest; i < s->n; i++) {
        done =
            done || (s->all[i].at == g->w && s->all[i].n_done == prompt_of(s));
    }
    if (s->load.reuse && !g->warm && done) {
        g->warm = true;
        worker_index(g->w, FAMILY, 0, s->load.n_prefix / PREFIX_UNIT, true,
                     true);
    }
}

static void end_step(struct engines *s, struct engine *g)
{
    g->busy = false;
    for (uint32_t i = s->oldest; i < s->n; i++) {
        if (runs_at(&s->all[i], g)) {
            advance(s, g, i);
        }
    }
    g->reported_us = s->rig->now;
    worker_step(g->w);
    rig_run(s->rig);
    seat_all(s);
    warm_up(s, g);
}

static void report(struct engines *s, struct engine *g)
{
    if (s->rig->now - g->reported_us >= REPORT_US) {
        g->reported_us = s->rig->now;
        worker_report(g->w);
        rig_run(s->rig);
        seat_all(s);
    }
}

/* Moves the time on, to the end of the next step and until_us at the most. */
static void work_once(struct engines *s, int64_t until_us)
{
    int64_t next_us = min_i64(until_us, s->rig->now + REPORT_US);

    seat_all(s);
    for (uint32_t i = 0; i < s->n_engines; i++) {
        struct engine *g = &s->of[i];

        if (!g->busy) {
            begin_step(s, g);
        }
        next_us = g->busy ? min_i64(next_us, g->due_us) : next_us;
    }
    rig_advance(s->rig, next_us - s->rig->now);
    for (uint32_t i = 0; i < s->n_engines; i++) {
        struct engine *g = &s->of[i];

        if (g->busy && g->due_us <= s->rig->now) {
            end_step(s, g);
        } else {
            report(s, g);
        }
    }
    while (s->oldest < s->n && s->all[s->oldest].end_us != 0) {
        s->oldest++;
    }
}

static void work(struct engines *s, int64_t until_us)
{
    while (s->rig->now < until_us) {
        work_once(s, until_us);
    }
}

void engines_bring(struct engines *s, const struct engine_load *l, uint32_t n)
{
    const struct rig_options o = {.max_peers = 128,
                                  .max_requests = 4096,
                                  .max_waiting = 4096,
                                  .recorder = l->recorder};

    memset(s, 0, sizeof *s);
    s->rig = rig_new(&o);
    s->load = *l;
    s->random = 11;
    s->c = rig_client(s->rig, "c1");
    while (s->n_engines < n) {
        engines_join(s);
    }
}

void engines_load(struct engines *s, uint32_t rate, uint32_t seconds)
{
    int64_t until_us = s->rig->now + (int64_t)seconds * SECOND_US;

    while (s->rig->now < until_us) {
        ask(s);
        work(s, s->rig->now + (int64_t)(splitmix_next(&s->random) %
                                        (2 * SECOND_US / rate)));
    }
}

void engines_finish(struct engines *s)
{
    for (int i = 0; i < 1000 && s->oldest < s->n; i++) {
        work(s, s->rig->now + SECOND_US);
    }
    assert_int_equal(s->oldest, s->n);
    rig_free(&s->rig);
}
