/* golden_cached - compares whole workers that reuse what they have computed
 * with cold runs, bit for bit.
 *
 *     golden_cached [--device NAME] [--kv FORMAT,..] [--steps N] [--drafts K]
 *                   [--int8] MODEL_DIR...
 *
 * The sequences of tales.h are run again, branched, as choices of one request,
 * continued, cut and continued, moved with a part of their tokens, in a pool so
 * small that nothing stays long, alone and with a host tier, and in one that
 * sequences outgrow.  On the cpu
 * that is done with 1 to 3 stages, with the rules of one arithmetic and with
 * those of two.  On a device there is one stage.
 *
 * With --kv the cache has these formats (kv_names.h), not the float32 of the
 * cpu or the model's own dtype.  Each format runs over a number of stages and
 * with a rule in turn.
 *
 * With --drafts the runs that reuse get up to K drafts a step, the cold ones
 * none.  Each number of stages has one of the rules.
 *
 * With --int8 products of quantised weights are integer ones.
 *
 * Exit code: 0 if tokens and logprobs are equal, 77 if there is no such
 * device. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/model/sizes.h"
#include "tests/golden/kv_names.h"
#include "tests/golden/shard_engines.h"
#include "tests/golden/tales.h"
#include "tests/kernels/test_device.h"
#include "worker/model/shard.h"

#define CHUNK     64
#define STEPS     6
#define STEPS_MAX 20
#define KEEP_MS   600000
#define LARGE     12 /* sequences for which a pool has room */
#define SMALL     2
#define AT_ONCE   8   /* sequences that grow in one pool */
#define HOST      300 /* pages of the host tier, in turns */
#define KEEP      20  /* inputs of two rows with all drafts, and more */

/* Layers at which the stages after the first begin, by the model's number of
 * layers.  Some stages have layers of one kind only. */
static const struct split {
    uint32_t n_layers, n_cuts, cuts[REPLICA_STAGES - 1];
} splits[] = {{8, 1, {4}},    {8, 2, {3, 4}}, {5, 1, {2}}, {5, 2, {1, 4}},
              {4, 2, {1, 2}}, {7, 2, {2, 6}}, {3, 1, {1}}};

struct trial {
    const char *dir, *device, *list; /* list: of formats, or NULL */
    struct model_config config;
    struct kv_format kv;
    enum kernels_products products;
    struct tales tales;
    uint32_t drafts; /* of a row where something may be reused; 0: none */
    uint32_t k;      /* of a row of the replica */
    uint32_t n_wrong, n_compared;
    uint64_t n_moves;

    /* The replica under test. */
    struct shard *shards[REPLICA_STAGES];
    struct shard_engines engines;
    uint32_t n_stages;
    bool one_arithmetic, has_slots, has_windows;
    bool reuses; /* workers of several stages reuse no windows */
    uint64_t n_swapped, n_recomputed; /* sequences that came back */
    uint64_t n_from_host;             /* positions that did */
    uint64_t n_drafted, n_accepted;
    struct replica *replica;
};

/* ---- a replica ---- */

static void load(struct shard **out, const struct trial *t, uint32_t begin,
                 uint32_t end)
{
    struct error e;

    if (shard_load(out, &t->config, t->dir, begin, end, NULL, &e) != ST_OK) {
        fprintf(stderr, "golden_cached: %s: %s\n", t->dir, e.text);
        exit(1);
    }
}

/* Steps are smaller than the requests on the cpu: prompts run in chunks, and
 * rows in turns. */
static void open_engines(struct trial *t, const struct split *split,
                         const struct replica_options *o,
                         struct replica_stage *stages)
{
    bool cpu = strcmp(t->device, "cpu") == 0;
    struct kernels_options k = {.device = t->device,
                                .kv = t->kv,
                                .block_tokens = o->block_tokens,
                                .max_tokens = cpu ? 100 : 0,
                                .max_rows = cpu ? 4 : 0,
                                .max_logits = cpu ? 2 : 0,
                                .keep_tokens = o->keep_tokens,
                                .n_threads = cpu ? 1 : 0,
                                .products = t->products};
    const struct shard_weights *weights[REPLICA_STAGES];

    t->n_stages = split->n_cuts + 1;
    for (uint32_t i = 0; i < t->n_stages; i++) {
        load(&t->shards[i], t, i > 0 ? split->cuts[i - 1] : 0,
             i < split->n_cuts ? split->cuts[i] : split->n_layers);
        weights[i] = shard_weights(t->shards[i]);
    }
    shard_engines_open(&t->engines, weights, t->n_stages, &k, o, stages);
}

static void set_drafts(struct trial *t, uint32_t k)
{
    t->k = k;
    t->config.drafts = k > 0 && t->config.n_mtp == 1;
}

static void open_with(struct trial *t, const struct split *split,
                      const struct replica_options *options,
                      bool one_arithmetic)
{
    struct replica_stage stages[REPLICA_STAGES];
    struct replica_options with = *options, *o = &with;

    with.drafts = t->k;
    with.keep_tokens = t->k > 0 ? KEEP : 0;
    open_engines(t, split, o, stages);
    t->one_arithmetic = one_arithmetic && stages[0].one_arithmetic;
    t->has_slots = false;
    t->has_windows = t->config.shape.window > 0;
    t->reuses = !t->has_windows || t->n_stages == 1;
    for (uint32_t i = 0; i < t->n_stages; i++) {
        stages[i].one_arithmetic = t->one_arithmetic;
        t->has_slots = t->has_slots || stages[i].has_slots;
    }
    t->replica = replica_new(stages, t->n_stages, o);
}

static void replica_open(struct trial *t, const struct split *split,
                         uint32_t room, uint32_t host_pages,
                         bool one_arithmetic)
{
    struct replica_options o = {.block_tokens =
                                    strcmp(t->device, "cpu") == 0 ? 16 : 32,
                                .step_tokens = 100,
                                .chunk_tokens = CHUNK,
                                .max_rows = 6,
                                .engine_depth = 1 + split->n_cuts % 2,
                                .at_once = room,
                                .context = TALES_CONTEXT,
                                .room = room,
                                .host_pages = host_pages};

    open_with(t, split, &o, one_arithmetic);
}

static void replica_close(struct trial *t)
{
    struct replica_counts c = replica_counts(t->replica);

    t->n_drafted += c.drafted;
    t->n_accepted += c.accepted;
    replica_free(&t->replica);
    shard_engines_close(&t->engines);
    for (uint32_t i = 0; i < t->n_stages; i++) {
        shard_free(&t->shards[i]);
    }
}

/* ---- runs ---- */

static void fault(struct trial *t, const char *way, const char *what)
{
    char kv[KV_NAME_MAX];

    printf("%s, kv %s, %u stages, %s arithmetic, %s: %s\n", t->dir,
           kv_format_name(&t->kv, kv), t->n_stages,
           t->one_arithmetic ? "one" : "two", way, what);
    t->n_wrong++;
}

static void run(struct trial *t, const char *way, const enum tale *of,
                struct replica_ask *asks, uint32_t n)
{
    replica_run(t->replica, asks, n);
    for (uint32_t i = 0; i < n; i++) {
        t->n_compared++;
        if (!tales_same(&t->tales, of[i], &asks[i])) {
            fault(t, way, tales_name(of[i]));
        }
    }
}

/* Runs tales [first, end); those of one request as its choices. */
static void run_all(struct trial *t, const char *way, enum tale first,
                    enum tale end)
{
    static struct replica_ask asks[REPLICA_ASKS];
    enum tale of[REPLICA_ASKS];
    uint32_t n = 0;

    for (enum tale i = first; i < end; i++, n++) {
        of[n] = i;
        tales_ask(&t->tales, i, &asks[n]);
        if (asks[n].choice > 0) {
            asks[n].first = &asks[n - asks[n].choice];
        }
    }
    run(t, way, of, asks, n);
}

/* Runs a tale, which goes on from `from` unless that is NULL, and keeps it. */
static void run_kept(struct trial *t, const char *way, enum tale i,
                     struct replica_ask *from, struct replica_ask *out)
{
    tales_ask(&t->tales, i, out);
    out->from = from;
    out->keep_ms = KEEP_MS;
    run(t, way, &i, out, 1);
}

static void run_from(struct trial *t, const char *way, enum tale i,
                     struct replica_ask *from, bool with_spans)
{
    struct replica_ask a;

    tales_ask(&t->tales, i, &a);
    a.from = from;
    a.n_spans = with_spans ? a.n_spans : 0;
    run(t, way, &i, &a, 1);
}

/* ---- ways of reuse, in a large pool ---- */

static void warm(struct trial *t)
{
    struct replica_counts c;
    /* Whole units below the last ids of A0 to A3. */
    uint64_t least = 128 + 192 + 64 + 64;

    run_all(t, "at first", TALE_A0, TALE_B0);
    c = replica_counts(t->replica);
    run_all(t, "again", TALE_A0, TALE_B0);
    if (t->reuses && replica_counts(t->replica).reused < c.reused + least) {
        fault(t, "again", "too little was reused");
    }
    /* Branches that are computed at once may find each other too late for a
     * state where they part; then the second run saves it. */
    run_all(t, "branches", TALE_B0, TALE_T0);
    run_all(t, "branches again", TALE_B0, TALE_T0);
    c = replica_counts(t->replica);
    run_all(t, "branches once more", TALE_B0, TALE_T0);
    if (t->reuses && replica_counts(t->replica).reused < c.reused + 128 + 64) {
        fault(t, "branches once more", "too little was reused");
    }
}

static void choices(struct trial *t)
{
    uint64_t n = replica_counts(t->replica).twins;

    run_all(t, "choices", TALE_T0, TALE_U0);
    run_all(t, "choices of a known prompt", TALE_U0, TALE_C0);
    if (t->reuses && replica_counts(t->replica).twins != n + 4) {
        fault(t, "choices", "a choice had no twin row");
    }
}

static void continued(struct trial *t)
{
    static struct replica_ask a, c;
    uint64_t n = replica_counts(t->replica).continued;

    run_kept(t, "kept", TALE_A0, NULL, &a);
    run_kept(t, "continued", TALE_C0, &a, &c);
    run_from(t, "continued twice", TALE_C1, &c, false);
    if (replica_counts(t->replica).continued != n + 2) {
        fault(t, "continued", "nothing was taken over");
    }
}

/* Two halves of a run: tales.c compares the cold ones with the whole. */
static void halves(struct trial *t)
{
    static struct replica_ask g;
    uint64_t n = replica_counts(t->replica).continued;

    run_kept(t, "kept", TALE_G0, NULL, &g);
    run_from(t, "second half", TALE_G1, &g, true);
    if (replica_counts(t->replica).continued != n + 1) {
        fault(t, "second half", "nothing was taken over");
    }
}

static void continued_by_choices(struct trial *t)
{
    static struct replica_ask a, e[2];
    const enum tale of[] = {TALE_E0, TALE_E1};

    run_kept(t, "kept", TALE_A0, NULL, &a);
    for (uint32_t i = 0; i < 2; i++) {
        tales_ask(&t->tales, of[i], &e[i]);
        e[i].from = &a;
        e[i].first = i > 0 ? &e[0] : NULL;
    }
    run(t, "continued by choices", of, e, 2);
}

static void cut(struct trial *t, enum tale i, uint32_t begin, uint32_t expected)
{
    static struct replica_ask a;

    run_kept(t, "kept", TALE_A0, NULL, &a);
    if (replica_cut(t->replica, &a, begin) != expected) {
        fault(t, "cut", "it went back to another position");
    }
    run_from(t, "cut and continued", i, &a, i == TALE_D1);
}

/* Generated positions have a checkpoint only with one arithmetic.  What the
 * window of D0's first position had is gone when A0 ends. */
static void cuts(struct trial *t)
{
    uint32_t d0 = t->has_slots ? 128 : TALE_CUT_D0;

    cut(t, TALE_D0, TALE_CUT_D0, t->has_windows ? 0 : d0);
    cut(t, TALE_D1, TALE_CUT_D1,
        t->has_slots && !t->one_arithmetic ? 128 : TALE_CUT_D1);
}

static void in_large_pool(struct trial *t, const struct split *split,
                          bool one_arithmetic)
{
    replica_open(t, split, LARGE, 0, one_arithmetic);
    warm(t);
    choices(t);
    continued(t);
    continued_by_choices(t);
    cuts(t);
    halves(t);
    replica_close(t);
}

/* ---- moved, and in a small pool ---- */

/* Runs tales after a half of their tokens. */
static void moved(struct trial *t, enum tale first, enum tale end)
{
    static struct replica_ask asks[TALES];
    static uint32_t ids[TALES][TALES_CONTEXT];
    enum tale of[TALES];
    uint32_t k = 0, n = t->tales.steps / 2;

    for (enum tale i = first; i < end; i++, k++) {
        const struct replica_ask *cold = &t->tales.cold[i];

        of[k] = i;
        tales_ask(&t->tales, i, &asks[k]);
        memcpy(ids[k], cold->ids, cold->n_prompt * sizeof *ids[k]);
        memcpy(ids[k] + cold->n_prompt, cold->tokens, n * sizeof *ids[k]);
        asks[k].ids = ids[k];
        asks[k].n_generated = n;
    }
    run(t, "moved", of, asks, k);
}

static void in_small_pool(struct trial *t, const struct split *split,
                          bool one_arithmetic)
{
    struct replica_counts c;

    replica_open(t, split, SMALL, 0, one_arithmetic);
    moved(t, TALE_C0, TALES);
    run_all(t, "small pool", TALE_A0, TALE_U0);
    continued(t);
    c = replica_counts(t->replica);
    if (t->reuses &&
        (c.evicted == 0 || (t->has_slots && c.checkpoints_evicted == 0))) {
        fault(t, "small pool", "nothing was evicted");
    }
    t->n_moves += c.moved;
    replica_close(t);
}

/* What is evicted comes back from the host tier. */
static void with_host_tier(struct trial *t, const struct split *split,
                           bool one_arithmetic)
{
    if (split->n_cuts > 0) {
        return;
    }
    replica_open(t, split, SMALL, HOST, one_arithmetic);
    moved(t, TALE_C0, TALES);
    run_all(t, "host tier", TALE_A0, TALE_U0);
    run_all(t, "host tier again", TALE_A0, TALE_U0);
    t->n_from_host += replica_counts(t->replica).from_host;
    replica_close(t);
}

/* ---- in a pool that they outgrow ---- */

static uint32_t blocks_of(uint32_t n_tokens, uint32_t block_tokens)
{
    return (n_tokens + block_tokens - 1) / block_tokens;
}

/* Returns the pages that the ids of a sequence, and a token, need. */
static uint32_t pages_of(const struct trial *t, uint32_t n_prompt, uint32_t bt,
                         uint32_t chunk)
{
    struct sizes z =
        sizes_of(&t->config, 0, t->config.shape.n_layers, bt, &t->kv);

    return blocks_of(n_prompt + 1, bt) + z.pages_per_slot +
           z.window_pages * sizes_window_blocks(t->config.shape.window, chunk,
                                                bt, n_prompt + 1);
}

/* The first two fit with the pages of their ids and at most one more: one of
 * them suspends the other. */
static void in_tight_pool(struct trial *t, const struct split *split,
                          bool one_arithmetic, uint32_t i)
{
    uint32_t bt = strcmp(t->device, "cpu") == 0 ? 4 : 16;
    uint32_t n = pages_of(t, t->tales.cold[TALE_A0].n_prompt, bt, CHUNK) +
                 pages_of(t, t->tales.cold[TALE_A1].n_prompt, bt, CHUNK);
    struct replica_options o = {.block_tokens = bt,
                                .step_tokens = 100,
                                .chunk_tokens = CHUNK,
                                .max_rows = 6,
                                .engine_depth = 1 + i % 2,
                                .at_once = AT_ONCE,
                                .context = TALES_CONTEXT,
                                .room = AT_ONCE,
                                .pages = n + i % 2,
                                .host_pages = i < 2 ? HOST : 0};
    struct replica_counts c;

    open_with(t, split, &o, one_arithmetic);
    run_all(t, "outgrown pool", TALE_A0, TALE_C0);
    c = replica_counts(t->replica);
    t->n_swapped += c.resumed_swap;
    t->n_recomputed += c.resumed_recompute;
    replica_close(t);
}

static void in_tight_pools(struct trial *t, const struct split *split,
                           bool one_arithmetic)
{
    for (uint32_t i = 0; i < 4 && split->n_cuts == 0; i++) {
        in_tight_pool(t, split, one_arithmetic, i);
    }
}

/* ---- a directory ---- */

static void run_split(struct trial *t, const struct split *split,
                      bool one_arithmetic)
{
    in_large_pool(t, split, one_arithmetic);
    in_small_pool(t, split, one_arithmetic);
    with_host_tier(t, split, one_arithmetic);
    in_tight_pools(t, split, one_arithmetic);
}

static void run_cold(struct trial *t, const struct split *all)
{
    set_drafts(t, 0);
    replica_open(t, all, SMALL, 0, true);
    tales_run_cold(&t->tales, t->replica, t->config.shape.vocab);
    replica_close(t);
    set_drafts(t, t->drafts);
}

/* Runs one of the splits, the whole among them, with one of the rules. */
static void run_turn(struct trial *t, uint32_t turn)
{
    struct split all = {.n_layers = t->config.shape.n_layers};
    const struct split *of[1 + sizeof splits / sizeof *splits] = {&all};
    uint32_t n = 1;

    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        if (splits[i].n_layers == all.n_layers) {
            of[n++] = &splits[i];
        }
    }
    run_cold(t, &all);
    if (strcmp(t->device, "cpu") != 0) {
        run_split(t, &all, false);
    } else {
        run_split(t, of[(turn + 1) % n], turn % 2 == 0);
    }
}

static void run_splits(struct trial *t)
{
    struct split all = {.n_layers = t->config.shape.n_layers};

    run_cold(t, &all);
    run_split(t, &all, false);
    if (strcmp(t->device, "cpu") != 0) {
        return;
    }
    if (t->drafts == 0) {
        run_split(t, &all, true);
    }
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        bool has = splits[i].n_layers == all.n_layers;

        if (has && (t->drafts == 0 || i % 2 == 1)) {
            run_split(t, &splits[i], false);
        }
        if (has && (t->drafts == 0 || i % 2 == 0)) {
            run_split(t, &splits[i], true);
        }
    }
}

static void run_formats(struct trial *t)
{
    bool cpu = strcmp(t->device, "cpu") == 0;
    struct kv_names kv;

    if (t->list == NULL) {
        t->kv = kv_format_plain(cpu ? DTYPE_F32 : t->config.shape.dtype);
        run_splits(t);
        return;
    }
    kv_names_list(&kv, t->list, &t->config);
    for (uint32_t i = 0; i < kv.n; i++) {
        t->kv = kv.of[i];
        run_turn(t, i);
    }
}

static bool check_dir(struct trial *t)
{
    struct error e;

    t->n_wrong = t->n_compared = 0;
    t->n_moves = t->n_swapped = t->n_recomputed = t->n_from_host = 0;
    t->n_drafted = t->n_accepted = 0;
    if (config_load(&t->config, t->dir, &e) != ST_OK) {
        fprintf(stderr, "golden_cached: %s: %s\n", t->dir, e.text);
        return false;
    }
    run_formats(t);
    if (t->has_slots && t->n_moves == 0 && t->list == NULL &&
        strcmp(t->device, "cpu") == 0) {
        fault(t, "small pool", "no block was moved");
    }
    if (t->list == NULL && (t->n_swapped == 0 || t->n_recomputed == 0)) {
        fault(t, "outgrown pool", "nothing was suspended");
    }
    if (t->list == NULL && t->n_from_host == 0 &&
        strcmp(t->device, "cpu") == 0) {
        fault(t, "host tier", "nothing came back");
    }
    if (t->drafts > 0 && t->config.n_mtp == 1 &&
        (t->n_accepted == 0 || t->n_accepted == t->n_drafted)) {
        fault(t, "drafts", "all were accepted, or none");
    }
    printf("%s: %u faults in %u sequences, %llu blocks moved, %llu sequences "
           "swapped and %llu recomputed, %llu positions from the host tier, "
           "%llu of %llu drafts accepted\n",
           t->dir, t->n_wrong, t->n_compared, (unsigned long long)t->n_moves,
           (unsigned long long)t->n_swapped,
           (unsigned long long)t->n_recomputed,
           (unsigned long long)t->n_from_host,
           (unsigned long long)t->n_accepted, (unsigned long long)t->n_drafted);
    return t->n_wrong == 0 && t->n_compared > 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'},
        {"steps", required_argument, NULL, 's'},
        {"drafts", required_argument, NULL, 'D'},
        {"kv", required_argument, NULL, 'k'},
        {"int8", no_argument, NULL, '8'},
        {NULL, 0, NULL, 0}};
    static struct trial t = {.device = "cpu", .tales.steps = STEPS};
    bool ok = true;
    int o;

    while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (o == 'd') {
            t.device = test_device_or(optarg);
        } else if (o == '8') {
            t.products = PRODUCTS_INT8;
        } else if (o == 'k') {
            t.list = optarg;
        } else if (o == 'D') {
            t.drafts = (uint32_t)strtoul(optarg, NULL, 10);
        } else if (o == 's') {
            t.tales.steps = (uint32_t)strtoul(optarg, NULL, 10);
        } else {
            optind = argc;
        }
    }
    if (optind >= argc || t.tales.steps < 6 || t.tales.steps > STEPS_MAX ||
        t.drafts > DRAFTS_MAX) {
        fprintf(stderr,
                "usage: golden_cached [--device NAME] [--kv FORMAT,..] "
                "[--steps 6..%d] [--drafts 0..%d] [--int8] MODEL_DIR...\n",
                STEPS_MAX, DRAFTS_MAX);
        return 2;
    }
    log_setup(LOG_ERROR, NULL, NULL);
    for (int i = optind; i < argc; i++) {
        t.dir = argv[i];
        ok = check_dir(&t) && ok;
    }
    return ok ? 0 : 1;
}
