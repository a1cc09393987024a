// SPDX-License-Identifier: BSD-3-Clause
// Asks the libraries of accelerators (memory/accelerator_export.h).
#include "memory/accelerator_export.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace adaptib {

namespace {

// Finds a function in the program and its libraries, or in a library that something else has loaded
// for itself.
template <typename Function> Function* find(const char* library, const char* name) {
    void* found = dlsym(RTLD_DEFAULT, name);
    if (found == nullptr) {
        // Never closed: it stays as long as the accelerator's memory does.
        void* const loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        found = loaded == nullptr ? nullptr : dlsym(loaded, name);
    }
    return reinterpret_cast<Function*>(found);
}

// AMD's ROCm since 5.6: the file is of the whole allocation, with the offset of the range.
bool export_by_hsa(void* base, Bytes bytes, ExportedMemory& out) {
    using Export = int(const void*, std::size_t, int*, std::uint64_t*);
    static Export* const kExport =
        find<Export>("libhsa-runtime64.so.1", "hsa_amd_portable_export_dmabuf");
    FileRange range;
    if (kExport == nullptr || kExport(base, bytes, &range.file, &range.offset) != 0) {
        return false;
    }
    out = ExportedMemory(range);
    return true;
}

// CUDA since 11.7: the file is of the range, which has to consist of whole pages.
bool export_by_cuda(void* base, Bytes bytes, ExportedMemory& out) {
    using Export = int(void*, unsigned long long, std::size_t, int, unsigned long long);
    constexpr int kDmaBuffer = 1; // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
    static Export* const kExport = find<Export>("libcuda.so.1", "cuMemGetHandleForAddressRange");
    const auto page = static_cast<Bytes>(sysconf(_SC_PAGESIZE));
    const auto address = reinterpret_cast<std::uintptr_t>(base);
    const std::uintptr_t begin = address / page * page;
    const Bytes length = round_up(address + bytes, page) - begin;
    FileRange range;
    if (kExport == nullptr || kExport(&range.file, begin, length, kDmaBuffer, 0) != 0) {
        return false;
    }
    range.offset = address - begin;
    out = ExportedMemory(range);
    return true;
}

} // namespace

ExportedMemory::~ExportedMemory() {
    if (range_.file >= 0) {
        close(range_.file);
    }
}

bool export_accelerator_memory(void* base, Bytes bytes, ExportedMemory& out) {
    return export_by_cuda(base, bytes, out) || export_by_hsa(base, bytes, out);
}

} // namespace adaptib
