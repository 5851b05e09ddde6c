#include "common/model/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/quote.h"
#include "common/base/utf8.h"
#include "common/model/directory.h"
#include "common/model/document.h"
#include "common/model/gguf_bytes.h"

#define ALIGNMENT_DEFAULT 32
#define FIRST_READ        (1 << 20) /* most headers have a vocabulary */
#define MAGIC_BYTES       4

const struct gguf_type_shape *gguf_type(uint32_t type)
{
    static const struct {
        uint32_t number;
        struct gguf_type_shape shape;
    } types[] = {
#define X(name, number, values, bytes) {number, {#name, values, bytes}},
        GGUF_TENSOR_TYPES(X)
#undef X
    };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].number == type) {
            return &types[i].shape;
        }
    }
    return NULL;
}

/* ---- cursor ---- */

struct cursor {
    const unsigned char *bytes;
    uint64_t at;
    size_t len;          /* bytes at hand */
    uint64_t file_bytes; /* at least len */
    size_t need;         /* bytes that a longer prefix must have */
    struct error *error;
};

/* Moves over n bytes of `what`. */
static enum status take(struct cursor *c, uint64_t n, const char *what,
                        const unsigned char **out)
{
    if (n > c->file_bytes - c->at) {
        return error_set(c->error, ST_DATA_LOSS,
                         "the file ends inside %s: %llu bytes are needed at "
                         "byte %llu of %llu; the download is incomplete: "
                         "repeat it",
                         what, (unsigned long long)n, (unsigned long long)c->at,
                         (unsigned long long)c->file_bytes);
    }
    if (n > GGUF_HEADER_MAX - c->at) {
        return error_set(c->error, ST_DATA_LOSS,
                         "the header is longer than %d bytes, which are "
                         "allowed, in %s: is this a GGUF file?",
                         GGUF_HEADER_MAX, what);
    }
    if (c->at + n > c->len) {
        c->need = (size_t)(c->at + n);
        return error_set(c->error, ST_OUT_OF_RANGE,
                         "the header has at least %zu bytes", c->need);
    }
    *out = c->bytes + c->at;
    c->at += n;
    return ST_OK;
}

static enum status take_u32(struct cursor *c, const char *what, uint32_t *out)
{
    const unsigned char *p;
    enum status st = take(c, 4, what, &p);

    if (st == ST_OK) {
        *out = (uint32_t)gguf_little(p, 4);
    }
    return st;
}

static enum status take_u64(struct cursor *c, const char *what, uint64_t *out)
{
    const unsigned char *p;
    enum status st = take(c, 8, what, &p);

    if (st == ST_OK) {
        *out = gguf_little(p, 8);
    }
    return st;
}

/* Moves over a string of at most max bytes. */
static enum status take_text(struct cursor *c, const char *what, uint64_t max,
                             const unsigned char **text, uint64_t *n)
{
    enum status st = take_u64(c, what, n);

    if (st == ST_OK && *n > max) {
        return error_set(c->error, ST_DATA_LOSS,
                         "%s has %llu bytes, %llu are allowed", what,
                         (unsigned long long)*n, (unsigned long long)max);
    }
    return st == ST_OK ? take(c, *n, what, text) : st;
}

/* Moves over a key or a name, and checks it. */
static enum status take_name(struct cursor *c, const char *what,
                             const unsigned char **text, uint64_t *n)
{
    enum status st = take_text(c, what, GGUF_NAME_MAX, text, n);

    if (st != ST_OK) {
        return st;
    }
    if (*n == 0 || memchr(*text, '\0', (size_t)*n) != NULL ||
        !utf8_valid((const char *)*text, (size_t)*n, NULL)) {
        return error_set(c->error, ST_DATA_LOSS,
                         "%s %s is empty, not UTF-8 or has a NUL", what,
                         quote_bytes((const char *)*text, (size_t)*n).text);
    }
    return ST_OK;
}

/* ---- values ---- */

static enum status take_items(struct cursor *c, struct gguf_value *v)
{
    size_t size = gguf_value_bytes(v->type);
    const unsigned char *text;
    uint64_t n;
    enum status st = ST_OK;

    if (size > 0) {
        return take(c, v->n * size, "a value", &text);
    }
    for (uint64_t i = 0; st == ST_OK && i < v->n; i++) {
        st = take_text(c, "a string", GGUF_STRING_MAX, &text, &n);
    }
    return st;
}

static enum status take_array(struct cursor *c, struct gguf_value *v)
{
    uint32_t type;
    enum status st = take_u32(c, "an array", &type);

    if (st == ST_OK) {
        st = take_u64(c, "an array", &v->n);
    }
    if (st != ST_OK) {
        return st;
    }
    if (type >= GGUF_VALUES || type == GGUF_VALUE_ARRAY) {
        return error_set(c->error, ST_UNIMPLEMENTED,
                         "an array of type %u is not supported; numbers, "
                         "bools and strings are",
                         type);
    }
    if (v->n > GGUF_ITEMS_MAX) {
        return error_set(c->error, ST_DATA_LOSS,
                         "an array of %llu items, %d are allowed",
                         (unsigned long long)v->n, GGUF_ITEMS_MAX);
    }
    v->type = (enum gguf_value_type)type;
    return ST_OK;
}

/* A bool is one byte, 0 or 1. */
static enum status check_bools(const struct cursor *c,
                               const struct gguf_value *v)
{
    for (size_t i = 0; v->type == GGUF_VALUE_BOOL && i < v->bytes; i++) {
        if (v->at[i] > 1) {
            return error_set(c->error, ST_DATA_LOSS,
                             "a bool is %u, neither 0 nor 1", v->at[i]);
        }
    }
    return ST_OK;
}

static enum status take_value(struct cursor *c, struct gguf_value *v)
{
    uint32_t type;
    uint64_t from;
    enum status st = take_u32(c, "a value", &type);

    if (st != ST_OK) {
        return st;
    }
    if (type >= GGUF_VALUES) {
        return error_set(c->error, ST_DATA_LOSS, "the unknown type %u", type);
    }
    v->type = (enum gguf_value_type)type;
    v->n = 1;
    v->array = type == GGUF_VALUE_ARRAY;
    st = v->array ? take_array(c, v) : ST_OK;
    from = c->at;
    if (st == ST_OK) {
        st = take_items(c, v);
    }
    if (st != ST_OK) {
        return st;
    }
    v->at = c->bytes + from;
    v->bytes = (size_t)(c->at - from);
    return check_bools(c, v);
}

/* ---- tensors ---- */

/* The product cannot overflow: every factor is checked. */
static enum status size_tensor(const struct cursor *c, struct gguf_tensor *t,
                               uint32_t type)
{
    const struct gguf_type_shape *shape = gguf_type(type);
    uint64_t bytes;

    if (shape == NULL) {
        return error_set(c->error, ST_UNIMPLEMENTED,
                         "tensor %s has the unknown type %u",
                         quote(t->name).text, type);
    }
    if (t->dims[0] % shape->block != 0) {
        return error_set(c->error, ST_DATA_LOSS,
                         "tensor %s has rows of %llu values, which are no "
                         "blocks of %u, as %s has",
                         quote(t->name).text, (unsigned long long)t->dims[0],
                         shape->block, shape->name);
    }
    bytes = t->dims[0] / shape->block;
    if (__builtin_mul_overflow(bytes, shape->bytes, &bytes) ||
        __builtin_mul_overflow(bytes, t->dims[1], &bytes) ||
        __builtin_mul_overflow(bytes, t->dims[2], &bytes) ||
        __builtin_mul_overflow(bytes, t->dims[3], &bytes) ||
        bytes > INT64_MAX / 8) {
        return error_set(c->error, ST_DATA_LOSS,
                         "the shape of tensor %s overflows",
                         quote(t->name).text);
    }
    t->type = (enum gguf_tensor_type)type;
    t->bytes = bytes;
    return ST_OK;
}

static enum status take_dims(struct cursor *c, struct gguf_tensor *t)
{
    enum status st = take_u32(c, "a tensor", &t->rank);

    for (uint32_t i = 0; i < GGUF_RANK_MAX; i++) {
        t->dims[i] = 1;
    }
    if (st == ST_OK && (t->rank == 0 || t->rank > GGUF_RANK_MAX)) {
        return error_set(c->error, ST_DATA_LOSS,
                         "tensor %s has %u dimensions, 1 to %d are allowed",
                         quote(t->name).text, t->rank, GGUF_RANK_MAX);
    }
    for (uint32_t i = 0; st == ST_OK && i < t->rank; i++) {
        st = take_u64(c, "a tensor", &t->dims[i]);
        if (st == ST_OK && t->dims[i] == 0) {
            st = error_set(c->error, ST_DATA_LOSS,
                           "dimension %u of tensor %s is 0", i,
                           quote(t->name).text);
        }
    }
    return st;
}

static enum status take_tensor(struct cursor *c, struct gguf_tensor *t)
{
    uint32_t type;
    enum status st = take_dims(c, t);

    if (st == ST_OK) {
        st = take_u32(c, "a tensor", &type);
    }
    if (st == ST_OK) {
        st = take_u64(c, "a tensor", &t->offset);
    }
    return st == ST_OK ? size_tensor(c, t, type) : st;
}

static int by_offset(const void *a, const void *b)
{
    const struct gguf_tensor *x = a, *y = b;

    if (x->offset != y->offset) {
        return x->offset < y->offset ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* Checks that the tensors cover the data end to end.  Offsets are compared
 * before any sum, so none can overflow. */
static enum status check_cover(struct gguf *g, uint64_t data_bytes,
                               uint64_t alignment, struct error *e)
{
    uint64_t at = 0;

    qsort(g->tensors, g->n_tensors, sizeof *g->tensors, by_offset);
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *t = &g->tensors[i];

        if (t->offset != at) {
            return error_set(e, ST_DATA_LOSS,
                             "tensor %s begins at byte %llu of the data, %llu "
                             "is where the tensor before it ends",
                             quote(t->name).text, (unsigned long long)t->offset,
                             (unsigned long long)at);
        }
        if (at > data_bytes || t->bytes > data_bytes - at) {
            return error_set(e, ST_DATA_LOSS,
                             "tensor %s ends after the data, which has %llu "
                             "bytes: the download is incomplete; repeat it",
                             quote(t->name).text,
                             (unsigned long long)data_bytes);
        }
        at = round_up(at + t->bytes, alignment);
    }
    /* The zeros behind the last tensor may be missing. */
    if (data_bytes > at) {
        return error_set(e, ST_DATA_LOSS, "%llu bytes follow the last tensor",
                         (unsigned long long)(data_bytes - at));
    }
    return ST_OK;
}

/* ---- the file ---- */

static enum status no_memory(struct error *e)
{
    return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory for a GGUF header");
}

static enum status check_version(struct gguf *g, struct cursor *c)
{
    const unsigned char *magic;
    enum status st = take(c, MAGIC_BYTES, "the header", &magic);

    if (st == ST_OK && directory_is_pointer((const char *)c->bytes, c->len)) {
        return directory_pointer(c->error);
    }
    if (st == ST_OK && memcmp(magic, "GGUF", MAGIC_BYTES) != 0) {
        return error_set(c->error, ST_DATA_LOSS,
                         "the file does not begin with GGUF: is this a GGUF "
                         "file?");
    }
    st = st == ST_OK ? take_u32(c, "the header", &g->version) : st;
    if (st != ST_OK || g->version == 2 || g->version == 3) {
        return st;
    }
    return error_set(c->error, ST_UNIMPLEMENTED,
                     "GGUF version %u is not supported; 2 and 3, "
                     "little-endian, are",
                     g->version);
}

/* Copies a name into the block of names, with its NUL. */
static const char *keep_name(char **names, const unsigned char *text,
                             uint64_t n)
{
    char *name = *names;

    memcpy(name, text, (size_t)n);
    name[n] = '\0';
    *names += n + 1;
    return name;
}

/* Parses names in two runs: the first one has no room and only counts bytes.
 */
static enum status take_values(struct gguf *g, struct cursor *c, char **names,
                               uint64_t *name_bytes)
{
    const unsigned char *text;
    uint64_t n;
    enum status st = ST_OK;

    for (uint32_t i = 0; st == ST_OK && i < g->n_values; i++) {
        struct gguf_value scratch,
            *v = g->values != NULL ? &g->values[i] : &scratch;

        st = take_name(c, "a key", &text, &n);
        if (st == ST_OK) {
            st = take_value(c, v);
            st = st == ST_OK || st == ST_OUT_OF_RANGE
                     ? st
                     : error_wrap(
                           c->error, "%s",
                           quote_bytes((const char *)text, (size_t)n).text);
        }
        if (st == ST_OK) {
            *name_bytes += n + 1;
            v->key = names != NULL ? keep_name(names, text, n) : NULL;
        }
    }
    return st;
}

static enum status take_tensors(struct gguf *g, struct cursor *c, char **names,
                                uint64_t *name_bytes)
{
    char name[GGUF_NAME_MAX + 1];
    const unsigned char *text;
    uint64_t n;
    enum status st = ST_OK;

    for (uint32_t i = 0; st == ST_OK && i < g->n_tensors; i++) {
        struct gguf_tensor scratch,
            *t = g->tensors != NULL ? &g->tensors[i] : &scratch;

        st = take_name(c, "a tensor's name", &text, &n);
        if (st == ST_OK) {
            char *at = name;

            *name_bytes += n + 1;
            t->name = keep_name(names != NULL ? names : &at, text, n);
            st = take_tensor(c, t);
        }
    }
    return st;
}

/* Reads the counts.  Each entry has at least 12 bytes of the header, so they
 * are bounded by it, too. */
static enum status take_counts(struct gguf *g, struct cursor *c)
{
    uint64_t n_tensors = 0, n_values = 0;
    enum status st = take_u64(c, "the header", &n_tensors);

    st = st == ST_OK ? take_u64(c, "the header", &n_values) : st;
    if (st != ST_OK) {
        return st;
    }
    if (n_tensors > GGUF_TENSORS_MAX || n_values > GGUF_VALUES_MAX) {
        return error_set(c->error, ST_DATA_LOSS,
                         "%llu tensors and %llu values, %d and %d are allowed",
                         (unsigned long long)n_tensors,
                         (unsigned long long)n_values, GGUF_TENSORS_MAX,
                         GGUF_VALUES_MAX);
    }
    g->n_tensors = (uint32_t)n_tensors;
    g->n_values = (uint32_t)n_values;
    return ST_OK;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum status check_unique(const struct gguf *g, struct error *e)
{
    const char **names = malloc((g->n_tensors + 1) * sizeof *names);
    enum status st = ST_OK;

    if (names == NULL) {
        return no_memory(e);
    }
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        names[i] = g->tensors[i].name;
    }
    qsort(names, g->n_tensors, sizeof *names, by_text);
    for (uint32_t i = 1; st == ST_OK && i < g->n_tensors; i++) {
        if (strcmp(names[i - 1], names[i]) == 0) {
            st = error_set(e, ST_DATA_LOSS, "two tensors have the name %s",
                           quote(names[i]).text);
        }
    }
    free(names);
    for (uint32_t i = 1; st == ST_OK && i < g->n_values; i++) {
        if (strcmp(g->values[i - 1].key, g->values[i].key) == 0) {
            st = error_set(e, ST_DATA_LOSS, "the key %s twice",
                           quote(g->values[i].key).text);
        }
    }
    return st;
}

static enum status alignment_of(const struct gguf *g, uint64_t *out,
                                struct error *e)
{
    const struct gguf_value *v = gguf_find(g, "general.alignment");
    int64_t n = ALIGNMENT_DEFAULT;

    if (v != NULL && (v->array || !gguf_whole(v, 0, &n) || n < 1 ||
                      n > GGUF_ALIGNMENT_MAX || (n & (n - 1)) != 0)) {
        return error_set(e, ST_DATA_LOSS,
                         "general.alignment is no power of two from 1 to %d",
                         GGUF_ALIGNMENT_MAX);
    }
    *out = (uint64_t)n;
    return ST_OK;
}

/* Allocates for what the first run counted, and parses again. */
static enum status fill(struct gguf *g, struct cursor *c, uint64_t name_bytes,
                        uint64_t from)
{
    char *names = g->names = malloc((size_t)name_bytes + 1);
    enum status st;

    g->values = calloc((size_t)g->n_values + 1, sizeof *g->values);
    g->tensors = calloc((size_t)g->n_tensors + 1, sizeof *g->tensors);
    if (g->names == NULL || g->values == NULL || g->tensors == NULL) {
        return no_memory(c->error);
    }
    c->at = from;
    st = take_values(g, c, &names, &name_bytes);
    if (st == ST_OK) {
        st = take_tensors(g, c, &names, &name_bytes);
    }
    if (st == ST_OK) {
        qsort(g->values, g->n_values, sizeof *g->values, gguf_by_key);
        st = check_unique(g, c->error);
    }
    return st;
}

static enum status parse(struct gguf *g, struct cursor *c)
{
    uint64_t name_bytes = 0, from, alignment = 0;
    enum status st = check_version(g, c);

    st = st == ST_OK ? take_counts(g, c) : st;
    from = c->at;
    st = st == ST_OK ? take_values(g, c, NULL, &name_bytes) : st;
    st = st == ST_OK ? take_tensors(g, c, NULL, &name_bytes) : st;
    st = st == ST_OK ? fill(g, c, name_bytes, from) : st;
    st = st == ST_OK ? alignment_of(g, &alignment, c->error) : st;
    if (st != ST_OK) {
        return st;
    }
    g->header_bytes = c->at;
    g->data = round_up(c->at, alignment);
    /* A file of metadata alone may end at once. */
    return check_cover(g, g->data < c->file_bytes ? c->file_bytes - g->data : 0,
                       alignment, c->error);
}

enum status gguf_parse(struct gguf *g, const void *bytes, size_t len,
                       uint64_t file_bytes, size_t *need, struct error *e)
{
    struct error ignored;
    struct cursor c = {.bytes = bytes,
                       .len = len,
                       .file_bytes = file_bytes,
                       .error = e != NULL ? e : &ignored};
    enum status st;

    memset(g, 0, sizeof *g);
    st = parse(g, &c);
    if (need != NULL) {
        *need = c.need;
    }
    if (st != ST_OK) {
        gguf_fini(g);
    }
    return st;
}

/* Reads a longer and longer prefix: only the parser finds the header's end. */
enum status gguf_read(struct gguf *g, int fd, uint64_t file_bytes,
                      struct error *e)
{
    uint64_t len = 0, want = FIRST_READ;
    char *bytes = NULL, *grown;
    size_t need = 0;
    enum status st;

    memset(g, 0, sizeof *g);
    do {
        want = want < need ? need : want;
        want = want < file_bytes ? want : file_bytes;
        grown = realloc(bytes, (size_t)want + 1);
        if (grown == NULL) {
            st = no_memory(e);
            break;
        }
        bytes = grown;
        st = document_pread(fd, bytes + len, (size_t)(want - len), len, e);
        if (st != ST_OK) {
            break;
        }
        len = want;
        want *= 4;
        st = gguf_parse(g, bytes, (size_t)len, file_bytes, &need, e);
    } while (st == ST_OUT_OF_RANGE);
    if (st != ST_OK) {
        free(bytes);
        return st;
    }
    g->owned = bytes;
    return ST_OK;
}

void gguf_fini(struct gguf *g)
{
    free(g->values);
    free(g->tensors);
    free(g->names);
    free(g->owned);
    memset(g, 0, sizeof *g);
}
