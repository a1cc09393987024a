// SPDX-License-Identifier: BSD-3-Clause
/*
 * Waits of a process whose threads call MPI at the same time.
 *
 * Open MPI lets one of the threads that wait make progress and puts the others to sleep: each
 * message for one of these costs a wake-up, two calls of the system and a change of threads. So the
 * four waits of Open MPI's table of request functions are replaced: a thread first makes progress
 * by itself until what it waits for has ended, for at most ompi_mtl_adaptib_look_for; then Open
 * MPI's function takes over, which finds the requests complete, or sleeps.
 *
 * A wait for several sleeps in a function of this file, for two faults of Open MPI with any
 * transport. Its wait for all never returns in 4.1.4 if one of the requests has failed before the
 * call. Its waits for any or some (4.1.4, 5.0.7) have a condition on the stack, and may
 * return before a thread that ends another request has told it.
 *
 * In a process with one thread, Open MPI's functions are called at once.
 *
 * Threads. open and close are called while no thread communicates; the rest by any thread.
 *
 * May touch: Open MPI's headers.
 */
#ifndef MTL_ADAPTIB_WAIT_H
#define MTL_ADAPTIB_WAIT_H

#include "ompi_config.h"

#include "ompi/request/request.h"
#include "ompi/runtime/params.h"

#include "opal/mca/common/adaptib/common_adaptib_order.h"

BEGIN_C_DECLS

/* True if the job is to survive process failures: Open MPI then treats requests as
 * mca_pml_base_request_t. */
static inline bool ompi_mtl_adaptib_survives_failures(void)
{
#if OPAL_ENABLE_FT_MPI
    return ompi_ftmpi_enabled;
#else
    return false;
#endif
}

/* Replaces the waits, once, unless the job is to survive process failures. */
void ompi_mtl_adaptib_wait_open(void);
void ompi_mtl_adaptib_wait_close(void);

/* Makes progress until the request is complete, or for a while. */
void ompi_mtl_adaptib_look_for(ompi_request_t *request);

/* As ompi_request_wait_completion. */
static inline void ompi_mtl_adaptib_wait_completion(ompi_request_t *request)
{
    if (OPAL_UNLIKELY(opal_using_threads())) {
        ompi_mtl_adaptib_look_for(request);
    }
    ompi_request_wait_completion(request);
    OPAL_COMMON_ADAPTIB_SEEN(request);
}

END_C_DECLS

#endif /* MTL_ADAPTIB_WAIT_H */
