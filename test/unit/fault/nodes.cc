// SPDX-License-Identifier: BSD-3-Clause
// Two fabrics, one with faults (nodes.h).
#include "unit/fault/nodes.h"

#include <array>
#include <stdexcept>

#include "fabric/shm/shm_fabric.h"

namespace adaptib::test {

namespace {

void require(Status status, const char* what) {
    if (!status.ok()) {
        throw std::runtime_error(std::string(what) + ": " + reason_text(status.reason()));
    }
}

} // namespace

Nodes::Nodes(fault::FaultPlan with, std::uint32_t rails) : plan(std::move(with)) {
    for (std::size_t node = 0; node < 2; ++node) {
        ShmOptions options;
        options.rails = rails;
        options.clock = &clock;
        std::string text;
        require(open_shm_fabric(options, fabric[node], text), "open_shm_fabric");
        bytes[node].resize(kMemory);
        for (const auto& rail : fabric[node]->rails()) {
            require(rail->register_memory(memory(node), kMemory,
                                          kLocalWrite | kRemoteWrite | kRemoteRead,
                                          regions[node].emplace_back()),
                    "register_memory");
        }
    }
    PathSpec path;
    path.remote = rail(1).address();
    require(rail(0).create_ah(path, handle), "create_ah");
    fabric[0] = fault::with_faults(std::move(fabric[0]), plan, clock, log,
                                   [this](Nanoseconds when) { wakes.push_back(when); });
}

End Nodes::end(std::size_t node, QpType type, std::size_t rail_index) {
    End e;
    e.node = node;
    e.rail = rail_index;
    require(rail(node, rail_index).create_cq(1024, e.cq), "create_cq");
    QpInit init;
    init.type = type;
    init.send_cq = init.receive_cq = e.cq.get();
    init.send_depth = init.receive_depth = 128;
    init.inline_bytes = 8;
    require(rail(node, rail_index).create_qp(init, e.qp), "create_qp");
    return e;
}

void Nodes::connect(End& a, End& b) {
    for (auto [self, peer] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
        QpAttributes attributes;
        attributes.state = QpState::init;
        attributes.access = kRemoteWrite | kRemoteRead;
        require(self->qp->modify(attributes, kQpState | kQpAccess), "INIT");
        attributes.state = QpState::ready_to_receive;
        attributes.path.remote = rail(peer->node, peer->rail).address();
        attributes.remote_qp = peer->qp->number();
        attributes.timeout = 8; // 1.05 ms
        attributes.retry_count = 1;
        require(self->qp->modify(attributes, kQpState | kQpPath | kQpRemote | kQpReceiveLimits),
                "RTR");
        attributes.state = QpState::ready_to_send;
        require(self->qp->modify(attributes, kQpState | kQpRetry | kQpSendPsn | kQpSendLimits),
                "RTS");
    }
}

void Nodes::start_ud(End& e) {
    QpAttributes attributes;
    attributes.state = QpState::init;
    attributes.access_key = kQueueKey;
    require(e.qp->modify(attributes, kQpState | kQpKey), "INIT");
    attributes.state = QpState::ready_to_receive;
    require(e.qp->modify(attributes, kQpState), "RTR");
    attributes.state = QpState::ready_to_send;
    require(e.qp->modify(attributes, kQpState | kQpSendPsn), "RTS");
}

Status Nodes::post(End& from, std::uint64_t wr_id, Opcode opcode, std::size_t offset, Bytes length,
                   std::uint32_t flags) {
    const Gather list = gather(from.node, offset, length, from.rail);
    SendWork work;
    work.wr_id = wr_id;
    work.opcode = opcode;
    work.flags = flags;
    work.gather = &list;
    work.gather_count = 1;
    work.remote_address = reinterpret_cast<std::uintptr_t>(memory(1 - from.node, offset));
    work.remote_key = regions[1 - from.node][from.rail]->remote_key();
    return from.qp->post_send(work);
}

Status Nodes::post_datagram(End& from, End& to, std::uint64_t wr_id, std::size_t offset,
                            Bytes length) {
    const Gather list = gather(from.node, offset, length);
    SendWork work;
    work.wr_id = wr_id;
    work.flags = kSignaled;
    work.gather = &list;
    work.gather_count = length > 0 ? 1 : 0;
    work.address_handle = handle.get();
    work.remote_qp = to.qp->number();
    work.remote_access_key = kQueueKey;
    return from.qp->post_send(work);
}

Status Nodes::post_receive(End& e, std::uint64_t wr_id, std::size_t offset, Bytes length) {
    const Gather list = gather(e.node, offset, length, e.rail);
    ReceiveWork work;
    work.wr_id = wr_id;
    work.scatter = &list;
    work.scatter_count = 1;
    return e.qp->post_receive(work);
}

void Nodes::poll(std::initializer_list<End*> ends, int passes) {
    std::array<WorkCompletion, 4> batch;
    for (int pass = 0; pass < passes; ++pass) {
        for (End* e : ends) {
            const std::size_t count = e->cq->poll(batch);
            e->got.insert(e->got.end(), batch.begin(),
                          batch.begin() + static_cast<std::ptrdiff_t>(count));
        }
    }
}

std::vector<std::uint64_t> ids(const std::vector<WorkCompletion>& completions) {
    std::vector<std::uint64_t> out;
    for (const WorkCompletion& completion : completions) {
        out.push_back(completion.wr_id);
    }
    return out;
}

std::vector<WorkStatus> statuses(const std::vector<WorkCompletion>& completions) {
    std::vector<WorkStatus> out;
    for (const WorkCompletion& completion : completions) {
        out.push_back(completion.status);
    }
    return out;
}

} // namespace adaptib::test
