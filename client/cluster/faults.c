#include "client/cluster/faults.h"

#include <stdarg.h>
#include <stdio.h>

void faults_add(struct faults *f, struct place at, const char *fmt, ...)
{
    va_list args;

    if (f->n == FAULTS_MAX) {
        f->n_more++;
        return;
    }
    va_start(args, fmt);
    vsnprintf(f->item[f->n].text, FAULT_TEXT, fmt, args);
    va_end(args);
    f->item[f->n++].at = at;
}

static int later(struct place a, struct place b)
{
    return a.line != b.line ? a.line > b.line : a.column > b.column;
}

/* Insertion: qsort() does not keep the order of equals. */
void faults_sort(struct faults *f)
{
    for (size_t i = 1; i < f->n; i++) {
        struct fault moved = f->item[i];
        size_t k = i;

        for (; k > 0 && later(f->item[k - 1].at, moved.at); k--) {
            f->item[k] = f->item[k - 1];
        }
        f->item[k] = moved;
    }
}

void faults_line(char out[FAULT_LINE], const char *file, const struct fault *f)
{
    if (f->at.line == 0) {
        snprintf(out, FAULT_LINE, "%.400s: %s", file, f->text);
    } else {
        snprintf(out, FAULT_LINE, "%.400s:%u:%u: %s", file, f->at.line,
                 f->at.column, f->text);
    }
}
