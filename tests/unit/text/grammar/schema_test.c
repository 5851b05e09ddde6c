/* JSON Schema: instances, refusals, and the official tests. */
#include <jansson.h>
#include <stdio.h>

#include "grammar_fixture.h"
#include "text/grammar/formats.h"
#include "text/grammar/schema.h"

static struct grammar_vocab *vocab;

static int setup(void **state)
{
    (void)state;
    vocab = fixture_vocab();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    grammar_vocab_free(&vocab);
    return 0;
}

/* Single quotes stand for double ones. */
static char *unquoted(const char *s)
{
    char *to = strdup(s);

    assert_non_null(to);
    for (char *c = to; *c != '\0'; c++) {
        *c = *c == '\'' ? '"' : *c;
    }
    return to;
}

struct row {
    const char *schema, *yes, *no;
};

static const struct row rows[] = {
    {"true", "{'a':[1,null]}", "{'a':}"},
    {"{'type':'integer'}", "-12", "1.5"},
    {"{'type':'number'}", "-1.5e+10", "01"},
    {"{'type':['string','null']}", "null", "true"},
    {"{'minimum':-5,'maximum':10.5,'type':'number'}", "-4.25", "10.51"},
    {"{'minimum':-5,'maximum':10.5,'type':'number'}", "10.50", "-5.01"},
    {"{'exclusiveMinimum':0,'type':'number'}", "0.01", "0.0"},
    {"{'exclusiveMaximum':0,'type':'number'}", "-0.01", "-0"},
    {"{'minimum':17,'maximum':1234,'type':'integer'}", "999", "16"},
    {"{'minimum':17,'maximum':1234,'type':'integer'}", "17", "1235"},
    {"{'minimum':3,'exclusiveMinimum':true,'type':'integer'}", "4", "3"},
    {"{'multipleOf':7,'type':'integer'}", "-49", "50"},
    {"{'multipleOf':0.01,'type':'number'}", "1.250", "1.255"},
    {"{'type':'string','minLength':2,'maxLength':3}",
     "'\xC3\xA9\xF0\x9F\x98\x80'", "'a'"},
    {"{'type':'string','maxLength':3}", "'\\ud83d\\ude00ab'", "'abcd'"},
    {"{'type':'string','pattern':'^a','maxLength':2}", "'ab'", "'abb'"},
    {"{'enum':['a',1,null,[1]]}", "[1]", "'b'"},
    {"{'const':{'a':1}}", "{'a':1}", "{'a':2}"},
    {"{'type':'array','items':{'type':'integer'},'minItems':1,'maxItems':2}",
     "[1,2]", "[]"},
    {"{'type':'array','items':{'type':'integer'},'minItems':1,'maxItems':2}",
     "[1]", "[1,2,3]"},
    {"{'type':'array','prefixItems':[{'const':1}],'items':false}", "[1]",
     "[1,2]"},
    {"{'type':'array','items':[{'const':1}],'additionalItems':{'const':2}}",
     "[1,2,2]", "[1,1]"},
    {"{'type':'object','properties':{'a':{'const':1}}}", "{'b':2,'a':1}",
     "{'a':2}"},
    {"{'type':'object','properties':{'a':{'const':1}}}", "{}", "{'\\u0061':2}"},
    {"{'type':'object','required':['a','b']}", "{'b':1,'a':2}", "{'a':1}"},
    {"{'type':'object','properties':{'a':{}},'additionalProperties':false}",
     "{'a':1}", "{'b':1}"},
    {"{'type':'object','additionalProperties':{'type':'null'}}", "{'x':null}",
     "{'x':1}"},
    {"{'type':'object','patternProperties':{'^x':{'type':'null'}},"
     "'additionalProperties':false}",
     "{'xy':null}", "{'y':null}"},
    {"{'type':'object','patternProperties':{'^x':{'type':'null'},'y':"
     "{'enum':[1,null]}}}",
     "{'xy':null,'ay':1}", "{'xy':1}"},
    {"{'type':'object','propertyNames':{'pattern':'^[a-z]$'}}", "{'a':1}",
     "{'A':1}"},
    {"{'type':'object','minProperties':1,'maxProperties':2}", "{'a':1}", "{}"},
    {"{'type':'object','minProperties':1,'maxProperties':2}", "{'a':1,'b':2}",
     "{'a':1,'b':2,'c':3}"},
    {"{'type':'object','minProperties':2,'additionalProperties':false,"
     "'properties':{'a':{},'b':{},'c':false}}",
     "{'b':1,'a':2}", "{'a':1}"},
    {"{'allOf':[{'minimum':2},{'maximum':4}],'type':'integer'}", "3", "5"},
    {"{'anyOf':[{'const':'a'},{'type':'integer'}]}", "12", "'b'"},
    {"{'oneOf':[{'type':'integer'},{'type':'string'}]}", "'b'", "null"},
    {"{'oneOf':[{'type':'integer','minimum':3},{'type':'integer',"
     "'maximum':5}]}",
     "6", "4"},
    {"{'type':'object','properties':{'k':{'enum':['a','b']}},'required':"
     "['k'],'oneOf':[{'properties':{'k':{'const':'a'}}},{'properties':{'k':"
     "{'const':'b'},'z':{'const':1}}}]}",
     "{'k':'b','z':1}", "{'k':'b','z':2}"},
    {"{'type':'string','not':{'enum':['a','ab']}}", "'abc'", "'ab'"},
    {"{'not':{'type':'string'}}", "1", "'a'"},
    {"{'type':'object','not':{'required':['a']}}", "{'b':1}", "{'a':1}"},
    {"{'type':'object','if':{'properties':{'a':{'const':1}},'required':"
     "['a']},'then':{'required':['b']},'else':{'required':['c']}}",
     "{'a':1,'b':0}", "{'a':1,'c':0}"},
    {"{'type':'object','if':{'properties':{'a':{'const':1}},'required':"
     "['a']},'then':{'required':['b']},'else':{'required':['c']}}",
     "{'a':2,'c':0}", "{'a':2,'b':0}"},
    {"{'type':'object','dependentRequired':{'a':['b']}}", "{'b':1}", "{'a':1}"},
    {"{'type':'object','dependencies':{'a':{'required':['b']}}}",
     "{'a':1,'b':1}", "{'a':1}"},
    {"{'$ref':'#/$defs/n','$defs':{'n':{'type':'array','items':"
     "{'$ref':'#/$defs/n'}}}}",
     "[[],[[]]]", "[1]"},
    {"{'$ref':'#n','$defs':{'x':{'$anchor':'n','type':'null'}}}", "null", "1"},
    {"{'type':'string','format':'date'}", "'2024-02-29'", "'2023-02-29'"},
    {"{'type':'string','format':'date-time'}", "'2024-01-01T00:00:00Z'",
     "'2024-01-01 00:00:00'"},
    {"{'type':'string','format':'email'}", "'a.b@c.de'", "'a@'"},
    {"{'type':'string','format':'ipv6'}", "'2001:db8::1'", "'1::2::3'"},
    {"{'type':'string','format':'uuid'}",
     "'123e4567-e89b-12d3-a456-426614174000'", "'123e4567'"},
    {"{'type':'string','format':'uri'}", "'http://a.b/c?d#e'", "'a b'"},
    {"{'type':'string','format':'hostname'}", "'a-b.c'", "'-a'"},
    {"{'type':'string','format':'of-our-own'}", "'anything'", "1"},
    {"{'type':'object','properties':{'a':{}},'unevaluatedProperties':false}",
     "{'a':1}", "{'b':1}"},
};

static void instances(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *schema = unquoted(rows[i].schema), *yes = unquoted(rows[i].yes);
        char *no = unquoted(rows[i].no);
        struct grammar *g =
            fixture_grammar(vocab, GRAMMAR_SCHEMA, schema, &fixture_free);

        if (!fixture_matches(g, yes)) {
            fail_msg("%s refuses %s", schema, yes);
        }
        if (fixture_matches(g, no)) {
            fail_msg("%s allows %s", schema, no);
        }
        grammar_free(&g);
        free(schema);
        free(yes);
        free(no);
    }
}

/* In the strict style the order is the schema's, and there is no white space.
 */
static void order_and_space_are_a_style(void **state)
{
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}},"
        "\"required\":[\"b\"],\"additionalProperties\":false}";
    struct grammar *strict =
        fixture_grammar(vocab, GRAMMAR_SCHEMA, schema, &fixture_strict);
    struct grammar *loose =
        fixture_grammar(vocab, GRAMMAR_SCHEMA, schema, &fixture_free);

    (void)state;
    assert_true(fixture_matches(strict, "{\"a\":1,\"b\":2}"));
    assert_true(fixture_matches(strict, "{\"b\":1,\"c\":2}"));
    assert_false(fixture_matches(strict, "{\"b\":1,\"a\":2}"));
    assert_false(fixture_matches(strict, "{\"b\": 1}"));
    assert_false(fixture_matches(strict, "{\"a\":1,\"c\":2}"));
    assert_true(fixture_matches(loose, "{\"c\": 1,\n  \"b\": 2 }"));
    assert_false(fixture_matches(loose, "{\"b\":1,\"b\":2}"));
    assert_false(fixture_matches(loose, "{\"b\":  1}"));
    grammar_free(&strict);
    grammar_free(&loose);
}

static void any_object(void **state)
{
    struct grammar *g =
        fixture_grammar(vocab, GRAMMAR_OBJECT, "", &fixture_free);

    (void)state;
    assert_true(fixture_matches(g, "{\"a\": [1, {\"b\": null}]}"));
    assert_false(fixture_matches(g, "[]"));
    grammar_free(&g);
}

static void refusals_name_keyword_and_place(void **state)
{
    static const struct {
        const char *schema;
        enum status st;
        const char *part;
    } no[] = {
        {"{'properties':{'a':{'contains':{}}}}", ST_UNIMPLEMENTED,
         "contains at #/properties/a"},
        {"{'type':'array','uniqueItems':true}", ST_UNIMPLEMENTED,
         "uniqueItems"},
        {"{'type':'object','minProperties':2}", ST_UNIMPLEMENTED,
         "minProperties"},
        {"{'type':'number','multipleOf':2.5}", ST_UNIMPLEMENTED, "multipleOf"},
        {"{'type':'string','format':'iri'}", ST_UNIMPLEMENTED, "format"},
        {"{'not':{'items':{'type':'null'}}}", ST_UNIMPLEMENTED,
         "items at #/not"},
        {"{'oneOf':[{'items':{'type':'null'}},{'items':{'type':'string'}}]}",
         ST_UNIMPLEMENTED, "items at #/oneOf/"},
        {"{'$ref':'http://example.com/x'}", ST_UNIMPLEMENTED, "$ref at #"},
        {"{'$ref':'#/nothing'}", ST_INVALID_ARGUMENT, "refers to nothing"},
        {"{'$dynamicRef':'#a'}", ST_UNIMPLEMENTED, "$dynamicRef"},
        {"{'properties':{'x':{'$id':'y','items':{'$ref':'#'}}}}",
         ST_UNIMPLEMENTED, "$id"},
        {"{'type':'strin'}", ST_INVALID_ARGUMENT, "type at #"},
        {"{'type':'string','minLength':-1}", ST_INVALID_ARGUMENT, "minLength"},
        {"{'type':'string','pattern':'(a)\\\\1'}", ST_UNIMPLEMENTED,
         "pattern at #"},
        {"{'properties':{'a':1}}", ST_INVALID_ARGUMENT, "a schema"},
        {"false", ST_INVALID_ARGUMENT, "no text matches"},
        {"{'type':'integer','minimum':2,'maximum':1}", ST_INVALID_ARGUMENT,
         "no text matches"},
        {"{'type':'array','minItems':1,'items':{'$ref':'#'}}",
         ST_INVALID_ARGUMENT, "no text matches"},
        {"{", ST_INVALID_ARGUMENT, "not JSON"},
        {"{'const':'\\u0000'}", ST_UNIMPLEMENTED, "U+0000"},
        {"1", ST_INVALID_ARGUMENT, "a schema"},
        {"{'\\u0001enum':[1]}", ST_INVALID_ARGUMENT, "U+0001"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        char *schema = unquoted(no[i].schema);
        struct grammar *g;
        struct error e = {0};
        enum status st = grammar_compile(&g, vocab, GRAMMAR_SCHEMA, schema,
                                         strlen(schema), &fixture_free, &e);

        if (st != no[i].st || strstr(e.text, no[i].part) == NULL) {
            fail_msg("%s: %s \"%s\"", schema, status_name(st), e.text);
        }
        assert_null(g);
        free(schema);
    }
}

/* A comparison of oneOf leaves rules without body where it meets a keyword that
 * is refused.  They count as live, and no grammar may reach one. */
static void rules_without_body_are_refused(void **state)
{
    struct machine m;
    struct error e;
    uint32_t root, open;

    (void)state;
    assert_int_equal(machine_init(&m, &fixture_strict, 1 << 20, &e), ST_OK);
    root = machine_rule(&m);
    open = machine_rule(&m);
    machine_set_rule(
        &m, root,
        expr_cat(&m.pool, expr_byte(&m.pool, 'a'), expr_call(&m.pool, open)));
    assert_true(machine_rule_live(&m, root));
    assert_int_equal(machine_finish(&m, root, &e), ST_UNIMPLEMENTED);
    machine_set_rule(&m, open, expr_byte(&m.pool, 'b'));
    assert_int_equal(machine_finish(&m, root, &e), ST_OK);
    machine_fini(&m);
}

/* ---- documents ---- */

static char *read_document(void)
{
    FILE *f = fopen("docs/structured.md", "r");
    char *text = calloc(1, 1 << 16);

    assert_non_null(f);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
    fclose(f);
    return text;
}

static unsigned count(const char *text, const char *part)
{
    unsigned n = 0;

    for (; (text = strstr(text, part)) != NULL; text++) {
        n++;
    }
    return n;
}

/* docs/structured.md has a row for each row of the tables, and no other. */
static void documents_have_the_tables(void **state)
{
    static const char *const support[] = {"enforced", "where decidable",
                                          "refused", "ignored"};
    char *text = read_document(), row[400];

    (void)state;
    for (size_t i = 0; i < schema_keywords_n; i++) {
        const struct schema_keyword *k = &schema_keywords[i];

        snprintf(row, sizeof row, "| `%s` | %s | %s%s|\n", k->name,
                 support[k->support], k->note, *k->note == '\0' ? "" : " ");
        if (strstr(text, row) == NULL) {
            fail_msg("missing: %s", row);
        }
    }
    for (size_t i = 0; i < format_rows_n; i++) {
        snprintf(row, sizeof row, "| `%s` | %s |\n", format_rows[i].name,
                 format_rows[i].pattern == NULL ? "refused" : "enforced");
        if (strstr(text, row) == NULL) {
            fail_msg("missing: %s", row);
        }
    }
    assert_int_equal(count(text, "\n| `"), schema_keywords_n + format_rows_n);
    free(text);
}

/* ---- the official tests ---- */

/* Valid instances that are never written, by docs/structured.md: the fraction
 * of an integer, and an object of an enum in another order.  Formats are
 * enforced, though the draft makes them annotations. */
static bool is_documented(const char *name)
{
    static const char *const names[] = {"type/integer type matches integers",
                                        "enum/enum with ",
                                        "const/const with ",
                                        "const/float and integers are equal",
                                        "format/",
                                        "vocabulary/"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strncmp(name, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

struct counts {
    unsigned right, refused, not_written;
};

static void run_case(const json_t *j, struct counts *n)
{
    const char *name = json_string_value(json_object_get(j, "name"));
    const json_t *tests = json_object_get(j, "tests"), *t;
    char *schema = json_dumps(json_object_get(j, "schema"), JSON_ENCODE_ANY);
    struct grammar *g;
    struct error e = {0};
    enum status st = grammar_compile(&g, vocab, GRAMMAR_SCHEMA, schema,
                                     strlen(schema), &fixture_free, &e);
    size_t i;

    json_array_foreach(tests, i, t)
    {
        bool valid = json_is_true(json_object_get(t, "valid")), is;
        char *text = json_dumps(json_object_get(t, "data"),
                                JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));

        is = st == ST_OK && fixture_matches(g, text);
        if (is && !valid) {
            fail_msg("%s: allows %s", name, text);
        }
        if (st == ST_OK && valid && !is && !is_documented(name)) {
            fail_msg("%s: refuses %s", name, text);
        }
        n->refused += st != ST_OK;
        n->right += st == ST_OK && is == valid;
        n->not_written += st == ST_OK && is != valid;
        free(text);
    }
    /* A schema that nothing matches is refused as such. */
    if (st != ST_OK && st != ST_UNIMPLEMENTED && st != ST_INVALID_ARGUMENT) {
        fail_msg("%s: %s", name, e.text);
    }
    grammar_free(&g);
    free(schema);
}

static void official_tests_are_right_or_refused(void **state)
{
    FILE *f = fopen(SLUICE_SCHEMAS "/draft2020-12.jsonl", "r");
    struct counts n = {0};
    char *line = NULL;
    size_t cap = 0;

    (void)state;
    assert_non_null(f);
    while (getline(&line, &cap, f) > 0) {
        json_t *j = json_loads(line, JSON_ALLOW_NUL, NULL);

        assert_non_null(j);
        run_case(j, &n);
        json_decref(j);
    }
    free(line);
    fclose(f);
    print_message("%u right, %u refused by name, %u not written\n", n.right,
                  n.refused, n.not_written);
    assert_int_equal(n.right + n.refused + n.not_written, 1299);
    assert_true(n.right >= 825);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instances),
        cmocka_unit_test(order_and_space_are_a_style),
        cmocka_unit_test(any_object),
        cmocka_unit_test(refusals_name_keyword_and_place),
        cmocka_unit_test(rules_without_body_are_refused),
        cmocka_unit_test(documents_have_the_tables),
        cmocka_unit_test(official_tests_are_right_or_refused),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
