/* try_deltanet.c - the Gated DeltaNet mixers; see opencl_try.h. */
#include "tests/kernels/try_deltanet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct delta_shape shapes[] = {{"9b", 16, 32},
                                            {"0.8b", 16, 16},
                                            {"27b", 16, 48},
                                            {"tiny", 2, 4},
                                            {"least", 1, 2}};
#define N_SHAPES     (sizeof(shapes) / sizeof(shapes[0]))
#define SMALL        (N_SHAPES - 1)
#define TIMED_LAYERS 24

/* layer: elements of the layers before. */
static void delta_args(cl_kernel k, const struct delta_world *w, uint64_t layer,
                       uint32_t first, uint32_t n)
{
    /* The inputs are those of the second layer that keeps. */
    try_args(k, "mUmUmUmUmUmUumUmUmUmUmUmuu", w->y, (uint64_t)0, w->kept,
             (uint64_t)(DELTA_KEPT * delta_kept_ld(w->s)), w->kept_q,
             (uint64_t)DELTA_KEPT * w->s->hk * DELTA_DIM, w->tickets,
             (uint64_t)0, w->pages, layer, w->pages,
             layer * 2 + delta_tail_at(w->s), (uint32_t)delta_page_size(w->s),
             w->in, (uint64_t)0, w->conv, (uint64_t)0, w->a_log, (uint64_t)0,
             w->dt_bias, (uint64_t)0, w->norm, (uint64_t)0, w->meta, first, n);
}

/* ---- decode ---- */

static cl_kernel decode_kernel(struct try *t, const struct delta_world *w,
                               bool keeps, struct try_launch *l)
{
    bool saves = false;
    for (uint32_t r = 0; r < w->n_rows; r++) {
        saves = saves || delta_saves(&w->rows[r]) > 0;
    }
    cl_kernel k =
        delta_kernel(t, w->s, "nv_deltanet_decode.cl", "deltanet_decode",
                     keeps   ? 2
                     : saves ? 3
                             : 0);
    *l = (struct try_launch){k, 2, {w->s->hv, w->n_rows}, {256, 1}};
    return k;
}

/* Each save holds what the row leaves that ends there. */
static void decode_saves(struct try *t, const struct delta_world *w, uint32_t r)
{
    for (uint32_t i = 0; i < delta_saves(&w->rows[r]); i++) {
        struct delta_row part = {w->rows[r].position, w->rows[r].saves[i], {0}};
        struct try_launch l;
        struct delta_world own;
        struct delta_result got;
        delta_make_world(t, &own, w->s, &part, 1, w->seed + r, true);
        got = delta_make_result(&own);
        cl_kernel k = decode_kernel(t, &own, false, &l);
        delta_args(k, &own, 0, 0, 1);
        try_run(t, &l);
        delta_read_result(t, &own, &got);
        delta_same_page(t, w, w->saved[r] + i, &got, 0, "deltanet_decode save");
        delta_drop_world(&own);
        delta_drop_result(&got);
    }
}

static void run_decode(struct try *t, const struct delta_shape *s,
                       const struct delta_row *rows, uint32_t n, uint32_t seed,
                       bool checked, struct delta_result *r)
{
    struct delta_world w;
    struct try_launch l;
    delta_make_world(t, &w, s, rows, n, seed, true);
    *r = delta_make_result(&w);
    cl_kernel k = decode_kernel(t, &w, false, &l);
    if (k) {
        delta_args(k, &w, 0, 0, n);
        try_run(t, &l);
        delta_read_result(t, &w, r);
        for (uint32_t i = 0; checked && i < n; i++) {
            delta_check_row(t, &w, i, r, "deltanet_decode", 2e-6);
            decode_saves(t, &w, i);
        }
    }
    delta_drop_world(&w);
    try_free(t);
}

static void check_decode(struct try *t, const struct delta_shape *s)
{
    static const struct delta_row rows[] = {
        {5, 1, {0}}, {62, 2, {2}}, {100, 1, {0}}, {61, 5, {3}}};
    struct delta_result all, other;
    size_t width = (size_t)s->hv * DELTA_DIM;
    run_decode(t, s, rows, 4, 20, true, &all);
    run_decode(t, s, rows + 3, 1, 23, false, &other);
    try_same(t, "deltanet_decode alone", other.y, all.y + 4 * width,
             5 * width * 2);
    delta_drop_result(&other);
    delta_drop_result(&all);
}

/* Lets a row keep its inputs from place 1 on. */
static void set_keep(struct try *t, const struct delta_world *w, size_t row)
{
    const int32_t keep = 1 + 1;
    try_must(clEnqueueWriteBuffer(t->queue, w->meta, CL_TRUE, (row * 8 + 5) * 4,
                                  4, &keep, 0, NULL, NULL),
             "write meta");
}

/* Advances the slot of row `row` by n tokens that it has kept from place 1
 * on. */
static void replay(struct try *t, const struct delta_world *w, uint32_t row,
                   uint32_t n)
{
    const struct delta_shape *s = w->s;
    const uint64_t o = 0;
    const uint64_t places[2][6] = {
        {0}, {0, delta_tail_at(s), 0, 0, 0, delta_page_size(s)}};
    const uint32_t ask[] = {w->slot[row], 1, n};
    cl_mem at = try_data(t, places, sizeof(places));
    cl_mem asks = try_data(t, ask, sizeof(ask));
    cl_kernel k =
        delta_kernel(t, s, "nv_deltanet_replay.cl", "deltanet_replay", 0);
    cl_kernel move = delta_kernel(t, s, "deltanet_tail.cl", "deltanet_tail", 0);
    struct try_launch states = {k, 3, {s->hv, 1, 1}, {256, 1, 1}};
    struct try_launch tails = {
        move, 3, {delta_channels(s) / 64, 1, 1}, {64, 1, 1}};
    if (!k || !move) {
        return;
    }
    try_args(k, "mmmmmmUmUmUuu", w->pages, w->pages, w->conv, w->a_log,
             w->dt_bias, w->kept, o, at, o, asks, o, 1u, (uint32_t)DELTA_KEPT);
    try_args(move, "mmUmUmUmUuu", w->pages, w->kept, o, w->kept_q, o, at, o,
             asks, o, 1u, (uint32_t)DELTA_KEPT);
    try_run(t, &states);
    try_run(t, &tails);
}

/* A row that keeps has the outputs of one that does not, and leaves its slot;
 * a replay of its first n tokens has the bits of a row of n. */
static void check_keep(struct try *t, const struct delta_shape *s, uint32_t n)
{
    static const struct delta_row rows[] = {{5, 1, {0}}, {61, 5, {0}}};
    const struct delta_row part = {61, n, {0}};
    const size_t width = (size_t)s->hv * DELTA_DIM;
    struct delta_result all, got, want;
    struct delta_world w;
    struct try_launch l;
    run_decode(t, s, rows, 2, 20, false, &all);
    run_decode(t, s, &part, 1, 21, false, &want);
    delta_make_world(t, &w, s, rows, 2, 20, true);
    set_keep(t, &w, 1);
    got = delta_make_result(&w);
    cl_kernel k = decode_kernel(t, &w, true, &l);
    if (k) {
        delta_args(k, &w, 0, 0, 2);
        try_run(t, &l);
        delta_read_result(t, &w, &got);
        try_same(t, "deltanet_decode keeps", got.y, all.y, 6 * width * 2);
        delta_same_page(t, &w, w.slot[0], &all, 0, "deltanet_decode beside");
        try_same(t, "deltanet_decode kept state",
                 got.state + delta_state_size(s), delta_state_of(&w, w.slot[1]),
                 delta_state_size(s) * 4);
        try_same(t, "deltanet_decode kept tail", got.tail + delta_tail_size(s),
                 delta_tail_of(&w, w.slot[1]), delta_tail_size(s) * 2);
        replay(t, &w, 1, n);
        delta_same_page(t, &w, w.slot[1], &want, 0, "deltanet_replay");
    }
    delta_drop_world(&w);
    delta_drop_result(&all);
    delta_drop_result(&got);
    delta_drop_result(&want);
    try_free(t);
}

/* The launches of a chain use other layers' states in turn. */
struct chain {
    const struct delta_world *w;
    cl_kernel k;
    uint32_t n_layers;
};

static void next_layer(void *arg, uint32_t i)
{
    const struct chain *c = arg;
    uint64_t layer = c->w->n_slots * delta_page_size(c->w->s);
    delta_args(c->k, c->w, layer * (i % c->n_layers), 0, c->w->n_rows);
}

static void time_decode(struct try *t, const struct delta_shape *s,
                        uint32_t batch)
{
    struct delta_row rows[DELTA_ROWS_MAX] = {{0}};
    struct delta_world w;
    struct try_launch l;
    for (uint32_t r = 0; r < batch; r++) {
        rows[r] = (struct delta_row){100, 1, {0}};
    }
    delta_make_world(t, &w, s, rows, batch, 20, false);
    size_t layer = w.n_slots * delta_page_size(s);
    uint32_t layers = (uint32_t)(((size_t)512 << 20) / (layer * 4) + 1);
    w.pages = try_random(t, TRY_F32, layer * layers, 51, 0.5f);
    cl_kernel k = decode_kernel(t, &w, false, &l);
    if (k) {
        struct chain chain = {&w, k, layers};
        double us = try_chain(t, &l, next_layer, &chain);
        double bytes = (double)batch * (double)delta_state_size(s) * 8;
        printf("deltanet_decode %-5s batch %2u: %8.1f us %6.0f GB/s "
               "%3.0f %%\n",
               s->name, (unsigned)batch, us, bytes / us / 1e3,
               bytes / us / 10 / t->read_gbs);
    }
    delta_drop_world(&w);
    try_free(t);
}

/* Times a row of n tokens that keeps, in turns with other layers' states, and
 * the replay of n tokens in all layers. */
static void time_keep(struct try *t, const struct delta_shape *s, uint32_t n)
{
    const struct delta_row row = {100, n, {0}};
    const uint64_t o = 0;
    uint64_t places[TIMED_LAYERS][6] = {{0}};
    const uint32_t ask[] = {1, 1, n};
    struct delta_world w;
    struct try_launch l;
    delta_make_world(t, &w, s, &row, 1, 20, false);
    size_t layer = w.n_slots * delta_page_size(s);
    for (uint32_t i = 0; i < TIMED_LAYERS; i++) {
        places[i][0] = i * layer;
        places[i][1] = i * layer * 2 + delta_tail_at(s);
        places[i][5] = delta_page_size(s);
    }
    w.pages = try_random(t, TRY_F32, layer * TIMED_LAYERS, 51, 0.5f);
    set_keep(t, &w, 0);
    cl_mem at = try_data(t, places, sizeof(places));
    cl_mem asks = try_data(t, ask, sizeof(ask));
    cl_kernel k = decode_kernel(t, &w, true, &l);
    cl_kernel again =
        delta_kernel(t, s, "nv_deltanet_replay.cl", "deltanet_replay", 0);
    struct try_launch states = {
        again, 3, {s->hv, TIMED_LAYERS, 1}, {256, 1, 1}};
    if (k && again) {
        struct chain chain = {&w, k, TIMED_LAYERS};
        double us = try_chain(t, &l, next_layer, &chain);
        /* All layers replay the same inputs. */
        try_args(again, "mmmmmmUmUmUuu", w.pages, w.pages, w.conv, w.a_log,
                 w.dt_bias, w.kept, o, at, o, asks, o, 0u, 0u);
        printf("deltanet_decode %-5s %u kept tokens: %.1f us; replay, %d "
               "layers: %.1f us\n",
               s->name, (unsigned)n, us, TIMED_LAYERS, try_alone(t, &states));
    }
    delta_drop_world(&w);
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
        for (uint32_t n = 1; n <= 5; n++) {
            check_keep(t, &shapes[i], n);
        }
    }
    for (uint32_t i = 0; !t->quiet && i < 2; i++) {
        time_decode(t, &shapes[i], 1);
        time_decode(t, &shapes[i], 8);
        time_decode(t, &shapes[i], 32);
        time_keep(t, &shapes[i], 1);
        time_keep(t, &shapes[i], 4);
        time_keep(t, &shapes[i], 9);
    }
}

/* ---- prefill ---- */

/* The three kernels of a prompt, and the tensors between them. */
struct prefill {
    struct try_launch chunks, scan, norm;
    cl_mem kq, v, tp, gates;
};

static bool make_prefill(struct try *t, const struct delta_world *w,
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
    const uint64_t o = 0, tail = delta_tail_at(s);
    const uint32_t page = (uint32_t)delta_page_size(s);
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

static void run_prefill(struct try *t, const struct delta_world *w,
                        struct delta_result *r)
{
    struct prefill p;
    if (make_prefill(t, w, &p)) {
        try_run(t, &p.chunks);
        try_run(t, &p.scan);
        try_run(t, &p.norm);
    }
    delta_read_result(t, w, r);
}

/* Runs the only row again from `at` on, from the state that its beginning
 * left. */
static void prefill_rest(struct try *t, const struct delta_world *all,
                         const struct delta_result *whole, uint32_t at)
{
    const struct delta_shape *s = all->s;
    struct delta_row head = {all->rows[0].position, at, {0}};
    struct delta_row rest = {
        all->rows[0].position + at, all->rows[0].n - at, {0}};
    size_t width = (size_t)s->hv * DELTA_DIM;
    struct delta_world w;
    struct delta_result a, b;
    delta_make_world(t, &w, s, &head, 1, all->seed, true);
    a = delta_make_result(&w);
    run_prefill(t, &w, &a);
    try_same(t, "deltanet_prefill the first chunk", a.y, whole->y,
             at * width * 2);
    delta_drop_world(&w);
    delta_make_world(t, &w, s, &rest, 1, all->seed, true);
    memcpy(delta_state_of(&w, w.slot[0]), a.state, delta_state_size(s) * 4);
    memcpy(delta_tail_of(&w, w.slot[0]), a.tail, delta_tail_size(s) * 2);
    w.pages = try_data(t, w.pages_host, w.n_slots * delta_page_size(s) * 4);
    b = delta_make_result(&w);
    run_prefill(t, &w, &b);
    try_same(t, "deltanet_prefill the other chunks", b.y, whole->y + at * width,
             rest.n * width * 2);
    try_same(t, "deltanet_prefill their state", b.state, whole->state,
             delta_state_size(s) * 4);
    delta_drop_world(&w);
    for (uint32_t i = 0; i < delta_saves(&all->rows[0]); i++) {
        if (all->rows[0].saves[i] == at) {
            delta_same_page(t, all, all->saved[0] + i, &a, 0,
                            "deltanet_prefill save");
        }
    }
    delta_drop_result(&a);
    delta_drop_result(&b);
}

static void check_prefill(struct try *t, const struct delta_shape *s)
{
    static const struct delta_row rows[] = {
        {0, 64, {64}}, {100, 70, {28}}, {63, 2, {1}}, {128, 1, {0}}};
    static const struct delta_row longer[] = {{0, 200, {64, 128, 192}}};
    static const struct delta_row whole[] = {{100, 156, {28, 92, 156}}};
    struct delta_world w;
    struct delta_result r;
    delta_make_world(t, &w, s, rows, 4, 30, true);
    r = delta_make_result(&w);
    run_prefill(t, &w, &r);
    for (uint32_t i = 0; i < w.n_rows; i++) {
        delta_check_row(t, &w, i, &r, "deltanet_prefill", 1e-4);
    }
    delta_same_page(t, &w, w.saved[0], &r, 0,
                    "deltanet_prefill save at the end");
    delta_drop_world(&w);
    delta_drop_result(&r);
    try_free(t);
    delta_make_world(t, &w, s, longer, 1, 40, true);
    r = delta_make_result(&w);
    run_prefill(t, &w, &r);
    delta_check_row(t, &w, 0, &r, "deltanet_prefill", 1e-4);
    prefill_rest(t, &w, &r, 64);
    prefill_rest(t, &w, &r, 128);
    prefill_rest(t, &w, &r, 192);
    delta_drop_world(&w);
    delta_drop_result(&r);
    try_free(t);
    delta_make_world(t, &w, s, whole, 1, 41, true);
    r = delta_make_result(&w);
    run_prefill(t, &w, &r);
    prefill_rest(t, &w, &r, 28);
    prefill_rest(t, &w, &r, 92);
    delta_same_page(t, &w, w.saved[0] + 2, &r, 0,
                    "deltanet_prefill save at the end");
    delta_drop_world(&w);
    delta_drop_result(&r);
    try_free(t);
}

static void time_prefill(struct try *t, const struct delta_shape *s, uint32_t n,
                         uint32_t saves)
{
    struct delta_row row = {0, n, {0}};
    struct delta_world w;
    struct prefill p;
    for (uint32_t i = 0; i < saves; i++) {
        row.saves[i] = n / 2 + 64 * i;
    }
    delta_make_world(t, &w, s, &row, 1, 20, false);
    if (make_prefill(t, &w, &p)) {
        double chunks = try_alone(t, &p.chunks), scan = try_alone(t, &p.scan);
        double norm = try_alone(t, &p.norm);
        printf("deltanet_prefill %-5s %4u tokens, %u saves: chunks %.1f us, "
               "scan %.1f us (%.2f a chunk), norm %.1f us\n",
               s->name, (unsigned)n, (unsigned)saves, chunks, scan,
               scan / (n / 64.0), norm);
    }
    delta_drop_world(&w);
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
