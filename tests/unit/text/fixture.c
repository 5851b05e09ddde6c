#include "fixture.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "text/file.h"
#include "text/text_limits.h"

struct tokenizer *fixture_load(const char *path)
{
    struct tokenizer *t;
    struct error e;

    if (tokenizer_load(&t, path, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return t;
}

struct tokenizer *fixture_parse(const json_t *root)
{
    char *text = json_dumps(root, JSON_COMPACT);
    struct tokenizer *t;
    struct error e;

    assert_non_null(text);
    if (tokenizer_parse(&t, text, strlen(text), &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    free(text);
    return t;
}

struct tokenizer *fixture_resplit(const char *split, bool ignore_merges)
{
    json_t *root = json_load_file(QWEN3, 0, NULL);
    json_t *steps = json_object_get(json_object_get(root, "pre_tokenizer"),
                                    "pretokenizers");
    struct tokenizer *t;

    fixture_set(json_array_get(steps, 0), "pattern.Regex", json_string(split));
    fixture_set(root, "normalizer", json_null());
    fixture_set(root, "model.ignore_merges", json_boolean(ignore_merges));
    t = fixture_parse(root);
    json_decref(root);
    return t;
}

enum status fixture_refused(const json_t *root, struct error *e)
{
    char *text = json_dumps(root, JSON_COMPACT);
    struct tokenizer *t;
    enum status st;

    assert_non_null(text);
    *e = (struct error){0};
    st = tokenizer_parse(&t, text, strlen(text), e);
    free(text);
    if (st != ST_OK) {
        assert_null(t);
        assert_int_equal(e->code, st);
    }
    tokenizer_free(&t);
    return st;
}

char *fixture_file(const char *path, size_t *n)
{
    struct error e;
    char *data, *grown;

    if (file_read(path, TEXT_FILE_BYTES, &data, n, &e) != ST_OK) {
        fail_msg("%s: %s", path, e.text);
    }
    grown = realloc(data, *n + 1);
    assert_non_null(grown);
    grown[*n] = '\0';
    return grown;
}

/* Finds the object that contains the end of path, and the last name of path. */
static json_t *walk(json_t *root, const char *path, const char **last)
{
    const char *dot;
    char name[64];

    while ((dot = strchr(path, '.')) != NULL) {
        snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
        root = json_object_get(root, name);
        path = dot + 1;
    }
    *last = path;
    return root;
}

void fixture_set(json_t *root, const char *path, json_t *value)
{
    const char *last;
    json_t *obj = walk(root, path, &last);

    assert_int_equal(json_object_set_new(obj, last, value), 0);
}

void fixture_unset(json_t *root, const char *path)
{
    const char *last;
    json_t *obj = walk(root, path, &last);

    assert_int_equal(json_object_del(obj, last), 0);
}

void fixture_add(json_t *root, int id, const char *content, const char *flags)
{
    json_t *t = json_pack("{s:i,s:s,s:b,s:b,s:b,s:b,s:b}", "id", id, "content",
                          content, "special", strchr(flags, 's') != NULL,
                          "normalized", strchr(flags, 'n') != NULL,
                          "single_word", strchr(flags, 'w') != NULL, "lstrip",
                          strchr(flags, 'l') != NULL, "rstrip",
                          strchr(flags, 'r') != NULL);

    assert_non_null(t);
    json_array_append_new(json_object_get(root, "added_tokens"), t);
}

void fixture_expect(const struct tokenizer *t, const char *s, unsigned flags,
                    ...)
{
    uint32_t ids[256];
    struct error e;
    va_list ap;
    size_t n;

    if (tokenizer_encode(t, s, strlen(s), flags, ids, 256, &n, &e) != ST_OK) {
        fail_msg("%s: %s", s, e.text);
    }
    va_start(ap, flags);
    for (size_t i = 0; i <= n; i++) {
        int want = va_arg(ap, int);
        int got = i < n ? (int)ids[i] : -1;
        if (want != got) {
            fail_msg("\"%s\": id %zu is %d, want %d", s, i, got, want);
        }
        if (want < 0) {
            break;
        }
    }
    va_end(ap);
}
