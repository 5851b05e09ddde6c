#include "router/requests/choice_parts.h"

#include "common/base/state_machine.h"
#include "common/wire/request_id.h"
#include "router/requests/request.h"

/* The pictures in choice_parts.h as tables. */
static const struct sm_row output_rows[OUTPUT_STATES] = {
    [OUTPUT_OPEN] = {"open", SM_TO(OUTPUT_CLOSED)},
    [OUTPUT_CLOSED] = {"closed", 0},
};

static const struct sm_row grant_rows[GRANT_STATES] = {
    [GRANT_NONE] = {"none", SM_TO(GRANT_RUNS)},
    [GRANT_RUNS] = {"runs", SM_TO(GRANT_SUSPENDED) | SM_TO(GRANT_KEPT) |
                                SM_TO(GRANT_RELEASED) | SM_TO(GRANT_NONE)},
    [GRANT_SUSPENDED] = {"suspended", SM_TO(GRANT_RUNS) | SM_TO(GRANT_KEPT) |
                                          SM_TO(GRANT_RELEASED) |
                                          SM_TO(GRANT_NONE)},
    [GRANT_KEPT] = {"kept", SM_TO(GRANT_RELEASED) | SM_TO(GRANT_NONE)},
    [GRANT_RELEASED] = {"released", 0},
};

static const struct sm_row submit_rows[SUBMIT_STATES] = {
    [SUBMIT_NONE] = {"none", SM_TO(SUBMIT_IDS) | SM_TO(SUBMIT_ADOPTS) |
                                 SM_TO(SUBMIT_CONTINUES)},
    [SUBMIT_IDS] = {"ids", SM_TO(SUBMIT_NONE)},
    [SUBMIT_ADOPTS] = {"adopts", SM_TO(SUBMIT_NONE)},
    [SUBMIT_CONTINUES] = {"continues", SM_TO(SUBMIT_NONE)},
};

static const struct sm_row removal_rows[REMOVAL_STATES] = {
    [REMOVAL_NONE] = {"none", SM_TO(REMOVAL_ENDS_UNSENT) |
                                  SM_TO(REMOVAL_ENDS_SENT) |
                                  SM_TO(REMOVAL_MOVES_UNSENT) |
                                  SM_TO(REMOVAL_MOVES_SENT)},
    [REMOVAL_ENDS_UNSENT] = {"ends-unsent",
                             SM_TO(REMOVAL_ENDS_SENT) | SM_TO(REMOVAL_NONE)},
    [REMOVAL_ENDS_SENT] = {"ends-sent", SM_TO(REMOVAL_NONE)},
    [REMOVAL_MOVES_UNSENT] = {"moves-unsent",
                              SM_TO(REMOVAL_MOVES_SENT) | SM_TO(REMOVAL_NONE)},
    [REMOVAL_MOVES_SENT] = {"moves-sent", SM_TO(REMOVAL_NONE)},
};

static void check(const struct sm_row *rows, const struct choice *choice,
                  unsigned from, unsigned to, const char *who)
{
    char id[REQUEST_ID_TEXT];

    request_id_format(choice->request->id, id);
    sm_check(rows, from, to, who, id);
}

void choice_output_move(struct choice *choice, enum choice_output_state to)
{
    check(output_rows, choice, choice->out.state, to, "output");
    choice->out.state = to;
}

void choice_grant_move(struct choice *choice, enum choice_grant_state to)
{
    check(grant_rows, choice, choice->grant.state, to, "grant");
    choice->grant.state = to;
}

void choice_submit_move(struct choice *choice, enum choice_submit_state to)
{
    check(submit_rows, choice, choice->submit.state, to, "submit");
    choice->submit.state = to;
}

void choice_removal_move(struct choice *choice, enum choice_removal_state to)
{
    check(removal_rows, choice, choice->removal.state, to, "removal");
    choice->removal.state = to;
}

void choice_parts_ungrant(struct choice *choice)
{
    choice->grant.worker = NULL;
    /* Its receipt may have ended the grant already. */
    if (choice->grant.state != GRANT_RELEASED) {
        choice_grant_move(choice, GRANT_NONE);
    }
    if (choice->submit.state != SUBMIT_NONE) {
        choice_submit_move(choice, SUBMIT_NONE);
    }
    if (choice->removal.state != REMOVAL_NONE) {
        choice_removal_move(choice, REMOVAL_NONE);
    }
}
