// SPDX-License-Identifier: BSD-3-Clause
// Model of the address that a process's responder tells while the process changes it
// (recovery/life_answerer.h): an answer has one whole address, never parts of two.
#include "recovery/life_answerer.h"

#include <array>
#include <cstring>

#include "model.h"

namespace adaptib::model {
namespace {

constexpr std::uint64_t kName = 5;
constexpr std::uint64_t kKey = 6;

RailAddress address_of(std::uint8_t number) {
    RailAddress out;
    out.size = static_cast<std::uint8_t>(8 * number);
    out.bytes.fill(static_cast<std::byte>(number));
    return out;
}

using Packet =
    std::array<std::byte, sizeof(DatagramHeader) + sizeof(MessageHeader) + sizeof(LifeBody)>;

Packet question() {
    DatagramHeader prefix;
    prefix.target_key = kKey;
    MessageHeader header;
    header.type = MessageType::life_question;
    header.length = sizeof(LifeBody);
    LifeBody body{};
    body.sequence = 1;
    body.size = 8;
    Packet out;
    std::memcpy(out.data(), &prefix, sizeof prefix);
    std::memcpy(out.data() + sizeof prefix, &header, sizeof header);
    std::memcpy(out.data() + sizeof prefix + sizeof header, &body, sizeof body);
    return out;
}

void changing(Execution& execution) {
    auto& answerer = execution.make<LifeAnswerer>("answerer", kName, kKey, 0u);
    answerer.set_address(0, address_of(1));
    const int changes = scaled(1);
    execution.thread([&answerer, changes] {
        for (int i = 0; i < changes; ++i) {
            answerer.set_address(0, address_of(static_cast<std::uint8_t>(2 + i)));
        }
    });
    execution.thread([&answerer] {
        const Packet asked = question();
        Packet said{};
        check(answerer.answer(0, asked, said).length == said.size(), "a question is not answered");
        LifeBody body;
        std::memcpy(&body, said.data() + said.size() - sizeof body, sizeof body);
        if (body.size == 0) {
            return; // the address was changing all the time
        }
        const RailAddress whole = address_of(static_cast<std::uint8_t>(body.size / 8));
        check(body.bytes == whole.bytes, "an address is made of two");
    });
}

} // namespace

const std::vector<Model>& models() {
    static const std::vector<Model> all = {
        {"changing", {.preemptions = 3, .stale_loads = 2}, changing}};
    return all;
}

} // namespace adaptib::model
