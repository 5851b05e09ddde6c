/* try_quantised.c - attention over quantised keys and values, of generated and
 * of prompt tokens; see opencl_try.h.
 *
 * Codes, scales, biases and norms are random.  The reference decodes them in
 * double, from the values that the kernels are specified to use: the query
 * rounded to bf16, and for generated tokens the centroids, for prompt tokens
 * keys and values.  Allowed difference: the rounding of weights and of the
 * output to bf16, 2^-9 each.  Every byte that a row must not read is
 * 0xff: NaN in scales, biases and norms. */
#include "tests/kernels/opencl_try.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPLIT       128 /* as in nv_attention_split.cl */
#define SPLITS      16
#define ROWS_MAX    128
#define PARTS       3 /* layers in a page of a checked step; ours is the 2nd */
#define META_TOKENS (ROWS_MAX * 8)
#define TOKENS_MAX  1024
#define META_BLOCKS (META_TOKENS + 2 * TOKENS_MAX)
#define ALLOWED     4e-3
#define QUERIES     77 /* seeds */
#define INPUTS      78
#define PREFILL_WG  256

enum scheme { AFFINE = 1, TURBO };

struct shape {
    const char *name;
    enum scheme scheme;
    uint32_t k_bits, v_bits, group;
    uint32_t nh, nkv, hd, block_tokens;
    bool gated;
};

static const struct shape shapes[] = {
    {"affine8 9b", AFFINE, 8, 8, 64, 16, 4, 256, 32, true},
    {"affine4 9b", AFFINE, 4, 4, 64, 16, 4, 256, 32, true},
    {"turbo3.5 9b", TURBO, 3, 4, 0, 16, 4, 256, 32, true},
    {"affine8/64", AFFINE, 8, 8, 64, 7, 1, 64, 16, true},
    {"affine4/64", AFFINE, 4, 4, 64, 2, 1, 256, 16, true},
    {"affine8/128", AFFINE, 8, 8, 128, 4, 2, 128, 32, false},
    {"affine4/128", AFFINE, 4, 4, 128, 2, 2, 256, 16, true},
    {"affine8/wide", AFFINE, 8, 8, 64, 10, 1, 256, 16, false},
    {"turbo3.5", TURBO, 3, 4, 0, 2, 1, 256, 16, true},
    {"turbo2.5", TURBO, 2, 3, 0, 4, 2, 256, 64, false},
    {"turbo4", TURBO, 4, 4, 0, 2, 1, 256, 16, true},
};
#define SMALL    3 /* index of the first small shape */
#define N_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

/* A row of a step: tokens at positions [position, position + n). */
struct row {
    uint32_t position, n;
};

/* Bytes of a block: codes of keys, of values, then the parameters. */
struct layout {
    uint32_t k_bytes, v_bytes, param_bytes;
    uint32_t v_codes, k_params, v_params, bytes;
};

/* Codebooks and signs, any that are ascending. */
struct turbo {
    float k[16], v[16];
    uint32_t signs[8];
};

struct world {
    const struct shape *s;
    struct layout l;
    struct turbo turbo;
    const struct row *rows;
    bool prompt;
    uint32_t first[ROWS_MAX]; /* token of a row */
    uint32_t n, n_tokens, longest, table_ld;
    uint32_t *blocks; /* of row r, from r * table_ld */
    size_t page, at;  /* bytes of a page, and the layer's begin in it */
    uint8_t *kv;
    cl_mem meta, device_kv, y, part, tickets, query, in;
};

static void *take(size_t n, size_t item)
{
    void *p = calloc(n ? n : 1, item);
    try_must(p ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "calloc");
    return p;
}

static uint32_t bits_of(float f)
{
    uint32_t b;
    memcpy(&b, &f, 4);
    return b;
}

static float float_of(uint32_t b)
{
    float f;
    memcpy(&f, &b, 4);
    return f;
}

static struct layout layout_of(const struct shape *s)
{
    uint32_t vectors = s->nkv * s->block_tokens;
    struct layout l = {.k_bytes = s->hd * s->k_bits / 8,
                       .v_bytes = s->hd * s->v_bits / 8,
                       .param_bytes =
                           s->scheme == AFFINE ? s->hd / s->group * 4 : 2};
    l.v_codes = vectors * l.k_bytes;
    l.k_params = l.v_codes + vectors * l.v_bytes;
    l.v_params = l.k_params + vectors * l.param_bytes;
    l.bytes = (l.v_params + vectors * l.param_bytes + 63) / 64 * 64;
    return l;
}

static void fill_turbo(struct turbo *t)
{
    for (uint32_t i = 0; i < 16; i++) {
        float wobble = try_value(3, i, 0.008f, TRY_F32);
        t->v[i] = ((float)i - 7.5f) * 0.022f + wobble;
        t->k[i] = ((float)i - 3.5f) * 0.05f - wobble;
    }
    for (uint32_t i = 0; i < 8; i++) {
        t->signs[i] = bits_of(try_value(4, i, 1.0f, TRY_F32)) * 2654435761u;
    }
}

/* ---- the cache ---- */

/* Returns the codes of a key or value, and its parameters in *params. */
static uint8_t *vector_of(const struct world *w, uint32_t row, uint32_t p,
                          uint32_t kv_head, bool value, uint8_t **params)
{
    const struct shape *s = w->s;
    const struct layout *l = &w->l;
    uint32_t block = w->blocks[row * w->table_ld + p / s->block_tokens];
    uint32_t i = kv_head * s->block_tokens + p % s->block_tokens;
    uint8_t *at = w->kv + block * w->page + w->at;
    *params = at + (value ? l->v_params : l->k_params) + i * l->param_bytes;
    return at + (value ? l->v_codes + i * l->v_bytes : i * l->k_bytes);
}

static uint16_t bf16_bits(float f)
{
    return (uint16_t)(bits_of(try_bf16(f)) >> 16);
}

/* Scales and biases of values around -1 .. 1, or norms of 8 to 32. */
static void fill_params(const struct shape *s, uint8_t *to, uint32_t seed,
                        uint64_t i, uint32_t bits)
{
    uint16_t pair[2];
    if (s->scheme == TURBO) {
        pair[0] = (uint16_t)(0x5000 + (int)try_value(seed, i, 2047, TRY_F32));
        memcpy(to, pair, 2);
        return;
    }
    for (uint32_t g = 0; g < s->hd / s->group; g++) {
        float middle = (float)(1u << (bits - 1));
        float scale = try_bf16(try_value(seed, i + 2 * g, 1 / middle, TRY_F32));
        float bias = try_value(seed, i + 2 * g + 1, 0.3f, TRY_F32);
        pair[0] = bf16_bits(scale);
        pair[1] = bf16_bits(bias - scale * middle);
        memcpy(to + g * 4, pair, 4);
    }
}

/* Fills keys and values of positions up to the row's; the same for a seed in
 * whichever blocks. */
static void fill_cache(struct world *w, uint32_t row, uint32_t seed)
{
    const struct shape *s = w->s;
    uint32_t end = w->rows[row].position + w->rows[row].n;
    for (uint32_t i = 0; i < end * s->nkv * 2; i++) {
        bool value = i % 2;
        uint32_t n = value ? w->l.v_bytes : w->l.k_bytes;
        uint8_t *params;
        uint8_t *codes =
            vector_of(w, row, i / 2 / s->nkv, i / 2 % s->nkv, value, &params);
        for (uint32_t j = 0; j < n; j++) {
            float v = try_value(seed, (uint64_t)i * 512 + j, 127.9f, TRY_F32);
            codes[j] = (uint8_t)(int)(v + 128.0f);
        }
        fill_params(s, params, seed + 1000, (uint64_t)i * 16,
                    value ? s->v_bits : s->k_bits);
    }
}

static double norm_of(const uint8_t *params)
{
    uint16_t h;
    memcpy(&h, params, 2);
    return ldexp(1.0 + (h & 1023) / 1024.0, (h >> 10) - 15);
}

/* Decodes a key or value as the kernel uses it; of TurboQuant in its rotated
 * basis. */
static void decode(const struct world *w, uint32_t row, uint32_t p,
                   uint32_t kv_head, bool value, double *out)
{
    const struct shape *s = w->s;
    uint32_t bits = value ? s->v_bits : s->k_bits;
    uint8_t *params, *codes = vector_of(w, row, p, kv_head, value, &params);
    for (uint32_t d = 0; d < s->hd; d++) {
        uint32_t code = 0;
        for (uint32_t b = 0; b < bits; b++) {
            uint32_t at = d * bits + b;
            code |= (uint32_t)(codes[at / 8] >> at % 8 & 1) << b;
        }
        if (s->scheme == TURBO) {
            float c = (value ? w->turbo.v : w->turbo.k)[code];
            out[d] = norm_of(params) * (double)(w->prompt ? c : try_bf16(c));
        } else {
            uint16_t pair[2];
            memcpy(pair, params + d / s->group * 4, 4);
            out[d] = (double)float_of((uint32_t)pair[0] << 16) * code +
                     (double)float_of((uint32_t)pair[1] << 16);
        }
        if (w->prompt) {
            out[d] = (double)try_bf16((float)out[d]);
        }
    }
}

/* ---- a step ---- */

static void make_meta(struct try *t, struct world *w, uint32_t shuffle)
{
    uint32_t n_blocks = w->n * w->table_ld;
    int32_t *meta = take(META_BLOCKS + n_blocks, 4);
    w->blocks = take(n_blocks, 4);
    for (uint32_t i = 0; i < n_blocks; i++) {
        w->blocks[i] = (i + shuffle) % n_blocks;
        meta[META_BLOCKS + i] = (int32_t)w->blocks[i];
    }
    for (uint32_t r = 0; r < w->n; r++) {
        int32_t *row = meta + r * 8;
        row[0] = (int32_t)w->first[r];
        row[1] = (int32_t)w->rows[r].n;
        row[2] = (int32_t)w->rows[r].position;
        row[4] = (int32_t)(r * w->table_ld);
        for (uint32_t i = 0; i < w->rows[r].n; i++) {
            int32_t *token = meta + META_TOKENS + 2 * (w->first[r] + i);
            token[0] = (int32_t)r;
            token[1] = (int32_t)(w->rows[r].position + i);
        }
    }
    w->meta = try_data(t, meta, (META_BLOCKS + n_blocks) * sizeof(int32_t));
    free(meta);
}

static uint32_t in_ld(const struct shape *s)
{
    return (s->gated ? 2 : 1) * s->nh * s->hd + 2 * s->nkv * s->hd;
}

static uint32_t chunks_of(const struct shape *s)
{
    return (s->nh / s->nkv + 7) / 8;
}

static uint32_t n_splits(const struct world *w)
{
    uint32_t n = (w->longest + SPLIT - 1) / SPLIT;
    return n < SPLITS ? n : SPLITS;
}

/* Copies n floats of random inputs from element `from`. */
static cl_mem give(struct try *t, uint32_t seed, size_t from, size_t n,
                   float scale)
{
    float *v = take(n, 4);
    for (size_t i = 0; i < n; i++) {
        v[i] = try_value(seed, from + i, scale, TRY_F32);
    }
    cl_mem m = try_data(t, v, n * 4);
    free(v);
    return m;
}

/* A step cut out of a longer one: inputs from token `first` on, and the
 * sequences from `seed` on, in other blocks. */
struct cut {
    uint32_t first, seed;
    bool prompt;
};

static void count_tokens(struct world *w)
{
    for (uint32_t r = 0; r < w->n; r++) {
        uint32_t end = w->rows[r].position + w->rows[r].n;
        w->first[r] = w->n_tokens;
        w->n_tokens += w->rows[r].n;
        w->longest = end > w->longest ? end : w->longest;
    }
    w->table_ld = (w->longest + w->s->block_tokens - 1) / w->s->block_tokens;
}

/* Makes a step of n rows.  Without a check the cache is random everywhere, and
 * a page has one layer. */
static void make_world(struct try *t, struct world *w, const struct shape *s,
                       const struct row *rows, uint32_t n,
                       const struct cut *cut, bool checked)
{
    *w = (struct world){
        .s = s, .l = layout_of(s), .rows = rows, .prompt = cut->prompt, .n = n};
    fill_turbo(&w->turbo);
    count_tokens(w);
    make_meta(t, w, cut->seed * 2 + 1);
    w->page = (size_t)w->l.bytes * (checked ? PARTS : 1);
    w->at = checked ? w->l.bytes : 0;
    size_t bytes = (size_t)n * w->table_ld * w->page;
    if (checked) {
        w->kv = take(bytes, 1);
        memset(w->kv, 0xff, bytes);
        for (uint32_t r = 0; r < n; r++) {
            fill_cache(w, r, cut->seed + r + 1);
        }
        w->device_kv = try_data(t, w->kv, bytes);
    } else {
        w->device_kv = try_random(t, TRY_BF16, bytes / 2, 5, 0.1f);
    }
    size_t heads = (size_t)w->n_tokens * s->nh;
    size_t tickets = w->n_tokens * s->nkv * chunks_of(s);
    uint32_t *zeros = take(tickets, 4);
    w->y = try_poison(t, heads * s->hd * 2);
    w->part = try_poison(t, (size_t)n * s->nh * n_splits(w) * (s->hd + 2) * 4);
    w->tickets = try_data(t, zeros, tickets * 4);
    free(zeros);
    w->query = give(t, QUERIES, cut->first * (size_t)s->nh * s->hd,
                    heads * s->hd, 1.0f);
    w->in = give(t, INPUTS, cut->first * (size_t)in_ld(s),
                 w->n_tokens * (size_t)in_ld(s), 2.0f);
}

static void drop_world(struct world *w)
{
    free(w->blocks);
    free(w->kv);
}

static size_t write_words(char *to, size_t room, const char *name,
                          const uint32_t *words, uint32_t n)
{
    int used = snprintf(to, room, " -D%s=", name);
    for (uint32_t i = 0; i < n; i++) {
        used += snprintf(to + used, room - (size_t)used, "%s0x%xu",
                         i ? "," : "", (unsigned)words[i]);
    }
    return (size_t)used;
}

static void turbo_defines(const struct world *w, char *to, size_t room)
{
    const struct shape *s = w->s;
    uint32_t unit = bits_of(1.0f / sqrtf((float)s->hd)), words[16];
    size_t n = write_words(to, room, "UNIT", &unit, 1);
    n += write_words(to + n, room - n, "V_SIGNS", w->turbo.signs, s->hd / 32);
    memcpy(words, w->turbo.k, sizeof(words));
    n += write_words(to + n, room - n, "K_BOOK", words, 1u << s->k_bits);
    memcpy(words, w->turbo.v, sizeof(words));
    write_words(to + n, room - n, "V_BOOK", words, 1u << s->v_bits);
}

static cl_kernel build(struct try *t, const struct world *w)
{
    const char *const files[] = {
        "common.cl", "nv.cl",
        w->prompt ? "nv_attention_widen.cl" : "nv_attention_split.cl",
        w->prompt ? "nv_attention_prefill.cl" : "nv_attention_quantised.cl",
        NULL};
    const struct shape *s = w->s;
    const struct layout *l = &w->l;
    char more[1024] = "";
    if (s->scheme == TURBO) {
        turbo_defines(w, more, sizeof(more));
    } else {
        snprintf(more, sizeof(more), "-DKV_GROUP=%u", (unsigned)s->group);
    }
    return try_kernel(
        t, files, w->prompt ? "attention_prefill" : "attention_quantised",
        "-DWG=%d -DH=1024 -DNH=%u -DNKV=%u -DHD=%u -DR=64 -DGATED=%d "
        "-DEPS=1e-6f "
        "-DBLOCK_TOKENS=%u -DKV_DTYPE=1 -DOPERAND_DTYPE=1 -DMETA_ROWS=0 "
        "-DMETA_TOKENS=%d -DMETA_BLOCKS=%d -DNVIDIA=%u -DKV_SCHEME=%d "
        "-DK_BITS=%u -DV_BITS=%u -DK_BYTES=%u -DV_BYTES=%u -DK_PARAM=%u "
        "-DV_PARAM=%u -DV_CODES=%u -DK_PARAMS=%u -DV_PARAMS=%u %s",
        PREFILL_WG, (unsigned)s->nh, (unsigned)s->nkv, (unsigned)s->hd,
        s->gated, (unsigned)s->block_tokens, META_TOKENS, META_BLOCKS,
        (unsigned)t->nvidia, (int)s->scheme, (unsigned)s->k_bits,
        (unsigned)s->v_bits, (unsigned)l->k_bytes, (unsigned)l->v_bytes,
        (unsigned)l->param_bytes, (unsigned)l->param_bytes,
        (unsigned)l->v_codes, (unsigned)l->k_params, (unsigned)l->v_params,
        more);
}

static void set_args(cl_kernel k, const struct world *w)
{
    try_args(k, "mUmUmUmUmUmUumuuumUu", w->y, (uint64_t)0, w->part, (uint64_t)0,
             w->tickets, (uint64_t)0, w->query, (uint64_t)0, w->in, (uint64_t)0,
             w->device_kv, (uint64_t)w->at, (uint32_t)w->page, w->meta,
             (uint32_t)0, w->n_tokens, n_splits(w), w->meta, UINT64_MAX, 0u);
}

static struct try_launch launch_of(cl_kernel k, const struct world *w)
{
    const struct shape *s = w->s;
    uint32_t tile = PREFILL_WG / 2 / (s->nh / s->nkv);
    if (w->prompt) {
        return (struct try_launch){
            k, 2, {(w->n_tokens + tile - 1) / tile, s->nkv}, {PREFILL_WG, 1}};
    }
    return (struct try_launch){
        k, 3, {n_splits(w), s->nkv * chunks_of(s), w->n}, {128, 1, 1}};
}

/* Runs the step twice, as tickets must be left at 0. */
static void run(struct try *t, struct world *w, uint16_t *y)
{
    size_t bytes = (size_t)w->n_tokens * w->s->nh * w->s->hd * 2;
    cl_kernel k = build(t, w);
    for (uint32_t twice = 0; k && twice < 2; twice++) {
        struct try_launch l = launch_of(k, w);
        try_repoison(t, w->y, bytes);
        set_args(k, w);
        try_run(t, &l);
    }
    try_read(t, w->y, 0, bytes, y);
}

/* ---- the reference ---- */

/* x := D H x / sqrt(hd) */
static void rotate_back(const struct world *w, double *x)
{
    uint32_t hd = w->s->hd;
    for (uint32_t stride = 1; stride < hd; stride *= 2) {
        for (uint32_t i = 0; i < hd; i++) {
            if (!(i & stride)) {
                double a = x[i], b = x[i + stride];
                x[i] = a + b;
                x[i + stride] = a - b;
            }
        }
    }
    for (uint32_t d = 0; d < hd; d++) {
        x[d] *= w->turbo.signs[d / 32] >> d % 32 & 1 ? -1.0 : 1.0;
        x[d] /= sqrt(hd);
    }
}

/* y [hd] of a head of token i of a row. */
static void attend_plainly(const struct world *w, uint32_t r, uint32_t i,
                           uint32_t h, double *y)
{
    const struct shape *s = w->s;
    uint32_t p = w->rows[r].position + i, kv_head = h / (s->nh / s->nkv);
    size_t token = w->first[r] + i;
    double top = -INFINITY, sum = 0, *weight = take(p + 1, sizeof(double));
    double *x = take(s->hd, sizeof(double));
    for (uint32_t j = 0; j <= p; j++) {
        decode(w, r, j, kv_head, false, x);
        for (uint32_t d = 0; d < s->hd; d++) {
            size_t at = (token * s->nh + h) * s->hd + d;
            weight[j] += (double)try_value(QUERIES, at, 1.0f, TRY_BF16) * x[d];
        }
        weight[j] /= sqrt((double)s->hd);
        top = fmax(top, weight[j]);
    }
    memset(y, 0, s->hd * sizeof(*y));
    for (uint32_t j = 0; j <= p; j++) {
        decode(w, r, j, kv_head, true, x);
        weight[j] = exp(weight[j] - top);
        sum += weight[j];
        for (uint32_t d = 0; d < s->hd; d++) {
            y[d] += weight[j] * x[d];
        }
    }
    if (s->scheme == TURBO) {
        rotate_back(w, y);
    }
    for (uint32_t d = 0; d < s->hd; d++) {
        size_t at = token * in_ld(s) + (size_t)h * 2 * s->hd + s->hd + d;
        double gate = (double)try_value(INPUTS, at, 2.0f, TRY_F32);
        y[d] /= s->gated ? sum * (1 + exp(-gate)) : sum;
    }
    free(weight);
    free(x);
}

static void check_token(struct try *t, const struct world *w, uint32_t r,
                        uint32_t i, const uint16_t *got)
{
    const struct shape *s = w->s;
    size_t width = (size_t)s->nh * s->hd;
    double *want = take(width, sizeof(double));
    float *as_float = take(width, sizeof(float));
    char name[96];
    for (uint32_t h = 0; h < s->nh; h++) {
        attend_plainly(w, r, i, h, want + (size_t)h * s->hd);
    }
    for (size_t j = 0; j < width; j++) {
        as_float[j] = float_of((uint32_t)got[j] << 16);
    }
    snprintf(name, sizeof(name), "attention_quantised %s %s position %u",
             s->name, w->prompt ? "prompt" : "generated",
             (unsigned)(w->rows[r].position + i));
    try_near(t, name, as_float, want, width, ALLOWED);
    free(want);
    free(as_float);
}

/* Checks every 9th token of a row, and the last. */
static void check_y(struct try *t, const struct world *w, const uint16_t *got)
{
    size_t width = (size_t)w->s->nh * w->s->hd;
    for (uint32_t r = 0; r < w->n; r++) {
        for (uint32_t i = 0; i < w->rows[r].n; i++) {
            if (i % 9 == 0 || i + 1 == w->rows[r].n) {
                check_token(t, w, r, i, got + (w->first[r] + i) * width);
            }
        }
    }
}

/* The end of a row alone, from token `from` on, in other blocks, gives the same
 * bits. */
static void check_alone(struct try *t, const struct world *all, uint32_t r,
                        uint32_t from, const uint16_t *y)
{
    const struct shape *s = all->s;
    size_t width = (size_t)s->nh * s->hd;
    struct row row = {all->rows[r].position + from, all->rows[r].n - from};
    struct cut cut = {all->first[r] + from, r, all->prompt};
    uint16_t *one = take(row.n * width, 2);
    struct world w;
    char name[96];
    make_world(t, &w, s, &row, 1, &cut, true);
    run(t, &w, one);
    snprintf(name, sizeof(name), "attention_quantised %s %s row %u alone",
             s->name, w.prompt ? "prompt" : "generated", (unsigned)r);
    try_same(t, name, one, y + (all->first[r] + from) * width,
             row.n * width * 2);
    drop_world(&w);
    free(one);
}

static void check(struct try *t, const struct shape *s, const struct row *rows,
                  uint32_t n, bool prompt)
{
    struct cut whole = {.prompt = prompt};
    struct world w;
    make_world(t, &w, s, rows, n, &whole, true);
    uint16_t *y = take((size_t)w.n_tokens * s->nh * s->hd, 2);
    run(t, &w, y);
    check_y(t, &w, y);
    for (uint32_t r = 0; r < n; r += 3) {
        check_alone(t, &w, r, rows[r].n / 2, y);
    }
    drop_world(&w);
    free(y);
    try_free(t);
}

/* The rate is that of the bytes of codes and parameters. */
static void time_one(struct try *t, const struct shape *s, uint32_t batch,
                     uint32_t context)
{
    struct row rows[ROWS_MAX];
    struct cut whole = {0};
    struct world w;
    for (uint32_t r = 0; r < batch; r++) {
        rows[r] = (struct row){context - 1, 1};
    }
    make_world(t, &w, s, rows, batch, &whole, false);
    cl_kernel k = build(t, &w);
    if (k) {
        struct try_launch l = launch_of(k, &w);
        set_args(k, &w);
        double us = try_alone(t, &l);
        double bytes = (double)batch * context * w.l.bytes / s->block_tokens;
        printf("attention_quantised %-11s batch %3u context %5u: %8.1f us "
               "%6.0f GB/s %3.0f %%\n",
               s->name, (unsigned)batch, (unsigned)context, us,
               bytes / us / 1e3, bytes / us / 10 / t->read_gbs);
    }
    drop_world(&w);
    try_free(t);
}

static void time_prompt(struct try *t, const struct shape *s, uint32_t n,
                        uint32_t position)
{
    struct row row = {position, n};
    struct cut whole = {.prompt = true};
    struct world w;
    make_world(t, &w, s, &row, 1, &whole, false);
    cl_kernel k = build(t, &w);
    if (k) {
        struct try_launch l = launch_of(k, &w);
        set_args(k, &w);
        double us = try_alone(t, &l);
        double pairs = (double)n * position + (double)n * (n + 1) / 2;
        printf("attention_prefill %-11s %4u tokens at %5u: %8.1f us "
               "%4.0f TFLOP/s\n",
               s->name, (unsigned)n, (unsigned)position, us,
               pairs * 4 * s->nh * s->hd / us / 1e6);
    }
    drop_world(&w);
    try_free(t);
}

static void quantised_case(struct try *t)
{
    static const struct row generated[] = {{0, 1},   {15, 1},  {16, 1},
                                           {63, 1},  {64, 1},  {127, 1},
                                           {128, 1}, {300, 1}, {600, 1}};
    static const struct row prompts[] = {{0, 1}, {0, 65}, {131, 3}, {130, 40}};
    if (t->nvidia < 80) {
        printf("attention_quantised: not an NVIDIA device, left out\n");
        return;
    }
    for (uint32_t i = t->small ? SMALL : 0; i < N_SHAPES; i++) {
        check(t, &shapes[i], generated, 9, false);
        check(t, &shapes[i], prompts, 4, true);
    }
    for (uint32_t i = 0; !t->quiet && i < SMALL; i++) {
        time_one(t, &shapes[i], 1, 4096);
        time_one(t, &shapes[i], 32, 4096);
        time_one(t, &shapes[i], 32, 16384);
        time_prompt(t, &shapes[i], 512, 3584);
        time_prompt(t, &shapes[i], 512, 15872);
    }
}

const struct try_case try_quantised[] = {
    {"attention_quantised", quantised_case}, {0}};
