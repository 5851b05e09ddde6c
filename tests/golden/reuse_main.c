/* golden_reuse - compares reused computation with cold runs (reuse.h).
 *
 *     golden_reuse [--device NAME] [--kv FORMAT,..] [--prompts N] [--steps N]
 *                  [--split] [--int8] MODEL_DIR...
 *
 * Prompts of several lengths run over the whole model, with a float32 cache and
 * one of the model's dtype; with --split two of them also over 2 and 3 stages.
 * On a device prompts are cut only at multiples of FORWARD_CUT, and the cache
 * is that of the model's dtype.
 *
 * With --kv the cache has these formats (kv_names.h) instead, and with --split
 * the first format runs over one stage, the second over two, the third over
 * three, and so on in turns.
 *
 * With --int8 products of quantised weights are integer ones.
 *
 * Exit code: 0 if every logit is equal, 77 if there is no such device. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/golden/kv_names.h"
#include "tests/golden/reuse.h"
#include "tests/kernels/test_device.h"
#include "worker/model/shard.h"

/* Just past a multiple of FORWARD_CUT, between, and at one. */
static const uint32_t lengths[] = {150, 192, 65, 20};
#define STAGES  3 /* with --split */
#define LENGTHS (sizeof lengths / sizeof *lengths)

struct trial {
    const char *dir, *device, *kv; /* kv: a list, or NULL */
    uint32_t prompts, steps;
    bool split;
    enum kernels_products products;
    struct model_config config;
    uint32_t n_wrong, n_steps;
};

static void load(struct shard **out, const struct trial *t, uint32_t begin,
                 uint32_t end)
{
    struct error e;

    if (shard_load(out, &t->config, t->dir, begin, end, NULL, &e) != ST_OK) {
        fprintf(stderr, "golden_reuse: %s: %s\n", t->dir, e.text);
        exit(1);
    }
}

static void run_ways(struct trial *t, struct reuse *x)
{
    static const struct {
        const char *name;
        uint32_t (*run)(struct reuse *x, uint32_t n, uint32_t *n_steps);
    } ways[] = {{"restored", reuse_restored},
                {"twins", reuse_twins},
                {"continued", reuse_continued}};
    uint32_t n = x->n_shards > 1 && t->prompts > 2 ? 2 : t->prompts;
    char kv[KV_NAME_MAX];

    kv_format_name(&x->o.kv, kv);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        uint32_t n_wrong = 0, n_steps = 0;

        for (uint32_t i = 0; i < n; i++) {
            n_wrong += ways[w].run(x, lengths[i], &n_steps);
        }
        printf("%s, %u stages, kv %s, %s: %u of %u steps differ\n", t->dir,
               x->n_shards, kv, ways[w].name, n_wrong, n_steps);
        t->n_wrong += n_wrong;
        t->n_steps += n_steps;
    }
}

/* Splits the model into n equal stages. */
static void run_stages(struct trial *t, struct reuse *x, uint32_t n)
{
    struct shard *shards[CHAIN_MAX];
    uint32_t layers = t->config.shape.n_layers;

    x->n_shards = n;
    for (uint32_t i = 0; i < n; i++) {
        load(&shards[i], t, i * layers / n, (i + 1) * layers / n);
        x->shards[i] = shard_weights(shards[i]);
    }
    run_ways(t, x);
    for (uint32_t i = 0; i < n; i++) {
        shard_free(&shards[i]);
    }
}

/* Runs the ways over `first` to `last` stages. */
static void run_kv(struct trial *t, const struct kv_format *kv, uint32_t first,
                   uint32_t last)
{
    bool cpu = strcmp(t->device, "cpu") == 0;
    struct reuse x = {.any_cut = cpu, .steps = t->steps, .dice = {17}};
    struct shard *whole;

    /* On the cpu passes are smaller than plans, so rows with saves are cut. */
    x.o = (struct kernels_options){.device = t->device,
                                   .kv = *kv,
                                   .block_tokens = cpu ? 16 : 32,
                                   .max_tokens = cpu ? 100 : 0,
                                   .max_logits = cpu ? 3 : 0,
                                   .n_threads = cpu ? 2 : 0,
                                   .products = t->products};
    load(&whole, t, 0, t->config.shape.n_layers);
    x.whole = shard_weights(whole);
    for (uint32_t n = first; n <= last && n <= x.whole->end; n++) {
        run_stages(t, &x, n);
    }
    shard_free(&whole);
}

static void run_formats(struct trial *t)
{
    struct kv_names kv;

    kv_names_list(&kv, t->kv, &t->config);
    for (uint32_t i = 0; i < kv.n; i++) {
        uint32_t n = t->split ? 1 + i % STAGES : 1;

        run_kv(t, &kv.of[i], n, n);
    }
}

static void run_plain(struct trial *t)
{
    struct kv_format f32 = kv_format_plain(DTYPE_F32);
    struct kv_format own = kv_format_plain(t->config.shape.dtype);

    if (strcmp(t->device, "cpu") == 0) {
        run_kv(t, &f32, 1, t->split ? STAGES : 1);
    }
    if (own.dtype != DTYPE_F32 || t->n_steps == 0) {
        run_kv(t, &own, 1, 1);
    }
}

static bool check_dir(struct trial *t)
{
    struct error e;

    t->n_wrong = t->n_steps = 0;
    if (config_load(&t->config, t->dir, &e) != ST_OK) {
        fprintf(stderr, "golden_reuse: %s: %s\n", t->dir, e.text);
        return false;
    }
    if (t->kv != NULL) {
        run_formats(t);
    } else {
        run_plain(t);
    }
    return t->n_wrong == 0 && t->n_steps > 0;
}

static int usage(void)
{
    fprintf(stderr,
            "usage: golden_reuse [--device NAME] [--kv FORMAT,..] "
            "[--prompts 1..%zu] [--steps 1..%d]\n"
            "                    [--split] [--int8] MODEL_DIR...\n",
            LENGTHS, REUSE_STEPS);
    return 2;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'},
        {"kv", required_argument, NULL, 'k'},
        {"prompts", required_argument, NULL, 'p'},
        {"steps", required_argument, NULL, 's'},
        {"split", no_argument, NULL, 'x'},
        {"int8", no_argument, NULL, '8'},
        {NULL, 0, NULL, 0},
    };
    static struct trial t = {.device = "cpu", .prompts = LENGTHS, .steps = 3};
    bool ok = true;

    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'd':
            t.device = test_device_or(optarg);
            break;
        case 'k':
            t.kv = optarg;
            break;
        case 'p':
            t.prompts = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 's':
            t.steps = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'x':
            t.split = true;
            break;
        case '8':
            t.products = PRODUCTS_INT8;
            break;
        default:
            return usage();
        }
    }
    if (t.prompts < 1 || t.prompts > LENGTHS || t.steps < 1 ||
        t.steps > REUSE_STEPS || optind == argc) {
        return usage();
    }
    for (int i = optind; i < argc; i++) {
        t.dir = argv[i];
        ok = check_dir(&t) && ok;
    }
    printf("%s\n", ok ? "all equal" : "failed");
    return !ok;
}
