#include "router/requests/leases.h"

#include <inttypes.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "common/base/state_machine.h"
#include "common/wire/request_id.h"
#include "router/replicas/place.h"
#include "router/requests/choice_life.h"
#include "router/requests/removal.h"
#include "router/schedule/quota.h"

/* The picture in leases.h as a table. */
static const struct sm_row lease_rows[LEASE_STATES] = {
    [LEASE_NONE] = {"none", SM_TO(LEASE_HELD)},
    [LEASE_HELD] = {"held", SM_TO(LEASE_LAPSING) | SM_TO(LEASE_OVER)},
    [LEASE_LAPSING] = {"lapsing", SM_TO(LEASE_LAPSED) | SM_TO(LEASE_OVER)},
    [LEASE_LAPSED] = {"lapsed", SM_TO(LEASE_OVER)},
    [LEASE_OVER] = {"over", 0},
};

static void move(struct choice *choice, enum lease_state to)
{
    char id[REQUEST_ID_TEXT];

    request_id_format(choice->request->id, id);
    sm_check(lease_rows, choice->kept.state, to, "lease", id);
    choice->kept.state = to;
}

static void log_lease(const struct choice *choice, const char *event,
                      const char *why)
{
    char id[REQUEST_ID_TEXT];

    request_id_format(choice->request->id, id);
    log_debug(event, "request=%s choice=%" PRIu32 " worker=%s why=\"%s\"", id,
              choice->index, choice->grant.worker_name, why);
}

/* ---- its life ---- */

static void lease_fire(void *room, struct event *e)
{
    struct requests *r = room;
    struct choice *choice = EVENT_OF(e, struct choice, kept.lease);

    lease_end(r, choice);
    /* Otherwise a receipt will follow. */
    if (choice->removal.state == REMOVAL_NONE) {
        choice_ungrant(r, choice);
        choice_settle(r, choice);
    }
}

/* Asks the worker of choice for its memory. */
static void lapse(struct requests *r, struct choice *choice, const char *why)
{
    log_lease(choice, "lease-lapses", why);
    move(choice, LEASE_LAPSING);
    quota_charge(r->schedule, &choice->entry, 0);
    r->base->metrics.lapsed++;
    removal_release(r, choice);
}

/* Returns true if the memory of choice may be asked for. */
static bool gives_way(const struct choice *choice)
{
    return choice->kept.state == LEASE_HELD &&
           choice->removal.state == REMOVAL_NONE &&
           choice->kept.continued_by == NULL && choice->kept.range == NULL;
}

/* Returns the tokens that the leases of a tenant are charged which may give
 * way. */
static uint64_t charged(const struct requests *r, uint32_t tenant)
{
    uint64_t n = 0;

    for (struct list *at = r->leases.next; at != &r->leases; at = at->next) {
        const struct choice *choice = LIST_OF(at, struct choice, kept.leases);

        n += choice->entry.tenant == tenant && gives_way(choice)
                 ? choice->entry.quota
                 : 0;
    }
    return n;
}

/* Lets the oldest leases of a tenant give way until n more tokens fit. */
static void make_way(struct requests *r, uint32_t tenant, uint64_t n)
{
    struct list *at = r->leases.next;

    while (at != &r->leases && quota_excess(r->schedule, tenant, n) > 0) {
        struct choice *choice = LIST_OF(at, struct choice, kept.leases);

        at = at->next; /* its receipt may come at once */
        if (choice->entry.tenant == tenant && gives_way(choice)) {
            lapse(r, choice, "its tenant has its quota");
        }
    }
}

enum status leases_check_quota(struct requests *r, const struct arrival *a,
                               uint32_t n, uint32_t *retry_ms, struct error *e)
{
    uint64_t tokens = n * quota_tokens(r->schedule, a);
    uint64_t excess = quota_excess(r->schedule, a->tenant, tokens);

    /* None gives way in vain. */
    if (excess > 0 && excess <= charged(r, a->tenant)) {
        make_way(r, a->tenant, tokens);
    }
    return quota_check(r->schedule, a->demand.model, a->tenant, tokens,
                       retry_ms, e);
}

/* Keeps the leases of a tenant within its quota. */
static void heed_quota(struct requests *r, uint32_t tenant)
{
    uint32_t n = 0, most = r->base->options.kept;

    for (struct list *at = r->leases.prev; at != &r->leases && most > 0;
         at = at->prev) {
        struct choice *choice = LIST_OF(at, struct choice, kept.leases);

        if (choice->entry.tenant == tenant && gives_way(choice) && ++n > most) {
            lapse(r, choice, "newer ones of its tenant are kept");
        }
    }
    make_way(r, tenant, 0);
}

void lease_begin(struct requests *r, struct choice *choice)
{
    move(choice, LEASE_HELD);
    list_append(&r->leases, &choice->kept.leases);
    event_init(&choice->kept.lease, lease_fire, r);
    /* The worker's lease began earlier; one second more makes sure that it ends
     * before ours. */
    event_set(r->base, &choice->kept.lease,
              r->base->now_us +
                  ((int64_t)choice->request->keep_ms + 1000) * 1000);
    quota_charge(r->schedule, &choice->entry,
                 (uint64_t)choice->request->prompt.n + choice->out.n_generated);
    heed_quota(r, choice->entry.tenant);
}

void lease_ungranted(struct requests *r, struct choice *choice)
{
    if (choice->kept.state == LEASE_LAPSING) {
        move(choice, LEASE_LAPSED);
    } else {
        lease_end(r, choice);
    }
}

void lease_end(struct requests *r, struct choice *choice)
{
    if (lease_is_on(choice)) {
        move(choice, LEASE_OVER);
        list_remove(&choice->kept.leases);
        event_clear(r->base, &choice->kept.lease);
    }
}

void lease_loses(struct choice *choice)
{
    if (gives_way(choice)) {
        log_lease(choice, "lease-lapses", "its worker is lost");
        move(choice, LEASE_LAPSING);
    }
}

void lease_consumed(struct requests *r, struct choice *choice)
{
    log_lease(choice, "continued-from-ids", "its memory gave way");
    r->base->metrics.continued_from_ids++;
    lease_end(r, choice);
    choice_settle(r, choice);
}

/* ---- who gives way ---- */

void lease_receipt(struct choice *choice, uint64_t snapshot)
{
    if (choice->kept.state == LEASE_LAPSING) {
        choices_of(choice->grant.worker)->lapsed_at = snapshot;
    }
}

/* Returns true if room of w is on its way. */
static bool awaits_room(const struct worker *w)
{
    return choices_of(w)->lapsed_at > w->ledger.snapshot;
}

/* Returns the sequence that gives way to e; NULL: none can, or the room of
 * another one is on its way. */
static struct choice *next_for(const struct requests *r,
                               const struct queue_entry *e)
{
    struct choice *best = NULL;

    for (struct list *at = r->leases.next; at != &r->leases; at = at->next) {
        struct choice *choice = LIST_OF(at, struct choice, kept.leases);
        struct worker *w = choice->grant.worker;

        if (choice->request->model != e->model || w == NULL) {
            continue;
        }
        if (choice->kept.state == LEASE_LAPSING || awaits_room(w)) {
            return NULL;
        }
        if (gives_way(choice) && place_takes(w) &&
            place_fits_ever(w, e->n_tokens)) {
            bool own = choice->entry.tenant == e->tenant;

            best = best == NULL || own ? choice : best;
            if (own) {
                break;
            }
        }
    }
    return best;
}

void leases_pressed(struct requests *r, const struct queue_entry *e)
{
    struct choice *choice = next_for(r, e);

    if (choice != NULL && !PLANT(LEASES_STAY)) {
        lapse(r, choice, "a request waits for room");
    }
}

bool leases_owed(const struct requests *r, const struct model *m)
{
    const struct queue_entry *e;

    if (list_empty(&m->waiting)) {
        return false;
    }
    e = LIST_OF(m->waiting.next, struct queue_entry, queue);
    return e->wait.place != 0 && next_for(r, e) != NULL;
}

bool leases_shed(struct requests *r)
{
    for (struct list *at = r->leases.next; at != &r->leases; at = at->next) {
        struct choice *choice = LIST_OF(at, struct choice, kept.leases);

        if (choice->kept.state == LEASE_LAPSED) {
            lease_end(r, choice);
            choice_settle(r, choice);
            return true;
        }
    }
    return false;
}
