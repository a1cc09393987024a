// SPDX-License-Identifier: BSD-3-Clause
/*
 * The stand-in for the core below operations on device memory (device_stand_in.h).
 */
#include "unit/btl/device_stand_in.h"

#include "opal_config.h"

#include <string.h>

#include "opal/mca/btl/adaptib/btl_adaptib_device.h"

/* The function for copies is inline, and has nothing to call before Open MPI 5. */
static bool copy_or_fail(void *to, const void *from, size_t bytes);
#define opal_common_adaptib_device_copy copy_or_fail
#include "opal/mca/btl/adaptib/btl_adaptib_device.c"

#include "unit/btl/way_stand_in.h"

static opal_common_adaptib_one_sided_t piece; /* under way */
static opal_common_adaptib_request_t *request;

device_stand_in_t device_stand_in;

static void move(const opal_common_adaptib_one_sided_t *what)
{
    void *target = (void *) (uintptr_t) what->remote_address;

    if (OPAL_COMMON_ADAPTIB_PUT == what->operation) {
        memcpy(target, what->local, what->bytes);
    } else {
        memcpy(what->local, target, what->bytes);
    }
}

int opal_common_adaptib_rma_start(opal_common_adaptib_core_t *core,
                                  opal_common_adaptib_peer_t *peer,
                                  const opal_common_adaptib_one_sided_t *operation,
                                  opal_common_adaptib_request_t *started)
{
    const int code = device_stand_in.codes[device_stand_in.starts++ % DEVICE_MOST_CODES];

    (void) core;
    (void) peer;
    if (OPAL_COMMON_ADAPTIB_COMPLETE == code) {
        move(operation);
    } else if (OPAL_COMMON_ADAPTIB_SUCCESS == code) {
        piece = *operation;
        request = started;
    }
    return code;
}

static bool copy_or_fail(void *to, const void *from, size_t bytes)
{
    if (++device_stand_in.copies == device_stand_in.failing_copy) {
        return false;
    }
    memcpy(to, from, bytes);
    return true;
}

void opal_common_adaptib_mca_say(opal_common_adaptib_severity_t severity, const char *text)
{
    (void) severity;
    (void) text;
}

static int give_up(void)
{
    ++device_stand_in.gave_up;
    return OPAL_ERROR;
}

int mca_btl_adaptib_failed(mca_btl_base_endpoint_t *endpoint, int status)
{
    (void) endpoint;
    return OPAL_COMMON_ADAPTIB_UNREACHABLE == status ? give_up() : OPAL_ERR_OUT_OF_RESOURCE;
}

int mca_btl_adaptib_refused(mca_btl_base_endpoint_t *endpoint)
{
    (void) endpoint;
    return give_up();
}

int mca_btl_adaptib_broken_off(mca_btl_base_endpoint_t *endpoint, int status)
{
    (void) endpoint;
    (void) status;
    return give_up();
}

static void done(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, void *local,
                 mca_btl_base_registration_handle_t *handle, void *context, void *data, int status)
{
    (void) btl;
    (void) endpoint;
    (void) local;
    (void) handle;
    (void) context;
    (void) data;
    ++device_stand_in.callbacks;
    device_stand_in.succeeded = OPAL_SUCCESS == status;
}

void device_stand_in_open(void)
{
    memset(&device_stand_in, 0, sizeof(device_stand_in));
    request = NULL;
}

bool device_stand_in_start(bool put, void *device, void *target, size_t bytes)
{
    static opal_common_adaptib_remote_t remote;
    const opal_common_adaptib_one_sided_t what = {
        .operation = put ? OPAL_COMMON_ADAPTIB_PUT : OPAL_COMMON_ADAPTIB_GET,
        .local = device,
        .remote_address = (uint64_t) (uintptr_t) target,
        .remote = &remote,
        .bytes = bytes,
    };

    return OPAL_SUCCESS
           == mca_btl_adaptib_device_start(way_stand_in_endpoint(), &what, NULL, done, NULL, NULL);
}

void device_stand_in_end(int status)
{
    if (OPAL_COMMON_ADAPTIB_SUCCESS == status) {
        move(&piece);
    }
    request->status = status;
    request->complete(request);
}

void device_stand_in_progress(void)
{
    mca_btl_adaptib_device_retry();
}

void device_stand_in_finalize(void)
{
    mca_btl_adaptib_device_close();
    mca_btl_adaptib.core = NULL;
}

bool device_stand_in_busy(void)
{
    return mca_btl_adaptib_device_busy();
}
