// SPDX-License-Identifier: BSD-3-Clause
/*
 * Order between threads that goes through Open MPI, said to ThreadSanitizer. Open MPI is not built
 * for it: ThreadSanitizer sees neither Open MPI's atomics nor the fences of its inline functions.
 * Other builds have no code for this.
 *
 * Include opal_config.h or ompi_config.h before it. May touch: Open MPI's headers of the OPAL
 * layer.
 */
#ifndef OPAL_COMMON_ADAPTIB_ORDER_H
#define OPAL_COMMON_ADAPTIB_ORDER_H

#include "opal/class/opal_free_list.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define OPAL_COMMON_ADAPTIB_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define OPAL_COMMON_ADAPTIB_TSAN 1
#endif

/* PUBLISHED: what this thread did before is seen by the next thread that has SEEN the same object,
 * which Open MPI hands from one to the other. */
#if defined(OPAL_COMMON_ADAPTIB_TSAN)
#include <sanitizer/tsan_interface.h>
#define OPAL_COMMON_ADAPTIB_PUBLISHED(object) __tsan_release(object)
#define OPAL_COMMON_ADAPTIB_SEEN(object) __tsan_acquire(object)
#else
#define OPAL_COMMON_ADAPTIB_PUBLISHED(object) ((void) (object))
#define OPAL_COMMON_ADAPTIB_SEEN(object) ((void) (object))
#endif

/* As opal_free_list_get. */
static inline opal_free_list_item_t *opal_common_adaptib_list_get(opal_free_list_t *list)
{
    opal_free_list_item_t *item = opal_free_list_get(list);

    OPAL_COMMON_ADAPTIB_SEEN(item);
    return item;
}

/* As opal_free_list_return. */
static inline void opal_common_adaptib_list_return(opal_free_list_t *list,
                                                   opal_free_list_item_t *item)
{
    OPAL_COMMON_ADAPTIB_PUBLISHED(item);
    opal_free_list_return(list, item);
}

#endif /* OPAL_COMMON_ADAPTIB_ORDER_H */
