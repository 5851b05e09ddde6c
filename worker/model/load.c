#include "worker/model/load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/quote.h"
#include "worker/model/document.h"

struct piece {
    uint32_t slice;
    uint32_t bytes;
    uint64_t offset; /* in the slice */
};

struct loader {
    const struct layout *layout;
    const int *fds;
    char *memory;
    const struct shard_options *options;
    size_t n_pieces;
    struct piece *pieces;     /* [n_pieces] */
    XXH128_canonical_t *sums; /* [n_pieces] */
    atomic_size_t next;
    pthread_mutex_t lock; /* of what follows, and of progress calls */
    uint64_t done;
    enum status status;
    struct error *error;
};

/* Where a slice's stored bytes are read to: what will be widened goes to the
 * end of its room, so that widening can run from the front in place. */
static char *landing(const struct loader *l, const struct slice *s)
{
    uint64_t n = s->bytes / dtype_bytes(s->dtype);

    return l->memory + s->place + (s->widen ? n * sizeof(float) - s->bytes : 0);
}

static bool finished(struct loader *l, const struct slice *s,
                     const struct piece *p, enum status st,
                     const struct error *why)
{
    bool go_on;

    pthread_mutex_lock(&l->lock);
    l->done += p->bytes;
    if (st != ST_OK && l->status == ST_OK) {
        l->status = error_set(l->error, st, "tensor %s: %s",
                              quote(s->source->info->name).text, why->text);
    }
    go_on = l->status == ST_OK;
    if (go_on && l->options->progress != NULL) {
        l->options->progress(l->options->ctx, l->done, l->layout->file_bytes);
    }
    pthread_mutex_unlock(&l->lock);
    return go_on;
}

static bool read_piece(struct loader *l, size_t i)
{
    const struct piece *p = &l->pieces[i];
    const struct slice *s = &l->layout->slices[p->slice];
    char *to = landing(l, s) + p->offset;
    struct error why = {.code = ST_OK};
    enum status st =
        document_pread(l->fds[s->source->file], to, p->bytes,
                       s->source->offset + s->offset + p->offset, &why);

    if (st == ST_OK) {
        XXH128_canonicalFromHash(&l->sums[i], XXH3_128bits(to, p->bytes));
    }
    return finished(l, s, p, st, &why);
}

static void *read_pieces(void *arg)
{
    struct loader *l = arg;
    size_t i;

    do {
        i = atomic_fetch_add(&l->next, 1);
    } while (i < l->n_pieces && read_piece(l, i));
    return NULL;
}

static enum status cut(struct loader *l, struct error *e)
{
    const struct layout *y = l->layout;
    size_t n = 0;

    for (uint32_t i = 0; i < y->n; i++) {
        n += y->slices[i].bytes / LOAD_PIECE + 1;
    }
    l->pieces = calloc(n + 1, sizeof *l->pieces);
    l->sums = calloc(n + 1, sizeof *l->sums);
    if (l->pieces == NULL || l->sums == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "no memory for a list of %zu pieces", n);
    }
    for (uint32_t i = 0; i < y->n; i++) {
        uint64_t bytes = y->slices[i].bytes;

        for (uint64_t at = 0; at < bytes; at += LOAD_PIECE) {
            uint64_t left = bytes - at;

            l->pieces[l->n_pieces++] = (struct piece){
                .slice = i,
                .offset = at,
                .bytes = (uint32_t)(left < LOAD_PIECE ? left : LOAD_PIECE),
            };
        }
    }
    return ST_OK;
}

static uint32_t thread_count(const struct loader *l)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t n = l->options->n_threads;

    if (n == 0) {
        n = cpus > 0 && cpus < LOAD_THREADS ? (uint32_t)cpus : LOAD_THREADS;
    }
    if (n > SHARD_THREADS_MAX) {
        n = SHARD_THREADS_MAX;
    }
    return n > l->n_pieces ? (uint32_t)l->n_pieces : n;
}

/* The caller reads too, so a thread that cannot start costs only time. */
static void run(struct loader *l)
{
    pthread_t threads[SHARD_THREADS_MAX];
    uint32_t n = thread_count(l), started = 0;

    while (started + 1 < n &&
           pthread_create(&threads[started], NULL, read_pieces, l) == 0) {
        started++;
    }
    read_pieces(l);
    while (started > 0) {
        pthread_join(threads[--started], NULL);
    }
}

static float bf16_value(uint16_t v)
{
    uint32_t bits = (uint32_t)v << 16;
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static float f16_value(uint16_t v)
{
    uint32_t sign = (uint32_t)(v & 0x8000u) << 16;
    uint32_t exponent = v >> 10 & 0x1fu, fraction = v & 0x3ffu, bits;
    float f;

    if (exponent == 0) { /* zero and subnormals: fraction * 2^-24 */
        f = (float)fraction * 0x1p-24f;
        return sign != 0 ? -f : f;
    }
    exponent = exponent == 31 ? 255 : exponent + 112;
    bits = sign | exponent << 23 | fraction << 13;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* In place: element i is written to bytes [4i, 4i + 4), which end at or
 * before 2n + 2i + 2, where the next one of two bytes is read. */
static void widen(const struct loader *l, const struct slice *s)
{
    uint64_t n = s->bytes / dtype_bytes(s->dtype);
    char *to = l->memory + s->place;
    const char *from = landing(l, s);

    for (uint64_t i = 0; i < n; i++) {
        uint16_t half;
        float f;

        if (s->dtype == DTYPE_F32) {
            memcpy(&f, from + 4 * i, sizeof f);
        } else {
            memcpy(&half, from + 2 * i, sizeof half);
            f = s->dtype == DTYPE_BF16 ? bf16_value(half) : f16_value(half);
        }
        f = s->add != 0 ? f + s->add : f; /* a -0 stays one */
        memcpy(to + 4 * i, &f, sizeof f);
    }
}

enum status load_slices(const struct layout *layout, const int *fds,
                        void *memory, const struct shard_options *o,
                        uint8_t checksum[16], struct error *e)
{
    struct loader l = {.layout = layout,
                       .fds = fds,
                       .memory = memory,
                       .options = o,
                       .error = e};
    XXH128_canonical_t sum;
    enum status st = cut(&l, e);

    if (st == ST_OK) {
        pthread_mutex_init(&l.lock, NULL);
        run(&l);
        pthread_mutex_destroy(&l.lock);
        st = l.status;
    }
    if (st == ST_OK) {
        for (uint32_t i = 0; i < layout->n; i++) {
            if (layout->slices[i].widen) {
                widen(&l, &layout->slices[i]);
            }
        }
        XXH128_canonicalFromHash(
            &sum, XXH3_128bits(l.sums, l.n_pieces * sizeof *l.sums));
        memcpy(checksum, sum.digest, sizeof sum.digest);
    }
    free(l.pieces);
    free(l.sums);
    return st;
}
