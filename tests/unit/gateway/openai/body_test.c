/* The parser of bodies against JSONTestSuite, and its bounds. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/openai/body.h"
#include "gateway/openai/request.h"
#include "tests/unit/cmocka.h"

/* Legal JSON that no request needs: a repeated key has no clear meaning, and
 * the library has no keys with a NUL. */
static const char *const refused[] = {"y_object_duplicated_key.json",
                                      "y_object_duplicated_key_and_value.json",
                                      "y_object_escaped_null_in_key.json"};

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *text = malloc(1 << 20);

    assert_non_null(f);
    assert_non_null(text);
    *n = fread(text, 1, 1 << 20, f);
    fclose(f);
    return text;
}

static bool parses(const char *text, size_t n, struct openai_error *e)
{
    json_t *tree;
    bool fine = body_parse(text, n, &tree, e);

    assert_int_equal(fine, tree != NULL);
    json_decref(tree);
    return fine;
}

static bool is_refused(const char *name)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (strcmp(name, refused[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void json_test_suite_is_obeyed(void **state)
{
    DIR *dir = opendir(SLUICE_JSON);
    static const char kinds[] = "yni";
    int n_kind[3] = {0};

    (void)state;
    assert_non_null(dir);
    for (struct dirent *d; (d = readdir(dir)) != NULL;) {
        const char *kind = strchr(kinds, d->d_name[0]);
        struct openai_error e = {0};
        char path[1024];
        char *text;
        size_t n;
        bool fine;

        if (kind == NULL || d->d_name[1] != '_') {
            continue;
        }
        snprintf(path, sizeof path, "%s/%s", SLUICE_JSON, d->d_name);
        text = read_file(path, &n);
        fine = parses(text, n, &e);
        if (*kind != 'i' && fine != (*kind == 'y' && !is_refused(d->d_name))) {
            fail_msg("%s: %s", d->d_name, fine ? "accepted" : e.message);
        }
        n_kind[kind - kinds]++;
        free(text);
    }
    closedir(dir);
    assert_int_equal(n_kind[0], 95);
    assert_int_equal(n_kind[1], 188);
    assert_int_equal(n_kind[2], 35);
}

static void errors_have_a_line_and_a_column(void **state)
{
    struct openai_error e;

    (void)state;
    assert_false(parses("{\n  \"n\": 1,,\n}", 14, &e));
    assert_int_equal(e.http, 400);
    assert_non_null(strstr(e.message, "line 2, column 10"));
    assert_false(parses("", 0, &e));
    assert_int_equal(e.http, 400);
}

static void depth_is_bounded(void **state)
{
    char text[2 * OPENAI_DEPTH_MAX + 2];
    struct openai_error e;

    (void)state;
    memset(text, '[', OPENAI_DEPTH_MAX);
    memset(text + OPENAI_DEPTH_MAX, ']', OPENAI_DEPTH_MAX);
    assert_true(parses(text, 2 * OPENAI_DEPTH_MAX, &e));
    memset(text, '[', OPENAI_DEPTH_MAX + 1);
    memset(text + OPENAI_DEPTH_MAX + 1, ']', OPENAI_DEPTH_MAX + 1);
    assert_false(parses(text, sizeof text, &e));
    assert_int_equal(e.http, 413);
}

/* A list of n times the element. */
static char *list_of(const char *element, size_t n, size_t *bytes)
{
    size_t each = strlen(element) + 1;
    char *text = malloc(n * each + 2);

    assert_non_null(text);
    text[0] = '[';
    for (size_t i = 0; i < n; i++) {
        memcpy(text + 1 + i * each, element, each - 1);
        text[(i + 1) * each] = ',';
    }
    text[n * each] = ']';
    *bytes = n * each + 1;
    return text;
}

static void check_list(const char *element, size_t n, bool fine)
{
    struct openai_error e;
    size_t bytes;
    char *text = list_of(element, n, &bytes);

    assert_int_equal(parses(text, bytes, &e), fine);
    assert_true(fine || e.http == 413);
    free(text);
}

static void values_and_lists_are_bounded(void **state)
{
    (void)state;
    /* The list itself counts, and its first element counts nothing. */
    check_list("1", OPENAI_VALUES_MAX, true);
    check_list("1", OPENAI_VALUES_MAX + 1, false);
    check_list("[]", OPENAI_LISTS_MAX - 1, true);
    check_list("[]", OPENAI_LISTS_MAX, false);
}

/* Returns whether an object with n distinct keys parses. */
static bool object_of(size_t n, struct openai_error *e)
{
    size_t at = 1;
    char *text = malloc(n * 16 + 2);
    bool fine;

    assert_non_null(text);
    text[0] = '{';
    for (size_t i = 0; i < n; i++) {
        at +=
            (size_t)snprintf(text + at, 16, "%s\"%zu\":1", i > 0 ? "," : "", i);
    }
    text[at++] = '}';
    fine = parses(text, at, e);
    free(text);
    return fine;
}

static void members_are_bounded(void **state)
{
    struct openai_error e;

    (void)state;
    assert_true(object_of(OPENAI_MEMBERS_MAX, &e));
    assert_false(object_of(OPENAI_MEMBERS_MAX + 1, &e));
    assert_int_equal(e.http, 413);
}

static void repeated_keys_are_refused(void **state)
{
    struct openai_error e;

    (void)state;
    assert_false(parses("{\"a\":1,\"a\":1}", 13, &e));
    assert_int_equal(e.http, 400);
    assert_non_null(strstr(e.message, "duplicate"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_test_suite_is_obeyed),
        cmocka_unit_test(errors_have_a_line_and_a_column),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(values_and_lists_are_bounded),
        cmocka_unit_test(members_are_bounded),
        cmocka_unit_test(repeated_keys_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
