// SPDX-License-Identifier: BSD-3-Clause
// Model of late endpoints, which peers ask for (fabric/shm/late_endpoints.cc), and which threads of
// their own process meet once they are open (interface/open_endpoints.h). Invariants:
//   * a peer that is told of an endpoint is told of that one, and finds what was there when the
//     endpoint was announced;
//   * a process that only looks when its server is woken opens each endpoint that a peer waits for;
//   * a thread that visits the open endpoints finds each whole.
#include "fabric/shm/late_endpoints.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <string>

#include "fabric/shm/descriptor_server.h"
#include "fabric/shm/opening.h"
#include "fabric/shm/segment_file.h"
#include "interface/open_endpoints.h"
#include "model.h"

struct opal_common_adaptib_core {
    std::uint64_t protocol = 0; // 0: the endpoint is not open
};

namespace adaptib::model {
namespace {

using shm::Header;
using shm::WireAddress;

constexpr std::uint32_t kEndpoints = 2;

struct Process {
    explicit Process(Execution& execution)
        : page(execution.memory("first page", shm::page_bytes(), shm::page_bytes())),
          segment(page, *shm::header_of(page)) {
        Header& header = *segment.header();
        header.magic = shm::kMagic;
        header.version = shm::kLayoutVersion;
        header.cookie = 1000;
        header.alive = shm::kAlive;
    }

    std::byte* page;
    shm::OwnSegment segment;
    shm::OwnLateEndpoints late{segment};
    std::array<std::uint64_t*, kEndpoints + 1> memory{}; // of each endpoint, as its segment has it
    std::atomic<std::uint32_t>* woken = nullptr;         // datagrams that the server got ...
    std::atomic<std::uint32_t>* served = nullptr;        // ... and has answered
};

Process* g_process = nullptr;

WireAddress address_of(std::uint32_t endpoint) {
    WireAddress wire{};
    wire.fd = 10 + endpoint;
    wire.visibility.server = 20 + endpoint;
    wire.visibility.ways = shm::kWayServer;
    return wire;
}

// The process opens what it is asked for whenever its server is woken, until all of `wanted` is.
void serve(Process& process, std::uint32_t wanted) {
    std::uint32_t taken = 0;
    for (std::uint32_t open = 0; open != wanted;) {
        wait_until([&] { return process.woken->load(std::memory_order_acquire) != taken; });
        ++taken;
        const std::uint32_t asked_for = process.late.asked_for() & ~open;
        for (std::uint32_t left = asked_for; left != 0; left &= left - 1) {
            const auto endpoint = static_cast<std::uint32_t>(std::countr_zero(left));
            *process.memory[endpoint] = endpoint;
            process.late.announce(endpoint, encode(address_of(endpoint)));
        }
        open |= asked_for;
        process.served->store(taken, std::memory_order_release);
    }
}

// A peer that has asked looks again once the process has answered somebody.
void meet(Process& process, std::uint32_t endpoint) {
    WireAddress late{};
    WireAddress found{};
    shm::PeerSegment::decode(process.late.address(0, endpoint), late);
    for (;;) {
        const std::uint32_t served = process.served->load(std::memory_order_acquire);
        shm::Obstacle obstacle;
        const Status status = find_late_endpoint(late, found, obstacle);
        if (status.ok()) {
            break;
        }
        check(status.is_again(), "an endpoint is refused");
        wait_until([&] { return process.served->load(std::memory_order_acquire) != served; });
    }
    const WireAddress open = address_of(endpoint);
    check(found.fd == open.fd && found.visibility.server == open.visibility.server &&
              found.cookie == late.cookie && found.late == 0,
          "a peer is told of another endpoint");
    check(*process.memory[endpoint] == endpoint, "a peer is told of an endpoint that is not open");
}

void ask(Execution& execution, std::array<std::uint32_t, 2> wanted) {
    auto* const process = new Process(execution);
    execution.at_end([process] { delete process; });
    g_process = process;
    process->woken = &execution.make<std::atomic<std::uint32_t>>("woken");
    process->served = &execution.make<std::atomic<std::uint32_t>>("served");
    for (std::uint32_t i = 1; i <= kEndpoints; ++i) {
        process->memory[i] = &execution.make<std::uint64_t>("endpoint " + std::to_string(i));
    }
    execution.thread([process, wanted] { serve(*process, 1u << wanted[0] | 1u << wanted[1]); });
    for (const std::uint32_t endpoint : wanted) {
        execution.thread([process, endpoint] { meet(*process, endpoint); });
    }
}

void same(Execution& execution) { ask(execution, {2, 2}); }
void different(Execution& execution) { ask(execution, {1, 2}); }

// Endpoints are opened one after the other, under a mutex, while other threads visit them.
void visited(Execution& execution) {
    auto& open = execution.make<OpenEndpoints>("list");
    std::array<opal_common_adaptib_core*, kEndpoints> all{};
    for (auto& each : all) {
        each = &execution.make<opal_common_adaptib_core>("endpoint");
    }
    execution.thread([&open, all] {
        for (opal_common_adaptib_core* const each : all) {
            each->protocol = 1;
            open.add(each);
        }
    });
    for (int visitor = 0; visitor < 2; ++visitor) {
        execution.thread([&open] {
            std::size_t before = 0;
            for (int pass = 0; pass < scaled(2); ++pass) {
                for (opal_common_adaptib_core* const each : open.all()) {
                    check(each != nullptr && each->protocol == 1, "an endpoint is not open");
                }
                check(open.all().size() >= before, "an open endpoint is forgotten");
                before = open.all().size();
            }
        });
    }
}

} // namespace

const std::vector<Model>& models() {
    static const std::vector<Model> all = {
        {"visited", {}, visited}, {"same", {}, same}, {"different", {}, different}};
    return all;
}

} // namespace adaptib::model

// -------------------------------------------------------------------------------------------------
// The system: a file of the right size stands for the first segment, and its first page is watched
// memory.

namespace adaptib::shm {

Bytes page_bytes() { return kPage; }
RailAddress encode(const WireAddress& wire) {
    RailAddress out;
    std::memcpy(out.bytes.data(), &wire, sizeof wire);
    return out;
}
bool can_ask_server(const WireAddress&) { return true; }
void wake_server(std::uint32_t, std::uint64_t) {
    model::g_process->woken->fetch_add(1, std::memory_order_acq_rel);
}
void DescriptorServer::listen(std::function<void()>) {}
Status open_segment_of(const WireAddress& wire, int& fd, Obstacle&) {
    static const int file = [] {
        const int made = memfd_create("segment", 0);
        return ftruncate(made, kRingOffset + 1) == 0 ? made : -1;
    }();
    model::check(wire.cookie == 1000 && wire.late == 0, "the first segment is not found");
    fd = dup(file);
    return kOk;
}

} // namespace adaptib::shm

namespace {

template <typename F> F* of_system(const char* name) {
    return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

} // namespace

extern "C" {
void* mmap(void* at, std::size_t bytes, int access, int flags, int fd, off_t offset) {
    return fd >= 0 ? adaptib::model::g_process->page
                   : of_system<decltype(mmap)>("mmap")(at, bytes, access, flags, fd, offset);
}
int munmap(void* at, std::size_t bytes) {
    return bytes == adaptib::shm::page_bytes() ? 0
                                               : of_system<decltype(munmap)>("munmap")(at, bytes);
}
}
