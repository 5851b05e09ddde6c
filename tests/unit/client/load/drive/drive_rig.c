#include "tests/unit/client/load/drive/drive_rig.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/minmax.h"

static void on_sample(void *arg, const struct sample *s, const uint32_t *gaps)
{
    struct rig *r = arg;

    if (r->n == r->size) {
        r->size = r->size == 0 ? 1024 : 2 * r->size;
        r->samples = realloc(r->samples, r->size * sizeof *r->samples);
        assert(r->samples != NULL);
    }
    for (uint32_t i = 0; i < s->n_gaps; i++) {
        r->n_gaps += gaps[i] < UINT32_MAX;
    }
    r->samples[r->n++] = *s;
}

static void on_pulse(void *arg, const struct pulse *p)
{
    struct rig *r = arg;

    assert(p->at_us >= r->last.at_us && p->n_due >= r->last.n_due);
    r->last = *p;
    r->n_pulses++;
    if (p->lag_max_us > r->lag_max_us) {
        r->lag_max_us = p->lag_max_us;
    }
}

void rig_begin(struct rig *r, struct plan *plan)
{
    r->target = virtual_new(&r->rules);
    r->options.plan = plan;
    r->options.ops = &virtual_target;
    r->options.target = r->target;
    r->options.on_sample = on_sample;
    r->options.on_pulse = on_pulse;
    r->options.arg = r;
    if (r->options.memory_max == 0) {
        r->options.memory_max = (size_t)64 << 20;
    }
    r->generator = generator_new(&r->options);
    generator_begin(r->generator, RIG_START_US);
    r->now_us = RIG_START_US - 1000;
}

static void look(struct rig *r)
{
    size_t now, peak;

    generator_memory(r->generator, &now, &peak);
    r->memory_peak = now > r->memory_peak ? now : r->memory_peak;
    r->n_ticks++;
    assert(r->n_ticks < RIG_TICKS_MAX);
}

bool rig_run_until(struct rig *r, int64_t at_us)
{
    int64_t until_us = at_us == INT64_MAX ? at_us : at_us + RIG_START_US;

    for (;;) {
        int64_t due_us = generator_tick(r->generator, r->now_us);

        look(r);
        if (due_us == GENERATOR_DONE) {
            return true;
        }
        due_us = min_i64(due_us, virtual_due(r->target));
        if (due_us > until_us) {
            r->now_us = until_us;
            return false;
        }
        r->now_us = due_us > r->now_us ? due_us : r->now_us;
        if (r->pause_us > 0 && r->now_us >= r->pause_at_us + RIG_START_US) {
            r->now_us = r->pause_at_us + RIG_START_US + r->pause_us;
            r->pause_us = 0;
        }
        virtual_run(r->target, r->now_us);
    }
}

void rig_run(struct rig *r)
{
    bool ended = rig_run_until(r, INT64_MAX);

    assert(ended);
    (void)ended;
}

void rig_end(struct rig *r)
{
    generator_free(&r->generator);
    virtual_free(&r->target);
    plan_free(&r->options.plan);
    free(r->samples);
}

size_t rig_count(const struct rig *r, enum outcome outcome)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++) {
        n += r->samples[i].outcome == outcome;
    }
    return n;
}
