/* golden_replica - compares models over replicas of 2, 3 and 4 stages, as whole
 * workers with core and engine, with one worker of all layers.
 *
 *     golden_replica [--prompts N] [--steps N] MODEL_DIR...
 *
 * Some prompts of each directory's golden.json are run in several ways:
 * greedily, sampled with and without penalties, continued from tokens made
 * elsewhere, and cancelled on the way.  Tokens and bits of logprobs must equal
 * those of the one worker, whichever microbatch a row was in.  Greedy tokens
 * must equal golden.json's.  Every stage must be empty at the end.
 *
 * Each replica runs once without and once with drafts: of the model's MTP layer
 * if it has one, else of the text.
 *
 * Exit code: 0 if everything passes. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/shard_engines.h"
#include "worker/model/shard.h"

#define KINDS   5
#define PROMPTS 5 /* by default */
#define STEPS   12
#define DRAFTS  4
#define KEEP    18 /* inputs of three rows with all drafts, and more */

/* Layers at which the stages after the first begin, by the model's number of
 * layers, as in stages_main.c. */
static const struct split {
    uint32_t n_layers, n_cuts, cuts[REPLICA_STAGES - 1];
} splits[] = {
    {8, 1, {4}},    {8, 2, {3, 4}},    {8, 3, {3, 4, 7}}, {5, 1, {2}},
    {5, 2, {1, 4}}, {5, 3, {1, 2, 3}}, {3, 1, {1}},       {4, 1, {3}},
    {4, 2, {1, 2}}, {7, 1, {5}},       {7, 2, {2, 6}},    {2, 1, {1}},
};

enum kind { GREEDY, DRAWN, PENALISED, MOVED, CANCELLED };

struct trial {
    const char *dir;
    uint32_t prompts, steps;
    struct golden golden;
    struct model_config config;
    uint32_t *moved[REPLICA_ASKS]; /* prompt and some of its tokens */
    uint32_t n_wrong, n_splits;
    uint64_t drafted, accepted; /* in all replicas */
};

static const struct golden_prompt *prompt(const struct trial *t, uint32_t i)
{
    return &t->golden.prompts[i * (t->golden.n - 1) / t->prompts];
}

static Sluice__V1__Sampling sampling(enum kind kind, uint32_t seed)
{
    Sluice__V1__Sampling s = SLUICE__V1__SAMPLING__INIT;

    s.has_seed = s.has_ignore_eos = s.ignore_eos = true;
    s.seed = seed;
    s.has_logprobs = s.logprobs = true;
    s.has_top_logprobs = true;
    s.top_logprobs = kind;
    s.has_temperature = true;
    s.temperature = 0;
    if (kind == DRAWN || kind == PENALISED) {
        s.temperature = 0.9f;
    }
    if (kind == PENALISED) {
        s.has_frequency_penalty = s.has_repetition_penalty = true;
        s.frequency_penalty = 0.4f;
        s.repetition_penalty = 1.2f;
    }
    return s;
}

static void ask(const struct trial *t, uint32_t i, struct replica_ask *out)
{
    const struct golden_prompt *p = prompt(t, i / KINDS);
    enum kind kind = (enum kind)(i % KINDS);

    *out = (struct replica_ask){.ids = t->moved[i],
                                .n_prompt = p->n_ids,
                                .n_generated = kind == MOVED ? t->steps / 2 : 0,
                                .max_tokens = t->steps,
                                .sampling = sampling(kind, i),
                                .cancel_at = kind == CANCELLED ? 3 : 0};
}

static void ids_of(struct trial *t, uint32_t i)
{
    const struct golden_prompt *p = prompt(t, i / KINDS);
    uint32_t *ids = malloc((p->n_ids + t->steps) * sizeof *ids);

    if (ids == NULL) {
        abort();
    }
    memcpy(ids, p->ids, p->n_ids * sizeof *ids);
    memcpy(ids + p->n_ids, p->expect, t->steps * sizeof *ids);
    t->moved[i] = ids;
}

static void load(struct shard **out, const struct trial *t, uint32_t begin,
                 uint32_t end)
{
    struct error e;

    if (shard_load(out, &t->config, t->dir, begin, end, NULL, &e) != ST_OK) {
        fprintf(stderr, "golden_replica: %s: %s\n", t->dir, e.text);
        exit(1);
    }
}

/* Steps are smaller than the requests: prompts run in chunks, rows in turns. */
static void run(struct trial *t, const struct split *split, uint32_t drafts,
                struct replica_ask *asks)
{
    struct kernels_options k = {.device = "cpu",
                                .kv.dtype = DTYPE_F32,
                                .keep_tokens = drafts > 0 ? KEEP : 0,
                                .block_tokens = 16,
                                .max_tokens = 100,
                                .max_rows = 4,
                                .max_logits = 2,
                                .n_threads = 1};
    struct replica_options o = {.block_tokens = 16,
                                .step_tokens = 100,
                                .chunk_tokens = 64,
                                .max_rows = 6,
                                .engine_depth = 1 + split->n_cuts % 2,
                                .at_once = 14,
                                .context = 512,
                                .room = REPLICA_ASKS,
                                .drafts = drafts,
                                .keep_tokens = drafts > 0 ? KEEP : 0};
    const struct shard_weights *weights[REPLICA_STAGES] = {NULL};
    struct shard *shards[REPLICA_STAGES];
    uint32_t n = split->n_cuts + 1;
    struct replica_stage stages[REPLICA_STAGES];
    struct shard_engines engines;
    struct replica *r;

    t->config.drafts = drafts > 0 && t->config.n_mtp == 1;
    for (uint32_t i = 0; i < n; i++) {
        load(&shards[i], t, i > 0 ? split->cuts[i - 1] : 0,
             i < split->n_cuts ? split->cuts[i] : split->n_layers);
        weights[i] = shard_weights(shards[i]);
    }
    for (uint32_t i = 0; i < t->prompts * KINDS; i++) {
        ask(t, i, &asks[i]);
    }
    shard_engines_open(&engines, weights, n, &k, &o, stages);
    r = replica_new(stages, n, &o);
    replica_run(r, asks, t->prompts * KINDS);
    t->drafted += replica_counts(r).drafted;
    t->accepted += replica_counts(r).accepted;
    replica_free(&r);
    shard_engines_close(&engines);
    for (uint32_t i = 0; i < n; i++) {
        shard_free(&shards[i]);
    }
}

static bool same_values(const struct replica_ask *a,
                        const struct replica_ask *b, uint32_t n)
{
    uint32_t top = a->sampling.top_logprobs;

    return memcmp(a->tokens, b->tokens, n * sizeof a->tokens[0]) == 0 &&
           memcmp(a->logprobs, b->logprobs,
                  (size_t)(n - a->n_generated) * (1 + top) *
                      sizeof a->logprobs[0]) == 0 &&
           memcmp(a->top_tokens, b->top_tokens,
                  (size_t)(n - a->n_generated) * top *
                      sizeof a->top_tokens[0]) == 0;
}

/* Compares results; how far a cancelled sequence came may vary. */
static bool same(const struct replica_ask *a, const struct replica_ask *b)
{
    if (a->cancel_at > 0) {
        uint32_t n = a->n < b->n ? a->n : b->n;

        return n >= a->cancel_at && a->receipt && b->receipt &&
               same_values(a, b, n);
    }
    return a->n == a->max_tokens && b->n == a->n && a->finish == b->finish &&
           a->n_logprobs == b->n_logprobs &&
           a->n_top_tokens == b->n_top_tokens && same_values(a, b, a->n);
}

static void compare(struct trial *t, const struct split *split, uint32_t drafts,
                    const struct replica_ask *whole,
                    const struct replica_ask *asks)
{
    uint32_t n = t->prompts * KINDS, n_wrong = 0;

    for (uint32_t i = 0; i < n; i++) {
        n_wrong += !same(&whole[i], &asks[i]);
    }
    printf("%s: %u stages, %u drafts: %u of %u sequences differ\n", t->dir,
           split->n_cuts + 1, drafts, n_wrong, n);
    t->n_wrong += n_wrong;
    t->n_splits++;
}

/* Checks the single worker's results. */
static void check_whole(struct trial *t, const struct replica_ask *whole)
{
    for (uint32_t i = 0; i < t->prompts * KINDS; i++) {
        const struct golden_prompt *p = prompt(t, i / KINDS);
        uint32_t kind = i % KINDS;

        if ((kind == GREEDY || kind == MOVED) &&
            memcmp(whole[i].tokens, p->expect,
                   t->steps * sizeof p->expect[0]) != 0) {
            printf("%s: %s: one worker chose other tokens\n", t->dir, p->name);
            t->n_wrong++;
        }
    }
}

static void run_splits(struct trial *t)
{
    static struct replica_ask whole[REPLICA_ASKS], asks[REPLICA_ASKS];
    struct split all = {.n_layers = t->config.shape.n_layers};

    run(t, &all, 0, whole);
    check_whole(t, whole);
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        for (uint32_t drafts = 0;
             splits[i].n_layers == all.n_layers && drafts <= DRAFTS;
             drafts += DRAFTS) {
            run(t, &splits[i], drafts, asks);
            compare(t, &splits[i], drafts, whole, asks);
        }
    }
    printf("%s: %llu of %llu drafts accepted\n", t->dir,
           (unsigned long long)t->accepted, (unsigned long long)t->drafted);
}

static bool check_dir(const char *dir, uint32_t prompts, uint32_t steps)
{
    static struct trial t;
    struct error e;

    memset(&t, 0, sizeof t);
    t.dir = dir;
    t.prompts = prompts;
    t.steps = steps;
    if (golden_load(&t.golden, dir, &e) != ST_OK ||
        config_load(&t.config, dir, &e) != ST_OK) {
        fprintf(stderr, "golden_replica: %s: %s\n", dir, e.text);
        return false;
    }
    for (uint32_t i = 0; i < prompts * KINDS; i++) {
        ids_of(&t, i);
    }
    run_splits(&t);
    for (uint32_t i = 0; i < prompts * KINDS; i++) {
        free(t.moved[i]);
    }
    golden_free(&t.golden);
    return t.n_wrong == 0 && t.n_splits > 0 &&
           (t.accepted > 0 || t.config.n_mtp != 1);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"prompts", required_argument, NULL, 'p'},
        {"steps", required_argument, NULL, 's'},
        {NULL, 0, NULL, 0}};
    uint32_t prompts = PROMPTS, steps = STEPS;
    bool ok = true;
    int o;

    while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (o == 'p') {
            prompts = (uint32_t)strtoul(optarg, NULL, 10);
        } else if (o == 's') {
            steps = (uint32_t)strtoul(optarg, NULL, 10);
        } else {
            optind = argc;
        }
    }
    if (optind >= argc || prompts < 1 || prompts * KINDS > REPLICA_ASKS ||
        steps < 4 || steps > REPLICA_TOKENS) {
        fprintf(stderr,
                "usage: golden_replica [--prompts N] [--steps N] "
                "MODEL_DIR...\n1 to %d prompts, 4 to %d steps\n",
                REPLICA_ASKS / KINDS, REPLICA_TOKENS);
        return 2;
    }
    log_setup(LOG_ERROR, NULL, NULL);
    for (int i = optind; i < argc; i++) {
        ok = check_dir(argv[i], prompts, steps) && ok;
    }
    return ok ? 0 : 1;
}
