/* YAML as a tree: places, the subset, and the limits. */
#include "client/cluster/yaml_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

static struct faults faults;

static struct tree_node *parse(const char *text)
{
    memset(&faults, 0, sizeof faults);
    return yaml_tree_parse(text, strlen(text), &faults);
}

static void assert_fault(size_t i, unsigned line, unsigned column,
                         const char *text)
{
    assert_true(i < faults.n);
    assert_string_equal(faults.item[i].text, text);
    assert_int_equal(faults.item[i].at.line, line);
    assert_int_equal(faults.item[i].at.column, column);
}

/* Asserts one fault, with or without a tree. */
static void one_fault(const char *yaml, unsigned line, unsigned column,
                      const char *text)
{
    struct tree_node *t = parse(yaml);

    assert_fault(0, line, column, text);
    assert_int_equal(faults.n, 1);
    yaml_tree_free(&t);
}

static void nodes_have_their_places(void **state)
{
    struct tree_node *t = parse("a: 1\nbb:\n  - x\n  - {c: \"y z\"}\n");
    const struct tree_node *list;

    (void)state;
    assert_non_null(t);
    assert_int_equal(faults.n, 0);
    assert_int_equal(t->kind, TREE_MAP);
    assert_int_equal(t->n, 4);
    assert_string_equal(t->items[1]->text, "1");
    assert_int_equal(t->items[1]->at.column, 4);
    list = t->items[3];
    assert_int_equal(list->kind, TREE_LIST);
    assert_string_equal(list->items[0]->text, "x");
    assert_int_equal(list->items[0]->at.line, 3);
    assert_int_equal(list->items[0]->at.column, 5);
    assert_string_equal(list->items[1]->items[1]->text, "y z");
    yaml_tree_free(&t);
    assert_null(t);
}

static void null_is_empty_unless_quoted(void **state)
{
    struct tree_node *t = parse("[~, null, 'null', ]");

    (void)state;
    assert_string_equal(t->items[0]->text, "");
    assert_string_equal(t->items[1]->text, "");
    assert_string_equal(t->items[2]->text, "null");
    yaml_tree_free(&t);
}

static void keys_are_unique_in_a_map(void **state)
{
    (void)state;
    one_fault("a: 1\nb: 2\na: 3\n", 3, 1,
              "\"a\" is twice in this map, first in line 1; remove one");
}

static void the_first_of_two_equal_keys_counts(void **state)
{
    struct tree_node *t = parse("a: 1\nb: 2\na: [3, 4]\n");

    (void)state;
    assert_int_equal(faults.n, 1);
    assert_int_equal(t->n, 4);
    assert_string_equal(t->items[1]->text, "1");
    assert_string_equal(t->items[3]->text, "2");
    yaml_tree_free(&t);
}

static void extras_of_yaml_are_refused(void **state)
{
    (void)state;
    one_fault("a: &x 1\n", 1, 4,
              "the anchor &x: anchors are not supported; write the value where "
              "it is used");
    one_fault("a: !!int 1\n", 1, 4,
              "the tag tag:yaml.org,2002:int: tags are not supported; remove "
              "it");
    one_fault("a: 1\n---\nb: 1\n", 2, 1,
              "a second document; a cluster file has one");
    one_fault("? [a]\n: 1\n", 1, 3, "a key must be a word, not a list");
    one_fault("a: \"x\\ny\"\n", 1, 4,
              "\"x\\x0ay\" has a line break or another control character; "
              "write the value on one line");
}

static void an_alias_is_a_fault_and_not_followed(void **state)
{
    struct tree_node *t = parse("a: &x [1]\nb: *x\n");

    (void)state;
    assert_int_equal(faults.n, 2);
    assert_fault(1, 2, 4,
                 "the alias *x: aliases are not supported; write the value "
                 "out");
    yaml_tree_free(&t);
}

static void a_syntax_error_has_its_place(void **state)
{
    (void)state;
    one_fault("a: [1\nb: 2\n", 2, 2,
              "no YAML: did not find expected ',' or ']', while parsing a flow "
              "sequence");
    one_fault("a: \t1\n  b: 2\n", 2, 4,
              "no YAML: mapping values are not allowed in this context");
    one_fault("a: \xff\xfe\n", 0, 0,
              "no YAML: invalid leading UTF-8 octet at byte 3; the file must "
              "be UTF-8 text");
    one_fault("", 0, 0,
              "the file is empty; deploy/cluster/cluster.yaml is an example");
}

/* Parses n copies of `open`, a 1, and n copies of `close`. */
static struct tree_node *nested(size_t n)
{
    char text[64] = "";

    for (size_t i = 0; i < n; i++) {
        strcat(text, "[");
    }
    strcat(text, "1");
    for (size_t i = 0; i < n; i++) {
        strcat(text, "]");
    }
    return parse(text);
}

static void depth_has_a_limit(void **state)
{
    struct tree_node *t = nested(TREE_DEPTH_MAX);

    (void)state;
    assert_non_null(t);
    assert_int_equal(faults.n, 0);
    yaml_tree_free(&t);
    t = nested(TREE_DEPTH_MAX + 1);
    assert_null(t);
    assert_fault(0, 1, TREE_DEPTH_MAX + 2,
                 "more than 8 levels of lists and maps; a cluster file has "
                 "fewer");
}

/* Parses a list of n texts of m bytes. */
static struct tree_node *list_of(size_t n, size_t m)
{
    char *text = malloc(n * (m + 4) + 16);
    size_t at = 0;
    struct tree_node *t;

    assert_non_null(text);
    for (size_t i = 0; i < n; i++) {
        text[at++] = '-';
        text[at++] = ' ';
        memset(text + at, 'x', m);
        at += m;
        text[at++] = '\n';
    }
    text[at] = '\0';
    t = parse(text);
    free(text);
    return t;
}

static void nodes_have_a_limit(void **state)
{
    struct tree_node *t = list_of(TREE_NODES_MAX - 1, 1);

    (void)state;
    assert_non_null(t);
    yaml_tree_free(&t);
    t = list_of(TREE_NODES_MAX, 1);
    assert_null(t);
    assert_string_equal(faults.item[0].text,
                        "more than 65536 keys and values; a cluster file has "
                        "fewer");
}

static void a_text_has_a_limit(void **state)
{
    struct tree_node *t = list_of(1, TREE_TEXT_MAX);

    (void)state;
    assert_int_equal(faults.n, 0);
    yaml_tree_free(&t);
    t = list_of(1, TREE_TEXT_MAX + 1);
    assert_fault(0, 1, 3, "a value of 1025 bytes; at most 1024 are allowed");
    yaml_tree_free(&t);
}

static void a_file_has_a_limit(void **state)
{
    char *text = malloc(TREE_BYTES_MAX + 2);
    struct tree_node *t;

    (void)state;
    assert_non_null(text);
    memset(text, ' ', TREE_BYTES_MAX + 1);
    memcpy(text, "a: 1\n#", 6);
    memset(&faults, 0, sizeof faults);
    t = yaml_tree_parse(text, TREE_BYTES_MAX, &faults);
    assert_int_equal(faults.n, 0);
    yaml_tree_free(&t);
    assert_null(yaml_tree_parse(text, TREE_BYTES_MAX + 1, &faults));
    assert_fault(0, 0, 0,
                 "the file is 1048577 bytes long; at most 1048576 are allowed");
    free(text);
}

static void faults_past_the_limit_are_counted(void **state)
{
    char text[(FAULTS_MAX + 3) * 16] = "", line[32];
    struct tree_node *t;

    (void)state;
    for (int i = 0; i < FAULTS_MAX + 2; i++) {
        snprintf(line, sizeof line, "k%d: &x 1\n", i);
        strcat(text, line);
    }
    t = parse(text);
    assert_int_equal(faults.n, FAULTS_MAX);
    assert_int_equal(faults.n_more, 2);
    yaml_tree_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_have_their_places),
        cmocka_unit_test(null_is_empty_unless_quoted),
        cmocka_unit_test(keys_are_unique_in_a_map),
        cmocka_unit_test(the_first_of_two_equal_keys_counts),
        cmocka_unit_test(extras_of_yaml_are_refused),
        cmocka_unit_test(an_alias_is_a_fault_and_not_followed),
        cmocka_unit_test(a_syntax_error_has_its_place),
        cmocka_unit_test(depth_has_a_limit),
        cmocka_unit_test(nodes_have_a_limit),
        cmocka_unit_test(a_text_has_a_limit),
        cmocka_unit_test(a_file_has_a_limit),
        cmocka_unit_test(faults_past_the_limit_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
