// SPDX-License-Identifier: BSD-3-Clause
/*
 * Helpers of the programs that test the endpoints of a process (the parameter `endpoints`): the
 * start with a number of endpoints per rank, communicators of a given endpoint, threads.
 *
 * Threads: any thread may call everything but endpoints_begin, run_parts and endpoints_end. May
 * touch: check.h, mpi.h and the C library.
 */
#ifndef ADAPTIB_TEST_MPI_ENDPOINTS_H
#define ADAPTIB_TEST_MPI_ENDPOINTS_H

#include "check.h"

#include <pthread.h>

enum {
    COMMS = 16, /* with the keys 0 to 15, so that each endpoint has one at least */
    THREADS = 4,
    ROUNDS = 25,
    LONG = 200000 /* bytes; a rendezvous */
};

typedef struct {
    const char *name;
    void (*run)(void);
} part_t;

typedef struct {
    int number;
    MPI_Comm comm;
} worker_t;

static MPI_Comm comms[COMMS];
static int to, from; /* the next rank, and the one before */
static const char *numbers_of_ranks;

/* Duplicates a communicator with these hints; endpoint NULL: no such hint. */
__attribute__((unused)) static MPI_Comm duplicate_spread(MPI_Comm of, const char *endpoint,
                                                         bool by_source, bool by_tag)
{
    MPI_Comm made;
    MPI_Info info;
    MPI_Info_create(&info);
    if (endpoint != NULL) {
        MPI_Info_set(info, "adaptib_endpoint", endpoint);
    }
    if (by_source) {
        MPI_Info_set(info, "mpi_assert_no_any_source", "true");
    }
    if (by_tag) {
        MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    }
    MPI_Comm_dup_with_info(of, info, &made);
    MPI_Info_free(&info);
    return made;
}

__attribute__((unused)) static MPI_Comm duplicate(MPI_Comm of, const char *endpoint, bool spread)
{
    return duplicate_spread(of, endpoint, spread, spread);
}

__attribute__((unused)) static MPI_Comm with_key(MPI_Comm of, int key)
{
    char text[12];
    snprintf(text, sizeof text, "%d", key);
    return duplicate(of, text, false);
}

/* Runs THREADS threads; number i gets comms_of[i], or the one communicator. */
__attribute__((unused)) static void run_threads(void *(*work)(void *), const MPI_Comm *comms_of,
                                                MPI_Comm comm, void (*meanwhile)(void))
{
    pthread_t ids[THREADS];
    worker_t workers[THREADS];
    for (int i = 0; i < THREADS; ++i) {
        workers[i] = (worker_t){i, comms_of != NULL ? comms_of[i] : comm};
        CHECK(pthread_create(&ids[i], NULL, work, &workers[i]) == 0, "no thread");
    }
    if (meanwhile != NULL) {
        meanwhile();
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(ids[i], NULL);
    }
}

/* Sends a message around the ring of the communicator's ranks, and checks it. */
__attribute__((unused)) static void around(MPI_Comm comm, int tag, size_t bytes, uint64_t salt)
{
    int rank, ranks;
    MPI_Status status;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    const int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    unsigned char *out = malloc(bytes + 1), *in = guarded_new(bytes, 0);
    fill(out, bytes, key_of(rank, tag, bytes, salt));
    MPI_Sendrecv(out, (int) bytes, MPI_BYTE, next, tag, in, (int) bytes, MPI_BYTE, last, tag, comm,
                 &status);
    CHECK_STATUS(&status, last, tag, bytes, "around");
    CHECK_BYTES(in, bytes, key_of(last, tag, bytes, salt), "around");
    CHECK_GUARD(in, bytes, "around");
    guarded_free(in, 0);
    free(out);
}

/* ------------------------------------------------------------------------------------------------
 * Start and end. Arguments of such a program: the number of endpoints of each rank, as 4 or 1,4,2
 * (rank r takes number r modulo their count), then names of parts; without names, all parts run. */

/* Returns the number of endpoints that this rank is to have. */
static long number_of_rank(const char *list, long rank)
{
    long numbers[16], count = 0;
    for (char *at = (char *) list; *at != '\0' && count < 16; at += *at == ',') {
        numbers[count++] = strtol(at, &at, 10);
    }
    return numbers[rank % count];
}

/* Reads the parameter as MPI has it: a number, or its text. */
static long number_in_mpi(void)
{
    int index, count, provided, level, bind, scope, length = 0, help_length = 0;
    union {
        char text[4096];
        int number;
    } value = {""};
    MPI_Datatype type;
    MPI_T_enum values;
    MPI_T_cvar_handle handle;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    if (MPI_T_cvar_get_index("opal_common_adaptib_endpoints", &index) != MPI_SUCCESS
        || MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS) {
        FAIL("the parameter opal_common_adaptib_endpoints is unknown");
    }
    CHECK(count <= (int) sizeof value, "the parameter takes %d bytes", count);
    MPI_T_cvar_get_info(index, NULL, &length, &level, &type, &values, NULL, &help_length, &bind,
                        &scope);
    MPI_T_cvar_read(handle, &value);
    MPI_T_cvar_handle_free(&handle);
    MPI_T_finalize();
    return type == MPI_INT ? value.number : strtol(value.text, NULL, 10);
}

/* Counts the pairs of endpoints, of this rank and of others, that have had contact. */
__attribute__((unused)) static unsigned long long contacts_counted(void)
{
    int count = 0, provided;
    unsigned long long value[1] = {0};
    bool found = false;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_get_num(&count);
    for (int i = 0; i < count && !found; ++i) {
        char name[256] = "";
        int length = sizeof name, level, class, bind, read_only, continuous, atomic, elements;
        MPI_Datatype type;
        MPI_T_enum values;
        MPI_T_pvar_session session;
        MPI_T_pvar_handle handle;
        MPI_T_pvar_get_info(i, name, &length, &level, &class, &type, &values, NULL, NULL, &bind,
                            &read_only, &continuous, &atomic);
        found = strcmp(name, "mtl_adaptib_peers") == 0;
        if (found) {
            MPI_T_pvar_session_create(&session);
            MPI_T_pvar_handle_alloc(session, i, NULL, &handle, &elements);
            MPI_T_pvar_read(session, handle, value);
            MPI_T_pvar_handle_free(session, &handle);
            MPI_T_pvar_session_free(&session);
        }
    }
    MPI_T_finalize();
    CHECK(found, "there is no counter of peers");
    return value[0];
}

static void endpoints_neighbours(void)
{
    to = (check_rank + 1) % check_ranks;
    from = (check_rank - 1 + check_ranks) % check_ranks;
}

/* Starts MPI with this rank's number of endpoints. */
static void endpoints_choose(const char *list, int *argc, char ***argv, const char *name, int least)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    char value[16];
    if (rank == NULL) {
        fprintf(stderr, "%s needs mpirun\n", name);
        exit(2);
    }
    numbers_of_ranks = list;
    const long number = number_of_rank(list, atol(rank));
    snprintf(value, sizeof value, "%ld", number);
    setenv("OMPI_MCA_opal_common_adaptib_endpoints", value, 1);
    check_begin_threads(argc, argv, name, least, MPI_THREAD_MULTIPLE);
    CHECK(number_in_mpi() == number, "%ld endpoints instead of %ld", number_in_mpi(), number);
    endpoints_neighbours();
}

__attribute__((unused)) static void endpoints_begin(int *argc, char ***argv, const char *name)
{
    if (*argc < 2) {
        fprintf(stderr, "%s NUMBER,... [PART...]\n", name);
        exit(2);
    }
    endpoints_choose((*argv)[1], argc, argv, name, 2);
    for (int i = 0; i < COMMS; ++i) {
        comms[i] = with_key(MPI_COMM_WORLD, i);
    }
}

__attribute__((unused)) static void run_parts(int argc, char **argv, const part_t *parts, int count)
{
    int runs = 0;
    for (int i = 0; i < count; ++i) {
        bool wanted = argc == 2;
        for (int j = 2; j < argc; ++j) {
            wanted = wanted || strcmp(argv[j], parts[i].name) == 0;
        }
        if (wanted) {
            parts[i].run();
            MPI_Barrier(MPI_COMM_WORLD);
            ++runs;
        }
    }
    CHECK(runs == count || runs == argc - 2, "a part of that name does not exist");
}

__attribute__((unused)) static void endpoints_end(void)
{
    for (int i = 0; i < COMMS; ++i) {
        MPI_Comm_free(&comms[i]);
    }
    check_end();
}

#endif /* ADAPTIB_TEST_MPI_ENDPOINTS_H */
