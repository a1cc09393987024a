// SPDX-License-Identifier: BSD-3-Clause
/*
 * Requests of a job that survives failed processes: from their start to their end
 * (mtl_adaptib_survivor.h).
 */
#include "ompi_config.h"

#include <pthread.h>
#include <time.h>

#include "ompi/errhandler/errhandler.h"
#include "opal/runtime/opal_progress.h"

#include "mtl_adaptib_survivor.h"

#if OPAL_ENABLE_FT_MPI

enum {
    AT_ONCE = 64
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* operation->of, request->operation */
static opal_free_list_t requests;
static opal_free_list_t operations;

/* In req_complete of a request that was freed before it has ended. */
static ompi_wait_sync_t freed;

/* ------------------------------------------------------------------------------------------------
 * Operations */

static mtl_adaptib_operation_t *operation_of(opal_common_adaptib_request_t *core)
{
    return (mtl_adaptib_operation_t *) ((char *) core - offsetof(mtl_adaptib_operation_t, core));
}

static void operation_construct(mtl_adaptib_operation_t *operation)
{
    OBJ_CONSTRUCT(&operation->convertor, opal_convertor_t);
}

static void operation_destruct(mtl_adaptib_operation_t *operation)
{
    OBJ_DESTRUCT(&operation->convertor);
}

static OBJ_CLASS_INSTANCE(mtl_adaptib_operation_t, opal_free_list_item_t, operation_construct,
                          operation_destruct);

/* Communicators are gone once MPI_Finalize has begun. */
static void operation_release(mtl_adaptib_operation_t *operation)
{
    ompi_mtl_adaptib_stream_end(&operation->stream);
    opal_convertor_cleanup(&operation->convertor);
    if (!ompi_mtl_adaptib.ending) {
        if (NULL != operation->comm) {
            OBJ_RELEASE(operation->comm);
            OMPI_DATATYPE_RELEASE(operation->datatype);
        }
        opal_common_adaptib_list_return(&operations, &operation->super);
    }
}

static bool is_receive(const mtl_adaptib_survivor_t *request)
{
    return MCA_PML_REQUEST_RECV == request->super.req_type;
}

static void release(mtl_adaptib_survivor_t *request)
{
    OBJ_RELEASE(request->super.req_comm);
    OMPI_DATATYPE_RELEASE(request->super.req_datatype);
    OMPI_REQUEST_FINI(&request->super.req_ompi);
    opal_common_adaptib_list_return(&requests, &request->super.req_ompi.super);
}

/* Calls the function that Open MPI wants to be called, which may free the request. Returns false if
 * that function takes care of the rest. */
static bool called_back(ompi_request_t *ours)
{
    const ompi_request_complete_fn_t callback = ours->req_complete_cb;

    ours->req_complete_cb = NULL;
    return NULL == callback || 0 == callback(ours);
}

/* Ends the request in Open MPI. The second of this and survivor_free releases it; req_complete
 * tells which it is. After the exchange the request may be another thread's. */
static void end(mtl_adaptib_survivor_t *request)
{
    ompi_request_t *ours = &request->super.req_ompi;
    void *waits = NULL;
    int error;

    OPAL_COMMON_ADAPTIB_PUBLISHED(ours);
    opal_atomic_wmb();
    if (called_back(ours)) {
        error = ours->req_status.MPI_ERROR;
        waits =
            __atomic_exchange_n((void **) &ours->req_complete, REQUEST_COMPLETED, __ATOMIC_ACQ_REL);
        if (&freed != waits && REQUEST_PENDING != waits) {
            wait_sync_update(waits, 1, error);
        }
    } else {
        waits = (void *) ours->req_complete;
    }
    if (&freed == waits) {
        release(request);
    }
}

/* Parts the request from its operation, so that none but the caller ends it. REQUIRES: the lock is
 * held. */
static void part(mtl_adaptib_survivor_t *request)
{
    request->operation->of = NULL;
    request->operation = NULL;
}

static void set_status(mtl_adaptib_survivor_t *request, const opal_common_adaptib_request_t *core)
{
    ompi_status_public_t *status = &request->super.req_ompi.req_status;

    if (is_receive(request)) {
        ompi_mtl_adaptib_received(status, core);
    } else {
        status->MPI_ERROR = ompi_mtl_adaptib_mpi_error(core->status);
    }
    if (OPAL_COMMON_ADAPTIB_UNREACHABLE == core->status) {
        status->MPI_SOURCE = request->super.req_peer;
    }
}

void ompi_mtl_adaptib_survivors_lost(ompi_communicator_t *comm, int rank)
{
    if (MPI_ANY_SOURCE != rank) {
        (void) ompi_errhandler_proc_failed(ompi_comm_peer_lookup(comm, rank));
    }
}

void ompi_mtl_adaptib_survivors_btl_error(struct mca_btl_base_module_t *btl, int32_t flags,
                                          struct opal_proc_t *process, char *info)
{
    (void) btl;
    (void) flags;
    (void) info;
    if (NULL != process && !ompi_mtl_adaptib.ending) {
        (void) ompi_errhandler_proc_failed((ompi_proc_t *) process);
    }
}

static void operation_complete(opal_common_adaptib_request_t *core)
{
    mtl_adaptib_operation_t *operation = operation_of(core);
    mtl_adaptib_survivor_t *request;

    pthread_mutex_lock(&lock);
    request = operation->of;
    if (NULL != request) {
        part(request);
    }
    pthread_mutex_unlock(&lock);
    if (NULL != request && !ompi_mtl_adaptib.ending) {
        set_status(request, core);
        if (OPAL_COMMON_ADAPTIB_UNREACHABLE == core->status) {
            ompi_mtl_adaptib_survivors_lost(request->super.req_comm, request->super.req_peer);
        }
        end(request);
    }
    operation_release(operation);
}

/* An operation without a request. NULL: there is no memory. */
static mtl_adaptib_operation_t *operation_take(opal_common_adaptib_core_t *endpoint)
{
    mtl_adaptib_operation_t *operation =
        (mtl_adaptib_operation_t *) opal_common_adaptib_list_get(&operations);

    if (NULL != operation) {
        operation->core.complete = operation_complete;
        operation->core.status = OPAL_COMMON_ADAPTIB_SUCCESS;
        operation->endpoint = endpoint;
        operation->stream.layout = NULL;
        operation->comm = NULL;
        operation->datatype = NULL;
        operation->of = NULL;
    }
    return operation;
}

static mtl_adaptib_operation_t *operation_new(mtl_adaptib_survivor_t *request,
                                              opal_common_adaptib_core_t *endpoint)
{
    mtl_adaptib_operation_t *operation = operation_take(endpoint);

    if (NULL == operation) {
        return NULL;
    }
    operation->comm = request->super.req_comm;
    operation->datatype = request->super.req_datatype;
    operation->of = request;
    OBJ_RETAIN(operation->comm);
    OMPI_DATATYPE_RETAIN(operation->datatype);
    request->operation = operation;
    return operation;
}

/* ------------------------------------------------------------------------------------------------
 * Requests */

static int survivor_free(ompi_request_t **ours)
{
    mtl_adaptib_survivor_t *request = (mtl_adaptib_survivor_t *) *ours;
    void **complete = (void **) &(*ours)->req_complete;
    void *waits = REQUEST_PENDING;

    if (ompi_mtl_adaptib_has_ended(*ours)
        || (!__atomic_compare_exchange_n(complete, &waits, &freed, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE)
            && REQUEST_COMPLETED == waits)) {
        release(request);
    }
    *ours = MPI_REQUEST_NULL;
    return OMPI_SUCCESS;
}

static int64_t nanoseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Returns true if the time of grace is over. It begins with the first call. */
static bool abandons(mtl_adaptib_survivor_t *request)
{
    const int64_t now = nanoseconds();

    if (0 == request->abandon_at) {
        request->abandon_at = now + MTL_ADAPTIB_SURVIVOR_GRACE_NS;
    }
    return now >= request->abandon_at;
}

static bool cancels_receive(mtl_adaptib_operation_t *operation)
{
    return OPAL_COMMON_ADAPTIB_SUCCESS
           == opal_common_adaptib_cancel(operation->endpoint, &operation->core);
}

/* Called by the user, or by Open MPI, which has then set an error in the status, and calls again if
 * the request goes on. */
static int survivor_cancel(ompi_request_t *cancelled, int flag)
{
    mtl_adaptib_survivor_t *request = (mtl_adaptib_survivor_t *) cancelled;
    const int error = cancelled->req_status.MPI_ERROR;
    const bool failed = MPI_SUCCESS != error && MPI_ERR_PROC_FAILED_PENDING != error;
    mtl_adaptib_operation_t *operation;
    bool ended = false, ours = false;

    (void) flag;
    pthread_mutex_lock(&lock);
    operation = request->operation;
    if (NULL != operation) {
        ours = NULL != operation->endpoint && cancels_receive(operation);
        ended = ours || (NULL == operation->endpoint && failed && abandons(request));
        if (ended) {
            part(request);
        }
    }
    pthread_mutex_unlock(&lock);
    if (!ended) {
        return OMPI_SUCCESS;
    }
    if (ours) { /* the core has forgotten it */
        operation_release(operation);
    }
    if (!failed) {
        cancelled->req_status.MPI_ERROR = MPI_SUCCESS;
        cancelled->req_status._cancelled = true;
    }
    end(request);
    return OMPI_SUCCESS;
}

/* Starts all, though some may fail. */
static int survivor_start_all(size_t count, ompi_request_t **all)
{
    int error = OMPI_SUCCESS;

    for (size_t i = 0; i < count; ++i) {
        const int rc = ompi_mtl_adaptib_survivor_start((mtl_adaptib_survivor_t *) all[i]);
        error = OMPI_SUCCESS == error ? rc : error;
    }
    return error;
}

static void survivor_construct(mtl_adaptib_survivor_t *request)
{
    request->super.req_ompi.req_type = OMPI_REQUEST_PML;
    request->super.req_ompi.req_start = survivor_start_all;
    request->super.req_ompi.req_free = survivor_free;
    request->super.req_ompi.req_cancel = survivor_cancel;
    request->operation = NULL;
}

static OBJ_CLASS_INSTANCE(mtl_adaptib_survivor_t, mca_pml_base_request_t, survivor_construct, NULL);

mtl_adaptib_survivor_t *ompi_mtl_adaptib_survivor_new(mca_pml_base_request_type_t type,
                                                      const mtl_adaptib_message_t *message,
                                                      mca_pml_base_send_mode_t mode,
                                                      bool persistent)
{
    mtl_adaptib_survivor_t *request =
        (mtl_adaptib_survivor_t *) opal_common_adaptib_list_get(&requests);
    mca_pml_base_request_t *base = NULL != request ? &request->super : NULL;

    if (NULL == base) {
        return NULL;
    }
    OMPI_REQUEST_INIT(&base->req_ompi, persistent);
    base->req_ompi.req_complete = REQUEST_COMPLETED; /* it is not started */
    base->req_ompi.req_mpi_object.comm = message->comm;
    base->req_ompi.req_status.MPI_ERROR = MPI_SUCCESS;
    base->req_pml_complete = 0;
    base->req_free_called = 0;
    base->req_type = type;
    base->req_comm = message->comm;
    base->req_datatype = message->datatype;
    base->req_addr = message->buf;
    base->req_count = message->count;
    base->req_peer = message->peer;
    base->req_tag = message->tag;
    base->req_proc = NULL;
    request->mode = mode;
    OBJ_RETAIN(message->comm);
    OMPI_DATATYPE_RETAIN(message->datatype);
    return request;
}

/* Sets what each start sets anew. */
static void prepare(mtl_adaptib_survivor_t *request)
{
    ompi_request_t *ours = &request->super.req_ompi;

    request->abandon_at = 0;
    ours->req_complete = REQUEST_PENDING;
    ours->req_state = OMPI_REQUEST_ACTIVE;
    ours->req_status.MPI_ERROR = MPI_SUCCESS;
    ours->req_status._cancelled = 0;
    if (!is_receive(request)) {
        ours->req_status.MPI_SOURCE = request->super.req_comm->c_my_rank;
        ours->req_status.MPI_TAG = request->super.req_tag;
    }
}

/* Ends an operation that the core has not started, or has ended within the call. */
static int started(int rc, mtl_adaptib_operation_t *operation)
{
    if (OPAL_COMMON_ADAPTIB_SUCCESS != rc) {
        if (OPAL_COMMON_ADAPTIB_COMPLETE != rc) {
            operation->core.status = rc;
            operation->core.bytes = 0;
        }
        operation_complete(&operation->core);
    }
    return OMPI_SUCCESS;
}

static void prepare_receive(mtl_adaptib_operation_t *operation, opal_common_adaptib_data_t *data)
{
    const mca_pml_base_request_t *base = &operation->of->super;

    opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &base->req_datatype->super,
                                             base->req_count, base->req_addr, 0,
                                             &operation->convertor);
    ompi_mtl_adaptib_receive_data(data, &operation->convertor, &operation->stream);
}

static int start_receive(mtl_adaptib_survivor_t *request)
{
    const mca_pml_base_request_t *base = &request->super;
    const opal_common_adaptib_envelope_t envelope =
        ompi_mtl_adaptib_wanted(base->req_comm, base->req_peer, base->req_tag);
    opal_common_adaptib_data_t data;
    mtl_adaptib_operation_t *operation;
    mtl_adaptib_way_t way;
    int rc = ompi_mtl_adaptib_way_from(base->req_comm, base->req_peer, base->req_tag, &way);

    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    operation = operation_new(request, way.core);
    if (NULL == operation) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    prepare_receive(operation, &data);
    rc = opal_common_adaptib_receive(way.core, way.peer, &envelope, &data, &operation->core);
    return started(rc, operation);
}

static opal_common_adaptib_mode_t core_mode_of(mca_pml_base_send_mode_t mode)
{
    return MCA_PML_BASE_SEND_SYNCHRONOUS == mode ? OPAL_COMMON_ADAPTIB_MODE_SYNC
                                                 : OPAL_COMMON_ADAPTIB_MODE_STANDARD;
}

static int start_send(mtl_adaptib_survivor_t *request)
{
    const mca_pml_base_request_t *base = &request->super;
    const opal_common_adaptib_envelope_t envelope = {
        .context = ompi_mtl_adaptib_context(base->req_comm),
        .source = base->req_comm->c_my_rank,
        .tag = base->req_tag,
    };
    opal_common_adaptib_data_t data;
    mtl_adaptib_operation_t *operation;
    mtl_adaptib_way_t way;
    int rc = ompi_mtl_adaptib_way_to(base->req_comm, base->req_peer, base->req_tag, &way);

    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    operation = operation_new(request, NULL);
    if (NULL == operation) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &base->req_datatype->super,
                                             base->req_count, base->req_addr, 0,
                                             &operation->convertor);
    ompi_mtl_adaptib_prepared(&data, &operation->convertor, &operation->stream);
    rc = opal_common_adaptib_send(way.core, way.peer, &envelope, &data, core_mode_of(request->mode),
                                  base->req_tag < 0 ? OPAL_COMMON_ADAPTIB_COLLECTIVE
                                                    : OPAL_COMMON_ADAPTIB_NON_BLOCKING,
                                  &operation->core);
    return started(rc, operation);
}

int ompi_mtl_adaptib_survivor_start(mtl_adaptib_survivor_t *request)
{
    int rc;

    prepare(request);
    rc = is_receive(request) ? start_receive(request) : start_send(request);
    if (OMPI_SUCCESS != rc) { /* so that no wait for it hangs */
        request->super.req_ompi.req_status.MPI_ERROR = MPI_ERR_OTHER;
        end(request);
    }
    return rc;
}

int ompi_mtl_adaptib_survivor_start_matched(mtl_adaptib_survivor_t *request,
                                            ompi_message_t **message)
{
    opal_common_adaptib_core_t *endpoint;
    opal_common_adaptib_message_t *taken = ompi_mtl_adaptib_taken((*message)->req_ptr, &endpoint);
    mtl_adaptib_operation_t *operation;
    opal_common_adaptib_data_t data;

    operation = operation_new(request, endpoint);
    if (NULL == operation) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    prepare(request);
    prepare_receive(operation, &data);
    ompi_message_return(*message);
    *message = MPI_MESSAGE_NULL;
    return started(opal_common_adaptib_matched_receive(endpoint, taken, &data, &operation->core),
                   operation);
}

void ompi_mtl_adaptib_survivors_discard(opal_common_adaptib_core_t *endpoint,
                                        opal_common_adaptib_message_t *message)
{
    mtl_adaptib_operation_t *operation = operation_take(endpoint);
    opal_common_adaptib_data_t none;

    if (NULL != operation) {
        ompi_mtl_adaptib_contiguous(&none, NULL, 0);
        (void) started(
            opal_common_adaptib_matched_receive(endpoint, message, &none, &operation->core),
            operation);
    }
}

/* Ends a receive from any source that a failure has interrupted; it may have a message meanwhile.
 */
static void interrupt(mtl_adaptib_survivor_t *request)
{
    ompi_request_t *ours = &request->super.req_ompi;

    ours->req_status.MPI_ERROR = MPI_ERR_PROC_FAILED;
    (void) ompi_request_cancel(ours);
    while (!ompi_mtl_adaptib_has_ended(ours)) {
        opal_progress();
    }
}

int ompi_mtl_adaptib_survivor_finish(mtl_adaptib_survivor_t *request, ompi_status_public_t *status)
{
    ompi_request_t *ours = &request->super.req_ompi;
    int error;

    ompi_request_wait_completion(ours);
    if (MPI_ERR_PROC_FAILED_PENDING == ours->req_status.MPI_ERROR) {
        interrupt(request);
    }
    if (MPI_STATUS_IGNORE != status) {
        OMPI_COPY_STATUS(status, ours->req_status, false);
    }
    error = ours->req_status.MPI_ERROR;
    (void) survivor_free(&ours);
    return error;
}

/* ------------------------------------------------------------------------------------------------
 * Lists */

void ompi_mtl_adaptib_survivors_open(void)
{
    OBJ_CONSTRUCT(&requests, opal_free_list_t);
    OBJ_CONSTRUCT(&operations, opal_free_list_t);
    (void) opal_free_list_init(&requests, sizeof(mtl_adaptib_survivor_t), opal_cache_line_size,
                               OBJ_CLASS(mtl_adaptib_survivor_t), 0, 0, AT_ONCE, -1, AT_ONCE, NULL,
                               0, NULL, NULL, NULL);
    (void) opal_free_list_init(&operations, sizeof(mtl_adaptib_operation_t), opal_cache_line_size,
                               OBJ_CLASS(mtl_adaptib_operation_t), 0, 0, AT_ONCE, -1, AT_ONCE, NULL,
                               0, NULL, NULL, NULL);
}

void ompi_mtl_adaptib_survivors_close(void)
{
    OBJ_DESTRUCT(&operations);
    OBJ_DESTRUCT(&requests);
}

#endif /* OPAL_ENABLE_FT_MPI */
