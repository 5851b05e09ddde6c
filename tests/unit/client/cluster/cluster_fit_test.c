/* Workers compared with models/tiny-hybrid: 8 layers, context 4096. */
#include "client/cluster/cluster_fit.h"

#include "tests/unit/client/cluster/parsed.h"

#define MODEL "models: {m: {path: /srv/m, here: models/tiny-hybrid}}\n"

static const struct fit_where here = {".", false};

static void check(const char *models, const char *workers, const char *memory)
{
    char all[4096];

    snprintf(all, sizeof all,
             "cluster: c\nhosts: {a: {address: 127.0.0.1%s}}\n%s"
             "router: {host: a}\nworkers:\n%s",
             memory, models, workers);
    parsed(all);
    assert_no_fault();
    cluster_fit_check(&layout, &here, &faults, &notes);
}

/* Asserts one fault whose text begins so. */
static void one_of(const char *models, const char *workers, unsigned line,
                   const char *begin)
{
    check(models, workers, "");
    assert_int_equal(faults.n, 1);
    assert_int_equal(faults.item[0].at.line, line);
    if (strncmp(faults.item[0].text, begin, strlen(begin)) != 0) {
        fail_msg("\"%s\" does not begin with \"%s\"", faults.item[0].text,
                 begin);
    }
    parsed_free();
}

static void one(const char *workers, unsigned line, const char *begin)
{
    one_of(MODEL, workers, line, begin);
}

static void valid(const char *workers)
{
    check(MODEL, workers, "");
    assert_no_fault();
    assert_int_equal(notes.n, 0);
    parsed_free();
}

static void a_worker_must_hold_its_model(void **state)
{
    (void)state;
    valid("  - {name: w, host: a, model: m, memory: 300MiB}\n");
    valid("  - {name: w, host: a, model: m}\n");
    one("  - {name: w, host: a, model: m, memory: 30MiB}\n", 6,
        "model m on worker w: layers 0-8 need ");
}

static void a_replica_must_hold_its_model(void **state)
{
    (void)state;
    valid("  - {name: w, host: a, model: m, memory: 60MiB, stages: 2}\n"
          "  - {name: v, host: a, model: m, memory: 60MiB, stages: 2}\n");
    one("  - {name: w, host: a, model: m, memory: 12MiB, stages: 2}\n"
        "  - {name: v, host: a, model: m, memory: 60MiB, stages: 2}\n",
        6, "model m in 2 stages: ");
}

static void fixed_layers_must_fit(void **state)
{
    (void)state;
    valid("  - {name: w, host: a, model: m, memory: 60MiB, layers: 0-4}\n"
          "  - {name: v, host: a, model: m, memory: 60MiB, layers: 4-8}\n");
    one("  - {name: w, host: a, model: m, memory: 12MiB, layers: 0-4}\n"
        "  - {name: v, host: a, model: m, memory: 60MiB, layers: 4-8}\n",
        6, "worker w, layers 0-4 of m: ");
    one("  - {name: w, host: a, model: m, layers: 0-7}\n", 6,
        "layers 0-7: model m has 8 layers, and no worker has layer 7 and those "
        "after it");
    one("  - {name: w, host: a, model: m, layers: 0-9}\n", 6,
        "layers 0-9: model m has 8 layers; the last part ends at 8");
}

/* One sequence of 4096 tokens: 9.56 MiB with its slot in bf16, 6.6 MiB with 8
 * bits and scales in float32. */
static void a_quantised_cache_counts_its_bytes(void **state)
{
    (void)state;
    one("  - {name: w, host: a, model: m, memory: 32MiB}\n", 6,
        "model m on worker w: layers 0-8 need 34.11 MiB");
    valid("  - {name: w, host: a, model: m, memory: 32MiB, "
          "options: {kv_bits: 8, kv_dtype: f32, kv_group: 32}}\n");
    valid("  - {name: w, host: a, model: m, memory: 30MiB, "
          "options: {kv_scheme: turboquant}}\n");
    one("  - {name: w, host: a, model: m, memory: 30MiB, "
        "options: {kv_bits: 8, kv_dtype: f32, kv_group: 32}}\n",
        6, "model m on worker w: layers 0-8 need 31.15 MiB");
}

/* The MTP layer takes 2.0 MiB, blocks of one sequence 4 MiB, and inputs 2.6
 * MiB for 2 tokens of 64 rows. */
static void drafts_count(void **state)
{
    (void)state;
    one("  - {name: w, host: a, model: m, memory: 40MiB, options: {drafts: "
        "1}}\n",
        6, "model m on worker w: layers 0-8 need 44.69 MiB (");
    valid("  - {name: w, host: a, model: m, memory: 48MiB, "
          "options: {drafts: 1}}\n");
    one("  - {name: w, host: a, model: m, memory: 48MiB, "
        "options: {drafts: auto}}\n",
        6, "model m on worker w: layers 0-8 need 55.27 MiB (");
    valid("  - {name: w, host: a, model: m, memory: 48MiB, "
          "options: {drafts: auto, drafter: ngram}}\n");
    one("  - {name: w, host: a, model: m, memory: 25MiB, layers: 0-4}\n"
        "  - {name: v, host: a, model: m, memory: 25MiB, layers: 4-8, "
        "options: {drafts: 1}}\n",
        7, "worker v, layers 4-8 of m: ");
    one("  - {name: w, host: a, model: m, memory: 23MiB, stages: 2, "
        "options: {drafts: 1}}\n"
        "  - {name: v, host: a, model: m, memory: 23MiB, stages: 2, "
        "options: {drafts: 1}}\n",
        6, "model m in 2 stages: ");
    valid("  - {name: w, host: a, model: m, memory: 23MiB, stages: 2}\n"
          "  - {name: v, host: a, model: m, memory: 23MiB, stages: 2}\n");
}

/* With chunks of 32 tokens a sequence has 4 window blocks of 24 KiB in place of
 * 11. */
static void window_blocks_count(void **state)
{
    static const char models[] =
        "models: {m: {path: /srv/m, here: tests/vectors/models/tiny-gemma3}}\n";

    (void)state;
    check(models,
          "  - {name: w, host: a, model: m, memory: 3400000, "
          "options: {chunk_tokens: 32}}\n",
          "");
    assert_no_fault();
    parsed_free();
    one_of(models, "  - {name: w, host: a, model: m, memory: 3400000}\n", 6,
           "model m on worker w: layers 0-7 need 3.32 MiB (");
    one_of(models,
           "  - {name: w, host: a, model: m, memory: 3400000, layers: 0-7}\n",
           6, "worker w, layers 0-7 of m: the memory budget of ");
}

static void formats_are_valid_and_agree(void **state)
{
    (void)state;
    one("  - {name: w, host: a, model: m, options: {kv_bits: 5}}\n", 6,
        "worker w: --kv-bits 5: affine values have 4 or 8 bits; give 4 or 8, "
        "or --kv-scheme turboquant for 2 to 4");
    valid("  - {name: w, host: a, model: m, options: {kv_bits: 8}}\n"
          "  - {name: v, host: a, model: m, options: {kv_scheme: affine}}\n");
    one("  - {name: w, host: a, model: m, options: {kv_bits: 8}}\n"
        "  - {name: v, host: a, model: m}\n",
        7,
        "worker v: its KV cache is bf16, but that of worker w of the same "
        "model is affine8/64+bf16; give all workers of a model the same kv_* "
        "options");
}

static void workers_share_the_memory_of_a_host(void **state)
{
    (void)state;
    check(MODEL, "  - {name: w, host: a, model: m, memory: 300MiB, count: 4}\n",
          ", memory: 1GiB");
    assert_fault(0, 2, 41,
                 "host a has 1.0 GiB, but its workers' memory adds up to 1.2 "
                 "GiB; lower theirs");
    parsed_free();
    check(MODEL, "  - {name: w, host: a, model: m, memory: 0.5, count: 2}\n",
          ", memory: 1GiB");
    assert_no_fault();
    parsed_free();
}

static void a_model_that_is_not_here_is_a_note(void **state)
{
    static const struct fit_where must = {".", true};

    (void)state;
    check("models: {m: {path: /no/such}}\n",
          "  - {name: w, host: a, model: m}\n", "");
    assert_no_fault();
    assert_int_equal(notes.n, 1);
    assert_string_equal(notes.item[0].text,
                        "model m: /no/such is not on this machine, so sizes "
                        "were not compared; `here` names a copy");
    cluster_fit_check(&layout, &must, &faults, &notes);
    assert_int_equal(faults.n, 1);
    parsed_free();
}

static void a_path_is_absolute(void **state)
{
    (void)state;
    check("models: {m: {path: models/m}}\n",
          "  - {name: w, host: a, model: m}\n", "");
    assert_fault(0, 3, 20,
                 "path models/m: a folder from the root of each host is "
                 "required, such as /srv/models/m");
    parsed_free();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_must_hold_its_model),
        cmocka_unit_test(a_replica_must_hold_its_model),
        cmocka_unit_test(fixed_layers_must_fit),
        cmocka_unit_test(a_quantised_cache_counts_its_bytes),
        cmocka_unit_test(drafts_count),
        cmocka_unit_test(window_blocks_count),
        cmocka_unit_test(formats_are_valid_and_agree),
        cmocka_unit_test(workers_share_the_memory_of_a_host),
        cmocka_unit_test(a_model_that_is_not_here_is_a_note),
        cmocka_unit_test(a_path_is_absolute),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
