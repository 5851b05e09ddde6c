#include "worker/stages/assembly.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/state_machine.h"

static const struct sm_row state_rows[ASSEMBLY_STATES] = {
    [ASSEMBLY_NONE] = {"none", SM_TO(ASSEMBLY_JOINING)},
    [ASSEMBLY_JOINING] = {"joining", SM_TO(ASSEMBLY_UP) | SM_TO(ASSEMBLY_NONE)},
    [ASSEMBLY_UP] = {"up", SM_TO(ASSEMBLY_NONE)},
};

void assembly_init(struct assembly *a, struct worker_base *b,
                   const struct member_ops *member, void *self)
{
    memset(a, 0, sizeof *a);
    a->base = b;
    a->member = member;
    a->self = self;
}

void assembly_move(struct assembly *a, enum assembly_state to)
{
    char id[24];

    snprintf(id, sizeof id, "%016" PRIx64, a->id);
    sm_check(state_rows, a->state, to, "assembly", id);
    a->state = to;
}

bool assembly_is_up(const struct assembly *a)
{
    return a->state == ASSEMBLY_UP && !a->broken;
}

uint32_t assembly_after(const struct assembly *a)
{
    return (a->stage + 1) % a->n_stages;
}

uint32_t assembly_before(const struct assembly *a)
{
    return (a->stage + a->n_stages - 1) % a->n_stages;
}

/* ---- giving up ---- */

/* The first reason counts: later ones are often its consequences. */
__attribute__((format(printf, 2, 0))) static bool
give_up(struct assembly *a, const char *fmt, va_list ap)
{
    /* In NONE there is nothing to give up: late events of old edges end here.
     */
    if (a->state == ASSEMBLY_NONE || a->broken) {
        return false;
    }
    a->broken = true;
    vsnprintf(a->why, sizeof a->why, fmt, ap);
    return true;
}

void assembly_break(struct assembly *a, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (give_up(a, fmt, ap)) {
        a->base->metrics.streams_broken++;
        log_error("stream-broken",
                  "assembly=%016" PRIx64 " stage=%u why=\"%s\"", a->id,
                  a->stage, a->why);
    }
    va_end(ap);
}

void assembly_edge_down(struct assembly *a, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)give_up(a, fmt, ap);
    va_end(ap);
}

/* ---- the stream ---- */

/* Bytes of an Open, its Restore and its Remove beside the ids, at most: the
 * lists of its sampling, and one or two columns for each stage.  What Keep and
 * Gone name is less than the ids of its positions. */
#define OPEN_BYTES 16384u

size_t assembly_stream_bytes(const struct sequence_table *t)
{
    return (size_t)t->capacity * OPEN_BYTES +
           ((size_t)t->slab.n_pages << t->slab.shift) * ASSEMBLY_ID_BYTES;
}

/* A stream with a gap cannot be repaired, so a message that was not sent ends
 * the assembly. */
static void check_sent(struct assembly *a, enum method m, enum status st)
{
    if (st != ST_OK) {
        assembly_break(a, "%s to stage %u could not be sent: %s",
                       method_find((uint16_t)m)->method, assembly_after(a),
                       status_text(st));
    }
}

void assembly_send(struct assembly *a, enum method m,
                   const ProtobufCMessage *message)
{
    if (assembly_is_up(a)) {
        check_sent(a, m, peer_oneway(a->out, m, message));
    }
}

void assembly_send_forward(struct assembly *a,
                           const Sluice__V1__StageForward *m,
                           const float *hidden, uint32_t n_tokens)
{
    uint64_t bytes = (uint64_t)n_tokens * a->base->o.hidden * sizeof *hidden;

    if (hidden == NULL) {
        assembly_send(a, METHOD_STAGE_FORWARD, &m->base);
    } else if (assembly_is_up(a)) {
        check_sent(a, METHOD_STAGE_FORWARD,
                   peer_oneway_tensor(a->out, METHOD_STAGE_FORWARD, &m->base,
                                      hidden, (uint32_t)bytes));
    }
}
