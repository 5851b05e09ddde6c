/* sequence_list.h - Lists of sequences.
 *
 * Threading: the core's.  Memory: the links are in the sequences. */
#ifndef WORKER_SEQUENCE_SEQUENCE_LIST_H
#define WORKER_SEQUENCE_SEQUENCE_LIST_H

#include <stdbool.h>
#include <stdint.h>

struct sequence;

/* Lists of sequences; a sequence is in each at most once. */
enum sequence_in {
    LIST_ALL,  /* in order of arrival */
    LIST_PLAN, /* waits for rows: prefill or decode */
    LIST_OUT,  /* has rows to send in StepOutput */
    SEQUENCE_LISTS
};

struct sequence_node {
    struct sequence *prev, *next;
    struct sequence_list *list; /* NULL: not in a list */
};

struct sequence_list {
    struct sequence *head, *tail;
    uint32_t n;
    enum sequence_in link;
};

/* Appends s to l; moves it to the tail if it is in l already. */
void sequence_push(struct sequence_list *l, struct sequence *s);
/* Inserts s, which is in no list of that kind, before `at`; NULL: at the tail.
 */
void sequence_insert(struct sequence_list *l, struct sequence *s,
                     struct sequence *at);
/* Removes s from its list of that kind, if it is in one. */
void sequence_unlink(struct sequence *s, enum sequence_in link);
/* Returns the sequence after s in its list, NULL at the tail. */
struct sequence *sequence_next(const struct sequence *s, enum sequence_in link);
bool sequence_is_linked(const struct sequence *s, enum sequence_in link);

#endif
