// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/network/serving_qp.h"

#include <cstring>
#include <vector>

#include "simulator/network/world.h"

namespace adaptib::sim {

ServingQueuePair::Outcome ServingQueuePair::serve(Request& request, std::uint32_t reads_before,
                                                  WorkStatus& refusal) {
    switch (request.work.opcode) {
    case Opcode::send:
    case Opcode::send_imm: return serve_send(request, refusal);
    case Opcode::write:
    case Opcode::write_imm: return serve_write(request, refusal);
    case Opcode::read: return serve_read(request, reads_before, refusal);
    case Opcode::compare_swap:
    case Opcode::fetch_add: return serve_atomic(request, reads_before, refusal);
    }
    return Outcome::nobody;
}

ServingQueuePair::Outcome ServingQueuePair::refuse(WorkStatus status, WorkStatus& refusal) {
    refusal = status;
    fatal();
    return Outcome::refused;
}

ServingQueuePair::Outcome ServingQueuePair::serve_send(Request& request, WorkStatus& refusal) {
    Message message;
    message.source = request.list();
    message.length = request.length;
    message.immediate = request.work.opcode == Opcode::send_imm;
    message.value = request.work.immediate;
    switch (take(message)) {
    case Answer::taken: return Outcome::done;
    case Answer::no_receive: return Outcome::no_receive;
    case Answer::too_long:
        refusal = WorkStatus::remote_invalid_request;
        refuse_receive(WorkStatus::local_length_error);
        return Outcome::refused;
    case Answer::no_access:
        refusal = WorkStatus::remote_operation_error;
        refuse_receive(WorkStatus::local_protection_error);
        return Outcome::refused;
    }
    return Outcome::nobody;
}

ServingQueuePair::Outcome ServingQueuePair::serve_write(Request& request, WorkStatus& refusal) {
    const SendWork& work = request.work;
    if (request.length > 0 && ((attributes_.access & kRemoteWrite) == 0 ||
                               rail_.regions().find(work.remote_key, work.remote_address,
                                                    request.length, kRemoteWrite) == nullptr)) {
        return refuse(WorkStatus::remote_access_error, refusal);
    }
    if (work.opcode == Opcode::write_imm && next_receive() == nullptr) {
        return Outcome::no_receive;
    }
    if (request.length > 0) {
        const Gather whole{reinterpret_cast<void*>(work.remote_address), request.length, 0};
        LatePackets& late = rail_.world().late_packets();
        Bytes at = 0;
        Bytes length = 0;
        if (late.draw(work, request.length, at, length)) {
            const auto* const place = reinterpret_cast<const std::byte*>(work.remote_address + at);
            const std::vector<std::byte> before(place, place + length);
            copy_gather(request.list(), {&whole, 1});
            late.hold_back(rail_, number_, work, work.remote_address + at, before);
        } else {
            copy_gather(request.list(), {&whole, 1});
        }
    }
    if (work.opcode == Opcode::write_imm) {
        static_cast<void>(take_notice(request.length, work.immediate));
    }
    if ((work.flags & kPublish) != 0) { // the process polls there
        process().owe(machine_.processor.copy_start +
                      wire_time(request.length, machine_.processor.copy_rate));
        process().wake();
    }
    return Outcome::done;
}

// A write that the target refuses has no effect: nobody waits for its answer.
void ServingQueuePair::serve_late(std::uint64_t access_key, std::uint32_t remote_key,
                                  std::uint64_t address, std::span<const std::byte> bytes) {
    if (receives() && access_key == attributes_.access_key &&
        rail_.regions().find(remote_key, address, bytes.size(), kRemoteWrite) != nullptr) {
        std::memcpy(reinterpret_cast<void*>(address), bytes.data(), bytes.size());
        process().wake();
    }
}

ServingQueuePair::Outcome ServingQueuePair::serve_read(Request& request, std::uint32_t reads_before,
                                                       WorkStatus& refusal) {
    const SendWork& work = request.work;
    if (reads_before >= attributes_.max_target_reads) {
        return refuse(WorkStatus::remote_invalid_request, refusal);
    }
    if (request.length == 0) {
        return Outcome::done;
    }
    if ((attributes_.access & kRemoteRead) == 0 ||
        rail_.regions().find(work.remote_key, work.remote_address, request.length, kRemoteRead) ==
            nullptr) {
        return refuse(WorkStatus::remote_access_error, refusal);
    }
    const Gather whole{reinterpret_cast<void*>(work.remote_address), request.length, 0};
    copy_gather({&whole, 1}, request.list());
    return Outcome::done;
}

ServingQueuePair::Outcome
ServingQueuePair::serve_atomic(Request& request, std::uint32_t reads_before, WorkStatus& refusal) {
    const SendWork& work = request.work;
    if (reads_before >= attributes_.max_target_reads ||
        work.remote_address % sizeof(std::uint64_t) != 0) {
        return refuse(WorkStatus::remote_invalid_request, refusal);
    }
    if ((attributes_.access & kRemoteAtomic) == 0 ||
        rail_.regions().find(work.remote_key, work.remote_address, sizeof(std::uint64_t),
                             kRemoteAtomic) == nullptr) {
        return refuse(WorkStatus::remote_access_error, refusal);
    }
    auto* word = reinterpret_cast<std::uint64_t*>(work.remote_address);
    request.old_value = *word;
    if (work.opcode == Opcode::fetch_add) {
        *word += work.compare_add;
    } else if (*word == work.compare_add) {
        *word = work.swap;
    }
    return Outcome::done;
}

} // namespace adaptib::sim
