#include <stdlib.h>
#include <string.h>

#include "router/calls/recv.h"
#include "router/calls/router_state.h"

bool find_text(struct router_core *r, const struct incoming *in,
               ProtobufCBinaryData name, uint32_t *model)
{
    struct text_seam *t = r->base.options.text;
    const struct model *m;

    if (!wire_text_ok(name, 0, MODEL_NAME_MAX)) {
        refuse(in, ST_INVALID_ARGUMENT,
               "the model's name must be at most %d bytes of UTF-8",
               MODEL_NAME_MAX);
        return false;
    }
    /* A model without a worker still has its tokenizer, but "the only one" is
     * that of the workers. */
    m = name.len == 0 ? model_find(&r->fleet, NULL, 0) : NULL;
    if (m != NULL) {
        name = wire_text(m->name);
    }
    if (name.len == 0 && r->fleet.n_workers == 0) {
        refuse(in, ST_INVALID_ARGUMENT,
               "name the model (--model NAME): no worker is up that would show "
               "which one is meant");
        return false;
    }
    if (name.len == 0) {
        refuse_unnamed(r, in);
        return false;
    }
    if (t == NULL ||
        !t->ops->find(t, (const char *)name.data, name.len, model)) {
        refuse(in, ST_NOT_FOUND, "this router has no tokenizer for model %.*s",
               (int)name.len, (const char *)name.data);
        return false;
    }
    return true;
}

void recv_tokenize(struct router_core *r, const struct incoming *in,
                   const request_of_INFERENCE_TOKENIZE *m)
{
    struct text_job *j;
    uint32_t model;

    if (!wire_text_ok(m->text, 0, m->text.len)) {
        refuse(in, ST_INVALID_ARGUMENT,
               "the text is not valid UTF-8 or contains a NUL byte");
        return;
    }
    if (!find_text(r, in, m->model, &model)) {
        return;
    }
    j = text_job_new(TEXT_ENCODE, 0);
    if (j == NULL || !text_job_put(j, m->text.data, m->text.len)) {
        text_job_free(&j);
        refuse(in, ST_RESOURCE_EXHAUSTED,
               MEMORY_SENTENCE "the router has none left");
        return;
    }
    j->model = model;
    j->parse_special = m->parse_special;
    text_call(r, in, &j);
}
