#include "common/model/safetensors.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/quote.h"
#include "common/model/document.h"

static const struct {
    const char *name;
    uint32_t bits;
} dtypes[SAFETENSORS_NR] = {
#define X(name, bits) [SAFETENSORS_##name] = {#name, bits},
    SAFETENSORS_DTYPES(X)
#undef X
};

const char *safetensors_dtype_name(enum safetensors_dtype t)
{
    return (unsigned)t < SAFETENSORS_NR ? dtypes[t].name : "?";
}

enum status safetensors_header_bytes(uint64_t *header_bytes, const void *first,
                                     uint64_t file_bytes, struct error *e)
{
    const unsigned char *p = first;
    uint64_t n = 0;

    if (file_bytes < SAFETENSORS_PREFIX) {
        return error_set(e, ST_DATA_LOSS,
                         "the file is %llu bytes long, at least 10 needed: "
                         "the download is incomplete; repeat it",
                         (unsigned long long)file_bytes);
    }
    /* Read byte by byte: the buffer may be unaligned and the host
     * big-endian. */
    for (int i = 7; i >= 0; i--) {
        n = n << 8 | p[i];
    }
    /* Usually this is a file of another format, so the message asks. */
    if (n > SAFETENSORS_HEADER_MAX) {
        return error_set(
            e, ST_DATA_LOSS,
            "the header is %llu bytes long, at most %d are allowed: "
            "is this a safetensors file?",
            (unsigned long long)n, SAFETENSORS_HEADER_MAX);
    }
    if (n < 2) {
        return error_set(e, ST_DATA_LOSS,
                         "header is %llu bytes long, at least 2 needed",
                         (unsigned long long)n);
    }
    /* The subtraction cannot underflow: the prefix was checked above. */
    if (n > file_bytes - SAFETENSORS_PREFIX) {
        return error_set(
            e, ST_DATA_LOSS,
            "the header is %llu bytes long, but only %llu follow: the "
            "download is incomplete; repeat it",
            (unsigned long long)n,
            (unsigned long long)(file_bytes - SAFETENSORS_PREFIX));
    }
    *header_bytes = n;
    return ST_OK;
}

static enum status parse_dtype(struct safetensors_tensor *t, const json_t *o,
                               struct error *e)
{
    const char *name = json_string_value(json_object_get(o, "dtype"));

    if (name == NULL) {
        return error_set(e, ST_DATA_LOSS, "tensor %s has no dtype",
                         quote(t->name).text);
    }
    for (int i = 0; i < SAFETENSORS_NR; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            t->dtype = (enum safetensors_dtype)i;
            return ST_OK;
        }
    }
    return error_set(e, ST_DATA_LOSS, "tensor %s has the unknown dtype %s",
                     quote(t->name).text, quote(name).text);
}

static enum status parse_shape(struct safetensors_tensor *t, const json_t *o,
                               struct error *e)
{
    const json_t *shape = json_object_get(o, "shape");
    size_t rank = json_array_size(shape);

    if (!json_is_array(shape)) {
        return error_set(e, ST_DATA_LOSS, "tensor %s has no shape",
                         quote(t->name).text);
    }
    if (rank > SAFETENSORS_RANK_MAX) {
        return error_set(e, ST_DATA_LOSS,
                         "tensor %s has %zu dimensions, %d are allowed",
                         quote(t->name).text, rank, SAFETENSORS_RANK_MAX);
    }
    for (size_t i = 0; i < rank; i++) {
        const json_t *v = json_array_get(shape, i);

        if (!json_is_integer(v) || json_integer_value(v) < 0) {
            return error_set(e, ST_DATA_LOSS,
                             "dimension %zu of tensor %s is no whole number", i,
                             quote(t->name).text);
        }
        t->dims[i] = (uint64_t)json_integer_value(v);
    }
    t->rank = (uint32_t)rank;
    return ST_OK;
}

/* Offsets are checked against the data before they are used in any sum. */
static enum status parse_offsets(struct safetensors_tensor *t, const json_t *o,
                                 uint64_t data_bytes, struct error *e)
{
    const json_t *pair = json_object_get(o, "data_offsets");
    const json_t *begin = json_array_get(pair, 0);
    const json_t *end = json_array_get(pair, 1);

    if (json_array_size(pair) != 2 || !json_is_integer(begin) ||
        !json_is_integer(end) || json_integer_value(begin) < 0 ||
        json_integer_value(end) < 0) {
        return error_set(e, ST_DATA_LOSS,
                         "tensor %s has no data_offsets of two whole numbers",
                         quote(t->name).text);
    }
    t->begin = (uint64_t)json_integer_value(begin);
    t->end = (uint64_t)json_integer_value(end);
    if (t->begin > t->end) {
        return error_set(e, ST_DATA_LOSS, "tensor %s ends before it begins",
                         quote(t->name).text);
    }
    if (t->end > data_bytes) {
        return error_set(e, ST_DATA_LOSS,
                         "tensor %s ends at byte %llu of the data, which has "
                         "%llu: the download is incomplete; repeat it",
                         quote(t->name).text, (unsigned long long)t->end,
                         (unsigned long long)data_bytes);
    }
    return ST_OK;
}

/* Multiplies in bits, so that the product of all factors is bounded.  A zero
 * dimension is multiplied last, so that it cannot hide an overflow. */
static enum status check_size(const struct safetensors_tensor *t,
                              struct error *e)
{
    uint64_t bits = dtypes[t->dtype].bits;
    bool empty = false;

    for (uint32_t i = 0; i < t->rank; i++) {
        empty = empty || t->dims[i] == 0;
        if (t->dims[i] != 0 &&
            __builtin_mul_overflow(bits, t->dims[i], &bits)) {
            return error_set(e, ST_DATA_LOSS,
                             "the shape of tensor %s overflows",
                             quote(t->name).text);
        }
    }
    bits = empty ? 0 : bits;
    if (bits % 8 != 0 || bits / 8 != t->end - t->begin) {
        return error_set(e, ST_DATA_LOSS,
                         "tensor %s takes %llu bytes by its offsets, %llu by "
                         "its shape and dtype %s",
                         quote(t->name).text,
                         (unsigned long long)(t->end - t->begin),
                         (unsigned long long)(bits / 8), dtypes[t->dtype].name);
    }
    return ST_OK;
}

/* Dtype and shape come first: check_size() needs them with the offsets. */
static enum status parse_tensor(struct safetensors_tensor *t, const json_t *o,
                                uint64_t data_bytes, struct error *e)
{
    enum status st;

    if (!json_is_object(o)) {
        return error_set(e, ST_DATA_LOSS, "tensor %s is not an object",
                         quote(t->name).text);
    }
    st = parse_dtype(t, o, e);
    if (st == ST_OK) {
        st = parse_shape(t, o, e);
    }
    if (st == ST_OK) {
        st = parse_offsets(t, o, data_bytes, e);
    }
    return st == ST_OK ? check_size(t, e) : st;
}

/* The format allows strings only; sluice does not use them. */
static enum status check_metadata(const json_t *o, struct error *e)
{
    const char *key;
    json_t *v;

    if (!json_is_object(o)) {
        return error_set(e, ST_DATA_LOSS, "__metadata__ is not an object");
    }
    json_object_foreach((json_t *)(uintptr_t)o, key, v)
    {
        if (!json_is_string(v)) {
            return error_set(e, ST_DATA_LOSS, "__metadata__ %s is not a string",
                             quote(key).text);
        }
    }
    return ST_OK;
}

/* Empty tensors share their begin, so the end decides; the name makes the
 * order unique. */
static int by_begin(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;

    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    if (x->end != y->end) {
        return x->end < y->end ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

/* Checks that the tensors cover 0..data_bytes end to end. */
static enum status check_cover(const struct safetensors *s, uint64_t data_bytes,
                               struct error *e)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        const struct safetensors_tensor *t = &s->tensors[i];

        if (t->begin < at) {
            return error_set(e, ST_DATA_LOSS,
                             "tensors %s and %s overlap at byte %llu",
                             quote(t[-1].name).text, quote(t->name).text,
                             (unsigned long long)t->begin);
        }
        /* A hole means that the header does not describe the whole file. */
        if (t->begin > at) {
            return error_set(
                e, ST_DATA_LOSS, "a hole of %llu bytes before tensor %s",
                (unsigned long long)(t->begin - at), quote(t->name).text);
        }
        at = t->end;
    }
    /* A file that is longer than its tensors was damaged or is none of ours. */
    if (at != data_bytes) {
        return error_set(e, ST_DATA_LOSS, "%llu bytes follow the last tensor",
                         (unsigned long long)(data_bytes - at));
    }
    return ST_OK;
}

/* Copies the names into one block, so that the document can be freed. */
static enum status allocate(struct safetensors *s, json_t *doc, struct error *e)
{
    size_t bytes = 1;
    const char *key;
    json_t *v;

    json_object_foreach(doc, key, v)
    {
        size_t n = strlen(key);

        if (n > SAFETENSORS_NAME_MAX) {
            return error_set(e, ST_DATA_LOSS,
                             "the name %s has %zu bytes, %d are allowed",
                             quote(key).text, n, SAFETENSORS_NAME_MAX);
        }
        bytes += n + 1;
    }
    s->names = malloc(bytes);
    s->tensors = calloc(json_object_size(doc) + 1, sizeof *s->tensors);
    if (s->names == NULL || s->tensors == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "no memory for a header of %zu tensors",
                         json_object_size(doc));
    }
    return ST_OK;
}

static enum status fill(struct safetensors *s, json_t *doc, uint64_t data_bytes,
                        struct error *e)
{
    char *name = s->names;
    const char *key;
    json_t *v;
    enum status st;

    json_object_foreach(doc, key, v)
    {
        struct safetensors_tensor *t = &s->tensors[s->n];
        size_t n = strlen(key) + 1;

        if (strcmp(key, "__metadata__") == 0) {
            st = check_metadata(v, e);
        } else {
            memcpy(name, key, n);
            t->name = name;
            name += n;
            s->n++;
            st = parse_tensor(t, v, data_bytes, e);
        }
        if (st != ST_OK) {
            return st;
        }
    }
    qsort(s->tensors, s->n, sizeof *s->tensors, by_begin);
    return check_cover(s, data_bytes, e);
}

static enum status check_start(const char *header, uint64_t len,
                               struct error *e)
{
    uint64_t i = 0;

    while (i < len && memchr(" \t\r\n", header[i], 4) != NULL) {
        i++;
    }
    if (i == len || header[i] != '{') {
        return error_set(e, ST_DATA_LOSS,
                         "the header does not start with {: is this a "
                         "safetensors file?");
    }
    return ST_OK;
}

enum status safetensors_parse(struct safetensors *s, const char *header,
                              uint64_t header_bytes, uint64_t data_bytes,
                              struct error *e)
{
    json_t *doc = NULL;
    enum status st = check_start(header, header_bytes, e);

    memset(s, 0, sizeof *s);
    s->data = SAFETENSORS_PREFIX + header_bytes;
    if (st != ST_OK) {
        return st;
    }
    st = document_parse(&doc, header, (size_t)header_bytes, e);
    if (st != ST_OK) {
        st = st == ST_INVALID_ARGUMENT ? ST_DATA_LOSS : st;
        (void)error_wrap(e, "header");
        return e != NULL ? (e->code = st) : st;
    }
    st = allocate(s, doc, e);
    if (st == ST_OK) {
        st = fill(s, doc, data_bytes, e);
    }
    json_decref(doc);
    if (st != ST_OK) {
        safetensors_fini(s);
    }
    return st;
}

enum status safetensors_parse_file(struct safetensors *s, const void *bytes,
                                   size_t len, struct error *e)
{
    uint64_t n = 0;
    enum status st = safetensors_header_bytes(&n, bytes, len, e);

    memset(s, 0, sizeof *s);
    if (st != ST_OK) {
        return st;
    }
    return safetensors_parse(s, (const char *)bytes + SAFETENSORS_PREFIX, n,
                             len - SAFETENSORS_PREFIX - n, e);
}

void safetensors_fini(struct safetensors *s)
{
    free(s->tensors);
    free(s->names);
    memset(s, 0, sizeof *s);
}
