/* RemoveSequence: like Cancel, for the owner of a kept sequence.  With a range
 * only the end of the sequence goes (worker/sequences/ranges.h). */
#include "worker/calls/calls.h"
#include "worker/sequences/ending.h"
#include "worker/sequences/ranges.h"

static void remove_range(struct sequences *q, struct peer *p, uint64_t call,
                         const struct sequence_key *key,
                         const request_of_WORKER_REMOVE *m)
{
    struct sequence *s = sequence_by_key(&q->table, key), *surplus;
    char name[SEQUENCE_NAME];
    struct error e;

    if (s == NULL || (m->has_grant && m->grant != s->grant)) {
        error_set(&e, ST_NOT_FOUND, "sequence %s is not here",
                  sequence_name(key, name));
        peer_fail(p, call, &e, 0);
        return;
    }
    surplus = ranges_remove(q, p, call, s, m);
    if (surplus != NULL) {
        ending_release(q, surplus);
    }
}

void worker_recv_remove(const struct worker_calls *c, struct peer *p,
                        uint64_t call, const request_of_WORKER_REMOVE *m)
{
    struct sequence_key key;
    struct error e;

    if (!sequence_key_read(&key, m->sequence, &e)) {
        peer_fail(p, call, &e, 0);
        return;
    }
    if (m->has_begin || m->has_end) {
        remove_range(c->sequences, p, call, &key, m);
        return;
    }
    ending_remove(c->sequences, p, call, &key,
                  m->has_grant ? m->grant : GRANT_ANY);
}
