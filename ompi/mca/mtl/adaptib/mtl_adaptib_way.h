// SPDX-License-Identifier: BSD-3-Clause
/*
 * The way of a message: the endpoint of this process that carries it (the parameter `endpoints`),
 * and the peer there.
 *
 * A communicator has a key, the same in all its processes: its number, or the value of its info key
 * "adaptib_endpoint". Its messages go from endpoint (key modulo the sender's number of endpoints)
 * to endpoint (key modulo the receiver's), so order, wildcards and probes stay within one endpoint.
 * A communicator that is made with the info key mpi_assert_no_any_source or mpi_assert_no_any_tag
 * is spread: the rank of the sender, or the tag, is added to the key of its messages, and both with
 * both keys. Two messages that one receive could match thus still take the same way, in their
 * order. Open MPI's own messages, whose tags are negative, are not spread. MPI allows an
 * implementation to require that all processes give such keys alike, and this one does. Keys are
 * read when the communicator is made; later changes have no effect. A receive or probe that the
 * keys exclude could wait for ever: it is an error (MPI_ERR_ARG), and a message says why.
 *
 * mpi_assert_allow_overtaking and mpi_assert_exact_length are known (MPI_Comm_get_info returns
 * them) and change nothing, so processes may differ in them. Overtaking would let the sender's
 * thread choose the way. But a receive admits the messages that wait at one peer (back-pressure),
 * and ends with an error if that one is lost, so it has to know the way.
 *
 * Both numbers are powers of two, so the key modulo the larger one names both ends.
 *
 * Threads: any.
 *
 * May touch: Open MPI's headers and the common glue.
 */
#ifndef MTL_ADAPTIB_WAY_H
#define MTL_ADAPTIB_WAY_H

#include "mtl_adaptib.h"

BEGIN_C_DECLS

typedef struct {
    opal_common_adaptib_core_t *core; /* the endpoint */
    opal_common_adaptib_peer_t *peer; /* NULL: any source */
} mtl_adaptib_way_t;

/* The peers of a process where it or this process has several endpoints. */
typedef struct {
    uint32_t theirs; /* its endpoints */
    uint32_t count;  /* the larger number of endpoints of both: a power of two */
    opal_common_adaptib_peer_t *peers[];
} mtl_adaptib_peers_t;

/* Reads the keys of a new communicator. */
void ompi_mtl_adaptib_way_of_comm(struct ompi_communicator_t *comm);

/* Returns true if the communicator has the info key adaptib_assert_buffer_reuse with the value
 * "true": its small messages come from the same buffers again and again. */
bool ompi_mtl_adaptib_reuses(const struct ompi_communicator_t *comm);

/* Returns true if the communicator's messages are spread over the endpoints, except Open MPI's. */
bool ompi_mtl_adaptib_is_spread(const struct ompi_communicator_t *comm);

/* Releases the peers of a process. */
void ompi_mtl_adaptib_ways_release(struct ompi_proc_t *proc);

/* Finds the way at first contact, or where there are several endpoints. */
int ompi_mtl_adaptib_way_with_care(struct ompi_communicator_t *comm, struct ompi_proc_t *proc,
                                   int source, int tag, mtl_adaptib_way_t *way);
/* Finds the endpoint of a message from any source, where there are several. */
int ompi_mtl_adaptib_way_from_any(struct ompi_communicator_t *comm, int tag,
                                  mtl_adaptib_way_t *way);

/* Open MPI keeps for a process a peer, or with the lowest bit set a mtl_adaptib_peers_t. */
static inline bool ompi_mtl_adaptib_is_table(const void *entry)
{
    return 0 != ((uintptr_t) entry & 1);
}

/* The way of a message of process number `source` of the communicator, to or from process number
 * `rank`. Returns false if it is not found at once. */
static inline __opal_attribute_always_inline__ bool
ompi_mtl_adaptib_known_way(struct ompi_communicator_t *comm, int rank, int source, int tag,
                           mtl_adaptib_way_t *way)
{
    struct ompi_proc_t *proc = ompi_group_peer_lookup_existing(comm->c_remote_group, rank);

    if (OPAL_UNLIKELY(NULL == proc)) {
        return false;
    }
    way->core = ompi_mtl_adaptib.core;
    way->peer =
        __atomic_load_n(&proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL], __ATOMIC_ACQUIRE);
    if (OPAL_UNLIKELY(ompi_mtl_adaptib_is_table(way->peer))) {
        return OMPI_SUCCESS == ompi_mtl_adaptib_way_with_care(comm, proc, source, tag, way);
    }
    return NULL != way->peer;
}

static inline int ompi_mtl_adaptib_way(struct ompi_communicator_t *comm, int rank, int source,
                                       int tag, mtl_adaptib_way_t *way)
{
    return OPAL_LIKELY(ompi_mtl_adaptib_known_way(comm, rank, source, tag, way))
               ? OMPI_SUCCESS
               : ompi_mtl_adaptib_way_with_care(comm, ompi_comm_peer_lookup(comm, rank), source,
                                                tag, way);
}

/* The way of a message that this process sends. */
static inline int ompi_mtl_adaptib_way_to(struct ompi_communicator_t *comm, int dest, int tag,
                                          mtl_adaptib_way_t *way)
{
    return ompi_mtl_adaptib_way(comm, dest, comm->c_my_rank, tag, way);
}

/* The way of a message that a receive or a probe asks for. */
static inline int ompi_mtl_adaptib_way_from(struct ompi_communicator_t *comm, int src, int tag,
                                            mtl_adaptib_way_t *way)
{
    if (MPI_ANY_SOURCE == src) {
        if (OPAL_UNLIKELY(1 != ompi_mtl_adaptib.endpoints)) {
            return ompi_mtl_adaptib_way_from_any(comm, tag, way);
        }
        way->core = ompi_mtl_adaptib.core;
        way->peer = NULL;
        return OMPI_SUCCESS;
    }
    return ompi_mtl_adaptib_way(comm, src, src, tag, way);
}

/* A message that a matched probe took: the core's handle, and in the lowest bits the number of its
 * endpoint. */
static inline void *ompi_mtl_adaptib_mark(opal_common_adaptib_message_t *taken, uint32_t endpoint)
{
    return (void *) ((uintptr_t) taken | endpoint);
}

static inline opal_common_adaptib_message_t *
ompi_mtl_adaptib_taken(void *marked, opal_common_adaptib_core_t **endpoint)
{
    const uintptr_t mark = (uintptr_t) marked % OPAL_COMMON_ADAPTIB_MESSAGE_ALIGNMENT;

    *endpoint = opal_common_adaptib_endpoint(ompi_mtl_adaptib.core, (uint32_t) mark);
    return (opal_common_adaptib_message_t *) ((uintptr_t) marked - mark);
}

END_C_DECLS

#endif /* MTL_ADAPTIB_WAY_H */
