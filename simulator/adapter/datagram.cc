// SPDX-License-Identifier: BSD-3-Clause
// Unreliable datagrams (IBA vol. 1, 9.8.3; queue keys 10.2.5).
#include <cstring>

#include "engine.h"

namespace adaptib::hca {

// A datagram is complete as soon as it is on the wire, whatever becomes of it.
void QueuePair::send_datagrams() {
    const PortDescription& from = port(attributes.port_num);
    while (state() == IBV_QPS_RTS && !requester.work.empty()) {
        SendWork& work = requester.work.front();
        std::uint8_t payload[kMaxMtu];
        if (work.length > from.active_mtu) {
            fail(IBV_WC_LOC_LEN_ERR);
            return;
        }
        if (!work.data.empty()) {
            std::memcpy(payload, work.data.data(), work.data.size());
        } else if ((work.request.send_flags & IBV_SEND_INLINE) == 0 &&
                   !engine_.gather(work.places, ex.qp_base.pd, 0, payload, work.length)) {
            fail(IBV_WC_LOC_PROT_ERR);
            return;
        }
        PacketHeader header;
        header.kind = PacketKind::datagram;
        header.flags = kFirst | kLast;
        header.payload = static_cast<std::uint32_t>(work.length);
        // The highest bit asks for the queue's own key.
        const std::uint32_t key = work.request.wr.ud.remote_qkey;
        header.qkey = (key & 0x80000000U) != 0 ? attributes.qkey : key;
        if ((work.request.send_flags & IBV_SEND_SOLICITED) != 0) {
            header.flags |= kSolicited;
        }
        if (work.request.opcode == IBV_WR_SEND_WITH_IMM) {
            header.flags |= kImmediate;
            header.immediate = work.request.imm_data;
        }
        header.psn = requester.next_psn;
        if (address_packet(header, work.address, work.ethernet, attributes.port_num,
                           attributes.pkey_index)) {
            header.target_qpn = work.request.wr.ud.remote_qpn;
            if (!engine_.transmit(header, payload)) {
                engine_.schedule(this);
                return;
            }
        }
        requester.next_psn = (requester.next_psn + 1) & kPsnMask;
        complete(IBV_WC_SUCCESS);
    }
}

void QueuePair::handle_datagram(const PacketHeader& packet, const std::uint8_t* payload) {
    ReceiveWork work;
    if (packet.qkey != attributes.qkey || !take_receive(work)) {
        return;
    }
    ibv_wc wc{};
    wc.wr_id = work.id;
    wc.opcode = IBV_WC_RECV;
    wc.byte_len = packet.payload + kGrhBytes;
    wc.qp_num = ex.qp_base.qp_num;
    wc.src_qp = packet.source_qpn;
    wc.slid = packet.source_lid;
    wc.sl = packet.sl;
    const PortDescription& at = port(attributes.port_num);
    wc.pkey_index = attributes.pkey_index;
    wc.dlid_path_bits = static_cast<std::uint8_t>(packet.target_lid & ((1U << at.lmc) - 1));
    if (packet.has(kGlobal)) {
        wc.wc_flags |= IBV_WC_GRH;
    }
    if (packet.has(kImmediate)) {
        wc.wc_flags |= IBV_WC_WITH_IMM;
        wc.imm_data = packet.immediate;
    }
    if (wc.byte_len > total(work.places)) {
        wc.status = IBV_WC_LOC_LEN_ERR;
    } else if ((packet.has(kGlobal) &&
                !engine_.scatter(work.places, ex.qp_base.pd, 0, packet.grh.data(), kGrhBytes)) ||
               !engine_.scatter(work.places, ex.qp_base.pd, kGrhBytes, payload, packet.payload)) {
        wc.status = IBV_WC_LOC_PROT_ERR;
    }
    hca::complete(*of(init.recv_cq), wc, packet.has(kSolicited));
    if (wc.status != IBV_WC_SUCCESS) {
        raise(IBV_EVENT_QP_FATAL);
        fail(IBV_WC_WR_FLUSH_ERR);
    }
}

} // namespace adaptib::hca
