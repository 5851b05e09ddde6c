#include "tests/golden/kv_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZES_BLOCK 64 /* positions of the block whose bytes are divided */

static const char *const schemes[] = {"affine", "turboquant"};

/* Splits "affine4/32+f32" in place; name has the scheme and its bits left. */
static void split(char *name, char **group, char **dtype)
{
    *dtype = strchr(name, '+');
    if (*dtype != NULL) {
        *(*dtype)++ = '\0';
    }
    *group = strchr(name, '/');
    if (*group != NULL) {
        *(*group)++ = '\0';
    }
}

enum status kv_names_read(struct kv_format *f, const char *name,
                          const struct model_config *c, struct error *e)
{
    struct kv_request r = {0};
    char copy[KV_NAME_MAX], *group, *dtype, *end = NULL;

    snprintf(copy, sizeof copy, "%s", name);
    split(copy, &group, &dtype);
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t n = strlen(schemes[i]);

        if (strncmp(copy, schemes[i], n) == 0) {
            r.scheme = schemes[i];
            r.bits = strtod(copy + n, &end);
        }
    }
    if (r.scheme == NULL) {
        r.dtype = copy;
        return kv_format_choose(f, c, &r, e);
    }
    if (*end != '\0') {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "'%s' is no KV format: the bits are not a number",
                         name);
    }
    r.dtype = dtype;
    r.group = group != NULL ? (uint32_t)strtoul(group, NULL, 10) : 0;
    return kv_format_choose(f, c, &r, e);
}

struct kv_format kv_names_must(const char *name, const struct model_config *c)
{
    struct kv_format f;
    struct error e;

    if (kv_names_read(&f, name, c, &e) != ST_OK) {
        fprintf(stderr, "%s\n", e.text);
        exit(2);
    }
    return f;
}

void kv_names_list(struct kv_names *l, const char *list,
                   const struct model_config *c)
{
    char copy[KV_NAMES_MAX * KV_NAME_MAX], *save = NULL;

    snprintf(copy, sizeof copy, "%s", list);
    l->n = 0;
    for (char *name = strtok_r(copy, ",", &save);
         name != NULL && l->n < KV_NAMES_MAX;
         name = strtok_r(NULL, ",", &save)) {
        l->of[l->n++] = kv_names_must(name, c);
    }
}

double kv_names_bytes(const struct kv_format *f, const struct model_config *c)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < c->shape.n_layers; i++) {
        struct kv_format of = kv_format_of_layer(f, i);
        struct kv_block b;

        if (mixer_memory(c->mixers[i]) == MIXER_IN_BLOCKS) {
            kv_block_make(&b, &of, c->shape.n_kv_heads, c->shape.head_dim,
                          SIZES_BLOCK);
            bytes += b.bytes;
        }
    }
    return (double)bytes / SIZES_BLOCK;
}
