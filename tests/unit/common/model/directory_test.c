#include "common/model/directory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/worker/model/fixture.h"

#include "tests/unit/cmocka.h"

#define POINTER \
    "version https://git-lfs.invalid/spec/v1\noid sha256:0\nsize 9\n"

static struct error e;

/* Makes a directory with files, (name, content) up to a NULL. */
static const char *make(const char *name, const char *const *files)
{
    const char *dir = fixture_path(name);
    char path[512];

    assert_int_equal(mkdir(dir, 0777), 0);
    for (; *files != NULL; files += 2) {
        snprintf(path, sizeof path, "%s/%s", dir, files[0]);
        fixture_write(path, files[1], strlen(files[1]));
    }
    return dir;
}

#define MAKE(name, ...) make(name, (const char *const[]){__VA_ARGS__, NULL})

static void refuses(const char *dir, unsigned need, enum status code,
                    const char *text)
{
    assert_int_equal(directory_check(dir, need, &e), code);
    if (strstr(e.text, text) == NULL) {
        fail_msg("no \"%s\" in: %s", text, e.text);
    }
}

static void accepts_what_is_needed_and_no_more(void **state)
{
    const char *dir = MAKE("plain", "config.json", "{} \n");

    (void)state;
    assert_int_equal(directory_check(dir, DIRECTORY_CONFIG, &e), ST_OK);
    assert_int_equal(directory_check(dir, 0, &e), ST_OK);
    refuses(dir, DIRECTORY_TOKENIZER, ST_NOT_FOUND, "no tokenizer.json");
    refuses(dir, DIRECTORY_WEIGHTS, ST_NOT_FOUND, "no weights: neither");
    dir = MAKE("index", "model.safetensors.index.json", "{}");
    assert_int_equal(directory_check(dir, DIRECTORY_WEIGHTS, &e), ST_OK);
    refuses(dir, DIRECTORY_CONFIG, ST_NOT_FOUND, "no config.json");
}

/* A link to itself is there, but nobody can look at it. */
static void an_unreadable_file_is_not_missing(void **state)
{
    static const struct {
        const char *name;
        unsigned need;
    } rows[] = {{"config.json", DIRECTORY_CONFIG},
                {"tokenizer.json", DIRECTORY_TOKENIZER},
                {"model.safetensors", DIRECTORY_WEIGHTS}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *dir = MAKE(rows[i].name, "other", "{}");
        char path[512];

        snprintf(path, sizeof path, "%s/%s", dir, rows[i].name);
        assert_int_equal(symlink(path, path), 0);
        refuses(dir, rows[i].need, ST_UNAVAILABLE, "Too many levels");
    }
}

static void tells_a_path_from_the_name_of_a_hub(void **state)
{
    static const char *const names[] = {"Qwen/Qwen3.5-0.8B", "a/b"};
    static const char *const paths[] = {"/a/b", "./a",   "../a", "a",
                                        "a/",   "a/b/c", ""};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        refuses(names[i], 0, ST_NOT_FOUND, "name of a model on a hub");
    }
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        refuses(paths[i], 0, ST_NOT_FOUND, "give the directory of a model");
    }
}

static void names_the_other_formats(void **state)
{
    static const struct {
        const char *dir, *file, *text;
    } rows[] = {
        {"bin", "pytorch_model.bin", "PyTorch's format"},
        {"bins", "pytorch_model-00001-of-00002.bin", "PyTorch's format"},
        {"pth", "consolidated.00.pth", "PyTorch's format"},
        {"adapter", "adapter_config.json", "this is an adapter"},
        {"part", "model.safetensors.incomplete", "download is incomplete"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *dir = MAKE(rows[i].dir, rows[i].file, "x");
        char path[512];
        bool found = true;

        refuses(dir, DIRECTORY_CONFIG, ST_INVALID_ARGUMENT, rows[i].text);
        refuses(dir, DIRECTORY_TOKENIZER, ST_INVALID_ARGUMENT, rows[i].text);
        refuses(dir, DIRECTORY_WEIGHTS, ST_INVALID_ARGUMENT, rows[i].text);
        assert_int_equal(directory_weights(dir, &found, &e),
                         ST_INVALID_ARGUMENT);
        assert_false(found);
        /* Beside safetensors they do no harm. */
        snprintf(path, sizeof path, "%s/model.safetensors", dir);
        fixture_write(path, "x", 1);
        assert_int_equal(directory_weights(dir, &found, &e), ST_OK);
        assert_true(found);
    }
}

static void other_files_are_no_weights(void **state)
{
    const char *dir =
        MAKE("others", "training_args.bin", "x", "config.json", "{}");
    bool found = true;

    (void)state;
    assert_int_equal(directory_weights(dir, &found, &e), ST_OK);
    assert_false(found);
}

static void recognises_pointers(void **state)
{
    const char *dir = MAKE("config", "config.json", POINTER);

    (void)state;
    refuses(dir, 0, ST_DATA_LOSS, "config.json: this is a Git LFS pointer");
    dir = MAKE("tokenizer", "config.json", "{}", "tokenizer.json", POINTER);
    refuses(dir, DIRECTORY_CONFIG, ST_DATA_LOSS, "tokenizer.json: this is a");
    assert_true(directory_is_pointer("version https://git-lfs", 23));
    assert_false(directory_is_pointer("version https://git-lfs", 22));
    assert_false(directory_is_pointer("version https://git-lfX", 23));
}

static void recognises_files_that_end_early(void **state)
{
    static const struct {
        const char *dir, *content;
        bool whole;
    } rows[] = {{"e0", "", false},        {"e1", "{", false},
                {"e2", "{}", true},       {"e3", "{}\r\n\t ", true},
                {"e4", "{\"a\":", false}, {"e5", " \n", false},
                {"e6", "[1]", true}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *dir = MAKE(rows[i].dir, "tokenizer.json", rows[i].content);

        if (rows[i].whole) {
            assert_int_equal(directory_check(dir, DIRECTORY_TOKENIZER, &e),
                             ST_OK);
        } else {
            refuses(dir, 0, ST_DATA_LOSS,
                    "the file does not end as JSON does, after ");
        }
    }
}

static void a_file_is_no_directory(void **state)
{
    const char *dir = MAKE("files", "x.txt", "x", "x.safetensors", "x");
    char path[512];

    (void)state;
    snprintf(path, sizeof path, "%s/x.txt", dir);
    refuses(path, 0, ST_INVALID_ARGUMENT, "or a *.gguf file");
    snprintf(path, sizeof path, "%s/x.safetensors", dir);
    refuses(path, 0, ST_INVALID_ARGUMENT, "this is a file; give the model's");
}

/* A file beside config.json changes what the directory holds. */
static void loads(const char *name, const char *file, const char *text,
                  enum status code, const char *want)
{
    json_t *j = fixture_config("qwen3");
    char *config = json_dumps(j, 0);
    const char *dir = MAKE(name, "config.json", config, file, text);
    struct model_config c;

    e.text[0] = '\0';
    assert_int_equal(config_load(&c, dir, &e), code);
    if (strstr(e.text, want) == NULL) {
        fail_msg("no \"%s\" in: %s", want, e.text);
    }
    free(config);
    json_decref(j);
}

static void reads_the_files_beside_a_configuration(void **state)
{
    (void)state;
    loads("embedding", "modules.json", "[]", ST_UNIMPLEMENTED,
          "modules.json: this is an embedding model or a reranker; models");
    loads("embedding2", "config_sentence_transformers.json", "{}",
          ST_UNIMPLEMENTED, "this is an embedding model or a reranker; models");
    loads("modelopt", "hf_quant_config.json",
          "{\"quantization\": {\"quant_algo\": \"NVFP4\"}}", ST_UNIMPLEMENTED,
          "hf_quant_config.json: weights quantised by \"modelopt\" as "
          "\"NVFP4\"");
    loads("modelopt2", "hf_quant_config.json", "{", ST_INVALID_ARGUMENT,
          "hf_quant_config.json: ");
    loads("generation", "generation_config.json", "{\"top_p\": NaN}", ST_OK,
          "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_what_is_needed_and_no_more),
        cmocka_unit_test(an_unreadable_file_is_not_missing),
        cmocka_unit_test(tells_a_path_from_the_name_of_a_hub),
        cmocka_unit_test(names_the_other_formats),
        cmocka_unit_test(other_files_are_no_weights),
        cmocka_unit_test(recognises_pointers),
        cmocka_unit_test(recognises_files_that_end_early),
        cmocka_unit_test(a_file_is_no_directory),
        cmocka_unit_test(reads_the_files_beside_a_configuration),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
