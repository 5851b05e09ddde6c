/* attend_bench - time of the cpu's attention loops over each KV format.
 *
 *     attend_bench [--isa NAME] [--context N] [--head N] [--queries N]
 *
 * One thread and one KV head, as a task of the backend has them: --queries
 * (default 4, a decode step of qwen3.5-0.8b; 32: a prompt) that share the keys
 * and values of --context positions (4096) of --head values (256).  The blocks
 * lie as far apart as in pages of six layers with two heads.
 *
 * Each format runs once per round, so that other load on the machine disturbs
 * all alike.  Prints the least processor time of a round, and bf16's over it.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/isa/isa.h"
#include "kernels/kv_codec.h"
#include "tests/kernels/random_model.h"

#define ROUNDS       50
#define BLOCK_TOKENS 32
#define PAGE_BLOCKS  12 /* blocks of one head in a page */
#define CONTEXT_MAX  65536

static const struct kv_format formats[] = {
    {.dtype = DTYPE_BF16},
    {.dtype = DTYPE_F16},
    {.dtype = DTYPE_F32},
    {DTYPE_BF16, KV_AFFINE, 8, 8, 64, KV_NO_LAYER},
    {DTYPE_BF16, KV_AFFINE, 4, 4, 64, KV_NO_LAYER},
    {DTYPE_BF16, KV_TURBOQUANT, 4, 4, 0, KV_NO_LAYER},
    {DTYPE_BF16, KV_TURBOQUANT, 3, 4, 0, KV_NO_LAYER},
    {DTYPE_BF16, KV_TURBOQUANT, 2, 2, 0, KV_NO_LAYER},
};

#define FORMATS (sizeof formats / sizeof *formats)

struct bench {
    const struct cpu_isa *isa;
    uint32_t context, head, queries;
    uint32_t blocks[CONTEXT_MAX / BLOCK_TOKENS];
    uint32_t last[ATTEND_QUERIES];
    float q[ATTEND_QUERIES * KERNELS_HEAD_DIM_MAX];
    float y[ATTEND_QUERIES * KERNELS_HEAD_DIM_MAX];
    float s[ATTEND_QUERIES * ATTEND_SPAN];
};

/* A cache in one format, and the task that reads it. */
struct cache {
    struct kv_format f;
    struct kv_block block;
    struct kv_turbo turbo[2];
    char *bytes;
    struct attend_quantised a;
};

static double seconds_of_thread(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fill(struct dice *d, float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        x[i] = dice_float(d, -1.0f, 1.0f);
    }
}

/* Plain keys too are rows here: their order does not affect the time. */
static void store(const struct bench *b, struct cache *c, struct dice *d,
                  uint32_t p)
{
    const struct kv_block *k = &c->block;
    char *block = c->bytes + p / BLOCK_TOKENS * c->a.t.stride;
    uint32_t at = p % BLOCK_TOKENS;
    float x[KERNELS_HEAD_DIM_MAX];

    fill(d, x, b->head);
    kv_encode(&c->f, &k->k, &c->turbo[KV_KEYS], x, b->head,
              block + k->k_codes + at * k->k.code_bytes,
              block + k->k_params + at * k->k.param_bytes);
    fill(d, x, b->head);
    kv_encode(&c->f, &k->v, &c->turbo[KV_VALUES], x, b->head,
              block + k->v_codes + at * k->v.code_bytes,
              block + k->v_params + at * k->v.param_bytes);
}

static struct attend_codes codes_of(const struct cache *c, enum kv_half half)
{
    const struct kv_block *b = &c->block;
    const struct kv_vector *v = half == KV_KEYS ? &b->k : &b->v;

    return (struct attend_codes){
        .codes = c->bytes + (half == KV_KEYS ? b->k_codes : b->v_codes),
        .params = c->bytes + (half == KV_KEYS ? b->k_params : b->v_params),
        .bits = v->bits,
        .code_bytes = v->code_bytes,
        .centroids =
            c->f.scheme == KV_TURBOQUANT ? c->turbo[half].centroids : NULL,
    };
}

static void open_cache(struct bench *b, struct cache *c,
                       const struct kv_format *f)
{
    struct dice d = {1};

    c->f = *f;
    kv_block_make(&c->block, f, 1, b->head, BLOCK_TOKENS);
    if (f->scheme == KV_TURBOQUANT) {
        kv_turbo_make(&c->turbo[KV_KEYS], b->head, f->k_bits, KV_KEYS);
        kv_turbo_make(&c->turbo[KV_VALUES], b->head, f->v_bits, KV_VALUES);
    }
    c->a.t = (struct attend_task){
        .q = b->q,
        .y = b->y,
        .last = b->last,
        .blocks = b->blocks,
        .stride = c->block.bytes * PAGE_BLOCKS,
        .dtype = f->dtype,
        .n_q = b->queries,
        .hd = b->head,
        .block_tokens = BLOCK_TOKENS,
        .scale = 0.06f,
        .s = b->s,
    };
    c->bytes = calloc(b->context / BLOCK_TOKENS, c->a.t.stride);
    if (c->bytes == NULL) {
        abort();
    }
    c->a.t.k = c->bytes + c->block.k_codes;
    c->a.t.v = c->bytes + c->block.v_codes;
    c->a.k = codes_of(c, KV_KEYS);
    c->a.v = codes_of(c, KV_VALUES);
    c->a.group = f->group;
    for (uint32_t p = 0; p < b->context; p++) {
        store(b, c, &d, p);
    }
}

static double time_once(const struct bench *b, const struct cache *c)
{
    double begin = seconds_of_thread();

    if (c->f.scheme == KV_PLAIN) {
        b->isa->attend(&c->a.t);
    } else {
        b->isa->attend_quantised(&c->a);
    }
    return seconds_of_thread() - begin;
}

static void run(struct bench *b)
{
    static struct cache caches[FORMATS];
    double best[FORMATS];
    char name[KV_NAME_MAX];

    for (size_t i = 0; i < FORMATS; i++) {
        open_cache(b, &caches[i], &formats[i]);
        best[i] = time_once(b, &caches[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < FORMATS; i++) {
            double took = time_once(b, &caches[i]);

            best[i] = took < best[i] ? took : best[i];
        }
    }
    printf("%s, %u queries, %u positions of %u values\n", b->isa->name,
           b->queries, b->context, b->head);
    for (size_t i = 0; i < FORMATS; i++) {
        printf("%-20s %6llu bytes a position %9.1f us  %.2f of bf16's rate\n",
               kv_format_name(&formats[i], name),
               (unsigned long long)caches[i].block.bytes / BLOCK_TOKENS,
               best[i] * 1e6, best[0] / best[i]);
        free(caches[i].bytes);
    }
}

static uint32_t number(const char *text, uint32_t most)
{
    unsigned long n = strtoul(text, NULL, 10);

    return n < 1 ? 1 : n > most ? most : (uint32_t)n;
}

static void prepare(struct bench *b)
{
    uint32_t n = (b->context + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    struct dice d = {2};

    b->context = n * BLOCK_TOKENS;
    for (uint32_t i = 0; i < n; i++) {
        b->blocks[i] = i;
    }
    for (uint32_t i = n; i > 1; i--) { /* shuffled */
        uint32_t j = dice_below(&d, i), swap = b->blocks[i - 1];

        b->blocks[i - 1] = b->blocks[j];
        b->blocks[j] = swap;
    }
    for (uint32_t i = 0; i < ATTEND_QUERIES; i++) {
        b->last[i] = b->context - 1;
    }
    fill(&d, b->q, sizeof b->q / sizeof *b->q);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"isa", required_argument, NULL, 'i'},
        {"context", required_argument, NULL, 'c'},
        {"head", required_argument, NULL, 'h'},
        {"queries", required_argument, NULL, 'q'},
        {NULL, 0, NULL, 0},
    };
    static struct bench b = {.context = 4096, .head = 256, .queries = 4};
    const char *isa = NULL;

    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'i':
            isa = optarg;
            break;
        case 'c':
            b.context = number(optarg, CONTEXT_MAX);
            break;
        case 'h':
            b.head = number(optarg, KERNELS_HEAD_DIM_MAX);
            break;
        case 'q':
            b.queries = number(optarg, ATTEND_QUERIES);
            break;
        default:
            return 2;
        }
    }
    b.isa = isa_find(isa);
    if (b.isa == NULL || b.head < 64 || (b.head & (b.head - 1)) != 0) {
        fprintf(stderr, "attend_bench: --isa must be one of this processor, "
                        "--head 64, 128, 256 or 512\n");
        return 2;
    }
    prepare(&b);
    run(&b);
    return 0;
}
