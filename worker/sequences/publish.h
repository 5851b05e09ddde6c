/* publish.h - The index, as the router sees it: Registry/Index.
 *
 * Every change of a restorable position is a numbered event.  A session begins
 * with a snapshot, and the router requests another one after a gap.  Messages
 * have at most INDEX_EVENTS_MAX events and are PUBLISH_US apart, and none is
 * made while the link has no room for it.
 *
 * Threading, memory: the core's. */
#ifndef WORKER_SEQUENCES_PUBLISH_H
#define WORKER_SEQUENCES_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"
#include "worker/cache/prefix.h"

#define PUBLISH_US   10000
#define PUBLISH_ROOM 65536 /* bytes: more than a message and its envelope */

struct sequences;

struct publish {
    bool on;      /* the router sent a key in this session */
    bool has_key; /* the index has one: */
    struct prefix_key key;
    int64_t sent_us; /* when the newest message went out */
    struct prefix_event events[INDEX_EVENTS_MAX];
    uint8_t hashes[INDEX_EVENTS_MAX * PREFIX_HASH_BYTES];
    uint32_t tokens[INDEX_EVENTS_MAX];
};

/* Begins a session: sets the key of hashes, and starts with a snapshot.  key:
 * NULL if the router sent none, then nothing is published. */
void publish_begin(struct sequences *q, const uint8_t *key);

/* Sends the next message, if one is due.  Returns when to call again. */
int64_t publish_send(struct sequences *q, int64_t now_us);

/* Starts over with a snapshot, as the router requests. */
void publish_restart(struct sequences *q);

#endif
