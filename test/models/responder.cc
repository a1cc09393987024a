// SPDX-License-Identifier: BSD-3-Clause
// Model of the responder (fabric/verbs/responder.h): its thread, and the core's, which passes it
// changed ports and ends it, over queue pairs and descriptors of the model.
//
// Invariants:
//   * the destructor returns;
//   * a queue pair whose port has moved to another partition moves, too, without another event;
//   * a question that reaches the queue pair is answered without another event;
//   * an answer's path begins at one port as it was or as it is, not at parts of both.
#include "fabric/verbs/responder.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdarg>
#include <deque>

#include "fabric/verbs/errors.h"
#include "model.h"
#include "stand_in/heap.h"
#include "stand_in/system.h"
#include "stand_in/threads.h"

namespace adaptib::model {
namespace {

using namespace adaptib::verbs;

constexpr std::size_t kRails = 2;
constexpr int kWakes = 1000;   // descriptor
constexpr int kChannels = 100; // descriptor of the first rail's
constexpr std::uint32_t kQuestion = 8;

// A queue pair with its completion queue and channel. The words are what its device and the kernel
// share with all threads; the rest only the responder's thread uses.
struct Adapter {
    std::atomic<std::uint64_t> questions; // that have arrived
    std::atomic<std::uint64_t> armed, events;
    std::atomic<std::uint64_t> partition; // of the queue pair
    std::atomic<std::uint64_t> answers;   // to questions
};
struct Posted {
    std::deque<std::uint64_t> receives, sends; // by wr_id
};

struct System {
    std::array<Adapter, kRails> adapters;
    std::atomic<std::uint64_t> wakes;
};

System* g_system = nullptr;
std::array<Posted, kRails> g_posted;
std::size_t g_made = 0; // queue pairs
std::array<ibv_comp_channel, kRails> g_channels;
std::array<ibv_cq, kRails> g_queues;
std::array<ibv_qp, kRails> g_pairs;
ibv_ah g_ah;

template <typename T, std::size_t N>
std::size_t index_in(const std::array<T, N>& all, const T* of) {
    return static_cast<std::size_t>(of - all.data());
}

void arrive(std::size_t rail, std::uint64_t questions) {
    Adapter& adapter = g_system->adapters[rail];
    const auto one_more = [](std::uint64_t before) { return before + 1; };
    step(adapter.questions, [questions](std::uint64_t before) { return before + questions; });
    if (step(adapter.armed, [](std::uint64_t) { return 0; }) != 0) {
        step(adapter.events, one_more);
    }
}

// Takes up to `most`; returns their number.
std::uint64_t take(std::atomic<std::uint64_t>& from, std::uint64_t most) {
    return std::min(most,
                    step(from, [most](std::uint64_t now) { return now - std::min(now, most); }));
}

int get_event(ibv_comp_channel* channel, ibv_cq**, void**) {
    return take(g_system->adapters[index_in(g_channels, channel)].events, 1) > 0 ? 0 : -1;
}

int poll_queue(ibv_cq* queue, int count, ibv_wc* out) {
    const std::size_t rail = index_in(g_queues, queue);
    Posted& posted = g_posted[rail];
    int n = 0;
    for (; n < count && !posted.sends.empty(); ++n) {
        out[n] = {};
        out[n].wr_id = posted.sends.front();
        posted.sends.pop_front();
    }
    const auto taken = static_cast<int>(
        take(g_system->adapters[rail].questions, static_cast<std::uint64_t>(count - n)));
    for (int i = 0; i < taken; ++i, ++n) {
        check(!posted.receives.empty(), "a question arrives where no receive is posted");
        out[n] = {};
        out[n].wr_id = posted.receives.front();
        out[n].byte_len = static_cast<std::uint32_t>(kGrhBytes) + kQuestion;
        posted.receives.pop_front();
    }
    return n;
}

int arm(ibv_cq* queue, int) {
    step(g_system->adapters[index_in(g_queues, queue)].armed, [](std::uint64_t) { return 1; });
    return 0;
}

int modify(ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
    const std::size_t rail = index_in(g_pairs, pair);
    if (attributes->qp_state == IBV_QPS_RESET) {
        g_posted[rail] = {};
    }
    if ((mask & IBV_QP_PKEY_INDEX) != 0) {
        g_system->adapters[rail].partition.store(attributes->pkey_index, std::memory_order_release);
    }
    return 0;
}

int send(ibv_qp* pair, ibv_send_wr* work, ibv_send_wr**) {
    const std::size_t rail = index_in(g_pairs, pair);
    g_posted[rail].sends.push_back(work->wr_id);
    g_system->adapters[rail].answers.fetch_add(1, std::memory_order_acq_rel);
    return 0;
}

int receive(ibv_qp* pair, ibv_recv_wr* work, ibv_recv_wr**) {
    g_posted[index_in(g_pairs, pair)].receives.push_back(work->wr_id);
    return 0;
}

ibv_ah* create_handle(ibv_pd*, ibv_ah_attr* attributes) {
    check(attributes->dlid == attributes->src_path_bits, "a path begins at parts of two ports");
    return &g_ah;
}

Calls make_calls() {
    Calls calls{};
    calls.create_comp_channel = [](ibv_context*) { return &g_channels[g_made]; };
    calls.destroy_comp_channel = [](ibv_comp_channel*) { return 0; };
    calls.get_cq_event = get_event;
    calls.ack_cq_events = [](ibv_cq*, unsigned) {};
    calls.req_notify_cq = arm;
    calls.create_cq = [](ibv_context*, int, void*, ibv_comp_channel*, int) {
        return &g_queues[g_made];
    };
    calls.destroy_cq = [](ibv_cq*) { return 0; };
    calls.poll_cq = poll_queue;
    calls.create_qp = [](ibv_pd*, ibv_qp_init_attr*) { return &g_pairs[g_made++]; };
    calls.modify_qp = modify;
    calls.destroy_qp = [](ibv_qp*) { return 0; };
    calls.post_send = send;
    calls.post_recv = receive;
    calls.create_ah = create_handle;
    calls.destroy_ah = [](ibv_ah*) { return 0; };
    return calls;
}
const Calls g_calls = make_calls();

bool readable(const pollfd& each) {
    const auto& word =
        each.fd == kWakes
            ? g_system->wakes
            : g_system->adapters[static_cast<std::size_t>(each.fd - kChannels)].events;
    return word.load(std::memory_order_acquire) != 0;
}

// Returns a bit for each that is readable.
unsigned look(const pollfd* watched, nfds_t count) {
    unsigned ready = 0;
    for (nfds_t i = 0; i < count; ++i) {
        ready |= readable(watched[i]) ? 1u << i : 0;
    }
    return ready;
}

} // namespace

extern "C" {

int fcntl(int, int, ...) { return 0; }
int eventfd(unsigned, int) noexcept { return kWakes; }

int close(int) { return 0; }

ssize_t write(int, const void* from, std::size_t size) {
    g_system->wakes.fetch_add(*static_cast<const std::uint64_t*>(from), std::memory_order_acq_rel);
    return static_cast<ssize_t>(size);
}

ssize_t read(int, void* to, std::size_t size) {
    const std::uint64_t count = take(g_system->wakes, ~std::uint64_t{0});
    *static_cast<std::uint64_t*>(to) = count;
    errno = EAGAIN;
    return count > 0 ? static_cast<ssize_t>(size) : -1;
}

int poll(pollfd* watched, nfds_t count, int milliseconds) {
    unsigned ready = look(watched, count);
    if (ready == 0 && milliseconds > 0) {
        pause();
        ready = look(watched, count);
        pass(ready == 0 ? static_cast<std::uint64_t>(milliseconds) * 1'000'000 : 0);
    } else if (ready == 0 && milliseconds < 0) {
        wait_until([&] { return (ready = look(watched, count)) != 0; });
    }
    for (nfds_t i = 0; i < count; ++i) {
        watched[i].revents = (ready >> i & 1u) != 0 ? POLLIN : 0;
    }
    return std::popcount(ready);
}
}

} // namespace adaptib::model

// In place of port.cc and path.cc, which compute what a device needs from the values of a port, and
// of errors.cc.
namespace adaptib::verbs {

int error_number(int result) { return result; }
Status status_of(int) { return Status::error(Reason::internal); }

bool decode_address(const RailAddress&, WireAddress&) { return true; }
PathSpec path_to(const Port& port, const RailAddress&, std::uint32_t) {
    PathSpec out;
    out.source_path_bits = static_cast<std::uint8_t>(port.gid.gid_index);
    return out;
}
void fill_vector(const Port& port, const PathSpec& path, const WireAddress&, const VerbsOptions&,
                 ibv_ah_attr& out) {
    out = {};
    out.dlid = port.attributes.lid;
    out.src_path_bits = path.source_path_bits;
}

} // namespace adaptib::verbs

namespace adaptib::model {
namespace {

class Echo final : public Answerer {
public:
    explicit Echo(bool answers) : answers_(answers) {}
    Reply answer(std::uint32_t, std::span<const std::byte>,
                 std::span<std::byte>) const noexcept override {
        return {answers_ ? kQuestion : 0, 1, {}, 0};
    }

private:
    bool answers_;
};
const Echo g_echo(true);
const Echo g_silent(false);

// A port in a partition, all of whose values are one number.
Port port_of(std::uint16_t partition, std::uint16_t number) {
    Port out;
    out.partitions.add({0xffff, partition});
    out.attributes.lid = number;
    out.gid.gid_index = number;
    return out;
}

struct Program {
    Program(Execution& execution, std::size_t count, const Answerer& answerer) {
        begin_threads(execution);
        g_system = &execution.make<System>("system");
        g_posted = {};
        g_made = 0;
        for (std::size_t i = 0; i < kRails; ++i) {
            g_channels[i].fd = kChannels + static_cast<int>(i);
            g_pairs[i].qp_num = static_cast<std::uint32_t>(1 + i);
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            rails.push_back(std::make_unique<VerbsRail>(device, port_of(1, 1), i));
        }
        const WatchedHeap heap(execution);
        responder = std::make_unique<Responder>();
        check(responder->start(rails, answerer, 1).ok(), "there is no responder");
    }
    Device device{g_calls};
    std::vector<std::unique_ptr<Rail>> rails;
    std::unique_ptr<Responder> responder;
};

Program& make(Execution& execution, std::size_t rails, const Answerer& answerer) {
    auto* const made = new Program(execution, rails, answerer);
    execution.at_end([made] {
        static_cast<void>(made->responder.release()); // there if the execution was abandoned
        delete made;
    });
    return *made;
}

void wait_for(const std::atomic<std::uint64_t>& word, std::uint64_t value) {
    wait_until([&] { return word.load(std::memory_order_acquire) == value; });
}

// A port moves to another partition, while the other rail has as many questions as the thread
// answers at a time.
void moved(Execution& execution) {
    Program& program = make(execution, 2, g_silent);
    arrive(0, Responder::kMostAtOnce);
    execution.thread([&program] {
        program.responder->set_port(1, port_of(2, 2));
        wait_for(g_system->adapters[1].partition, 2);
        program.responder.reset();
    });
}

// Questions arrive while the thread answers, or goes to sleep.
void asked(Execution& execution) {
    Program& program = make(execution, 1, g_echo);
    execution.thread([&program] {
        arrive(0, 1);
        arrive(0, 1);
        wait_for(g_system->adapters[0].answers, 2);
        program.responder.reset();
    });
}

// The port changes while a question is answered, and soon the responder ends.
void changed(Execution& execution) {
    Program& program = make(execution, 1, g_echo);
    arrive(0, 1);
    execution.thread([&program] {
        program.responder->set_port(0, port_of(1, 2));
        program.responder.reset();
    });
}

} // namespace

const std::vector<Model>& models() {
    static const std::vector<Model> all = {
        {"asked", {}, asked}, {"changed", {}, changed}, {"moved", {}, moved}};
    return all;
}

} // namespace adaptib::model
