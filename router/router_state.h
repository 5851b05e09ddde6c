/* router_state.h - the state of the core, shared by its modules and nobody
 * else. */
#ifndef ROUTER_ROUTER_STATE_H
#define ROUTER_ROUTER_STATE_H

#include "common/wire/wire.h"
#include "router/fleet/lineage.h"
#include "router/metrics.h"
#include "router/replicas/offers.h"
#include "router/requests/early.h"
#include "router/requests/removal.h"
#include "router/router_core.h"
#include "router/router_limits.h"

/* What a text job is for: the tag says it, table `jobs` whether it is still
 * wanted. */
enum job_use { JOB_PROMPT, JOB_CALL };
#define JOB_TAG(number, use) ((number) << 1 | (use))

struct quarantine {
    char name[PEER_NAME_MAX + 1];
    int64_t until_us;
};

struct router_core {
    struct router_options options;
    char name[PEER_NAME_MAX + 1];
    struct node_io *io;
    struct arena arena;
    uint64_t seed; /* of the hash of request ids */
    int64_t now_us, start_us;
    struct timers timers;
    bool stopping;
    struct router_metrics metrics; /* router_counts() adds some gauges */

    struct table peers; /* struct router_peer by peer_id */
    struct list all_peers, dirty_peers, gone_peers;
    uint32_t n_peers;
    struct quarantine quarantine[QUARANTINE_MAX];
    uint32_t n_quarantine;

    struct lineages lineages;

    struct model *models[ROUTER_MODELS_MAX];
    uint32_t n_models;
    struct list dirty_models;
    struct list replicas; /* struct replica in order of forming */
    struct offers offers;
    struct worker *workers[ROUTER_WORKERS_MAX]; /* in order of arrival */
    uint32_t n_workers;

    struct table requests;   /* struct request by hash of request_id */
    struct list all_choices; /* struct choice in order of number */
    uint32_t n_choices, n_waiting;
    uint64_t last_number;
    struct table calls; /* struct pending by peer and id */
    struct early early;

    struct list audits; /* of recv_admin_audit.c */
    uint32_t n_audits;
    struct table jobs; /* what a text job is for, by tag */
    uint32_t n_jobs;

    /* Scratch of one message, so that none is on the heap. */
    uint64_t ack_grant[STEP_ROWS_MAX];
    uint32_t ack_index[STEP_ROWS_MAX];
    uint32_t submit_ids[SUBMIT_IDS_MAX];
    uint8_t disown_ids[LIVE_ROWS_MAX * 16];
    uint32_t disown_choice[LIVE_ROWS_MAX];
    char *text; /* [text_size] of one chunk */
    size_t text_size;
};

/* One turn of the clock. */
int64_t router_tick(struct router_core *r, int64_t now_us);

void event_set(struct router_core *r, struct event *e, int64_t due_us);
void event_clear(struct router_core *r, struct event *e);

#endif
