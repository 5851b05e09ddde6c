/* mkmodel - writes a model directory of random weights.
 *
 *     mkmodel CONFIG.json DIR [--seed N] [--dtype bf16|f16|f32] [--files N]
 *             [--prefix text|multimodal|mlx] [--bits 4|8] [--group 32|64|128]
 *             [--format plain|fp8|mxfp4] [--experts each|fused|switch]
 *             [--mtp shards|companion|bare]
 *
 * With --bits, weights are quantised, in groups of 64 unless --group is
 * given.  With --mtp the model has the MTP layer that the config declares.
 * Without --bits and --format, the form of the weights is that of the
 * config. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/model_writer.h"

static int usage(void)
{
    fprintf(stderr,
            "usage: mkmodel CONFIG.json DIR [--seed N] "
            "[--dtype bf16|f16|f32]\n"
            "               [--files N] [--prefix text|multimodal|mlx]\n"
            "               [--bits 4|8] [--group 32|64|128]\n"
            "               [--format plain|fp8|mxfp4] "
            "[--experts each|fused|switch]\n"
            "               [--mtp shards|companion|bare]\n");
    return 2;
}

/* Returns the index of word in a list of n, or -1. */
static int place(const char *word, const char *const *list, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(word, list[i]) == 0) {
            return i;
        }
    }
    return -1;
}

static int parse(struct writer_options *o, const char *key, const char *value)
{
    static const char *const types[] = {"f32", "bf16", "f16"};
    static const char *const names[] = {"text", "multimodal", "mlx"};
    static const char *const bits[] = {"4", "8"};
    static const char *const groups[] = {"32", "64", "128"};
    static const char *const formats[] = {"plain", "fp8", "mxfp4"};
    static const char *const forms[] = {"each", "fused", "switch"};
    static const char *const places[] = {"shards", "companion", "bare"};
    static const char *const keys[] = {"--seed",   "--files",   "--dtype",
                                       "--prefix", "--bits",    "--group",
                                       "--format", "--experts", "--mtp"};
    int n;

    switch (place(key, keys, 9)) {
    case 0:
        o->seed = strtoull(value, NULL, 10);
        return 0;
    case 1:
        o->n_files = (uint32_t)strtoul(value, NULL, 10);
        return 0;
    case 2:
        n = place(value, types, 3);
        o->dtype = (enum dtype)n;
        return n;
    case 3:
        n = place(value, names, 3);
        o->prefix = (enum writer_prefix)n;
        return n;
    case 4:
        n = place(value, bits, 2);
        o->bits = n < 0 ? 0 : 4u << n;
        return n;
    case 5:
        n = place(value, groups, 3);
        o->group = n < 0 ? 0 : 32u << n;
        return n;
    case 6:
        n = place(value, formats, 3);
        o->format = (enum writer_format)(WRITER_PLAIN + n);
        return n;
    case 7:
        n = place(value, forms, 3);
        o->experts = (enum writer_experts)(WRITER_EACH + n);
        return n;
    case 8:
        n = place(value, places, 3);
        o->mtp = (enum writer_mtp)(WRITER_MTP + n);
        return n;
    default:
        return -1;
    }
}

int main(int argc, char **argv)
{
    struct writer_options o = {.dtype = DTYPE_BF16, .group = 64};
    struct error e;

    if (argc < 3 || argc % 2 == 0) {
        return usage();
    }
    for (int i = 3; i + 1 < argc; i += 2) {
        if (parse(&o, argv[i], argv[i + 1]) < 0) {
            return usage();
        }
    }
    if (model_write(argv[1], argv[2], &o, &e) != ST_OK) {
        fprintf(stderr, "mkmodel: %s\n", e.text);
        return 1;
    }
    return 0;
}
