// SPDX-License-Identifier: BSD-3-Clause
// Worlds of shm fabrics, plain or wrapped in a decorator (shm_world.cc).
#pragma once

#include "base/clock.h"
#include "conformance/world.h"
#include "fabric/shm/shm_fabric.h"

namespace adaptib::conformance {

ShmOptions shm_options(std::uint32_t rails, ShmOptions::SingleCopy single_copy, Bytes queue_bytes);

using Wrap = std::function<std::unique_ptr<Fabric>(std::unique_ptr<Fabric>, const Clock&)>;

WorldFactory shm_world(const char* name, std::size_t nodes, const ShmOptions& options,
                       const Wrap& wrap = {});

} // namespace adaptib::conformance
