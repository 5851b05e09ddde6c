#include "client/load/plan/sessions.h"

#include <stddef.h>

_Static_assert(TRACE_TOKENS_MAX == PLAN_PIECES_MAX * TRACE_BLOCK,
               "the blocks of a row are pieces");

/* Seeds of different things must differ. */
enum purpose { LENGTHS, OWN, PREFIX, BLOCK, THINK };

/* A session as it grows. */
struct tree {
    const struct recipe *recipe;
    struct plan_session *session;
    struct draw draw;
    uint64_t own;                  /* seed of own pieces */
    uint32_t ends[PLAN_TURNS_MAX]; /* tokens of a prompt and its output */
};

static uint64_t seed_of(const struct recipe *r, enum purpose what,
                        uint64_t which)
{
    return draw_mix(draw_mix(r->seed, what), which);
}

static void begin(struct tree *t, const struct recipe *r,
                  struct plan_session *s)
{
    t->recipe = r;
    t->session = s;
    t->own = seed_of(r, OWN, s->content);
    draw_seed(&t->draw, seed_of(r, LENGTHS, s->content));
    s->n_turns = 0;
    s->n_pieces = 0;
}

static uint32_t scaled(double n, double scale)
{
    double x = n * scale;

    return x < 1 ? 1 : (uint32_t)x;
}

static uint32_t tokens(struct tree *t, const struct spread *s)
{
    return scaled((double)spread_draw(s, &t->draw), t->recipe->scale);
}

static uint32_t room(const struct tree *t, uint32_t used)
{
    uint32_t context = t->recipe->context;

    if (context == 0) {
        return UINT32_MAX - used;
    }
    return context > used ? context - used : 0;
}

static void add_piece(struct plan_session *s, uint64_t seed, uint32_t n)
{
    s->pieces[s->n_pieces++] = (struct plan_piece){.seed = seed, .n = n};
}

/* Adds a turn with an own piece.  `used` tokens precede it, and its first
 * pieces may be there.  An output keeps its length, at the cost of its prompt.
 * Returns false if nothing fits. */
static bool add_turn(struct tree *t, struct plan_turn turn, uint32_t used,
                     uint32_t n_own)
{
    struct plan_session *s = t->session;
    uint32_t left = room(t, used);

    if (left < 2) {
        return false;
    }
    if (turn.max_tokens > left - 1) {
        turn.max_tokens = left - 1;
    }
    if (n_own > left - turn.max_tokens) {
        n_own = left - turn.max_tokens;
    }
    add_piece(s, draw_mix(t->own, s->n_turns), n_own);
    turn.n_pieces = s->n_pieces - turn.first_piece;
    turn.n_new += n_own;
    t->ends[s->n_turns] = used + n_own + turn.max_tokens;
    s->turns[s->n_turns++] = turn;
    return true;
}

/* ---- drawn ---- */

static void add_root(struct tree *t)
{
    const struct recipe *r = t->recipe;
    struct plan_turn turn = {.parent = -1};
    uint32_t own = tokens(t, &r->prompt);
    uint32_t prefix = r->prefix > 0 ? scaled(r->prefix, r->scale) : 0;

    turn.max_tokens = tokens(t, &r->output);
    if (prefix > 0 && room(t, prefix) >= 2) {
        add_piece(t->session,
                  seed_of(r, PREFIX, draw_below(&t->draw, r->n_prefixes)),
                  prefix);
        turn.n_system = 1;
        turn.n_new = prefix;
    }
    (void)add_turn(t, turn, turn.n_new, own);
}

static void add_children(struct tree *t, uint32_t parent, uint32_t n_turns)
{
    const struct recipe *r = t->recipe;
    bool branches = r->branch > 0 && draw_unit(&t->draw) < r->branch;
    uint32_t n = branches ? r->n_branches : 1;
    int64_t think_us = spread_draw(&r->turn_think, &t->draw);

    for (uint32_t i = 0; i < n && t->session->n_turns < n_turns; i++) {
        struct plan_turn turn = {.parent = (int32_t)parent,
                                 .think_us = think_us,
                                 .first_piece = t->session->n_pieces};
        uint32_t own = tokens(t, &r->turn_prompt);

        turn.max_tokens = tokens(t, &r->output);
        if (!add_turn(t, turn, t->ends[parent], own)) {
            return;
        }
    }
}

/* The tree grows in order of depth until it has its number of turns. */
void sessions_draw(const struct recipe *r, struct plan_session *s)
{
    struct tree t;
    uint32_t n_turns = 1;

    begin(&t, r, s);
    if (r->has_turns) {
        n_turns = (uint32_t)spread_draw(&r->turns, &t.draw);
    }
    add_root(&t);
    for (uint32_t i = 0; i < s->n_turns && s->n_turns < n_turns; i++) {
        add_children(&t, i, n_turns);
    }
}

/* ---- traces ---- */

/* Scaled boundaries, not scaled sizes, so that the sum is exact.  A block keeps
 * its boundaries in all prompts that share it, as it has the same place. */
static uint32_t boundary(const struct recipe *r, uint64_t n)
{
    return (uint32_t)((double)n * r->scale);
}

static void add_block(struct plan_session *s, uint64_t seed, uint32_t from,
                      uint32_t to)
{
    if (to > from) {
        add_piece(s, seed, to - from);
    }
}

void sessions_replay(const struct recipe *r, const struct trace *t,
                     const struct trace_row *row, struct plan_session *s)
{
    uint32_t n = scaled(row->n_prompt, r->scale);
    uint32_t out = scaled(row->n_output, r->scale);
    uint32_t at = 0;
    uint64_t own = draw_mix(seed_of(r, OWN, s->content), 0);

    if (r->context > 0 && out > r->context - 1) {
        out = r->context - 1;
    }
    if (r->context > 0 && n > r->context - out) {
        n = r->context - out;
    }
    s->n_pieces = 0;
    for (uint32_t i = 0; i < row->n_blocks && at < n; i++) {
        uint32_t to = boundary(r, (i + UINT64_C(1)) * TRACE_BLOCK);

        to = to < n ? to : n;
        add_block(s, seed_of(r, BLOCK, t->blocks[row->first_block + i]), at,
                  to);
        at = to;
    }
    add_block(s, own, at, n);
    s->turns[0] = (struct plan_turn){
        .parent = -1, .n_pieces = s->n_pieces, .n_new = n, .max_tokens = out};
    s->n_turns = 1;
}

/* ---- datasets ---- */

static uint32_t output_of(struct tree *t, const struct dataset_row *row,
                          const struct plan_entry *entry)
{
    uint32_t n = row->max_tokens;
    uint32_t left = room(t, 0);

    if (n == 0) {
        n = (uint32_t)spread_draw(&t->recipe->output, &t->draw);
    }
    left = entry->n_ids < left ? left - (uint32_t)entry->n_ids : 1;
    return n < left ? n : left;
}

void sessions_read(const struct recipe *r, const struct dataset *d,
                   const struct dataset_row *row, struct plan_session *s)
{
    struct tree t;
    uint32_t n = row->n;

    begin(&t, r, s);
    if (r->has_turns) {
        uint32_t most = (uint32_t)spread_draw(&r->turns, &t.draw);

        n = n < most ? n : most;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct plan_entry *entry = &d->entries[row->first + i];

        s->turns[i] = (struct plan_turn){
            .parent = (int32_t)i - 1,
            .think_us = i > 0 ? spread_draw(&r->turn_think, &t.draw) : 0,
            .entry = entry,
            .max_tokens = output_of(&t, row, entry),
        };
    }
    s->n_turns = n;
}

int64_t sessions_think(const struct recipe *r, uint64_t number)
{
    struct draw d;

    draw_seed(&d, seed_of(r, THINK, number));
    return spread_draw(&r->think, &d);
}
