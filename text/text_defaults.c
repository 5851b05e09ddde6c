#include "text/text_defaults.h"

#include <stddef.h>

#include "text/json_read.h"

static enum status read_number(const json_t *config, const char *key, bool *has,
                               double *out, struct error *e)
{
    const json_t *v = json_object_get(config, key);

    if (v == NULL || json_is_null(v)) {
        return ST_OK;
    }
    if (!json_is_number(v)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: expected a number, found %s", key,
                         json_read_kind(v));
    }
    *has = true;
    *out = json_number_value(v);
    return ST_OK;
}

static enum status read_top_k(struct text_defaults *d, const json_t *config,
                              struct error *e)
{
    const json_t *v = json_object_get(config, "top_k");

    if (v == NULL || json_is_null(v)) {
        return ST_OK;
    }
    if (!json_is_integer(v)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "top_k: expected an integer, found %s",
                         json_read_kind(v));
    }
    d->has_top_k = true;
    d->top_k = json_integer_value(v);
    return ST_OK;
}

enum status text_defaults_read(struct text_defaults *out, const json_t *config,
                               struct error *e)
{
    const struct {
        const char *key;
        bool *has;
        double *value;
    } rows[] = {
        {"temperature", &out->has_temperature, &out->temperature},
        {"top_p", &out->has_top_p, &out->top_p},
        {"min_p", &out->has_min_p, &out->min_p},
        {"repetition_penalty", &out->has_repetition_penalty,
         &out->repetition_penalty},
    };
    enum status st = ST_OK;

    *out = (struct text_defaults){0};
    for (size_t i = 0; st == ST_OK && i < sizeof rows / sizeof *rows; i++) {
        st = read_number(config, rows[i].key, rows[i].has, rows[i].value, e);
    }
    if (st == ST_OK) {
        st = read_top_k(out, config, e);
    }
    if (st == ST_OK) {
        const json_t *v = json_object_get(config, "do_sample");

        out->has_do_sample = v != NULL && !json_is_null(v);
        st = config == NULL
                 ? ST_OK
                 : json_read_bool(config, "do_sample", &out->do_sample, e);
    }
    return st;
}
