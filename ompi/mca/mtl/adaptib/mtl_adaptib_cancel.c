// SPDX-License-Identifier: BSD-3-Clause
/*
 * MPI_Cancel: cancels a receive that is not matched yet; any other request completes as it would
 * have, which MPI allows.
 */
#include "ompi_config.h"

#include "mtl_adaptib_request.h"

int ompi_mtl_adaptib_cancel_request(struct ompi_request_t *request,
                                    opal_common_adaptib_core_t *endpoint,
                                    opal_common_adaptib_request_t *core)
{
    int rc;

    /* The core has forgotten a request that is complete. */
    if (ompi_mtl_adaptib_has_ended(request)) {
        return OMPI_SUCCESS;
    }
    rc = opal_common_adaptib_cancel(endpoint, core);
    if (OPAL_COMMON_ADAPTIB_SUCCESS == rc) {
        request->req_status._cancelled = true;
        core->complete(core);
        return OMPI_SUCCESS;
    }
    return OPAL_COMMON_ADAPTIB_NOT_FOUND == rc ? OMPI_SUCCESS : opal_common_adaptib_mca_error(rc);
}

int ompi_mtl_adaptib_cancel(struct mca_mtl_base_module_t *mtl, mca_mtl_request_t *mtl_request,
                            int flag)
{
    mca_mtl_adaptib_request_t *request = (mca_mtl_adaptib_request_t *) mtl_request;

    (void) mtl;
    (void) flag;
    /* A send has none, and cannot be cancelled. */
    if (NULL == request->endpoint) {
        return OMPI_SUCCESS;
    }
    return ompi_mtl_adaptib_cancel_request(mtl_request->ompi_req, request->endpoint,
                                           &request->core);
}
