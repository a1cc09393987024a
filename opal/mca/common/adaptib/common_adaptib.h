/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C interface of the core: all that the MTL and the BTL see of the core.
 *
 * Life cycle. Each component registers the parameters (opal_common_adaptib_parameters) in its
 * register function, acquires the core when it is selected, publishes the core's address for the
 * other processes, and releases the core when it is finalized. There is one core per process; it is
 * reference counted and ends with the last release.
 *
 * Threads. While *environment.threads is set, every function may be called from any thread, and the
 * functions take the core's lock; otherwise the caller ensures that only one thread at a time is
 * inside.
 * Completion functions are called by opal_common_adaptib_progress (or by the call that made the
 * completion possible), never with the lock held; they may call any function of this interface
 * except core_release.
 *
 * Ownership. Handles belong to the core. A request is memory of the caller's; it belongs to the
 * core from the call that starts it until its completion function is called, and the core does not
 * touch it afterwards. User buffers follow the request.
 *
 * Errors. Functions return OPAL_COMMON_ADAPTIB_* values. Outputs are set only on success. Text for
 * the user is handed to environment.message once, when the event happens.
 *
 * May touch: nothing of Open MPI. The C components include this header and Open MPI's; the core
 * includes this header alone.
 */
#ifndef OPAL_COMMON_ADAPTIB_H
#define OPAL_COMMON_ADAPTIB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define OPAL_COMMON_ADAPTIB_NOEXCEPT noexcept
#else
#define OPAL_COMMON_ADAPTIB_NOEXCEPT
#endif

#define OPAL_COMMON_ADAPTIB_EXPORT __attribute__((visibility("default")))

enum {
    OPAL_COMMON_ADAPTIB_SUCCESS = 0,
    OPAL_COMMON_ADAPTIB_COMPLETE = 1,   /* success, and nothing more will follow */
    OPAL_COMMON_ADAPTIB_AGAIN = -1,     /* nothing changed; call again after progress */
    OPAL_COMMON_ADAPTIB_ERROR = -2,     /* a bug or a failed system call */
    OPAL_COMMON_ADAPTIB_BAD_PARAM = -3, /* a parameter's value is refused */
    OPAL_COMMON_ADAPTIB_NO_MEMORY = -4,
    OPAL_COMMON_ADAPTIB_UNREACHABLE = -5, /* no path to the peer, or the peer is gone */
    OPAL_COMMON_ADAPTIB_TRUNCATED = -6,   /* the message was longer than the receive buffer */
    OPAL_COMMON_ADAPTIB_CANCELLED = -7,
    OPAL_COMMON_ADAPTIB_NOT_FOUND = -8,
    OPAL_COMMON_ADAPTIB_NOT_SUPPORTED = -9
};

/* ------------------------------------------------------------------------------------------------
 * Parameters: one table for all. A component registers each row under "opal_common_adaptib_<name>"
 * with synonyms of its own. */

typedef enum {
    OPAL_COMMON_ADAPTIB_TYPE_BOOL,   /* storage: bool */
    OPAL_COMMON_ADAPTIB_TYPE_INT,    /* storage: int */
    OPAL_COMMON_ADAPTIB_TYPE_SIZE,   /* storage: size_t */
    OPAL_COMMON_ADAPTIB_TYPE_DOUBLE, /* storage: double */
    OPAL_COMMON_ADAPTIB_TYPE_STRING  /* storage: char *, on the heap or NULL */
} opal_common_adaptib_type_t;

typedef struct {
    const char *name;
    opal_common_adaptib_type_t type;
    void *storage;
    const char *default_text; /* as a user would type it */
    const char *unit;         /* "bytes", "ms", "messages", "" ... */
    const char *range;        /* "0..4294967295", "get|put" ...: checked by parameters_check */
    int level;                /* 1..9, as in ompi_info */
    const char *help;         /* one to three sentences: meaning, unit, default, range */
} opal_common_adaptib_parameter_t;

/* The table; storage holds the defaults (strings: a heap copy) until a component registers it. */
OPAL_COMMON_ADAPTIB_EXPORT const opal_common_adaptib_parameter_t *
opal_common_adaptib_parameters(size_t *count) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Checks every value, and every pair of values that could contradict each other.
 * @retval BAD_PARAM  text says which parameter, its value, what is allowed and what to do. */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_parameters_check(char *text, size_t text_size) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------
 * Counters: each becomes an MPI_T performance variable. */

typedef enum {
    OPAL_COMMON_ADAPTIB_COUNTER, /* only grows */
    OPAL_COMMON_ADAPTIB_LEVEL    /* goes up and down */
} opal_common_adaptib_counter_class_t;

typedef struct {
    const char *name;
    const char *unit;
    const char *help;
    opal_common_adaptib_counter_class_t kind;
    int level;             /* 1..9, as MPI_T verbosity */
    const uint64_t *value; /* written by the core; any thread may read it at any time */
} opal_common_adaptib_counter_t;

OPAL_COMMON_ADAPTIB_EXPORT const opal_common_adaptib_counter_t *
opal_common_adaptib_counters(size_t *count) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------
 * The core */

typedef struct opal_common_adaptib_core opal_common_adaptib_core_t;
typedef struct opal_common_adaptib_peer opal_common_adaptib_peer_t;

typedef enum {
    OPAL_COMMON_ADAPTIB_NOTICE,  /* something that a user should know; the job goes on */
    OPAL_COMMON_ADAPTIB_FAILURE, /* something failed; a status says so, too */
    OPAL_COMMON_ADAPTIB_REPORT   /* the readable report, on request */
} opal_common_adaptib_severity_t;

typedef struct {
    void *context;
    uint64_t self;            /* this process: (jobid << 32) | vpid */
    uint32_t local_rank;      /* its number among the job's processes on this host */
    uint32_t local_processes; /* the job's processes on this host, with this one; 0: unknown */
    const char *host_name;
    bool one_host; /* all processes of the job run on this host */
    /* True if several threads may call at the same time; read in each call. May become true while
     * only one thread calls. NULL: false. */
    const bool *threads;
    /* True if this process yields its CPU when progress found nothing; read at any time. NULL:
     * false. */
    const bool *yields;
    /* Looks up the address that the core of process `name` published; *address stays valid until
     * lookup_release. Called at first contact only, from inside any call. */
    int (*lookup)(void *context, uint64_t name, void **address, size_t *size);
    void (*lookup_release)(void *context, void *address);
    void (*message)(void *context, opal_common_adaptib_severity_t severity, const char *text);
    /* Called if the core is going to cache registrations of memory. Returns true if
     * memory_released() will be called from now on. NULL: it cannot be. */
    bool (*watch_memory)(void *context);
} opal_common_adaptib_environment_t;

/* @retval BAD_PARAM, NO_MEMORY, UNREACHABLE (no fabric can be opened), ERROR: a message was given.
 * A second acquire returns the same core and ignores its environment, except a `threads` that is
 * true. */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_core_acquire(const opal_common_adaptib_environment_t *environment,
                                 opal_common_adaptib_core_t **core) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* A component that has sent or received messages calls it before it releases its peers: afterwards
 * its completion functions and the memory of its requests may go away, though another component may
 * still hold the core. Messages under way have a second to complete; then they end together with
 * their peer. Posted receives for which nothing has arrived are dropped, without a completion call.
 * REQUIRES: no caller starts anything with messages any more. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_quiesce_messages(opal_common_adaptib_core_t *core) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* The last release flushes what is still queued (for at most a second), writes the report if the
 * parameter `report` asks for it, and frees everything. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_core_release(opal_common_adaptib_core_t *core) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* The address blob that other processes look up; valid until release. */
OPAL_COMMON_ADAPTIB_EXPORT const void *
opal_common_adaptib_core_address(opal_common_adaptib_core_t *core,
                                 size_t *size) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Makes progress; returns the number of events handled. */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_progress(opal_common_adaptib_core_t *core) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Tells that the program is about to unmap this memory. Any thread may call, at any time between
 * acquire and release, also from inside calls to the core. Takes no lock of the core's and does not
 * allocate. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_memory_released(opal_common_adaptib_core_t *core, const void *base,
                                    size_t bytes) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Tells that the process has ended, as reported by the runtime that started the job. Any thread may
 * call, between acquire and release, also from inside calls to the core, whose lock it does not
 * take. What the process had sent is received first; then everything that waits for it ends with an
 * error, and one message says why. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_process_ended(opal_common_adaptib_core_t *core,
                                  uint64_t name) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Tells that this process is number `rank` of the `count` processes of its job, whose names differ
 * in the lower 32 bits alone: 0 to count - 1. Connects, as progress is made, the peers that the
 * parameter "connect" wants connected from the start. REQUIRES: their addresses are published. Only
 * the first call counts. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_connect_start(opal_common_adaptib_core_t *core, uint32_t rank,
                                  uint32_t count) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Returns the peer of that name, made at first contact. Does not connect.
 * @retval UNREACHABLE  unknown, on another host than the fabrics reach, or of another wire version;
 *                      a message was given. */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_peer_get(opal_common_adaptib_core_t *core, uint64_t name,
                             opal_common_adaptib_peer_t **peer) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* Likewise, for a peer that another transport takes if the core does not reach it: a notice says
 * so, once for all such peers. */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_peer_offer(opal_common_adaptib_core_t *core, uint64_t name,
                               opal_common_adaptib_peer_t **peer) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* Data that the caller attaches to a peer; NULL at first. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_peer_set_user_data(opal_common_adaptib_core_t *core,
                                       opal_common_adaptib_peer_t *peer,
                                       void *what) OPAL_COMMON_ADAPTIB_NOEXCEPT;
OPAL_COMMON_ADAPTIB_EXPORT void *
opal_common_adaptib_peer_user_data(opal_common_adaptib_core_t *core,
                                   opal_common_adaptib_peer_t *peer) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* Called when the connection to the peer is broken, and messages reported as sent may not have
 * arrived: once per peer, from progress, without the lock. It may call any function of this
 * interface but progress and core_release. Operations that use the peer afterwards end with
 * UNREACHABLE; a caller that only waits for messages of the peer learns of the loss in no other
 * way. */
typedef void (*opal_common_adaptib_broken_t)(void *context, opal_common_adaptib_peer_t *peer);
/* There is one listener; NULL ends it. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_broken_listen(opal_common_adaptib_core_t *core,
                                  opal_common_adaptib_broken_t handler,
                                  void *context) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* Tells that the caller starts no new traffic to this peer. The handle must not be used any
 * more. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_peer_release(opal_common_adaptib_core_t *core,
                                 opal_common_adaptib_peer_t *peer) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Moves the peer's queue pairs to their alternate paths, if automatic path migration has one armed,
 * to take load off the paths in use. Returns how many were asked to move; nothing is lost or
 * waits. */
OPAL_COMMON_ADAPTIB_EXPORT size_t opal_common_adaptib_peer_migrate(opal_common_adaptib_core_t *core,
                                                                   opal_common_adaptib_peer_t *peer)
    OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------
 * Two-sided traffic */

#define OPAL_COMMON_ADAPTIB_ANY_SOURCE (-1)
#define OPAL_COMMON_ADAPTIB_ANY_TAG INT32_MIN

/* The fields that matching compares. A receive's source and tag may be ANY_*; ANY_TAG does not
 * match negative tags. */
typedef struct {
    uint32_t context; /* communicator */
    int32_t source;   /* the sender's rank in it */
    int32_t tag;
} opal_common_adaptib_envelope_t;

/* The bytes of a message. Contiguous: base points to them, and pack and unpack are not called.
 * Otherwise base is NULL, and pack (or unpack) copies *length bytes from `offset` of the packed
 * stream on; it may copy fewer, but not zero, and then stores their number in *length. It returns 0
 * or an error (< 0). */
typedef struct {
    void *base;
    size_t bytes; /* of the message, or the room of the receive buffer */
    int (*pack)(void *context, size_t offset, void *to, size_t *length);
    int (*unpack)(void *context, size_t offset, const void *from, size_t *length);
    void *context;
} opal_common_adaptib_data_t;

typedef enum {
    OPAL_COMMON_ADAPTIB_MODE_STANDARD, /* complete when the buffer can be used again */
    OPAL_COMMON_ADAPTIB_MODE_SYNC      /* complete when the message has been matched, too */
} opal_common_adaptib_mode_t;

/* Kind of operation that the traffic belongs to; the striping policy EPC uses it. */
typedef enum {
    OPAL_COMMON_ADAPTIB_BLOCKING,
    OPAL_COMMON_ADAPTIB_NON_BLOCKING,
    OPAL_COMMON_ADAPTIB_COLLECTIVE
} opal_common_adaptib_op_kind_t;

#define OPAL_COMMON_ADAPTIB_REQUEST_WORDS 28

typedef struct opal_common_adaptib_request {
    /* Set by the caller before the request is started. */
    void (*complete)(struct opal_common_adaptib_request *request);
    /* Set by the core before it calls complete, or before the starting call returns COMPLETE. */
    size_t bytes;   /* received into the buffer, or sent */
    int status;     /* SUCCESS, TRUNCATED, CANCELLED, UNREACHABLE, ERROR */
    int32_t source; /* receives */
    int32_t tag;    /* receives */
    uint32_t kind;  /* private to the core, like the words that follow */
    uint64_t core[OPAL_COMMON_ADAPTIB_REQUEST_WORDS];
} opal_common_adaptib_request_t;

/* @retval SUCCESS   started; request->complete will be called
 * @retval COMPLETE  done, request->complete will not be called
 * @retval (< 0)     not started */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_send(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
                         const opal_common_adaptib_envelope_t *envelope,
                         const opal_common_adaptib_data_t *data, opal_common_adaptib_mode_t mode,
                         opal_common_adaptib_op_kind_t op_kind,
                         opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Fast path without a request: for a contiguous message in standard mode that there is room for
 * now.
 * @retval COMPLETE  done
 * @retval AGAIN     not sent; call opal_common_adaptib_send */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_try_send(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
                             uint32_t context, int32_t source, int32_t tag, const void *base,
                             size_t bytes) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* As send; COMPLETE if the message had already arrived. `peer` is the only possible sender, or NULL
 * for any source: the request ends with UNREACHABLE when that peer is lost.
 * @retval UNREACHABLE  the peer is lost, and no message of it has arrived */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_receive(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
                            const opal_common_adaptib_envelope_t *envelope,
                            const opal_common_adaptib_data_t *data,
                            opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Likewise, with contiguous data. */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_recv_contig(
    opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer, uint32_t context,
    int32_t source, int32_t tag, void *base, size_t bytes,
    opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

typedef struct opal_common_adaptib_message opal_common_adaptib_message_t;

typedef struct {
    int32_t source;
    int32_t tag;
    size_t bytes;
} opal_common_adaptib_probe_t;

/* Looks for a message without taking it. `peer` as in receive.
 * @retval SUCCESS, NOT_FOUND, UNREACHABLE */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_probe(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
                          const opal_common_adaptib_envelope_t *envelope,
                          opal_common_adaptib_probe_t *found) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* Removes a message from matching; it belongs to the caller until matched_receive. */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_matched_probe(
    opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
    const opal_common_adaptib_envelope_t *envelope, opal_common_adaptib_probe_t *found,
    opal_common_adaptib_message_t **message) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* As receive, for a message from matched_probe, which it consumes. */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_matched_receive(
    opal_common_adaptib_core_t *core, opal_common_adaptib_message_t *message,
    const opal_common_adaptib_data_t *data,
    opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Cancels a receive that is not matched yet.
 * @retval SUCCESS    cancelled: status is CANCELLED, complete is not called
 * @retval NOT_FOUND  too late, or a send: the request completes as if cancel had not been called */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_cancel(opal_common_adaptib_core_t *core,
                           opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------
 * Active messages: delivered in the order of sending, among themselves and with two-sided messages
 * of the same peer. Exception: two-sided messages that the peer holds back, since no receive is
 * posted. */

/* `data` is valid during the call, which comes from progress, without the lock. The handler may
 * call any function of this interface but progress and core_release. */
typedef void (*opal_common_adaptib_active_t)(void *context, opal_common_adaptib_peer_t *peer,
                                             uint8_t tag, const void *data, size_t bytes);

/* There is one listener; a NULL handler ends it. Without one, messages count as bad packets. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_active_listen(opal_common_adaptib_core_t *core,
                                  opal_common_adaptib_active_t handler,
                                  void *context) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Length of the longest active message, to any peer, at any time. */
OPAL_COMMON_ADAPTIB_EXPORT size_t opal_common_adaptib_active_max(opal_common_adaptib_core_t *core)
    OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Address of the size up to which data is best sent as active messages, for a caller that can
 * transfer it in another way. The size changes as the core learns; the address is valid as long as
 * the core. */
OPAL_COMMON_ADAPTIB_EXPORT const size_t *
opal_common_adaptib_active_eager(opal_common_adaptib_core_t *core) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Tells that `bytes` of data are about to go to the peer in another way; the core learns when to
 * try active messages of that size again. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_active_declined(opal_common_adaptib_core_t *core,
                                    opal_common_adaptib_peer_t *peer,
                                    size_t bytes) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* As opal_common_adaptib_active_send, for a message in two pieces (the second may be empty) that
 * can be sent now.
 * @retval COMPLETE  done
 * @retval AGAIN     not sent; call opal_common_adaptib_active_send */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_active_try_send(opal_common_adaptib_core_t *core,
                                    opal_common_adaptib_peer_t *peer, uint8_t tag,
                                    const void *first, size_t first_bytes, const void *second,
                                    size_t second_bytes) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* As send. COMPLETE once the data is copied; otherwise the data must stay until request->complete.
 * The peer must not be this process.
 * @retval BAD_PARAM  longer than active_max, or to this process */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_active_send(
    opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer, uint8_t tag,
    const opal_common_adaptib_data_t *data,
    opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------
 * One-sided traffic: not ordered, neither among itself nor with messages. A request completes when
 * the data is at the target (put, atomics) or here (get, atomics). */

typedef struct opal_common_adaptib_region opal_common_adaptib_region_t;

/* Description that a peer needs to reach a region; plain bytes, sent as they are. */
typedef struct {
    uint64_t base;
    uint64_t bytes;
    uint32_t keys[8];
    uint32_t key_count;
    uint32_t access;
} opal_common_adaptib_remote_t;

enum {
    OPAL_COMMON_ADAPTIB_REMOTE_READ = 1,
    OPAL_COMMON_ADAPTIB_REMOTE_WRITE = 2,
    OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC = 4,
    /* Set in a description only: atomics are target-assisted, carried out by the target process. */
    OPAL_COMMON_ADAPTIB_ATOMICS_EMULATED = 8
};

/* Registers memory until deregister, for local use and for peers with the rights of `access`.
 * *region is NULL if nothing had to be made: pass it to deregister all the same.
 * @retval NO_MEMORY  tables or locked memory are used up; a message was given the first time
 * @retval BAD_PARAM  no such memory */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_register(opal_common_adaptib_core_t *core, void *base, size_t bytes,
                             uint32_t access, opal_common_adaptib_region_t **region,
                             opal_common_adaptib_remote_t *remote) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* Afterwards no peer can reach the memory if it was registered for atomics, as a window is.
 * Otherwise a peer that keeps the description may still reach it: where nothing is pinned, all
 * memory is one region. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_deregister(opal_common_adaptib_core_t *core,
                               opal_common_adaptib_region_t *region) OPAL_COMMON_ADAPTIB_NOEXCEPT;

typedef enum {
    OPAL_COMMON_ADAPTIB_PUT,
    OPAL_COMMON_ADAPTIB_GET,
    /* remote += operand; the old value goes to *local */
    OPAL_COMMON_ADAPTIB_FETCH_ADD,
    /* if remote == compare, remote = operand; the old value goes to *local */
    OPAL_COMMON_ADAPTIB_COMPARE_SWAP
} opal_common_adaptib_operation_t;

typedef struct {
    opal_common_adaptib_operation_t operation;
    void *local;
    opal_common_adaptib_region_t *region; /* of `local`; NULL: the core registers it */
    uint64_t remote_address;
    const opal_common_adaptib_remote_t *remote; /* read during the call */
    size_t bytes;                               /* atomics: 8 */
    uint64_t operand;
    uint64_t compare;
} opal_common_adaptib_one_sided_t;

/* Tries to finish the operation inside the call. Returns COMPLETE, or AGAIN if the caller must use
 * opal_common_adaptib_start (also for invalid operations, whose error start reports). */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_try_rma(
    opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
    const opal_common_adaptib_one_sided_t *operation) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* Starts the operation. The peer may be this process. The description in `remote` may be that of
 * another region of the target: within a host the core looks up the region that contains the
 * address, and checks the rights that the description names.
 * @retval BAD_PARAM  in no such region, without the right, or an atomic that is not 8 aligned
 *                    bytes; a request ends with it if the target refuses the operation later
 * @retval SUCCESS, COMPLETE, NO_MEMORY, UNREACHABLE  as send
 * @retval ERROR      nothing can be registered, not even a block to copy through; a message was
 *                    given */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_start(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
                          const opal_common_adaptib_one_sided_t *operation,
                          opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Marks for a flush, which waits for the one-sided operations that are started and not complete,
 * however many others follow: the caller takes a mark (0: there are none), and makes progress until
 * the mark is passed. */
OPAL_COMMON_ADAPTIB_EXPORT uint64_t opal_common_adaptib_flush_mark(opal_common_adaptib_core_t *core)
    OPAL_COMMON_ADAPTIB_NOEXCEPT;
OPAL_COMMON_ADAPTIB_EXPORT bool
opal_common_adaptib_flush_passed(opal_common_adaptib_core_t *core,
                                 uint64_t mark) OPAL_COMMON_ADAPTIB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* OPAL_COMMON_ADAPTIB_H */
