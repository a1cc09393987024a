// SPDX-License-Identifier: BSD-3-Clause
/*
 * Random programs of one-sided operations on real processes, checked by a model of the results that
 * MPI 3.1 allows.
 *
 *   rma_stress [option...]
 *
 *     --seed N         the programs of seed N (1)
 *     --seeds A..B     the programs of seeds A to B
 *     --seconds S      seeds from the first on (at most to B) until S seconds have passed
 *     --rounds K       rounds of each kind for a seed (2)
 *     --round R        only that round
 *     --only K,K       only these kinds
 *     --skip K,K       all kinds but these
 *     --flavors F,F    flavors of windows: create, allocate, dynamic; shared only if named
 *     --threads T      T threads of each rank issue operations at the same time (1)
 *     --with W,W       adds long_swap, derived_get_accumulate, lock_flush_all, in which Open MPI
 *                      4.1.4 fails over every BTL (stress.h)
 *     --without W,W    omits logical, unsigned_order, local_swap, in which Open MPI 4.1.4 fails
 *                      over vader, or attach_in_use, in which 5.0 fails over every BTL (and which
 *                      is off there)
 *     --trace 1        each rank prints each step
 *     --hang S         a round that takes longer than S seconds is a hang (60)
 *
 * Kinds:
 *   contents  windows of all flavors, all operations, all synchronization; the contents are known
 *   dynamic   the same in a dynamic window, while its memory is attached and detached
 *   atomics   all ranks accumulate on the same words: sums, replaced words, compare and swap
 *   counters  fetch and add: every number comes back once
 *   locks     locks built of atomics, which protect reads and writes
 *   list      a linked list in a dynamic window, to which all ranks append at once
 *
 * A round follows from seed, kind and number alone. A failure prints the command that repeats it.
 */
#include "mpi/rma/stress.h"

#include <pthread.h>
#include <time.h>

typedef struct {
    const char *name;
    void (*round)(uint64_t key);
    long rounds;
} kind;

static kind kinds[] = {{"contents", contents_round, 0}, {"dynamic", dynamic_round, 0},
                       {"atomics", atomics_round, 0},   {"counters", counters_round, 0},
                       {"locks", locks_round, 0},       {"list", list_round, 0}};

enum {
    KINDS = sizeof kinds / sizeof kinds[0]
};

stress_options options = {.first_seed = 1,
                          .last_seed = 1,
                          .rounds = 2,
                          .kinds = (1u << KINDS) - 1,
                          .flavors = {0, 1, 3},
                          .flavor_count = 3,
                          .threads = 1,
                          .with = WITH_LOGICAL | WITH_UNSIGNED_ORDER | WITH_LOCAL_SWAP
                                  | (OMPI_MAJOR_VERSION < 5 ? WITH_ATTACH_IN_USE : 0),
                          .hang = 60};
int stress_rank, stress_ranks;
bool stress_one_host;
_Thread_local int stress_thread;

/* ---------------------------------------------------------------------------------------------- */

typedef struct {
    void (*function)(void *argument);
    void *argument;
    int number;
} thread_start;

static void *thread_main(void *argument)
{
    thread_start *start = argument;
    stress_thread = start->number;
    start->function(start->argument);
    step("ended", 0, 0);
    return NULL;
}

void run_actors(void (*function)(void *argument), void *argument)
{
    pthread_t threads[THREADS_MAX];
    thread_start starts[THREADS_MAX];
    for (int i = 1; i < options.threads; ++i) {
        starts[i] = (thread_start){function, argument, i};
        if (pthread_create(&threads[i], NULL, thread_main, &starts[i]) != 0) {
            FAIL("no thread");
        }
    }
    function(argument);
    step("waiting for the other threads", 0, 0);
    for (int i = 1; i < options.threads; ++i) {
        pthread_join(threads[i], NULL);
    }
}

void compute_for(double seconds)
{
    struct timespec now, begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double) (now.tv_sec - begin.tv_sec) + 1e-9 * (double) (now.tv_nsec - begin.tv_nsec)
             < seconds);
}

/* ------------------------------------------------------------------------------------------------
 * Options */

static void usage(const char *about)
{
    fprintf(stderr,
            "rma_stress: \"%s\" is no option, or its value is none; see test/mpi/rma/main.c\n",
            about);
    MPI_Abort(MPI_COMM_WORLD, 2);
    exit(2);
}

static int find(const char *const *names, int count, const char *name, size_t length)
{
    for (int i = 0; i < count; ++i) {
        if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0) {
            return i;
        }
    }
    usage(name);
    return -1;
}

/* Finds the words of a comma-separated list in `names`; returns their number. */
static int words_of(const char *list, const char *const *names, int count, unsigned *words,
                    int most)
{
    int found = 0;
    while (*list != '\0') {
        size_t length = strcspn(list, ",");
        if (found == most) {
            usage(list);
        }
        words[found++] = (unsigned) find(names, count, list, length);
        list += length + (list[length] == ',');
    }
    return found;
}

static unsigned kinds_of(const char *list)
{
    const char *names[KINDS];
    unsigned words[KINDS], mask = 0;
    for (int i = 0; i < KINDS; ++i) {
        names[i] = kinds[i].name;
    }
    int count = words_of(list, names, KINDS, words, KINDS);
    for (int i = 0; i < count; ++i) {
        mask |= 1u << words[i];
    }
    return mask;
}

static unsigned with_of(const char *list)
{
    static const char *const names[] = {"logical",      "unsigned_order",         "local_swap",
                                        "long_swap",    "derived_get_accumulate", "lock_flush_all",
                                        "attach_in_use"};
    enum {
        NAMES = sizeof names / sizeof names[0]
    };
    unsigned words[NAMES], mask = 0;
    int count = words_of(list, names, NAMES, words, NAMES);
    for (int i = 0; i < count; ++i) {
        mask |= 1u << words[i];
    }
    return mask;
}

static void read_seeds(const char *text)
{
    char *end;
    options.first_seed = options.last_seed = strtoull(text, &end, 10);
    if (end != text && strncmp(end, "..", 2) == 0) {
        text = end + 2;
        options.range = true;
        options.last_seed = strtoull(text, &end, 10);
    }
    if (end == text || *end != '\0' || options.last_seed < options.first_seed) {
        usage(text);
    }
}

static long number_of(const char *text, long least, long most)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end != '\0' || number < least || number > most) {
        usage(text);
    }
    return number;
}

static void read_option(const char *name, const char *value)
{
    static const char *const flavors[] = {"create", "allocate", "shared", "dynamic"};
    if (strcmp(name, "--seed") == 0 || strcmp(name, "--seeds") == 0) {
        read_seeds(value);
    } else if (strcmp(name, "--seconds") == 0) {
        options.seconds = (double) number_of(value, 1, 1000000);
    } else if (strcmp(name, "--rounds") == 0) {
        options.rounds = (int) number_of(value, 1, 1000000);
    } else if (strcmp(name, "--round") == 0) {
        options.first_round = (int) number_of(value, 0, 1000000);
        options.rounds = 1;
    } else if (strcmp(name, "--only") == 0) {
        options.kinds = kinds_of(value);
    } else if (strcmp(name, "--skip") == 0) {
        options.kinds &= ~kinds_of(value);
    } else if (strcmp(name, "--flavors") == 0) {
        options.flavor_count = words_of(value, flavors, 4, options.flavors, 4);
    } else if (strcmp(name, "--threads") == 0) {
        options.threads = (int) number_of(value, 1, THREADS_MAX);
    } else if (strcmp(name, "--with") == 0) {
        options.with |= with_of(value);
    } else if (strcmp(name, "--without") == 0) {
        options.with &= ~with_of(value);
    } else if (strcmp(name, "--trace") == 0) {
        options.trace = number_of(value, 0, 1) == 1;
    } else if (strcmp(name, "--hang") == 0) {
        options.hang = (unsigned) number_of(value, 1, 100000);
    } else {
        usage(name);
    }
}

static void read_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) {
            usage(argv[i]);
        }
        read_option(argv[i], argv[i + 1]);
    }
    if (options.seconds > 0 && !options.range) {
        options.last_seed = UINT64_MAX;
    }
}

/* The thread level to ask of MPI: MPI_THREAD_MULTIPLE for more than one thread. */
static int threads_of(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--threads") == 0 && strcmp(argv[i + 1], "1") != 0) {
            return MPI_THREAD_MULTIPLE;
        }
    }
    return MPI_THREAD_SINGLE;
}

static void begin(int argc, char **argv)
{
    int provided, level = threads_of(argc, argv), here;
    MPI_Comm node;
    MPI_Init_thread(&argc, &argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &stress_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &stress_ranks);
    read_options(argc, argv);
    types_begin();
    watch_begin(argc, argv);
    if (provided < level) {
        FAIL("thread level %d asked for, %d provided", level, provided);
    }
    if (stress_ranks < 2 || stress_ranks > RANKS_MAX) {
        FAIL("needs 2 to %d ranks, has %d", RANKS_MAX, stress_ranks);
    }
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &here);
    MPI_Comm_free(&node);
    int least = here;
    MPI_Allreduce(&here, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    stress_one_host = least == stress_ranks;
}

/* ---------------------------------------------------------------------------------------------- */

/* Decides by rank 0's clock, for all ranks. */
static bool time_is_over(double begin)
{
    int over = options.seconds > 0 && MPI_Wtime() - begin >= options.seconds;
    MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return over;
}

static uint64_t run_seeds(void)
{
    double begin = MPI_Wtime();
    uint64_t seed = options.first_seed;
    for (;; ++seed) {
        for (int i = 0; i < options.rounds * KINDS; ++i) {
            int which = i % KINDS, round = options.first_round + i / KINDS;
            if ((options.kinds & 1u << which) == 0) {
                continue;
            }
            watch_round(seed, kinds[which].name, round);
            kinds[which].round(rng_of(seed, (uint64_t) which, (uint64_t) round));
            ++kinds[which].rounds;
            if (time_is_over(begin)) {
                return seed;
            }
        }
        if (seed == options.last_seed) {
            return seed;
        }
    }
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    begin(argc, argv);
    if (stress_rank == 0) {
        printf("rma_stress: seeds from %lu on, %d ranks, %d threads\n",
               (unsigned long) options.first_seed, stress_ranks, options.threads);
    }
    uint64_t last = run_seeds();
    watch_end();
    if (stress_rank == 0) {
        printf("rma_stress: ok, seeds %lu..%lu, rounds:", (unsigned long) options.first_seed,
               (unsigned long) last);
        for (int i = 0; i < KINDS; ++i) {
            printf(" %s %ld", kinds[i].name, kinds[i].rounds);
        }
        printf("\n");
    }
    return 0;
}
