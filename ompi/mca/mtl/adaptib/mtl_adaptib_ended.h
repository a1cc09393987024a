// SPDX-License-Identifier: BSD-3-Clause
/*
 * Ends of requests between threads: the thread that ends a request publishes all that it wrote, and
 * a thread that sees the end sees that, too. Open MPI's own look (REQUEST_COMPLETE) and its
 * completion order nothing, which processors other than x86 may take advantage of.
 */
#ifndef MTL_ADAPTIB_ENDED_H
#define MTL_ADAPTIB_ENDED_H

#include <stdbool.h>

#include "ompi/mca/mtl/mtl.h"
#include "ompi/request/request.h"

#include "opal/mca/common/adaptib/common_adaptib_order.h"

BEGIN_C_DECLS

/* Returns true if the request has ended. */
static inline bool ompi_mtl_adaptib_has_ended(ompi_request_t *request)
{
    void *const *complete = (void *const *) &request->req_complete;

    if (REQUEST_COMPLETED != __atomic_load_n(complete, __ATOMIC_ACQUIRE)) {
        return false;
    }
    OPAL_COMMON_ADAPTIB_SEEN(request);
    return true;
}

/* Tells pml/cm that its request has ended. */
static inline void ompi_mtl_adaptib_end(struct mca_mtl_request_t *request)
{
    OPAL_COMMON_ADAPTIB_PUBLISHED(request->ompi_req);
    opal_atomic_wmb();
    request->completion_callback(request);
}

/* A request of pml/cm that a thread starts may have been another thread's before. */
static inline void ompi_mtl_adaptib_begin(struct mca_mtl_request_t *request)
{
    OPAL_COMMON_ADAPTIB_SEEN(request->ompi_req);
}

END_C_DECLS

#endif /* MTL_ADAPTIB_ENDED_H */
