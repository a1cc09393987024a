// SPDX-License-Identifier: BSD-3-Clause
/*
 * Declarations that the files of rma_stress share.
 *
 * A round of a program follows from seed, kind and round number alone. Every rank generates the
 * whole round, executes its own part and computes the effects of the other ranks' parts; so ranks
 * need not exchange expectations.
 *
 *   main.c        options; the loop over seeds, kinds and rounds; threads
 *   watch.c       reports the step of each rank when something fails or hangs
 *   types.c       datatypes; results of MPI's operations
 *   window.c      windows of all flavors, with guards
 *   operations.c  one random operation, executed or only followed by the model
 *   program.c     a phase of random operations under random synchronization
 *   other files   one kind of program each
 *
 * Threads: an actor is one thread of one rank. Each thread executes its own actor's part; the main
 * thread does everything else. May touch: mpi.h, the C library, POSIX.
 */
#ifndef ADAPTIB_TEST_MPI_RMA_STRESS_H
#define ADAPTIB_TEST_MPI_RMA_STRESS_H

#include "mpi/check.h"

enum {
    RANKS_MAX = 16,
    THREADS_MAX = 8,
    ACTORS_MAX = RANKS_MAX * THREADS_MAX,
    PAGE = 4096
};

/*
 * Parts of programs in which Open MPI itself is at fault (4.1.4: its code read, and tried). The
 * first three work over adaptib and fail over vader; the others fail over every BTL.
 *
 * LOGICAL: osc/rdma passes MPI_LAND, MPI_LOR and MPI_LXOR to a BTL that has other atomics than add;
 *     vader leaves the word unchanged and returns 0.
 * UNSIGNED_ORDER: the same for MPI_MIN and MPI_MAX; vader compares unsigned numbers as signed ones.
 * LOCAL_SWAP: MPI_Compare_and_swap of 8 bytes in memory that osc/rdma has mapped (the process's own
 *     included) goes to the BTL without an endpoint; vader crashes.
 * LONG_SWAP: MPI_Compare_and_swap of 8 bytes in memory that is reached over a BTL does not take the
 *     lock under which osc/rdma does all other accumulates. In the process's own memory it takes
 *     that lock, but is not atomic with the swaps of other processes.
 * DERIVED_GET_ACCUMULATE: MPI_Get_accumulate with derived datatypes, or of more than 4 KiB, takes
 *     results from the wrong place where a piece is so short that osc/rdma uses atomics of the BTL.
 * LOCK_FLUSH_ALL: MPI_Win_flush_all and MPI_Win_flush_local_all wait for nothing if single targets
 *     are locked: they search a hash table, but locks are in an array unless there are very many
 *     ranks. 5.0.7 has the same code.
 * ATTACH_IN_USE: memory is attached and detached while other ranks use the window. 5.0.7 searches
 *     a rank's list of attached regions in shared memory without the lock under which that rank
 *     moves its entries (4.1.4 takes it), and then finds none: MPI_ERR_RMA_RANGE.
 */
typedef enum {
    WITH_LOGICAL = 1,
    WITH_UNSIGNED_ORDER = 2,
    WITH_LOCAL_SWAP = 4,
    WITH_LONG_SWAP = 8,
    WITH_DERIVED_GET_ACCUMULATE = 16,
    WITH_LOCK_FLUSH_ALL = 32,
    WITH_ATTACH_IN_USE = 64
} stress_with;

typedef struct {
    uint64_t first_seed, last_seed;
    bool range; /* the options name the last seed */
    int first_round, rounds;
    double seconds; /* 0: no limit */
    unsigned kinds; /* bit mask over main.c's table */
    unsigned flavors[4];
    int flavor_count;
    int threads;
    unsigned with; /* bit mask of stress_with */
    unsigned hang; /* seconds after which a round counts as hanging */
    bool trace;    /* print every step */
} stress_options;

extern stress_options options;
extern int stress_rank, stress_ranks;
extern bool stress_one_host;

static inline bool with(stress_with what)
{
    return (options.with & what) != 0;
}

/* The number of this thread within its rank; the main thread has 0. */
extern _Thread_local int stress_thread;

static inline int actors(void)
{
    return stress_ranks * options.threads;
}

static inline int rank_of(int actor)
{
    return actor / options.threads;
}

static inline int this_actor(void)
{
    return stress_rank * options.threads + stress_thread;
}

/* Runs the function in each thread of this rank, as each of the rank's actors. */
void run_actors(void (*function)(void *argument), void *argument);

/* ------------------------------------------------------------------------------------------------
 * watch.c */

/* Notes this thread's current step, which a hang or a failure reports. `what` must stay valid. */
void step(const char *what, long first, long second);
void watch_begin(int argc, char **argv);
void watch_round(uint64_t seed, const char *kind, int round);
void watch_end(void);
/* Installs an error handler that reports MPI errors of this window as failures. */
void watch_window(MPI_Win win);

__attribute__((noreturn, format(printf, 3, 4))) void stress_fail(const char *file, int line,
                                                                 const char *format, ...);

/* Replaces check.h's macro, which does not print the source file. */
#undef FAIL
#define FAIL(...) stress_fail(__FILE__, __LINE__, __VA_ARGS__)

/* ------------------------------------------------------------------------------------------------
 * Random numbers: the same for all ranks */

typedef uint64_t rng;

static inline rng rng_of(uint64_t a, uint64_t b, uint64_t c)
{
    return mix(mix(mix(a + 0x51ed27) + b) + c) | 1;
}

static inline bool one_in(rng *random, unsigned bound)
{
    return random_below(random, bound) == 0;
}

/* A number from least to most, both included. */
static inline int between(rng *random, int least, int most)
{
    return least + (int) random_below(random, (uint64_t) (most - least + 1));
}

/* ------------------------------------------------------------------------------------------------
 * types.c */

typedef struct {
    MPI_Datatype type;
    const char *name;
    size_t size;
    bool is_signed, is_number, is_integer; /* MPI_BYTE is no number */
} basic_type;

typedef struct {
    MPI_Op op;
    const char *name;
    bool bits;     /* defined for MPI_BYTE, too */
    bool sums;     /* may overflow: used with unsigned types only */
    bool commutes; /* the order of several operations does not matter */
} operation;

enum {
    OP_REPLACE = 0,
    OP_NO_OP = 1,
    BLOCKS_MAX = 40
};

extern const basic_type *basic_types;
extern const int basic_type_count;
extern const operation *operations;
extern const int operation_count;

void types_begin(void);
const basic_type *random_basic(rng *random, bool integer);
const basic_type *basic_of_size(size_t size, bool is_signed);
/* A random operation other than NO_OP that is defined for the type. */
const operation *random_operation(rng *random, const basic_type *type);
/* Access to the number at `at`, and the result of an operation. */
uint64_t number_at(const basic_type *type, const unsigned char *at);
void set_number(const basic_type *type, unsigned char *at, uint64_t number);
uint64_t combine(const operation *op, const basic_type *type, uint64_t target, uint64_t origin);

/* Places of the elements of one side of a transfer. */
typedef struct {
    const basic_type *basic;
    size_t elements, span; /* span: bytes from the beginning to the end of the last element */
    MPI_Datatype type;
    int count;
    bool derived;
    int blocks;
    struct {
        size_t at, elements;
    } block[BLOCKS_MAX];
} layout;

/* Makes a flat layout if `derived` is false or a derived one would exceed `room` bytes. */
void layout_make(layout *layout, const basic_type *basic, size_t elements, size_t room,
                 bool derived, rng *random);
void layout_commit(layout *layout);
void layout_free(layout *layout);
void layout_read(const layout *layout, const unsigned char *memory, unsigned char *flat);
void layout_write(const layout *layout, unsigned char *memory, const unsigned char *flat);

/* ------------------------------------------------------------------------------------------------
 * window.c */

typedef struct {
    MPI_Win win;
    int flavor, number;
    size_t bytes;
    int unit[RANKS_MAX];
    MPI_Aint base[RANKS_MAX]; /* origin of displacements: 0, or a dynamic window's address */
    unsigned char *memory;    /* this rank's part */
    unsigned char *block;     /* block with `memory` and its guards, if this program allocated it */
    size_t block_bytes;
} window;

/* Makes a window; collective. All bytes of its memory get the guard's value. `unit`: displacement
 * unit; 0: random units, which divide 24. */
void window_make(window *w, int flavor, size_t bytes, int number, int unit, rng *random);
void window_free(window *w);
void window_check_guards(const window *w);
int random_flavor(rng *random);
/* True if compare and swap works there (else WITH_LOCAL_SWAP is needed), and if it is atomic with
 * other accumulates of all ranks (else WITH_LONG_SWAP is needed). */
bool swap_works(const window *w, int origin, int target, size_t size);
bool long_swap_works(const window *w);
const char *flavor_name(int flavor);
/* Between begin and end this rank may read and write its own memory. */
void window_own_begin(window *w);
void window_own_end(window *w);

/* ------------------------------------------------------------------------------------------------
 * operations.c, program.c: actors do random operations in parts of memory that they own during a
 * phase */

/* Memory of one rank that a program may use. */
typedef struct {
    window *win;
    int target;
    MPI_Aint base; /* displacement of its first byte */
    size_t bytes;
    unsigned char *memory; /* the place itself; used at the target only */
    unsigned char *model;
} place;

typedef enum {
    SYNC_FENCE,
    SYNC_PSCW,
    SYNC_LOCK_ALL,
    SYNC_LOCK,
    SYNC_COUNT
} sync_kind;

typedef struct {
    window *win;
    sync_kind sync;
    bool nocheck, exclusive;
    int thread;                         /* the only thread that uses it (SYNC_LOCK), or -1 */
    bool reached[RANKS_MAX][RANKS_MAX]; /* PSCW: [origin][target] */
} session;

/* The bytes of a place that only one actor uses. */
typedef struct {
    size_t begin, end;
} part;

typedef struct {
    place *places;
    int place_count;
    session *sessions; /* one for each window */
    int session_count;
    part *parts; /* part of actor a at place i: [i * actors() + a] */
    uint64_t key;
    int bursts;
    size_t largest; /* bytes of one transfer, at most */
    /* Called now and then while this rank executes its part; may be NULL. */
    void (*meanwhile)(void *argument);
    void *argument;
} program;

/* Begins a program over these places. The caller keeps the arrays and still has to choose the
 * sessions. */
void program_begin(program *p, place *places, int place_count, session *sessions,
                   int session_count);
/* Gives each actor its parts. `large`: one actor gets nearly all of each place. */
void program_divide(program *p, uint64_t key, bool large);
void program_choose_sync(session *s, rng *random);
void session_open(session *s);
void session_close(session *s);
void program_run(program *p);
void program_release(program *p);
/* Compares this rank's memory with the model; collective. */
void program_check(const program *p);

/* One actor's way through a program: executed, or only applied to the model. */
typedef struct pending pending;
typedef struct {
    program *program;
    int actor, rank;
    bool execute;
    rng random;
    size_t *cursors; /* per place: the actor's part is free from here on */
    pending *waiting;
    long count;
} walker;

/* Does one operation at that place; false: no room is left there. `requests`: the operation may be
 * one that returns a request. */
bool operation_random(walker *w, int place_number, bool requests);
/* Waits for the requests among the operations at that target of the window. */
void operations_wait(walker *w, const window *win, int target);
/* Releases the operations at one target (-1: all), which are complete at least locally. */
void operations_complete(walker *w, const window *win, int target);

/* ------------------------------------------------------------------------------------------------
 * One round of each kind of program */

void contents_round(uint64_t key);
void dynamic_round(uint64_t key);
void atomics_round(uint64_t key);
void counters_round(uint64_t key);
void locks_round(uint64_t key);
void list_round(uint64_t key);

/* Computes without any call of MPI. */
void compute_for(double seconds);

#endif /* ADAPTIB_TEST_MPI_RMA_STRESS_H */
