// SPDX-License-Identifier: BSD-3-Clause
/*
 * The fast path of contiguous messages past pml/cm's requests (mtl_adaptib_shortcut.h).
 */
#include "ompi_config.h"

#include <pthread.h>
#include <string.h>

#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/pml/base/base.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/request/request.h"
#include "opal/class/opal_free_list.h"

#include "mtl_adaptib_buffered.h"
#include "mtl_adaptib_request.h"
#include "mtl_adaptib_shortcut.h"
#include "mtl_adaptib_wait.h"

enum {
    REQUESTS_AT_ONCE = 64,
    RECEIVES_TAKEN = 16,  /* from the common list, when a thread has none */
    RECEIVES_KEPT = 1024, /* most that a thread keeps */
    REFERENCES_AT_ONCE = 64
};

typedef struct {
    ompi_request_t super;
    opal_common_adaptib_request_t core;
    opal_common_adaptib_core_t *endpoint;
} receive_t;

static struct {
    mca_pml_base_module_t pml; /* the original table */
    opal_free_list_t receives;
    unsigned opened; /* times that the fast path was installed */
    pthread_key_t key;
    bool has_key;
} shortcut;

/* Receives that a thread keeps for itself, so that it need not lock the common list. */
typedef struct {
    receive_t *first;
    unsigned count;
    unsigned opened; /* shortcut.opened, of the list that they are from */
} kept_t;

static __thread kept_t kept __attribute__((tls_model("initial-exec")));

/* References of a communicator that the thread has used twice in a row. Among several threads it
 * takes them in bulk, since each access to the count is an atomic operation; receives take theirs
 * from here and return them to the thread that frees them. A thread gives its references up when it
 * has none under way, when it uses another communicator twice, or at its end. So a communicator
 * that was freed lives on for a while where one thread starts receives and another one frees
 * them. */
typedef struct {
    ompi_communicator_t *comm; /* NULL: no references */
    int taken;                 /* spare, or with receives */
    int spare;
    const void *last; /* communicator that it was the last to retain otherwise; only compared */
} references_t;

static __thread references_t references __attribute__((tls_model("initial-exec")));

/* In req_complete of a receive that was freed before it has completed. */
static ompi_wait_sync_t freed;

static inline bool is_contiguous(const ompi_datatype_t *datatype, size_t count)
{
    const uint32_t flags = datatype->super.flags; /* 16 bits before Open MPI 6 */

    return OPAL_LIKELY(0 != (flags & OPAL_DATATYPE_FLAG_CONTIGUOUS)
                       && (1 == count || 0 != (flags & OPAL_DATATYPE_FLAG_NO_GAPS)));
}

static inline void *data_address(const void *buf, const ompi_datatype_t *datatype, size_t bytes)
{
    return ompi_mtl_adaptib_base((char *) buf + datatype->super.true_lb, bytes);
}

static inline __opal_attribute_always_inline__ bool
try_send_contiguous(const void *buf, size_t count, ompi_datatype_t *datatype, int dst, int tag,
                    mca_pml_base_send_mode_t mode, bool blocking, ompi_communicator_t *comm)
{
    const size_t bytes = count * datatype->super.size;

    if (OPAL_UNLIKELY(!is_contiguous(datatype, count) || MCA_PML_BASE_SEND_SYNCHRONOUS == mode)) {
        return false;
    }
    return ompi_mtl_adaptib_try_send(comm, dst, tag, blocking, data_address(buf, datatype, bytes),
                                     bytes);
}

static int shortcut_isend(const void *buf, size_t count, ompi_datatype_t *datatype, int dst,
                          int tag, mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                          ompi_request_t **request)
{
    if (OPAL_LIKELY(try_send_contiguous(buf, count, datatype, dst, tag, mode, false, comm))) {
        *request = &ompi_request_empty;
        return OMPI_SUCCESS;
    }
    if (OPAL_UNLIKELY(MCA_PML_BASE_SEND_BUFFERED == mode)) {
        *request = &ompi_request_empty;
        return ompi_mtl_adaptib_bsend(buf, count, datatype, dst, tag, comm);
    }
    return shortcut.pml.pml_isend(buf, count, datatype, dst, tag, mode, comm, request);
}

/* A persistent send is about to use its buffer again and again. */
static void expect_reuse(const void *buf, size_t count, ompi_datatype_t *datatype, int dst, int tag,
                         ompi_communicator_t *comm)
{
    const size_t bytes = count * datatype->super.size;
    mtl_adaptib_way_t way;

    if (MPI_PROC_NULL != dst && is_contiguous(datatype, count)
        && ompi_mtl_adaptib_known_way(comm, dst, comm->c_my_rank, tag, &way)) {
        opal_common_adaptib_expect_reuse(way.core, way.peer, data_address(buf, datatype, bytes),
                                         bytes);
    }
}

/* Clears the error of a persistent request of pml/cm, which leaves that to the first start. Until
 * then Open MPI would free the request beside another one that has failed. */
static int without_error(int rc, ompi_request_t **request)
{
    if (OMPI_SUCCESS == rc) {
        (*request)->req_status.MPI_ERROR = MPI_SUCCESS;
    }
    return rc;
}

static int shortcut_isend_init(const void *buf, size_t count, ompi_datatype_t *datatype, int dst,
                               int tag, mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                               ompi_request_t **request)
{
    if (MCA_PML_BASE_SEND_BUFFERED == mode) {
        return ompi_mtl_adaptib_bsend_init(buf, count, datatype, dst, tag, comm, request);
    }
    if (MCA_PML_BASE_SEND_SYNCHRONOUS != mode) {
        expect_reuse(buf, count, datatype, dst, tag, comm);
    }
    return without_error(
        shortcut.pml.pml_isend_init(buf, count, datatype, dst, tag, mode, comm, request), request);
}

static int shortcut_irecv_init(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                               ompi_communicator_t *comm, ompi_request_t **request)
{
    return without_error(shortcut.pml.pml_irecv_init(buf, count, datatype, src, tag, comm, request),
                         request);
}

static int shortcut_send(const void *buf, size_t count, ompi_datatype_t *datatype, int dst, int tag,
                         mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    if (OPAL_LIKELY(try_send_contiguous(buf, count, datatype, dst, tag, mode, true, comm))) {
        return OMPI_SUCCESS;
    }
    if (OPAL_UNLIKELY(MCA_PML_BASE_SEND_BUFFERED == mode)) {
        return ompi_mtl_adaptib_bsend(buf, count, datatype, dst, tag, comm);
    }
    return shortcut.pml.pml_send(buf, count, datatype, dst, tag, mode, comm);
}

static inline receive_t *receive_of(opal_common_adaptib_request_t *request)
{
    return (receive_t *) ((char *) request - offsetof(receive_t, core));
}

/* Some steps of a receive are written twice: in few instructions for the usual case, and, "with
 * care", for all cases. */

static inline receive_t *next_of(const receive_t *receive)
{
    return (receive_t *) receive->super.super.super.opal_list_next;
}

static void give_back(kept_t *of, unsigned most)
{
    while (of->count > most) {
        receive_t *receive = of->first;

        of->first = next_of(receive);
        --of->count;
        opal_common_adaptib_list_return(&shortcut.receives, &receive->super.super);
    }
}

static __opal_attribute_noinline__ void give_up_references(void)
{
    ompi_communicator_t *comm = references.comm;
    const int spare = references.spare;

    references = (references_t){.comm = NULL};
    if (spare > 0) {
        (void) opal_obj_update((opal_object_t *) comm, 1 - spare);
        OBJ_RELEASE(comm);
    }
}

static __opal_attribute_noinline__ void retain_with_care(ompi_communicator_t *comm)
{
    if (references.comm != comm) {
        if (references.last != comm) {
            references.last = comm;
            OBJ_RETAIN(comm);
            return;
        }
        give_up_references();
        references.comm = comm;
    }
    (void) opal_obj_update((opal_object_t *) comm, REFERENCES_AT_ONCE);
    references.taken += REFERENCES_AT_ONCE;
    references.spare = REFERENCES_AT_ONCE - 1;
}

static inline void retain(ompi_communicator_t *comm)
{
    if (OPAL_LIKELY(!opal_using_threads())) {
        OBJ_RETAIN(comm);
    } else if (OPAL_LIKELY(references.comm == comm && references.spare > 0)) {
        --references.spare;
    } else {
        retain_with_care(comm);
    }
}

/* Only if there are several threads. */
static inline void release_shared(ompi_communicator_t *comm)
{
    if (OPAL_UNLIKELY(references.comm != comm)) {
        OBJ_RELEASE(comm);
    } else if (OPAL_UNLIKELY(++references.spare >= references.taken)) {
        give_up_references();
    }
}

/* A thread ends. */
static void give_all_back(void *of)
{
    kept_t *its = of;

    if (ompi_mtl_adaptib.shortcut_installed && its->opened == shortcut.opened) {
        give_back(its, 0);
        give_up_references();
    }
}

static inline void keep_receive(receive_t *receive)
{
    receive->super.super.super.opal_list_next = (opal_list_item_t *) kept.first;
    kept.first = receive;
    if (OPAL_UNLIKELY(++kept.count > RECEIVES_KEPT)) {
        give_back(&kept, RECEIVES_KEPT / 2);
    }
}

static __opal_attribute_noinline__ receive_t *take_with_care(void)
{
    if (kept.opened != shortcut.opened) { /* those from before are gone */
        kept = (kept_t){.first = NULL, .count = 0, .opened = shortcut.opened};
        references = (references_t){.comm = NULL};
        if (shortcut.has_key) {
            (void) pthread_setspecific(shortcut.key, &kept);
        }
    }
    for (int i = 1; i < RECEIVES_TAKEN; ++i) {
        receive_t *receive = (receive_t *) opal_common_adaptib_list_get(&shortcut.receives);
        if (NULL == receive) {
            break;
        }
        keep_receive(receive);
    }
    return (receive_t *) opal_common_adaptib_list_get(&shortcut.receives);
}

static inline bool has_receive(void)
{
    return NULL != kept.first && kept.opened == shortcut.opened;
}

/* NULL: there is no memory. */
static inline receive_t *take_receive(void)
{
    receive_t *receive = kept.first;

    if (OPAL_UNLIKELY(!has_receive())) {
        return take_with_care();
    }
    kept.first = next_of(receive);
    --kept.count;
    return receive;
}

static __opal_attribute_noinline__ void release_receive_with_care(receive_t *receive)
{
    if (opal_using_threads() && kept.opened == shortcut.opened) {
        release_shared(receive->super.req_mpi_object.comm);
    } else { /* or this thread's references are of an earlier session */
        OBJ_RELEASE(receive->super.req_mpi_object.comm);
    }
    OMPI_REQUEST_FINI(&receive->super);
    if (kept.opened == shortcut.opened) {
        keep_receive(receive);
    } else {
        opal_common_adaptib_list_return(&shortcut.receives, &receive->super.super);
    }
}

static inline void release_receive(receive_t *receive)
{
    opal_object_t *comm = (opal_object_t *) receive->super.req_mpi_object.comm;
    const bool usual =
        kept.opened == shortcut.opened && MPI_UNDEFINED == receive->super.req_f_to_c_index;

    if (OPAL_LIKELY(usual && !opal_using_threads() && 1 != comm->obj_reference_count)) {
        (void) opal_obj_update(comm, -1);
    } else if (OPAL_LIKELY(usual && opal_using_threads())) {
        release_shared(receive->super.req_mpi_object.comm);
    } else {
        release_receive_with_care(receive);
        return;
    }
    receive->super.req_state = OMPI_REQUEST_INVALID;
    keep_receive(receive);
}

/* Tells a wait. An error ends a wait for several receives at once; where the wait ends anyway, or
 * has ended, it counts as any other completion, since Open MPI 4.1.4 would otherwise signal a wait
 * for one of several receives twice, the second time perhaps after it has returned. */
static void tell(ompi_wait_sync_t *wait, int error)
{
    wait_sync_update(wait, 1, wait->count > 1 ? error : MPI_SUCCESS);
}

/* Handles a receive that was waited for, or freed, before it completed. */
static __opal_attribute_noinline__ void completed_with_care(receive_t *receive, void *waits,
                                                            int error)
{
    if (&freed != waits) {
        tell(waits, error);
    } else if (!ompi_mtl_adaptib.ending) {
        release_receive_with_care(receive);
    }
}

/* Calls the function that Open MPI wants to be called, which may free the receive. Returns false if
 * that function takes care of the rest. */
static __opal_attribute_noinline__ bool called_back(receive_t *receive)
{
    const ompi_request_complete_fn_t callback = receive->super.req_complete_cb;

    receive->super.req_complete_cb = NULL;
    if (0 == callback(&receive->super)) {
        return true;
    }
    if (&freed == receive->super.req_complete) {
        completed_with_care(receive, &freed, MPI_SUCCESS);
    }
    return false;
}

/* The second of completion and MPI_Request_free releases the receive; req_complete tells which it
 * is. After the exchange the receive may be another thread's. */
static void receive_complete(opal_common_adaptib_request_t *request)
{
    receive_t *receive = receive_of(request);
    void *waits;

    ompi_mtl_adaptib_received(&receive->super.req_status, request);
    if (OPAL_UNLIKELY(NULL != receive->super.req_complete_cb) && !called_back(receive)) {
        return;
    }
    const int error = receive->super.req_status.MPI_ERROR;
    if (OPAL_UNLIKELY(opal_using_threads())) {
        waits = __atomic_exchange_n((void **) &receive->super.req_complete, REQUEST_COMPLETED,
                                    __ATOMIC_ACQ_REL);
    } else {
        waits = (void *) receive->super.req_complete;
        receive->super.req_complete = REQUEST_COMPLETED;
    }
    if (OPAL_UNLIKELY(REQUEST_PENDING != waits)) {
        completed_with_care(receive, waits, error);
    }
}

/* Called by MPI_Request_free, at the end of a wait, or by a function that runs at the
 * completion. */
static int receive_free(ompi_request_t **request)
{
    receive_t *receive = (receive_t *) *request;
    void *waits = REQUEST_PENDING;

    *request = MPI_REQUEST_NULL;
    if (OPAL_LIKELY(ompi_mtl_adaptib_has_ended(&receive->super))) {
        release_receive(receive);
    } else if (!__atomic_compare_exchange_n((void **) &receive->super.req_complete, &waits, &freed,
                                            false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
               && REQUEST_COMPLETED == waits) {
        release_receive_with_care(receive);
    }
    return OMPI_SUCCESS;
}

static int receive_cancel(ompi_request_t *request, int flag)
{
    (void) flag;
    receive_t *receive = (receive_t *) request;

    return ompi_mtl_adaptib_cancel_request(request, receive->endpoint, &receive->core);
}

static void receive_construct(receive_t *receive)
{
    receive->super.req_type = OMPI_REQUEST_PML;
    receive->super.req_free = receive_free;
    receive->super.req_cancel = receive_cancel;
    receive->core.complete = receive_complete;
}

static OBJ_CLASS_INSTANCE(receive_t, ompi_request_t, receive_construct, NULL);

/* Sets the fields that are the same for all receives. Clears MPI_ERROR, since Open MPI acts on an
 * error as soon as the status has one: it frees the request. */
static inline void prepare(receive_t *receive, ompi_communicator_t *comm)
{
    receive->super.req_complete = REQUEST_PENDING;
    receive->super.req_state = OMPI_REQUEST_ACTIVE;
    receive->super.req_complete_cb = NULL;
    receive->super.req_status.MPI_TAG = MPI_ANY_TAG;
    receive->super.req_status.MPI_ERROR = MPI_SUCCESS;
    receive->super.req_status._cancelled = 0;
    receive->super.req_mpi_object.comm = comm;
}

static inline int start(receive_t *receive, void *buf, size_t count, ompi_datatype_t *datatype,
                        int src, int tag, ompi_communicator_t *comm, const mtl_adaptib_way_t *way)
{
    const size_t bytes = count * datatype->super.size;

    return ompi_mtl_adaptib_recv_contig(comm, src, tag, way, data_address(buf, datatype, bytes),
                                        bytes, &receive->core);
}

/* Handles a receive that was not merely started: its message was there, or it failed. */
static __opal_attribute_noinline__ int not_just_started(int rc, receive_t *receive,
                                                        ompi_request_t **request)
{
    if (OPAL_COMMON_ADAPTIB_COMPLETE != rc) {
        release_receive_with_care(receive);
        return opal_common_adaptib_mca_error(rc);
    }
    ompi_mtl_adaptib_received(&receive->super.req_status, &receive->core);
    receive->super.req_complete = REQUEST_COMPLETED;
    *request = &receive->super;
    return OMPI_SUCCESS;
}

static inline __opal_attribute_always_inline__ int
start_receive(receive_t *receive, void *buf, size_t count, ompi_datatype_t *datatype, int src,
              int tag, ompi_communicator_t *comm, const mtl_adaptib_way_t *way,
              ompi_request_t **request)
{
    int rc;

    prepare(receive, comm);
    receive->endpoint = way->core;
    retain(comm);
    rc = start(receive, buf, count, datatype, src, tag, comm, way);
    if (OPAL_UNLIKELY(OPAL_COMMON_ADAPTIB_SUCCESS != rc)) {
        return not_just_started(rc, receive, request);
    }
    *request = &receive->super;
    return OMPI_SUCCESS;
}

static __opal_attribute_noinline__ int irecv_with_care(void *buf, size_t count,
                                                       ompi_datatype_t *datatype, int src, int tag,
                                                       ompi_communicator_t *comm,
                                                       ompi_request_t **request)
{
    mtl_adaptib_way_t way;
    receive_t *receive;
    int rc;

    if (!is_contiguous(datatype, count)) {
        return shortcut.pml.pml_irecv(buf, count, datatype, src, tag, comm, request);
    }
    rc = ompi_mtl_adaptib_way_from(comm, src, tag, &way);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    receive = take_receive();
    if (NULL == receive) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    return start_receive(receive, buf, count, datatype, src, tag, comm, &way, request);
}

static int shortcut_irecv(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                          ompi_communicator_t *comm, ompi_request_t **request)
{
    mtl_adaptib_way_t way = {ompi_mtl_adaptib.core, NULL};

    if (OPAL_LIKELY(is_contiguous(datatype, count) && has_receive()
                    && (MPI_ANY_SOURCE == src
                            ? 1 == ompi_mtl_adaptib.endpoints
                            : ompi_mtl_adaptib_known_way(comm, src, src, tag, &way)))) {
        receive_t *receive = take_receive();
        return start_receive(receive, buf, count, datatype, src, tag, comm, &way, request);
    }
    return irecv_with_care(buf, count, datatype, src, tag, comm, request);
}

/* A blocking receive's request is on its caller's stack. */
static void blocking_complete(opal_common_adaptib_request_t *request)
{
    receive_t *receive = receive_of(request);

    ompi_mtl_adaptib_received(&receive->super.req_status, request);
    OPAL_COMMON_ADAPTIB_PUBLISHED(&receive->super);
    opal_atomic_wmb();
    ompi_request_complete(&receive->super, true);
}

static int shortcut_recv(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                         ompi_communicator_t *comm, ompi_status_public_t *status)
{
    mtl_adaptib_way_t way;
    receive_t receive;
    int rc;

    if (OPAL_UNLIKELY(!is_contiguous(datatype, count))) {
        return shortcut.pml.pml_recv(buf, count, datatype, src, tag, comm, status);
    }
    rc = ompi_mtl_adaptib_way_from(comm, src, tag, &way);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        return rc;
    }
    prepare(&receive, comm);
    receive.super.req_type = OMPI_REQUEST_PML;
    receive.core.complete = blocking_complete;
    receive.endpoint = way.core;
    rc = start(&receive, buf, count, datatype, src, tag, comm, &way);
    if (OPAL_COMMON_ADAPTIB_SUCCESS == rc) {
        ompi_mtl_adaptib_wait_completion(&receive.super);
    } else if (OPAL_COMMON_ADAPTIB_COMPLETE == rc) {
        ompi_mtl_adaptib_received(&receive.super.req_status, &receive.core);
    } else {
        return opal_common_adaptib_mca_error(rc);
    }
    if (MPI_STATUS_IGNORE != status) {
        OMPI_COPY_STATUS(status, receive.super.req_status, false);
    }
    return receive.super.req_status.MPI_ERROR;
}

static bool is_wanted(void)
{
    return ompi_mtl_adaptib.shortcut && opal_common_adaptib_plain_memory()
           && !ompi_mtl_adaptib_survives_failures()
           && 0 == strcmp(mca_pml_base_selected_component.pmlm_version.mca_component_name, "cm");
}

void ompi_mtl_adaptib_shortcut_open(void)
{
    if (ompi_mtl_adaptib.shortcut_installed || !is_wanted()) {
        return;
    }
    OBJ_CONSTRUCT(&shortcut.receives, opal_free_list_t);
    if (OPAL_SUCCESS
        != opal_free_list_init(&shortcut.receives, sizeof(receive_t), opal_cache_line_size,
                               OBJ_CLASS(receive_t), 0, 0, REQUESTS_AT_ONCE, -1, REQUESTS_AT_ONCE,
                               NULL, 0, NULL, NULL, NULL)) {
        OBJ_DESTRUCT(&shortcut.receives);
        return;
    }
    ++shortcut.opened;
    shortcut.has_key = 0 == pthread_key_create(&shortcut.key, give_all_back);
    shortcut.pml = mca_pml;
    mca_pml.pml_isend = shortcut_isend;
    mca_pml.pml_isend_init = shortcut_isend_init;
    mca_pml.pml_send = shortcut_send;
    mca_pml.pml_irecv_init = shortcut_irecv_init;
    mca_pml.pml_irecv = shortcut_irecv;
    mca_pml.pml_recv = shortcut_recv;
    ompi_mtl_adaptib.shortcut_installed = true;
}

void ompi_mtl_adaptib_shortcut_close(void)
{
    if (!ompi_mtl_adaptib.shortcut_installed) {
        return;
    }
    ompi_mtl_adaptib.shortcut_installed = false;
    mca_pml.pml_isend = shortcut.pml.pml_isend;
    mca_pml.pml_isend_init = shortcut.pml.pml_isend_init;
    mca_pml.pml_send = shortcut.pml.pml_send;
    mca_pml.pml_irecv_init = shortcut.pml.pml_irecv_init;
    mca_pml.pml_irecv = shortcut.pml.pml_irecv;
    mca_pml.pml_recv = shortcut.pml.pml_recv;
    if (kept.opened == shortcut.opened) {
        give_back(&kept, 0);
    }
    references = (references_t){.comm = NULL}; /* MPI_Finalize has freed communicators by now */
    if (shortcut.has_key) {
        (void) pthread_key_delete(shortcut.key);
    }
    OBJ_DESTRUCT(&shortcut.receives);
}
