/* sluicectl_logprobs.c - generate --logprobs: a table of the tokens, printed
 * after the text.
 *
 *     INDEX  TOKEN  LOGPROB  TEXT     BEST
 *         0    585  -0.0412  " Lily"  " Lily" -0.0412  " Tim" -3.9012
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/columns.h"
#include "client/ctl/escape.h"
#include "client/ctl/sluicectl_generate.h"
#include "common/base/memory.h"
#include "common/base/utf8.h"
#include "common/sampling/sampling.h"
#include "proto/inference.pb-c.h"

#define PIECE_BYTES  24 /* bytes of a token's text that are shown */
#define PIECE_TEXT   (PIECE_BYTES * ESCAPE_GROWTH + 8)
#define PIECES_ASKED 64 /* Detokenize calls in progress at once */

/* The tokens of one choice, each followed by the n_top likeliest at its
 * position. */
struct column {
    struct token_logprob *items; /* [n, 1 + n_top] */
    size_t n, capacity;
};

struct ctl_logprobs {
    uint32_t n_choices, n_top;
    struct column choices[]; /* [n_choices] */
};

struct ctl_logprobs *ctl_logprobs_new(uint32_t n_choices, uint32_t n_top)
{
    struct ctl_logprobs *l =
        memory_must(calloc(1, sizeof *l + n_choices * sizeof l->choices[0]));

    l->n_choices = n_choices;
    l->n_top = n_top;
    return l;
}

void ctl_logprobs_free(struct ctl_logprobs **lp)
{
    struct ctl_logprobs *l = *lp;

    *lp = NULL;
    if (l == NULL) {
        return;
    }
    for (uint32_t i = 0; i < l->n_choices; i++) {
        free(l->choices[i].items);
    }
    free(l);
}

static void reserve_rows(struct column *column, size_t n, size_t width)
{
    if (column->capacity - column->n < n) {
        column->capacity = 2 * (column->n + n);
        column->items = memory_must(realloc(
            column->items, column->capacity * width * sizeof *column->items));
    }
}

void ctl_logprobs_add(struct ctl_logprobs *l, const struct client_chunk *chunk)
{
    struct column *column = &l->choices[chunk->choice];
    struct token_logprob *at;

    if (chunk->n_tokens == 0) {
        return;
    }
    reserve_rows(column, chunk->n_tokens, 1 + l->n_top);
    at = column->items + column->n * (1 + l->n_top);
    for (size_t i = 0; i < chunk->n_tokens; i++) {
        *at++ = (struct token_logprob){chunk->tokens[i], chunk->logprobs[i]};
        for (size_t k = i * l->n_top; k < (i + 1) * l->n_top; k++) {
            *at++ = (struct token_logprob){chunk->top_tokens[k],
                                           chunk->top_logprobs[k]};
        }
    }
    column->n += chunk->n_tokens;
}

/* ---- the texts of the tokens ---- */

struct pieces;

/* The text of one token. */
struct piece {
    uint32_t id;
    bool known;
    char text[PIECE_TEXT]; /* in quotes, on one line */
    struct pieces *pieces; /* the set that this piece belongs to */
};

struct pieces {
    struct piece *items; /* [n] in ascending order of id */
    size_t n, n_asked;   /* n_asked: calls in progress */
    bool failed;         /* a call failed: begin no more */
};

static int by_id(const void *a, const void *b)
{
    uint32_t x = ((const struct piece *)a)->id;
    uint32_t y = ((const struct piece *)b)->id;

    return (x > y) - (x < y);
}

/* Collects all tokens of l, each once, sorted for bsearch(). */
static void collect_tokens(struct pieces *p, const struct ctl_logprobs *l)
{
    size_t n = 0, width = 1 + l->n_top;

    for (uint32_t c = 0; c < l->n_choices; c++) {
        n += l->choices[c].n * width;
    }
    *p = (struct pieces){.items = calloc(n + 1, sizeof *p->items)};
    assert(p->items != NULL);
    for (uint32_t c = 0; c < l->n_choices; c++) {
        for (size_t i = 0; i < l->choices[c].n * width; i++) {
            p->items[p->n++].id = l->choices[c].items[i].token;
        }
    }
    qsort(p->items, p->n, sizeof *p->items, by_id);
    n = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (i == 0 || p->items[i].id != p->items[n - 1].id) {
            p->items[n++].id = p->items[i].id;
        }
    }
    p->n = n;
}

/* Stores the text in quotes, cut after whole characters. */
static void take_piece(struct piece *piece, ProtobufCBinaryData text)
{
    size_t n = 0, used;
    char *at = piece->text;

    while (n < text.len && (used = utf8_length(text.data + n, text.len - n)) &&
           n + used <= PIECE_BYTES) {
        n += used;
    }
    *at++ = '"';
    at += escape_line((const char *)text.data, n, at);
    strcpy(at, n < text.len ? "...\"" : "\"");
    piece->known = true;
}

static void on_piece(void *arg, enum status status,
                     const ProtobufCMessage *reply, const struct error *e,
                     uint32_t retry_after_ms)
{
    struct piece *piece = arg;

    (void)e;
    (void)retry_after_ms;
    piece->pieces->n_asked--;
    if (status == ST_OK) {
        take_piece(piece, ((const Sluice__V1__DetokenizeReply *)reply)->text);
    } else {
        piece->pieces->failed = true;
    }
}

static void request_piece(const struct ctl *c, struct pieces *p,
                          struct piece *piece)
{
    static const struct client_call_ops ops = {NULL, on_piece};
    Sluice__V1__DetokenizeRequest r = SLUICE__V1__DETOKENIZE_REQUEST__INIT;
    const char *model = c->o.model == NULL ? "" : c->o.model;
    uint32_t ms = c->o.timeout > 0 ? (uint32_t)c->o.timeout : CLIENT_TIMEOUT_MS;

    r.model = (ProtobufCBinaryData){strlen(model), (uint8_t *)(uintptr_t)model};
    r.n_tokens = 1;
    r.tokens = &piece->id;
    piece->pieces = p;
    p->n_asked++;
    if (client_begin(c->client, METHOD_INFERENCE_DETOKENIZE, &r.base, ms, &ops,
                     piece, NULL) != ST_OK) {
        p->n_asked--;
        p->failed = true;
    }
}

/* Requests the texts, PIECES_ASKED at a time, and waits for all replies.  After
 * a failure the table shows "?" for the rest: it is worth printing without. */
static void request_pieces(const struct ctl *c, struct pieces *p)
{
    for (size_t i = 0; (i < p->n && !p->failed) || p->n_asked > 0;) {
        if (i < p->n && !p->failed && p->n_asked < PIECES_ASKED) {
            request_piece(c, p, &p->items[i++]);
        } else {
            client_turn(c->client, CLIENT_TIMEOUT_MS);
        }
    }
}

static const char *text_of(const struct pieces *p, uint32_t id)
{
    struct piece key = {.id = id};
    const struct piece *found =
        p->n == 0 ? NULL : bsearch(&key, p->items, p->n, sizeof key, by_id);

    return found != NULL && found->known ? found->text : "?";
}

/* ---- the table ---- */

/* Adds the cell of the n likeliest tokens.  Tokens that do not fit into a cell
 * are left out. */
static void add_best(struct columns *t, const struct pieces *p, bool ids,
                     const struct token_logprob *best, uint32_t n)
{
    char text[COLUMNS_CELL_MAX] = "";
    size_t at = 0;

    for (uint32_t i = 0; i < n && at < sizeof text - PIECE_TEXT - 32; i++) {
        const char *gap = i > 0 ? "  " : "";
        double logprob = (double)best[i].logprob;

        at += (size_t)(ids ? snprintf(text + at, sizeof text - at, "%s%u %.4f",
                                      gap, best[i].token, logprob)
                           : snprintf(text + at, sizeof text - at, "%s%s %.4f",
                                      gap, text_of(p, best[i].token), logprob));
    }
    columns_cell(t, "%s", text);
}

static void print_column(const struct column *column, const struct pieces *p,
                         bool ids, uint32_t n_top)
{
    struct columns t;
    const char *best = n_top > 0 ? "BEST" : NULL;

    columns_init(&t, "INDEX", "TOKEN", "LOGPROB", ids ? best : "TEXT",
                 ids ? NULL : best, NULL);
    for (size_t i = 0; i < column->n; i++) {
        const struct token_logprob *row = column->items + i * (1 + n_top);

        columns_cell(&t, "%zu", i);
        columns_cell(&t, "%u", row->token);
        columns_cell(&t, "%.4f", (double)row->logprob);
        if (!ids) {
            columns_cell(&t, "%s", text_of(p, row->token));
        }
        if (n_top > 0) {
            add_best(&t, p, ids, row + 1, n_top);
        }
    }
    columns_print(&t, stderr);
    columns_fini(&t);
}

void ctl_logprobs_print(const struct ctl *c, const struct ctl_logprobs *l)
{
    struct pieces p = {0};

    if (!c->o.ids) {
        collect_tokens(&p, l);
        request_pieces(c, &p);
    }
    for (uint32_t i = 0; i < l->n_choices; i++) {
        if (l->n_choices > 1) {
            fprintf(stderr, "%s== logprobs of choice %u ==\n",
                    i > 0 ? "\n" : "", i);
        }
        print_column(&l->choices[i], &p, c->o.ids, l->n_top);
    }
    free(p.items);
}
