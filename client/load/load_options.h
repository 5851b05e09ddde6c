/* load_options.h - The command line of sluice-load.
 *
 * A spread is a distribution of numbers or times:
 *
 *     1024                 always 1024
 *     512..2048            uniform
 *     normal:1024,256      mean and standard deviation, cut at 1
 *     lognormal:1024,0.6   median and sigma
 *     exp:200              exponential with this mean
 *
 * A rate is requests (or sessions) per second: "20"; "5..50/60s" rises from 5
 * to 50 in 60 s; "10x30s,20x30s,..." are steps; the last one lasts.
 *
 * Options without a default here take it from the profile, if there is one. */
#ifndef CLIENT_LOAD_LOAD_OPTIONS_H
#define CLIENT_LOAD_LOAD_OPTIONS_H

#include "common/base/option.h"

#define LOAD_OPTIONS(X)                                                        \
    X(target, STRING, "ENDPOINT", "tcp://127.0.0.1:7071",                      \
      "the server: a router (tcp://, ipc://), or an OpenAI-compatible "        \
      "server (http://, https://, with or without /v1)",                       \
      0, 0)                                                                    \
    X(model, STRING, "NAME", NULL, "model (default: the server's first)", 0,   \
      0)                                                                       \
    X(api, STRING, "NAME", "auto",                                             \
      "HTTP route: chat, completions, or auto: chat for text, completions "    \
      "for ids",                                                               \
      0, 0)                                                                    \
    X(key, STRING, "KEY", NULL,                                                \
      "API key (default: $SLUICE_API_KEY, or $OPENAI_API_KEY)", 0, 0)          \
    X(tenant, STRING, "NAME", NULL, "tenant, on a router", 0, 0)               \
    X(curve_key, STRING, "FILE", NULL,                                         \
      "certificate with the secret key, for a router with keys (default: "     \
      "$SLUICE_KEY)",                                                          \
      0, 0)                                                                    \
    X(trust, STRING, "DIR", NULL,                                              \
      "folder with the router's certificate (default: $SLUICE_TRUST)", 0, 0)   \
    X(insecure, FLAG, NULL, NULL, "accept any TLS certificate", 0, 0)          \
    X(no_stream, FLAG, NULL, NULL, "ask for whole answers, not streams", 0, 0) \
    X(connections, U32, "N", NULL,                                             \
      "connections of each process; http:// opens them before the run "        \
      "(default: 4 to a router, as many as needed to HTTP)",                   \
      0, 65536)                                                                \
    X(connect_timeout, MS, "TIME", "10s", "time to connect", 1, 3600000)       \
    X(timeout, MS, "TIME", "10m", "time limit of a request; 0: none", 0,       \
      86400000)                                                                \
    X(processes, U32, "N", "1", "generator processes", 1, 64)                  \
    X(profile, STRING, "NAME", NULL,                                           \
      "named load: chat, long, burst, agent, trace:FILE; --list-profiles", 0,  \
      0)                                                                       \
    X(list_profiles, FLAG, NULL, NULL, "print the profiles and exit", 0, 0)    \
    X(rate, STRING, "RATE", NULL,                                              \
      "open loop: requests per second; \"5..50/60s\" rises, "                  \
      "\"10x30s,20x30s\" steps",                                               \
      0, 0)                                                                    \
    X(arrivals, STRING, "NAME", NULL,                                          \
      "constant, poisson, or gamma:CV with this coefficient of variation "     \
      "(default: poisson)",                                                    \
      0, 0)                                                                    \
    X(bursts, STRING, "BURSTS", NULL,                                          \
      "\"40x2s/20s\" adds 40 requests per second for 2 s of each 20 s", 0, 0)  \
    X(concurrency, U32, "N", "0",                                              \
      "closed loop: N at once, each starts when one ends", 0, 1000000)         \
    X(think, STRING, "SPREAD", NULL, "closed loop: pause between requests", 0, \
      0)                                                                       \
    X(trace, STRING, "FILE", NULL,                                             \
      "replay arrivals and lengths: Azure's CSV, or Mooncake's JSONL with "    \
      "its shared blocks",                                                     \
      0, 0)                                                                    \
    X(trace_speed, F64, "X", "1", "replay X times as fast", 0.001, 100000)     \
    X(trace_scale, F64, "X", "1", "multiply token counts of the trace by X",   \
      0.0001, 1000)                                                            \
    X(requests, U64, "N", NULL, "end after N sessions (default: none)", 0, 0)  \
    X(duration, MS, "TIME", NULL,                                              \
      "start requests for so long (default: 30s, or the whole trace)", 0, 0)   \
    X(warmup, MS, "TIME", "0", "not measured at the start", 0, 0)              \
    X(prompt, STRING, "SPREAD", NULL, "prompt tokens (default: 256)", 0, 0)    \
    X(output, STRING, "SPREAD", NULL, "output tokens (default: 64)", 0, 0)     \
    X(prefix, STRING, "SPEC", NULL,                                            \
      "\"256\": tokens that all prompts share; \"256x10\": ten such "          \
      "prefixes",                                                              \
      0, 0)                                                                    \
    X(dataset, STRING, "FILE", NULL,                                           \
      "JSONL with prompt, messages, token_ids or ShareGPT's conversations", 0, \
      0)                                                                       \
    X(text, STRING, "FILE", NULL, "make prompts from this text", 0, 0)         \
    X(tokenizer, STRING, "DIR", NULL,                                          \
      "model directory whose tokenizer counts prompts, and outputs that the "  \
      "server does not count",                                                 \
      0, 0)                                                                    \
    X(vocab, U32, "N", NULL,                                                   \
      "send ids below N (default: the router's; text to HTTP)", 0, 1048576)    \
    X(turns, STRING, "SPREAD", NULL, "turns of a session", 0, 0)               \
    X(turn_prompt, STRING, "SPREAD", NULL,                                     \
      "tokens that a later turn adds (default: 64)", 0, 0)                     \
    X(turn_think, STRING, "SPREAD", NULL,                                      \
      "pause before a later turn (default: 1s)", 0, 0)                         \
    X(branches, STRING, "SPEC", NULL,                                          \
      "\"0.2x3\": a fifth of the turns has 3 parallel successors", 0, 0)       \
    X(temperature, F64, "X", "0", "sampling temperature; 0: greedy", 0, 100)   \
    X(top_p, F64, "X", "1", "nucleus", 0, 1)                                   \
    X(top_k, U32, "N", "0", "likeliest tokens; 0: all", 0, 1048576)            \
    X(n, U32, "N", "1", "choices of a request", 1, 64)                         \
    X(drafts, STRING, "K", NULL,                                               \
      "most tokens drafted in a step, 0 to 8 (default: the server's)", 0, 0)   \
    X(stop, LIST, "TEXT", NULL, "stop string", 0, 4)                           \
    X(stop_at_eos, FLAG, NULL, NULL,                                           \
      "let the model end an answer (default: it runs to its length)", 0, 0)    \
    X(seed, U64, "N", "1", "seed of the plan", 0, 0)                           \
    X(extra, STRING, "JSON", NULL, "members added to HTTP bodies", 0, 0)       \
    X(slo, LIST, "WHAT=TIME", NULL,                                            \
      "objective of a request: ttft, tpot, itl or e2e, such as ttft=500ms", 0, \
      4)                                                                       \
    X(attain, F64, "X", "0.99", "share of requests that must meet them", 0, 1) \
    X(search, STRING, "WHAT", NULL,                                            \
      "find the largest load that meets the objectives: rate or "              \
      "concurrency",                                                           \
      0, 0)                                                                    \
    X(search_max, F64, "X", NULL, "largest load to try (default: none)", 0,    \
      1e9)                                                                     \
    X(tolerance, F64, "X", "0.05", "width of the search's result", 0.001, 1)   \
    X(repeats, U32, "N", NULL, "runs of one load (default: 1; 3 in a search)", \
      0, 100)                                                                  \
    X(sweep, STRING, "LIST", NULL,                                             \
      "run several loads: \"1,2,4,8\" of rate or concurrency", 0, 0)           \
    X(cancel, F64, "SHARE", "0", "requests cancelled at a random moment", 0,   \
      1)                                                                       \
    X(disconnect, F64, "SHARE", "0", "requests whose connection is cut", 0, 1) \
    X(slow_readers, F64, "SHARE", "0", "requests whose reader stalls", 0, 1)   \
    X(at, LIST, "TIME COMMAND", NULL,                                          \
      "run a command at a time: '10s kill -9 1234'", 0, 64)                    \
    X(check_outputs, U32, "N", "0",                                            \
      "use N contents, run each alone first, and compare outputs", 0, 65536)   \
    X(cluster, STRING, "ENDPOINT", NULL,                                       \
      "router whose pool and queue the report draws (default: the target)", 0, \
      0)                                                                       \
    X(max_lag, MS, "TIME", "10ms",                                             \
      "a run is invalid if p99 of the generator's own lag exceeds this", 1,    \
      60000)                                                                   \
    X(json, STRING, "FILE", NULL, "write results as JSON", 0, 0)               \
    X(csv, STRING, "FILE", NULL,                                               \
      "write the figures of each run as a row, for spreadsheets", 0, 0)        \
    X(html, STRING, "FILE", NULL, "write a report as one HTML page", 0, 0)     \
    X(samples, STRING, "FILE", NULL, "write every request as JSONL", 0, 0)     \
    X(title, STRING, "TEXT", NULL, "title of the report", 0, 0)                \
    X(quiet, FLAG, NULL, NULL, "print no progress", 0, 0)                      \
    X(limits, FLAG, NULL, NULL, "print all limits and exit", 0, 0)             \
    X(version, FLAG, NULL, NULL, "print the version and exit", 0, 0)           \
    X(help, FLAG, NULL, NULL, "print this text and exit", 0, 0)

OPTION_TABLE(load_options, LOAD_OPTIONS);

#endif
