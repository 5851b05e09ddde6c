/* golden - compares a model's tokens, logits and layers with its reference.
 *
 *     golden [--device NAME] [--portable] [--kv-dtype f32|auto] [--isa NAME]
 *            [--bound X] [--kv FORMAT] [--prompts N] [--steps N] [--layers]
 *            [--widen] [--double] [--drafts K|mixed] [--pool GB]
 *            MODEL_DIR...
 *
 * --isa all runs every instruction set that this machine has, on the cpu.
 * --widen runs a copy of the model whose matrices are float32 (widened.h).
 * --prompts runs only the first N prompts of a model.  --layers also compares
 * every layer of every token, and the logits, with a slow reference that rounds
 * alike (twin.h): within TWIN_BOUND.  --pool makes a pool of at least GB, whose
 * pages are used in random order: addresses beyond 4 GB and beyond the largest
 * allocation that a device states.
 *
 * For each prompt, the prompt runs in one row, then one row a token: greedy,
 * not stopped at end tokens, as far as the reference goes or for N tokens.
 * Each step gets the reference's token, so that one difference does not hide
 * those of later steps.
 *
 *     f32    every token equal, logits within LOGIT_F32 of the reference's, or
 *            within the number after --bound
 *     auto   logits within LOGIT_AUTO; a step whose reference margin is below
 *            NEAR_TIE may choose another token: such steps are printed and
 *            counted as excluded.  All other tokens equal
 *
 * With --double, logits of f32 are compared with a run in double instead, and
 * the bound and the near-ties of each position follow from the distance of the
 * reference from that run (doubled.h).
 *
 * Some devices round the operands of products to the weights' 16 bits.  Such a
 * device is expected to be as far from the reference as the twin alone, which
 * rounds the same values in double.  That distance is TWIN_LOGIT over
 * tiny-hybrid's first 16 prompts and 64 steps of each, as --layers prints it.
 * Sums in another order round other operands differently, so the device is
 * another draw of the same error.  Its logits must be within LOGIT_OPERANDS,
 * half as much again.  It may choose another token where that bound allows:
 * where the margin is below twice the bound.
 *
 * A rounding difference may choose other experts, whose outputs have nothing in
 * common.  On such a device, and with `auto`, a model with experts is judged as
 * with --kv, and the twin takes over choices of near-ties (twin.h).
 *
 * With --kv the cache has this format (kv_names.h).  The reference of a model
 * has no such cache, so only --layers is judged: layers and logits within
 * TWIN_BOUND, and no stored value farther from the twin's than a code.  Other
 * tokens are counted.
 *
 * Where the file has drafts of an MTP layer, the drafts after each of its
 * tokens must be equal too, or nearer to the file's than the margin of a
 * near-tie (drafts.h).  With --drafts only drafts are compared: those of the
 * file, and tokens with K drafts a step, 1 to 8, or with another K for each
 * sequence, against tokens without.
 *
 * Exit code: 0 if all prompts of all models pass, 77 if there is no such
 * device. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/isa/isa.h"
#include "kernels/opencl/host/device.h"
#include "tests/golden/doubled.h"
#include "tests/golden/drafts.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/kv_names.h"
#include "tests/golden/runner.h"
#include "tests/golden/twin.h"
#include "tests/golden/widened.h"
#include "worker/model/shard.h"

#define LOGIT_F32      2e-4
#define LOGIT_AUTO     0.1
#define TWIN_LOGIT     0.106
#define LOGIT_OPERANDS (1.5 * TWIN_LOGIT)
#define NEAR_TIE       0.02
#define BLOCK_TOKENS   32
#define LAYERS_SHOWN   64
#define SKIPPED        77

struct check {
    const struct shard_weights *w;
    struct runner runner;
    double most; /* largest allowed difference of a logit */
    double tie;  /* margins below it are near-ties */
    float *logits;
    float *hidden;     /* [n_layers + 2, H] for the last token of a step */
    struct twin *twin; /* NULL: not requested */
    struct doubled *doubled; /* NULL: not requested */
    double twin_logit;       /* largest difference of the twin alone */
    uint32_t n_failed, n_excluded, n_steps;
    bool drafts; /* the backend computes them */
    double pool_gb;
};

/* The result of one prompt. */
struct outcome {
    uint32_t equal, excluded, wrong;
    double logit, share;         /* largest difference, and of its bound */
    double hidden[LAYERS_SHOWN]; /* largest difference by layer */
    double margin;               /* smallest margin of the reference */
};

static void tap_layer(void *ctx, struct kernels *k, uint32_t done,
                      uint32_t n_tokens)
{
    struct check *c = ctx;
    size_t h = c->w->shape.hidden;

    kernels_hidden_read(k, n_tokens - 1, 1, c->hidden + done * h);
    if (c->twin != NULL) {
        twin_layer(c->twin, k, done, n_tokens);
    }
}

/* Applies the final norm to the last layer's output, as the head does. */
static void final_norm(const struct check *c)
{
    uint32_t h = c->w->shape.hidden, n = c->w->shape.n_layers;
    const float *x = c->hidden + (size_t)n * h;
    float *out = c->hidden + (size_t)(n + 1) * h;
    double sum = 0.0;

    for (uint32_t i = 0; i < h; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    double scale = 1.0 / sqrt(sum / h + (double)c->w->shape.norm_eps);
    for (uint32_t i = 0; i < h; i++) {
        out[i] = (float)(x[i] * scale * (double)c->w->final_norm[i]);
    }
}

static void compare_hidden(const struct check *c, const struct golden_prompt *p,
                           struct outcome *o)
{
    size_t h = c->w->shape.hidden;

    final_norm(c);
    for (uint32_t i = 0; p->hidden && i < p->n_hidden; i++) {
        double d = golden_largest(c->hidden + i * h, p->hidden + i * h, h);

        o->hidden[i < LAYERS_SHOWN ? i : LAYERS_SHOWN - 1] = d;
    }
}

static void note(double *most, double d)
{
    *most = d > *most || d != d ? d : *most;
}

static void judge(struct check *c, const struct golden_prompt *p, uint32_t step,
                  uint32_t token, struct outcome *o)
{
    double margin = c->doubled != NULL ? c->doubled->margin : p->margin[step];

    if (token == p->expect[step]) {
        o->equal++;
    } else if (margin < c->tie) {
        o->excluded++;
        if (isinf(c->tie)) {
            return;
        }
        printf("      %s step %u: %u for %u, margin %.4f: near-tie\n", p->name,
               step, token, p->expect[step], margin);
    } else {
        o->wrong++;
        printf("      %s step %u: %u for %u, margin %.4f: WRONG\n", p->name,
               step, token, p->expect[step], margin);
    }
    o->margin = margin < o->margin ? margin : o->margin;
}

static void start(struct check *c, struct run_seq *s,
                  const struct golden_prompt *p, uint32_t more)
{
    runner_start(&c->runner, s, p->ids, p->n_ids, more);
    if (c->twin != NULL) {
        twin_restart(c->twin, forward_kernels(c->runner.forward), s->blocks,
                     BLOCK_TOKENS);
    }
    if (c->doubled != NULL) {
        doubled_restart(c->doubled, p);
    }
}

/* Compares the logits after n more ids with the file, or with a run in double,
 * which sets the bounds of this position. */
static void judge_logits(struct check *c, const uint32_t *ids, uint32_t n,
                         const struct golden_prompt *p, uint32_t position,
                         struct outcome *o)
{
    double d = golden_distance(p, position, c->logits, c->w->shape.vocab);

    if (c->doubled != NULL) {
        doubled_run(c->doubled, ids, n, p, position);
        d = doubled_distance(c->doubled, c->logits);
        c->most = c->doubled->bound;
        c->tie = 2 * c->doubled->bound;
    }
    note(&o->logit, d);
    note(&o->share, d / c->most);
}

/* Runs the next n tokens in a plan of their own; returns the token chosen after
 * them and compares the logits with the reference file. */
static uint32_t step(struct check *c, struct run_seq *s, uint32_t n,
                     const struct golden_prompt *p, struct outcome *o)
{
    const uint32_t *ids = s->ids + s->n_done;
    uint32_t position = s->n_done + n - 1;
    uint32_t row = runner_add(&c->runner, s, n, true, c->logits);

    runner_step(&c->runner);
    judge_logits(c, ids, n, p, position, o);
    if (c->twin != NULL) {
        twin_head(c->twin, c->logits);
        twin_alone(c->twin, ids, n, c->logits);
        note(&c->twin_logit,
             golden_distance(p, position, c->logits, c->w->shape.vocab));
    }
    return runner_token(&c->runner, row);
}

/* Runs the prompt one token a row, so that every position has logits. */
static void check_positions(struct check *c, const struct golden_prompt *p,
                            struct outcome *o)
{
    struct run_seq s;

    start(c, &s, p, 0);
    for (uint32_t i = 0; i < p->n_ids; i++) {
        (void)step(c, &s, 1, p, o);
    }
    runner_stop(&c->runner, &s);
}

static void check_steps(struct check *c, const struct golden_prompt *p,
                        struct outcome *o)
{
    struct run_seq s;

    start(c, &s, p, p->steps);
    for (uint32_t i = 0; i < p->steps; i++) {
        uint32_t token = step(c, &s, s.n_ids - s.n_done, p, o);

        if (i == 0) {
            compare_hidden(c, p, o);
        }
        judge(c, p, i, token, o);
        run_seq_push(&s, p->expect[i]);
    }
    runner_stop(&c->runner, &s);
}

static void print_outcome(const struct golden_prompt *p,
                          const struct outcome *o, bool failed)
{
    printf("%-10s %6u %4u/%-4u %8u   %.2e  %5.1f %%   %.4f  %s\n", p->name,
           p->n_ids, o->equal, p->steps, o->excluded, o->logit, 100 * o->share,
           o->margin, failed ? "FAILED" : "ok");
    if (p->hidden) {
        printf("      hidden, by layer:");
        for (uint32_t i = 0; i < p->n_hidden && i < LAYERS_SHOWN; i++) {
            printf(" %.1e", o->hidden[i]);
        }
        printf("\n");
    }
}

static void check_prompt(struct check *c, const struct golden_prompt *p)
{
    struct outcome o = {.margin = 1e9};
    bool failed;

    check_steps(c, p, &o);
    if (p->all || p->n_tops > 0) {
        check_positions(c, p, &o);
    }
    failed = o.wrong > 0 || !(o.share <= 1);
    print_outcome(p, &o, failed);
    c->n_failed += failed;
    c->n_excluded += o.excluded;
    c->n_steps += p->steps;
}

/* Makes the pool as large as requested.  The runner draws its pages from all of
 * it. */
static void enlarge(struct check *c, uint32_t n_blocks, uint64_t page_bytes)
{
    uint64_t n = (uint64_t)(c->pool_gb * 1e9) / page_bytes;
    struct error e;

    if (n > n_blocks && !runner_pool(&c->runner, (uint32_t)n, 1, &e)) {
        fprintf(stderr, "golden: a pool of %.1f GB: %s\n", c->pool_gb, e.text);
        exit(1);
    }
}

static void check_all(struct check *c, const struct golden *g,
                      const struct kernels_options *o)
{
    struct forward_tap tap = {.ctx = c, .layer = tap_layer};
    const struct model_shape *s = &c->w->shape;
    uint32_t n_blocks = (s->context + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    struct kernels_sizes sizes;
    char kv[KV_NAME_MAX];

    runner_open(&c->runner, c->w, o, n_blocks, 1, 0);
    forward_sizes(c->runner.forward, &sizes);
    enlarge(c, n_blocks, sizes.page_bytes);
    runner_poison(&c->runner);
    runner_tap(&c->runner, &tap);
    c->drafts = sizes.drafts;
    printf("%s kernels (%s, %u threads), kv %s\n", o->device, sizes.isa,
           sizes.n_threads, kv_format_name(&o->kv, kv));
    printf(
        "prompt     tokens  equal    near-ties  max |dl|  of bound  margin\n");
    for (uint32_t i = 0; i < g->n; i++) {
        check_prompt(c, &g->prompts[i]);
    }
    printf("%u prompts, %u failed; %u steps, %u excluded as near-ties under "
           "%.2g\n",
           g->n, c->n_failed, c->n_steps, c->n_excluded,
           c->doubled != NULL ? 2 * c->doubled->most : c->tie);
    runner_close(&c->runner);
}

/* Checks the twin's differences. */
static void judge_twin(struct check *c)
{
    const struct twin *t = c->twin;
    const double bound =
        c->w->shape.n_experts > 0 ? TWIN_BOUND_EXPERTS : TWIN_BOUND;

    printf("against the twin: layers within %.2e, logits within %.2e of the "
           "largest value; allowed are %.2e and %.2e\n"
           "the twin alone: max |dl| %.2e\n",
           t->layer, t->head, bound, TWIN_BOUND, c->twin_logit);
    if (t->routes.n_routed > 0) {
        printf("%llu choices of experts, %llu with a near-tie, %llu other than "
               "the twin's\n",
               (unsigned long long)t->routes.n_routed,
               (unsigned long long)t->routes.n_near,
               (unsigned long long)t->routes.n_exchanged);
    }
    if (t->codes.n_values > 0) {
        printf("%.3f %% of the quantised values differ, %llu by more than a "
               "code\n",
               100.0 * (double)t->codes.n_differ / (double)t->codes.n_values,
               (unsigned long long)t->codes.n_far);
    }
    c->n_failed +=
        !(t->layer <= bound && t->head <= TWIN_BOUND) || t->codes.n_far > 0;
}

/* Runs check_all() against a run in double. */
static void check_doubled(struct check *c, const struct golden *g,
                          const struct kernels_options *o)
{
    static struct doubled doubled;

    c->doubled = &doubled;
    doubled_open(&doubled, c->w);
    check_all(c, g, o);
    printf("bounds from the run in double: %.2e to %.2e; ties are margins "
           "below twice the bound\n",
           doubled.least, doubled.most);
    if (doubled.n_far > 0) {
        printf("FAILED: at %u positions the file is farther from the run in "
               "double than float32 explains\n",
               doubled.n_far);
    }
    c->n_failed += doubled.n_far > 0;
    doubled_close(&doubled);
    c->doubled = NULL;
    c->tie = 0.0; /* of drafts, which float32 does not move */
}

/* Runs check_all(), with a twin if requested. */
static void check_beside(struct check *c, const struct golden *g,
                         const struct kernels_options *o, bool layers)
{
    static struct twin twin;
    const bool rounds =
        strcmp(o->device, "cpu") != 0 && c->w->shape.dtype == DTYPE_BF16;

    if (!layers) {
        check_all(c, g, o);
        return;
    }
    c->twin = &twin;
    twin_open(&twin, c->w, &o->kv, rounds ? DTYPE_BF16 : DTYPE_F32, false);
    check_all(c, g, o);
    judge_twin(c);
    twin_close(&twin);
}

/* The part of a reference to test, and the bounds. */
struct part {
    uint32_t prompts, steps;
    double bound; /* of logits in float32 */
    bool layers, widen, f32, in_double;
    const char *kv; /* a format, or NULL */
    bool drafts;    /* only these */
    uint32_t k;     /* drafts of a step, or DRAFTS_MIXED */
    double pool_gb; /* of the pool at least */
    struct kernels_options o;
};

static void shorten(struct golden *g, uint32_t max_prompts, uint32_t max_steps)
{
    while (g->n > max_prompts) {
        free(g->prompts[--g->n].ids);
    }
    for (uint32_t i = 0; i < g->n; i++) {
        if (g->prompts[i].steps > max_steps) {
            g->prompts[i].steps = max_steps;
        }
    }
}

static void choose_bounds(struct check *c, const struct part *part)
{
    const bool cpu = strcmp(part->o.device, "cpu") == 0;

    if (c->w->shape.dtype == DTYPE_F32 || (part->f32 && cpu)) {
        c->most = part->bound;
        c->tie = 0.0;
    } else if (cpu) {
        c->most = LOGIT_AUTO;
        c->tie = NEAR_TIE;
    } else {
        c->most = LOGIT_OPERANDS;
        c->tie = 2 * LOGIT_OPERANDS;
    }
}

/* Returns whether only layers can be judged: no reference has the same cache,
 * or routes alike. */
static bool only_layers(const struct check *c, const struct part *part)
{
    return part->kv != NULL || (c->w->shape.n_experts > 0 && c->tie > 0.0);
}

static enum status check_weights(struct check *c, const struct golden *g,
                                 const struct part *part, struct error *e)
{
    const struct model_shape *s = &c->w->shape;

    choose_bounds(c, part);
    if (only_layers(c, part)) {
        c->most = c->tie = INFINITY;
    }
    if (isinf(c->most) && !part->layers) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "without --layers nothing would be judged");
    }
    c->logits = calloc(s->vocab, sizeof *c->logits);
    c->hidden =
        calloc((size_t)s->hidden * (s->n_layers + 2), sizeof *c->hidden);
    if (c->logits && c->hidden && part->in_double) {
        check_doubled(c, g, &part->o);
    } else if (c->logits && c->hidden) {
        check_beside(c, g, &part->o, part->layers);
    }
    if (c->w->mtp != NULL && c->drafts && !part->layers) {
        c->n_failed += drafts_check(g, c->w, &part->o, c->tie) > 0;
    }
    c->n_failed += c->n_steps == 0;
    free(c->hidden);
    free(c->logits);
    return ST_OK;
}

/* Checks with the instruction set of the options, or with each. */
static enum status check_isas(struct check *c, const struct golden *g,
                              struct part *part, struct error *e)
{
    static const char *const names[] = {"generic", "avx2", "avx512"};
    const char *isa = part->o.isa;
    enum status st = ST_OK;

    if (isa == NULL || strcmp(isa, "all") != 0) {
        return check_weights(c, g, part, e);
    }
    for (size_t i = 0; i < 3 && st == ST_OK; i++) {
        if (isa_find(names[i]) != NULL) {
            part->o.isa = names[i];
            c->n_steps = c->n_excluded = 0;
            st = check_weights(c, g, part, e);
        }
    }
    part->o.isa = isa;
    return st;
}

/* Checks the shard, or its float32 copy, and adds to n_failed. */
static enum status check_shard(const struct shard_weights *w,
                               const struct golden *g,
                               const struct model_config *config,
                               struct part *part, uint32_t *n_failed,
                               struct error *e)
{
    static struct widened widened;
    struct check c = {.w = w, .pool_gb = part->pool_gb};
    enum status st;

    if (part->widen) {
        widened_new(&widened, w);
        c.w = &widened.w;
    }
    part->o.kv = kv_format_plain(part->f32 ? DTYPE_F32 : c.w->shape.dtype);
    if (part->kv != NULL) {
        part->o.kv = kv_names_must(part->kv, config);
    }
    st = check_isas(&c, g, part, e);
    if (part->widen) {
        widened_free(&widened);
    }
    *n_failed += c.n_failed;
    return st;
}

/* Compares drafts only. */
static void check_drafts(const struct shard_weights *w, const struct golden *g,
                         const struct model_config *config, const char *dir,
                         struct part *part, uint32_t *n_failed)
{
    struct check c = {.w = w, .pool_gb = part->pool_gb};

    choose_bounds(&c, part);
    part->o.kv = kv_format_plain(part->f32 ? DTYPE_F32 : w->shape.dtype);
    if (part->kv != NULL) {
        part->o.kv = kv_names_must(part->kv, config);
    } else {
        *n_failed += drafts_check(g, w, &part->o, c.tie) > 0;
    }
    *n_failed += drafts_compare(g, config, dir, &part->o, part->k) > 0;
}

static enum status check_model(const char *dir, struct part *part,
                               uint32_t *n_failed, struct error *e)
{
    static struct golden g;
    static struct model_config config;
    struct shard *shard = NULL;
    enum status st = golden_load(&g, dir, e);

    if (st == ST_OK) {
        st = config_load(&config, dir, e);
    }
    if (st == ST_OK) {
        config.drafts = config.n_mtp == 1 && g.prompts[0].n_drafts > 0;
        st =
            shard_load(&shard, &config, dir, 0, config.shape.n_layers, NULL, e);
    }
    if (st == ST_OK) {
        shorten(&g, part->prompts, part->steps);
    }
    if (st == ST_OK && part->drafts && config.drafts) {
        check_drafts(shard_weights(shard), &g, &config, dir, part, n_failed);
    } else if (st == ST_OK && part->drafts) {
        st = error_set(e, ST_INVALID_ARGUMENT, "golden.json has no drafts");
    } else if (st == ST_OK) {
        st = check_shard(shard_weights(shard), &g, &config, part, n_failed, e);
    }
    shard_free(&shard);
    golden_free(&g);
    return st;
}

/* Exits with the code that ctest counts as a skipped test. */
static void skip_without_device(const char *name)
{
    struct opencl_device d;
    struct error e;

    if (strcmp(name, "cpu") != 0 && opencl_device_find(&d, name, &e) != ST_OK) {
        printf("skipped: %s\n", e.text);
        exit(SKIPPED);
    }
}

static int usage(void)
{
    fprintf(stderr, "usage: golden [--device NAME] [--portable] [--kv-dtype "
                    "f32|auto] [--isa NAME]\n"
                    "              [--bound X] [--kv FORMAT] [--prompts N] "
                    "[--steps N] [--layers]\n"
                    "              [--widen] [--double] [--drafts K|mixed] "
                    "[--pool GB] MODEL_DIR...\n");
    return 2;
}

/* Reads the options into part and *kv; returns false for wrong usage. */
static bool parse(int argc, char **argv, struct part *part, const char **kv)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'},
        {"kv-dtype", required_argument, NULL, 'k'},
        {"isa", required_argument, NULL, 'i'},
        {"kv", required_argument, NULL, 'f'},
        {"steps", required_argument, NULL, 's'},
        {"prompts", required_argument, NULL, 'n'},
        {"portable", no_argument, NULL, 'p'},
        {"layers", no_argument, NULL, 'l'},
        {"widen", no_argument, NULL, 'w'},
        {"double", no_argument, NULL, '2'},
        {"bound", required_argument, NULL, 'b'},
        {"drafts", required_argument, NULL, 'D'},
        {"pool", required_argument, NULL, 'P'},
        {NULL, 0, NULL, 0},
    };

    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'd':
            part->o.device = optarg;
            break;
        case 'k':
            *kv = optarg;
            break;
        case 'i':
            part->o.isa = optarg;
            break;
        case 'f':
            part->kv = optarg;
            break;
        case 's':
            part->steps = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'n':
            part->prompts = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'p':
            part->o.portable = true;
            break;
        case 'l':
            part->layers = true;
            break;
        case 'b':
            part->bound = strtod(optarg, NULL);
            break;
        case 'w':
            part->widen = true;
            break;
        case '2':
            part->in_double = true;
            break;
        case 'P':
            part->pool_gb = strtod(optarg, NULL);
            break;
        case 'D':
            part->drafts = true;
            part->k = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        default:
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    struct part part = {.prompts = UINT32_MAX,
                        .steps = UINT32_MAX,
                        .bound = LOGIT_F32,
                        .o = {.device = "cpu", .block_tokens = BLOCK_TOKENS}};
    const char *kv = "f32";
    uint32_t n_failed = 0;
    struct error e;

    if (!parse(argc, argv, &part, &kv)) {
        return usage();
    }
    skip_without_device(part.o.device);
    if (optind == argc || (strcmp(kv, "f32") && strcmp(kv, "auto")) ||
        (part.kv != NULL && !part.layers && !part.drafts) ||
        (part.in_double && (part.layers || strcmp(kv, "f32") != 0)) ||
        part.k > DRAFTS_MAX) {
        return usage();
    }
    part.f32 = strcmp(kv, "f32") == 0;
    for (int i = optind; i < argc; i++) {
        printf("%s: ", argv[i]);
        if (check_model(argv[i], &part, &n_failed, &e) != ST_OK) {
            printf("\n");
            fprintf(stderr, "golden: %s: %s\n", argv[i], e.text);
            return 1;
        }
    }
    return n_failed > 0;
}
