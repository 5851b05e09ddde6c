/* golden_to_gguf - writes a model directory as a GGUF file.
 *
 *     golden_to_gguf MODEL_DIR TYPE EXPERTS FILE
 *
 * TYPE is that of matrices, EXPERTS that of experts: f32, bf16, q8_0, q4_0 or
 * mxfp4.  Matrices whose rows are no whole blocks become float32.
 *
 * Exit code: 0 if the file is written. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/worker/model/gguf_convert.h"
#include "worker/model/shard.h"

static bool type_of(const char *name, uint32_t *type)
{
    static const struct {
        const char *name;
        uint32_t type;
    } types[] = {{"f32", WRITE_F32},
                 {"bf16", WRITE_BF16},
                 {"q8_0", WRITE_Q8_0},
                 {"q4_0", WRITE_Q4_0},
                 {"mxfp4", WRITE_MXFP4}};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(name, types[i].name) == 0) {
            *type = types[i].type;
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    static struct model_config config;
    struct gguf_types types = {0};
    struct shard *shard = NULL;
    struct gguf_file *f;
    struct error e;

    if (argc != 5 || !type_of(argv[2], &types.matrices) ||
        !type_of(argv[3], &types.experts)) {
        fprintf(stderr, "usage: golden_to_gguf MODEL_DIR TYPE EXPERTS FILE\n");
        return 2;
    }
    if (config_load(&config, argv[1], &e) != ST_OK ||
        shard_load(&shard, &config, argv[1], 0, config.shape.n_layers, NULL,
                   &e) != ST_OK) {
        fprintf(stderr, "golden_to_gguf: %s: %s\n", argv[1], e.text);
        return 1;
    }
    f = gguf_convert(&config, shard_weights(shard), &types);
    gguf_convert_save(f, argv[4]);
    gguf_file_free(&f);
    shard_free(&shard);
    return 0;
}
