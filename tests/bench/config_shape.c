#include "tests/bench/config_shape.h"

#include <stdio.h>
#include <string.h>

#include "common/model/weight_format.h"

#define TEXT_MAX ((size_t)1 << 20)

enum status config_shape_read(struct model_config *c, const char *path,
                              struct error *e)
{
    static char text[TEXT_MAX];
    FILE *f = fopen(path, "re");
    size_t n;

    if (f == NULL) {
        return error_set(e, ST_NOT_FOUND, "%s cannot be read", path);
    }
    n = fread(text, 1, sizeof text, f);
    fclose(f);
    return config_parse(c, text, n, e);
}

void config_shape_cut(struct model_config *c, uint32_t n)
{
    struct model_shape *s = &c->shape;

    if (n < s->n_layers) {
        s->vocab = (uint32_t)((uint64_t)s->vocab * n / s->n_layers);
        s->n_layers = n;
    }
}

void config_shape(struct random_shape *r, const struct model_config *c,
                  uint32_t bits, uint32_t group)
{
    const struct quantisation *q = &c->quant;

    *r = (struct random_shape){
        .shape = c->shape,
        .tied = c->tied,
        .qkv_bias = c->qkv_bias,
        .o_bias = c->o_bias,
        .qk_norm = c->qk_norm,
        .sinks = c->sinks,
        .output_norms = c->output_norms,
        .expert_bias = c->expert_bias,
        .shared_gate = c->shared_gate,
    };
    memcpy(r->mixers, c->mixers, c->shape.n_layers * sizeof r->mixers[0]);
    memcpy(r->ffns, c->ffns, c->shape.n_layers * sizeof r->ffns[0]);
    if (bits > 0) {
        r->quantised = true;
        r->bits = bits;
        r->group = group;
    } else if (q->format != WEIGHT_PLAIN) {
        r->quantised = true;
        r->experts_only = q->experts_only;
        r->formats = 1u << q->format;
        /* Any bits: all matrices; affine ones have these. */
        r->bits = q->bits > 0 ? q->bits : weight_format_bits(q->format);
        r->group = q->group;
    }
}

bool config_shape_named(const char *path)
{
    size_t n = strlen(path);

    return n > 5 && strcmp(path + n - 5, ".json") == 0;
}
