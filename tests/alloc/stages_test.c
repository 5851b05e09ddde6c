/* stages_test - Engines with some of the layers do not allocate while they run.
 * Three of them run the embedded model and pass hidden states along. */
#include "tests/alloc/count.h"
#include "tests/golden/chain.h"
#include "tests/unit/cmocka.h"
#include "worker/model/shard.h"

#define MODEL  "models/tiny-hybrid"
#define STAGES 3
#define SEQS   3
#define PROMPT 50
#define WARM   5
#define STEPS  100
#define BLOCKS (SEQS * 16)

static struct {
    struct model_config config;
    struct shard *shards[STAGES];
    struct chain chain;
    struct chain_seq seqs[SEQS];
} the;

static void load(void)
{
    static const uint32_t cuts[STAGES + 1] = {0, 3, 4, 8};
    const struct shard_weights *weights[STAGES];
    struct kernels_options o = {.device = "cpu",
                                .kv.dtype = DTYPE_BF16,
                                .block_tokens = 16,
                                .max_tokens = 64,
                                .n_threads = 2};
    struct error e;

    assert_int_equal(config_load(&the.config, MODEL, &e), ST_OK);
    for (uint32_t i = 0; i < STAGES; i++) {
        assert_int_equal(shard_load(&the.shards[i], &the.config, MODEL, cuts[i],
                                    cuts[i + 1], NULL, &e),
                         ST_OK);
        weights[i] = shard_weights(the.shards[i]);
    }
    chain_open(&the.chain, weights, STAGES, &o, BLOCKS, SEQS, 0);
}

/* Runs one step of all sequences with their remaining tokens; the first plan
 * has several passes. */
static void step(void)
{
    uint32_t rows[SEQS];

    for (uint32_t i = 0; i < SEQS; i++) {
        const struct run_seq *s = &the.seqs[i].of[0];

        rows[i] = chain_add(&the.chain, &the.seqs[i], s->n_ids - s->n_done,
                            true, NULL);
    }
    chain_step(&the.chain);
    for (uint32_t i = 0; i < SEQS; i++) {
        chain_push(&the.chain, &the.seqs[i], chain_token(&the.chain, rows[i]));
    }
}

static void runs_without_allocating(void **state)
{
    uint32_t ids[PROMPT];

    (void)state;
    load();
    for (uint32_t i = 0; i < PROMPT; i++) {
        ids[i] = 10 + i;
    }
    for (uint32_t i = 0; i < SEQS; i++) {
        chain_start(&the.chain, &the.seqs[i], ids + i, PROMPT - i,
                    WARM + STEPS + 1);
    }
    alloc_as(ALLOC_TEST);
    for (uint32_t i = 0; i < WARM; i++) {
        step();
    }
    alloc_reset();
    for (uint32_t i = 0; i < STEPS; i++) {
        step();
    }
    assert_int_equal(alloc_count(ALLOC_THREADS), 0);
    assert_int_equal(alloc_count(ALLOC_TEST), 0);
    for (uint32_t i = 0; i < SEQS; i++) {
        chain_stop(&the.chain, &the.seqs[i]);
    }
    chain_close(&the.chain);
    for (uint32_t i = 0; i < STAGES; i++) {
        shard_free(&the.shards[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_without_allocating),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
