// SPDX-License-Identifier: BSD-3-Clause
/*
 * Requests of a job that survives failed processes (Open MPI 5, mpirun --with-ft ulfm).
 *
 * Open MPI looks into a request that waits: its communicator may be revoked, its peer may have
 * failed. It reads peer and tag where requests of pml/ob1 have them; those of pml/cm have other
 * members there. So in such a job the entries of Open MPI's table of the PML are replaced by those
 * of mtl_adaptib_survivor_pml.c, whose requests begin as mca_pml_base_request_t does.
 *
 * A request has an operation while the core knows of it. Open MPI ends a request early by a cancel
 * with an error in its status. A receive is cancelled in the core. A send cannot be, since its
 * receiver may be reading: it gets SURVIVOR_GRACE_NS to end, and is then abandoned. The operation
 * lives on until the core ends it, without a request.
 *
 * A communicator's number is used again while messages of a revoked one may still arrive. So the
 * context of a message has the communicator's epoch, too (ompi_mtl_adaptib_context).
 *
 * Threads: any. A lock covers which request an operation has. The thread that parts the two under
 * the lock ends the request; an exchange in the request tells whether its user has freed it before.
 *
 * May touch: Open MPI's headers and the common glue.
 */
#ifndef MTL_ADAPTIB_SURVIVOR_H
#define MTL_ADAPTIB_SURVIVOR_H

#include "opal/mca/btl/btl.h"

#include "mtl_adaptib.h"

#if OPAL_ENABLE_FT_MPI

#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/pml/base/pml_base_request.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/message/message.h"

#include "mtl_adaptib_request.h"

BEGIN_C_DECLS

enum {
    MTL_ADAPTIB_SURVIVOR_GRACE_NS = 1000000000
};

typedef struct mtl_adaptib_survivor_t mtl_adaptib_survivor_t;

/* An operation that the core has under way, or has not told the end of. */
typedef struct {
    opal_free_list_item_t super;
    opal_common_adaptib_request_t core;
    opal_common_adaptib_core_t *endpoint; /* NULL: a send */
    mtl_adaptib_stream_t stream;
    opal_convertor_t convertor;
    ompi_communicator_t *comm;  /* retained; NULL: the message is discarded */
    ompi_datatype_t *datatype;  /* retained */
    mtl_adaptib_survivor_t *of; /* NULL: abandoned */
} mtl_adaptib_operation_t;

struct mtl_adaptib_survivor_t {
    mca_pml_base_request_t super;
    mca_pml_base_send_mode_t mode;
    mtl_adaptib_operation_t *operation; /* NULL: none under way */
    int64_t abandon_at;                 /* ns; 0: not to be abandoned */
};

/* The arguments of a send or receive. */
typedef struct {
    void *buf;
    size_t count;
    ompi_datatype_t *datatype;
    int peer;
    int tag;
    ompi_communicator_t *comm;
} mtl_adaptib_message_t;

void ompi_mtl_adaptib_survivors_open(void);
void ompi_mtl_adaptib_survivors_close(void);

/* Makes a request that is not started. NULL: there is no memory. */
mtl_adaptib_survivor_t *ompi_mtl_adaptib_survivor_new(mca_pml_base_request_type_t type,
                                                      const mtl_adaptib_message_t *message,
                                                      mca_pml_base_send_mode_t mode,
                                                      bool persistent);

/* Starts it. An error that the core reports ends the request. */
int ompi_mtl_adaptib_survivor_start(mtl_adaptib_survivor_t *request);
/* Likewise, a receive of a message that a matched probe took. */
int ompi_mtl_adaptib_survivor_start_matched(mtl_adaptib_survivor_t *request,
                                            ompi_message_t **message);

/* Waits for the request, copies its status and frees it; returns its error. */
int ompi_mtl_adaptib_survivor_finish(mtl_adaptib_survivor_t *request, ompi_status_public_t *status);

/* Tells Open MPI that a rank of the communicator has failed. It may know. */
void ompi_mtl_adaptib_survivors_lost(ompi_communicator_t *comm, int rank);

/* Ends a message that a matched probe took, of any length. */
void ompi_mtl_adaptib_survivors_discard(opal_common_adaptib_core_t *endpoint,
                                        opal_common_adaptib_message_t *message);

/* Takes the messages out of the core that have arrived for a communicator that is revoked, or gone,
 * but for those by which its survivors agree. */
void ompi_mtl_adaptib_survivors_drain(ompi_communicator_t *comm);

/* For a BTL that has lost a process, as mca_btl_base_module_error_cb_fn_t. */
void ompi_mtl_adaptib_survivors_btl_error(struct mca_btl_base_module_t *btl, int32_t flags,
                                          struct opal_proc_t *process, char *info);

/* Replaces the entries of Open MPI's table of the PML, once, if the job survives failures and
 * pml/cm was chosen; puts them back. Called while no thread communicates. */
void ompi_mtl_adaptib_survivors_install(void);
void ompi_mtl_adaptib_survivors_remove(void);

END_C_DECLS

#else

static inline void ompi_mtl_adaptib_survivors_btl_error(struct mca_btl_base_module_t *btl,
                                                        int32_t flags, struct opal_proc_t *process,
                                                        char *info)
{
    (void) btl;
    (void) flags;
    (void) process;
    (void) info;
}

static inline void ompi_mtl_adaptib_survivors_install(void)
{
}

static inline void ompi_mtl_adaptib_survivors_remove(void)
{
}

static inline void ompi_mtl_adaptib_survivors_drain(struct ompi_communicator_t *comm)
{
    (void) comm;
}

#endif /* OPAL_ENABLE_FT_MPI */

#endif /* MTL_ADAPTIB_SURVIVOR_H */
