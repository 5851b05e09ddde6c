#include "common/base/job_turns.h"

void job_turns_init(struct job_turns *t, uint32_t expected)
{
    list_init(&t->ring);
    table_init(&t->clients, expected);
}

void job_turns_fini(struct job_turns *t)
{
    table_fini(&t->clients);
}

/* Makes j the first job of its client, and the client the last one. */
static void lead(struct job_turns *t, struct job_turn *j)
{
    list_init(&j->ring);
    list_append(&t->ring, &j->ring);
    table_add(&t->clients, &j->by_client, j->client);
}

void job_turns_put(struct job_turns *t, struct job_turn *j)
{
    struct table_node *first = table_find(&t->clients, j->client);

    list_init(&j->same);
    if (first == NULL) {
        lead(t, j);
    } else {
        list_append(&LIST_OF(first, struct job_turn, by_client)->same,
                    &j->same);
    }
}

struct job_turn *job_turns_take(struct job_turns *t)
{
    struct list *first = list_take(&t->ring);
    struct job_turn *j;

    if (first == NULL) {
        return NULL;
    }
    j = LIST_OF(first, struct job_turn, ring);
    table_remove(&t->clients, &j->by_client);
    if (!list_empty(&j->same)) {
        struct list *next = j->same.next;

        list_remove(&j->same);
        lead(t, LIST_OF(next, struct job_turn, same));
    }
    return j;
}
