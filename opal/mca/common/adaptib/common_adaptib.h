/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C interface of the core: what the MTL and the BTL see of it, and all they see of it.
 *
 * Life cycle. Each component registers the parameters (opal_common_adaptib_parameters) in its
 * register function, acquires the core when it is selected, publishes the core's address for the
 * other processes, and releases the core when it is finalized. There is one core per process; it is
 * reference counted and ends with the last release.
 *
 * Threads. While *environment.threads is set, every function may be called from any thread, and the
 * functions take the core's lock; otherwise the caller sees to it that one thread at a time is inside.
 * Completion functions are called by opal_common_adaptib_progress (or by the call that made the
 * completion possible), never with the lock held; they may call any function of this interface
 * except core_release.
 *
 * Ownership. Handles belong to the core. A request is memory of the caller's; it belongs to the core
 * from the call that starts it until its completion function is called, and is not touched afterwards.
 * User buffers follow the request.
 *
 * Errors. Functions return OPAL_COMMON_ADAPTIB_* values. Outputs are set only on success. What a
 * person should know is handed to environment.message once, when it happens.
 *
 * May touch: nothing of Open MPI; the C components include this header and Open MPI's, the core
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
 * Parameters: the one table. A component registers each row under "opal_common_adaptib_<name>" with
 * synonyms of its own. */

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
    int level;                /* 1..9, as ompi_info's */
    const char *help;         /* one to three sentences: meaning, unit, default, range */
} opal_common_adaptib_parameter_t;

/* The table; storage holds the defaults (strings: a heap copy) until a component registers it. */
OPAL_COMMON_ADAPTIB_EXPORT const opal_common_adaptib_parameter_t *
opal_common_adaptib_parameters(size_t *count) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Checks every value and every pair that could contradict.
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
    const uint64_t *value; /* read by anyone at any time; written by the core */
} opal_common_adaptib_counter_t;

OPAL_COMMON_ADAPTIB_EXPORT const opal_common_adaptib_counter_t *
opal_common_adaptib_counters(size_t *count) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------
 * The core */

typedef struct opal_common_adaptib_core opal_common_adaptib_core_t;
typedef struct opal_common_adaptib_peer opal_common_adaptib_peer_t;

typedef enum {
    OPAL_COMMON_ADAPTIB_NOTICE,  /* something a user should know; the job goes on */
    OPAL_COMMON_ADAPTIB_FAILURE, /* something failed; a status says so too */
    OPAL_COMMON_ADAPTIB_REPORT   /* the readable report, on request */
} opal_common_adaptib_severity_t;

typedef struct {
    void *context;
    uint64_t self;            /* this process: (jobid << 32) | vpid */
    uint32_t local_rank;      /* its number among the job's processes of this host */
    uint32_t local_processes; /* of the job, on this host, itself included; 0: it is not known */
    const char *host_name;
    bool one_host; /* all processes of the job run on this host */
    /* Whether several threads may call at the same time; read in each call. May become true while one
     * alone calls. NULL: no. */
    const bool *threads;
    /* Whether this process gives its processor up when progress found nothing; read at any time. NULL: no. */
    const bool *yields;
    /* Looks up what `name` published with the core's address; *address stays valid until release.
     * Called on first contact only, from inside any call. */
    int (*lookup)(void *context, uint64_t name, void **address, size_t *size);
    void (*lookup_release)(void *context, void *address);
    void (*message)(void *context, opal_common_adaptib_severity_t severity, const char *text);
    /* The core would keep registrations of memory after use. True: memory_released() will be called
     * from now on. NULL: it cannot be. */
    bool (*watch_memory)(void *context);
} opal_common_adaptib_environment_t;

/* @retval BAD_PARAM, NO_MEMORY, UNREACHABLE (no fabric can be opened), ERROR: a message was given.
 * A second acquire returns the same core and ignores its environment, but for `threads` that is true. */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_core_acquire(const opal_common_adaptib_environment_t *environment,
                                 opal_common_adaptib_core_t **core) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* Before a component that has sent or received messages releases its peers: its completion functions and the memory of its requests
 * may go afterwards, though another component may hold the core. What is under way has a second to complete, and then ends with
 * its peer; posted receives that nothing has come for are forgotten, and nothing is called for them. REQUIRES: nobody starts
 * anything with messages any more. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_messages_end(opal_common_adaptib_core_t *core) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* The last release flushes what is still queued (for at most a second), writes the report if it is
 * asked for, and frees everything. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_core_release(opal_common_adaptib_core_t *core) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* What the other processes look up; valid until release. */
OPAL_COMMON_ADAPTIB_EXPORT const void *
opal_common_adaptib_core_address(opal_common_adaptib_core_t *core,
                                 size_t *size) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Moves everything forward; returns the number of events handled. */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_progress(opal_common_adaptib_core_t *core) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* The program is about to unmap this memory. Any thread, at any time between acquire and release, also inside of
 * calls to the core; takes no lock of the core's and does not allocate. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_memory_released(opal_common_adaptib_core_t *core, const void *base,
                                    size_t bytes) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* The runtime that started the job says that the process has ended. Any thread, between acquire and
 * release, also inside of calls to the core, whose lock it does not take. What the process had sent
 * is taken first; then what waits for it ends with an error, and one message says why. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_process_ended(opal_common_adaptib_core_t *core,
                                  uint64_t name) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* This process is number `rank` of the `count` processes of its job, whose names differ in the lower 32
 * bits alone: 0 to count - 1. Those that the parameter "connect" wants connected from the start are, as
 * progress is made. Their addresses must have been published. What comes after the first call is ignored. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_connect_start(opal_common_adaptib_core_t *core, uint32_t rank,
                                  uint32_t count) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* The peer of that name, made at first contact. Does not connect.
 * @retval UNREACHABLE  unknown, on another host than the fabrics reach, or of another wire version;
 *                      a message was given. */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_peer_get(opal_common_adaptib_core_t *core, uint64_t name,
                             opal_common_adaptib_peer_t **peer) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* The same for a peer that another transport takes if it is not reached: that is told once, as a
 * notice. */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_peer_offer(opal_common_adaptib_core_t *core, uint64_t name,
                               opal_common_adaptib_peer_t **peer) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* What the user keeps with a peer; NULL at first. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_peer_keep(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
                              void *what) OPAL_COMMON_ADAPTIB_NOEXCEPT;
OPAL_COMMON_ADAPTIB_EXPORT void *
opal_common_adaptib_peer_kept(opal_common_adaptib_core_t *core,
                              opal_common_adaptib_peer_t *peer) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* The connection to the peer is broken, and messages that were told as sent may not have arrived.
 * Called once for a peer, from progress, without the lock; it may call any function of this
 * interface but progress and core_release. What uses the peer afterwards ends with UNREACHABLE, but
 * who only waits for messages of it learns it in this way alone. */
typedef void (*opal_common_adaptib_broken_t)(void *context, opal_common_adaptib_peer_t *peer);
/* One listener; NULL ends it. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_broken_listen(opal_common_adaptib_core_t *core,
                                  opal_common_adaptib_broken_t handler,
                                  void *context) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* No new traffic will be started to this peer. The handle must not be used any more. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_peer_release(opal_common_adaptib_core_t *core,
                                 opal_common_adaptib_peer_t *peer) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Lets the peer's queue pairs go over to their alternate paths, where automatic path migration has one ready, to
 * take load from the paths that they use. Returns how many were asked; nothing is lost or waits. */
OPAL_COMMON_ADAPTIB_EXPORT size_t opal_common_adaptib_peer_migrate(opal_common_adaptib_core_t *core,
                                                                   opal_common_adaptib_peer_t *peer)
    OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------
 * Two-sided traffic */

#define OPAL_COMMON_ADAPTIB_ANY_SOURCE (-1)
#define OPAL_COMMON_ADAPTIB_ANY_TAG INT32_MIN

/* What is matched. A receive's source and tag may be ANY_*; ANY_TAG does not match negative tags. */
typedef struct {
    uint32_t context; /* communicator */
    int32_t source;   /* the sender's rank in it */
    int32_t tag;
} opal_common_adaptib_envelope_t;

/* The bytes of a message. Contiguous: base points to them, and pack and unpack are not called.
 * Otherwise base is NULL, and pack (or unpack) moves *length bytes from `offset` of the packed stream;
 * it may move fewer than asked for (not zero) and says so in *length. It returns 0 or an error (< 0).
 */
typedef struct {
    void *base;
    size_t bytes; /* of the message, or the room of the receive buffer */
    int (*pack)(void *context, size_t offset, void *to, size_t *length);
    int (*unpack)(void *context, size_t offset, const void *from, size_t *length);
    void *context;
} opal_common_adaptib_data_t;

typedef enum {
    OPAL_COMMON_ADAPTIB_MODE_STANDARD, /* complete when the buffer can be used again */
    OPAL_COMMON_ADAPTIB_MODE_SYNC      /* complete when the message was matched, too */
} opal_common_adaptib_mode_t;

/* What kind of operation the traffic belongs to; the striping policy EPC wants to know. */
typedef enum {
    OPAL_COMMON_ADAPTIB_BLOCKING,
    OPAL_COMMON_ADAPTIB_NON_BLOCKING,
    OPAL_COMMON_ADAPTIB_COLLECTIVE
} opal_common_adaptib_marker_t;

#define OPAL_COMMON_ADAPTIB_REQUEST_WORDS 28

typedef struct opal_common_adaptib_request {
    /* Set by the caller before the request is started. */
    void (*complete)(struct opal_common_adaptib_request *request);
    /* Set by the core before complete is called, or the starting call returns COMPLETE. */
    size_t bytes;   /* received into the buffer, or sent */
    int status;     /* SUCCESS, TRUNCATED, CANCELLED, UNREACHABLE, ERROR */
    int32_t source; /* receives */
    int32_t tag;    /* receives */
    uint32_t kind;  /* the core's own, as the words that follow */
    uint64_t core[OPAL_COMMON_ADAPTIB_REQUEST_WORDS];
} opal_common_adaptib_request_t;

/* @retval SUCCESS   started; request->complete will be called
 * @retval COMPLETE  done, request->complete will not be called
 * @retval (< 0)     not started */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_send(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
                         const opal_common_adaptib_envelope_t *envelope,
                         const opal_common_adaptib_data_t *data, opal_common_adaptib_mode_t mode,
                         opal_common_adaptib_marker_t marker,
                         opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* The short way, without a request: a contiguous message in standard mode for which there is room now.
 * @retval COMPLETE  done
 * @retval AGAIN     not sent; opal_common_adaptib_send is to be called */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_send_now(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
                             uint32_t context, int32_t source, int32_t tag, const void *base,
                             size_t bytes) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* As send; COMPLETE if the message was there already. `peer` is who will send, NULL if that is anybody: the
 * request ends with UNREACHABLE when that peer is lost.
 * @retval UNREACHABLE  the peer is lost, and no message of its is there */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_receive(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
                            const opal_common_adaptib_envelope_t *envelope,
                            const opal_common_adaptib_data_t *data,
                            opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* The same with contiguous data. */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_receive_at(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
                               uint32_t context, int32_t source, int32_t tag, void *base,
                               size_t bytes,
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
/* Takes a message out of matching; it belongs to the caller until matched_receive. */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_matched_probe(
    opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
    const opal_common_adaptib_envelope_t *envelope, opal_common_adaptib_probe_t *found,
    opal_common_adaptib_message_t **message) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* As receive, of a message that matched_probe took; consumes it. */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_matched_receive(
    opal_common_adaptib_core_t *core, opal_common_adaptib_message_t *message,
    const opal_common_adaptib_data_t *data,
    opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Cancels a receive that is not matched yet.
 * @retval SUCCESS    cancelled: status is CANCELLED, complete is not called
 * @retval NOT_FOUND  too late, or a send: the request completes as if nothing had been asked */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_cancel(opal_common_adaptib_core_t *core,
                           opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------
 * Active messages: delivered in the order of sending, among themselves and with two-sided messages of
 * the same peer, but for two-sided ones that it holds back, since no receives are posted for them. */

/* `data` is valid during the call, which comes from progress, without the lock; it may call any function
 * of this interface but progress and core_release. */
typedef void (*opal_common_adaptib_active_t)(void *context, opal_common_adaptib_peer_t *peer,
                                             uint8_t tag, const void *data, size_t bytes);

/* One listener; a NULL handler ends it. Without a listener, messages are counted as bad packets. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_active_listen(opal_common_adaptib_core_t *core,
                                  opal_common_adaptib_active_t handler,
                                  void *context) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* The longest active message, to any peer, at any time. */
OPAL_COMMON_ADAPTIB_EXPORT size_t opal_common_adaptib_active_max(opal_common_adaptib_core_t *core)
    OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Where the core keeps the size up to which data is best sent in active messages, for who can move it in
 * another way; it changes as the core learns, and lives as long as the core. */
OPAL_COMMON_ADAPTIB_EXPORT const size_t *
opal_common_adaptib_active_eager(opal_common_adaptib_core_t *core) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* `bytes` of data are about to be moved to the peer in another way; the core learns when to try again. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_active_not(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
                               size_t bytes) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* As opal_common_adaptib_active_send, for a message of two pieces (the second may be empty) that can go
 * out now: COMPLETE, or AGAIN if it has to be sent the other way. */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_active_send_now(opal_common_adaptib_core_t *core,
                                    opal_common_adaptib_peer_t *peer, uint8_t tag,
                                    const void *first, size_t first_bytes, const void *second,
                                    size_t second_bytes) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* As send. COMPLETE once the data is copied; otherwise the data stays until request->complete. The peer is
 * not this process. @retval BAD_PARAM  longer than active_max, or to ourselves */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_active_send(
    opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer, uint8_t tag,
    const opal_common_adaptib_data_t *data,
    opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------
 * One-sided traffic: not ordered, neither among itself nor with messages. A request completes when the
 * data is at the other side (put, atomics) or here (get, atomics). */

typedef struct opal_common_adaptib_region opal_common_adaptib_region_t;

/* What a peer needs to reach a region; plain bytes, sent as they are. */
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
    /* Of a description alone: the process carries atomics out itself, and is asked for them. */
    OPAL_COMMON_ADAPTIB_ATOMICS_ASKED = 8
};

/* Memory that stays where it is until deregister, for local use and for what `access` lets peers do. *region
 * is NULL where nothing had to be made for it: give it back all the same.
 * @retval NO_MEMORY  tables or locked memory are used up; the first time a message was given
 * @retval BAD_PARAM  no such memory */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_register(opal_common_adaptib_core_t *core, void *base, size_t bytes,
                             uint32_t access, opal_common_adaptib_region_t **region,
                             opal_common_adaptib_remote_t *remote) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* After it no peer can reach the memory, if it was registered for atomics, as a window is. Otherwise a peer
 * that keeps the description may: where nothing is pinned, all memory is one region. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_deregister(opal_common_adaptib_core_t *core,
                               opal_common_adaptib_region_t *region) OPAL_COMMON_ADAPTIB_NOEXCEPT;

typedef enum {
    OPAL_COMMON_ADAPTIB_PUT,
    OPAL_COMMON_ADAPTIB_GET,
    OPAL_COMMON_ADAPTIB_FETCH_ADD, /* remote += operand; the old value to *local */
    OPAL_COMMON_ADAPTIB_COMPARE_SWAP /* remote == compare ? operand : unchanged; old value to *local */
} opal_common_adaptib_operation_t;

typedef struct {
    opal_common_adaptib_operation_t operation;
    void *local;
    opal_common_adaptib_region_t *region; /* of local; NULL: registered for the operation */
    uint64_t remote_address;
    const opal_common_adaptib_remote_t *remote; /* read during the call */
    size_t bytes;                               /* atomics: 8 */
    uint64_t operand;
    uint64_t compare;
} opal_common_adaptib_one_sided_t;

/* The whole operation within the call, where that can be: COMPLETE, or AGAIN if it has to be started, be it
 * that something is wrong with it. */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_start_now(
    opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
    const opal_common_adaptib_one_sided_t *operation) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* The peer may be this process.
 * The description in `remote` may be that of another region of the target's: within a host the
 * region that the address lies in is looked for, and the rights that the description names. @retval
 * BAD_PARAM      in no such region, without the right, or an atomic that is not 8 aligned bytes; a
 *                        request ends with it if the target refuses the operation only later
 * @retval SUCCESS, COMPLETE, NO_MEMORY, UNREACHABLE  as send
 * @retval ERROR          nothing can be registered, not even a block to copy through; a message was given */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_start(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
                          const opal_common_adaptib_one_sided_t *operation,
                          opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* A flush waits for the one-sided operations that are started and not complete, however many others follow: it takes a mark
 * (0: there are none), and makes progress until the mark is passed. */
OPAL_COMMON_ADAPTIB_EXPORT uint64_t opal_common_adaptib_flush_mark(opal_common_adaptib_core_t *core)
    OPAL_COMMON_ADAPTIB_NOEXCEPT;
OPAL_COMMON_ADAPTIB_EXPORT bool
opal_common_adaptib_flush_passed(opal_common_adaptib_core_t *core,
                                 uint64_t mark) OPAL_COMMON_ADAPTIB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* OPAL_COMMON_ADAPTIB_H */
