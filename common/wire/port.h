/* port.h - one ZeroMQ socket of a transport, and its monitor.
 *
 * Its descriptors (ZMQ_FD) tell of news once: any call may take the signal
 * and leave the news.  So whoever waits for them by poll() keeps to this:
 * read a socket until it has nothing; and look, before the next wait, into
 * what was used after that.  `unread` says that this is still to be done,
 * because the socket is new, was not read to its end, or has been sent by.
 * The monitor is only ever read, to its end.
 *
 * A signal (EINTR) ends nothing here: to stop at one would be to leave what
 * no descriptor tells of.
 *
 * Threading: the transport's.  Memory: ZeroMQ's. */
#ifndef COMMON_WIRE_PORT_H
#define COMMON_WIRE_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zmq.h>

#include "common/base/status.h"
#include "common/wire/endpoint.h"
#include "common/wire/frame.h"

#define PORT_COPIED_BYTES (64u << 10) /* what is longer is given away */

struct port {
    void *socket, *monitor; /* NULL: closed */
    int fd, monitor_fd;
    bool unread, monitor_unread;
    bool tensors;    /* messages may have one */
    uint8_t allowed; /* listening: BY_* */
    uint32_t id;     /* connecting: the peer, 0: none now */
    bool gone;       /* connecting: it broke, which is to be told */
    char endpoint[ENDPOINT_MAX];
};

/* A context whose threads run, NULL if there are no descriptors for it and
 * n_ports.  They are counted first: libzmq ends the program if its threads
 * find none (4.3.4, epoll_create), and it starts them with the first
 * socket. */
void *port_context(unsigned n_ports);

/* Make the socket, with all options but those of its type (ZMQ_ROUTER: it is
 * to listen, ZMQ_DEALER: to connect); tensors is set, number is one that no
 * other port of the context ever had.  False if there are no descriptors for
 * it: then it is closed. */
MUST_CHECK bool port_open(struct port *p, void *context, int type,
                          const char *endpoint, uint32_t number);
/* What the monitor still had to say is lost. */
void port_close(struct port *p);

void port_set(void *socket, int option, int value);

/* Never blocks; as zmq_send(). */
int port_send(struct port *p, const void *data, size_t bytes, int flags);

/* The same of a whole frame, taken whatever comes of it; a large one is not
 * copied: ZeroMQ frees it, in a thread of its own. */
int port_send_frame(struct port *p, struct frame **f);

/* The longest message that may come. */
size_t port_bytes_max(const struct port *p);

/* Never blocks; false if there is nothing. */
bool port_recv(struct port *p, zmq_msg_t *msg);

/* True if there is something to read; unread says so from then on. */
bool port_look(struct port *p);

/* One event of the monitor: its number, its value (a descriptor, mostly);
 * false if there is none.  Of a port that listens only ACCEPTED and
 * DISCONNECTED; of one that connects, how the handshake ended, DISCONNECTED
 * and CLOSED. */
bool port_event(struct port *p, uint16_t *event, int *value);

#endif
