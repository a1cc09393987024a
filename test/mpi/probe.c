// SPDX-License-Identifier: BSD-3-Clause
/*
 * Probe and Iprobe report the message that a receive with the same arguments would take, with its
 * size, and do not take it. Matched probes take the message: later receives and probes do not see
 * it, and Mrecv and Imrecv deliver such messages in any order.
 */
#include "check.h"

enum {
    ROOM = 1 << 20,
    COUNT = 60
};

static size_t size_of(int number)
{
    return number % 15 == 14 ? (size_t) ROOM : mixed_size((uint64_t) number);
}

static unsigned char *buffer;

static void send_numbered(int tags)
{
    MPI_Request requests[COUNT];
    unsigned char *out[COUNT];
    for (int i = 0; i < COUNT; ++i) {
        out[i] = malloc(size_of(i) + 1);
        fill(out[i], size_of(i), key_of(check_rank, i % tags, size_of(i), (uint64_t) i));
        MPI_Isend(out[i], (int) size_of(i), MPI_BYTE, 0, i % tags, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < COUNT; ++i) {
        free(out[i]);
    }
}

static void check_number(const MPI_Status *status, int source, int tag, int i, const char *what)
{
    CHECK_STATUS(status, source, tag, size_of(i), what);
    CHECK_BYTES(buffer, size_of(i), key_of(source, tag, size_of(i), (uint64_t) i), what);
}

/* Probes with wildcards, then receives exactly the message that the probe has named. */
static void probe_then_receive(bool blocking)
{
    if (check_rank != 0) {
        send_numbered(5);
        return;
    }
    int *next = calloc((size_t) check_ranks, sizeof *next);
    for (int n = 0; n < COUNT * (check_ranks - 1); ++n) {
        MPI_Status seen, status;
        int flag = 0, bytes;
        if (blocking) {
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &seen);
        } else {
            while (!flag) {
                MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &seen);
            }
        }
        int i = next[seen.MPI_SOURCE]++;
        CHECK_STATUS(&seen, seen.MPI_SOURCE, i % 5, size_of(i), "probe");
        MPI_Iprobe(seen.MPI_SOURCE, seen.MPI_TAG, MPI_COMM_WORLD, &flag, &status);
        CHECK(flag, "a second probe does not see what the first has seen");
        CHECK_STATUS(&status, seen.MPI_SOURCE, i % 5, size_of(i), "second probe");
        MPI_Iprobe(seen.MPI_SOURCE, 31, MPI_COMM_WORLD, &flag, &status);
        CHECK(!flag, "a probe for a tag that nobody sends found tag %d", status.MPI_TAG);
        MPI_Get_count(&seen, MPI_BYTE, &bytes);
        MPI_Recv(buffer, bytes, MPI_BYTE, seen.MPI_SOURCE, seen.MPI_TAG, MPI_COMM_WORLD, &status);
        check_number(&status, seen.MPI_SOURCE, seen.MPI_TAG, i, "received after a probe");
    }
    free(next);
}

static void matched_probe(bool blocking)
{
    enum {
        HELD = 10
    };
    if (check_rank != 0) {
        send_numbered(1);
        return;
    }
    for (int source = 1; source < check_ranks; ++source) {
        for (int base = 0; base < COUNT; base += HELD) {
            MPI_Message messages[HELD];
            MPI_Status statuses[HELD];
            /* Matched probes take all messages but the last, which a plain receive takes. */
            for (int i = 0; i < HELD - 1; ++i) {
                int flag = 0;
                if (blocking) {
                    MPI_Mprobe(source, MPI_ANY_TAG, MPI_COMM_WORLD, &messages[i], &statuses[i]);
                }
                while (!blocking && !flag) {
                    MPI_Improbe(source, 0, MPI_COMM_WORLD, &flag, &messages[i], &statuses[i]);
                }
                CHECK(messages[i] != MPI_MESSAGE_NULL, "a matched probe gave no message");
                CHECK_STATUS(&statuses[i], source, 0, size_of(base + i), "matched probe");
            }
            MPI_Recv(buffer, ROOM, MPI_BYTE, source, 0, MPI_COMM_WORLD, &statuses[HELD - 1]);
            check_number(&statuses[HELD - 1], source, 0, base + HELD - 1,
                         "received past probed ones");
            for (int i = HELD - 2; i >= 0; --i) {
                MPI_Request request;
                if (i % 2) {
                    MPI_Mrecv(buffer, ROOM, MPI_BYTE, &messages[i], &statuses[i]);
                } else {
                    MPI_Imrecv(buffer, ROOM, MPI_BYTE, &messages[i], &request);
                    MPI_Wait(&request, &statuses[i]);
                }
                CHECK(messages[i] == MPI_MESSAGE_NULL, "the message handle is still there");
                check_number(&statuses[i], source, 0, base + i, "matched receive");
            }
        }
    }
}

static void none_and_nobody(void)
{
    int flag = 1;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
    CHECK(!flag, "Improbe found a message that nobody has sent");
    MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &message, &status);
    CHECK(message == MPI_MESSAGE_NO_PROC, "Mprobe of MPI_PROC_NULL gave a message");
    MPI_Mrecv(NULL, 0, MPI_BYTE, &message, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG, "source %d, tag %d",
          status.MPI_SOURCE, status.MPI_TAG);
    MPI_Probe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL, "Probe of MPI_PROC_NULL: source %d",
          status.MPI_SOURCE);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A message goes to the receive that was posted first, so a probe does not see it. */
static void posted_first(void)
{
    MPI_Request request;
    MPI_Status status;
    int flag = 0, done = 0;
    if (check_rank == 0) {
        MPI_Irecv(buffer, ROOM, MPI_BYTE, 1, 9, MPI_COMM_WORLD, &request);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 1) {
        fill(buffer, 50000, key_of(1, 9, 50000, 0));
        MPI_Send(buffer, 50000, MPI_BYTE, 0, 9, MPI_COMM_WORLD);
    } else if (check_rank == 0) {
        while (!done) {
            MPI_Iprobe(1, 9, MPI_COMM_WORLD, &flag, &status);
            CHECK(!flag, "a probe sees a message that a posted receive has taken");
            MPI_Test(&request, &done, &status);
        }
        CHECK_STATUS(&status, 1, 9, 50000, "posted before the probe");
        CHECK_BYTES(buffer, 50000, key_of(1, 9, 50000, 0), "posted before the probe");
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "probe", 2);
    buffer = malloc(ROOM);
    probe_then_receive(true);
    MPI_Barrier(MPI_COMM_WORLD);
    probe_then_receive(false);
    MPI_Barrier(MPI_COMM_WORLD);
    matched_probe(true);
    MPI_Barrier(MPI_COMM_WORLD);
    matched_probe(false);
    none_and_nobody();
    posted_first();
    free(buffer);
    check_end();
    return 0;
}
