/* text_calls.c - text jobs that are done, and Tokenize and Detokenize. */
#include <stdlib.h>

#include "router/recv.h"
#include "router/router.h"

static void job_done(struct router_core *r, struct text_job *j)
{
    struct table_node *n = table_find(&r->jobs, j->tag);

    if (n == NULL) {
        return; /* nobody wants it any more */
    }
    table_remove(&r->jobs, n);
    generate_encoded(r, LIST_OF(n, struct request, by_tag), j);
}

void text_poll(struct router_core *r)
{
    struct text_seam *t = r->options.text;
    struct text_job *j;

    while (t != NULL && r->n_jobs > 0 && (j = t->ops->poll(t)) != NULL) {
        r->n_jobs--;
        job_done(r, j);
        text_job_free(&j);
    }
}
