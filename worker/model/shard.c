#include "worker/model/shard.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/model/checkpoint.h"
#include "common/model/layout.h"
#include "worker/model/fingerprint.h"
#include "worker/model/load.h"

#define HUGE_PAGE 2097152

struct shard {
    struct shard_weights weights;
    struct layout_parts parts; /* owns its layers */
    void *memory;              /* [report.bytes] */
    struct shard_report report;
    struct shard_known known;
};

static_assert(sizeof((struct shard_known *)0)->fingerprint == FINGERPRINT_BYTES,
              "the size of a fingerprint");

/* Aligns the block for huge pages if it can fill one. */
static enum status allocate_weights(struct shard *s, uint64_t bytes,
                                    uint64_t max, struct error *e)
{
    size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : LAYOUT_ALIGN;

    if (max != 0 && bytes > max) {
        return error_set(
            e, ST_RESOURCE_EXHAUSTED,
            "the weights take %llu bytes, at most %llu are allowed",
            (unsigned long long)bytes, (unsigned long long)max);
    }
    if (posix_memalign(&s->memory, align, (size_t)bytes) != 0) {
        s->memory = NULL;
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "out of memory for weights of %llu bytes",
                         (unsigned long long)bytes);
    }
    if (align == HUGE_PAGE) {
        /* Advice only: the weights are correct without it. */
        (void)madvise(s->memory, (size_t)bytes, MADV_HUGEPAGE);
    }
    return ST_OK;
}

static void fill_report(struct shard *s, const struct layout *l)
{
    s->report = (struct shard_report){
        .bytes = l->bytes,
        .file_bytes = l->file_bytes,
        .n_tensors = l->n_tensors,
        .n_aside = l->n_aside,
        .n_unknown = l->n_unknown,
        .unknown = quote(l->unknown),
    };
}

static enum status read_files(struct shard *s, const struct load_plan *p,
                              const struct model_config *config,
                              const struct shard_options *o, struct error *e)
{
    struct load_digest *digests =
        calloc(p->checkpoint->n_tensors, sizeof *digests);
    enum status st;

    if (digests == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    st = load_run(p, o, digests, e);
    if (st == ST_OK) {
        /* Only now: a change while reading would mix two versions. */
        st = checkpoint_unchanged(p->checkpoint, p->fds, e);
    }
    /* With a known fingerprint, the other tensors were not read: there are no
     * digests to compute one from. */
    if (st == ST_OK && p->model != p->shard) {
        st = fingerprint_make(s->known.fingerprint, config, p->checkpoint,
                              digests, e);
    }
    free(digests);
    return st;
}

/* Hashes what identifies the files without reading them.  A companion is no
 * part of the fingerprint, and only some ranges open it. */
static uint64_t files_hash(const struct checkpoint *c)
{
    uint64_t h = 0;

    for (uint32_t i = 0; i < c->n_files; i++) {
        const struct checkpoint_file *f = &c->files[i];

        if (f->companion) {
            continue;
        }
        h = XXH3_64bits_withSeed(f->name, strlen(f->name), h);
        h = XXH3_64bits_withSeed(&f->bytes, sizeof f->bytes, h);
        h = XXH3_64bits_withSeed(&f->changed_ns, sizeof f->changed_ns, h);
    }
    return h;
}

/* If an earlier load has the fingerprint of these files, only the shard needs
 * to be read and hashed.  The MTP layer is no part of a fingerprint. */
static enum status choose_model(struct shard *s, struct load_plan *p,
                                struct layout *model,
                                const struct model_config *config,
                                const struct shard_known *known,
                                struct error *e)
{
    struct model_config plain = *config;

    s->known.files = files_hash(p->checkpoint);
    /* Names, sizes and times identify unchanged files well enough here: the
     * bytes of the layers are still read, and checked for changes while they
     * are. */
    if (known != NULL && known->files == s->known.files) {
        s->known = *known;
        p->model = p->shard;
        return ST_OK;
    }
    p->model = model;
    plain.drafts = false;
    return layout_of_model(model, &plain, p->checkpoint, e);
}

static enum status read_all(struct shard *s, const struct layout *l,
                            const struct model_config *config,
                            const struct checkpoint *c,
                            const struct shard_options *o, struct error *e)
{
    struct load_plan p = {.checkpoint = c, .shard = l, .memory = s->memory};
    struct layout model = {0};
    int *fds = NULL;
    enum status st = choose_model(s, &p, &model, config, o->known, e);

    if (st == ST_OK) {
        st = checkpoint_open_files(c, &fds, e);
    }
    if (st == ST_OK) {
        p.fds = fds;
        st = read_files(s, &p, config, o, e);
    }
    checkpoint_close_files(c, &fds);
    layout_fini(&model);
    return st;
}

static enum status load_layers(struct shard *s,
                               const struct model_config *config,
                               const struct checkpoint *c,
                               const struct shard_options *o, struct error *e)
{
    struct layout l;
    enum status st = layout_make(&l, &s->weights, &s->parts, config, c, e);

    if (st == ST_OK) {
        st = allocate_weights(s, l.bytes, o->max_bytes, e);
    }
    if (st == ST_OK) {
        st = read_all(s, &l, config, c, o, e);
    }
    if (st == ST_OK) {
        layout_place(&l, &s->weights, config, s->memory);
        fill_report(s, &l);
    }
    layout_fini(&l);
    return st;
}

static enum status create_shard(struct shard **out,
                                const struct model_config *c, uint32_t begin,
                                uint32_t end, struct error *e)
{
    struct shard *s;

    if (begin >= end || end > c->shape.n_layers) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "layers %u to %u of a model of %u", begin, end,
                         c->shape.n_layers);
    }
    s = calloc(1, sizeof *s);
    if (s != NULL) {
        s->parts.layers =
            calloc(end - begin + (size_t)1, sizeof *s->parts.layers);
    }
    if (s == NULL || s->parts.layers == NULL) {
        shard_free(&s);
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    s->weights.shape = c->shape;
    s->weights.begin = begin;
    s->weights.end = end;
    *out = s;
    return ST_OK;
}

enum status shard_load(struct shard **out, const struct model_config *c,
                       const char *dir, uint32_t begin, uint32_t end,
                       const struct shard_options *o, struct error *e)
{
    static const struct shard_options defaults;
    struct error ignored;
    struct checkpoint *files = NULL;
    struct shard *s = NULL;
    enum status st;

    *out = NULL;
    e = e != NULL ? e : &ignored;
    st = create_shard(&s, c, begin, end, e);
    if (st == ST_OK) {
        st = checkpoint_open(&files, dir, e);
    }
    if (st == ST_OK && config_drafts_at(c, end)) {
        st = checkpoint_add_mtp(files, e);
    }
    if (st == ST_OK) {
        st = load_layers(s, c, files, o != NULL ? o : &defaults, e);
    }
    checkpoint_close(&files);
    if (st != ST_OK) {
        shard_free(&s);
        return error_wrap(e, "load layers %u to %u", begin, end);
    }
    *out = s;
    return ST_OK;
}

/* The addresses stay valid, because callers test pointers for the presence of a
 * tensor; the memory reads as zeros. */
void shard_forget(struct shard *s)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)s->memory + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)s->memory + s->report.bytes) / page * page;

    if (begin < end) {
        (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
    }
}

void shard_free(struct shard **self)
{
    struct shard *s = *self;

    *self = NULL;
    if (s != NULL) {
        free(s->memory);
        free(s->parts.layers);
        free(s);
    }
}

const struct shard_weights *shard_weights(const struct shard *s)
{
    return &s->weights;
}

struct shard_weights *shard_own(struct shard *s)
{
    return &s->weights;
}

const struct shard_report *shard_report(const struct shard *s)
{
    return &s->report;
}

const uint8_t *shard_fingerprint(const struct shard *s)
{
    return s->known.fingerprint;
}

struct shard_known shard_known(const struct shard *s)
{
    return s->known;
}
