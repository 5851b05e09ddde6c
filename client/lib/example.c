/* example - Streams a completion with the C library.
 *
 *     sluice-example ROUTER PROMPT */
#include <stdio.h>
#include <string.h>

#include "client/lib/client.h"

static bool print(void *arg, const struct client_chunk *chunk)
{
    (void)arg;
    fwrite(chunk->text, 1, chunk->n_text, stdout);
    return fflush(stdout) == 0; /* false cancels the request */
}

int main(int argc, char **argv)
{
    struct client_config config = {.endpoint = argv[1]};
    struct client_request request = client_request_default();
    struct client_result result;
    struct client *client;
    struct error error;

    if (argc != 3 || client_open(&client, &config, &error) != ST_OK) {
        fprintf(stderr, "%s\n",
                argc != 3 ? "usage: sluice-example ROUTER PROMPT" : error.text);
        return 1;
    }
    request.text = argv[2];
    request.n_text = strlen(argv[2]);
    request.max_tokens = 32;
    request.on_chunk = print;
    if (client_generate(client, &request, &result, &error) != ST_OK) {
        fprintf(stderr, "%s\n", error.text);
    }
    printf("\n%u tokens, %u blocks released\n", result.n_generated,
           result.blocks);
    client_close(&client);
    return result.n_generated > 0 ? 0 : 1;
}
