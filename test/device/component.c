// SPDX-License-Identifier: BSD-3-Clause
/*
 * A component of Open MPI's framework `accelerator`, for the arena of device.h. In a program
 * without that arena it declines.
 *
 * May touch: Open MPI's headers of the OPAL layer.
 */
#include "opal_config.h"

#include <dlfcn.h>
#include <string.h>

#include "opal/constants.h"
#include "opal/mca/accelerator/accelerator.h"
#include "opal/mca/accelerator/base/base.h"

#include "device/device.h"

enum {
    DEVICE = 0
};

static const device_calls_t *calls;

static int check_addr(const void *addr, int *dev_id, uint64_t *flags)
{
    *dev_id = MCA_ACCELERATOR_NO_DEVICE_ID;
    *flags = 0;
    if (!calls->is_device(addr)) {
        return 0;
    }
    *dev_id = DEVICE;
    return 1;
}

static int create_stream(int dev_id, opal_accelerator_stream_t **stream)
{
    (void) dev_id;
    *stream = OBJ_NEW(opal_accelerator_stream_t);
    return NULL != *stream ? OPAL_SUCCESS : OPAL_ERR_OUT_OF_RESOURCE;
}

static int new_event(opal_accelerator_event_t **event)
{
    *event = OBJ_NEW(opal_accelerator_event_t);
    return NULL != *event ? OPAL_SUCCESS : OPAL_ERR_OUT_OF_RESOURCE;
}

static int record_event(int dev_id, opal_accelerator_event_t *event,
                        opal_accelerator_stream_t *stream)
{
    (void) dev_id;
    (void) event;
    (void) stream;
    return OPAL_SUCCESS;
}

/* Each copy has ended when its call returns. */
static int query_event(int dev_id, opal_accelerator_event_t *event)
{
    (void) dev_id;
    (void) event;
    return OPAL_SUCCESS;
}

static int mem_copy(int dest_dev_id, int src_dev_id, void *dest, const void *src, size_t size,
                    opal_accelerator_transfer_type_t type)
{
    (void) dest_dev_id;
    (void) src_dev_id;
    (void) type;
    calls->copy(dest, src, size);
    return OPAL_SUCCESS;
}

static int mem_copy_async(int dest_dev_id, int src_dev_id, void *dest, const void *src, size_t size,
                          opal_accelerator_stream_t *stream, opal_accelerator_transfer_type_t type)
{
    (void) stream;
    return mem_copy(dest_dev_id, src_dev_id, dest, src, size, type);
}

static int mem_alloc(int dev_id, void **ptr, size_t size)
{
    (void) dev_id;
    *ptr = calls->allocate(size);
    return NULL != *ptr ? OPAL_SUCCESS : OPAL_ERR_OUT_OF_RESOURCE;
}

static int mem_release(int dev_id, void *ptr)
{
    (void) dev_id;
    calls->release(ptr);
    return OPAL_SUCCESS;
}

static int get_address_range(int dev_id, const void *ptr, void **base, size_t *size)
{
    (void) dev_id;
    return calls->range(ptr, base, size) ? OPAL_SUCCESS : OPAL_ERR_NOT_FOUND;
}

static int host_register(int dev_id, void *ptr, size_t size)
{
    (void) dev_id;
    (void) ptr;
    (void) size;
    return OPAL_SUCCESS;
}

static int host_unregister(int dev_id, void *ptr)
{
    (void) dev_id;
    (void) ptr;
    return OPAL_SUCCESS;
}

static int get_device(int *dev_id)
{
    *dev_id = DEVICE;
    return OPAL_SUCCESS;
}

static int get_device_pci_attr(int dev_id, opal_accelerator_pci_attr_t *pci_attr)
{
    (void) dev_id;
    (void) pci_attr;
    return OPAL_ERR_NOT_IMPLEMENTED;
}

static int device_can_access_peer(int *access, int dev1, int dev2)
{
    (void) dev1;
    (void) dev2;
    *access = 0;
    return OPAL_SUCCESS;
}

static int get_buffer_id(int dev_id, const void *addr, opal_accelerator_buffer_id_t *buf_id)
{
    void *base = NULL;
    size_t size;

    (void) dev_id;
    if (!calls->range(addr, &base, &size)) {
        return OPAL_ERR_NOT_FOUND;
    }
    *buf_id = (opal_accelerator_buffer_id_t) calls->number(base);
    return OPAL_SUCCESS;
}

#if OPAL_MAJOR_VERSION >= 6

static int create_event(int dev_id, opal_accelerator_event_t **event, bool enable_ipc)
{
    (void) dev_id;
    (void) enable_ipc;
    return new_event(event);
}

static int sync_stream(opal_accelerator_stream_t *stream)
{
    (void) stream;
    return OPAL_SUCCESS;
}

static int wait_event(int dev_id, opal_accelerator_event_t *event,
                      opal_accelerator_stream_t *stream)
{
    (void) stream;
    return query_event(dev_id, event);
}

static int mem_alloc_stream(int dev_id, void **ptr, size_t size, opal_accelerator_stream_t *stream)
{
    (void) stream;
    return mem_alloc(dev_id, ptr, size);
}

static int mem_release_stream(int dev_id, void *ptr, opal_accelerator_stream_t *stream)
{
    (void) stream;
    return mem_release(dev_id, ptr);
}

/* So the functions that hand memory to other processes are not called. */
static bool is_ipc_enabled(void)
{
    return false;
}

static int num_devices(int *count)
{
    *count = 1;
    return OPAL_SUCCESS;
}

static int get_mem_bw(int dev_id, float *bandwidth)
{
    (void) dev_id;
    *bandwidth = 1;
    return OPAL_SUCCESS;
}

/* Open MPI frees the names. */
static void get_memkind(ompi_memkind_t *memkind)
{
    memkind->im_name = strdup("adaptibtest");
    memkind->im_no_restrictors = false;
    memkind->im_num_restrictors = 1;
    memkind->im_restrictors[0] = strdup("device");
}

#else /* 5.0 */

static int create_event(int dev_id, opal_accelerator_event_t **event)
{
    (void) dev_id;
    return new_event(event);
}

#endif

static opal_accelerator_base_module_t module = {
    .check_addr = check_addr,
    .create_stream = create_stream,
    .create_event = create_event,
    .record_event = record_event,
    .query_event = query_event,
    .mem_copy_async = mem_copy_async,
    .mem_copy = mem_copy,
    .mem_move = mem_copy,
    .mem_alloc = mem_alloc,
    .mem_release = mem_release,
    .get_address_range = get_address_range,
    .host_register = host_register,
    .host_unregister = host_unregister,
    .get_device = get_device,
    .get_device_pci_attr = get_device_pci_attr,
    .device_can_access_peer = device_can_access_peer,
    .get_buffer_id = get_buffer_id,
#if OPAL_MAJOR_VERSION >= 6
    .sync_stream = sync_stream,
    .wait_event = wait_event,
    .mem_move_async = mem_copy_async,
    .mem_alloc_stream = mem_alloc_stream,
    .mem_release_stream = mem_release_stream,
    .is_ipc_enabled = is_ipc_enabled,
    .num_devices = num_devices,
    .get_mem_bw = get_mem_bw,
    .get_memkind = get_memkind,
#endif
};

static opal_accelerator_base_module_t *component_init(void)
{
    calls = dlsym(RTLD_DEFAULT, "device_calls");
    return NULL != calls ? &module : NULL;
}

static void component_finalize(opal_accelerator_base_module_t *ended)
{
    (void) ended;
}

extern opal_accelerator_base_component_t mca_accelerator_adaptibtest_component;

opal_accelerator_base_component_t mca_accelerator_adaptibtest_component = {
    .base_version =
        {
            OPAL_ACCELERATOR_BASE_VERSION_1_0_0,

            .mca_component_name = "adaptibtest",
            MCA_BASE_MAKE_VERSION(component, OPAL_MAJOR_VERSION, OPAL_MINOR_VERSION,
                                  OPAL_RELEASE_VERSION),
        },
    .base_data =
        {
            .param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT,
        },
    .accelerator_init = component_init,
    .accelerator_finalize = component_finalize,
};

#if defined(MCA_BASE_COMPONENT_INIT)
MCA_BASE_COMPONENT_INIT(opal, accelerator, adaptibtest)
#endif
