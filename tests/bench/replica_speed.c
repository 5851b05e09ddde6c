/* replica_speed - measures a model on one worker, or on several stages.
 *
 *     replica_speed MODEL_DIR [--cuts A,B,..] [--threads N] [--sequences N]
 *                   [--prompt N] [--depth N] [--json]
 *
 * Whole workers are joined in memory, each with N compute threads; the stages
 * after the first begin at the layers A, B, ..  All sequences run at once, 64
 * tokens each.  Prints tokens/s, prompt tokens separately, and the processor
 * time of the whole run. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "common/base/log.h"
#include "tests/golden/shard_engines.h"
#include "worker/model/shard.h"

#define PROMPT_MAX 2048u

struct setup {
    uint32_t cuts[REPLICA_STAGES - 1], n_cuts;
    uint32_t threads, sequences, prompt, depth;
    bool json;
};

static double wall_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

static double processor_s(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return seconds(u.ru_utime) + seconds(u.ru_stime);
}

static void load(const char *dir, const struct setup *s, struct shard **shards,
                 const struct shard_weights **weights)
{
    struct model_config config;
    struct error e;

    if (config_load(&config, dir, &e) != ST_OK) {
        fprintf(stderr, "replica_speed: %s\n", e.text);
        exit(1);
    }
    for (uint32_t i = 0; i <= s->n_cuts; i++) {
        uint32_t begin = i > 0 ? s->cuts[i - 1] : 0;
        uint32_t end = i < s->n_cuts ? s->cuts[i] : config.shape.n_layers;

        if (shard_load(&shards[i], &config, dir, begin, end, NULL, &e) !=
            ST_OK) {
            fprintf(stderr, "replica_speed: %s\n", e.text);
            exit(1);
        }
        weights[i] = shard_weights(shards[i]);
    }
}

static void fill_asks(struct replica_ask *asks, const struct setup *s,
                      uint32_t max_tokens)
{
    static uint32_t ids[PROMPT_MAX];

    for (uint32_t i = 0; i < PROMPT_MAX; i++) {
        ids[i] = 10 + i * 7919u % 990u;
    }
    for (uint32_t i = 0; i < s->sequences; i++) {
        Sluice__V1__Sampling sampling = SLUICE__V1__SAMPLING__INIT;

        sampling.has_seed = sampling.has_temperature = true;
        sampling.has_ignore_eos = sampling.ignore_eos = true;
        asks[i] = (struct replica_ask){.ids = ids,
                                       .n_prompt = s->prompt,
                                       .max_tokens = max_tokens,
                                       .sampling = sampling};
    }
}

/* Runs one token each first: the prompts' time. */
static double run(const struct replica_stage *stages, const struct setup *s,
                  const struct replica_options *o, uint32_t max_tokens)
{
    static struct replica_ask asks[REPLICA_ASKS];
    struct replica *r = replica_new(stages, s->n_cuts + 1, o);
    double began;

    fill_asks(asks, s, max_tokens);
    began = wall_s();
    replica_run(r, asks, s->sequences);
    began = wall_s() - began;
    replica_free(&r);
    return began;
}

static void measure(const char *dir, const struct setup *s)
{
    struct kernels_options k = {.device = "cpu",
                                .kv.dtype = DTYPE_BF16,
                                .block_tokens = 32,
                                .max_tokens = 512,
                                .max_rows = 32,
                                .n_threads = s->threads};
    struct replica_options o = {.block_tokens = 32,
                                .step_tokens = 512,
                                .chunk_tokens = 512,
                                .max_rows = 32,
                                .engine_depth = s->depth,
                                .at_once = REPLICA_ASKS,
                                .context = PROMPT_MAX + REPLICA_TOKENS};
    const struct shard_weights *weights[REPLICA_STAGES] = {NULL};
    struct shard *shards[REPLICA_STAGES] = {NULL};
    static struct replica_stage stages[REPLICA_STAGES];
    struct shard_engines engines;
    double first, all, processor;

    load(dir, s, shards, weights);
    shard_engines_open(&engines, weights, s->n_cuts + 1, &k, &o, stages);
    first = run(stages, s, &o, 1);
    processor = processor_s();
    all = run(stages, s, &o, REPLICA_TOKENS);
    processor = processor_s() - processor;
    printf(s->json ? "{\"stages\": %u, \"threads\": %u, \"depth\": %u, "
                     "\"sequences\": %u, \"prompt\": %u, \"tokens\": %u, "
                     "\"prompts_s\": %.3f, \"tok_s\": %.2f, \"wall_s\": "
                     "%.3f, \"cpu_s\": %.3f}\n"
                   : "%u stages of %u threads, depth %u, %u sequences of "
                     "%u + %u: prompts %.2f s, %.1f tokens a second after "
                     "them; %.2f s of wall, %.2f s of processor time\n",
           s->n_cuts + 1, s->threads, s->depth, s->sequences, s->prompt,
           REPLICA_TOKENS, first,
           (double)s->sequences * (REPLICA_TOKENS - 1) / (all - first), all,
           processor);
    shard_engines_close(&engines);
    for (uint32_t i = 0; i <= s->n_cuts; i++) {
        shard_free(&shards[i]);
    }
}

static void read_cuts(struct setup *s, char *text)
{
    for (char *at = strtok(text, ","); at != NULL; at = strtok(NULL, ",")) {
        if (s->n_cuts < REPLICA_STAGES - 1) {
            s->cuts[s->n_cuts++] = (uint32_t)strtoul(at, NULL, 10);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"cuts", required_argument, NULL, 'c'},
        {"threads", required_argument, NULL, 't'},
        {"sequences", required_argument, NULL, 's'},
        {"prompt", required_argument, NULL, 'p'},
        {"depth", required_argument, NULL, 'd'},
        {"json", no_argument, NULL, 'j'},
        {NULL, 0, NULL, 0}};
    struct setup s = {.threads = 1, .sequences = 16, .prompt = 64, .depth = 1};
    int o;

    while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
        uint32_t value =
            optarg && o != 'c' ? (uint32_t)strtoul(optarg, NULL, 10) : 0;

        if (o == 'c') {
            read_cuts(&s, optarg);
        }
        s.threads = o == 't' ? value : s.threads;
        s.sequences = o == 's' ? value : s.sequences;
        s.prompt = o == 'p' ? value : s.prompt;
        s.depth = o == 'd' ? value : s.depth;
        s.json = s.json || o == 'j';
    }
    if (optind + 1 != argc || s.sequences < 1 || s.sequences > REPLICA_ASKS ||
        s.prompt < 1 || s.prompt > PROMPT_MAX || s.depth < 1 ||
        s.depth > ENGINE_DEPTH_MAX) {
        fprintf(stderr,
                "replica_speed: MODEL_DIR; 1 to %d sequences of 1 to "
                "%u tokens\n",
                REPLICA_ASKS, PROMPT_MAX);
        return 2;
    }
    log_setup(LOG_ERROR, NULL, NULL);
    measure(argv[optind], &s);
    return 0;
}
