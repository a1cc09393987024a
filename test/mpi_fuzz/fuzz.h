// SPDX-License-Identifier: BSD-3-Clause
/*
 * Declarations that the files of mpi_fuzz share (README.md says what the program is for).
 *
 * A program is a list of steps. A step follows from seed and number alone, so it stays the same
 * when others are left out. All ranks go through the same steps in the same order; a step may leave
 * operations pending, which a later place in the list finishes. A rank blocks in a step only for
 * what other ranks do in that step or in earlier ones, so programs cannot deadlock.
 *
 *   main.c           options; seeds; the steps of a program and their order
 *   log.c            results, for the comparison with another run, and words for the reader
 *   communicators.c  communicators of all kinds
 *   layouts.c        datatypes, and buffers that they describe
 *   messages.c       point-to-point messages
 *   completions.c    waits and tests for many requests
 *   canary.c         faults that the comparison has to find
 *   other files      one kind of step each
 *
 * Results that MPI leaves open (which message a wildcard takes, what a truncated message leaves in
 * the buffer) are not logged, or in an order that hides the choice.
 *
 * Threads: the main thread runs the steps; steps of several threads (threads.c) give each thread
 * steps of its own. May touch: mpi.h, the C library, POSIX.
 */
#ifndef ADAPTIB_TEST_MPI_FUZZ_FUZZ_H
#define ADAPTIB_TEST_MPI_FUZZ_FUZZ_H

#include "mpi/check.h"

/* Partitioned messages and sessions. Open MPI 5.0 has them, and calls itself MPI 3.1. */
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define FUZZ_MPI_4 1
#else
#define FUZZ_MPI_4 0
#endif

/* ------------------------------------------------------------------------------------------------
 * Communicators */

typedef struct {
    MPI_Comm comm;    /* MPI_COMM_NULL: this rank is no member */
    bool inter, part; /* part: one of several that were made together */
    int group;        /* this rank's group of an intercommunicator: 0 or 1 */
    int rank;
    int sizes[2]; /* of both groups; twice the same without inter */
    char name[64];
} communicator;

enum {
    ANY_COMMUNICATOR = 0,
    ONE_GROUP = 1, /* no intercommunicator */
    WITH_TOPOLOGY = 2
};

/* Collective over MPI_COMM_WORLD. need: one of the words above */
void communicator_make(communicator *c, uint64_t seed, int need);
/* Finds this rank and the sizes. REQUIRES: comm, inter and group are set. */
void communicator_measure(communicator *c);
void communicator_free(communicator *c);
/* A communicator of the same processes that nothing else uses. Collective. */
void communicator_copy(communicator *c, const communicator *from);

/* ------------------------------------------------------------------------------------------------
 * Steps */

struct kind;

typedef struct {
    int number, lane; /* lane: 0, or the thread within a step of several threads */
    uint64_t seed;
    const struct kind *kind;
    communicator *where, own; /* own: only if where points to it */
    int until;                /* the step behind which this one is finished */
    void *state;              /* belongs to the kind, from start to finish */
} step;

typedef struct kind {
    const char *name;
    int weight, need;
    bool private; /* needs a communicator that no other step uses */
    enum {
        ALWAYS,
        WITH_THREADS,
        WITHOUT_THREADS,
        NAMED /* if --only has it */
    } when;
    void (*start)(step *);
    void (*finish)(step *); /* NULL: start has done all */
} kind;

void messages_start(step *);
void messages_finish(step *);
void wildcards_start(step *);
void shifts_start(step *);
void truncation_start(step *);
void nowhere_start(step *);
void persistent_start(step *);
void collectives_start(step *);
void collectives_finish(step *);
void neighbors_start(step *);
void windows_start(step *);
void threads_start(step *);
void spawned_start(step *);
/* Runs a process that such a step has spawned. */
void spawned_child(const char *seed);
#if FUZZ_MPI_4
void partitioned_start(step *);
void partitioned_finish(step *);
void sessions_start(step *);
void sessions_finish(step *);
/* Makes a first partitioned message, if programs have to (PART_FIRST). Collective. */
void partitioned_begin(void);
#endif

/* Things that transports of a comparison cannot do, which are left out of its programs (--omit). */
typedef enum {
    SELF_CUT = 1,    /* truncated messages of a process to itself: pml/ob1 */
    LONG_CUT = 2,    /* long truncated messages: pml/ob1 over a BTL that reads */
    NO_ROOM_CUT = 4, /* truncated messages for receives of nothing: pml/ob1 crashes */
    WAITALL_CUT = 8, /* MPI_Waitall while truncated messages come: pml/ucx frees what is pending */
    BSEND_AGAIN =
        16,       /* buffered sends that are started again: pml/ob1 sends the first data again */
    WINDOWS = 32, /* one-sided operations: osc/pt2pt over pml/ucx hangs */
    PART_WINDOWS = 64, /* windows of parts of a communicator: osc/rdma gives them the same name */
    GROUPS = 128,      /* communicators from groups: pml/ucx refuses them */
    /* Partitioned messages of Open MPI 5.0.7's part/persist, over every transport */
    PART_FIRST = 256,     /* first calls at different times: it duplicates MPI_COMM_WORLD in them */
    PART_AGAIN = 512,     /* a second start: the send is told complete before it is */
    PART_STARTALL = 1024, /* MPI_Startall: it starts the first request only */
    PART_LAYOUTS = 2048,  /* types with gaps, or of other sizes at the receiver: wrong places */
    PART_COUNTS = 4096,   /* MPI_Parrived where the ends have cut differently: it tells too early */
    PART_TAGS = 8192,     /* other messages with the same tag: they get its own messages */
    PART_NOWHERE = 16384, /* MPI_PROC_NULL: it sends to it */
    /* Sessions of Open MPI 5.0.7, over every transport */
    GROUPS_WAIT = 32768 /* communicators from groups while messages are pending: no progress */
} omission;
extern const char *fuzz_program; /* the file */
extern unsigned fuzz_omits;
extern bool fuzz_serial;          /* steps of several threads run one thread after the other */
extern unsigned fuzz_patience;    /* seconds that a step may take */
extern int fuzz_rank, fuzz_ranks; /* of MPI_COMM_WORLD */
extern bool fuzz_threads;         /* programs have steps of several threads */

/* Random numbers: a state for the part `part` of something with this seed */
static inline uint64_t seed_of(uint64_t seed, uint64_t part)
{
    return mix(seed + mix(part + 1)) | 1;
}
static inline bool chance(uint64_t *random, unsigned one_in)
{
    return random_below(random, one_in) == 0;
}
static inline int below(uint64_t *random, int bound)
{
    return (int) random_below(random, (uint64_t) bound);
}

/* ------------------------------------------------------------------------------------------------
 * Log */

void log_open(const char *directory, bool words);
void log_seed(uint64_t seed);
/* Tells the watchdog and a reader of a log that ends here where this rank is. */
void log_step(const step *s);
void log_close(void);
/* One result, which has to be the same in every run. s: NULL for what belongs to no step */
void log_result(const step *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An operation in words, before it begins; written with --words only. */
void log_words(const step *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The result of a call if it is an error. Returns code. */
int log_code(const step *s, const char *call, int code);

#define TRY(s, call) log_code(s, #call, call)

int error_class(int code);

/* ------------------------------------------------------------------------------------------------
 * Buffers */

/* A buffer as MPI's functions take it, within a block of memory whose other bytes are known. */
typedef struct {
    MPI_Datatype type;
    int count;  /* of one copy */
    int copies; /* one behind the other, as for the processes of a collective operation */
    void *at;
    unsigned char *block;
    size_t bytes;    /* of the block */
    size_t elements; /* basic ones in all copies */
    int basic;
    bool type_gone; /* MPI_Type_free has been called */
    char words[160];
} side;

enum {
    BASIC_BYTE = 0,
    BASIC_INT = 3,
    BASIC_LONG = 5
};

size_t basic_bytes(int basic);
const char *basic_name(int basic);
int random_basic(uint64_t *random);
/* A number of elements, often such that the bytes are near a transport's limit. */
size_t random_elements(uint64_t *random, int basic, size_t largest_bytes);
/* A random layout for these elements; with `plain` one without gaps. */
void side_make(side *b, int basic, size_t elements, bool plain, uint64_t *random);
/* The same with room for several such copies; elements: of one of them */
void side_make_copies(side *b, int basic, size_t elements, int copies, bool plain,
                      uint64_t *random);
/* The places of the first and behind the last byte of the layout, counted from the address */
void side_bounds(const side *b, MPI_Aint *first, MPI_Aint *end);
void side_fill(side *b, uint64_t key);
void side_free_type(side *b);
void side_free(side *b);
/* Of the whole block, gaps and guards included. */
uint64_t side_hash(const side *b);
/* Of the first elements only, independent of layout. */
uint64_t side_contents(const side *b, size_t elements);
/* Tells whether every byte outside of the layout is as it was. */
bool side_outside_untouched(side *b);
uint64_t hash_bytes(const void *from, size_t bytes);

/* ------------------------------------------------------------------------------------------------
 * Completion of many requests, each at most once, in a random manner. errors[i] and statuses[i] are
 * those of requests[i]; errors are classes. failing: some end with errors. Then MPI_Waitany and its
 * like are no choice, since those of Open MPI 4.1.4 free all requests that have failed. */
void complete(const step *s, MPI_Request *requests, int count, MPI_Status *statuses, int *errors,
              bool failing, uint64_t *random);

/* The same for persistent requests that have been started: they are inactive afterwards. */
void complete_started(const step *s, MPI_Request *requests, int count, MPI_Status *statuses,
                      int *errors, uint64_t *random);

/* Logs source, tag, count, elements and cancellation. Without elements: the count is undefined. */
void log_status(const step *s, const char *what, const MPI_Status *status, const side *b,
                int error);

/* Makes room for a buffered send of these bytes. */
void buffered_room(size_t bytes);

void canary_begin(void);
/* Sends what a canary holds back, before this rank waits. */
void canary_flush(void);

#endif /* ADAPTIB_TEST_MPI_FUZZ_FUZZ_H */
