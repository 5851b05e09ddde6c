#include "client/ctl/plan_blocks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t kernel_blocks[] = {32, 16, 8};

uint64_t blocks_token_bytes(uint32_t n_kv_heads, uint32_t head_dim,
                            uint32_t item_bytes, bool latent)
{
    uint64_t vector = (uint64_t)n_kv_heads * head_dim * item_bytes;

    return latent ? vector : 2 * vector;
}

uint64_t blocks_state_bytes(const struct blocks_state *states, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t items = states[i].n_dims > 0 ? 1 : 0;

        for (uint32_t d = 0; d < states[i].n_dims; d++) {
            items *= states[i].dims[d];
        }
        sum += items * states[i].item_bytes;
    }
    return sum;
}

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

enum status blocks_align(struct blocks_sizes *s, const struct blocks_model *m,
                         uint32_t alignment, bool saves, struct error *e)
{
    uint64_t state, least, page;

    if (m == NULL || !m->is_hybrid) {
        return ST_OK;
    }
    state = blocks_state_bytes(m->states, m->n_states);
    if (state == 0 || m->token_bytes == 0 || alignment == 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the page of a state is %" PRIu64 " bytes, a position "
                         "%" PRIu64 ", the alignment %u: none may be zero",
                         state, m->token_bytes, alignment);
    }
    least = alignment * ceil_div(state, alignment * m->token_bytes);
    if (least > UINT32_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a state of %" PRIu64 " bytes needs blocks of "
                         "%" PRIu64 " positions; at most %u are possible",
                         state, least, UINT32_MAX);
    }
    if (s->block_tokens < least) {
        s->block_tokens = (uint32_t)least;
    }
    page = s->block_tokens * m->token_bytes;
    s->state_bytes = state;
    s->state_block_tokens = saves ? s->block_tokens : 0;
    s->padded_bytes = page > state ? page : 0;
    s->padding_percent = 100 * (double)(page - state) / (double)state;
    return ST_OK;
}

enum status blocks_kernel(uint32_t *kernel, uint32_t block_tokens,
                          struct error *e)
{
    for (size_t i = 0; i < sizeof kernel_blocks / sizeof *kernel_blocks; i++) {
        if (block_tokens > 0 && block_tokens % kernel_blocks[i] == 0) {
            *kernel = kernel_blocks[i];
            return ST_OK;
        }
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "a block of %u positions is not divisible into kernel "
                     "blocks of 32, 16 or 8",
                     block_tokens);
}

struct blocks_groups blocks_group(uint32_t n_attention, uint32_t n_linear)
{
    uint32_t few = n_attention < n_linear ? n_attention : n_linear;
    uint32_t many = n_attention < n_linear ? n_linear : n_attention;
    /* Padding some layers is cheaper than many small groups. */
    uint32_t size = few == 0 || 2 * many < 3 * few ? many : few;

    return (struct blocks_groups){
        .size = size,
        .n_attention = (uint32_t)ceil_div(n_attention, size),
        .n_linear = (uint32_t)ceil_div(n_linear, size)};
}

uint64_t blocks_of_sequence(const struct blocks_groups *g,
                            uint32_t block_tokens, uint32_t n_tokens)
{
    return g->n_attention * ceil_div(n_tokens, block_tokens) + g->n_linear;
}
