/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C interface of the core: all that the MTL and the BTL see of the core. This header has its
 * parameters, counters, life, progress and peers, and the types that all traffic uses; the traffic
 * is in common_adaptib_two_sided.h, common_adaptib_active.h and common_adaptib_one_sided.h.
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
 * May touch: nothing of Open MPI. The C components include these headers and Open MPI's; the core
 * includes these headers alone.
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
    OPAL_COMMON_ADAPTIB_NOT_SUPPORTED = -9,
    /* a put or get: the memory of one end is not mapped, or protected */
    OPAL_COMMON_ADAPTIB_FAULT = -10
};

/* ------------------------------------------------------------------------------------------------
 * Parameters: one table for all. A component registers each row under "opal_common_adaptib_<name>"
 * with synonyms of its own. */

typedef enum {
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
    int level;                /* 1..9, as in ompi_info; 0: a job does not have it any more */
    const char *help;         /* one to three sentences: meaning, unit, default, range; or, at
                               * level 0, what takes its place */
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
    OPAL_COMMON_ADAPTIB_LEVEL,   /* goes up and down */
    OPAL_COMMON_ADAPTIB_VALUE    /* a value that is measured or learnt, not a number of things */
} opal_common_adaptib_counter_class_t;

typedef struct {
    const char *name;
    const char *unit;
    const char *help;
    opal_common_adaptib_counter_class_t kind;
    int level;             /* 1..9, as MPI_T verbosity */
    const uint64_t *value; /* of the first endpoint; written by its core */
} opal_common_adaptib_counter_t;

OPAL_COMMON_ADAPTIB_EXPORT const opal_common_adaptib_counter_t *
opal_common_adaptib_counters(size_t *count) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* The value for the whole process: the sum over its endpoints, or of a VALUE the largest one. Any
 * thread may read it at any time. */
OPAL_COMMON_ADAPTIB_EXPORT uint64_t opal_common_adaptib_counter_value(
    const opal_common_adaptib_counter_t *counter) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------
 * Incidents: what happens to rails, paths and the connections to peers. Each kind becomes an MPI_T
 * event. */

typedef struct {
    const char *name; /* "path_failed" ... */
    const char *help; /* one sentence: what has happened */
} opal_common_adaptib_incident_kind_t;

/* The kinds; an incident's `kind` is a row's number. */
OPAL_COMMON_ADAPTIB_EXPORT const opal_common_adaptib_incident_kind_t *
opal_common_adaptib_incident_kinds(size_t *count) OPAL_COMMON_ADAPTIB_NOEXCEPT;

typedef struct {
    uint32_t kind;
    uint32_t endpoint;  /* of this process */
    int32_t rank;       /* of the peer in its job; -1: no peer is concerned */
    int32_t job;        /* of the peer: 0, or the number of a spawned job; -1: likewise */
    int32_t rail;       /* of this process; -1: no single one is concerned */
    uint64_t lasted_ns; /* of repaired and unreachable: since the connection was interrupted */
} opal_common_adaptib_incident_t;

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
    uint64_t self;            /* this process: (jobid << 32) | vpid; the vpid is below 2^28 */
    uint32_t local_rank;      /* its number among the job's processes on this host */
    uint32_t local_processes; /* the job's processes on this host, with this one; 0: unknown */
    const char *host_name;
    bool one_host;      /* all processes of the job run on this host */
    uint32_t processes; /* of the job; 0: unknown */
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
    /* Publishes this process's report for the job's first process, which looks those of all others
     * up, each for a bounded time; lookup_release releases it. Called by the last release, if
     * `report` is summary. NULL: the summary is of the first process alone. */
    int (*report_publish)(void *context, const void *data, size_t size);
    int (*report_lookup)(void *context, uint64_t name, void **data, size_t *size);
    /* Called if the core is going to cache registrations of memory. Returns true if
     * memory_released() will be called from now on. The core has no thread for RDMA devices yet.
     * NULL: it cannot be. */
    bool (*watch_memory)(void *context);
    /* Called before memory is registered that is going to stay so, by several threads at the same
     * time. Returns false if memory_released() does not hear of all memory any more, and may call
     * it: the program may have loaded a library that takes the place of others' memory hooks.
     * NULL: nothing changes. */
    bool (*still_watches_memory)(void *context);
    /* Hears of each incident, from progress and within core_release, without the lock. It may call
     * any function of this interface but core_release. NULL: nobody hears. */
    void (*incident)(void *context, const opal_common_adaptib_incident_t *incident);
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

/* Copies the name of rail number `rail`, "mlx5_0:1" or "shm0", of the process's first endpoint; the
 * counters rail_bytes_<rail> are of that rail. Returns false if there is no such rail. */
OPAL_COMMON_ADAPTIB_EXPORT bool
opal_common_adaptib_rail_name(opal_common_adaptib_core_t *core, uint32_t rail, char *name,
                              size_t name_size) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Tells that traffic will come, and which ("messages (MTL under pml/cm)"): for the line that the
 * parameter verbose asks for, and for the report. Of several calls, the first one counts. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_core_carries(opal_common_adaptib_core_t *core,
                                 const char *what) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Endpoints: a process has one core, or several if the parameter `endpoints` says so, each with
 * peers, queues, matching and a lock of its own, so that threads that use different ones do not
 * hinder each other. core_acquire returns the first; each function that takes a core takes any of
 * them, and its peers, requests and messages belong to that one. Those that say so are for the
 * whole process: core_acquire, core_release, core_address, core_carries, progress,
 * quiesce_messages, connect_start, memory_released, process_ended and process_set_user_data. */

/* The number of endpoints of this process, a power of two; constant. */
OPAL_COMMON_ADAPTIB_EXPORT uint32_t opal_common_adaptib_endpoints(opal_common_adaptib_core_t *core)
    OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* Endpoint number `index` of the process; NULL if there is none. */
OPAL_COMMON_ADAPTIB_EXPORT opal_common_adaptib_core_t *
opal_common_adaptib_endpoint(opal_common_adaptib_core_t *core,
                             uint32_t index) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* The number of that endpoint. */
OPAL_COMMON_ADAPTIB_EXPORT uint32_t
opal_common_adaptib_endpoint_index(opal_common_adaptib_core_t *core) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Makes progress of the endpoints that the calling thread uses: in each call where a request is
 * under way, or anything has been called since the last one; otherwise in one call of several. Now
 * and then of the others, too. Returns the number of events handled. */
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
 * in the lower 32 bits alone: 0 to count - 1. Connects, as progress is made, each endpoint to the
 * peers that the parameter "connect" wants connected from the start. REQUIRES: their addresses are
 * published. Only the first call counts. */
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
/* The number of endpoints of another process, a power of two. May take long; takes no lock.
 * @retval UNREACHABLE  unknown, or its published addresses are malformed */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_peer_endpoints(opal_common_adaptib_core_t *core, uint64_t name,
                                   uint32_t *count) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* As peer_get, for endpoint number `endpoint` of the other process. */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_peer_at(opal_common_adaptib_core_t *core, uint64_t name, uint32_t endpoint,
                            opal_common_adaptib_peer_t **peer) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* Attaches data to another process, for the whole of this one: each peer that stands for that
 * process, at any endpoint and whichever side contacted the other first, has this data from now on.
 * NULL, as at first: none. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_process_set_user_data(opal_common_adaptib_core_t *core, uint64_t name,
                                          void *what) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* The data attached to the peer's process; NULL: none, or the peer is this process itself. */
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
 * Data and requests of messages and one-sided operations */

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

/* Place of a message's data in an accelerator's memory. */
typedef struct {
    void *address; /* of the data */
    void *base;    /* of the allocation around it */
    size_t bytes;  /* of the allocation */
    uint64_t id;   /* of the allocation; a later one at the same address has another */
} opal_common_adaptib_accelerator_place_t;

/* Functions of accelerators' owners. They are called with the core's lock, and call nothing of the
 * core. */
typedef struct {
    /* Finds the data of a message whose base is NULL, by its context. Returns false if it is not
     * contiguous, or not on an accelerator. */
    bool (*locate)(void *context, opal_common_adaptib_accelerator_place_t *place);
    /* Returns true if the allocation still exists. */
    bool (*exists)(const opal_common_adaptib_accelerator_place_t *place);
} opal_common_adaptib_accelerators_t;

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

#ifdef __cplusplus
}
#endif

#endif /* OPAL_COMMON_ADAPTIB_H */
