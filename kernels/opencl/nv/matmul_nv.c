#include "kernels/opencl/nv/matmul_nv.h"

#include <stdio.h>

#include "common/base/minmax.h"

#define CHUNK 64  /* columns that a warp takes at a time */
#define UNITS 132 /* compute units that the cut assumes */
#define WARPS 24  /* per compute unit: enough to keep memory busy */
#define KEPT  128 /* most KiB in flight to a compute unit */

/* Elements of operands in local memory: all columns of all tokens at once (of 8
 * tokens, of more), or the size of each of two slabs. */
#define WHOLE_OF_8 (4096 * 8)
#define WHOLE      (2048 * 32)
#define SLAB_OF_8  (2048 * 8)
#define SLAB_OF_32 (512 * 32)
#define SLAB       (256 * 128)

/* Registers of a compute unit, and of a work-item for a chunk of 8 rows. */
#define REGISTERS 65536
#define OF_BLOCK  8

/* Most columns that the warps of a split process at a time. */
#define SPLIT_COLS 1024

/* With this many columns a work-group of its own, with more rows, pays. */
#define SHARE_COLS 1024

/* Most columns of the operands of nv_chain_decode.cl, for 64 KiB of local
 * memory. */
#define CHAIN_COLS 32768

static const char *const experts[] = {
    [MATMUL_NV_STORE] = "experts_down",
    [MATMUL_NV_SILU] = "experts_gate_up",
};

static const char *const kernels[] = {
    [MATMUL_NV_STORE] = "matmul_store",
    [MATMUL_NV_SILU] = "matmul_silu",
    [MATMUL_NV_ADD] = "matmul_add",
};

/* Returns the largest power of two that is at most v, and 1 for 0. */
static uint32_t power_below(uint32_t v)
{
    uint32_t p = 1;

    while (p * 2 <= v) {
        p *= 2;
    }
    return p;
}

bool matmul_nv_fits(enum matmul_nv_op op, uint32_t rows, uint32_t cols)
{
    return cols % CHUNK == 0 && rows % (op == MATMUL_NV_SILU ? 16 : 8) == 0 &&
           rows >= 16;
}

/* Returns the columns of a chunk: a warp requests the same number of bytes of a
 * row for all bits. */
static uint32_t chunk_of(uint32_t bits)
{
    return bits > 0 ? CHUNK * 16 / bits : CHUNK;
}

static uint32_t chunks_of(uint32_t cols, uint32_t chunk)
{
    return (cols + chunk - 1) / chunk;
}

/* The last chunk may have fewer columns, but a lane's are in one group. */
bool matmul_nv_fits_group(enum matmul_nv_op op, uint32_t rows, uint32_t cols,
                          uint32_t group)
{
    return matmul_nv_fits(op, rows, cols) && (group == 0 || cols % group == 0);
}

uint32_t matmul_nv_local(uint32_t capability)
{
    switch (capability) {
    case 80:
    case 87:
        return 163u << 10;
    case 90:
    case 100:
    case 101:
    case 103:
    case 110:
        return 227u << 10;
    default: /* 86, 89, 120, 121 */
        return 99u << 10;
    }
}

/* ---- few tokens ---- */

/* The cut of nv_matmul_decode.cl; see its defines. */
struct cut {
    uint32_t tokens, blocks, groups, split, shares, depth, slab, chunk;
    bool whole; /* all operand columns fit in local memory */
};

/* Units for one of several experts, as measured: small work-groups pay where
 * weights need no widening, and four large experts fill the device once. */
#define GATE_UP_UNITS 128
#define DOWN_UNITS    32
#define WIDEN_UNITS   48
#define LARGE_UNITS   33
#define LARGE_ROWS    2880

static uint32_t units_of(const struct matmul_nv_product *of)
{
    if (!of->expert) {
        return UNITS;
    }
    if (of->bits > 0) {
        return of->rows >= LARGE_ROWS ? LARGE_UNITS : WIDEN_UNITS;
    }
    return of->op == MATMUL_NV_SILU ? GATE_UP_UNITS : DOWN_UNITS;
}

/* Returns the blocks of 8 rows per compute unit, if shared out evenly. */
static uint32_t share_of(const struct matmul_nv_product *of)
{
    const uint32_t units = units_of(of);

    return (of->rows / 8 + units - 1) / units;
}

/* Returns how many warps share the columns where there are too few rows for all
 * warps.  Bits depend on the split, so it must not depend on tokens. */
static uint32_t split_of(const struct matmul_nv_product *of, uint32_t chunk)
{
    uint32_t most = min_u32(8, SPLIT_COLS / chunk);
    uint32_t split = power_below(min_u32(WARPS / share_of(of), most));

    while (chunks_of(of->cols, chunk) % split) {
        split /= 2;
    }
    return split;
}

static uint32_t items_of(const struct cut *c)
{
    return c->groups * (c->split / c->shares) * 32;
}

/* Returns how many chunks may be in flight: as many as registers hold, in whole
 * rounds. */
static uint32_t depth_of(const struct cut *c, uint32_t steps, uint32_t most)
{
    uint32_t warps = c->groups * (c->split / c->shares) * c->blocks;
    uint32_t depth = power_below(min_u32(KEPT / warps, most));

    depth = min_u32(depth, steps);
    while (steps % depth) {
        depth--;
    }
    return depth;
}

static bool is_whole(const struct cut *c, uint32_t cols)
{
    return c->tokens == 1 || cols / c->shares * c->tokens <=
                                 (c->tokens == 8 ? WHOLE_OF_8 : WHOLE);
}

/* Returns the most chunks in flight, limited by registers and by slabs. */
static uint32_t depth_most(const struct cut *c, bool many)
{
    const uint32_t step = c->chunk * (c->split / c->shares);

    if (c->tokens <= 8) {
        return c->whole ? 8 : min_u32(8, WHOLE_OF_8 / 8 / step);
    }
    if (c->tokens <= 32) {
        const uint32_t most = many ? 4 : 8 / c->blocks;

        return c->whole ? most : min_u32(most, SPLIT_COLS / step);
    }
    return c->tokens == 128 && c->shares == 1 ? 1 : 2; /* its sums take many
                                                        * registers */
}

/* Returns the columns of the operands in local memory at a time.  There are two
 * such slabs; each holds all chunks in flight, several times that, or a part of
 * it. */
static uint32_t slab_of(const struct cut *c, uint32_t cols)
{
    const uint32_t step = c->chunk * (c->split / c->shares);
    const uint32_t slab = (c->tokens == 8    ? SLAB_OF_8
                           : c->tokens <= 32 ? SLAB_OF_32
                                             : SLAB) /
                          c->tokens;
    const uint32_t fit = max_u32(1, slab / step);
    uint32_t steps = c->depth;

    cols /= c->shares;
    if (c->whole) {
        return cols;
    }
    if (steps <= fit) {
        steps = fit / steps * steps;
    }
    while (c->tokens > 32 && steps > fit) {
        do {
            steps--;
        } while (c->depth % steps);
    }
    return min_u32(steps * step, cols);
}

/* Returns the bytes of local memory: operands, sums of each output, scales. */
static uint64_t decode_bytes(const struct cut *c, uint32_t cols)
{
    const uint64_t slabs = c->slab < cols / c->shares ? 2 : 1;
    const uint64_t outputs = (uint64_t)c->tokens * c->groups * c->blocks * 8;

    return slabs * c->slab * c->tokens * sizeof(uint16_t) +
           (c->shares > 1 ? 0 : outputs * c->split * sizeof(float)) +
           c->tokens * sizeof(float);
}

/* Sets depth and slab.  Operands too large for local memory are fetched in
 * slabs, which become smaller with fewer chunks in flight. */
static void lay_slabs(struct cut *c, const struct matmul_nv_product *of,
                      uint32_t local)
{
    const uint32_t cols = chunks_of(of->cols, c->chunk) * c->chunk;
    const uint32_t steps = cols / c->chunk / c->split;
    const bool many = share_of(of) > WARPS;

    c->depth = depth_of(c, steps, depth_most(c, many));
    c->slab = slab_of(c, cols);
    if (decode_bytes(c, cols) > local && c->whole && c->tokens > 1) {
        c->whole = false;
        c->depth = depth_of(c, steps, depth_most(c, many));
        c->slab = slab_of(c, cols);
    }
    while (decode_bytes(c, cols) > local && c->depth > 1) {
        do {
            c->depth--;
        } while (steps % c->depth);
        c->slab = slab_of(c, cols);
    }
}

static struct cut cut_of(const struct matmul_nv_product *of, uint32_t tokens,
                         uint32_t local)
{
    uint32_t share = share_of(of), waves;
    struct cut c = {.tokens = tokens,
                    .blocks = 1,
                    .shares = 1,
                    .chunk = chunk_of(of->bits)};

    c.split = split_of(of, c.chunk);
    if (of->op == MATMUL_NV_ADD && tokens > 8 && of->cols % c.chunk == 0 &&
        of->cols / c.split >= SHARE_COLS) {
        c.shares = c.split;
    }
    /* Fewer work-groups fetch the operands less often. */
    if (c.tokens > 1 &&
        (share == 1 || c.shares > 1 || c.tokens > 32 ||
         (c.tokens > 8 && of->cols >= 4096 && share <= WARPS))) {
        c.blocks = 2;
    }
    if (share > WARPS && c.tokens <= 32) {
        c.groups = c.tokens == 1 ? 8 : 16;
    } else {
        waves = (share + WARPS - 1) / WARPS;
        c.groups =
            (share * c.shares + waves * c.blocks - 1) / (waves * c.blocks);
    }
    c.whole = is_whole(&c, of->cols);
    lay_slabs(&c, of, local);
    return c;
}

bool matmul_nv_decode(struct matmul_nv *out, const struct matmul_nv_product *of,
                      uint32_t tokens, uint32_t local)
{
    const uint32_t rows = of->rows, cols = of->cols;
    const enum matmul_nv_op op = of->op;
    struct cut c = cut_of(of,
                          tokens == 1    ? 1
                          : tokens <= 8  ? 8
                          : tokens <= 32 ? 32
                          : tokens <= 64 ? 64
                                         : 128,
                          local);

    /* Fewer tokens in a tile need less local memory and give the same bits. */
    while (decode_bytes(&c, cols) > local && c.tokens > 8) {
        c = cut_of(of, c.tokens / 2, local);
    }
    if (decode_bytes(&c, cols) > local) {
        return false;
    }
    *out = (struct matmul_nv){.file = "nv_matmul_decode",
                              .kernel = of->expert ? experts[op] : kernels[op],
                              .items = items_of(&c),
                              .tokens = c.tokens,
                              .shares = c.shares > 1 ? c.shares : 0,
                              .rows = c.groups * c.blocks * 8};
    (void)snprintf(out->defines, sizeof out->defines,
                   "-DN=%u -DK=%u -DEPILOGUE=%d -DTOKENS=%u -DBLOCKS=%u "
                   "-DGROUPS=%u -DSPLIT=%u -DDEPTH=%u -DSLAB=%u -DSHARES=%u",
                   op == MATMUL_NV_SILU ? rows / 2 : rows, cols, (int)op,
                   c.tokens, c.blocks, c.groups, c.split, c.depth, c.slab,
                   c.shares);
    return true;
}

/* ---- one token, all products between two mixers ---- */

/* Registers that a work-item needs besides those for chunks in flight.  Weights
 * with few bits need more of them, and more for each chunk. */
#define BESIDE       44
#define BESIDE_WIDEN 12
#define OF_PAIRS     2

/* Most tiles of a work-group, so that each work-item finishes one output. */
#define TILES 4

/* The cut of one product, where every work-group has the same number of
 * rows. */
struct chain_cut {
    uint32_t groups, split, tiles;
    uint32_t steps; /* chunks of a warp, per tile */
    uint32_t tasks; /* of experts: of a work-group, each of `steps`; else 0 */
};

/* Returns false if the product takes too many tiles. */
static bool cut_chain(struct chain_cut *c, const struct matmul_nv_product *p,
                      uint32_t units)
{
    const uint32_t chunk = chunk_of(p->bits);
    uint32_t blocks;

    if (!matmul_nv_fits(p->op, p->rows, p->cols) || p->cols % chunk != 0) {
        return false;
    }
    blocks = (p->rows / 8 + units - 1) / units;
    c->tasks = 0;
    c->split = split_of(p, chunk);
    c->tiles = (blocks * c->split + WARPS - 1) / WARPS;
    c->groups = (blocks + c->tiles - 1) / c->tiles;
    c->steps = p->cols / chunk / c->split;
    return c->tiles <= TILES;
}

/* Returns the chunks of one product in flight; a tile's last round must be
 * full. */
static uint32_t depth_of_chained(const struct chain_cut *c, uint32_t most)
{
    uint32_t depth = min_u32(most, c->steps);

    while (c->tiles > 1 && c->steps % depth) {
        depth--;
    }
    return depth;
}

/* Returns the most chunks in flight. */
static uint32_t chain_depth(uint32_t items, uint32_t bits)
{
    const uint32_t beside = BESIDE + (bits ? BESIDE_WIDEN : 0);
    const uint32_t each = OF_BLOCK + (bits ? OF_PAIRS : 0);

    return power_below(min_u32((REGISTERS / items / 8 * 8 - beside) / each, 8));
}

/* Most tasks of a warp in a product of experts. */
#define ROUNDS 8

/* Cuts a product of one token's experts into tasks of a chunk's rows; see
 * nv_chain_experts.cl. */
static bool cut_tasks(struct chain_cut *c, const struct matmul_nv_product *p,
                      const struct matmul_nv_route *route, uint32_t units)
{
    const uint32_t chunk = chunk_of(p->bits);
    const bool silu = p->op == MATMUL_NV_SILU;
    const uint32_t blocks = p->rows / 8 * (silu ? route->pairs : 1);

    if (!matmul_nv_fits(p->op, p->rows, p->cols) || p->cols % chunk != 0) {
        return false;
    }
    *c = (struct chain_cut){.groups = (blocks + units - 1) / units,
                            .split = split_of(p, chunk),
                            .tiles = 1};
    c->steps = p->cols / chunk / c->split;
    c->tasks = c->groups * c->split * (silu ? 1 : route->pairs);
    return c->tasks <= WARPS * ROUNDS;
}

/* Returns the chunks of a product of experts in flight: of one task, or of
 * several whole ones. */
static uint32_t depth_of_tasks(const struct chain_cut *c, uint32_t most)
{
    uint32_t depth = min_u32(most, c->steps);

    if (c->steps < most) {
        const uint32_t rounds = (c->tasks + WARPS - 1) / WARPS;

        return min_u32(most / c->steps, rounds) * c->steps;
    }
    while (c->steps % depth) {
        depth--;
    }
    return depth;
}

/* Returns the rows of the router of a work-group. */
static uint32_t routes_of(const struct matmul_nv_route *route, uint32_t units)
{
    return (route->logits + units - 1) / units;
}

/* Returns the most elements of 2 bytes that a work-group keeps. */
static uint32_t widest_of(const struct matmul_nv_product *of, uint32_t n,
                          const struct matmul_nv_route *route, uint32_t units)
{
    const uint32_t hidden = of[0].rows;
    uint32_t widest = 0, beside = 0;

    for (uint32_t i = 0; i < n; i++) {
        widest = max_u32(widest, of[i].cols);
    }
    if (route) {
        widest = max_u32(widest, 3 * hidden + hidden / 4);
        widest = max_u32(widest, route->pairs * of[2].cols);
        beside = routes_of(route, units) * hidden;
    }
    return widest + beside;
}

/* Cuts all products.  Returns false if one cannot be cut, if their bits differ,
 * or if out and down cut rows differently: a work-group keeps its rows of x. */
static bool cut_all(struct chain_cut cuts[4],
                    const struct matmul_nv_product *of, uint32_t n,
                    const struct matmul_nv_route *route, uint32_t units)
{
    for (uint32_t i = 0; i < n; i++) {
        const bool cut = of[i].expert
                             ? cut_tasks(&cuts[i], &of[i], route, units)
                             : cut_chain(&cuts[i], &of[i], units);

        if (!cut || of[i].bits != of->bits) {
            return false;
        }
    }
    return cuts[0].groups * cuts[0].tiles == cuts[2].groups * cuts[2].tiles;
}

/* Returns the work-items per group: of the product with the most warps. */
static uint32_t chain_items(const struct chain_cut *cuts, uint32_t n)
{
    uint32_t warps = 0;

    for (uint32_t i = 0; i < n; i++) {
        warps = max_u32(warps, cuts[i].tasks ? min_u32(cuts[i].tasks, WARPS)
                                             : cuts[i].groups * cuts[i].split);
    }
    return warps * 32;
}

/* Writes the defines, those of experts last. */
static void write_chain(struct matmul_nv *out,
                        const struct matmul_nv_product *of,
                        const struct chain_cut *cuts, uint32_t n,
                        uint32_t routes)
{
    static const char *const names[] = {"OUT", "GATE_UP", "DOWN", "IN"};
    const uint32_t depth = chain_depth(out->items, of->bits);
    uint32_t tiles = 1;
    size_t used;

    for (uint32_t i = 0; i < n; i++) {
        tiles = max_u32(tiles, cuts[i].tiles);
    }
    used = (size_t)snprintf(out->defines, sizeof out->defines,
                            "-DOUT_K=%u -DIN_N=%u -DITEMS=%u -DDEPTH=%u "
                            "-DTILES=%u",
                            of[0].cols, n > 3 ? of[3].rows : 0, out->items,
                            depth, tiles);
    for (uint32_t i = 0; i < n; i++) {
        used += (size_t)snprintf(
            out->defines + used, sizeof out->defines - used,
            " -D%s_CUT=%u,%u,%u,%u", names[i], cuts[i].groups, cuts[i].split,
            cuts[i].tasks ? depth_of_tasks(&cuts[i], depth)
                          : depth_of_chained(&cuts[i], depth),
            cuts[i].tiles);
    }
    if (routes) {
        (void)snprintf(out->defines + used, sizeof out->defines - used,
                       " -DROUTED=__local -DROUTES=%u -DTASKS=%u", routes,
                       max_u32(cuts[1].tasks, cuts[2].tasks));
    }
}

bool matmul_nv_chain(struct matmul_nv *out, const struct matmul_nv_product *of,
                     uint32_t n, const struct matmul_nv_route *route,
                     uint32_t units)
{
    struct chain_cut cuts[4] = {{0}};
    uint32_t items;

    if (!cut_all(cuts, of, n, route, units) ||
        widest_of(of, n, route, units) > CHAIN_COLS) {
        return false;
    }
    items = chain_items(cuts, n);
    /* Each work-item finishes one output. */
    if (cuts[1].tasks && cuts[1].groups * 4 > items) {
        return false;
    }
    *out = (struct matmul_nv){
        .file = route ? "nv_chain_decode+nv_chain_experts" : "nv_chain_decode",
        .kernel = route ? "chain_experts" : "chain_decode",
        .items = items,
        .tokens = 1};
    write_chain(out, of, cuts, n, route ? routes_of(route, units) : 0);
    return true;
}

/* Behind out and down, where a norm follows, there are two elements of a vector
 * and one of its squares; behind gate_up two elements. */
size_t matmul_nv_posts(uint32_t hidden, uint32_t intermediate)
{
    const size_t norm = hidden / 2 + hidden / 8;

    return 2 * norm + intermediate / 2;
}

/* Behind out the elements are float32, one in each. */
size_t matmul_nv_expert_posts(uint32_t hidden, uint32_t expert_dim,
                              const struct matmul_nv_route *route)
{
    const size_t wide = hidden + hidden / 8, norm = hidden / 2 + hidden / 8;
    const size_t gated = (size_t)route->pairs * expert_dim / 2;

    return wide + (route->logits + 1) / 2 * 2 + gated + norm;
}

/* ---- many tokens ---- */

/* Most tokens that are few: the time to read w decides then, so that every
 * compute unit must read a part of it. */
#define FEW 128

/* The widths of a tile of few tokens, and the most stages in its ring. */
#define WIDTH     32
#define WIDEST    256
#define MOST_RING 16
#define LONG_RING 8 /* with rounds of two stages, for fewer barriers */

/* A work-group's tile, the stages of columns in local memory, and how long it
 * occupies a compute unit: measured, relative to 100 for 128 by 256. */
struct tile {
    uint32_t tokens, rows, stages, cost;
};

static const struct tile wgmma_tiles[] = {
    {192, 256, 4, 140},
    {128, 256, 4, 100},
    {128, 128, 6, 57},
    {64, 128, 8, 41},
};
static const struct tile mma_sync_tiles[] = {
    {128, 256, 4, 100},
    {128, 128, 3, 57},
};

/* Returns the bytes of local memory: stages, scales. */
static uint32_t tile_bytes(const struct tile *t)
{
    return t->stages * (t->tokens + t->rows) * CHUNK *
               (uint32_t)sizeof(uint16_t) +
           t->tokens * (uint32_t)sizeof(float);
}

/* Returns the tile that finishes this many tokens soonest; NULL if none
 * fits. */
static const struct tile *best_tile(const struct tile *tiles, size_t n,
                                    uint32_t rows, uint32_t tokens,
                                    uint32_t local)
{
    const struct tile *best = NULL;
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < n; i++) {
        const struct tile *t = &tiles[i];
        const uint64_t groups =
            (uint64_t)((tokens + t->tokens - 1) / t->tokens) *
            ((rows + t->rows - 1) / t->rows);
        const uint64_t time = (groups + UNITS - 1) / UNITS * t->cost;

        if (time < least && tile_bytes(t) <= local) {
            least = time;
            best = t;
        }
    }
    return best;
}

/* Returns the stages of a ring that fills local memory. */
static uint32_t ring_of(const struct tile *t, uint32_t local)
{
    const uint32_t scales = t->tokens * (uint32_t)sizeof(float);
    const uint32_t stage = (t->tokens + t->rows) * CHUNK * 2;

    return min_u32(MOST_RING, (local - min_u32(local, scales)) / stage);
}

/* Returns the tile of few tokens whose work-groups have the fewest bytes to
 * fetch, one after the other: of w as many as fit, of the tokens all. */
static struct tile few_tile(uint32_t rows, uint32_t tokens, uint32_t local)
{
    struct tile best = {.cost = UINT32_MAX};

    for (uint32_t w = WIDTH; w <= WIDEST; w += WIDTH) {
        struct tile t = {.tokens = tokens <= 64 ? 64 : FEW, .rows = w};
        const uint32_t groups = (rows + w - 1) / w;

        t.cost = (groups + UNITS - 1) / UNITS * (t.tokens + w);
        t.stages = ring_of(&t, local);
        if (t.cost < best.cost && t.stages >= 3) {
            best = t;
        }
    }
    return best;
}

/* Returns the tile for about this many tokens; one of 0 stages if none fits. */
static struct tile prefill_tile(const struct matmul_nv_product *of,
                                uint32_t tokens, bool wgmma, uint32_t local)
{
    const struct tile *t;

    if (wgmma && tokens <= FEW) {
        return few_tile(of->rows, tokens, local);
    }
    t = wgmma ? best_tile(wgmma_tiles, sizeof wgmma_tiles / sizeof *wgmma_tiles,
                          of->rows, tokens, local)
              : best_tile(mma_sync_tiles,
                          sizeof mma_sync_tiles / sizeof *mma_sync_tiles,
                          of->rows, tokens, local);
    return t ? *t : (struct tile){0};
}

bool matmul_nv_prefill(struct matmul_nv *out,
                       const struct matmul_nv_product *of, uint32_t tokens,
                       bool wgmma, uint32_t local)
{
    const enum matmul_nv_op op = of->op;
    struct tile tile = prefill_tile(of, tokens, wgmma, local), *t = &tile;
    const uint32_t round = wgmma && tokens <= FEW && t->stages >= LONG_RING &&
                                   of->cols / CHUNK % 2 == 0
                               ? 2
                               : 1;

    if (t->stages == 0) {
        return false;
    }
    t->stages -= t->stages % round;
    *out = (struct matmul_nv){.file = "nv_matmul_prefill",
                              .kernel = kernels[op],
                              .items = wgmma ? t->tokens * 2
                                             : t->tokens * t->rows / 128,
                              .tokens = t->tokens,
                              .rows = t->rows};
    (void)snprintf(out->defines, sizeof out->defines,
                   "-DN=%u -DK=%u -DEPILOGUE=%d -DWGMMA=%d -DTILE_T=%u "
                   "-DTILE_W=%u -DSTAGES=%u -DROUND=%u -DBAND=16",
                   op == MATMUL_NV_SILU ? of->rows / 2 : of->rows, of->cols,
                   (int)op, (int)wgmma, t->tokens, t->rows, t->stages, round);
    return true;
}
