/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C interface of the core: one-sided traffic, that is, registration of memory, puts, gets,
 * atomics and flushes. It is not ordered, neither among itself nor with messages. A request
 * completes when the data is at the target (put, atomics) or here (get, atomics). common_adaptib.h
 * says what holds for every function: threads, ownership of requests and buffers, errors.
 *
 * May touch: common_adaptib.h.
 */
#ifndef OPAL_COMMON_ADAPTIB_ONE_SIDED_H
#define OPAL_COMMON_ADAPTIB_ONE_SIDED_H

#include "common_adaptib.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct opal_common_adaptib_region opal_common_adaptib_region_t;

/* Description that a peer needs to reach a region; plain bytes, sent as they are. */
typedef struct {
    uint64_t base;
    uint64_t bytes;
    uint32_t keys[8]; /* by rail of the target (kMaxRails) */
    uint16_t key_count;
    uint8_t key_epoch;
    uint8_t reserved;
    uint32_t access;
} opal_common_adaptib_remote_t;

enum {
    OPAL_COMMON_ADAPTIB_REMOTE_READ = 1,
    OPAL_COMMON_ADAPTIB_REMOTE_WRITE = 2,
    OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC = 4,
    /* Set in a description only: atomics are target-assisted, carried out by the target process. */
    OPAL_COMMON_ADAPTIB_ATOMICS_EMULATED = 8
};

/* Registers memory until deregister, for local use and for peers with the rights of `access`.
 * *region is NULL if nothing had to be made: pass it to deregister all the same.
 * @retval NO_MEMORY  tables or locked memory are used up; a message was given the first time
 * @retval BAD_PARAM  no such memory */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_register(opal_common_adaptib_core_t *core, void *base, size_t bytes,
                             uint32_t access, opal_common_adaptib_region_t **region,
                             opal_common_adaptib_remote_t *remote) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* Afterwards no peer can reach the memory if it was registered for atomics, as a window is.
 * Otherwise a peer that keeps the description may still reach it: where nothing is pinned, all
 * memory is one region. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_deregister(opal_common_adaptib_core_t *core,
                               opal_common_adaptib_region_t *region) OPAL_COMMON_ADAPTIB_NOEXCEPT;

typedef enum {
    OPAL_COMMON_ADAPTIB_PUT,
    OPAL_COMMON_ADAPTIB_GET,
    /* remote += operand; the old value goes to *local */
    OPAL_COMMON_ADAPTIB_FETCH_ADD,
    /* if remote == compare, remote = operand; the old value goes to *local */
    OPAL_COMMON_ADAPTIB_COMPARE_SWAP
} opal_common_adaptib_operation_t;

typedef struct {
    opal_common_adaptib_operation_t operation;
    void *local;
    opal_common_adaptib_region_t *region; /* of `local`; NULL: the core registers it */
    uint64_t remote_address;
    const opal_common_adaptib_remote_t *remote; /* read during the call */
    size_t bytes;                               /* atomics: 8 */
    uint64_t operand;
    uint64_t compare;
} opal_common_adaptib_one_sided_t;

/* Tries to finish the operation inside the call. Returns COMPLETE, or AGAIN if the caller must use
 * opal_common_adaptib_rma_start (also for invalid operations: that call reports why). */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_try_rma(
    opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
    const opal_common_adaptib_one_sided_t *operation) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* Starts the operation. The peer may be this process. The description in `remote` may be that of
 * another region of the target: the core looks up the region that contains the address (over
 * devices it asks the target, for windows only), and checks the rights that the description names.
 * @retval BAD_PARAM  in no such region, without the right, or an atomic that is not 8 aligned
 *                    bytes; a request ends with it if the target refuses the operation later
 * @retval SUCCESS, COMPLETE, UNREACHABLE  as send
 * @retval NO_MEMORY  not now; also while very many operations on windows are under way: to be tried
 *                    again after progress
 * @retval ERROR      nothing can be registered, not even a block to copy through; a message was
 *                    given */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_rma_start(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
                              const opal_common_adaptib_one_sided_t *operation,
                              opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Marks for a flush, which waits for the one-sided operations that are started and not complete,
 * however many others follow: the caller takes a mark (0: there are none), and makes progress until
 * the mark is passed. */
OPAL_COMMON_ADAPTIB_EXPORT uint64_t opal_common_adaptib_flush_mark(opal_common_adaptib_core_t *core)
    OPAL_COMMON_ADAPTIB_NOEXCEPT;
OPAL_COMMON_ADAPTIB_EXPORT bool
opal_common_adaptib_flush_passed(opal_common_adaptib_core_t *core,
                                 uint64_t mark) OPAL_COMMON_ADAPTIB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* OPAL_COMMON_ADAPTIB_ONE_SIDED_H */
