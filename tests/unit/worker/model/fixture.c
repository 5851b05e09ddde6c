#include "tests/unit/worker/model/fixture.h"

#include <dirent.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
