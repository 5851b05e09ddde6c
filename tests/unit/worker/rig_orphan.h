/* rig_orphan.h - A sequence that loses its session, and its adoption. */
#ifndef TESTS_UNIT_WORKER_RIG_ORPHAN_H
#define TESTS_UNIT_WORKER_RIG_ORPHAN_H

#include "tests/unit/worker/rig.h"

#define STATE(s) SLUICE__V1__SEQUENCE_STATE__SEQUENCE_##s
#define LENGTH   SLUICE__V1__FINISH__FINISH_LENGTH

/* 20 ids and 30 tokens: 7 blocks of 8. */
extern const struct rig_submit usual;
#define NEED 7u

/* Runs `usual` until n tokens have been generated and received; then the
 * session is lost. */
struct rig *lost_after(uint32_t n, uint32_t depth);
/* Returns the Submit that adopts `usual` for a router that has so many
 * tokens. */
struct rig_submit having(uint32_t have);
/* Returns the status of an adoption, which is answered at once. */
enum status adopt(struct rig *r, const struct rig_submit *s);
enum status adopt_message(struct rig *r, const struct rig_message *m);

#endif
