#include "common/model/rope.h"

#include <math.h>
#include <string.h>

#include "common/base/quote.h"
#include "common/model/model_limits.h"

static const struct {
    const char *name;
    enum rope_kind kind;
} kinds[] = {
    {"default", ROPE_DEFAULT}, {"mrope", ROPE_DEFAULT}, /* the three positions
                                                           of text are equal */
    {"linear", ROPE_LINEAR},   {"llama3", ROPE_LLAMA3}, {"yarn", ROPE_YARN},
};

/* Returns the name of a scaling, or NULL. */
static const char *scaling_of(struct fields *f)
{
    const char *name = field_text(f, "rope_type");

    return name != NULL ? name : field_text(f, "type");
}

static enum rope_kind kind_of(struct fields *f)
{
    const char *name = scaling_of(f);

    if (name == NULL) {
        return ROPE_DEFAULT;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return kinds[i].kind;
        }
    }
    field_fault(f, ST_UNIMPLEMENTED,
                "rope_type %s is not supported; default, linear, llama3 and "
                "yarn are",
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

        if (!json_is_integer(json_array_get(v, i))) {
            field_fault(f, ST_INVALID_ARGUMENT,
                        "entry %zu of mrope_section is not a whole number", i);
        }

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

static void parse_llama3(struct rope_shape *r, struct fields *f)
{
    r->low_freq = field_real(f, "low_freq_factor", 1, 1e-3, 1e3);
    r->high_freq = field_real(f, "high_freq_factor", 4, 1e-3, 1e3);
    /* The formula divides by their difference. */
    if (r->high_freq <= r->low_freq) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "high_freq_factor %g is not above low_freq_factor %g",
                    r->high_freq, r->low_freq);
    }
}

/* Returns the factor of cosine and sine for a scale (YaRN, equation 22). */
static double concentration(double factor, double scale)
{
    return 0.1 * scale * log(factor) + 1;
}

static void parse_yarn(struct rope_shape *r, struct fields *f)
{
    double scale = field_real(f, "mscale", 0, 0, MODEL_YARN_MAX);
    double all = field_real(f, "mscale_all_dim", 0, 0, MODEL_YARN_MAX);
    double attention = concentration(r->factor, 1);

    r->beta_fast = field_real(f, "beta_fast", 32, 1e-3, MODEL_YARN_MAX);
    r->beta_slow = field_real(f, "beta_slow", 1, 1e-3, MODEL_YARN_MAX);
    r->truncate = field_bool(f, "truncate", true);
    if (scale > 0 && all > 0) {
        attention =
            concentration(r->factor, scale) / concentration(r->factor, all);
    }
    /* Rounded as the reference rounds it.  Also, logarithms of two machines may
     * differ in the last bit of a double, and the fingerprint has this. */
    r->attention = (double)(float)field_real(f, "attention_factor", attention,
                                             1e-3, MODEL_YARN_MAX);
    /* The ramp would run backwards. */
    if (r->beta_fast < r->beta_slow) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "beta_fast %g is below beta_slow %g", r->beta_fast,
                    r->beta_slow);
    }
}

/* Returns the factor of theta that an alpha is: alpha^(R / (R - 2)), or 0 if
 * the scaling is another.  Hunyuan calls it dynamic, but up to the model's
 * context it does not depend on the length of a sequence. */
static double alpha_factor(struct fields *f, const struct rope_place *p)
{
    const char *name = p->alpha ? scaling_of(f) : NULL;
    double n = p->head_dim, alpha;

    if (name == NULL || strcmp(name, "dynamic") != 0 || n <= 2 ||
        field_get(f, "alpha") == NULL) {
        return 0;
    }
    alpha = field_real(f, "alpha", 0, 1, MODEL_FACTOR_MAX);
    return pow(alpha, n / (n - 2));
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
        return;
    }
    if (r->kind == ROPE_LINEAR) {
        return;
    }
    r->original = field_u32(f, "original_max_position_embeddings", context, 1,
                            MODEL_CONTEXT_MAX);
    if (r->kind == ROPE_LLAMA3) {
        parse_llama3(r, f);
    } else {
        parse_yarn(r, f);
    }
}

/* Enters `rope_parameters`, else `rope_scaling`, if one is present and for
 * these layers. */
static void enter(struct fields *f, const struct rope_place *p)
{
    const char *key = "rope_parameters";
    const json_t *v = field_get(f, key), *own;

    if (v == NULL) {
        key = "rope_scaling";
        v = field_get(f, key);
    }
    own = json_object_get(v, p->layers);
    if (v != NULL && !json_is_object(v)) {
        field_fault(f, ST_INVALID_ARGUMENT, "%s is not an object", key);
    } else if (json_is_object(own) || (v != NULL && p->scaled)) {
        f->inner = json_is_object(own) ? own : v;
        f->outer = NULL;
    }
}

static void look_into(struct fields *f, const struct fields *place)
{
    f->inner = place->inner;
    f->outer = place->outer;
}

/* Reads a key from the object that was entered, or a flat key if it is absent
 * there. */
static double either(struct fields *f, const struct fields *flat,
                     const char *key, const char *flat_key, double fallback)
{
    const struct fields here = *f;
    bool theta = strcmp(key, "rope_theta") == 0;
    double x;

    if (f->inner == flat->inner || field_get(f, key) == NULL) {
        look_into(f, flat);
        key = flat_key;
    }
    x = field_real(f, key, fallback, theta ? MODEL_THETA_MIN : 0,
                   theta ? MODEL_THETA_MAX : 1);
    look_into(f, &here);
    return x;
}

void rope_parse(struct rope_shape *r, struct fields *f,
                const struct rope_place *p)
{
    const char *part = "partial_rotary_factor";
    const struct fields flat = *f;
    double partial, alpha = 0;

    memset(r, 0, sizeof *r);
    enter(f, p);
    if (f->inner != flat.inner) {
        alpha = alpha_factor(f, p);
    }
    if (f->inner != flat.inner && alpha == 0) {
        parse_scaling(r, f, p->context);
    }
    r->theta = either(f, &flat, "rope_theta", p->theta_key, p->theta);
    r->theta *= alpha > 0 ? alpha : 1;
    partial = either(f, &flat, part, part, p->partial);
    r->dim = (uint32_t)((double)p->head_dim * partial);
    if (r->dim == 0 || r->dim % 2 != 0) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "%u of %u dimensions of a head are rotated, an even "
                    "number above 0 is needed",
                    r->dim, p->head_dim);
    }
    check_sections(f, r->dim);
    look_into(f, &flat);
}

bool rope_given(const struct fields *f)
{
    return field_get(f, "rope_parameters") != NULL ||
           field_get(f, "rope_scaling") != NULL;
}

uint32_t rope_context(const struct rope_shape *r, uint32_t context)
{
    double reach = r->kind == ROPE_YARN ? r->factor * r->original : 0;

    reach = reach < MODEL_CONTEXT_MAX ? reach : MODEL_CONTEXT_MAX;
    return reach > context ? (uint32_t)reach : context;
}
