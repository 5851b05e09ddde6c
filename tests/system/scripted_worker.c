/* scripted_worker - a worker whose answers are written in the prompts.
 *
 *     scripted_worker ENDPOINT NAME MODEL_DIR STEP_MS
 *
 * It runs the worker's own core over ZeroMQ with the tokenizer of MODEL_DIR,
 * and computes nothing.  The answer to a prompt is the text between the last
 * "[[reply:" and the next ":reply]]" in it, and then the model's end of
 * sequence; the end of sequence alone without these marks.  So a test chooses
 * each token that a client, a gateway and a router then handle: tool calls,
 * reasoning, broken characters.  A step takes STEP_MS.  Ends on SIGTERM. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/loop.h"
#include "text/assets.h"
#include "text/detokenizer.h"
#include "worker/worker_core.h"

#define ROWS         64 /* sequences at once */
#define CONTEXT      4096
#define BLOCK_TOKENS 32
#define PAGES        (ROWS + ROWS * CONTEXT / BLOCK_TOKENS)
#define BEGIN        "[[reply:"
#define END          ":reply]]"
#define LOGPROB      -0.5f /* of each chosen token */

/* The state of one sequence, in a slot or a checkpoint. */
struct script {
    uint32_t prompt[CONTEXT];
    uint32_t n_prompt;
    uint32_t *reply; /* [n_reply]; NULL: not yet read from the prompt */
    size_t n_reply;
};

/* node_ops and engine in one, around the worker's core. */
struct scripted {
    struct engine engine;
    struct worker_core *core;
    struct text_assets *assets;
    uint32_t eos;
    int64_t step_us;
    const struct plan *plan;       /* in flight, or NULL */
    int64_t since_us;              /* of the plan */
    struct script *scripts[PAGES]; /* NULL: a block, or nothing yet */
};

static void fail(const char *what)
{
    fprintf(stderr, "scripted_worker: %s\n", what);
    exit(1);
}

/* ---- scripts ---- */

/* Returns the text of the prompt, with NUL; the caller's. */
static char *prompt_text(const struct tokenizer *t, const struct script *s)
{
    char *text = calloc(s->n_prompt + 2, detokenizer_max(t));
    struct detokenizer d;
    size_t n = 0;

    if (text == NULL) {
        fail("out of memory");
    }
    detokenizer_init(&d, t, 0);
    for (uint32_t i = 0; i < s->n_prompt; i++) {
        n += detokenizer_push(&d, s->prompt[i], text + n);
    }
    detokenizer_finish(&d, text + n);
    return text;
}

static const char *find_last(const char *text, const char *mark)
{
    const char *found = NULL;

    for (const char *p = text; (p = strstr(p, mark)) != NULL; p++) {
        found = p;
    }
    return found;
}

static void read_reply(const struct tokenizer *t, struct script *s)
{
    char *text = prompt_text(t, s);
    const char *begin = find_last(text, BEGIN), *end;
    size_t len = 0, cap;
    struct error e;

    if (begin != NULL) {
        begin += strlen(BEGIN);
        end = strstr(begin, END);
        len = end != NULL ? (size_t)(end - begin) : 0;
    }
    cap = tokenizer_bound(t, len);
    s->reply = malloc((cap + 1) * sizeof s->reply[0]);
    if (s->reply == NULL) {
        fail("out of memory");
    }
    if (tokenizer_encode(t, len > 0 ? begin : "", len, TOKENIZE_PARSE_SPECIAL,
                         s->reply, cap, &s->n_reply, &e) != ST_OK) {
        fail(e.text);
    }
    free(text);
}

/* ---- the engine ---- */

static struct scripted *of(struct engine *e)
{
    return (struct scripted *)e; /* its first member */
}

static enum status scripted_submit(struct engine *e, const struct plan *p)
{
    struct scripted *w = of(e);

    if (w->plan != NULL) {
        return ST_RESOURCE_EXHAUSTED;
    }
    w->plan = p;
    w->since_us = loop_now_us();
    return ST_OK;
}

/* Ends the script in the page, if there is one. */
static void empty(struct scripted *w, uint32_t page)
{
    if (w->scripts[page] != NULL) {
        free(w->scripts[page]->reply);
        free(w->scripts[page]);
        w->scripts[page] = NULL;
    }
}

/* Begins a script with the first n prompt tokens of `from`, which may be NULL
 * if n = 0. */
static struct script *begin(struct scripted *w, uint32_t page,
                            const struct script *from, uint32_t n)
{
    struct script *s = malloc(sizeof *s);

    if (s == NULL) {
        fail("out of memory");
    }
    s->reply = NULL;
    s->n_prompt = n;
    if (n > 0) {
        memcpy(s->prompt, from->prompt, n * sizeof s->prompt[0]);
    }
    empty(w, page);
    w->scripts[page] = s;
    return s;
}

/* A copied block leaves no script behind. */
static void copy_pages(struct scripted *w, const struct plan_copy *copies,
                       uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < copies[i].n; j++) {
            const struct script *from = w->scripts[copies[i].from + j];

            if (from != NULL) {
                begin(w, copies[i].to + j, from, from->n_prompt);
            } else {
                empty(w, copies[i].to + j);
            }
        }
    }
}

/* Returns the script of the row, which for a twin is that of its source. */
static struct script *script_of(struct scripted *w, const struct plan *p,
                                const struct plan_row *row)
{
    struct script *s =
        w->scripts[row->n_tokens > 0 ? row->slot : p->rows[row->source].slot];

    if (s == NULL) {
        fail("a slot was neither zeroed nor restored");
    }
    return s;
}

static void take_prompt(struct scripted *w, const struct plan *p,
                        const struct plan_row *row)
{
    struct script *s = script_of(w, p, row);
    uint32_t before = s->n_prompt;
    bool is_prompt = row->kind == ROW_PROMPT;

    if (is_prompt && row->n_tokens > CONTEXT - before) {
        fail("a prompt is longer than the context");
    }
    for (uint32_t i = 0; is_prompt && i < row->n_tokens; i++) {
        s->prompt[s->n_prompt++] = p->tokens[row->token + i];
    }
    for (uint32_t i = row->save; i < row->save + row->n_saves; i++) {
        uint32_t n = p->saves[i].position - row->position;

        begin(w, p->saves[i].page, s, is_prompt ? before + n : before);
    }
}

static void choose(struct scripted *w, const struct plan *p,
                   const struct plan_row *row, struct plan_result *out)
{
    struct script *s = script_of(w, p, row);
    const struct tokenizer *t = text_assets_tokenizer(w->assets);
    uint32_t i = (uint32_t)(row - p->rows);

    if (s->reply == NULL) {
        read_reply(t, s);
    }
    out->tokens[i] = row->index < s->n_reply ? s->reply[row->index] : w->eos;
    out->logprobs[i] = LOGPROB;
    for (uint32_t j = 0; j < row->sampling->n_top_logprobs; j++) {
        out->top[i][j].token = (out->tokens[i] + j) % tokenizer_vocab(t);
        out->top[i][j].logprob = LOGPROB - (float)j;
    }
}

static void run_plan(struct scripted *w, const struct plan *p,
                     struct plan_result *out)
{
    copy_pages(w, p->before, p->n_before);
    for (uint32_t i = 0; i < p->n_zero; i++) {
        begin(w, p->zero_slots[i], NULL, 0);
    }
    for (uint32_t i = 0; i < p->n_rows; i++) {
        take_prompt(w, p, &p->rows[i]);
        out->tokens[i] = TOKEN_NONE;
        out->outcomes[i] = ROW_DONE;
        if (p->rows[i].sample) {
            choose(w, p, &p->rows[i], out);
        }
    }
    copy_pages(w, p->after, p->n_after);
}

static bool scripted_poll(struct engine *e, struct plan_result *out)
{
    struct scripted *w = of(e);
    const struct plan *p = w->plan;

    if (p == NULL || loop_now_us() - w->since_us < w->step_us) {
        return false;
    }
    w->plan = NULL;
    out->step = p->step;
    out->status = ST_OK;
    out->n_rows = p->n_rows;
    out->lost = false;
    out->hidden = NULL;
    out->device_us = 1;
    run_plan(w, p, out);
    return true;
}

static uint64_t scripted_progress(struct engine *e)
{
    (void)e;
    return 0;
}

static const struct engine_ops engine_ops = {scripted_submit, scripted_poll,
                                             scripted_progress};

/* ---- the node ---- */

static void node_opened(void *node, struct peer_id who)
{
    worker_node_ops.opened(((struct scripted *)node)->core, who);
}

static void node_recv(void *node, struct peer_id from, struct frame **frame)
{
    worker_node_ops.recv(((struct scripted *)node)->core, from, frame);
}

static void node_lost(void *node, struct peer_id who)
{
    worker_node_ops.lost(((struct scripted *)node)->core, who);
}

static int64_t node_tick(void *node, int64_t now_us)
{
    struct scripted *w = node;
    int64_t due = worker_node_ops.tick(w->core, now_us);
    int64_t step = w->since_us + w->step_us;

    return w->plan != NULL && step < due ? step : due;
}

static const struct node_ops node_ops = {node_opened, node_recv, node_lost,
                                         node_tick};

static struct worker_options options_of(const struct scripted *w,
                                        const char *name)
{
    const struct tokenizer *t = text_assets_tokenizer(w->assets);
    struct worker_options o = {.name = name,
                               .model = "tiny-hybrid",
                               .device = "none",
                               .tokenizer.known = true,
                               .layer_end = 1,
                               .n_layers = 1,
                               .block_tokens = BLOCK_TOKENS,
                               .pool.block_bytes = 1024,
                               .pool.slot_bytes = 1024,
                               .pool.n_pages = PAGES,
                               .pool.pages_per_block = 1,
                               .pool.pages_per_slot = 1,
                               .pool.slot_cap = ROWS,
                               .context = CONTEXT,
                               .vocab = tokenizer_vocab(t),
                               .eos = {w->eos},
                               .n_eos = 1,
                               .max_rows = ROWS,
                               .step_tokens = PLAN_TOKENS_MAX,
                               .chunk_tokens = PLAN_TOKENS_MAX,
                               .engine_depth = 1};

    memcpy(o.tokenizer.hash, tokenizer_hash(t), sizeof o.tokenizer.hash);
    return o;
}

int main(int argc, char **argv)
{
    static struct scripted w = {.engine = {&engine_ops}};
    struct worker_options o;
    struct transport *t = NULL;
    struct loop loop;
    struct error e;
    size_t n_eos;

    if (argc != 5) {
        fail("usage: scripted_worker ENDPOINT NAME MODEL_DIR STEP_MS");
    }
    if (text_assets_load(&w.assets, argv[3], &e) != ST_OK ||
        transport_connect(&t, argv[1], NULL, &e) != ST_OK) {
        fail(e.text);
    }
    if (text_assets_tokenizer(w.assets) == NULL ||
        text_assets_eos(w.assets, &n_eos) == NULL || n_eos == 0) {
        fail("the model has no tokenizer, or no end of sequence");
    }
    w.eos = text_assets_eos(w.assets, &n_eos)[0];
    w.step_us = atoi(argv[4]) * 1000 + 1;
    o = options_of(&w, argv[2]);
    w.core = worker_new(&o, transport_io(t), &w.engine);
    if (w.core == NULL) {
        fail("no worker can be made of these numbers");
    }
    printf("scripted_worker ready: %s\n", argv[2]);
    fflush(stdout);
    loop_init(&loop, t, &node_ops, &w);
    loop_run(&loop);
    return 0;
}
