// SPDX-License-Identifier: BSD-3-Clause
// Creates, grows and maps segments.
#include "fabric/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "base/file_limit.h"
#include "base/invariant.h"
#include "fabric/shm/opening.h"
#include "fabric/shm/process.h"

namespace adaptib::shm {

namespace {

constexpr std::uint32_t kAddressMagic = 0x6d687361; // "ashm"
constexpr Bytes kMinQueueBytes = 64 * kKiB;
constexpr Bytes kMinHeap = kMiB;
constexpr Bytes kFirstRing = 64 * kKiB;

std::uint64_t mix(std::uint64_t x) { // finalizer of splitmix64
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

std::string system_text(const char* what, int error) {
    return std::string(what) + ": " + std::strerror(error);
}

// Draws a number that nobody can predict. False: the system has none.
template <class Number> bool draw(Number& out) {
    return getrandom(&out, sizeof out, 0) == sizeof out;
}

// A claiming process has not stored its start time in the slot yet, so /proc gives it.
bool owner_alive(const ProducerSlot& slot, std::uint64_t owner) {
    const auto pid = static_cast<std::uint32_t>(owner);
    const std::uint64_t start = (owner & kSlotClaiming) != 0
                                    ? process_start_time(pid)
                                    : slot.start_time.load(std::memory_order_relaxed);
    return process_alive(pid, start);
}

} // namespace

// -------------------------------------------------------------------------------------------------
// OwnSegment: life

Status OwnSegment::create(const SegmentOptions& options, std::unique_ptr<OwnSegment>& out,
                          std::string& error_text) {
    std::unique_ptr<OwnSegment> segment(new OwnSegment);
    const Status status = segment->set_up(options, error_text);
    if (status.ok()) {
        out = std::move(segment);
    }
    return status;
}

Status OwnSegment::set_up(const SegmentOptions& options, std::string& error_text) {
    ADAPTIB_INVARIANT(base_ == nullptr && !made_, "a segment is set up once", base_);
    const Bytes queue_bytes = std::bit_ceil(std::max(options.queue_bytes, kMinQueueBytes));
    const Bytes page = page_bytes();
    const Bytes heap = round_up(kRingOffset + queue_bytes, page);
    const Bytes wanted = round_up(options.segment_max, page);
    size_ = std::min(wanted, file_limit() / page * page);
    if (options.queue_bytes > kGiB || size_ < heap + kMinHeap) {
        error_text = "a shared segment needs at least " + std::to_string(heap + kMinHeap) +
                     " bytes, but " +
                     (size_ < wanted ? "the file size limit (ulimit -f) allows "
                                     : "its configured maximum is ") +
                     std::to_string(size_);
        return Status::error(size_ < wanted ? Reason::no_memory : Reason::bad_argument);
    }
    pid_ = static_cast<std::uint32_t>(getpid());
    start_time_ = process_start_time(pid_);
    host_ = host_identity() ^ mix(options.host);
    if (start_time_ == 0) {
        error_text = "cannot read /proc/self/stat: is /proc mounted?";
        return Status::error(Reason::no_device);
    }
    if (const Status status = open_segment_file(options.job_key, pid_, file_, error_text);
        !status.ok()) {
        return status;
    }
    cookie_ = new_cookie();
    if (fchmod(file_.fd, 0600) != 0 || ftruncate(file_.fd, static_cast<off_t>(size_)) != 0) {
        error_text = system_text("cannot size the shared segment", errno);
        return Status::error(Reason::no_memory);
    }
    void* at = mmap(nullptr, heap, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_.fd, 0);
    if (at == MAP_FAILED) {
        error_text = system_text("cannot map the shared segment", errno);
        return Status::error(Reason::no_memory);
    }
    base_ = static_cast<std::byte*>(at);
    mapped_ = heap;
    pages_.resize(kRingOffset / kPage);
    heap_.begin(file_, heap, size_);
    Status status = commit(0, kPage);
    if (status.ok()) {
        status = commit(kProducersOffset, kPage);
    }
    if (status.ok()) {
        status = take_memory(kRingOffset, kFirstRing);
    }
    if (!status.ok()) {
        error_text = last_error_text_;
        return status;
    }
    Header* header = new (base_) Header{};
    header->version = kLayoutVersion;
    header->pid = pid_;
    header->start_time = start_time_;
    header->cookie = cookie_;
    header->job_key = options.job_key;
    header->segment_bytes = size_;
    header->ring_offset = kRingOffset;
    header->ring_granules = queue_bytes / kGranule;
    header->heap_offset = heap;
    header->rails = options.rails;
    header->alive.store(kAlive, std::memory_order_relaxed);
    header->committed.store(kFirstRing / kGranule, std::memory_order_relaxed);
    header->memory_max.store(options.memory_max, std::memory_order_relaxed);
    note_memory();
    header->magic.store(kMagic, std::memory_order_release);
    made_ = true;
    become_visible(options);
    return kOk;
}

// Without random numbers the cookie can be guessed. Then it only tells segments apart, since
// become_visible() starts no server for it.
std::uint64_t OwnSegment::new_cookie() const {
    const auto file = static_cast<std::uint32_t>(file_.fd);
    std::uint64_t drawn = mix(static_cast<std::uint64_t>(pid_) << 32 | file) ^ start_time_;
    static_cast<void>(draw(drawn));
    return drawn;
}

// The cookie is the server's request key. Everybody can read the server's name, which is drawn for
// itself, as the answer key is.
// Without a server only the way through /proc remains, and peers know that from the address.
void OwnSegment::become_visible(const SegmentOptions& options) {
    visibility_ = own_visibility();
    visibility_.user_space ^= options.user_space;
    std::uint32_t name = 0;
    if (options.server && draw(name) && draw(answer_key_)) {
        server_ = DescriptorServer::start(file_.fd, {cookie_, answer_key_}, name);
    }
    if (server_ != nullptr) {
        visibility_.server = server_->number();
        visibility_.ways |= kWayServer;
    }
}

OwnSegment::~OwnSegment() {
    server_.reset();
    // A forked child has the mapping too, but the segment is its parent's.
    if (made_ && static_cast<std::uint32_t>(getpid()) == pid_) {
        Header* h = header();
        h->alive.store(kLeft, std::memory_order_release);
        for (auto& rail : h->rail) {
            rail.word.fetch_or(kRailClosed, std::memory_order_acq_rel);
        }
    }
    if (base_ != nullptr) {
        munmap(base_, mapped_);
    }
    if (file_.fd >= 0) {
        close(file_.fd);
    }
}

WireAddress OwnSegment::wire_address(std::uint32_t rail) const {
    ADAPTIB_INVARIANT(rail < kMaxRails, "an address has room for the number of its rail", rail);
    return {kAddressMagic,
            kLayoutVersion,
            static_cast<std::uint8_t>(rail),
            0,
            pid_,
            static_cast<std::uint32_t>(file_.fd),
            start_time_,
            cookie_,
            host_,
            answer_key_,
            visibility_};
}

RailAddress OwnSegment::address(std::uint32_t rail) const { return encode(wire_address(rail)); }

RailAddress encode(const WireAddress& wire) {
    RailAddress out;
    std::memcpy(out.bytes.data(), &wire, sizeof wire);
    out.size = sizeof wire;
    return out;
}

// -------------------------------------------------------------------------------------------------
// OwnSegment: memory

Status OwnSegment::commit(Bytes offset, Bytes length) {
    ADAPTIB_INVARIANT(is_within(offset, length, 0, kRingOffset),
                      "the tables of a segment end where its ring begins", offset, length);
    for (Bytes page = offset / kPage; page * kPage < offset + length; ++page) {
        if (pages_[page]) {
            continue;
        }
        if (const Status status = take_memory(page * kPage, kPage); !status.ok()) {
            return status;
        }
        pages_[page] = true;
    }
    return kOk;
}

Status OwnSegment::take_memory(Bytes offset, Bytes length) {
    if (const int error = commit_file(file_.fd, offset, length); error != 0) {
        last_error_text_ = no_memory_text(file_, error);
        return Status::error(Reason::no_memory);
    }
    return kOk;
}

void OwnSegment::commit_ahead() {
    std::uint64_t end = 0;
    if (wants_more(*header(), end) && commit_file(file_.fd, kRingOffset, end * kGranule) == 0) {
        note_committed(*header(), end);
    }
}

// Stores how much memory the file has now, including what peers have added since the last call.
void OwnSegment::note_memory() { header()->memory.store(memory(), std::memory_order_relaxed); }

Status OwnSegment::heap_says(Status status) {
    if (!status.ok()) {
        last_error_text_ = heap_.last_error_text();
    }
    note_memory();
    return status;
}

Status OwnSegment::allocate(Bytes length, Bytes& offset) {
    return heap_says(heap_.allocate(length, offset));
}

Status OwnSegment::allocate_sparse(Bytes length, Bytes first, Bytes& offset) {
    note_memory();
    const Bytes most = header()->memory_max.load(std::memory_order_relaxed);
    const Bytes has = header()->memory.load(std::memory_order_relaxed);
    const bool small = first <= kPage; // for a connection without a ring
    if (!small && (has >= most || most - has < first)) {
        last_error_text_ = "the shared segment has " + std::to_string(has) +
                           " bytes of memory of " + std::to_string(most) + " that it may have";
        return Status::error(Reason::no_memory);
    }
    return heap_says(heap_.allocate_sparse(length, first, offset));
}

void OwnSegment::release(Bytes offset) {
    heap_.release(offset);
    note_memory();
}

Status OwnSegment::commit_block(Bytes offset, Bytes length) {
    return heap_says(heap_.commit(offset, length));
}

bool OwnSegment::discard(Bytes offset, Bytes length) {
    const bool done = heap_.discard(offset, length);
    note_memory();
    return done;
}

// -------------------------------------------------------------------------------------------------
// PeerSegment

bool PeerSegment::decode(const RailAddress& address, WireAddress& out) {
    if (address.size != sizeof(WireAddress)) {
        return false;
    }
    std::memcpy(&out, address.bytes.data(), sizeof out);
    return out.magic == kAddressMagic;
}

Status PeerSegment::open(const RailAddress& address, std::uint64_t own_cookie,
                         std::shared_ptr<PeerSegment>& out, std::uint64_t own_host,
                         Obstacle& obstacle) {
    WireAddress wire{};
    if (!decode(address, wire)) {
        return Status::error(Reason::bad_argument);
    }
    if (wire.version != kLayoutVersion) {
        return Status::error(Reason::version);
    }
    if (wire.host != own_host) {
        return Status::error(Reason::unreachable);
    }
    int fd = -1;
    if (const Status status = open_segment_of(wire, fd, obstacle); !status.ok()) {
        return status;
    }
    std::shared_ptr<PeerSegment> peer(new PeerSegment);
    Status status = peer->map_file(fd, wire, obstacle);
    if (status.ok()) {
        status = peer->claim_slot(fd, own_cookie, obstacle);
    }
    close(fd);
    if (status.ok()) {
        ADAPTIB_INVARIANT(peer->base_ != nullptr && peer->slot_ != nullptr,
                          "a peer that is open is mapped and has a slot", peer->base_, peer->slot_);
        out = std::move(peer);
    }
    return status;
}

Status PeerSegment::map_file(int fd, const WireAddress& wire, Obstacle& obstacle) {
    obstacle = {Obstacle::Step::contents, Reason::none, 0};
    struct stat file {};
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) ||
        static_cast<Bytes>(file.st_size) <= kRingOffset) {
        return Status::error(Reason::peer_gone); // the peer uses the descriptor for something else
    }
    size_ = static_cast<Bytes>(file.st_size);
    const auto refused = [&] {
        obstacle = {Obstacle::Step::map, Reason::none, errno};
        return Status::error(errno == EACCES || errno == EPERM ? Reason::no_permission
                                                               : Reason::no_memory);
    };
    // Mapped twice: the first pages say how much there is. Not mremap(), which ThreadSanitizer does
    // not follow when it moves pages.
    const auto map = [&](Bytes length) {
        void* at = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (at == MAP_FAILED) {
            return false;
        }
        if (base_ != nullptr) {
            munmap(base_, mapped_);
        }
        base_ = static_cast<std::byte*>(at);
        mapped_ = length;
        return true;
    };
    const Bytes page = page_bytes();
    if (!map(round_up(kRingOffset, page))) {
        return refused();
    }
    if (const Status status = check(wire); !status.ok()) {
        return status;
    }
    const Bytes fixed = kRingOffset + header()->ring_granules * kGranule;
    if (!map(round_up(Windows::can_make(base_) ? fixed : size_, page))) {
        return refused();
    }
    windows_.begin(base_, mapped_, size_);
    return kOk;
}

// Checks that the mapping is the segment that the address names.
Status PeerSegment::check(const WireAddress& wire) {
    const Header* h = header();
    if (h->magic.load(std::memory_order_acquire) != kMagic || h->cookie != wire.cookie) {
        return Status::error(Reason::peer_gone);
    }
    if (h->version != kLayoutVersion) {
        return Status::error(Reason::version);
    }
    const bool sane = h->ring_offset == kRingOffset && std::has_single_bit(h->ring_granules) &&
                      h->ring_granules >= kMinQueueBytes / kGranule &&
                      h->ring_granules <= kGiB / kGranule && h->segment_bytes == size_ &&
                      h->ring_offset + h->ring_granules * kGranule <= size_ && h->rails > 0 &&
                      h->rails <= kMaxRails && wire.rail < h->rails && h->pid == wire.pid;
    if (!sane) {
        return Status::error(Reason::unreachable);
    }
    if (gone()) {
        return Status::error(Reason::peer_gone);
    }
    pid_ = wire.pid;
    address_ = wire;
    start_time_ = wire.start_time;
    cookie_ = wire.cookie;
    return kOk;
}

Status PeerSegment::claim_slot(int fd, std::uint64_t own_cookie, Obstacle& obstacle) {
    ADAPTIB_INVARIANT(slot_ == nullptr, "a process has one slot in a peer's segment", slot_);
    own_pid_ = static_cast<std::uint32_t>(getpid());
    const std::uint64_t start = process_start_time(own_pid_);
    // /proc cannot be read now, for example because no file descriptor is left. A process without a
    // start time would count as dead.
    if (start == 0) {
        obstacle = {Obstacle::Step::identity, Reason::none, errno};
        return Status::error(Reason::no_memory);
    }
    const std::uint64_t claim = own_pid_ | kSlotClaiming;
    ProducerSlot* slots = producers_of(base_);
    for (int pass = 0; pass < 2 && slot_ == nullptr; ++pass) {
        for (std::uint32_t i = 0; i < kMaxProducers; ++i) {
            const Bytes offset = kProducersOffset + i * sizeof(ProducerSlot);
            if (pass == 0 && offset % kPage == 0) {
                if (const int error = commit_file(fd, offset, kPage); error != 0) {
                    obstacle = {Obstacle::Step::commit, Reason::none, error};
                    return Status::error(Reason::no_memory);
                }
            }
            std::uint64_t owner = slots[i].owner.load(std::memory_order_acquire);
            // All slots are taken: reuses one whose owner has ended and left no unconsumed intent.
            if (pass == 1 && owner != 0) {
                const std::uint64_t intent = slots[i].intent.load(std::memory_order_acquire);
                const bool settled = (intent >> 16) + (intent & 0xffff) <=
                                     header()->consumed.load(std::memory_order_acquire);
                if (!settled || owner_alive(slots[i], owner)) {
                    continue;
                }
            } else if (owner != 0) {
                continue;
            }
            if (slots[i].owner.compare_exchange_strong(owner, claim, std::memory_order_acq_rel)) {
                slot_ = &slots[i];
                break;
            }
        }
    }
    if (slot_ == nullptr) {
        obstacle = {Obstacle::Step::places, Reason::none, 0};
        return Status::error(Reason::no_memory);
    }
    const auto index = static_cast<std::uint32_t>(slot_ - slots);
    ADAPTIB_INVARIANT(index < kMaxProducers, "a slot is one of the table", index);
    slot_->intent.store(0, std::memory_order_relaxed);
    slot_->refused.store(0, std::memory_order_relaxed);
    slot_->start_time.store(start, std::memory_order_relaxed);
    slot_->cookie.store(own_cookie, std::memory_order_relaxed);
    slot_->owner.store(own_pid_, std::memory_order_release);
    std::uint32_t end = header()->producers_end.load(std::memory_order_relaxed);
    while (end <= index && !header()->producers_end.compare_exchange_weak(
                               end, index + 1, std::memory_order_acq_rel)) {
    }
    const auto commit = [this](std::uint64_t ring_end) {
        int file = -1;
        Obstacle in_the_way;
        const Status opened = open_segment_of(address_, file, in_the_way);
        if (!opened.ok()) {
            return opened.reason() == Reason::peer_gone ? Push::no_memory : Push::full;
        }
        struct stat mine {};
        const bool same =
            fstat(file, &mine) == 0 && static_cast<Bytes>(mine.st_size) == size_ && !gone();
        const bool done = same && commit_file(file, kRingOffset, ring_end * kGranule) == 0;
        close(file);
        return done ? Push::ok : Push::no_memory;
    };
    producer_ = Producer(base_, index, commit);
    return kOk;
}

PeerSegment::~PeerSegment() {
    if (slot_ != nullptr && static_cast<std::uint32_t>(getpid()) == own_pid_) {
        slot_->owner.store(0, std::memory_order_release);
    }
    if (base_ != nullptr) {
        munmap(base_, mapped_);
    }
}

Status PeerSegment::commit(Bytes offset, Bytes length) {
    const Bytes page = page_bytes();
    const Bytes begin = offset / page * page;
    const Bytes bytes = round_up(offset + length, page) - begin;
    std::byte* const at = windows_.at(begin, bytes);
    ADAPTIB_INVARIANT((reinterpret_cast<std::uintptr_t>(at) & (page - 1)) == 0,
                      "pages of a file are pages of the process", at, begin);
    std::atomic<std::uint64_t>& memory = header()->memory;
    const Bytes most = header()->memory_max.load(std::memory_order_relaxed);
    const Bytes had = memory.fetch_add(bytes, std::memory_order_relaxed);
    if (at != nullptr && had < most && bytes <= most - had && commit_mapped(at, bytes) == 0) {
        return kOk;
    }
    memory.fetch_sub(bytes, std::memory_order_relaxed);
    return Status::error(Reason::no_memory);
}

bool PeerSegment::check_alive() {
    if (gone()) {
        return false;
    }
    if (process_alive(pid_, start_time_)) {
        return true;
    }
    mark_ended();
    return false;
}

void PeerSegment::mark_ended() {
    if (gone()) {
        return;
    }
    header()->alive.store(kEnded, std::memory_order_release);
    for (auto& rail : header()->rail) {
        rail.word.fetch_or(kRailClosed, std::memory_order_acq_rel);
    }
}

} // namespace adaptib::shm
