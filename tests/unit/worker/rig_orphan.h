/* rig_orphan.h - a sequence that loses its session, and who adopts it. */
#ifndef TESTS_UNIT_WORKER_RIG_ORPHAN_H
#define TESTS_UNIT_WORKER_RIG_ORPHAN_H

#include "tests/unit/worker/rig.h"

#define STATE(s) SLUICE__V1__SEQUENCE_STATE__SEQUENCE_##s
#define LENGTH   SLUICE__V1__FINISH__FINISH_LENGTH

/* 20 ids and 30 tokens: 7 blocks of 8. */
extern const struct rig_submit usual;
#define NEED 7u

/* `usual` with n tokens made and heard; then the session is lost. */
struct rig *lost_after(uint32_t n, uint32_t depth);
/* The Submit that adopts `usual` for a router that has so many tokens. */
struct rig_submit having(uint32_t have);
/* The status of an adoption, which is answered at once. */
enum status adopt(struct rig *r, const struct rig_submit *s);
enum status adopt_message(struct rig *r, const struct rig_message *m);

#endif
