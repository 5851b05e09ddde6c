#include "router/requests/receipt_check.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/plant.h"
#include "router/replicas/place.h"
#include "router/requests/request.h"

typedef Sluice__V1__Receipt receipt;

static bool is_meant(const struct choice *choice,
                     const Sluice__V1__SequenceRef *ref)
{
    return ref->request_id.len == sizeof choice->request->id &&
           memcmp(ref->request_id.data, choice->request->id,
                  sizeof choice->request->id) == 0 &&
           ref->choice == choice->index;
}

static bool frees_nothing(const receipt *m)
{
    return m->state == SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN ||
           m->state == SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED;
}

/* The worker has generated what the router has of it, unless it reports that it
 * has no such sequence.  A stop string may have cut tokens off. */
static uint64_t least_generated(const struct choice *choice, const receipt *m)
{
    return m->state == SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN
               ? 0
               : choice->out.n_generated;
}

static uint64_t last_state(const struct choice *choice)
{
    return choice->grant.worker->grew
               ? SLUICE__V1__SEQUENCE_STATE__SEQUENCE_SUSPENDED
               : SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED;
}

static enum status check_numbers(const struct choice *choice, const receipt *m,
                                 int64_t now_us, struct error *e)
{
    bool nothing = frees_nothing(m);
    uint64_t waited_us = (uint64_t)(now_us - choice->removal.asked_us);
    const struct {
        const char *name;
        uint64_t value, min, max;
    } bounds[] = {
        {"state", (uint32_t)m->state, 0, last_state(choice)},
        {"n_generated", m->n_generated, least_generated(choice, m),
         choice->request->max_tokens},
        {"blocks", m->blocks, 0, nothing ? 0 : choice->grant.held.of[BLOCKS]},
        {"slots", m->slots, 0, nothing ? 0 : choice->grant.held.of[SLOTS]},
        {"windows", m->windows, 0,
         nothing ? 0 : choice->grant.held.of[WINDOWS]},
        {"checkpoints", m->checkpoints, 0, 0},
        {"micros", m->micros, 0, waited_us + RECEIPT_SLACK_US},
        {"snapshot", m->snapshot, 0,
         choice->grant.worker->ledger.snapshot + RECEIPT_SNAPSHOTS_MAX},
    };

    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        if (bounds[i].value < bounds[i].min ||
            bounds[i].value > bounds[i].max) {
            return error_set(e, ST_DATA_LOSS,
                             "the receipt of grant %" PRIu64 " reports %s "
                             "%" PRIu64 ", must be %" PRIu64 "..%" PRIu64,
                             choice->grant.number, bounds[i].name,
                             bounds[i].value, bounds[i].min, bounds[i].max);
        }
    }
    return ST_OK;
}

static uint64_t sum_column(const uint32_t *column, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += column[i];
    }
    return sum;
}

static enum status check_sums(const receipt *m, struct error *e)
{
    uint64_t blocks = sum_column(m->stage_blocks, m->n_stage_blocks);
    uint64_t slots = sum_column(m->stage_slots, m->n_stage_slots);
    uint64_t windows = sum_column(m->stage_windows, m->n_stage_windows);

    if (blocks != m->blocks || slots != m->slots) {
        return error_set(e, ST_DATA_LOSS,
                         "the receipt reports %" PRIu32 " blocks and %" PRIu32
                         " slots, but its stages add up to %" PRIu64
                         " and %" PRIu64,
                         m->blocks, m->slots, blocks, slots);
    }
    if (windows != m->windows) {
        return error_set(e, ST_DATA_LOSS,
                         "the receipt reports %" PRIu32
                         " window pages, but its stages add up to %" PRIu64,
                         m->windows, windows);
    }
    return ST_OK;
}

static enum status check_shares(const struct choice *choice, const receipt *m,
                                struct error *e)
{
    for (uint32_t i = 0; i < m->n_stage_blocks; i++) {
        const struct worker *s = worker_stage(choice->grant.worker, i);
        struct need share;

        if (s == NULL) { /* its session has just ended */
            continue;
        }
        share = place_share(s, &choice->grant.need);
        if (m->stage_blocks[i] > share.of[BLOCKS] ||
            m->stage_slots[i] > share.of[SLOTS]) {
            return error_set(
                e, ST_DATA_LOSS,
                "the receipt of grant %" PRIu64 " reports %" PRIu32
                " blocks and %" PRIu32 " slots of stage %" PRIu32
                ", at most %" PRIu64 " and %" PRIu64 " were granted there",
                choice->grant.number, m->stage_blocks[i], m->stage_slots[i], i,
                share.of[BLOCKS], share.of[SLOTS]);
        }
        if (m->n_stage_windows > 0 && m->stage_windows[i] > share.of[WINDOWS]) {
            return error_set(e, ST_DATA_LOSS,
                             "the receipt of grant %" PRIu64 " reports %" PRIu32
                             " window pages of stage %" PRIu32
                             ", at most %" PRIu64 " were granted there",
                             choice->grant.number, m->stage_windows[i], i,
                             share.of[WINDOWS]);
        }
    }
    return ST_OK;
}

static bool frees_none(const receipt *m)
{
    return m->blocks == 0 && m->slots == 0 && m->windows == 0;
}

/* The receipt of a range has the leader's figures alone: the other stages free
 * their part later. */
static enum status check_stages(const struct choice *choice, const receipt *m,
                                struct error *e)
{
    const struct worker *w = choice->grant.worker;
    size_t n =
        member_of(w)->replica == NULL ? 0 : member_of(w)->replica->n_stages;

    if (m->n_stage_blocks == 0 && m->n_stage_slots == 0 &&
        m->n_stage_windows == 0 &&
        (n == 0 || m->has_position || frees_none(m))) {
        return ST_OK;
    }
    if (m->n_stage_blocks != n || m->n_stage_slots != n) {
        return error_set(
            e, ST_DATA_LOSS,
            "the receipt lists %zu and %zu stages, the place has %zu",
            m->n_stage_blocks, m->n_stage_slots, n);
    }
    if (m->n_stage_windows != 0 && m->n_stage_windows != n) {
        return error_set(e, ST_DATA_LOSS,
                         "the receipt lists the window pages of %zu stages, "
                         "the place has %zu",
                         m->n_stage_windows, n);
    }
    return check_sums(m, e);
}

enum status receipt_check(const struct choice *choice, const receipt *m,
                          int64_t now_us, struct error *e)
{
    enum status st;

    if (PLANT(RECEIPT_BELIEVED)) {
        return ST_OK;
    }
    if (!is_meant(choice, m->sequence)) {
        return error_set(e, ST_DATA_LOSS,
                         "the receipt of grant %" PRIu64
                         " names another sequence",
                         choice->grant.number);
    }
    st = check_stages(choice, m, e);
    if (st == ST_OK) {
        st = check_numbers(choice, m, now_us, e);
    }
    return st == ST_OK ? check_shares(choice, m, e) : st;
}
