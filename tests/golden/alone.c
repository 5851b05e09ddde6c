/* golden_alone - compares tests/kernels/reference.c itself with the reference
 * outputs of model directories.
 *
 *     golden_alone [--prompts N] [--steps N] MODEL_DIR...
 *
 * Configuration, files and weights are read as a worker reads them; no backend
 * computes.  Each prompt runs token by token, then the reference's tokens:
 * every choice equal, all logits within LOGIT, hidden states within HIDDEN of
 * the largest.
 *
 * The files are float32, from sums in another order.  A Gated DeltaNet computed
 * in chunks, as there, is the least exact: 3e-4 at one position.
 *
 * Exit code: 0 if all models pass. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/golden/golden_file.h"
#include "tests/kernels/reference.h"
#include "worker/model/shard.h"

#define LOGIT  1e-3
#define HIDDEN 1e-4

struct part {
    uint32_t prompts, steps;
};

struct check {
    struct reference r;
    double *x;      /* [H] */
    double *logits; /* [V] */
    double logit, hidden;
    uint32_t n_steps, n_wrong;
};

static void note(double *most, double d)
{
    *most = d > *most || d != d ? d : *most;
}

static void compare(struct check *c, const float *want)
{
    for (uint32_t i = 0; want != NULL && i < c->r.w->shape.vocab; i++) {
        note(&c->logit, fabs(c->logits[i] - (double)want[i]));
    }
}

/* Compares row `layer` of the hidden states, relative to its largest value. */
static void compare_hidden(struct check *c, const struct golden_prompt *p,
                           uint32_t layer)
{
    uint32_t h = c->r.w->shape.hidden;
    double top = 0.0, most = 0.0;

    for (uint32_t i = 0; p->hidden != NULL && i < h; i++) {
        double want = (double)p->hidden[(size_t)layer * h + i];

        note(&top, fabs(want));
        note(&most, fabs(c->x[i] - want));
    }
    note(&c->hidden, top > 0.0 ? most / top : most);
}

/* Runs a token; at the prompt's last one compares the hidden states. */
static void token(struct check *c, const struct golden_prompt *p, uint32_t id)
{
    struct reference *r = &c->r;
    bool last = r->position + 1 == p->n_ids;

    reference_embed(r, id, c->x);
    for (uint32_t i = 0; i < r->w->end; i++) {
        if (last) {
            compare_hidden(c, p, i);
        }
        if (mixer_attends(r->w->layers[i].kind)) {
            reference_attention(r, i, c->x);
        } else {
            reference_deltanet(r, i, c->x);
        }
        reference_ffn(r, i, c->x);
    }
    if (last) {
        compare_hidden(c, p, r->w->end);
    }
    reference_head(r, c->x, c->logits);
    r->position++;
}

static void compare_logits(struct check *c, const struct golden_prompt *p,
                           uint32_t position)
{
    size_t v = c->r.w->shape.vocab;

    if (position + 1 == p->n_ids) {
        compare(c, p->last);
    }
    if (p->all != NULL && position < p->n_ids) {
        compare(c, p->all + position * v);
    }
    for (uint32_t i = 0; i < p->n_tops; i++) {
        const struct golden_top *t = &p->tops[i];

        for (uint32_t j = 0; t->position == position && j < t->n; j++) {
            note(&c->logit, fabs(c->logits[t->ids[j]] - (double)t->logits[j]));
        }
    }
}

static uint32_t best(const struct check *c)
{
    uint32_t at = 0;

    for (uint32_t i = 1; i < c->r.w->shape.vocab; i++) {
        at = c->logits[i] > c->logits[at] ? i : at;
    }
    return at;
}

static void prompt(struct check *c, const struct shard_weights *w,
                   const struct golden_prompt *p, uint32_t steps)
{
    reference_new(&c->r, w, DTYPE_F32);
    for (uint32_t i = 0; i < p->n_ids; i++) {
        token(c, p, p->ids[i]);
        compare_logits(c, p, i);
    }
    for (uint32_t i = 0; i < steps && i < p->steps; i++) {
        if (best(c) != p->expect[i]) {
            printf("      %s step %u: %u for %u, margin %.4f: WRONG\n", p->name,
                   i, best(c), p->expect[i], p->margin[i]);
            c->n_wrong++;
        }
        c->n_steps++;
        token(c, p, p->expect[i]);
        compare_logits(c, p, p->n_ids + i);
    }
    reference_free(&c->r);
}

static bool run(const struct shard_weights *w, const struct golden *g,
                const struct part *part, const char *dir)
{
    struct check c = {.x = calloc(w->shape.hidden, sizeof *c.x),
                      .logits = calloc(w->shape.vocab, sizeof *c.logits)};
    bool ok;

    if (c.x == NULL || c.logits == NULL) {
        abort();
    }
    for (uint32_t i = 0; i < g->n && i < part->prompts; i++) {
        prompt(&c, w, &g->prompts[i], part->steps);
    }
    ok = c.n_wrong == 0 && c.n_steps > 0 && c.logit <= LOGIT &&
         c.hidden <= HIDDEN;
    printf("%s: %u steps, %u wrong; logits within %.2g, hidden states within "
           "%.2g of the largest: %s\n",
           dir, c.n_steps, c.n_wrong, c.logit, c.hidden, ok ? "ok" : "FAILED");
    free(c.logits);
    free(c.x);
    return ok;
}

static bool check_dir(const char *dir, const struct part *part)
{
    static struct golden g;
    static struct model_config config;
    struct shard *shard = NULL;
    struct error e;
    bool ok = false;

    if (golden_load(&g, dir, &e) == ST_OK &&
        config_load(&config, dir, &e) == ST_OK &&
        shard_load(&shard, &config, dir, 0, config.shape.n_layers, NULL, &e) ==
            ST_OK) {
        ok = run(shard_weights(shard), &g, part, dir);
    } else {
        fprintf(stderr, "golden_alone: %s: %s\n", dir, e.text);
    }
    shard_free(&shard);
    golden_free(&g);
    return ok;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"prompts", required_argument, NULL, 'n'},
        {"steps", required_argument, NULL, 's'},
        {NULL, 0, NULL, 0},
    };
    struct part part = {UINT32_MAX, UINT32_MAX};
    bool ok = true;

    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'n':
            part.prompts = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 's':
            part.steps = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        default:
            optind = argc;
        }
    }
    if (optind == argc) {
        fprintf(stderr, "usage: golden_alone [--prompts N] [--steps N] "
                        "MODEL_DIR...\n");
        return 2;
    }
    for (int i = optind; i < argc; i++) {
        ok = check_dir(argv[i], &part) && ok;
    }
    return !ok;
}
