// SPDX-License-Identifier: BSD-3-Clause
/*
 * The MPI_T interface begins and ends several times before MPI_Init: each time Open MPI forgets all
 * parameters, and components register them again. Then messages go around the ranks both ways.
 */
#include "check.h"

static void look_at_parameters(void)
{
    int provided = 0, count = 0;
    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS, "MPI_T_init_thread");
    CHECK(MPI_T_cvar_get_num(&count) == MPI_SUCCESS && count > 0, "%d control variables", count);
    CHECK(MPI_T_finalize() == MPI_SUCCESS, "MPI_T_finalize");
}

int main(int argc, char **argv)
{
    for (int times = 0; times < 4; ++times) {
        look_at_parameters();
    }
    check_begin(&argc, &argv, "tool_first", 2);
    const int next = (check_rank + 1) % check_ranks;
    const int before = (check_rank + check_ranks - 1) % check_ranks;
    int sent = check_rank, got = -1;
    MPI_Sendrecv(&sent, 1, MPI_INT, next, 1, &got, 1, MPI_INT, before, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    CHECK(got == before, "%d instead of %d", got, before);
    check_end();
    return 0;
}
