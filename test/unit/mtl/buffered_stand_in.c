// SPDX-License-Identifier: BSD-3-Clause
/*
 * The stand-in for the core below buffered sends (buffered_stand_in.h).
 */
#include "unit/mtl/buffered_stand_in.h"

#include "ompi_config.h"

#include <string.h>

#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/request/request.h"

#include "ompi/mca/mtl/adaptib/mtl_adaptib_buffered.h"
#include "ompi/mca/mtl/adaptib/mtl_adaptib_request.h"

#include "unit/mtl/one_peer.h"

static uint64_t peer; /* its address is the handle */
static ompi_communicator_t *comm;
static ompi_datatype_t datatype;
static ompi_request_t *persistent;
static opal_common_adaptib_request_t *started;

mca_mtl_adaptib_module_t ompi_mtl_adaptib;
buffered_stand_in_t buffered_stand_in;

int opal_common_adaptib_send(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *to,
                             const opal_common_adaptib_envelope_t *envelope,
                             const opal_common_adaptib_data_t *data,
                             opal_common_adaptib_mode_t mode, opal_common_adaptib_op_kind_t kind,
                             opal_common_adaptib_request_t *request)
{
    (void) core;
    (void) to;
    (void) envelope;
    (void) data;
    (void) mode;
    (void) kind;
    ++buffered_stand_in.sends;
    if (OPAL_COMMON_ADAPTIB_COMPLETE == buffered_stand_in.code) {
        request->status = buffered_stand_in.status;
    } else if (OPAL_COMMON_ADAPTIB_SUCCESS == buffered_stand_in.code) {
        started = request;
    }
    return buffered_stand_in.code;
}

int opal_common_adaptib_mca_error(int status)
{
    return OPAL_COMMON_ADAPTIB_NO_MEMORY == status ? OMPI_ERR_OUT_OF_RESOURCE : OMPI_ERROR;
}

int ompi_mtl_adaptib_way_with_care(struct ompi_communicator_t *of, struct ompi_proc_t *proc,
                                   int source, int tag, mtl_adaptib_way_t *way)
{
    (void) of;
    (void) proc;
    (void) source;
    (void) tag;
    (void) way;
    return OMPI_ERROR; /* the peer is known */
}

/* In the place of the PML that a persistent request sends through. */
static int pml_send(const void *buf, size_t count, ompi_datatype_t *of, int dst, int tag,
                    mca_pml_base_send_mode_t mode, ompi_communicator_t *in)
{
    (void) mode;
    return ompi_mtl_adaptib_bsend(buf, count, of, dst, tag, in);
}

void buffered_stand_in_open(void)
{
    memset(&buffered_stand_in, 0, sizeof(buffered_stand_in));
    comm = one_peer_open(&peer);
    datatype.super.flags = OMPI_DATATYPE_FLAG_PREDEFINED;
    mca_pml.pml_send = pml_send;
}

void buffered_stand_in_close(void)
{
    mca_pml.pml_send = NULL;
    one_peer_close();
}

int buffered_stand_in_send(void)
{
    return ompi_mtl_adaptib_bsend(NULL, 0, &datatype, 0, 1, comm);
}

void buffered_stand_in_end(int status)
{
    started->status = status;
    started->complete(started);
}

int buffered_stand_in_holders(void)
{
    return one_peer_references() - 1;
}

int buffered_stand_in_make(void)
{
    if (OMPI_SUCCESS != ompi_mtl_adaptib_bsend_init(NULL, 0, &datatype, 0, 1, comm, &persistent)) {
        return MPI_ERR_NO_MEM;
    }
    return persistent->req_status.MPI_ERROR;
}

int buffered_stand_in_start(void)
{
    (void) persistent->req_start(1, &persistent);
    return REQUEST_COMPLETED == persistent->req_complete ? persistent->req_status.MPI_ERROR
                                                         : MPI_ERR_PENDING;
}

void buffered_stand_in_free(void)
{
    (void) persistent->req_free(&persistent);
}
