// SPDX-License-Identifier: BSD-3-Clause
/*
 * The BTL: fragments, remote memory access and atomics of pml/ob1 and osc/rdma, handed to the core.
 *
 * Life cycle. Open MPI registers and opens the component and calls init, which acquires the core,
 * listens for its active messages and returns the one module. The BML asks for endpoints
 * (add_procs), registers the progress function if it uses one of them, and finalizes the module at
 * the end.
 *
 * There is a file for each verb: btl_adaptib_{send,receive,rdma,memory}.c; btl_adaptib_fragment.h
 * has the descriptors; btl_adaptib_device.h deals with memory of an accelerator. A fragment is one
 * active message with Open MPI's tag as its tag, without a header of its own.
 *
 * Peers. The BTL does not care whether two processes share a host as Open MPI sees it: the core
 * says which ones its fabrics reach. This process itself is a peer, too, since osc/rdma needs that;
 * ob1's messages to it go through btl/self, which has the higher exclusivity.
 *
 * Threads. The module is constant between init and finalize, except its lists, which lock as Open
 * MPI's free lists do, and an endpoint's two flags; the core takes its own lock. If the process has
 * several endpoints in the core's sense (parameter `endpoints`; here: cores), each thread uses one
 * of them (btl_adaptib_way.h).
 *
 * May touch: Open MPI's headers of the OPAL layer and the common glue.
 */
#ifndef BTL_ADAPTIB_H
#define BTL_ADAPTIB_H

#include "opal_config.h"

#include "opal/class/opal_free_list.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"
#include "opal/util/proc.h"

#include "opal/mca/common/adaptib/common_adaptib.h"
#include "opal/mca/common/adaptib/common_adaptib_active.h"
#include "opal/mca/common/adaptib/common_adaptib_compat.h"
#include "opal/mca/common/adaptib/common_adaptib_order.h"
#include "opal/mca/common/adaptib/common_adaptib_mca.h"
#include "opal/mca/common/adaptib/common_adaptib_one_sided.h"

BEGIN_C_DECLS

typedef struct mca_btl_base_endpoint_t mca_btl_base_endpoint_t;

typedef struct {
    mca_btl_base_module_t super;
    opal_common_adaptib_core_t *core; /* the first; NULL: not initialized, or finalized */
    uint32_t cores;                   /* of this process */
    bool gathers; /* the device may read data in place from the users' buffers */
    bool devices; /* buffers may lie in the memory of an accelerator */
    mca_btl_base_module_error_cb_fn_t error; /* NULL: no PML over this BTL */
    opal_free_list_t headers;    /* fragments for control messages, and before data in place */
    opal_free_list_t eager;      /* fragments of eager_bytes */
    opal_free_list_t large;      /* fragments of btl_max_send_size bytes */
    opal_free_list_t operations; /* one-sided operations under way */
    opal_free_list_t memory;     /* registrations */
    /* Endpoints of deleted processes, kept because operations still under way name them. */
    struct mca_btl_base_endpoint_t *retired;
    size_t eager_bytes;
    /* The core's size that btl_eager_limit follows, without headers; NULL: the user has set it. */
    const size_t *limit;
} mca_btl_adaptib_module_t;

/* The other ways to a process, of one of this process's cores but the first. NULL: not used yet.
 * The first core's peer: this core cannot reach the process. */
typedef struct {
    opal_common_adaptib_peer_t *messages;  /* to the core of the same number, modulo theirs */
    opal_common_adaptib_peer_t *one_sided; /* to their first core */
} mca_btl_adaptib_peers_t;

struct mca_btl_base_endpoint_t {
    /* Members that each message uses: in one cache line, as malloc aligns. */
    opal_common_adaptib_peer_t *peer; /* from the first core to their first core */
    bool self;
    bool used;   /* has carried traffic, so the core's messages are shown to the user */
    bool failed; /* Open MPI has been told that it cannot be reached */
    opal_proc_t *proc;
    struct mca_btl_base_endpoint_t *next; /* in the module's `retired` */
    mca_btl_adaptib_peers_t others[];     /* by number of the core; none if there is one core */
};

extern mca_btl_adaptib_module_t mca_btl_adaptib;
OPAL_COMMON_ADAPTIB_EXPORT extern mca_btl_base_component_t mca_btl_adaptib_component;

/* The lists are opened when the limits are known, and closed after the core, which refers to
 * items. */
int mca_btl_adaptib_lists_open(void);
void mca_btl_adaptib_lists_close(void);

enum {
    MCA_BTL_ADAPTIB_PML_BYTES = 128, /* most bytes of a PML's headers */
    MCA_BTL_ADAPTIB_LONG = 2048      /* least payload that teaches the core about limits */
};

/* Updates the limit, which Open MPI reads for each message. Several threads may do so at the same
 * time, while another one, with the core's lock, changes the core's limit. */
static inline void mca_btl_adaptib_follow_limit(void)
{
    if (NULL != mca_btl_adaptib.limit) {
        const size_t wanted =
            __atomic_load_n(mca_btl_adaptib.limit, __ATOMIC_RELAXED) + MCA_BTL_ADAPTIB_PML_BYTES;
        const size_t most = mca_btl_adaptib.super.btl_max_send_size;

        __atomic_store_n(&mca_btl_adaptib.super.btl_eager_limit, wanted < most ? wanted : most,
                         __ATOMIC_RELAXED);
    }
}

int mca_btl_adaptib_progress(void);

/* True if the user's choice of BTLs names adaptib. */
bool mca_btl_adaptib_is_named(void);

/* The name of the PML that Open MPI has chosen; NULL: unknown. */
const char *mca_btl_adaptib_pml(void);
/* Tells the user, once the PML is known, if a component of adaptib was named and is not used. */
void mca_btl_adaptib_pml_watch(void);
void mca_btl_adaptib_pml_forget(void);

/* Notes the first traffic of an endpoint. */
void mca_btl_adaptib_used(mca_btl_base_endpoint_t *endpoint);

/* Threads may find at the same time that an endpoint was not used before; each then says so. */
static inline bool mca_btl_adaptib_is_used(const mca_btl_base_endpoint_t *endpoint)
{
    return __atomic_load_n(&endpoint->used, __ATOMIC_RELAXED);
}

/* Returns the OPAL_* code for the core's `status` of an operation for `endpoint`. If the endpoint
 * cannot be reached any more, tells Open MPI so, once. */
int mca_btl_adaptib_failed(mca_btl_base_endpoint_t *endpoint, int status);

/* Likewise, for an operation that was started and that its target then refused. */
int mca_btl_adaptib_refused(mca_btl_base_endpoint_t *endpoint);

/* Likewise, for one whose memory, at either end, is not mapped, or protected. */
int mca_btl_adaptib_faulted(mca_btl_base_endpoint_t *endpoint);

/* Likewise, for an operation on device memory that failed when it had begun. */
int mca_btl_adaptib_broken_off(mca_btl_base_endpoint_t *endpoint, int status);

/* Listener of a core, `context`, for broken connections. */
void mca_btl_adaptib_broken(void *context, opal_common_adaptib_peer_t *peer);

static inline int mca_btl_adaptib_error(mca_btl_base_endpoint_t *endpoint, int status)
{
    return OPAL_LIKELY(OPAL_COMMON_ADAPTIB_SUCCESS == status)
               ? OPAL_SUCCESS
               : mca_btl_adaptib_failed(endpoint, status);
}

mca_btl_base_descriptor_t *mca_btl_adaptib_alloc(mca_btl_base_module_t *btl,
                                                 mca_btl_base_endpoint_t *endpoint, uint8_t order,
                                                 size_t size, uint32_t flags);
int mca_btl_adaptib_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor);
mca_btl_base_descriptor_t *mca_btl_adaptib_prepare_src(mca_btl_base_module_t *btl,
                                                       mca_btl_base_endpoint_t *endpoint,
                                                       opal_convertor_t *convertor, uint8_t order,
                                                       size_t reserve, size_t *size,
                                                       uint32_t flags);
int mca_btl_adaptib_send(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                         mca_btl_base_descriptor_t *descriptor, mca_btl_base_tag_t tag);
int mca_btl_adaptib_sendi(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                          opal_convertor_t *convertor, void *header, size_t header_size,
                          size_t payload_size, uint8_t order, uint32_t flags,
                          mca_btl_base_tag_t tag, mca_btl_base_descriptor_t **descriptor);

/* Passes segments that have arrived to the callback registered for the tag. */
void mca_btl_adaptib_deliver(mca_btl_base_endpoint_t *from, mca_btl_base_tag_t tag,
                             mca_btl_base_segment_t *segments, size_t count);
/* Listener of a core, `context`, for active messages. */
void mca_btl_adaptib_receive(void *context, opal_common_adaptib_peer_t *peer, uint8_t tag,
                             const void *data, size_t bytes);

mca_btl_base_registration_handle_t *mca_btl_adaptib_register_mem(mca_btl_base_module_t *btl,
                                                                 mca_btl_base_endpoint_t *endpoint,
                                                                 void *base, size_t size,
                                                                 uint32_t flags);
int mca_btl_adaptib_deregister_mem(mca_btl_base_module_t *btl,
                                   mca_btl_base_registration_handle_t *handle);

int mca_btl_adaptib_put(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                        void *local_address, uint64_t remote_address,
                        mca_btl_base_registration_handle_t *local_handle,
                        mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                        int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                        void *cbdata);
int mca_btl_adaptib_get(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                        void *local_address, uint64_t remote_address,
                        mca_btl_base_registration_handle_t *local_handle,
                        mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                        int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                        void *cbdata);
int mca_btl_adaptib_atomic_fop(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                               void *local_address, uint64_t remote_address,
                               mca_btl_base_registration_handle_t *local_handle,
                               mca_btl_base_registration_handle_t *remote_handle,
                               mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                               mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                               void *cbdata);
int mca_btl_adaptib_atomic_cswap(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                                 void *local_address, uint64_t remote_address,
                                 mca_btl_base_registration_handle_t *local_handle,
                                 mca_btl_base_registration_handle_t *remote_handle,
                                 uint64_t compare, uint64_t value, int flags, int order,
                                 mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                                 void *cbdata);
int mca_btl_adaptib_flush(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint);

END_C_DECLS

#endif /* BTL_ADAPTIB_H */
