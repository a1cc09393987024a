// SPDX-License-Identifier: BSD-3-Clause
#include "unit/verbs/stand_in_wire.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace adaptib::test {

namespace {

constexpr std::size_t kGrh = 40;

std::string bytes_of(const std::vector<ibv_sge>& list) {
    std::string bytes;
    for (const ibv_sge& entry : list) {
        bytes.append(reinterpret_cast<const char*>(entry.addr), entry.length);
    }
    return bytes;
}

// Returns false if there is too little room.
bool scatter(const std::string& bytes, const std::vector<ibv_sge>& list) {
    std::size_t done = 0;
    for (const ibv_sge& entry : list) {
        const std::size_t part = std::min<std::size_t>(entry.length, bytes.size() - done);
        std::memcpy(reinterpret_cast<char*>(entry.addr), bytes.data() + done, part);
        done += part;
    }
    return done == bytes.size();
}

ibv_wc completion(std::uint64_t wr_id, ibv_wc_opcode opcode) {
    ibv_wc wc{};
    wc.wr_id = wr_id;
    wc.opcode = opcode;
    return wc;
}

} // namespace

void StandInWire::carry() {
    const std::lock_guard guard(StandIn::lock());
    while (sent_ < lib_.sent.size()) {
        const SendCall call = lib_.sent[sent_++];
        if (call.request.opcode == IBV_WR_SEND) {
            carry_datagram(call);
        } else {
            carry_connected_write(call);
        }
    }
    for (const DcRequest& request : take_dc_requests()) {
        carry_write(request);
    }
}

// A datagram that finds no receive is lost.
void StandInWire::carry_datagram(const SendCall& call) {
    const std::uint32_t to = call.request.wr.ud.remote_qpn;
    std::size_t& next = received_[to];
    while (next < lib_.received.size() && lib_.received[next].qp_number != to) {
        ++next;
    }
    if (next < lib_.received.size()) {
        const ReceiveCall& place = lib_.received[next++];
        const std::string bytes = std::string(kGrh, '\0') + bytes_of(call.list);
        ASSERT_TRUE(scatter(bytes, place.list));
        ibv_wc arrived = completion(place.wr_id, IBV_WC_RECV);
        arrived.byte_len = static_cast<std::uint32_t>(bytes.size());
        arrived.src_qp = call.qp_number;
        arrived.wc_flags = IBV_WC_GRH;
        lib_.complete_receive(to, arrived);
    }
    if ((call.request.send_flags & IBV_SEND_SIGNALED) != 0) {
        lib_.complete_send(call.qp_number, completion(call.request.wr_id, IBV_WC_SEND));
    }
}

void StandInWire::carry_connected_write(const SendCall& call) {
    ASSERT_EQ(call.request.opcode, IBV_WR_RDMA_WRITE);
    const std::string bytes = bytes_of(call.list);
    std::memcpy(reinterpret_cast<void*>(call.request.wr.rdma.remote_addr), bytes.data(),
                bytes.size());
    ++connected_writes_;
    if ((call.request.send_flags & IBV_SEND_SIGNALED) != 0) {
        lib_.complete_send(call.qp_number, completion(call.request.wr_id, IBV_WC_RDMA_WRITE));
    }
}

void StandInWire::carry_write(const DcRequest& request) {
    ASSERT_EQ(request.opcode, IBV_WR_RDMA_WRITE);
    const FakeQp& target = lib_.qp(request.target);
    ASSERT_TRUE(target.alive && target.kind == kDcTarget && target.state == IBV_QPS_RTR);
    const std::string bytes = request.taken ? *request.taken : bytes_of(request.list);
    std::memcpy(reinterpret_cast<void*>(request.remote_address), bytes.data(), bytes.size());
    writes_.push_back({request.qp_number, request.target});
    if ((request.flags & IBV_SEND_SIGNALED) != 0) {
        lib_.complete_send(request.qp_number, completion(request.wr_id, IBV_WC_RDMA_WRITE));
    }
}

} // namespace adaptib::test
