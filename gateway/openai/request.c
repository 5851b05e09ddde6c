#include "gateway/openai/request.h"

#include <stdlib.h>

static void drop(json_t **value)
{
    json_decref(*value);
    *value = NULL;
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
    drop(&r->template_kwargs);
    drop(&r->input);
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
    drop(&r->tools);
    drop(&r->repeated);
    drop(&r->held);
    free(r->stops);
    free((void *)(uintptr_t)r->sampling.stop_tokens);
    free((void *)(uintptr_t)r->sampling.bias_tokens);
    free((void *)(uintptr_t)r->sampling.biases);
    free(r);
    *request = NULL;
}
