/* output_parser.h - Recognises reasoning and tool calls in a model's answer.
 *
 *     text, in pieces --> parser --> events (gateway/chat/output.h)
 *
 * The joined events do not depend on how the text is cut.  Text that may be
 * the beginning of a marker is withheld until the next piece decides it.
 *
 * Formats:
 *
 *     plain        no calls
 *     hermes       <tool_call>{"name": "f", "arguments": {..}}</tool_call>
 *     qwen3-coder  <tool_call><function=f><parameter=k>v</parameter>
 *                  </function></tool_call>; the outer tags are optional
 *     llama3       {"name": "f", "parameters": {..}} as the whole answer, or
 *                  after <|python_tag|>; several are separated by ';'
 *     gpt-oss      <|channel|>commentary to=functions.f<|message|>{..}<|call|>
 *
 * Details of the formats:
 *
 *   - hermes, llama3: the keys may have any order; "parameters" and
 *     "arguments" mean the same.  Arguments that are null or absent are {}.  A
 *     string that contains an object is that object.  Arguments in front of
 *     the name are withheld.
 *   - llama3: an answer with other keys, or without arguments and tag, is
 *     content.  A call after text is content.
 *   - qwen3-coder: a value ends at </parameter>, <parameter= or </function>.
 *     The parameter's schema decides between a string, which streams, and
 *     other JSON.  A value that has none of the types of its schema is a
 *     string.
 *   - gpt-oss: the channel analysis is reasoning.  A message with a recipient
 *     is a call, unless its channel is final.  Headers are dropped.
 *
 * Names of functions are not compared with the request's tools.  A raw control
 * character inside a JSON string is escaped.
 *
 * A call is committed when its name is complete and its arguments begin.  No
 * event of a call is given before that.  Text that stops looking like a call
 * before the commit is content, unchanged.  If the arguments of a committed
 * call break, or the answer ends inside them, the call is cut: its JSON text
 * stays open, so that no client runs half of a call by mistake.  With `keep`,
 * the event has the text of the call, for answers that can still take the call
 * back.  Text after the break is content.
 *
 * Reasoning is the text between <think> and </think>.
 *
 *   - <think> counts at the start of the answer only, after white space.
 *   - If the prompt opened the block (in_reasoning), the answer begins in it;
 *     a repeated <think> at its start is dropped.
 *   - Newlines at both ends of the block are dropped, and newlines between the
 *     block and the content.
 *   - Reasoning holds no calls, and an answer that ends inside is reasoning.
 *
 * With tools, white space before a call is dropped.  White space after a call
 * is content only if text follows.
 *
 * Threading: a parser is one thread's.  Memory: at most 1 KiB per idle parser;
 * content and reasoning allocate nothing; a call may hold OUTPUT_HELD_BYTES,
 * and keep as much. Limits: output_limits. */
#ifndef GATEWAY_CHAT_OUTPUT_PARSER_H
#define GATEWAY_CHAT_OUTPUT_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "common/base/limit.h"
#include "gateway/chat/output.h"

enum output_format {
    OUTPUT_PLAIN,
    OUTPUT_HERMES,
    OUTPUT_QWEN3_CODER,
    OUTPUT_LLAMA3,
    OUTPUT_HARMONY /* gpt-oss */
};

struct output_parser_options {
    enum output_format format;
    bool tools;              /* calls are parsed; otherwise they are content */
    bool reasoning;          /* the model writes reasoning blocks */
    bool in_reasoning;       /* the prompt ended inside an open block */
    bool keep;               /* the text of a call that is cut is wanted */
    bool one_call;           /* the answer ends with its first call */
    const json_t *tool_list; /* the request's tools, borrowed; NULL: none */
};

struct output_parser;

/* Makes a parser.  Returns NULL if there is no memory. */
struct output_parser *
output_parser_new(const struct output_parser_options *options);

/* Frees the parser; NULL is legal. */
void output_parser_free(struct output_parser **p);

/* Parses the next piece, text[0..n), valid UTF-8.  Calls fn for each event. */
void output_parser_push(struct output_parser *p, const char *text, size_t n,
                        output_fn *fn, void *arg);

/* Ends the answer: releases what is withheld and ends an open call. */
void output_parser_finish(struct output_parser *p, output_fn *fn, void *arg);

/* Returns whether the answer is calls: one has ended, and none was cut. */
bool output_parser_called(const struct output_parser *p);

/* Returns whether the answer is over, with one_call: no event follows. */
bool output_parser_done(const struct output_parser *p);

/* The format of a chat template. */
struct output_found {
    enum output_format format;
    bool reasoning;     /* it has reasoning blocks */
    const char *unread; /* name of a format that no parser here reads, a
                         * constant; the format is plain.  NULL: none */
};

/* Chooses the format by markers in a chat template's source[0..n). */
struct output_found output_format_of_template(const char *source, size_t n);

/* Returns the name of a format. */
const char *output_format_name(enum output_format format);

/* Converts a name, such as "qwen3-coder".  Returns false if there is no such
 * format. */
bool output_format_parse(const char *name, enum output_format *format);

/* The markers of all formats and of reasoning, one after the other: for
 * text_assets_protect(). */
extern const char output_markers[];

/* Returns whether the parser must be given the text of special tokens. */
bool output_needs_special(enum output_format format);

/* Rows of the limits, for limits_print(). */
extern const struct limit_row output_limits[];
extern const size_t output_limits_n;

#endif
