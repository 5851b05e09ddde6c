/* Values of a GGUF file that are absent, of a wrong type, not finite, or
 * without a place in sluice: four answers.  Each row changes a file that is
 * accepted. */
#include "common/model/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/common/model/gguf_writer.h"
#include "tests/unit/worker/model/fixture.h"

enum { TEXT, U32, F32, F32S, BOOLS };

struct row {
    const char *key;
    int type;
    double value;
    const char *text; /* of a string, or part of the error; NULL: accepted */
};

static void put(struct gguf_file *f, const struct row *r)
{
    const float list[2] = {(float)r->value, (float)r->value};
    unsigned char flags[12 + 4] = {7, 0, 0, 0, 4}; /* bools, their number */

    switch (r->type) {
    case TEXT:
        gguf_put_text(f, r->key, r->value != 0 ? "yarn" : "1");
        break;
    case U32:
        gguf_put_u32(f, r->key, (uint32_t)r->value);
        break;
    case F32:
        gguf_put_f32(f, r->key, (float)r->value);
        break;
    case F32S:
        gguf_put_f32s(f, r->key, 2, list);
        break;
    default:
        memset(flags + 12, (int)r->value, 4);
        gguf_put_raw(f, r->key, 9, flags, sizeof flags);
        break;
    }
}

static struct gguf_file *start(const char *arch)
{
    static const uint64_t dims[] = {64, 16};
    static const float values[64 * 16];
    const struct row sizes[] = {
        {"block_count", U32, 4, NULL},
        {"embedding_length", U32, 64, NULL},
        {"feed_forward_length", U32, 64, NULL},
        {"attention.head_count", U32, 2, NULL},
        {"context_length", U32, 128, NULL},
    };
    struct gguf_file *f = gguf_file_new(3, 0);

    gguf_put_text(f, "general.architecture", arch);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct row r = sizes[i];
        char key[64];

        snprintf(key, sizeof key, "%s.%s", arch, r.key);
        r.key = key;
        put(f, &r);
    }
    gguf_add_values(f, "token_embd.weight", WRITE_F32, 2, dims, values);
    return f;
}

static enum status load(const char *arch, const struct row *rows, size_t n,
                        struct model_config *c, struct error *e)
{
    const char *path = fixture_path("one.gguf");
    struct gguf_file *f = start(arch);
    unsigned char *bytes;
    size_t len;

    for (size_t i = 0; i < n; i++) {
        put(f, &rows[i]);
    }
    bytes = gguf_bytes(f, &len);
    fixture_write(path, bytes, len);
    free(bytes);
    gguf_file_free(&f);
    *e = (struct error){.code = ST_OK};
    return config_load(c, path, e);
}

static void judge(const char *arch, const struct row *r)
{
    struct model_config c;
    struct error e;
    enum status st = load(arch, r, 1, &c, &e);

    if (r->text == NULL ? st != ST_OK
                        : st == ST_OK || strstr(e.text, r->text) == NULL ||
                              strstr(e.text, r->key) == NULL) {
        fail_msg("%s %g: \"%s\" instead of \"%s\"", r->key, r->value, e.text,
                 r->text == NULL ? "" : r->text);
    }
}

#define JUDGE(arch, rows)                                       \
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) { \
        judge(arch, &rows[i]);                                  \
    }

static void tells_absent_from_wrong_and_unreadable(void **state)
{
    static const struct row rows[] = {
        {"llama.rope.freq_base", F32, 5e5, NULL},
        {"llama.rope.freq_base", TEXT, 0, "is a string, not a number"},
        {"llama.rope.freq_base", F32, NAN, "not a finite number"},
        {"llama.rope.freq_base", F32, INFINITY, "not a finite number"},
        {"llama.rope.freq_base", F32S, 1e4, "is a list, not a number"},
        {"llama.attention.layer_norm_rms_epsilon", TEXT, 0, "is a string"},
        {"llama.rope.scaling.type", U32, 1, "is a u32, not a string"},
        {"llama.rope.scaling.factor", TEXT, 0, "is a string"},
        {"llama.rope.dimension_count", F32, 16, "not one whole number"},
        {"llama.attention.value_length", TEXT, 0, "not one whole number"},
        {"llama.expert_weights_norm", TEXT, 0, "not one whole number"},
        {"tokenizer.ggml.eos_token_id", F32, 2, "is an f32, not a whole"},
        {"tokenizer.ggml.eot_token_id", TEXT, 0, "is a string"},
        {"tokenizer.ggml.bos_token_id", TEXT, 0, "is a string"},
        {"tokenizer.ggml.eos_token_id", U32, 2, NULL},
    };

    (void)state;
    JUDGE("llama", rows);
}

static void refuses_what_libllama_honours(void **state)
{
    static const struct row rows[] = {
        {"llama.rope.scaling.attn_factor", F32, 1, NULL},
        {"llama.rope.scaling.attn_factor", F32, 1.2, "is 1.2, which is not"},
        {"llama.rope.scaling.attn_factor", TEXT, 0, "finite number"},
        {"llama.rope.scaling.attn_factor", F32, NAN, "finite number"},
        {"llama.rope.scaling.yarn_ext_factor", F32, -1, NULL},
        {"llama.rope.scaling.yarn_ext_factor", F32, 1, "is 1, which is not"},
        {"llama.attention.scale", F32, 0.17677669, NULL},
        {"llama.attention.scale", F32, 0.0625, "is 0.0625"},
        {"llama.attn_logit_softcapping", F32, 50, "is 50"},
        {"llama.logit_scale", F32, 1, NULL},
        {"llama.logit_scale", F32, 0.5, "is 0.5"},
        {"llama.attention.causal", U32, 0, "is 0"},
        {"llama.expert_group_count", U32, 8, "is 8"},
        {"llama.swiglu_clamp_exp", F32S, 0, NULL},
        {"llama.swiglu_clamp_exp", F32S, 7, "is 7"},
        {"llama.attention.key_length_swa", U32, 32, NULL},
        {"llama.attention.key_length_swa", U32, 64, "is 64"},
        {"llama.pooling_type", U32, 0, NULL},
        {"llama.pooling_type", U32, 3, "embedding model or a reranker"},
        {"llama.classifier.output_labels", TEXT, 0, "this is a classifier"},
        {"llama.a_key_of_nobody", F32, 7, NULL},
    };

    (void)state;
    JUDGE("llama", rows);
}

/* llama.cpp takes a factor without a type as linear. */
static void scales_as_libllama_does(void **state)
{
    const struct row linear[] = {{"llama.rope.scaling.factor", F32, 4, NULL}};
    const struct row older[] = {{"llama.rope.scale_linear", F32, 4, NULL}};
    const struct row none[] = {{"llama.rope.scaling.factor", F32, 0, NULL}};
    const struct row yarn[] = {
        {"llama.rope.scaling.type", TEXT, 1, NULL},
        {"llama.rope.scaling.factor", F32, 4, NULL},
        {"llama.rope.scaling.yarn_ext_factor", F32, 1, NULL}};
    struct model_config c;
    struct error e;

    (void)state;
    assert_int_equal(load("llama", linear, 1, &c, &e), ST_OK);
    assert_int_equal(c.shape.rope.kind, ROPE_LINEAR);
    assert_true(c.shape.rope.factor == 4);
    assert_int_equal(load("llama", older, 1, &c, &e), ST_OK);
    assert_int_equal(c.shape.rope.kind, ROPE_LINEAR);
    assert_int_equal(load("llama", none, 1, &c, &e), ST_OK);
    assert_int_equal(c.shape.rope.kind, ROPE_DEFAULT);
    assert_int_equal(load("llama", yarn, 3, &c, &e), ST_OK);
    assert_int_equal(c.shape.rope.kind, ROPE_YARN);
}

static void reads_flags_of_layers(void **state)
{
    static const char key[] = "gemma3.attention.sliding_window_pattern";
    static const struct row rows[] = {
        {key, BOOLS, 1, NULL},
        {key, BOOLS, 0, NULL},
        {key, F32S, 1, "is no list of 4 flags"},
    };

    (void)state;
    JUDGE("gemma3", rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_absent_from_wrong_and_unreadable),
        cmocka_unit_test(refuses_what_libllama_honours),
        cmocka_unit_test(scales_as_libllama_does),
        cmocka_unit_test(reads_flags_of_layers),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
