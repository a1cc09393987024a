// SPDX-License-Identifier: BSD-3-Clause
// Export of an accelerator's memory as a file (a DMA buffer), by which adapters can reach it.
//
// Purpose: the accelerator's own library makes the file: CUDA's (cuMemGetHandleForAddressRange) or
// HSA's (hsa_amd_portable_export_dmabuf), whichever the program has loaded. adaptib links neither.
// Ownership: ExportedMemory closes its file; a registration made of it stays.
// Threads: any.
// May touch: base/, fabric/, the system (dlsym, close).
#pragma once

#include <utility>

#include "base/units.h"
#include "fabric/memory_region.h"

namespace adaptib {

class ExportedMemory {
public:
    ExportedMemory() = default;
    // Takes the file over.
    explicit ExportedMemory(FileRange range) : range_(range) {}
    ExportedMemory(ExportedMemory&& other) noexcept : range_(std::exchange(other.range_, {})) {}
    ExportedMemory& operator=(ExportedMemory&& other) noexcept {
        std::swap(range_, other.range_);
        return *this;
    }
    ~ExportedMemory();

    const FileRange& range() const { return range_; }

private:
    FileRange range_;
};

// Exports [base, base + bytes), which is within one allocation. Returns false if no library that is
// loaded can do that.
bool export_accelerator_memory(void* base, Bytes bytes, ExportedMemory& out);

} // namespace adaptib
