/* Arbitrary bytes as a chat template, rendered with a conversation.
 *
 * An input that starts with "G" chooses productions of a grammar, so that it
 * nearly always compiles; one of at most 8 bytes that starts with "R" seeds
 * ROUNDS such inputs.  Any other input is the template itself.  A rendering is
 * UTF-8, its spans are in order, and a prompt without trusted bytes has no
 * control token. */
#include <stdbool.h>
#include <string.h>

#include "common/base/utf8.h"
#include "fuzz.h"
#include "text/template/chat_template.h"

#define SOURCE_MAX 4096
#define ROUNDS     20
#define IDS_MAX    (1 << 16)

static const char conversation[] =
    "[{\"role\":\"system\",\"content\":\"Be <|im_end|> kind\"},"
    "{\"role\":\"user\",\"content\":\"<|im_start|>\\u00e9 \\\"q\\\" \\n x\"},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":"
    "{\"name\":\"f\",\"arguments\":{\"a\":1,\"b\":[1.5,null,true]}}}]},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"<|im\"}]}]";

static const struct tokenizer *tokenizer(void)
{
    static struct tokenizer *t;

    if (t == NULL && tokenizer_load(&t, "models/tiny-hybrid/tokenizer.json",
                                    NULL) != ST_OK) {
        abort();
    }
    return t;
}

/* ---- checks ---- */

static void encode(const struct chat_prompt *p, bool all_untrusted)
{
    static uint32_t ids[IDS_MAX];
    const struct tokenizer *t = tokenizer();
    size_t n;

    if (tokenizer_bound(t, p->n) > IDS_MAX) {
        return;
    }
    FUZZ_CHECK(tokenizer_encode_spans(t, p->text, p->n, p->untrusted,
                                      p->n_untrusted, 0, ids, IDS_MAX, &n,
                                      NULL) == ST_OK);
    for (size_t i = 0; all_untrusted && i < n; i++) {
        FUZZ_CHECK(!tokenizer_is_special(t, ids[i]));
    }
}

static void check_prompt(const struct chat_prompt *p)
{
    size_t end = 0, untrusted = 0;

    FUZZ_CHECK(utf8_valid(p->text, p->n, NULL));
    for (size_t i = 0; i < p->n_untrusted; i++) {
        FUZZ_CHECK(p->untrusted[i].begin < p->untrusted[i].end);
        FUZZ_CHECK(i == 0 || p->untrusted[i].begin > end);
        end = p->untrusted[i].end;
        untrusted += end - p->untrusted[i].begin;
    }
    FUZZ_CHECK(end <= p->n);
    encode(p, untrusted == p->n);
}

static void run(const char *source, size_t n)
{
    static json_t *messages, *name;
    struct chat_template *t;
    struct chat_prompt p;
    struct error e = {0};

    if (messages == NULL) {
        messages = json_loads(conversation, 0, NULL);
        name = json_string("<|im_start|> Na\xC3\xAFve,a,b \n");
        FUZZ_CHECK(messages != NULL && name != NULL);
    }
    if (chat_template_compile(&t, source, n, &e) != ST_OK) {
        FUZZ_CHECK(t == NULL && e.text[0] != '\0');
        return;
    }
    const struct chat_variable vars[] = {{"messages", messages, false},
                                         {"s", name, false}};
    if (chat_template_render(t, vars, 2, 1, &p, &e) == ST_OK) {
        check_prompt(&p);
    } else {
        FUZZ_CHECK(p.text == NULL && e.code != ST_OK);
    }
    chat_prompt_fini(&p);
    chat_template_free(&t);
}

/* ---- the grammar ---- */

/* \1 stands for an expression, \2 for statements. */
static const char *const expressions[] = {"s",
                                          "x",
                                          "messages",
                                          "m",
                                          "1",
                                          "-7",
                                          "0.5",
                                          "'ab'",
                                          "''",
                                          "none",
                                          "true",
                                          "[]",
                                          "{}",
                                          "loop.index",
                                          "loop.last",
                                          "loop.previtem",
                                          "m.content",
                                          "m.role",
                                          "m['content']",
                                          "messages[-1]",
                                          "ns.a",
                                          "'<|im_'",
                                          "range(9)",
                                          "\1+\1",
                                          "\1-\1",
                                          "\1*\1",
                                          "\1//\1",
                                          "\1%\1",
                                          "\1**\1",
                                          "\1~\1",
                                          "-\1",
                                          "(\1)",
                                          "[\1,\1]",
                                          "(\1,\1)",
                                          "{'k':\1}",
                                          "{\1:\1}",
                                          "\1 if \1 else \1",
                                          "not \1",
                                          "\1 and \1",
                                          "\1 or \1",
                                          "\1==\1",
                                          "\1<\1",
                                          "\1 in \1",
                                          "\1 not in \1",
                                          "\1.a",
                                          "\1['a']",
                                          "\1[\1]",
                                          "\1[\1:\1]",
                                          "\1[::\1]",
                                          "\1[::-1]",
                                          "\1|upper",
                                          "\1|lower",
                                          "\1|title",
                                          "\1|trim",
                                          "\1|length",
                                          "\1|list",
                                          "\1|join(\1)",
                                          "\1|replace(\1,\1)",
                                          "\1|tojson",
                                          "\1|tojson(indent=2)",
                                          "\1|default(\1)",
                                          "\1|first",
                                          "\1|last",
                                          "\1|sort",
                                          "\1|unique|list",
                                          "\1|map('upper')|list",
                                          "\1|map(attribute='content')",
                                          "\1|selectattr('role','equalto',\1)",
                                          "\1|select|list",
                                          "\1|reverse",
                                          "\1|items",
                                          "\1|dictsort",
                                          "\1|int",
                                          "\1|float",
                                          "\1|string",
                                          "\1|indent",
                                          "\1|sum",
                                          "\1|max",
                                          "\1|batch(2)|list",
                                          "\1|from_json",
                                          "\1|escape",
                                          "\1|round",
                                          "\1|abs",
                                          "\1|center(9)",
                                          "\1|format(\1)",
                                          "\1.split(\1)",
                                          "\1.split()",
                                          "\1.rsplit(\1,1)",
                                          "\1.strip(\1)",
                                          "\1.items()",
                                          "\1.get(\1)",
                                          "\1.startswith(\1)",
                                          "\1.replace(\1,\1,1)",
                                          "\1.find(\1)",
                                          "\1.count(\1)",
                                          "\1.append(\1)",
                                          "\1.pop()",
                                          "\1.insert(\1,\1)",
                                          "\1.splitlines()",
                                          "'{}{}'.format(\1,\1)",
                                          "\1.title()",
                                          "f(\1)",
                                          "f()",
                                          "caller()",
                                          "namespace(a=\1)",
                                          "dict(a=\1)",
                                          "range(\1,\1)",
                                          "strftime_now('%Y')",
                                          "\1 is string",
                                          "\1 is mapping",
                                          "\1 is divisibleby 3",
                                          "\1 is sameas \1",
                                          "\1 is odd",
                                          "\1 is lower",
                                          "loop.cycle(\1,\1)"};
static const char *const blocks[] = {
    "",
    "text ",
    "<|im_",
    "start|>\n",
    "  ",
    "\n",
    "{{ \1 }}",
    "{{- \1 -}}",
    "{{ \1 }}{{ \1 }}",
    "\2\2",
    "\2 \2",
    "{% if \1 %}\2{% else %}\2{% endif %}",
    "{%- if \1 -%}\2{%- elif \1 -%}\2{%- endif -%}",
    "{% for m in messages %}\2{% endfor %}",
    "{% for x in \1 %}\2{% else %}\2{% endfor %}",
    "{% for x in \1 if \1 %}\2{% if \1 %}{% break %}{% endif %}{% endfor %}",
    "{% for x in \1 %}{% continue %}{% endfor %}",
    "{% for k, x in \1|items %}\2{% endfor %}",
    "{% set x = \1 %}\2",
    "{% set x %}\2{% endset %}{{ x }}",
    "{% set ns = namespace(a=\1) %}\2",
    "{% set ns.a = \1 %}",
    "{% macro f(x=\1) %}\2{% endmacro %}\2",
    "{% call(x) f(\1) %}\2{% endcall %}",
    "{% filter trim %}\2{% endfilter %}",
    "{% filter replace(\1, \1) %}\2{% endfilter %}",
    "{# c #}",
    "{% raw %}{{ x }}{% endraw %}",
    "{% generation %}\2{% endgeneration %}",
    "{% set m, x = \1 %}"};

struct choices {
    const uint8_t *data;
    size_t n, at;
    char out[SOURCE_MAX];
    size_t written;
};

static size_t choose(struct choices *c, size_t n)
{
    return c->at < c->n ? c->data[c->at++] % n : 0;
}

static void expand(struct choices *c, const char *p, unsigned depth)
{
    for (; *p != '\0' && c->written < SOURCE_MAX; p++) {
        bool deep = depth > 12;

        if (*p == '\1') {
            /* The first ones have no parts. */
            size_t n = deep ? 23 : sizeof expressions / sizeof *expressions;
            expand(c, expressions[choose(c, n)], depth + 1);
        } else if (*p == '\2') {
            size_t n = deep ? 6 : sizeof blocks / sizeof *blocks;
            expand(c, blocks[choose(c, n)], depth + 1);
        } else {
            c->out[c->written++] = *p;
        }
    }
}

static void generated(const uint8_t *data, size_t n)
{
    struct choices c = {.data = data, .n = n};

    expand(&c,
           "{% set ns = namespace(a=1) %}{% set x = s %}"
           "{% macro f(a, b=2) %}{{ a }}{% endmacro %}",
           0);
    while (c.at < c.n && c.written < SOURCE_MAX) {
        expand(&c, "\2", 0);
    }
    run(c.out, c.written);
}

static void rounds(const uint8_t *data, size_t n)
{
    uint64_t x = 88172645463325252u;
    uint8_t bytes[256];

    for (size_t i = 0; i < n; i++) {
        x = (x ^ data[i]) * 0x9E3779B97F4A7C15u;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < sizeof bytes; i++) {
            x ^= x << 13; /* Marsaglia, "Xorshift RNGs", 2003 */
            x ^= x >> 7;
            x ^= x << 17;
            bytes[i] = (uint8_t)(x >> 24);
        }
        generated(bytes, 8 + bytes[0] % (sizeof bytes - 8));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n > 0 && n <= 8 && data[0] == 'R') {
        rounds(data, n);
    } else if (n > 0 && data[0] == 'G') {
        generated(data + 1, n - 1);
    } else if (n <= SOURCE_MAX) {
        run((const char *)data, n);
    }
    return 0;
}
