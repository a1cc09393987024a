// SPDX-License-Identifier: BSD-3-Clause
/*
 * MPI_Iprobe and MPI_Improbe (pml/cm builds the blocking ones from these).
 *
 * A program may do nothing but probe until its message arrives, so a probe that finds nothing makes
 * progress and looks once more.
 */
#include "ompi_config.h"

#include "ompi/message/message.h"
#include "opal/runtime/opal_progress.h"

#include "mtl_adaptib_way.h"

/* Leaves MPI_ERROR as it is: a call that returns one status must not change it (MPI-4.0, 3.2.5). */
static void set_status(struct ompi_status_public_t *status,
                       const opal_common_adaptib_probe_t *found)
{
    if (MPI_STATUS_IGNORE != status) {
        status->MPI_SOURCE = found->source;
        status->MPI_TAG = found->tag;
        status->_ucount = found->bytes;
        status->_cancelled = 0;
    }
}

int ompi_mtl_adaptib_iprobe(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm,
                            int src, int tag, int *flag, struct ompi_status_public_t *status)
{
    const opal_common_adaptib_envelope_t envelope = ompi_mtl_adaptib_wanted(comm, src, tag);
    mtl_adaptib_way_t way;
    opal_common_adaptib_probe_t found;
    int rc;

    (void) mtl;
    rc = ompi_mtl_adaptib_way_from(comm, src, tag, &way);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        return rc;
    }
    rc = opal_common_adaptib_probe(way.core, way.peer, &envelope, &found);
    if (OPAL_COMMON_ADAPTIB_NOT_FOUND == rc) {
        opal_progress();
        rc = opal_common_adaptib_probe(way.core, way.peer, &envelope, &found);
    }
    *flag = OPAL_COMMON_ADAPTIB_SUCCESS == rc;
    if (*flag) {
        set_status(status, &found);
    }
    return OPAL_COMMON_ADAPTIB_NOT_FOUND == rc ? OMPI_SUCCESS : opal_common_adaptib_mca_error(rc);
}

int ompi_mtl_adaptib_improbe(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm,
                             int src, int tag, int *matched, struct ompi_message_t **message,
                             struct ompi_status_public_t *status)
{
    const opal_common_adaptib_envelope_t envelope = ompi_mtl_adaptib_wanted(comm, src, tag);
    opal_common_adaptib_message_t *taken = NULL;
    mtl_adaptib_way_t way;
    opal_common_adaptib_probe_t found;
    ompi_message_t *handle;
    int rc;

    (void) mtl;
    *matched = 0;
    *message = MPI_MESSAGE_NULL;
    rc = ompi_mtl_adaptib_way_from(comm, src, tag, &way);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        return rc;
    }
    /* The handle is allocated first, since a message that was taken could not be put back. */
    handle = ompi_message_alloc();
    if (NULL == handle) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    rc = opal_common_adaptib_matched_probe(way.core, way.peer, &envelope, &found, &taken);
    if (OPAL_COMMON_ADAPTIB_NOT_FOUND == rc) {
        opal_progress();
        rc = opal_common_adaptib_matched_probe(way.core, way.peer, &envelope, &found, &taken);
    }
    if (OPAL_COMMON_ADAPTIB_SUCCESS != rc) {
        ompi_message_return(handle);
        return OPAL_COMMON_ADAPTIB_NOT_FOUND == rc ? OMPI_SUCCESS
                                                   : opal_common_adaptib_mca_error(rc);
    }
    handle->comm = comm;
    handle->req_ptr = ompi_mtl_adaptib_mark(taken, opal_common_adaptib_endpoint_index(way.core));
    handle->peer = found.source;
    handle->count = found.bytes;
    set_status(status, &found);
    *message = handle;
    *matched = 1;
    return OMPI_SUCCESS;
}
