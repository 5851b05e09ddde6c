/* sluicectl_stream.c - The output of generate: chunks as text, ids or JSON. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/escape.h"
#include "client/ctl/sluicectl_generate.h"
#include "proto/common.pb-c.h"

/* ---- JSON: one line per chunk ---- */

static json_t *json_ids(const uint32_t *ids, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list, json_integer(ids[i]));
    }
    return list;
}

static json_t *json_floats(const float *values, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list, json_number((double)values[i]));
    }
    return list;
}

/* Returns [[{token, logprob}, ...], ...]: a list for each token. */
static json_t *json_top(const struct client_chunk *chunk)
{
    json_t *lists = json_array();

    for (size_t i = 0; i < chunk->n_tokens; i++) {
        json_t *list = json_array();

        for (size_t k = i * chunk->n_top; k < (i + 1) * chunk->n_top; k++) {
            json_t *one = json_object();

            json_object_set_new(one, "token",
                                json_integer(chunk->top_tokens[k]));
            json_object_set_new(one, "logprob",
                                json_number((double)chunk->top_logprobs[k]));
            json_array_append_new(list, one);
        }
        json_array_append_new(lists, list);
    }
    return lists;
}

/* Prints a chunk on one line.  Fields that were not requested are absent, so
 * an empty list always means "none". */
static void print_json_chunk(const struct ctl *c,
                             const struct client_chunk *chunk)
{
    json_t *j = json_object();

    json_object_set_new(j, "choice", json_integer(chunk->choice));
    json_object_set_new(j, "first_index", json_integer(chunk->first_index));
    json_object_set_new(j, "tokens", json_ids(chunk->tokens, chunk->n_tokens));
    if (!c->o.ids) {
        json_object_set_new(j, "text", json_text(chunk->text, chunk->n_text));
    }
    if (c->o.logprobs || c->o.top_logprobs > 0) {
        json_object_set_new(j, "logprobs",
                            json_floats(chunk->logprobs, chunk->n_tokens));
    }
    if (c->o.top_logprobs > 0) {
        json_object_set_new(j, "top_logprobs", json_top(chunk));
    }
    if (chunk->finish != SLUICE__V1__FINISH__FINISH_RUNNING) {
        json_object_set_new(j, "finish",
                            json_string(ctl_finish_word(chunk->finish)));
    }
    if (chunk->stop_string >= 0) {
        json_object_set_new(j, "stop_string", json_integer(chunk->stop_string));
    }
    ctl_print_json(j);
}

/* ---- text and ids: one choice after the other ---- */

/* Ends a line that text has begun. */
static void end_line(struct ctl_stream *s)
{
    if (s->last != '\0' && s->last != '\n') {
        putchar('\n');
        s->last = '\n';
    }
}

static void begin_choice(void *arg, uint32_t choice)
{
    struct ctl_stream *s = arg;

    if (s->n_choices > 1) {
        end_line(s);
        printf("== choice %u ==\n", choice);
        s->last = '\n';
    }
}

/* Shows a piece of the current choice; n > 0. */
static void show_text(void *arg, const char *text, size_t n)
{
    struct ctl_stream *s = arg;

    if (s->ctl->o.ids && (s->last == '\0' || s->last == '\n')) {
        text++; /* skip the blank before the first id of a line */
        n--;
    }
    if (s->escape) {
        escape_print(stdout, text, n, true);
    } else {
        fwrite(text, 1, n, stdout);
    }
    s->last = text[n - 1];
}

/* Adds ids as text with a blank before each; show_text() drops the first blank.
 */
static void put_ids(struct ctl_stream *s, const struct client_chunk *chunk)
{
    for (size_t i = 0; i < chunk->n_tokens; i++) {
        char text[16];
        int n = snprintf(text, sizeof text, " %u", chunk->tokens[i]);

        turns_put(s->turns, chunk->choice, text, (size_t)n);
    }
}

static void show_chunk(struct ctl_stream *s, const struct client_chunk *chunk)
{
    if (s->ctl->o.ids) {
        put_ids(s, chunk);
    } else {
        turns_put(s->turns, chunk->choice, chunk->text, chunk->n_text);
    }
    if (s->logprobs != NULL) {
        ctl_logprobs_add(s->logprobs, chunk);
    }
    if (chunk->finish != SLUICE__V1__FINISH__FINISH_RUNNING) {
        turns_end(s->turns, chunk->choice);
    }
}

bool ctl_stream_chunk(void *arg, const struct client_chunk *chunk)
{
    struct ctl_stream *s = arg;

    if (s->turns == NULL) {
        print_json_chunk(s->ctl, chunk);
    } else {
        show_chunk(s, chunk);
    }
    s->broken = !ctl_flush(); /* a lost reader cancels the request */
    return !s->broken;
}

/* If both streams are one terminal, the message must not continue the line of
 * the text. */
void ctl_stream_lost(void *arg, const char *why)
{
    const struct ctl_stream *s = arg;
    bool in_line = s->last != '\0' && s->last != '\n' &&
                   isatty(STDOUT_FILENO) && isatty(STDERR_FILENO);

    if (!s->ctl->o.quiet) {
        fprintf(stderr, "%s" CTL_NAME ": connection lost (",
                in_line ? "\n" : "");
        escape_print(stderr, why, strlen(why), false);
        fputs("), resuming...\n", stderr);
    }
}

void ctl_stream_init(struct ctl_stream *s, const struct ctl *c,
                     const struct client_request *r)
{
    static const struct turns_ops ops = {.begin = begin_choice,
                                         .show = show_text};

    *s = (struct ctl_stream){.ctl = c,
                             .n_choices = r->n,
                             .escape = !c->o.raw && isatty(STDOUT_FILENO)};
    if (!c->o.json) {
        s->turns = turns_new(r->n, &ops, s);
        if (r->sampling.logprobs) {
            s->logprobs = ctl_logprobs_new(r->n, r->sampling.n_top_logprobs);
        }
    }
}

void ctl_stream_fini(struct ctl_stream *s)
{
    turns_free(&s->turns);
    ctl_logprobs_free(&s->logprobs);
}

void ctl_stream_finish(struct ctl_stream *s)
{
    if (s->turns != NULL && !s->broken) {
        turns_finish(s->turns);
        if (!s->ctl->o.raw) {
            end_line(s);
        }
    }
    s->broken = !ctl_flush();
}
