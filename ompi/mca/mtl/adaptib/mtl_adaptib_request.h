// SPDX-License-Identifier: BSD-3-Clause
/*
 * Requests: the memory that pml/cm reserves behind its own request, and their completion.
 *
 * A request belongs to the core from the call that starts it until its completion. A blocking
 * receive's request and convertor live on the stack of the caller, which may return as soon as the
 * completion callback has run: they must not be touched after it.
 */
#ifndef MTL_ADAPTIB_REQUEST_H
#define MTL_ADAPTIB_REQUEST_H

#include <stddef.h>

#include "ompi/request/request.h"

#include "mtl_adaptib_data.h"
#include "mtl_adaptib_ended.h"
#include "mtl_adaptib_way.h"

BEGIN_C_DECLS

typedef struct {
    struct mca_mtl_request_t super;
    opal_common_adaptib_request_t core;
    opal_common_adaptib_core_t *endpoint; /* receives: theirs */
    mtl_adaptib_stream_t stream;          /* unused, and so untouched, in contiguous receives */
} mca_mtl_adaptib_request_t;

static inline mca_mtl_adaptib_request_t *
ompi_mtl_adaptib_request_of(opal_common_adaptib_request_t *request)
{
    return (mca_mtl_adaptib_request_t *) ((char *) request
                                          - offsetof(mca_mtl_adaptib_request_t, core));
}

/* The MPI_ERROR of a request that ended with an OPAL_COMMON_ADAPTIB_* status. */
static inline int ompi_mtl_adaptib_mpi_error(int status)
{
    switch (status) {
    case OPAL_COMMON_ADAPTIB_SUCCESS:
    case OPAL_COMMON_ADAPTIB_CANCELLED:
        return MPI_SUCCESS;
    case OPAL_COMMON_ADAPTIB_TRUNCATED:
        return MPI_ERR_TRUNCATE;
    case OPAL_COMMON_ADAPTIB_NO_MEMORY:
        return MPI_ERR_NO_MEM;
    case OPAL_COMMON_ADAPTIB_UNREACHABLE:
#if OPAL_ENABLE_FT_MPI
        return ompi_ftmpi_enabled ? MPI_ERR_PROC_FAILED : MPI_ERR_OTHER;
#else
        return MPI_ERR_OTHER;
#endif
    default:
        return MPI_ERR_INTERN;
    }
}

/* Fills in the status of a receive that has ended. */
static inline void ompi_mtl_adaptib_received(ompi_status_public_t *status,
                                             const opal_common_adaptib_request_t *request)
{
    status->MPI_SOURCE = request->source;
    status->MPI_TAG = request->tag;
    status->MPI_ERROR = ompi_mtl_adaptib_mpi_error(request->status);
    status->_ucount = request->bytes;
}

/* Sends the most frequent kind of message: contiguous, to a process that was looked up before, with
 * room for it now. `blocking`: the caller waits for the send. Returns false if it was not sent. */
static inline __opal_attribute_always_inline__ bool
ompi_mtl_adaptib_try_send(struct ompi_communicator_t *comm, int dest, int tag, bool blocking,
                          const void *base, size_t bytes)
{
    mtl_adaptib_way_t way;

    if (OPAL_UNLIKELY(!ompi_mtl_adaptib_known_way(comm, dest, comm->c_my_rank, tag, &way))) {
        return false;
    }
    if (OPAL_UNLIKELY(ompi_mtl_adaptib.reuse_asserted) && !blocking
        && ompi_mtl_adaptib_reuses(comm)) {
        opal_common_adaptib_expect_reuse(way.core, way.peer, base, bytes);
    }
    return OPAL_COMMON_ADAPTIB_COMPLETE
           == (blocking ? opal_common_adaptib_try_send : opal_common_adaptib_try_isend)(
               way.core, way.peer, OPAL_COMMON_ADAPTIB_COMM_CID(comm), comm->c_my_rank, tag, base,
               bytes);
}

/* Starts a receive of contiguous data (ompi_mtl_adaptib_way_from); returns the core's code. */
static inline int ompi_mtl_adaptib_recv_contig(struct ompi_communicator_t *comm, int src, int tag,
                                               const mtl_adaptib_way_t *way, void *base,
                                               size_t bytes, opal_common_adaptib_request_t *request)
{
    return opal_common_adaptib_recv_contig(way->core, way->peer, OPAL_COMMON_ADAPTIB_COMM_CID(comm),
                                           ompi_mtl_adaptib_wanted_source(src),
                                           ompi_mtl_adaptib_wanted_tag(tag), base, bytes, request);
}

/* Cancels a receive that is not matched yet, and runs its completion function. A request that is
 * complete, or will complete, stays as it is. */
int ompi_mtl_adaptib_cancel_request(struct ompi_request_t *request,
                                    opal_common_adaptib_core_t *endpoint,
                                    opal_common_adaptib_request_t *core);

/* Finishes a call of the core that returned `rc`: completes a request that is already done, through
 * the function that the core would have called. */
static inline int ompi_mtl_adaptib_started(int rc, mca_mtl_adaptib_request_t *request)
{
    if (OPAL_LIKELY(OPAL_COMMON_ADAPTIB_SUCCESS == rc)) {
        return OMPI_SUCCESS;
    }
    if (OPAL_COMMON_ADAPTIB_COMPLETE == rc) {
        request->core.complete(&request->core);
        return OMPI_SUCCESS;
    }
    return opal_common_adaptib_mca_error(rc);
}

/* Likewise for a request with a stream; its completion function ends the stream. */
static inline int ompi_mtl_adaptib_stream_started(int rc, mca_mtl_adaptib_request_t *request)
{
    if (OPAL_UNLIKELY(rc < 0)) {
        ompi_mtl_adaptib_stream_end(&request->stream);
    }
    return ompi_mtl_adaptib_started(rc, request);
}

END_C_DECLS

#endif /* MTL_ADAPTIB_REQUEST_H */
