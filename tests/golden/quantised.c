/* golden_quantised - compares a quantised model with its own weights in
 * float32.
 *
 *     golden_quantised [--device NAME] [--portable] [--prompts N] [--steps N]
 *                      PROMPTS_DIR MODEL_DIR
 *
 * MODEL_DIR is quantised.  Its matrices are converted to float32 value by value
 * (widened.h).  The prompts of PROMPTS_DIR's golden.json run greedily
 * through both models on the cpu; the float32 one uses the kernels of any
 * float32 model.  Each token and every bit of each logit must be the same.
 *
 * With a device, the quantised model runs there: logits within LOGIT_OPERANDS,
 * and the same tokens.  A prompt ends at a step whose best two logits are
 * nearer than NEAR_TIE.
 *
 * Exit code: 0 if everything passes, 77 if there is no such device. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/opencl/host/device.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/stages.h"
#include "tests/golden/widened.h"
#include "worker/model/shard.h"

#define LOGIT_OPERANDS 0.2
#define NEAR_TIE       0.02
#define SKIPPED        77

struct trial {
    const char *device;
    bool portable;
    uint32_t prompts, steps;
    uint32_t n_wrong, n_ties;
    double most; /* largest difference of a logit */
};

/* Returns the best logit minus the second. */
static double margin(const float *l, uint32_t n)
{
    float best = -INFINITY, second = -INFINITY;

    for (uint32_t i = 0; i < n; i++) {
        if (l[i] > best) {
            second = best;
            best = l[i];
        } else if (l[i] > second) {
            second = l[i];
        }
    }
    return (double)best - (double)second;
}

static double largest(const float *a, const float *b, uint32_t n)
{
    double most = 0.0;

    for (uint32_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);

        most = d > most || d != d ? d : most;
    }
    return most;
}

static void compare(struct trial *t, const struct script_line *have,
                    const struct script_line *want, uint32_t vocab)
{
    bool cpu = strcmp(t->device, "cpu") == 0;

    for (uint32_t i = 0; i < want->steps; i++) {
        const float *a = have->logits + (size_t)i * vocab;
        const float *b = want->logits + (size_t)i * vocab;
        double d = largest(a, b, vocab);
        bool same =
            cpu ? memcmp(a, b, vocab * sizeof *a) == 0 : d <= LOGIT_OPERANDS;

        t->most = d > t->most || d != d ? d : t->most;
        t->n_wrong += !same;
        if (have->tokens[i] != want->tokens[i]) {
            bool tie = !cpu && margin(b, vocab) < NEAR_TIE;

            t->n_ties += tie;
            t->n_wrong += !tie;
            return;
        }
    }
}

static void pick(struct script *s, const struct trial *t,
                 const struct golden *g)
{
    memset(s, 0, sizeof *s);
    for (uint32_t i = 0; i < g->n && s->n < t->prompts; i++) {
        s->lines[s->n++] = (struct script_line){.ids = g->prompts[i].ids,
                                                .n_ids = g->prompts[i].n_ids,
                                                .steps = t->steps};
    }
}

static void run(struct trial *t, const struct golden *g,
                const struct shard_weights *w, const struct widened *p)
{
    struct script have, want;
    struct kernels_options o = {.device = t->device,
                                .portable = t->portable,
                                .kv.dtype = DTYPE_F32,
                                .block_tokens = 16};

    pick(&have, t, g);
    pick(&want, t, g);
    script_whole(&have, w, &o);
    o.device = "cpu";
    script_whole(&want, &p->w, &o);
    for (uint32_t i = 0; i < have.n; i++) {
        compare(t, &have.lines[i], &want.lines[i], w->shape.vocab);
    }
    printf("%u prompts of %u steps on %s, %u matrices quantised: %u wrong, %u "
           "ended at a tie; logits at most %.2g apart\n",
           have.n, t->steps, t->device, p->n_quantised, t->n_wrong, t->n_ties,
           t->most);
    script_free(&have);
    script_free(&want);
}

static int check(struct trial *t, const char *prompts, const char *dir)
{
    struct model_config config;
    struct golden golden;
    struct shard *shard = NULL;
    struct widened plain;
    struct error e;

    if (golden_load(&golden, prompts, &e) != ST_OK ||
        config_load(&config, dir, &e) != ST_OK ||
        shard_load(&shard, &config, dir, 0, config.shape.n_layers, NULL, &e) !=
            ST_OK) {
        fprintf(stderr, "golden_quantised: %s\n", e.text);
        return 1;
    }
    widened_new(&plain, shard_weights(shard));
    run(t, &golden, shard_weights(shard), &plain);
    t->n_wrong += plain.n_quantised == 0;
    widened_free(&plain);
    shard_free(&shard);
    golden_free(&golden);
    return t->n_wrong > 0;
}

static void skip_without_device(const char *name)
{
    struct opencl_device d;
    struct error e;

    if (strcmp(name, "cpu") != 0 && opencl_device_find(&d, name, &e) != ST_OK) {
        fprintf(stderr, "golden_quantised: skipped: %s\n", e.text);
        exit(SKIPPED);
    }
}

static int usage(void)
{
    fprintf(stderr, "usage: golden_quantised [--device NAME] [--portable] "
                    "[--prompts N] [--steps N] PROMPTS_DIR MODEL_DIR\n");
    return 2;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'},
        {"portable", no_argument, NULL, 'p'},
        {"prompts", required_argument, NULL, 'n'},
        {"steps", required_argument, NULL, 's'},
        {NULL, 0, NULL, 0},
    };
    struct trial t = {.device = "cpu", .prompts = 4, .steps = 12};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 'd':
            t.device = optarg;
            break;
        case 'p':
            t.portable = true;
            break;
        case 'n':
            t.prompts = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 's':
            t.steps = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        default:
            return usage();
        }
    }
    if (optind + 2 != argc || t.prompts < 1 || t.prompts > SCRIPT_LINES_MAX ||
        t.steps < 2) {
        return usage();
    }
    skip_without_device(t.device);
    return check(&t, argv[optind], argv[optind + 1]);
}
