/* A small model file, or the companion of one, that is cut anywhere, or has one
 * bit of its header flipped, gives an error with a text or a valid load, and
 * leaves no descriptor open. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"
#include "worker/model/shard.h"

/* With an argument, runs every n-th case only: for builds with sanitizers. */
static size_t stride = 1;

/* 64 KiB, mostly weights, of both kinds of layer. */
static const char *small_model(const char *name, enum writer_mtp mtp)
{
    json_t *j = fixture_config("qwen3_5");
    struct writer_options o = {.dtype = DTYPE_BF16, .mtp = mtp};
    const char *dir;

    json_object_set_new(j, "num_hidden_layers", json_integer(2));
    json_object_set_new(j, "full_attention_interval", json_integer(2));
    json_object_set_new(j, "vocab_size", json_integer(311));
    json_object_set_new(j, "mtp_num_hidden_layers", json_integer(1));
    json_object_set_new(j, "tie_word_embeddings", json_true());
    dir = fixture_model(name, j, &o);
    json_decref(j);
    return dir;
}

struct victim {
    const char *dir;
    struct model_config config;
    FILE *file;
    char *bytes; /* [len], as written */
    size_t len, header;
    uint32_t n_ok, n_refused;
};

static void open_victim(struct victim *v, enum writer_mtp mtp)
{
    struct error e;
    const char *path;

    *v = (struct victim){.dir = small_model("robust", mtp)};
    assert_int_equal(config_load(&v->config, v->dir, &e), ST_OK);
    v->config.drafts = mtp != WRITER_NO_MTP;
    path = fixture_path(v->config.drafts ? "robust/model-mtp.safetensors"
                                         : "robust/model.safetensors");
    v->bytes = fixture_read(path, &v->len);
    for (int i = 7; i >= 0; i--) {
        v->header = v->header << 8 | (unsigned char)v->bytes[i];
    }
    v->header += 8;
    v->file = fopen(path, "r+b");
    assert_non_null(v->file);
}

static void close_victim(struct victim *v)
{
    fclose(v->file);
    free(v->bytes);
}

static void try_load(struct victim *v)
{
    struct shard_options o = {.n_threads = 1};
    struct shard *s;
    struct error e = {.text = ""};
    enum status st = shard_load(&s, &v->config, v->dir, 0, 2, &o, &e);

    if (st == ST_OK) {
        assert_non_null(shard_weights(s)->layers[1].mlp.down.data);
        shard_free(&s);
        v->n_ok++;
    } else {
        assert_null(s);
        assert_int_equal(st, e.code);
        assert_true(strncmp(e.text, "load layers 0 to 2: ", 20) == 0);
        assert_true(strlen(e.text) > 30);
        v->n_refused++;
    }
}

static void put(struct victim *v, size_t at, char byte)
{
    assert_int_equal(pwrite(fileno(v->file), &byte, 1, (off_t)at), 1);
}

static void cut_at_every_length(void **state)
{
    struct victim v;
    int open_before;

    (void)state;
    open_victim(&v, WRITER_NO_MTP);
    open_before = fixture_open_files();
    assert_in_range(v.len, 65000, 66000);
    try_load(&v);
    assert_int_equal(v.n_ok, 1);
    for (size_t n = v.len; n-- > 0;) {
        if (n % stride == 0 || n < v.header) {
            assert_int_equal(ftruncate(fileno(v.file), (off_t)n), 0);
            try_load(&v);
        }
    }
    assert_int_equal(v.n_ok, 1);
    assert_int_equal(fixture_open_files(), open_before);
    close_victim(&v);
}

static void flip_every_bit_of_the_header(void **state)
{
    struct victim v;
    int open_before;

    (void)state;
    open_victim(&v, WRITER_NO_MTP);
    open_before = fixture_open_files();
    for (size_t bit = 0; bit < v.header * 8; bit += stride) {
        size_t at = bit / 8;

        put(&v, at, (char)(v.bytes[at] ^ 1 << bit % 8));
        try_load(&v);
        put(&v, at, v.bytes[at]);
    }
    /* A name in __metadata__ does not count; nearly everything else does. */
    assert_in_range(v.n_ok, stride == 1, v.n_refused / 50);
    assert_int_equal(fixture_open_files(), open_before);
    printf("%u of %u loads refused\n", v.n_refused, v.n_refused + v.n_ok);
    close_victim(&v);
}

/* The model's own file is whole, and refused with the companion. */
static void damage_a_companion(void **state)
{
    struct victim v;
    int open_before;

    (void)state;
    open_victim(&v, WRITER_COMPANION);
    open_before = fixture_open_files();
    try_load(&v);
    assert_int_equal(v.n_ok, 1);
    for (size_t bit = 0; bit < v.header * 8; bit += 5 * stride) {
        size_t at = bit / 8;

        put(&v, at, (char)(v.bytes[at] ^ 1 << bit % 8));
        try_load(&v);
        put(&v, at, v.bytes[at]);
    }
    assert_in_range(v.n_ok, 1, 1 + v.n_refused / 30);
    v.n_ok = 0;
    for (size_t n = v.len; n-- > 0;) {
        if (n % (7 * stride) == 0) {
            assert_int_equal(ftruncate(fileno(v.file), (off_t)n), 0);
            try_load(&v);
        }
    }
    assert_int_equal(v.n_ok, 0);
    assert_int_equal(fixture_open_files(), open_before);
    close_victim(&v);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_at_every_length),
        cmocka_unit_test(flip_every_bit_of_the_header),
        cmocka_unit_test(damage_a_companion),
    };

    if (argc > 1) {
        stride = strtoul(argv[1], NULL, 10);
    }
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
