// SPDX-License-Identifier: BSD-3-Clause
/*
 * Messages go one way only: each rank of even number sends to the one behind it, which never sends.
 * So nothing but credit of its own can tell the sender that there is room again.
 * Arguments: messages, bytes of each.
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "one_way", 2);
    const int count = argc > 1 ? atoi(argv[1]) : 20000;
    const size_t bytes = argc > 2 ? (size_t) atoi(argv[2]) : 100;
    unsigned char *buffer = malloc(bytes + 1);
    CHECK(buffer != NULL, "no memory");
    const bool sends = check_rank % 2 == 0;
    const int peer = sends ? check_rank + 1 : check_rank - 1;
    for (int i = 0; i < count && peer < check_ranks; ++i) {
        const uint64_t key = key_of(sends ? check_rank : peer, 0, bytes, (uint64_t) i);
        if (sends) {
            fill(buffer, bytes, key);
            MPI_Send(buffer, (int) bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        } else {
            MPI_Recv(buffer, (int) bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK_BYTES(buffer, bytes, key, "one_way");
        }
    }
    free(buffer);
    check_end();
}
