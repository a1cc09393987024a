// SPDX-License-Identifier: BSD-3-Clause
/*
 * Patterns of small messages for benchmarks/channels, which reads rank 0's output: a line
 * `PATTERN MICROSECONDS` for each pattern, the median time of a round of all ranks.
 *
 *   channels_mpi SETTLE SECONDS PATTERN,...
 *
 *   onetoall     rank 0 sends two messages to each of the others, and each answers with one
 *   alltoone     each of the others sends two messages to rank 0, which answers with one
 *   neighbours   each rank exchanges a message with the next one and the one before it
 *   changing     the same at distances 1, 2 and 3, each for SETTLE + SECONDS
 *
 * The first SETTLE seconds of each pattern, and of each distance, do not count: they give the
 * transport time to select channels. Every message is checked.
 *
 * May touch: mpi.h, the C library.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BYTES = 64,
    ROUNDS = 50, /* between two readings of the clock */
    DISTANCES = 3,
    MOST_SAMPLES = 1 << 20
};

struct world {
    int rank;
    int size;
    uint64_t sent;
    MPI_Request *requests;
    unsigned char *got;
    double *samples;
    int count;
};

static void fail(const char *what)
{
    fprintf(stderr, "channels_mpi: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void fill(unsigned char *bytes, int from, uint64_t number)
{
    memset(bytes, (int) ((uint64_t) from * 31 + number) & 0xff, BYTES);
}

static void check(const unsigned char *bytes, int from, uint64_t number)
{
    unsigned char expected[BYTES];

    fill(expected, from, number);
    if (0 != memcmp(bytes, expected, BYTES)) {
        fail("a message has other contents than were sent");
    }
}

/* One round: every other rank sends `to_hub` messages to rank 0, and rank 0 sends `from_hub`
 * messages to each of them. */
static void hub_round(struct world *w, int to_hub, int from_hub)
{
    const int in = 0 == w->rank ? to_hub : from_hub;
    const int out = 0 == w->rank ? from_hub : to_hub;
    const int first = 0 == w->rank ? 1 : 0;
    const int last = 0 == w->rank ? w->size : 1;
    unsigned char message[BYTES];
    int posted = 0;

    for (int peer = first; peer < last; ++peer) {
        for (int i = 0; i < in; ++i) {
            MPI_Irecv(w->got + posted * BYTES, BYTES, MPI_BYTE, peer, i, MPI_COMM_WORLD,
                      &w->requests[posted]);
            ++posted;
        }
    }
    fill(message, w->rank, w->sent);
    for (int peer = first; peer < last; ++peer) {
        for (int i = 0; i < out; ++i) {
            MPI_Send(message, BYTES, MPI_BYTE, peer, i, MPI_COMM_WORLD);
        }
    }
    MPI_Waitall(posted, w->requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < posted; ++i) {
        check(w->got + i * BYTES, first + i / in, w->sent);
    }
}

static void neighbour_round(struct world *w, int distance)
{
    const int next = (w->rank + distance) % w->size;
    const int before = (w->rank - distance % w->size + w->size) % w->size;
    unsigned char message[BYTES];

    fill(message, w->rank, w->sent);
    MPI_Irecv(w->got, BYTES, MPI_BYTE, before, 0, MPI_COMM_WORLD, &w->requests[0]);
    MPI_Irecv(w->got + BYTES, BYTES, MPI_BYTE, next, 1, MPI_COMM_WORLD, &w->requests[1]);
    MPI_Send(message, BYTES, MPI_BYTE, next, 0, MPI_COMM_WORLD);
    MPI_Send(message, BYTES, MPI_BYTE, before, 1, MPI_COMM_WORLD);
    MPI_Waitall(2, w->requests, MPI_STATUSES_IGNORE);
    check(w->got, before, w->sent);
    check(w->got + BYTES, next, w->sent);
}

static void pattern_round(struct world *w, const char *pattern, int distance)
{
    if (0 == strcmp(pattern, "onetoall")) {
        hub_round(w, 1, 2);
    } else if (0 == strcmp(pattern, "alltoone")) {
        hub_round(w, 2, 1);
    } else {
        neighbour_round(w, distance);
    }
    ++w->sent;
}

/* Repeats rounds for `seconds` by rank 0's clock; `keep` records their times. */
static void run_for(struct world *w, const char *pattern, int distance, double seconds, int keep)
{
    const double end = MPI_Wtime() + seconds;
    int more = 1;

    while (more) {
        const double begin = MPI_Wtime();
        for (int i = 0; i < ROUNDS; ++i) {
            pattern_round(w, pattern, distance);
        }
        const double now = MPI_Wtime();
        if (keep && w->count < MOST_SAMPLES) {
            w->samples[w->count++] = (now - begin) / ROUNDS;
        }
        more = now < end;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *) a;
    const double y = *(const double *) b;

    return (x > y) - (x < y);
}

static void measure(struct world *w, const char *pattern, double settle, double seconds)
{
    const int distances = 0 == strcmp(pattern, "changing") ? DISTANCES : 1;

    w->count = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int distance = 1; distance <= distances; ++distance) {
        run_for(w, pattern, distance, settle, 0);
        run_for(w, pattern, distance, seconds, 1);
    }
    if (0 == w->rank) {
        qsort(w->samples, (size_t) w->count, sizeof(double), by_value);
        printf("%s %.6g\n", pattern, 1e6 * w->samples[w->count / 2]);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    struct world w = {0};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &w.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &w.size);
    if (4 != argc || w.size < 2) {
        fail("usage: channels_mpi SETTLE SECONDS PATTERN,..., with two ranks at least");
    }
    w.requests = malloc(sizeof(MPI_Request) * 2 * (size_t) w.size);
    w.got = malloc((size_t) BYTES * 2 * (size_t) w.size);
    w.samples = malloc(sizeof(double) * MOST_SAMPLES);
    if (NULL == w.requests || NULL == w.got || NULL == w.samples) {
        fail("no memory");
    }
    for (const char *name = strtok(argv[3], ","); NULL != name; name = strtok(NULL, ",")) {
        if (NULL == strstr(" onetoall alltoone neighbours changing ", name)) {
            fail("no such pattern");
        }
        measure(&w, name, atof(argv[1]), atof(argv[2]));
    }
    free(w.samples);
    free(w.got);
    free(w.requests);
    MPI_Finalize();
    return 0;
}
