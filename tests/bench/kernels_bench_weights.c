#include "tests/bench/kernels_bench_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/weight_format.h"
#include "kernels/cpu/pack.h"

static bool read_formats(char *text, uint32_t *set)
{
    char *save = NULL;

    *set = 0;
    for (char *name = strtok_r(text, ",", &save); name != NULL;
         name = strtok_r(NULL, ",", &save)) {
        uint32_t f = WEIGHT_FP8;

        while (f < WEIGHT_FORMATS &&
               strcmp(name, weight_format_name((enum weight_format)f)) != 0) {
            f++;
        }
        *set |= 1u << f;
    }
    return *set != 0 && *set < 1u << WEIGHT_FORMATS;
}

bool bench_weights_take(int c, char *text, uint32_t *set,
                        enum kernels_products *products)
{
    if (c != 'w' && c != 'x') {
        return false;
    }
    if (c == 'w') {
        return read_formats(text, set);
    }
    *products = strcmp(text, "int8") == 0 ? PRODUCTS_INT8 : PRODUCTS_FLOAT;
    return *products == PRODUCTS_INT8 || strcmp(text, "float") == 0;
}

void bench_weights_shape(struct random_shape *r, uint32_t set)
{
    if (set != 0) {
        r->quantised = true;
        r->formats = set;
        r->bits = r->group = 32; /* all matrices; the formats have their own */
    }
}

void bench_weights_pack(struct shard_weights *w,
                        const struct kernels_options *o)
{
    struct error e;

    if (o->products == PRODUCTS_INT8 &&
        cpu_pack(w, o->n_threads, &e) != ST_OK) {
        fprintf(stderr, "kernels_bench: %s\n", e.text);
        exit(1);
    }
}
