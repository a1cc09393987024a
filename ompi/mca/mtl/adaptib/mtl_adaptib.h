// SPDX-License-Identifier: BSD-3-Clause
/*
 * The MTL: two-sided traffic of pml/cm, handed to the core.
 *
 * Life cycle. Open MPI registers and opens the component, queries its priority, and calls init,
 * which acquires the core and registers the progress function. A component that loses the selection
 * is finalized and closed before MPI_Init returns. Peers are looked up at the first message to
 * them.
 *
 * There is a file for each verb: mtl_adaptib_{send,recv,probe,cancel}.c. mtl_adaptib_way.h says
 * which endpoint carries a message. mtl_adaptib_shortcut.c is the fast path of most messages, past
 * pml/cm. mtl_adaptib_data.h turns a convertor into the core's description of a buffer (with
 * mtl_adaptib_layout.h); mtl_adaptib_request.h completes requests.
 *
 * Threads. The module is constant between init and finalize, except `ending` and
 * `shortcut_installed`; the core takes its own lock.
 *
 * May touch: Open MPI's headers and the common glue.
 */
#ifndef MTL_ADAPTIB_H
#define MTL_ADAPTIB_H

#include "ompi_config.h"

#include "ompi/communicator/communicator.h"
#include "ompi/mca/mtl/base/base.h"
#include "ompi/mca/mtl/mtl.h"
#include "ompi/proc/proc.h"
#include "ompi/runtime/params.h"
#include "opal/datatype/opal_convertor.h"

#include "opal/mca/common/adaptib/common_adaptib.h"
#include "opal/mca/common/adaptib/common_adaptib_compat.h"
#include "opal/mca/common/adaptib/common_adaptib_order.h"
#include "opal/mca/common/adaptib/common_adaptib_mca.h"
#include "opal/mca/common/adaptib/common_adaptib_two_sided.h"

BEGIN_C_DECLS

typedef struct {
    mca_mtl_base_module_t super;
    opal_common_adaptib_core_t *core; /* the first endpoint */
    uint32_t endpoints;               /* of this process */
    bool reuse_asserted;              /* by some communicator (ompi_mtl_adaptib_reuses) */
    bool prepared_btls;
    bool selected; /* pml/cm was chosen, with this MTL */
    bool shortcut; /* the parameter: mtl_adaptib_shortcut.h */
    /* The fast path of mtl_adaptib_shortcut.h is installed. Changes while no thread
     * communicates. */
    bool shortcut_installed;
    /* Set by MPI_Finalize. Requests that complete from then on were abandoned by their user:
     * communicators are gone, and the requests stay where they are. */
    bool ending;
} mca_mtl_adaptib_module_t;

extern mca_mtl_adaptib_module_t ompi_mtl_adaptib;
OPAL_COMMON_ADAPTIB_EXPORT extern mca_mtl_base_component_t mca_mtl_adaptib_component;

/* True if the user's choice of MTLs names adaptib. */
bool ompi_mtl_adaptib_is_named(void);

int ompi_mtl_adaptib_add_procs(struct mca_mtl_base_module_t *mtl, size_t nprocs,
                               struct ompi_proc_t **procs);
int ompi_mtl_adaptib_del_procs(struct mca_mtl_base_module_t *mtl, size_t nprocs,
                               struct ompi_proc_t **procs);
int ompi_mtl_adaptib_add_comm(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm);
int ompi_mtl_adaptib_del_comm(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm);
int ompi_mtl_adaptib_finalize(struct mca_mtl_base_module_t *mtl);
int ompi_mtl_adaptib_progress(void);

int ompi_mtl_adaptib_send(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm,
                          int dest, int tag, struct opal_convertor_t *convertor,
                          mca_pml_base_send_mode_t mode);
int ompi_mtl_adaptib_isend(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm,
                           int dest, int tag, struct opal_convertor_t *convertor,
                           mca_pml_base_send_mode_t mode, bool blocking,
                           mca_mtl_request_t *mtl_request);
int ompi_mtl_adaptib_irecv(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm,
                           int src, int tag, struct opal_convertor_t *convertor,
                           struct mca_mtl_request_t *mtl_request);
int ompi_mtl_adaptib_imrecv(struct mca_mtl_base_module_t *mtl, struct opal_convertor_t *convertor,
                            struct ompi_message_t **message, struct mca_mtl_request_t *mtl_request);
int ompi_mtl_adaptib_iprobe(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm,
                            int src, int tag, int *flag, struct ompi_status_public_t *status);
int ompi_mtl_adaptib_improbe(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm,
                             int src, int tag, int *matched, struct ompi_message_t **message,
                             struct ompi_status_public_t *status);
int ompi_mtl_adaptib_cancel(struct mca_mtl_base_module_t *mtl, mca_mtl_request_t *mtl_request,
                            int flag);

/* The source, tag and envelope that a receive or a probe asks for. Open MPI's own traffic has
 * negative tags other than MPI_ANY_TAG, and the core's ANY_TAG does not match negative ones. */
static inline int32_t ompi_mtl_adaptib_wanted_source(int src)
{
    return MPI_ANY_SOURCE == src ? OPAL_COMMON_ADAPTIB_ANY_SOURCE : src;
}

static inline int32_t ompi_mtl_adaptib_wanted_tag(int tag)
{
    return MPI_ANY_TAG == tag ? OPAL_COMMON_ADAPTIB_ANY_TAG : tag;
}

/* The context of a communicator's messages. In a job that survives failures a number is used again
 * while messages of its last communicator may still arrive, so the context has the epoch, too,
 * where the number leaves room for it. */
static inline uint32_t ompi_mtl_adaptib_context(struct ompi_communicator_t *comm)
{
    const uint32_t number = OPAL_COMMON_ADAPTIB_COMM_CID(comm);

#if OPAL_ENABLE_FT_MPI
    if (OPAL_UNLIKELY(ompi_ftmpi_enabled) && number < UINT32_C(1) << 16) {
        return number | (comm->c_epoch & UINT32_C(0x7fff)) << 16;
    }
#endif
    return number;
}

static inline opal_common_adaptib_envelope_t
ompi_mtl_adaptib_wanted(struct ompi_communicator_t *comm, int src, int tag)
{
    opal_common_adaptib_envelope_t envelope;

    envelope.context = ompi_mtl_adaptib_context(comm);
    envelope.source = ompi_mtl_adaptib_wanted_source(src);
    envelope.tag = ompi_mtl_adaptib_wanted_tag(tag);
    return envelope;
}

END_C_DECLS

#endif /* MTL_ADAPTIB_H */
