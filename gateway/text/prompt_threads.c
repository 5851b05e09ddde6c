#include "gateway/text/prompt_threads.h"

#include <stdlib.h>

#include "common/base/memory.h"
#include "text/text_limits.h"

struct prompt_threads {
    struct prompt_seam seam; /* first */
    struct job_threads *threads;
};

static bool run_job(void *arg, struct thread_job *job)
{
    (void)arg;
    return prompt_job_step((struct prompt_job *)job, TEXT_SLICE_BYTES);
}

static void drop_job(void *arg, struct thread_job *job)
{
    struct prompt_job *j = (struct prompt_job *)job;

    (void)arg;
    prompt_job_free(&j);
}

static enum status seam_submit(struct prompt_seam *s, struct prompt_job **j)
{
    struct prompt_threads *t = (struct prompt_threads *)s;
    struct thread_job *job = &(*j)->job;
    enum status st = job_threads_submit(t->threads, &job);

    if (st == ST_OK) {
        *j = NULL;
    }
    return st;
}

static struct prompt_job *seam_poll(struct prompt_seam *s)
{
    struct prompt_threads *t = (struct prompt_threads *)s;

    return (struct prompt_job *)job_threads_poll(t->threads);
}

enum status prompt_threads_new(struct prompt_threads **out, unsigned n_threads,
                               struct error *e)
{
    static const struct prompt_seam_ops seam_ops = {seam_submit, seam_poll};
    static const struct job_threads_ops job_ops = {run_job, drop_job, NULL};
    struct prompt_threads *t = memory_must(calloc(1, sizeof *t));
    enum status st;

    t->seam.ops = &seam_ops;
    st = job_threads_new(&t->threads, &job_ops, n_threads, PROMPT_QUEUE_MAX, e);
    if (st != ST_OK) {
        free(t);
        return st;
    }
    *out = t;
    return ST_OK;
}

void prompt_threads_free(struct prompt_threads **pt)
{
    struct prompt_threads *t = *pt;

    if (t == NULL) {
        return;
    }
    job_threads_free(&t->threads);
    free(t);
    *pt = NULL;
}

struct prompt_seam *prompt_threads_seam(struct prompt_threads *t)
{
    return &t->seam;
}

int prompt_threads_fd(const struct prompt_threads *t)
{
    return job_threads_fd(t->threads);
}

void prompt_threads_quiet(struct prompt_threads *t)
{
    job_threads_quiet(t->threads);
}
