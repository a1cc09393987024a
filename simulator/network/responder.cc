// SPDX-License-Identifier: BSD-3-Clause
// Answers that a rail gives without its process (simulator/network/responder.h).
#include "simulator/network/responder.h"

#include <array>

namespace adaptib::sim {

void Responder::arrive(Datagram* datagram) {
    left(1);
    if (!process().dead() && datagram->key == key_ && world_.network().up(*datagram->path)) {
        answer(*datagram);
    }
    world_.datagrams().release(datagram);
}

void Responder::answer(const Datagram& question) {
    std::array<std::byte, kMostQuestion> bytes;
    const Answerer::Reply reply = answerer_.answer(index_, question.payload, bytes);
    if (reply.length == 0) {
        return;
    }
    Path* const back = rail_.path_back(reply.to, reply.path);
    if (back == nullptr) {
        return;
    }
    const Gather gather{bytes.data(), reply.length, 0};
    SendWork work;
    work.gather = &gather;
    work.gather_count = 1;
    work.remote_qp = question.source;
    work.remote_access_key = reply.access_key;
    static_cast<void>(transmit(work, reply.length, *back, simulator_.now() + kWakes));
}

} // namespace adaptib::sim
