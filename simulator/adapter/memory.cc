// SPDX-License-Identifier: BSD-3-Clause
// Keys, access rights and copies (IBA vol. 1, 10.6).
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

#include "engine.h"

namespace adaptib::hca {

std::uint32_t Engine::add(MemoryRegion* region) {
    std::uint32_t key = 0;
    do {
        key = (next_key_++ & 0xffffff) << 8 | (random_() & 0xff);
    } while (key >> 8 == 0 || regions_.contains(key));
    regions_[key] = region;
    return key;
}

std::uint8_t* Engine::memory(std::uint32_t key, const ibv_pd* pd, std::uint64_t address,
                             std::uint64_t length, int access) const {
    const auto found = regions_.find(key);
    if (found == regions_.end()) {
        return nullptr;
    }
    const MemoryRegion& region = *found->second;
    if (region.mr.pd != pd || (region.access & access) != access || address < region.iova ||
        length > region.mr.length || address - region.iova > region.mr.length - length) {
        return nullptr;
    }
    return static_cast<std::uint8_t*>(region.mr.addr) + (address - region.iova);
}

MappedFile::MappedFile(int file, std::uint64_t offset, std::uint64_t length) {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    ahead_ = offset % page;
    length_ = length + ahead_;
    void* const map = mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                           static_cast<off_t>(offset - ahead_));
    map_ = map == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(map);
}

MappedFile::~MappedFile() {
    if (map_ != nullptr) {
        munmap(map_, length_);
    }
}

std::uint64_t total(const std::vector<ibv_sge>& places) {
    std::uint64_t sum = 0;
    for (const ibv_sge& place : places) {
        sum += place.length;
    }
    return sum;
}

namespace {

// Calls copy(place's address, offset in the data, bytes) for each piece of a list.
template <typename Copy>
bool each_piece(const Engine& engine, const std::vector<ibv_sge>& places, const ibv_pd* pd,
                std::uint64_t offset, std::uint64_t length, int access, Copy copy) {
    std::uint64_t done = 0;
    for (const ibv_sge& place : places) {
        if (done == length) {
            break;
        }
        if (offset >= place.length) {
            offset -= place.length;
            continue;
        }
        const std::uint64_t bytes = std::min(place.length - offset, length - done);
        std::uint8_t* const memory =
            engine.memory(place.lkey, pd, place.addr + offset, bytes, access);
        if (memory == nullptr) {
            return false;
        }
        copy(memory, done, bytes);
        done += bytes;
        offset = 0;
    }
    return done == length;
}

} // namespace

bool copy_pinned(std::uint8_t* to, const std::uint8_t* from, std::uint64_t bytes) {
    const iovec local{to, bytes};
    const iovec remote{const_cast<std::uint8_t*>(from), bytes};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

bool Engine::scatter(const std::vector<ibv_sge>& places, const ibv_pd* pd, std::uint64_t offset,
                     const std::uint8_t* data, std::uint64_t length) const {
    return each_piece(*this, places, pd, offset, length, IBV_ACCESS_LOCAL_WRITE,
                      [data](std::uint8_t* memory, std::uint64_t at, std::uint64_t bytes) {
                          std::memcpy(memory, data + at, bytes);
                      });
}

bool Engine::gather(const std::vector<ibv_sge>& places, const ibv_pd* pd, std::uint64_t offset,
                    std::uint8_t* data, std::uint64_t length, bool again) const {
    return each_piece(*this, places, pd, offset, length, 0,
                      [=](const std::uint8_t* memory, std::uint64_t at, std::uint64_t bytes) {
                          if (!again) {
                              std::memcpy(data + at, memory, bytes);
                          } else if (!copy_pinned(data + at, memory, bytes)) {
                              std::memset(data + at, 0, bytes);
                          }
                      });
}

} // namespace adaptib::hca
