#include "router/text/text_threads.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/job_threads.h"
#include "common/base/memory.h"
#include "text/text_limits.h"
#include "text/tokenizer.h"

struct text_threads {
    struct text_seam seam;
    const struct text_model *models;
    uint32_t n_models;
    struct job_threads *threads;
};

static struct text_threads *threads_of(struct text_seam *s)
{
    return (struct text_threads *)s; /* seam is the first member */
}

static bool run_job(void *arg, struct thread_job *job)
{
    const struct text_threads *t = arg;
    struct text_job *j = (struct text_job *)job;

    return text_job_step(j, t->models[j->model].tokenizer, TEXT_SLICE_BYTES);
}

static void drop_job(void *arg, struct thread_job *job)
{
    struct text_job *j = (struct text_job *)job;

    (void)arg;
    text_job_free(&j);
}

static enum status seam_submit(struct text_seam *s, struct text_job **j)
{
    struct text_threads *t = threads_of(s);
    struct thread_job *job = &(*j)->job;
    enum status st;

    assert((*j)->model < t->n_models);
    st = job_threads_submit(t->threads, &job);
    if (st == ST_OK) {
        *j = NULL;
    }
    return st;
}

static struct text_job *seam_poll(struct text_seam *s)
{
    return (struct text_job *)job_threads_poll(threads_of(s)->threads);
}

static bool seam_find(struct text_seam *s, const char *name, size_t n,
                      uint32_t *model)
{
    const struct text_threads *t = threads_of(s);

    for (uint32_t i = 0; i < t->n_models; i++) {
        if (strlen(t->models[i].name) == n &&
            memcmp(t->models[i].name, name, n) == 0) {
            *model = i;
            return true;
        }
    }
    return false;
}

static const struct tokenizer *seam_tokenizer(struct text_seam *s,
                                              uint32_t model)
{
    return threads_of(s)->models[model].tokenizer;
}

static const uint8_t *seam_hash(struct text_seam *s, uint32_t model)
{
    return tokenizer_hash(threads_of(s)->models[model].tokenizer);
}

static const struct text_seam_ops seam_ops = {
    .submit = seam_submit,
    .poll = seam_poll,
    .find = seam_find,
    .tokenizer = seam_tokenizer,
    .hash = seam_hash,
};

enum status text_threads_new(struct text_threads **out,
                             const struct text_model *models, uint32_t n_models,
                             unsigned n_threads, struct error *e)
{
    struct text_threads *t = memory_must(calloc(1, sizeof *t));
    struct job_threads_ops ops = {run_job, drop_job, t};
    enum status st;

    t->seam.ops = &seam_ops;
    t->models = models;
    t->n_models = n_models;
    st = job_threads_new(&t->threads, &ops, n_threads, TEXT_QUEUE_MAX, e);
    if (st != ST_OK) {
        free(t);
        return st;
    }
    *out = t;
    return ST_OK;
}

void text_threads_free(struct text_threads **pt)
{
    struct text_threads *t = *pt;

    if (t == NULL) {
        return;
    }
    job_threads_free(&t->threads);
    free(t);
    *pt = NULL;
}

struct text_seam *text_threads_seam(struct text_threads *t)
{
    return &t->seam;
}

int text_threads_fd(const struct text_threads *t)
{
    return job_threads_fd(t->threads);
}

void text_threads_quiet(struct text_threads *t)
{
    job_threads_quiet(t->threads);
}
