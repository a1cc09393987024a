// SPDX-License-Identifier: BSD-3-Clause
/*
 * Buffered sends (mtl_adaptib_buffered.h).
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/pml/base/pml_base_bsend.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/request/request.h"

#include "mtl_adaptib_buffered.h"
#include "mtl_adaptib_request.h"

/* A message under way. */
typedef struct {
    opal_common_adaptib_request_t core;
    ompi_communicator_t *comm; /* retained: its number must not be reused before */
    void *packed;              /* in the program's buffer; NULL: no data */
} message_t;

typedef struct {
    ompi_request_t super;
    const void *buf;
    size_t count;
    ompi_datatype_t *datatype; /* retained, like the communicator */
    int dst;
    int tag;
} persistent_t;

/* After MPI_Finalize has begun, communicators and the program's buffer are gone. */
static void message_complete(opal_common_adaptib_request_t *request)
{
    message_t *message = (message_t *) request;

    if (!ompi_mtl_adaptib.ending) {
        if (NULL != message->packed) {
            (void) OPAL_COMMON_ADAPTIB_BSEND_GIVE(message->comm, message->packed);
        }
        OBJ_RELEASE(message->comm);
    }
    free(message);
}

static bool pack(void *to, size_t bytes, const void *buf, size_t count, ompi_datatype_t *datatype)
{
    struct iovec iov = {.iov_base = to, .iov_len = bytes};
    uint32_t iov_count = 1;
    size_t packed = bytes;
    opal_convertor_t convertor;

    if (opal_datatype_is_contiguous_memory_layout(&datatype->super, count)) {
        memcpy(to, (const char *) buf + datatype->super.true_lb, bytes);
        return true;
    }
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &datatype->super, count, buf,
                                             0, &convertor);
    (void) opal_convertor_pack(&convertor, &iov, &iov_count, &packed);
    OBJ_DESTRUCT(&convertor);
    return packed == bytes;
}

static message_t *message_make(size_t bytes, const void *buf, size_t count,
                               ompi_datatype_t *datatype, ompi_communicator_t *comm, int *error)
{
    message_t *message = malloc(sizeof(*message));

    *error = OMPI_ERR_OUT_OF_RESOURCE;
    if (NULL == message) {
        return NULL;
    }
    message->core.complete = message_complete;
    message->comm = comm;
    OBJ_RETAIN(comm);
    message->packed = bytes > 0 ? OPAL_COMMON_ADAPTIB_BSEND_TAKE(comm, bytes) : NULL;
    if (bytes > 0
        && (NULL == message->packed || !pack(message->packed, bytes, buf, count, datatype))) {
        *error = NULL == message->packed ? MPI_ERR_BUFFER : OMPI_ERROR;
        message_complete(&message->core);
        return NULL;
    }
    return message;
}

int ompi_mtl_adaptib_bsend(const void *buf, size_t count, ompi_datatype_t *datatype, int dst,
                           int tag, ompi_communicator_t *comm)
{
    const opal_common_adaptib_envelope_t envelope = {
        .context = ompi_mtl_adaptib_context(comm),
        .source = comm->c_my_rank,
        .tag = tag,
    };
    const size_t bytes = count * datatype->super.size;
    opal_common_adaptib_data_t data;
    mtl_adaptib_way_t way;
    message_t *message;
    int rc = ompi_mtl_adaptib_way_to(comm, dst, tag, &way);

    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    message = message_make(bytes, buf, count, datatype, comm, &rc);
    if (NULL == message) {
        return rc;
    }
    ompi_mtl_adaptib_contiguous(&data, message->packed, bytes);
    rc = opal_common_adaptib_send(way.core, way.peer, &envelope, &data,
                                  OPAL_COMMON_ADAPTIB_MODE_STANDARD,
                                  OPAL_COMMON_ADAPTIB_NON_BLOCKING, &message->core);
    if (OPAL_COMMON_ADAPTIB_SUCCESS == rc) {
        return OMPI_SUCCESS;
    }
    rc = OPAL_COMMON_ADAPTIB_COMPLETE == rc ? ompi_mtl_adaptib_mpi_error(message->core.status)
                                            : opal_common_adaptib_mca_error(rc);
    message_complete(&message->core);
    return rc;
}

/* -----------------------------------------------------------------------------------------------
 * Persistent requests */

static int persistent_start_one(persistent_t *send)
{
    ompi_request_t *request = &send->super;
    ompi_communicator_t *comm = request->req_mpi_object.comm;
    int rc;

    request->req_complete = REQUEST_PENDING;
    request->req_state = OMPI_REQUEST_ACTIVE;
    request->req_status._cancelled = 0;
    rc = mca_pml.pml_send(send->buf, send->count, send->datatype, send->dst, send->tag,
                          MCA_PML_BASE_SEND_BUFFERED, comm);
    request->req_status.MPI_ERROR = rc >= 0 ? rc : MPI_ERR_OTHER;
    ompi_request_complete(request, true);
    return rc;
}

/* Starts all, though some may fail: MPI_Startall of Open MPI 4.1.4 does not look at the result. */
static int persistent_start(size_t count, ompi_request_t **requests)
{
    int error = OMPI_SUCCESS;

    for (size_t i = 0; i < count; ++i) {
        const int rc = persistent_start_one((persistent_t *) requests[i]);
        error = OMPI_SUCCESS == error ? rc : error;
    }
    return error;
}

static int persistent_free(ompi_request_t **request)
{
    persistent_t *send = (persistent_t *) *request;

    OBJ_RELEASE(send->super.req_mpi_object.comm);
    OMPI_DATATYPE_RELEASE(send->datatype);
    OMPI_REQUEST_FINI(&send->super);
    OBJ_RELEASE(send);
    *request = MPI_REQUEST_NULL;
    return OMPI_SUCCESS;
}

/* A send that has started is complete. */
static int persistent_cancel(ompi_request_t *request, int flag)
{
    (void) request;
    (void) flag;
    return OMPI_SUCCESS;
}

static void persistent_construct(persistent_t *send)
{
    OMPI_REQUEST_INIT(&send->super, true);
    send->super.req_type = OMPI_REQUEST_PML;
    send->super.req_start = persistent_start;
    send->super.req_free = persistent_free;
    send->super.req_cancel = persistent_cancel;
}

static OBJ_CLASS_INSTANCE(persistent_t, ompi_request_t, persistent_construct, NULL);

int ompi_mtl_adaptib_bsend_init(const void *buf, size_t count, ompi_datatype_t *datatype, int dst,
                                int tag, ompi_communicator_t *comm, ompi_request_t **request)
{
    persistent_t *send = OBJ_NEW(persistent_t);

    if (NULL == send) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    send->buf = buf;
    send->count = count;
    send->datatype = datatype;
    send->dst = dst;
    send->tag = tag;
    send->super.req_mpi_object.comm = comm;
    send->super.req_status.MPI_SOURCE = comm->c_my_rank;
    send->super.req_status.MPI_TAG = tag;
    send->super.req_status.MPI_ERROR = MPI_SUCCESS;
    send->super.req_status._ucount = count * datatype->super.size;
    OBJ_RETAIN(comm);
    OMPI_DATATYPE_RETAIN(datatype);
    *request = &send->super;
    return OMPI_SUCCESS;
}
