/* json_memory.h - Whether memory was short while JSON was read or built.
 *
 * jansson does not report it: a parse that finds no memory ends with a syntax
 * error, and json_string() gives NULL, which json_object_set_new() refuses.
 * Jansson therefore allocates here, and a failure is noted until the thread
 * asks for it.
 *
 * Threading: any thread; each has a note of its own. */
#ifndef GATEWAY_OPENAI_JSON_MEMORY_H
#define GATEWAY_OPENAI_JSON_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Makes jansson allocate here; before threads start. */
void json_memory_init(void);

/* Forgets earlier failures of this thread. */
void json_memory_clear(void);

/* Notes a failure. */
void json_memory_fail(void);

/* Returns whether an allocation of this thread has failed since
 * json_memory_clear(). */
bool json_memory_failed(void);

#endif
