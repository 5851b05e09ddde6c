/* pages.h - The pages of a list, as a router sends them.
 *
 * Each reply of ListWorkers and ListSequences has a page and, if more rows
 * follow, `next`, which the client sends back as `after`.  A faulty router may
 * repeat a page for ever, so `next` must grow and the pages are counted.
 *
 * Threading, memory: none.  Limits: PAGES_MAX. */
#ifndef CLIENT_CTL_PAGES_H
#define CLIENT_CTL_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

/* A router with 1,048,576 sequences has 16,384 pages of LIST_ROWS_MAX. */
#define PAGES_MAX 32768

struct pages {
    uint64_t after; /* sent in the next request; 0: the first page */
    uint32_t n;     /* pages so far */
    bool more;      /* another page follows */
    enum status status;
    struct error error; /* set if status is not OK */
};

/* Takes `next` of a reply; has_next false or next 0 means the last page.  Sets
 * p->status to ST_DATA_LOSS if the pages do not advance, to ST_OUT_OF_RANGE if
 * more than PAGES_MAX would follow; p->more is then false. */
void pages_take(struct pages *p, bool has_next, uint64_t next);

#endif
