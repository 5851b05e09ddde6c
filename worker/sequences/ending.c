#include "worker/sequences/ending.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/plant.h"
#include "worker/sequences/continue.h"
#include "worker/sequences/kept.h"
#include "worker/sequences/orphans.h"
#include "worker/sequences/ranges.h"
#include "worker/sequences/receipts.h"
#include "worker/sequences/report.h"

/* ---- release ---- */

static void forget_now(struct sequences *q, struct sequence *s)
{
    timer_clear(&q->timers, &s->keep);
    sequence_free(&q->table, &s);
}

/* The router may still request the tokens that it lacks, and no others. */
static void drop_ids(struct sequences *q, struct sequence *s)
{
    orphan_remember(q, s);
    paged_keep(&q->table.slab, &s->portable.tokens,
               s->portable.n_prompt + s->portable.acked, sequence_known(s));
}

/* No stage holds anything of s. */
static void reach_finished(struct sequences *q, struct sequence *s,
                           const Sluice__V1__StageRemove *others)
{
    sequence_move(&q->table, s, SEQUENCE_FINISHED);
    q->report.changed = true;
    receipts_send(q, s, others);
    if (report_is_forgotten(&s->report) || PLANT(FORGOTTEN_EARLY)) {
        forget_now(q, s);
        return;
    }
    drop_ids(q, s);
}

/* No plan names s any more.  While a Remove is under way, s keeps its memory:
 * the router grants from the free memory, and s still has a place in the table.
 */
static void plans_are_back(struct sequences *q, struct sequence *s)
{
    reuse_end(&q->reuse, s);
    if (stages_hold(&s->stages)) {
        drop_ids(q, s);
        return;
    }
    sequence_release(&q->table, s);
    reach_finished(q, s, NULL);
}

void ending_removed(struct sequences *q, struct sequence *s,
                    const Sluice__V1__StageRemove *m)
{
    stages_end(s);
    sequence_release(&q->table, s);
    reach_finished(q, s, m);
}

static void leave(struct sequences *q, struct sequence *s)
{
    struct sequence *kept = continue_leave(q, s);

    if (kept != NULL) {
        ending_release(q, kept);
    }
}

void ending_release(struct sequences *q, struct sequence *s)
{
    /* An orphan's timer runs on: its ending must be collected in that time. */
    if (!orphan_is(s)) {
        timer_clear(&q->timers, &s->keep);
    }
    ranges_refuse(q, s);
    leave(q, s);
    sequence_move(&q->table, s, SEQUENCE_RELEASING);
    q->report.changed = true;
    /* Other stages can keep what it leaves only before they remove it. */
    if (stages_hold(&s->stages)) {
        reuse_end(&q->reuse, s);
    }
    q->role.ops->remove(q->role.self, s);
    if (s->plan.inflight == 0 || PLANT(FREED_EARLY)) {
        plans_are_back(q, s);
    }
}

void ending_plan_back(struct sequences *q, struct sequence *s)
{
    s->plan.inflight--;
    if (s->state == SEQUENCE_RELEASING && s->plan.inflight == 0) {
        plans_are_back(q, s);
    } else if (s->plan.recompute == RECOMPUTE_WAITS && s->plan.inflight == 0 &&
               s->finish == FINISH_NONE) {
        batcher_again(&q->batcher, s);
    }
}

void ending_forget(struct sequences *q, struct sequence *s)
{
    report_forget(s);
    sequence_unlink(s, LIST_OUT);
    if (s->state == SEQUENCE_FINISHED) {
        forget_now(q, s);
    }
}

/* A lease is for the client that holds the session: an orphan is never kept. */
static bool is_kept(const struct sequence *s, enum sequence_finish finish)
{
    return s->portable.keep_ms > 0 && !PLANT(KEPT_FREED) &&
           s->state == SEQUENCE_DECODE && !orphan_is(s) &&
           finish_is_whole(finish);
}

static void count_ending(struct worker_metrics *m, enum sequence_finish finish)
{
    m->stopped += finish == FINISH_STOP;
    m->full += finish == FINISH_LENGTH;
    m->cancelled += finish == FINISH_CANCELLED;
    m->failed += finish == FINISH_FAILED;
}

/* A kept sequence computes no further: what it was granted beyond what it has
 * is free.  Other stages hold theirs until they remove the sequence. */
static void release_grant(struct sequences *q, struct sequence *s)
{
    uint32_t windows = s->memory.n_windows * q->table.windows.pages;
    struct pool_need unused = {
        {s->memory.need.n[POOL_BLOCKS] - s->memory.n_blocks, 0, 0,
         s->memory.need.n[POOL_WINDOWS] - windows}};

    if (!stages_hold(&s->stages)) {
        s->memory.need.n[POOL_BLOCKS] = s->memory.n_blocks;
        s->memory.need.n[POOL_WINDOWS] = windows;
        pool_ungrant(&q->pool, &unused);
    }
}

void ending_finish(struct sequences *q, struct sequence *s,
                   enum sequence_finish finish)
{
    char name[SEQUENCE_NAME];

    log_debug("sequence-end", "request=%s grant=%llu finish=%d generated=%u",
              sequence_name(&s->key, name), (unsigned long long)s->grant,
              (int)finish, s->portable.n_generated);
    /* No router can adopt an orphan that was stopped halfway. */
    if (orphan_is(s) && !finish_is_whole(finish)) {
        orphan_disclaim(q, s);
    }
    batcher_drop(&q->batcher, s);
    leave(q, s);
    count_ending(&q->base->metrics, finish);
    s->finish = finish;
    reuse_end(&q->reuse, s); /* before its end is passed on to other stages */
    q->report.changed = true;
    report_add(q, s);
    if (is_kept(s, finish)) {
        sequence_move(&q->table, s, SEQUENCE_KEPT);
        kept_begin(s);
        release_grant(q, s);
        if (!PLANT(KEEP_FOREVER)) {
            timer_set(&q->timers, &s->keep,
                      base_now_us(q->base) +
                          (int64_t)s->portable.keep_ms * 1000);
        }
        return;
    }
    ending_release(q, s);
}

void ending_fail(struct sequences *q, struct sequence *s, const char *fmt, ...)
{
    char name[SEQUENCE_NAME], why[ERROR_TEXT];
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    snprintf(
        s->report.failure, sizeof s->report.failure, "sequence %s: %.*s",
        sequence_name(&s->key, name),
        (int)(sizeof s->report.failure - sizeof name - sizeof "sequence : "),
        why);
    log_error("sequence-failed", "text=\"%s\"", s->report.failure);
    ending_finish(q, s, FINISH_FAILED);
}

void ending_cancel(struct sequences *q, struct sequence *s)
{
    report_forget(s);
    ending_finish(q, s, FINISH_CANCELLED);
}

/* ---- cancel and remove ---- */

/* A Submit whose parts have not all come was never accepted: it is refused, and
 * no row ever names its grant. */
static void refuse_open_submit(struct peer *p, struct sequence *s)
{
    struct error e;

    if (s->arrival.call == 0) {
        return;
    }
    error_set(&e, ST_CANCELLED, "cancelled before all of its ids had come");
    peer_fail(p, s->arrival.call, &e, 0);
    s->arrival.call = 0;
    report_forget(s);
}

/* An orphan has no grant.  Whether the Submit that the Cancel names could have
 * adopted it or not, the router does not want the sequence.  The call is
 * answered when the orphan's memory is free. */
static bool is_meant(const struct sequence *s, uint64_t grant)
{
    return grant == GRANT_ANY || s->grant == grant || orphan_is(s);
}

/* Leaves a tombstone only for a grant that has not come yet.  For an older
 * grant a tombstone would hit the next Submit of the same name. */
void ending_remove(struct sequences *q, struct peer *p, uint64_t call,
                   const struct sequence_key *key, uint64_t grant)
{
    struct sequence *s = sequence_by_key(&q->table, key);
    struct error e;
    bool is_ahead = grant > q->ledger.grant || PLANT(LATE_TOMBSTONE);

    if (s != NULL && !is_meant(s, grant)) {
        s = NULL; /* an earlier one of the same name */
    }
    if (is_ahead && !PLANT(NO_TOMBSTONE) &&
        (s == NULL || (orphan_is(s) && grant != GRANT_ANY))) {
        tombstones_add(&q->tombstones, key, grant);
    }
    if (s == NULL || s->state == SEQUENCE_FINISHED) {
        receipts_answer(p, call, key, s);
        if (s != NULL && orphan_is(s)) {
            orphan_end(q, s);
        }
        return;
    }
    if (!receipts_wait(q, s, call)) {
        error_set(&e, ST_RESOURCE_EXHAUSTED,
                  "%u calls wait for a removal already; try again",
                  WAITERS_MAX);
        peer_fail(p, call, &e, REPORT_CHANGE_US / 1000);
        return;
    }
    if (orphan_is(s)) {
        orphan_end(q, s);
        return;
    }
    if (s->state == SEQUENCE_RELEASING) {
        return;
    }
    FP(WORKER_RELEASE);
    refuse_open_submit(p, s);
    if (s->state == SEQUENCE_KEPT) {
        ending_release(q, s);
        return;
    }
    ending_finish(q, s, FINISH_CANCELLED);
}

/* ---- the end of a session or an assembly ---- */

void ending_drop(struct sequences *q, struct sequence *s)
{
    q->base->metrics.dropped += s->finish == FINISH_NONE;
    orphan_drop(s);
    timer_clear(&q->timers, &s->keep);
    receipts_refuse(q, s);
    stages_end(s); /* no Remove will return: the assembly is over */
    sequence_unlink(s, LIST_OUT);
    sequence_clear_key(&q->table, s);
    sequence_set_grant(&q->table, s, 0);
    receipts_refuse_call(q, s->arrival.call);
    s->arrival.call = 0;
    report_forget(s);
    switch (s->state) {
    case SEQUENCE_FINISHED:
        forget_now(q, s);
        break;
    case SEQUENCE_RELEASING:
        if (s->plan.inflight == 0) { /* it waited for its Remove only */
            plans_are_back(q, s);
        }
        break;
    case SEQUENCE_KEPT:
        ending_release(q, s);
        break;
    default:
        ending_finish(q, s, FINISH_CANCELLED);
    }
}

void ending_drop_all(struct sequences *q)
{
    struct sequence *s = q->table.all.head, *next;

    for (; s != NULL; s = next) {
        next = sequence_next(s, LIST_ALL);
        ending_drop(q, s);
    }
}

/* ---- time ---- */

static void pass_deadline(struct sequences *q, struct sequence *s)
{
    char name[SEQUENCE_NAME];

    log_debug("deadline-passed", "request=%s state=%s generated=%u",
              sequence_name(&s->key, name), sequence_state_name(s->state),
              s->portable.n_generated);
    q->base->metrics.expired++;
    ending_finish(q, s, FINISH_CANCELLED);
}

void ending_expire(struct sequences *q, int64_t now_us)
{
    struct timer *t;

    while ((t = timers_pop(&q->timers, now_us)) != NULL) {
        char *at = (char *)t - offsetof(struct sequence, keep);
        struct sequence *s = (struct sequence *)(void *)at;

        if (orphan_is(s)) {
            orphan_expire(q, s);
        } else if (s->finish == FINISH_NONE) {
            pass_deadline(q, s);
        } else {
            ending_release(q, s);
        }
    }
}
