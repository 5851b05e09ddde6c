/* convert.h - JSON to values of a template.
 *
 * Threading: one thread's.  Memory: copies into the heap. */
#ifndef TEXT_TEMPLATE_CONVERT_H
#define TEXT_TEMPLATE_CONVERT_H

#include <jansson.h>

#include "text/template/value.h"

/* Converts a value; its strings are all trusted or all untrusted. */
struct value convert_json(struct heap *h, const json_t *json, bool untrusted);

/* Converts a value and frees it, also if the conversion fails. */
struct value convert_owned(struct heap *h, json_t *json, bool untrusted);

/* Converts the messages of a request.  A role that is one of the API's fixed
 * words is trusted, since some templates write '<|' + role + '|>'.  So are the
 * tags of the reasoning block at the start of an assistant's content: clients
 * send answers back whole.  A block is one "<think>" and one "</think>" behind
 * it, and no other of these; in the last message it may be open. */
struct value convert_messages(struct heap *h, const json_t *json,
                              bool untrusted);

#endif
