/* grants.h - Submitted and cancelled grants of each connection.
 *
 * Events are in the order of arrival at the worker.  A Submit that arrives
 * after its Cancel must not run.  A worker must not strike a Submit that was
 * not cancelled. */
#ifndef SIM_GRANTS_H
#define SIM_GRANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

#define GRANTS_SEEN 512 /* number of newest grants kept */

struct sim;

struct grant_seen {
    uint64_t grant, call; /* call of its Submit, 0: not received */
    uint32_t conn;
    bool cancelled;
    bool early; /* its Cancel arrived before its Submit */
};

struct grants {
    struct grant_seen seen[GRANTS_SEEN];
    uint32_t next;
};

/* Records a Submit; false if its Cancel arrived first. */
bool grants_submit(struct sim *s, uint32_t conn, uint64_t grant, uint64_t call);
void grants_cancel(struct sim *s, uint32_t conn, uint64_t grant);
void grants_answer(struct sim *s, uint32_t conn, uint64_t call,
                   enum status status);

#endif
