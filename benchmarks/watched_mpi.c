// SPDX-License-Identifier: BSD-3-Clause
/*
 * One-way messages of 8 bytes between two ranks, each sent and received in a function of its own,
 * whose instructions benchmarks/watched counts. Rank 1 receives when the message has been there for
 * a while, so that most calls find it at once. Argument: messages.
 */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    WAIT_US = 20000
};

static long word;

__attribute__((noinline)) void step_send(void)
{
    MPI_Send(&word, sizeof word, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
}

__attribute__((noinline)) void step_receive(void)
{
    MPI_Recv(&word, sizeof word, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int rank, messages = argc > 1 ? atoi(argv[1]) : 100;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < messages; ++i) {
        if (rank == 0) {
            MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            step_send();
        } else {
            MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
            usleep(WAIT_US);
            step_receive();
        }
    }
    MPI_Finalize();
    return 0;
}
