// SPDX-License-Identifier: BSD-3-Clause
// The shm fabric: rails between the processes of one host, over shared memory.
//
// Purpose: the on-node path, and the default where there is no RDMA device. fabric/README.md says
// what a fabric guarantees; layout.h says what processes share.
// Ownership: the caller's; the clock must outlive the fabric.
// Threads: one thread at a time uses a fabric and all its objects; several fabrics in one process
// are independent of each other.
// May touch: base/, fabric/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "base/units.h"
#include "fabric/fabric.h"

namespace adaptib {

struct ShmOptions {
    enum class SingleCopy : std::uint8_t {
        automatic, // cross-memory attach where the system allows it
        cma,       // the same, but an error if the system forbids it
        none,      // always the copy pipeline
    };

    std::uint32_t rails = 1;        // virtual rails shm0, shm1, ...; at most 16
    Bytes segment_max = 256 * kMiB; // address space and file size; memory is taken as needed
    Bytes memory_max = ~Bytes{0};   // of the segment, beyond which rings stop growing
    Bytes queue_bytes = kMiB;       // of the receive queue, rounded up to a power of two
    SingleCopy single_copy = SingleCopy::automatic;
    std::uint64_t job_key = 0;           // names the segment, for adaptib_rails --job
    const Clock* clock = nullptr;        // required
    std::optional<CopyCosts> copy_costs; // Fabric::copy_costs, where single copies are allowed
    BytesPerSecond rate{};               // what RailInfo::rate says
    // For tests: processes with another value act as if on another host, or in another user
    // namespace.
    std::uint64_t host = 0;
    std::uint32_t user_space = 0;
    // Serves the segment to peers that may not open /proc/<pid>/fd.
    bool descriptor_server = true;
};

// ok; bad_argument; no_memory, no_device, not_supported, no_permission. error_text explains an
// error to a person.
Status open_shm_fabric(const ShmOptions& options, std::unique_ptr<Fabric>& out,
                       std::string& error_text);

} // namespace adaptib
