// SPDX-License-Identifier: BSD-3-Clause
/*
 * Declarations that the files of rma_stress share.
 *
 * A round of a program follows from seed, kind and round number alone. Every rank generates the
 * whole round, executes its own part and computes what the other ranks do; so no rank has to be
 * told what to expect.
 *
 *   main.c        options; the loop over seeds, kinds and rounds; threads
 *   watch.c       where each rank is, told when something fails or hangs
 *   types.c       datatypes; what MPI's operations compute
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
 * Parts of programs in which Open MPI itself is at fault (4.1.4: read and tried). Over adaptib the
 * first three work and vader fails; the others fail over every BTL.
 *
 * LOGICAL: osc/rdma hands MPI_LAND, MPI_LOR and MPI_LXOR to a BTL that has other atomics than add;
 *     vader leaves the word as it is and returns 0.
 * UNSIGNED_ORDER: the same for MPI_MIN and MPI_MAX; vader compares unsigned numbers as signed ones.
 * LOCAL_SWAP: MPI_Compare_and_swap of 8 bytes in memory that osc/rdma has mapped (the process's own
 *     included) goes to the BTL without an endpoint; vader crashes.
 * LONG_SWAP: MPI_Compare_and_swap of 8 bytes in memory that is reached over a BTL does not take the
 *     lock under which osc/rdma does all other accumulates. In the process's own memory it takes
 *     that lock, but is not atomic with the swaps of other processes.
 * DERIVED_GET_ACCUMULATE: MPI_Get_accumulate with derived datatypes, or of more than 4 KiB, takes
 *     results from the wrong place where a piece is so short that atomics of the BTL are used.
 * LOCK_FLUSH_ALL: MPI_Win_flush_all and MPI_Win_flush_local_all wait for nothing if single targets
 *     are locked: they look into a hash table, but locks are in an array unless there are very many
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
    bool range; /* the last seed was named */
    int first_round, rounds;
    double seconds; /* 0: no limit */
    unsigned kinds; /* bit mask of main.c's table */
    unsigned flavors[4];
    int flavor_count;
    int threads;
    unsigned with; /* of stress_with */
    unsigned hang; /* seconds that a round may take */
    bool trace;    /* every step is told */
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

/* Runs the function in each thread of this rank: as each of its actors. */
void run_actors(void (*function)(void *argument), void *argument);

/* ------------------------------------------------------------------------------------------------
 * watch.c */

/* What this thread does now, for the words that a hang ends with. `what` must stay. */
void step(const char *what, long first, long second);
void watch_begin(int argc, char **argv);
void watch_round(uint64_t seed, const char *kind, int round);
void watch_end(void);
/* Errors of MPI end with our words, too. */
void watch_window(MPI_Win win);

__attribute__((noreturn, format(printf, 3, 4))) void stress_fail(const char *file, int line,
                                                                 const char *format, ...);

/* Those of check.h know one source file only. */
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

/* least..most, both included */
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
    bool bits;     /* for MPI_BYTE, too */
    bool sums;     /* may overflow: unsigned types only */
    bool commutes; /* the order of several does not matter */
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
/* An operation other than NO_OP that the type has. */
const operation *random_operation(rng *random, const basic_type *type);
/* The number at `at`, and what an operation makes of it. */
uint64_t number_at(const basic_type *type, const unsigned char *at);
void set_number(const basic_type *type, unsigned char *at, uint64_t number);
uint64_t combine(const operation *op, const basic_type *type, uint64_t target, uint64_t origin);

/* Where the elements of one side of a transfer are. */
typedef struct {
    const basic_type *basic;
    size_t elements, span; /* of bytes, from the beginning to behind the last element */
    MPI_Datatype type;
    int count;
    bool derived;
    int blocks;
    struct {
        size_t at, elements;
    } block[BLOCKS_MAX];
} layout;

/* A flat one if `derived` is false or a derived one would be longer than `room` bytes. */
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
    MPI_Aint base[RANKS_MAX]; /* what displacements count from; a dynamic window's address */
    unsigned char *memory;    /* this rank's */
    unsigned char *block;     /* what holds it, with guards around it, if it is ours */
    size_t block_bytes;
} window;

/* Collective. All bytes of the memory have the guard's value. `unit`: of displacements; 0: random
 * ones, which divide 24. */
void window_make(window *w, int flavor, size_t bytes, int number, int unit, rng *random);
void window_free(window *w);
void window_check_guards(const window *w);
int random_flavor(rng *random);
/* Whether compare and swap may be tried there (WITH_LOCAL_SWAP), and together with other
 * accumulates of all ranks (WITH_LONG_SWAP). */
bool swap_works(const window *w, int origin, int target, size_t size);
bool long_swap_works(const window *w);
const char *flavor_name(int flavor);
/* Lets the memory of this rank be read and written by this rank. */
void window_own_begin(window *w);
void window_own_end(window *w);

/* ------------------------------------------------------------------------------------------------
 * operations.c, program.c: actors do random operations in parts of memory that are their own for a
 * phase */

/* Memory of one rank that a program may use. */
typedef struct {
    window *win;
    int target;
    MPI_Aint base; /* displacement of its first byte */
    size_t bytes;
    unsigned char *memory; /* at the target */
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
    int thread;                         /* the only one that uses it (SYNC_LOCK), or -1 */
    bool reached[RANKS_MAX][RANKS_MAX]; /* PSCW: origin, target */
} session;

/* The bytes of a place that one actor alone uses. */
typedef struct {
    size_t begin, end;
} part;

typedef struct {
    place *places;
    int place_count;
    session *sessions; /* one for each window */
    int session_count;
    part *parts; /* of place i and actor a: [i * actors() + a] */
    uint64_t key;
    int bursts;
    size_t largest; /* bytes of one transfer */
    /* Called now and then while this rank executes its part; may be NULL. */
    void (*meanwhile)(void *argument);
    void *argument;
} program;

/* A program over these places. The arrays stay the caller's; its sessions are to be chosen yet. */
void program_begin(program *p, place *places, int place_count, session *sessions,
                   int session_count);
/* Chooses whose is which part. `large`: one actor has nearly all of each place. */
void program_divide(program *p, uint64_t key, bool large);
void program_choose_sync(session *s, rng *random);
void session_open(session *s);
void session_close(session *s);
void program_run(program *p);
void program_release(program *p);
/* Collective: this rank's memory is what the model says. */
void program_check(const program *p);

/* One actor's way through a program: executed, or only followed by the model. */
typedef struct pending pending;
typedef struct {
    program *program;
    int actor, rank;
    bool execute;
    rng random;
    size_t *cursors; /* per place: what is free from here on */
    pending *waiting;
    long count;
} walker;

/* One operation at that place; false: there is no room left. `requests`: it may return one. */
bool operation_random(walker *w, int place_number, bool requests);
/* Waits for the requests among the operations at that target of the window. */
void operations_wait(walker *w, const window *win, int target);
/* The operations at one target (all: -1) are complete, locally at least. */
void operations_complete(walker *w, const window *win, int target);

/* ------------------------------------------------------------------------------------------------
 * Kinds of programs: one round */

void contents_round(uint64_t key);
void dynamic_round(uint64_t key);
void atomics_round(uint64_t key);
void counters_round(uint64_t key);
void locks_round(uint64_t key);
void list_round(uint64_t key);

/* Computes without any call of MPI. */
void compute_for(double seconds);

#endif /* ADAPTIB_TEST_MPI_RMA_STRESS_H */
