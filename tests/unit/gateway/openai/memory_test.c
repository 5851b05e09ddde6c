/* The memory of a request: its bound, its budget, and what happens without. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json_bound.h"
#include "gateway/dialects/dialects.h"
#include "gateway/openai/json_memory.h"
#include "gateway/openai/request_parse.h"
#include "tests/unit/cmocka.h"

static struct {
    size_t live, peak; /* bytes of jansson, with the heads of malloc */
    unsigned n_live, n, fail_at;
} heap;

static void *take(size_t n)
{
    void *p = ++heap.n == heap.fail_at ? NULL : malloc(n);

    if (p == NULL) {
        json_memory_fail();
        return NULL;
    }
    heap.n_live++;
    heap.live += malloc_usable_size(p) + sizeof(size_t);
    heap.peak = heap.live > heap.peak ? heap.live : heap.peak;
    return p;
}

static void give(void *p)
{
    if (p != NULL) {
        heap.n_live--;
        heap.live -= malloc_usable_size(p) + sizeof(size_t);
        free(p);
    }
}

/* Writes `head`, then n times `piece` with commas between, then `tail`. */
static char *repeat(const char *head, const char *piece, size_t n,
                    const char *tail)
{
    size_t most = strlen(head) + n * (strlen(piece) + 1) + strlen(tail) + 1;
    char *text = malloc(most), *at;

    assert_non_null(text);
    at = stpcpy(text, head);
    for (size_t i = 0; i < n; i++) {
        at = stpcpy(stpcpy(at, piece), i + 1 < n ? "," : "");
    }
    stpcpy(at, tail);
    return text;
}

/* Members need different keys: parts of one string after another. */
static char *members(size_t n)
{
    char *text = malloc(n * 16 + 3), *at = text;

    assert_non_null(text);
    *at++ = '{';
    for (size_t i = 0; i < n; i++) {
        at += sprintf(at, "%s\"%zx\":1", i > 0 ? "," : "", i);
    }
    stpcpy(at, "}");
    return text;
}

static void costs_no_more_than(char *text)
{
    size_t n = strlen(text);
    json_t *tree;

    heap.peak = 0;
    heap.fail_at = 0;
    tree = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(tree);
    if (heap.peak > json_cost(text, n)) {
        fail_msg("%.40s..: %zu bytes, the bound is %zu", text, heap.peak,
                 json_cost(text, n));
    }
    json_decref(tree);
    free(text);
    assert_int_equal(heap.n_live, 0);
}

static void the_cost_of_a_tree_is_bounded(void **state)
{
    char *text = malloc(1100000);

    (void)state;
    memset(text, 'x', 1100000);
    memcpy(text, "[\"", 2);
    stpcpy(text + (1 << 20) + 3, "\"]"); /* just past a doubling */
    costs_no_more_than(text);
    costs_no_more_than(repeat("[", "7", 65537, "]"));
    costs_no_more_than(repeat("[", "1.5", 65537, "]"));
    costs_no_more_than(repeat("[", "\"a\"", 65537, "]"));
    costs_no_more_than(repeat("[", "[]", 32769, "]"));
    costs_no_more_than(repeat("[", "[7]", 32769, "]"));
    costs_no_more_than(repeat("[", "{}", 32769, "]"));
    costs_no_more_than(repeat("[", "{\"a\":\"b\"}", 32769, "]"));
    costs_no_more_than(members(32769));
    costs_no_more_than(members(65536));
    costs_no_more_than(repeat("[", "", 0, "]"));
}

static const char body[] =
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
    "\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":"
    "\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\",\"type\":"
    "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}"
    "}]},{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"7\"}],"
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
    "\"stop\":[\"x\",\"y\"],\"logit_bias\":{\"7\":1},\"chat_template_kwargs\":"
    "{\"a\":1}}";

static void a_request_counts_until_it_is_freed(void **state)
{
    struct memory_budget b = {.max = 1 << 20};
    struct openai_limits limits = {.memory = &b};
    struct openai_request *r;
    struct openai_error e;
    size_t n = sizeof body - 1, all;

    (void)state;
    assert_true(
        openai_request_parse(chat_dialect.parse, body, n, &limits, &r, &e));
    all = b.used;
    assert_true(all >= json_cost(body, n));
    openai_request_drop_input(r);
    assert_int_equal(b.used, n);
    openai_request_free(&r);
    assert_int_equal(b.used, 0);
    assert_false(
        openai_request_parse(chat_dialect.parse, "{}", 2, &limits, &r, &e));
    assert_int_equal(b.used, 0);

    b.max = all;
    b.used = 1; /* of another */
    assert_false(
        openai_request_parse(chat_dialect.parse, body, n, &limits, &r, &e));
    assert_int_equal(e.http, 503);
    assert_int_equal(b.used, 1);
    b.max = all - 1;
    assert_false(
        openai_request_parse(chat_dialect.parse, body, n, &limits, &r, &e));
    assert_int_equal(e.http, 413);
}

/* With strings below 16 bytes: the lexer of jansson reads past its buffer if
 * that cannot grow. */
static const char blocks[] =
    "{\"model\":\"m\",\"system\":[{\"type\":\"text\",\"text\":\"s\"}],"
    "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
    "\"a\"}]},{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\","
    "\"thinking\":\"t\"},{\"type\":\"text\",\"text\":\"b\"},{\"type\":"
    "\"tool_use\",\"id\":\"c\",\"name\":\"f\",\"input\":{\"x\":1}}]},{\"role\":"
    "\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"c\","
    "\"content\":\"7\"}]}],\"tools\":[{\"name\":\"f\",\"input_schema\":{}}],"
    "\"thinking\":{\"type\":\"enabled\"}}";

static void leaves_nothing(openai_parse_fn *parse, const char *text)
{
    unsigned n_all = 0;

    for (unsigned at = 0; at <= n_all; at++) {
        struct openai_request *r;
        struct openai_error e = {0};
        bool fine;

        heap.n = 0;
        heap.fail_at = at;
        fine = openai_request_parse(parse, text, strlen(text), NULL, &r, &e);
        assert_int_equal(fine, at == 0);
        if (fine) {
            n_all = heap.n;
        } else {
            assert_int_equal(e.http, 503);
        }
        openai_request_free(&r);
        assert_int_equal(heap.n_live, 0);
    }
    assert_true(n_all > 50);
}

/* jansson reports neither. */
static void a_parse_without_memory_is_refused_and_leaves_nothing(void **state)
{
    (void)state;
    leaves_nothing(chat_dialect.parse, body);
    leaves_nothing(anthropic_dialect.parse, blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cost_of_a_tree_is_bounded),
        cmocka_unit_test(a_request_counts_until_it_is_freed),
        cmocka_unit_test(a_parse_without_memory_is_refused_and_leaves_nothing),
    };

    json_set_alloc_funcs(take, give);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
