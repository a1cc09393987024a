// SPDX-License-Identifier: BSD-3-Clause
/*
 * Waits and tests. MPI_ERROR of a status is defined only if the call returned MPI_ERR_IN_STATUS.
 */
#include "mpi_fuzz/fuzz.h"

typedef enum {
    WAIT,
    WAITALL,
    WAITANY,
    WAITSOME,
    TEST,
    TESTALL,
    TESTANY,
    TESTSOME,
    GET_STATUS,
    COMPLETIONS
} way;

static const char *const names[] = {"wait",    "waitall", "waitany",  "waitsome",  "test",
                                    "testall", "testany", "testsome", "get_status"};

static void all(bool test, MPI_Request *requests, int count, MPI_Status *statuses, int *errors)
{
    int code, done = 1;
    do {
        code = test ? MPI_Testall(count, requests, &done, statuses)
                    : MPI_Waitall(count, requests, statuses);
    } while (code == MPI_SUCCESS && !done);
    for (int i = 0; i < count; ++i) {
        errors[i] = code == MPI_ERR_IN_STATUS ? statuses[i].MPI_ERROR : code;
        /* An operation that was pending when another one failed */
        if (errors[i] == MPI_ERR_PENDING) {
            errors[i] = MPI_Wait(&requests[i], &statuses[i]);
        }
    }
}

static void any(bool test, MPI_Request *requests, int count, MPI_Status *statuses, int *errors)
{
    for (int left = count; left > 0;) {
        int index = MPI_UNDEFINED, done = 1, code;
        MPI_Status status;
        code = test ? MPI_Testany(count, requests, &index, &done, &status)
                    : MPI_Waitany(count, requests, &index, &status);
        if (done && index == MPI_UNDEFINED) {
            return;
        }
        if (done) {
            statuses[index] = status;
            errors[index] = code;
            --left;
        }
    }
}

static void some(bool test, MPI_Request *requests, int count, MPI_Status *statuses, int *errors)
{
    int indices[count + 1], done = 0;
    MPI_Status got[count + 1];
    for (int left = count; left > 0; left -= done) {
        int code = test ? MPI_Testsome(count, requests, &done, indices, got)
                        : MPI_Waitsome(count, requests, &done, indices, got);
        if (done == MPI_UNDEFINED) {
            return;
        }
        for (int i = 0; i < done; ++i) {
            statuses[indices[i]] = got[i];
            errors[indices[i]] = code == MPI_ERR_IN_STATUS ? got[i].MPI_ERROR : code;
        }
    }
}

static void each(way how, MPI_Request *requests, int count, MPI_Status *statuses, int *errors)
{
    for (int i = 0; i < count; ++i) {
        int done = 0;
        while (how == GET_STATUS && !done) {
            MPI_Request_get_status(requests[i], &done, MPI_STATUS_IGNORE);
        }
        for (done = 0; how == TEST && !done;) {
            errors[i] = MPI_Test(&requests[i], &done, &statuses[i]);
        }
        if (how != TEST) {
            errors[i] = MPI_Wait(&requests[i], &statuses[i]);
        }
    }
}

static void finish(const step *s, way how, MPI_Request *requests, int count, MPI_Status *statuses,
                   int *errors)
{
    bool test = how >= TEST;
    log_words(s, "%s of %d requests", names[how], count);
    canary_flush();
    for (int i = 0; i < count; ++i) {
        errors[i] = MPI_SUCCESS;
        memset(&statuses[i], 0, sizeof statuses[i]);
    }
    switch (how) {
    case WAITALL:
    case TESTALL:
        all(test, requests, count, statuses, errors);
        break;
    case WAITANY:
    case TESTANY:
        any(test, requests, count, statuses, errors);
        break;
    case WAITSOME:
    case TESTSOME:
        some(test, requests, count, statuses, errors);
        break;
    default:
        each(how, requests, count, statuses, errors);
    }
    for (int i = 0; i < count; ++i) {
        errors[i] = error_class(errors[i]);
    }
}

void complete(const step *s, MPI_Request *requests, int count, MPI_Status *statuses, int *errors,
              bool failing, uint64_t *random)
{
    static const way safe[] = {WAIT, TEST, TESTALL, GET_STATUS, WAITALL};
    /* With threads, what MPI_Waitall leaves pending may end, with an error, before it is freed. */
    bool no_waitall = fuzz_omits & WAITALL_CUT || s->lane > 0;
    way how = failing ? safe[below(random, no_waitall ? 4 : 5)] : (way) below(random, COMPLETIONS);
    finish(s, how, requests, count, statuses, errors);
    for (int i = 0; i < count; ++i) {
        if (requests[i] != MPI_REQUEST_NULL) {
            log_result(s, "request %d is not null", i);
        }
    }
}

void complete_started(const step *s, MPI_Request *requests, int count, MPI_Status *statuses,
                      int *errors, uint64_t *random)
{
    finish(s, (way) below(random, COMPLETIONS), requests, count, statuses, errors);
}
