// SPDX-License-Identifier: BSD-3-Clause
/*
 * How long traffic stands still, and how fast it is, while something fails elsewhere: ranks 0 and 1
 * exchange messages, and each further rank owes rank 0 an answer meanwhile and computes. Every
 * hundredth message is long.
 * Arguments: seconds, the longest pause allowed (s; the first one begins where MPI_Init ends), the
 * rate needed in percent of that at the beginning (0: any). Once it knows that one, it makes the
 * file that ADAPTIB_TEST_READY names, if it is set.
 */
#include "check.h"

#include <time.h>

enum {
    SMALL = 8,
    LONG = 200000,
    WINDOWS_A_SECOND = 10,
    WINDOWS = 1000,
    SETTLED = 3, /* windows until connections are made */
    COMPARED = 7 /* windows that the later ones are compared with, before anything fails */
};

static int rates[WINDOWS];

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + 1e-9 * (double) time.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    return *(const int *) a - *(const int *) b;
}

static int median(int from, int to)
{
    int sorted[WINDOWS];
    memcpy(sorted, rates + from, (size_t) (to - from) * sizeof sorted[0]);
    qsort(sorted, (size_t) (to - from), sizeof sorted[0], by_size);
    return sorted[(to - from) / 2];
}

static void send_one(unsigned char *buffer, int to, size_t bytes, uint64_t turn)
{
    fill(buffer, bytes, key_of(check_rank, 1, bytes, turn));
    MPI_Send(buffer, (int) bytes, MPI_BYTE, to, 1, MPI_COMM_WORLD);
}

static void receive_one(unsigned char *buffer, int from, size_t bytes, uint64_t turn)
{
    MPI_Recv(buffer, (int) bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_BYTES(buffer, bytes, key_of(from, 1, bytes, turn), "exchange");
}

/* Says that the first rate is known. */
static void say_ready(void)
{
    const char *path = getenv("ADAPTIB_TEST_READY");
    FILE *file = path == NULL ? NULL : fopen(path, "w");
    if (file != NULL) {
        fclose(file);
    }
}

/* Rank 0 decides by its clock when the last turn is, and says so one turn ahead. */
static void exchange(double begun, double seconds, double longest)
{
    unsigned char *buffer = malloc(LONG);
    int other = 1 - check_rank, last = 0;
    double pause = 0, pause_at = 0, before = begun;
    bool ready = false;
    for (uint64_t turn = 0; !last; ++turn) {
        size_t bytes = turn % 100 == 0 ? LONG : SMALL;
        if (check_rank == 0) {
            double time = now();
            if (time - before > pause) {
                pause = time - before;
                pause_at = before - begun;
            }
            before = time;
            last = time - begun > seconds;
            MPI_Send(&last, 1, MPI_INT, other, 2, MPI_COMM_WORLD);
            send_one(buffer, other, bytes, turn);
            receive_one(buffer, other, bytes, turn);
            int window = (int) ((time - begun) * WINDOWS_A_SECOND);
            if (window >= SETTLED + COMPARED && !ready) {
                say_ready();
                ready = true;
            }
            rates[window < WINDOWS ? window : WINDOWS - 1]++;
        } else {
            MPI_Recv(&last, 1, MPI_INT, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            receive_one(buffer, other, bytes, turn);
            send_one(buffer, other, bytes, turn);
        }
    }
    free(buffer);
    if (check_rank == 0) {
        printf("longest pause %.3f s, after %.3f s; at most %.3f s allowed\n", pause, pause_at,
               longest);
        CHECK(pause <= longest, "traffic stood still for %.3f s, %.3f are allowed", pause, longest);
    }
}

static void check_rate(int seconds, int percent)
{
    int first = median(SETTLED, SETTLED + COMPARED);
    int later = median(SETTLED + COMPARED + 1, seconds * WINDOWS_A_SECOND);
    printf("round trips in %d ms: %d, then %d (%d %%)\n", 1000 / WINDOWS_A_SECOND, first, later,
           later * 100 / first);
    CHECK(later * 100 >= percent * first, "%d %% of the rate, at least %d are needed",
          later * 100 / first, percent);
}

/* The answers that the further ranks owe */
static void owe(int seconds)
{
    int question = 0;
    MPI_Recv(&question, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    struct timespec time = {seconds, 0};
    nanosleep(&time, NULL);
    unsigned char *answer = malloc(LONG);
    MPI_Recv(answer, LONG, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_BYTES(answer, LONG, key_of(0, 4, LONG, (uint64_t) check_rank), "debt");
    free(answer);
    MPI_Send(&question, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "pauses", 2);
    double begun = now();
    CHECK(argc == 4, "arguments: seconds, longest pause, percent of the rate");
    int seconds = atoi(argv[1]), owing = check_ranks - 2, percent = atoi(argv[3]);
    CHECK(seconds > 3 && seconds < WINDOWS / WINDOWS_A_SECOND, "4 to 99 seconds");
    if (check_rank > 1) {
        owe(seconds);
        check_end();
        return 0;
    }
    MPI_Request *requests = malloc(sizeof *requests * (size_t) (2 * owing + 1));
    unsigned char *debts = malloc((size_t) owing * LONG + 1);
    int *answers = malloc(sizeof *answers * (size_t) (owing + 1));
    int count = 0;
    for (int i = 0; check_rank == 0 && i < owing; ++i) {
        unsigned char *debt = debts + (size_t) i * LONG;
        fill(debt, LONG, key_of(0, 4, LONG, (uint64_t) (i + 2)));
        MPI_Send(&owing, 1, MPI_INT, i + 2, 3, MPI_COMM_WORLD);
        MPI_Isend(debt, LONG, MPI_BYTE, i + 2, 4, MPI_COMM_WORLD, &requests[count++]);
        MPI_Irecv(&answers[i], 1, MPI_INT, i + 2, 3, MPI_COMM_WORLD, &requests[count++]);
    }
    exchange(begun, seconds, atof(argv[2]));
    if (check_rank == 0 && percent != 0) {
        check_rate(seconds, percent);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    free(requests);
    free(debts);
    free(answers);
    check_end();
    return 0;
}
