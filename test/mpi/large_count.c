// SPDX-License-Identifier: BSD-3-Clause
/*
 * One message of more than 2^31 bytes from rank 0 to rank 1: blocks of contiguous bytes, one
 * element of a large contiguous type, a vector with gaps, and as many single bytes, which MPI 4 has
 * functions for (MPI_Send_c; Open MPI 6.0). Every byte is checked. Arguments:
 * blocks|element|vector|bytes. Each of the two ranks needs 2.2 GiB.
 */
#include "check.h"

enum {
    BLOCK = 1 << 20,
    BLOCKS = 2049,
    ROW = 65536,
    GAP = 256,
    ROWS = 32800,
    STEP = 1 << 24
};

static void fill_steps(unsigned char *buffer, size_t bytes, uint64_t key)
{
    for (size_t at = 0; at < bytes; at += STEP) {
        fill_from(buffer + at, at, bytes - at < STEP ? bytes - at : STEP, key);
    }
}

/* Transfers one message; returns the status of the receive. */
static MPI_Status transfer(void *buffer, int count, MPI_Datatype type, size_t bytes)
{
    MPI_Status status, seen;
    MPI_Count elements = -1;
    memset(&status, 0, sizeof status);
    if (check_rank == 0) {
        MPI_Send(buffer, count, type, 1, 1, MPI_COMM_WORLD);
        return status;
    }
    MPI_Probe(0, 1, MPI_COMM_WORLD, &seen);
    MPI_Get_elements_x(&seen, type, &elements);
    CHECK((size_t) elements == bytes, "Probe: %lld elements, expected %zu", (long long) elements,
          bytes);
    MPI_Recv(buffer, count, type, 0, 1, MPI_COMM_WORLD, &status);
    MPI_Get_elements_x(&status, type, &elements);
    CHECK((size_t) elements == bytes, "Recv: %lld elements, expected %zu", (long long) elements,
          bytes);
    return status;
}

static void contiguous(bool one_element)
{
    size_t bytes = (size_t) BLOCK * BLOCKS + (one_element ? 12345 : 0);
    uint64_t key = key_of(0, 1, bytes, one_element);
    MPI_Datatype block, type;
    unsigned char *buffer = malloc(bytes + 64);
    CHECK(buffer != NULL, "no memory for %zu bytes", bytes);
    MPI_Type_contiguous(BLOCK, MPI_BYTE, &block);
    if (one_element) {
        MPI_Datatype all;
        int lengths[2] = {1, 12345};
        MPI_Aint places[2] = {0, (MPI_Aint) BLOCK * BLOCKS};
        MPI_Type_contiguous(BLOCKS, block, &all);
        MPI_Datatype parts[2] = {all, MPI_BYTE};
        MPI_Type_create_struct(2, lengths, places, parts, &type);
        MPI_Type_free(&all);
    } else {
        MPI_Type_dup(block, &type);
    }
    MPI_Type_commit(&type);
    memset(buffer + bytes, CHECK_GUARD_VALUE, 64);
    if (check_rank == 0) {
        fill_steps(buffer, bytes, key);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Status status = transfer(buffer, one_element ? 1 : BLOCKS, type, bytes);
    if (check_rank == 1) {
        int count = -1;
        MPI_Get_count(&status, type, &count);
        CHECK(count == (one_element ? 1 : BLOCKS), "count %d", count);
        CHECK_BYTES(buffer, bytes, key, "large contiguous message");
        for (int i = 0; i < 64; ++i) {
            CHECK(buffer[bytes + (size_t) i] == CHECK_GUARD_VALUE,
                  "byte %d behind the end overwritten", i);
        }
    }
    MPI_Type_free(&block);
    MPI_Type_free(&type);
    free(buffer);
}

static void vector(void)
{
    size_t stride = ROW + GAP, bytes = (size_t) ROW * ROWS;
    unsigned char *buffer = malloc(stride * ROWS);
    MPI_Datatype type;
    CHECK(buffer != NULL, "no memory for %zu bytes", stride * ROWS);
    CHECK(bytes > (size_t) 1 << 31, "the test's own message is too small");
    MPI_Type_vector(ROWS, ROW, (int) stride, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    for (size_t row = 0; row < ROWS; ++row) {
        if (check_rank == 0) {
            fill(buffer + row * stride, ROW, key_of(0, 1, row, 5));
        }
        memset(buffer + row * stride + ROW, CHECK_GUARD_VALUE, GAP);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    transfer(buffer, 1, type, bytes);
    for (size_t row = 0; row < ROWS && check_rank == 1; ++row) {
        CHECK_BYTES(buffer + row * stride, ROW, key_of(0, 1, row, 5), "row of a large vector");
        for (size_t i = 0; i < GAP; ++i) {
            CHECK(buffer[row * stride + ROW + i] == CHECK_GUARD_VALUE,
                  "gap %zu behind row %zu overwritten", i, row);
        }
    }
    MPI_Type_free(&type);
    free(buffer);
}

#if MPI_VERSION >= 4

/* Not blocking, with a matched probe, and blocking; the receiver has room for more. Returns false
 * if this MPI lacks the functions. */
static bool single_bytes(void)
{
    const MPI_Count bytes = (MPI_Count) BLOCK * BLOCKS + 4321, room = bytes + 1000;
    unsigned char *buffer = malloc((size_t) room);
    CHECK(buffer != NULL, "no memory for %lld bytes", (long long) room);
    for (int blocking = 0; blocking < 2; ++blocking) {
        const uint64_t key = key_of(0, 1, (size_t) bytes, (uint64_t) blocking);
        MPI_Request request;
        MPI_Message message;
        MPI_Status status;
        MPI_Count count = -1;
        memset(buffer, CHECK_GUARD_VALUE, (size_t) room);
        if (check_rank == 0) {
            fill_steps(buffer, (size_t) bytes, key);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (check_rank == 0 && blocking) {
            MPI_Send_c(buffer, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        } else if (check_rank == 0) {
            MPI_Isend_c(buffer, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else if (blocking) {
            MPI_Recv_c(buffer, room, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status);
        } else {
            MPI_Mprobe(0, 1, MPI_COMM_WORLD, &message, &status);
            MPI_Get_count_c(&status, MPI_BYTE, &count);
            CHECK(count == bytes, "Mprobe: %lld bytes", (long long) count);
            MPI_Imrecv_c(buffer, room, MPI_BYTE, &message, &request);
            MPI_Wait(&request, &status);
        }
        if (check_rank == 1) {
            int small = 0;
            MPI_Get_count_c(&status, MPI_BYTE, &count);
            CHECK(count == bytes, "%lld bytes received", (long long) count);
            MPI_Get_count(&status, MPI_BYTE, &small);
            CHECK(small == MPI_UNDEFINED, "an int holds the count: %d", small);
            CHECK_BYTES(buffer, (size_t) bytes, key, "many bytes");
            for (MPI_Count i = bytes; i < room; ++i) {
                CHECK(buffer[i] == CHECK_GUARD_VALUE, "byte %lld overwritten", (long long) i);
            }
        }
    }
    free(buffer);
    return true;
}

#else

static bool single_bytes(void)
{
    return false;
}

#endif

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "large_count", 2);
    CHECK(argc == 2, "arguments: blocks|element|vector|bytes");
    CHECK(check_ranks == 2, "needs exactly 2 ranks");
    if (strcmp(argv[1], "bytes") == 0) {
        if (!single_bytes()) {
            MPI_Finalize();
            return CHECK_SKIPPED;
        }
    } else if (strcmp(argv[1], "vector") == 0) {
        vector();
    } else {
        contiguous(strcmp(argv[1], "element") == 0);
    }
    check_end();
    return 0;
}
