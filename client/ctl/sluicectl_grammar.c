/* sluicectl_grammar.c - The verb grammar: what a schema allows, and whether a
 * text stays inside.
 *
 * Needs no router. */
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "common/base/monotonic.h"
#include "text/file.h"
#include "text/grammar/grammar_limits.h"
#include "text/grammar/grammar_tokens.h"
#include "text/model_tokenizer.h"

#define SHOWN 40 /* bytes before the place where a text leaves */

struct grammar_verb {
    const struct ctl *ctl;
    struct tokenizer *tokenizer;
    struct grammar_vocab *vocab;
    struct grammar *grammar;
    char *source, *text; /* text: NULL without --text */
    size_t n_source, n_text;
    int64_t compile_us, first_mask_us;
    int64_t mask_us, longest_mask_us; /* of all tokens of the text */
    size_t n_masks;
    bool complete;  /* the text is a whole one */
    size_t left_at; /* the byte at which it leaves; n_text: nowhere */
};

static enum status kind_named(const char *name, enum grammar_kind *kind,
                              struct error *e)
{
    static const char *const names[] = {[GRAMMAR_SCHEMA] = "schema",
                                        [GRAMMAR_OBJECT] = "object",
                                        [GRAMMAR_REGEX] = "regex",
                                        [GRAMMAR_CHOICE] = "choice"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0) {
            *kind = (enum grammar_kind)i;
            return ST_OK;
        }
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "--kind: \"%.40s\" is not schema, object, regex or "
                     "choice",
                     name);
}

/* Reads a file without the line's end that editors add. */
static enum status read_text(const char *path, char **text, size_t *n,
                             struct error *e)
{
    enum status st = file_read(path, GRAMMAR_SOURCE_MAX + 1, text, n, e);

    if (st == ST_OK && *n > 0 && (*text)[*n - 1] == '\n') {
        --*n;
    }
    return st;
}

static enum status compile(struct grammar_verb *v, struct error *e)
{
    const struct ctl_options *o = &v->ctl->o;
    const struct grammar_style style = {.any_order = o->any_order,
                                        .spaces = !o->compact};
    enum grammar_kind kind = GRAMMAR_SCHEMA;
    enum status st = kind_named(o->kind, &kind, e);
    int64_t start;

    if (st == ST_OK) {
        st = read_text(v->ctl->operands[1], &v->source, &v->n_source, e);
    }
    if (st == ST_OK) {
        st = model_tokenizer_load(&v->tokenizer, o->model, e);
    }
    if (st == ST_OK) {
        st = grammar_vocab_of(&v->vocab, v->tokenizer, NULL, 0, e);
    }
    if (st != ST_OK) {
        return st;
    }
    start = monotonic_us();
    st = grammar_compile(&v->grammar, v->vocab, kind, v->source, v->n_source,
                         &style, e);
    v->compile_us = monotonic_us() - start;
    return st == ST_OK ? ST_OK : error_wrap(e, "%s", v->ctl->operands[1]);
}

/* Takes ids one by one until one is not allowed. */
static enum status run_ids(struct grammar_verb *v, struct constraint *c,
                           const uint32_t *ids, size_t n, struct error *e)
{
    uint64_t *bits = calloc(grammar_vocab_words(v->vocab), sizeof *bits);
    enum status st = ST_OK;

    if (bits == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "memory: a mask");
    }
    for (size_t i = 0; i <= n && st == ST_OK; i++) {
        int64_t start = monotonic_us(), us;

        st = constraint_mask(c, bits, e);
        us = monotonic_us() - start;
        v->first_mask_us = i == 0 ? us : v->first_mask_us;
        v->mask_us += us;
        v->longest_mask_us = us > v->longest_mask_us ? us : v->longest_mask_us;
        v->n_masks++;
        if (i == n || st != ST_OK ||
            constraint_accept(c, ids[i], NULL) != ST_OK) {
            break;
        }
    }
    free(bits);
    return st;
}

/* Finds the byte at which the text leaves the grammar, after the tokens. */
static void find_place(struct grammar_verb *v, struct constraint *c)
{
    size_t done, taken;

    constraint_text(c, &done);
    v->left_at = v->n_text;
    if (done > v->n_text || /* another text, by the tokenizer's normal form */
        constraint_accept_text(c, v->text + done, v->n_text - done, &taken,
                               NULL) != ST_OK) {
        v->left_at = done > v->n_text ? v->n_text : done + taken;
        return;
    }
    v->complete = constraint_complete(c);
}

static enum status check_text(struct grammar_verb *v, struct error *e)
{
    size_t cap = tokenizer_bound(v->tokenizer, v->n_text), n = 0;
    uint32_t *ids = malloc((cap + 1) * sizeof *ids);
    struct constraint *c = NULL;
    enum status st = ids == NULL ? error_set(e, ST_RESOURCE_EXHAUSTED,
                                             "memory: ids of the text")
                                 : ST_OK;

    if (st == ST_OK && v->text != NULL) {
        st = tokenizer_encode(v->tokenizer, v->text, v->n_text, 0, ids, cap, &n,
                              e);
    }
    if (st == ST_OK) {
        st = constraint_new(&c, v->grammar, e);
    }
    if (st == ST_OK) {
        st = run_ids(v, c, ids, n, e);
    }
    if (st == ST_OK && v->text != NULL) {
        find_place(v, c);
    }
    constraint_free(&c);
    free(ids);
    return st;
}

static void print_json(const struct grammar_verb *v,
                       const struct grammar_sizes *s)
{
    json_t *j = json_object();

    json_object_set_new(j, "rules", json_integer(s->rules));
    json_object_set_new(j, "states", json_integer(s->states));
    json_object_set_new(j, "bytes", json_integer((json_int_t)s->bytes));
    json_object_set_new(j, "mask_bytes",
                        json_integer((json_int_t)s->mask_bytes));
    json_object_set_new(j, "compile_us", json_integer(v->compile_us));
    json_object_set_new(j, "first_mask_us", json_integer(v->first_mask_us));
    if (v->text != NULL) {
        json_object_set_new(j, "masks", json_integer((json_int_t)v->n_masks));
        json_object_set_new(j, "masks_us", json_integer(v->mask_us));
        json_object_set_new(j, "longest_mask_us",
                            json_integer(v->longest_mask_us));
        json_object_set_new(j, "complete", json_boolean(v->complete));
        json_object_set_new(j, "left_at",
                            v->left_at == v->n_text
                                ? json_null()
                                : json_integer((json_int_t)v->left_at));
    }
    ctl_print_json(j);
}

/* Prints the end of the accepted text and the start of the rest. */
static void print_place(const struct grammar_verb *v)
{
    size_t from = v->left_at > SHOWN ? v->left_at - SHOWN : 0;
    size_t n_rest = v->n_text - v->left_at;
    ProtobufCBinaryData before = {v->left_at - from, (uint8_t *)v->text + from};
    ProtobufCBinaryData after = {n_rest < SHOWN ? n_rest : SHOWN,
                                 (uint8_t *)v->text + v->left_at};

    if (v->left_at < v->n_text) {
        printf("the text leaves the grammar at byte %zu, between\n  %s\nand\n"
               "  %s\n",
               v->left_at, ctl_name(before), ctl_name(after));
    } else {
        puts(v->complete ? "the text is inside the grammar, and complete"
                         : "the text is inside the grammar, but not "
                           "complete");
    }
}

static void print_report(const struct grammar_verb *v,
                         const struct grammar_sizes *s)
{
    printf("%u rules, %u states, %zu bytes, %zu bytes of masks; compiled in "
           "%lld us, first mask after %lld us more\n",
           s->rules, s->states, s->bytes, s->mask_bytes,
           (long long)v->compile_us, (long long)v->first_mask_us);
    if (v->text != NULL) {
        printf("%zu masks in %lld us, the longest in %lld us\n", v->n_masks,
               (long long)v->mask_us, (long long)v->longest_mask_us);
        print_place(v);
    }
}

static void verb_fini(struct grammar_verb *v)
{
    grammar_free(&v->grammar);
    grammar_vocab_free(&v->vocab);
    tokenizer_free(&v->tokenizer);
    free(v->source);
    free(v->text);
}

int ctl_grammar(struct ctl *c)
{
    struct grammar_verb v = {.ctl = c};
    struct grammar_sizes sizes;
    struct error e;
    enum status st;
    int rc = CTL_OK;

    if (c->n_operands != 2 || strcmp(c->operands[0], "check") != 0 ||
        c->o.model == NULL) {
        return ctl_misuse(c, "grammar requires check, a file and --model DIR");
    }
    st = compile(&v, &e);
    if (st == ST_OK && c->o.text != NULL) {
        st = read_text(c->o.text, &v.text, &v.n_text, &e);
    }
    if (st == ST_OK) {
        st = check_text(&v, &e);
    }
    if (st == ST_OK) {
        grammar_sizes(v.grammar, &sizes);
        (c->o.json ? print_json : print_report)(&v, &sizes);
        rc = v.text == NULL || v.complete ? CTL_OK : CTL_FAILED;
    } else {
        rc = ctl_fail(c, st, e.text, 0);
    }
    verb_fini(&v);
    return rc;
}
