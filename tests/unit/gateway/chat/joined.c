#include "tests/unit/gateway/chat/joined.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/utf8.h"

/* Aborts whether or not assertions are enabled. */
#define CHECK(x)                                                    \
    do {                                                            \
        if (!(x)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
            abort();                                                \
        }                                                           \
    } while (0)

void joined_append(struct joined_text *out, const char *text, size_t n)
{
    if (n > 0) {
        out->text = realloc(out->text, out->n + n + 1);
        CHECK(out->text != NULL);
        memcpy(out->text + out->n, text, n);
        out->n += n;
        out->text[out->n] = '\0';
    }
}

static void add_call(struct joined *j, const struct output_event *event)
{
    if (event->kind == OUTPUT_TOOL_BEGIN) {
        CHECK(!j->open && event->tool == j->n_calls + j->n_cut && event->n > 0);
        j->open = true;
        j->call_at = j->calls.n;
        joined_append(&j->calls, event->text, event->n);
        joined_append(&j->calls, "\x01", 1);
    } else if (event->kind == OUTPUT_TOOL_END) {
        CHECK(j->open && event->tool == j->n_calls + j->n_cut && event->n == 0);
        j->open = false;
        j->n_calls++;
        joined_append(&j->calls, "\x02", 1);
    } else if (event->kind == OUTPUT_TOOL_CUT) {
        CHECK(j->open && event->tool == j->n_calls + j->n_cut);
        j->open = false;
        j->n_cut++;
        if (event->n > 0) {
            j->calls.n = j->call_at;
            j->calls.text[j->calls.n] = '\0';
            joined_append(&j->content, event->text, event->n);
        }
    } else {
        CHECK(j->open && event->tool == j->n_calls + j->n_cut && event->n > 0);
        joined_append(&j->calls, event->text, event->n);
    }
}

void joined_add(void *arg, const struct output_event *event)
{
    struct joined *j = arg;

    CHECK(utf8_valid(event->text, event->n, NULL));
    j->n_events++;
    if (event->kind == OUTPUT_CONTENT || event->kind == OUTPUT_REASONING) {
        CHECK(!j->open && event->tool == 0 && event->n > 0);
        joined_append(event->kind == OUTPUT_CONTENT ? &j->content
                                                    : &j->reasoning,
                      event->text, event->n);
    } else {
        add_call(j, event);
    }
}

void joined_parse(struct joined *out,
                  const struct output_parser_options *options, const char *text,
                  size_t n, size_t (*cut)(void *arg, size_t at), void *arg)
{
    struct output_parser *p = output_parser_new(options);

    CHECK(p != NULL);
    *out = (struct joined){0};
    for (size_t at = 0, k; at < n; at += k) {
        k = cut == NULL ? n : cut(arg, at);
        k = k < n - at ? k : n - at;
        while (k < n - at && ((uint8_t)text[at + k] & 0xc0) == 0x80) {
            k++;
        }
        output_parser_push(p, text + at, k, joined_add, out);
    }
    output_parser_finish(p, joined_add, out);
    CHECK(!out->open &&
          output_parser_called(p) == (out->n_calls > 0 && out->n_cut == 0));
    output_parser_free(&p);
}

static bool same(const struct joined_text *a, const struct joined_text *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->text, b->text, a->n) == 0);
}

bool joined_same(const struct joined *a, const struct joined *b)
{
    return same(&a->content, &b->content) &&
           same(&a->reasoning, &b->reasoning) && same(&a->calls, &b->calls);
}

void joined_fini(struct joined *j)
{
    free(j->content.text);
    free(j->reasoning.text);
    free(j->calls.text);
}
