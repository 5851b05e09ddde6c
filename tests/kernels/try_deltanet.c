/* try_deltanet.c - the Gated DeltaNet mixers; see opencl_try.h.
 *
 * Memory outside a row (other slots, tokens past the end) is NaN.  A page of a
 * world is a slot: state, gap, tail, gap. */
#include "tests/kernels/try_deltanet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX    64
#define META_TOKENS (ROWS_MAX * 8)
#define TOKENS_MAX  4096
#define META_BLOCKS (META_TOKENS + 2 * TOKENS_MAX)
#define SAVES_MAX   4
#define GAP         48 /* floats from a slot's state to its tail, and behind */
#define Y_ALLOWED   2.5e-3 /* the rounding of y to bf16 gives 1.7e-3 */

static const struct delta_shape shapes[] = {{"9b", 16, 32},
                                            {"0.8b", 16, 16},
                                            {"27b", 16, 48},
                                            {"tiny", 2, 4},
                                            {"least", 1, 2}};
#define N_SHAPES (sizeof(shapes) / sizeof(shapes[0]))
#define SMALL    (N_SHAPES - 1)

struct row {
    uint32_t position, n;
    uint32_t saves[SAVES_MAX]; /* tokens before each, then 0 */
};

struct world {
    const struct delta_shape *s;
    const struct row *rows;
    uint32_t n_rows, n_tokens, n_slots, seed;
    uint32_t first[ROWS_MAX], slot[ROWS_MAX];
    uint32_t saved[ROWS_MAX]; /* page of the row's first save */
    cl_mem meta, y, o, tickets, pages, in, conv, a_log, dt_bias, norm;
    float *in_host;    /* [T, in_ld] */
    float *pages_host; /* [n_slots, page_size] */
};

/* The results of a step. */
struct result {
    uint16_t *y;  /* [T, Hv, DELTA_DIM] */
    float *state; /* [rows, Hv, DELTA_DIM, DELTA_DIM] */
    uint16_t *tail;
};

static size_t state_size(const struct delta_shape *s)
{
    return (size_t)s->hv * DELTA_DIM * DELTA_DIM;
}

static size_t tail_size(const struct delta_shape *s)
{
    return (size_t)(DELTA_TAPS - 1) * delta_channels(s);
}

/* Floats of a page. */
static size_t page_size(const struct delta_shape *s)
{
    return state_size(s) + GAP + tail_size(s) / 2 + GAP;
}

static float *state_of(const struct world *w, uint32_t page)
{
    return w->pages_host + page * page_size(w->s);
}

static uint16_t *tail_of(const struct world *w, uint32_t page)
{
    return (uint16_t *)(void *)(state_of(w, page) + state_size(w->s) + GAP);
}

static uint32_t n_saves(const struct row *r)
{
    uint32_t n = 0;
    while (n < SAVES_MAX && r->saves[n] > 0) {
        n++;
    }
    return n;
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

/* ---- checks ---- */

static void check_row(struct try *t, const struct world *w, uint32_t r,
                      const struct result *got, const char *what,
                      double allowed)
{
    const struct delta_shape *s = w->s;
    size_t n_state = state_size(s), width = (size_t)s->hv * DELTA_DIM;
    uint32_t n = w->rows[r].n, p = w->rows[r].position;
    const uint16_t *tail = tail_of(w, w->slot[r]);
    double *state = take(n_state, 8), *y = take(n * width, 8);
    float *y_got = take(n * width, 4);
    char name[128];
    for (size_t i = 0; i < n_state; i++) {
        state[i] = (double)state_of(w, w->slot[r])[i];
    }
    delta_reference(s, w->seed + r, p, n, tail, state, y);
    for (size_t i = 0; i < n * width; i++) {
        y_got[i] = of_half(got->y[w->first[r] * width + i]);
    }
    snprintf(name, sizeof(name), "%s %s row %u (%u tokens from %u)", what,
             s->name, (unsigned)r, (unsigned)n, (unsigned)p);
    try_near(t, name, y_got, y, n * width, Y_ALLOWED);
    strcat(name, " state");
    try_near(t, name, got->state + r * n_state, state, n_state, allowed);
    for (uint32_t j = 0; j < DELTA_TAPS - 1; j++) {
        for (uint32_t ch = 0; ch < delta_channels(s); ch++) {
            uint32_t at = n + j; /* row of the old tail ++ the tokens */
            uint16_t want =
                at < DELTA_TAPS - 1
                    ? tail[at * delta_channels(s) + ch]
                    : half_of(delta_input(w->seed + r, s,
                                          p + at - (DELTA_TAPS - 1), ch));
            if (want !=
                got->tail[r * tail_size(s) + j * delta_channels(s) + ch]) {
                try_same(t, what, &want,
                         got->tail + r * tail_size(s) + j * delta_channels(s) +
                             ch,
                         2);
                ch = delta_channels(s);
            }
        }
    }
    free(state);
    free(y);
    free(y_got);
}

/* ---- the device ---- */

static void make_meta(struct try *t, struct world *w)
{
    size_t words = META_BLOCKS + 2 * SAVES_MAX * (size_t)w->n_rows;
    int32_t *meta = take(words, 4);
    for (uint32_t r = 0; r < w->n_rows; r++) {
        int32_t *m = meta + r * 8;
        m[0] = (int32_t)w->first[r];
        m[1] = (int32_t)w->rows[r].n;
        m[2] = (int32_t)w->rows[r].position;
        m[3] = (int32_t)w->slot[r];
        m[6] = (int32_t)n_saves(&w->rows[r]);
        m[7] = (int32_t)(2 * SAVES_MAX * r);
        for (uint32_t i = 0; i < n_saves(&w->rows[r]); i++) {
            int32_t *save = meta + META_BLOCKS + m[7] + 2 * i;
            save[0] = (int32_t)w->rows[r].saves[i];
            save[1] = (int32_t)(w->saved[r] + i);
        }
        for (uint32_t i = 0; i < w->rows[r].n; i++) {
            int32_t *token = meta + META_TOKENS + 2 * (w->first[r] + i);
            token[0] = (int32_t)r;
            token[1] = (int32_t)(w->rows[r].position + i);
        }
    }
    w->meta = try_data(t, meta, words * 4);
    free(meta);
}

static void make_host(struct try *t, struct world *w)
{
    const struct delta_shape *s = w->s;
    w->in_host = take((size_t)w->n_tokens * delta_in_ld(s), 4);
    w->pages_host = take(w->n_slots * page_size(s), 4);
    memset(w->pages_host, 0xff, w->n_slots * page_size(s) * 4);
    for (uint32_t r = 0; r < w->n_rows; r++) {
        float *state = state_of(w, w->slot[r]);
        uint16_t *tail = tail_of(w, w->slot[r]);
        for (size_t i = 0; i < state_size(s); i++) {
            state[i] = try_value(1000 + w->seed + r, i, 0.5f, TRY_F32);
        }
        for (size_t i = 0; i < tail_size(s); i++) {
            tail[i] = half_of(try_value(2000 + w->seed + r, i, 1.0f, TRY_F32));
        }
        for (uint32_t i = 0; i < w->rows[r].n; i++) {
            for (uint32_t j = 0; j < delta_in_ld(s); j++) {
                w->in_host[(size_t)(w->first[r] + i) * delta_in_ld(s) + j] =
                    delta_input(w->seed + r, s, w->rows[r].position + i, j);
            }
        }
    }
    w->in = try_data(t, w->in_host, (size_t)w->n_tokens * delta_in_ld(s) * 4);
    w->pages = try_data(t, w->pages_host, w->n_slots * page_size(s) * 4);
}

/* Row r is sequence seed + r; slots are in reverse order, saves behind. */
static void make_world(struct try *t, struct world *w,
                       const struct delta_shape *s, const struct row *rows,
                       uint32_t n, uint32_t seed, bool checked)
{
    *w = (struct world){
        .s = s, .rows = rows, .n_rows = n, .n_slots = n + 1, .seed = seed};
    for (uint32_t r = 0; r < n; r++) {
        w->first[r] = w->n_tokens;
        w->n_tokens += rows[r].n;
        w->slot[r] = n - r;
        w->saved[r] = w->n_slots;
        w->n_slots += n_saves(&rows[r]);
    }
    make_meta(t, w);
    if (checked) {
        make_host(t, w);
    } else {
        w->in =
            try_random(t, TRY_F32, (size_t)w->n_tokens * delta_in_ld(s), 50, 1);
        w->pages = try_random(t, TRY_F32, w->n_slots * page_size(s), 51, 0.5f);
    }
    uint32_t *zeros = take((size_t)n * s->hv, 4);
    w->tickets = try_data(t, zeros, (size_t)n * s->hv * 4);
    free(zeros);
    w->y = try_poison(t, (size_t)w->n_tokens * s->hv * DELTA_DIM * 2);
    w->o = try_poison(t, (size_t)w->n_tokens * s->hv * DELTA_DIM * 4);
    w->conv = try_random(t, TRY_F32, delta_channels(s) * DELTA_TAPS, 2, 0.7f);
    w->a_log = try_random(t, TRY_F32, s->hv, 3, 2.0f);
    w->dt_bias = try_random(t, TRY_F32, s->hv, 4, 1.0f);
    w->norm = try_random(t, TRY_F32, DELTA_DIM, 5, 1.0f);
}

static void drop_world(struct world *w)
{
    free(w->in_host);
    free(w->pages_host);
}

static struct result make_result(const struct world *w)
{
    const struct delta_shape *s = w->s;
    return (struct result){take((size_t)w->n_tokens * s->hv * DELTA_DIM, 2),
                           take(w->n_rows * state_size(s), 4),
                           take(w->n_rows * tail_size(s), 2)};
}

static void drop_result(struct result *r)
{
    free(r->y);
    free(r->state);
    free(r->tail);
}

static void read_page(struct try *t, const struct world *w, uint32_t page,
                      float *state, uint16_t *tail)
{
    const struct delta_shape *s = w->s;
    size_t at = page * page_size(s) * 4;
    try_read(t, w->pages, at, state_size(s) * 4, state);
    try_read(t, w->pages, at + (state_size(s) + GAP) * 4, tail_size(s) * 2,
             tail);
}

/* Compares a page with state and tail of the i-th row of other results. */
static void same_page(struct try *t, const struct world *w, uint32_t page,
                      const struct result *want, uint32_t i, const char *what)
{
    const struct delta_shape *s = w->s;
    float *state = take(state_size(s), 4);
    uint16_t *tail = take(tail_size(s), 2);
    read_page(t, w, page, state, tail);
    try_same(t, what, state, want->state + i * state_size(s),
             state_size(s) * 4);
    try_same(t, what, tail, want->tail + i * tail_size(s), tail_size(s) * 2);
    free(state);
    free(tail);
}

static void read_result(struct try *t, const struct world *w, struct result *r)
{
    const struct delta_shape *s = w->s;
    try_read(t, w->y, 0, (size_t)w->n_tokens * s->hv * DELTA_DIM * 2, r->y);
    for (uint32_t i = 0; i < w->n_rows; i++) {
        read_page(t, w, w->slot[i], r->state + i * state_size(s),
                  r->tail + i * tail_size(s));
    }
}

/* option: saves of the decode kernel, few work-groups of the chunks'. */
static cl_kernel delta_kernel(struct try *t, const struct delta_shape *s,
                              const char *file, const char *name, bool option)
{
    const char *const files[] = {"common.cl", "nv.cl", file, NULL};
    return try_kernel(
        t, files, name,
        "-DH=1024 -DHK=%u -DHV=%u -DDK=128 -DDV=128 -DC=%u -DCONV=4 "
        "-DEPS=1e-6f -DKV_DTYPE=1 -DOPERAND_DTYPE=1 -DMETA_ROWS=0 "
        "-DMETA_TOKENS=%d -DMETA_BLOCKS=%d -DNVIDIA=%u -DSAVES=%d "
        "-DAPART=%d -DAHEAD=%d",
        (unsigned)s->hk, (unsigned)s->hv, (unsigned)delta_channels(s),
        META_TOKENS, META_BLOCKS, (unsigned)t->nvidia, option, option,
        option ? 32 : 8);
}

/* Offset of the tails in the pages. */
static uint64_t tail_at(const struct delta_shape *s)
{
    return (state_size(s) + GAP) * 2;
}

/* layer: elements of the layers before. */
static void delta_args(cl_kernel k, const struct world *w, cl_mem o,
                       uint64_t layer, uint32_t first, uint32_t n)
{
    try_args(k, "mUmUmUmUmUumUmUmUmUmUmuu", w->y, (uint64_t)0, o, (uint64_t)0,
             w->tickets, (uint64_t)0, w->pages, layer, w->pages,
             layer * 2 + tail_at(w->s), (uint32_t)page_size(w->s), w->in,
             (uint64_t)0, w->conv, (uint64_t)0, w->a_log, (uint64_t)0,
             w->dt_bias, (uint64_t)0, w->norm, (uint64_t)0, w->meta, first, n);
}

/* ---- decode ---- */

static cl_kernel decode_kernel(struct try *t, const struct world *w,
                               struct try_launch *l)
{
    bool saves = false;
    for (uint32_t r = 0; r < w->n_rows; r++) {
        saves = saves || n_saves(&w->rows[r]) > 0;
    }
    cl_kernel k = delta_kernel(t, w->s, "nv_deltanet_decode.cl",
                               "deltanet_decode", saves);
    *l = (struct try_launch){k, 2, {w->s->hv, w->n_rows}, {256, 1}};
    return k;
}

/* Each save holds what the row leaves that ends there. */
static void decode_saves(struct try *t, const struct world *w, uint32_t r)
{
    for (uint32_t i = 0; i < n_saves(&w->rows[r]); i++) {
        struct row part = {w->rows[r].position, w->rows[r].saves[i], {0}};
        struct try_launch l;
        struct world own;
        struct result got;
        make_world(t, &own, w->s, &part, 1, w->seed + r, true);
        got = make_result(&own);
        cl_kernel k = decode_kernel(t, &own, &l);
        delta_args(k, &own, own.o, 0, 0, 1);
        try_run(t, &l);
        read_result(t, &own, &got);
        same_page(t, w, w->saved[r] + i, &got, 0, "deltanet_decode save");
        drop_world(&own);
        drop_result(&got);
    }
}

static void run_decode(struct try *t, const struct delta_shape *s,
                       const struct row *rows, uint32_t n, uint32_t seed,
                       bool checked, struct result *r)
{
    struct world w;
    struct try_launch l;
    make_world(t, &w, s, rows, n, seed, true);
    *r = make_result(&w);
    cl_kernel k = decode_kernel(t, &w, &l);
    if (k) {
        delta_args(k, &w, w.o, 0, 0, n);
        try_run(t, &l);
        read_result(t, &w, r);
        for (uint32_t i = 0; checked && i < n; i++) {
            check_row(t, &w, i, r, "deltanet_decode", 2e-6);
            decode_saves(t, &w, i);
        }
    }
    drop_world(&w);
    try_free(t);
}

static void check_decode(struct try *t, const struct delta_shape *s)
{
    static const struct row rows[] = {
        {5, 1, {0}}, {62, 2, {2}}, {100, 1, {0}}, {61, 5, {3}}};
    struct result all, other;
    size_t width = (size_t)s->hv * DELTA_DIM;
    run_decode(t, s, rows, 4, 20, true, &all);
    run_decode(t, s, rows + 3, 1, 23, false, &other);
    try_same(t, "deltanet_decode alone", other.y, all.y + 4 * width,
             5 * width * 2);
    drop_result(&other);
    drop_result(&all);
}

/* The launches of a chain use other layers' states in turn. */
struct chain {
    const struct world *w;
    cl_kernel k;
    uint32_t n_layers;
};

static void next_layer(void *arg, uint32_t i)
{
    const struct chain *c = arg;
    uint64_t layer = c->w->n_slots * page_size(c->w->s);
    delta_args(c->k, c->w, c->w->o, layer * (i % c->n_layers), 0, c->w->n_rows);
}

static void time_decode(struct try *t, const struct delta_shape *s,
                        uint32_t batch)
{
    struct row rows[ROWS_MAX] = {{0}};
    struct world w;
    struct try_launch l;
    for (uint32_t r = 0; r < batch; r++) {
        rows[r] = (struct row){100, 1, {0}};
    }
    make_world(t, &w, s, rows, batch, 20, false);
    size_t layer = w.n_slots * page_size(s);
    uint32_t layers = (uint32_t)(((size_t)512 << 20) / (layer * 4) + 1);
    w.pages = try_random(t, TRY_F32, layer * layers, 51, 0.5f);
    cl_kernel k = decode_kernel(t, &w, &l);
    if (k) {
        struct chain chain = {&w, k, layers};
        double us = try_chain(t, &l, next_layer, &chain);
        double bytes = (double)batch * (double)state_size(s) * 8;
        printf("deltanet_decode %-5s batch %2u: %8.1f us %6.0f GB/s "
               "%3.0f %%\n",
               s->name, (unsigned)batch, us, bytes / us / 1e3,
               bytes / us / 10 / t->read_gbs);
    }
    drop_world(&w);
    try_free(t);
}

static void decode_case(struct try *t)
{
    if (t->nvidia < 80) {
        printf("deltanet_decode: not an NVIDIA device, left out\n");
        return;
    }
    for (size_t i = t->small ? SMALL : 0; i < N_SHAPES; i++) {
        check_decode(t, &shapes[i]);
    }
    for (uint32_t i = 0; !t->quiet && i < 2; i++) {
        time_decode(t, &shapes[i], 1);
        time_decode(t, &shapes[i], 8);
        time_decode(t, &shapes[i], 32);
    }
}

/* ---- prefill ---- */

/* The three kernels of a prompt, and the tensors between them. */
struct prefill {
    struct try_launch chunks, scan, norm;
    cl_mem kq, v, tp, gates;
};

static bool make_prefill(struct try *t, const struct world *w,
                         struct prefill *p)
{
    const struct delta_shape *s = w->s;
    size_t tokens = w->n_tokens, most = 0;
    for (uint32_t r = 0; r < w->n_rows; r++) {
        size_t n = (w->rows[r].position % 64 + w->rows[r].n + 63) / 64;
        most = n > most ? n : most;
    }
    const bool few = s->hk * most * w->n_rows <= 64;
    p->kq = try_poison(t, tokens * s->hk * 4 * DELTA_DIM * 2);
    p->v = try_poison(t, tokens * s->hv * DELTA_DIM * 4);
    p->tp = try_poison(t, tokens * s->hv * 4 * 64 * 2);
    p->gates = try_poison(t, tokens * s->hv * 4 * 4);
    p->chunks = (struct try_launch){
        delta_kernel(t, s, "nv_deltanet_chunks.cl", "deltanet_chunks", few),
        3,
        {(few ? 2 : 1) * s->hk, most, w->n_rows},
        {256, 1, 1}};
    p->scan = (struct try_launch){
        delta_kernel(t, s, "nv_deltanet_scan.cl", "deltanet_scan", false),
        2,
        {s->hv * 4, w->n_rows},
        {256, 1}};
    p->norm = (struct try_launch){
        delta_kernel(t, s, "nv_deltanet_norm.cl", "deltanet_norm", false),
        2,
        {(s->hv + 7) / 8, tokens},
        {256, 1}};
    if (!p->chunks.kernel || !p->scan.kernel || !p->norm.kernel) {
        return false;
    }
    const uint64_t o = 0, tail = tail_at(s);
    const uint32_t page = (uint32_t)page_size(s);
    try_args(p->chunks.kernel, "mUmUmUmUmUmUumUmUmUmu", p->kq, o, p->v, o,
             p->tp, o, p->gates, o, w->in, o, w->pages, tail, page, w->conv, o,
             w->a_log, o, w->dt_bias, o, w->meta, 0u);
    try_args(p->scan.kernel, "mUmUmUumUmUmUmUmu", p->v, o, w->pages, o,
             w->pages, tail, page, p->kq, o, p->tp, o, p->gates, o, w->in, o,
             w->meta, 0u);
    try_args(p->norm.kernel, "mUmUmUmUuu", w->y, o, p->v, o, w->in, o, w->norm,
             o, 0u, w->n_tokens);
    return true;
}

static void run_prefill(struct try *t, const struct world *w, struct result *r)
{
    struct prefill p;
    if (make_prefill(t, w, &p)) {
        try_run(t, &p.chunks);
        try_run(t, &p.scan);
        try_run(t, &p.norm);
    }
    read_result(t, w, r);
}

/* Runs the only row again from `at` on, from the state that its beginning
 * left. */
static void prefill_rest(struct try *t, const struct world *all,
                         const struct result *whole, uint32_t at)
{
    const struct delta_shape *s = all->s;
    struct row head = {all->rows[0].position, at, {0}};
    struct row rest = {all->rows[0].position + at, all->rows[0].n - at, {0}};
    size_t width = (size_t)s->hv * DELTA_DIM;
    struct world w;
    struct result a, b;
    make_world(t, &w, s, &head, 1, all->seed, true);
    a = make_result(&w);
    run_prefill(t, &w, &a);
    try_same(t, "deltanet_prefill the first chunk", a.y, whole->y,
             at * width * 2);
    drop_world(&w);
    make_world(t, &w, s, &rest, 1, all->seed, true);
    memcpy(state_of(&w, w.slot[0]), a.state, state_size(s) * 4);
    memcpy(tail_of(&w, w.slot[0]), a.tail, tail_size(s) * 2);
    w.pages = try_data(t, w.pages_host, w.n_slots * page_size(s) * 4);
    b = make_result(&w);
    run_prefill(t, &w, &b);
    try_same(t, "deltanet_prefill the other chunks", b.y, whole->y + at * width,
             rest.n * width * 2);
    try_same(t, "deltanet_prefill their state", b.state, whole->state,
             state_size(s) * 4);
    drop_world(&w);
    for (uint32_t i = 0; i < n_saves(&all->rows[0]); i++) {
        if (all->rows[0].saves[i] == at) {
            same_page(t, all, all->saved[0] + i, &a, 0,
                      "deltanet_prefill save");
        }
    }
    drop_result(&a);
    drop_result(&b);
}

static void check_prefill(struct try *t, const struct delta_shape *s)
{
    static const struct row rows[] = {
        {0, 64, {64}}, {100, 70, {28}}, {63, 2, {1}}, {128, 1, {0}}};
    static const struct row longer[] = {{0, 200, {64, 128, 192}}};
    static const struct row whole[] = {{100, 156, {28, 92, 156}}};
    struct world w;
    struct result r;
    make_world(t, &w, s, rows, 4, 30, true);
    r = make_result(&w);
    run_prefill(t, &w, &r);
    for (uint32_t i = 0; i < w.n_rows; i++) {
        check_row(t, &w, i, &r, "deltanet_prefill", 1e-4);
    }
    same_page(t, &w, w.saved[0], &r, 0, "deltanet_prefill save at the end");
    drop_world(&w);
    drop_result(&r);
    try_free(t);
    make_world(t, &w, s, longer, 1, 40, true);
    r = make_result(&w);
    run_prefill(t, &w, &r);
    check_row(t, &w, 0, &r, "deltanet_prefill", 1e-4);
    prefill_rest(t, &w, &r, 64);
    prefill_rest(t, &w, &r, 128);
    prefill_rest(t, &w, &r, 192);
    drop_world(&w);
    drop_result(&r);
    try_free(t);
    make_world(t, &w, s, whole, 1, 41, true);
    r = make_result(&w);
    run_prefill(t, &w, &r);
    prefill_rest(t, &w, &r, 28);
    prefill_rest(t, &w, &r, 92);
    same_page(t, &w, w.saved[0] + 2, &r, 0, "deltanet_prefill save at the end");
    drop_world(&w);
    drop_result(&r);
    try_free(t);
}

static void time_prefill(struct try *t, const struct delta_shape *s, uint32_t n,
                         uint32_t saves)
{
    struct row row = {0, n, {0}};
    struct world w;
    struct prefill p;
    for (uint32_t i = 0; i < saves; i++) {
        row.saves[i] = n / 2 + 64 * i;
    }
    make_world(t, &w, s, &row, 1, 20, false);
    if (make_prefill(t, &w, &p)) {
        double chunks = try_alone(t, &p.chunks), scan = try_alone(t, &p.scan);
        double norm = try_alone(t, &p.norm);
        printf("deltanet_prefill %-5s %4u tokens, %u saves: chunks %.1f us, "
               "scan %.1f us (%.2f a chunk), norm %.1f us\n",
               s->name, (unsigned)n, (unsigned)saves, chunks, scan,
               scan / (n / 64.0), norm);
    }
    drop_world(&w);
    try_free(t);
}

static void prefill_case(struct try *t)
{
    if (t->nvidia < 80) {
        printf("deltanet_prefill: not an NVIDIA device, left out\n");
        return;
    }
    for (size_t i = t->small ? SMALL : 0; i < N_SHAPES; i++) {
        check_prefill(t, &shapes[i]);
    }
    for (uint32_t i = 0; !t->quiet && i < 2; i++) {
        time_prefill(t, &shapes[i], 512, 0);
        time_prefill(t, &shapes[i], 4096, 0);
        time_prefill(t, &shapes[i], 4096, 1);
        time_prefill(t, &shapes[i], 4096, 4);
    }
}

const struct try_case try_deltanet[] = {
    {"deltanet_decode", decode_case}, {"deltanet_prefill", prefill_case}, {0}};
