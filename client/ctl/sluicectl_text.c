/* sluicectl_text.c - The verbs tokenize and detokenize.
 *
 * The router converts, or this program itself if --model names a directory:
 * "here" in the names below. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/ctl/ctl.h"
#include "client/ctl/escape.h"
#include "common/base/memory.h"
#include "common/model/directory.h"
#include "common/model/gguf_model.h"
#include "proto/inference.pb-c.h"
#include "text/detokenizer.h"
#include "text/model_tokenizer.h"
#include "text/tokenizer.h"

static void print_ids(const struct ctl *c, const uint32_t *ids, size_t n)
{
    json_t *list, *j;

    if (!c->o.json) {
        for (size_t i = 0; i < n; i++) {
            printf("%s%u", i > 0 ? " " : "", ids[i]);
        }
        putchar('\n');
        return;
    }
    list = json_array();
    j = json_object();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list, json_integer(ids[i]));
    }
    json_object_set_new(j, "tokens", list);
    ctl_print_json(j);
}

/* Escapes only on a terminal: a pipe or file receives the bytes unchanged. */
static void print_text(const struct ctl *c, const char *text, size_t n)
{
    if (c->o.json) {
        json_t *j = json_object();

        json_object_set_new(j, "text", json_text(text, n));
        ctl_print_json(j);
        return;
    }
    if (c->o.raw || !isatty(STDOUT_FILENO)) {
        fwrite(text, 1, n, stdout);
    } else {
        escape_print(stdout, text, n, true);
    }
    if (!c->o.raw) {
        putchar('\n');
    }
}

static void take_ids(void *arg, const ProtobufCMessage *reply)
{
    const Sluice__V1__TokenizeReply *m =
        (const Sluice__V1__TokenizeReply *)reply;

    print_ids(arg, m->tokens, m->n_tokens);
}

static void take_text(void *arg, const ProtobufCMessage *reply)
{
    const Sluice__V1__DetokenizeReply *m =
        (const Sluice__V1__DetokenizeReply *)reply;

    print_text(arg, (const char *)m->text.data, m->text.len);
}

static ProtobufCBinaryData model_name(const struct ctl *c)
{
    const char *name = c->o.model == NULL ? "" : c->o.model;

    return (ProtobufCBinaryData){strlen(name), (uint8_t *)(uintptr_t)name};
}

static int encode_by_router(struct ctl *c, char *text, size_t n)
{
    Sluice__V1__TokenizeRequest r = SLUICE__V1__TOKENIZE_REQUEST__INIT;

    r.model = model_name(c);
    r.text = (ProtobufCBinaryData){n, (uint8_t *)text};
    r.has_parse_special = 1;
    r.parse_special = c->o.parse_special;
    return ctl_call(c, METHOD_INFERENCE_TOKENIZE, &r.base, take_ids, c);
}

/* The router checks the range of the ids; decode_here() does so itself. */
static int decode_by_router(struct ctl *c, uint32_t *ids, size_t n)
{
    Sluice__V1__DetokenizeRequest r = SLUICE__V1__DETOKENIZE_REQUEST__INIT;

    r.model = model_name(c);
    r.tokens = ids;
    r.n_tokens = n;
    return ctl_call(c, METHOD_INFERENCE_DETOKENIZE, &r.base, take_text, c);
}

static bool is_directory(const char *path)
{
    struct stat st;

    return path != NULL && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Returns why a path is no directory. */
static const char *no_directory(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? "neither a directory nor a GGUF file"
           : errno == ENOENT    ? "directory not found"
                                : strerror(errno);
}

/* Decides whether --model is a directory or a GGUF file, which needs no router.
 * A name may contain a slash too.  But if the part before the last slash is a
 * directory, the value is taken for a mistyped path, and rejected. */
static int find_model(const struct ctl *c, bool *here)
{
    const char *slash = c->o.model == NULL ? NULL : strrchr(c->o.model, '/');
    char parent[PATH_MAX];

    *here = is_directory(c->o.model) ||
            (c->o.model != NULL && gguf_files_exist(c->o.model));
    if (*here || slash == NULL || slash - c->o.model >= PATH_MAX) {
        return CTL_OK;
    }
    snprintf(parent, sizeof parent, "%.*s", (int)(slash - c->o.model),
             c->o.model);
    return slash > c->o.model && !is_directory(parent)
               ? CTL_OK
               : ctl_misuse(c, "--model %s: %s", c->o.model,
                            no_directory(c->o.model));
}

/* Loads the tokenizer of a model directory; no other file is needed. */
static int load(const struct ctl *c, struct tokenizer **t)
{
    struct error e = {0};

    if (strlen(c->o.model) >= PATH_MAX - sizeof "/tokenizer.json") {
        return ctl_misuse(c, "--model: the path exceeds %d bytes",
                          PATH_MAX - 1);
    }
    if (directory_check(c->o.model, DIRECTORY_TOKENIZER, &e) != ST_OK) {
        return ctl_misuse(c, "--model %s: %s", c->o.model, e.text);
    }
    if (model_tokenizer_load(t, c->o.model, &e) != ST_OK) {
        return ctl_misuse(c, "%s", e.text);
    }
    return CTL_OK;
}

/* Encodes as a router encodes a prompt, with the tokens that the tokenizer
 * adds around a text (bos). */
static int encode_here(struct ctl *c, const char *text, size_t n)
{
    unsigned flags = TOKENIZE_ADD_SPECIAL |
                     (c->o.parse_special ? TOKENIZE_PARSE_SPECIAL : 0);
    struct tokenizer *t;
    struct error e = {0};
    size_t cap, n_ids;
    uint32_t *ids;
    int rc = load(c, &t);

    if (rc != CTL_OK) {
        return rc;
    }
    cap = tokenizer_bound(t, n);
    ids = memory_must(malloc((cap + 1) * sizeof *ids));
    if (tokenizer_encode(t, text, n, flags, ids, cap, &n_ids, &e) == ST_OK) {
        print_ids(c, ids, n_ids);
    } else {
        rc = ctl_fail(c, e.code, e.text, 0);
    }
    free(ids);
    tokenizer_free(&t);
    return rc;
}

/* Decodes all ids, which are in range. */
static void decode_ids(const struct ctl *c, const struct tokenizer *t,
                       const uint32_t *ids, size_t n)
{
    struct detokenizer d;
    size_t at = 0, max;
    char *text;

    max = detokenizer_max(t);
    text = memory_must(
        malloc((n + 1) * max)); /* + 1: detokenizer_finish() writes too */
    detokenizer_init(&d, t, 0);
    for (size_t i = 0; i < n; i++) {
        at += detokenizer_push(&d, ids[i], text + at);
    }
    at += detokenizer_finish(&d, text + at);
    print_text(c, text, at);
    free(text);
}

static int decode_here(struct ctl *c, const uint32_t *ids, size_t n)
{
    struct tokenizer *t;
    int rc = load(c, &t);

    if (rc != CTL_OK) {
        return rc;
    }
    for (size_t i = 0; i < n && rc == CTL_OK; i++) {
        if (ids[i] >= tokenizer_vocab(t)) {
            rc = ctl_misuse(c,
                            "ids[%zu] is %u; the ids of this vocabulary are "
                            "below %u",
                            i, ids[i], tokenizer_vocab(t));
        }
    }
    if (rc == CTL_OK) {
        decode_ids(c, t, ids, n);
    }
    tokenizer_free(&t);
    return rc;
}

/* `detokenize` and `tokenize --decode`. */
static int decode(struct ctl *c)
{
    uint32_t *ids;
    size_t n;
    bool here;
    int rc = find_model(c, &here);

    if (rc != CTL_OK || !ctl_ids(c, &ids, &n)) {
        return CTL_USAGE;
    }
    rc = here ? decode_here(c, ids, n) : decode_by_router(c, ids, n);
    free(ids);
    return rc;
}

int ctl_tokenize(struct ctl *c)
{
    char *text;
    size_t n;
    bool here;
    int rc;

    if (c->o.decode) {
        return decode(c);
    }
    rc = find_model(c, &here);
    text = rc == CTL_OK ? ctl_text(c, &n) : NULL;
    if (text == NULL) {
        return CTL_USAGE;
    }
    rc = here ? encode_here(c, text, n) : encode_by_router(c, text, n);
    free(text);
    return rc;
}

int ctl_detokenize(struct ctl *c)
{
    return decode(c);
}
