/* request_record.h - The part of requests in a recording
 * (router/record/record.h).
 *
 * Each function is a no-op without options.recorder.
 *
 * Threading: the core's thread only.  Memory: none. */
#ifndef ROUTER_REQUESTS_REQUEST_RECORD_H
#define ROUTER_REQUESTS_REQUEST_RECORD_H

#include "router/record/record.h"
#include "router/requests/request.h"

/* Records request, whose prompt is known and hashed. */
void request_record_arrival(struct requests *r, struct request *request);

/* Records a call that is refused for want of room, from its message m and its
 * arrival alone. */
void request_record_refused(struct requests *r, const struct model *model,
                            const Sluice__V1__GenerateRequest *m,
                            const struct arrival *arrival, enum status why);

/* Records that choice has its grant or its first token, or that it ends. */
void request_record_granted(struct requests *r, const struct choice *choice);
void request_record_first(struct requests *r, const struct choice *choice);
void request_record_end(struct requests *r, const struct choice *choice,
                        enum record_end how);

#endif
