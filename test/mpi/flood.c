// SPDX-License-Identifier: BSD-3-Clause
/*
 * Tens of thousands of messages wait unexpected and are then received in the reverse order of their
 * tags; tens of thousands of receives wait posted and are then matched in the reverse order.
 * With `bounded` rank 0 sends to rank 1, which waits for a message of rank 2 meanwhile. The memory
 * that rank 1 needs for that has to stay below the given bytes; afterwards rank 1 receives all.
 * Arguments: unexpected|posted, number of messages; or bounded, number of messages, bytes.
 */
#include <unistd.h>

#include "check.h"

static size_t bytes_of(int number)
{
    return number % 500 == 7 ? 20000 : (size_t) (number % 97);
}

static void send_all(int count, int to)
{
    unsigned char buffer[20000];
    for (int i = 0; i < count; ++i) {
        fill(buffer, bytes_of(i), key_of(check_rank, i, bytes_of(i), 1));
        MPI_Send(buffer, (int) bytes_of(i), MPI_BYTE, to, i, MPI_COMM_WORLD);
    }
}

static void isend_all(int count, int to, unsigned char *storage, MPI_Request *requests)
{
    for (int i = 0; i < count; ++i) {
        fill(storage, bytes_of(i), key_of(check_rank, i, bytes_of(i), 1));
        MPI_Isend(storage, (int) bytes_of(i), MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[i]);
        storage += bytes_of(i);
    }
}

static size_t bytes_of_all(int count)
{
    size_t whole = 0;
    for (int i = 0; i < count; ++i) {
        whole += bytes_of(i);
    }
    return whole;
}

static void check_message(const unsigned char *buffer, const MPI_Status *status, int from, int i)
{
    CHECK_STATUS(status, from, i, bytes_of(i), "flood");
    CHECK_BYTES(buffer, bytes_of(i), key_of(from, i, bytes_of(i), 1), "flood");
}

static void unexpected(int count, int to, int from)
{
    unsigned char buffer[20000], *storage = malloc(bytes_of_all(count) + 1);
    MPI_Request *requests = malloc((size_t) count * sizeof *requests);
    isend_all(count, to, storage, requests);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = count - 1; i >= 0; --i) {
        MPI_Status status;
        MPI_Recv(buffer, sizeof buffer, MPI_BYTE, from, i, MPI_COMM_WORLD, &status);
        check_message(buffer, &status, from, i);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    free(requests);
    free(storage);
}

static void posted(int count, int to, int from)
{
    unsigned char *storage = malloc(bytes_of_all(count) + 1), *at = storage;
    unsigned char **buffers = malloc((size_t) count * sizeof *buffers);
    MPI_Request *requests = malloc((size_t) count * sizeof *requests);
    for (int i = count - 1; i >= 0; --i) {
        buffers[i] = at;
        at += bytes_of(i);
        MPI_Irecv(buffers[i], (int) bytes_of(i), MPI_BYTE, from, i, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    send_all(count, to);
    for (int i = 0; i < count; ++i) {
        MPI_Status status;
        MPI_Wait(&requests[i], &status);
        check_message(buffers[i], &status, from, i);
    }
    free(requests);
    free(buffers);
    free(storage);
}

static size_t resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%*s %lu", &pages) == 1, "/proc/self/statm");
    fclose(file);
    return pages * (size_t) sysconf(_SC_PAGESIZE);
}

static void receive_late(int count, size_t most)
{
    enum {
        BYTES = 1000
    };
    unsigned char buffer[BYTES];
    size_t before = resident_bytes();
    MPI_Recv(NULL, 0, MPI_BYTE, 2, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    size_t grown = resident_bytes() - before;
    CHECK(grown <= most, "%d messages of 1000 B that nobody received took %zu bytes, more than %zu",
          count, grown, most);
    for (int i = 0; i < count; ++i) {
        MPI_Status status;
        MPI_Recv(buffer, BYTES, MPI_BYTE, 0, 4, MPI_COMM_WORLD, &status);
        CHECK_STATUS(&status, 0, 4, BYTES, "bounded");
        CHECK_BYTES(buffer, BYTES, key_of(0, i, BYTES, 1), "bounded");
    }
}

static void bounded(int count, size_t most)
{
    enum {
        BYTES = 1000
    };
    unsigned char buffer[BYTES];
    CHECK(check_ranks >= 3, "bounded is for three ranks");
    if (check_rank == 0) {
        for (int i = 0; i < count; ++i) {
            fill(buffer, BYTES, key_of(0, i, BYTES, 1));
            MPI_Send(buffer, BYTES, MPI_BYTE, 1, 4, MPI_COMM_WORLD);
        }
    } else if (check_rank == 1) {
        receive_late(count, most);
    } else if (check_rank == 2) {
        usleep(1500000);
        MPI_Send(NULL, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "flood", 2);
    CHECK(argc >= 3, "arguments: unexpected|posted, number of messages; or bounded, number, bytes");
    int count = atoi(argv[2]);
    int to = (check_rank + 1) % check_ranks, from = (check_rank - 1 + check_ranks) % check_ranks;
    if (strcmp(argv[1], "bounded") == 0) {
        CHECK(argc == 4, "bounded wants a number of messages and of bytes");
        bounded(count, (size_t) atol(argv[3]));
    } else if (strcmp(argv[1], "posted") == 0) {
        posted(count, to, from);
    } else {
        CHECK(strcmp(argv[1], "unexpected") == 0, "'%s' is not unexpected|posted", argv[1]);
        unexpected(count, to, from);
        unexpected(count / 10, from, to);
    }
    check_end();
    return 0;
}
