#include "tests/sim/fake_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/sim/vocabulary.h"

#define JOBS 64
/* A slice of a text, so small that most texts take several. */
#define SLICE_BYTES 24
#define SLICE_US    100

struct fake_job {
    struct text_job *job; /* NULL: free */
    int64_t done_us;
};

struct fake_text {
    struct text_seam seam;
    struct sim *sim;
    struct fake_job jobs[JOBS];
    uint32_t n;
};

/* Encodes the next slice.  Returns whether the job is done. */
static bool encode(struct text_job *j)
{
    size_t end =
        j->n_ids + SLICE_BYTES < j->n_text ? j->n_ids + SLICE_BYTES : j->n_text;

    if (!j->ids) {
        j->ids = malloc((j->n_text + 1) * sizeof(*j->ids));
    }
    for (; j->n_ids < end; j->n_ids++) {
        if (j->max_ids > 0 && j->n_ids == j->max_ids) {
            j->over = true;
            j->status = error_set(&j->error, ST_RESOURCE_EXHAUSTED,
                                  "more than %zu tokens", j->max_ids);
            return true;
        }
        j->ids[j->n_ids] = (uint8_t)j->text[j->n_ids];
    }
    j->status = ST_OK;
    return end == j->n_text;
}

static void decode(struct text_job *j)
{
    j->text = malloc(j->n_ids + 1);
    j->n_text = j->n_ids;
    for (size_t i = 0; i < j->n_ids; i++) {
        j->text[i] = (char)(j->ids[i] & 127);
    }
    j->status = ST_OK;
}

static void wake(struct sim *s, uint32_t node, uint64_t life)
{
    if (s->nodes[node].core && s->nodes[node].life == life) {
        node_soon(s, node);
    }
}

static enum status fake_submit(struct text_seam *seam, struct text_job **j)
{
    struct fake_text *t = (struct fake_text *)seam;
    struct sim *s = t->sim;
    uint32_t i = 0;

    if (t->n >= s->options.text_queue) {
        auditor_full(s, 0);
        return ST_RESOURCE_EXHAUSTED;
    }
    while (t->jobs[i].job) {
        i++;
    }
    t->jobs[i].job = *j;
    t->jobs[i].done_us =
        sim_now(s) + rng_range(&s->chance, 1, s->options.text_us * 2);
    t->n++;
    *j = NULL;
    clock_add(&s->clock, t->jobs[i].done_us, wake, SIM_ROUTER,
              s->nodes[SIM_ROUTER].life);
    return ST_OK;
}

/* A job that is not done after a slice waits for the next one. */
static bool run_slice(struct fake_text *t, struct fake_job *f)
{
    struct sim *s = t->sim;

    if (f->job->kind == TEXT_DECODE) {
        decode(f->job);
        return true;
    }
    if (encode(f->job)) {
        return true;
    }
    f->done_us = sim_now(s) + SLICE_US;
    clock_add(&s->clock, f->done_us, wake, SIM_ROUTER,
              s->nodes[SIM_ROUTER].life);
    return false;
}

static struct text_job *fake_poll(struct text_seam *seam)
{
    struct fake_text *t = (struct fake_text *)seam;

    for (uint32_t i = 0; i < JOBS; i++) {
        struct text_job *j = t->jobs[i].job;

        if (j && t->jobs[i].done_us <= sim_now(t->sim) &&
            run_slice(t, &t->jobs[i])) {
            t->jobs[i].job = NULL;
            t->n--;
            return j;
        }
    }
    return NULL;
}

static bool fake_find(struct text_seam *seam, const char *name, size_t n,
                      uint32_t *model)
{
    const struct sim_options *o = &((struct fake_text *)seam)->sim->options;

    for (uint32_t i = 0; i < o->n_models; i++) {
        char own[8];
        int len = snprintf(own, sizeof(own), "m%u", i);

        if (o->text[i] && (size_t)len == n && memcmp(own, name, n) == 0) {
            *model = i;
            return true;
        }
    }
    return false;
}

static const struct tokenizer *tokenizer_of(struct text_seam *s, uint32_t model)
{
    (void)s;
    (void)model;
    return vocabulary_tokenizer();
}

static const uint8_t *hash_of(struct text_seam *s, uint32_t model)
{
    (void)model;
    return strangers_tokenizer(((struct fake_text *)s)->sim);
}

static const struct text_seam_ops fake_ops = {.submit = fake_submit,
                                              .poll = fake_poll,
                                              .find = fake_find,
                                              .tokenizer = tokenizer_of,
                                              .hash = hash_of};

struct fake_text *fake_text_new(struct sim *s)
{
    struct fake_text *t = calloc(1, sizeof(*t));

    if (!t) {
        abort();
    }
    t->seam.ops = &fake_ops;
    t->sim = s;
    return t;
}

void fake_text_free(struct fake_text **tp)
{
    struct fake_text *t = *tp;

    *tp = NULL;
    for (uint32_t i = 0; t && i < JOBS; i++) {
        text_job_free(&t->jobs[i].job);
    }
    free(t);
}

struct text_seam *fake_text_seam(struct fake_text *t)
{
    return &t->seam;
}
