#include "tests/unit/worker/model/fixture.h"

#include <dirent.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/model/safetensors.h"
#include "tests/unit/cmocka.h"

static char root[] = "/tmp/sluice-model-XXXXXX";

int fixture_setup(void **state)
{
    (void)state;
    return mkdtemp(root) == NULL;
}

static int drop(const char *path, const struct stat *s, int kind, struct FTW *f)
{
    (void)s;
    (void)kind;
    (void)f;
    return remove(path);
}

int fixture_teardown(void **state)
{
    (void)state;
    return nftw(root, drop, 16, FTW_DEPTH | FTW_PHYS);
}

const char *fixture_path(const char *name)
{
    static char paths[8][PATH_MAX];
    static int at;

    at = (at + 1) % 8;
    snprintf(paths[at], sizeof paths[at], "%s/%s", root, name);
    return paths[at];
}

char *fixture_read(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    char *bytes;
    long n;

    if (f == NULL) {
        fail_msg("cannot read %s", path);
    }
    fseek(f, 0, SEEK_END);
    n = ftell(f);
    rewind(f);
    bytes = malloc((size_t)n + 1);
    assert_non_null(bytes);
    *len = fread(bytes, 1, (size_t)n, f);
    assert_int_equal(*len, n);
    bytes[*len] = '\0';
    fclose(f);
    return bytes;
}

void fixture_write(const char *path, const void *bytes, size_t len)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

json_t *fixture_config(const char *model_type)
{
    json_t *j = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:s}", "model_type",
        model_type, "num_hidden_layers", 4, "hidden_size", 32,
        "intermediate_size", 48, "vocab_size", 64, "num_attention_heads", 4,
        "num_key_value_heads", 2, "head_dim", 16, "max_position_embeddings",
        256, "tie_word_embeddings", 0, "dtype", "float32");
    json_t *linear =
        json_pack("{s:i, s:i, s:i, s:i, s:i}", "linear_num_key_heads", 2,
                  "linear_num_value_heads", 4, "linear_key_head_dim", 8,
                  "linear_value_head_dim", 6, "linear_conv_kernel_dim", 4);

    assert_non_null(j);
    assert_non_null(linear);
    json_object_update(j, linear);
    json_decref(linear);
    json_object_set_new(j, "num_experts",
                        json_integer(0)); /* not the default */
    return j;
}

enum status fixture_parse(struct model_config *c, const json_t *j,
                          struct error *e)
{
    char *text = json_dumps(j, 0);
    enum status st;

    assert_non_null(text);
    *e = (struct error){.code = ST_OK};
    st = config_parse(c, text, strlen(text), e);
    free(text);
    assert_int_equal(st, e->code);
    return st;
}

struct model_config fixture_parsed(const json_t *j)
{
    struct model_config c;
    struct error e;

    if (fixture_parse(&c, j, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return c;
}

json_t *fixture_llama3(double factor)
{
    return json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3",
                     "factor", factor, "low_freq_factor", 1.0,
                     "high_freq_factor", 4.0,
                     "original_max_position_embeddings", 128);
}

const char *fixture_model(const char *name, const json_t *config,
                          const struct writer_options *o)
{
    const char *dir = fixture_path(name);
    const char *path = fixture_path("fixture-config.json");
    struct error e;

    assert_int_equal(json_dump_file(config, path, 0), 0);
    if (model_write(path, dir, o, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return dir;
}

/* Copies an object with model.X renamed to model.language_model.X. */
static json_t *renamed(const json_t *object)
{
    json_t *out = json_object(), *v;
    const char *key;
    char name[256];

    json_object_foreach((json_t *)(uintptr_t)object, key, v)
    {
        bool inside = strncmp(key, "model.", 6) == 0;

        snprintf(name, sizeof name, "%s%s",
                 inside ? "model.language_model." : "", inside ? key + 6 : key);
        json_object_set(out, name, v);
    }
    return out;
}

static void nest_weights(const char *from, const char *to)
{
    size_t len, n = 0, m;
    char *bytes = fixture_read(from, &len), *text;
    json_t *header, *other;
    FILE *f = fopen(to, "wb");

    assert_non_null(f);
    for (int i = 7; i >= 0; i--) {
        n = n << 8 | (unsigned char)bytes[i];
    }
    header = json_loadb(bytes + 8, n, 0, NULL);
    assert_non_null(header);
    other = renamed(header);
    text = json_dumps(other, JSON_COMPACT);
    m = strlen(text);
    for (int i = 0; i < 8; i++) {
        fputc((int)(m >> (8 * i) & 0xff), f);
    }
    assert_int_equal(fwrite(text, 1, m, f), m);
    assert_int_equal(fwrite(bytes + 8 + n, 1, len - 8 - n, f), len - 8 - n);
    assert_int_equal(fclose(f), 0);
    free(text);
    json_decref(other);
    json_decref(header);
    free(bytes);
}

static void nest_index(const char *from, const char *to)
{
    json_t *j = json_load_file(from, 0, NULL);

    assert_non_null(j);
    json_object_set_new(j, "weight_map",
                        renamed(json_object_get(j, "weight_map")));
    assert_int_equal(json_dump_file(j, to, 0), 0);
    json_decref(j);
}

static void nest_config(const char *from, const char *to)
{
    json_t *inner = json_load_file(from, 0, NULL), *outer;
    json_t *tied = json_object_get(inner, "tie_word_embeddings");

    assert_non_null(inner);
    outer =
        json_pack("{s:[s], s:s, s:O, s:o}", "architectures",
                  "Qwen3_5ForConditionalGeneration", "model_type", "qwen3_5",
                  "tie_word_embeddings", tied, "text_config", inner);
    json_object_del(inner, "architectures");
    assert_int_equal(json_dump_file(outer, to, 0), 0);
    json_decref(outer);
}

static bool ends_in(const char *name, const char *tail)
{
    size_t n = strlen(name), m = strlen(tail);

    return n >= m && strcmp(name + n - m, tail) == 0;
}

const char *fixture_nest(const char *from, const char *name)
{
    const char *dir = fixture_path(name);
    DIR *d = opendir(from);
    struct dirent *f;
    char a[PATH_MAX], b[PATH_MAX];

    assert_non_null(d);
    assert_int_equal(mkdir(dir, 0777), 0);
    while ((f = readdir(d)) != NULL) {
        snprintf(a, sizeof a, "%s/%s", from, f->d_name);
        snprintf(b, sizeof b, "%s/%s", dir, f->d_name);
        if (ends_in(a, ".safetensors") &&
            strncmp(f->d_name, "golden", 6) != 0) {
            nest_weights(a, b);
        } else if (ends_in(a, ".index.json")) {
            nest_index(a, b);
        } else if (strcmp(f->d_name, "config.json") == 0) {
            nest_config(a, b);
        }
    }
    closedir(d);
    return dir;
}

struct model_config fixture_load_config(const char *dir)
{
    struct model_config c;
    struct error e;

    if (config_load(&c, dir, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return c;
}

struct shard *fixture_shard(const char *dir, uint32_t begin, uint32_t end)
{
    struct model_config c = fixture_load_config(dir);
    struct shard *s;
    struct error e;

    if (shard_load(&s, &c, dir, begin, end, NULL, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return s;
}

struct shard *fixture_shard_all(const char *dir)
{
    return fixture_shard(dir, 0, fixture_load_config(dir).shape.n_layers);
}

void fixture_refused(const char *dir, enum status code, const char *text)
{
    struct model_config c = fixture_load_config(dir);
    struct shard *s;
    struct error e;

    if (shard_load(&s, &c, dir, 0, c.shape.n_layers, NULL, &e) != code ||
        strstr(e.text, text) == NULL) {
        fail_msg("%s: \"%s\" has no \"%s\"", status_name(e.code), e.text, text);
    }
    assert_null(s);
}

char *fixture_stored(const char *dir, const char *name, const char *tensor)
{
    struct safetensors s;
    struct error e;
    char path[512], *bytes, *out = NULL;
    size_t len;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    bytes = fixture_read(path, &len);
    assert_int_equal(safetensors_parse_file(&s, bytes, len, &e), ST_OK);
    for (uint32_t i = 0; i < s.n; i++) {
        const struct safetensors_tensor *t = &s.tensors[i];

        if (strcmp(t->name, tensor) == 0) {
            out = malloc(t->end - t->begin);
            assert_non_null(out);
            memcpy(out, bytes + s.data + t->begin, t->end - t->begin);
        }
    }
    assert_non_null(out);
    safetensors_fini(&s);
    free(bytes);
    return out;
}

int fixture_open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(d);
    while (readdir(d) != NULL) {
        n++;
    }
    closedir(d);
    return n;
}
