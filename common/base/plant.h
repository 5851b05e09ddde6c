/* plant.h - Bugs planted on purpose, to show that the simulator finds them.
 *
 * In the product PLANT(NAME) is false at compile time and leaves no code.
 * tests/sim compiles the cores once more with SLUICE_PLANTS.  There, one bug
 * can be switched on for a run.
 *
 *     if (PLANT(LOST_RECEIPT)) {
 *         return;
 *     } */
#ifndef COMMON_BASE_PLANT_H
#define COMMON_BASE_PLANT_H

#include <stdbool.h>

/* X(name, what the planted code does wrong) */
#define PLANT_MAP(X)                                                          \
    X(NONE, "nothing")                                                        \
    X(LOST_RECEIPT, "a worker frees the memory and says nothing")             \
    X(ORPHAN_GRANT, "an orphan keeps the grant of the session that is over")  \
    X(LEADERS_ROOM, "a replica is granted what its first stage has room for") \
    X(GRANT_TWICE, "a settled grant is taken off the account twice")          \
    X(FREED_EARLY, "memory is freed while a plan names it")                   \
    X(INDEX_REUSED, "a token is chosen by the index of the one before it")    \
    X(OLD_SNAPSHOT, "a ledger older than the last is believed")               \
    X(DUPLICATE_DELIVERED, "a frame that comes twice is delivered twice")     \
    X(FORGOTTEN_EARLY, "a finished sequence is forgotten unacknowledged")     \
    X(SLOT_NOT_ZEROED, "a slot is used as the last sequence left it")         \
    X(NO_TOMBSTONE, "a Cancel leaves nothing for the Submit after it")        \
    X(MOVED_AS_PROMPT, "a moved sequence's tokens are taken for its prompt")  \
    X(CANCEL_LEAKS, "a cancelled sequence leaves a block behind")             \
    X(DEADLINE_IGNORED, "calls go on past their deadline")                    \
    X(WORKER_DEADLINE_IGNORED, "a worker computes past a call's deadline")    \
    X(QUEUE_FOREVER, "a request waits for longer than --queue-timeout")       \
    X(CHAIN_ASTRAY, "a chained row follows the plan's first row")             \
    X(KEEP_FOREVER, "the lease of a kept sequence does not end")              \
    X(FAILED_STEP_USED, "the tokens of a failed step are used")               \
    X(ROW_FAILS_BATCH, "a damaged row ends the rows beside it")               \
    X(RECOMPUTE_STALE, "what is computed again goes on from a stale slot")    \
    X(RECOMPUTE_LOST, "what is to be computed again is put in no queue")      \
    X(RECOMPUTE_SHARED, "what is computed again has others beside it")        \
    X(SUCCESSOR_SURVIVES, "a row that follows a failed one is used")          \
    X(HOST_LEAKS, "the host pages of a suspended sequence are not freed")     \
    X(SWAP_ASTRAY, "a page comes back from the host to the wrong block")      \
    X(SWAP_SHARED, "a page comes back to a block that others read")           \
    X(CACHED_SWAP_LOST, "cached blocks come back without their contents")     \
    X(CACHED_SWAP_ASTRAY, "cached blocks come back in the wrong order")       \
    X(CACHED_STATE_ASTRAY, "a cached state comes back without its end")       \
    X(CACHED_HOST_LEAKS, "host pages of the index are not freed")             \
    X(SWAP_STALE, "a copy to the host reads what a move has yet to bring")    \
    X(RESTART_SPOILT, "a stage keeps a sequence spoilt that begins anew")     \
    X(NO_RESEND, "what was lost is not sent again")                           \
    X(REQUEUE_LOST, "a sequence of a lost worker is put in no queue")         \
    X(CLIENT_GONE_IGNORED, "sequences run on for a client that has gone")     \
    X(KEPT_FREED, "what was to be kept is freed at its end")                  \
    X(ACK_AHEAD, "one token more is acknowledged than has come")              \
    X(STOP_MISSED, "an end token after the ninth token is overlooked")        \
    X(LATE_TOMBSTONE, "a late Cancel strikes the next Submit of its name")    \
    X(HISTORY_STALE, "penalties do not look at the newest token")             \
    X(HISTORY_SPLIT, "a moved sequence's tokens are penalised as its prompt") \
    X(LISTS_BORROWED, "the lists of a sampling are left where they came")     \
    X(CHOICE_MIXED, "a worker does not tell the choices of a request apart")  \
    X(CANCEL_ALL_ONE, "a Cancel of all choices cancels the first")            \
    X(RECEIPT_EARLY, "a receipt of all choices goes out with the first")      \
    X(STOP_LATE, "what a stop string ends goes on at its worker")             \
    X(STOP_TEXT, "text held back for a stop string is lost")                  \
    X(STOP_ACROSS, "a stop string that comes in two steps is overlooked")     \
    X(LOGPROB_SHIFT, "logprobs of a repeated token go to the next one")       \
    X(WINDOW_IGNORED, "a sequence outruns the window of its logprobs")        \
    X(DRAIN_GRANTS, "a worker that drains is granted to")                     \
    X(LEAVE_EARLY, "a worker that leaves does not wait for the answer")       \
    X(MOVED_TWICE, "a sequence moves before its worker has let go of it")     \
    X(NO_HEADROOM, "room that is to stay free is granted")                    \
    X(RESUME_TWICE, "the last token that a client has is sent to it again")   \
    X(RESUME_TEXT, "text held back when the client went is not sent later")   \
    X(SEED_FORGOTTEN, "a request that is resumed draws another seed")         \
    X(ORPHAN_FOREVER, "an orphan that nobody adopts is never dropped")        \
    X(ADOPT_CHARGED, "what is adopted is charged to the room once more")      \
    X(ADOPT_FREE, "what was promised to an orphan is free once adopted")      \
    X(ADOPT_STALE, "what is adopted is not told from where the router is")    \
    X(LIVE_UNDISOWNED, "an orphan that runs elsewhere is not disowned")       \
    X(HUNG_IGNORED, "nothing is done about an engine that stands still")      \
    X(TICKS_IGNORED, "a long step is fenced although it ticks")               \
    X(STALL_IGNORED, "a worker that holds a sequence is believed")            \
    X(QUIET_IGNORED, "a connection that is silent is never given up")         \
    X(DEAD_IGNORED, "a worker goes on without an engine that ticks")          \
    X(TRIAL_CROWD, "suspects are tried several at a time")                    \
    X(TRIAL_FORGOTTEN, "deaths on trial are not counted")                     \
    X(INNOCENT_CHARGED, "the newest sequence is charged with a death")        \
    X(PROBATION_IGNORED, "a worker that dies again and again waits for "      \
                         "nothing")                                           \
    X(ASSEMBLY_UNCHECKED, "a stage lets in who speaks of another assembly")   \
    X(STAGE_RELEASE_TWICE, "what a stage frees stands twice in its receipt")  \
    X(MICROBATCH_OVERTAKES_REMOVE, "a stage frees what a microbatch names")   \
    X(VOID_UNSETTLED, "a stage does not settle the grant of a void Open")     \
    X(SPOILT_FORGOTTEN, "a stage forgets that a step failed")                 \
    X(STAGE_IDS_STALE, "the last stage keeps no ids of what it samples")      \
    X(ASSEMBLY_LEAKS, "the end of an assembly leaves what it held")           \
    X(READMIT_UNLOOKED, "a shard that is let in is not shown to who waits")   \
    X(REFUSER_FORGOTTEN, "who refused its layers is not asked again")         \
    X(DRAIN_UNLOOKED, "who waits is not shown what one that drains leaves")   \
    X(REFUSED_NAME, "who is refused has ended who had its name")              \
    X(REFUSED_WEIGHTS, "who is refused has ended what waits for its model")   \
    X(ONE_HOUSE, "workers and administrators share the places of clients")    \
    X(BUSY_EVICTED, "a session with an open call is evicted as if idle")      \
    X(FREE_BELIEVED, "memory of a running sequence is believed to be free")   \
    X(RECEIPT_BELIEVED, "the figures of a receipt are not checked")           \
    X(NAME_OF_HELLO, "a peer has the name in its Hello, whatever its key is") \
    X(LINEAGE_OF_HELLO, "a worker has the lineage in its Hello")              \
    X(ROLE_OF_HELLO, "a peer has the role in its Hello")                      \
    X(KEY_NOT_NEEDED, "a connection without a key is accepted among keys")    \
    X(PREVIOUS_KEY_IGNORED, "a stage lets in any key of role worker")         \
    X(NEXT_KEY_IGNORED, "a stage connects to whatever key is at an endpoint") \
    X(GATEWAY_DONE_TWICE, "a stream ends with two [DONE]")                    \
    X(GATEWAY_KEEPS_CALL, "a request runs on when its HTTP client leaves")    \
    X(GATEWAY_LAST_CHUNK, "the text of a choice's last chunk is dropped")     \
    X(GATEWAY_USAGE_OFF, "usage lacks the tokens of the last chunk")          \
    X(GATEWAY_MIXES_CHOICES, "choices of several prompts share an index")     \
    X(GATEWAY_NO_RESUME, "a stream ends with the session of its router")      \
    X(GATEWAY_TENANT_LEAK, "a stream counts on when its client has left")     \
    X(GATEWAY_GONE_LATE,                                                      \
      "a client is reported gone to a request that is freed")                 \
    X(UPSTREAM_PLACE_LEAK, "a call that fails keeps its place")               \
    X(HTTP_STALL_IGNORED, "output for a client that reads nothing grows")     \
    X(HTTP_PIPELINE_LOST, "requests sent ahead are dropped at a response")    \
    X(REFERENCE_TWICE, "a sequence drops a shared block twice")               \
    X(REFERENCE_MISSED, "a shared block is not counted for its sharer")       \
    X(CHECKPOINT_ASTRAY, "a checkpoint is kept one unit before its place")    \
    X(HASH_WITHOUT_TENANT, "two tenants find each other's prefixes")          \
    X(EVENT_LOST, "an event of the prefix index is lost without a gap")       \
    X(GAP_IGNORED, "the router goes on behind a gap in a worker's events")    \
    X(QUOTA_IGNORED, "a tenant at its quota keeps what it adds")              \
    X(EVICTED_HELD, "blocks that a sequence holds are evicted")               \
    X(RESTORED_WITHOUT_COPY, "a restored sequence keeps its slot's state")    \
    X(FAILED_SAVE_KEPT, "a checkpoint that a failed step saved is used")      \
    X(TWIN_SHARES_LAST, "a twin writes into its source's last block")         \
    X(TWIN_COPIES, "a twin copies its source's last full block")              \
    X(SPANS_FORGOTTEN, "a continued sequence moves as if all were prompt")    \
    X(MOVED_BLOCK_STALE, "a moved block is read at its old page")             \
    X(GENERATED_SHARED, "generated positions are shared as prompt ones")      \
    X(UNCACHED_KEPT, "a request without cache leaves its prefix")             \
    X(INDEX_OUTLIVES, "a stage keeps the index of an assembly that is over")  \
    X(FEED_OUTLIVES, "the router keeps prefixes of a session that is over")   \
    X(WINDOW_FREED_EARLY, "a window block is freed one position too early")   \
    X(WINDOW_KEPT, "some window blocks behind the window are not freed")      \
    X(WINDOW_MISCOUNTED, "a window page that is given back is a block's")     \
    X(SUSPENDED_PASSED, "a place with suspended sequences gets new ones")     \
    X(TENANTS_FORGOTTEN, "a queue is in the order of arrival")                \
    X(LEASES_STAY, "kept sequences give no memory to those that wait")        \
    X(BYPASS_UNBOUND, "others go ahead of the first that waits for ever")     \
    X(DECODES_FREE, "the decodes of a place are no load")                     \
    X(WORK_KEPT, "what leaves a queue counts as work that waits")             \
    X(GUARANTEE_FORGOTTEN, "a request with a guarantee is granted less")      \
    X(FORECAST_IGNORED, "a place is granted whatever its next pages allow")   \
    X(LENGTHS_MIXED, "a model is given the lengths of another one")           \
    X(GROUPS_MIXED, "a tenant is given the lengths of another one")           \
    X(TENANT_UNBOUND, "a tenant may occupy more than its quota")              \
    X(TENANT_CHARGED, "a sequence that has ended stays charged")              \
    X(WINDOWS_FREE, "the router charges nothing for window blocks")           \
    X(WINDOWS_WHOLE, "window layers are charged for the whole context")       \
    X(PROMPT_STARVED, "the oldest prompt has no turn among shorter ones")     \
    X(TARGET_IGNORED, "prompts fill a step whatever the target is")           \
    X(DRAFT_NOT_REFUSED, "a sequence goes on behind a refused draft")         \
    X(DRAFT_REFUSED_USED, "the first refused draft is taken as a token")      \
    X(DRAFT_TWICE, "an accepted draft is taken twice")                        \
    X(DRAFT_STOP_MISSED, "an end token behind accepted drafts is overlooked") \
    X(DRAFT_LOGPROB_SHIFTED, "an accepted draft has its successor's logprob")

#ifdef SLUICE_PLANTS

enum plant {
#define X(name, text) PLANT_##name,
    PLANT_MAP(X)
#undef X
        PLANTS
};

extern enum plant plant_active;

#define PLANT(name) (plant_active == PLANT_##name)

#else

#define PLANT(name) false

#endif

#endif
