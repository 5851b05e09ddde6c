#include "tests/kernels/try_deltanet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define META_TOKENS (DELTA_ROWS_MAX * 8)
#define TOKENS_MAX  4096
#define META_BLOCKS (META_TOKENS + 2 * TOKENS_MAX)
#define GAP         48 /* floats from a slot's state to its tail, and behind */
#define Y_ALLOWED   2.5e-3 /* the rounding of y to bf16 gives 1.7e-3 */

size_t delta_state_size(const struct delta_shape *s)
{
    return (size_t)s->hv * DELTA_DIM * DELTA_DIM;
}

size_t delta_tail_size(const struct delta_shape *s)
{
    return (size_t)(DELTA_TAPS - 1) * delta_channels(s);
}

/* Floats of a kept token. */
size_t delta_kept_ld(const struct delta_shape *s)
{
    return delta_channels(s) - s->hk * DELTA_DIM + 2 * s->hv;
}

/* Floats of a page. */
size_t delta_page_size(const struct delta_shape *s)
{
    return delta_state_size(s) + GAP + delta_tail_size(s) / 2 + GAP;
}

float *delta_state_of(const struct delta_world *w, uint32_t page)
{
    return w->pages_host + page * delta_page_size(w->s);
}

uint16_t *delta_tail_of(const struct delta_world *w, uint32_t page)
{
    return (uint16_t *)(void *)(delta_state_of(w, page) +
                                delta_state_size(w->s) + GAP);
}

uint32_t delta_saves(const struct delta_row *r)
{
    uint32_t n = 0;
    while (n < DELTA_SAVES_MAX && r->saves[n] > 0) {
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

void delta_check_row(struct try *t, const struct delta_world *w, uint32_t r,
                     const struct delta_result *got, const char *what,
                     double allowed)
{
    const struct delta_shape *s = w->s;
    size_t n_state = delta_state_size(s), width = (size_t)s->hv * DELTA_DIM;
    uint32_t n = w->rows[r].n, p = w->rows[r].position;
    const uint16_t *tail = delta_tail_of(w, w->slot[r]);
    double *state = take(n_state, 8), *y = take(n * width, 8);
    float *y_got = take(n * width, 4);
    char name[128];
    for (size_t i = 0; i < n_state; i++) {
        state[i] = (double)delta_state_of(w, w->slot[r])[i];
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
            if (want != got->tail[r * delta_tail_size(s) +
                                  j * delta_channels(s) + ch]) {
                try_same(t, what, &want,
                         got->tail + r * delta_tail_size(s) +
                             j * delta_channels(s) + ch,
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

static void make_meta(struct try *t, struct delta_world *w)
{
    size_t words = META_BLOCKS + 2 * DELTA_SAVES_MAX * (size_t)w->n_rows;
    int32_t *meta = take(words, 4);
    for (uint32_t r = 0; r < w->n_rows; r++) {
        int32_t *m = meta + r * 8;
        m[0] = (int32_t)w->first[r];
        m[1] = (int32_t)w->rows[r].n;
        m[2] = (int32_t)w->rows[r].position;
        m[3] = (int32_t)w->slot[r];
        m[6] = (int32_t)delta_saves(&w->rows[r]);
        m[7] = (int32_t)(2 * DELTA_SAVES_MAX * r);
        for (uint32_t i = 0; i < delta_saves(&w->rows[r]); i++) {
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

static void make_host(struct try *t, struct delta_world *w)
{
    const struct delta_shape *s = w->s;
    w->in_host = take((size_t)w->n_tokens * delta_in_ld(s), 4);
    w->pages_host = take(w->n_slots * delta_page_size(s), 4);
    memset(w->pages_host, 0xff, w->n_slots * delta_page_size(s) * 4);
    for (uint32_t r = 0; r < w->n_rows; r++) {
        float *state = delta_state_of(w, w->slot[r]);
        uint16_t *tail = delta_tail_of(w, w->slot[r]);
        for (size_t i = 0; i < delta_state_size(s); i++) {
            state[i] = try_value(1000 + w->seed + r, i, 0.5f, TRY_F32);
        }
        for (size_t i = 0; i < delta_tail_size(s); i++) {
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
    w->pages = try_data(t, w->pages_host, w->n_slots * delta_page_size(s) * 4);
}

/* Row r is sequence seed + r; slots are in reverse order, saves behind. */
void delta_make_world(struct try *t, struct delta_world *w,
                      const struct delta_shape *s, const struct delta_row *rows,
                      uint32_t n, uint32_t seed, bool checked)
{
    *w = (struct delta_world){
        .s = s, .rows = rows, .n_rows = n, .n_slots = n + 1, .seed = seed};
    for (uint32_t r = 0; r < n; r++) {
        w->first[r] = w->n_tokens;
        w->n_tokens += rows[r].n;
        w->slot[r] = n - r;
        w->saved[r] = w->n_slots;
        w->n_slots += delta_saves(&rows[r]);
    }
    make_meta(t, w);
    if (checked) {
        make_host(t, w);
    } else {
        w->in =
            try_random(t, TRY_F32, (size_t)w->n_tokens * delta_in_ld(s), 50, 1);
        w->pages =
            try_random(t, TRY_F32, w->n_slots * delta_page_size(s), 51, 0.5f);
    }
    uint32_t *zeros = take((size_t)n * s->hv, 4);
    w->tickets = try_data(t, zeros, (size_t)n * s->hv * 4);
    free(zeros);
    w->y = try_poison(t, (size_t)w->n_tokens * s->hv * DELTA_DIM * 2);
    w->kept = try_poison(t, 2 * DELTA_KEPT * delta_kept_ld(s) * 4);
    w->kept_q = try_poison(t, (size_t)2 * DELTA_KEPT * s->hk * DELTA_DIM * 2);
    w->conv = try_random(t, TRY_F32, delta_channels(s) * DELTA_TAPS, 2, 0.7f);
    w->a_log = try_random(t, TRY_F32, s->hv, 3, 2.0f);
    w->dt_bias = try_random(t, TRY_F32, s->hv, 4, 1.0f);
    w->norm = try_random(t, TRY_F32, DELTA_DIM, 5, 1.0f);
}

void delta_drop_world(struct delta_world *w)
{
    free(w->in_host);
    free(w->pages_host);
}

struct delta_result delta_make_result(const struct delta_world *w)
{
    const struct delta_shape *s = w->s;
    return (struct delta_result){
        take((size_t)w->n_tokens * s->hv * DELTA_DIM, 2),
        take(w->n_rows * delta_state_size(s), 4),
        take(w->n_rows * delta_tail_size(s), 2)};
}

void delta_drop_result(struct delta_result *r)
{
    free(r->y);
    free(r->state);
    free(r->tail);
}

void delta_read_page(struct try *t, const struct delta_world *w, uint32_t page,
                     float *state, uint16_t *tail)
{
    const struct delta_shape *s = w->s;
    size_t at = page * delta_page_size(s) * 4;
    try_read(t, w->pages, at, delta_state_size(s) * 4, state);
    try_read(t, w->pages, at + (delta_state_size(s) + GAP) * 4,
             delta_tail_size(s) * 2, tail);
}

/* Compares a page with state and tail of the i-th row of other results. */
void delta_same_page(struct try *t, const struct delta_world *w, uint32_t page,
                     const struct delta_result *want, uint32_t i,
                     const char *what)
{
    const struct delta_shape *s = w->s;
    float *state = take(delta_state_size(s), 4);
    uint16_t *tail = take(delta_tail_size(s), 2);
    delta_read_page(t, w, page, state, tail);
    try_same(t, what, state, want->state + i * delta_state_size(s),
             delta_state_size(s) * 4);
    try_same(t, what, tail, want->tail + i * delta_tail_size(s),
             delta_tail_size(s) * 2);
    free(state);
    free(tail);
}

void delta_read_result(struct try *t, const struct delta_world *w,
                       struct delta_result *r)
{
    const struct delta_shape *s = w->s;
    try_read(t, w->y, 0, (size_t)w->n_tokens * s->hv * DELTA_DIM * 2, r->y);
    for (uint32_t i = 0; i < w->n_rows; i++) {
        delta_read_page(t, w, w->slot[i], r->state + i * delta_state_size(s),
                        r->tail + i * delta_tail_size(s));
    }
}

/* option: the decode kernel's saves, 1, and keeps, 2; few work-groups of the
 * chunks'. */
cl_kernel delta_kernel(struct try *t, const struct delta_shape *s,
                       const char *file, const char *name, int option)
{
    const bool row = strstr(file, "decode") || strstr(file, "replay");
    const char *const files[] = {"common.cl", "nv.cl",
                                 row ? "nv_deltanet_row.cl" : file,
                                 row ? file : NULL, NULL};
    const int ahead = !row ? (option ? 32 : 8)
                      : option == 2 || strstr(file, "replay") ? 4
                                                              : 1;
    return try_kernel(
        t, files, name,
        "-DH=1024 -DHK=%u -DHV=%u -DDK=128 -DDV=128 -DC=%u -DCONV=4 "
        "-DEPS=1e-6f -DKV_DTYPE=1 -DOPERAND_DTYPE=1 -DMETA_ROWS=0 "
        "-DMETA_TOKENS=%d -DMETA_BLOCKS=%d -DNVIDIA=%u -DSAVES=%d "
        "-DKEEPS=%d -DAPART=%d -DAHEAD=%d -DWG=64",
        (unsigned)s->hk, (unsigned)s->hv, (unsigned)delta_channels(s),
        META_TOKENS, META_BLOCKS, (unsigned)t->nvidia, option & 1, option >> 1,
        option, ahead);
}

/* Offset of the tails in the pages. */
uint64_t delta_tail_at(const struct delta_shape *s)
{
    return (delta_state_size(s) + GAP) * 2;
}
