#include "router/requests/placed.h"

#include "router/replicas/place.h"
#include "router/requests/choice_moves.h"
#include "router/requests/continuation.h"
#include "router/requests/removal.h"
#include "router/schedule/admission.h"

void placed_draining(struct requests *r, struct worker *w)
{
    continuation_drained(r, w);
    choices_recheck(r, w->model);
}

/* An ended sequence is only kept here: its lease ends with the drain, and there
 * is no other place for it. */
static bool may_move(const struct requests *r, const struct worker *place,
                     const struct choice *choice)
{
    return place_leaves(place) || choice->state == CHOICE_ENDED ||
           admission_elsewhere(r->fleet, choice->entry.model,
                               choice->entry.n_tokens, place);
}

uint32_t placed_move_all(struct requests *r, struct worker *place)
{
    struct list *running = &choices_of(place)->running;
    struct list *at = running->next;
    uint32_t n_stuck = 0;

    while (at != running) {
        struct choice *choice = LIST_OF(at, struct choice, grant.running);

        at = at->next;
        if (choice->removal.state != REMOVAL_NONE) {
            continue; /* its receipt is awaited */
        }
        if (may_move(r, place, choice)) {
            removal_moving(r, choice);
        } else {
            n_stuck++;
        }
    }
    return n_stuck;
}

enum orphan_fate placed_fate(const struct requests *r,
                             const uint8_t id[REQUEST_ID_BYTES],
                             uint32_t choice, const struct model *m)
{
    const struct request *request = request_find(r, id, REQUEST_ID_BYTES);

    /* A client may still resume it: keep it until it expires. */
    if (request == NULL) {
        return ORPHAN_IDLE;
    }
    /* The open request has the same id but does not contain this sequence. */
    if (choice >= request->n_choices || request->model != m) {
        return ORPHAN_UNWANTED;
    }
    switch (request->choices[choice].state) {
    case CHOICE_ENCODING:
        return ORPHAN_IDLE;
    case CHOICE_WAITING:
        return ORPHAN_WANTED;
    default:
        return ORPHAN_UNWANTED;
    }
}
