/* tales.h - Sequences that have parts in common, and their cold runs.
 *
 *     A0..A4   prompts of several lengths
 *     B0, B1   branch off A1, between two checkpoints
 *     T0..T3   choices of one request
 *     U0, U1   choices of one request whose prompt is A1
 *     C0, C1   second and third turns: C0 goes on from A0, C1 from C0
 *     D0, D1   go on from a part of A0: of its prompt, and of its tokens
 *     E0, E1   choices of one request that goes on from A0
 *     G0, G1   halves of one run: G1 goes on from G0 without a prompt, and its
 *              draws too
 *
 * The kinds of the positions that a tale takes over from another stay as they
 * are there.  Ids are random.
 *
 * Threading: one thread.  Memory: the caller's. */
#ifndef TESTS_GOLDEN_TALES_H
#define TESTS_GOLDEN_TALES_H

#include "tests/golden/replica.h"

#define TALES_CONTEXT 320

enum tale {
    TALE_A0,
    TALE_A1,
    TALE_A2,
    TALE_A3,
    TALE_A4,
    TALE_B0,
    TALE_B1,
    TALE_T0,
    TALE_T1,
    TALE_T2,
    TALE_T3,
    TALE_U0,
    TALE_U1,
    TALE_C0,
    TALE_C1,
    TALE_D0,
    TALE_D1,
    TALE_E0,
    TALE_E1,
    TALE_G0,
    TALE_G1,
    TALES
};

#define TALE_CUT_D0 140 /* ids that D0 has of A0 */
#define TALE_CUT_D1 192

struct tales {
    uint32_t steps; /* 6..REPLICA_TOKENS */
    uint32_t ids[TALES][TALES_CONTEXT];
    struct replica_ask cold[TALES];
};

/* Runs all tales cold, in a replica of these steps. */
void tales_run_cold(struct tales *t, struct replica *r, uint32_t vocab);

/* Copies the ask of a tale, without results, for a run that may reuse. */
void tales_ask(const struct tales *t, enum tale i, struct replica_ask *out);

/* Returns whether a run of tale i, which may have begun after some of its
 * tokens, has the tokens and bits of the cold one. */
bool tales_same(const struct tales *t, enum tale i,
                const struct replica_ask *got);

const char *tales_name(enum tale i);

#endif
