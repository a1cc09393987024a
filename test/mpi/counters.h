// SPDX-License-Identifier: BSD-3-Clause
/*
 * Reads adaptib's counters, which are performance variables of MPI_T. A handle of MPI_T counts from
 * its beginning, so it has to be there before what it counts.
 *
 * Threads: one at a time. May touch: check.h.
 */
#ifndef ADAPTIB_TEST_MPI_COUNTERS_H
#define ADAPTIB_TEST_MPI_COUNTERS_H

#include "check.h"

enum {
    COUNTER_MOST = 2 /* one of each component */
};

typedef struct {
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handles[COUNTER_MOST];
    int count;
} counter_t;

/* Adds a handle of the variable if its name is that of adaptib's counter. */
__attribute__((unused)) static void counter_add(counter_t *counter, int index, const char *counted)
{
    char name[256] = "", wanted[2][256];
    int length = sizeof name, verbosity, class, bind, read_only, continuous, atomic, elements = 0;
    MPI_Datatype type;
    MPI_T_enum values;

    snprintf(wanted[0], sizeof wanted[0], "mtl_adaptib_%s", counted);
    snprintf(wanted[1], sizeof wanted[1], "btl_adaptib_%s", counted);
    if (MPI_T_pvar_get_info(index, name, &length, &verbosity, &class, &type, &values, NULL, NULL,
                            &bind, &read_only, &continuous, &atomic)
            != MPI_SUCCESS
        || (strcmp(name, wanted[0]) != 0 && strcmp(name, wanted[1]) != 0)) {
        return;
    }
    CHECK(counter->count < COUNTER_MOST, "%s is there more than once", name);
    CHECK(MPI_T_pvar_handle_alloc(counter->session, index, NULL,
                                  &counter->handles[counter->count++], &elements)
              == MPI_SUCCESS,
          "handle of %s", name);
    CHECK(elements == 1, "%s has %d elements", name, elements);
    MPI_T_pvar_start(counter->session, counter->handles[counter->count - 1]);
}

/* Begins to count. REQUIRES: MPI_T_init_thread. */
__attribute__((unused)) static counter_t counter_begin(const char *counted)
{
    counter_t counter = {.count = 0};
    int variables = 0;

    CHECK(MPI_T_pvar_session_create(&counter.session) == MPI_SUCCESS, "session");
    MPI_T_pvar_get_num(&variables);
    for (int i = 0; i < variables; ++i) {
        counter_add(&counter, i, counted);
    }
    CHECK(counter.count > 0, "there is no counter %s", counted);
    return counter;
}

/* Returns what was counted since the beginning: the larger value if both components count. */
__attribute__((unused)) static unsigned long long counter_now(const counter_t *counter)
{
    unsigned long long most = 0;

    for (int i = 0; i < counter->count; ++i) {
        unsigned long long value = 0;
        CHECK(MPI_T_pvar_read(counter->session, counter->handles[i], &value) == MPI_SUCCESS,
              "a counter cannot be read");
        most = value > most ? value : most;
    }
    return most;
}

__attribute__((unused)) static void counter_end(counter_t *counter)
{
    for (int i = 0; i < counter->count; ++i) {
        MPI_T_pvar_handle_free(counter->session, &counter->handles[i]);
    }
    MPI_T_pvar_session_free(&counter->session);
}

#endif /* ADAPTIB_TEST_MPI_COUNTERS_H */
