/* client.h - The C library of sluice, as installed.
 *
 *     #include <sluice/client.h>
 *     cc program.c $(pkg-config --cflags --libs sluice)
 *
 * client/lib/client.h is the contract. */
#ifndef SLUICE_CLIENT_H
#define SLUICE_CLIENT_H

#include "client/lib/client.h"

#endif
