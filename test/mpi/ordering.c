// SPDX-License-Identifier: BSD-3-Clause
/*
 * Messages of one sender with one tag are received in sending order, whatever their sizes. With
 * several tags they are received in sending order within each tag, in whatever order the receiver
 * asks for the tags. Arguments: messages per pair (600 if absent).
 */
#include "check.h"

enum {
    TAGS = 7
};

static int messages = 600;

static uint64_t key_from(int sender, int receiver, int tag, int number)
{
    return key_of(sender, tag, mixed_size((uint64_t) number),
                  (uint64_t) number * 100 + (uint64_t) receiver);
}

static int tag_of(int number)
{
    return (int) (mix((uint64_t) number) % TAGS);
}

/* Starts the sends of all messages to every other rank, with one tag or with tag_of. */
static MPI_Request *send_all(unsigned char **storage, bool tags, size_t *count)
{
    size_t whole = 0;
    for (int i = 0; i < messages; ++i) {
        whole += mixed_size((uint64_t) i);
    }
    *count = (size_t) messages * (size_t) (check_ranks - 1);
    unsigned char *at = *storage = malloc(whole * (size_t) (check_ranks - 1) + 1);
    MPI_Request *requests = malloc(*count * sizeof *requests), *request = requests;
    CHECK(at != NULL && requests != NULL, "no memory");
    for (int i = 0; i < messages; ++i) {
        for (int peer = 0; peer < check_ranks; ++peer) {
            if (peer == check_rank) {
                continue;
            }
            size_t bytes = mixed_size((uint64_t) i);
            int tag = tags ? tag_of(i) : 5;
            fill(at, bytes, key_from(check_rank, peer, tag, i));
            MPI_Isend(at, (int) bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, request++);
            at += bytes;
        }
    }
    return requests;
}

static void receive(unsigned char *buffer, int peer, int tag, int number)
{
    char what[80];
    MPI_Status status;
    size_t bytes = mixed_size((uint64_t) number);
    snprintf(what, sizeof what, "message %d of rank %d, tag %d", number, peer, tag);
    MPI_Recv(buffer, 300000, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status);
    CHECK_STATUS(&status, peer, tag, bytes, what);
    CHECK_BYTES(buffer, bytes, key_from(peer, check_rank, tag, number), what);
}

static void one_tag(unsigned char *buffer)
{
    unsigned char *storage;
    size_t count;
    MPI_Request *requests = send_all(&storage, false, &count);
    for (int i = 0; i < messages; ++i) {
        for (int peer = 0; peer < check_ranks; ++peer) {
            if (peer != check_rank) {
                receive(buffer, peer, 5, i);
            }
        }
    }
    MPI_Waitall((int) count, requests, MPI_STATUSES_IGNORE);
    free(requests);
    free(storage);
}

static void posted_before(void)
{
    /* Posts all receives first, so that each message matches when it arrives. */
    enum {
        COUNT = 64
    };
    unsigned char *storage, *in[COUNT];
    MPI_Request posted[COUNT], *requests;
    size_t count;
    int kept = messages, peer = (check_rank - 1 + check_ranks) % check_ranks;
    messages = COUNT;
    for (int i = 0; i < COUNT; ++i) {
        in[i] = guarded_new(mixed_size((uint64_t) i), 0);
        MPI_Irecv(in[i], (int) mixed_size((uint64_t) i), MPI_BYTE, peer, 5, MPI_COMM_WORLD,
                  &posted[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    requests = send_all(&storage, false, &count);
    for (int i = 0; i < COUNT; ++i) {
        MPI_Status status;
        MPI_Wait(&posted[i], &status);
        CHECK_STATUS(&status, peer, 5, mixed_size((uint64_t) i), "posted before");
        CHECK_BYTES(in[i], mixed_size((uint64_t) i), key_from(peer, check_rank, 5, i),
                    "posted before");
        CHECK_GUARD(in[i], mixed_size((uint64_t) i), "posted before");
        guarded_free(in[i], 0);
    }
    unsigned char *rest = malloc(300000);
    for (int other = 0; other < check_ranks; ++other) {
        for (int i = 0; i < COUNT && other != check_rank && other != peer; ++i) {
            receive(rest, other, 5, i);
        }
    }
    MPI_Waitall((int) count, requests, MPI_STATUSES_IGNORE);
    free(rest);
    free(requests);
    free(storage);
    messages = kept;
}

static void interleaved_tags(unsigned char *buffer)
{
    unsigned char *storage;
    size_t count;
    MPI_Request *requests = send_all(&storage, true, &count);
    for (int tag = TAGS - 1; tag >= 0; --tag) {
        for (int peer = check_ranks - 1; peer >= 0; --peer) {
            for (int i = 0; i < messages && peer != check_rank; ++i) {
                if (tag_of(i) == tag) {
                    receive(buffer, peer, tag, i);
                }
            }
        }
    }
    MPI_Waitall((int) count, requests, MPI_STATUSES_IGNORE);
    free(requests);
    free(storage);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "ordering", 2);
    messages = argc > 1 ? atoi(argv[1]) : messages;
    unsigned char *buffer = malloc(300000);
    one_tag(buffer);
    posted_before();
    interleaved_tags(buffer);
    one_tag(buffer);
    free(buffer);
    check_end();
    return 0;
}
