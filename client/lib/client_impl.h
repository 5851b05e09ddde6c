/* client_impl.h - what the files of the client library share. */
#ifndef CLIENT_LIB_CLIENT_IMPL_H
#define CLIENT_LIB_CLIENT_IMPL_H

#include "client/lib/client.h"

/* A signal that comes just before the wait is seen this late at most. */
#define CLIENT_TURN_MS 50

int64_t client_now_us(void); /* monotonic */

/* 16 random bytes. */
void client_draw_id(uint8_t out[16]);

/* Whether client_interrupt() was called; it counts once. */
bool client_take_interrupt(struct client *c);

/* Its core and io, for client/lib/resumable.h; and: the next turn sends before
 * it waits. */
struct client_core *client_core_of(struct client *c);
struct node_io *client_io(struct client *c);
void client_soon(struct client *c);

uint32_t client_timeout_ms(const struct client *c);
bool client_is_admin(const struct client *c);

/* Why client_begin() did not; returns status. */
enum status client_not_begun(enum method m, enum status status,
                             struct error *e);

void client_take_receipt(struct client_receipt *out,
                         const ProtobufCMessage *reply);

#endif
