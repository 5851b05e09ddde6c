#include "router/requests/slow_reader.h"

#include <inttypes.h>

#include "common/base/log.h"
#include "router/requests/request_end.h"
#include "router/requests/request_log.h"
#include "router/requests/stream.h"

static void give_up(struct requests *r, struct request *request)
{
    char id[REQUEST_ID_TEXT];
    struct error e;
    uint64_t unread = 0;

    for (uint32_t c = 0; c < request->n_choices; c++) {
        unread += request->choices[c].out.n_generated -
                  request->choices[c].out.n_sent;
    }
    request_id_format(request->id, id);
    log_gate_write(&r->base->log.slow_reader, r->base->now_us,
                   "request=%s client=%s unread=%" PRIu64, id,
                   request->call.peer->name, unread);
    r->base->metrics.slow_readers++;
    error_set(&e, ST_CANCELLED,
              "the client read nothing for %d s while %" PRIu64
              " tokens waited",
              SLOW_READER_MS / 1000, unread);
    request_log_end(r, request, &e);
    pending_fail(r->fleet, &request->call, &e, 0);
    request_cancel(r, request, SLUICE__V1__CANCEL_REASON__CANCEL_SLOW_READER);
}

/* Returns when the call of choice becomes too slow.  The time counts from the
 * last chunk of any choice of the call: choices take turns, so one that waits
 * for its turn is not slow. */
static int64_t slow_at(const struct choice *choice)
{
    int64_t served_us = choice->request->served_us;

    return (choice->out.ready_us > served_us ? choice->out.ready_us
                                             : served_us) +
           SLOW_READER_MS * 1000;
}

void slow_reader_check(struct requests *r, struct router_peer *p)
{
    struct session_output *out = output_of(p);
    struct list *at = out->ready.next;
    int64_t next = NODE_IDLE;

    while (at != &out->ready) {
        const struct choice *choice = LIST_OF(at, struct choice, out.ready);
        int64_t due = slow_at(choice);

        at = at->next;
        if (due <= r->base->now_us) {
            give_up(r, choice->request);
            at = out->ready.next; /* all choices of the request left the list */
            next = NODE_IDLE;
        } else if (due < next) {
            next = due;
        }
    }
    event_set(r->base, &out->slow, next);
}
