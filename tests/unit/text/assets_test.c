/* Model directories, complete and broken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"
#include "text/assets.h"
#include "text/text_limits.h"

static char dir[64];
static const char *const names[] = {"tokenizer.json", "generation_config.json",
                                    "config.json", "tokenizer_config.json",
                                    "chat_template.jinja"};

static void put(const char *name, const char *text, size_t n)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
}

static void put_text(const char *name, const char *text)
{
    put(name, text, strlen(text));
}

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/sluice-assets-XXXXXX");
    return mkdtemp(dir) == NULL ? -1 : 0;
}

static int remove_dir(void **state)
{
    char path[128];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    return rmdir(dir);
}

static struct text_assets *load(void)
{
    struct text_assets *a;
    struct error e;

    if (text_assets_load(&a, dir, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return a;
}

static void refuse(enum status status, const char *place)
{
    struct text_assets *a;
    struct error e;

    assert_int_equal(text_assets_load(&a, dir, &e), status);
    assert_null(a);
    if (strstr(e.text, place) == NULL) {
        fail_msg("\"%s\", want \"%s\"", e.text, place);
    }
}

static void expect_eos(const struct text_assets *a, size_t n, uint32_t first)
{
    size_t got;
    const uint32_t *ids = text_assets_eos(a, &got);

    assert_int_equal(got, n);
    assert_true(n == 0 || ids[0] == first);
}

static void tiny_hybrid(void **state)
{
    struct text_assets *a;
    const char *chat;
    char *want;
    size_t n, n_want;

    (void)state;
    assert_int_equal(text_assets_load(&a, "models/tiny-hybrid", NULL), ST_OK);
    assert_int_equal(tokenizer_vocab(text_assets_tokenizer(a)), 4096);
    assert_int_equal(text_assets_eos(a, &n)[1], 4089);
    expect_eos(a, 2, 4091);
    want = fixture_file("models/tiny-hybrid/chat_template.jinja", &n_want);
    chat = text_assets_chat_template(a, &n);
    assert_int_equal(n, n_want);
    assert_memory_equal(chat, want, n);
    free(want);
    text_assets_free(&a);
    assert_null(a);
    text_assets_free(&a);
}

static void served_by_ids(void **state)
{
    struct text_assets *a = load();
    size_t n;

    (void)state;
    assert_null(text_assets_tokenizer(a));
    assert_null(text_assets_chat_template(a, &n));
    expect_eos(a, 0, 0);
    text_assets_free(&a);
}

static void eos_ids(void **state)
{
    static const struct {
        const char *generation, *config;
        size_t n;
        uint32_t first;
    } rows[] = {
        {"{\"eos_token_id\":7}", "{\"eos_token_id\":8}", 2, 7},
        {"{\"eos_token_id\":7}", "{\"eos_token_id\":7}", 1, 7},
        {"{\"eos_token_id\":[7,9,7]}", "{}", 2, 7},
        {"{}", "{\"eos_token_id\":8}", 1, 8},
        {"{\"eos_token_id\":null}", "{\"eos_token_id\":[]}", 0, 0},
        {"{}", "{\"text_config\":{\"eos_token_id\":[5,6]}}", 2, 5},
        {"{}", "{\"eos_token_id\":4,\"text_config\":{\"eos_token_id\":5}}", 2,
         4},
        {"{\"eos_token_id\":1048575}", "{}", 1, 1048575},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct text_assets *a;
        put_text("generation_config.json", rows[i].generation);
        put_text("config.json", rows[i].config);
        a = load();
        expect_eos(a, rows[i].n, rows[i].first);
        text_assets_free(&a);
    }
}

static void eos_refused(void **state)
{
    (void)state;
    put_text("generation_config.json", "{\"eos_token_id\":1048576}");
    refuse(ST_OUT_OF_RANGE, "generation_config.json: eos_token_id: 1048576");
    put_text("generation_config.json", "{\"eos_token_id\":-1}");
    refuse(ST_OUT_OF_RANGE, "eos_token_id: -1");
    put_text("generation_config.json", "{\"eos_token_id\":[\"a\"]}");
    refuse(ST_INVALID_ARGUMENT, "found a string");
    put_text("generation_config.json", "[]");
    refuse(ST_INVALID_ARGUMENT, "generation_config.json: expected an object");
    put_text("generation_config.json", "{");
    refuse(ST_INVALID_ARGUMENT, "generation_config.json: line 1");
    put_text("generation_config.json", "{}");
    put_text("config.json", "{\"text_config\":3}");
    refuse(ST_INVALID_ARGUMENT, "config.json: text_config: expected an object");
}

static void eos_limit(void **state)
{
    for (int past = 0; past < 2; past++) {
        char text[1024] = "{\"eos_token_id\":[0";

        (void)state;
        for (int i = 1; i < MODEL_EOS_MAX + past; i++) {
            size_t w = strlen(text);
            snprintf(text + w, sizeof text - w, ",%d", i);
        }
        strcat(text, "]}");
        put_text("generation_config.json", text);
        if (past == 0) {
            struct text_assets *a = load();
            expect_eos(a, MODEL_EOS_MAX, 0);
            text_assets_free(&a);
        } else {
            refuse(ST_OUT_OF_RANGE, "more than 16 ids");
        }
    }
}

static void expect_chat(const char *want)
{
    struct text_assets *a = load();
    size_t n;
    const char *chat = text_assets_chat_template(a, &n);

    if (want == NULL) {
        assert_null(chat);
    } else {
        assert_int_equal(n, strlen(want));
        assert_memory_equal(chat, want, n);
    }
    text_assets_free(&a);
}

static void chat_templates(void **state)
{
    (void)state;
    put_text("tokenizer_config.json", "{}");
    expect_chat(NULL);
    put_text("tokenizer_config.json", "{\"chat_template\":null}");
    expect_chat(NULL);
    put_text("tokenizer_config.json", "{\"chat_template\":\"one\"}");
    expect_chat("one");
    put_text("tokenizer_config.json",
             "{\"chat_template\":[{\"name\":\"tool\",\"template\":\"x\"},"
             "{\"name\":\"default\",\"template\":\"two\"}]}");
    expect_chat("two");
    put_text("tokenizer_config.json", "{\"chat_template\":7}");
    refuse(ST_INVALID_ARGUMENT,
           "tokenizer_config.json: chat_template: expected");
    put_text("chat_template.jinja", "three");
    expect_chat("three");
    put_text("chat_template.jinja", "\xFF");
    refuse(ST_INVALID_ARGUMENT, "chat_template.jinja: not UTF-8 at byte 0");
}

/* "No limit", as transformers writes it: int(1e30).  Numbers of this file are
 * not read. */
static void any_number(void **state)
{
    (void)state;
    put_text("tokenizer_config.json",
             "{\"model_max_length\":1000000000000000019884624838656,"
             "\"chat_template\":\"one\"}");
    expect_chat("one");
    put_text("tokenizer_config.json",
             "{\"model_max_length\":9223372036854775808,"
             "\"least\":-9223372036854775809,\"chat_template\":7}");
    refuse(ST_INVALID_ARGUMENT,
           "tokenizer_config.json: chat_template: expected a string");
    put_text("tokenizer_config.json",
             "{\"a\":-Infinity,\"chat_template\":\"one\"}");
    expect_chat("one");
    put_text("tokenizer_config.json", "{\"chat_template\":\"one\",}");
    refuse(ST_INVALID_ARGUMENT, "tokenizer_config.json: line 1");
}

static void named_templates(void **state)
{
    struct text_assets *a;
    size_t n;

    (void)state;
    put_text("tokenizer_config.json",
             "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":"
             "\"tools\"},{\"name\":\"default\",\"template\":\"two\"}]}");
    put_text("chat_template.jinja", "file");
    a = load();
    assert_string_equal(text_assets_named_template(a, "tool_use", &n), "tools");
    assert_int_equal(n, 5);
    assert_string_equal(text_assets_named_template(a, "default", &n), "two");
    assert_null(text_assets_named_template(a, "rag", &n));
    assert_int_equal(n, 0);
    text_assets_free(&a);
    expect_chat("file");
}

static void token_spellings(void **state)
{
    struct text_assets *a;

    (void)state;
    put_text("tokenizer_config.json",
             "{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"</s>\"},"
             "\"pad_token\":null}");
    a = load();
    assert_string_equal(text_assets_bos_token(a), "<s>");
    assert_string_equal(text_assets_eos_token(a), "</s>");
    assert_null(text_assets_pad_token(a));
    assert_null(text_assets_unk_token(a));
    text_assets_free(&a);
    put_text("tokenizer_config.json", "{\"unk_token\":[]}");
    refuse(ST_INVALID_ARGUMENT, "tokenizer_config.json: unk_token: expected");
}

static void sampling_defaults(void **state)
{
    const struct text_defaults *d;
    struct text_assets *a;

    (void)state;
    a = load();
    assert_false(text_assets_defaults(a)->has_temperature);
    text_assets_free(&a);
    put_text("generation_config.json",
             "{\"do_sample\":true,\"temperature\":0.5,\"top_k\":20,"
             "\"top_p\":1,\"repetition_penalty\":null}");
    a = load();
    d = text_assets_defaults(a);
    assert_true(d->has_do_sample && d->do_sample);
    assert_true(d->has_temperature && d->temperature == 0.5);
    assert_true(d->has_top_k && d->top_k == 20);
    assert_true(d->has_top_p && d->top_p == 1);
    assert_false(d->has_min_p || d->has_repetition_penalty);
    text_assets_free(&a);
    put_text("generation_config.json", "{\"temperature\":NaN}");
    refuse(ST_INVALID_ARGUMENT,
           "generation_config.json: temperature: expected");
    put_text("generation_config.json", "{\"top_k\":1.5}");
    refuse(ST_INVALID_ARGUMENT, "generation_config.json: top_k: expected");
    put_text("generation_config.json", "{\"min_p\":\"x\"}");
    refuse(ST_INVALID_ARGUMENT, "generation_config.json: min_p: expected");
    put_text("generation_config.json", "{\"do_sample\":1}");
    refuse(ST_INVALID_ARGUMENT, "generation_config.json: do_sample");
}

/* Where numbers are read, an id must be an integer within 63 bits. */
static void whole_numbers(void **state)
{
    (void)state;
    put_text("config.json", "{\"limits\":[0,Infinity]}");
    expect_chat(NULL);
    put_text("config.json", "{\"eos_token_id\":7.0}");
    refuse(ST_INVALID_ARGUMENT,
           "config.json: eos_token_id: expected an integer");
    put_text("config.json", "{\"eos_token_id\":9223372036854775808}");
    refuse(ST_INVALID_ARGUMENT, "config.json: line 1");
}

static void chat_limit(void **state)
{
    char *text = malloc(TEXT_CHAT_BYTES + 1);
    struct text_assets *a;
    size_t n;

    (void)state;
    assert_non_null(text);
    memset(text, 'x', TEXT_CHAT_BYTES + 1);
    put("chat_template.jinja", text, TEXT_CHAT_BYTES);
    a = load();
    assert_non_null(text_assets_chat_template(a, &n));
    assert_int_equal(n, TEXT_CHAT_BYTES);
    text_assets_free(&a);
    put("chat_template.jinja", text, TEXT_CHAT_BYTES + 1);
    refuse(ST_OUT_OF_RANGE, "chat_template.jinja: 1048577 bytes");
    free(text);
}

static void broken_tokenizer(void **state)
{
    struct text_assets *a;
    struct error e;

    (void)state;
    put_text("tokenizer.json", "{}");
    refuse(ST_UNIMPLEMENTED, "tokenizer.json: pre_tokenizer");
    assert_int_equal(text_assets_load(&a, "no/such/model", &e), ST_NOT_FOUND);
    assert_non_null(strstr(e.text, "no/such/model: "));
    assert_int_equal(text_assets_load(&a, "README.md", NULL),
                     access("README.md", F_OK) == 0 ? ST_INVALID_ARGUMENT
                                                    : ST_NOT_FOUND);
}

int main(void)
{
#define IN_DIR(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_hybrid),
        IN_DIR(served_by_ids),
        IN_DIR(eos_ids),
        IN_DIR(eos_refused),
        IN_DIR(eos_limit),
        IN_DIR(chat_templates),
        IN_DIR(any_number),
        IN_DIR(named_templates),
        IN_DIR(token_spellings),
        IN_DIR(sampling_defaults),
        IN_DIR(whole_numbers),
        IN_DIR(chat_limit),
        IN_DIR(broken_tokenizer),
    };
#undef IN_DIR

    return cmocka_run_group_tests(tests, NULL, NULL);
}
