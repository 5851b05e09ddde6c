/* grants.h - which grants of a connection were submitted and which were
 * cancelled, in the order that the worker heard of it.
 *
 * A Submit whose Cancel came before it must not run, and none may be struck
 * that nobody cancelled. */
#ifndef SIM_GRANTS_H
#define SIM_GRANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

#define GRANTS_SEEN 512 /* the newest */

struct sim;

struct grant_seen {
    uint64_t grant, call; /* of its Submit, 0: not come */
    uint32_t conn;
    bool cancelled;
    bool early; /* before its Submit */
};

struct grants {
    struct grant_seen seen[GRANTS_SEEN];
    uint32_t next;
};

/* False: its Cancel has come before it. */
bool grants_submit(struct sim *s, uint32_t conn, uint64_t grant, uint64_t call);
void grants_cancel(struct sim *s, uint32_t conn, uint64_t grant);
void grants_answer(struct sim *s, uint32_t conn, uint64_t call,
                   enum status status);

#endif
