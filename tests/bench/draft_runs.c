#include "tests/bench/draft_runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/machine.h"

/* A sequence of a run. */
struct side {
    struct run_seq s;
    uint32_t plain[DRAFT_RUNS_TOKENS];
    uint32_t n_made, n_drafts, row;
    uint32_t k; /* drafts of the next row */
    float accepts[DRAFTS_MAX];
    uint32_t idle; /* rows without drafts */
};

static struct side sides[DRAFT_RUNS_BATCH];

static bool stops(struct draft_runs *d, const struct side *a)
{
    struct drafts_row row = {.accepts = a->accepts, .most = d->k, .mtp = true};

    return drafts_stop(d->choice, &row, d->accepts, d->batch - 1, a->idle);
}

/* Returns whether the MTP layer runs for a new sequence: as in the worker,
 * where drafts pay, and now and then. */
static bool begins(struct draft_runs *d)
{
    struct drafts_row row = {.accepts = d->accepts, .most = d->k, .mtp = true};

    return d->choice == NULL || drafts_may_try(d->choice) ||
           drafts_pay(d->choice, &row, d->accepts, d->batch - 1);
}

static void start(struct draft_runs *d, struct run_seq *of, bool drafts)
{
    for (uint32_t i = 0; i < d->batch; i++) {
        struct side *a = &sides[i];

        runner_fork(d->r, &a->s, &of[i], of[i].n_done, of[i].slot);
        a->s.mtp = drafts && begins(d);
        a->s.propose = drafts && d->choice == NULL ? d->k : 0;
        a->s.n_drafts = a->n_made = a->idle = 0;
        memcpy(a->accepts, d->accepts, sizeof a->accepts);
    }
    runner_step(d->r); /* the copies */
}

static void stop(struct draft_runs *d)
{
    for (uint32_t i = 0; i < d->batch; i++) {
        runner_stop(d->r, &sides[i].s);
    }
}

static double step(struct draft_runs *d)
{
    double begin = machine_now();

    runner_step(d->r);
    return machine_now() - begin;
}

static void run_plain(struct draft_runs *d, uint32_t n_tokens)
{
    for (uint32_t t = 0; t < n_tokens; t++) {
        double took;

        for (uint32_t i = 0; i < d->batch; i++) {
            sides[i].row = runner_add(d->r, &sides[i].s, 1, true, NULL);
        }
        took = step(d);
        for (uint32_t i = 0; i < d->batch; i++) {
            sides[i].plain[t] = runner_token(d->r, sides[i].row);
            run_seq_push(&sides[i].s, sides[i].plain[t]);
        }
        d->plain_s += took;
        d->n_plain += d->batch;
        if (d->n_plain_steps < DRAFT_RUNS_STEPS) {
            d->plain[d->n_plain_steps++] = took;
        }
    }
}

/* Drafts the recorded token or, where it must be refused, its neighbour. */
static void force(struct draft_runs *d, struct side *a)
{
    uint32_t vocab = d->r->w->shape.vocab;

    if (d->accept < 0) {
        return;
    }
    a->s.n_drafts = d->choice != NULL ? a->s.n_drafts : d->k;
    for (uint32_t i = 0; i < a->s.n_drafts; i++) {
        bool right = dice_float(&d->dice, 0, 1) < (float)d->accept;

        a->s.drafts[i] = (a->plain[a->n_made + i] + !right) % vocab;
    }
}

/* Chooses the drafts of each row as the worker's batcher does. */
static void choose(struct draft_runs *d)
{
    struct drafts_row rows[DRAFT_RUNS_BATCH];

    for (uint32_t i = 0; i < d->batch; i++) {
        rows[i] = (struct drafts_row){.accepts = sides[i].accepts,
                                      .most = sides[i].s.mtp ? d->k : 0,
                                      .mtp = true,
                                      .probe = drafts_probes(d->choice)};
    }
    drafts_choose(d->choice, rows, d->batch, 0);
    for (uint32_t i = 0; i < d->batch; i++) {
        struct side *a = &sides[i];

        a->idle = rows[i].k > 0 && !rows[i].probe ? 0 : a->idle + 1;
        a->s.mtp = a->s.mtp && !stops(d, a);
        a->s.propose = a->s.mtp ? rows[i].k : 0;
        a->s.n_drafts = a->s.n_drafts < rows[i].k ? a->s.n_drafts : rows[i].k;
    }
}

/* Learns the time of the step, and what each of its rows accepted. */
static void learn(struct draft_runs *d, double took)
{
    struct drafts_step s = {.draft_us = d->r->result.draft_us};

    for (uint32_t i = 0; i < d->batch; i++) {
        struct side *a = &sides[i];
        uint32_t passes = a->s.propose > 0 ? a->s.propose : a->s.mtp;
        uint32_t n = d->r->result.n_accepted[a->row];

        s.n_tokens += 1 + a->n_drafts;
        s.n_drafts += a->n_drafts;
        s.n_accepted += n;
        s.n_rows += a->s.mtp;
        s.n_passes = passes > s.n_passes ? passes : s.n_passes;
        drafts_note_accepted(a->accepts, DRAFTS_LEARN_OWN, a->n_drafts, n);
        drafts_note_accepted(d->accepts, DRAFTS_LEARN_ALL, a->n_drafts, n);
        if (a->n_drafts > 0) {
            d->choice->drafted_at = d->choice->n_steps;
        }
    }
    s.us = (uint32_t)(1e6 * took) - s.draft_us;
    drafts_note_step(d->choice, &s);
}

/* Counts a row's drafts and tokens, and ends its sequence at the first token
 * that differs from the recorded one. */
static void take(struct draft_runs *d, struct side *a, uint32_t n_tokens)
{
    uint32_t first = a->s.n_ids, n = runner_accept(d->r, &a->s, a->row);

    d->n_rows++;
    for (uint32_t i = 0; i < a->n_drafts; i++) {
        d->proposed[i]++;
        d->accepted[i] += i + 1 < n;
    }
    for (uint32_t i = 0; i < n && a->n_made < n_tokens; i++) {
        d->n_tokens++;
        if (a->s.ids[first + i] != a->plain[a->n_made++]) {
            d->n_differ++;
            a->n_made = n_tokens;
        }
    }
}

static void note_step(struct draft_runs *d, double took, bool full)
{
    double draft = 1e-6 * d->r->result.draft_us;

    d->drafts_s += took;
    /* The first step of own drafts has none. */
    if (full && d->n_verify_steps < DRAFT_RUNS_STEPS) {
        d->verify[d->n_verify_steps] = took - draft;
        d->draft[d->n_verify_steps++] = draft / d->k;
    }
}

/* Returns whether each sequence has room for a row with all drafts: a step of
 * some of them would be no step of the batch. */
static bool all_go_on(const struct draft_runs *d, uint32_t n_tokens)
{
    for (uint32_t i = 0; i < d->batch; i++) {
        if (sides[i].n_made + d->k + 1 > n_tokens) {
            return false;
        }
    }
    return true;
}

static void run_drafts(struct draft_runs *d, uint32_t n_tokens)
{
    while (all_go_on(d, n_tokens)) {
        bool full = d->choice == NULL;
        double took;

        if (d->choice != NULL) {
            choose(d);
        }
        for (uint32_t i = 0; i < d->batch; i++) {
            struct side *a = &sides[i];

            force(d, a);
            a->row =
                runner_verify(d->r, &a->s, a->s.drafts, a->s.n_drafts, NULL);
            a->n_drafts = a->s.n_drafts;
            full = full && a->n_drafts == d->k;
        }
        took = step(d);
        note_step(d, took, full);
        if (d->choice != NULL) {
            learn(d, took);
        }
        for (uint32_t i = 0; i < d->batch; i++) {
            take(d, &sides[i], n_tokens);
        }
    }
}

void draft_runs_add(struct draft_runs *d, struct run_seq *of, uint32_t n_tokens)
{
    start(d, of, false);
    run_plain(d, n_tokens);
    stop(d);
    start(d, of, true);
    run_drafts(d, n_tokens);
    stop(d);
}

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

double draft_runs_median(double *of, uint32_t n)
{
    qsort(of, n, sizeof *of, ascending);
    return n > 0 ? of[n / 2] : 0.0;
}

static double rate(uint32_t n, double seconds)
{
    return seconds > 0 ? n / seconds : 0;
}

static double drafts_a_row(const struct draft_runs *d)
{
    double n = 0;

    for (uint32_t i = 0; i < d->k; i++) {
        n += d->proposed[i];
    }
    return d->n_rows > 0 ? n / d->n_rows : 0;
}

void draft_runs_json(struct draft_runs *d, double bytes)
{
    double plain = draft_runs_median(d->plain, d->n_plain_steps);
    double verify = draft_runs_median(d->verify, d->n_verify_steps);
    double draft = draft_runs_median(d->draft, d->n_verify_steps);

    printf("\"batch\": %u, \"drafts\": %u, \"tok_s\": %.2f, \"plain_tok_s\": "
           "%.2f, \"plain_step_s\": %.6g, \"verify_step_s\": %.6g, "
           "\"verify_ratio\": %.4f, \"draft_s\": %.6g, \"draft_bytes\": %.0f, "
           "\"tokens_row\": %.3f, \"drafts_row\": %.3f, \"differ\": %u, "
           "\"accepted\": [",
           d->batch, d->k, rate(d->n_tokens, d->drafts_s),
           rate(d->n_plain, d->plain_s), plain, verify,
           plain > 0 ? verify / plain : 0, draft, bytes,
           (double)d->n_tokens / (d->n_rows > 0 ? d->n_rows : 1),
           drafts_a_row(d), d->n_differ);
    for (uint32_t i = 0; i < d->k; i++) {
        printf("%s%.4f", i > 0 ? ", " : "",
               (double)d->accepted[i] /
                   (d->proposed[i] > 0 ? d->proposed[i] : 1));
    }
    printf("]");
}

void draft_runs_text(struct draft_runs *d, double bytes, double bandwidth)
{
    double plain = draft_runs_median(d->plain, d->n_plain_steps);
    double verify = draft_runs_median(d->verify, d->n_verify_steps);
    double draft = draft_runs_median(d->draft, d->n_verify_steps);
    double with = rate(d->n_tokens, d->drafts_s);
    double without = rate(d->n_plain, d->plain_s);

    printf("drafts  batch %5u   %9.1f tok/s with %u drafts, %.1f without, "
           "%.3f times; %u tokens differ\n"
           "        plain step %.4g s, step with drafts %.4g s, %.3f times; "
           "%.2f tokens a row\n"
           "        draft %.4g s, %.3g B/s",
           d->batch, with, d->k, without, without > 0 ? with / without : 0,
           d->n_differ, plain, verify, plain > 0 ? verify / plain : 0,
           (double)d->n_tokens / (d->n_rows > 0 ? d->n_rows : 1), draft,
           draft > 0 ? bytes / draft : 0);
    if (bandwidth > 0) {
        printf(", %.2f times its bytes at %.3g B/s", draft * bandwidth / bytes,
               bandwidth);
    }
    printf("\n        accepted by depth:");
    for (uint32_t i = 0; i < d->k; i++) {
        printf(" %u/%u", d->accepted[i], d->proposed[i]);
    }
    printf("\n");
}
