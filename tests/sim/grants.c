#include "tests/sim/grants.h"

#include "tests/sim/sim.h"

static struct grant_seen *see(struct grants *grants, uint32_t conn,
                              uint64_t grant)
{
    struct grant_seen *e;

    for (uint32_t i = 0; i < GRANTS_SEEN; i++) {
        if (grants->seen[i].conn == conn && grants->seen[i].grant == grant) {
            return &grants->seen[i];
        }
    }
    e = &grants->seen[grants->next++ % GRANTS_SEEN];
    *e = (struct grant_seen){.conn = conn, .grant = grant};
    return e;
}

bool grants_submit(struct sim *s, uint32_t conn, uint64_t grant, uint64_t call)
{
    struct grant_seen *e = see(&s->grants, conn, grant);

    e->call = call;
    return !e->early;
}

void grants_cancel(struct sim *s, uint32_t conn, uint64_t grant)
{
    struct grant_seen *e = see(&s->grants, conn, grant);

    e->cancelled = true;
    e->early = e->early || e->call == 0;
}

void grants_answer(struct sim *s, uint32_t conn, uint64_t call,
                   enum status status)
{
    for (uint32_t i = 0; i < GRANTS_SEEN; i++) {
        const struct grant_seen *e = &s->grants.seen[i];

        if (e->conn != conn || e->call != call) {
            continue;
        }
        if (status == ST_OK && e->early) {
            sim_fail(s, -1,
                     "worker accepted the cancelled Submit of grant %llu",
                     (unsigned long long)e->grant);
        } else if (status == ST_CANCELLED && !e->cancelled) {
            sim_fail(s, -1,
                     "worker struck the Submit of grant %llu, which was not "
                     "cancelled",
                     (unsigned long long)e->grant);
        }
    }
}
