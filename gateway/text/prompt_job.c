#include "gateway/text/prompt_job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/detokenizer.h"
#include "text/encoding.h"
#include "text/tokenizer.h"

struct prompt_job *prompt_job_new(enum prompt_kind kind)
{
    struct prompt_job *j = calloc(1, sizeof *j);

    if (j != NULL) {
        j->kind = kind;
    }
    return j;
}

struct prompt_job *prompt_job_text(const char *text, size_t n, bool add_special)
{
    struct prompt_job *j = prompt_job_new(PROMPT_TEXT);

    if (j == NULL) {
        return NULL;
    }
    j->text = malloc(n + 1);
    if (j->text == NULL) {
        prompt_job_free(&j);
        return NULL;
    }
    memcpy(j->text, text, n);
    j->n_text = n;
    j->parse_special = true;
    j->add_special = add_special;
    return j;
}

void prompt_job_free(struct prompt_job **pj)
{
    struct prompt_job *j = *pj;

    *pj = NULL;
    if (j == NULL) {
        return;
    }
    if (j->call_free != NULL) {
        j->call_free(j->call_arg);
    }
    json_decref(j->chat.messages);
    json_decref(j->chat.tools);
    json_decref(j->chat.kwargs);
    chat_prompt_fini(&j->rendered);
    encoding_free(&j->encoding);
    free(j->text);
    free(j->ids);
    free(j);
}

/* ---- the variables of a template ---- */

#define FIXED_VARIABLES 7
#define VARIABLES_MAX   64 /* those of chat_template_kwargs too */

struct variables {
    struct chat_variable v[VARIABLES_MAX]; /* [n] */
    size_t n;
    json_t *owned[FIXED_VARIABLES]; /* [n_owned] */
    size_t n_owned;
};

static void add(struct variables *s, const char *name, const json_t *value,
                bool trusted)
{
    s->v[s->n++] = (struct chat_variable){name, value, trusted};
}

/* Adds a token of the model's own files, whose spelling is trusted. */
static void add_token(struct variables *s, const char *name, const char *token)
{
    json_t *value = token != NULL ? json_string(token) : NULL;

    if (value != NULL) {
        s->owned[s->n_owned++] = value;
        add(s, name, value, true);
    }
}

static bool is_taken(const struct variables *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(s->v[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Adds the request's own variables.  They cannot replace the fixed ones: a
 * request could otherwise pass its text as a trusted token. */
static enum status add_kwargs(struct variables *s, const json_t *kwargs,
                              struct error *e)
{
    const char *name;
    const json_t *value;

    /* json_object_foreach() takes no const object; it does not change it. */
    json_object_foreach((json_t *)(uintptr_t)kwargs, name, value)
    {
        if (is_taken(s, name)) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "chat_template_kwargs: %s is set by the server; "
                             "remove it",
                             name);
        }
        if (s->n == VARIABLES_MAX) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "chat_template_kwargs: more than %d entries",
                             VARIABLES_MAX - FIXED_VARIABLES);
        }
        add(s, name, value, false);
    }
    return ST_OK;
}

static enum status gather(struct variables *s, const struct prompt_job *j,
                          struct error *e)
{
    const struct text_assets *a = j->model->assets;
    const struct prompt_chat *c = &j->chat;
    bool prompt = c->add_generation_prompt && !c->continue_final;

    s->n = s->n_owned = 0;
    add(s, "messages", c->messages, false);
    add(s, "tools", c->tools != NULL ? c->tools : json_null(), false);
    add(s, "add_generation_prompt", prompt ? json_true() : json_false(), true);
    add_token(s, "bos_token", text_assets_bos_token(a));
    add_token(s, "eos_token", text_assets_eos_token(a));
    add_token(s, "pad_token", text_assets_pad_token(a));
    add_token(s, "unk_token", text_assets_unk_token(a));
    return c->kwargs != NULL ? add_kwargs(s, c->kwargs, e) : ST_OK;
}

/* ---- after rendering ---- */

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Returns the last place of what[0, n) in text, NULL if it is not there. */
static const char *find_last(const char *text, size_t n_text, const char *what,
                             size_t n)
{
    for (size_t at = n_text >= n ? n_text - n + 1 : 0; at > 0; at--) {
        if (memcmp(text + at - 1, what, n) == 0) {
            return text + at - 1;
        }
    }
    return NULL;
}

/* Cuts the prompt behind the text of the last message.  A template may trim
 * that text, so it is looked for without the white space around it. */
static enum status cut_after_final(struct chat_prompt *p,
                                   const json_t *messages, struct error *e)
{
    const json_t *last =
        json_array_get(messages, json_array_size(messages) - 1);
    const json_t *content = json_object_get(last, "content");
    const char *text = json_string_value(content), *found = NULL;
    size_t n = json_string_length(content);

    while (n > 0 && is_space(text[n - 1])) {
        n--;
    }
    while (n > 0 && is_space(*text)) {
        text++;
        n--;
    }
    if (n > 0) {
        found = find_last(p->text, p->n, text, n);
    }
    if (found == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "continue_final_message: the chat template does not "
                         "show the text of the last message");
    }
    p->n = (size_t)(found - p->text) + n;
    while (p->n_untrusted > 0 &&
           p->untrusted[p->n_untrusted - 1].begin >= p->n) {
        p->n_untrusted--;
    }
    if (p->n_untrusted > 0 && p->untrusted[p->n_untrusted - 1].end > p->n) {
        p->untrusted[p->n_untrusted - 1].end = p->n;
    }
    return ST_OK;
}

/* Returns whether the prompt ends with an open reasoning block. */
static bool ends_in_reasoning(const struct chat_prompt *p)
{
    static const char tag[] = "<think>";
    size_t n = p->n;

    while (n > 0 && is_space(p->text[n - 1])) {
        n--;
    }
    return n >= sizeof tag - 1 &&
           memcmp(p->text + n - (sizeof tag - 1), tag, sizeof tag - 1) == 0;
}

/* ---- the jobs ---- */

/* Returns the ids that the context leaves to the prompt.  With an answer that
 * leaves none, the core's own error has all figures. */
static size_t room_of(const struct prompt_job *j)
{
    return j->answer < j->context ? j->context - j->answer : j->context;
}

/* Sets the error of a prompt that has `how` tokens. */
static enum status too_long(struct prompt_job *j, const char *how)
{
    return error_set(&j->error, ST_OUT_OF_RANGE,
                     "the model's context is %" PRIu32 " tokens, of which the "
                     "answer may take %" PRIu32 "; the prompt has %s. Shorten "
                     "the prompt or lower max_tokens",
                     j->context, j->answer, how);
}

/* Begins to encode, unless the bytes alone show that the ids are too many. */
static enum status begin(struct prompt_job *j, struct encoding_input in)
{
    const struct tokenizer *t = served_tokenizer(j->model);
    size_t fewest = j->context > 0 ? tokenizer_fewest(t, in.text, in.len) : 0;
    char how[96];

    if (fewest > room_of(j)) {
        snprintf(how, sizeof how, "%zu bytes, thus %zu tokens or more", in.len,
                 fewest);
        return too_long(j, how);
    }
    in.max_ids = j->context;
    return encoding_new(&j->encoding, t, &in, &j->error);
}

/* Encodes a slice.  Sets *done at the end. */
static enum status encode(struct prompt_job *j, size_t bytes, bool *done)
{
    enum status st = encoding_step(j->encoding, bytes, done, &j->error);
    char how[48];

    if (st == ST_OK && *done) {
        j->ids = encoding_take(j->encoding, &j->n_ids);
    } else if (st != ST_OK && encoding_is_over(j->encoding)) {
        snprintf(how, sizeof how, "more than %" PRIu32 " tokens", j->context);
        st = too_long(j, how);
    } else if (st == ST_OUT_OF_RANGE) {
        j->code = "text_limit";
    }
    return st;
}

static enum status keep_text(struct prompt_job *j)
{
    const struct chat_prompt *p = &j->rendered;

    j->text = malloc(p->n + 1);
    if (j->text == NULL) {
        return error_set(&j->error, ST_RESOURCE_EXHAUSTED,
                         "no memory for a prompt of %zu bytes", p->n);
    }
    memcpy(j->text, p->text, p->n);
    j->n_text = p->n;
    return ST_OK;
}

static enum status begin_chat(struct prompt_job *j)
{
    struct chat_prompt *p = &j->rendered;
    struct encoding_input in = {.flags = TOKENIZE_PARSE_SPECIAL};
    enum status st = ST_OK;

    if (j->chat.continue_final) {
        st = cut_after_final(p, j->chat.messages, &j->error);
    }
    if (st != ST_OK) {
        return st;
    }
    if (j->chat.renders) {
        return keep_text(j);
    }
    j->in_reasoning = ends_in_reasoning(p);
    in.text = p->text;
    in.len = p->n;
    in.untrusted = p->untrusted;
    in.n_spans = p->n_untrusted;
    return begin(j, in);
}

static enum status render(struct prompt_job *j)
{
    const struct served_model *m = j->model;
    const struct chat_template *t =
        j->chat.tools != NULL && m->tools != NULL ? m->tools : m->chat;
    struct variables s;
    enum status st = gather(&s, j, &j->error);

    if (st == ST_OK) {
        st = chat_template_render(t, s.v, s.n, j->chat.now_unix, &j->rendered,
                                  &j->error);
    }
    while (s.n_owned > 0) {
        json_decref(s.owned[--s.n_owned]);
    }
    if (st == ST_OUT_OF_RANGE) {
        j->code = "template_limit";
    } else if (st == ST_UNIMPLEMENTED) {
        j->code = "template_error";
    }
    return st == ST_OK ? begin_chat(j) : st;
}

static enum status begin_text(struct prompt_job *j)
{
    struct encoding_input in = {
        .text = j->text,
        .len = j->n_text,
        .flags = (j->parse_special ? TOKENIZE_PARSE_SPECIAL : 0) |
                 (j->add_special ? TOKENIZE_ADD_SPECIAL : 0)};

    return begin(j, in);
}

/* All ids are checked before any text is made. */
static enum status run_decode(struct prompt_job *j)
{
    const struct tokenizer *t = served_tokenizer(j->model);
    struct detokenizer d;
    size_t most = detokenizer_max(t), cap = 2 * most;

    for (size_t i = 0; i < j->n_ids; i++) {
        size_t bytes = 0;

        if (tokenizer_token(t, j->ids[i], &bytes) == NULL) {
            return error_set(&j->error, ST_INVALID_ARGUMENT,
                             "tokens: %u is not in the vocabulary", j->ids[i]);
        }
        cap += 3 * bytes; /* an invalid byte becomes U+FFFD, 3 bytes */
    }
    j->text = malloc(cap);
    if (j->text == NULL) {
        return error_set(&j->error, ST_RESOURCE_EXHAUSTED,
                         "no memory for the text of %zu ids", j->n_ids);
    }
    detokenizer_init(&d, t, 0);
    for (size_t i = 0; i < j->n_ids; i++) {
        j->n_text += detokenizer_push(&d, j->ids[i], j->text + j->n_text);
    }
    j->n_text += detokenizer_finish(&d, j->text + j->n_text);
    return ST_OK;
}

static enum status step(struct prompt_job *j, size_t bytes, bool *done)
{
    *done = true;
    if (j->encoding != NULL) {
        return encode(j, bytes, done);
    }
    switch (j->kind) {
    case PROMPT_CHAT:
        *done = j->chat.renders;
        return render(j);
    case PROMPT_TEXT:
        *done = false;
        return begin_text(j);
    case PROMPT_DECODE:
        return run_decode(j);
    case PROMPT_CALL:
        j->call(j->call_arg);
        return ST_OK;
    }
    return ST_INTERNAL;
}

bool prompt_job_step(struct prompt_job *j, size_t bytes)
{
    bool done;

    j->status = step(j, bytes, &done);
    if (j->status == ST_OK && !done) {
        return false;
    }
    encoding_free(&j->encoding);
    chat_prompt_fini(&j->rendered);
    return true;
}
