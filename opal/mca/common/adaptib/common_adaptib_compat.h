// SPDX-License-Identifier: BSD-3-Clause
/*
 * Differences between the Open MPI releases that the C glue is built for (4.1, 5.0 and 6.0):
 * includes, names, signatures. Besides this header only common_adaptib_compat_events.h depends on
 * Open MPI's version.
 *
 * Include opal_config.h or ompi_config.h before it. May touch: Open MPI's headers of the OPAL
 * layer.
 */
#ifndef OPAL_COMMON_ADAPTIB_COMPAT_H
#define OPAL_COMMON_ADAPTIB_COMPAT_H

#if OPAL_MAJOR_VERSION < 4 || (OPAL_MAJOR_VERSION == 4 && OPAL_MINOR_VERSION < 1)
#error "adaptib needs Open MPI 4.1 or later"
#endif

#include <string.h>

#include "opal/datatype/opal_convertor.h"
#include "opal/mca/mca.h"
#include "opal/util/info.h"
#include "opal/util/proc.h"

/* Room in the buffer that the program has attached, since 6.0 to a communicator perhaps. */
#if OPAL_MAJOR_VERSION >= 6
#define OPAL_COMMON_ADAPTIB_BSEND_TAKE(comm, bytes)                                                \
    mca_pml_base_bsend_request_alloc_buf((comm), (bytes))
#define OPAL_COMMON_ADAPTIB_BSEND_GIVE(comm, room) mca_pml_base_bsend_request_free((comm), (room))
#else
#define OPAL_COMMON_ADAPTIB_BSEND_TAKE(comm, bytes) mca_pml_base_bsend_request_alloc_buf(bytes)
#define OPAL_COMMON_ADAPTIB_BSEND_GIVE(comm, room) mca_pml_base_bsend_request_free(room)
#endif

#if OPAL_MAJOR_VERSION >= 5

#include "opal/mca/accelerator/base/base.h"
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/mca/threads/thread_usage.h"

#define OPAL_COMMON_ADAPTIB_MODEX_GLOBAL PMIX_GLOBAL
#define OPAL_COMMON_ADAPTIB_JOB_SIZE PMIX_JOB_SIZE
#define OPAL_COMMON_ADAPTIB_UINT32 PMIX_UINT32

/* The arguments of an MTL's init function, and its answer on support of device memory. */
#define OPAL_COMMON_ADAPTIB_MTL_INIT_ARGS                                                          \
    bool enable_progress_threads, bool enable_mpi_threads, bool *accelerator_support
#define OPAL_COMMON_ADAPTIB_MTL_INIT_NO_DEVICES *accelerator_support = false

/* Calls `registered` (mca_btl_active_message_callback_t) with the segments that have arrived. The
 * sender is passed on, since Open MPI's own one-sided operations over active messages use it. */
#define OPAL_COMMON_ADAPTIB_BTL_DELIVER(registered, module, from, am_tag, segments, count)         \
    do {                                                                                           \
        const mca_btl_base_receive_descriptor_t arrived = {                                        \
            .endpoint = (from),                                                                    \
            .des_segments = (segments),                                                            \
            .des_segment_count = (count),                                                          \
            .tag = (am_tag),                                                                       \
            .cbdata = (registered)->cbdata,                                                        \
        };                                                                                         \
        (registered)->cbfunc((module), &arrived);                                                  \
    } while (0)

#define OPAL_COMMON_ADAPTIB_BTL_SENDER(core, peer)                                                 \
    opal_common_adaptib_peer_user_data((core), (peer))

/* A put completes when its data is at the target. */
#define OPAL_COMMON_ADAPTIB_BTL_REMOTE_COMPLETION MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION

/* Only pml/ob1 prepares the BTLs, but osc/rdma needs them under pml/cm, too (Open MPI's pull
 * request 13312): so the MTL does. */
#define OPAL_COMMON_ADAPTIB_MTL_PREPARES_BTLS true

/* The extended number of a communicator in 32 bits, apart from local ones: the number that PMIx
 * gave the group, which a job's daemons count, and the one within it. */
#define OPAL_COMMON_ADAPTIB_EXTENDED_CID(cid)                                                      \
    (UINT32_C(0x80000000) | ((uint32_t) (cid).cid_base << 8 & UINT32_C(0x7fffff00))                \
     | (cid).cid_sub.u8[3])

/* The number of a communicator that all its processes use. Open MPI keeps the local number the same
 * in all of them, unless the communicator was made from a group (sessions). */
#define OPAL_COMMON_ADAPTIB_COMM_CID(comm)                                                         \
    (OPAL_LIKELY(OMPI_COMM_IS_GLOBAL_INDEX(comm))                                                  \
         ? (uint32_t) ompi_comm_get_local_cid(comm)                                                \
         : OPAL_COMMON_ADAPTIB_EXTENDED_CID((comm)->c_contextid))

#define OPAL_COMMON_ADAPTIB_MTL_FLAGS MCA_MTL_BASE_FLAG_SUPPORTS_EXT_CID

/* Makes what this process has published since the last time visible to others. */
static inline bool opal_common_adaptib_modex_commit(void)
{
    return PMIX_SUCCESS == PMIx_Commit();
}

/* Keeps PMIx in use until the second call: Open MPI 5.0 ends it before the BTLs. */
static inline bool opal_common_adaptib_modex_hold(void)
{
    pmix_proc_t self;

    return PMIX_SUCCESS == PMIx_Init(&self, NULL, 0);
}

static inline void opal_common_adaptib_modex_drop(void)
{
    (void) PMIx_Finalize(NULL, 0);
}

/* Looks up bytes that a process has published, or publishes within `seconds`. The caller frees
 * them. */
static inline bool opal_common_adaptib_modex_get(const opal_process_name_t *process,
                                                 const char *key, int seconds, void **data,
                                                 size_t *size)
{
    pmix_proc_t proc;
    pmix_info_t info;
    pmix_value_t *value = NULL;
    bool found;

    OPAL_PMIX_CONVERT_NAME(&proc, process);
    PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_INT);
    found = PMIX_SUCCESS == PMIx_Get(&proc, key, &info, 1, &value) && NULL != value
            && PMIX_BYTE_OBJECT == value->type;
    PMIX_INFO_DESTRUCT(&info);
    if (found) {
        *data = value->data.bo.bytes;
        *size = value->data.bo.size;
        value->data.bo.bytes = NULL; /* the caller's */
        value->data.bo.size = 0;
    }
    if (NULL != value) {
        PMIX_VALUE_RELEASE(value);
    }
    return found;
}

/* Copies the value of a key; false if there is none, or it does not fit. */
static inline bool opal_common_adaptib_info_get(opal_info_t *info, const char *key, char *value,
                                                size_t size)
{
    opal_cstring_t *text = NULL;
    int found = 0;
    bool fits = false;

    if (OPAL_SUCCESS == opal_info_get(info, key, &text, &found) && 0 != found) {
        fits = strlen(text->string) < size;
        strcpy(value, fits ? text->string : "");
        OBJ_RELEASE(text);
    }
    return fits;
}

/* True if the data may lie in a device's memory, which only Open MPI's own copy functions reach. */
static inline bool opal_common_adaptib_on_device(const opal_convertor_t *convertor)
{
    return 0 != opal_convertor_on_device(convertor);
}

/* True if Open MPI has a component for an accelerator. */
static inline bool opal_common_adaptib_has_devices(void)
{
    const char *accelerator =
        opal_accelerator_base_selected_component.base_version.mca_component_name;

    return 0 != strcmp(accelerator, "null");
}

/* True if the address lies in a device's memory. */
static inline bool opal_common_adaptib_is_device(const void *address)
{
    uint64_t flags = 0;
    int device = MCA_ACCELERATOR_NO_DEVICE_ID;

    return 0 < opal_accelerator.check_addr(address, &device, &flags);
}

/* Finds the allocation of a device's memory around an address; returns false if there is none, or
 * the device's component does not tell, or does not number allocations (0). */
static inline bool opal_common_adaptib_device_allocation(const void *address, void **base,
                                                         size_t *bytes, uint64_t *id)
{
    uint64_t flags = 0;
    int device = MCA_ACCELERATOR_NO_DEVICE_ID;
    opal_accelerator_buffer_id_t number;

    if (0 >= opal_accelerator.check_addr(address, &device, &flags)
        || OPAL_SUCCESS != opal_accelerator.get_address_range(device, address, base, bytes)
        || OPAL_SUCCESS != opal_accelerator.get_buffer_id(device, *base, &number) || 0 == number) {
        return false;
    }
    *id = number;
    return true;
}

/* Copies between a device's memory and the host's; returns false if that failed. */
static inline bool opal_common_adaptib_device_copy(void *to, const void *from, size_t bytes)
{
    return OPAL_SUCCESS
           == opal_accelerator.mem_copy(MCA_ACCELERATOR_NO_DEVICE_ID, MCA_ACCELERATOR_NO_DEVICE_ID,
                                        to, from, bytes, MCA_ACCELERATOR_TRANSFER_UNSPEC);
}

/* True if no buffer of this process can lie in a device's memory, and no peer can have another byte
 * order. */
static inline bool opal_common_adaptib_plain_memory(void)
{
    return !OPAL_ENABLE_HETEROGENEOUS_SUPPORT && !opal_common_adaptib_has_devices();
}

#else /* 4.1 */

#include "opal/mca/pmix/pmix.h"
#include "opal/threads/thread_usage.h"

#define OPAL_COMMON_ADAPTIB_MODEX_GLOBAL OPAL_PMIX_GLOBAL
#define OPAL_COMMON_ADAPTIB_JOB_SIZE OPAL_PMIX_JOB_SIZE
#define OPAL_COMMON_ADAPTIB_UINT32 OPAL_UINT32

#define OPAL_COMMON_ADAPTIB_MTL_INIT_ARGS bool enable_progress_threads, bool enable_mpi_threads
#define OPAL_COMMON_ADAPTIB_MTL_INIT_NO_DEVICES (void) 0

#define OPAL_COMMON_ADAPTIB_BTL_DELIVER(registered, module, from, am_tag, segments, count)         \
    do {                                                                                           \
        mca_btl_base_descriptor_t arrived;                                                         \
        (void) (from);                                                                             \
        arrived.des_segments = (segments);                                                         \
        arrived.des_segment_count = (count);                                                       \
        arrived.des_cbfunc = NULL;                                                                 \
        arrived.des_cbdata = NULL;                                                                 \
        arrived.des_context = NULL;                                                                \
        arrived.des_flags = 0;                                                                     \
        arrived.order = MCA_BTL_NO_ORDER;                                                          \
        (registered)->cbfunc((module), (am_tag), &arrived, (registered)->cbdata);                  \
    } while (0)

/* Nothing uses the sender. */
#define OPAL_COMMON_ADAPTIB_BTL_SENDER(core, peer) ((void) (core), (void) (peer), NULL)

#define OPAL_COMMON_ADAPTIB_BTL_REMOTE_COMPLETION 0

/* osc/rdma prepares the BTLs itself. */
#define OPAL_COMMON_ADAPTIB_MTL_PREPARES_BTLS false

#define OPAL_COMMON_ADAPTIB_COMM_CID(comm) ompi_comm_get_cid(comm)
#define OPAL_COMMON_ADAPTIB_MTL_FLAGS 0

static inline bool opal_common_adaptib_modex_commit(void)
{
    return OPAL_SUCCESS == opal_pmix.commit();
}

/* PMIx ends after all components. */
static inline bool opal_common_adaptib_modex_hold(void)
{
    return false;
}

static inline void opal_common_adaptib_modex_drop(void)
{
}

static inline bool opal_common_adaptib_modex_get(const opal_process_name_t *process,
                                                 const char *key, int seconds, void **data,
                                                 size_t *size)
{
    opal_value_t *timeout = OBJ_NEW(opal_value_t);
    opal_value_t *value = NULL;
    opal_list_t options;
    bool found;

    OBJ_CONSTRUCT(&options, opal_list_t);
    timeout->key = strdup(OPAL_PMIX_TIMEOUT);
    timeout->type = OPAL_INT;
    timeout->data.integer = seconds;
    opal_list_append(&options, &timeout->super);
    found = OPAL_SUCCESS == opal_pmix.get(process, key, &options, &value) && NULL != value
            && OPAL_BYTE_OBJECT == value->type;
    if (found) {
        *data = value->data.bo.bytes;
        *size = (size_t) value->data.bo.size;
        value->data.bo.bytes = NULL; /* the caller's */
    }
    if (NULL != value) {
        OBJ_RELEASE(value);
    }
    OPAL_LIST_DESTRUCT(&options);
    return found;
}

static inline bool opal_common_adaptib_info_get(opal_info_t *info, const char *key, char *value,
                                                size_t size)
{
    int found = 0;

    return OPAL_SUCCESS == opal_info_get(info, key, (int) size - 1, value, &found) && 0 != found;
}

static inline bool opal_common_adaptib_on_device(const opal_convertor_t *convertor)
{
#if OPAL_CUDA_SUPPORT
    return 0 != (convertor->flags & (CONVERTOR_CUDA | CONVERTOR_CUDA_UNIFIED));
#else
    (void) convertor;
    return false;
#endif
}

/* Only convertors tell of device memory. */
static inline bool opal_common_adaptib_has_devices(void)
{
    return false;
}

static inline bool opal_common_adaptib_is_device(const void *address)
{
    (void) address;
    return false;
}

static inline bool opal_common_adaptib_device_allocation(const void *address, void **base,
                                                         size_t *bytes, uint64_t *id)
{
    (void) address;
    (void) base;
    (void) bytes;
    (void) id;
    return false;
}

static inline bool opal_common_adaptib_device_copy(void *to, const void *from, size_t bytes)
{
    (void) to;
    (void) from;
    (void) bytes;
    return false;
}

static inline bool opal_common_adaptib_plain_memory(void)
{
    return !OPAL_ENABLE_HETEROGENEOUS_SUPPORT && !OPAL_CUDA_SUPPORT;
}

#endif

#endif /* OPAL_COMMON_ADAPTIB_COMPAT_H */
