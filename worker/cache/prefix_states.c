/* Checkpoints of the prefix index: where they are wanted, their memory, and
 * reservations.
 *
 * A reservation that prefix_make_room() takes back is still named by a plan.
 * Its memory may be used again, because plans run in order; but it is not
 * reserved again before its prefix_put() or prefix_drop() has come, which would
 * otherwise be taken for those of the new reservation. */
#include <string.h>

#include "common/base/plant.h"
#include "worker/cache/prefix_state.h"

/* Returns the distance of checkpoints on the grid near a position: an eighth of
 * the depth, and never closer than a checkpoint is large. */
static uint32_t grid_at(const struct prefix *x, uint32_t position)
{
    uint64_t size = (uint64_t)x->checkpoint_pages * x->o.block_tokens;
    uint64_t grid = PREFIX_GRID_MIN;

    while (x->unit_blocks > 0 && grid < size) {
        grid *= 2;
    }
    while (grid * 16 <= position) {
        grid *= 2;
    }
    return grid < UINT32_MAX ? (uint32_t)grid : UINT32_MAX / 2 + 1;
}

/* Inserts a position into out[0..n), which is ascending; returns the new n. */
static uint32_t want(uint32_t *out, uint32_t n, uint32_t position)
{
    uint32_t at = n;

    while (at > 0 && out[at - 1] > position) {
        at--;
    }
    if (at > 0 && out[at - 1] == position) {
        return n;
    }
    memmove(out + at + 1, out + at, (n - at) * sizeof *out);
    out[at] = position;
    return n + 1;
}

uint32_t prefix_wants(const struct prefix *x, const struct prefix_hit *hit,
                      uint32_t n, uint32_t *out, uint32_t cap)
{
    uint32_t end, count = 0, grid;

    if (!x->o.on || !x->o.has_states || n <= PREFIX_UNIT || cap == 0) {
        return 0;
    }
    end = (n - 1) / PREFIX_UNIT * PREFIX_UNIT;
    if (end <= hit->n_tokens) {
        return 0;
    }
    out[count++] = end;
    if (hit->branch > hit->n_tokens && hit->branch < n && count < cap) {
        count = want(out, count, hit->branch);
    }
    /* From the deepest on: the nearer to the end, the more it saves. */
    for (uint32_t at = end - 1; count < cap && at > hit->n_tokens; at--) {
        grid = grid_at(x, at);
        at = at / grid * grid;
        if (at <= hit->n_tokens) {
            break;
        }
        count = want(out, count, at);
    }
    return count;
}

/* ---- memory ---- */

static uint8_t *reservation(const struct prefix *x, uint32_t checkpoint)
{
    uint32_t per = x->checkpoint_pages > 0 ? x->checkpoint_pages : 1;

    return &x->reserved[checkpoint / per];
}

static bool take_state(struct prefix *x, uint32_t *checkpoint)
{
    if (x->checkpoint_pages > 0) {
        return pool_cache(x->pool, checkpoint);
    }
    if (x->n_numbers == 0) {
        return false;
    }
    *checkpoint = x->numbers[--x->n_numbers];
    return true;
}

/* Gives a checkpoint back that no other stage has the number of. */
static void give_back(struct prefix *x, uint32_t checkpoint)
{
    if (x->checkpoint_pages > 0) {
        pool_uncache(x->pool, checkpoint);
    } else {
        x->numbers[x->n_numbers++] = checkpoint;
    }
}

void prefix_give_state(struct prefix *x, uint32_t checkpoint)
{
    if (x->watch.gone != NULL) {
        x->watch.gone(x->watch.self, PREFIX_NONE, checkpoint);
    }
    give_back(x, checkpoint);
}

/* ---- reservations ---- */

/* Takes a free checkpoint that no earlier reservation names. */
static bool reserve(struct prefix *x, uint32_t *checkpoint)
{
    uint32_t others[PREFIX_TAKEN_BACK_MAX], n = 0;
    bool ok = true;

    while ((ok = n < PREFIX_TAKEN_BACK_MAX && take_state(x, checkpoint)) &&
           *reservation(x, *checkpoint) != RESERVED_NOT) {
        others[n++] = *checkpoint;
    }
    while (n > 0) {
        give_back(x, others[--n]);
    }
    if (!ok) {
        return false;
    }
    *reservation(x, *checkpoint) = RESERVED;
    x->n_reserved++;
    if (x->watch.reserved != NULL) {
        x->watch.reserved(x->watch.self, *checkpoint);
    }
    return true;
}

/* Returns whether evicting everything would free a checkpoint. */
static bool can_free(const struct prefix *x)
{
    struct pool_account a = pool_pages(x->pool);

    return (uint64_t)a.free + a.cached >=
           ((uint64_t)x->n_reserved + 1) * x->checkpoint_pages;
}

bool prefix_reserve(struct prefix *x, uint32_t *checkpoint)
{
    static const struct pool_need one = {{0, 0, 1}};

    if (!x->o.on || !x->o.has_states || x->most_checkpoints == 0 ||
        !can_free(x)) {
        return false;
    }
    x->walk++;
    return prefix_free_state(x) && prefix_free_pages(x, &one) &&
           reserve(x, checkpoint);
}

bool prefix_reserve_free(struct prefix *x, uint32_t *checkpoint)
{
    static const struct pool_need one = {{0, 0, 1}};

    return x->o.on && x->o.has_states &&
           x->figures.n_checkpoints + x->n_reserved < x->most_checkpoints &&
           prefix_has_room(x, &one) && reserve(x, checkpoint);
}

/* Ends a reservation.  Returns false if it was taken back. */
static bool unreserve(struct prefix *x, uint32_t checkpoint)
{
    uint8_t *r = reservation(x, checkpoint);
    bool mine = *r == RESERVED;

    if (*r == RESERVED_NOT) {
        pool_violation(x->pool, "put-of-what-is-not-reserved", POOL_CHECKPOINTS,
                       checkpoint);
        return false;
    }
    *r = RESERVED_NOT;
    x->n_reserved -= mine;
    return mine;
}

void prefix_put(struct prefix *x, uint32_t node, uint32_t checkpoint)
{
    if (!unreserve(x, checkpoint)) {
        return;
    }
    if (PLANT(CHECKPOINT_ASTRAY) && node != PREFIX_NONE) {
        node = x->nodes[node].parent;
    }
    if (node != PREFIX_NONE && x->nodes[node].depth > 0 &&
        x->nodes[node].checkpoint == SLOT_NONE) {
        prefix_mark(x, node);
        if (prefix_free_share(x, x->nodes[node].tenant, x->checkpoint_pages)) {
            prefix_set_checkpoint(x, node, checkpoint);
            return;
        }
    }
    prefix_give_state(x, checkpoint);
}

void prefix_drop(struct prefix *x, uint32_t checkpoint)
{
    if (unreserve(x, checkpoint)) {
        prefix_give_state(x, checkpoint);
    }
}

void prefix_take_back(struct prefix *x, const struct pool_need *need)
{
    uint32_t per = x->checkpoint_pages > 0 ? x->checkpoint_pages : 1;

    for (uint32_t i = 0; x->n_reserved > 0 && !prefix_has_room(x, need); i++) {
        if (x->reserved[i] == RESERVED) {
            x->reserved[i] = RESERVED_TAKEN_BACK;
            x->n_reserved--;
            prefix_give_state(x, i * per);
        }
    }
}
