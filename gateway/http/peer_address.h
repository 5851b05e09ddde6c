/* peer_address.h - The address of a connection's peer, as text.
 *
 * Threading: none.  Memory: the caller's. */
#ifndef GATEWAY_HTTP_PEER_ADDRESS_H
#define GATEWAY_HTTP_PEER_ADDRESS_H

#include "gateway/http/http.h"

/* Writes the address of fd's peer without its port, "unix" for a local socket.
 * Leaves text as it is if the address is not known. */
void http_peer_address(int fd, char text[HTTP_CLIENT_TEXT]);

#endif
