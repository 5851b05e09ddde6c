/* golden_perplexity - measures what a KV format costs in quality.
 *
 *     golden_perplexity [--device NAME] [--formats A,B,..] [--text FILE]
 *                       [--window N] [--context N] [--quick] [--json]
 *                       [--limits] MODEL_DIR
 *
 * Scores a held-out text, val_text.txt of the model unless given, under each
 * format, and compares with bf16 (score.h):
 *
 *     bytes       of keys and values per token, all attention layers
 *     perplexity  exp of the mean loss
 *     to bf16     difference of perplexities, and its standard error
 *     KL          mean Kullback-Leibler divergence from bf16, in nats: what the
 *                 format changes, also where the changes cancel out
 *     best        share of ids whose most probable id is that of bf16
 *     greedy      share of greedy tokens equal to bf16's in the same place;
 *                 a sequence that differs once mostly differs from there on
 *
 * The format int8 is bf16 with integer products of a quantised model, which
 * have no bound.
 *
 * --quick scores the begin of the text, in shorter windows, and the formats
 * that have a bound.
 *
 * A format is out of its bounds if the difference of perplexities is larger
 * than one, with --quick by two standard errors, or the divergence is.  It is
 * undecided if two standard errors are larger than the bound.
 *
 * Exit code: 0 if every bound holds, or with --quick is undecided; 77 if there
 * is no such device. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/golden/kv_names.h"
#include "tests/golden/score.h"
#include "tests/kernels/test_device.h"
#include "text/tokenizer.h"
#include "worker/model/shard.h"

#define BASE         "bf16"
#define INT8         "int8" /* BASE with integer products */
#define FORMATS_MAX  16
#define TEXT_MAX     (1 << 20) /* bytes of the text */
#define BLOCK_TOKENS 16
#define CPU_TOKENS   256
#define WINDOW       1024
#define CONTEXT      256
#define QUICK_IDS    1280
#define QUICK_WINDOW 512
#define ALL_FORMATS                                              \
    "f32,affine8,affine4,turboquant4,turboquant3.5,turboquant3," \
    "turboquant2.5,turboquant2"
#define QUICK_FORMATS "affine8,affine4,turboquant3.5"

/* Largest difference of the perplexity to bf16's, in percent, and largest
 * divergence from it in nats, about one and a half times the greatest one that
 * was measured.  Errors of both signs cancel out in a perplexity, and less sure
 * predictions can even lower it; in a divergence they do not. */
static const struct bound {
    const char *format;
    double percent, divergence;
} bounds[] = {{"affine8", 0.1, 6e-5},
              {"affine4", 1.0, 1e-2},
              {"turboquant3.5", 2.0, 2.5e-2}};

struct options {
    const char *device, *formats, *text, *dir;
    uint32_t window, context, threads;
    bool quick, json;
};

struct line {
    char name[KV_NAME_MAX];
    double bytes, percent, error; /* error of the percent */
    double loss, best, greedy;
    bool holds, decided;
    const struct bound *bound; /* NULL: none */
    struct score score;
};

struct table {
    struct model_config config;
    struct shard *shard;
    uint32_t *ids;
    struct score_plan plan;
    struct line lines[FORMATS_MAX];
    uint32_t n; /* lines[0] is the base */
};

static void die(const char *what, const char *text)
{
    fprintf(stderr, "golden_perplexity: %s: %s\n", what, text);
    exit(1);
}

/* ---- the text ---- */

static char *read_text(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    char *text = malloc(TEXT_MAX);

    if (f == NULL || text == NULL) {
        die(path, "it cannot be read");
    }
    *len = fread(text, 1, TEXT_MAX, f);
    if (*len == 0 || *len == TEXT_MAX) {
        die(path, "it is empty, or as long as 1 MiB");
    }
    fclose(f);
    return text;
}

static void load_text(struct table *t, const struct options *o)
{
    struct tokenizer *tokenizer;
    struct error e;
    char path[4096], *text;
    size_t len, n;

    snprintf(path, sizeof path, "%s/tokenizer.json", o->dir);
    if (tokenizer_load(&tokenizer, path, &e) != ST_OK) {
        die(path, e.text);
    }
    snprintf(path, sizeof path, "%s/val_text.txt", o->dir);
    text = read_text(o->text != NULL ? o->text : path, &len);
    t->ids = calloc(len, sizeof *t->ids);
    if (t->ids == NULL || tokenizer_encode(tokenizer, text, len, 0, t->ids, len,
                                           &n, &e) != ST_OK) {
        die("text", t->ids == NULL ? "no memory" : e.text);
    }
    n = o->quick && n > QUICK_IDS ? QUICK_IDS : n;
    t->plan =
        (struct score_plan){.text = t->ids,
                            .n_text = (uint32_t)n,
                            .window = o->window,
                            .context = o->context,
                            .prompts = o->quick ? 4 : 16,
                            .prompt = o->quick ? o->context / 4 : o->context,
                            .steps = o->quick ? 16 : 64};
    free(text);
    tokenizer_free(&tokenizer);
    if (n < 2 * (size_t)o->context ||
        score_windows(&t->plan) > SCORE_SIDE_BY_SIDE) {
        die("text", "it is too short or too long for these windows");
    }
}

/* ---- the formats ---- */

static const struct bound *bound_of(const struct kv_format *f,
                                    const struct model_config *c)
{
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        struct kv_format of = kv_names_must(bounds[i].format, c);

        if (kv_format_same(f, &of)) {
            return &bounds[i];
        }
    }
    return NULL;
}

static void score_line(struct table *t, const struct options *o,
                       const char *name)
{
    struct line *l = &t->lines[t->n];
    bool cpu = strcmp(o->device, "cpu") == 0;
    bool int8 = strcmp(name, INT8) == 0;
    struct kernels_options k = {
        .device = o->device,
        .kv = kv_names_must(int8 ? BASE : name, &t->config),
        .products = int8 ? PRODUCTS_INT8 : PRODUCTS_FLOAT,
        .block_tokens = cpu ? BLOCK_TOKENS : 32,
        .max_tokens = cpu ? CPU_TOKENS : 0,
        .n_threads = o->threads};

    kv_format_name(&k.kv, l->name);
    if (int8) {
        snprintf(l->name, sizeof l->name, "%s", name);
    }
    l->bytes = kv_names_bytes(&k.kv, &t->config);
    l->bound = int8 ? NULL : bound_of(&k.kv, &t->config);
    score_run(&l->score, &t->plan, shard_weights(t->shard), &k,
              t->n > 0 ? &t->lines[0].score : NULL);
    t->n++;
}

static void score_all(struct table *t, const struct options *o)
{
    char list[512], *save = NULL;
    struct error e;

    if (config_load(&t->config, o->dir, &e) != ST_OK ||
        shard_load(&t->shard, &t->config, o->dir, 0, t->config.shape.n_layers,
                   NULL, &e) != ST_OK) {
        die(o->dir, e.text);
    }
    load_text(t, o);
    score_line(t, o, BASE);
    snprintf(list, sizeof list, "%s", o->formats);
    for (char *name = strtok_r(list, ",", &save);
         name != NULL && t->n < FORMATS_MAX;
         name = strtok_r(NULL, ",", &save)) {
        if (strcmp(name, BASE) != 0) {
            score_line(t, o, name);
        }
    }
}

static void judge(struct line *l, bool quick)
{
    double bound = l->bound != NULL ? l->bound->percent : INFINITY;
    double past = fabs(l->percent) - bound;

    l->holds = past <= (quick ? 2.0 * l->error : 0.0) &&
               (l->bound == NULL || isnan(l->score.divergence) ||
                l->score.divergence <= l->bound->divergence);
    l->decided = 2.0 * l->error <= bound;
}

static void compare_line(struct line *l, const struct line *base, bool quick)
{
    const struct score *a = &l->score, *b = &base->score;
    struct score_difference d = score_compare(a, b);

    l->loss = score_loss(a);
    l->percent = 100.0 * expm1(d.mean);
    l->error = 100.0 * d.error * exp(d.mean);
    l->best = score_equal(a->best, b->best, a->n);
    l->greedy = score_equal(a->greedy, b->greedy, a->n_greedy);
    judge(l, quick);
}

/* ---- the results ---- */

static void print_table(const struct table *t, const struct options *o)
{
    const struct score_plan *p = &t->plan;

    printf("%s on %s: %u ids scored after at least %u others, in %u windows "
           "of %u\n"
           "%u greedy tokens after each of %u prompts of %u\n\n",
           o->dir, o->device, t->lines[0].score.n, p->context, score_windows(p),
           p->window, p->steps, p->prompts, p->prompt);
    printf("%-22s %9s %10s %18s %9s %8s %8s %6s %8s\n", "format", "bytes/id",
           "perplexity", "to bf16, %", "KL", "best, %", "greedy,%", "bound,%",
           "KL");
    for (uint32_t i = 0; i < t->n; i++) {
        const struct line *l = &t->lines[i];

        printf("%-22s %9.1f %10.4f %+9.4f +-%7.4f %9.2e %8.2f %8.1f", l->name,
               l->bytes, exp(l->loss), l->percent, l->error,
               l->score.divergence, 100.0 * l->best, 100.0 * l->greedy);
        if (l->bound != NULL) {
            printf(" %6.1f %8.0e", l->bound->percent, l->bound->divergence);
        }
        printf("\n");
    }
}

static void print_json(const struct table *t)
{
    const struct score_plan *p = &t->plan;

    printf("{\"ids\": %u, \"window\": %u, \"context\": %u, \"formats\": [",
           t->lines[0].score.n, p->window, p->context);
    for (uint32_t i = 0; i < t->n; i++) {
        const struct line *l = &t->lines[i];

        printf("%s\n {\"format\": \"%s\", \"bytes_per_token\": %.9g, "
               "\"perplexity\": %.9g, \"percent\": %.6g, \"error\": %.6g, "
               "\"kl\": %.6g, \"best\": %.6g, \"greedy\": %.6g, "
               "\"bound\": %.6g, \"kl_bound\": %.6g, \"holds\": %s, "
               "\"decided\": %s}",
               i > 0 ? "," : "", l->name, l->bytes, exp(l->loss), l->percent,
               l->error, l->score.divergence, l->best, l->greedy,
               l->bound != NULL ? l->bound->percent : -1.0,
               l->bound != NULL ? l->bound->divergence : -1.0,
               l->holds ? "true" : "false", l->decided ? "true" : "false");
    }
    printf("]}\n");
}

/* Prints one line; returns whether every bound holds. */
static bool print_verdict(const struct table *t, bool quick, FILE *out)
{
    bool ok = true;
    uint32_t n = 0;

    fprintf(out, "verdict:");
    for (uint32_t i = 0; i < t->n; i++) {
        const struct line *l = &t->lines[i];

        if (l->bound == NULL) {
            continue;
        }
        fprintf(out, "%s %s %s %g %% of " BASE, n++ > 0 ? "," : "", l->name,
                !l->holds    ? "NOT WITHIN"
                : l->decided ? "within"
                             : "undecided at",
                l->bound->percent);
        ok = ok && l->holds && (l->decided || quick);
    }
    fprintf(out, "%s\n", n == 0 ? " no format with a bound" : "");
    return ok;
}

static int print_limits(void)
{
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        printf("%-16s %g %% of the perplexity of " BASE ", %g nats from it\n",
               bounds[i].format, bounds[i].percent, bounds[i].divergence);
    }
    printf("%-16s %d\n%-16s %d\n%-16s %d\n%-16s %d\n", "formats", FORMATS_MAX,
           "text bytes", TEXT_MAX - 1, "windows", SCORE_SIDE_BY_SIDE,
           "window ids, min", SCORE_WINDOW_MIN);
    return 0;
}

static int usage(void)
{
    fprintf(stderr,
            "usage: golden_perplexity [--device NAME] [--formats A,B,..] "
            "[--text FILE]\n"
            "                         [--window N] [--context N] "
            "[--threads N] [--quick]\n"
            "                         [--json] [--limits] MODEL_DIR\n");
    return 2;
}

static bool read_option(struct options *o, int c)
{
    switch (c) {
    case 'd':
        o->device = test_device_or(optarg);
        return true;
    case 'f':
        o->formats = optarg;
        return true;
    case 't':
        o->text = optarg;
        return true;
    case 'w':
        o->window = (uint32_t)strtoul(optarg, NULL, 10);
        return true;
    case 'c':
        o->context = (uint32_t)strtoul(optarg, NULL, 10);
        return true;
    case 'n':
        o->threads = (uint32_t)strtoul(optarg, NULL, 10);
        return true;
    case 'q':
        o->quick = true;
        return true;
    case 'j':
        o->json = true;
        return true;
    default:
        return false;
    }
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        {"device", required_argument, NULL, 'd'},
        {"formats", required_argument, NULL, 'f'},
        {"text", required_argument, NULL, 't'},
        {"window", required_argument, NULL, 'w'},
        {"context", required_argument, NULL, 'c'},
        {"threads", required_argument, NULL, 'n'},
        {"quick", no_argument, NULL, 'q'},
        {"json", no_argument, NULL, 'j'},
        {"limits", no_argument, NULL, 'l'},
        {NULL, 0, NULL, 0}};
    static struct table t;
    struct options o = {.device = "cpu", .context = CONTEXT};

    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (c == 'l') {
            return print_limits();
        }
        if (!read_option(&o, c)) {
            return usage();
        }
    }
    if (o.window == 0) {
        o.window = o.quick ? QUICK_WINDOW : WINDOW;
    }
    if (optind + 1 != argc || o.window < SCORE_WINDOW_MIN || o.context < 1 ||
        o.context >= o.window) {
        return usage();
    }
    o.dir = argv[optind];
    if (o.formats == NULL) {
        o.formats = o.quick ? QUICK_FORMATS : ALL_FORMATS;
    }
    score_all(&t, &o);
    for (uint32_t i = 0; i < t.n; i++) {
        compare_line(&t.lines[i], &t.lines[0], o.quick);
    }
    if (o.json) {
        print_json(&t);
    } else {
        print_table(&t, &o);
    }
    return print_verdict(&t, o.quick, o.json ? stderr : stdout) ? 0 : 1;
}
