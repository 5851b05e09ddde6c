/* tree.h - A session of the plan while its turns run.
 *
 * A plan_session has room for the largest session, 68 KiB.  This copy takes
 * what the session needs, so thousands can wait for their start.
 *
 * Answers are kept for turns that have children: ids if the target gives ids,
 * text otherwise, at most TREE_ANSWER_MAX of either.
 *
 * Threading: none.  Memory: owns its arrays and reuses them. */
#ifndef CLIENT_LOAD_DRIVE_TREE_H
#define CLIENT_LOAD_DRIVE_TREE_H

#include "client/load/plan/prompt.h"
#include "common/base/list.h"

#define TREE_ANSWER_MAX  (4u << 20) /* ids, or bytes, of an answer */
#define TREE_PIECES_KEPT 64         /* a larger array is not reused */

struct tree {
    struct list link, roots; /* the generator's */
    uint64_t number, content;
    int64_t due_us, think_us;
    uint32_t n_turns, n_pieces;
    struct plan_turn *turns;   /* [n_turns] */
    struct plan_piece *pieces; /* [n_pieces] */
    uint32_t turns_size, pieces_size;
    struct prompt_answer *answers; /* [n_turns], NULL for a single turn */
    uint32_t n_left;               /* turns without a sample */
    uint32_t n_roots;              /* turns without a parent */
    bool begun;                    /* a turn was started, or has a sample */
};

/* Copies a session from the plan.  All zeros is a valid session before. */
void tree_take(struct tree *s, const struct plan_session *from);

/* Fills the caller's large struct for prompt_make(). */
void tree_give(const struct tree *s, struct plan_session *to);

bool tree_has_children(const struct tree *s, uint32_t turn);

/* Returns the turns that descend from a turn, as bits. */
uint64_t tree_below(const struct tree *s, uint32_t turn);

/* Returns about how many tokens the prompt of a turn has. */
uint64_t tree_tokens(const struct tree *s, uint32_t turn);

/* Appends a chunk to the answer of a turn. */
void tree_answer(struct tree *s, uint32_t turn, const uint32_t *ids,
                 size_t n_ids, const char *text, size_t n_text);

/* Frees the answers and large arrays; the session can be taken again. */
void tree_clear(struct tree *s);
void tree_fini(struct tree *s);

#endif
