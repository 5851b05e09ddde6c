/* client_impl.h - Functions shared by the files of the client library, and not
 * part of its interface. */
#ifndef CLIENT_LIB_CLIENT_IMPL_H
#define CLIENT_LIB_CLIENT_IMPL_H

#include "client/lib/client.h"

/* Longest wait of one turn.  A signal that arrives just before the wait is
 * therefore noticed within this time. */
#define CLIENT_TURN_MS 50

/* Returns the monotonic time in microseconds. */
int64_t client_now_us(void);

/* Writes a new request id: 16 random bytes. */
void client_draw_id(uint8_t out[16]);

/* Returns whether client_interrupt() was called since the last call, and
 * clears the flag. */
bool client_take_interrupt(struct client *c);

/* Returns the client's core and its io, for client/lib/resumable.h. */
struct client_core *client_core_of(struct client *c);
struct node_io *client_io(struct client *c);

/* Makes the next turn send before it waits. */
void client_soon(struct client *c);

uint32_t client_timeout_ms(const struct client *c);
bool client_is_admin(const struct client *c);

/* Sets *e to the text for a status returned by client_begin() or
 * resumable_begin().  Returns status. */
enum status client_not_begun(enum method m, enum status status,
                             struct error *e);

/* Copies a Receipt message to *out. */
void client_take_receipt(struct client_receipt *out,
                         const ProtobufCMessage *reply);

#endif
