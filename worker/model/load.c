#include "worker/model/load.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/base/quote.h"
#include "common/model/document.h"
#include "common/model/half.h"
#include "common/model/weight_format.h"

struct load_piece {
    const struct slice *slice;
    uint64_t offset; /* in the slice */
    uint32_t bytes;
    bool kept;
};

struct loader {
    const struct load_plan *plan;
    const struct shard_options *options;
    char *scratch; /* [plan->shard->scratch_bytes] */
    size_t n_pieces;
    struct load_piece *pieces; /* [n_pieces], grouped by tensor */
    XXH128_canonical_t *sums;  /* [n_pieces] */
    uint64_t total;            /* bytes */
    atomic_size_t next;
    pthread_mutex_t lock; /* guards all below, and progress calls */
    uint64_t done;
    enum status status;
    struct error *error;
};

/* The private state of a thread. */
struct load_reader {
    struct loader *loader;
    XXH3_state_t *hash;
    char *scratch; /* [LOAD_STEP] for pieces that do not stay as stored */
};

static char *slice_place(const struct loader *l, const struct slice *s)
{
    return (s->scratch ? l->scratch : l->plan->memory) + s->place;
}

/* Returns where a slice's stored bytes are read to.  A slice that will be
 * widened goes to the end of its room, so that widening can run from the front.
 */
static char *landing_place(const struct loader *l, const struct slice *s)
{
    char *at = slice_place(l, s);

    if (s->widen) {
        at += s->bytes / dtype_bytes(s->dtype) * sizeof(float) - s->bytes;
    }
    return at;
}

/* Keeps the first error. */
static void fail_load(struct loader *l, const struct slice *s, enum status st,
                      const struct error *why)
{
    pthread_mutex_lock(&l->lock);
    if (l->status == ST_OK) {
        l->status = error_set(l->error, st, "tensor %s: %s",
                              quote(s->source->info->name).text, why->text);
    }
    pthread_mutex_unlock(&l->lock);
}

/* Counts a piece.  Returns false after an error or a cancellation. */
static bool finish_piece(struct loader *l, const struct load_piece *p)
{
    const struct shard_options *o = l->options;
    bool go_on;

    pthread_mutex_lock(&l->lock);
    l->done += p->bytes;
    go_on = l->status == ST_OK;
    if (go_on && o->progress != NULL &&
        !o->progress(o->ctx, l->done, l->total)) {
        go_on = false;
        l->status =
            error_set(l->error, ST_CANCELLED, "stopped while reading weights");
    }
    pthread_mutex_unlock(&l->lock);
    return go_on;
}

/* Returns whether one of n codes is NaN.  Eight bytes at a time: bit 7 of a sum
 * is set if the lower bits of its byte are all set. */
static bool has_nan(const char *codes, size_t n, enum slice_check check)
{
    const uint64_t low = 0x7f7f7f7f7f7f7f7f, one = 0x0101010101010101;
    uint64_t found = 0;

    if (check == SLICE_ANY) {
        return false;
    }
    for (size_t i = 0; i < n; i += sizeof found) {
        uint64_t v = 0;

        memcpy(&v, codes + i, n - i < sizeof v ? n - i : sizeof v);
        found |= ((v & low) + one) & (check == SLICE_E8M0 ? v : ~low);
    }
    return (found & ~low) != 0;
}

/* Reads n bytes of a slice's file, and checks and hashes them. */
static bool read_bytes(struct load_reader *r, const struct slice *s, char *to,
                       uint32_t n, uint64_t from)
{
    struct loader *l = r->loader;
    struct error why;
    enum status st =
        document_pread(l->plan->fds[s->source->file], to, n, from, &why);

    if (st == ST_OK && has_nan(to, n, s->check)) {
        st =
            error_set(&why, ST_DATA_LOSS,
                      "a %s is NaN: the file is damaged, or its quantisation "
                      "went wrong",
                      s->check == SLICE_E8M0 ? "scale (E8M0)" : "value (E4M3)");
    }
    if (st != ST_OK) {
        fail_load(l, s, st, &why);
        return false;
    }
    XXH3_128bits_update(r->hash, to, n);
    return true;
}

/* Returns bytes that a piece and a step are a multiple of. */
static uint32_t unit_of(const struct slice *s)
{
    return s->repack.form == NULL ? 1 : gguf_type(s->repack.form->type)->bytes;
}

/* Sends the blocks in the scratch, which are n bytes at `at` of the slice,
 * where they belong. */
static bool repack(struct load_reader *r, const struct slice *s, uint64_t at,
                   uint32_t n)
{
    struct loader *l = r->loader;
    uint32_t unit = unit_of(s);
    struct error why;

    if (gguf_repack_run(&s->repack, r->scratch, at / unit, n / unit,
                        l->plan->memory)) {
        return true;
    }
    fail_load(l, s,
              error_set(&why, ST_DATA_LOSS,
                        "a scale (E8M0) is NaN: the file is damaged, or its "
                        "quantisation went wrong"),
              &why);
    return false;
}

/* Reads a kept piece with one call, which is fastest.  Another piece goes
 * through the small scratch in steps, with readahead requested for the whole of
 * it; so does one that is repacked. */
static bool read_piece(struct load_reader *r, size_t i)
{
    struct loader *l = r->loader;
    const struct load_piece *p = &l->pieces[i];
    const struct slice *s = p->slice;
    int fd = l->plan->fds[s->source->file];
    uint64_t from = s->source->offset + s->offset + p->offset;
    bool direct = p->kept && s->repack.form == NULL;
    uint32_t step = direct ? p->bytes : LOAD_STEP - LOAD_STEP % unit_of(s);
    char *to = direct ? landing_place(l, s) + p->offset : r->scratch;

    if (!direct) {
        (void)posix_fadvise(fd, (off_t)from, p->bytes, POSIX_FADV_WILLNEED);
    }
    XXH3_128bits_reset(r->hash);
    for (uint32_t at = 0, n; at < p->bytes; at += n) {
        n = p->bytes - at < step ? p->bytes - at : step;
        if (!read_bytes(r, s, to, n, from + at) ||
            (p->kept && !direct && !repack(r, s, p->offset + at, n))) {
            return false;
        }
    }
    XXH128_canonicalFromHash(&l->sums[i], XXH3_128bits_digest(r->hash));
    return finish_piece(l, p);
}

static void *read_pieces(void *arg)
{
    struct loader *l = arg;
    struct load_reader r = {
        .loader = l, .hash = XXH3_createState(), .scratch = malloc(LOAD_STEP)};
    size_t i;

    if (r.hash != NULL && r.scratch != NULL) {
        do {
            i = atomic_fetch_add(&l->next, 1);
        } while (i < l->n_pieces && read_piece(&r, i));
    }
    free(r.scratch);
    XXH3_freeState(r.hash);
    return NULL;
}

/* A piece holds whole blocks. */
static uint32_t piece_of(const struct slice *s)
{
    return LOAD_PIECE - LOAD_PIECE % unit_of(s);
}

static size_t count_pieces(const struct layout *y)
{
    size_t n = 0;

    for (uint32_t i = 0; i < y->n; i++) {
        n += y->slices[i].bytes / piece_of(&y->slices[i]) + 1;
    }
    return n;
}

static void cut_slice(struct loader *l, const struct slice *s, bool kept)
{
    uint32_t piece = piece_of(s);

    for (uint64_t at = 0; at < s->bytes; at += piece) {
        uint64_t left = s->bytes - at;

        l->pieces[l->n_pieces++] = (struct load_piece){
            .slice = s,
            .offset = at,
            .bytes = (uint32_t)(left < piece ? left : piece),
            .kept = kept,
        };
    }
    l->total += s->bytes;
}

/* Lists the shard's slices, and the model's slices of all other tensors. */
static void cut_all(struct loader *l, struct load_digest *digests)
{
    const struct load_plan *p = l->plan;
    const struct checkpoint_tensor *first = p->checkpoint->tensors;

    for (uint32_t i = 0; i < p->shard->n; i++) {
        const struct slice *s = &p->shard->slices[i];

        digests[s->source - first].known = true;
        cut_slice(l, s, true);
    }
    /* `known` marks the shard's tensors, so that none is hashed twice. */
    for (uint32_t i = 0; i < p->model->n; i++) {
        const struct slice *s = &p->model->slices[i];

        if (!digests[s->source - first].known) {
            cut_slice(l, s, false);
        }
    }
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

/* The caller reads too, so a thread that cannot start, or has no memory, costs
 * only time. */
static void run_threads(struct loader *l)
{
    pthread_t threads[SHARD_THREADS_MAX];
    uint32_t n = thread_count(l), started = 0;

    pthread_mutex_init(&l->lock, NULL);
    while (started + 1 < n &&
           pthread_create(&threads[started], NULL, read_pieces, l) == 0) {
        started++;
    }
    read_pieces(l);
    while (started > 0) {
        pthread_join(threads[--started], NULL);
    }
    pthread_mutex_destroy(&l->lock);
    if (l->status == ST_OK && l->done != l->total) {
        l->status = error_set(l->error, ST_RESOURCE_EXHAUSTED,
                              "out of memory while reading weights");
    }
}

static void add_to(float *values, uint64_t n, float add)
{
    for (uint64_t i = 0; i < n; i++) {
        values[i] += add;
    }
}

static double mean_of(const float *values, uint64_t n)
{
    double sum = 0;

    for (uint64_t i = 0; i < n; i++) {
        sum += (double)values[i];
    }
    return sum / (double)n;
}

/* Widens in place.  Element i is written to bytes [4i, 4i + 4), which end at or
 * before 2n + 2i + 2, where the next two-byte element is read. */
static void widen_slice(const struct loader *l, const struct slice *s)
{
    uint64_t n = s->bytes / dtype_bytes(s->dtype);
    char *to = slice_place(l, s);
    const char *from = landing_place(l, s);
    float *values = (float *)(void *)to;

    for (uint64_t i = 0; i < n; i++) {
        uint16_t half;
        float f;

        if (s->dtype == DTYPE_F32) {
            memcpy(&f, from + 4 * i, sizeof f);
        } else {
            memcpy(&half, from + 2 * i, sizeof half);
            f = s->dtype == DTYPE_BF16 ? half_from_bf16(half)
                                       : half_from_f16(half);
        }
        memcpy(to + 4 * i, &f, sizeof f);
    }
    /* Adding 0 would turn -0 into 0. */
    if (s->add != 0 && (!s->guess || mean_of(values, n) < SLICE_GAMMA_MEAN)) {
        add_to(values, n, s->add);
    }
}

static void spread_rows(const struct loader *l, const struct spread *s)
{
    const char *from = l->scratch + s->from;
    char *to = l->plan->memory + s->to;

    for (uint32_t i = 0; i < s->rows; i++) {
        uint64_t block = (s->first + (uint64_t)i) / WEIGHT_FP8_BLOCK;

        memcpy(to + i * s->row_bytes, from + block * s->row_bytes,
               (size_t)s->row_bytes);
    }
}

/* Spreads come last: they read what was widened. */
static void transform(const struct loader *l)
{
    const struct layout *y = l->plan->shard;

    for (uint32_t i = 0; i < y->n; i++) {
        if (y->slices[i].widen) {
            widen_slice(l, &y->slices[i]);
        }
    }
    for (uint32_t i = 0; i < y->n_spreads; i++) {
        spread_rows(l, &y->spreads[i]);
    }
}

/* Computes the digest of each tensor from those of its pieces. */
static void digest_tensors(const struct loader *l, struct load_digest *digests)
{
    const struct checkpoint_tensor *first = l->plan->checkpoint->tensors;
    XXH128_canonical_t sum;

    for (size_t i = 0, n; i < l->n_pieces; i += n) {
        const struct checkpoint_tensor *t = l->pieces[i].slice->source;

        for (n = 1; i + n < l->n_pieces; n++) {
            if (l->pieces[i + n].slice->source != t) {
                break;
            }
        }
        XXH128_canonicalFromHash(
            &sum, XXH3_128bits(&l->sums[i], n * sizeof l->sums[0]));
        memcpy(digests[t - first].bytes, sum.digest, sizeof sum.digest);
        digests[t - first].known = true;
    }
}

enum status load_run(const struct load_plan *p, const struct shard_options *o,
                     struct load_digest *digests, struct error *e)
{
    struct loader l = {.plan = p, .options = o, .error = e};
    size_t n = count_pieces(p->shard) + count_pieces(p->model);

    l.pieces = calloc(n + 1, sizeof *l.pieces);
    l.sums = calloc(n + 1, sizeof *l.sums);
    l.scratch = malloc((size_t)p->shard->scratch_bytes + 1);
    if (l.pieces == NULL || l.sums == NULL || l.scratch == NULL) {
        l.status = error_set(e, ST_RESOURCE_EXHAUSTED,
                             "out of memory for a list of %zu pieces", n);
        goto out;
    }
    cut_all(&l, digests);
    run_threads(&l);
    if (l.status != ST_OK) {
        goto out;
    }
    digest_tensors(&l, digests);
    transform(&l);
out:
    free(l.scratch);
    free(l.pieces);
    free(l.sums);
    return l.status;
}
