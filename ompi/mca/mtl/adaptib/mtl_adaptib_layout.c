// SPDX-License-Identifier: BSD-3-Clause
/*
 * Random access to non-contiguous data (mtl_adaptib_layout.h).
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "ompi/datatype/ompi_datatype.h"

#include "mtl_adaptib_layout.h"

enum {
    BLOCKS_AT_FIRST = 32,
    BLOCKS_AT_ONCE = 64
};

static mtl_adaptib_layout_t *resized(mtl_adaptib_layout_t *layout, size_t blocks)
{
    mtl_adaptib_layout_t *larger =
        realloc(layout, sizeof(*layout) + blocks * sizeof(layout->blocks[0]));

    if (NULL == larger) {
        free(layout);
    }
    return larger;
}

/* Adds `length` bytes at `place`, as a part of the last block if they follow it in memory. */
static void append(mtl_adaptib_layout_t *layout, ptrdiff_t place, size_t length)
{
    mtl_adaptib_block_t *end = &layout->blocks[layout->count];
    mtl_adaptib_block_t *last = end - 1;

    if (0 == layout->count || last->place + (ptrdiff_t) (end->start - last->start) != place) {
        end->place = place;
        layout->count++;
        end++;
        end->start = end[-1].start;
    }
    end->start += length;
}

/* Reads the blocks from the start of a convertor for one element. */
static mtl_adaptib_layout_t *read_blocks(mtl_adaptib_layout_t *layout, opal_convertor_t *convertor)
{
    size_t room = BLOCKS_AT_FIRST;
    int32_t done = 0;

    while (NULL != layout && !done) {
        struct iovec iov[BLOCKS_AT_ONCE];
        uint32_t iov_count = BLOCKS_AT_ONCE;
        size_t length = SIZE_MAX;

        done = opal_convertor_raw(convertor, iov, &iov_count, &length);
        if (layout->count + iov_count + 1 > room) {
            room = 2 * room + BLOCKS_AT_ONCE;
            layout = resized(layout, room);
        }
        for (uint32_t i = 0; NULL != layout && i < iov_count; ++i) {
            append(layout, (char *) iov[i].iov_base - (char *) convertor->pBaseBuf, iov[i].iov_len);
        }
        if (!done && 0 == iov_count) {
            free(layout);
            return NULL;
        }
    }
    return layout;
}

mtl_adaptib_layout_t *ompi_mtl_adaptib_layout_make(const opal_datatype_t *datatype)
{
    mtl_adaptib_layout_t *layout = resized(NULL, BLOCKS_AT_FIRST);
    opal_convertor_t convertor;

    if (NULL == layout) {
        return NULL;
    }
    layout->size = datatype->size;
    layout->extent = datatype->ub - datatype->lb;
    layout->count = 0;
    layout->blocks[0].start = 0;
    if (0 != (datatype->flags & OPAL_DATATYPE_FLAG_CONTIGUOUS)) {
        append(layout, datatype->true_lb, datatype->size);
        return layout;
    }
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    /* Places are relative to the buffer's start, and the buffer is not accessed. */
    opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, datatype, 1, layout, 0,
                                             &convertor);
    layout = read_blocks(layout, &convertor);
    OBJ_DESTRUCT(&convertor);
    if (NULL != layout && layout->blocks[layout->count].start != layout->size) {
        free(layout);
        return NULL;
    }
    return layout;
}

/* Returns the block of an element that contains byte `within` of its packed bytes. */
static size_t find_block(const mtl_adaptib_layout_t *layout, size_t within)
{
    size_t low = 0;
    size_t high = layout->count;

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (layout->blocks[middle].start <= within) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Copies a range block by block, out of the user's memory or into it. */
static inline __opal_attribute_always_inline__ void copy_range(const mtl_adaptib_layout_t *layout,
                                                               char *origin, size_t offset,
                                                               char *packed, size_t length,
                                                               bool to_user)
{
    char *element = origin + (ptrdiff_t) (offset / layout->size) * layout->extent;
    size_t within = offset % layout->size;
    size_t index = find_block(layout, within);

    while (length > 0) {
        const mtl_adaptib_block_t *block = &layout->blocks[index];
        const size_t rest = block[1].start - within;
        const size_t bytes = rest < length ? rest : length;
        char *place = element + block->place + (within - block->start);

        memcpy(to_user ? place : packed, to_user ? packed : place, bytes);
        packed += bytes;
        length -= bytes;
        within += bytes;
        if (++index == layout->count) {
            element += layout->extent;
            within = 0;
            index = 0;
        }
    }
}

void ompi_mtl_adaptib_layout_pack(const mtl_adaptib_layout_t *layout, const char *origin,
                                  size_t offset, char *packed, size_t length)
{
    copy_range(layout, (char *) origin, offset, packed, length, false);
}

void ompi_mtl_adaptib_layout_unpack(const mtl_adaptib_layout_t *layout, char *origin, size_t offset,
                                    const char *packed, size_t length)
{
    copy_range(layout, origin, offset, (char *) packed, length, true);
}
