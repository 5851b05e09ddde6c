/* json_message.h - Conversion of protobuf messages to JSON.
 *
 * JSON fields have the names of the schema (proto/), so the schema documents
 * the output of --json:
 *
 *   - counts are numbers;
 *   - 64-bit ids (fixed64: session, seed) are decimal strings, because most
 *     JSON readers store numbers as doubles;
 *   - request_id is 32 hex digits, other bytes are text;
 *   - an enum value is its word in lower case ("decode");
 *   - an optional field that is absent and has no default is left out.
 *
 * Threading: none.  Memory: the caller owns the result and calls
 * json_decref().  Aborts without memory for a text. */
#ifndef CLIENT_CTL_JSON_MESSAGE_H
#define CLIENT_CTL_JSON_MESSAGE_H

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>
#include <stdint.h>

/* Converts a message of the schema. */
json_t *json_message(const ProtobufCMessage *m);

/* Converts a number; returns null if v is not finite, because JSON has no
 * infinity and no NaN. */
json_t *json_number(double v);

/* Sets a count in an object. */
void json_set_count(json_t *object, const char *name, uint64_t n);

/* Converts text[0..n); bytes that are not UTF-8 become \xNN. */
json_t *json_text(const char *text, size_t n);

#endif
