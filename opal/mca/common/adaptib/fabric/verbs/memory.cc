// SPDX-License-Identifier: BSD-3-Clause
// Registers and allocates memory.
#include "fabric/verbs/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>

#include "fabric/qp_rules.h"
#include "fabric/verbs/errors.h"

namespace adaptib::verbs {

namespace {

constexpr Bytes kPage = 4096;

// Separate pages: a child process may lose registered pages, and must not lose anything else with
// them.
class Pages {
public:
    Pages() = default;
    explicit Pages(Bytes length) : length_(round_up(length, kPage)) {
        void* map =
            mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        address_ = map == MAP_FAILED ? nullptr : map;
    }
    Pages(Pages&& other) noexcept : address_(other.address_), length_(other.length_) {
        other.address_ = nullptr;
    }
    Pages& operator=(Pages&&) = delete;
    ~Pages() {
        if (address_ != nullptr) {
            munmap(address_, length_);
        }
    }
    void* address() const { return address_; }
    void leave() { address_ = nullptr; }

private:
    void* address_ = nullptr;
    Bytes length_ = 0;
};

class VerbsMemoryRegion final : public MemoryRegion, public Renewed {
public:
    // `access`: of libibverbs; -1: the memory is a file's, and cannot be registered again.
    VerbsMemoryRegion(VerbsRail& rail, ibv_mr* mr, void* address, Bytes length, int access,
                      Pages pages)
        : MemoryRegion(address, length), rail_(rail), mr_(mr), access_(access),
          pages_(std::move(pages)) {
        read_keys();
        rail.device().renewed().push_back(*this);
    }
    ~VerbsMemoryRegion() override {
        rail_.device().renewed().remove(*this);
        if (mr_ != nullptr && rail_.calls().dereg_mr(mr_) != 0) {
            pages_.leave(); // the adapter may still write there
        }
    }
    int renew() override;
    void take_back() override;

private:
    void read_keys() { set_keys(mr_ == nullptr ? 0 : mr_->lkey, mr_ == nullptr ? 0 : mr_->rkey); }

    VerbsRail& rail_;
    ibv_mr* mr_; // null: the device is away, or the memory is gone; the keys are 0
    int access_;
    Pages pages_;
};

// Memory that is not mapped any more, of which nobody has told, is left without a key. The system
// has revoked the region of a device that was removed, whatever dereg_mr says.
int VerbsMemoryRegion::renew() {
    take_back();
    errno = 0;
    mr_ = access_ < 0 ? nullptr
                      : rail_.calls().reg_mr(rail_.device().pd(), address_, length_, access_);
    const int error = mr_ != nullptr || access_ < 0 ? 0 : error_number(-1);
    read_keys();
    return error == EFAULT ? 0 : error;
}

void VerbsMemoryRegion::take_back() {
    if (mr_ != nullptr) {
        rail_.calls().dereg_mr(std::exchange(mr_, nullptr));
    }
    read_keys();
}

Status check(const VerbsRail& rail, Bytes length, std::uint32_t access) {
    if (length == 0 || !access_is_sane(access)) {
        return Status::error(Reason::bad_argument);
    }
    return (access & kRemoteAtomic) != 0 && !rail.info().has(Capability::atomic64)
               ? Status::error(Reason::not_supported)
               : kOk;
}

// Memory that is registered while the device is away gets its keys when that is back.
Status keep(VerbsRail& rail, ibv_mr* mr, void* address, Bytes length, int access, Pages pages,
            std::unique_ptr<MemoryRegion>& out) {
    const int error = mr == nullptr ? error_number(-1) : 0;
    const bool comes_back = access >= 0 && rail.options().rdma_cm == nullptr;
    if (error != 0 && !(comes_back && rail.device().is_away())) {
        return rail.refuse(error, length);
    }
    out = std::make_unique<VerbsMemoryRegion>(rail, mr, address, length, access, std::move(pages));
    return kOk;
}

int region_access(const VerbsRail& rail, std::uint32_t access) {
    const bool relaxed = rail.info().relaxes_order && (access & (kOrdered | kRemoteAtomic)) == 0;
    return verbs_access(rail, access) | (relaxed ? +IBV_ACCESS_RELAXED_ORDERING : 0);
}

Status enter(VerbsRail& rail, void* address, Bytes length, std::uint32_t access, Pages pages,
             std::unique_ptr<MemoryRegion>& out) {
    const int rights = region_access(rail, access);
    errno = 0;
    ibv_mr* mr = rail.calls().reg_mr(rail.device().pd(), address, length, rights);
    return keep(rail, mr, address, length, rights, std::move(pages), out);
}

} // namespace

int verbs_access(const VerbsRail& rail, std::uint32_t access) {
    const bool reads = rail.info().has(Capability::rdma_read);
    const bool atomics = rail.info().has(Capability::atomic64);
    return ((access & kLocalWrite) != 0 ? +IBV_ACCESS_LOCAL_WRITE : 0) |
           ((access & kRemoteWrite) != 0 ? +IBV_ACCESS_REMOTE_WRITE : 0) |
           ((access & kRemoteRead) != 0 && reads ? +IBV_ACCESS_REMOTE_READ : 0) |
           ((access & kRemoteAtomic) != 0 && atomics ? +IBV_ACCESS_REMOTE_ATOMIC : 0);
}

Status register_memory_of(VerbsRail& rail, void* address, Bytes length, std::uint32_t access,
                          std::unique_ptr<MemoryRegion>& out) {
    if (address == nullptr && length == kWholeMemory) {
        return Status::error(Reason::not_supported);
    }
    if (length > UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(address)) {
        return Status::error(Reason::bad_argument);
    }
    if (const Status status = check(rail, length, access); !status.ok()) {
        return status;
    }
    return enter(rail, address, length, access, Pages(), out);
}

Status register_file_of(VerbsRail& rail, const FileRange& file, void* address, Bytes length,
                        std::uint32_t access, std::unique_ptr<MemoryRegion>& out) {
    if (const Status status = check(rail, length, access); !status.ok()) {
        return status;
    }
    errno = 0;
    ibv_mr* const mr = rail.calls().reg_dmabuf_mr(rail.device().pd(), file.offset, length,
                                                  reinterpret_cast<std::uintptr_t>(address),
                                                  file.file, region_access(rail, access));
    if (mr == nullptr && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EPROTONOSUPPORT)) {
        return Status::error(Reason::not_supported);
    }
    return keep(rail, mr, address, length, -1, Pages(), out);
}

Status allocate_memory(VerbsRail& rail, Bytes length, std::uint32_t access,
                       std::unique_ptr<MemoryRegion>& out) {
    if (const Status status = check(rail, length, access); !status.ok()) {
        return status;
    }
    if (length > kWholeMemory) {
        return Status::error(Reason::no_memory);
    }
    Pages pages(length);
    void* address = pages.address();
    return address == nullptr
               ? Status::error(Reason::no_memory)
               : enter(rail, address, length, access | kOrdered, std::move(pages), out);
}

} // namespace adaptib::verbs
