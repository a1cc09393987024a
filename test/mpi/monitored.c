// SPDX-License-Identifier: BSD-3-Clause
/*
 * Open MPI's pml/monitoring, which puts itself before the PML, counts every message. Open MPI loads
 * it if the parameter `pml` names it, or names only components to exclude.
 */
#include "check.h"

#include <unistd.h>

enum {
    MESSAGES = 100,
    ROOM = 256
};

static char directory[] = "/tmp/adaptib-monitored-XXXXXX";

static bool can_count(void)
{
    int index, provided, rc;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    rc = MPI_T_cvar_get_index("pml_monitoring_enable", &index);
    MPI_T_finalize();
    return rc == MPI_SUCCESS;
}

static void ask_for_counts(void)
{
    char prefix[ROOM];
    CHECK(mkdtemp(directory) != NULL, "no directory %s", directory);
    snprintf(prefix, sizeof prefix, "%s/counts", directory);
    /* 2: counts users' messages apart from Open MPI's own. */
    setenv("OMPI_MCA_pml_monitoring_enable", "2", 1);
    setenv("OMPI_MCA_pml_monitoring_enable_output", "3", 1);
    setenv("OMPI_MCA_pml_monitoring_filename", prefix, 1);
}

/* Reads the number of messages from the report that MPI_Finalize writes; its lines are:
 * E <from> <to> <bytes> bytes <messages> msgs sent ... */
static long counted(int to)
{
    char path[ROOM], line[4096];
    long messages = -1, bytes;
    int sender, receiver;
    snprintf(path, sizeof path, "%s/counts.%d.prof", directory, check_rank);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fprintf(stderr, "FAILED monitored, rank %d: no report in %s\n", check_rank, path);
        return -1;
    }
    while (messages < 0 && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "E %d %d %ld bytes %ld msgs", &sender, &receiver, &bytes, &messages) != 4
            || sender != check_rank || receiver != to) {
            messages = -1;
        }
    }
    fclose(file);
    unlink(path);
    rmdir(directory);
    return messages;
}

int main(int argc, char **argv)
{
    if (!can_count()) {
        printf("no pml/monitoring\n");
        return CHECK_SKIPPED;
    }
    ask_for_counts();
    check_begin(&argc, &argv, "monitored", 2);
    const int to = (check_rank + 1) % check_ranks;
    const int from = (check_rank - 1 + check_ranks) % check_ranks;
    for (int i = 0; i < MESSAGES; ++i) {
        int value = -1;
        MPI_Request request, sent = MPI_REQUEST_NULL;
        MPI_Irecv(&value, 1, MPI_INT, from, 1, MPI_COMM_WORLD, &request);
        if (i % 2 == 0) {
            MPI_Send(&i, 1, MPI_INT, to, 1, MPI_COMM_WORLD);
        } else {
            MPI_Isend(&i, 1, MPI_INT, to, 1, MPI_COMM_WORLD, &sent);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
        CHECK(value == i, "message %d is %d", i, value);
    }
    MPI_Finalize();
    const long messages = counted(to);
    if (messages != MESSAGES) {
        fprintf(stderr, "FAILED monitored, rank %d: %ld messages counted of %d\n", check_rank,
                messages, MESSAGES);
        return 1;
    }
    if (check_rank == 0) {
        printf("monitored: ok\n");
    }
    return 0;
}
