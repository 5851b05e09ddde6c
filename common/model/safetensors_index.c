#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/quote.h"
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

static enum status add_file(struct safetensors_index *x, const char *name,
                            struct error *e)
{
    char **grown;

    /* Tensors of one file are mostly neighbours, so the newest file is
     * compared first. */
    for (uint32_t i = x->n_files; i > 0; i--) {
        if (strcmp(x->files[i - 1], name) == 0) {
            return ST_OK;
        }
    }
    if (x->n_files == INDEX_FILES_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT, "more than %d files are named",
                         INDEX_FILES_MAX);
    }
    /* One at a time: INDEX_FILES_MAX is small. */
    grown = realloc(x->files, (x->n_files + 1) * sizeof *grown);
    if (grown != NULL) {
        x->files = grown;
        grown[x->n_files] = strdup(name);
    }
    if (grown == NULL || grown[x->n_files] == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory for an index");
    }
    x->n_files++;
    return ST_OK;
}

static enum status add_all(struct safetensors_index *x, json_t *doc,
                           struct error *e)
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
        st = add_file(x, json_string_value(v), e);
        if (st != ST_OK) {
            return st;
        }
    }
    return ST_OK;
}

enum status safetensors_index_parse(struct safetensors_index *x,
                                    const char *json, size_t len,
                                    struct error *e)
{
    json_t *doc;
    enum status st;

    memset(x, 0, sizeof *x);
    if (len > INDEX_BYTES_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%zu bytes long, at most %d are allowed", len,
                         INDEX_BYTES_MAX);
    }
    st = document_parse(&doc, json, len, e);
    if (st != ST_OK) {
        return st;
    }
    st = add_all(x, doc, e);
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
