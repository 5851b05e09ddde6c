#include "common/model/quantisation.h"

#include <string.h>

#include "common/base/quote.h"

#define AFFINE "groups of 32, 64 or 128 at 4 or 8 bits, as MLX writes them"
#define SUPPORTED                                                     \
    "MLX's (4 or 8 bits in groups of 32, 64 or 128), fp8 (blocks of " \
    "128 x 128) and mxfp4 (experts)"
#define FP8_BLOCK 128

/* Reads a number of a quantisation: a power of two in [min, max]; fallback if
 * absent. */
static uint32_t quant_number(struct fields *f, const json_t *o,
                             const char *where, const char *key,
                             uint32_t fallback, json_int_t min, json_int_t max)
{
    const json_t *v = json_object_get(o, key);
    json_int_t n = json_integer_value(v);

    if (v == NULL && fallback > 0) {
        return fallback;
    }
    if (!json_is_integer(v) || n < min || n > max || (n & (n - 1)) != 0) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "%s of %s is %lld, which is not supported; " AFFINE " are",
                    key, quote(where).text, (long long)n);
        return fallback;
    }
    return (uint32_t)n;
}

/* Reads one affine quantisation, of all modules or of one. */
static struct quantisation affine(struct fields *f, const json_t *o,
                                  const char *where,
                                  const struct quantisation *all)
{
    const json_t *mode = json_object_get(o, "mode");
    struct quantisation q = {.format = WEIGHT_AFFINE};

    if (mode != NULL && !json_is_null(mode) &&
        (!json_is_string(mode) ||
         strcmp(json_string_value(mode), "affine") != 0)) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "mode %s of %s is not supported; affine is",
                    quote(json_string_value(mode)).text, quote(where).text);
    }
    q.bits = quant_number(f, o, where, "bits", all->bits, 4, 8);
    q.group = quant_number(f, o, where, "group_size", all->group,
                           MODEL_GROUP_MIN, MODEL_GROUP_MAX);
    return q;
}

static bool is_block(const json_t *v)
{
    return json_array_size(v) == 2 &&
           json_integer_value(json_array_get(v, 0)) == FP8_BLOCK &&
           json_integer_value(json_array_get(v, 1)) == FP8_BLOCK;
}

/* The scheme of activations is not read: they stay float32, which is at least
 * as close to the trained model. */
static void check_fp8(struct fields *f, const json_t *o)
{
    const json_t *fmt = json_object_get(o, "fmt");

    if (fmt != NULL && !json_is_null(fmt) &&
        (!json_is_string(fmt) || strcmp(json_string_value(fmt), "e4m3") != 0)) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "fp8 in the format %s is not supported; e4m3 is",
                    quote(json_string_value(fmt)).text);
    }
    if (!is_block(json_object_get(o, "weight_block_size"))) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "fp8 whose weight_block_size is not [%d, %d] is not "
                    "supported",
                    FP8_BLOCK, FP8_BLOCK);
    }
}

/* ---- which tool wrote an object ---- */

static const char *text_of(struct fields *f, const json_t *o, const char *where,
                           const char *key)
{
    const json_t *v = json_object_get(o, key);

    if (v != NULL && !json_is_null(v) && !json_is_string(v)) {
        field_fault(f, ST_INVALID_ARGUMENT, "%s of %s is not a string", key,
                    quote(where).text);
    }
    return json_string_value(v);
}

/* Refuses weights of a tool that sluice does not read; the algorithm may be
 * NULL. */
static void refuse_tool(struct fields *f, const char *tool,
                        const char *algorithm, const char *where)
{
    field_fault(f, ST_UNIMPLEMENTED,
                "weights quantised by %s%s%s (%s) are not supported; " SUPPORTED
                " are",
                quote(tool).text, algorithm != NULL ? " as " : "",
                algorithm != NULL ? quote(algorithm).text : "", where);
}

static struct quantisation by_method(struct fields *f, const json_t *o,
                                     const char *where, const char *method)
{
    struct quantisation q = {.format = WEIGHT_PLAIN};
    const char *algorithm = text_of(f, o, where, "quant_algo");

    /* A file of both has weights of more than one kind. */
    if (strcmp(method, "fp8") == 0 && algorithm == NULL) {
        q.format = WEIGHT_FP8;
        check_fp8(f, o);
    } else if (strcmp(method, "mxfp4") == 0) {
        q.format = WEIGHT_MXFP4;
        q.experts_only = true;
    } else {
        refuse_tool(f, method, algorithm, where);
    }
    return q;
}

/* Returns whether o has a key of MLX's form. */
static bool is_mlx(const json_t *o)
{
    return json_object_get(o, "bits") != NULL ||
           json_object_get(o, "group_size") != NULL ||
           json_object_get(o, "mode") != NULL;
}

/* Names the tool by the marks that it leaves in an object without
 * quant_method. */
static void refuse_unnamed(struct fields *f, const json_t *o, const char *where)
{
    const char *algorithm = text_of(f, o, where, "quant_algo");

    if (algorithm != NULL || json_object_get(o, "producer") != NULL) {
        refuse_tool(f, "modelopt", algorithm, where);
    } else if (json_object_get(o, "config_groups") != NULL) {
        refuse_tool(f, "compressed-tensors", NULL, where);
    } else {
        field_fault(f, ST_UNIMPLEMENTED,
                    "%s has neither quant_method nor bits, which is not "
                    "supported; " SUPPORTED " are",
                    quote(where).text);
    }
}

void quantisation_refuse_modelopt(struct fields *f)
{
    const char *where = "quantization";
    const json_t *o = field_get(f, where);
    const char *algorithm = text_of(f, o, where, "quant_algo");

    if (!json_is_object(o)) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "%s is missing or not an object, so the form of the "
                    "weights is not known",
                    where);
    } else if (algorithm != NULL && algorithm[0] != '\0') {
        refuse_tool(f, "modelopt", algorithm, where);
    }
}

/* ---- config.json ---- */

static struct quantisation parse(struct fields *f, const char *key)
{
    const struct quantisation none = {.format = WEIGHT_PLAIN};
    const json_t *o = field_get(f, key);
    const char *method = text_of(f, o, key, "quant_method");
    struct quantisation q;
    const char *module;
    json_t *v;

    if (o == NULL) {
        return none;
    }
    if (!json_is_object(o)) {
        field_fault(f, ST_INVALID_ARGUMENT, "%s is not an object", key);
        return none;
    }
    if (method != NULL) {
        return by_method(f, o, key, method);
    }
    if (!is_mlx(o)) {
        refuse_unnamed(f, o, key);
        return none;
    }
    q = affine(f, o, key, &none);
    /* Per-module objects are checked here, so that an unsupported one is
     * refused before any weight is read. */
    json_object_foreach((json_t *)(uintptr_t)o, module, v)
    {
        method = text_of(f, v, module, "quant_method");
        if (method != NULL) {
            (void)by_method(f, v, module, method);
        } else if (json_is_object(v)) {
            (void)affine(f, v, module, &q);
        }
    }
    return q;
}

/* MLX writes the same object under both names. */
void quantisation_parse(struct quantisation *q, struct fields *f)
{
    struct quantisation old = parse(f, "quantization_config");

    *q = parse(f, "quantization");
    if (q->format == WEIGHT_PLAIN) {
        *q = old;
    }
    if (old.format != WEIGHT_PLAIN && old.format != q->format) {
        field_fault(f, ST_INVALID_ARGUMENT,
                    "quantization and quantization_config are of different "
                    "kinds");
    } else if (old.bits != q->bits || old.group != q->group) {
        if (old.bits > 0) {
            field_fault(f, ST_INVALID_ARGUMENT,
                        "quantization has %u bits in groups of %u, "
                        "quantization_config has %u in groups of %u",
                        q->bits, q->group, old.bits, old.group);
        }
    }
    if (field_get(f, "compression_config") != NULL) {
        field_fault(f, ST_UNIMPLEMENTED,
                    "quantised weights (compression_config) are not "
                    "supported; " SUPPORTED " are");
    }
}
