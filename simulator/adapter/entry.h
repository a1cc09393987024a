// SPDX-License-Identifier: BSD-3-Clause
// Functions that the files of entry points share.
// Threads: without the engine's lock, but count_delivered(), which needs it.
// May touch: objects.h.
#pragma once

#include "objects.h"

extern "C" bool verbs_allow_disassociate_destroy; // of libibverbs' private interface

namespace adaptib::hca {

// Fills the calls that the header's inline functions reach through a context.
void add_queue_calls(verbs_context& verbs);
void add_work_calls(ibv_qp_ex& qp); // ibv_wr_*

// Events of a queue that the program has taken and not acknowledged keep it from going.
void count_delivered(const ibv_async_event& event);
void acknowledge_event(const ibv_async_event& event);

} // namespace adaptib::hca
