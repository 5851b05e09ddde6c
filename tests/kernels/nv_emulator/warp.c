/* warp.c - the instructions of kernels/opencl/nv/nv.cl; see nv.cl and
 * emulator.h.
 *
 * Products are summed in double and rounded once per instruction.  Reads and
 * writes through a kernel's pointers have the sanitizer's checks, as in the
 * kernel itself.  Arithmetic on lanes alone is unchecked, for speed. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/nv_emulator/nv.h"

#define PLAIN __attribute__((no_sanitize("address", "undefined")))

/* ---- bf16 ---- */

static float of_bits(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

static float low(uint32_t pair)
{
    return of_bits(pair << 16);
}

static float high(uint32_t pair)
{
    return of_bits(pair & 0xffff0000u);
}

static uint32_t bf16(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof(bits));
    return isnan(f) ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

uint32_t pack_bf16(float first, float second)
{
    return bf16(first) | bf16(second) << 16;
}

uint32_t fma_bf16x2(uint32_t a, uint32_t b, uint32_t c)
{
    return pack_bf16(
        (float)((double)low(a) * (double)low(b) + (double)low(c)),
        (float)((double)high(a) * (double)high(b) + (double)high(c)));
}

uint32_t byte_perm(uint32_t a, uint32_t b, uint32_t selector)
{
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t r = 0;

    for (uint32_t i = 0; i < 4; i++) {
        uint32_t from = selector >> (4 * i) & 7;
        r |= (uint32_t)(both >> (8 * from) & 255) << (8 * i);
    }
    return r;
}

uint32_t opaque(uint32_t x)
{
    return x;
}

float exp2_fast(float x)
{
    return exp2f(x);
}

/* ---- between the lanes of a warp ---- */

static void nothing(struct nv_item *first)
{
    (void)first;
}

void warp_sync(void)
{
    nv_together(NV_WARP, nothing);
}

static void exchange(struct nv_item *first)
{
    for (uint32_t l = 0; l < NV_WARP; l++) {
        first[l].lane.out[0] = first[l ^ first[l].lane.in[1]].lane.in[0];
    }
}

float shfl_xor(float v, uint32_t mask)
{
    struct nv_lane *lane = &nv_now()->lane;

    memcpy(&lane->in[0], &v, sizeof(v));
    lane->in[1] = mask % NV_WARP;
    nv_together(NV_WARP, exchange);
    return of_bits(lane->out[0]);
}

static void extremes(struct nv_item *first)
{
    uint32_t most = 0, least = UINT32_MAX;

    for (uint32_t l = 0; l < NV_WARP; l++) {
        const uint32_t v = first[l].lane.in[0];

        most = v > most ? v : most;
        least = v < least ? v : least;
    }
    for (uint32_t l = 0; l < NV_WARP; l++) {
        first[l].lane.out[0] = most;
        first[l].lane.out[1] = least;
    }
}

uint32_t warp_max(uint32_t v)
{
    struct nv_lane *lane = &nv_now()->lane;

    lane->in[0] = v;
    nv_together(NV_WARP, extremes);
    return lane->out[0];
}

uint32_t warp_min(uint32_t v)
{
    struct nv_lane *lane = &nv_now()->lane;

    lane->in[0] = v;
    nv_together(NV_WARP, extremes);
    return lane->out[1];
}

static void turn_over(struct nv_item *first)
{
    for (uint32_t l = 0; l < NV_WARP; l++) {
        uint32_t g = l / 4, c = l % 4, half = g % 2 * 16;
        uint32_t a = first[2 * c * 4 + g / 2].lane.in[0] >> half;
        uint32_t b = first[(2 * c + 1) * 4 + g / 2].lane.in[0] >> half;
        first[l].lane.out[0] = (a & 0xffff) | b << 16;
    }
}

uint32_t movmatrix(uint32_t a)
{
    struct nv_lane *lane = &nv_now()->lane;

    lane->in[0] = a;
    nv_together(NV_WARP, turn_over);
    return lane->out[0];
}

/* ---- from local memory ---- */

static void load_rows(struct nv_item *first)
{
    for (uint32_t l = 0; l < NV_WARP; l++) {
        for (uint32_t m = 0; m < 4; m++) {
            const uint16_t *row = first[m * 8 + l / 4].lane.row;
            memcpy(&first[l].lane.out[m], row + 2 * (l % 4), 4);
        }
    }
}

static void load_columns(struct nv_item *first)
{
    for (uint32_t l = 0; l < NV_WARP; l++) {
        uint32_t g = l / 4, c = l % 4;
        for (uint32_t m = 0; m < 4; m++) {
            const uint16_t *a = first[m * 8 + 2 * c].lane.row;
            const uint16_t *b = first[m * 8 + 2 * c + 1].lane.row;
            first[l].lane.out[m] = a[g] | (uint32_t)b[g] << 16;
        }
    }
}

static void must_be_aligned(const void *p, uint32_t n)
{
    if ((uintptr_t)p % n) {
        nv_fail("an address is not aligned");
    }
}

/* Reads this lane's row here first, so that a report names the caller. */
static void load_matrices(uint32_t *r, const void *row, nv_together_fn fn)
{
    struct nv_lane *lane = &nv_now()->lane;

    must_be_aligned(row, 16);
    memcpy(lane->out, row, 16);
    lane->row = row;
    nv_together(NV_WARP, fn);
    memcpy(r, lane->out, 16);
}

void ldmatrix(uint32_t *r, const void *row)
{
    load_matrices(r, row, load_rows);
}

void ldmatrix_trans(uint32_t *r, const void *row)
{
    load_matrices(r, row, load_columns);
}

/* ---- products ---- */

/* sum [m][n] = a [m, 16] * b [16, n], n at most 256. */
PLAIN static void add_products(double (*sum)[256], float (*a)[16],
                               float (*b)[256], uint32_t m, uint32_t n)
{
    for (uint32_t r = 0; r < m; r++) {
        for (uint32_t j = 0; j < n; j++) {
            sum[r][j] = 0;
        }
        for (uint32_t k = 0; k < 16; k++) {
            for (uint32_t j = 0; j < n; j++) {
                sum[r][j] += (double)(a[r][k] * b[k][j]);
            }
        }
    }
}

static float a_tile[64][16], b_tile[16][256];
static double sums[64][256];

PLAIN static void multiply(struct nv_item *first)
{
    for (uint32_t l = 0; l < NV_WARP; l++) {
        const uint32_t *in = first[l].lane.in, g = l / 4, c = l % 4;
        for (uint32_t i = 0; i < 4; i++) {
            a_tile[g + i % 2 * 8][2 * c + i / 2 * 8] = low(in[i]);
            a_tile[g + i % 2 * 8][2 * c + i / 2 * 8 + 1] = high(in[i]);
        }
        for (uint32_t i = 0; i < 2; i++) {
            b_tile[2 * c + i * 8][g] = low(in[4 + i]);
            b_tile[2 * c + i * 8 + 1][g] = high(in[4 + i]);
        }
    }
    add_products(sums, a_tile, b_tile, 16, 8);
    for (uint32_t l = 0; l < NV_WARP; l++) {
        for (uint32_t i = 0; i < 4; i++) {
            const float f = (float)sums[l / 4 + i / 2 * 8][l % 4 * 2 + i % 2];
            memcpy(&first[l].lane.out[i], &f, sizeof(f));
        }
    }
}

void mma_bf16(float *d, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
              uint32_t b0, uint32_t b1)
{
    struct nv_lane *lane = &nv_now()->lane;
    const uint32_t in[6] = {a0, a1, a2, a3, b0, b1};

    memcpy(lane->in, in, sizeof(in));
    nv_together(NV_WARP, multiply);
    for (uint32_t i = 0; i < 4; i++) {
        d[i] += of_bits(lane->out[i]);
    }
}

/* ---- wgmma ---- */

void wgmma_publish(void)
{
}

void wgmma_begin(void)
{
}

void wgmma_commit(void)
{
}

void wgmma_wait(int32_t n)
{
    (void)n;
}

/* Returns units of 16 bytes from row 0, which the work-item remembers, instead
 * of the instruction's address in local memory. */
uint64_t wgmma_rows(const void *row0)
{
    nv_now()->local_base = row0;
    return 0;
}

/* Returns element i of 16 of a row, from unit `at` on; units are swizzled. */
static float element(const void *base, uint64_t at, uint32_t row, uint32_t i)
{
    const uint64_t unit = at % 8 + i / 8, r = at / 8 + row;
    const char *from = base;
    uint16_t v;

    memcpy(&v, from + (r * 8 + (unit ^ (r % 8))) * 16 + i % 8 * 2, sizeof(v));
    return of_bits((uint32_t)v << 16);
}

/* Warp r / 16 has the rows, lane g * 4 + c of it the elements, as in
 * mma_bf16(). */
PLAIN static void add_to_lanes(struct nv_item *first, uint32_t n)
{
    for (uint32_t r = 0; r < 64; r++) {
        for (uint32_t j = 0; j < n; j++) {
            const uint32_t item = r / 16 * 32 + r % 8 * 4 + j % 8 / 2;
            const uint32_t at = j / 8 * 4 + r % 16 / 8 * 2 + j % 2;
            first[item].lane.d[at] += (float)sums[r][j];
        }
    }
}

static void wgmma(struct nv_item *first, uint32_t n)
{
    const struct nv_lane *lane = &first->lane;
    const void *base = first->local_base;

    for (uint32_t i = 1; i < NV_WARPGROUP; i++) {
        if (first[i].lane.a != lane->a || first[i].lane.b != lane->b) {
            nv_fail("wgmma: work-items have different operands");
        }
    }
    for (uint32_t i = 0; i < 16; i++) {
        for (uint32_t r = 0; r < 64; r++) {
            a_tile[r][i] = element(base, lane->a, r, i);
        }
        for (uint32_t j = 0; j < n; j++) {
            b_tile[i][j] = element(base, lane->b, j, i);
        }
    }
    add_products(sums, a_tile, b_tile, 64, n);
    add_to_lanes(first, n);
}

static void wgmma_with(float *d, uint64_t a, uint64_t b, nv_together_fn act)
{
    struct nv_lane *lane = &nv_now()->lane;

    lane->d = d;
    lane->a = a;
    lane->b = b;
    nv_together(NV_WARPGROUP, act);
}

#define WGMMA_OF(n)                                  \
    static void wgmma_of_##n(struct nv_item *first)  \
    {                                                \
        wgmma(first, n);                             \
    }                                                \
    void wgmma_##n(float *d, uint64_t a, uint64_t b) \
    {                                                \
        wgmma_with(d, a, b, wgmma_of_##n);           \
    }

WGMMA_OF(32)
WGMMA_OF(64)
WGMMA_OF(96)
WGMMA_OF(128)
WGMMA_OF(160)
WGMMA_OF(192)
WGMMA_OF(224)
WGMMA_OF(256)

/* ---- copies ---- */

/* Reads now, and writes at the wait; until then the target holds NaN. */
void copy_async(void *to, const void *from, uint32_t n)
{
    struct nv_item *item = nv_now();
    struct nv_copy *copy;

    if (item->n_copies == item->copies_max) {
        item->copies_max = item->copies_max * 2 + 16;
        item->copies =
            realloc(item->copies, item->copies_max * sizeof(*item->copies));
        if (!item->copies) {
            nv_fail("no memory for copies");
        }
    }
    copy = &item->copies[item->n_copies++];
    *copy = (struct nv_copy){.to = to, .group = item->copy_groups};
    must_be_aligned(to, 16);
    if (n != 0) {
        must_be_aligned(from, 16);
        memcpy(copy->bytes, from, 16);
    }
    memset(to, 0xff, 16);
}

void copy_commit(void)
{
    nv_now()->copy_groups++;
}

void copy_wait(int32_t n)
{
    struct nv_item *item = nv_now();
    uint32_t kept = 0;

    for (uint32_t i = 0; i < item->n_copies; i++) {
        const struct nv_copy *c = &item->copies[i];
        if (c->group + (uint32_t)n < item->copy_groups) {
            memcpy(c->to, c->bytes, 16);
        } else {
            item->copies[kept++] = *c;
        }
    }
    item->n_copies = kept;
}

/* ---- between work-groups ---- */

uint32_t ticket_take(volatile uint32_t *ticket)
{
    return (*ticket)++;
}

void fence_device(void)
{
}

void post(uint64_t *to, uint32_t value, uint32_t number)
{
    *to = (uint64_t)number << 32 | value;
}

/* A reader polls again later; the others run in between. */
uint4 posted(const uint64_t *two)
{
    nv_yield();
    must_be_aligned(two, 16);
    return *(const uint4 *)two;
}

void give_up(void)
{
    nv_fail("a kernel gave up");
}
