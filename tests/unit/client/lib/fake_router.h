/* fake_router.h - A router that follows a script, over real sockets.
 *
 * The router accepts a Hello, and answers each Generate by the script that its
 * max_tokens selects.  A test thus chooses the behaviour in its request.
 *
 * Threading: the router runs in a thread of its own from start to stop. */
#ifndef TESTS_UNIT_CLIENT_FAKE_ROUTER_H
#define TESTS_UNIT_CLIENT_FAKE_ROUTER_H

enum script {
    SCRIPT_THREE_CHUNKS = 1, /* tokens 0..5, text, figures, a good end */
    SCRIPT_GAP,              /* tokens 0, 1, then 5 */
    SCRIPT_ENDLESS,          /* one chunk; answers a Cancel with a receipt */
    SCRIPT_NO_FINISH,        /* End OK without a finish */
    SCRIPT_REFUSE,           /* RESOURCE_EXHAUSTED, retry after 700 ms */
    SCRIPT_BREAK,            /* one chunk, then Goodbye; what is resumed gets
                                the other two */
    SCRIPT_SILENT,           /* answers nothing, not even a Cancel */
    SCRIPT_CHOICES,          /* two, interleaved; 1 ends by stop string 1 */
    SCRIPT_CHOICE_BEYOND,    /* a chunk of choice 2 */
    SCRIPT_AFTER_END,        /* a choice continues after its finish */
    SCRIPT_HALF,             /* two choices, only 0 ends; then End OK */
    SCRIPT_ONE_FAILED,       /* two choices, 1 fails; then End OK */
    SCRIPT_VANISH            /* one chunk, then Goodbye and silence */
};

struct fake_router;

/* Returns the deadline of the last call at its arrival; 0: none. */
int fake_router_deadline_ms(struct fake_router *r);

/* Returns the name in the first Hello. */
const char *fake_router_client(struct fake_router *r);

struct fake_router *fake_router_start(const char *endpoint, int refuse_hello);
void fake_router_stop(struct fake_router **r);

#endif
