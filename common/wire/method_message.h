/* method_message.h - The C type of each method's request and reply.
 *
 * Generated from the method table: request_of_WORKER_SUBMIT is the struct of
 * Submit's request, reply_of_WORKER_CANCEL that of Cancel's reply.  A handler
 * takes this type; only a dispatch table, which has the method, casts to it.
 *
 * Threading: types only. */
#ifndef COMMON_WIRE_METHOD_MESSAGE_H
#define COMMON_WIRE_METHOD_MESSAGE_H

#include "common/wire/method.h"
#include "proto/messages.h"

#define X(name, number, service, method, request, reply, ...) \
    typedef message_##request request_of_##name;              \
    typedef message_##reply reply_of_##name;
METHOD_MAP(X)
#undef X

/* Views a decoded message of `method` as its own type. */
#define AS_REQUEST(method, message) \
    ((const request_of_##method *)(const void *)(message))
#define AS_REPLY(method, message) \
    ((const reply_of_##method *)(const void *)(message))

#endif
