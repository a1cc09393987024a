// SPDX-License-Identifier: BSD-3-Clause
// The published address as bytes (base/address.h).
//
//     u32 magic | u16 version | u16 rail count | u64 name | u64 key | u16 host length | host
//     per rail: u32 datagram qp | u32 responder qp | u8 paths | u8 adapter | u8 flags |
//         u8 max reads | u32 rate | u16 size | bytes | u8 name length | name
#include "base/address.h"

#include <algorithm>
#include <utility>

namespace adaptib {

namespace {

constexpr std::uint32_t kAddressMagic = 0x62616461; // "adab" read as little endian
constexpr std::size_t kMaxHost = 255;

class Writer {
public:
    explicit Writer(std::vector<std::byte>& out) : out_(out) {}
    template <typename T> void put(T value) { put_bytes(&value, sizeof value); }
    void put_bytes(const void* data, std::size_t size) {
        const auto* bytes = static_cast<const std::byte*>(data);
        out_.insert(out_.end(), bytes, bytes + size);
    }

private:
    std::vector<std::byte>& out_;
};

class Reader {
public:
    Reader(const void* data, std::size_t size)
        : at_(static_cast<const std::byte*>(data)), left_(size) {}
    template <typename T> bool get(T& value) { return get_bytes(&value, sizeof value); }
    bool get_bytes(void* to, std::size_t size) {
        if (size > left_) {
            return false;
        }
        std::memcpy(to, at_, size);
        at_ += size;
        left_ -= size;
        return true;
    }
    bool at_end() const { return left_ == 0; }

private:
    const std::byte* at_;
    std::size_t left_;
};

bool is_sane(const AddressRail& rail, std::uint16_t rail_count) {
    return rail.size <= rail.bytes.size() && rail.paths >= 1 && rail.paths <= kMaxSubchannels &&
           rail.adapter < rail_count && (rail.flags & ~(kRailMigrates | kRailShares)) == 0;
}

bool decode_body(Reader& reader, std::uint16_t rail_count, ProcessAddress& out) {
    std::uint16_t host_size = 0;
    if (!reader.get(out.name) || !reader.get(out.key) || !reader.get(host_size) ||
        host_size > kMaxHost) {
        return false;
    }
    out.host.resize(host_size);
    if (!reader.get_bytes(out.host.data(), host_size)) {
        return false;
    }
    out.rails.resize(rail_count);
    for (AddressRail& rail : out.rails) {
        if (!reader.get(rail.datagram_qp) || !reader.get(rail.responder_qp) ||
            !reader.get(rail.paths) || !reader.get(rail.adapter) || !reader.get(rail.flags) ||
            !reader.get(rail.max_reads) || !reader.get(rail.rate) || !reader.get(rail.size) ||
            !is_sane(rail, rail_count) || !reader.get_bytes(rail.bytes.data(), rail.size)) {
            return false;
        }
        std::uint8_t name_size = 0;
        if (!reader.get(name_size) || name_size > kMaxRailName) {
            return false;
        }
        rail.name.resize(name_size);
        if (!reader.get_bytes(rail.name.data(), name_size)) {
            return false;
        }
    }
    return reader.at_end();
}

} // namespace

std::vector<std::byte> encode(const ProcessAddress& address) {
    std::vector<std::byte> blob;
    Writer writer(blob);
    writer.put(kAddressMagic);
    writer.put(address.version);
    writer.put(static_cast<std::uint16_t>(address.rails.size()));
    writer.put(address.name);
    writer.put(address.key);
    const std::size_t host_size = std::min(address.host.size(), kMaxHost);
    writer.put(static_cast<std::uint16_t>(host_size));
    writer.put_bytes(address.host.data(), host_size);
    for (const AddressRail& rail : address.rails) {
        writer.put(rail.datagram_qp);
        writer.put(rail.responder_qp);
        writer.put(rail.paths);
        writer.put(rail.adapter);
        writer.put(rail.flags);
        writer.put(rail.max_reads);
        writer.put(rail.rate);
        writer.put(rail.size);
        writer.put_bytes(rail.bytes.data(), rail.size);
        const std::size_t name_size = std::min(rail.name.size(), kMaxRailName);
        writer.put(static_cast<std::uint8_t>(name_size));
        writer.put_bytes(rail.name.data(), name_size);
    }
    return blob;
}

Status decode(const void* blob, std::size_t size, ProcessAddress& out, std::uint16_t version) {
    Reader reader(blob, size);
    ProcessAddress address;
    std::uint32_t magic = 0;
    std::uint16_t rail_count = 0;
    if (!reader.get(magic) || magic != kAddressMagic || !reader.get(address.version)) {
        return Status::error(Reason::bad_wire);
    }
    if (address.version != version) {
        out.version = address.version;
        return Status::error(Reason::version);
    }
    if (!reader.get(rail_count) || rail_count == 0 || rail_count > kMaxRails ||
        !decode_body(reader, rail_count, address)) {
        return Status::error(Reason::bad_wire);
    }
    out = std::move(address);
    return kOk;
}

} // namespace adaptib
