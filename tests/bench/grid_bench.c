/* grid_bench - tokens/s of a model shape on a device, at given points.
 *
 *     grid_bench [--device NAME] [--portable] [--kernel-cache DIR]
 *                [--profile] [--step-tokens N] [--seconds S]
 *                [--kv-bits BITS] [--kv-group N] [--kv-scheme NAME]
 *                [--bits N] CONFIG.json POINT...
 *
 * POINT is decode:CONTEXT:BATCH, steps of one token each for BATCH sequences
 * whose caches already hold CONTEXT tokens, or prefill:TOKENS[:POSITION], a
 * prompt and its first token, --step-tokens (4096) at a time; its first
 * POSITION tokens are reused, TOKENS are left.  draft:CONTEXT:BATCH:K:P decodes
 * with K drafts a step of the MTP layer, each right with probability P, and
 * without (draft_runs.h); K may be `auto`.  swap:CONTEXT:BATCH:PAGES decodes
 * while as many pages of others go to the host tier and come back.  --profile
 * prints the time of each kernel, all points together, and makes each step
 * slower.  --kv-* are those of sluice-worker.  --bits quantises all matrices to
 * N bits in groups of 64.  The model has the shape and formats of CONFIG.json.
 * Weights and caches are random and made on the device (noise.h), so the host
 * need not hold them.
 *
 * A point takes --seconds (0.5) and at least three turns, after a warm-up of
 * half that time.  It prints a line of JSON when it is done:
 *
 *     {"point", "tok_s", "step_s": the median turn's, "turns", "bytes",
 *      "flops": the least that a turn must move and multiply (demand.h),
 *      "weight_bytes", "scratch_bytes"}
 *
 * of drafts {"point", "tok_s", "plain_tok_s", "verify_ratio", "draft_s",
 * "draft_bytes", "accepted" by depth, ..},
 * of swaps {"point", "step_s", "swap_s": each alone, "both_s": of "steps" steps
 * and one swap beside them, "swap_bytes", "hidden": the share of swap_s that
 * both_s is less than the sum of steps and swap},
 * or, if the device lacks the room, {"point", "skipped": "needs X of Y GB"}.
 * Exit code, with a message: 1, a point fails; 2, there is no such device, or
 * wrong usage. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/config.h"
#include "common/model/weight_format.h"
#include "kernels/opencl/host/copies.h"
#include "kernels/opencl/noise.h"
#include "tests/bench/config_shape.h"
#include "tests/bench/demand.h"
#include "tests/bench/draft_runs.h"
#include "tests/bench/machine.h"
#include "tests/golden/runner.h"
#include "tests/kernels/random_model.h"

#define BATCH_MAX    128
#define POINTS_MAX   64
#define TURNS_MAX    256
#define TURNS_LEAST  3
#define ROOM         0.97 /* of a device's memory; the driver uses some */
#define GROUP        64   /* of --bits */
#define DRAFT_TOKENS 192  /* of a sequence in a run with drafts */
#define DRAFT_WARM   64
#define DRAFT_LEARN  3    /* runs of DRAFT_TOKENS before `auto` counts */
#define SWAP_PAGES   4096 /* most pages of a swap */
#define SWAP_STEPS   32   /* most steps beside a swap */
#define GB           1e9

struct point {
    const char *text;
    bool decode;
    uint32_t tokens; /* of each context, or of the prompt */
    uint32_t before; /* tokens of the prompt that are reused */
    uint32_t batch;
    uint32_t k;     /* most drafts of a row; 0: no point of drafts */
    bool automatic; /* fewer where fewer pay */
    double accept;  /* the share of right ones */
    uint32_t pages; /* of a swap; 0: no point of swaps */
};

struct bench {
    struct kernels_options options;
    struct model_config config;
    struct kv_request kv;
    uint32_t bits; /* of all matrices; 0: as the config has it */
    double seconds, room;
    struct random_model model;
    struct demand demand;
    struct runner runner;
    struct kernels_sizes sizes;
    struct point points[POINTS_MAX];
    uint32_t n_points;
};

static void say_why(const char *what, const char *why)
{
    fprintf(stderr, "grid_bench: %s%s%s\n", what, *why ? ": " : "", why);
}

static int refuse(const char *what, const char *why)
{
    say_why(what, why);
    return 2;
}

static uint32_t blocks_of(const struct bench *b, const struct point *p)
{
    uint32_t n = p->before + p->tokens + (p->decode ? TURNS_MAX + 2 : 1);
    uint32_t own = p->batch * ((TURNS_MAX + 2) / b->options.block_tokens + 3);

    return p->batch * (n / b->options.block_tokens + 1) + (p->k > 0 ? own : 0) +
           p->pages;
}

/* Forks of sequences have slots of their own. */
static uint32_t slots_of(const struct point *p)
{
    return p->k > 0 ? 2 * p->batch : p->batch;
}

/* Returns the memory that a point needs.  Free memory is not queried: what
 * others use shows as a failure to allocate. */
static double needs(const struct bench *b, const struct point *p)
{
    return (double)b->sizes.weight_bytes + (double)b->sizes.scratch_bytes +
           ((double)blocks_of(b, p) * (1.0 + b->sizes.window_pages) +
            (slots_of(p) + 1.0) * b->sizes.pages_per_slot) *
               (double)b->sizes.page_bytes;
}

static void say_skipped(const struct bench *b, const struct point *p,
                        double bytes)
{
    printf("{\"point\": \"%s\", \"skipped\": \"needs %.1f of %.1f GB\"}\n",
           p->text, bytes / GB, b->room / GB);
    fflush(stdout);
}

/* Returns the bytes of all weights.  An embedding that is not the head counts,
 * though a step reads hardly any of it. */
static double weight_bytes(const struct bench *b)
{
    return demand_all_bytes(&b->demand) +
           (b->config.tied ? 0.0 : (double)tensor_bytes(&b->model.w.embed));
}

/* ---- a turn ---- */

static void start(struct bench *b, struct run_seq *s, uint32_t n, uint32_t more)
{
    uint32_t *ids = calloc(n, sizeof *ids);

    if (ids == NULL) {
        abort();
    }
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = (i * 2654435761u >> 8) % b->config.shape.vocab;
    }
    runner_start(&b->runner, s, ids, n, more);
    free(ids);
}

static double decode_turn(struct bench *b, struct run_seq *s, uint32_t batch)
{
    double begin = machine_now();

    for (uint32_t i = 0; i < batch; i++) {
        runner_add(&b->runner, &s[i], 1, true, NULL);
    }
    runner_step(&b->runner);
    for (uint32_t i = 0; i < batch; i++) {
        run_seq_push(&s[i], runner_token(&b->runner, i));
    }
    return machine_now() - begin;
}

static double prefill_turn(struct bench *b, const struct point *p)
{
    uint32_t most = b->sizes.max_tokens, n = p->tokens;
    struct run_seq s;
    double begin;

    start(b, &s, p->before + n, 1);
    runner_skip(&s, p->before);
    begin = machine_now();
    for (uint32_t done = 0; done < n; done += most) {
        uint32_t run = n - done < most ? n - done : most;

        runner_add(&b->runner, &s, run, done + run == n, NULL);
        runner_step(&b->runner);
    }
    begin = machine_now() - begin;
    runner_stop(&b->runner, &s);
    return begin;
}

/* ---- a point ---- */

struct times {
    double of[TURNS_MAX], all, wanted; /* seconds; wanted: their least sum */
    uint32_t n, least;
};

static bool more_turns(const struct times *t)
{
    return t->n < t->least || (t->all < t->wanted && t->n < TURNS_MAX);
}

static void add_turn(struct times *t, double took)
{
    t->of[t->n++] = took;
    t->all += took;
}

static void run_decode(struct bench *b, const struct point *p, struct times *t)
{
    static struct run_seq s[BATCH_MAX];

    for (uint32_t i = 0; i < p->batch; i++) {
        start(b, &s[i], p->tokens, TURNS_MAX + 2);
        runner_skip(&s[i], p->tokens);
        run_seq_push(&s[i], i);
    }
    while (more_turns(t)) {
        add_turn(t, decode_turn(b, s, p->batch));
    }
    for (uint32_t i = 0; i < p->batch; i++) {
        runner_stop(&b->runner, &s[i]);
    }
}

static void run_prefill(struct bench *b, const struct point *p, struct times *t)
{
    while (more_turns(t)) {
        add_turn(t, prefill_turn(b, p));
    }
}

static void run_turns(struct bench *b, const struct point *p, struct times *t)
{
    if (p->decode) {
        run_decode(b, p, t);
    } else {
        run_prefill(b, p, t);
    }
}

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Returns the bytes of a sequence's blocks and windows that a step reads. */
static double context_bytes(const struct bench *b, double tokens)
{
    const struct model_shape *s = &b->config.shape;
    double seen = tokens < s->window ? tokens : s->window;
    double token = 2.0 * s->n_kv_heads * s->head_dim *
                   (double)dtype_bytes(b->options.kv.dtype);

    return tokens / b->options.block_tokens * b->sizes.pages_per_block *
               (double)b->sizes.page_bytes +
           seen * token *
               config_count(&b->config, MIXER_IN_WINDOWS, 0, s->n_layers);
}

static void say(const struct bench *b, const struct point *p, struct times *t)
{
    double context = context_bytes(b, p->tokens + 0.5 * t->n);
    double slot = b->sizes.pages_per_slot * (double)b->sizes.page_bytes;
    double bytes =
        p->decode ? demand_decode_bytes(&b->demand, p->batch, context, slot)
                  : demand_weight_bytes(&b->demand, p->tokens);
    double flops = p->decode ? demand_decode_flops(&b->demand, p->batch)
                             : demand_prefill_flops(&b->demand, p->tokens);
    double median;

    qsort(t->of, t->n, sizeof t->of[0], ascending);
    median = t->of[t->n / 2];
    printf("{\"point\": \"%s\", \"tok_s\": %.2f, \"step_s\": %.6g, \"turns\": "
           "%u, \"bytes\": %.0f, \"flops\": %.0f, \"weight_bytes\": %.0f, "
           "\"scratch_bytes\": %zu}\n",
           p->text, (p->decode ? p->batch : p->tokens) / median, median, t->n,
           bytes, flops, weight_bytes(b), b->sizes.scratch_bytes);
    fflush(stdout);
}

/* Returns the bytes of a draft of all sequences: the MTP layer, the head, and
 * the layer's part of the blocks. */
static double draft_bytes(const struct bench *b, const struct point *p)
{
    const struct model_config *c = &b->config;
    double layers = 1 + config_count(c, MIXER_IN_BLOCKS, 0, c->shape.n_layers);
    struct demand demand;

    demand_of_draft(&demand, &b->model.w);
    return demand_decode_bytes(&demand, p->batch,
                               (double)p->tokens / b->options.block_tokens *
                                   (double)b->sizes.page_bytes / layers,
                               0.0);
}

static void run_drafts(struct bench *b, const struct point *p)
{
    static struct run_seq s[BATCH_MAX];
    static struct draft_runs d;
    static struct drafts choice;
    double begin;

    drafts_init(&choice, true);
    d = (struct draft_runs){.choice = p->automatic ? &choice : NULL};
    for (int i = 0; i < DRAFTS_MAX; i++) {
        d.accepts[i] = DRAFTS_ACCEPTS_FIRST;
    }
    for (uint32_t i = 0; i < p->batch; i++) {
        start(b, &s[i], p->tokens, TURNS_MAX);
        runner_skip(&s[i], p->tokens);
        run_seq_push(&s[i], i);
    }
    for (int warm = 1; warm >= 0; warm--) {
        struct draft_runs next = {
            .r = &b->runner, .batch = p->batch, .k = p->k, .dice = {7}};

        next.accept = p->accept;
        next.choice = d.choice;
        memcpy(next.accepts, d.accepts, sizeof next.accepts);
        d = next;
        for (int i = 0; warm && p->automatic && i < DRAFT_LEARN; i++) {
            draft_runs_add(&d, s, DRAFT_TOKENS);
        }
        begin = machine_now();
        do {
            draft_runs_add(&d, s, warm ? DRAFT_WARM : DRAFT_TOKENS);
        } while (!warm && machine_now() - begin < b->seconds);
    }
    for (uint32_t i = 0; i < p->batch; i++) {
        runner_stop(&b->runner, &s[i]);
    }
    printf("{\"point\": \"%s\", ", p->text);
    draft_runs_json(&d, draft_bytes(b, p));
    printf(", \"weight_bytes\": %.0f}\n", weight_bytes(b));
    fflush(stdout);
}

/* ---- swaps ---- */

/* The pages of a swap are the last ones that a sequence would take. */
static uint32_t swap_page(const struct bench *b, uint32_t i)
{
    return b->runner.blocks[i];
}

static double swap_alone(struct bench *b, const struct point *p)
{
    struct kernels *k = forward_kernels(b->runner.forward);
    double begin = machine_now();

    for (uint32_t i = 0; i < p->pages; i++) {
        kernels_page_out(k, swap_page(b, i), i, 1);
    }
    for (uint32_t i = 0; i < p->pages; i++) {
        kernels_page_in(k, i, swap_page(b, i), 1);
    }
    opencl_copies_finish(opencl_of(k));
    return machine_now() - begin;
}

/* Gives the plan being made the copies of a swap. */
static void add_swap(struct bench *b, const struct point *p)
{
    struct plan *plan = &b->runner.plan;

    for (uint32_t i = 0; i < p->pages; i++) {
        plan->before[plan->n_before++] = (struct plan_copy){
            .from = swap_page(b, i), .to = i, .n = 1, .kind = COPY_OUT};
    }
    for (uint32_t i = 0; i < p->pages; i++) {
        plan->before[plan->n_before++] = (struct plan_copy){
            .from = i, .to = swap_page(b, i), .n = 1, .kind = COPY_IN};
    }
}

static double swap_beside(struct bench *b, const struct point *p,
                          struct run_seq *s, uint32_t steps)
{
    double begin = machine_now();

    add_swap(b, p);
    for (uint32_t i = 0; i < steps; i++) {
        decode_turn(b, s, p->batch);
    }
    opencl_copies_finish(opencl_of(forward_kernels(b->runner.forward)));
    return machine_now() - begin;
}

static double median_of(struct times *t)
{
    qsort(t->of, t->n, sizeof t->of[0], ascending);
    return t->of[t->n / 2];
}

/* Steps alone, a swap alone and both take turns, so that other load affects
 * them alike. */
static void time_swaps(struct bench *b, const struct point *p,
                       struct run_seq *s)
{
    static struct times step, swap, both;
    double one, bytes, a, n;
    uint32_t steps, done;

    step = swap = both =
        (struct times){.least = TURNS_LEAST, .wanted = b->seconds / 3};
    decode_turn(b, s, p->batch); /* a warm-up */
    swap_alone(b, p);
    one = decode_turn(b, s, p->batch);
    a = swap_alone(b, p) / one + 1;
    steps = a < SWAP_STEPS ? (uint32_t)a + 1 : SWAP_STEPS;
    for (done = 3; more_turns(&both) && done + steps < TURNS_MAX;
         done += steps + 1) {
        add_turn(&step, decode_turn(b, s, p->batch));
        add_turn(&swap, swap_alone(b, p));
        add_turn(&both, swap_beside(b, p, s, steps));
    }
    a = median_of(&swap);
    one = median_of(&step);
    n = median_of(&both);
    bytes = 2.0 * p->pages * (double)b->sizes.page_bytes;
    printf("{\"point\": \"%s\", \"step_s\": %.6g, \"swap_s\": %.6g, "
           "\"both_s\": %.6g, \"steps\": %u, \"turns\": %u, "
           "\"swap_bytes\": %.0f, \"hidden\": %.3f}\n",
           p->text, one, a, n, steps, both.n, bytes, (steps * one + a - n) / a);
    fflush(stdout);
}

static int run_swaps(struct bench *b, const struct point *p)
{
    static struct run_seq s[BATCH_MAX];
    struct error e;

    if (forward_alloc_host(b->runner.forward, p->pages, &e) != ST_OK) {
        say_why(p->text, e.text);
        return 1;
    }
    for (uint32_t i = 0; i < p->batch; i++) {
        start(b, &s[i], p->tokens, TURNS_MAX + 2);
        runner_skip(&s[i], p->tokens);
        run_seq_push(&s[i], i);
    }
    time_swaps(b, p, s);
    for (uint32_t i = 0; i < p->batch; i++) {
        runner_stop(&b->runner, &s[i]);
    }
    return forward_alloc_host(b->runner.forward, 0, &e) == ST_OK ? 0 : 1;
}

/* ---- points ---- */

static int run_point(struct bench *b, const struct point *p)
{
    struct times warm = {.least = 1, .wanted = b->seconds / 2};
    struct times t = {.least = TURNS_LEAST, .wanted = b->seconds};
    struct error e;

    if (needs(b, p) > b->room) {
        say_skipped(b, p, needs(b, p));
        return 0;
    }
    if (!runner_pool(&b->runner, blocks_of(b, p), slots_of(p), &e) ||
        opencl_noise_pool(forward_kernels(b->runner.forward), 1u << 20, &e) !=
            ST_OK) {
        say_why(p->text, e.text);
        return 1;
    }
    if (p->k > 0) {
        run_drafts(b, p);
        return 0;
    }
    if (p->pages > 0) {
        return run_swaps(b, p);
    }
    run_turns(b, p, &warm); /* an idle device's clocks rise slowly */
    run_turns(b, p, &t);
    say(b, p, &t);
    return 0;
}

/* ---- the bench ---- */

static void make_model(struct bench *b)
{
    static struct random_shape r;
    const struct model_config *c = &b->config;
    struct dice dice = {1};

    config_shape(&r, c, b->bits, GROUP);
    r.hollow = true;
    r.mtp = b->options.keep_tokens > 0;
    random_model_new(&b->model, &r, &dice);
    demand_of(&b->demand, &b->model.w);
}

static void shorten(struct bench *b)
{
    uint32_t longest = 0;

    for (uint32_t i = 0; i < b->n_points; i++) {
        uint32_t n = b->points[i].before + b->points[i].tokens + TURNS_MAX + 3;

        longest = n > longest ? n : longest;
    }
    b->config.shape.context = longest;
}

/* Makes room for the drafts of the largest point. */
static void make_room(struct bench *b)
{
    for (uint32_t i = 0; i < b->n_points; i++) {
        const struct point *p = &b->points[i];
        uint32_t n = p->k > 0 ? p->batch * (p->k + 1) : 0;

        if (n > b->options.keep_tokens) {
            b->options.keep_tokens = n;
        }
    }
    if (b->options.keep_tokens > b->options.max_logits) {
        b->options.max_logits = b->options.keep_tokens;
    }
}

static int run(struct bench *b)
{
    double weights;
    int rc = 0;

    make_room(b);
    shorten(b);
    make_model(b);
    weights = weight_bytes(b);
    for (uint32_t i = 0; weights > b->room && i < b->n_points; i++) {
        say_skipped(b, &b->points[i], weights);
    }
    if (weights > b->room) {
        return 0;
    }
    runner_open(&b->runner, &b->model.w, &b->options, 1, 1, 0);
    forward_sizes(b->runner.forward, &b->sizes);
    for (uint32_t i = 0; rc == 0 && i < b->n_points; i++) {
        rc = run_point(b, &b->points[i]);
    }
    kernels_profile(forward_kernels(b->runner.forward), stdout);
    runner_close(&b->runner);
    random_model_free(&b->model);
    return rc;
}

static bool parse_auto(struct point *p, const char *text)
{
    char rest;

    p->automatic = sscanf(text, "draft:%u:%u:auto:%lf%c", &p->tokens, &p->batch,
                          &p->accept, &rest) == 3;
    p->k = p->automatic ? DRAFTS_MAX : p->k;
    return p->automatic;
}

static bool parse_point(struct bench *b, const char *text)
{
    struct point *p = &b->points[b->n_points];
    char rest;

    if (b->n_points == POINTS_MAX) {
        return false;
    }
    *p = (struct point){.text = text, .batch = 1};
    p->decode =
        sscanf(text, "decode:%u:%u%c", &p->tokens, &p->batch, &rest) == 2 ||
        sscanf(text, "draft:%u:%u:%u:%lf%c", &p->tokens, &p->batch, &p->k,
               &p->accept, &rest) == 4 ||
        parse_auto(p, text) ||
        (sscanf(text, "swap:%u:%u:%u%c", &p->tokens, &p->batch, &p->pages,
                &rest) == 3 &&
         p->pages > 0);
    if (!p->decode && sscanf(text, "prefill:%u%c", &p->tokens, &rest) != 1 &&
        sscanf(text, "prefill:%u:%u%c", &p->tokens, &p->before, &rest) != 2) {
        return false;
    }
    b->n_points++;
    return p->tokens >= 1 && p->tokens <= (1u << 20) &&
           p->before <= (1u << 20) && p->batch >= 1 && p->batch <= BATCH_MAX &&
           p->pages <= SWAP_PAGES && p->k <= DRAFTS_MAX && p->accept >= 0 &&
           p->accept <= 1;
}

static int usage(void)
{
    fputs(
        "usage: grid_bench [--device NAME] [--portable] "
        "[--kernel-cache DIR]\n"
        "                  [--profile] [--step-tokens N] [--seconds S]\n"
        "                  [--kv-bits BITS] [--kv-group N] [--kv-scheme NAME]\n"
        "                  [--bits 4|8] CONFIG.json\n"
        "                  decode:CONTEXT:BATCH | prefill:TOKENS[:POSITION] |\n"
        "                  draft:CONTEXT:BATCH:K:P | swap:CONTEXT:BATCH:PAGES "
        "...\n",
        stderr);
    return 2;
}

static bool parse(struct bench *b, int argc, char **argv)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'},
        {"portable", no_argument, NULL, 'P'},
        {"kernel-cache", required_argument, NULL, 'k'},
        {"profile", no_argument, NULL, 'p'},
        {"step-tokens", required_argument, NULL, 'T'},
        {"seconds", required_argument, NULL, 's'},
        {"kv-bits", required_argument, NULL, 'b'},
        {"kv-group", required_argument, NULL, 'g'},
        {"kv-scheme", required_argument, NULL, 'S'},
        {"bits", required_argument, NULL, 'B'},
        {NULL, 0, NULL, 0},
    };

    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'd':
            b->options.device = optarg;
            break;
        case 'P':
            b->options.portable = true;
            break;
        case 'k':
            b->options.kernel_cache = optarg;
            break;
        case 'p':
            b->options.profile = true;
            break;
        case 'T':
            b->options.max_tokens = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 's':
            b->seconds = strtod(optarg, NULL);
            break;
        case 'b':
            b->kv.bits = strtod(optarg, NULL);
            break;
        case 'g':
            b->kv.group = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'S':
            b->kv.scheme = optarg;
            break;
        case 'B':
            b->bits = (uint32_t)strtoul(optarg, NULL, 10);
            if (b->bits != 4 && b->bits != 8) {
                return false;
            }
            break;
        default:
            return false;
        }
    }
    for (int i = optind + 1; i < argc; i++) {
        if (!parse_point(b, argv[i])) {
            return false;
        }
    }
    return b->n_points > 0;
}

int main(int argc, char **argv)
{
    static struct bench b = {
        .options = {.device = "opencl",
                    .block_tokens = 32,
                    .max_tokens = 4096,
                    .max_rows = BATCH_MAX,
                    .max_logits = BATCH_MAX},
        .seconds = 0.5,
    };
    struct opencl_device device;
    struct error e;

    if (!parse(&b, argc, argv)) {
        return usage();
    }
    if (opencl_device_find(&device, b.options.device, &e) != ST_OK) {
        return refuse(e.text, "");
    }
    if (config_shape_read(&b.config, argv[optind], &e) != ST_OK) {
        return refuse(argv[optind], e.text);
    }
    if (b.config.shape.n_layers > RANDOM_LAYERS_MAX) {
        return refuse(argv[optind], "it has too many layers for this program");
    }
    if (kv_format_choose(&b.options.kv, &b.config, &b.kv, &e) != ST_OK) {
        return refuse(argv[optind], e.text);
    }
    b.room = ROOM * (double)device.memory;
    return run(&b);
}
