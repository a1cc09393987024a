// SPDX-License-Identifier: BSD-3-Clause
/*
 * MPI_Send and its relatives: blocking in ompi_mtl_adaptib_send, all others (buffered ones, too) in
 * ompi_mtl_adaptib_isend.
 */
#include "ompi_config.h"

#include "opal/runtime/opal_progress.h"

#include "mtl_adaptib_request.h"

/* A blocking send waits for its request on its own stack. */
typedef struct {
    opal_common_adaptib_request_t core;
    mtl_adaptib_stream_t stream;
    int error; /* MPI_ERROR */
    bool done; /* set last: the waiting thread then returns */
} blocking_send_t;

static void blocking_complete(opal_common_adaptib_request_t *request)
{
    blocking_send_t *send = (blocking_send_t *) request;

    ompi_mtl_adaptib_stream_end(&send->stream);
    send->error = ompi_mtl_adaptib_mpi_error(request->status);
    __atomic_store_n(&send->done, true, __ATOMIC_RELEASE);
}

static void isend_complete(opal_common_adaptib_request_t *request)
{
    mca_mtl_adaptib_request_t *send = ompi_mtl_adaptib_request_of(request);

    send->super.ompi_req->req_status.MPI_ERROR = ompi_mtl_adaptib_mpi_error(request->status);
    ompi_mtl_adaptib_stream_end(&send->stream);
    if (OPAL_LIKELY(!ompi_mtl_adaptib.ending)) {
        ompi_mtl_adaptib_end(&send->super);
    }
}

/* Blocking collectives use plain sends with negative tags, so the tag is checked before the
 * verb. */
static inline opal_common_adaptib_op_kind_t op_kind_of(int tag, bool blocking)
{
    if (tag < 0) {
        return blocking ? OPAL_COMMON_ADAPTIB_BLOCKING_COLLECTIVE : OPAL_COMMON_ADAPTIB_COLLECTIVE;
    }
    return blocking ? OPAL_COMMON_ADAPTIB_BLOCKING : OPAL_COMMON_ADAPTIB_NON_BLOCKING;
}

/* True if the fast path before pml/cm (mtl_adaptib_shortcut.h) has refused the message, or would
 * have: only persistent and buffered sends do not pass it. */
static inline bool comes_refused(mca_pml_base_send_mode_t mode, bool persistent)
{
    return ompi_mtl_adaptib.shortcut_installed && !persistent && MCA_PML_BASE_SEND_BUFFERED != mode;
}

/* MCA_PML_BASE_SEND_COMPLETE asks for local completion, as the standard mode provides; a ready send
 * may be treated as a standard one, and the bytes of a buffered one are in a buffer by now. */
static inline opal_common_adaptib_mode_t core_mode_of(mca_pml_base_send_mode_t mode, bool refused)
{
    if (MCA_PML_BASE_SEND_SYNCHRONOUS == mode) {
        return OPAL_COMMON_ADAPTIB_MODE_SYNC;
    }
    return refused ? OPAL_COMMON_ADAPTIB_MODE_REFUSED : OPAL_COMMON_ADAPTIB_MODE_STANDARD;
}

static inline int start(struct ompi_communicator_t *comm, int dest, int tag,
                        struct opal_convertor_t *convertor, opal_common_adaptib_mode_t mode,
                        bool blocking, mtl_adaptib_stream_t *stream,
                        opal_common_adaptib_request_t *request)
{
    const opal_common_adaptib_envelope_t envelope = {
        .context = ompi_mtl_adaptib_context(comm),
        .source = comm->c_my_rank,
        .tag = tag,
    };
    opal_common_adaptib_data_t data;
    mtl_adaptib_way_t way;

    if (OPAL_UNLIKELY(OMPI_SUCCESS != ompi_mtl_adaptib_way_to(comm, dest, tag, &way))) {
        return OPAL_COMMON_ADAPTIB_UNREACHABLE;
    }
    ompi_mtl_adaptib_send_data(&data, convertor, stream);
    return opal_common_adaptib_send(way.core, way.peer, &envelope, &data, mode,
                                    op_kind_of(tag, blocking), request);
}

/* Tries the fast path unless it has refused the message before. `refused`: set if it refuses the
 * message here. */
static inline bool try_send(struct ompi_communicator_t *comm, int dest, int tag,
                            const struct opal_convertor_t *convertor, mca_pml_base_send_mode_t mode,
                            bool blocking, bool *refused)
{
    if (*refused || !ompi_mtl_adaptib_is_short(convertor)
        || MCA_PML_BASE_SEND_SYNCHRONOUS == mode) {
        return false;
    }
    *refused = true;
    return ompi_mtl_adaptib_try_send(comm, dest, tag, blocking, convertor->pBaseBuf,
                                     convertor->local_size);
}

int ompi_mtl_adaptib_send(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm,
                          int dest, int tag, struct opal_convertor_t *convertor,
                          mca_pml_base_send_mode_t mode)
{
    blocking_send_t send;
    bool refused = comes_refused(mode, false);
    int rc;

    (void) mtl;
    if (try_send(comm, dest, tag, convertor, mode, true, &refused)) {
        return MPI_SUCCESS;
    }
    send.core.complete = blocking_complete;
    send.done = false;
    send.stream.layout = NULL;
    rc = start(comm, dest, tag, convertor, core_mode_of(mode, refused), true, &send.stream,
               &send.core);
    /* SUCCESS: started, the rare case; COMPLETE: already done. */
    if (OPAL_LIKELY(OPAL_COMMON_ADAPTIB_SUCCESS != rc)) {
        ompi_mtl_adaptib_stream_end(&send.stream);
        return OPAL_LIKELY(OPAL_COMMON_ADAPTIB_COMPLETE == rc)
                   ? ompi_mtl_adaptib_mpi_error(send.core.status)
                   : opal_common_adaptib_mca_error(rc);
    }
    while (!__atomic_load_n(&send.done, __ATOMIC_ACQUIRE)) {
        opal_progress();
    }
    return send.error;
}

int ompi_mtl_adaptib_isend(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm,
                           int dest, int tag, struct opal_convertor_t *convertor,
                           mca_pml_base_send_mode_t mode, bool blocking,
                           mca_mtl_request_t *mtl_request)
{
    mca_mtl_adaptib_request_t *request = (mca_mtl_adaptib_request_t *) mtl_request;
    bool refused = comes_refused(mode, mtl_request->ompi_req->req_persistent);
    int rc;

    (void) mtl;
    ompi_mtl_adaptib_begin(mtl_request);
    /* pml/cm does so for receives alone. Open MPI frees a request whose status has an error. */
    mtl_request->ompi_req->req_status.MPI_ERROR = MPI_SUCCESS;
    if (try_send(comm, dest, tag, convertor, mode, blocking, &refused)) {
        ompi_mtl_adaptib_end(&request->super);
        return OMPI_SUCCESS;
    }
    request->core.complete = isend_complete;
    request->endpoint = NULL;
    request->stream.layout = NULL;
    rc = start(comm, dest, tag, convertor, core_mode_of(mode, refused), blocking, &request->stream,
               &request->core);
    return ompi_mtl_adaptib_stream_started(rc, request);
}
