// SPDX-License-Identifier: BSD-3-Clause
// Model of address handles (fabric/verbs/address_handles.h): the core's thread and the responder's
// ask for handles, and a third thread makes them, over a device of the model.
//
// Invariants:
//   * who asks for a handle gets one for that address, however often the thread was told before;
//   * a handle ends once, after its last user, and all have ended when the device's end;
//   * an entry is there as long as the thread makes its handle;
//   * the destructor returns.
#include "fabric/verbs/address_handles.h"

#include <semaphore.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "model.h"
#include "stand_in/heap.h"
#include "stand_in/threads.h"

namespace adaptib::model {
namespace {

using namespace adaptib::verbs;

// Handles of the device: each is given once.
struct Handle {
    ibv_ah ah;
    std::uint16_t to;
    std::atomic<std::uint32_t> lives;
};
struct Device {
    std::array<Handle, 12> handles;
    std::atomic<std::uint32_t> made;
};

Device* g_device = nullptr;
bool g_short = false; // the device has no room for the first handle of address 2

ibv_ah* create(ibv_pd*, ibv_ah_attr* to) {
    const std::uint32_t number = g_device->made.fetch_add(1, std::memory_order_relaxed);
    check(number < g_device->handles.size(), "the model's device has too few handles");
    if (g_short && to->dlid == 2) {
        g_short = false;
        errno = ENOMEM;
        return nullptr;
    }
    Handle& handle = g_device->handles[number];
    handle.to = to->dlid;
    handle.lives.store(1, std::memory_order_relaxed);
    return &handle.ah;
}

Handle& handle_of(ibv_ah* ah) { return *reinterpret_cast<Handle*>(ah); }

int destroy(ibv_ah* ah) {
    check(handle_of(ah).lives.exchange(0, std::memory_order_relaxed) == 1, "a handle ends twice");
    return 0;
}

Calls make_calls() {
    Calls calls{};
    calls.create_ah = create;
    calls.destroy_ah = destroy;
    return calls;
}
const Calls g_calls = make_calls();

std::atomic_ref<unsigned> count_of(sem_t* semaphore) {
    return std::atomic_ref(*reinterpret_cast<unsigned*>(semaphore));
}

} // namespace

extern "C" {

int sem_init(sem_t* semaphore, int, unsigned value) noexcept {
    count_of(semaphore).store(value);
    return 0;
}
int sem_destroy(sem_t*) noexcept { return 0; }
int sem_post(sem_t* semaphore) noexcept {
    count_of(semaphore).fetch_add(1, std::memory_order_acq_rel);
    return 0;
}
int sem_wait(sem_t* semaphore) {
    wait_until([&] {
        unsigned now = count_of(semaphore).load(std::memory_order_acquire);
        return now > 0 &&
               count_of(semaphore).compare_exchange_strong(now, now - 1, std::memory_order_acq_rel);
    });
    return 0;
}
}

namespace {

constexpr bool kEthernet = true;

ibv_ah_attr address(std::uint16_t number) {
    ibv_ah_attr out{};
    out.dlid = number;
    return out;
}

struct Program {
    explicit Program(Execution& execution) {
        begin_threads(execution);
        g_device = &execution.make<Device>("device");
        g_short = false;
        const WatchedHeap heap(execution);
        handles = std::make_unique<AddressHandles>(g_calls, nullptr);
        SharedAh none;
        check(handles->find(address(1), kEthernet, none) == kNotYet, "a handle is there");
    }
    // As the core and the responder do, which ask again later. Returns false if there is none yet.
    bool use(std::uint16_t number) {
        SharedAh handle;
        if (!handles->find(address(number), kEthernet, handle).ok()) {
            return false;
        }
        const Handle& found = handle_of(handle->get());
        check(found.to == number, "a handle of another address");
        check(found.lives.load(std::memory_order_relaxed) == 1, "a handle ends before its user");
        return true;
    }
    std::unique_ptr<AddressHandles> handles;
};

Program& make(Execution& execution) {
    auto* const made = new Program(execution);
    execution.after([made] {
        for (const Handle& each : g_device->handles) {
            check(each.lives.load(std::memory_order_relaxed) == 0, "a handle does not end");
        }
    });
    execution.at_end([made] {
        static_cast<void>(made->handles.release()); // there if the execution was abandoned
        delete made;
    });
    return *made;
}

// Both ask; then the fabric ends.
void two(Execution& execution) {
    Program& program = make(execution);
    auto& done = execution.make<std::atomic<std::uint32_t>>("the responder's end");
    execution.thread([&program, &done] {
        static_cast<void>(program.use(2));
        wait_until([&] { return done.load(std::memory_order_acquire) != 0; });
        program.handles.reset();
    });
    execution.thread([&program, &done] {
        static_cast<void>(program.use(1));
        done.store(1, std::memory_order_release);
    });
}

// The device has no room for another handle, so unused ones go, and one that has just been used.
void full(Execution& execution) {
    Program& program = make(execution);
    g_short = true;
    execution.thread([&program] {
        SharedAh kept;
        wait_until([&] { return program.handles->find(address(1), kEthernet, kept).ok(); });
        static_cast<void>(program.handles->prepare(address(2)));
        check(handle_of(kept->get()).lives.load(std::memory_order_relaxed) == 1,
              "a handle ends before its user");
        kept.reset();
        program.handles.reset();
    });
}

} // namespace

const std::vector<Model>& models() {
    static const std::vector<Model> all = {{"full", {}, full}, {"two", {}, two}};
    return all;
}

} // namespace adaptib::model
