/* messages.h - Messages and tools of a body, in the form of chat templates.
 *
 * request.h gives the form.
 *
 * Threading: none.  Memory: results are new references. */
#ifndef GATEWAY_OPENAI_MESSAGES_H
#define GATEWAY_OPENAI_MESSAGES_H

#include "gateway/openai/parse.h"

/* Bounds on the arguments of all calls of a request, which arrive as JSON
 * texts inside strings and become trees. */
#define MESSAGES_ARGUMENTS_VALUES 65536

/* Reads messages into p->r->messages. */
parse_fn messages_parse;

/* Reads content: a string, or an array of parts, each an object with a type
 * among types[] (NULL ends) and a text.  Joins parts by line feeds. */
MUST_CHECK bool messages_content(const struct field *f,
                                 const char *const *types, json_t **out);

/* Reads the result of a function, as messages_content(); null and [] are
 * "". */
MUST_CHECK bool messages_result(const struct field *f, const char *const *types,
                                json_t **out);

/* Reads the arguments of a call: a string.  *out is the object that the string
 * spells, or the string itself if it spells none. */
MUST_CHECK bool messages_arguments(struct parse *p, const struct field *f,
                                   json_t **out);

/* Appends a message of role and content to p->r->messages, and takes content.
 * Returns the message, borrowed. */
json_t *messages_add(struct parse *p, const char *role, json_t *content);

/* Appends a call to the tool_calls of message, and takes arguments. */
void messages_add_call(json_t *message, const char *id, const char *name,
                       json_t *arguments);

/* Checks a function's name, of at most OPENAI_NAME_MAX or `most` bytes. */
MUST_CHECK bool messages_name(const struct field *f, const char **name);
MUST_CHECK bool messages_name_within(const struct field *f, size_t most,
                                     const char **name);

/* Finds out whether a tool, an element of a list, is a function.  Other types
 * would run at the server: they are left out, and the answer names them. */
MUST_CHECK bool messages_is_function(struct parse *p, const struct field *tool,
                                     bool *is);

/* Adds a function in OpenAI's chat form, which it takes, to the template's. */
void messages_add_tool(struct parse *p, json_t *tool);

/* Reads tools, tool_choice and parallel_tool_calls. */
MUST_CHECK bool messages_tools(struct parse *p);

/* Reads tool_choice; *none is set if it is "none". */
MUST_CHECK bool messages_tool_choice(struct parse *p, bool *none);

/* Checks the members of a function of tools: name, description, parameters,
 * strict.  Notes strict in the request. */
MUST_CHECK bool messages_function(struct parse *p, const struct field *f);

#endif
