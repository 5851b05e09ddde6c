#include "kernels/cpu/pack.h"

#include <stdlib.h>

#include "kernels/cpu/mixer.h"
#include "kernels/isa/pack.h"

#define TASK_GROUPS 32 /* of rows */

struct job {
    const struct tensor *t;
    char *scratch; /* [n_threads, bytes] */
    size_t bytes;
    struct threads *threads;
};

static bool fits(const struct tensor *t, uint32_t n)
{
    return n != CPU_FLOAT_ONLY && t->data != NULL && t->bits > 0 &&
           !t->packed && pack_fits(t->format) &&
           (n == 1 || t->rows / n % PACK_ROWS == 0);
}

static void measure(void *arg, const struct tensor *t, uint32_t n)
{
    struct job *j = arg;
    struct quantised w;

    if (fits(t, n)) {
        w = quantised_rows(t, 0);
        j->bytes = pack_bytes(&w) > j->bytes ? pack_bytes(&w) : j->bytes;
    }
}

static void pack_task(void *arg, uint32_t task, uint32_t thread)
{
    const struct job *j = arg;
    uint32_t first = task * TASK_GROUPS, all = j->t->rows / PACK_ROWS;
    uint32_t left = all - first;

    pack_in_place(j->t, first, left < TASK_GROUPS ? left : TASK_GROUPS,
                  j->scratch + thread * j->bytes);
}

static void pack(void *arg, const struct tensor *t, uint32_t n)
{
    struct job *j = arg;

    if (fits(t, n)) {
        j->t = t;
        threads_run(j->threads, pack_task, j,
                    (t->rows / PACK_ROWS + TASK_GROUPS - 1) / TASK_GROUPS);
        /* The caller's own matrix, which cpu_matrices() only reads. */
        ((struct tensor *)(uintptr_t)t)->packed = true;
    }
}

enum status cpu_pack(struct shard_weights *w, uint32_t n_threads,
                     struct error *e)
{
    const bool tied = w->head.data == w->embed.data;
    struct job j = {0};

    n_threads = n_threads > 0 ? n_threads : threads_default();
    cpu_matrices(w, measure, &j);
    j.threads = threads_new(n_threads, false);
    j.scratch = malloc(n_threads * j.bytes + 1);
    if (j.threads != NULL && j.scratch != NULL) {
        cpu_matrices(w, pack, &j);
        w->embed.packed = tied ? w->head.packed : w->embed.packed;
    }
    enum status st =
        j.threads != NULL && j.scratch != NULL
            ? ST_OK
            : error_set(e, ST_RESOURCE_EXHAUSTED,
                        "no memory or no threads to pack the weights");

    threads_free(&j.threads);
    free(j.scratch);
    return st;
}

void cpu_matrices(const struct shard_weights *w, cpu_matrix_fn fn, void *arg)
{
    fn(arg, &w->head, 1);
    if (w->mtp != NULL) {
        fn(arg, &w->mtp->fc, 1);
    }
    for (uint32_t i = 0; i < shard_layers(w); i++) {
        const struct layer_weights *l = &w->layers[i];
        const struct cpu_mixer *m = cpu_mixers[l->kind];

        if (m->matrices != NULL) {
            m->matrices(l, fn, arg);
        }
        cpu_ffns[l->ffn]->matrices(l, fn, arg);
    }
}
