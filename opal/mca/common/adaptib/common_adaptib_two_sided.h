/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C interface of the core: two-sided traffic, that is, tagged messages. common_adaptib.h says
 * what holds for every function: threads, ownership of requests and buffers, errors.
 *
 * May touch: common_adaptib.h.
 */
#ifndef OPAL_COMMON_ADAPTIB_TWO_SIDED_H
#define OPAL_COMMON_ADAPTIB_TWO_SIDED_H

#include "common_adaptib.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OPAL_COMMON_ADAPTIB_ANY_SOURCE (-1)
#define OPAL_COMMON_ADAPTIB_ANY_TAG INT32_MIN

/* The fields that matching compares. A receive's source and tag may be ANY_*; ANY_TAG does not
 * match negative tags. */
typedef struct {
    uint32_t context; /* communicator */
    int32_t source;   /* the sender's rank in it */
    int32_t tag;
} opal_common_adaptib_envelope_t;

typedef enum {
    OPAL_COMMON_ADAPTIB_MODE_STANDARD, /* complete when the buffer can be used again */
    OPAL_COMMON_ADAPTIB_MODE_SYNC,     /* complete when the message has been matched, too */
    /* As STANDARD, for a message that the fast path (opal_common_adaptib_try_send) has just
     * refused: the send does not try it again. */
    OPAL_COMMON_ADAPTIB_MODE_REFUSED
} opal_common_adaptib_mode_t;

/* Kind of operation that the traffic belongs to: the striping policy EPC uses it; and a send that
 * its caller waits for (BLOCKING...) is complete as soon as it can be, while others may leave the
 * bytes in the program's buffer for the device to read. */
typedef enum {
    OPAL_COMMON_ADAPTIB_BLOCKING,
    OPAL_COMMON_ADAPTIB_NON_BLOCKING,
    OPAL_COMMON_ADAPTIB_COLLECTIVE,
    OPAL_COMMON_ADAPTIB_BLOCKING_COLLECTIVE /* a blocking send within a collective operation */
} opal_common_adaptib_op_kind_t;

/* Has adapters read and write the data of long messages in accelerators' memory, where they can and
 * the parameter accelerator_memory allows it; all else is packed and unpacked. The table stays.
 * Concerns all endpoints; call it before the first message. */
OPAL_COMMON_ADAPTIB_EXPORT void opal_common_adaptib_use_accelerators(
    opal_common_adaptib_core_t *core,
    const opal_common_adaptib_accelerators_t *accelerators) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* @retval SUCCESS   started; request->complete will be called
 * @retval COMPLETE  ended, see request->status; request->complete will not be called
 * @retval (< 0)     not started */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_send(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
                         const opal_common_adaptib_envelope_t *envelope,
                         const opal_common_adaptib_data_t *data, opal_common_adaptib_mode_t mode,
                         opal_common_adaptib_op_kind_t op_kind,
                         opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Fast path without a request: for a contiguous message in standard mode that there is room for
 * now.
 * @retval COMPLETE  done
 * @retval AGAIN     not sent; call opal_common_adaptib_send, with MODE_REFUSED */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_try_send(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
                             uint32_t context, int32_t source, int32_t tag, const void *base,
                             size_t bytes) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* As send; COMPLETE if the message had already arrived. `peer` is the only possible sender, or NULL
 * for any source: the request ends with UNREACHABLE when that peer is lost.
 * @retval UNREACHABLE  the peer is lost, and no message of it has arrived */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_receive(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
                            const opal_common_adaptib_envelope_t *envelope,
                            const opal_common_adaptib_data_t *data,
                            opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Likewise, with contiguous data. */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_recv_contig(
    opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer, uint32_t context,
    int32_t source, int32_t tag, void *base, size_t bytes,
    opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Likewise, for a caller that does not wait for the send: refuses also a message from a buffer that
 * is sent often, which need not be copied, but needs a request.
 * @retval COMPLETE  done
 * @retval AGAIN     not sent; call opal_common_adaptib_send, with MODE_REFUSED */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_try_isend(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
                              uint32_t context, int32_t source, int32_t tag, const void *base,
                              size_t bytes) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Tells that the program will send `bytes` bytes from `base` to the peer again and again: if it
 * pays to let the device read them from there, the buffer is registered now, and not after some
 * uses (the parameter frequent_buffers). */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_expect_reuse(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
                                 const void *base, size_t bytes) OPAL_COMMON_ADAPTIB_NOEXCEPT;

typedef struct opal_common_adaptib_message opal_common_adaptib_message_t;

/* Handles of messages are multiples of it, so their lowest bits can hold the number of an
 * endpoint. */
#define OPAL_COMMON_ADAPTIB_MESSAGE_ALIGNMENT 16

typedef struct {
    int32_t source;
    int32_t tag;
    size_t bytes;
} opal_common_adaptib_probe_t;

/* Looks for a message without taking it. `peer` as in receive.
 * @retval SUCCESS, NOT_FOUND, UNREACHABLE */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_probe(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
                          const opal_common_adaptib_envelope_t *envelope,
                          opal_common_adaptib_probe_t *found) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* Removes a message from matching; it belongs to the caller until matched_receive. */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_matched_probe(
    opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer,
    const opal_common_adaptib_envelope_t *envelope, opal_common_adaptib_probe_t *found,
    opal_common_adaptib_message_t **message) OPAL_COMMON_ADAPTIB_NOEXCEPT;
/* As receive, for a message from matched_probe, which it consumes. */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_matched_receive(
    opal_common_adaptib_core_t *core, opal_common_adaptib_message_t *message,
    const opal_common_adaptib_data_t *data,
    opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Cancels a receive that is not matched yet.
 * @retval SUCCESS    cancelled: status is CANCELLED, complete is not called
 * @retval NOT_FOUND  too late, or a send: the request completes as if cancel had not been called */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_cancel(opal_common_adaptib_core_t *core,
                           opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* The communicator is freed, and its context may be another one's next: its messages that have
 * arrived end, received by nobody. To their senders they are received. Concerns all endpoints. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_end_context(opal_common_adaptib_core_t *core,
                                uint32_t context) OPAL_COMMON_ADAPTIB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* OPAL_COMMON_ADAPTIB_TWO_SIDED_H */
