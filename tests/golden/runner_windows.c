#include "tests/golden/runner_windows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_PAGE UINT32_MAX

static void die(const char *what)
{
    fprintf(stderr, "runner: %s\n", what);
    abort();
}

static void *must(void *p)
{
    if (p == NULL) {
        die("no memory");
    }
    return p;
}

void windows_open(struct runner *r, uint32_t n)
{
    struct runner_windows *w = &r->windows;

    windows_close(r);
    w->free = must(calloc(n + 1, sizeof *w->free));
    w->refs = must(calloc(r->n_pages + 1, sizeof *w->refs));
}

void windows_close(struct runner *r)
{
    free(r->windows.free);
    free(r->windows.refs);
    r->windows.free = NULL;
    r->windows.refs = NULL;
    r->windows.n_free = 0;
}

void windows_add_page(struct runner *r, uint32_t page)
{
    r->windows.free[r->windows.n_free++] = page;
}

static uint32_t take_page(struct runner *r)
{
    struct runner_windows *w = &r->windows;

    if (w->n_free == 0) {
        die("no window page is free");
    }
    w->refs[w->free[w->n_free - 1]] = 1;
    return w->free[--w->n_free];
}

static void give_page(struct runner *r, uint32_t page)
{
    if (--r->windows.refs[page] == 0) {
        windows_add_page(r, page);
        runner_poison_pages(r, page, 1);
    }
}

static uint32_t *place(const struct run_seq *s, uint32_t table, uint32_t block)
{
    return s->windows + (size_t)table * s->n_blocks + block;
}

static void take_block(struct runner *r, struct run_seq *s, uint32_t block)
{
    for (uint32_t i = 0; i < r->windows.n_tables; i++) {
        *place(s, i, block) = take_page(r);
    }
}

static void give_block(struct runner *r, struct run_seq *s, uint32_t block)
{
    for (uint32_t i = 0; i < r->windows.n_tables; i++) {
        give_page(r, *place(s, i, block));
        *place(s, i, block) = NO_PAGE;
    }
}

/* Returns the first block that the query at a position sees. */
static uint32_t first_block(const struct runner *r, uint32_t position)
{
    uint32_t window = r->w->shape.window;

    return position < window ? 0 : (position + 1 - window) / r->block_tokens;
}

void windows_start(struct runner *r, struct run_seq *s)
{
    size_t n = (size_t)r->windows.n_tables * s->n_blocks;

    s->window_first = s->window_end = 0;
    s->windows = must(calloc(n + 1, sizeof *s->windows));
    for (size_t i = 0; i < n; i++) {
        s->windows[i] = NO_PAGE;
    }
}

void windows_stop(struct runner *r, struct run_seq *s)
{
    for (uint32_t i = s->window_end; i > s->window_first; i--) {
        give_block(r, s, i - 1);
    }
    free(s->windows);
}

void windows_advance(struct runner *r, struct run_seq *s, uint32_t end)
{
    uint32_t first = first_block(r, s->n_done);
    uint32_t last = (end + r->block_tokens - 1) / r->block_tokens;

    if (r->windows.n_tables == 0) {
        return;
    }
    while (!s->keeps_windows && s->window_first < first &&
           s->window_first < s->window_end) {
        give_block(r, s, s->window_first++);
    }
    /* Positions that were skipped have no blocks. */
    if (s->window_end < first) {
        s->window_first = s->window_end = first;
    }
    while (s->window_end < last) {
        take_block(r, s, s->window_end++);
    }
}

void windows_add_tables(struct runner *r, const struct run_seq *s, uint32_t end,
                        struct plan_row *row)
{
    struct plan *p = &r->plan;
    uint32_t last = (end + r->block_tokens - 1) / r->block_tokens;

    if (r->windows.n_tables == 0) {
        return;
    }
    row->window = p->n_blocks;
    row->window_first = first_block(r, s->n_done);
    row->n_window = last - row->window_first;
    runner_check_tables(r, r->windows.n_tables * row->n_window);
    for (uint32_t i = 0; i < r->windows.n_tables; i++) {
        memcpy(p->blocks + p->n_blocks, place(s, i, row->window_first),
               row->n_window * sizeof *p->blocks);
        p->n_blocks += row->n_window;
    }
}

static void copy_block(struct runner *r, const struct run_seq *s,
                       const struct run_seq *of, uint32_t block, bool after)
{
    for (uint32_t i = 0; i < r->windows.n_tables; i++) {
        uint32_t from = *place(of, i, block), to = *place(s, i, block);

        if (after) {
            runner_after(r, from, to, 1);
        } else {
            runner_before(r, from, to, 1);
        }
    }
}

void windows_share(struct runner *r, struct run_seq *s,
                   const struct run_seq *of, uint32_t at, bool after)
{
    uint32_t first = first_block(r, at), part = at / r->block_tokens;

    windows_start(r, s);
    s->keeps_windows = false;
    if (r->windows.n_tables == 0) {
        return;
    }
    if (first < of->window_first || part > of->window_end) {
        die("a window that the other sequence does not hold");
    }
    for (uint32_t b = first; b < part; b++) {
        for (uint32_t i = 0; i < r->windows.n_tables; i++) {
            *place(s, i, b) = *place(of, i, b);
            r->windows.refs[*place(s, i, b)]++;
        }
    }
    s->window_first = first;
    s->window_end = part;
    if (at % r->block_tokens > 0) {
        take_block(r, s, s->window_end++);
        copy_block(r, s, of, part, after);
    }
}

void windows_move(struct runner *r, struct run_seq *s, uint32_t i)
{
    struct runner_windows *w = &r->windows;

    if (i < s->window_first || i >= s->window_end || w->n_free < w->n_tables ||
        w->n_moved + w->n_tables > RUNNER_MOVES_MAX) {
        return;
    }
    for (uint32_t t = 0; t < w->n_tables; t++) {
        uint32_t from = *place(s, t, i), to;

        if (w->refs[from] > 1) {
            continue;
        }
        to = take_page(r);
        runner_before(r, from, to, 1);
        w->moved[w->n_moved++] = from;
        *place(s, t, i) = to;
    }
}

void windows_free_moved(struct runner *r)
{
    while (r->windows.n_moved > 0) {
        give_page(r, r->windows.moved[--r->windows.n_moved]);
    }
}
