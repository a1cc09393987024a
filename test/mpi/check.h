// SPDX-License-Identifier: BSD-3-Clause
/*
 * Helpers that the MPI tests share: payload patterns, guarded buffers, and one way to fail.
 *
 * A payload is a stream of bytes that follows from a key, and the key from sender, tag, size and
 * a salt (usually a sequence number). So a check detects a byte in the wrong place, from the wrong
 * message, or from nowhere. A guarded buffer has a known zone before and behind the payload.
 *
 * A test that succeeds prints one line (rank 0). A test that fails aborts the job and prints the
 * difference, its place, and the expected value. Threads: any thread may call everything but
 * check_begin, check_end and check_skip. May touch: mpi.h and the C library.
 */
#ifndef ADAPTIB_TEST_MPI_CHECK_H
#define ADAPTIB_TEST_MPI_CHECK_H

#include <mpi.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHECK_GUARD_BYTES = 64,
    CHECK_GUARD_VALUE = 0xA5,
    CHECK_SKIPPED = 77
};

__attribute__((unused)) static const char *check_name = "?";
__attribute__((unused)) static int check_rank = -1;
__attribute__((unused)) static int check_ranks = 0;

__attribute__((unused, noreturn, format(printf, 2, 3))) static void
check_fail(int line, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "FAILED %s, rank %d of %d, line %d: %s\n", check_name, check_rank, check_ranks,
            line, text);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

#define FAIL(...) check_fail(__LINE__, __VA_ARGS__)
#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            FAIL(__VA_ARGS__);                                                                     \
        }                                                                                          \
    } while (0)

/* Writes the value into <directory>/<kind>.<rank>, for the script that runs a fault test. */
__attribute__((unused)) static void check_note(const char *directory, const char *kind, long value)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%d", directory, kind, check_rank);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL, "%s cannot be written", path);
    fprintf(file, "%ld\n", value);
    fclose(file);
}

/* Starts MPI with at least thread level `level`; fails unless there are at least `least` ranks. */
__attribute__((unused)) static void check_begin_threads(int *argc, char ***argv, const char *name,
                                                        int least, int level)
{
    int provided = 0;
    check_name = name;
    MPI_Init_thread(argc, argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_ranks);
    CHECK(provided >= level, "thread level %d asked for, %d provided", level, provided);
    CHECK(check_ranks >= least, "needs %d ranks at least, has %d", least, check_ranks);
}

__attribute__((unused)) static void check_begin(int *argc, char ***argv, const char *name,
                                                int least)
{
    check_begin_threads(argc, argv, name, least, MPI_THREAD_SINGLE);
}

__attribute__((unused)) static void check_end(void)
{
    MPI_Finalize();
    if (check_rank == 0) {
        printf("%s: ok\n", check_name);
    }
}

/* The main function of a test for which this Open MPI lacks something: returns the exit status. */
__attribute__((unused)) static int check_skip(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Finalize();
    return CHECK_SKIPPED;
}

/* ------------------------------------------------------------------------------------------------
 * Patterns */

__attribute__((unused)) static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0x7fb5d329728ea185);
    x ^= x >> 27;
    x *= UINT64_C(0x81dadef4bc2dd44d);
    x ^= x >> 33;
    return x;
}

__attribute__((unused)) static uint64_t key_of(int sender, int tag, size_t bytes, uint64_t salt)
{
    return mix(mix(mix(mix((uint64_t) sender + 1) + (uint64_t) tag) + bytes) + salt) | 1;
}

__attribute__((unused)) static uint64_t word_of(uint64_t key, uint64_t index)
{
    uint64_t x = (key + index) * UINT64_C(0x9e3779b97f4a7c15);
    return x ^ (x >> 29);
}

__attribute__((unused)) static unsigned char byte_of(uint64_t key, size_t index)
{
    return (unsigned char) (word_of(key, index / 8) >> (8 * (index % 8)));
}

/* Writes the bytes [offset, offset + bytes) of the key's stream; offset is a multiple of 8. */
__attribute__((unused)) static void fill_from(void *to, size_t offset, size_t bytes, uint64_t key)
{
    unsigned char *out = to;
    size_t index = offset / 8;
    for (; bytes >= 8; bytes -= 8, out += 8, ++index) {
        uint64_t word = word_of(key, index);
        memcpy(out, &word, 8);
    }
    if (bytes > 0) {
        uint64_t word = word_of(key, index);
        memcpy(out, &word, bytes);
    }
}

__attribute__((unused)) static void fill(void *to, size_t bytes, uint64_t key)
{
    fill_from(to, 0, bytes, key);
}

__attribute__((unused)) static void check_bytes_from(int line, const void *from, size_t offset,
                                                     size_t bytes, uint64_t key, const char *what)
{
    const unsigned char *in = from;
    size_t done = 0;
    for (; done + 8 <= bytes; done += 8) {
        uint64_t word;
        memcpy(&word, in + done, 8);
        if (word != word_of(key, (offset + done) / 8)) {
            break;
        }
    }
    for (; done < bytes; ++done) {
        unsigned char want = byte_of(key, offset + done);
        if (in[done] != want) {
            size_t wrong = 0;
            for (size_t i = done; i < bytes; ++i) {
                wrong += in[i] != byte_of(key, offset + i);
            }
            check_fail(line, "%s: byte %zu of %zu is 0x%02x, expected 0x%02x (%zu bytes differ)",
                       what, offset + done, offset + bytes, in[done], want, wrong);
        }
    }
}

#define CHECK_BYTES(from, bytes, key, what) check_bytes_from(__LINE__, from, 0, bytes, key, what)

/* ------------------------------------------------------------------------------------------------
 * Guarded buffers */

/* Allocates `bytes` at a distance of `shift` (< 64) from a 64-byte boundary, with guards around
 * them; all bytes have the guard's value. */
__attribute__((unused)) static unsigned char *guarded_new(size_t bytes, size_t shift)
{
    size_t whole = bytes + shift + 2 * (size_t) CHECK_GUARD_BYTES;
    unsigned char *block = NULL;
    if (posix_memalign((void **) &block, 64, whole) != 0) {
        FAIL("no memory for a buffer of %zu bytes", whole);
    }
    memset(block, CHECK_GUARD_VALUE, whole);
    return block + CHECK_GUARD_BYTES + shift;
}

__attribute__((unused)) static void guarded_reset(unsigned char *buffer, size_t bytes)
{
    memset(buffer, CHECK_GUARD_VALUE, bytes);
}

__attribute__((unused)) static void guarded_check(int line, const unsigned char *buffer,
                                                  size_t bytes, const char *what)
{
    for (int i = 1; i <= CHECK_GUARD_BYTES; ++i) {
        if (buffer[-i] != CHECK_GUARD_VALUE) {
            check_fail(line, "%s: the byte %d before the buffer was overwritten with 0x%02x", what,
                       i, buffer[-i]);
        }
        if (buffer[bytes + (size_t) i - 1] != CHECK_GUARD_VALUE) {
            check_fail(line, "%s: the byte %d behind the %zu bytes was overwritten with 0x%02x",
                       what, i - 1, bytes, buffer[bytes + (size_t) i - 1]);
        }
    }
}

#define CHECK_GUARD(buffer, bytes, what) guarded_check(__LINE__, buffer, bytes, what)

__attribute__((unused)) static void guarded_free(unsigned char *buffer, size_t shift)
{
    free(buffer - CHECK_GUARD_BYTES - shift);
}

/* ------------------------------------------------------------------------------------------------
 * Statuses, sizes, random numbers */

__attribute__((unused)) static void check_status(int line, const MPI_Status *status, int source,
                                                 int tag, size_t bytes, const char *what)
{
    int count = -1;
    MPI_Get_count(status, MPI_BYTE, &count);
    if (status->MPI_SOURCE != source || status->MPI_TAG != tag || count < 0
        || (size_t) count != bytes) {
        check_fail(line, "%s: status has source %d, tag %d, %d bytes; expected %d, %d, %zu", what,
                   status->MPI_SOURCE, status->MPI_TAG, count, source, tag, bytes);
    }
}

#define CHECK_STATUS(status, source, tag, bytes, what)                                             \
    check_status(__LINE__, status, source, tag, bytes, what)

/* xorshift64*; the state must not be 0. */
__attribute__((unused)) static uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

__attribute__((unused)) static uint64_t random_below(uint64_t *state, uint64_t bound)
{
    return (random_next(state) >> 11) % bound;
}

/* Sizes around the limits of a transport: zero, one byte, a header's length, eager limits, pages,
 * pipeline blocks. */
__attribute__((unused)) static size_t mixed_size(uint64_t salt)
{
    static const size_t sizes[] = {0,     1,     8,     63,    64,     100,   256,
                                   1000,  2048,  4000,  4096,  8191,   8192,  8193,
                                   12000, 16384, 32768, 65537, 100000, 262144};
    return sizes[mix(salt + 77) % (sizeof sizes / sizeof sizes[0])];
}

/* Lets time pass while MPI makes progress. */
__attribute__((unused)) static void progress_for(double seconds, MPI_Comm comm)
{
    double end = MPI_Wtime() + seconds;
    while (MPI_Wtime() < end) {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, 32000, comm, &flag, MPI_STATUS_IGNORE);
    }
}

#endif /* ADAPTIB_TEST_MPI_CHECK_H */
