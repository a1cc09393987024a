// SPDX-License-Identifier: BSD-3-Clause
/*
 * Tens of thousands of messages wait unexpected and are then received in the reverse order of their
 * tags; tens of thousands of receives wait posted and are then met in the reverse order.
 * Arguments: unexpected|posted, number of messages.
 */
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

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "flood", 2);
    CHECK(argc == 3, "arguments: unexpected|posted, number of messages");
    int count = atoi(argv[2]);
    int to = (check_rank + 1) % check_ranks, from = (check_rank - 1 + check_ranks) % check_ranks;
    if (strcmp(argv[1], "posted") == 0) {
        posted(count, to, from);
    } else {
        CHECK(strcmp(argv[1], "unexpected") == 0, "'%s' is not unexpected|posted", argv[1]);
        unexpected(count, to, from);
        unexpected(count / 10, from, to);
    }
    check_end();
    return 0;
}
