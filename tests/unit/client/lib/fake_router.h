/* fake_router.h - a router that follows a script, over real sockets.
 *
 * It answers Hello and then does to each Generate what its max_tokens says,
 * so that a test chooses by the request what will happen to it.
 *
 * Threading: it runs in a thread of its own from start to stop. */
#ifndef TESTS_UNIT_CLIENT_FAKE_ROUTER_H
#define TESTS_UNIT_CLIENT_FAKE_ROUTER_H

enum script {
    SCRIPT_THREE_CHUNKS = 1, /* tokens 0..5, text, figures, a good end */
    SCRIPT_GAP,              /* tokens 0, 1, then 5 */
    SCRIPT_ENDLESS,          /* one chunk; a Cancel gets a receipt */
    SCRIPT_NO_FINISH,        /* End OK without a finish */
    SCRIPT_REFUSE,           /* RESOURCE_EXHAUSTED, retry after 700 ms */
    SCRIPT_BREAK,            /* one chunk, then Goodbye; what is resumed gets
                                the other two */
    SCRIPT_SILENT,           /* nothing at all; nor is a Cancel answered */
    SCRIPT_CHOICES,          /* two, mixed, the second ended by stop string 1 */
    SCRIPT_CHOICE_BEYOND,    /* a chunk of choice 2 */
    SCRIPT_AFTER_END,        /* a choice goes on after its finish */
    SCRIPT_HALF,             /* of two choices the first ends; End OK */
    SCRIPT_ONE_FAILED,       /* of two choices the second fails; End OK */
    SCRIPT_VANISH            /* one chunk, then Goodbye, and nothing ever */
};

struct fake_router;

/* Of the last call, when it came; 0: it had none. */
int fake_router_deadline_ms(struct fake_router *r);

struct fake_router *fake_router_start(const char *endpoint, int refuse_hello);
void fake_router_stop(struct fake_router **r);

#endif
