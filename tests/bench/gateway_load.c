/* gateway_load - A load of streams for a gateway, or for a router.
 *
 *     gateway_load http HOST:PORT MODEL [options]
 *     gateway_load native ENDPOINT MODEL [options]
 *
 * Both send the same greedy requests: a message of a user over HTTP, or the
 * text that the chat template of models/tiny-hybrid makes of it.  Prints one
 * line of JSON with the figures of tests/bench/load_tally.h.
 *
 * --alphabet checks that every text spells the alphabet, as that of
 * fake_workers; --help lists the options.
 *
 * Exit code: 1 if a request fails or a text is wrong, 2 if used wrongly. */
#include <stdio.h>
#include <string.h>

#include "common/base/option.h"
#include "tests/bench/load_tally.h"

#define LOAD_OPTIONS(X)                                                        \
    X(streams, U32, "N", "1", "requests open at once", 1, 1000000)             \
    X(tokens, U32, "N", "64", "tokens of a request", 1, 1000000)               \
    X(words, U32, "N", "16", "words of the prompt", 1, 1000000)                \
    X(seconds, MS, "TIME", "5s", "length of the window", 1, 3600000)           \
    X(ramp, U32, "N", "256", "requests without text while the load opens", 1,  \
      1000000)                                                                 \
    X(stalled, U32, "N", "0", "HTTP requests that are sent and never read", 0, \
      1000000)                                                                 \
    X(idle, U32, "N", "0", "HTTP connections without a request", 0, 1000000)   \
    X(pid, U32, "P", NULL,                                                     \
      "process whose memory and processor time are reported (default: none)",  \
      0, 0)                                                                    \
    X(alphabet, FLAG, NULL, NULL, "check that every text spells the alphabet", \
      0, 0)                                                                    \
    X(help, FLAG, NULL, NULL, "print this text and exit", 0, 0)

OPTION_TABLE(load_args, LOAD_OPTIONS);

static const char usage[] =
    "usage: gateway_load http|native ENDPOINT MODEL [options]\n\n";

static int misuse(const char *why)
{
    fprintf(stderr, "gateway_load: %s\n%s", why, usage);
    return 2;
}

static int load(const char *protocol, const struct load_options *o)
{
    struct load_tally tally;
    bool http = strcmp(protocol, "http") == 0;

    if (!http && strcmp(protocol, "native") != 0) {
        return misuse("the protocol must be http or native");
    }
    tally_init(&tally, o);
    (http ? http_load : native_load)(o, &tally);
    tally_print(&tally);
    tally_fini(&tally);
    return 0;
}

int main(int argc, char **argv)
{
    struct load_args a;
    struct load_options o;
    struct error e;
    int n_words;

    if (option_parse(load_args_rows, OPTION_COUNT(load_args_rows), &a, argc,
                     argv, &n_words, &e) != ST_OK) {
        return misuse(e.text);
    }
    if (a.help) {
        fputs(usage, stdout);
        option_print(stdout, load_args_rows, OPTION_COUNT(load_args_rows));
        return 0;
    }
    if (n_words != 3) {
        return misuse("three operands are required");
    }
    o = (struct load_options){.endpoint = argv[2],
                              .model = argv[3],
                              .streams = a.streams,
                              .tokens = a.tokens,
                              .words = a.words,
                              .ramp = a.ramp,
                              .stalled = a.stalled,
                              .idle = a.idle,
                              .seconds = (double)a.seconds / 1e3,
                              .alphabet = a.alphabet,
                              .pid = (int)a.pid};
    return load(argv[1], &o);
}
