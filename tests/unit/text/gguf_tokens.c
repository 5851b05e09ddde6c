#include "tests/unit/text/gguf_tokens.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/cmocka.h"

struct table {
    size_t n;
    const char **tokens; /* [n] */
    int32_t *types;      /* [n] */
};

/* Ids without a token are padding, as in conversion. */
static void collect(struct table *t, const json_t *file)
{
    static const char unused[] = "[PAD%zu]";
    const json_t *vocab =
        json_object_get(json_object_get(file, "model"), "vocab");
    const json_t *added = json_object_get(file, "added_tokens"), *row;
    const char *spelling;
    json_t *id;
    size_t i;

    t->n = json_object_size(vocab) + json_array_size(added) + 8;
    t->tokens = calloc(t->n, sizeof *t->tokens);
    t->types = calloc(t->n, sizeof *t->types);
    json_object_foreach((json_t *)(uintptr_t)vocab, spelling, id)
    {
        i = (size_t)json_integer_value(id);
        assert_true(i < t->n);
        t->tokens[i] = spelling;
        t->types[i] = 1;
    }
    json_array_foreach(added, i, row)
    {
        size_t at = (size_t)json_integer_value(json_object_get(row, "id"));

        assert_true(at < t->n);
        t->tokens[at] = json_string_value(json_object_get(row, "content"));
        t->types[at] = json_is_true(json_object_get(row, "special")) ? 3 : 4;
    }
    for (i = 0; i < t->n; i++) {
        if (t->tokens[i] == NULL) {
            static char names[64][32];
            static size_t used;

            assert_true(used < 64);
            snprintf(names[used], sizeof names[0], unused, i);
            t->tokens[i] = names[used++];
            t->types[i] = 5;
        }
    }
}

static void free_table(struct table *t)
{
    free((void *)(uintptr_t)t->tokens);
    free(t->types);
}

static void put_merges(struct gguf_file *f, const json_t *file)
{
    const json_t *list =
                     json_object_get(json_object_get(file, "model"), "merges"),
                 *row;
    size_t n = json_array_size(list), i;
    const char **merges = calloc(n, sizeof *merges);
    char *text = malloc(n * 300), *at = text;

    json_array_foreach(list, i, row)
    {
        merges[i] = at;
        if (json_is_string(row)) {
            at += sprintf(at, "%s", json_string_value(row)) + 1;
        } else {
            at +=
                sprintf(at, "%s %s", json_string_value(json_array_get(row, 0)),
                        json_string_value(json_array_get(row, 1))) +
                1;
        }
    }
    gguf_put_texts(f, "tokenizer.ggml.merges", n, merges);
    free(text);
    free((void *)(uintptr_t)merges);
}

void gguf_put_tokenizer(struct gguf_file *f, const json_t *file,
                        const char *pre)
{
    struct table t;

    collect(&t, file);
    gguf_put_text(f, "tokenizer.ggml.model", "gpt2");
    gguf_put_text(f, "tokenizer.ggml.pre", pre);
    gguf_put_texts(f, "tokenizer.ggml.tokens", t.n, t.tokens);
    gguf_put_i32s(f, "tokenizer.ggml.token_type", t.n, t.types);
    put_merges(f, file);
    free_table(&t);
}
