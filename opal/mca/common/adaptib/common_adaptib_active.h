/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C interface of the core: active messages. They are delivered in the order of sending, among
 * themselves and with two-sided messages of the same peer. Exception: two-sided messages that the
 * peer holds back, since no receive is posted. common_adaptib.h says what holds for every function:
 * threads, ownership of requests and buffers, errors.
 *
 * May touch: common_adaptib.h.
 */
#ifndef OPAL_COMMON_ADAPTIB_ACTIVE_H
#define OPAL_COMMON_ADAPTIB_ACTIVE_H

#include "common_adaptib.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `data` is valid during the call, which comes from progress, without the lock. The handler may
 * call any function of this interface but progress and core_release. */
typedef void (*opal_common_adaptib_active_t)(void *context, opal_common_adaptib_peer_t *peer,
                                             uint8_t tag, const void *data, size_t bytes);

/* There is one listener; a NULL handler ends it. Without one, messages count as bad packets. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_active_listen(opal_common_adaptib_core_t *core,
                                  opal_common_adaptib_active_t handler,
                                  void *context) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Length of the longest active message, to any peer, at any time. */
OPAL_COMMON_ADAPTIB_EXPORT size_t opal_common_adaptib_active_max(opal_common_adaptib_core_t *core)
    OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Address of the size up to which data is best sent as active messages, for a caller that can
 * transfer it in another way. The size changes as the core learns, while other threads call the
 * core, so it is read by an atomic load; the address is valid as long as the core. */
OPAL_COMMON_ADAPTIB_EXPORT const size_t *
opal_common_adaptib_active_eager(opal_common_adaptib_core_t *core) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Tells that `bytes` of data are about to go to the peer in another way; the core learns when to
 * try active messages of that size again. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_active_declined(opal_common_adaptib_core_t *core,
                                    opal_common_adaptib_peer_t *peer,
                                    size_t bytes) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* As opal_common_adaptib_active_send, for a message in two pieces (the second may be empty) that
 * can be sent now.
 * @retval COMPLETE  done
 * @retval AGAIN     not sent; call opal_common_adaptib_active_send, which does not try again */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_active_try_send(opal_common_adaptib_core_t *core,
                                    opal_common_adaptib_peer_t *peer, uint8_t tag,
                                    const void *first, size_t first_bytes, const void *second,
                                    size_t second_bytes) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* True if data of active messages may be gathered from the users' buffers (the parameter
 * frequent_buffers): then opal_common_adaptib_active_gather is worth a try. Constant. */
OPAL_COMMON_ADAPTIB_EXPORT bool
opal_common_adaptib_active_gathers(opal_common_adaptib_core_t *core) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* Same for a caller that does not wait for the message: sends it if the second piece lies in a
 * buffer that is sent from again and again, from where the device reads it.
 * @retval SUCCESS  started; the second piece must stay until request->complete
 * @retval AGAIN    not sent; call opal_common_adaptib_active_try_send */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_active_gather(
    opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer, uint8_t tag,
    const void *first, size_t first_bytes, const void *second, size_t second_bytes,
    opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

/* As send. COMPLETE once the data is copied; otherwise the data must stay until request->complete.
 * The peer must not be this process.
 * @retval BAD_PARAM  longer than active_max, or to this process */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_active_send(
    opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *peer, uint8_t tag,
    const opal_common_adaptib_data_t *data,
    opal_common_adaptib_request_t *request) OPAL_COMMON_ADAPTIB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* OPAL_COMMON_ADAPTIB_ACTIVE_H */
