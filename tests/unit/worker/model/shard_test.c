#include "worker/model/shard.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/model/sizes.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"
#include "worker/model/load.h"

static void assert_tensor(const struct tensor *t, uint32_t rows, uint32_t cols)
{
    assert_non_null(t->data);
    assert_int_equal((uintptr_t)t->data % 64, 0);
    assert_int_equal(t->dtype, DTYPE_BF16);
    assert_int_equal(t->rows, rows);
    assert_int_equal(t->cols, cols);
}

static void loads_tiny_hybrid(void **state)
{
    struct shard *s = fixture_shard_all(TINY_HYBRID);
    const struct shard_weights *w = shard_weights(s);
    const struct deltanet_weights *d = &w->layers[0].mixer.deltanet;
    const struct attention_weights *a = &w->layers[3].mixer.attention;

    (void)state;
    assert_tensor(&w->embed, 4096, 256);
    assert_ptr_equal(w->head.data, w->embed.data);
    assert_int_equal(w->layers[0].kind, MIXER_DELTANET);
    assert_int_equal(w->layers[3].kind, MIXER_ATTENTION);
    assert_tensor(&d->qkv, 1024, 256);
    assert_tensor(&d->z, 512, 256);
    assert_tensor(&d->b, 4, 256);
    assert_tensor(&d->a, 4, 256);
    assert_tensor(&d->out, 256, 512);
    assert_tensor(&a->q, 1024, 256);
    assert_tensor(&a->k, 256, 256);
    assert_tensor(&a->o, 256, 512);
    assert_null(a->q_bias);
    assert_non_null(a->q_norm);
    assert_tensor(&w->layers[7].mlp.gate, 512, 256);
    assert_tensor(&w->layers[7].mlp.down, 256, 512);
    assert_int_equal(shard_report(s)->n_tensors, 6 * 14 + 2 * 11 + 2);
    assert_int_equal(shard_report(s)->n_unknown, 0);
    assert_int_equal(shard_report(s)->n_aside, 15);
    shard_free(&s);
    assert_null(s);
}

/* Compares n elements with the stored bfloat16 ones plus add. */
static void assert_widened(const float *v, const char *file, const char *tensor,
                           uint32_t n, float add)
{
    char *raw = fixture_stored(TINY_HYBRID, file, tensor);

    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)(unsigned char)raw[2 * i] << 16 |
                        (uint32_t)(unsigned char)raw[2 * i + 1] << 24;
        float f;

        memcpy(&f, &bits, sizeof f);
        assert_true(v[i] == f + add);
    }
    free(raw);
}

static void holds_the_stored_values(void **state)
{
    static const char one[] = "model-00001-of-00002.safetensors";
    static const char two[] = "model-00002-of-00002.safetensors";
    struct shard *s = fixture_shard_all(TINY_HYBRID);
    const struct shard_weights *w = shard_weights(s);
    const struct layer_weights *l = w->layers;
    const struct deltanet_weights *d = &l[1].mixer.deltanet;
    char *raw = fixture_stored(TINY_HYBRID, one,
                               "model.layers.7.self_attn.q_proj."
                               "weight");

    (void)state;
    assert_memory_equal(l[7].mixer.attention.q.data, raw, 1024 * 256 * 2);
    free(raw);
    assert_widened(l[2].input_norm, one,
                   "model.layers.2.input_layernorm.weight", 256, 1);
    assert_widened(l[2].post_norm, one,
                   "model.layers.2.post_attention_layernorm.weight", 256, 1);
    assert_widened(l[3].mixer.attention.k_norm, one,
                   "model.layers.3.self_attn.k_norm.weight", 256, 1);
    assert_widened(w->final_norm, two, "model.norm.weight", 256, 1);
    assert_widened(d->norm, one, "model.layers.1.linear_attn.norm.weight", 128,
                   0);
    assert_widened(d->a_log, one, "model.layers.1.linear_attn.A_log", 4, 0);
    assert_widened(d->dt_bias, one, "model.layers.1.linear_attn.dt_bias", 4, 0);
    assert_widened(d->conv, one, "model.layers.1.linear_attn.conv1d.weight",
                   4096, 0);
    shard_free(&s);
}

static void loads_layer_ranges(void **state)
{
    struct shard *a = fixture_shard(TINY_HYBRID, 0, 3),
                 *b = fixture_shard(TINY_HYBRID, 3, 8);
    struct shard *all = fixture_shard_all(TINY_HYBRID);
    const struct shard_weights *w = shard_weights(b);

    (void)state;
    assert_int_equal(shard_report(a)->n_tensors, 3 * 14 + 1);
    assert_int_equal(shard_report(b)->n_tensors, 3 * 14 + 2 * 11 + 2);
    assert_int_equal(shard_report(a)->n_unknown, 0);
    assert_int_equal(shard_report(b)->n_unknown, 0);
    assert_non_null(shard_weights(a)->embed.data);
    assert_null(shard_weights(a)->final_norm);
    assert_null(shard_weights(a)->head.data);
    /* The last stage reads a tied head too. */
    assert_null(w->embed.data);
    assert_tensor(&w->head, 4096, 256);
    assert_memory_equal(w->head.data, shard_weights(all)->embed.data, 2097152);
    assert_non_null(w->final_norm);
    assert_int_equal(w->layers[0].kind, MIXER_ATTENTION);
    assert_memory_equal(w->layers[4].mlp.up.data,
                        shard_weights(all)->layers[7].mlp.up.data, 262144);
    assert_int_equal(shard_report(a)->file_bytes + shard_report(b)->file_bytes,
                     shard_report(all)->file_bytes + 2097152);
    assert_memory_equal(shard_fingerprint(a), shard_fingerprint(b), 16);
    assert_memory_equal(shard_fingerprint(a), shard_fingerprint(all), 16);
    shard_free(&a);
    shard_free(&b);
    shard_free(&all);
}

static void assert_same_model(const char *a, const char *b)
{
    struct shard *x = fixture_shard_all(a), *y = fixture_shard_all(b);

    assert_memory_equal(shard_fingerprint(x), shard_fingerprint(y), 16);
    assert_int_equal(shard_report(x)->n_tensors, shard_report(y)->n_tensors);
    assert_int_equal(shard_report(x)->n_aside, shard_report(y)->n_aside);
    shard_free(&x);
    shard_free(&y);
}

static void loads_the_nested_layout(void **state)
{
    const char *dir = fixture_nest(TINY_HYBRID, "nested");

    (void)state;
    assert_same_model(TINY_HYBRID, dir);
}

static void does_not_mind_how_files_are_split(void **state)
{
    json_t *j = fixture_config("qwen3_5");
    const char *one, *many, *other;
    struct writer_options o = {.seed = 5, .dtype = DTYPE_BF16};
    struct shard *x, *y;

    (void)state;
    one = fixture_model("one", j, &o);
    o.n_files = 7;
    many = fixture_model("many", j, &o);
    assert_same_model(one, many);
    o.prefix = WRITER_MULTIMODAL;
    many = fixture_model("multimodal", j, &o);
    assert_same_model(one, many);
    o.seed = 6;
    other = fixture_model("other", j, &o);
    x = fixture_shard(one, 0, 2);
    y = fixture_shard(other, 2, 4);
    assert_memory_not_equal(shard_fingerprint(x), shard_fingerprint(y), 16);
    shard_free(&x);
    shard_free(&y);
    json_decref(j);
}

/* Every range of layers of a model has the same fingerprint. */
static void every_range_names_the_model(void **state)
{
    static const char *const families[] = {"qwen3_5", "qwen3_next", "llama"};

    (void)state;
    for (int i = 0; i < 6; i++) {
        json_t *j = fixture_config(families[i / 2]);
        const char *dir;
        struct shard *all;

        json_object_set_new(j, "tie_word_embeddings", json_boolean(i % 2));
        dir =
            fixture_model("ranges", j, &(struct writer_options){.n_files = 3});
        all = fixture_shard_all(dir);
        for (uint32_t b = 0; b < 4; b++) {
            for (uint32_t e = b + 1; e <= 4; e++) {
                struct shard *s = fixture_shard(dir, b, e);

                assert_memory_equal(shard_fingerprint(s),
                                    shard_fingerprint(all), 16);
                shard_free(&s);
            }
        }
        shard_free(&all);
        json_decref(j);
    }
}

/* Another byte at a place in model.safetensors changes the fingerprint, for
 * the shard of layers [begin, end) too; the old byte restores it. */
static void flip(const char *dir, uint64_t at, uint32_t begin, uint32_t end,
                 const uint8_t was[16])
{
    char path[512], byte, other;
    struct shard *s;
    int fd;

    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
    other = (char)(byte ^ 1 << at % 8);
    assert_int_equal(pwrite(fd, &other, 1, (off_t)at), 1);
    s = fixture_shard(dir, begin, end);
    if (memcmp(shard_fingerprint(s), was, 16) == 0) {
        fail_msg("byte %llu does not count", (unsigned long long)at);
    }
    shard_free(&s);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

static uint64_t data_of(const char *dir, uint64_t *end)
{
    char path[512], *bytes;
    size_t len;
    uint64_t n = 0;

    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    bytes = fixture_read(path, &len);
    for (int i = 7; i >= 0; i--) {
        n = n << 8 | (unsigned char)bytes[i];
    }
    free(bytes);
    *end = len;
    return n + 8;
}

static void every_byte_counts(void **state)
{
    static const char *const families[] = {"qwen3_5", "qwen3_next", "qwen2"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        json_t *j = fixture_config(families[i]);
        struct writer_options o = {.dtype = DTYPE_BF16};
        const char *dir = fixture_model("bytes", j, &o);
        struct shard *s = fixture_shard_all(dir);
        uint64_t end, begin = data_of(dir, &end);

        for (uint64_t at = begin; at < end; at += 127) {
            uint32_t b = (uint32_t)(at % 4);

            flip(dir, at, b, at % 2 == 0 ? 4 : b + 1, shard_fingerprint(s));
        }
        flip(dir, end - 1, 0, 1, shard_fingerprint(s));
        shard_free(&s);
        json_decref(j);
    }
}

/* A tensor of three pieces: bytes at their borders, and far from them. */
static void every_piece_counts(void **state)
{
    static const uint64_t places[] = {0,
                                      5000,
                                      4000000,
                                      LOAD_PIECE - 1,
                                      LOAD_PIECE,
                                      LOAD_PIECE + LOAD_STEP - 1,
                                      LOAD_PIECE + LOAD_STEP,
                                      2 * LOAD_PIECE - 1,
                                      2 * LOAD_PIECE,
                                      2 * LOAD_PIECE + 5};
    json_t *j = fixture_config("llama");
    const char *dir;
    struct model_config c;
    struct shard *s, *t;
    struct error e;
    uint64_t begin, end;

    (void)state;
    json_object_set_new(j, "vocab_size", json_integer(131073));
    dir = fixture_model("pieces", j, &(struct writer_options){.seed = 3});
    c = fixture_load_config(dir);
    s = fixture_shard_all(dir);
    begin = data_of(dir, &end);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        flip(dir, begin + places[i], i % 4, 4, shard_fingerprint(s));
        flip(dir, end - 1 - places[i], i % 4, 4, shard_fingerprint(s));
    }
    for (uint32_t n = 1; n < 9; n++) {
        assert_int_equal(shard_load(&t, &c, dir, 1, 4,
                                    &(struct shard_options){.n_threads = n},
                                    &e),
                         ST_OK);
        assert_memory_equal(shard_fingerprint(s), shard_fingerprint(t), 16);
        shard_free(&t);
    }
    shard_free(&s);
    json_decref(j);
}

/* The fingerprint equals that of another build, machine or release for the
 * same weights. */
static void a_known_model_has_a_known_name(void **state)
{
    static const uint8_t name[16] = {0x56, 0xba, 0x0d, 0x71, 0xc6, 0x52,
                                     0x23, 0x06, 0x1a, 0x0c, 0x5f, 0x39,
                                     0x24, 0x0a, 0x20, 0x5e};
    struct shard *s = fixture_shard_all(TINY_HYBRID);

    (void)state;
    assert_memory_equal(shard_fingerprint(s), name, sizeof name);
    shard_free(&s);
}

/* Another number in the configuration that the computation depends on
 * changes the fingerprint. */
static void fingerprints_the_configuration(void **state)
{
    json_t *j = fixture_config("llama");
    const char *dir = fixture_model("fp", j, &(struct writer_options){0});
    struct model_config c = fixture_load_config(dir);
    struct shard *a, *b;
    struct error e;

    (void)state;
    assert_int_equal(shard_load(&a, &c, dir, 0, 4, NULL, &e), ST_OK);
    c.shape.rope.theta *= 2;
    assert_int_equal(shard_load(&b, &c, dir, 0, 4, NULL, &e), ST_OK);
    assert_memory_not_equal(shard_fingerprint(a), shard_fingerprint(b), 16);
    shard_free(&a);
    shard_free(&b);
    json_decref(j);
}

/* The same for what experts, windows and YaRN need. */
static void fingerprints_experts_and_windows(void **state)
{
    static const char dir[] = "tests/vectors/models/tiny-gpt-oss";
    const struct model_config c = fixture_load_config(dir);
    struct model_config n[21];
    struct shard *a = fixture_shard_all(dir), *b;
    struct error e;

    (void)state;
    for (int i = 0; i < 21; i++) {
        n[i] = c;
    }
    n[0].shape.window++;
    n[1].shape.top_k++;
    n[2].shape.top_k_normed = !c.shape.top_k_normed;
    n[3].shape.activation.kind = ACTIVATION_SILU;
    n[4].shape.activation.alpha *= 2;
    n[5].shape.activation.limit *= 2;
    n[6].shape.attn_scale = 0.5f;
    n[7].shape.attn_cap = 50;
    n[8].shape.stream.embed = 2;
    n[9].shape.stream.cap = 30;
    n[10].shape.rope.beta_fast *= 2;
    n[11].shape.window_rope.theta *= 2;
    n[12].shape.rope.truncate = !c.shape.rope.truncate;
    n[13].shape.window_rope.attention *= 2;
    n[14].shape.stream.residual = 0.5f;
    n[15].shape.stream.logits = 0.5f;
    n[16].shape.attention.late_norm = true;
    n[17].shape.attention.whole_norm = true;
    n[18].shape.attention.query_beta = 0.5;
    n[19].shape.attention.query_original = 64;
    n[20].mixers[1] = MIXER_NOPE;
    for (int i = 0; i < 21; i++) {
        assert_int_equal(shard_load(&b, &n[i], dir, 0, 4, NULL, &e), ST_OK);
        if (memcmp(shard_fingerprint(a), shard_fingerprint(b), 16) == 0) {
            fail_msg("number %d does not count", i);
        }
        shard_free(&b);
    }
    shard_free(&a);
}

static void refuses_what_is_not_there(void **state)
{
    json_t *j = fixture_config("llama");
    struct writer_options o = {.n_files = 3};
    const char *dir = fixture_model("gone", j, &o);
    struct model_config c = fixture_load_config(dir);
    struct shard *s;
    struct error e;

    (void)state;
    assert_int_equal(unlink(fixture_path("gone/model-00002-of-00003."
                                         "safetensors")),
                     0);
    fixture_refused(
        dir, ST_NOT_FOUND,
        "\"model-00002-of-00003.safetensors\": the file is missing");
    assert_int_equal(unlink(fixture_path("gone/model.safetensors.index.json")),
                     0);
    fixture_refused(dir, ST_NOT_FOUND, "no weights");
    /* Reading a pipe would wait for ever. */
    assert_int_equal(mkfifo(fixture_path("gone/model.safetensors"), 0600), 0);
    fixture_refused(dir, ST_INVALID_ARGUMENT, "not a regular file");
    assert_int_equal(shard_load(&s, &c, dir, 2, 2, NULL, &e),
                     ST_INVALID_ARGUMENT);
    assert_int_equal(shard_load(&s, &c, dir, 0, 5, NULL, NULL),
                     ST_INVALID_ARGUMENT);
    json_decref(j);
}

struct seen {
    uint64_t done, total;
    uint32_t calls;
    const char *touch; /* a file to change at the first call */
    uint32_t stop;     /* the call that cancels; 0: none */
};

static bool watch(void *ctx, uint64_t done, uint64_t total)
{
    struct seen *s = ctx;

    if (s->touch != NULL && s->calls == 0) {
        const struct timespec t[2] = {{1, 0}, {1, 0}};

        utimensat(AT_FDCWD, s->touch, t, 0);
    }
    /* Not an assertion: cmocka's longjmp must not leave another thread. */
    s->calls += done >= s->done && done <= total ? 1 : 1000000;
    s->done = done;
    s->total = total;
    return s->calls != s->stop;
}

static void reads_in_parallel(void **state)
{
    struct model_config c = fixture_load_config(TINY_HYBRID);
    struct shard *one, *s;
    struct error e;

    (void)state;
    one = fixture_shard_all(TINY_HYBRID);
    for (uint32_t n = 1; n <= SHARD_THREADS_MAX + 1; n += 16) {
        struct seen seen = {.done = 0};
        struct shard_options o = {
            .n_threads = n, .progress = watch, .ctx = &seen};

        assert_int_equal(shard_load(&s, &c, TINY_HYBRID, 0, 8, &o, &e), ST_OK);
        assert_int_equal(seen.done, shard_report(s)->file_bytes);
        assert_int_equal(seen.total, seen.done);
        assert_int_equal(seen.calls, shard_report(s)->n_tensors);
        assert_memory_equal(shard_fingerprint(s), shard_fingerprint(one), 16);
        shard_free(&s);
    }
    shard_free(&one);
}

/* With the result of one shard, the next load reads its own tensors only,
 * unless the files have changed. */
static void reads_only_its_own_once_known(void **state)
{
    json_t *j = fixture_config("llama");
    const char *dir = fixture_model("known", j, &(struct writer_options){0});
    struct model_config c = fixture_load_config(dir);
    const struct timespec t[2] = {{1, 0}, {1, 0}};
    struct seen seen = {.done = 0};
    struct shard_known known;
    struct shard_options o = {.progress = watch, .ctx = &seen, .known = &known};
    struct shard *all = fixture_shard_all(dir), *s;
    uint64_t total = shard_report(all)->file_bytes;
    struct error e;

    (void)state;
    known = shard_known(all);
    assert_int_equal(shard_load(&s, &c, dir, 1, 3, &o, &e), ST_OK);
    assert_int_equal(seen.done, shard_report(s)->file_bytes);
    assert_true(seen.done < total);
    assert_memory_equal(shard_fingerprint(s), shard_fingerprint(all), 16);
    known = shard_known(s);
    shard_free(&s);

    utimensat(AT_FDCWD, fixture_path("known/model.safetensors"), t, 0);
    memset(known.fingerprint, 0, sizeof known.fingerprint);
    assert_int_equal(shard_load(&s, &c, dir, 1, 3, &o, &e), ST_OK);
    assert_int_equal(seen.done, total);
    assert_memory_equal(shard_fingerprint(s), shard_fingerprint(all), 16);
    shard_free(&s);
    shard_free(&all);
    json_decref(j);
}

static void notices_a_change_while_reading(void **state)
{
    json_t *j = fixture_config("llama");
    const char *dir = fixture_model("change", j, &(struct writer_options){0});
    struct model_config c = fixture_load_config(dir);
    struct seen seen = {.touch = fixture_path("change/model.safetensors")};
    struct shard_options o = {.progress = watch, .ctx = &seen};
    struct shard *s;
    struct error e;

    (void)state;
    assert_int_equal(shard_load(&s, &c, dir, 0, 4, &o, &e), ST_ABORTED);
    assert_non_null(strstr(e.text, "\"model.safetensors\" changed"));
    json_decref(j);
}

/* The progress callback can cancel the load, at the last piece too; it is
 * not called again after that. */
static void stops_when_it_is_told_to(void **state)
{
    struct model_config c = fixture_load_config(TINY_HYBRID);
    struct shard *s = fixture_shard_all(TINY_HYBRID);
    uint32_t n = shard_report(s)->n_tensors;
    const uint32_t stops[] = {1, 3, n};
    struct error e;

    (void)state;
    shard_free(&s);
    for (uint32_t i = 0; i < 6; i++) {
        struct seen seen = {.stop = stops[i % 3]};
        struct shard_options o = {
            .n_threads = i < 3 ? 1 : 4, .progress = watch, .ctx = &seen};

        assert_int_equal(shard_load(&s, &c, TINY_HYBRID, 0, 8, &o, &e),
                         ST_CANCELLED);
        assert_null(s);
        assert_int_equal(seen.calls, seen.stop);
        assert_true(seen.done < seen.total || seen.stop == n);
        assert_non_null(strstr(e.text, "stopped while reading weights"));
    }
}

static void keeps_to_a_budget(void **state)
{
    struct model_config c = fixture_load_config(TINY_HYBRID);
    struct kv_format kv = kv_format_plain(DTYPE_BF16);
    uint64_t bytes = sizes_of(&c, 0, 8, 32, &kv).weight_bytes;
    struct shard_options o = {.max_bytes = bytes};
    struct shard *s;
    struct error e;

    (void)state;
    assert_int_equal(shard_load(&s, &c, TINY_HYBRID, 0, 8, &o, &e), ST_OK);
    shard_free(&s);
    o.max_bytes = bytes - 1;
    assert_int_equal(shard_load(&s, &c, TINY_HYBRID, 0, 8, &o, &e),
                     ST_RESOURCE_EXHAUSTED);
}

static void weighs_what_sizes_says(void **state)
{
    static const char *const families[] = {"qwen3_5", "qwen3_next", "qwen2",
                                           "qwen3"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        json_t *j = fixture_config(families[i]);
        const char *dir =
            fixture_model("weigh", j, &(struct writer_options){0});
        struct model_config c = fixture_load_config(dir);
        struct kv_format kv = kv_format_plain(DTYPE_F32);

        for (uint32_t b = 0; b < 4; b++) {
            for (uint32_t e = b + 1; e <= 4; e++) {
                struct shard *s = fixture_shard(dir, b, e);

                assert_int_equal(sizes_of(&c, b, e, 32, &kv).weight_bytes,
                                 shard_report(s)->bytes);
                shard_free(&s);
            }
        }
        json_decref(j);
    }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLAIN_MEMORY 0
#elif defined(__has_feature)
#define PLAIN_MEMORY \
    (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer))
#else
#define PLAIN_MEMORY 1
#endif

static long peak_kib(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

/* Returns whether loading layers [begin, 4), in a separate process, raises
 * its peak memory by at most 1.1 times the bytes kept. */
static void assert_frugal(const char *dir, uint32_t begin)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        long before = peak_kib(), grown, kept;
        struct shard *s = fixture_shard(dir, begin, 4);

        grown = peak_kib() - before;
        kept = (long)(shard_report(s)->file_bytes / 1024);
        shard_free(&s);
        _exit((double)grown > 1.1 * (double)kept || grown < kept / 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Embedding and head have 51 MB each; the last layers do not need the
 * embedding. */
static void takes_little_more_memory_than_bytes(void **state)
{
    json_t *j;
    const char *dir;

    (void)state;
    if (!PLAIN_MEMORY) {
        skip();
    }
    j = fixture_config("llama");
    json_object_set_new(j, "vocab_size", json_integer(400000));
    dir = fixture_model("large", j, &(struct writer_options){0});
    assert_frugal(dir, 0);
    assert_frugal(dir, 2);
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_tiny_hybrid),
        cmocka_unit_test(holds_the_stored_values),
        cmocka_unit_test(loads_layer_ranges),
        cmocka_unit_test(loads_the_nested_layout),
        cmocka_unit_test(does_not_mind_how_files_are_split),
        cmocka_unit_test(every_range_names_the_model),
        cmocka_unit_test(every_byte_counts),
        cmocka_unit_test(every_piece_counts),
        cmocka_unit_test(a_known_model_has_a_known_name),
        cmocka_unit_test(fingerprints_the_configuration),
        cmocka_unit_test(fingerprints_experts_and_windows),
        cmocka_unit_test(refuses_what_is_not_there),
        cmocka_unit_test(reads_in_parallel),
        cmocka_unit_test(reads_only_its_own_once_known),
        cmocka_unit_test(notices_a_change_while_reading),
        cmocka_unit_test(stops_when_it_is_told_to),
        cmocka_unit_test(keeps_to_a_budget),
        cmocka_unit_test(weighs_what_sizes_says),
        cmocka_unit_test(takes_little_more_memory_than_bytes),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
