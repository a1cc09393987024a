// SPDX-License-Identifier: BSD-3-Clause
/*
 * Non-contiguous data: packing and unpacking, through Open MPI's convertor while it moves forward
 * over whole basic elements, and through a layout otherwise.
 */
#include "ompi_config.h"

#include <sys/uio.h>

#include "mtl_adaptib_data.h"

char ompi_mtl_adaptib_nothing[1];

static const mtl_adaptib_layout_t *layout_of(mtl_adaptib_stream_t *stream)
{
    if (NULL == stream->layout) {
        stream->layout = ompi_mtl_adaptib_layout_make(stream->convertor->pDesc);
    }
    return stream->layout;
}

/* Returns true if the convertor can continue at `offset`. For memory of a device it is moved there,
 * since a layout's copies do not reach that memory. */
static bool convertor_goes_to(opal_convertor_t *convertor, size_t offset)
{
    size_t position = offset;

    if (offset == convertor->bConverted) {
        return true;
    }
    return opal_common_adaptib_on_device(convertor)
           && opal_convertor_set_position(convertor, &position) >= 0 && position == offset;
}

int ompi_mtl_adaptib_pack(void *context, size_t offset, void *to, size_t *length)
{
    mtl_adaptib_stream_t *stream = context;
    opal_convertor_t *convertor = stream->convertor;
    const mtl_adaptib_layout_t *layout;

    /* The convertor packs whole basic elements, perhaps none. */
    if (OPAL_LIKELY(convertor_goes_to(convertor, offset))) {
        struct iovec iov = {.iov_base = to, .iov_len = *length};
        uint32_t iov_count = 1;
        size_t packed = *length;

        if (opal_convertor_pack(convertor, &iov, &iov_count, &packed) < 0) {
            return OPAL_ERROR;
        }
        if (OPAL_LIKELY(packed > 0)) {
            *length = packed;
            return OPAL_SUCCESS;
        }
    }
    layout = opal_common_adaptib_on_device(convertor) ? NULL : layout_of(stream);
    if (NULL == layout) {
        return OPAL_ERROR;
    }
    ompi_mtl_adaptib_layout_pack(layout, (const char *) convertor->pBaseBuf, offset, to, *length);
    return OPAL_SUCCESS;
}

int ompi_mtl_adaptib_unpack(void *context, size_t offset, const void *from, size_t *length)
{
    mtl_adaptib_stream_t *stream = context;
    opal_convertor_t *convertor = stream->convertor;
    const mtl_adaptib_layout_t *layout;

    /* The whole message, so no basic element is cut. */
    if (OPAL_LIKELY(0 == offset && convertor->local_size == *length)
        || opal_common_adaptib_on_device(convertor)) {
        struct iovec iov = {.iov_base = (void *) from, .iov_len = *length};
        uint32_t iov_count = 1;
        size_t unpacked = *length;

        if (!convertor_goes_to(convertor, offset)
            || opal_convertor_unpack(convertor, &iov, &iov_count, &unpacked) < 0 || 0 == unpacked) {
            return OPAL_ERROR;
        }
        *length = unpacked;
        return OPAL_SUCCESS;
    }
    layout = layout_of(stream);
    if (NULL == layout) {
        return OPAL_ERROR;
    }
    ompi_mtl_adaptib_layout_unpack(layout, (char *) convertor->pBaseBuf, offset, from, *length);
    return OPAL_SUCCESS;
}

/* True if the packed bytes are those in memory. opal_convertor_need_buffers is always true for data
 * on a device. */
static bool is_one_piece(const opal_convertor_t *convertor)
{
    const uint32_t flags = convertor->flags;

    return 0 != (flags & CONVERTOR_HOMOGENEOUS)
           && (0 != (flags & OPAL_DATATYPE_FLAG_NO_GAPS)
               || (1 == convertor->count && 0 != (flags & OPAL_DATATYPE_FLAG_CONTIGUOUS)));
}

static bool locate(void *context, opal_common_adaptib_accelerator_place_t *place)
{
    const opal_convertor_t *convertor = ((mtl_adaptib_stream_t *) context)->convertor;

    if (!opal_common_adaptib_on_device(convertor) || !is_one_piece(convertor)) {
        return false;
    }
    place->address = convertor->pBaseBuf + convertor->pDesc->true_lb;
    return opal_common_adaptib_device_allocation(place->address, &place->base, &place->bytes,
                                                 &place->id);
}

static bool exists(const opal_common_adaptib_accelerator_place_t *place)
{
    opal_common_adaptib_accelerator_place_t now;

    return opal_common_adaptib_device_allocation(place->base, &now.base, &now.bytes, &now.id)
           && now.base == place->base && now.bytes == place->bytes && now.id == place->id;
}

const opal_common_adaptib_accelerators_t ompi_mtl_adaptib_accelerators = {
    .locate = locate,
    .exists = exists,
};
