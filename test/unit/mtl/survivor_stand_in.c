// SPDX-License-Identifier: BSD-3-Clause
/*
 * The stand-in for the core below the requests of a job that survives failures
 * (survivor_stand_in.h).
 */
#include "unit/mtl/survivor_stand_in.h"

#include "ompi_config.h"

#include "ompi/mca/mtl/adaptib/mtl_adaptib_survivor.h"

#include "unit/mtl/one_peer.h"

void (*survivor_stand_in_break)(void);

#if OPAL_ENABLE_FT_MPI

static uint64_t peer; /* its address is the handle */
static ompi_communicator_t *comm;
static ompi_datatype_t datatype;
static opal_convertor_t convertor;
static ompi_request_t *receives[SURVIVOR_MOST_RECEIVES];
static const void *addresses[SURVIVOR_MOST_RECEIVES];
static opal_common_adaptib_request_t *started[SURVIVOR_MOST_RECEIVES];
static int count;

int opal_common_adaptib_receive(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *from,
                                const opal_common_adaptib_envelope_t *envelope,
                                const opal_common_adaptib_data_t *data,
                                opal_common_adaptib_request_t *request)
{
    (void) core;
    (void) from;
    (void) envelope;
    (void) data;
    started[count] = request;
    return OPAL_COMMON_ADAPTIB_SUCCESS;
}

int opal_common_adaptib_cancel(opal_common_adaptib_core_t *core,
                               opal_common_adaptib_request_t *request)
{
    (void) core;
    (void) request;
    return OPAL_COMMON_ADAPTIB_SUCCESS;
}

/* No test calls it. */
int opal_common_adaptib_matched_receive(opal_common_adaptib_core_t *core,
                                        opal_common_adaptib_message_t *message,
                                        const opal_common_adaptib_data_t *data,
                                        opal_common_adaptib_request_t *request)
{
    (void) core;
    (void) message;
    (void) data;
    (void) request;
    return OPAL_COMMON_ADAPTIB_ERROR;
}

opal_common_adaptib_core_t *opal_common_adaptib_endpoint(opal_common_adaptib_core_t *core,
                                                         uint32_t index)
{
    (void) index;
    return core;
}

/* In the place of Open MPI's, which would tell other processes. */
int ompi_errhandler_proc_failed_internal(ompi_proc_t *failed, int status, bool forward)
{
    (void) failed;
    (void) status;
    (void) forward;
    if (NULL != survivor_stand_in_break) {
        survivor_stand_in_break();
    }
    return OMPI_SUCCESS;
}

bool survivor_stand_in_open(void)
{
    comm = one_peer_open(&peer);
    datatype.super.flags = OMPI_DATATYPE_FLAG_PREDEFINED;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    convertor.flags = CONVERTOR_SKIP_ACCELERATOR_INIT;
    ompi_mpi_local_convertor = &convertor;
    count = 0;
    survivor_stand_in_break = NULL;
    ompi_mtl_adaptib.core = (opal_common_adaptib_core_t *) &peer;
    ompi_mtl_adaptib.endpoints = 1;
    ompi_mtl_adaptib_survivors_open();
    return true;
}

void survivor_stand_in_close(void)
{
    ompi_mtl_adaptib_survivors_close();
    ompi_mpi_local_convertor = NULL;
    OBJ_DESTRUCT(&convertor);
    one_peer_close();
}

int survivor_stand_in_receive(void)
{
    const mtl_adaptib_message_t message = {NULL, 0, &datatype, 0, 1, comm};
    mtl_adaptib_survivor_t *receive = ompi_mtl_adaptib_survivor_new(
        MCA_PML_REQUEST_RECV, &message, MCA_PML_BASE_SEND_STANDARD, false);

    if (NULL == receive || SURVIVOR_MOST_RECEIVES == count
        || OMPI_SUCCESS != ompi_mtl_adaptib_survivor_start(receive)) {
        return -1;
    }
    receives[count] = &receive->super.req_ompi;
    addresses[count] = receive;
    return count++;
}

void survivor_stand_in_end(int number, bool lost)
{
    started[number]->status = lost ? OPAL_COMMON_ADAPTIB_UNREACHABLE : OPAL_COMMON_ADAPTIB_SUCCESS;
    started[number]->complete(started[number]);
}

void survivor_stand_in_free(int number)
{
    (void) receives[number]->req_free(&receives[number]);
}

void survivor_stand_in_cancel(int number)
{
    (void) receives[number]->req_cancel(receives[number], true);
}

static int free_it(ompi_request_t *request)
{
    (void) request->req_free(&request);
    return 1;
}

void survivor_stand_in_free_when_complete(int number)
{
    receives[number]->req_complete_cb = free_it;
}

bool survivor_stand_in_is_complete(int number)
{
    return REQUEST_COMPLETED == receives[number]->req_complete;
}

bool survivor_stand_in_are_same(int number, int other)
{
    return addresses[number] == addresses[other];
}

int survivor_stand_in_holders(void)
{
    return one_peer_references() - 1;
}

#else

bool survivor_stand_in_open(void)
{
    return false;
}

void survivor_stand_in_close(void)
{
}

int survivor_stand_in_receive(void)
{
    return -1;
}

void survivor_stand_in_end(int number, bool lost)
{
    (void) number;
    (void) lost;
}

void survivor_stand_in_free(int number)
{
    (void) number;
}

void survivor_stand_in_cancel(int number)
{
    (void) number;
}

void survivor_stand_in_free_when_complete(int number)
{
    (void) number;
}

bool survivor_stand_in_is_complete(int number)
{
    (void) number;
    return false;
}

bool survivor_stand_in_are_same(int number, int other)
{
    return number == other;
}

int survivor_stand_in_holders(void)
{
    return 0;
}

#endif /* OPAL_ENABLE_FT_MPI */
