// SPDX-License-Identifier: BSD-3-Clause
// The responder's thread (responder.h).
#include "fabric/verbs/responder.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <span>

#include "base/invariant.h"

namespace adaptib::verbs {

namespace {

bool set_nonblocking(int descriptor) {
    const int flags = fcntl(descriptor, F_GETFL);
    return flags >= 0 && fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) >= 0;
}

constexpr short kReadable = POLLIN;

// Answers the questions at the ports that have any, or all ports' if `all`; `channels` are theirs,
// as poll() has left them. Takes at most `left` questions, and returns how many of these are left.
std::size_t serve(std::span<ResponderPort* const> ports, std::span<pollfd> channels, bool all,
                  std::size_t left) {
    ADAPTIB_INVARIANT(ports.size() == channels.size(), "each port has a channel", ports.size(),
                      channels.size());
    for (std::size_t i = 0; i < ports.size() && left > 0; ++i) {
        pollfd& channel = channels[i];
        const bool looks = all || ports[i]->pending() || ports[i]->broken();
        const bool readable = (channel.revents & kReadable) != 0;
        if (channel.revents != 0 && !readable) {
            channel.fd = -1; // the device is gone: poll() ignores it now
        }
        if (readable || looks) {
            left -= std::min(left, ports[i]->on_event(left));
        }
    }
    return left;
}

} // namespace

Responder::~Responder() {
    pause();
    if (wakes_ >= 0) {
        close(wakes_);
    }
}

void Responder::wake() const {
    ADAPTIB_INVARIANT(wakes_ >= 0, "a thread that is woken has a descriptor", wakes_);
    const std::uint64_t one = 1;
    while (write(wakes_, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void Responder::set_port(std::uint32_t rail, const Port& port) {
    if (rail < ports_.size() && ports_[rail] != nullptr) {
        ports_[rail]->set_port(port);
        wake();
    }
}

Status Responder::open(Rail& rail, std::unique_ptr<ResponderPort>& out) const {
    auto port =
        std::make_unique<ResponderPort>(static_cast<VerbsRail&>(rail), *answerer_, access_key_);
    Status status =
        rail.info().has(Capability::ud) ? port->open() : Status::error(Reason::not_supported);
    if (status.ok() && !set_nonblocking(port->descriptor())) {
        status = Status::error(Reason::no_memory);
    }
    out = status.ok() ? std::move(port) : nullptr;
    return status;
}

bool Responder::begin() {
    watch();
    return thread_.start(&Responder::run, this);
}

Status Responder::start(std::span<const std::unique_ptr<Rail>> rails, const Answerer& answerer,
                        std::uint64_t access_key) {
    ADAPTIB_INVARIANT(ports_.empty() && wakes_ < 0, "a responder starts once", ports_.size(),
                      wakes_);
    answerer_ = &answerer;
    access_key_ = access_key;
    bool any = false;
    Status first = Status::error(Reason::not_supported);
    for (const auto& rail : rails) {
        const Status status = open(*rail, ports_.emplace_back());
        first = any || status.ok() ? first : status;
        any = any || status.ok();
    }
    if (!any) {
        ports_.clear();
        return first;
    }
    wakes_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wakes_ < 0 || !begin()) {
        ports_.clear();
        return Status::error(Reason::no_memory);
    }
    return kOk;
}

void Responder::pause() {
    if (thread_.running()) {
        ends_ = true;
        wake();
        thread_.join();
        ends_ = false;
    }
}

// A port ends before the next one begins, since the device may have room for one.
void Responder::resume(std::span<const std::unique_ptr<Rail>> rails) {
    for (std::size_t i = 0; i < ports_.size(); ++i) {
        if (ports_[i] == nullptr || ports_[i]->lost()) {
            ports_[i].reset();
            static_cast<void>(open(*rails[i], ports_[i]));
        }
    }
    if (!begin()) {
        ports_.clear();
    }
}

void* Responder::run(void* self) {
    static_cast<Responder*>(self)->loop();
    return nullptr;
}

// Poll timeout: forever if there is nothing to do but wait; otherwise until the remaining work is
// due.
int Responder::timeout(bool rests) const {
    const auto any = [this](auto&& is) {
        return std::any_of(ports_.begin(), ports_.end(),
                           [&](const auto& port) { return port != nullptr && is(*port); });
    };
    if (rests) {
        return static_cast<int>(kInterval.count());
    }
    if (any([](const ResponderPort& port) { return port.pending(); })) {
        return 0;
    }
    constexpr int kUntilAnew = 1000; // milliseconds
    return any([](const ResponderPort& port) { return port.broken(); }) ? kUntilAnew : -1;
}

// Allocated before the thread begins: the thread itself needs no heap of the C library's, which
// would take 64 MiB of address space.
void Responder::watch() {
    watched_.clear();
    served_.clear();
    watched_.push_back({wakes_, kReadable, 0});
    for (const auto& port : ports_) {
        if (port != nullptr) {
            watched_.push_back({port->descriptor(), kReadable, 0});
            served_.push_back(port.get());
        }
    }
    ADAPTIB_INVARIANT(watched_.size() == served_.size() + 1,
                      "the thread watches a descriptor and a channel for each port",
                      watched_.size(), served_.size());
}

void Responder::loop() {
    using Clock = std::chrono::steady_clock;
    Clock::time_point began = Clock::now();
    std::size_t left = kMostAtOnce;
    bool woken = false; // by something other than a question
    while (true) {
        const bool rests = left == 0;
        const nfds_t count = rests ? 1 : watched_.size(); // the first one wakes it anyway
        if (poll(watched_.data(), count, timeout(rests)) < 0 && errno != EINTR) {
            return; // nothing can arrive any more
        }
        std::uint64_t times = 0;
        if (watched_[0].revents != 0 && read(wakes_, &times, sizeof times) < 0 && errno != EAGAIN &&
            errno != EINTR) {
            return;
        }
        if (ends_) { // after the read, which takes the destructor's wake along with earlier ones
            return;
        }
        woken = woken || watched_[0].revents != 0;
        if (Clock::now() - began >= kInterval) {
            began = Clock::now();
            left = kMostAtOnce;
        }
        if (!rests) {
            left = serve(served_, std::span(watched_).subspan(1), woken, left);
            ADAPTIB_INVARIANT(left <= kMostAtOnce, "the thread takes no more questions than it may",
                              left);
            woken = woken && left == 0; // serve() may not have come to all ports
        }
    }
}

} // namespace adaptib::verbs
