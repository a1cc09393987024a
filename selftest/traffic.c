// SPDX-License-Identifier: BSD-3-Clause
// The program adaptib_selftest_traffic, which adaptib_selftest runs over adaptib and, to compare,
// over other transports. Prints "NAME VALUE" lines; exits with 1 after wrong data.
//
//   adaptib_selftest_traffic check SECONDS     messages of random sizes, and collectives, checked
//   adaptib_selftest_traffic one_sided SECONDS puts, gets and atomics in windows, checked
//   adaptib_selftest_traffic speed             latency and bandwidth between the first two of them
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_BYTES = 1 << 20,
    BATCH = 16
};

static int rank, size;
static uint64_t random_state;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

// Byte of the message with this number at this place.
static unsigned char pattern(uint64_t number, size_t place)
{
    return (unsigned char) (number * 131 + place * 7 + (place >> 8));
}

static void fill(unsigned char *data, size_t length, uint64_t number)
{
    for (size_t place = 0; place < length; ++place) {
        data[place] = pattern(number, place);
    }
}

static void check(const unsigned char *data, size_t length, uint64_t number, const char *what)
{
    for (size_t place = 0; place < length; ++place) {
        if (data[place] != pattern(number, place)) {
            fprintf(stderr, "wrong data: %s %llu, byte %zu of %zu\n", what,
                    (unsigned long long) number, place, length);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

// Length of the message of this number: mostly short, sometimes long, the same in all processes.
static size_t length_of(uint64_t number)
{
    uint64_t z = number * 0x9e3779b97f4a7c15u;
    z ^= z >> 29;
    switch (z % 4) {
    case 0:
        return (z >> 8) % 64;
    case 1:
        return (z >> 8) % 4096;
    case 2:
        return (z >> 8) % 65536;
    default:
        return (z >> 8) % MOST_BYTES;
    }
}

// Each process sends a batch to the next one and receives one from the process before it.
static void exchange_batch(unsigned char *out, unsigned char *in, uint64_t round)
{
    MPI_Request requests[2 * BATCH];
    for (int i = 0; i < BATCH; ++i) {
        const uint64_t number = round * BATCH + (uint64_t) i;
        const size_t place = (size_t) i * MOST_BYTES;
        fill(out + place, length_of(number), number + (uint64_t) rank);
        MPI_Irecv(in + place, MOST_BYTES, MPI_BYTE, (rank + size - 1) % size, i, MPI_COMM_WORLD,
                  &requests[i]);
    }
    for (int i = 0; i < BATCH; ++i) {
        const uint64_t number = round * BATCH + (uint64_t) i;
        MPI_Isend(out + (size_t) i * MOST_BYTES, (int) length_of(number), MPI_BYTE,
                  (rank + 1) % size, i, MPI_COMM_WORLD, &requests[BATCH + i]);
    }
    MPI_Status statuses[2 * BATCH];
    MPI_Waitall(2 * BATCH, requests, statuses);
    for (int i = 0; i < BATCH; ++i) {
        const uint64_t number = round * BATCH + (uint64_t) i;
        int count = -1;
        MPI_Get_count(&statuses[i], MPI_BYTE, &count);
        if ((size_t) count != length_of(number)) {
            fprintf(stderr, "wrong length: message %llu\n", (unsigned long long) number);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        check(in + (size_t) i * MOST_BYTES, length_of(number),
              number + (uint64_t) ((rank + size - 1) % size), "message");
    }
}

static void check_collectives(uint64_t round)
{
    uint64_t mine = round * 1000 + (uint64_t) rank, sum = 0, expected = 0;
    for (int i = 0; i < size; ++i) {
        expected += round * 1000 + (uint64_t) i;
    }
    MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (sum != expected) {
        fprintf(stderr, "wrong data: MPI_Allreduce of round %llu\n", (unsigned long long) round);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

// Returns 1 if another round begins; the first process decides.
static int goes_on(double end)
{
    int more = MPI_Wtime() < end;
    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return more;
}

static void run_check(double seconds)
{
    unsigned char *const out = malloc((size_t) BATCH * MOST_BYTES);
    unsigned char *const in = malloc((size_t) BATCH * MOST_BYTES);
    const double end = MPI_Wtime() + seconds;
    double longest = 0;
    uint64_t round = 0, bytes = 0;
    while (goes_on(end)) {
        const double begin = MPI_Wtime();
        exchange_batch(out, in, round);
        check_collectives(round);
        for (uint64_t i = 0; i < BATCH; ++i) {
            bytes += length_of(round * BATCH + i);
        }
        if (round++ == 0 && rank == 0) {
            puts("began");
            fflush(stdout);
        }
        const double took = MPI_Wtime() - begin;
        longest = took > longest ? took : longest;
    }
    if (rank == 0) {
        printf("messages %llu\nbytes %llu\nlongest_pause_ms %.0f\n",
               (unsigned long long) round * BATCH * (unsigned long long) size,
               (unsigned long long) bytes * (unsigned long long) size, longest * 1e3);
    }
    free(out);
    free(in);
}

// Puts and gets between neighbours; additions to a word of the first process.
static void run_one_sided(double seconds)
{
    enum {
        WINDOW = 1 << 18
    };
    unsigned char *memory, *local = malloc(WINDOW);
    uint64_t round = 0, sum = 0, one = 1, old;
    MPI_Win window;
    MPI_Win_allocate(WINDOW, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    memset(memory, 0, WINDOW);
    const double end = MPI_Wtime() + seconds;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    while (goes_on(end)) {
        const size_t length = 1 + next_random() % (WINDOW / 2 - 8);
        const int next = (rank + 1) % size;
        fill(local, length, round + (uint64_t) rank);
        MPI_Put(local, (int) length, MPI_BYTE, next, 8, (int) length, MPI_BYTE, window);
        MPI_Win_flush(next, window);
        memset(local, 0, length);
        MPI_Get(local, (int) length, MPI_BYTE, next, 8, (int) length, MPI_BYTE, window);
        MPI_Win_flush(next, window);
        check(local, length, round + (uint64_t) rank, "put of round");
        MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, 0, 0, MPI_SUM, window);
        MPI_Win_flush(0, window);
        ++round;
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Fetch_and_op(NULL, &sum, MPI_UINT64_T, 0, 0, MPI_NO_OP, window);
    MPI_Win_unlock(0, window);
    if (sum != round * (uint64_t) size) {
        fprintf(stderr, "wrong data: %llu additions in place of %llu\n", (unsigned long long) sum,
                (unsigned long long) round * (unsigned long long) size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0) {
        printf("rounds %llu\n", (unsigned long long) round);
    }
    MPI_Win_free(&window);
    free(local);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

// Median of half a round trip, in microseconds.
static double latency(unsigned char *data, int length, int count)
{
    double *const times = malloc((size_t) count * sizeof(double));
    for (int i = -count / 10; i < count; ++i) {
        const double begin = MPI_Wtime();
        if (rank == 0) {
            MPI_Send(data, length, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(data, length, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(data, length, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(data, length, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
        if (i >= 0) {
            times[i] = (MPI_Wtime() - begin) * 1e6 / 2;
        }
    }
    qsort(times, (size_t) count, sizeof(double), by_value);
    const double median = times[count / 2];
    free(times);
    return median;
}

// 10^6 bytes a second, with a window of messages under way.
static double bandwidth(unsigned char *data, int length, int rounds)
{
    MPI_Request requests[BATCH];
    const double begin = MPI_Wtime();
    for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i < BATCH; ++i) {
            unsigned char *const place = data + (size_t) i * MOST_BYTES;
            if (rank == 0) {
                MPI_Isend(place, length, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i]);
            } else {
                MPI_Irecv(place, length, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]);
            }
        }
        MPI_Waitall(BATCH, requests, MPI_STATUSES_IGNORE);
    }
    char done = 0;
    if (rank == 0) {
        MPI_Recv(&done, 1, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(&done, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
    return (double) length * BATCH * rounds / (MPI_Wtime() - begin) / 1e6;
}

static void run_speed(void)
{
    unsigned char *const data = calloc(BATCH, MOST_BYTES);
    if (rank < 2) {
        const double small = latency(data, 8, 2000);
        const double medium = latency(data, 4096, 1000);
        bandwidth(data, MOST_BYTES, 4);
        const double rate = bandwidth(data, MOST_BYTES, 20);
        if (rank == 0) {
            printf("latency_8_us %.2f\nlatency_4096_us %.2f\nbandwidth_MB_s %.0f\n", small, medium,
                   rate);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    free(data);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    random_state = 88172645463325252u + (uint64_t) rank;
    const char *const mode = argc > 1 ? argv[1] : "";
    const double seconds = argc > 2 ? atof(argv[2]) : 0;
    int status = 0;
    if (strcmp(mode, "check") == 0 && seconds > 0) {
        run_check(seconds);
    } else if (strcmp(mode, "one_sided") == 0 && seconds > 0) {
        run_one_sided(seconds);
    } else if (strcmp(mode, "speed") == 0 && size > 1) {
        run_speed();
    } else {
        fprintf(stderr, "usage: adaptib_selftest_traffic check SECONDS|one_sided SECONDS|speed\n");
        status = 2;
    }
    MPI_Finalize();
    return status;
}
