/* try_attention.c - the attention mixers; see opencl_try.h.
 *
 * The reference is in double, from the values that the kernels are specified to
 * use: the cache as rounded, the query rounded to bf16.  Allowed difference:
 * the rounding of weights and of the output to bf16, 2^-9 each.  Every position
 * that a row must not read is NaN. */
#include "tests/kernels/opencl_try.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPLIT       128 /* as in nv_attention_decode.cl */
#define SPLITS      32
#define ROWS_MAX    128
#define PARTS       3 /* layers in a page of a checked step; ours is the 2nd */
#define TOKENS_MAX  8192
#define META_TOKENS (ROWS_MAX * 8)
#define META_BLOCKS (META_TOKENS + 2 * TOKENS_MAX)
#define ALLOWED     4e-3
#define KV_MOST     ((size_t)18 << 30) /* bytes of a buffer */

struct shape {
    const char *name;
    uint32_t nh, nkv, hd, rotary;
    bool gated;
    uint32_t block_tokens;
};

static const struct shape shapes[] = {
    {"9b", 16, 4, 256, 64, true, 32},      {"0.8b", 8, 2, 256, 64, true, 16},
    {"qwen3", 16, 8, 128, 128, false, 32}, {"llama", 32, 8, 64, 64, false, 64},
    {"wide", 20, 1, 128, 128, false, 2},   {"odd", 7, 1, 64, 32, true, 8},
    {"least", 2, 1, 256, 64, true, 16},
};
#define SMALL_DECODE  4 /* index of the first small shapes */
#define SMALL_PREFILL 5
#define N_SHAPES      (sizeof(shapes) / sizeof(shapes[0]))

/* A row of a step: tokens at positions [position, position + n). */
struct row {
    uint32_t position, n;
};

/* A step on the device. */
struct world {
    const struct shape *s;
    uint32_t n_rows, n_tokens, longest;
    uint32_t first[ROWS_MAX];
    const struct row *rows;
    uint32_t per_block; /* elements of a block of one layer, */
    uint32_t page;      /* and from page to page */
    size_t kv_at;       /* the layer's in page 0 */
    uint32_t *blocks;   /* blocks of row r, from r * table_ld */
    uint32_t table_ld;
    uint16_t *host_kv; /* NULL: random everywhere */
    cl_mem meta, kv, y, part, tickets, query, in;
};

static uint32_t in_ld(const struct shape *s)
{
    return (s->gated ? 2 : 1) * s->nh * s->hd + 2 * s->nkv * s->hd;
}

/* Returns the chunks of up to 8 query heads, for a kv head. */
static uint32_t chunks_of(const struct shape *s)
{
    return (s->nh / s->nkv + 7) / 8;
}

static uint16_t half_of(float v)
{
    uint32_t b;
    v = try_bf16(v);
    memcpy(&b, &v, 4);
    return (uint16_t)(b >> 16);
}

static float of_half(uint16_t h)
{
    uint32_t b = (uint32_t)h << 16;
    float v;
    memcpy(&v, &b, 4);
    return v;
}

static void *take(size_t n, size_t item)
{
    void *p = calloc(n ? n : 1, item);
    try_must(p ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "calloc");
    return p;
}

/* Returns the element of k (or v) of a sequence, in whichever block. */
static size_t place(const struct world *w, uint32_t row, uint32_t position,
                    uint32_t kv_head, bool value)
{
    const struct shape *s = w->s;
    uint32_t block = w->blocks[row * w->table_ld + position / s->block_tokens];
    size_t at = w->kv_at + (size_t)block * w->page;
    at += (value ? (size_t)w->per_block / 2 : 0);
    at += ((size_t)kv_head * s->block_tokens + position % s->block_tokens) *
          s->hd;
    return at;
}

static float cached(uint32_t seed, const struct shape *s, uint32_t position,
                    uint32_t kv_head, uint32_t d, bool value)
{
    uint64_t i = (((uint64_t)position * s->nkv + kv_head) * 2 + value) * s->hd;
    return try_value(seed, i + d, value ? 1.0f : 1.5f, TRY_BF16);
}

/* Fills k and v of the positions before `until`; sequence r uses seed r. */
static void fill_cache(struct world *w, uint32_t row, uint32_t seed,
                       uint32_t until)
{
    const struct shape *s = w->s;
    for (uint32_t p = 0; p < until; p++) {
        for (uint32_t h = 0; h < s->nkv; h++) {
            uint16_t *k = w->host_kv + place(w, row, p, h, false);
            uint16_t *v = w->host_kv + place(w, row, p, h, true);
            for (uint32_t d = 0; d < s->hd; d++) {
                k[d] = half_of(cached(seed, s, p, h, d, false));
                v[d] = half_of(cached(seed, s, p, h, d, true));
            }
        }
    }
}

/* Hands out blocks in an order that `shuffle` decides. */
static void make_meta(struct try *t, struct world *w, uint32_t shuffle)
{
    uint32_t n_blocks = w->n_rows * w->table_ld;
    size_t words = META_BLOCKS + n_blocks;
    int32_t *meta = take(words, 4);
    w->blocks = take(n_blocks, 4);
    for (uint32_t i = 0; i < n_blocks; i++) {
        w->blocks[i] = shuffle ? (i * 7 + shuffle) % n_blocks : i;
        while (shuffle && n_blocks % 7 == 0) {
            w->blocks[i] = n_blocks - 1 - i;
            break;
        }
        meta[META_BLOCKS + i] = (int32_t)w->blocks[i];
    }
    for (uint32_t r = 0; r < w->n_rows; r++) {
        int32_t *m = meta + r * 8;
        m[0] = (int32_t)w->first[r];
        m[1] = (int32_t)w->rows[r].n;
        m[2] = (int32_t)w->rows[r].position;
        m[4] = (int32_t)(r * w->table_ld);
        for (uint32_t i = 0; i < w->rows[r].n; i++) {
            int32_t *token = meta + META_TOKENS + 2 * (w->first[r] + i);
            token[0] = (int32_t)r;
            token[1] = (int32_t)(w->rows[r].position + i);
        }
    }
    w->meta = try_data(t, meta, words * 4);
    free(meta);
}

static uint32_t n_splits(const struct world *w)
{
    uint32_t n = (w->longest + SPLIT - 1) / SPLIT;
    return n < SPLITS ? n : SPLITS;
}

static void make_world(struct try *t, struct world *w, const struct shape *s,
                       const struct row *rows, uint32_t n, uint32_t shuffle,
                       bool checked)
{
    *w = (struct world){.s = s, .rows = rows, .n_rows = n};
    for (uint32_t r = 0; r < n; r++) {
        uint32_t end = rows[r].position + rows[r].n;
        w->first[r] = w->n_tokens;
        w->n_tokens += rows[r].n;
        w->longest = end > w->longest ? end : w->longest;
    }
    w->table_ld = (w->longest + s->block_tokens - 1) / s->block_tokens;
    w->per_block = 2 * s->nkv * s->block_tokens * s->hd;
    make_meta(t, w, shuffle);
    w->page = w->per_block * (checked ? PARTS : 1);
    w->kv_at = checked ? w->per_block : 0;
    size_t elements = (size_t)n * w->table_ld * w->page;
    if (checked) {
        w->host_kv = take(elements, 2);
        memset(w->host_kv, 0xff, elements * 2);
        for (uint32_t r = 0; r < n; r++) {
            fill_cache(w, r, r + 1, rows[r].position + rows[r].n);
        }
        w->kv = try_data(t, w->host_kv, elements * 2);
    } else {
        w->kv = try_random(t, TRY_BF16, elements, 5, 1.0f);
    }
    size_t heads = (size_t)w->n_tokens * s->nh;
    uint32_t *zeros = take(heads, 4);
    w->y = try_poison(t, heads * s->hd * 2);
    size_t parted = (size_t)n * s->nh; /* tokens for decode */
    w->part = try_poison(t, parted * n_splits(w) * (s->hd + 2) * 4);
    w->tickets =
        try_data(t, zeros, (size_t)w->n_tokens * s->nkv * chunks_of(s) * 4);
    free(zeros);
}

/* Copies query and `in` of the tokens [from, from + n_tokens) of a longer
 * step. */
static void give_inputs(struct try *t, struct world *w, uint32_t from)
{
    const struct shape *s = w->s;
    size_t nq = (size_t)s->nh * s->hd, ni = in_ld(s);
    float *q = take(w->n_tokens * nq, 4), *in = take(w->n_tokens * ni, 4);
    for (size_t i = 0; i < w->n_tokens * nq; i++) {
        q[i] = try_value(77, from * nq + i, 1.0f, TRY_F32);
    }
    for (size_t i = 0; i < w->n_tokens * ni; i++) {
        in[i] = try_value(78, from * ni + i, 2.0f, TRY_F32);
    }
    w->query = try_data(t, q, w->n_tokens * nq * 4);
    w->in = try_data(t, in, w->n_tokens * ni * 4);
    free(q);
    free(in);
}

static void drop_world(struct world *w)
{
    free(w->blocks);
    free(w->host_kv);
}

static cl_kernel attention_kernel(struct try *t, const struct world *w,
                                  const char *file, const char *name,
                                  const char *more)
{
    const bool decodes = strcmp(name, "attention_decode") == 0;
    const char *const files[] = {"common.cl", "nv.cl",
                                 decodes ? "nv_attention_split.cl" : file,
                                 decodes ? file : NULL, NULL};
    const struct shape *s = w->s;
    return try_kernel(
        t, files, name,
        "-DH=1024 -DNH=%u -DNKV=%u -DHD=%u -DR=%u -DGATED=%d -DEPS=1e-6f "
        "-DBLOCK_TOKENS=%u -DKV_DTYPE=1 -DOPERAND_DTYPE=1 -DMETA_ROWS=0 "
        "-DMETA_TOKENS=%d -DMETA_BLOCKS=%d -DNVIDIA=%u %s",
        (unsigned)s->nh, (unsigned)s->nkv, (unsigned)s->hd, (unsigned)s->rotary,
        s->gated, (unsigned)s->block_tokens, META_TOKENS, META_BLOCKS,
        (unsigned)t->nvidia, more);
}

/* kv_at: start of the layer's cache in w->kv. */
static void layer_args(cl_kernel k, const struct world *w, uint64_t kv_at,
                       uint32_t first, uint32_t n)
{
    try_args(k, "mUmUmUmUmUmUumuuumUu", w->y, (uint64_t)0, w->part, (uint64_t)0,
             w->tickets, (uint64_t)0, w->query, (uint64_t)0, w->in, (uint64_t)0,
             w->kv, kv_at, w->page, w->meta, first, n, n_splits(w), w->meta,
             UINT64_MAX, 0u);
}

static void attend_args(cl_kernel k, const struct world *w, uint32_t first,
                        uint32_t n)
{
    layer_args(k, w, w->kv_at, first, n);
}

/* ---- the reference ---- */

/* y [nh, hd] of a token of sequence `seed` at position p, the token-th of the
 * inputs. */
static void attend_plainly(const struct shape *s, uint32_t seed, uint32_t p,
                           uint32_t token, double *y)
{
    double *weight = take(p + 1, sizeof(double));
    size_t nq = (size_t)s->nh * s->hd;
    for (uint32_t h = 0; h < s->nh; h++) {
        uint32_t kv_head = h / (s->nh / s->nkv);
        double top = -INFINITY, sum = 0;
        for (uint32_t j = 0; j <= p; j++) {
            weight[j] = 0;
            for (uint32_t d = 0; d < s->hd; d++) {
                weight[j] +=
                    (double)try_value(77, token * nq + (size_t)h * s->hd + d,
                                      1.0f, TRY_BF16) *
                    (double)cached(seed, s, j, kv_head, d, false);
            }
            weight[j] /= sqrt((double)s->hd);
            top = fmax(top, weight[j]);
        }
        for (uint32_t j = 0; j <= p; j++) {
            weight[j] = exp(weight[j] - top);
            sum += weight[j];
        }
        for (uint32_t d = 0; d < s->hd; d++) {
            double acc = 0;
            for (uint32_t j = 0; j <= p; j++) {
                acc += weight[j] * (double)cached(seed, s, j, kv_head, d, true);
            }
            y[h * s->hd + d] = acc / sum;
            if (s->gated) {
                size_t at = (size_t)token * in_ld(s) + (size_t)h * 2 * s->hd +
                            s->hd + d;
                double gate = (double)try_value(78, at, 2.0f, TRY_F32);
                y[h * s->hd + d] /= 1 + exp(-gate);
            }
        }
    }
    free(weight);
}

static void check_y(struct try *t, const struct world *w, const char *what,
                    const uint16_t *got, uint32_t step)
{
    const struct shape *s = w->s;
    size_t width = (size_t)s->nh * s->hd;
    double *want = take(width, sizeof(double));
    float *as_float = take(width, sizeof(float));
    for (uint32_t r = 0; r < w->n_rows; r++) {
        for (uint32_t i = 0; i < w->rows[r].n;
             i += (i + step < w->rows[r].n || i + 1 == w->rows[r].n)
                      ? step
                      : w->rows[r].n - 1 - i) {
            uint32_t token = w->first[r] + i, p = w->rows[r].position + i;
            char name[96];
            attend_plainly(s, r + 1, p, token, want);
            for (size_t j = 0; j < width; j++) {
                as_float[j] = of_half(got[token * width + j]);
            }
            snprintf(name, sizeof(name), "%s %s position %u", what, s->name,
                     (unsigned)p);
            try_near(t, name, as_float, want, width, ALLOWED);
        }
    }
    free(want);
    free(as_float);
}

/* ---- decode ---- */

static struct try_launch decode_launch(cl_kernel k, const struct world *w)
{
    const struct shape *s = w->s;
    return (struct try_launch){
        k, 3, {n_splits(w), s->nkv * chunks_of(s), w->n_tokens}, {128, 1, 1}};
}

static void run_decode(struct try *t, struct world *w, uint16_t *y)
{
    cl_kernel k = attention_kernel(t, w, "nv_attention_decode.cl",
                                   "attention_decode", "");
    if (!k) {
        return;
    }
    struct try_launch l = decode_launch(k, w);
    for (uint32_t twice = 0; twice < 2; twice++) { /* tickets must be left at
                                                    * 0 */
        try_repoison(t, w->y, (size_t)w->n_tokens * w->s->nh * w->s->hd * 2);
        attend_args(k, w, 0, w->n_tokens);
        try_run(t, &l);
    }
    try_read(t, w->y, 0, (size_t)w->n_tokens * w->s->nh * w->s->hd * 2, y);
}

/* Each row alone, in other blocks, gives the same bits. */
static void decode_alone(struct try *t, const struct world *all,
                         const uint16_t *y)
{
    const struct shape *s = all->s;
    size_t width = (size_t)s->nh * s->hd;
    uint16_t *one = take(width, 2);
    for (uint32_t r = 0; r < all->n_rows; r += 3) {
        struct world w;
        char name[96];
        make_world(t, &w, s, all->rows + r, 1, 3, true);
        memset(w.host_kv, 0xff, (size_t)w.table_ld * w.page * sizeof(uint16_t));
        fill_cache(&w, 0, r + 1, all->rows[r].position + 1);
        w.kv = try_data(t, w.host_kv, (size_t)w.table_ld * w.page * 2);
        give_inputs(t, &w, r);
        run_decode(t, &w, one);
        snprintf(name, sizeof(name), "attention_decode %s row %u alone",
                 s->name, (unsigned)r);
        try_same(t, name, one, y + r * width, width * 2);
        drop_world(&w);
    }
    free(one);
}

static void check_decode(struct try *t, const struct shape *s,
                         const struct row *rows, uint32_t n)
{
    struct world w;
    uint16_t *y = take((size_t)n * s->nh * s->hd, 2);
    make_world(t, &w, s, rows, n, 1, true);
    give_inputs(t, &w, 0);
    run_decode(t, &w, y);
    check_y(t, &w, "attention_decode", y, 1);
    decode_alone(t, &w, y);
    drop_world(&w);
    free(y);
    try_free(t);
}

/* The launches of a chain use other layers' caches in turn. */
struct chain {
    const struct world *w;
    cl_kernel k;
    uint32_t n_layers;
    size_t layer; /* elements from layer to layer */
};

static void next_layer(void *arg, uint32_t i)
{
    const struct chain *c = arg;
    layer_args(c->k, c->w, c->layer * (i % c->n_layers), 0, c->w->n_rows);
}

/* A page holds n_parts layers, or fewer where one buffer would be too large. */
static void time_decode(struct try *t, const struct shape *s, uint32_t batch,
                        uint32_t context, uint32_t n_parts)
{
    struct row rows[ROWS_MAX] = {{0}};
    struct world w;
    for (uint32_t r = 0; r < batch; r++) {
        rows[r] = (struct row){context - 1, 1};
    }
    make_world(t, &w, s, rows, batch, 1, false);
    size_t layer = (size_t)batch * w.table_ld * w.per_block;
    uint32_t layers = (uint32_t)(((size_t)256 << 20) / layer + 1);
    if (n_parts > 1) {
        uint32_t most = (uint32_t)(KV_MOST / (layer * 2));
        n_parts = n_parts < most ? n_parts : most;
        layers = n_parts;
        w.page = n_parts * w.per_block;
    }
    w.kv = try_random(t, TRY_BF16, layer * layers, 5, 1.0f);
    give_inputs(t, &w, 0);
    cl_kernel k = attention_kernel(t, &w, "nv_attention_decode.cl",
                                   "attention_decode", "");
    if (k) {
        struct try_launch l = decode_launch(k, &w);
        struct chain chain = {&w, k, layers, n_parts > 1 ? w.per_block : layer};
        double us = try_chain(t, &l, next_layer, &chain);
        double bytes = (double)batch * context * s->nkv * s->hd * 4;
        printf("attention_decode %-5s batch %3u context "
               "%5u, %u in a page: %8.1f us "
               "%6.0f GB/s %3.0f %%\n",
               s->name, (unsigned)batch, (unsigned)context, (unsigned)n_parts,
               us, bytes / us / 1e3, bytes / us / 10 / t->read_gbs);
    }
    drop_world(&w);
    try_free(t);
}

static void decode_case(struct try *t)
{
    static const struct row rows[] = {{0, 1},   {1, 1},   {15, 1},  {16, 1},
                                      {62, 1},  {63, 1},  {64, 1},  {255, 1},
                                      {256, 1}, {300, 1}, {511, 1}, {600, 1}};
    static const struct row far[] = {{40000, 1}, {100, 1}};
    if (t->nvidia < 80) {
        printf("attention_decode: not an NVIDIA device, left out\n");
        return;
    }
    for (uint32_t i = t->small ? SMALL_DECODE : 0; i < N_SHAPES; i++) {
        check_decode(t, &shapes[i], rows, sizeof(rows) / sizeof(rows[0]));
    }
    if (t->units > 16) { /* long parts */
        check_decode(t, &shapes[1], far, 2);
    }
    for (uint32_t i = 0; !t->quiet && i < 3; i++) {
        for (uint32_t parts = 1; parts <= 8; parts *= 8) {
            time_decode(t, &shapes[i], 1, 4096, parts);
            time_decode(t, &shapes[i], 1, 38912, parts);
            time_decode(t, &shapes[i], 32, 1024, parts);
            time_decode(t, &shapes[i], 32, 4096, parts);
            time_decode(t, &shapes[i], 32, 38912, parts);
            time_decode(t, &shapes[i], 128, 4096, parts);
        }
    }
}

/* ---- prefill ---- */

/* Tiles of nv_attention_few.cl; 0: it cannot run this shape here. */
static uint32_t few_depth(const struct try *t, const struct shape *s)
{
    uint32_t depth = (t->local - 32 * s->hd - (8u << 10)) / (256 * s->hd);
    if (s->hd < 128 || s->nh / s->nkv > 16 || depth < 2) {
        return 0;
    }
    return depth < 4 ? depth : 4;
}

/* warps FEW: the kernel for few tokens, which has 16 rows. */
#define FEW 0
static cl_kernel prefill_kernel(struct try *t, const struct world *w,
                                uint32_t warps, struct try_launch *l)
{
    const struct shape *s = w->s;
    uint32_t tile = (warps == FEW ? 16 : 16 * warps) / (s->nh / s->nkv);
    uint32_t items = warps == FEW ? 256 : warps * 32;
    char more[64];
    snprintf(more, sizeof(more), "-DWG=%u -DDEPTH=%u", (unsigned)items,
             (unsigned)few_depth(t, s));
    cl_kernel k = attention_kernel(
        t, w, warps == FEW ? "nv_attention_few.cl" : "nv_attention_prefill.cl",
        warps == FEW ? "attention_few" : "attention_prefill", more);
    *l = (struct try_launch){
        k, 2, {(w->n_tokens + tile - 1) / tile, s->nkv}, {items, 1}};
    return k;
}

static void run_prefill(struct try *t, struct world *w, uint32_t warps,
                        uint16_t *y)
{
    struct try_launch l;
    cl_kernel k = prefill_kernel(t, w, warps, &l);
    if (k) {
        attend_args(k, w, 0, w->n_tokens);
        try_run(t, &l);
    }
    try_read(t, w->y, 0, (size_t)w->n_tokens * w->s->nh * w->s->hd * 2, y);
}

/* Runs the tokens from `at` on of the only row alone: the same bits. */
static void prefill_chunk(struct try *t, const struct shape *s,
                          const struct row *row, uint32_t at, uint32_t n,
                          const uint16_t *whole)
{
    struct row part = {row->position + at, n};
    size_t width = (size_t)s->nh * s->hd;
    uint16_t *y = take(n * width, 2);
    struct world w;
    char name[96];
    make_world(t, &w, s, &part, 1, 3, true);
    give_inputs(t, &w, at);
    run_prefill(t, &w, 4, y);
    snprintf(name, sizeof(name), "attention_prefill %s chunk of %u", s->name,
             (unsigned)n);
    try_same(t, name, y, whole + at * width, n * width * 2);
    drop_world(&w);
    free(y);
}

static void check_prefill(struct try *t, const struct shape *s)
{
    static const struct row rows[] = {{0, 1},   {0, 65},   {64, 40},
                                      {131, 3}, {130, 70}, {3, 30}};
    static const struct row longer[] = {{0, 200}};
    struct world w;
    uint32_t n = 209;
    uint16_t *y = take((size_t)n * s->nh * s->hd, 2);
    uint16_t *other = take((size_t)n * s->nh * s->hd, 2);
    make_world(t, &w, s, rows, 6, 1, true);
    give_inputs(t, &w, 0);
    run_prefill(t, &w, 4, y);
    check_y(t, &w, "attention_prefill", y, 9);
    run_prefill(t, &w, 8, other);
    try_same(t, "attention_prefill by 8 warps", other, y,
             (size_t)w.n_tokens * s->nh * s->hd * 2);
    if (few_depth(t, s) > 0) {
        run_prefill(t, &w, FEW, other);
        try_same(t, "attention_few", other, y,
                 (size_t)w.n_tokens * s->nh * s->hd * 2);
    }
    drop_world(&w);
    make_world(t, &w, s, longer, 1, 1, true);
    give_inputs(t, &w, 0);
    run_prefill(t, &w, 4, y);
    prefill_chunk(t, s, longer, 0, 64, y);
    prefill_chunk(t, s, longer, 64, 136, y);
    prefill_chunk(t, s, longer, 192, 1, y);
    drop_world(&w);
    free(y);
    free(other);
    try_free(t);
}

static void time_prefill(struct try *t, const struct shape *s, uint32_t n,
                         uint32_t position, uint32_t warps)
{
    struct row row = {position, n};
    struct world w;
    struct try_launch l;
    make_world(t, &w, s, &row, 1, 1, false);
    give_inputs(t, &w, 0);
    cl_kernel k = prefill_kernel(t, &w, warps, &l);
    if (k) {
        attend_args(k, &w, 0, n);
        double us = try_alone(t, &l);
        double pairs = (double)n * position + (double)n * (n + 1) / 2;
        printf("attention_prefill %-5s %u warps %4u tokens at %5u: %8.1f us "
               "%4.0f TFLOP/s\n",
               s->name, (unsigned)warps, (unsigned)n, (unsigned)position, us,
               pairs * 4 * s->nh * s->hd / us / 1e6);
    }
    drop_world(&w);
    try_free(t);
}

/* Few tokens after a long context: the same bits by either kernel. */
static void time_few(struct try *t, const struct shape *s, uint32_t n,
                     uint32_t position)
{
    struct row row = {position, n};
    struct world w;
    size_t cells = (size_t)n * s->nh * s->hd;
    uint16_t *y[2] = {take(cells, 2), take(cells, 2)};
    double us[2] = {0, 0};
    make_world(t, &w, s, &row, 1, 1, false);
    give_inputs(t, &w, 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct try_launch l;
        run_prefill(t, &w, i == 0 ? 8 : FEW, y[i]);
        prefill_kernel(t, &w, i == 0 ? 8 : FEW, &l);
        if (l.kernel) {
            attend_args(l.kernel, &w, 0, n);
            us[i] = try_alone(t, &l);
        }
    }
    try_same(t, "attention_few after a long context", y[1], y[0], cells * 2);
    printf("attention_few %-5s %4u tokens at %5u: %8.1f us, by 8 warps %8.1f "
           "us\n",
           s->name, (unsigned)n, (unsigned)position, us[1], us[0]);
    drop_world(&w);
    free(y[0]);
    free(y[1]);
    try_free(t);
}

static void few_case(struct try *t)
{
    static const uint32_t tokens[] = {16, 48, 64, 128, 256, 512};
    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        if (t->nvidia >= 80 && !t->quiet && few_depth(t, &shapes[0]) > 0) {
            time_few(t, &shapes[0], tokens[i], 4032);
            time_few(t, &shapes[0], tokens[i], 37952);
        }
    }
}

static void prefill_case(struct try *t)
{
    if (t->nvidia < 80) {
        printf("attention_prefill: not an NVIDIA device, left out\n");
        return;
    }
    for (uint32_t i = t->small ? SMALL_PREFILL : 0; i < N_SHAPES; i++) {
        check_prefill(t, &shapes[i]);
    }
    for (uint32_t i = 0; !t->quiet && i < 4; i++) {
        for (uint32_t warps = 4; warps <= 8; warps *= 2) {
            time_prefill(t, &shapes[i], 4096, 0, warps);
            time_prefill(t, &shapes[i], 512, 3584, warps);
        }
    }
}

const struct try_case try_attention[] = {{"attention_decode", decode_case},
                                         {"attention_prefill", prefill_case},
                                         {"attention_few", few_case},
                                         {0}};
