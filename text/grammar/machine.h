/* machine.h - A grammar as a machine over bytes.
 *
 * A rule is an expression that may call rules.  A thread of the machine is an
 * expression and a stack of what follows the rules that it is in; stacks share
 * their tails.  A state is a set of threads; threads with equal stacks are one.
 * States and their successors are made when a text reaches them, and kept, so
 * that a step is a look-up.  The state after a text depends on the text alone.
 *
 * Threading: one thread at a time.  Memory: one budget, see expr.h.  Limits:
 * GRAMMAR_RULES_MAX, GRAMMAR_BYTES_MAX. */
#ifndef TEXT_GRAMMAR_MACHINE_H
#define TEXT_GRAMMAR_MACHINE_H

#include "text/grammar/char_set.h"
#include "text/grammar/objects.h"

#define MACHINE_DEAD 0u /* the state that no text leaves */

#define MACHINE_BASE 0u /* the empty stack */

struct rule {
    uint32_t body;
    bool set;  /* the body is known; until then the rule counts as live */
    bool live; /* matches some text */
    uint8_t mark;
};

/* The expression that follows a rule, and the stack below. */
struct frame {
    uint32_t e, below;
};

struct thread {
    uint32_t e, stack;
};

struct machine_state {
    uint32_t threads, n; /* in `threads` */
    uint32_t next;       /* index in `tables` + 1; 0: not yet */
    bool accepts;
};

struct threads {
    struct thread *v;
    uint32_t n, cap;
};

struct machine {
    struct expr_pool pool;
    struct char_constants chars;
    struct objects objects;
    struct rule *rules;
    uint32_t n_rules, cap_rules;
    struct frame *frames;
    uint32_t n_frames, cap_frames;
    struct intern frame_table;
    struct threads threads;
    struct machine_state *states;
    uint32_t n_states, cap_states;
    struct intern state_table;
    uint32_t *tables; /* [n_tables][256] */
    uint32_t n_tables, cap_tables;
    struct threads sources, found; /* while a step is made */
    uint32_t start;
    bool unset;   /* the last machine_rule_live() reached a rule without body */
    bool listing; /* sources list rules: see left_recursive() */
};

MUST_CHECK enum status machine_init(struct machine *m,
                                    const struct grammar_style *style,
                                    size_t max_bytes, struct error *e);
void machine_fini(struct machine *m);

/* Returns a new rule without body.  Returns UINT32_MAX at the limit. */
uint32_t machine_rule(struct machine *m);
void machine_set_rule(struct machine *m, uint32_t rule, uint32_t body);

/* Returns whether a rule matches any text, as far as rules are set. */
bool machine_rule_live(struct machine *m, uint32_t rule);

/* Ends construction with the rule that whole texts match.  Returns
 * ST_INVALID_ARGUMENT if no text matches, or a rule calls itself before any
 * byte; ST_UNIMPLEMENTED if a rule that is reached has no body;
 * ST_RESOURCE_EXHAUSTED at the budget. */
MUST_CHECK enum status machine_finish(struct machine *m, uint32_t root,
                                      struct error *e);

/* Returns the state after a byte; MACHINE_DEAD if no text goes on so, or if
 * the budget is exhausted (pool.budget.failed). */
uint32_t machine_step(struct machine *m, uint32_t state, uint8_t byte);

/* Returns the state that has this thread alone, and after it what follows if
 * the thread has ended. */
uint32_t machine_thread_state(struct machine *m, struct thread t);

bool machine_accepts(const struct machine *m, uint32_t state);

#endif
