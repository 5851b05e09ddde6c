/* mkgguf.c - mkgguf TYPE[,EXPERTS] DIR FILE [PRE]: writes a model as a GGUF
 * file.
 *
 * TYPE is f32, bf16, f16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k,
 * iq4_nl, iq4_xs or mxfp4; EXPERTS is that of
 * experts.  With PRE, the name of its split expression, the tokenizer of DIR
 * is written, too, and its chat template.  For tests by hand, tests/golden/gguf
 * and tests/system/gguf. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/text/gguf_tokens.h"
#include "tests/unit/worker/model/fixture.h"
#include "tests/unit/worker/model/gguf_convert.h"
#include "worker/model/shard.h"

static bool type_of(const char *name, size_t n, uint32_t *type)
{
    static const struct {
        const char *name;
        uint32_t type;
    } types[] = {
        {"f32", WRITE_F32},       {"bf16", WRITE_BF16},
        {"f16", WRITE_F16},       {"q8_0", WRITE_Q8_0},
        {"q4_0", WRITE_Q4_0},     {"q4_k", WRITE_Q4_K},
        {"q6_k", WRITE_Q6_K},     {"mxfp4", WRITE_MXFP4},
        {"q4_1", WRITE_Q4_1},     {"q5_0", WRITE_Q5_0},
        {"q5_1", WRITE_Q5_1},     {"q5_k", WRITE_Q5_K},
        {"iq4_nl", WRITE_IQ4_NL}, {"iq4_xs", WRITE_IQ4_XS},
    };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strlen(types[i].name) == n &&
            strncmp(types[i].name, name, n) == 0) {
            *type = types[i].type;
            return true;
        }
    }
    return false;
}

static bool read_types(struct gguf_types *types, const char *text)
{
    const char *comma = strchr(text, ',');
    size_t n = comma == NULL ? strlen(text) : (size_t)(comma - text);

    return type_of(text, n, &types->matrices) &&
           (comma == NULL ||
            type_of(comma + 1, strlen(comma + 1), &types->experts));
}

static void put_text(struct gguf_file *f, const char *dir, const char *pre)
{
    char path[512], *text;
    json_t *file;
    size_t n;

    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    file = json_load_file(path, JSON_ALLOW_NUL, NULL);
    gguf_put_tokenizer(f, file, pre);
    json_decref(file);
    snprintf(path, sizeof path, "%s/chat_template.jinja", dir);
    text = fixture_read(path, &n);
    gguf_put_text(f, "tokenizer.chat_template", text);
    free(text);
}

int main(int argc, char **argv)
{
    struct gguf_types types = {.matrices = WRITE_F32};
    struct model_config c;
    struct gguf_file *f;
    struct shard *shard;
    struct error e;

    if (argc < 4 || argc > 5 || !read_types(&types, argv[1])) {
        fputs("usage: mkgguf TYPE[,EXPERTS] DIR FILE [PRE]\n", stderr);
        return 2;
    }
    if (config_load(&c, argv[2], &e) != ST_OK ||
        shard_load(&shard, &c, argv[2], 0, c.shape.n_layers, NULL, &e) !=
            ST_OK) {
        fprintf(stderr, "mkgguf: %s: %s\n", argv[2], e.text);
        return 1;
    }
    f = gguf_convert(&c, shard_weights(shard), &types);
    if (argc == 5) {
        put_text(f, argv[2], argv[4]);
    }
    gguf_convert_save(f, argv[3]);
    gguf_file_free(&f);
    shard_free(&shard);
    return 0;
}
