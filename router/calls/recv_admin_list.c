/* recv_admin_list.c - ListWorkers and ListSequences.  Pages are ordered by
 * number, so that rows that appear or vanish between two pages move no other
 * row. */
#include "proto/admin.pb-c.h"
#include "router/calls/recv.h"
#include "router/calls/router_state.h"
#include "router/fleet/ledgers.h"
#include "router/placement/drain.h"
#include "router/replicas/offers.h"
#include "router/replicas/place.h"
#include "router/replicas/replica.h"
#include "router/requests/request.h"
#include "router/schedule/claims.h"

static void replica_of_row(const struct router_core *r, const struct worker *w,
                           Sluice__V1__WorkerRow *row)
{
    const struct replica *x = member_of(w)->replica;

    if (x == NULL) {
        return;
    }
    row->has_assembly = row->has_stage = row->has_n_stages = true;
    row->assembly = x->assembly;
    row->stage = member_of(w)->stage;
    row->n_stages = x->n_stages;
    row->has_replica = true;
    row->replica = wire_text(replica_state_name(x));
    row->has_replica_ms = x->up_us > 0;
    row->replica_ms = (uint64_t)(r->base.now_us - x->up_us) / 1000;
}

static const char *state_name(const struct worker *w)
{
    const char *drained = drain_name(w);

    return drained != NULL ? drained : worker_state_name(w);
}

static void worker_row(const struct router_core *r, const struct worker *w,
                       Sluice__V1__WorkerRow *row)
{
    const struct shard *s = &w->shard;

    sluice__v1__worker_row__init(row);
    row->name = wire_text(w->peer->name);
    row->id = w->peer->id.v;
    row->model = wire_text(w->model->name);
    row->layer_begin = s->layer_begin;
    row->layer_end = s->layer_end;
    row->n_layers = s->n_layers;
    row->device = wire_text(s->device);
    row->block_tokens = s->block_tokens;
    row->block_bytes = s->block_bytes;
    row->slot_bytes = s->slot_bytes;
    row->weight_bytes = s->weight_bytes;
    row->pool_bytes = s->pool_bytes;
    row->n_sequences = w->n_running;
    row->n_tokens = w->counts.n_tokens;
    row->silent_ms = (uint32_t)((r->base.now_us - w->peer->heard_us) / 1000);
    row->state = wire_text(state_name(w));
    row->has_step_us = w->counts.step_us > 0;
    row->step_us = w->counts.step_us;
    row->has_plan_age_us = w->live.reports;
    row->plan_age_us = w->live.plan_age_us;
    row->has_lineage = true;
    row->lineage = wire_text(w->life.lineage);
    row->has_n_barren = row->has_readmit_ms = true;
    row->n_barren = w->life.n_barren;
    row->readmit_ms = lineage_readmit_ms(&r->fleet, w);
    row->has_n_prompt_tokens = row->has_n_reused_tokens = true;
    row->n_prompt_tokens = w->counts.n_prompt_tokens;
    row->n_reused_tokens = w->counts.n_reused_tokens;
    row->has_greatest_pages = claims_grow(&r->schedule, w);
    row->greatest_pages = charges_of(w)->greatest;
    row->has_key = w->peer->keyed;
    row->key = wire_text(w->peer->identity.name);
    replica_of_row(r, w, row);
}

/* Returns the oldest worker after `after`. Peer ids only grow, so this is a
 * stable order. */
static const struct worker *worker_after(const struct router_core *r,
                                         uint64_t after)
{
    const struct worker *first = NULL;

    for (uint32_t i = 0; i < r->fleet.n_workers; i++) {
        const struct worker *w = r->fleet.workers[i];
        if (w->peer->id.v > after &&
            (first == NULL || w->peer->id.v < first->peer->id.v)) {
            first = w;
        }
    }
    return first;
}

/* Handles ListWorkers.  A page has half as many rows as others: a row of 32
 * fields with a ledger takes 2 KiB to unpack, and 64 of them would exceed the
 * unpacking budget of the reader (common/wire/wire.h). */
void recv_admin_list_workers(struct router_core *r, const struct incoming *in,
                             const request_of_ADMIN_LIST_WORKERS *m)
{
    Sluice__V1__ListWorkersReply reply = SLUICE__V1__LIST_WORKERS_REPLY__INIT;
    Sluice__V1__WorkerRow rows[LIST_WORKERS_MAX], *list[LIST_WORKERS_MAX];
    Sluice__V1__Ledger ledgers[LIST_WORKERS_MAX];
    struct ledger_parts parts[LIST_WORKERS_MAX];
    Sluice__V1__OfferRow offers[OFFERS_MAX], *offer_list[OFFERS_MAX];
    const struct worker *w = worker_after(r, m->after);

    for (; w != NULL && reply.n_workers < LIST_WORKERS_MAX;
         w = worker_after(r, w->peer->id.v)) {
        size_t i = reply.n_workers++;
        worker_row(r, w, &rows[i]);
        ledger_message(&w->ledger, &parts[i], &ledgers[i]);
        rows[i].ledger = &ledgers[i];
        list[i] = &rows[i];
    }
    reply.workers = list;
    reply.n_offers = m->after == 0 ? offers_list(&r->replicas, offers) : 0;
    for (size_t i = 0; i < reply.n_offers; i++) {
        offer_list[i] = &offers[i];
    }
    reply.offers = offer_list;
    reply.has_next = w != NULL;
    reply.next = w != NULL ? rows[LIST_WORKERS_MAX - 1].id : 0;
    peer_end(in->peer->peer, in->call, &reply.base);
}

static void sequence_row(const struct router_core *r, struct choice *choice,
                         Sluice__V1__SequenceRow *row,
                         Sluice__V1__SequenceRef *ref)
{
    sluice__v1__sequence_row__init(row);
    sluice__v1__sequence_ref__init(ref);
    ref->request_id = (ProtobufCBinaryData){16, choice->request->id};
    ref->has_choice = true;
    ref->choice = choice->index;
    row->sequence = ref;
    row->state = wire_text(choice_state_word(choice));
    row->model = wire_text(choice->request->model->name);
    row->has_tenant = true;
    row->tenant = wire_text(request_tenant_name(choice->request));
    row->has_worker = choice->grant.worker != NULL;
    row->worker = wire_text(choice->grant.worker_name);
    row->n_prompt = choice->request->prompt.n;
    row->n_generated = choice->out.n_generated;
    row->max_tokens = choice->request->max_tokens;
    row->age_ms =
        (uint64_t)(r->base.now_us - choice->request->arrived_us) / 1000;
    row->blocks = choice->grant.worker != NULL ? choice_n_blocks(choice) : 0;
    row->slots = choice->grant.worker != NULL
                     ? (uint32_t)choice->grant.held.of[SLOTS]
                     : 0;
    row->windows = choice->grant.worker != NULL ? choice_n_windows(choice) : 0;
    row->has_windows = row->windows > 0;
}

void recv_admin_list_sequences(struct router_core *r, const struct incoming *in,
                               const request_of_ADMIN_LIST_SEQUENCES *m)
{
    Sluice__V1__ListSequencesReply reply =
        SLUICE__V1__LIST_SEQUENCES_REPLY__INIT;
    Sluice__V1__SequenceRow rows[LIST_ROWS_MAX], *list[LIST_ROWS_MAX];
    Sluice__V1__SequenceRef refs[LIST_ROWS_MAX];
    struct list *at = r->requests.all_choices.next;
    uint64_t last = 0;

    for (; at != &r->requests.all_choices; at = at->next) {
        struct choice *choice = LIST_OF(at, struct choice, all);
        size_t i = reply.n_sequences;

        if (choice->entry.turn.number <= m->after) {
            continue;
        }
        if (i == LIST_ROWS_MAX) {
            reply.has_next = true;
            reply.next = last;
            break;
        }
        sequence_row(r, choice, &rows[i], &refs[i]);
        list[reply.n_sequences++] = &rows[i];
        last = choice->entry.turn.number;
    }
    reply.sequences = list;
    peer_end(in->peer->peer, in->call, &reply.base);
}
