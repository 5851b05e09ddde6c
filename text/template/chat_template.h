/* chat_template.h - Chat templates: from a conversation to a prompt.
 *
 * Models ship a template in Jinja2 that writes a conversation as the text
 * that the model was trained on.  A bounded interpreter runs it.  Results
 * equal Jinja2's with the options that published templates expect
 * (trim_blocks, lstrip_blocks, loop controls, tojson without escapes).
 *
 * Constructs: output, if, for (with conditions and else), set (also blocks and
 * namespaces), macro, call, filter, break, continue, generation, raw,
 * comments.  Filters, tests, methods and functions are tables with the
 * form of builtin.h.  Anything else is refused by its name and line when the
 * template is compiled.
 *
 * Marks: bytes that come from a variable are untrusted, unless the variable
 * is flagged as trusted.  Marks follow bytes through every operation.  The
 * result lists the untrusted parts of the prompt.  tokenizer_encode_spans()
 * finds no control token in these parts, however a user spells it.  The role
 * of a message is trusted if it is one of the words system, developer, user,
 * assistant and tool.
 *
 * Threading: a template is read-only once compiled; any number of threads may
 * render at the same time.  Memory: a template takes about 200 bytes per node
 * of its source; a rendering takes at most TEMPLATE_MEMORY and frees it before
 * it returns.  The C stack needs 1 MiB.
 *
 * Limits: text/template/template_limits.h. */
#ifndef TEXT_TEMPLATE_CHAT_TEMPLATE_H
#define TEXT_TEMPLATE_CHAT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "common/base/status.h"
#include "text/tokenizer.h"

struct chat_template;

/* Compiles source[n].  *out is the caller's, to chat_template_free(); NULL on
 * failure.  Returns ST_INVALID_ARGUMENT: broken, or not UTF-8;
 * ST_UNIMPLEMENTED: an unsupported construct; ST_OUT_OF_RANGE: past a limit;
 * ST_RESOURCE_EXHAUSTED: no memory.  The error's text has the line. */
MUST_CHECK enum status chat_template_compile(struct chat_template **out,
                                             const char *source, size_t n,
                                             struct error *e);

/* Returns whether the template reads the variable "tools".  Functions that a
 * request offers would vanish from the prompt otherwise. */
bool chat_template_has_tools(const struct chat_template *t);

/* Frees *t and sets it to NULL; NULL is legal. */
void chat_template_free(struct chat_template **t);

struct chat_variable {
    const char *name;
    const json_t *value; /* borrowed */
    bool trusted;        /* bos_token and the like, not from a client */
};

struct chat_prompt {
    char *text; /* [n] UTF-8, without NUL */
    size_t n;
    struct text_span *untrusted; /* [n_untrusted] ascending, apart */
    size_t n_untrusted;
};

/* Renders the template with vars[n_vars].  now_unix is the time in seconds,
 * which strftime_now() prints as UTC.  *out is the caller's, to
 * chat_prompt_fini(); zeroed on failure.  Returns ST_INVALID_ARGUMENT: the
 * message of raise_exception(), or a wrong type with its line;
 * ST_UNIMPLEMENTED: a name that only the data showed; ST_OUT_OF_RANGE: past a
 * limit; ST_RESOURCE_EXHAUSTED: no memory. */
MUST_CHECK enum status chat_template_render(const struct chat_template *t,
                                            const struct chat_variable *vars,
                                            size_t n_vars, int64_t now_unix,
                                            struct chat_prompt *out,
                                            struct error *e);

/* Frees a prompt's memory; a zeroed one is legal. */
void chat_prompt_fini(struct chat_prompt *p);

#endif
