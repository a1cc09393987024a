// SPDX-License-Identifier: BSD-3-Clause
/*
 * Requests that a test ends itself (wait_stand_in.h).
 */
#include "unit/mtl/wait_stand_in.h"

#include "ompi_config.h"

#include <sched.h>
#include <string.h>

#include "ompi/request/request.h"
#include "opal/runtime/opal_progress.h"

#include "ompi/mca/mtl/adaptib/mtl_adaptib_wait.h"

static ompi_request_t requests[WAIT_REQUESTS];

/* In the place of Open MPI's, which needs its event loop. */
#if OMPI_MAJOR_VERSION < 5
void opal_progress(void)
{
    sched_yield();
}
#else
int opal_progress(void)
{
    sched_yield();
    return 0;
}
#endif

void wait_stand_in_open(void)
{
    (void) opal_set_using_threads(true);
    ompi_mtl_adaptib_wait_open();
    memset(requests, 0, sizeof(requests));
}

void wait_stand_in_close(void)
{
    ompi_mtl_adaptib_wait_close();
    (void) opal_set_using_threads(false);
}

void wait_stand_in_start(void)
{
    for (int i = 0; i < WAIT_REQUESTS; ++i) {
        OMPI_REQUEST_INIT(&requests[i], true);
        requests[i].req_type = OMPI_REQUEST_PML;
        requests[i].req_complete = REQUEST_PENDING;
        requests[i].req_state = OMPI_REQUEST_ACTIVE;
        requests[i].req_status.MPI_ERROR = MPI_SUCCESS;
    }
}

static bool was_complete(int request)
{
    return request >= 0 && request < WAIT_REQUESTS
           && REQUEST_COMPLETED == requests[request].req_complete
           && OMPI_REQUEST_INACTIVE == requests[request].req_state;
}

bool wait_stand_in_wait(wait_for_t what)
{
    ompi_request_t *all[WAIT_REQUESTS];
    int index = -1, count = -1, indices[WAIT_REQUESTS];
    bool good = true;

    for (int i = 0; i < WAIT_REQUESTS; ++i) {
        all[i] = &requests[i];
    }
    switch (what) {
    case WAIT_FOR_ALL:
        return MPI_SUCCESS
               == ompi_request_functions.req_wait_all(WAIT_REQUESTS, all, MPI_STATUSES_IGNORE);
    case WAIT_FOR_ANY:
        return MPI_SUCCESS
                   == ompi_request_functions.req_wait_any(WAIT_REQUESTS, all, &index,
                                                          MPI_STATUS_IGNORE)
               && was_complete(index);
    default:
        good = MPI_SUCCESS
                   == ompi_request_functions.req_wait_some(WAIT_REQUESTS, all, &count, indices,
                                                           MPI_STATUSES_IGNORE)
               && count > 0;
        for (int i = 0; i < count; ++i) {
            good = good && was_complete(indices[i]);
        }
        return good;
    }
}

bool wait_stand_in_slept_for(int request)
{
    void *const *complete = (void *const *) &requests[request].req_complete;
    const void *there = __atomic_load_n(complete, __ATOMIC_ACQUIRE);

    return REQUEST_PENDING != there && REQUEST_COMPLETED != there;
}

void *wait_stand_in_end(int request)
{
    void **complete = (void **) &requests[request].req_complete;
    void *there = __atomic_exchange_n(complete, REQUEST_COMPLETED, __ATOMIC_ACQ_REL);

    return REQUEST_PENDING == there ? NULL : there;
}

void wait_stand_in_tell(void *condition, bool failed)
{
    wait_sync_update(condition, 1, failed ? MPI_ERR_OTHER : MPI_SUCCESS);
}
