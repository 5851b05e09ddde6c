#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/json_bound.h"
#include "common/base/quote.h"
#include "common/base/table.h"
#include "common/model/document.h"
#include "common/model/safetensors.h"

static bool plain_name(const char *name, size_t len)
{
    static const char tail[] = ".safetensors";
    size_t n = sizeof tail - 1;

    return len > n && memchr(name, '\0', len) == NULL &&
           strchr(name, '/') == NULL && name[0] != '.' &&
           strcmp(name + len - n, tail) == 0;
}

/* A file name, found by its hash: an index names a file for each of up to
 * INDEX_MEMBERS_MAX tensors. */
struct named_file {
    struct table_node by_hash; /* first */
    const char *name;          /* of the index, which is not moved */
};

struct file_names {
    struct safetensors_index *x;
    struct table by_hash;
    struct named_file files[INDEX_FILES_MAX]; /* [x->n_files] */
};

static bool is_named(struct file_names *f, const char *name, uint64_t hash)
{
    for (const struct table_node *n = table_find(&f->by_hash, hash); n != NULL;
         n = table_next(n)) {
        f->x->n_compared++;
        if (strcmp(((const struct named_file *)(const void *)n)->name, name) ==
            0) {
            return true;
        }
    }
    return false;
}

static enum status add_file(struct file_names *f, const char *name, size_t len,
                            struct error *e)
{
    struct safetensors_index *x = f->x;
    uint64_t hash = XXH3_64bits(name, len);
    struct named_file *named;

    if (is_named(f, name, hash)) {
        return ST_OK;
    }
    if (x->n_files == INDEX_FILES_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT, "more than %d files are named",
                         INDEX_FILES_MAX);
    }
    x->files[x->n_files] = strdup(name);
    if (x->files[x->n_files] == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory for an index");
    }
    named = &f->files[x->n_files];
    named->name = x->files[x->n_files++];
    table_add(&f->by_hash, &named->by_hash, hash);
    return ST_OK;
}

static enum status add_all(struct file_names *f, json_t *doc, struct error *e)
{
    json_t *map = json_object_get(doc, "weight_map");
    const char *key;
    json_t *v;

    if (!json_is_object(map)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "weight_map is missing or not an object");
    }
    json_object_foreach(map, key, v)
    {
        enum status st;

        if (!json_is_string(v)) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "the file of tensor %s is not a string",
                             quote(key).text);
        }
        /* A name with a slash could read any file of the machine. */
        if (!plain_name(json_string_value(v), json_string_length(v))) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "the file of tensor %s, %s, is not the plain "
                             "name of a .safetensors file",
                             quote(key).text, quote(json_string_value(v)).text);
        }
        st = add_file(f, json_string_value(v), json_string_length(v), e);
        if (st != ST_OK) {
            return st;
        }
    }
    return ST_OK;
}

static enum status add_document(struct safetensors_index *x, json_t *doc,
                                struct error *e)
{
    struct file_names *f = calloc(1, sizeof *f);
    enum status st;

    x->files = calloc(INDEX_FILES_MAX, sizeof *x->files);
    if (f == NULL || x->files == NULL) {
        free(f);
        return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory for an index");
    }
    f->x = x;
    table_init(&f->by_hash, INDEX_FILES_MAX);
    st = add_all(f, doc, e);
    table_fini(&f->by_hash);
    free(f);
    return st;
}

/* Checks the size before the JSON parser runs, whose time grows with the
 * members. */
static enum status check_size(const char *json, size_t len, struct error *e)
{
    size_t n;

    if (len > INDEX_BYTES_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%zu bytes long, at most %d are allowed", len,
                         INDEX_BYTES_MAX);
    }
    n = json_members(json, len);
    return n <= INDEX_MEMBERS_MAX
               ? ST_OK
               : error_set(e, ST_INVALID_ARGUMENT,
                           "%zu entries, at most %d are allowed", n,
                           INDEX_MEMBERS_MAX);
}

enum status safetensors_index_parse(struct safetensors_index *x,
                                    const char *json, size_t len,
                                    struct error *e)
{
    json_t *doc;
    enum status st = check_size(json, len, e);

    memset(x, 0, sizeof *x);
    if (st == ST_OK) {
        st = document_parse(&doc, json, len, e);
    }
    if (st != ST_OK) {
        return st;
    }
    st = add_document(x, doc, e);
    json_decref(doc);
    if (st != ST_OK) {
        safetensors_index_fini(x);
    }
    return st;
}

void safetensors_index_fini(struct safetensors_index *x)
{
    for (uint32_t i = 0; i < x->n_files; i++) {
        free(x->files[i]);
    }
    free(x->files);
    memset(x, 0, sizeof *x);
}
