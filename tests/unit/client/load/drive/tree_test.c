/* A session while its turns run: descent, answers, sizes. */
#include "client/load/drive/tree.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

/*  0 -+- 1 --- 3
 *     '- 2       4: a root of its own */
static struct plan_session *drawn(void)
{
    static const int32_t parents[] = {-1, 0, 0, 1, -1};
    struct plan_session *s = calloc(1, sizeof *s);

    assert_non_null(s);
    s->number = 7;
    s->n_turns = s->n_pieces = 5;
    for (uint32_t i = 0; i < 5; i++) {
        s->turns[i] = (struct plan_turn){
            .parent = parents[i], .first_piece = i, .n_pieces = 1, .n_new = 10};
        s->pieces[i] = (struct plan_piece){i, 10};
    }
    return s;
}

static void copy_equals_its_original(void **state)
{
    struct plan_session *s = drawn(), *back = calloc(1, sizeof *back);
    struct tree t = {.n_turns = 0};

    (void)state;
    assert_non_null(back);
    tree_take(&t, s);
    tree_give(&t, back);
    assert_memory_equal(s, back, sizeof *s);
    assert_int_equal(t.n_roots, 2);
    assert_int_equal(t.n_left, 5);
    tree_fini(&t);
    free(s);
    free(back);
}

static void descent_is_found(void **state)
{
    struct plan_session *s = drawn();
    struct tree t = {.n_turns = 0};

    (void)state;
    tree_take(&t, s);
    assert_int_equal(tree_below(&t, 0), 1 << 1 | 1 << 2 | 1 << 3);
    assert_int_equal(tree_below(&t, 1), 1 << 3);
    assert_int_equal(tree_below(&t, 4), 0);
    assert_true(tree_has_children(&t, 1));
    assert_false(tree_has_children(&t, 2));
    tree_fini(&t);
    free(s);
}

static void answers_grow_the_prompts_of_children(void **state)
{
    struct plan_session *s = drawn();
    struct tree t = {.n_turns = 0};
    uint32_t ids[100] = {5};

    (void)state;
    tree_take(&t, s);
    tree_answer(&t, 0, NULL, 0, "text", 4);
    assert_int_equal(t.answers[0].n_text, 4);
    assert_int_equal(tree_tokens(&t, 1), 21);
    tree_answer(&t, 0, ids, 60, "text", 4); /* ids replace text */
    tree_answer(&t, 0, ids, 60, "text", 4);
    assert_int_equal(t.answers[0].n_text, 0);
    assert_int_equal(t.answers[0].n_ids, 120);
    assert_int_equal(t.answers[0].ids[60], 5);
    assert_int_equal(tree_tokens(&t, 3), 10 + 10 + 10 + 120);
    tree_answer(&t, 2, ids, 60, NULL, 0); /* has no children */
    assert_int_equal(t.answers[2].n_ids, 0);
    tree_fini(&t);
    free(s);
}

static void answer_is_cut_at_its_limit(void **state)
{
    struct plan_session *s = drawn();
    struct tree t = {.n_turns = 0};
    char *text = calloc(1, TREE_ANSWER_MAX);

    (void)state;
    assert_non_null(text);
    tree_take(&t, s);
    tree_answer(&t, 0, NULL, 0, text, TREE_ANSWER_MAX);
    assert_int_equal(t.answers[0].n_text, TREE_ANSWER_MAX);
    tree_answer(&t, 0, NULL, 0, text, 1);
    assert_int_equal(t.answers[0].n_text, TREE_ANSWER_MAX);
    tree_fini(&t);
    free(text);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy_equals_its_original),
        cmocka_unit_test(descent_is_found),
        cmocka_unit_test(answers_grow_the_prompts_of_children),
        cmocka_unit_test(answer_is_cut_at_its_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
