#include "client/front/chat_input.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

#define QUOTES "\"\"\""

static bool append(struct chat_input *in, const char *text, size_t n)
{
    if (n > CHAT_INPUT_BYTES_MAX - in->n) {
        return false;
    }
    if (in->n + n + 1 > in->size) {
        size_t size = in->size == 0 ? 256 : in->size;

        while (size < in->n + n + 1) {
            size *= 2;
        }
        in->text = memory_must(realloc(in->text, size));
        in->size = size;
    }
    memcpy(in->text + in->n, text, n);
    in->n += n;
    in->text[in->n] = '\0';
    return true;
}

static bool begins_block(const char *line, size_t n)
{
    return n >= 3 && memcmp(line, QUOTES, 3) == 0;
}

static bool ends_block(const char *line, size_t n)
{
    return n >= 3 && memcmp(line + n - 3, QUOTES, 3) == 0;
}

static bool is_blank(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\n') {
            return false;
        }
    }
    return true;
}

void chat_input_reset(struct chat_input *in)
{
    in->n = 0;
    in->done = in->block = in->more = false;
}

static enum chat_input_result finish(struct chat_input *in, bool command)
{
    in->done = true;
    in->block = in->more = false;
    if (is_blank(in->text, in->n)) {
        return CHAT_EMPTY;
    }
    return command ? CHAT_COMMAND : CHAT_MESSAGE;
}

static enum chat_input_result add(struct chat_input *in, const char *line,
                                  size_t n, bool more)
{
    if (!append(in, line, n) || (more && !append(in, "\n", 1))) {
        chat_input_reset(in);
        return CHAT_TOO_LONG;
    }
    return CHAT_MORE;
}

/* Takes a line of a block, the first one without its quotes. */
static enum chat_input_result push_block(struct chat_input *in,
                                         const char *line, size_t n)
{
    bool end = ends_block(line, n);
    enum chat_input_result r = add(in, line, end ? n - 3 : n, !end);

    return r == CHAT_MORE && end ? finish(in, false) : r;
}

enum chat_input_result chat_input_push(struct chat_input *in, const char *line,
                                       size_t n)
{
    bool first, more;
    enum chat_input_result r;

    if (in->done) {
        chat_input_reset(in);
    }
    first = !in->block && !in->more;
    if (first && begins_block(line, n)) {
        in->block = true;
        line += 3;
        n -= 3;
        /* The newline after bare quotes is not part of the message. */
        return n == 0 ? CHAT_MORE : push_block(in, line, n);
    }
    if (in->block) {
        return push_block(in, line, n);
    }
    more = n > 0 && line[n - 1] == '\\';
    r = add(in, line, more ? n - 1 : n, more);
    in->more = more && r == CHAT_MORE;
    if (r != CHAT_MORE || more) {
        return r;
    }
    return finish(in, first && n > 0 && line[0] == '/');
}

void chat_input_fini(struct chat_input *in)
{
    free(in->text);
    *in = (struct chat_input){0};
}

enum chat_verb chat_command_parse(const char *text, const char **argument)
{
    static const char *const verbs[CHAT_VERB_UNKNOWN] = {
        [CHAT_VERB_RESET] = "/reset", [CHAT_VERB_SYSTEM] = "/system",
        [CHAT_VERB_SAVE] = "/save",   [CHAT_VERB_RETRY] = "/retry",
        [CHAT_VERB_HELP] = "/help",
    };
    size_t n = strcspn(text, " \t");

    *argument = text + n + strspn(text + n, " \t");
    for (int i = 0; i < CHAT_VERB_UNKNOWN; i++) {
        if (strlen(verbs[i]) == n && memcmp(verbs[i], text, n) == 0) {
            return (enum chat_verb)i;
        }
    }
    return CHAT_VERB_UNKNOWN;
}
