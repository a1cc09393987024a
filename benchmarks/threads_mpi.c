// SPDX-License-Identifier: BSD-3-Clause
/*
 * Message rate of ranks with several threads, for benchmarks/threads, which reads rank 0's output:
 * a line `rate MESSAGES` (received by all ranks in a second, median of the batches) and a line
 * `spread LEAST MOST` of the batches.
 *
 *     threads_mpi PATTERN THREADS COMMUNICATORS HINTS BYTES WINDOW BATCHES
 *
 *   PATTERN        pairwise: thread t of rank r exchanges with thread t of rank r + n/2, in windows
 *                  one of both sends WINDOW messages, the other one posts as many receives and
 *                  answers with an empty message. all: each thread exchanges a window with thread t
 *                  of each other rank, in both directions at once. single: as pairwise, with one
 *                  thread that calls MPI; the level is MPI_THREAD_SINGLE if THREADS is 0, else
 *                  MPI_THREAD_MULTIPLE
 *   THREADS        a rank's threads that communicate
 *   COMMUNICATORS  one: all threads use a duplicate of MPI_COMM_WORLD, with a tag for each; each:
 *                  a duplicate for each thread
 *   HINTS          none, asserts (no wildcards), overtaking: info of the communicators
 *
 * Each message has its number within the batch in its first four bytes (if it has four), and the
 * receiver checks it: a transport that loses or reorders messages gets no figure.
 *
 * May touch: mpi.h, the C library.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MOST_THREADS = 64,
    MOST_BATCHES = 1000,
    WINDOWS = 16 /* of a batch, or more: until BATCH_SECONDS have passed in rank 0's thread 0 */
};

static const double BATCH_SECONDS = 0.05;

static struct {
    const char *pattern;
    int threads;
    bool overtaking;
    size_t bytes;
    int window;
    int batches;
    int rank;
    int ranks;
    int rounds; /* windows of a batch, the same for all threads of all ranks */
    MPI_Comm comms[MOST_THREADS];
    pthread_barrier_t barrier;
} job;

typedef struct {
    int number;
    MPI_Comm comm;
    int tag;
    char *out;
    char *in;
    MPI_Request *requests;
} worker_t;

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

static void give_up(const char *what)
{
    fprintf(stderr, "threads: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void number(char *buffer, uint32_t value)
{
    if (job.bytes >= sizeof value) {
        memcpy(buffer, &value, sizeof value);
    }
}

static void check(const char *buffer, uint32_t expected)
{
    uint32_t value = expected;

    if (job.bytes >= sizeof value) {
        memcpy(&value, buffer, sizeof value);
    }
    if (value != expected) {
        fprintf(stderr, "threads: message %u arrived as %u\n", (unsigned) value,
                (unsigned) expected);
        give_up("a message is lost, doubled, or out of order");
    }
}

/* Messages may overtake each other: each has to arrive once. */
static void check_window(const worker_t *worker, int peer_slot, uint32_t first)
{
    const char *in = worker->in + (size_t) peer_slot * (size_t) job.window * job.bytes;
    uint64_t sum = 0;

    for (int i = 0; i < job.window; ++i) {
        if (!job.overtaking) {
            check(in + (size_t) i * job.bytes, first + (uint32_t) i);
            continue;
        }
        uint32_t value = first + (uint32_t) i;
        if (job.bytes >= sizeof value) {
            memcpy(&value, in + (size_t) i * job.bytes, sizeof value);
        }
        sum += value;
    }
    const uint64_t window = (uint64_t) job.window;
    if (job.overtaking && sum != window * first + window * (window - 1) / 2) {
        give_up("a message is lost or doubled");
    }
}

static void send_window(worker_t *worker, int peer, uint32_t first)
{
    for (int i = 0; i < job.window; ++i) {
        char *out = worker->out + (size_t) i * job.bytes;
        number(out, first + (uint32_t) i);
        MPI_Isend(out, (int) job.bytes, MPI_BYTE, peer, worker->tag, worker->comm,
                  &worker->requests[i]);
    }
    MPI_Waitall(job.window, worker->requests, MPI_STATUSES_IGNORE);
}

static void receive_window(worker_t *worker, int peer, uint32_t first)
{
    for (int i = 0; i < job.window; ++i) {
        MPI_Irecv(worker->in + (size_t) i * job.bytes, (int) job.bytes, MPI_BYTE, peer, worker->tag,
                  worker->comm, &worker->requests[i]);
    }
    MPI_Waitall(job.window, worker->requests, MPI_STATUSES_IGNORE);
    check_window(worker, 0, first);
}

static void pairwise(worker_t *worker, int rounds)
{
    const int half = job.ranks / 2;
    const bool sends = job.rank < half;
    const int peer = sends ? job.rank + half : job.rank - half;

    for (int round = 0; round < rounds; ++round) {
        const uint32_t first = (uint32_t) round * (uint32_t) job.window;
        if (sends) {
            send_window(worker, peer, first);
            MPI_Recv(NULL, 0, MPI_BYTE, peer, worker->tag, worker->comm, MPI_STATUS_IGNORE);
        } else {
            receive_window(worker, peer, first);
            MPI_Send(NULL, 0, MPI_BYTE, peer, worker->tag, worker->comm);
        }
    }
}

static void all(worker_t *worker, int rounds)
{
    for (int round = 0; round < rounds; ++round) {
        const uint32_t first = (uint32_t) round * (uint32_t) job.window;
        int posted = 0;
        int slot = 0;

        for (int peer = 0; peer < job.ranks; ++peer) {
            for (int i = 0; i < job.window && peer != job.rank; ++i) {
                const size_t at = (size_t) (slot * job.window + i) * job.bytes;
                MPI_Irecv(worker->in + at, (int) job.bytes, MPI_BYTE, peer, worker->tag,
                          worker->comm, &worker->requests[posted++]);
            }
            slot += peer != job.rank;
        }
        for (int i = 0; i < job.window; ++i) {
            char *out = worker->out + (size_t) i * job.bytes;
            number(out, first + (uint32_t) i);
            for (int peer = 0; peer < job.ranks; ++peer) {
                if (peer != job.rank) {
                    MPI_Isend(out, (int) job.bytes, MPI_BYTE, peer, worker->tag, worker->comm,
                              &worker->requests[posted++]);
                }
            }
        }
        MPI_Waitall(posted, worker->requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < slot; ++i) {
            check_window(worker, i, first);
        }
    }
}

static void exchange(worker_t *worker, int rounds)
{
    if (0 == strcmp(job.pattern, "all")) {
        all(worker, rounds);
    } else {
        pairwise(worker, rounds);
    }
}

static int by_value(const void *a, const void *b)
{
    const double first = *(const double *) a;
    const double second = *(const double *) b;

    return (first > second) - (first < second);
}

/* Messages that all ranks receive in a batch. */
static double messages_of_batch(void)
{
    const double windows = (double) job.rounds * job.threads * job.window;

    return 0 == strcmp(job.pattern, "all") ? windows * job.ranks * (job.ranks - 1)
                                           : windows * (job.ranks / 2);
}

/* Only thread 0 of a rank takes part in the ranks' barrier, and only between batches. */
static void meet(const worker_t *worker)
{
    pthread_barrier_wait(&job.barrier);
    if (0 == worker->number) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    pthread_barrier_wait(&job.barrier);
}

static void measure(worker_t *worker)
{
    static double rates[MOST_BATCHES];

    for (int batch = -1; batch < job.batches; ++batch) {
        meet(worker);
        const double begin = seconds();
        exchange(worker, job.rounds);
        meet(worker);
        const double took = seconds() - begin;
        if (0 == worker->number && batch < 0) { /* sets the length of the others */
            const double wanted = BATCH_SECONDS / took * job.rounds;
            job.rounds = wanted < WINDOWS ? WINDOWS : wanted > 100000 ? 100000 : (int) wanted;
            MPI_Bcast(&job.rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);
        } else if (0 == worker->number) {
            rates[batch] = messages_of_batch() / took;
        }
    }
    if (0 == worker->number && 0 == job.rank) {
        qsort(rates, (size_t) job.batches, sizeof rates[0], by_value);
        printf("rate %.9g\nspread %.9g %.9g\n", rates[job.batches / 2], rates[0],
               rates[job.batches - 1]);
    }
}

static void *work(void *argument)
{
    worker_t *worker = argument;
    const size_t messages = (size_t) job.window * (size_t) job.ranks;

    worker->out = calloc(messages, job.bytes + 1);
    worker->in = calloc(messages, job.bytes + 1);
    worker->requests = calloc(2 * messages, sizeof(MPI_Request));
    if (NULL == worker->out || NULL == worker->in || NULL == worker->requests) {
        give_up("no memory");
    }
    measure(worker);
    free(worker->requests);
    free(worker->in);
    free(worker->out);
    return NULL;
}

static MPI_Comm communicator(const char *hints)
{
    MPI_Info info;
    MPI_Comm made;

    MPI_Info_create(&info);
    if (0 == strcmp(hints, "asserts") || 0 == strcmp(hints, "overtaking")) {
        MPI_Info_set(info, "mpi_assert_no_any_source", "true");
        MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
        MPI_Info_set(info, "mpi_assert_exact_length", "true");
    }
    if (0 == strcmp(hints, "overtaking")) {
        MPI_Info_set(info, "mpi_assert_allow_overtaking", "true");
    }
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &made);
    MPI_Info_free(&info);
    return made;
}

int main(int argc, char **argv)
{
    static worker_t workers[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    int provided = 0;

    if (argc != 8) {
        fprintf(stderr, "usage: %s PATTERN THREADS COMMUNICATORS HINTS BYTES WINDOW BATCHES\n",
                argv[0]);
        return 2;
    }
    const int wanted = atoi(argv[2]);
    job.pattern = argv[1];
    job.threads = wanted < 1 ? 1 : wanted;
    job.overtaking = 0 == strcmp(argv[4], "overtaking");
    job.bytes = (size_t) atol(argv[5]);
    job.window = atoi(argv[6]);
    job.batches = atoi(argv[7]);
    job.rounds = WINDOWS;
    const int level = wanted < 1 ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE;
    MPI_Init_thread(&argc, &argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
    if (provided < level || job.threads > MOST_THREADS || job.batches < 1 || job.window < 1
        || job.batches > MOST_BATCHES || job.ranks < 2 || 0 != job.ranks % 2) {
        give_up(
            "an even number of ranks, threads that MPI grants, and sensible numbers are needed");
    }
    pthread_barrier_init(&job.barrier, NULL, (unsigned) job.threads);
    const bool each = 0 == strcmp(argv[3], "each");
    for (int i = 0; i < job.threads; ++i) {
        job.comms[i] = each || 0 == i ? communicator(argv[4]) : job.comms[0];
        workers[i] = (worker_t){.number = i, .comm = job.comms[i], .tag = each ? 1 : i + 1};
    }
    for (int i = 1; i < job.threads; ++i) {
        if (0 != pthread_create(&threads[i], NULL, work, &workers[i])) {
            give_up("a thread cannot be created");
        }
    }
    work(&workers[0]);
    for (int i = 1; i < job.threads; ++i) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < (each ? job.threads : 1); ++i) {
        MPI_Comm_free(&job.comms[i]);
    }
    MPI_Finalize();
    return 0;
}
