/* json_message.h - a protobuf message as JSON.
 *
 * The fields are the schema's (proto/), by its names, so that the schema is
 * the documentation of what --json prints.  Counts are numbers; ids that use
 * all 64 bits (fixed64: session, seed) are decimal strings, since a JSON
 * number is a double in most readers; request_id is 32 hex digits; an enum
 * is its word in lower case ("decode"); other bytes are text.  An optional
 * field that is absent and has no default is left out.
 *
 * Threading: none.  Memory: the result is the caller's, json_decref(). */
#ifndef CLIENT_CTL_JSON_MESSAGE_H
#define CLIENT_CTL_JSON_MESSAGE_H

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

json_t *json_message(const ProtobufCMessage *m);

/* null where v is no finite number, which JSON has none of. */
json_t *json_number(double v);

/* Text that may be no UTF-8: those bytes are shown as \xNN. */
json_t *json_text(const char *text, size_t n);

#endif
