/* golden_stages - compares models split over 2, 3 and 4 engines with the whole.
 *
 *     golden_stages [--random N] [--prompts N] [--steps N] [--kv FORMAT,..]
 *                   [--int8] [MODEL_DIR...]
 *
 * Some prompts of each directory's golden.json run with a float32 cache over
 * the splits below, and with a cache of the model's dtype over the splits of
 * four stages; each shard is loaded on its own.  Then N models of random shape
 * run, split at random.  Tokens and bits of logits must equal the whole shard's
 * (stages.h).  With --kv the cache has these formats (kv_names.h) instead, each
 * over one of the splits in turn.  In float32 the whole shard's tokens must
 * equal golden.json's.  With --int8 products of quantised weights are integer
 * ones, whose tokens no golden.json has.
 *
 * Exit code: 0 if everything passes. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/golden/golden_file.h"
#include "tests/golden/kv_draw.h"
#include "tests/golden/kv_names.h"
#include "tests/golden/stages.h"
#include "worker/model/shard.h"

#define PROMPTS       6 /* by default */
#define STEPS         8
#define RANDOM_PROMPT 40
#define RANDOM_STEPS  5
#define TURNS         3 /* splits that every model has, at least */

/* Layers at which the stages after the first begin, by the model's number of
 * layers; none: one stage, in batches.  Of the eight layers, all but 3 and 7
 * are linear: there are stages without attention (0-3, 4-7), without linear
 * layers (3-4, 7-8), and of both kinds. */
static const struct split {
    uint32_t n_layers, n_cuts, cuts[CHAIN_MAX - 1];
} splits[] = {
    {8, 1, {4}},       {8, 1, {7}}, {8, 2, {3, 4}}, {8, 3, {3, 4, 7}},
    {8, 3, {1, 2, 6}}, {5, 1, {2}}, {5, 2, {1, 4}}, {5, 3, {1, 2, 3}},
    {2, 0, {0}},       {2, 1, {1}}, {3, 0, {0}},    {3, 1, {1}},
    {3, 2, {1, 2}},    {4, 0, {0}}, {4, 1, {3}},    {4, 2, {1, 2}},
    {4, 3, {1, 2, 3}}, {7, 0, {0}}, {7, 1, {5}},    {7, 2, {2, 6}},
    {7, 3, {1, 5, 6}},
};

#define SPLITS_MAX 8 /* of one number of layers */

/* Fills the splits of a model of n layers: those of the table, or else one
 * stage, halves, and stages of one layer at both ends.  Returns their number.
 */
static uint32_t splits_of(struct split out[SPLITS_MAX], uint32_t n)
{
    const struct split made[] = {{n, 0, {0}},
                                 {n, 1, {n / 2}},
                                 {n, 2, {1, n - 1}},
                                 {n, 3, {1, n / 2, n - 1}}};
    uint32_t most = n < CHAIN_MAX ? n : CHAIN_MAX, count = 0;

    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        if (splits[i].n_layers == n) {
            out[count++] = splits[i];
        }
    }
    if (count > 0) {
        return count;
    }
    memcpy(out, made, most * sizeof *made);
    return most;
}

/* Returns whether every number of layers has splits, whose stages all have
 * layers. */
static bool check_splits(void)
{
    struct split s[SPLITS_MAX];
    bool good = true;

    for (uint32_t n = 1; n <= MODEL_LAYERS_MAX; n++) {
        uint32_t count = splits_of(s, n);

        good = good && count > 0;
        for (uint32_t i = 0; i < count; i++) {
            for (uint32_t k = 0; k < s[i].n_cuts; k++) {
                uint32_t before = k > 0 ? s[i].cuts[k - 1] : 0;

                good = good && s[i].cuts[k] > before && s[i].cuts[k] < n;
            }
        }
        if (!good) {
            fprintf(stderr, "golden_stages: no splits of %u layers\n", n);
            return false;
        }
    }
    return true;
}

struct trial {
    const char *dir;
    uint32_t prompts, steps;
    enum kernels_products products;
    struct golden golden;
    struct model_config config;
    struct kernels_options o;
    struct dice dice;
    uint32_t n_wrong, n_splits;
    uint32_t turn; /* 1 + the split of a listed format; 0: no such format */
};

/* Makes passes smaller than plans, in tokens and in rows, and heads in several
 * calls. */
static struct kernels_options small_passes(const struct kv_format *kv)
{
    return (struct kernels_options){.device = "cpu",
                                    .kv = *kv,
                                    .block_tokens = 16,
                                    .max_tokens = 100,
                                    .max_rows = 4,
                                    .max_logits = 2,
                                    .keep_tokens =
                                        SCRIPT_LINES_MAX * (1 + DRAFTS_MAX),
                                    .n_threads = 2};
}

/* Picks prompts of different lengths: the first one, then at equal
 * distances. */
static const struct golden_prompt *prompt(const struct trial *t, uint32_t i)
{
    return &t->golden.prompts[i * (t->golden.n - 1) / t->prompts];
}

static void pick(struct script *s, const struct trial *t)
{
    for (s->n = 0; s->n < t->prompts; s->n++) {
        const struct golden_prompt *p = prompt(t, s->n);

        s->lines[s->n] = (struct script_line){
            .ids = p->ids, .n_ids = p->n_ids, .steps = t->steps};
    }
}

/* Counts where the whole shard's choice differs from the reference's. */
static uint32_t compare(const struct script *s, const struct trial *t)
{
    uint32_t n_wrong = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        const struct golden_prompt *p = prompt(t, i);

        if (memcmp(s->lines[i].tokens, p->expect,
                   t->steps * sizeof p->expect[0]) != 0) {
            printf("%s: %s: the whole chose other tokens\n", t->dir, p->name);
            n_wrong++;
        }
    }
    return n_wrong;
}

static void load(struct shard **out, const struct trial *t, uint32_t begin,
                 uint32_t end)
{
    struct error e;

    if (shard_load(out, &t->config, t->dir, begin, end, NULL, &e) != ST_OK) {
        fprintf(stderr, "golden_stages: %s: %s\n", t->dir, e.text);
        exit(1);
    }
}

static void run_split(struct trial *t, const struct script *s,
                      const struct split *p)
{
    const struct shard_weights *weights[CHAIN_MAX];
    struct shard *shards[CHAIN_MAX];
    uint32_t n = p->n_cuts + 1, n_wrong;
    char kv[KV_NAME_MAX];

    for (uint32_t i = 0; i < n; i++) {
        load(&shards[i], t, i > 0 ? p->cuts[i - 1] : 0,
             i < p->n_cuts ? p->cuts[i] : p->n_layers);
        weights[i] = shard_weights(shards[i]);
    }
    n_wrong = script_chain(s, weights, n, &t->o, &t->dice);
    kv_format_name(&t->o.kv, kv);
    printf("%s:", t->dir);
    for (uint32_t i = 0; i < n; i++) {
        printf(" %u-%u", weights[i]->begin, weights[i]->end);
        shard_free(&shards[i]);
    }
    printf(", kv %s: %u of %u steps differ\n", kv, n_wrong, s->n * t->steps);
    t->n_wrong += n_wrong;
    t->n_splits++;
}

/* Returns whether a run of the model has its split `at`: a plain cache has all
 * splits in float32, those of four stages otherwise; a listed format has one.
 */
static bool has_split(const struct trial *t, const struct split *p, uint32_t at)
{
    if (t->turn > 0) {
        return at == t->turn - 1;
    }
    return t->o.kv.dtype == DTYPE_F32 || p->n_cuts + 1 == CHAIN_MAX;
}

static void run_splits(struct trial *t, const struct script *s)
{
    struct split all[SPLITS_MAX];
    uint32_t n = splits_of(all, t->config.shape.n_layers);

    for (uint32_t i = 0; i < n; i++) {
        if (has_split(t, &all[i], i)) {
            run_split(t, s, &all[i]);
        }
    }
}

static void run_model(struct trial *t, const struct kv_format *kv)
{
    bool f32 = kv->scheme == KV_PLAIN && kv->dtype == DTYPE_F32;
    struct script s = {.n = 0};
    struct shard *whole;

    t->o = small_passes(kv);
    t->o.products = t->products;
    pick(&s, t);
    load(&whole, t, 0, t->config.shape.n_layers);
    script_whole(&s, shard_weights(whole), &t->o);
    shard_free(&whole);
    if (f32 && t->products == PRODUCTS_FLOAT) {
        t->n_wrong += compare(&s, t);
    }
    run_splits(t, &s);
    script_free(&s);
}

static void run_plain(struct trial *t)
{
    struct kv_format f32 = kv_format_plain(DTYPE_F32);
    struct kv_format own = kv_format_plain(t->config.shape.dtype);

    run_model(t, &f32);
    if (own.dtype != DTYPE_F32) {
        run_model(t, &own);
    }
}

static void run_formats(struct trial *t, const char *list)
{
    struct kv_names kv;

    kv_names_list(&kv, list, &t->config);
    for (uint32_t i = 0; i < kv.n; i++) {
        t->turn = 1 + i % TURNS;
        run_model(t, &kv.of[i]);
    }
}

static bool check_dir(const char *dir, const char *kv,
                      enum kernels_products products, uint32_t prompts,
                      uint32_t steps)
{
    static struct trial t;
    struct error e;

    memset(&t, 0, sizeof t);
    t.dir = dir;
    t.prompts = prompts;
    t.steps = steps;
    t.products = products;
    t.dice.state = 7;
    if (golden_load(&t.golden, dir, &e) != ST_OK ||
        config_load(&t.config, dir, &e) != ST_OK) {
        fprintf(stderr, "golden_stages: %s: %s\n", dir, e.text);
        return false;
    }
    if (kv != NULL) {
        run_formats(&t, kv);
    } else {
        run_plain(&t);
    }
    golden_free(&t.golden);
    if (t.n_splits == 0) {
        printf("%s: none of the splits of %u layers ran\n", dir,
               t.config.shape.n_layers);
    }
    return t.n_wrong == 0 && t.n_splits > 0;
}

/* ---- models of random shape ---- */

/* Returns layers [begin, end) of the whole, as a separately loaded shard has
 * them. */
static struct shard_weights part_of(const struct shard_weights *whole,
                                    uint32_t begin, uint32_t end)
{
    struct shard_weights w = *whole;

    w.begin = begin;
    w.end = end;
    w.layers += begin;
    if (end < w.shape.n_layers) {
        w.mtp = NULL;
    }
    if (begin > 0 && w.mtp == NULL) {
        w.embed = (struct tensor){.data = NULL};
    }
    if (end < w.shape.n_layers) {
        w.head = (struct tensor){.data = NULL};
        w.final_norm = NULL;
    }
    return w;
}

/* Begins a stage at each layer but the first, or not, at random. */
static uint32_t cut(struct shard_weights parts[CHAIN_MAX],
                    const struct shard_weights *whole, struct dice *d)
{
    uint32_t begin = 0, n = 0, layers = whole->shape.n_layers;

    for (uint32_t i = 1; i <= layers; i++) {
        if (i == layers || (n + 1 < CHAIN_MAX && dice_below(d, 2) == 0)) {
            parts[n++] = part_of(whole, begin, i);
            begin = i;
        }
    }
    return n;
}

static void draw_lines(struct script *s, uint32_t ids[2][RANDOM_PROMPT],
                       uint32_t vocab, struct dice *d)
{
    for (s->n = 0; s->n < 2; s->n++) {
        struct script_line *l = &s->lines[s->n];

        *l = (struct script_line){.ids = ids[s->n],
                                  .n_ids = 1 + dice_below(d, RANDOM_PROMPT),
                                  .steps = RANDOM_STEPS};
        for (uint32_t i = 0; i < l->n_ids; i++) {
            ids[s->n][i] = dice_below(d, vocab);
        }
    }
}

static bool check_random(uint32_t number)
{
    struct dice d = {number};
    struct random_shape shape;
    struct random_model model;
    struct shard_weights parts[CHAIN_MAX];
    const struct shard_weights *shards[CHAIN_MAX];
    uint32_t ids[2][RANDOM_PROMPT], n, n_wrong;
    struct kernels_options o;
    struct kv_format kv;
    struct script s = {.n = 0};

    random_shape(&shape, &d);
    shape.mtp = dice_below(&d, 2) && shape.shape.n_heads > 0;
    kv = kv_draw(&shape, &d);
    o = small_passes(&kv);
    o.block_tokens = 1u << dice_below(&d, 7);
    o.max_tokens = 1 + dice_below(&d, 50);
    random_model_new(&model, &shape, &d);
    draw_lines(&s, ids, model.w.shape.vocab, &d);
    n = cut(parts, &model.w, &d);
    for (uint32_t i = 0; i < n; i++) {
        shards[i] = &parts[i];
    }
    script_whole(&s, &model.w, &o);
    n_wrong = script_chain(&s, shards, n, &o, &d);
    if (n_wrong > 0) {
        printf("configuration %u, %u stages of %u layers: %u of %u steps "
               "differ\n",
               number, n, model.w.shape.n_layers, n_wrong, 2 * RANDOM_STEPS);
    }
    script_free(&s);
    random_model_free(&model);
    return n_wrong == 0;
}

static int usage(void)
{
    fprintf(stderr,
            "usage: golden_stages [--random N] [--prompts 1..%d] [--steps "
            "2..%d] [--kv FORMAT,..]\n"
            "                     [--int8] [MODEL_DIR...]\n",
            SCRIPT_LINES_MAX, GOLDEN_STEPS_MAX);
    return 2;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"random", required_argument, NULL, 0},
        {"prompts", required_argument, NULL, 1},
        {"steps", required_argument, NULL, 2},
        {"kv", required_argument, NULL, 'k'},
        {"int8", no_argument, NULL, '8'},
        {NULL, 0, NULL, 0},
    };
    uint32_t n[3] = {0, PROMPTS, STEPS}, n_failed = 0;
    enum kernels_products products = PRODUCTS_FLOAT;
    const char *kv = NULL;

    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == '?') {
            return usage();
        }
        if (c == 'k') {
            kv = optarg;
        } else if (c == '8') {
            products = PRODUCTS_INT8;
        } else {
            n[c] = (uint32_t)strtoul(optarg, NULL, 10);
        }
    }
    if (n[1] < 1 || n[1] > SCRIPT_LINES_MAX || n[2] < 2 ||
        n[2] > GOLDEN_STEPS_MAX) {
        return usage();
    }
    n_failed += !check_splits();
    for (int i = optind; i < argc; i++) {
        n_failed += !check_dir(argv[i], kv, products, n[1], n[2]);
    }
    for (uint32_t i = 0; i < n[0]; i++) {
        n_failed += !check_random(i);
    }
    printf("%d directories, %u random models: %u failed\n", argc - optind, n[0],
           n_failed);
    return n_failed > 0;
}
