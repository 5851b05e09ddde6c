#include "common/base/metric_family.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

void metric_family_init(struct metric_family *f, const struct metric_set *set)
{
    *f = (struct metric_family){.set = set};
}

void metric_family_fini(struct metric_family *f)
{
    free(f->labels);
    free(f->values);
    *f = (struct metric_family){.set = NULL};
}

void metric_family_clear(struct metric_family *f)
{
    f->labels_n = f->n = 0;
}

static void add_label(struct metric_family *f, const char *value)
{
    size_t n = strlen(value) + 1;

    if (f->labels_size - f->labels_n < n) {
        f->labels_size = 2 * (f->labels_size + n);
        f->labels = memory_must(realloc(f->labels, f->labels_size));
    }
    memcpy(f->labels + f->labels_n, value, n);
    f->labels_n += n;
}

void *metric_family_add(struct metric_family *f, const char *const *labels)
{
    size_t width = metric_width(f->set), n_labels = metric_n_labels(f->set);
    uint64_t *values;

    if (f->n == f->size) {
        f->size = f->size > 0 ? 2 * f->size : 8;
        f->values = memory_must(
            realloc(f->values, f->size * width * sizeof *f->values));
    }
    for (size_t i = 0; i < n_labels; i++) {
        add_label(f, labels[i]);
    }
    values = f->values + f->n++ * width;
    memset(values, 0, width * sizeof *values);
    return values;
}

const struct metric_series *metric_family_series(const struct metric_family *f,
                                                 struct metric_series *out)
{
    *out = (struct metric_series){f->set, f->labels, f->values, f->n};
    return out;
}
