#include "gateway/openai/request.h"

#include <stdlib.h>

static void drop(json_t **value)
{
    json_decref(*value);
    *value = NULL;
}

/* Holds at most `bytes` of the budget from now on. */
static void hold(struct openai_request *r, size_t bytes)
{
    if (r->memory != NULL && r->held_bytes > bytes) {
        memory_give(r->memory, r->held_bytes - bytes);
        r->held_bytes = bytes;
    }
}

void openai_request_drop_input(struct openai_request *r)
{
    /* A long prompt is the largest part of a request, and a stream may last
     * minutes after its last use. */
    for (size_t i = 0; r->prompts != NULL && i < r->n_prompts; i++) {
        free((void *)(uintptr_t)r->prompts[i].ids);
    }
    free(r->prompts);
    r->prompts = NULL;
    free(r->tokens);
    r->tokens = NULL;
    drop(&r->messages);
    drop(&r->template.kwargs);
    drop(&r->values.input);
    hold(r, r->body_bytes);
}

uint32_t openai_request_choices(const struct openai_request *r)
{
    return r->n * (r->n_prompts > 0 ? (uint32_t)r->n_prompts : 1);
}

void openai_request_free(struct openai_request **request)
{
    struct openai_request *r = *request;

    if (r == NULL) {
        return;
    }
    openai_request_drop_input(r);
    drop(&r->template.tools);
    drop(&r->values.repeated);
    drop(&r->values.held);
    free(r->stops);
    free((void *)(uintptr_t)r->sampling.stop_tokens);
    free((void *)(uintptr_t)r->sampling.bias_tokens);
    free((void *)(uintptr_t)r->sampling.biases);
    hold(r, 0);
    free(r);
    *request = NULL;
}
