/* drafts.h - How many drafts each sequence gets in a step.
 *
 * With a fixed number each sequence gets that many.  With `automatic` the
 * module learns
 *
 *     step     the time of a step without prompt rows, by its tokens
 *     pass     the time in which the MTP layer drafts one token for n rows
 *     gap      the time for which the device waits between two steps, because
 *              no step is in flight behind one with drafts
 *     accepts  the share of accepted drafts by depth, if those before it were
 *              accepted: of each sequence, and of all for new ones
 *
 * and chooses the drafts k[i] of n sequences that make the most tokens a
 * second:
 *
 *     rate = sum(1 + a[i][1] + a[i][1] a[i][2] + ...) / (step(sum(1 + k[i])) +
 *            pass(rows with k >= 1) + pass(rows with k >= 2) + ... + gap)
 *
 * The tokens of a sequence with a deadline count DRAFTS_URGENT times.  Drafts
 * are added in the order of what they bring; the best prefix of that order
 * counts, so that a jump of the step's time is passed if more drafts pay for
 * it.
 *
 * Unknown times are guessed low, so that they are tried and learned.  Only the
 * plain step of a size is measured before anything is added to it.  Times that
 * are DRAFTS_STALE steps old count only above all newer ones, and lose half of
 * what they exceed the plain step by in each such time.
 * Where no sequence gets drafts, all try one each DRAFTS_PROBE steps; where
 * others do, a sequence tries one each DRAFTS_PROBE rows.
 *
 * Estimates may be wrong, so what drafts cost is bounded by an account of time,
 * in plain steps.  A step with drafts or passes, n rows and m tokens adds
 *
 *     m / n - (its time + gap) / (the time of a plain step of n tokens)
 *
 * to it, and each step adds 1 / DRAFTS_SPEND.  The account ends at
 * DRAFTS_CREDIT.  Below 0 no sequence gets drafts until half of that is there
 * again.
 *
 * Threading: none.  Memory: the caller's; no call allocates. */
#ifndef WORKER_PLAN_DRAFTS_H
#define WORKER_PLAN_DRAFTS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"

#define DRAFTS_ROWS    STEP_ROWS_MAX
#define DRAFTS_BUCKETS 128 /* sizes of a step, up to STEP_TOKENS_MAX */
#define DRAFTS_STALE   512 /* steps after which a time counts as old */
#define DRAFTS_PROBE   64  /* rows without drafts from one probe to the next */
/* Rows without drafts after which the MTP layer is computed only where drafts
 * would pay if all sequences had them. */
#define DRAFTS_IDLE 8
/* One part in this many of the time may be lost to drafts, and so many plain
 * steps at once. */
#define DRAFTS_SPEND  256
#define DRAFTS_CREDIT 16

/* A token of a sequence with a deadline counts so many times. */
#define DRAFTS_URGENT 2.0f

/* The share of each depth before any draft was tried. */
#define DRAFTS_ACCEPTS_FIRST 0.75f
/* Shares of a row in what is learned of its sequence, and of all. */
#define DRAFTS_LEARN_OWN 0.03125f
#define DRAFTS_LEARN_ALL 0.0078125f

/* Times by the size of a step: sizes below 64 each, then eight an octave. */
struct drafts_curve {
    float us[DRAFTS_BUCKETS];
    float n[DRAFTS_BUCKETS];     /* the mean size */
    uint64_t at[DRAFTS_BUCKETS]; /* the newest measurement's step; 0: none */
};

struct drafts_times {
    float us[DRAFTS_BUCKETS];
};

struct drafts {
    bool automatic;
    uint64_t n_steps;
    uint64_t drafted_at; /* the newest step with drafts, of n_steps */
    struct drafts_curve step, pass;
    float gap_us;
    float credit; /* plain steps that drafts may cost */
    bool closed;  /* it was spent, and not half of it is there again */
    /* For drafts_choose(): estimates, and the order of the drafts. */
    struct drafts_times step_now, pass_now;
    uint16_t heap[DRAFTS_ROWS];
    float gain[DRAFTS_ROWS];
    uint16_t order[DRAFTS_ROWS * DRAFTS_MAX];
};

/* A sequence of the step. */
struct drafts_row {
    const float *accepts; /* [most] chance of each draft, if the one before it
                           * is accepted */
    uint32_t most;        /* drafts that it can get, 0..DRAFTS_MAX */
    bool mtp;             /* they are made by the MTP layer */
    bool urgent;          /* its tokens count DRAFTS_URGENT times */
    bool probe;           /* it gets one at least; out: and would get none */
    uint32_t k;           /* out: the drafts that it gets */
};

void drafts_init(struct drafts *d, bool automatic);

/* Learns from a step without prompt rows: the time of n_tokens tokens, n_drafts
 * of them drafts and n_accepted accepted ones, without drafting; and the time
 * of drafting, in n_passes for n_rows. */
struct drafts_step {
    uint32_t n_tokens, n_drafts, n_accepted, us;
    uint32_t n_rows, n_passes, draft_us;
};
void drafts_note_step(struct drafts *d, const struct drafts_step *s);

/* Learns how long the device waited for a step with drafts. */
void drafts_note_gap(struct drafts *d, uint64_t us);

/* Returns whether all sequences are to try a draft. */
bool drafts_probes(const struct drafts *d);

/* Learns that the first n_accepted of n drafts were accepted. */
void drafts_note_accepted(float accepts[DRAFTS_MAX], float share, uint32_t n,
                          uint32_t n_accepted);

/* Sets the k of rows[n], n <= DRAFTS_ROWS.  A step has n_others tokens beside
 * theirs. */
void drafts_choose(struct drafts *d, struct drafts_row *rows, uint32_t n,
                   uint32_t n_others);

/* Returns whether a row would get drafts in a step with n others that have the
 * chances `others`, DRAFTS_MAX drafts each.  A pass of the MTP layer costs one
 * row nearly as much as many, so drafts of one sequence may not pay where those
 * of all do. */
bool drafts_pay(struct drafts *d, const struct drafts_row *row,
                const float *others, uint32_t n);

/* Returns whether the MTP layer may be tried where drafts do not pay: half of
 * what they may cost is left. */
bool drafts_may_try(const struct drafts *d);

/* Returns whether the MTP layer stops for a row that had no drafts for `idle`
 * rows; the others as in drafts_pay(). */
bool drafts_stop(struct drafts *d, const struct drafts_row *row,
                 const float *others, uint32_t n, uint32_t idle);

/* Returns the estimate of the time of a step of n tokens, for tests. */
float drafts_step_us(struct drafts *d, uint32_t n_tokens);

#endif
