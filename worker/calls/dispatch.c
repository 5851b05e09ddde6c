/* dispatch.c - Finds the handler of a call, and gives it the request as its own
 * type. */
#include "worker/calls/calls.h"
#include "worker/sequences/ending.h"

typedef void (*handler_fn)(const struct worker_calls *c, struct peer *p,
                           uint64_t call, const ProtobufCMessage *request);

#define X(method, name, ...)                                              \
    static void call_##name(const struct worker_calls *c, struct peer *p, \
                            uint64_t call, const ProtobufCMessage *m)     \
    {                                                                     \
        worker_recv_##name(c, p, call, AS_REQUEST(method, m));            \
    }
CALL_MAP(X)
#undef X

struct call_row {
    enum method number;
    handler_fn handler;
    bool leader_only;
};

static const struct call_row rows[] = {
#define X(method, name, leader) {METHOD_##method, call_##name, leader},
    CALL_MAP(X)
#undef X
};

static const struct call_row *row_of(const struct method_row *m)
{
    /* Eleven rows: a search costs less than a sparse table of method numbers.
     */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].number == m->number) {
            return &rows[i];
        }
    }
    return NULL;
}

static void refuse_unbuilt(struct peer *p, uint64_t call,
                           const struct method_row *m)
{
    struct error e;

    error_set(&e, ST_UNIMPLEMENTED, "this worker does not implement %s",
              m->name);
    peer_fail(p, call, &e, 0);
}

/* Refuses a call, and ignores a message without an answer: the sequences of a
 * replica are at its leader. */
static void refuse_stage(const struct worker_calls *c, struct peer *p,
                         uint64_t call, const struct method_row *m)
{
    const struct worker_options *o = &c->base->o;
    struct error e;

    if (call != 0) {
        error_set(&e, ST_FAILED_PRECONDITION,
                  "%s: layers %u-%u of %u obey the stage that has layer 0",
                  m->method, o->layer_begin, o->layer_end, o->n_layers);
        peer_fail(p, call, &e, 0);
    }
}

void calls_dispatch(const struct worker_calls *c, struct peer *p,
                    const struct method_row *m, uint64_t call,
                    const ProtobufCMessage *request)
{
    const struct call_row *row = row_of(m);

    if (row == NULL) {
        refuse_unbuilt(p, call, m);
    } else if (row->leader_only &&
               worker_options_role(&c->base->o) == ROLE_STAGE) {
        refuse_stage(c, p, call, m);
    } else {
        row->handler(c, p, call, request);
    }
}

/* Stops an Assemble that is joining, or a Submit that still waits for its
 * parts. A Cancel that waits for memory goes on; its receipt then finds no
 * call. */
void calls_cancelled(const struct worker_calls *c, uint64_t call)
{
    struct sequence *s = c->sequences->table.all.head;

    if (stages_cancelled(c->stages, call)) {
        return;
    }
    while (s != NULL && s->arrival.call != call) {
        s = sequence_next(s, LIST_ALL);
    }
    if (s != NULL && call != 0) {
        s->arrival.call = 0;
        ending_cancel(c->sequences, s);
    }
}
