/* stage_bench_internal.h - Shared by the files of the bench. */
#ifndef TESTS_UNIT_WORKER_STAGE_BENCH_INTERNAL_H
#define TESTS_UNIT_WORKER_STAGE_BENCH_INTERNAL_H

#include "tests/unit/worker/stages/stage_bench.h"

/* stage_bench_says.c: takes the frame. */
void bench_router_recv(struct bench *b, struct frame *f);
/* Records a message that came to the next stage. */
void bench_hear(struct bench *b, struct peer *p, const struct method_row *m,
                const ProtobufCMessage *message);

/* stage_bench_engine.c */
void bench_engine_new(struct bench *b);
void bench_engine_free(struct bench *b);

#endif
