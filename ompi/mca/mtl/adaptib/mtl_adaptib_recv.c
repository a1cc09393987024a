// SPDX-License-Identifier: BSD-3-Clause
/*
 * MPI_Recv and its relatives, and the receive of a message that a matched probe took.
 */
#include "ompi_config.h"

#include "ompi/message/message.h"

#include "mtl_adaptib_request.h"

static void receive_complete(opal_common_adaptib_request_t *request)
{
    mca_mtl_adaptib_request_t *receive = ompi_mtl_adaptib_request_of(request);

    ompi_mtl_adaptib_received(&receive->super.ompi_req->req_status, request);
    if (OPAL_LIKELY(!ompi_mtl_adaptib.ending)) {
        ompi_mtl_adaptib_end(&receive->super);
    }
}

static void stream_receive_complete(opal_common_adaptib_request_t *request)
{
    ompi_mtl_adaptib_stream_end(&ompi_mtl_adaptib_request_of(request)->stream);
    receive_complete(request);
}

int ompi_mtl_adaptib_irecv(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm,
                           int src, int tag, struct opal_convertor_t *convertor,
                           struct mca_mtl_request_t *mtl_request)
{
    mca_mtl_adaptib_request_t *request = (mca_mtl_adaptib_request_t *) mtl_request;
    opal_common_adaptib_envelope_t envelope;
    mtl_adaptib_way_t way;
    opal_common_adaptib_data_t data;
    size_t bytes;
    int rc;

    (void) mtl;
    ompi_mtl_adaptib_begin(mtl_request);
    rc = ompi_mtl_adaptib_way_from(comm, src, tag, &way);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        return rc;
    }
    request->endpoint = way.core;
    opal_convertor_get_packed_size(convertor, &bytes);
    if (OPAL_LIKELY(0 == bytes || ompi_mtl_adaptib_is_contiguous(convertor))) {
        request->core.complete = receive_complete;
        rc = ompi_mtl_adaptib_recv_contig(
            comm, src, tag, &way,
            ompi_mtl_adaptib_base(convertor->pBaseBuf + convertor->pDesc->true_lb, bytes), bytes,
            &request->core);
        return ompi_mtl_adaptib_started(rc, request);
    }
    request->core.complete = stream_receive_complete;
    envelope = ompi_mtl_adaptib_wanted(comm, src, tag);
    ompi_mtl_adaptib_receive_data(&data, convertor, &request->stream);
    rc = opal_common_adaptib_receive(way.core, way.peer, &envelope, &data, &request->core);
    return ompi_mtl_adaptib_stream_started(rc, request);
}

int ompi_mtl_adaptib_imrecv(struct mca_mtl_base_module_t *mtl, struct opal_convertor_t *convertor,
                            struct ompi_message_t **message, struct mca_mtl_request_t *mtl_request)
{
    mca_mtl_adaptib_request_t *request = (mca_mtl_adaptib_request_t *) mtl_request;
    opal_common_adaptib_core_t *endpoint;
    opal_common_adaptib_message_t *taken = ompi_mtl_adaptib_taken((*message)->req_ptr, &endpoint);
    opal_common_adaptib_data_t data;
    int rc;

    (void) mtl;
    ompi_mtl_adaptib_begin(mtl_request);
    request->core.complete = stream_receive_complete;
    request->endpoint = endpoint;
    ompi_mtl_adaptib_receive_data(&data, convertor, &request->stream);
    rc = opal_common_adaptib_matched_receive(endpoint, taken, &data, &request->core);
    if (OPAL_LIKELY(rc >= 0)) {
        ompi_message_return(*message);
        *message = MPI_MESSAGE_NULL;
    }
    return ompi_mtl_adaptib_stream_started(rc, request);
}
