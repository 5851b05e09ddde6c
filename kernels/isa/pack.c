#include "kernels/isa/pack.h"

#include <string.h>

#define K4_BYTES 20
#define K6_BYTES 18

static size_t row_bytes(const struct quantised *w)
{
    return (size_t)w->k * w->bits / 8;
}

size_t pack_bytes(const struct quantised *w)
{
    size_t planes = w->format == WEIGHT_AFFINE ? 2 : 1;

    return PACK_ROWS * (row_bytes(w) + planes * quantised_scale_bytes(w));
}

/* Moves n items of `unit` bytes between a row's own order and that of a group,
 * where they are `step` items apart. */
static void place(uint8_t *group, uint8_t *row, uint32_t r, size_t n,
                  size_t unit, bool packs)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t *at = group + (i * PACK_ROWS + r) * unit;

        if (packs) {
            memcpy(at, row + i * unit, unit);
        } else {
            memcpy(row + i * unit, at, unit);
        }
    }
}

/* ---- codes ---- */

/* Moves four nibbles to the lower halves of four bytes. */
static uint32_t spread(uint32_t v)
{
    v = (v | v << 8) & 0x00ff00ffu;
    return (v | v << 4) & 0x0f0f0f0fu;
}

static uint32_t gather(uint32_t v)
{
    v = (v | v >> 4) & 0x00ff00ffu;
    return (v | v >> 8) & 0x0000ffffu;
}

static void codes4(uint8_t *group, uint8_t *row, uint32_t r, uint32_t k,
                   bool packs)
{
    for (uint32_t i = 0; i < k / 8; i++) {
        uint8_t *at = group + (size_t)i * 32 + (size_t)r * 4;
        uint32_t v;

        memcpy(&v, packs ? row + (size_t)i * 4 : at, 4);
        if (packs) {
            v = spread(v & 0xffff) | spread(v >> 16) << 4;
            memcpy(at, &v, 4);
        } else {
            v = gather(v & 0x0f0f0f0fu) | gather(v >> 4 & 0x0f0f0f0fu) << 16;
            memcpy(row + (size_t)i * 4, &v, 4);
        }
    }
}

static void codes8(uint8_t *group, uint8_t *row, uint32_t r, uint32_t k,
                   bool packs)
{
    for (uint32_t i = 0; i < k / 4; i++) {
        uint8_t *at = group + (size_t)i * 32 + (size_t)r * 4;
        uint32_t v;

        memcpy(&v, packs ? row + (size_t)i * 4 : at, 4);
        v ^= 0x80808080u;
        memcpy(packs ? at : row + (size_t)i * 4, &v, 4);
    }
}

/* Moves 16 codes of 6 bits, 12 bytes of a row. */
static void sixteen_pack(uint8_t *at, const uint8_t *row)
{
    uint8_t q[16];

    for (uint32_t i = 0; i < 16; i++) {
        uint32_t bit = i * 6, v = row[bit / 8];

        v |= bit % 8 > 2 ? (uint32_t)row[bit / 8 + 1] << 8 : 0;
        q[i] = v >> bit % 8 & 63;
    }
    for (uint32_t j = 0; j < 4; j++) {
        at[j] = (uint8_t)((q[j] & 15) | (q[4 + j] & 15) << 4);
        at[32 + j] = (uint8_t)((q[8 + j] & 15) | (q[12 + j] & 15) << 4);
        at[64 + j] = (uint8_t)(q[j] >> 4 | q[4 + j] >> 4 << 2 |
                               q[8 + j] >> 4 << 4 | q[12 + j] >> 4 << 6);
    }
}

static void sixteen_unpack(uint8_t *row, const uint8_t *at)
{
    memset(row, 0, 12);
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t j = i % 4, bit = i * 6;
        uint32_t low = at[i / 8 * 32 + j] >> i / 4 % 2 * 4 & 15;
        uint32_t q = low | (at[64 + j] >> i / 4 * 2 & 3u) << 4;

        row[bit / 8] |= (uint8_t)(q << bit % 8);
        if (bit % 8 > 2) {
            row[bit / 8 + 1] |= (uint8_t)(q >> (8 - bit % 8));
        }
    }
}

static void codes6(uint8_t *group, uint8_t *row, uint32_t r, uint32_t k,
                   bool packs)
{
    for (uint32_t i = 0; i < k / 16; i++) {
        uint8_t *at = group + (size_t)i * 96 + (size_t)r * 4;

        if (packs) {
            sixteen_pack(at, row + (size_t)i * 12);
        } else {
            sixteen_unpack(row + (size_t)i * 12, at);
        }
    }
}

/* ---- scales ---- */

/* A record of k4 is pairs (s, b), then d and m. */
static void record4(uint8_t *group, uint8_t *row, uint32_t r, bool packs)
{
    place(group, row + 16, r, 2, 2, packs);
    for (uint32_t i = 0; i < 8; i++) {
        uint8_t *s = group + 32 + i / 2 * 16 + r * 2 + i % 2;

        if (packs) {
            s[0] = row[2 * i];
            s[64] = row[2 * i + 1];
        } else {
            row[2 * i] = s[0];
            row[2 * i + 1] = s[64];
        }
    }
}

/* A record of k6 is 16 bytes s, then d. */
static void record6(uint8_t *group, uint8_t *row, uint32_t r, bool packs)
{
    place(group, row + 16, r, 1, 2, packs);
    place(group + 16, row, r, 8, 2, packs);
}

static void scales_of(const struct quantised *w, uint8_t *group, uint8_t *row,
                      uint32_t r, bool packs)
{
    const uint32_t records = w->k / 256;
    size_t bytes = quantised_scale_bytes(w);

    if (w->format == WEIGHT_K4) {
        for (uint32_t i = 0; i < records; i++) {
            record4(group + (size_t)i * PACK_ROWS * K4_BYTES,
                    row + (size_t)i * K4_BYTES, r, packs);
        }
    } else if (w->format == WEIGHT_K6) {
        for (uint32_t i = 0; i < records; i++) {
            record6(group + (size_t)i * PACK_ROWS * K6_BYTES,
                    row + (size_t)i * K6_BYTES, r, packs);
        }
    } else {
        uint32_t n = w->k / w->group;

        place(group, row, r, n, bytes / n, packs);
    }
}

/* ---- rows and groups ---- */

/* Moves row r between `row` and `group`, both in the planes of their own. */
static void move(const struct quantised *group, const struct quantised *row,
                 uint32_t r, bool packs)
{
    /* One direction writes to the one, the other to the other. */
    uint8_t *g = (uint8_t *)(uintptr_t)group->data;
    uint8_t *o = (uint8_t *)(uintptr_t)row->data;

    if (row->bits == 4) {
        codes4(g, o, r, row->k, packs);
    } else if (row->bits == 8) {
        codes8(g, o, r, row->k, packs);
    } else {
        codes6(g, o, r, row->k, packs);
    }
    scales_of(row, (uint8_t *)(uintptr_t)group->scales,
              (uint8_t *)(uintptr_t)row->scales, r, packs);
    if (row->biases != NULL) {
        scales_of(row, (uint8_t *)(uintptr_t)group->biases,
                  (uint8_t *)(uintptr_t)row->biases, r, packs);
    }
}

/* Returns w with its planes for `rows` rows at `to`. */
static struct quantised planes_at(const struct quantised *w, uint32_t rows,
                                  void *to)
{
    struct quantised out = *w;
    uint8_t *at = to;

    out.data = at;
    at += rows * row_bytes(w);
    out.scales = at;
    at += rows * quantised_scale_bytes(w);
    out.biases = w->biases != NULL ? at : NULL;
    return out;
}

struct quantised pack_group(const struct quantised *w, uint32_t n, void *to)
{
    struct quantised out = planes_at(w, PACK_ROWS, to);

    if (n < PACK_ROWS) {
        memset(to, 0, pack_bytes(w));
    }
    for (uint32_t r = 0; r < n; r++) {
        struct quantised row = quantised_from(w, r);

        move(&out, &row, r, true);
    }
    return out;
}

struct quantised pack_row(const struct quantised *group, uint32_t row, void *to)
{
    struct quantised out = planes_at(group, 1, to);

    move(group, &out, row, false);
    return out;
}

void pack_in_place(const struct tensor *t, uint32_t first, uint32_t n_groups,
                   void *scratch)
{
    for (uint32_t i = first; i < first + n_groups; i++) {
        struct quantised w = quantised_rows(t, i * PACK_ROWS);
        struct quantised p = pack_group(&w, PACK_ROWS, scratch);
        size_t scales = PACK_ROWS * quantised_scale_bytes(&w);

        memcpy((void *)(uintptr_t)w.data, p.data, PACK_ROWS * row_bytes(&w));
        memcpy((void *)(uintptr_t)w.scales, p.scales, scales);
        if (w.biases != NULL) {
            memcpy((void *)(uintptr_t)w.biases, p.biases, scales);
        }
    }
}
