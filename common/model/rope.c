#include "common/model/rope.h"

#include <string.h>

#include "common/base/quote.h"
#include "common/model/model_limits.h"

static const struct {
    const char *name;
    enum rope_kind kind;
} kinds[] = {
    {"default", ROPE_DEFAULT},
    {"mrope", ROPE_DEFAULT}, /* the three positions of text are equal */
    {"linear", ROPE_LINEAR},
    {"llama3", ROPE_LLAMA3},
};

static enum rope_kind kind_of(struct fields *f)
{
    const char *name = field_text(f, "rope_type");

    if (name == NULL) {
        name = field_text(f, "type");
    }
    if (name == NULL) {
        return ROPE_DEFAULT;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return kinds[i].kind;
        }
    }
    field_fault(f, ST_UNIMPLEMENTED,
                "rope_type %s is not supported; default, linear and llama3 "
                "are",
                quote(name).text);
    return ROPE_DEFAULT;
}

/* The three parts of a multimodal position share the rotated dimensions. */
static void check_sections(struct fields *f, uint32_t dim)
{
    const json_t *v = field_get(f, "mrope_section");
    json_int_t sum = 0;

    if (v == NULL) {
        return;
    }
    for (size_t i = 0; i < json_array_size(v) && i < 4; i++) {
        json_int_t n = json_integer_value(json_array_get(v, i));

        /* Clamped, so that the sum cannot overflow; it is then wrong and
         * refused. */
        if (n < 0 || n > MODEL_HEAD_DIM_MAX) {
            n = MODEL_HEAD_DIM_MAX;
        }
        sum += n;
    }
    if (json_array_size(v) != 3 || sum * 2 != (json_int_t)dim) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "mrope_section does not add up to half of the %u rotated "
                    "dimensions",
                    dim);
    }
}

static void parse_scaling(struct rope_shape *r, struct fields *f,
                          uint32_t context)
{
    r->kind = kind_of(f);
    if (r->kind == ROPE_DEFAULT) {
        return;
    }
    r->factor = field_real(f, "factor", 0, 1, MODEL_FACTOR_MAX);
    /* A missing factor reads as 0: the reference has no default either. */
    if (r->factor < 1) {
        field_fault(f, ST_INVALID_ARGUMENT, "rotary scaling without a factor");
    }
    if (r->kind == ROPE_LINEAR) {
        return;
    }
    r->low_freq = field_real(f, "low_freq_factor", 1, 1e-3, 1e3);
    r->high_freq = field_real(f, "high_freq_factor", 4, 1e-3, 1e3);
    r->original = field_u32(f, "original_max_position_embeddings", context, 1,
                            MODEL_CONTEXT_MAX);
    /* The formula divides by their difference. */
    if (r->high_freq <= r->low_freq) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "high_freq_factor %g is not above low_freq_factor %g",
                    r->high_freq, r->low_freq);
    }
}

/* Enters `rope_parameters`, else `rope_scaling`, if one is present. */
static void enter(struct fields *f)
{
    const char *key = "rope_parameters";
    const json_t *v = field_get(f, key);

    if (v == NULL) {
        key = "rope_scaling";
        v = field_get(f, key);
    }
    if (v != NULL && !json_is_object(v)) {
        field_fault(f, ST_INVALID_ARGUMENT, "%s is not an object", key);
    } else if (v != NULL) {
        f->inner = v;
        f->outer = NULL;
    }
}

static void look_into(struct fields *f, const struct fields *place)
{
    f->inner = place->inner;
    f->outer = place->outer;
}

/* Reads a key from f's object, or from the flat keys if it is absent there. */
static double either(struct fields *f, const struct fields *flat,
                     const char *key, double fallback, double min, double max)
{
    const struct fields here = *f;
    double x;

    if (field_get(f, key) == NULL) {
        look_into(f, flat);
    }
    x = field_real(f, key, fallback, min, max);
    look_into(f, &here);
    return x;
}

void rope_parse(struct rope_shape *r, struct fields *f, uint32_t head_dim,
                double partial, uint32_t context)
{
    const struct fields flat = *f;

    memset(r, 0, sizeof *r);
    enter(f);
    parse_scaling(r, f, context);
    r->theta =
        either(f, &flat, "rope_theta", 10000, MODEL_THETA_MIN, MODEL_THETA_MAX);
    partial = either(f, &flat, "partial_rotary_factor", partial, 0, 1);
    r->dim = (uint32_t)((double)head_dim * partial);
    if (r->dim == 0 || r->dim % 2 != 0) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "%u of %u dimensions of a head are rotated, an even "
                    "number above 0 is needed",
                    r->dim, head_dim);
    }
    check_sections(f, r->dim);
    look_into(f, &flat);
}
