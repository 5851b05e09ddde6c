/* kernels_bench - tokens/s of the forward pass.
 *
 *     kernels_bench [--threads N] [--isa NAME] [--prompt N] [--steps N]
 *                   [--device NAME] [--portable] [--profile]
 *                   [--step-tokens N] [--batch N] [--kv FORMAT] [--json]
 *                   [--drafts K] [--accept P|own]
 *                   MODEL_DIR | [--bits 4|8] [--layers N] CONFIG.json
 *
 * CONFIG.json stands for random weights in that model's exact shape; --layers
 * cuts it to fewer layers and as much of the vocabulary.  With experts, the
 * bytes of a batch are those of as many experts as tokens choose that like all
 * equally.  --kv names the format of the KV cache as tests/golden/kv_names.h
 * does (default: the model's dtype).
 *
 * - Decode: at batch 1 to 32 after a prompt of N tokens each, N steps a round.
 * - Prefill: one prompt of N tokens, of 512, and of --step-tokens.
 * - Choice of a token: timed alone, one row on one thread.
 * - 20 logprobs: timed alone, and as the processor time of decode steps at
 *   batch 1 over that of steps between them.
 *
 * A decode step must read the weights once and each sequence's cache; a prompt
 * token must pass every weight.  Each point is measured in rounds.  The
 * processors' read bandwidth and float32 rate are measured before each round,
 * since other load on the machine changes within seconds.  Every figure is the
 * median of the rounds; a share is the median of each round's own share.  For
 * an OpenCL device these limits are not measured and shares are 0;
 * tests/bench/run --grid measures them.
 *
 * With --drafts only decoding with and without K drafts of the MTP layer is
 * compared, at --batch (1): the drafts are right with probability P, or are the
 * layer's own (default), after the prompts of MODEL_DIR's golden.json if it has
 * one (draft_runs.h).
 *
 * --json prints one object instead, for tests/bench/run: rates in bytes,
 * operations and tokens per second.  `share` is of the read bandwidth (decode)
 * or of the float32 rate (prefill); for a choice, seconds per row. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/backends/backend.h"
#include "tests/bench/config_shape.h"
#include "tests/bench/demand.h"
#include "tests/bench/kernels_bench_drafts.h"
#include "tests/bench/kernels_bench_weights.h"
#include "tests/bench/machine.h"
#include "tests/golden/kv_names.h"
#include "tests/golden/runner.h"
#include "worker/model/shard.h"

#define BATCH_MAX 32
#define BATCHES   5
#define SEQUENCES 61   /* sequences of all batches together */
#define STEPS_MAX 1024 /* most steps per round */
#define ROUNDS    5    /* rounds per point */
#define CHOICES   50   /* choices of a row alone */
#define IDS       4096 /* ids under penalties of a row alone */
#define GROUP     64   /* codes that share a scale with --bits */

struct bench {
    const struct shard_weights *w;
    struct runner runner;
    uint32_t prompt, steps;
    uint32_t long_prompt; /* of --step-tokens; 0: not measured */
    uint32_t batch;       /* the only batch size; 0: all sizes */
    bool json;
    const char *kv; /* format of the cache; NULL: the model's dtype */
    struct bench_drafts drafts;
    struct demand demand;
    struct kernels_sizes sizes;
};

static const uint32_t batches[BATCHES] = {1, 4, 8, 16, BATCH_MAX};

static const struct sampling greedy = {.top_p = 1.0f,
                                       .repetition_penalty = 1.0f};

static void start(struct bench *b, struct run_seq *s, uint32_t n, uint32_t more)
{
    uint32_t *ids = calloc(n, sizeof *ids);

    if (ids == NULL) {
        abort();
    }
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = (i * 2654435761u >> 8) % b->w->shape.vocab;
    }
    runner_start(&b->runner, s, ids, n, more);
    free(ids);
}

/* Runs the prompt alone; unless NULL, logits gets those of its first token. */
static void prompt_once(struct bench *b, float *logits)
{
    struct run_seq s;

    start(b, &s, b->prompt, 1);
    runner_add(&b->runner, &s, b->prompt, true, logits);
    runner_step(&b->runner);
    runner_stop(&b->runner, &s);
}

static void print_json(const struct bench *b, const char *text)
{
    if (b->json) {
        fputs(text, stdout);
    }
}

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static double median(double *of, uint32_t n)
{
    qsort(of, n, sizeof *of, ascending);
    return of[n / 2];
}

/* A point's figures of each round, then their medians in the first. */
struct point {
    double seconds[ROUNDS];
    double bandwidth[ROUNDS], peak[ROUNDS]; /* of the threads; 0: none */
    double bytes_share[ROUNDS], flops_share[ROUNDS];
};

static void round_begin(const struct bench *b, struct point *p, uint32_t i)
{
    p->bandwidth[i] = machine_read_bandwidth(b->sizes.n_threads);
    p->peak[i] = machine_f32_peak(b->sizes.n_threads);
    p->seconds[i] = machine_now();
}

static double share(double rate, double limit)
{
    return limit > 0.0 ? rate / limit : 0.0;
}

/* Ends a round of n turns, each of this many bytes and operations. */
static void round_end(struct point *p, uint32_t i, uint32_t n, double bytes,
                      double flops)
{
    double took = (machine_now() - p->seconds[i]) / n;

    p->seconds[i] = took;
    p->bytes_share[i] = share(bytes / took, p->bandwidth[i]);
    p->flops_share[i] = share(flops / took, p->peak[i]);
}

static void point_end(struct point *p)
{
    double *const of[] = {p->seconds, p->bandwidth, p->peak, p->bytes_share,
                          p->flops_share};

    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        *of[i] = median(of[i], ROUNDS);
    }
}

/* Measures a prompt of n tokens. */
static void bench_prefill(struct bench *b, uint32_t n)
{
    double flops = demand_prefill_flops(&b->demand, n);
    struct point p;
    struct run_seq s;

    for (uint32_t i = 0; i < ROUNDS; i++) {
        start(b, &s, n, 1);
        round_begin(b, &p, i);
        runner_add(&b->runner, &s, n, true, NULL);
        runner_step(&b->runner);
        round_end(&p, i, 1, 0.0, flops);
        runner_stop(&b->runner, &s);
    }
    point_end(&p);
    printf(b->json
               ? "{\"tokens\": %u, \"tok_s\": %.2f, \"flops\": %.4g, "
                 "\"share\": %.4f, \"f32\": %.4g}"
               : "prefill %5u tokens  %9.1f tok/s  %.3g FLOP/s, %.2f of the "
                 "f32 rate, %.3g\n",
           n, n / *p.seconds, flops / *p.seconds, *p.flops_share, *p.peak);
}

static void decode_once(struct bench *b, struct run_seq *s, uint32_t batch)
{
    uint32_t rows[BATCH_MAX];

    for (uint32_t i = 0; i < batch; i++) {
        rows[i] =
            runner_add(&b->runner, &s[i], s[i].n_ids - s[i].n_done, true, NULL);
    }
    runner_step(&b->runner);
    for (uint32_t i = 0; i < batch; i++) {
        run_seq_push(&s[i], runner_token(&b->runner, rows[i]));
    }
}

static uint64_t block_bytes(const struct kernels_sizes *z)
{
    return z->pages_per_block * z->page_bytes;
}

static uint64_t slot_bytes(const struct kernels_sizes *z)
{
    return z->pages_per_slot * z->page_bytes;
}

/* Returns the bytes of a step of this many sequences, half way through all
 * steps. */
static double decode_bytes(const struct bench *b, uint32_t batch)
{
    double blocks =
        (double)(b->prompt + ROUNDS * b->steps / 2) / b->runner.block_tokens;

    return demand_decode_bytes(&b->demand, batch,
                               blocks * (double)block_bytes(&b->sizes),
                               (double)slot_bytes(&b->sizes));
}

/* A batch in decode. */
struct decode {
    uint32_t batch;
    double bytes, flops; /* of one step */
    struct run_seq s[BATCH_MAX];
    struct point p;
};

static void decode_start(struct bench *b, struct decode *d, uint32_t batch)
{
    d->batch = batch;
    d->bytes = decode_bytes(b, batch);
    d->flops = demand_decode_flops(&b->demand, batch);
    for (uint32_t i = 0; i < batch; i++) {
        start(b, &d->s[i], b->prompt, ROUNDS * b->steps + 1);
    }
    decode_once(b, d->s, batch); /* the prompts, and a first token */
}

static void decode_round(struct bench *b, struct decode *d, uint32_t i)
{
    round_begin(b, &d->p, i);
    for (uint32_t j = 0; j < b->steps; j++) {
        decode_once(b, d->s, d->batch);
    }
    round_end(&d->p, i, b->steps, d->bytes, d->flops);
}

static void decode_end(struct bench *b, struct decode *d)
{
    struct point *p = &d->p;

    for (uint32_t i = 0; i < d->batch; i++) {
        runner_stop(&b->runner, &d->s[i]);
    }
    point_end(p);
    printf(b->json ? "{\"batch\": %u, \"tok_s\": %.2f, \"bytes_s\": %.4g, "
                     "\"share\": %.4f, \"read_bandwidth\": %.4g, "
                     "\"flops_share\": %.4f}"
                   : "decode  batch %5u   %9.1f tok/s  %.3g B/s, %.2f of the "
                     "read bandwidth, %.3g; %.2f of the f32 rate\n",
           d->batch, d->batch / *p->seconds, d->bytes / *p->seconds,
           *p->bytes_share, *p->bandwidth, *p->flops_share);
}

/* Runs a round of each batch, then the next round of each, so that the
 * machine's changing load affects all of them alike. */
static void bench_decode(struct bench *b, const uint32_t *of, uint32_t n)
{
    static struct decode d[BATCHES];

    print_json(b, "\"decode\": [");
    for (uint32_t i = 0; i < n; i++) {
        decode_start(b, &d[i], of[i]);
    }
    for (uint32_t i = 0; i < ROUNDS; i++) {
        for (uint32_t j = 0; j < n; j++) {
            decode_round(b, &d[j], i);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        print_json(b, i > 0 ? ", " : "");
        decode_end(b, &d[i]);
    }
    print_json(b, "]");
}

static void print_head(const struct bench *b)
{
    const struct kernels_sizes *z = &b->sizes;

    printf(b->json
               ? "{\"isa\": \"%s\", \"threads\": %u, \"weight_bytes\": %.0f, "
                 "\"head_bytes\": %.0f, \"scratch_bytes\": %zu, "
                 "\"block_bytes\": %llu, \"slot_bytes\": %llu"
               : "%s, %u threads\nbytes: weights %.0f + head %.0f, scratch "
                 "%zu, block %llu, slot %llu\n",
           z->isa, z->n_threads, b->demand.weight_bytes, b->demand.head_bytes,
           z->scratch_bytes, (unsigned long long)block_bytes(z),
           (unsigned long long)slot_bytes(z));
}

static double processor_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double decode_as(struct bench *b, struct run_seq *s,
                        const struct sampling *how)
{
    double begin;

    s->sampling = *how;
    begin = processor_seconds();
    decode_once(b, s, 1);
    return processor_seconds() - begin;
}

/* Measures decode steps with logprobs, interleaved with greedy ones. */
static void bench_logprobs(struct bench *b)
{
    double plain[2 * STEPS_MAX], asked[2 * STEPS_MAX], ratio;
    const uint32_t n = 2 * b->steps; /* for both kinds: a point has room for
                                      * both */
    struct sampling how = greedy;
    struct run_seq s;

    how.logprobs = true;
    how.n_top_logprobs = TOP_LOGPROBS_MAX;
    start(b, &s, b->prompt, 2 * n + 1);
    decode_once(b, &s, 1); /* the prompt, and a first token */
    for (uint32_t i = 0; i < n; i++) {
        if (i % 2 == 0) {
            plain[i] = decode_as(b, &s, &greedy);
        }
        asked[i] = decode_as(b, &s, &how);
        if (i % 2 == 1) {
            plain[i] = decode_as(b, &s, &greedy);
        }
    }
    runner_stop(&b->runner, &s);
    ratio = median(asked, n) / median(plain, n);
    printf(b->json ? "\"logprobs_step\": %.4f"
                   : "choice  decode step with 20 logprobs %.4f of one "
                     "without, in processor time\n",
           ratio);
}

/* Returns the seconds of one row's choice on the thread of `alone`. */
static double choice_seconds(struct kernels *alone, const float *logits,
                             struct sample_row row)
{
    struct sample_result result;
    double took[CHOICES];
    struct error e;

    for (uint32_t i = 0; i < CHOICES; i++) {
        row.index = i;
        kernels_logits_write(alone, 0, logits);
        took[i] = processor_seconds();
        if (kernels_sample(alone, &row, 1, &result, &e) != ST_OK) {
            abort();
        }
        took[i] = processor_seconds() - took[i];
    }
    return median(took, CHOICES);
}

static void bench_rows(struct bench *b, struct kernels *alone,
                       const float *logits, const uint32_t *ids)
{
    static const struct {
        const char *name;
        struct sampling how;
    } choices[] = {
        {"greedy", {.top_p = 1, .repetition_penalty = 1}},
        {"logprobs",
         {.top_p = 1,
          .repetition_penalty = 1,
          .logprobs = true,
          .n_top_logprobs = TOP_LOGPROBS_MAX}},
        {"plain", {.temperature = 1, .top_p = 1, .repetition_penalty = 1}},
        {"min_p",
         {.temperature = 1,
          .top_p = 1,
          .min_p = 0.05f,
          .repetition_penalty = 1}},
        {"top_k",
         {.temperature = 1, .top_k = 50, .top_p = 1, .repetition_penalty = 1}},
        {"top_p", {.temperature = 1, .top_p = 0.9f, .repetition_penalty = 1}},
        {"penalties",
         {.temperature = 1,
          .top_p = 1,
          .repetition_penalty = 1.1f,
          .frequency_penalty = 0.5f}},
    };

    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        struct sample_row row = {
            .sampling = &choices[i].how, .ids = ids, .n_ids = IDS};

        printf(b->json ? ", \"%s\": %.4g"
                       : "choice  %-10s %.3g s a row on one thread\n",
               choices[i].name, choice_seconds(alone, logits, row));
    }
}

/* Measures choices on the logits that the model itself gives after a prompt. */
static void bench_choices(struct bench *b, const struct kernels_options *o)
{
    float *logits = calloc(b->w->shape.vocab, sizeof *logits);
    uint32_t *ids = calloc(IDS, sizeof *ids);
    struct kernels_options one = *o;
    struct kernels *alone = NULL;
    struct error e;

    one.n_threads = one.max_logits = 1;
    if (logits == NULL || ids == NULL ||
        backend_new(&alone, b->w, &one, &e) != ST_OK) {
        abort();
    }
    for (uint32_t i = 0; i < IDS; i++) {
        ids[i] = (i * 2654435761u >> 8) % b->w->shape.vocab;
    }
    prompt_once(b, logits);
    bench_logprobs(b);
    bench_rows(b, alone, logits, ids);
    kernels_free(&alone);
    free(ids);
    free(logits);
}

static void measure_all(struct bench *b, const struct kernels_options *o)
{
    print_json(b, ", \"prefill\": [");
    bench_prefill(b, b->prompt);
    print_json(b, ", ");
    bench_prefill(b, 512);
    if (b->long_prompt > 512) {
        print_json(b, ", ");
        bench_prefill(b, b->long_prompt);
    }
    print_json(b, "], ");
    bench_decode(b, batches, BATCHES);
    print_json(b, ", \"choice\": {");
    if (b->sizes.weight_bytes == 0) { /* a cpu backend */
        bench_choices(b, o);
    }
    print_json(b, "}}\n");
}

static void measure(struct bench *b, const struct kernels_options *o)
{
    prompt_once(b, NULL); /* pages in, threads awake */
    print_head(b);
    if (b->batch > 0) {
        print_json(b, ", ");
        bench_decode(b, &b->batch, 1);
        print_json(b, "}\n");
    } else {
        measure_all(b, o);
    }
    kernels_profile(forward_kernels(b->runner.forward), stderr);
}

static void run_drafts(struct bench *b, struct kernels_options *o)
{
    struct bench_drafts *d = &b->drafts;
    uint32_t blocks;

    d->batch = b->batch > 0 ? b->batch : 1;
    d->prompt = b->prompt;
    d->rounds = ROUNDS;
    d->json = b->json;
    blocks = bench_drafts_options(d, o);
    runner_open(&b->runner, b->w, o, blocks, 2 * d->batch, 0);
    bench_drafts_run(d, &b->runner);
    kernels_profile(forward_kernels(b->runner.forward), stderr);
    runner_close(&b->runner);
}

static void run_all(struct bench *b, struct kernels_options *o)
{
    uint32_t longest = b->prompt > 512 ? b->prompt : 512;

    b->long_prompt = o->max_tokens;
    longest = b->long_prompt > longest ? b->long_prompt : longest;
    uint32_t a_seq = (b->prompt + ROUNDS * b->steps + 1) / o->block_tokens + 1;
    uint32_t blocks = SEQUENCES * a_seq + longest / o->block_tokens + 2;

    demand_of(&b->demand, b->w);
    runner_open(&b->runner, b->w, o, blocks, SEQUENCES, 0);
    forward_sizes(b->runner.forward, &b->sizes);
    measure(b, o);
    runner_close(&b->runner);
}

static void run(struct bench *b, struct kernels_options *o)
{
    if (b->drafts.k > 0) {
        run_drafts(b, o);
    } else {
        run_all(b, o);
    }
}

static struct kv_format format_of(const struct bench *b,
                                  const struct model_config *c)
{
    return b->kv ? kv_names_must(b->kv, c) : kv_format_plain(c->shape.dtype);
}

/* A random model's own options. */
struct random_options {
    uint32_t bits, formats; /* 0: the config's; a set, 1u << weight_format */
    uint32_t n_layers;
};

static int run_random(struct bench *b, struct kernels_options *o,
                      const char *path, const struct random_options *of)
{
    static struct random_model m;
    static struct model_config c;
    struct random_shape r;
    struct dice d = {1};
    struct error e;

    if (config_shape_read(&c, path, &e) != ST_OK) {
        fprintf(stderr, "kernels_bench: %s\n", e.text);
        return 1;
    }
    config_shape_cut(&c, of->n_layers);
    config_shape(&r, &c, of->bits, GROUP);
    bench_weights_shape(&r, of->formats);
    r.mtp = b->drafts.k > 0;
    r.hollow = strcmp(o->device, "cpu") != 0;
    random_model_new(&m, &r, &d);
    b->w = &m.w;
    bench_weights_pack(&m.w, o);
    o->kv = format_of(b, &c);
    run(b, o);
    random_model_free(&m);
    return 0;
}

static int run_model(struct bench *b, struct kernels_options *o,
                     const char *dir)
{
    static struct model_config c;
    struct shard *shard = NULL;
    struct error e;
    enum status st = config_load(&c, dir, &e);

    c.drafts = b->drafts.k > 0;
    if (st == ST_OK && c.drafts && c.n_mtp != 1) {
        st = error_set(&e, ST_INVALID_ARGUMENT, "%s has no MTP layer", dir);
    }
    if (st != ST_OK ||
        shard_load(&shard, &c, dir, 0, c.shape.n_layers, NULL, &e) != ST_OK) {
        fprintf(stderr, "kernels_bench: %s\n", e.text);
        return 1;
    }
    b->drafts.dir = dir;
    b->w = shard_weights(shard);
    bench_weights_pack(shard_own(shard), o);
    o->kv = format_of(b, &c);
    run(b, o);
    shard_free(&shard);
    return 0;
}

static uint32_t number(const char *text, uint32_t least, uint32_t most)
{
    unsigned long n = strtoul(text, NULL, 10);

    return n < least ? least : n > most ? most : (uint32_t)n;
}

static const struct option options[] = {
    {"threads", required_argument, NULL, 't'},
    {"isa", required_argument, NULL, 'i'},
    {"prompt", required_argument, NULL, 'p'},
    {"steps", required_argument, NULL, 's'},
    {"device", required_argument, NULL, 'd'},
    {"portable", no_argument, NULL, 'P'},
    {"profile", no_argument, NULL, 'R'},
    {"step-tokens", required_argument, NULL, 'T'},
    {"batch", required_argument, NULL, 'n'},
    {"bits", required_argument, NULL, 'b'},
    {"layers", required_argument, NULL, 'l'},
    {"kv", required_argument, NULL, 'k'},
    {"json", no_argument, NULL, 'j'},
    {"products", required_argument, NULL, 'x'},
    {"weights", required_argument, NULL, 'w'},
    {"drafts", required_argument, NULL, 'D'},
    {"accept", required_argument, NULL, 'A'},
    {NULL, 0, NULL, 0},
};

/* Returns false for an unknown option. */
static bool take_option(int c, struct bench *b, struct kernels_options *o,
                        struct random_options *r)
{
    switch (c) {
    case 't':
        o->n_threads = number(optarg, 1, KERNELS_THREADS_MAX);
        return true;
    case 'i':
        o->isa = optarg;
        return true;
    case 'p':
        b->prompt = number(optarg, 1, PLAN_TOKENS_MAX);
        return true;
    case 's':
        b->steps = number(optarg, 1, STEPS_MAX);
        return true;
    case 'd':
        o->device = optarg;
        return true;
    case 'P':
        o->portable = true;
        return true;
    case 'R':
        o->profile = true;
        return true;
    case 'T':
        o->max_tokens = number(optarg, 1, KERNELS_STEP_TOKENS_MAX);
        return true;
    case 'n':
        b->batch = number(optarg, 1, BATCH_MAX);
        return true;
    case 'b':
        r->bits = number(optarg, 4, 8) < 8 ? 4 : 8;
        return true;
    case 'l':
        r->n_layers = number(optarg, 1, MODEL_LAYERS_MAX);
        return true;
    case 'k':
        b->kv = optarg;
        return true;
    case 'j':
        b->json = true;
        return true;
    case 'D':
        b->drafts.k = number(optarg, 1, DRAFTS_MAX);
        return true;
    case 'A':
        b->drafts.accept =
            strcmp(optarg, "own") == 0 ? DRAFTS_OWN : strtod(optarg, NULL);
        return true;
    default:
        return bench_weights_take(c, optarg, &r->formats, &o->products);
    }
}

static int usage(void)
{
    fputs("usage: kernels_bench [--threads N] [--isa NAME] [--prompt N] "
          "[--steps N]\n"
          "                     [--device NAME] [--portable] [--profile] "
          "[--step-tokens N]\n"
          "                     [--batch N] [--kv FORMAT] [--json] "
          "[--drafts K] [--accept P|own]\n"
          "                     [--products float|int8]\n"
          "                     MODEL_DIR | [--bits 4|8] [--weights q4,k6,..] "
          "[--layers N] CONFIG.json\n",
          stderr);
    return 2;
}

int main(int argc, char **argv)
{
    struct kernels_options o = {.device = "cpu", .block_tokens = 32};
    static struct bench b = {
        .prompt = 128, .steps = 8, .drafts = {.accept = DRAFTS_OWN}};
    struct random_options r = {.n_layers = MODEL_LAYERS_MAX};
    uint32_t most;

    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (!take_option(c, &b, &o, &r)) {
            return usage();
        }
    }
    if (optind + 1 != argc) {
        return usage();
    }
    /* The prompts of a batch are one plan. */
    most = PLAN_TOKENS_MAX / (b.batch > 0 ? b.batch : BATCH_MAX);
    b.prompt = b.prompt < most ? b.prompt : most;
    return config_shape_named(argv[optind])
               ? run_random(&b, &o, argv[optind], &r)
               : run_model(&b, &o, argv[optind]);
}
