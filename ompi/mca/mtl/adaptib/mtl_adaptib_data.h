// SPDX-License-Identifier: BSD-3-Clause
/*
 * Conversion of a convertor into the core's data description.
 *
 * pml/cm of Open MPI 4.1 passes two kinds of convertors. A prepared one has pBaseBuf = the user's
 * buffer, whose first byte is true_lb further. A contiguous send gets a short one, of which only
 * pDesc, count, pBaseBuf (true_lb already added), local_size and flags are set; it lacks
 * CONVERTOR_SEND, which tells the two apart.
 *
 * Non-contiguous data has a stream, which lives in the request; ompi_mtl_adaptib_stream_end must
 * run before the request's completion callback.
 */
#ifndef MTL_ADAPTIB_DATA_H
#define MTL_ADAPTIB_DATA_H

#include "mtl_adaptib.h"
#include "mtl_adaptib_layout.h"

BEGIN_C_DECLS

typedef struct {
    opal_convertor_t *convertor;
    mtl_adaptib_layout_t *layout; /* made if the convertor cannot be used */
} mtl_adaptib_stream_t;

/* Callbacks of the core; context is the stream. */
int ompi_mtl_adaptib_pack(void *context, size_t offset, void *to, size_t *length);
int ompi_mtl_adaptib_unpack(void *context, size_t offset, const void *from, size_t *length);

/* Tells the core where a stream's data lies on an accelerator. */
extern const opal_common_adaptib_accelerators_t ompi_mtl_adaptib_accelerators;

/* Address for the bytes of an empty message: it exists, and is not accessed. */
extern char ompi_mtl_adaptib_nothing[1];

static inline void *ompi_mtl_adaptib_base(void *base, size_t bytes)
{
    return OPAL_LIKELY(bytes > 0) ? base : ompi_mtl_adaptib_nothing;
}

static inline void ompi_mtl_adaptib_contiguous(opal_common_adaptib_data_t *data, void *base,
                                               size_t bytes)
{
    data->base = ompi_mtl_adaptib_base(base, bytes);
    data->bytes = bytes;
    data->pack = NULL;
    data->unpack = NULL;
    data->context = NULL;
}

/* True if the data of a prepared convertor is contiguous, and the processor reaches it. */
static inline bool ompi_mtl_adaptib_is_contiguous(const opal_convertor_t *convertor)
{
    return !opal_convertor_need_buffers(convertor) && !opal_common_adaptib_on_device(convertor);
}

static inline void ompi_mtl_adaptib_prepared(opal_common_adaptib_data_t *data,
                                             opal_convertor_t *convertor,
                                             mtl_adaptib_stream_t *stream)
{
    size_t bytes;

    opal_convertor_get_packed_size(convertor, &bytes);
    if (0 == bytes || ompi_mtl_adaptib_is_contiguous(convertor)) {
        ompi_mtl_adaptib_contiguous(data, convertor->pBaseBuf + convertor->pDesc->true_lb, bytes);
        return;
    }
    stream->convertor = convertor;
    data->base = NULL;
    data->bytes = bytes;
    data->pack = ompi_mtl_adaptib_pack;
    data->unpack = ompi_mtl_adaptib_unpack;
    data->context = stream;
}

/* True for a short convertor: contiguous data to be sent, at pBaseBuf. */
static inline bool ompi_mtl_adaptib_is_short(const opal_convertor_t *convertor)
{
    return 0 == (convertor->flags & CONVERTOR_SEND);
}

static inline void ompi_mtl_adaptib_send_data(opal_common_adaptib_data_t *data,
                                              opal_convertor_t *convertor,
                                              mtl_adaptib_stream_t *stream)
{
    if (OPAL_LIKELY(ompi_mtl_adaptib_is_short(convertor))) {
        ompi_mtl_adaptib_contiguous(data, convertor->pBaseBuf, convertor->local_size);
    } else {
        ompi_mtl_adaptib_prepared(data, convertor, stream);
    }
}

static inline void ompi_mtl_adaptib_receive_data(opal_common_adaptib_data_t *data,
                                                 opal_convertor_t *convertor,
                                                 mtl_adaptib_stream_t *stream)
{
    stream->layout = NULL;
    ompi_mtl_adaptib_prepared(data, convertor, stream);
}

static inline void ompi_mtl_adaptib_stream_end(mtl_adaptib_stream_t *stream)
{
    if (OPAL_UNLIKELY(NULL != stream->layout)) {
        free(stream->layout);
    }
}

END_C_DECLS

#endif /* MTL_ADAPTIB_DATA_H */
