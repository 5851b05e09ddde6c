#include "worker/base/base.h"

#include "proto/health.pb-c.h"

/* A broken session stays open until the next tick, because this may run
 * within one of its callbacks.  Nothing may be sent on it from here on. */
struct peer *base_peer(const struct worker_base *b)
{
    if (b->stopping || b->broken != NULL || b->session.state != SESSION_UP) {
        return NULL;
    }
    return b->session.peer;
}

void base_break(struct worker_base *b, const char *why)
{
    if (b->broken == NULL) {
        b->ops->broken(b->core, why);
        b->broken = why;
    }
}

/* Upward through the table, because the core is the room above. */
void base_stop(struct worker_base *b)
{
    b->ops->stop(b->core);
}

int64_t base_now_us(const struct worker_base *b)
{
    return b->io->now_us(b->io);
}

void base_health(struct peer *p, uint64_t call)
{
    Sluice__V1__HealthReply reply = SLUICE__V1__HEALTH_REPLY__INIT;

    reply.serving = true;
    peer_end(p, call, &reply.base);
}
