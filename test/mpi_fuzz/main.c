// SPDX-License-Identifier: BSD-3-Clause
/*
 * mpi_fuzz --log DIRECTORY [--seeds FIRST..LAST] [--steps N] [--without N,N...]
 *          [--only KIND,KIND...] [--omit WORD,WORD...] [--threads] [--serial] [--words]
 *          [--patience SECONDS]
 * mpi_fuzz --child SEED: a process that a step has spawned
 *
 * Runs random programs and writes what they did into DIRECTORY/rank.N. --without leaves steps out
 * (numbered from 1), --only all kinds of steps but these; the others stay as they are. --omit:
 * words of `omission` in fuzz.h. --threads: with steps of several threads; --serial runs these one
 * after the other.
 */
#include "mpi_fuzz/fuzz.h"

enum {
    STEPS_MAX = 1000,
    POOL = 3,
    BUFFERED_BYTES = 4 << 20
};

static const kind kinds[] = {
    {"messages", 10, ANY_COMMUNICATOR, false, ALWAYS, messages_start, messages_finish},
    {"wildcards", 4, ONE_GROUP, true, ALWAYS, wildcards_start, NULL},
    {"shifts", 2, ONE_GROUP, false, ALWAYS, shifts_start, NULL},
    {"truncation", 3, ONE_GROUP, false, ALWAYS, truncation_start, NULL},
    {"nowhere", 1, ANY_COMMUNICATOR, false, ALWAYS, nowhere_start, NULL},
    {"persistent", 3, ANY_COMMUNICATOR, false, ALWAYS, persistent_start, NULL},
    {"collectives", 5, ANY_COMMUNICATOR, false, ALWAYS, collectives_start, collectives_finish},
    {"neighbors", 2, WITH_TOPOLOGY, false, ALWAYS, neighbors_start, NULL},
    {"windows", 6, ONE_GROUP, false, WITHOUT_THREADS, windows_start, NULL},
    {"spawned", 8, ONE_GROUP, false, NAMED, spawned_start, NULL},
    {"threads", 8, ONE_GROUP, true, WITH_THREADS, threads_start, NULL},
#if FUZZ_MPI_4
    {"partitioned", 4, ANY_COMMUNICATOR, false, ALWAYS, partitioned_start, partitioned_finish},
    {"sessions", 2, ONE_GROUP, false, ALWAYS, sessions_start, sessions_finish},
#endif
};

enum {
    KINDS = sizeof kinds / sizeof kinds[0]
};

typedef struct {
    const char *log;
    uint64_t first, last;
    int steps;
    bool words, without[STEPS_MAX + 1];
    const char *only;
} options;

int fuzz_rank, fuzz_ranks;
const char *fuzz_program;
bool fuzz_threads, fuzz_serial;
unsigned fuzz_omits, fuzz_patience = 60;
static options chosen = {.first = 1, .last = 1, .steps = 16};
static communicator pool[POOL];
static char *buffered_memory;
static size_t buffered_used;

void buffered_room(size_t bytes)
{
    bytes += MPI_BSEND_OVERHEAD + 64;
    if (buffered_memory == NULL || buffered_used + bytes > BUFFERED_BYTES) {
        int size;
        void *old;
        if (buffered_memory != NULL) {
            MPI_Buffer_detach(&old, &size);
        } else {
            buffered_memory = malloc(BUFFERED_BYTES);
        }
        MPI_Buffer_attach(buffered_memory, BUFFERED_BYTES);
        buffered_used = 0;
    }
    buffered_used += bytes;
}

static void buffered_end(void)
{
    int size;
    void *old;
    if (buffered_memory != NULL) {
        MPI_Buffer_detach(&old, &size);
        free(buffered_memory);
    }
}

/* Returns whether `name` is in the list, separated by commas. */
static bool listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

static int weight_of(const kind *k)
{
    if (k->when == NAMED) {
        return chosen.only != NULL && listed(chosen.only, k->name) ? k->weight : 0;
    }
    return k->when == (fuzz_threads ? WITHOUT_THREADS : WITH_THREADS) ? 0 : k->weight;
}

static const kind *choose_kind(uint64_t *random)
{
    int whole = 0;
    for (int i = 0; i < KINDS; ++i) {
        whole += weight_of(&kinds[i]);
    }
    int ticket = below(random, whole);
    for (const kind *k = kinds;; ++k) {
        ticket -= weight_of(k);
        if (ticket < 0) {
            return k;
        }
    }
}

/* The communicator of a step: one of the pool's, which other steps use, too, or one of its own */
static void step_communicator(step *s, uint64_t *random)
{
    const communicator *shared = &pool[below(random, POOL)];
    bool fits = s->kind->need == ANY_COMMUNICATOR || (s->kind->need == ONE_GROUP && !shared->inter);
    s->where = &s->own;
    if (!fits || chance(random, 2)) {
        communicator_make(&s->own, seed_of(s->seed, 3), s->kind->need);
    } else if (s->kind->private) {
        communicator_copy(&s->own, shared);
    } else {
        s->where = &pool[shared - pool];
    }
}

/* Chooses and starts a step, unless it is left out. */
static void begin(step *s, uint64_t seed, int number)
{
    memset(s, 0, sizeof *s);
    s->number = number;
    s->seed = seed_of(seed, 1000 + (uint64_t) number);
    uint64_t random = seed_of(s->seed, 0);
    s->kind = choose_kind(&random);
    s->until = number + (chance(&random, 2) ? below(&random, 4) : 0);
    if (chosen.without[number] || (chosen.only != NULL && !listed(chosen.only, s->kind->name))) {
        s->kind = NULL;
        return;
    }
    step_communicator(s, &random);
    log_step(s);
    if (s->where->comm != MPI_COMM_NULL) {
        s->kind->start(s);
    }
}

static void end(step *s)
{
    if (s->where->comm != MPI_COMM_NULL && s->kind->finish != NULL) {
        log_words(s, "finish");
        s->kind->finish(s);
    }
    if (s->where == &s->own) {
        communicator_free(&s->own);
    }
}

static void program(uint64_t seed)
{
    static step steps[STEPS_MAX + 1];
    log_seed(seed);
    for (int i = 0; i < POOL; ++i) {
        communicator_make(&pool[i], seed_of(seed, 10 + (uint64_t) i), ANY_COMMUNICATOR);
    }
    for (int number = 1; number <= chosen.steps; ++number) {
        begin(&steps[number], seed, number);
        for (int i = 1; i <= number; ++i) {
            bool last = number == chosen.steps && steps[i].until > number;
            if (steps[i].kind != NULL && (steps[i].until == number || last)) {
                end(&steps[i]);
            }
        }
    }
    for (int i = 0; i < POOL; ++i) {
        communicator_free(&pool[i]);
    }
}

static void leave_out(const char *list)
{
    for (const char *at = list; *at != '\0'; at += strcspn(at, ",")) {
        at += *at == ',';
        int number = atoi(at);
        CHECK(number >= 1 && number <= STEPS_MAX, "--without %s", list);
        chosen.without[number] = true;
    }
}

static void omit(const char *list)
{
    static const char *const words[] = {
        "self_cut",     "long_cut",  "no_room_cut",  "waitall_cut", "bsend_again",   "windows",
        "part_windows", "groups",    "part_first",   "part_again",  "part_startall", "part_layouts",
        "part_counts",  "part_tags", "part_nowhere", "groups_wait"};
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; ++i) {
        fuzz_omits |= listed(list, words[i]) ? 1U << i : 0;
    }
}

static void read_options(int argc, char **argv)
{
    for (int i = 1; i < argc; ++i) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(name, "--threads") == 0 || strcmp(name, "--serial") == 0) {
            continue;
        }
        if (strcmp(name, "--words") == 0) {
            chosen.words = true;
            continue;
        }
        ++i;
        if (strcmp(name, "--log") == 0) {
            chosen.log = value;
        } else if (strcmp(name, "--seeds") == 0) {
            char *rest;
            chosen.first = chosen.last = strtoull(value, &rest, 10);
            if (strncmp(rest, "..", 2) == 0) {
                chosen.last = strtoull(rest + 2, NULL, 10);
            }
        } else if (strcmp(name, "--omit") == 0) {
            omit(value);
        } else if (strcmp(name, "--patience") == 0) {
            fuzz_patience = (unsigned) atoi(value);
        } else if (strcmp(name, "--steps") == 0) {
            chosen.steps = atoi(value);
        } else if (strcmp(name, "--without") == 0) {
            leave_out(value);
        } else if (strcmp(name, "--only") == 0) {
            chosen.only = value;
        } else {
            FAIL("there is no option %s", name);
        }
    }
    CHECK(chosen.log != NULL, "--log DIRECTORY is missing");
    CHECK(chosen.steps >= 1 && chosen.steps <= STEPS_MAX, "1 to %d steps", STEPS_MAX);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; ++i) {
        fuzz_threads = fuzz_threads || strcmp(argv[i], "--threads") == 0;
        fuzz_serial = fuzz_serial || strcmp(argv[i], "--serial") == 0;
    }
    bool child = argc == 3 && strcmp(argv[1], "--child") == 0;
    fuzz_program = argv[0];
    check_begin_threads(&argc, &argv, "mpi_fuzz", child ? 1 : 2,
                        fuzz_threads && !fuzz_serial ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    fuzz_rank = check_rank;
    fuzz_ranks = check_ranks;
    if (child) {
        spawned_child(argv[2]);
        MPI_Finalize();
        return 0;
    }
    read_options(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
#if FUZZ_MPI_4
    partitioned_begin();
#endif
    canary_begin();
    log_open(chosen.log, chosen.words);
    for (uint64_t seed = chosen.first; seed <= chosen.last; ++seed) {
        program(seed);
    }
    buffered_end();
    log_close();
    check_end();
    return 0;
}
