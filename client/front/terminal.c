#include "client/front/terminal.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include <histedit.h>

#include "client/front/interrupt.h"

#define PATH_MAX_BYTES 4096

struct terminal {
    EditLine *edit;
    History *history;
    char path[PATH_MAX_BYTES]; /* of the history; "": none */
    const char *prompt;
    bool interrupted;
    mbstate_t multibyte;
};

/* ---- the history ---- */

/* Makes each folder of path, for this user alone. */
static void make_folders(char *path)
{
    for (char *c = path + 1; *c != '\0'; c++) {
        if (*c == '/') {
            *c = '\0';
            mkdir(path, 0700); /* it may exist; a real fault shows later */
            *c = '/';
        }
    }
}

static void find_history(struct terminal *t)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int n = 0;

    if (state != NULL && state[0] == '/') {
        n = snprintf(t->path, sizeof t->path, "%s/sluice/history", state);
    } else if (home != NULL && home[0] == '/') {
        n = snprintf(t->path, sizeof t->path, "%s/.local/state/sluice/history",
                     home);
    }
    if (n <= 0 || (size_t)n >= sizeof t->path) {
        t->path[0] = '\0';
        return;
    }
    make_folders(t->path);
}

static void history_open(struct terminal *t)
{
    HistEvent event;

    history(t->history, &event, H_SETSIZE, TERMINAL_HISTORY_MAX);
    history(t->history, &event, H_SETUNIQUE, 1);
    find_history(t);
    if (t->path[0] != '\0') {
        history(t->history, &event, H_LOAD, t->path);
    }
}

static void history_close(struct terminal *t)
{
    HistEvent event;
    mode_t old;

    if (t->path[0] != '\0') {
        old = umask(0077);
        history(t->history, &event, H_SAVE, t->path);
        umask(old);
    }
    history_end(t->history);
}

/* ---- reading ---- */

static char *on_prompt(EditLine *edit)
{
    struct terminal *t;

    el_get(edit, EL_CLIENTDATA, &t);
    return (char *)(uintptr_t)t->prompt;
}

/* Reads a byte.  Returns 1, 0 at the end, -1 after Ctrl-C or an error. */
static int read_byte(struct terminal *t, char *byte)
{
    struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                            {.fd = interrupt_fd(), .events = POLLIN}};
    ssize_t n;

    do {
        if (poll(fds, 2, -1) < 0 && errno != EINTR) {
            return -1;
        }
        if (interrupt_take()) {
            t->interrupted = true;
            return -1;
        }
        n = read(STDIN_FILENO, byte, 1);
    } while (n < 0 && errno == EINTR);
    return (int)n;
}

/* Replaces libedit's reader, which tries again after a signal. */
static int on_char(EditLine *edit, wchar_t *c)
{
    struct terminal *t;
    size_t used;

    el_get(edit, EL_CLIENTDATA, &t);
    do {
        char byte;
        int n = read_byte(t, &byte);

        if (n <= 0) {
            return n;
        }
        used = mbrtowc(c, &byte, 1, &t->multibyte);
        if (used == (size_t)-1) {
            memset(&t->multibyte, 0, sizeof t->multibyte); /* not UTF-8 */
        }
    } while (used == (size_t)-1 || used == (size_t)-2);
    return 1;
}

enum status terminal_open(struct terminal **out, struct error *e)
{
    struct terminal *t = calloc(1, sizeof *t);

    *out = t;
    if (t == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    t->history = history_init();
    t->edit = el_init("sluice", stdin, stdout, stderr);
    if (t->history == NULL || t->edit == NULL) {
        terminal_close(out);
        return error_set(e, ST_UNAVAILABLE, "the terminal cannot be used");
    }
    t->prompt = "";
    el_set(t->edit, EL_CLIENTDATA, t);
    el_set(t->edit, EL_PROMPT, on_prompt);
    el_set(t->edit, EL_EDITOR, "emacs");
    el_set(t->edit, EL_SIGNAL, 1);
    el_set(t->edit, EL_HIST, history, t->history);
    /* Where libedit is not reading (a reply is shown, or the prompt has just
     * come) the terminal would turn Ctrl-D into a NUL, and the chat would not
     * end.  Without an eof character there it stays what it is. */
    el_set(t->edit, EL_SETTY, "-x", "eof=", NULL);
    el_set(t->edit, EL_GETCFN, on_char);
    el_source(t->edit, NULL); /* the user's ~/.editrc */
    history_open(t);
    return ST_OK;
}

void terminal_close(struct terminal **t)
{
    if (*t == NULL) {
        return;
    }
    if ((*t)->edit != NULL) {
        el_end((*t)->edit);
    }
    if ((*t)->history != NULL) {
        history_close(*t);
    }
    free(*t);
    *t = NULL;
}

enum status terminal_read(struct terminal *t, const char *prompt,
                          const char **line, size_t *n)
{
    HistEvent event;
    int count = 0;

    t->prompt = prompt;
    t->interrupted = false;
    *line = el_gets(t->edit, &count);
    if (t->interrupted) {
        return ST_CANCELLED;
    }
    if (*line == NULL || count <= 0) {
        return ST_OUT_OF_RANGE;
    }
    if (count > 1) {
        history(t->history, &event, H_ENTER, *line);
    }
    *n = (size_t)count;
    if (*n > 0 && (*line)[*n - 1] == '\n') {
        (*n)--;
    }
    return ST_OK;
}
