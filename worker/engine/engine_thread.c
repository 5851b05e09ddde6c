#include "worker/engine/engine_thread.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/base/failpoint.h"
#include "common/base/memory.h"
#include "common/base/monotonic.h"

/* The plan is borrowed until its result is polled. */
struct finished {
    const struct plan *plan;
    struct plan_result result;
};

struct engine_thread {
    struct engine engine; /* first, so that the handle can be cast back */
    struct forward *forward;
    uint32_t depth;
    int fd;
    pthread_t thread;
    struct plan_result running; /* used by the engine's thread only */

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t wake;
    const struct plan *plans[ENGINE_DEPTH_MAX];
    struct finished results[ENGINE_DEPTH_MAX];
    uint32_t first_plan, n_plans, first_result, n_results;
    uint32_t n_open; /* submitted and not yet polled */
    bool stopping;
};

static struct engine_thread *thread_of(struct engine *e)
{
    return (struct engine_thread *)e;
}

static void logprobs_copy(struct plan_result *to,
                          const struct plan_result *from, uint32_t row,
                          uint32_t n_top)
{
    size_t bytes = n_top * sizeof to->top[row][0];

    to->logprobs[row] = from->logprobs[row];
    memcpy(to->top[row], from->top[row], bytes);
    for (uint32_t i = 0; i < from->n_accepted[row]; i++) {
        to->draft_logprobs[row][i] = from->draft_logprobs[row][i];
        memcpy(to->draft_top[row][i], from->draft_top[row][i], bytes);
    }
}

static void row_copy(struct plan_result *to, const struct plan_result *from,
                     uint32_t row, const struct plan_row *r)
{
    to->outcomes[row] = from->outcomes[row];
    to->n_accepted[row] = from->n_accepted[row];
    to->n_drafts[row] = from->n_drafts[row];
    memcpy(to->drafts[row], from->drafts[row],
           from->n_drafts[row] * sizeof to->drafts[row][0]);
    if (from->tokens[row] != TOKEN_NONE && r->sampling->logprobs) {
        logprobs_copy(to, from, row, r->sampling->n_top_logprobs);
    }
}

/* Copies only the rows in use, because the arrays are large. */
static void result_copy(struct plan_result *to, const struct plan_result *from,
                        const struct plan *p)
{
    memcpy(to, from, offsetof(struct plan_result, n_accepted));
    memcpy(to->tokens, from->tokens, from->n_rows * sizeof to->tokens[0]);
    for (uint32_t i = 0; from->status == ST_OK && i < from->n_rows; i++) {
        row_copy(to, from, i, &p->rows[i]);
    }
}

static enum status thread_submit(struct engine *e, const struct plan *p)
{
    struct engine_thread *t = thread_of(e);
    enum status st = ST_RESOURCE_EXHAUSTED;

    pthread_mutex_lock(&t->lock);
    if (t->n_open < t->depth) {
        t->n_open++;
        t->plans[(t->first_plan + t->n_plans++) % ENGINE_DEPTH_MAX] = p;
        pthread_cond_signal(&t->wake);
        st = ST_OK;
    }
    pthread_mutex_unlock(&t->lock);
    return st;
}

static bool thread_poll(struct engine *e, struct plan_result *out)
{
    struct engine_thread *t = thread_of(e);
    bool found;

    pthread_mutex_lock(&t->lock);
    found = t->n_results > 0;
    if (found) {
        const struct finished *f = &t->results[t->first_result];

        result_copy(out, &f->result, f->plan);
        t->first_result = (t->first_result + 1) % ENGINE_DEPTH_MAX;
        /* A slot of `results` is free again only now: n_open bounds both
         * rings. */
        t->n_results--;
        t->n_open--;
    }
    pthread_mutex_unlock(&t->lock);
    return found;
}

static uint64_t thread_progress(struct engine *e)
{
    return forward_progress(thread_of(e)->forward);
}

static const struct engine_ops thread_ops = {
    .submit = thread_submit,
    .poll = thread_poll,
    .progress = thread_progress,
};

/* Waits for a plan, with the lock held.  Returns NULL to stop. */
static const struct plan *next_plan(struct engine_thread *t)
{
    const struct plan *p;

    while (t->n_plans == 0 && !t->stopping) {
        pthread_cond_wait(&t->wake, &t->lock);
    }
    /* Plans that have not started are dropped: nobody polls them any more. */
    if (t->stopping) {
        return NULL;
    }
    p = t->plans[t->first_plan];
    t->first_plan = (t->first_plan + 1) % ENGINE_DEPTH_MAX;
    t->n_plans--;
    return p;
}

static void run_plan(struct engine_thread *t, const struct plan *p)
{
    int64_t start = monotonic_us(), took;

    FP(ENGINE_BEFORE);
    forward_run(t->forward, p, &t->running);
    FP(ENGINE_AFTER);
    took = monotonic_us() - start;
    /* The field has 32 bits: more than an hour is reported as the most. */
    t->running.device_us = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
}

static void *thread_main(void *arg)
{
    static const uint64_t one = 1;
    struct engine_thread *t = arg;
    const struct plan *p;

    pthread_mutex_lock(&t->lock);
    while ((p = next_plan(t)) != NULL) {
        uint32_t at;

        pthread_mutex_unlock(&t->lock);
        run_plan(t, p);
        pthread_mutex_lock(&t->lock);
        at = (t->first_result + t->n_results++) % ENGINE_DEPTH_MAX;
        t->results[at].plan = p;
        result_copy(&t->results[at].result, &t->running, p);
        /* The write fails only if the counter is full; the descriptor is then
         * readable anyway. */
        if (write(t->fd, &one, sizeof one) != sizeof one) {
            continue;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

enum status engine_thread_new(struct engine_thread **out,
                              struct forward *forward, uint32_t depth,
                              struct error *e)
{
    struct engine_thread *t = memory_must(calloc(1, sizeof *t));

    assert(depth >= 1 && depth <= ENGINE_DEPTH_MAX);
    /* The core may still send the hidden states polled last while all plans in
     * flight write theirs. */
    assert(forward_hidden_plans(forward) > depth);
    t->engine.ops = &thread_ops;
    t->forward = forward;
    t->depth = depth;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    t->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (t->fd < 0 || pthread_create(&t->thread, NULL, thread_main, t) != 0) {
        if (t->fd >= 0) {
            close(t->fd);
        }
        free(t);
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "cannot start the engine's thread");
    }
    *out = t;
    return ST_OK;
}

void engine_thread_free(struct engine_thread **pt)
{
    struct engine_thread *t = *pt;

    if (t == NULL) {
        return;
    }
    pthread_mutex_lock(&t->lock);
    t->stopping = true;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    close(t->fd);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    free(t);
    *pt = NULL;
}

struct engine *engine_thread_engine(struct engine_thread *t)
{
    return &t->engine;
}

int engine_thread_fd(const struct engine_thread *t)
{
    return t->fd;
}

void engine_thread_quiet(struct engine_thread *t)
{
    uint64_t n;

    while (read(t->fd, &n, sizeof n) == sizeof n) {
    }
}
