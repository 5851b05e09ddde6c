/* report_html(): the JSON of a result in a page that draws it.
 *
 * The page (page/) has no text of a result in its markup: the script reads the
 * JSON and makes text nodes.  A policy in its head allows this script and this
 * style by their hashes, and no request of any kind. */
#include <assert.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "client/load/report/report.h"
#include "common/base/embedded.h"
#include "common/base/memory.h"

#define SHA256     32
#define BASE64_MAX (4 * (SHA256 / 3 + 1) + 1)
#define POLICY_MAX 400

extern const struct embedded report_page[];

/* The script, in order: each file uses those before it. */
static const char *const scripts[] = {"data.js", "draw.js",  "time.js",
                                      "load.js", "parts.js", "page.js"};

struct text {
    char *bytes; /* [size], for free() */
    size_t size;
};

static const struct embedded *file_of(const char *name)
{
    const struct embedded *f = report_page;

    while (f->name != NULL && strcmp(f->name, name) != 0) {
        f++;
    }
    assert(f->name != NULL);
    return f;
}

static FILE *open_text(struct text *t)
{
    FILE *f = memory_must(open_memstream(&t->bytes, &t->size));

    return f;
}

static void make_script(struct text *out)
{
    FILE *f = open_text(out);

    fputs("\n\"use strict\";\n{\n", f);
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        const struct embedded *file = file_of(scripts[i]);

        fwrite(file->bytes, 1, file->size, f);
    }
    fputs("}\n", f);
    fclose(f);
}

static void hash(const void *bytes, size_t n, char out[BASE64_MAX])
{
    unsigned char sum[SHA256];
    int rc = EVP_Digest(bytes, n, sum, NULL, EVP_sha256(), NULL);

    assert(rc == 1);
    EVP_EncodeBlock((unsigned char *)out, sum, SHA256);
}

static void make_policy(const struct text *script, char out[POLICY_MAX])
{
    const struct embedded *style = file_of("page.css");
    char of_script[BASE64_MAX], of_style[BASE64_MAX];

    hash(script->bytes, script->size, of_script);
    hash(style->bytes, style->size, of_style);
    snprintf(out, POLICY_MAX,
             "default-src 'none'; script-src 'sha256-%s'; "
             "style-src 'sha256-%s'; base-uri 'none'; form-action 'none'",
             of_script, of_style);
}

/* Writes JSON that cannot end its element or be taken for markup.  These
 * characters occur in strings only, where \u stands for them. */
static void write_json(FILE *to, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strchr("<>&", s[i]) != NULL && s[i] != '\0') {
            fprintf(to, "\\u%04x", (unsigned)s[i]);
        } else if (n - i >= 3 && (memcmp(s + i, "\xe2\x80\xa8", 3) == 0 ||
                                  memcmp(s + i, "\xe2\x80\xa9", 3) == 0)) {
            fprintf(to, "\\u20%x", (unsigned char)s[i + 2] - 0x80);
            i += 2;
        } else {
            putc(s[i], to);
        }
    }
}

struct parts {
    char policy[POLICY_MAX];
    struct text script, json;
};

/* Writes what stands for @NAME@. */
static void write_part(FILE *to, const struct parts *p, const char *name,
                       size_t n)
{
    if (strncmp(name, "POLICY", n) == 0) {
        fputs(p->policy, to);
    } else if (strncmp(name, "VERSION", n) == 0) {
        fputs(SLUICE_VERSION, to);
    } else if (strncmp(name, "STYLE", n) == 0) {
        fwrite(file_of("page.css")->bytes, 1, file_of("page.css")->size, to);
    } else if (strncmp(name, "SCRIPT", n) == 0) {
        fwrite(p->script.bytes, 1, p->script.size, to);
    } else {
        assert(strncmp(name, "RESULT", n) == 0);
        write_json(to, p->json.bytes, p->json.size);
    }
}

static void write_page(FILE *to, const struct parts *p)
{
    const char *at = file_of("page.html")->bytes, *mark, *end;

    while ((mark = strchr(at, '@')) != NULL) {
        fwrite(at, 1, (size_t)(mark - at), to);
        end = strchr(mark + 1, '@');
        assert(end != NULL);
        write_part(to, p, mark + 1, (size_t)(end - mark - 1));
        at = end + 1;
    }
    fputs(at, to);
}

enum status report_html(FILE *to, const struct result *r, struct error *e)
{
    struct parts p = {0};
    FILE *json = open_text(&p.json);
    enum status st = report_json(json, r, e);

    fclose(json);
    if (st == ST_OK) {
        make_script(&p.script);
        make_policy(&p.script, p.policy);
        write_page(to, &p);
        if (fflush(to) != 0 || ferror(to)) {
            st = report_fault(e);
        }
    }
    free(p.script.bytes);
    free(p.json.bytes);
    return st;
}
