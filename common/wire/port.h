/* port.h - One ZeroMQ socket of a transport, and its monitor.
 *
 * A ZeroMQ descriptor (ZMQ_FD) signals new events only once, and any call on
 * the socket may consume the signal without handling the event.  A user that
 * waits with poll() must therefore
 *
 * - read a socket until it is empty, and
 * - before the next wait, check every socket that was used since.
 *
 * `unread` marks a socket that still needs this check because it is new, was
 * not read to its end, or was used for sending.  The monitor is only ever
 * read, always to its end.
 *
 * A signal (EINTR) interrupts nothing here: an interrupted read could leave
 * an event that no descriptor reports.
 *
 * Threading: the transport's.  Memory: ZeroMQ's. */
#ifndef COMMON_WIRE_PORT_H
#define COMMON_WIRE_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zmq.h>

#include "common/base/status.h"
#include "common/wire/curve_keys.h"
#include "common/wire/endpoint.h"
#include "common/wire/frame.h"

#define PORT_COPIED_BYTES (64u << 10) /* longer: not copied */

struct port {
    void *socket, *monitor; /* NULL: closed */
    int fd, monitor_fd;
    bool unread, monitor_unread;
    bool tensors;    /* messages may carry a tensor */
    uint8_t thread;  /* number of the I/O thread that serves it */
    uint8_t allowed; /* listening: a set of BY_* */
    uint32_t id;     /* connecting: the peer's id, 0: none now */
    bool gone; /* connecting: the connection broke and this must be reported */
    uint8_t number;                /* listening: index of the port */
    const struct curve_keys *keys; /* NULL: none */
    struct identity server;        /* connecting, with keys: who is dialled */
    uint32_t turn;                 /* router_turn of that dial */
    uint8_t wanted[KEY_BYTES];     /* connecting to a stage: its key */
    bool wanted_key;               /* it is given */
    bool resolving; /* connecting: its host's name is with the resolver */
    bool stood;     /* connecting: the last dial came to a connection */
    uint32_t tries; /* connecting: dials that came to no connection */
    char endpoint[ENDPOINT_MAX];
    char at[ENDPOINT_MAX]; /* connecting: the endpoint, with the address that
                            * was dialled last */
};

/* Makes a context whose threads run, n_threads of them for I/O.  Returns NULL
 * if there are too few descriptors for it and n_ports.  They are counted first:
 * libzmq starts its threads with the first socket, and ends the program if they
 * lack descriptors (4.3.4, epoll_create). */
void *port_context(unsigned n_ports, unsigned n_threads);

/* Ends a context after its last socket was closed; waits until their
 * connections are closed. */
void port_context_end(void *context);

/* As zmq_connect() and zmq_bind(), but repeated while signals interrupt
 * them. */
int port_connect(void *socket, const char *endpoint);
int port_bind(void *socket, const char *endpoint);

/* Opens the socket with all options except those of its type (ZMQ_ROUTER
 * listens, ZMQ_DEALER connects).  tensors, thread, and with keys number or
 * server, are already set; number is one that no other port of the context ever
 * had.  Returns false if there are too few descriptors; the port is then
 * closed. */
MUST_CHECK bool port_open(struct port *p, void *context, int type,
                          const char *endpoint, uint32_t number);
/* Opens a port that listens.  An ipc socket's file gets mode 0600.  Returns
 * the errors of transport_listen(). */
MUST_CHECK enum status port_listen(struct port *p, void *context,
                                   const char *endpoint, uint32_t number,
                                   struct error *e);
/* Closes the port.  Unread events of the monitor are lost. */
void port_close(struct port *p);

void port_set(void *socket, int option, int value);

/* Sends as zmq_send() does, but never blocks. */
int port_send(struct port *p, const void *data, size_t bytes, int flags);

/* Sends a whole frame and takes it even on an error.  A large frame is not
 * copied: ZeroMQ frees it later, in its own thread. */
int port_send_frame(struct port *p, struct frame **f);

/* Gives a socket the keys for a connection to the owner of a public key. */
void port_set_client(void *socket, const struct curve_keys *keys,
                     const uint8_t *server);

/* Returns the length of the longest acceptable message. */
size_t port_bytes_max(const struct port *p);

/* Receives a message.  Never blocks.  Returns false if there is none. */
bool port_recv(struct port *p, zmq_msg_t *msg);

/* Checks whether there is something to read; if so, sets `unread`. */
bool port_look(struct port *p);

/* Reads one event of the monitor: its number and value (mostly a descriptor).
 * Returns false if there is none.  A listening port reports only ACCEPTED and
 * DISCONNECTED; a connecting port
 * reports the result of the handshake, DISCONNECTED and CLOSED. */
bool port_event(struct port *p, uint16_t *event, int *value);

#endif
