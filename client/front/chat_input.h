/* chat_input.h - Lines of a terminal, put together into messages and commands.
 *
 *   - A line that ends in a backslash continues on the next line.
 *   - A line that begins with three double quotes begins a block of lines.  The
 *     block ends with a line that ends in three double quotes.
 *   - A line that begins with '/' is a command.  A space in front makes it
 *     text.
 *
 * Threading: none.  Memory: on the heap; aborts without memory.  Pure.
 * Limits: CHAT_INPUT_BYTES_MAX. */
#ifndef CLIENT_FRONT_CHAT_INPUT_H
#define CLIENT_FRONT_CHAT_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#define CHAT_INPUT_BYTES_MAX (1u << 20) /* one message */

enum chat_input_result {
    CHAT_MORE,     /* the message continues */
    CHAT_EMPTY,    /* nothing to do */
    CHAT_MESSAGE,  /* text[0..n) is a message */
    CHAT_COMMAND,  /* text is a command, with a NUL */
    CHAT_TOO_LONG, /* the message was dropped */
};

/* All zeros is the start of a message. */
struct chat_input {
    char *text; /* [n], and a NUL */
    size_t n, size;
    bool done;  /* text was returned; the next line begins anew */
    bool block; /* inside three double quotes */
    bool more;  /* the last line ended in a backslash */
};

/* Takes a line without its newline. */
enum chat_input_result chat_input_push(struct chat_input *in, const char *line,
                                       size_t n);

/* Drops an unfinished message. */
void chat_input_reset(struct chat_input *in);

void chat_input_fini(struct chat_input *in);

enum chat_verb {
    CHAT_VERB_RESET,
    CHAT_VERB_SYSTEM,
    CHAT_VERB_SAVE,
    CHAT_VERB_RETRY,
    CHAT_VERB_HELP,
    CHAT_VERB_UNKNOWN
};

/* Parses "/system You are brief."; *argument is the text after the verb and
 * spaces, maybe "". */
enum chat_verb chat_command_parse(const char *text, const char **argument);

#endif
