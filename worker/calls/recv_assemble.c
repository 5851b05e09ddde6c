/* Assemble: this worker becomes a stage of a replica
 * (worker/stages/assembly.h).
 *
 *   1 the current assembly ends, whatever the new one is like
 *   2 every field is checked; the error names the field and the limit.  The
 * keys of both neighbours are there if this worker has one, and only then 3
 * JOINING; the call is answered when both edges are up */
#include "common/wire/endpoint.h"
#include "common/wire/identity.h"
#include "worker/calls/calls.h"

static enum status check_place(const struct worker_options *o,
                               const Sluice__V1__AssembleRequest *m,
                               struct error *e)
{
    if (m->assembly == 0) {
        return error_set(e, ST_INVALID_ARGUMENT, "assembly is 0");
    }
    if (m->n_stages < 2 || m->n_stages > STAGES_MAX ||
        m->stage >= m->n_stages) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "stage is %u of %u, a replica has 2 to %d stages",
                         m->stage, m->n_stages, STAGES_MAX);
    }
    if ((m->stage == 0) != (o->layer_begin == 0) ||
        (m->stage + 1 == m->n_stages) != (o->layer_end == o->n_layers)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "layers %u-%u of %u cannot be stage %u of %u",
                         o->layer_begin, o->layer_end, o->n_layers, m->stage,
                         m->n_stages);
    }
    /* Another worker chose the name: without keys it is a neighbour. */
    if (endpoint_of_peer(m->next.data, m->next.len, o->stage_endpoint, o->keyed,
                         e) != ST_OK) {
        return error_wrap(e, "next");
    }
    return ST_OK;
}

/* Checks that a key is present exactly if this worker has one, and its length.
 */
static enum status check_key(bool wanted, protobuf_c_boolean has,
                             ProtobufCBinaryData key, const char *field,
                             struct error *e)
{
    if (wanted && !has) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s is missing; this worker has a key and connects "
                         "to stages with keys only",
                         field);
    }
    if (!wanted && has) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s is present, but this worker has no key; start it "
                         "with --key and --trust",
                         field);
    }
    if (has && key.len != KEY_BYTES) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s has %zu bytes, a key has %d", field, key.len,
                         KEY_BYTES);
    }
    return ST_OK;
}

/* A worker has a key if its connection to the router has. */
static enum status check_keys(const struct worker_base *b,
                              const Sluice__V1__AssembleRequest *m,
                              struct error *e)
{
    bool keyed = identity_of(b->io, b->session.id) != NULL;
    enum status st =
        check_key(keyed, m->has_next_key, m->next_key, "next_key", e);

    return st != ST_OK ? st
                       : check_key(keyed, m->has_previous_key, m->previous_key,
                                   "previous_key", e);
}

static enum status check_step(const struct worker_options *o,
                              const Sluice__V1__AssembleRequest *m,
                              struct error *e)
{
    uint32_t tokens = m->has_step_tokens ? m->step_tokens : o->step_tokens;

    if (m->has_max_rows && (m->max_rows < 1 || m->max_rows > o->max_rows)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "max_rows is %u, this stage takes 1 to %u",
                         m->max_rows, o->max_rows);
    }
    if (tokens < 1 || tokens > o->step_tokens) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "step_tokens is %u, this stage takes 1 to %u", tokens,
                         o->step_tokens);
    }
    if ((uint64_t)tokens * o->hidden * sizeof(float) > FRAME_TENSOR_MAX) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "a step of %u tokens of %u float32 exceeds the %u "
                         "bytes of a frame; start the workers with fewer "
                         "--step-tokens",
                         tokens, o->hidden, FRAME_TENSOR_MAX);
    }
    return ST_OK;
}

static enum status check_assemble(const struct worker_base *b,
                                  const Sluice__V1__AssembleRequest *m,
                                  struct error *e)
{
    const struct worker_options *o = &b->o;

    if (worker_options_role(o) == ROLE_ALONE) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "this worker has all layers and needs no assembly");
    }
    if (o->stage_endpoint == NULL) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "this worker has no port for other stages");
    }
    if (check_place(o, m, e) != ST_OK || check_keys(b, m, e) != ST_OK) {
        return e->code;
    }
    return check_step(o, m, e);
}

void worker_recv_assemble(const struct worker_calls *c, struct peer *p,
                          uint64_t call, const request_of_WORKER_ASSEMBLE *m)
{
    struct error e;

    stages_replace(c->stages);
    if (check_assemble(c->base, m, &e) != ST_OK ||
        stages_join(c->stages, call, m, &e) != ST_OK) {
        peer_fail(p, call, &e, 0);
    }
}
