/* output.h - Events of a model's answer, after its parser.
 *
 * An answer is a series of events: content, reasoning, and calls of
 * functions.  Each event carries a piece of text:
 *
 *     content*  reasoning*
 *         ( tool_begin  tool_arguments*  ( tool_end | tool_cut ) )*
 *
 * Content and reasoning may come before, between and after calls.  Calls are
 * numbered from 0 and never overlap.  The pieces of one call's arguments join
 * to one JSON text.  A call whose arguments the answer's end or a fault cut is
 * no call: tool_cut takes the place of tool_end.
 *
 * Threading: none.  Memory: text is borrowed for the time of the call. */
#ifndef GATEWAY_CHAT_OUTPUT_H
#define GATEWAY_CHAT_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

enum output_kind {
    OUTPUT_CONTENT,
    OUTPUT_REASONING,
    OUTPUT_TOOL_BEGIN,     /* text: name of the function */
    OUTPUT_TOOL_ARGUMENTS, /* text: a piece of the arguments' JSON text */
    OUTPUT_TOOL_END,       /* no text */
    OUTPUT_TOOL_CUT        /* text: the call as the model wrote it, if kept */
};

struct output_event {
    enum output_kind kind;
    uint32_t tool;    /* index of the call, 0..; 0 for text */
    const char *text; /* [n] valid UTF-8, whole characters; not terminated */
    size_t n;
};

/* Receives one event.  arg is the caller's. */
typedef void output_fn(void *arg, const struct output_event *event);

#endif
