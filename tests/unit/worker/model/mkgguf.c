/* mkgguf.c - mkgguf TYPE [EXPERTS] DIR FILE: writes a model as a GGUF file.
 *
 * TYPE is f32, bf16, f16, q8_0, q4_0, q4_k, q6_k or mxfp4; EXPERTS is that of
 * experts.  For tests by hand and tests/golden/gguf. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/worker/model/gguf_convert.h"
#include "worker/model/shard.h"

static bool type_of(const char *name, uint32_t *type)
{
    static const struct {
        const char *name;
        uint32_t type;
    } types[] = {
        {"f32", WRITE_F32},   {"bf16", WRITE_BF16}, {"f16", WRITE_F16},
        {"q8_0", WRITE_Q8_0}, {"q4_0", WRITE_Q4_0}, {"q4_k", WRITE_Q4_K},
        {"q6_k", WRITE_Q6_K}, {"mxfp4", WRITE_MXFP4},
    };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(types[i].name, name) == 0) {
            *type = types[i].type;
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    struct gguf_types types = {.matrices = WRITE_F32};
    const char *dir = argv[argc - 2], *path = argv[argc - 1];
    struct model_config c;
    struct gguf_file *f;
    struct shard *shard;
    struct error e;

    if (argc < 4 || argc > 5 || !type_of(argv[1], &types.matrices) ||
        (argc == 5 && !type_of(argv[2], &types.experts))) {
        fputs("usage: mkgguf TYPE [EXPERTS] DIR FILE\n", stderr);
        return 2;
    }
    if (config_load(&c, dir, &e) != ST_OK ||
        shard_load(&shard, &c, dir, 0, c.shape.n_layers, NULL, &e) != ST_OK) {
        fprintf(stderr, "mkgguf: %s: %s\n", dir, e.text);
        return 1;
    }
    f = gguf_convert(&c, shard_weights(shard), &types);
    gguf_convert_save(f, path);
    gguf_file_free(&f);
    shard_free(&shard);
    return 0;
}
