#include "text/template/ast.h"
#include "text/template/filters.h"
#include "text/template/lexer.h"
#include "text/template/operators.h"
#include "text/template/print.h"

#define TEST(name, condition)                                       \
    static struct value run_##name(struct heap *h, struct value in, \
                                   const struct args *a)            \
    {                                                               \
        (void)h;                                                    \
        (void)a;                                                    \
        return value_bool(condition);                               \
    }

TEST(defined, in.kind != VALUE_UNDEFINED)
TEST(undefined, in.kind == VALUE_UNDEFINED)
TEST(none, in.kind == VALUE_NONE)
TEST(boolean, in.kind == VALUE_BOOL)
TEST(true, in.kind == VALUE_BOOL && in.b)
TEST(false, in.kind == VALUE_BOOL && !in.b)
TEST(integer, in.kind == VALUE_INT)
TEST(float, in.kind == VALUE_FLOAT)
TEST(number, value_is_number(in))
TEST(string, in.kind == VALUE_STRING)
TEST(mapping, in.kind == VALUE_DICT)
TEST(iterable, value_is_iterable(in))
TEST(callable, in.kind == VALUE_MACRO || in.kind == VALUE_FUNCTION ||
                   in.kind == VALUE_METHOD)
TEST(sequence, in.kind == VALUE_UNDEFINED || in.kind == VALUE_STRING ||
                   in.kind == VALUE_DICT ||
                   (in.kind == VALUE_LIST && in.list->shape <= SHAPE_RANGE))
TEST(even, operator_binary(h, '%', in, value_int(2)).i == 0)
TEST(odd, operator_binary(h, '%', in, value_int(2)).i == 1)
TEST(lower, str_equal(print_str(h, in), case_lower(h, print_str(h, in))) &&
                !str_equal(print_str(h, in), case_upper(h, print_str(h, in))))
TEST(upper, str_equal(print_str(h, in), case_upper(h, print_str(h, in))) &&
                !str_equal(print_str(h, in), case_lower(h, print_str(h, in))))
TEST(divisibleby,
     need_int(h, operator_binary(h, '%', in, args_need(h, a, 0, "num")),
              "divisibleby") == 0)
TEST(filter, in.kind == VALUE_STRING && filter_find(in.s) != NULL)
TEST(test, in.kind == VALUE_STRING && test_find(in.s) != NULL)

#define COMPARISON(name, op) \
    TEST(name, operator_compare(h, op, in, args_need(h, a, 0, "other")))

COMPARISON(eq, OPERATOR('=', '='))
COMPARISON(ne, OPERATOR('!', '='))
COMPARISON(lt, '<')
COMPARISON(le, OPERATOR('<', '='))
COMPARISON(gt, '>')
COMPARISON(ge, OPERATOR('>', '='))
COMPARISON(in, OPERATOR_IN)

static bool same(struct heap *h, struct value a, struct value b)
{
    if (a.kind != b.kind) {
        return false;
    }
    if (a.kind == VALUE_LIST || a.kind == VALUE_DICT) {
        return a.kind == VALUE_LIST ? a.list == b.list : a.dict == b.dict;
    }
    return value_equal(h, a, b);
}

TEST(sameas, same(h, in, args_need(h, a, 0, "other")))

static const struct builtin rows[] = {
    {"!=", "other", run_ne},
    {"<", "other", run_lt},
    {"<=", "other", run_le},
    {"==", "other", run_eq},
    {">", "other", run_gt},
    {">=", "other", run_ge},
    {"boolean", "", run_boolean},
    {"callable", "", run_callable},
    {"defined", "", run_defined},
    {"divisibleby", "num", run_divisibleby},
    {"eq", "other", run_eq},
    {"equalto", "other", run_eq},
    {"even", "", run_even},
    {"false", "", run_false},
    {"filter", "", run_filter},
    {"float", "", run_float},
    {"ge", "other", run_ge},
    {"greaterthan", "other", run_gt},
    {"gt", "other", run_gt},
    {"in", "other", run_in},
    {"integer", "", run_integer},
    {"iterable", "", run_iterable},
    {"le", "other", run_le},
    {"lessthan", "other", run_lt},
    {"lower", "", run_lower},
    {"lt", "other", run_lt},
    {"mapping", "", run_mapping},
    {"ne", "other", run_ne},
    {"none", "", run_none},
    {"number", "", run_number},
    {"odd", "", run_odd},
    {"sameas", "other", run_sameas},
    {"sequence", "", run_sequence},
    {"string", "", run_string},
    {"test", "", run_test},
    {"true", "", run_true},
    {"undefined", "", run_undefined},
    {"upper", "", run_upper},
};

const struct builtin *test_find(struct str name)
{
    static const struct builtins table = {rows, sizeof rows / sizeof *rows};

    return builtin_find(&table, name);
}
