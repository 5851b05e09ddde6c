#include "worker/leader.h"

#include "worker/core_state.h"

void leader_begin(struct worker_core *w)
{
    (void)w;
}

void leader_over(struct worker_core *w)
{
    (void)w;
}

void leader_recv_result(struct worker_core *w, const Sluice__V1__StageResult *m)
{
    (void)m;
    assembly_break(w, "a Result came, and no step is under way");
}

void leader_recv_remove(struct worker_core *w, const Sluice__V1__StageRemove *m)
{
    (void)m;
    assembly_break(w, "a Remove came, and none is under way");
}
