/* proposer.h - Sources of drafts, behind one seam.
 *
 *     MTP     the engine's MTP layer.  A row with `mtp` and `propose` returns
 *             drafts with its result; all rows of the sequence need `mtp`.
 *     NGRAM   the ids of the sequence (ngram.h), searched before its row
 *
 * A sequence whose MTP layer has a hole, positions that it did not compute,
 * uses the text instead, unless the options ask for MTP alone.
 *
 * Drafts are guesses: none of them changes a token.  They are dropped wherever
 * a sequence goes on in another way, and nothing else changes then.
 *
 * Threading: the core's.  Memory: the sequence's; no call allocates. */
#ifndef WORKER_PLAN_PROPOSER_H
#define WORKER_PLAN_PROPOSER_H

#include "worker/base/options.h"
#include "worker/sequence/sequence_table.h"

enum proposer { PROPOSER_NONE, PROPOSER_MTP, PROPOSER_NGRAM, PROPOSERS };

struct proposer_rules {
    enum worker_drafter drafter;
    bool has_mtp;
};

/* Returns the source of drafts for s. */
enum proposer proposer_of(const struct proposer_rules *r,
                          const struct sequence *s);

/* Returns whether drafts of p come from the engine, with the row before. */
bool proposer_in_engine(enum proposer p);

/* Looks for drafts of s behind its known ids.  Returns how many its next row
 * can have: those of the engine that came with the newest result, or those that
 * the text has.  While a token of s is being sampled, the text has to have one
 * more. */
uint32_t proposer_find(const struct sequence_table *t, struct sequence *s);

/* Drops the drafts of s. */
void proposer_drop(struct sequence *s);

#endif
