#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "router/calls/recv.h"
#include "router/calls/router_state.h"

void recv_detokenize(struct router_core *r, const struct incoming *in,
                     const request_of_INFERENCE_DETOKENIZE *m)
{
    struct text_job *j;
    uint32_t model;

    for (size_t i = 0; i < m->n_tokens; i++) {
        if (m->tokens[i] >= MODEL_VOCAB_MAX) {
            refuse(in, ST_INVALID_ARGUMENT,
                   "token %zu is %" PRIu32
                   ", but a vocabulary has at most %d tokens",
                   i, m->tokens[i], MODEL_VOCAB_MAX);
            return;
        }
    }
    if (!find_text(r, in, m->model, &model)) {
        return;
    }
    j = text_job_new(TEXT_DECODE, 0);
    if (j != NULL) {
        j->ids = malloc((m->n_tokens + 1) * sizeof *j->ids);
    }
    if (j == NULL || j->ids == NULL) {
        text_job_free(&j);
        refuse(in, ST_RESOURCE_EXHAUSTED,
               MEMORY_SENTENCE "the router has none left");
        return;
    }
    j->model = model;
    if (m->n_tokens > 0) {
        memcpy(j->ids, m->tokens, m->n_tokens * sizeof *j->ids);
    }
    j->n_ids = m->n_tokens;
    text_call(r, in, &j);
}
