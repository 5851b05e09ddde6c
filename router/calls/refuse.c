#include "router/calls/refuse.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/wire/request_id.h"
#include "router/fleet/quarantine.h"
#include "router/fleet/workers.h"

void refuse(const struct incoming *in, enum status code, const char *fmt, ...)
{
    struct error e = {.code = code};
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(e.text, sizeof e.text, fmt, ap);
    va_end(ap);
    refuse_with(in, &e, memory_is_short(&e) ? RETRY_MS_MIN : 0);
}

void refuse_with(const struct incoming *in, const struct error *e,
                 uint32_t retry_after_ms)
{
    if (in->refused != NULL) {
        *in->refused = *e;
    }
    peer_fail(in->peer->peer, in->call, e, retry_after_ms);
}

bool check_request_id(const struct incoming *in, ProtobufCBinaryData id)
{
    if (id.len != REQUEST_ID_BYTES) {
        refuse(in, ST_INVALID_ARGUMENT,
               "request_id has %zu bytes, must have %d", id.len,
               REQUEST_ID_BYTES);
        return false;
    }
    if (request_id_is_zero(id.data)) {
        refuse(in, ST_INVALID_ARGUMENT,
               "request_id is all zeros; choose a random one");
        return false;
    }
    return true;
}

void worker_expel(struct fleet *fleet, struct worker *w, const struct error *e)
{
    /* Frames after the violation may violate the protocol too; one report is
     * enough. */
    if (!w->peer->ended) {
        log_gate_write(&fleet->base->log.violation, fleet->base->now_us,
                       "worker=%s why=\"%s\"", w->peer->name, e->text);
        fleet->base->metrics.protocol_violations++;
        quarantine_add(fleet, w->peer->name);
        peers_end(fleet, w->peer, "protocol violation: %s", e->text);
    }
}
