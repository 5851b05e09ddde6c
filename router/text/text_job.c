/* text_job.c - Jobs, which all seams share. */
#include <assert.h>
#include <stdlib.h>

#include "router/text/text_seam.h"

struct text_job *text_job_new(enum text_job_kind kind, uint64_t tag)
{
    struct text_job *j = calloc(1, sizeof *j);

    assert(j != NULL);
    j->kind = kind;
    j->tag = tag;
    return j;
}

void text_job_free(struct text_job **j)
{
    if (*j != NULL) {
        free((*j)->text);
        free((*j)->ids);
        free(*j);
        *j = NULL;
    }
}
