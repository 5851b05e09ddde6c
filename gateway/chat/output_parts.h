/* output_parts.h - State of a parser, and what its formats share.
 *
 * A parser is a machine over characters.  Its state is a pair of functions,
 * and a step depends on the state and one character alone: this is why the
 * cut of the text cannot matter.
 *
 *     reasoning (output_parser) --> text <--> call
 *
 *     hermes, llama3    output_json      a call as a JSON object
 *     qwen3-coder       output_xml       a call as tags
 *     gpt-oss           output_harmony   messages with headers
 *
 * Withheld text is in up to three parts, in this order: space, held, mark.
 *
 * Threading: a parser is one thread's.  Memory: held grows up to
 * OUTPUT_HELD_BYTES and is freed when empty; kept likewise, freed with the
 * parser; all else is in the struct. */
#ifndef GATEWAY_CHAT_OUTPUT_PARTS_H
#define GATEWAY_CHAT_OUTPUT_PARTS_H

#include "common/base/status.h"
#include "gateway/chat/json_scan.h"
#include "gateway/chat/output_parser.h"

/* X(name, value, unit, what it bounds) */
#define OUTPUT_LIMIT_MAP(X)                                               \
    X(OUTPUT_HELD_BYTES, 256 << 10, "bytes",                              \
      "text of a call that is withheld")                                  \
    X(OUTPUT_NAME_BYTES, 256, "bytes", "name of a function or parameter") \
    X(OUTPUT_HEADER_BYTES, 512, "bytes", "header of a gpt-oss message")   \
    X(OUTPUT_SPACE_BYTES, 64, "bytes", "white space that is withheld")

enum output_limit {
#define X(name, value, unit, what) name = (value),
    OUTPUT_LIMIT_MAP(X)
#undef X
};

/* Longest marker, without its last byte. */
#define OUTPUT_MARK_BYTES 16

/* Events of one push are gathered here, so that a push gives few of them. */
struct output_gather {
    output_fn *fn;
    void *arg;
    struct output_event event; /* text is buf; n == 0: nothing gathered */
    char buf[1024];
};

/* A state of the machine.  text[0..n) is one character. */
struct output_state {
    void (*step)(struct output_parser *p, const char *text, size_t n);
    /* Ends the answer in this state; the mark and held are released or
     * dropped. */
    void (*finish)(struct output_parser *p);
};

/* Parts of a JSON call: {"name": .., "arguments": ..}. */
struct output_json_call {
    uint8_t at;   /* enum of output_json.c */
    uint8_t name; /* key of the current value: enum of output_json.c */
    uint8_t n_key;
    bool tagged; /* llama3: after the tag, or hermes */
    bool has_arguments;
    char key[12];
    uint32_t value;           /* current value: offset in held */
    uint32_t begin, end;      /* the arguments, in held */
    uint32_t name_at, name_n; /* the name with its quotes, in held; 0: none */
};

/* Parts of a call in tags. */
struct output_xml_call {
    const json_t *properties; /* schemas of the parameters, or NULL */
    uint32_t n_parameters;
    uint8_t types; /* types of the parameter: bits of output_xml.c */
    bool start;    /* no character of the value yet */
    bool newline;  /* a newline is withheld: it may precede the tag */
    bool quoted;   /* the value streams as a JSON string */
};

struct output_parser {
    struct output_parser_options options;
    const struct output_state *state;
    const struct output_state *text; /* state between calls */
    struct output_gather *out;       /* during push and finish */
    uint32_t n_calls;
    bool committed;    /* a call is open */
    bool ended, cut;   /* a call has ended; a call was cut */
    bool fresh;        /* no content since the start or the last call */
    uint32_t newlines; /* withheld in reasoning */
    char *held;        /* [n_held] of [held_size] */
    uint32_t n_held, held_size;
    char *kept; /* [n_kept] of [kept_size]: text of the open call */
    uint32_t n_kept, kept_size;
    uint8_t n_space, n_mark;
    char space[OUTPUT_SPACE_BYTES];
    char mark[OUTPUT_MARK_BYTES];
    struct json_scan scan;
    union {
        struct output_json_call json;
        struct output_xml_call xml;
        enum output_kind body; /* harmony: kind of the message's text */
    };
};

/* ---- output_parts.c: events and withheld text ---- */

/* Feeds the character text[0..n) to the machine. */
void output_feed(struct output_parser *p, const char *text, size_t n);

/* Feeds each character of text[0..n) to the machine. */
void output_feed_all(struct output_parser *p, const char *text, size_t n);

/* Gives text[0..n), whole characters, as an event or a part of one. */
void output_give(struct output_parser *p, enum output_kind kind,
                 const char *text, size_t n);

/* Gives the events gathered so far. */
void output_flush(struct output_gather *out);

/* Gives text[0..n) as content, after the white space that is withheld. */
void output_content(struct output_parser *p, const char *text, size_t n);

/* Holds back a character of white space. */
void output_hold_space(struct output_parser *p, char c);

/* Adds text[0..n) to held.  Returns false if there is no room. */
MUST_CHECK bool output_hold(struct output_parser *p, const char *text,
                            size_t n);

/* Frees held. */
void output_drop_held(struct output_parser *p);

/* Gives all withheld text as content, and goes to the text state. */
void output_release(struct output_parser *p);

/* Adds text[0..n) to what is kept of the open call, if that is wanted.  A call
 * over OUTPUT_HELD_BYTES is not kept. */
void output_keep(struct output_parser *p, const char *text, size_t n);

/* Begins the call of name[0..n).  White space before it is dropped. */
void output_begin_call(struct output_parser *p, const char *name, size_t n);

/* Gives a character of the call's arguments, as the model wrote it.  A raw
 * control character inside a string is escaped. */
void output_argument(struct output_parser *p, const char *text, size_t n,
                     bool in_string);

/* Gives text[0..n), a JSON text, as arguments. */
void output_json_arguments(struct output_parser *p, const char *text, size_t n);

/* Ends the open call, and goes to the text state. */
void output_end_call(struct output_parser *p);

/* Cuts the open call, and goes to the text state.  The last `after` bytes that
 * were parsed are no part of it. */
void output_cut_call(struct output_parser *p, size_t after);

/* Returns the length of the character at the front of text[0..n), n > 0. */
size_t output_char(const char *text, size_t n);

bool output_is_space(const char *text, size_t n);

/* Moves (*text)[0..*n) past white space at both ends. */
void output_trim(const char **text, size_t *n);

/* Handles a character between calls: gives content, and holds back white space
 * and possible markers.  Returns the index of a complete marker, otherwise
 * OUTPUT_MARK_NONE. */
int output_text(struct output_parser *p, const char *const *markers,
                const char *text, size_t n);

/* Ends the answer between calls. */
void output_text_finish(struct output_parser *p);

enum { OUTPUT_MARK_NONE = -1, OUTPUT_MARK_PART = -2 };

/* Adds the character to the mark, if the result can become one of the
 * markers, a NULL-terminated list.  Returns the index of a complete marker,
 * and empties the mark; OUTPUT_MARK_PART if the character was withheld; or
 * OUTPUT_MARK_NONE: the mark is what it was before. */
int output_mark(struct output_parser *p, const char *const *markers,
                const char *text, size_t n);

/* ---- the formats ---- */

extern const struct output_state output_think_start, output_think_open;
extern const struct output_state output_plain;
extern const struct output_state output_hermes_text;
extern const struct output_state output_llama3_text;
extern const struct output_state output_xml_text;
extern const struct output_state output_harmony_start;

/* Special tokens of llama3 that end a turn; the last is NULL. */
extern const char *const output_llama3_ends[];

#endif
