/* template_fixture.h - Templates and renderings for the tests. */
#ifndef TESTS_UNIT_TEXT_TEMPLATE_TEMPLATE_FIXTURE_H
#define TESTS_UNIT_TEXT_TEMPLATE_TEMPLATE_FIXTURE_H

#include "../../cmocka.h"
#include "text/template/chat_template.h"

#define FIXTURE_VARIABLES 32

/* Reads a JSON file; fails the test if it is broken. */
json_t *fixture_json(const char *path);

/* Reads a file and adds a NUL; to free(). */
char *fixture_read(const char *path);

/* Compiles a template; fails the test on an error. */
struct chat_template *fixture_compile(const char *source);

/* Renders with an object's members as variables.  Those of `trusted` (NULL:
 * none) are trusted. */
enum status fixture_render(const struct chat_template *t, const json_t *vars,
                           const json_t *trusted, struct chat_prompt *out,
                           struct error *e);

/* Compiles and renders a source with variables as JSON text; returns the
 * first error. */
enum status fixture_run(const char *source, const char *vars,
                        struct chat_prompt *out, struct error *e);

/* Expects a rendering of source. */
void fixture_expect(const char *source, const char *vars, const char *want);

/* Expects a refusal whose message has this part. */
void fixture_refuse(const char *source, const char *vars, enum status status,
                    const char *part);

#endif
