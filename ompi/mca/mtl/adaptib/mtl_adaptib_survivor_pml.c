// SPDX-License-Identifier: BSD-3-Clause
/*
 * The PML of a job that survives failed processes: the entries that replace those of pml/cm
 * (mtl_adaptib_survivor.h).
 */
#include "ompi_config.h"

#include <string.h>

#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/pml/base/base.h"

#include "mtl_adaptib_buffered.h"
#include "mtl_adaptib_survivor.h"
#include "mtl_adaptib_wait.h"

#if OPAL_ENABLE_FT_MPI

static mca_pml_base_module_t original;
static bool installed = false;

/* Starts a request, or, if that fails, frees it. */
static int start(mtl_adaptib_survivor_t *request, ompi_request_t **out)
{
    ompi_request_t *ours = &request->super.req_ompi;
    const int rc = ompi_mtl_adaptib_survivor_start(request);

    if (OMPI_SUCCESS != rc) {
        (void) ours->req_free(&ours);
        return rc;
    }
    *out = ours;
    return OMPI_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------
 * Sends */

static int survivor_isend(const void *buf, size_t count, ompi_datatype_t *datatype, int dst,
                          int tag, mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                          ompi_request_t **request)
{
    const mtl_adaptib_message_t message = {(void *) buf, count, datatype, dst, tag, comm};
    mtl_adaptib_survivor_t *send;

    if (MCA_PML_BASE_SEND_BUFFERED == mode) {
        *request = &ompi_request_empty;
        return ompi_mtl_adaptib_bsend(buf, count, datatype, dst, tag, comm);
    }
    send = ompi_mtl_adaptib_survivor_new(MCA_PML_REQUEST_SEND, &message, mode, false);
    return NULL != send ? start(send, request) : OMPI_ERR_OUT_OF_RESOURCE;
}

static int survivor_send(const void *buf, size_t count, ompi_datatype_t *datatype, int dst, int tag,
                         mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    ompi_request_t *request;
    const int rc = survivor_isend(buf, count, datatype, dst, tag, mode, comm, &request);

    if (OMPI_SUCCESS != rc || &ompi_request_empty == request) {
        return rc;
    }
    return ompi_mtl_adaptib_survivor_finish((mtl_adaptib_survivor_t *) request, MPI_STATUS_IGNORE);
}

static int survivor_isend_init(const void *buf, size_t count, ompi_datatype_t *datatype, int dst,
                               int tag, mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                               ompi_request_t **request)
{
    const mtl_adaptib_message_t message = {(void *) buf, count, datatype, dst, tag, comm};
    mtl_adaptib_survivor_t *send;

    if (MCA_PML_BASE_SEND_BUFFERED == mode) {
        return ompi_mtl_adaptib_bsend_init(buf, count, datatype, dst, tag, comm, request);
    }
    send = ompi_mtl_adaptib_survivor_new(MCA_PML_REQUEST_SEND, &message, mode, true);
    *request = (ompi_request_t *) send;
    return NULL != send ? OMPI_SUCCESS : OMPI_ERR_OUT_OF_RESOURCE;
}

/* ------------------------------------------------------------------------------------------------
 * Receives */

static mtl_adaptib_survivor_t *new_receive(const mtl_adaptib_message_t *message, bool persistent)
{
    return ompi_mtl_adaptib_survivor_new(MCA_PML_REQUEST_RECV, message, MCA_PML_BASE_SEND_STANDARD,
                                         persistent);
}

static int survivor_irecv(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                          ompi_communicator_t *comm, ompi_request_t **request)
{
    const mtl_adaptib_message_t message = {buf, count, datatype, src, tag, comm};
    mtl_adaptib_survivor_t *receive = new_receive(&message, false);

    return NULL != receive ? start(receive, request) : OMPI_ERR_OUT_OF_RESOURCE;
}

static int survivor_recv(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                         ompi_communicator_t *comm, ompi_status_public_t *status)
{
    ompi_request_t *request;
    const int rc = survivor_irecv(buf, count, datatype, src, tag, comm, &request);

    return OMPI_SUCCESS == rc
               ? ompi_mtl_adaptib_survivor_finish((mtl_adaptib_survivor_t *) request, status)
               : rc;
}

static int survivor_irecv_init(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                               ompi_communicator_t *comm, ompi_request_t **request)
{
    const mtl_adaptib_message_t message = {buf, count, datatype, src, tag, comm};

    *request = (ompi_request_t *) new_receive(&message, true);
    return NULL != *request ? OMPI_SUCCESS : OMPI_ERR_OUT_OF_RESOURCE;
}

/* Collectives of Open MPI start their persistent requests by this entry, and then wait for all.
 * That of pml/cm would take them for its own and start none. */
static int survivor_start(size_t count, ompi_request_t **requests)
{
    int error = OMPI_SUCCESS;

    for (size_t i = 0; i < count; ++i) {
        if (NULL != requests[i] && OMPI_REQUEST_PML == requests[i]->req_type) {
            const int rc = requests[i]->req_start(1, &requests[i]);
            error = OMPI_SUCCESS == error ? rc : error;
        }
    }
    return error;
}

/* The tag does not matter any more, but must not be one of Open MPI's own. */
static int survivor_imrecv(void *buf, size_t count, ompi_datatype_t *datatype,
                           ompi_message_t **matched, ompi_request_t **request)
{
    const mtl_adaptib_message_t message = {buf, count,           datatype, (*matched)->peer,
                                           0,   (*matched)->comm};
    mtl_adaptib_survivor_t *receive = new_receive(&message, false);
    int rc;

    if (NULL == receive) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    *request = &receive->super.req_ompi;
    rc = ompi_mtl_adaptib_survivor_start_matched(receive, matched);
    if (OMPI_SUCCESS != rc) {
        (void) receive->super.req_ompi.req_free(request);
    }
    return rc;
}

static int survivor_mrecv(void *buf, size_t count, ompi_datatype_t *datatype,
                          ompi_message_t **matched, ompi_status_public_t *status)
{
    ompi_request_t *request;
    const int rc = survivor_imrecv(buf, count, datatype, matched, &request);

    return OMPI_SUCCESS == rc
               ? ompi_mtl_adaptib_survivor_finish((mtl_adaptib_survivor_t *) request, status)
               : rc;
}

/* ------------------------------------------------------------------------------------------------
 * Probes: what was found counts more than a failure. */

static int unless_failed(int rc, int found, int src, ompi_communicator_t *comm)
{
    if (OMPI_ERR_UNREACH == rc) {
        ompi_mtl_adaptib_survivors_lost(comm, src);
        rc = MPI_ERR_PROC_FAILED;
    }
    if (!found && OMPI_SUCCESS == rc) {
        (void) ompi_comm_iface_p2p_check_proc(comm, src, &rc);
    }
    return rc;
}

static int survivor_iprobe(int src, int tag, ompi_communicator_t *comm, int *found,
                           ompi_status_public_t *status)
{
    const int rc = original.pml_iprobe(src, tag, comm, found, status);

    return unless_failed(rc, *found, src, comm);
}

static int survivor_probe(int src, int tag, ompi_communicator_t *comm, ompi_status_public_t *status)
{
    int found = 0;
    int rc = OMPI_SUCCESS;

    while (OMPI_SUCCESS == rc && !found) {
        rc = survivor_iprobe(src, tag, comm, &found, status);
    }
    return rc;
}

static int survivor_improbe(int src, int tag, ompi_communicator_t *comm, int *found,
                            ompi_message_t **message, ompi_status_public_t *status)
{
    const int rc = original.pml_improbe(src, tag, comm, found, message, status);

    return unless_failed(rc, *found, src, comm);
}

static int survivor_mprobe(int src, int tag, ompi_communicator_t *comm, ompi_message_t **message,
                           ompi_status_public_t *status)
{
    int found = 0;
    int rc = OMPI_SUCCESS;

    while (OMPI_SUCCESS == rc && !found) {
        rc = survivor_improbe(src, tag, comm, &found, message, status);
    }
    return rc;
}

/* ------------------------------------------------------------------------------------------------
 * Revoked communicators */

/* Sets the marks that Open MPI looks at; requests under way end when they are looked at. */
static int revoke_comm(ompi_communicator_t *comm, bool coll_only)
{
    comm->coll_revoked = true;
    if (!coll_only) {
        comm->comm_revoked = true;
        ompi_mtl_adaptib_survivors_drain(comm);
    }
    return OMPI_SUCCESS;
}

static void drain_endpoint(opal_common_adaptib_core_t *endpoint, ompi_communicator_t *comm, int tag)
{
    const opal_common_adaptib_envelope_t envelope =
        ompi_mtl_adaptib_wanted(comm, MPI_ANY_SOURCE, tag);
    opal_common_adaptib_message_t *message = NULL;
    opal_common_adaptib_probe_t found;

    while (OPAL_COMMON_ADAPTIB_SUCCESS
           == opal_common_adaptib_matched_probe(endpoint, NULL, &envelope, &found, &message)) {
        ompi_mtl_adaptib_survivors_discard(endpoint, message);
    }
}

/* REQUIRES: messages with the tag are not spread over endpoints. */
static void drain_tag(ompi_communicator_t *comm, int tag)
{
    mtl_adaptib_way_t way;

    if (OMPI_SUCCESS == ompi_mtl_adaptib_way_from(comm, MPI_ANY_SOURCE, tag, &way)) {
        drain_endpoint(way.core, comm, tag);
    }
}

/* Drains the program's own messages. */
static void drain_any_tag(ompi_communicator_t *comm)
{
    if (!ompi_mtl_adaptib_is_spread(comm)) {
        drain_tag(comm, MPI_ANY_TAG);
        return;
    }
    for (uint32_t index = 0; index < ompi_mtl_adaptib.endpoints; ++index) {
        drain_endpoint(opal_common_adaptib_endpoint(ompi_mtl_adaptib.core, index), comm,
                       MPI_ANY_TAG);
    }
}

void ompi_mtl_adaptib_survivors_drain(ompi_communicator_t *comm)
{
    if (!installed) {
        return;
    }
    drain_any_tag(comm);
    for (int tag = MCA_COLL_BASE_TAG_BLOCKING_BASE; tag >= MCA_COLL_BASE_TAG_BLOCKING_END; --tag) {
        drain_tag(comm, tag);
    }
    for (int tag = MCA_COLL_BASE_TAG_NONBLOCKING_BASE; tag >= comm->c_nbc_tag; --tag) {
        drain_tag(comm, tag);
    }
}

/* ------------------------------------------------------------------------------------------------
 * The table */

void ompi_mtl_adaptib_survivors_install(void)
{
    if (installed || !ompi_mtl_adaptib_survives_failures()
        || 0 != strcmp(mca_pml_base_selected_component.pmlm_version.mca_component_name, "cm")) {
        return;
    }
    ompi_mtl_adaptib_survivors_open();
    original = mca_pml;
    mca_pml.pml_isend = survivor_isend;
    mca_pml.pml_send = survivor_send;
    mca_pml.pml_isend_init = survivor_isend_init;
    mca_pml.pml_irecv = survivor_irecv;
    mca_pml.pml_recv = survivor_recv;
    mca_pml.pml_irecv_init = survivor_irecv_init;
    mca_pml.pml_start = survivor_start;
    mca_pml.pml_imrecv = survivor_imrecv;
    mca_pml.pml_mrecv = survivor_mrecv;
    mca_pml.pml_iprobe = survivor_iprobe;
    mca_pml.pml_probe = survivor_probe;
    mca_pml.pml_improbe = survivor_improbe;
    mca_pml.pml_mprobe = survivor_mprobe;
    mca_pml.pml_revoke_comm = revoke_comm;
    installed = true;
}

void ompi_mtl_adaptib_survivors_remove(void)
{
    if (installed) {
        mca_pml = original;
        ompi_mtl_adaptib_survivors_close();
        installed = false;
    }
}

#endif /* OPAL_ENABLE_FT_MPI */
