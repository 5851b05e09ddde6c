#include "kernels/opencl/noise.h"

#include <math.h>

#include "kernels/opencl/host/copies.h"
#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/host/queue.h"

#define GROUP 64
#define ITEMS ((size_t)1 << 20)
#define PIECE 16   /* bytes per work-item; OPENCL_ALIGN has room */
#define WIDTH 0.1f /* of the pool: about the size of states */

const char opencl_noise_data[1] = {0}, opencl_noise_other[1] = {0};

static const struct opencl_variant noises[] = {
    {.file = "noise", .kernel = "noise", .wg = GROUP},
};

#define ANY_BITS 3 /* NOISE_DTYPE of raw bits */
#define E4M3     4 /* NOISE_DTYPE of fp8 codes */

/* Chooses the kernel of a dtype; the same one at each call. */
static struct opencl_kernel *choose_kernel(struct opencl *c, int dtype)
{
    struct opencl_kernel *k = NULL;
    struct error e;
    char define[32];

    snprintf(define, sizeof define, "-DNOISE_DTYPE=%d", dtype);
    if (opencl_choose(c, &k, noises, 1, NULL, define, &e) != ST_OK) {
        opencl_fail(c, e.code, "%s", e.text);
    }
    return k;
}

/* Fills bytes [at, at + bytes) of t; both are multiples of PIECE except at the
 * end. */
static void make_noise(struct opencl *c, int dtype,
                       const struct opencl_tensor *t, uint64_t at,
                       uint64_t bytes, float width, uint64_t seed)
{
    struct opencl_kernel *k = choose_kernel(c, dtype);
    struct opencl_tensor to = {.mem = t->mem, .at = t->at + at, .item = PIECE};
    size_t pieces = (bytes + PIECE - 1) / PIECE, local = GROUP;
    size_t global = (pieces + GROUP - 1) / GROUP * GROUP;
    struct opencl_call a;

    if (k == NULL) {
        return;
    }
    a = opencl_call(c, k);
    global = global < ITEMS ? global : ITEMS;
    opencl_arg_tensor(&a, &to);
    opencl_arg_u64(&a, seed);
    opencl_arg_f32(&a, width);
    opencl_arg_u64(&a, pieces);
    opencl_launch(&a, 1, &global, &local, bytes);
}

/* Fills the scales of a quantised matrix, so that its values have about this
 * width.  Bytes of records that are no f16 may have any value. */
static void make_scales(struct opencl *c, const struct opencl_tensor *t,
                        float width, uint64_t seed)
{
    static const struct {
        int dtype;
        float most; /* a scale of 1 gives values up to this */
    } of[WEIGHT_FORMATS] = {
        [WEIGHT_FP8] = {DTYPE_F32, 1.875f}, [WEIGHT_Q8] = {DTYPE_F16, 128.0f},
        [WEIGHT_Q4] = {DTYPE_F16, 8.0f},    [WEIGHT_K4] = {DTYPE_F16, 3825.0f},
        [WEIGHT_K6] = {DTYPE_F16, 4096.0f},
    };
    const enum weight_format f = opencl_tensor_form(t).format;
    const uint64_t at = opencl_scales_at(t);
    const uint64_t bytes = opencl_tensor_bytes(t) - at;

    if (f == WEIGHT_AFFINE) {
        make_noise(c, (int)t->dtype, t, at, bytes,
                   width / (float)(1u << t->bits), seed);
    } else if (f == WEIGHT_MXFP4) {
        /* All are the power of two that is next to width / 6. */
        const int e = (int)lrintf(log2f(width / 6.0f)) + 127;

        opencl_fill(c, t, at, (bytes + 1) / 2 * 2, 0x01010101u * (uint32_t)e);
    } else {
        make_noise(c, of[f].dtype, t, at, bytes, width / of[f].most, seed);
    }
}

void opencl_noise(struct opencl *c, const struct opencl_tensor *t, float width,
                  uint64_t seed)
{
    if (t->mem == NULL) {
        return;
    }
    if (t->bits > 0) {
        make_noise(c, t->format == WEIGHT_FP8 ? E4M3 : ANY_BITS, t, 0,
                   opencl_scales_at(t), 0.0f, seed);
        make_scales(c, t, width, seed);
    } else {
        make_noise(c, (int)t->dtype, t, 0, opencl_tensor_bytes(t), width, seed);
    }
}

enum status opencl_noise_pool(struct kernels *k, uint64_t seed, struct error *e)
{
    struct opencl *c = opencl_of(k);
    /* Small values of bf16 are finite in every format: as float32, two
     * adjacent ones, and as f16, such as the norms of quantised vectors. */
    const enum dtype dtype =
        c->kv.scheme == KV_PLAIN ? c->kv_dtype : DTYPE_BF16;

    opencl_copies_finish(c);
    /* Any page may become a block or a slot. */
    for (uint32_t i = 0; i < c->cache.pages.n_groups; i++) {
        make_noise(c, (int)dtype, &c->cache.groups[i], 0,
                   c->cache.n_pages * c->cache.pages.groups[i].page_bytes,
                   WIDTH, seed++);
    }
    opencl_wait(c);
    *e = c->health.failed;
    return e->code;
}
