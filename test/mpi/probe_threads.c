// SPDX-License-Identifier: BSD-3-Clause
/*
 * Several threads of rank 0 take messages by matched probes with wildcards on one communicator.
 * Every message is received once and complete, and no thread takes another thread's message.
 */
#include "numbered_threads.h"

enum {
    THREADS = 3,
    MESSAGES = 900,
    ROOM = 300000,
    LAST = 500
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *taken;

static int number_of(const unsigned char *buffer, size_t bytes)
{
    int number = -1;
    if (bytes >= sizeof number) {
        memcpy(&number, buffer, sizeof number);
    }
    return number;
}

static size_t bytes_of(int number)
{
    return 16 + mixed_size((uint64_t) number);
}

static void *take(void *context)
{
    int self = *(int *) context, got = 0;
    unsigned char *buffer = malloc(ROOM);
    for (;;) {
        MPI_Message message = MPI_MESSAGE_NULL;
        MPI_Status status;
        int flag = 0, bytes;
        if (self % 2 == 0) {
            while (!flag) {
                MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
            }
        } else {
            MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
        }
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        if (got++ % 3 == 0) {
            MPI_Request request;
            MPI_Imrecv(buffer, bytes, MPI_BYTE, &message, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            MPI_Mrecv(buffer, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        }
        if (status.MPI_TAG == LAST) {
            break;
        }
        int number = number_of(buffer, (size_t) bytes), source = status.MPI_SOURCE;
        CHECK(number >= 0 && number < MESSAGES, "message number %d from rank %d", number, source);
        CHECK_STATUS(&status, source, number % 7, bytes_of(number), "matched probe by a thread");
        CHECK_BYTES(buffer + 8, (size_t) bytes - 8,
                    key_of(source, number % 7, (size_t) bytes, (uint64_t) number), "by a thread");
        pthread_mutex_lock(&lock);
        CHECK(taken[source * MESSAGES + number]++ == 0, "message %d of rank %d received twice",
              number, source);
        pthread_mutex_unlock(&lock);
    }
    free(buffer);
    return NULL;
}

int main(int argc, char **argv)
{
    check_begin_threads(&argc, &argv, "probe_threads", 2, MPI_THREAD_MULTIPLE);
    if (check_rank == 0) {
        taken = calloc((size_t) check_ranks * MESSAGES, 1);
        run_numbered(THREADS, take);
        for (int i = MESSAGES; i < check_ranks * MESSAGES; ++i) {
            CHECK(taken[i] == 1, "message %d of rank %d was received %d times", i % MESSAGES,
                  i / MESSAGES, taken[i]);
        }
        free(taken);
    } else {
        unsigned char *buffer = calloc(1, ROOM);
        for (int i = 0; i < MESSAGES; ++i) {
            size_t bytes = bytes_of(i);
            memcpy(buffer, &i, sizeof i);
            fill(buffer + 8, bytes - 8, key_of(check_rank, i % 7, bytes, (uint64_t) i));
            if (i % 50 == 3 || i == MESSAGES - 1) {
                MPI_Ssend(buffer, (int) bytes, MPI_BYTE, 0, i % 7, MPI_COMM_WORLD);
            } else {
                MPI_Send(buffer, (int) bytes, MPI_BYTE, 0, i % 7, MPI_COMM_WORLD);
            }
        }
        /* The last message was synchronous, so rank 0 has taken all messages by now. Rank 1
         * collects this news and tells each thread of rank 0 that no more messages will come. */
        if (check_rank > 1) {
            MPI_Send(NULL, 0, MPI_BYTE, 1, LAST, MPI_COMM_WORLD);
        } else {
            for (int i = 2; i < check_ranks; ++i) {
                MPI_Recv(NULL, 0, MPI_BYTE, i, LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
            for (int i = 0; i < THREADS; ++i) {
                MPI_Send(NULL, 0, MPI_BYTE, 0, LAST, MPI_COMM_WORLD);
            }
        }
        free(buffer);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    check_end();
    return 0;
}
