#include "tests/kernels/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backends/backend.h"
#include "tests/unit/cmocka.h"

/* Returns how far values of neighbouring codes may be apart: two steps of an
 * affine group, since the scale may change with a code, or the greatest gap of
 * centroids. */
static double code_gap(const struct reference *r, enum kv_half half,
                       const float *x)
{
    uint32_t bits = half == KV_KEYS ? r->kv.k_bits : r->kv.v_bits;
    double most = 0.0, sum = 0.0;

    for (uint32_t i = 0; i < r->w->shape.head_dim; i++) {
        most = fmax(most, fabs((double)x[i]));
        sum += (double)x[i] * (double)x[i];
    }
    return r->kv.scheme == KV_AFFINE
               ? 4.0 * most / ((1u << bits) - 1)
               : sqrt(sum) * 3.0 *
                     (double)r->turbo[half].centroids[1u << bits >> 1];
}

static void take_codes(void *arg, const struct reference *r, uint32_t layer,
                       enum kv_half half, uint32_t head, void *codes,
                       void *params)
{
    static char block[BENCH_BLOCK_BYTES];
    const struct bench_seq *s = arg;
    struct bench *b = s->of;
    const uint32_t hd = b->model.w.shape.head_dim, size = b->o.block_tokens;
    const size_t i = (size_t)head * size + r->position % size;
    struct kv_block at;
    float mine[KERNELS_HEAD_DIM_MAX], other[KERNELS_HEAD_DIM_MAX];

    kv_block_make(&at, &r->kv, b->model.w.shape.n_kv_heads, hd, size);
    assert_true(at.bytes <= sizeof block);
    if (half == KV_KEYS && head == 0) { /* the first of a token */
        kernels_block_copy(b->k, layer, s->blocks[r->position / size], block,
                           false);
    }
    const struct kv_vector *v = half == KV_KEYS ? &at.k : &at.v;
    const char *c =
        block + (half == KV_KEYS ? at.k_codes : at.v_codes) + i * v->code_bytes;
    const char *p = block + (half == KV_KEYS ? at.k_params : at.v_params) +
                    i * v->param_bytes;

    kv_decode(&r->kv, v, &r->turbo[half], codes, params, hd, mine);
    kv_decode(&r->kv, v, &r->turbo[half], c, p, hd, other);
    for (uint32_t d = 0; d < hd; d++) {
        double off = fabs((double)mine[d] - (double)other[d]);

        assert_true(off <= code_gap(r, half, mine));
        b->n_differ += off > 1e-5 * fabs((double)mine[d]) + 1e-5;
    }
    b->n_codes += hd;
    memcpy(codes, c, v->code_bytes);
    memcpy(params, p, v->param_bytes);
}

/* Deals the pages after the slots, in an order that is not that of the
 * positions: blocks, then the pages of window blocks. */
static void deal_pages(struct bench *b, uint32_t i)
{
    uint32_t begin = BENCH_SLOTS * b->pages_per_slot;

    for (uint32_t j = 0; j < BENCH_LENGTH; j++) {
        uint32_t at = (j * BENCH_SEQS + i) * 7 % BENCH_BLOCKS;

        b->seqs[i].blocks[j] = begin + at;
        for (uint32_t table = 0; table < b->window_pages; table++) {
            b->seqs[i].windows[table][j] =
                begin + (table + 1) * BENCH_BLOCKS + at;
        }
    }
}

void bench_restart(struct bench *b)
{
    kernels_poison_pages(b->k, 0, b->n_pages);
    for (uint32_t i = 0; i < BENCH_SEQS; i++) {
        struct bench_seq *s = &b->seqs[i];

        reference_free(&s->ref);
        reference_new(&s->ref, &b->model.w, b->o.kv.dtype);
        reference_format(&s->ref, &b->o.kv);
        s->of = b;
        s->ref.stored = take_codes;
        s->ref.stored_arg = s;
        s->ref.operand = b->operand;
        s->length = 1 + dice_below(&b->dice, BENCH_LENGTH);
        s->slot = i * b->pages_per_slot;
        if (b->pages_per_slot > 0) {
            kernels_zero_slot(b->k, s->slot);
        }
        deal_pages(b, i);
    }
}

void bench_rewind(struct bench *b)
{
    for (uint32_t i = 0; i < BENCH_SEQS; i++) {
        b->seqs[i].ref.position = 0;
    }
}

void bench_open(struct bench *b, const struct random_shape *shape)
{
    struct kernels_sizes sizes;
    struct error e = {0};

    random_model_new(&b->model, shape, &b->dice);
    if (backend_new(&b->k, &b->model.w, &b->o, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    kernels_sizes(b->k, &sizes);
    b->pages_per_slot = sizes.pages_per_slot;
    b->window_pages = sizes.window_pages;
    assert_true(b->window_pages <= BENCH_TABLES);
    b->n_pages = BENCH_SLOTS * sizes.pages_per_slot +
                 (1 + sizes.window_pages) * BENCH_BLOCKS;
    if (kernels_alloc(b->k, b->n_pages, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    bench_restart(b);
}

void bench_close(struct bench *b)
{
    for (uint32_t i = 0; i < BENCH_SEQS; i++) {
        reference_free(&b->seqs[i].ref);
    }
    kernels_free(&b->k);
    random_model_free(&b->model);
}

/* Returns the first block that the token at a position needs in windows. */
static uint32_t first_window(const struct bench *b, uint32_t position)
{
    uint32_t window = b->model.w.shape.window;

    return (position + 1 > window ? position + 1 - window : 0) /
           b->o.block_tokens;
}

/* Fills the window blocks with NaN that the next token does not need. */
static void leave_windows(struct bench *b, const struct bench_seq *s)
{
    for (uint32_t i = 0; i < first_window(b, s->ref.position); i++) {
        for (uint32_t table = 0; table < b->window_pages; table++) {
            kernels_poison_pages(b->k, s->windows[table][i], 1);
        }
    }
}

/* Makes a ragged batch from the next tokens of each sequence that has any
 * left. */
static uint32_t next_rows(struct bench *b, struct kernel_row *rows,
                          uint32_t *seq_of, uint32_t *n_tokens)
{
    static const uint32_t chunks[] = {1, 1, 2, 15, 16, 17, 33, 64};
    uint32_t n = 0;

    *n_tokens = 0;
    for (uint32_t i = 0; i < BENCH_SEQS; i++) {
        struct bench_seq *s = &b->seqs[i];
        uint32_t left = s->length - s->ref.position;
        uint32_t picked = dice_pick(&b->dice, chunks, 8);
        uint32_t chunk = b->chunk > 0 ? b->chunk : picked;

        if (left == 0) {
            continue;
        }
        rows[n] = (struct kernel_row){
            .first = *n_tokens,
            .n_tokens = chunk < left ? chunk : left,
            .position = s->ref.position,
            .blocks = s->blocks,
            .window = s->windows[0] + first_window(b, s->ref.position),
            .window_first = first_window(b, s->ref.position),
            .window_stride = BENCH_LENGTH,
            .slot = s->slot,
            .generated = b->generated && dice_below(&b->dice, 2),
        };
        *n_tokens += rows[n].n_tokens;
        seq_of[n++] = i;
    }
    return n;
}

/* Computes a row's tokens with the reference and compares b->out; returns the
 * largest error. */
static double compare_row(struct bench *b, const struct kernel_row *row,
                          struct bench_seq *s, uint32_t layer,
                          bench_expected_fn expected)
{
    uint32_t h = b->model.w.shape.hidden;
    double most = 0.0;

    for (uint32_t t = 0; t < row->n_tokens; t++) {
        size_t from = (size_t)(row->first + t) * h;
        double x[BENCH_HIDDEN], top = 1.0;

        for (uint32_t i = 0; i < h; i++) {
            x[i] = (double)b->x[from + i];
        }
        expected(&s->ref, layer, x);
        s->ref.position++;
        for (uint32_t i = 0; i < h; i++) {
            top = fabs(x[i]) > top ? fabs(x[i]) : top;
        }
        for (uint32_t i = 0; i < h; i++) {
            double d = fabs((double)b->out[from + i] - x[i]) / top;

            most = d > most || d != d ? d : most;
        }
    }
    return most;
}

double bench_run(struct bench *b, uint32_t layer, bench_operator_fn op,
                 bench_expected_fn expected)
{
    struct kernel_row rows[BENCH_SEQS];
    struct kernel_step step = {.rows = rows};
    uint32_t seq_of[BENCH_SEQS], h = b->model.w.shape.hidden;
    double most = 0.0;

    while ((step.n_rows = next_rows(b, rows, seq_of, &step.n_tokens)) > 0) {
        struct error e = {0};

        for (uint32_t i = 0; i < step.n_tokens * h; i++) {
            b->x[i] = dice_float(&b->dice, -2.0f, 2.0f);
        }
        kernels_begin(b->k, &step);
        kernels_hidden_write(b->k, 0, step.n_tokens, b->x);
        op(b->k, layer);
        kernels_hidden_read(b->k, 0, step.n_tokens, b->out);
        if (kernels_end(b->k, &e) != ST_OK) {
            fail_msg("%s", e.text);
        }
        for (uint32_t i = 0; i < step.n_rows; i++) {
            double d =
                compare_row(b, &rows[i], &b->seqs[seq_of[i]], layer, expected);

            most = d > most || d != d ? d : most;
            leave_windows(b, &b->seqs[seq_of[i]]);
        }
    }
    return most;
}

double bench_head(struct bench *b, const uint32_t *tokens, uint32_t n)
{
    const struct model_shape *s = &b->model.w.shape;
    struct kernel_row row = {.n_tokens = n,
                             .blocks = b->seqs[0].blocks,
                             .window = b->seqs[0].windows[0],
                             .window_stride = BENCH_LENGTH};
    struct kernel_step step = {&row, 1, n};
    uint32_t at[3] = {n - 1, 0, n / 2};
    float x[BENCH_HIDDEN], logits[BENCH_VOCAB];
    double exact[BENCH_HIDDEN], expect[BENCH_VOCAB], most = 0.0;

    kernels_begin(b->k, &step);
    kernels_embed(b->k, tokens);
    kernels_head(b->k, at, 3);
    for (uint32_t i = 0; i < 3; i++) {
        reference_embed(&b->seqs[0].ref, tokens[at[i]], exact);
        kernels_hidden_read(b->k, at[i], 1, x);
        for (uint32_t j = 0; j < s->hidden; j++) {
            assert_true((double)x[j] == exact[j]);
        }
        reference_head(&b->seqs[0].ref, exact, expect);
        kernels_logits_read(b->k, i, logits);
        for (uint32_t j = 0; j < s->vocab; j++) {
            double d = fabs((double)logits[j] - expect[j]);

            most = d > most || d != d ? d : most;
        }
    }
    assert_int_equal(kernels_end(b->k, NULL), ST_OK);
    return most;
}
