// SPDX-License-Identifier: BSD-3-Clause
// Words of the first segment's header that tell of late endpoints (late_endpoints.h).
#include "fabric/shm/late_endpoints.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/invariant.h"
#include "fabric/shm/descriptor_server.h"
#include "fabric/shm/opening.h"

namespace adaptib::shm {

namespace {

// Header::late: 0, or bit 63, and the descriptor; bit 62: it has a server, whose number it is.
constexpr std::uint64_t kLateOpen = 1ull << 63;
constexpr std::uint64_t kLateServer = 1ull << 62;
constexpr unsigned kLateFdShift = 32;
constexpr std::uint64_t kLateFdMask = (1ull << 30) - 1;

std::uint64_t late_word(const WireAddress& wire) {
    const bool server = (wire.visibility.ways & kWayServer) != 0;
    return kLateOpen | (server ? kLateServer | wire.visibility.server : 0) |
           (wire.fd & kLateFdMask) << kLateFdShift;
}

WireAddress first_of(const WireAddress& late) {
    WireAddress first = late;
    first.late = 0;
    first.cookie = late.cookie - late_key(0, late.late);
    first.answer_key = late.answer_key - late_key(0, late.late);
    return first;
}

// The first page of a process's first segment, mapped.
class FirstPage {
public:
    ~FirstPage() {
        if (at_ != MAP_FAILED) {
            munmap(at_, page_bytes());
        }
    }
    FirstPage() = default;
    FirstPage(const FirstPage&) = delete;
    FirstPage& operator=(const FirstPage&) = delete;

    Status map(const WireAddress& first, Obstacle& obstacle) {
        int fd = -1;
        if (const Status status = open_segment_of(first, fd, obstacle); !status.ok()) {
            return status;
        }
        struct stat file {};
        const bool is_segment = fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
                                static_cast<Bytes>(file.st_size) > kRingOffset;
        if (is_segment) {
            at_ = mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        }
        const int error = errno;
        close(fd);
        if (is_segment && at_ == MAP_FAILED) {
            obstacle = {Obstacle::Step::map, Reason::none, error};
            return Status::error(Reason::no_memory);
        }
        obstacle = {Obstacle::Step::contents, Reason::none, 0};
        return is_segment ? check(first) : Status::error(Reason::peer_gone);
    }
    Header* header() const { return header_of(static_cast<std::byte*>(at_)); }

private:
    Status check(const WireAddress& first) const {
        const Header* h = header();
        if (h->magic.load(std::memory_order_acquire) != kMagic || h->cookie != first.cookie) {
            return Status::error(Reason::peer_gone);
        }
        if (h->version != kLayoutVersion) {
            return Status::error(Reason::version);
        }
        return h->alive.load(std::memory_order_acquire) == kAlive
                   ? kOk
                   : Status::error(Reason::peer_gone);
    }

    void* at_ = MAP_FAILED;
};

} // namespace

RailAddress OwnLateEndpoints::address_impl(std::uint32_t rail, std::uint32_t index) const {
    ADAPTIB_INVARIANT(index <= kMaxLate, "the header has room for each late endpoint", index);
    WireAddress wire = segment_.wire_address(rail);
    wire.late = static_cast<std::uint8_t>(index);
    wire.cookie = late_key(wire.cookie, index);
    wire.answer_key = late_key(wire.answer_key, index);
    return encode(wire);
}

std::uint32_t OwnLateEndpoints::asked_for_impl() {
    std::atomic<std::uint32_t>& asked_for = segment_.header()->asked_for;
    return asked_for.load(std::memory_order_relaxed) == 0
               ? 0
               : asked_for.exchange(0, std::memory_order_relaxed);
}

void OwnLateEndpoints::announce_impl(std::uint32_t index, const RailAddress& address) {
    WireAddress wire{};
    if (PeerSegment::decode(address, wire) && index > 0 && index <= kMaxLate) {
        segment_.header()->late[index - 1].store(late_word(wire), std::memory_order_release);
    }
}

void OwnLateEndpoints::listen_impl(Asked asked) {
    if (segment_.server() != nullptr) {
        segment_.server()->listen(std::move(asked));
    }
}

Status find_late_endpoint(const WireAddress& late, WireAddress& out, Obstacle& obstacle) {
    if (late.late > kMaxLate) {
        return Status::error(Reason::bad_argument);
    }
    ADAPTIB_INVARIANT(late.late != 0, "the first endpoint is not late", late.rail);
    const WireAddress first = first_of(late);
    FirstPage page;
    if (const Status status = page.map(first, obstacle); !status.ok()) {
        return status;
    }
    Header* header = page.header();
    const std::uint64_t word = header->late[late.late - 1].load(std::memory_order_acquire);
    if ((word & kLateOpen) == 0) {
        const std::uint32_t bit = 1u << late.late;
        const bool is_new = (header->asked_for.fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
        if (is_new && can_ask_server(first)) {
            wake_server(first.visibility.server, first.cookie);
        }
        obstacle = {Obstacle::Step::unopened, Reason::none, 0};
        return Status::again(Reason::not_connected);
    }
    out = late;
    out.late = 0;
    out.fd = static_cast<std::uint32_t>(word >> kLateFdShift & kLateFdMask);
    out.visibility.server = static_cast<std::uint32_t>(word);
    out.visibility.ways &= kWayProc;
    if ((word & kLateServer) != 0) {
        out.visibility.ways |= kWayServer;
    }
    return kOk;
}

} // namespace adaptib::shm
