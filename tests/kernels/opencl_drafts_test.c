/* Tests the MTP layer of the opencl backend against the slow plain reference,
 * operator by operator: its input from tokens and kept hidden states, its
 * attention, feed-forward and logits, for the first draft and one that follows
 * it.  A prompt row comes before a generated one, which the backend permutes.
 *
 *     opencl_drafts_test [nvidia-drafts]
 *
 * With the argument, the model suits NVIDIA's kernels; skipped elsewhere. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backends/backend.h"
#include "tests/kernels/opencl_shape.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"

#define SEQS   2
#define PROMPT 21 /* tokens of each sequence's prompt */
#define LENGTH 32
#define BLOCKS (LENGTH / OPENCL_SHAPE_BLOCK)
#define WIDEST 512 /* H, V */
#define MTP    2   /* the MTP layer */

static const double allowed = 6e-3; /* 16-bit operands, as in the other tests */

struct rig {
    struct dice d;
    struct random_model model;
    struct kernels *k;
    uint32_t h, v, pages_per_slot;
    uint32_t ids[SEQS][LENGTH + 2];
    uint32_t blocks[SEQS][BLOCKS];
    struct reference ref[SEQS];
    float x[SEQS * LENGTH * WIDEST];
};

static const char *kind;

/* A row of a sequence, from position `at` on. */
struct part {
    uint32_t seq, at, n;
};

static struct random_shape shape(void)
{
    struct random_shape r = opencl_shape();

    if (kind != NULL) {
        r = opencl_tuned_shape(false);
        r.shape.n_layers = MTP;
    }
    r.mtp = true;
    return r;
}

static uint32_t slot_of(const struct rig *g, uint32_t seq)
{
    const uint32_t per = g->pages_per_slot;

    return ((SEQS * BLOCKS + per - 1) / per + seq) * per;
}

static void open_rig(struct rig *g)
{
    const struct random_shape r = shape();
    const struct kernels_options o = {.device = test_device_or("0"),
                                      .kv.dtype = DTYPE_BF16,
                                      .block_tokens = OPENCL_SHAPE_BLOCK,
                                      .max_tokens = SEQS * LENGTH,
                                      .keep_tokens = KERNELS_KEEP_MAX};
    struct kernels_sizes sizes;
    struct error e;

    g->d.state = 41;
    random_model_new(&g->model, &r, &g->d);
    if (backend_new(&g->k, &g->model.w, &o, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    g->h = r.shape.hidden;
    g->v = r.shape.vocab;
    kernels_sizes(g->k, &sizes);
    assert_true(sizes.drafts);
    g->pages_per_slot = sizes.pages_per_slot;
    assert_int_equal(kernels_alloc(g->k, slot_of(g, SEQS), &e), ST_OK);
    kernels_poison_pages(g->k, 0, slot_of(g, SEQS));
    for (uint32_t i = 0; i < SEQS; i++) {
        kernels_zero_slot(g->k, slot_of(g, i));
        for (uint32_t j = 0; j < BLOCKS; j++) {
            g->blocks[i][j] = (i + j * SEQS) * 3 % (SEQS * BLOCKS);
        }
        for (uint32_t j = 0; j < LENGTH + 2; j++) {
            g->ids[i][j] = dice_below(&g->d, g->v);
        }
        reference_new(&g->ref[i], &g->model.w, DTYPE_BF16);
        g->ref[i].operand = DTYPE_BF16;
    }
}

static void close_rig(struct rig *g)
{
    for (uint32_t i = 0; i < SEQS; i++) {
        reference_free(&g->ref[i]);
    }
    kernels_free(&g->k);
    random_model_free(&g->model);
}

static struct kernel_step begin(struct rig *g, const struct part *parts,
                                uint32_t n, struct kernel_row *rows)
{
    struct kernel_step step = {rows, n, 0};

    for (uint32_t i = 0; i < n; i++) {
        rows[i] = (struct kernel_row){.first = step.n_tokens,
                                      .n_tokens = parts[i].n,
                                      .position = parts[i].at,
                                      .blocks = g->blocks[parts[i].seq],
                                      .slot = slot_of(g, parts[i].seq),
                                      .generated = parts[i].at > 0};
        step.n_tokens += parts[i].n;
    }
    kernels_begin(g->k, &step);
    return step;
}

static void end(struct rig *g)
{
    struct error e;

    if (kernels_end(g->k, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
}

/* Runs the model over the parts, keeps their hidden states, and reads h, as the
 * reference has it: [tokens, H]. */
static void run_model(struct rig *g, const struct part *parts, uint32_t n,
                      double *h)
{
    struct kernel_row rows[SEQS];
    uint32_t ids[SEQS * LENGTH], t = 0;

    for (uint32_t i = 0; i < n; i++) {
        memcpy(ids + t, g->ids[parts[i].seq] + parts[i].at,
               parts[i].n * sizeof *ids);
        t += parts[i].n;
    }
    (void)begin(g, parts, n, rows);
    kernels_embed(g->k, ids);
    kernels_mixer(g->k, 0);
    kernels_ffn(g->k, 0);
    kernels_mixer(g->k, 1);
    kernels_ffn(g->k, 1);
    kernels_keep_hidden(g->k);
    kernels_hidden_read(g->k, 0, t, g->x);
    end(g);
    for (uint32_t i = 0; i < t; i++) {
        double x[WIDEST];

        for (uint32_t j = 0; j < g->h; j++) {
            x[j] = (double)g->x[i * g->h + j];
        }
        g->ref[0].drafting = false;
        reference_hidden(&g->ref[0], x, h + (size_t)i * g->h);
    }
}

/* Compares n values with the reference's, and replaces these. */
static void assert_near(const float *got, double *want, uint32_t n,
                        const char *what)
{
    double most = 1.0, error = 0.0;

    for (uint32_t i = 0; i < n; i++) {
        const double off = fabs((double)got[i] - want[i]);

        most = fmax(most, fabs(want[i]));
        error = off <= error ? error : off; /* a NaN stays */
        want[i] = (double)got[i];
    }
    if (!(error / most < allowed)) {
        fail_msg("%s: relative error %g", what, error / most);
    }
}

/* Computes what the reference has for one operator, in x of a token of a
 * sequence. */
typedef void (*expected_fn)(struct reference *r, uint32_t layer, double *x);

static void check(struct rig *g, const struct kernel_step *step,
                  const struct part *parts, expected_fn of, double *x,
                  const char *what)
{
    kernels_hidden_read(g->k, 0, step->n_tokens, g->x);
    for (uint32_t i = 0; i < step->n_rows; i++) {
        const struct kernel_row *row = &step->rows[i];
        struct reference *r = &g->ref[parts[i].seq];

        for (uint32_t j = 0; j < row->n_tokens; j++) {
            const size_t at = (size_t)(row->first + j) * g->h;

            if (of != NULL) {
                r->position = row->position + j;
                of(r, MTP, x + at);
            }
            assert_near(g->x + at, x + at, g->h, what);
        }
    }
}

/* The head of one token has the bits of the head of all; the last layer may
 * have left its operand. */
static void check_alone(struct rig *g, uint32_t token, const float *logits)
{
    static float got[WIDEST];

    kernels_head(g->k, &token, 1);
    kernels_logits_read(g->k, 0, got);
    assert_memory_equal(got, logits, g->v * sizeof *got);
}

static void check_logits(struct rig *g, const struct kernel_step *step,
                         const struct part *parts, const double *x)
{
    static float got[WIDEST], last[WIDEST];
    static double want[WIDEST];
    uint32_t all[SEQS * LENGTH];

    for (uint32_t i = 0; i < step->n_tokens; i++) {
        all[i] = step->n_tokens - 1 - i;
    }
    kernels_head(g->k, all, step->n_tokens);
    kernels_logits_read(g->k, 0, last);
    for (uint32_t i = 0; i < step->n_tokens; i++) {
        const size_t at = (size_t)all[i] * g->h;

        kernels_logits_read(g->k, i, got);
        reference_head(&g->ref[parts[0].seq], x + at, want);
        assert_near(got, want, g->v, "head");
    }
    check_alone(g, step->n_tokens - 1, last);
}

/* Runs the MTP layer over the parts, with tokens shifted by one, from row
 * from[t] of h [.., H].  Replaces h by its own. */
static void run_mtp(struct rig *g, const struct part *parts, uint32_t n,
                    const uint32_t *from, double *h)
{
    static double x[SEQS * LENGTH * WIDEST];
    struct kernel_row rows[SEQS];
    const struct kernel_step step = begin(g, parts, n, rows);
    uint32_t ids[SEQS * LENGTH];

    for (uint32_t i = 0; i < n; i++) {
        g->ref[parts[i].seq].drafting = true;
        for (uint32_t j = 0; j < parts[i].n; j++) {
            const uint32_t t = rows[i].first + j;

            ids[t] = g->ids[parts[i].seq][parts[i].at + j + 1];
            reference_draft_input(&g->ref[parts[i].seq], ids[t],
                                  h + (size_t)from[t] * g->h,
                                  x + (size_t)t * g->h);
        }
    }
    kernels_draft_input(g->k, ids, from);
    check(g, &step, parts, NULL, x, "draft_input");
    kernels_mixer(g->k, MTP);
    check(g, &step, parts, reference_attention, x, "attention");
    kernels_ffn(g->k, MTP);
    check(g, &step, parts, reference_ffn, x, "ffn");
    kernels_keep_hidden(g->k);
    check_logits(g, &step, parts, x);
    end(g);
    for (uint32_t t = 0; t < step.n_tokens; t++) {
        reference_hidden(&g->ref[parts[0].seq], x + (size_t)t * g->h,
                         h + (size_t)t * g->h);
    }
}

static void mtp_layer_equals_the_reference(void **state)
{
    /* The second sequence's prompt is there already. */
    const struct part before[] = {{1, 0, PROMPT}};
    const struct part parts[] = {{0, 0, PROMPT}, {1, PROMPT, 3}};
    const struct part more[] = {{1, PROMPT + 3, 1}, {0, PROMPT, 1}};
    const uint32_t last[] = {PROMPT + 2, PROMPT - 1};
    struct rig *g = calloc(1, sizeof *g);
    double *h = calloc((size_t)SEQS * LENGTH * WIDEST, sizeof *h);
    uint32_t from[SEQS * LENGTH];

    (void)state;
    assert_true(g != NULL && h != NULL);
    open_rig(g);
    for (uint32_t i = 0; i < SEQS * LENGTH; i++) {
        from[i] = i;
    }
    run_model(g, before, 1, h);
    run_mtp(g, before, 1, from, h);
    run_model(g, parts, 2, h);
    run_mtp(g, parts, 2, from, h);
    run_mtp(g, more, 2, last, h);
    close_rig(g);
    free(h);
    free(g);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mtp_layer_equals_the_reference),
    };

    kind = argc > 1 ? argv[1] : NULL;
    test_device_or("0");
    if (kind != NULL && !test_device_is_nvidia()) {
        printf("skipped: not an NVIDIA device\n");
        return TEST_SKIPPED;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
