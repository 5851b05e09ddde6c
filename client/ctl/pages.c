#include "client/ctl/pages.h"

#include <inttypes.h>

void pages_take(struct pages *p, bool has_next, uint64_t next)
{
    p->n++;
    p->more = has_next && next != 0;
    if (p->more && next <= p->after) {
        p->status = error_set(&p->error, ST_DATA_LOSS,
                              "page %" PRIu32 " of the list names next=%" PRIu64
                              " after %" PRIu64
                              ", so the list would not end; the router is "
                              "faulty",
                              p->n, next, p->after);
        p->more = false;
    } else if (p->more && p->n == PAGES_MAX) {
        p->status = error_set(&p->error, ST_OUT_OF_RANGE,
                              "the list has more than %d pages; the router is "
                              "faulty",
                              PAGES_MAX);
        p->more = false;
    }
    p->after = next;
}
