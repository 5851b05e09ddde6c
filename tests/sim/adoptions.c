#include "tests/sim/adoptions.h"

#include <string.h>

#include "common/sampling/sampling_message.h"
#include "tests/sim/sim.h"

void adoptions_live(struct sim *s, uint32_t conn,
                    const Sluice__V1__LiveMessage *m)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    struct adoptions *a = &s->adoptions;

    for (size_t i = 0; i < m->n_choice; i++) {
        const uint8_t *id = m->request_ids.data + 16 * i;
        enum choice_state at = router_choice_state(router, id, m->choice[i]);

        if (at >= CHOICE_SUBMITTED && at <= CHOICE_ENDING) {
            struct unwanted_seen *u =
                &a->unwanted[a->next_unwanted++ % UNWANTED_SEEN];

            *u = (struct unwanted_seen){.conn = conn, .choice = m->choice[i]};
            memcpy(u->id, id, sizeof(u->id));
        }
    }
}

void adoptions_disown(struct sim *s, uint32_t conn,
                      const Sluice__V1__DisownMessage *m)
{
    for (size_t i = 0; i < m->n_choice; i++) {
        for (uint32_t k = 0; k < UNWANTED_SEEN; k++) {
            struct unwanted_seen *u = &s->adoptions.unwanted[k];

            if (u->conn == conn && u->choice == m->choice[i] &&
                memcmp(u->id, m->request_ids.data + 16 * i, 16) == 0) {
                u->conn = 0;
            }
        }
    }
}

void adoptions_submit(struct sim *s, uint32_t conn, uint64_t call,
                      const Sluice__V1__SubmitRequest *m)
{
    struct adoptions *a = &s->adoptions;
    const struct conn *c = network_conn(&s->network, conn);
    struct sampling asked;

    if (!m->adopt || !c->open[END_PEER]) {
        return;
    }
    sampling_read(&asked, m->sampling);
    a->seen[a->next++ % ADOPTIONS_SEEN] = (struct adoption_seen){
        .call = call,
        .conn = conn,
        .state = worker_sequence_state(node_worker(s, c->node),
                                       m->sequence->request_id.data,
                                       m->sequence->choice),
        .logprobs = asked.logprobs,
        .penalties = sampling_penalises(&asked)};
}

static void adopted(struct sim *s, const struct adoption_seen *a)
{
    uint64_t *deeds = s->counts.cells.deeds;

    if (a->state == SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED) {
        deeds[DEED_ADOPTED_FINISHED]++;
    } else {
        deeds[DEED_ADOPTED_RUNNING]++;
    }
    deeds[DEED_ADOPTED_LOGPROBS] += a->logprobs;
    deeds[DEED_ADOPTED_PENALTIES] += a->penalties;
}

void adoptions_answer(struct sim *s, uint32_t conn, uint64_t call,
                      enum status status)
{
    for (uint32_t i = 0; i < ADOPTIONS_SEEN; i++) {
        struct adoption_seen *a = &s->adoptions.seen[i];

        if (a->conn != conn || a->call != call || call == 0) {
            continue;
        }
        if (status == ST_OK) {
            adopted(s, a);
        } else if (status == ST_NOT_FOUND) {
            s->counts.cells.deeds[DEED_ADOPTION_LOST]++;
        }
        a->call = 0;
    }
}

void adoptions_count(struct sim *s, uint32_t w)
{
    const struct sim_node *n = &s->nodes[SIM_FIRST_WORKER + w];
    struct orphans_seen *o = &s->orphans[w];
    struct worker_account a;

    worker_account(n->core, &a);
    if (o->life != n->life) {
        *o = (struct orphans_seen){.life = n->life};
    }
    s->counts.cells.deeds[DEED_ORPHAN_EXPIRED] +=
        a.orphans_expired - o->expired;
    s->counts.cells.deeds[DEED_DISOWNED] += a.orphans_disowned - o->disowned;
    o->expired = a.orphans_expired;
    o->disowned = a.orphans_disowned;
}

/* An orphan that the router has no memory to list ends at its worker when its
 * time is over. */
void adoptions_end(struct sim *s)
{
    if (sim_short) {
        return;
    }
    for (uint32_t i = 0; i < UNWANTED_SEEN; i++) {
        const struct unwanted_seen *u = &s->adoptions.unwanted[i];
        const struct conn *c = network_conn(&s->network, u->conn);

        if (c && c->open[END_PEER] && c->open[END_ROUTER]) {
            sim_fail(s, -1,
                     "%s reported a sequence that runs elsewhere, and the "
                     "router did not disown it",
                     s->nodes[c->node].name);
        }
    }
}
