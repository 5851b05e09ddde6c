#include "client/load/plan/dataset_row.h"

#include <assert.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json_bound.h"
#include "common/base/memory.h"
#include "common/base/quote.h"

static void *grown(void *items, size_t n, size_t *size, size_t item)
{
    if (n < *size) {
        return items;
    }
    *size = *size == 0 ? 256 : 2 * *size;
    items = memory_must(realloc(items, *size * item));
    return items;
}

static void add_entry(struct dataset *d, const struct plan_entry *entry)
{
    d->entries =
        grown(d->entries, d->n_entries, &d->entries_size, sizeof *d->entries);
    d->entries[d->n_entries++] = *entry;
}

static void add_row(struct dataset *d, size_t first, uint32_t max_tokens)
{
    d->rows = grown(d->rows, d->n_rows, &d->rows_size, sizeof *d->rows);
    d->rows[d->n_rows++] = (struct dataset_row){
        .first = first,
        .n = (uint32_t)(d->n_entries - first),
        .max_tokens = max_tokens,
    };
}

static void add_text(struct dataset *d, const json_t *value)
{
    size_t n = json_string_length(value);
    char *text = memory_must(malloc(n + 1));

    memcpy(text, json_string_value(value), n + 1);
    add_entry(d, &(struct plan_entry){.text = text, .n_text = n});
}

static enum status add_ids(struct dataset *d, const json_t *list,
                           const char *key, struct error *e)
{
    size_t n = json_array_size(list);
    uint32_t *ids;

    if (n == 0) {
        return error_set(e, ST_INVALID_ARGUMENT, "\"%s\" has no ids", key);
    }
    ids = memory_must(malloc(n * sizeof *ids));
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(list, i);
        json_int_t v = json_is_integer(id) ? json_integer_value(id) : -1;

        if (v < 0 || v > UINT32_MAX) {
            free(ids);
            return error_set(e, ST_INVALID_ARGUMENT,
                             "\"%s\"[%zu] is no id in 0..%u", key, i,
                             UINT32_MAX);
        }
        ids[i] = (uint32_t)v;
    }
    add_entry(d, &(struct plan_entry){.ids = ids, .n_ids = n});
    return ST_OK;
}

static enum status add_messages(struct dataset *d, const json_t *list,
                                struct error *e)
{
    char *text;

    if (json_array_size(list) == 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "\"messages\" is no array of messages");
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!json_is_string(json_object_get(json_array_get(list, i), "role"))) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "\"messages\"[%zu] has no \"role\"", i);
        }
    }
    text = json_dumps(list, JSON_COMPACT);
    assert(text != NULL);
    add_entry(
        d, &(struct plan_entry){.messages = text, .n_messages = strlen(text)});
    return ST_OK;
}

static bool is_human(const json_t *turn)
{
    const char *from = json_string_value(json_object_get(turn, "from"));

    return from != NULL &&
           (strcmp(from, "human") == 0 || strcmp(from, "user") == 0);
}

/* ShareGPT's file has conversations without a human text: they are left out,
 * and so are empty texts. */
static enum status add_conversation(struct dataset *d, const json_t *list,
                                    struct error *e)
{
    size_t first = d->n_entries;

    if (!json_is_array(list)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "\"conversations\" is no array");
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *turn = json_array_get(list, i);
        const json_t *value = json_object_get(turn, "value");

        if (is_human(turn) && json_string_length(value) > 0 &&
            d->n_entries - first < PLAN_TURNS_MAX) {
            add_text(d, value);
        }
    }
    return ST_OK;
}

static enum status get_max_tokens(const json_t *row, uint32_t *out,
                                  struct error *e)
{
    static const char *const keys[] = {"max_tokens", "output_tokens"};

    *out = 0;
    for (size_t i = 0; i < 2 && *out == 0; i++) {
        const json_t *value = json_object_get(row, keys[i]);
        json_int_t n = json_is_integer(value) ? json_integer_value(value) : -1;

        if (value == NULL || json_is_null(value)) {
            continue;
        }
        if (n < 1 || n > DATASET_TOKENS_MAX) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "\"%s\" is no number in 1..%d", keys[i],
                             DATASET_TOKENS_MAX);
        }
        *out = (uint32_t)n;
    }
    return ST_OK;
}

static enum status add_content(struct dataset *d, const json_t *row,
                               struct error *e)
{
    const json_t *v;

    if ((v = json_object_get(row, "token_ids")) != NULL) {
        return add_ids(d, v, "token_ids", e);
    }
    if ((v = json_object_get(row, "messages")) != NULL) {
        return add_messages(d, v, e);
    }
    if ((v = json_object_get(row, "conversations")) != NULL) {
        return add_conversation(d, v, e);
    }
    v = json_object_get(row, "prompt");
    if (json_is_array(v)) {
        return add_ids(d, v, "prompt", e);
    }
    if (json_string_length(v) > 0) {
        add_text(d, v);
        return ST_OK;
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     v != NULL
                         ? "\"prompt\" is no text"
                         : "no \"prompt\", \"messages\", \"token_ids\" or "
                           "\"conversations\"");
}

static enum status add(struct dataset *d, const json_t *row, struct error *e)
{
    size_t first = d->n_entries;
    uint32_t max_tokens;
    enum status st = get_max_tokens(row, &max_tokens, e);

    if (st == ST_OK) {
        st = add_content(d, row, e);
    }
    if (st == ST_OK && d->n_entries > first) {
        add_row(d, first, max_tokens);
    }
    return st;
}

enum status dataset_row_add(struct dataset *d, const char *text, size_t n,
                            struct error *e)
{
    static const struct json_bounds most = {
        .depth = 64, .values = 4 << 20, .lists = 1 << 18};
    json_error_t fault;
    json_t *row;
    enum status st;

    if (n > DATASET_ROW_BYTES_MAX) {
        return error_set(e, ST_OUT_OF_RANGE, "%zu bytes, at most %zu", n,
                         DATASET_ROW_BYTES_MAX);
    }
    st = json_bound(text, n, &most, ST_OUT_OF_RANGE, e);
    if (st != ST_OK) {
        return st;
    }
    row = json_loadb(text, n, JSON_ALLOW_NUL, &fault);
    if (json_is_object(row)) {
        st = add(d, row, e);
    } else if (row == NULL) {
        st = error_set(e, ST_INVALID_ARGUMENT, "no JSON: %s",
                       quote(fault.text).text);
    } else {
        st = error_set(e, ST_INVALID_ARGUMENT, "no JSON object");
    }
    json_decref(row);
    return st;
}
