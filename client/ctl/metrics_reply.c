#include "client/ctl/metrics_reply.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/escape.h"
#include "common/base/metric.h"

static bool name_ok(ProtobufCBinaryData name)
{
    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.data[i];
        bool letter = (c >= 'a' && c <= 'z') || c == '_';

        if (!letter && (i == 0 || c < '0' || c > '9')) {
            return false;
        }
    }
    return name.len > 0;
}

static char *copy(ProtobufCBinaryData d)
{
    char *text = malloc(d.len * ESCAPE_GROWTH + 1);

    assert(text != NULL);
    text[escape_line((const char *)d.data, d.len, text)] = '\0';
    return text;
}

void metrics_reply_print(const Sluice__V1__StatusReply *m, const char *prefix,
                         FILE *to)
{
    for (size_t i = 0; i < m->n_metrics; i++) {
        const Sluice__V1__Metric *x = m->metrics[i];
        char *name = copy(x->name), *help = copy(x->help);
        struct metric_row row = {
            .name = name,
            .kind = x->kind == SLUICE__V1__METRIC_KIND__METRIC_COUNTER
                        ? METRIC_COUNTER
                        : METRIC_GAUGE,
            .help = help,
        };

        if (name_ok(x->name)) {
            metric_print(to, prefix, &row, 1, &x->value);
        }
        free(name);
        free(help);
    }
}

json_t *metrics_reply_json(const Sluice__V1__StatusReply *m)
{
    json_t *j = json_object();

    for (size_t i = 0; i < m->n_metrics; i++) {
        const Sluice__V1__Metric *x = m->metrics[i];
        char *name = copy(x->name);

        if (name_ok(x->name)) {
            json_object_set_new(j, name, json_integer((json_int_t)x->value));
        }
        free(name);
    }
    return j;
}
