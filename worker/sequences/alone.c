#include "worker/sequences/alone.h"

#include "worker/sequences/step.h"

static enum status check(const void *self, const Sluice__V1__SubmitRequest *m,
                         struct error *e)
{
    (void)self;
    return m->stages == NULL
               ? ST_OK
               : error_set(e, ST_INVALID_ARGUMENT,
                           "stages is set, but this worker has all layers");
}

/* No other stage holds anything of these sequences, so there is no stage to
 * notify of a Submit, of ids, of a release, or of what the index keeps. */
static void open_none(void *self, struct sequence *s,
                      const Sluice__V1__SubmitRequest *m)
{
    (void)self, (void)s, (void)m;
}

static void refuse_none(void *self, const Sluice__V1__SubmitRequest *m)
{
    (void)self, (void)m;
}

static void add_none(void *self, const struct sequence *s, uint32_t offset,
                     const uint32_t *ids, size_t n)
{
    (void)self, (void)s, (void)offset, (void)ids, (void)n;
}

static void remove_none(void *self, struct sequence *s)
{
    (void)self, (void)s;
}

static void take_results(void *self)
{
    step_take_results(self);
}

static void submit_plans(void *self)
{
    step_submit_plans(self);
}

static uint32_t n_planned(const void *self)
{
    return ((const struct sequences *)self)->batcher.here;
}

static const struct batch *oldest(const void *self)
{
    return batcher_here(&((const struct sequences *)self)->batcher);
}

const struct role_ops alone_role = {.check = check,
                                    .open = open_none,
                                    .refuse = refuse_none,
                                    .add_ids = add_none,
                                    .remove = remove_none,
                                    .take_results = take_results,
                                    .submit_plans = submit_plans,
                                    .n_planned = n_planned,
                                    .oldest = oldest,
                                    .adopts = true,
                                    .reuses = true};
