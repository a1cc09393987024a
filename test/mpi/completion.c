// SPDX-License-Identifier: BSD-3-Clause
/*
 * Waitany, Waitsome, Testany, Testsome, Testall, Waitall over mixes of sends and receives, of eager
 * and large messages, of finished, null and open requests. Each request completes once, with its
 * own status; none completes before it can.
 */
#include "check.h"

enum {
    COUNT = 40,
    ALL = 2 * COUNT,
    WAYS = 6
};

static unsigned char *out[COUNT], *in[COUNT];
static MPI_Request requests[ALL]; /* receives, then sends */
static bool done[ALL];
static int from, round_number;

static size_t bytes_of(int i)
{
    return mixed_size((uint64_t) (i + round_number));
}

static void completed(int i, const MPI_Status *status)
{
    CHECK(i >= 0 && i < ALL && !done[i], "request %d was completed twice or does not exist", i);
    CHECK(requests[i] == MPI_REQUEST_NULL, "completed request %d is still there", i);
    done[i] = true;
    if (i < COUNT) {
        CHECK_STATUS(status, from, i, bytes_of(i), "completed");
        CHECK_BYTES(in[i], bytes_of(i), key_of(from, i, bytes_of(i), (uint64_t) round_number),
                    "completed");
        CHECK_GUARD(in[i], bytes_of(i), "completed");
    }
}

static int some(bool wait)
{
    MPI_Status statuses[ALL];
    int indices[ALL], count = 0;
    if (wait) {
        MPI_Waitsome(ALL, requests, &count, indices, statuses);
        CHECK(count > 0, "Waitsome gave %d", count);
    } else {
        MPI_Testsome(ALL, requests, &count, indices, statuses);
        CHECK(count >= 0, "Testsome gave %d with requests open", count);
    }
    for (int i = 0; i < count; ++i) {
        completed(indices[i], &statuses[i]);
    }
    return count;
}

static int any(bool wait)
{
    MPI_Status status;
    int i = -1, flag = 1;
    if (wait) {
        MPI_Waitany(ALL, requests, &i, &status);
    } else {
        MPI_Testany(ALL, requests, &i, &flag, &status);
    }
    if (flag) {
        completed(i, &status);
    }
    return flag;
}

static int all(bool wait)
{
    MPI_Status statuses[ALL];
    bool open[ALL];
    int flag = 1, count = 0;
    for (int i = 0; i < ALL; ++i) {
        open[i] = requests[i] != MPI_REQUEST_NULL;
    }
    if (wait) {
        MPI_Waitall(ALL, requests, statuses);
    } else {
        MPI_Testall(ALL, requests, &flag, statuses);
    }
    for (int i = 0; i < ALL && flag; ++i) {
        if (open[i]) {
            completed(i, &statuses[i]);
            ++count;
        }
    }
    return count;
}

static void start_sends(int to)
{
    for (int i = COUNT - 1; i >= 0; --i) {
        fill(out[i], bytes_of(i), key_of(check_rank, i, bytes_of(i), (uint64_t) round_number));
        if (i % 4 == 1) {
            MPI_Issend(out[i], (int) bytes_of(i), MPI_BYTE, to, i, MPI_COMM_WORLD,
                       &requests[COUNT + i]);
        } else {
            MPI_Isend(out[i], (int) bytes_of(i), MPI_BYTE, to, i, MPI_COMM_WORLD,
                      &requests[COUNT + i]);
        }
    }
}

static void one_round(int way, int to)
{
    int left = ALL, flag = 1;
    memset(done, 0, sizeof done);
    for (int i = 0; i < COUNT; ++i) {
        out[i] = malloc(bytes_of(i) + 1);
        in[i] = guarded_new(bytes_of(i), 0);
        MPI_Irecv(in[i], (int) bytes_of(i), MPI_BYTE, i % 3 ? from : MPI_ANY_SOURCE, i,
                  MPI_COMM_WORLD, &requests[i]);
        requests[COUNT + i] = MPI_REQUEST_NULL;
    }
    MPI_Testall(COUNT, requests, &flag, MPI_STATUSES_IGNORE);
    CHECK(!flag, "Testall is true before anything was sent");
    MPI_Barrier(MPI_COMM_WORLD);
    start_sends(to);
    while (left > 0) {
        switch (way) {
        case 0:
        case 1:
            left -= some(way == 0);
            break;
        case 2:
        case 3:
            left -= any(way == 2);
            break;
        default:
            left -= all(way == 4);
            break;
        }
    }
    int count = 0, index = 0, indices[ALL];
    MPI_Waitsome(ALL, requests, &count, indices, MPI_STATUSES_IGNORE);
    MPI_Waitany(ALL, requests, &index, MPI_STATUS_IGNORE);
    CHECK(count == MPI_UNDEFINED && index == MPI_UNDEFINED,
          "null requests: Waitsome %d, Waitany %d", count, index);
    for (int i = 0; i < COUNT; ++i) {
        free(out[i]);
        guarded_free(in[i], 0);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* keeps this round's sends from receives of the next round */
}

/* MPI_Request_get_status does not free; MPI_Request_free does not cancel. */
static void status_and_free(int to)
{
    static int numbers[2];
    MPI_Request request, freed;
    MPI_Status status;
    int flag = 0, value = -1, second = -1;
    numbers[0] = check_rank + 500;
    numbers[1] = check_rank + 600;
    MPI_Irecv(&value, 1, MPI_INT, from, 1, MPI_COMM_WORLD, &request);
    MPI_Isend(&numbers[0], 1, MPI_INT, to, 1, MPI_COMM_WORLD, &freed);
    MPI_Request_free(&freed);
    MPI_Isend(&numbers[1], 1, MPI_INT, to, 2, MPI_COMM_WORLD, &freed);
    MPI_Request_free(&freed);
    while (!flag) {
        MPI_Request_get_status(request, &flag, &status);
    }
    CHECK(request != MPI_REQUEST_NULL && value == from + 500, "value %d, expected %d", value,
          from + 500);
    CHECK_STATUS(&status, from, 1, sizeof(int), "Request_get_status");
    MPI_Wait(&request, &status);
    CHECK_STATUS(&status, from, 1, sizeof(int), "Wait after Request_get_status");
    MPI_Recv(&second, 1, MPI_INT, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(second == from + 600, "value %d, expected %d", second, from + 600);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "completion", 2);
    int to = (check_rank + 1) % check_ranks;
    from = (check_rank - 1 + check_ranks) % check_ranks;
    for (round_number = 0; round_number < 10 * WAYS; ++round_number) {
        one_round(round_number % WAYS, to);
        status_and_free(to);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    check_end();
    return 0;
}
