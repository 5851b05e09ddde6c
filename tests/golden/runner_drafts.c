#include "tests/golden/runner_drafts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/minmax.h"

#define SHIFT 8 /* pages of 256 ids: 65,536 in a history */

static void die(const char *what)
{
    fprintf(stderr, "runner: %s\n", what);
    abort();
}

/* Writes the first n ids of a sequence into pages: page 0 is the root, the
 * others follow in order. */
static struct plan_history history_of(struct run_seq *s, uint32_t n)
{
    uint32_t pages = (s->capacity >> SHIFT) + 2;

    if (pages > 1u << SHIFT) {
        die("a history is too long");
    }
    if (s->history == NULL) {
        s->history = calloc((size_t)pages << SHIFT, sizeof *s->history);
    }
    if (s->history == NULL) {
        die("no memory");
    }
    for (uint32_t i = 0; i + 1 < pages; i++) {
        s->history[i] = i + 1;
    }
    memcpy(s->history + (1u << SHIFT), s->ids, n * sizeof *s->ids);
    return (struct plan_history){.pages = {.memory = s->history,
                                           .n_pages = pages,
                                           .root = 0,
                                           .shift = SHIFT},
                                 .n = n,
                                 .n_prompt = s->n_prompt};
}

uint32_t runner_proposes(const struct runner *r, const struct run_seq *s,
                         uint32_t end)
{
    return r->w->mtp != NULL && s->mtp ? min_u32(s->propose, s->capacity - end)
                                       : 0;
}

/* At a stage before the last the inputs are kept one row after the other, and
 * replayed by the next plan. */
static void keep(struct runner *r, struct plan_row *row)
{
    if (row->n_drafts == 0 || r->w->end == r->w->shape.n_layers || !r->linear) {
        return;
    }
    row->keep = true;
    row->keep_at = r->n_kept;
    r->n_kept += row->n_tokens;
}

void runner_add_drafts(struct runner *r, struct run_seq *s, uint32_t n_drafts,
                       struct plan_row *row)
{
    uint32_t end = row->position + row->n_tokens;

    row->n_drafts = n_drafts;
    row->mtp = r->w->mtp != NULL && s->mtp;
    row->index -= n_drafts;
    if (row->sample) {
        row->propose = runner_proposes(r, s, end);
    } else if (end < s->n_ids) {
        row->next = s->ids[end];
    }
    if (row->sampling != NULL && sampling_penalises(row->sampling)) {
        row->history = history_of(s, end - n_drafts);
    }
    keep(r, row);
}

void run_seq_accept(struct run_seq *s, uint32_t n_accepted, uint32_t token)
{
    s->n_ids += n_accepted;
    s->n_done += n_accepted;
    run_seq_push(s, token);
}

uint32_t runner_accept(const struct runner *r, struct run_seq *s, uint32_t row)
{
    const struct plan_result *p = &r->result;
    uint32_t n_accepted = p->n_accepted[row];

    run_seq_accept(s, n_accepted, p->tokens[row]);
    s->n_drafts = p->n_drafts[row];
    memcpy(s->drafts, p->drafts[row], s->n_drafts * sizeof s->drafts[0]);
    return n_accepted + 1;
}

void runner_replay(struct runner *r, uint32_t row, uint32_t n_accepted)
{
    const struct plan_row *of = &r->plan.rows[row];

    if (of->keep) {
        r->plan.replays[r->plan.n_replays++] =
            (struct plan_replay){of->slot, of->keep_at, 1 + n_accepted};
    }
}
