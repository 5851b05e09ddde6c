#include "worker/sequence/state.h"

#include "common/base/log.h"
#include "common/base/state_machine.h"
#include "worker/sequence/sequence_table.h"

/* Formatting the name costs more than the move, so only a log line does it. */
static const char *name_of(const struct sequence *s, char name[SEQUENCE_NAME])
{
    return log_threshold <= LOG_DEBUG ? sequence_name(&s->key, name) : "";
}

/* ---- the sequence ---- */

static const struct sm_row state_rows[SEQUENCE_STATES] = {
    [SEQUENCE_RECEIVING] = {"receiving", SM_TO(SEQUENCE_QUEUED) |
                                             SM_TO(SEQUENCE_SUSPENDED) |
                                             SM_TO(SEQUENCE_RELEASING)},
    [SEQUENCE_QUEUED] = {"queued", SM_TO(SEQUENCE_PREFILL) |
                                       SM_TO(SEQUENCE_SUSPENDED) |
                                       SM_TO(SEQUENCE_RELEASING)},
    [SEQUENCE_PREFILL] = {"prefill", SM_TO(SEQUENCE_DECODE) |
                                         SM_TO(SEQUENCE_SUSPENDED) |
                                         SM_TO(SEQUENCE_RELEASING)},
    [SEQUENCE_DECODE] = {"decode", SM_TO(SEQUENCE_KEPT) |
                                       SM_TO(SEQUENCE_SUSPENDED) |
                                       SM_TO(SEQUENCE_RELEASING)},
    [SEQUENCE_SUSPENDED] = {"suspended", SM_TO(SEQUENCE_QUEUED) |
                                             SM_TO(SEQUENCE_PREFILL) |
                                             SM_TO(SEQUENCE_DECODE) |
                                             SM_TO(SEQUENCE_RELEASING)},
    [SEQUENCE_KEPT] = {"kept", SM_TO(SEQUENCE_RELEASING)},
    [SEQUENCE_RELEASING] = {"releasing", SM_TO(SEQUENCE_FINISHED)},
    [SEQUENCE_FINISHED] = {"finished", 0},
};

/* Numbers of proto's SequenceState.  RECEIVING is queued to the router, and
 * RELEASING and FINISHED are both finished.  A Submit that waits for room is
 * suspended from its start. */
static const int public_states[SEQUENCE_STATES] = {
    [SEQUENCE_RECEIVING] = 1, [SEQUENCE_QUEUED] = 1,
    [SEQUENCE_PREFILL] = 2,   [SEQUENCE_DECODE] = 3,
    [SEQUENCE_KEPT] = 4,      [SEQUENCE_RELEASING] = 5,
    [SEQUENCE_FINISHED] = 5,  [SEQUENCE_SUSPENDED] = 6,
};

const char *sequence_state_name(enum sequence_state s)
{
    return state_rows[s].name;
}

int sequence_public_state(const struct sequence *s)
{
    return public_states[s->state];
}

void sequence_move(struct sequence_table *t, struct sequence *s,
                   enum sequence_state to)
{
    char name[SEQUENCE_NAME];

    sm_check(state_rows, s->state, to, "request", name_of(s, name));
    t->in_state[s->state]--;
    t->in_state[to]++;
    s->state = to;
}

/* ---- orphans ---- */

static const struct sm_row orphan_rows[ORPHAN_STATES] = {
    [ORPHAN_NONE] = {"none", SM_TO(ORPHAN_LEFT)},
    [ORPHAN_LEFT] = {"left", SM_TO(ORPHAN_ANNOUNCED) | SM_TO(ORPHAN_NONE)},
    [ORPHAN_ANNOUNCED] = {"announced", SM_TO(ORPHAN_NONE)},
};

void orphan_move(struct sequence *s, enum orphan_state to)
{
    char name[SEQUENCE_NAME];

    sm_check(orphan_rows, s->orphan.state, to, "orphan", name_of(s, name));
    s->orphan.state = to;
}

/* ---- the later stages of a replica ---- */

static const struct sm_row stages_rows[STAGES_STATES] = {
    [STAGES_NONE] = {"none", SM_TO(STAGES_OPEN)},
    [STAGES_OPEN] = {"open", SM_TO(STAGES_REMOVING) | SM_TO(STAGES_NONE)},
    [STAGES_REMOVING] = {"removing", SM_TO(STAGES_REMOVED)},
    [STAGES_REMOVED] = {"removed", 0},
};

void stages_move(struct sequence *s, enum stages_state to)
{
    char name[SEQUENCE_NAME];

    sm_check(stages_rows, s->stages.state, to, "stages", name_of(s, name));
    s->stages.state = to;
}

void stages_end(struct sequence *s)
{
    if (s->stages.state == STAGES_REMOVING) {
        stages_move(s, STAGES_REMOVED);
    } else if (s->stages.state == STAGES_OPEN) {
        stages_move(s, STAGES_NONE);
    }
}

/* ---- computing again ---- */

static const struct sm_row recompute_rows[RECOMPUTE_STATES] = {
    [RECOMPUTE_NONE] = {"none", SM_TO(RECOMPUTE_WAITS)},
    [RECOMPUTE_WAITS] = {"waits", SM_TO(RECOMPUTE_ALONE)},
    [RECOMPUTE_ALONE] = {"alone",
                         SM_TO(RECOMPUTE_NONE) | SM_TO(RECOMPUTE_WAITS)},
};

void recompute_move(struct sequence *s, enum sequence_recompute to)
{
    char name[SEQUENCE_NAME];

    /* Each row of a failed plan may ask for the same. */
    if (s->plan.recompute != to) {
        sm_check(recompute_rows, s->plan.recompute, to, "recompute",
                 name_of(s, name));
        s->plan.recompute = to;
    }
}

/* ---- what the router was sent ---- */

static const struct sm_row report_rows[REPORT_STATES] = {
    [REPORT_OPEN] = {"open", SM_TO(REPORT_END_SENT) | SM_TO(REPORT_FORGOTTEN)},
    [REPORT_END_SENT] = {"end-sent",
                         SM_TO(REPORT_OPEN) | SM_TO(REPORT_FORGOTTEN_END)},
    [REPORT_FORGOTTEN] = {"forgotten",
                          SM_TO(REPORT_OPEN) | SM_TO(REPORT_FORGOTTEN_END)},
    [REPORT_FORGOTTEN_END] = {"forgotten-end", SM_TO(REPORT_OPEN)},
};

void report_move(struct sequence *s, enum report_state to)
{
    char name[SEQUENCE_NAME];

    sm_check(report_rows, s->report.state, to, "report", name_of(s, name));
    s->report.state = to;
}

/* ---- suspension ---- */

static const struct sm_row suspension_rows[SUSPENSION_STATES] = {
    [SUSPENSION_NONE] = {"none",
                         SM_TO(SUSPENSION_WAITS) | SM_TO(SUSPENSION_OUT)},
    [SUSPENSION_WAITS] = {"waits", SM_TO(SUSPENSION_NONE)},
    [SUSPENSION_OUT] = {"out", SM_TO(SUSPENSION_BACK)},
    [SUSPENSION_BACK] = {"back", SM_TO(SUSPENSION_OUT)},
};

void suspension_move(struct sequence *s, enum suspension_state to)
{
    char name[SEQUENCE_NAME];

    sm_check(suspension_rows, s->suspension.state, to, "suspension",
             name_of(s, name));
    s->suspension.state = to;
}

/* ---- kept sequences ---- */

static const struct sm_row kept_rows[KEPT_STATES] = {
    [KEPT_HERE] = {"here", SM_TO(KEPT_AWAY)},
    [KEPT_AWAY] = {"away", SM_TO(KEPT_HERE)},
};

void kept_move(struct sequence_table *t, struct sequence *s, enum kept_state to)
{
    char name[SEQUENCE_NAME];

    sm_check(kept_rows, s->kept.state, to, "kept", name_of(s, name));
    s->kept.state = to;
    if (to == KEPT_AWAY) {
        t->n_away++;
    } else {
        t->n_away--;
    }
}
