#include "router/requests/choice_moves.h"

#include <inttypes.h>

#include "common/base/log.h"
#include "common/wire/request_id.h"
#include "router/replicas/place.h"
#include "router/requests/choice_life.h"
#include "router/requests/leases.h"
#include "router/requests/removal.h"
#include "router/schedule/admission.h"

static void fail_lost(struct requests *r, struct choice *choice,
                      const char *worker, const char *why)
{
    struct error e;

    if (choice->figures.n_idle_moves > IDLE_MOVES_MAX) {
        error_set(&e, ST_ABORTED,
                  "%u workers in a row were lost while they held the sequence; "
                  "the last was %s: %s",
                  choice->figures.n_idle_moves, worker, why);
    } else {
        error_set(&e, ST_UNAVAILABLE,
                  "worker %s was lost (%s) and no other worker has model %s",
                  worker, why, choice->request->model->name);
    }
    choice_fail(r, choice, &e, RETRY_MS_MIN);
}

static void fail_indicted(struct requests *r, struct choice *choice,
                          const char *why)
{
    uint32_t n = choice->entry.trial.n_deaths + 1;
    char id[REQUEST_ID_TEXT];
    struct error e;

    request_id_format(choice->request->id, id);
    log_error("request-indicted",
              "request=%s choice=%" PRIu32 " deaths=%" PRIu32
              " worker=%s why=\"%s\"",
              id, choice->index, n, choice->grant.worker_name, why);
    error_set(&e, ST_ABORTED,
              "%" PRIu32
              " workers died while running the sequence, the last was %s%s "
              "(%s); it is not retried",
              n,
              member_of(choice->grant.worker)->replica != NULL
                  ? "in the replica of "
                  : "",
              choice->grant.worker_name, why);
    r->base->metrics.indicted++;
    trial_explain(&choice->entry.trial);
    choice_ungrant(r, choice);
    choice_fail(r, choice, &e, 0);
}

static void move_elsewhere(struct requests *r, struct choice *choice)
{
    choice->figures.n_moves++;
    place_moved(choice->grant.worker);
    r->base->metrics.moved++;
    choice_requeue(r, choice);
}

void choice_displaced(struct requests *r, struct choice *choice,
                      const char *why)
{
    const struct request *request = choice->request;

    if (choice->state == CHOICE_ENDED || choice->state == CHOICE_ENDING) {
        lease_loses(choice);
        removal_answer_self(r, choice); /* its memory is gone */
    } else if (choice->out.n_generated == request->max_tokens &&
               /* All tokens are here; only the row with the end is missing.
                * Tokens that the client resumed with prove nothing: their last
                * may be an end token. */
               choice->out.n_generated > choice->out.n_client_has) {
        choice_ungrant(r, choice);
        choice_finish(r, choice, SLUICE__V1__FINISH__FINISH_LENGTH);
    } else if (trial_indicted(&choice->entry.trial)) {
        fail_indicted(r, choice, why);
    } else if (!model_waits(request->model) ||
               ++choice->figures.n_idle_moves > IDLE_MOVES_MAX) {
        choice_ungrant(r, choice);
        fail_lost(r, choice, choice->grant.worker_name, why);
    } else {
        move_elsewhere(r, choice);
    }
}

static enum status check_possible(struct requests *r,
                                  const struct request *request,
                                  struct error *e)
{
    struct demand d = request_demand(request);

    return admission_possible(r->fleet, &d, e);
}

void choice_moved(struct requests *r, struct choice *choice)
{
    const struct request *request = choice->request;
    struct error e;

    if (choice->out.n_generated == request->max_tokens &&
        choice->out.n_generated > choice->out.n_client_has) {
        choice_ungrant(r, choice);
        choice_finish(r, choice, SLUICE__V1__FINISH__FINISH_LENGTH);
    } else if (check_possible(r, request, &e) != ST_OK) {
        choice_ungrant(r, choice);
        /* No other place can hold it, so the drain cannot move it. */
        error_wrap(&e, "worker %s released the sequence",
                   choice->grant.worker_name);
        choice_fail(r, choice, &e, admission_retry_ms(&e));
    } else {
        move_elsewhere(r, choice);
    }
}

/* Fails the choices in doomed.  The walk over the queue must be over by then: a
 * choice that fails also takes the other choices of its request out of the
 * queue. */
static void fail_waiting(struct requests *r, struct list *doomed,
                         enum status (*why)(struct requests *r,
                                            const struct request *request,
                                            struct error *e))
{
    struct error e;

    while (!list_empty(doomed)) {
        struct choice *choice =
            LIST_OF(doomed->next, struct choice, entry.queue);

        (void)!why(r, choice->request, &e);
        choice_fail(r, choice, &e, request_retry_ms(choice->request, &e));
    }
}

static void move_to_doomed(struct choice *choice, struct list *doomed)
{
    list_remove(&choice->entry.queue);
    list_append(doomed, &choice->entry.queue);
}

void choices_recheck(struct requests *r, struct model *m)
{
    struct list *at = m->waiting.next;
    struct list doomed;
    struct error e;

    list_init(&doomed);
    while (at != &m->waiting) {
        struct choice *choice = LIST_OF(at, struct choice, entry.queue);

        at = at->next;
        if (check_possible(r, choice->request, &e) != ST_OK) {
            move_to_doomed(choice, &doomed);
        }
    }
    fail_waiting(r, &doomed, check_possible);
}

static enum status set_estranged(struct requests *r,
                                 const struct request *request, struct error *e)
{
    (void)r;
    return error_set(e, ST_ABORTED,
                     "model %s came back with different weights, another KV "
                     "format or another arithmetic",
                     request->model->name);
}

void choices_estranged(struct requests *r, struct model *m, bool all)
{
    struct list *at = m->waiting.next;
    struct list doomed;

    list_init(&doomed);
    while (at != &m->waiting) {
        struct choice *choice = LIST_OF(at, struct choice, entry.queue);

        at = at->next;
        if (all || choice->out.n_generated > 0) {
            move_to_doomed(choice, &doomed);
        }
    }
    fail_waiting(r, &doomed, set_estranged);
}
