// SPDX-License-Identifier: BSD-3-Clause
/*
 * Random access to non-contiguous data: the blocks of one datatype element. A division and a binary
 * search find any range of the packed stream.
 *
 * A convertor is a cursor. Moving it back and forth, or leaving it within a basic element, is not
 * reliable in the supported releases of Open MPI (4.1.4 overwrites its stack for elements of 32
 * bytes). So the convertor is used forward and for whole elements only, and a layout for everything
 * else.
 *
 * May touch: Open MPI's datatypes.
 */
#ifndef MTL_ADAPTIB_LAYOUT_H
#define MTL_ADAPTIB_LAYOUT_H

#include "ompi_config.h"

#include "opal/datatype/opal_convertor.h"

typedef struct {
    ptrdiff_t place; /* in memory, from the element's origin */
    size_t start;    /* in the element's packed bytes */
} mtl_adaptib_block_t;

/* Blocks are in the order of the packed stream; an extra one, with start == `size`, ends the
 * list. */
typedef struct {
    size_t size;      /* packed bytes of an element, not zero */
    ptrdiff_t extent; /* from an element's origin to the next one's */
    size_t count;
    mtl_adaptib_block_t blocks[];
} mtl_adaptib_layout_t;

/* Makes the layout of `datatype`; the caller frees it. NULL: no memory. REQUIRES: its size is not
 * zero. */
mtl_adaptib_layout_t *ompi_mtl_adaptib_layout_make(const opal_datatype_t *datatype);

/* Copies `length` bytes between `packed` and the stream's range from `offset`; `origin` is the
 * user's buffer. REQUIRES: the range lies within the data. */
void ompi_mtl_adaptib_layout_pack(const mtl_adaptib_layout_t *layout, const char *origin,
                                  size_t offset, char *packed, size_t length);
void ompi_mtl_adaptib_layout_unpack(const mtl_adaptib_layout_t *layout, char *origin, size_t offset,
                                    const char *packed, size_t length);

#endif /* MTL_ADAPTIB_LAYOUT_H */
