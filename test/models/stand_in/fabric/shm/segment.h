// SPDX-License-Identifier: BSD-3-Clause
// In place of the core's segments, for models of what lies in them: a header, and the tables of a
// segment whose other parts do not exist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/status.h"
#include "fabric/rail.h"
#include "fabric/shm/descriptor_server.h"
#include "fabric/shm/layout.h"
#include "fabric/shm/segment_address.h"
#include "fabric/shm/segment_file.h"

namespace adaptib::shm {

class OwnSegment {
public:
    OwnSegment(std::byte* base, Header& header) : base_(base), header_(&header) {}
    std::byte* base() const { return base_; }
    Header* header() const { return header_; }
    Status commit(Bytes, Bytes) { return kOk; }
    void release(Bytes) {}
    DescriptorServer* server() const { return nullptr; }
    WireAddress wire_address(std::uint32_t) const {
        WireAddress wire{};
        wire.cookie = header_->cookie;
        return wire;
    }

private:
    std::byte* base_;
    Header* header_;
};

class PeerSegment {
public:
    bool gone() const { return false; }
    bool check_alive() { return true; }
    static bool decode(const RailAddress& address, WireAddress& out) {
        std::memcpy(&out, address.bytes.data(), sizeof out);
        return true;
    }
};

} // namespace adaptib::shm
