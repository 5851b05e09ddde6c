/* session.h - A session of the plan while its turns run.
 *
 * A plan_session has room for the largest session, 68 KiB.  This copy takes
 * what the session needs, so thousands can wait for their start.
 *
 * Answers are kept for turns that have children: ids if the target gives ids,
 * text otherwise, at most SESSION_ANSWER_MAX of either.
 *
 * Threading: none.  Memory: owns its arrays and reuses them. */
#ifndef CLIENT_LOAD_DRIVE_SESSION_H
#define CLIENT_LOAD_DRIVE_SESSION_H

#include "client/load/plan/prompt.h"
#include "common/base/list.h"

#define SESSION_ANSWER_MAX  (4u << 20) /* ids, or bytes, of an answer */
#define SESSION_PIECES_KEPT 64         /* a larger array is not reused */

struct session {
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
void session_take(struct session *s, const struct plan_session *from);

/* Fills the caller's large struct for prompt_make(). */
void session_give(const struct session *s, struct plan_session *to);

bool session_has_children(const struct session *s, uint32_t turn);

/* Returns the turns that descend from a turn, as bits. */
uint64_t session_below(const struct session *s, uint32_t turn);

/* Returns about how many tokens the prompt of a turn has. */
uint64_t session_tokens(const struct session *s, uint32_t turn);

/* Appends a chunk to the answer of a turn. */
void session_answer(struct session *s, uint32_t turn, const uint32_t *ids,
                    size_t n_ids, const char *text, size_t n_text);

/* Frees the answers and large arrays; the session can be taken again. */
void session_clear(struct session *s);
void session_fini(struct session *s);

#endif
