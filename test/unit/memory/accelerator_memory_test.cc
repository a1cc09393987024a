// SPDX-License-Identifier: BSD-3-Clause
// AcceleratorMemory: which allocations are registered, found again, given up and refused.
#include "memory/accelerator_memory.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "unit/null_rail.h"

namespace adaptib::test {
namespace {

using Place = AcceleratorMemory::Place;

// Registers files only, as long as it can.
class FileRail final : public NullRail {
public:
    std::size_t regions = 0;
    bool can = true;
    std::vector<std::uint64_t> offsets; // of the files that were registered

private:
    struct Region final : MemoryRegion {
        Region(FileRail& of, void* address, Bytes length)
            : MemoryRegion(address, length), rail(of) {
            ++rail.regions;
        }
        ~Region() override { --rail.regions; }
        FileRail& rail;
    };
    Status register_file_impl(const FileRange& file, void* address, Bytes length, std::uint32_t,
                              std::unique_ptr<MemoryRegion>& out) override {
        EXPECT_GE(file.file, 0);
        if (!can) {
            return Status::error(Reason::not_supported);
        }
        offsets.push_back(file.offset);
        out = std::make_unique<Region>(*this, address, length);
        return kOk;
    }
};

// An accelerator whose allocations are a table.
struct Accelerator {
    std::map<std::uintptr_t, Place> allocations; // by their base
    std::uint64_t next = 1;
    int exported = 0;
    bool exports = true;

    std::uintptr_t allocate(std::uintptr_t base, Bytes bytes) {
        allocations[base] = {nullptr, reinterpret_cast<void*>(base), bytes, next++};
        return base;
    }
};
Accelerator* accelerator = nullptr;

bool locate(void* context, Place* place) {
    const auto address = reinterpret_cast<std::uintptr_t>(context);
    auto found = accelerator->allocations.upper_bound(address);
    if (found == accelerator->allocations.begin()) {
        return false;
    }
    *place = (--found)->second;
    place->address = context;
    return address - found->first < place->bytes;
}
bool exists(const Place* place) {
    const auto found = accelerator->allocations.find(reinterpret_cast<std::uintptr_t>(place->base));
    return found != accelerator->allocations.end() && found->second.id == place->id;
}
constexpr opal_common_adaptib_accelerators_t kAccelerators{locate, exists};

bool export_file(void*, Bytes, ExportedMemory& out) {
    ++accelerator->exported;
    if (accelerator->exports) {
        out = ExportedMemory({memfd_create("accelerator", MFD_CLOEXEC), 64});
    }
    return accelerator->exports;
}

class AcceleratorMemoryTest : public testing::Test {
protected:
    AcceleratorMemoryTest() {
        accelerator = &owner;
        memory.use_by(&kAccelerators, export_file);
    }

    AcceleratorMemory::Use use(std::uintptr_t address, Bytes bytes = 8) {
        Data data{};
        data.bytes = bytes;
        data.context = reinterpret_cast<void*>(address);
        return memory.use(data);
    }

    Accelerator owner;
    FileRail first;
    FileRail second;
    std::array<Rail*, 2> rails{&first, &second};
    Counters counters;
    AcceleratorMemory memory{rails, {0, 2}, counters};
};

TEST_F(AcceleratorMemoryTest, AnAllocationIsRegisteredOnceWithAllRails) {
    const std::uintptr_t base = owner.allocate(0x10000, 4096);
    const AcceleratorMemory::Use head = use(base);
    const AcceleratorMemory::Use tail = use(base + 4088);
    ASSERT_NE(head.registration, nullptr);
    EXPECT_EQ(head.registration, tail.registration);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tail.address), base + 4088);
    EXPECT_EQ(first.regions, 1u);
    EXPECT_EQ(second.regions, 1u);
    EXPECT_EQ(first.offsets, std::vector<std::uint64_t>{64});
    EXPECT_EQ(owner.exported, 1);
    EXPECT_EQ(counters.accelerator_direct, 2u);
}

TEST_F(AcceleratorMemoryTest, DataElsewhereIsCopied) {
    const std::uintptr_t base = owner.allocate(0x10000, 4096);
    EXPECT_EQ(use(0x100).registration, nullptr) << "not on an accelerator";
    EXPECT_EQ(use(base + 4090, 8).registration, nullptr) << "ends behind its allocation";
    int host = 0;
    EXPECT_EQ(memory.use({&host, sizeof host, nullptr, nullptr, reinterpret_cast<void*>(base)})
                  .registration,
              nullptr);
    memory.use_by(nullptr);
    EXPECT_EQ(use(base).registration, nullptr) << "switched off";
    EXPECT_EQ(owner.exported, 0);
}

TEST_F(AcceleratorMemoryTest, AnotherAllocationAtTheSameAddressIsRegisteredAnew) {
    const std::uintptr_t base = owner.allocate(0x10000, 4096);
    const AcceleratorMemory::Use old = use(base);
    owner.allocations.erase(base);
    owner.allocate(base, 4096);
    const AcceleratorMemory::Use now = use(base);
    EXPECT_NE(now.registration, old.registration);
    EXPECT_EQ(first.regions, 2u) << "the old one is in use";
    EXPECT_EQ(owner.exported, 2);
}

TEST_F(AcceleratorMemoryTest, AllocationsThatAreGoneAreGivenUp) {
    use(owner.allocate(0x10000, 4096));
    use(owner.allocate(0x20000, 4096));
    EXPECT_EQ(first.regions, 2u);
    owner.allocations.erase(0x10000);
    use(0x20000);
    EXPECT_EQ(first.regions, 2u) << "nothing new";
    use(owner.allocate(0x30000, 4096));
    EXPECT_EQ(first.regions, 2u);
    EXPECT_EQ(owner.exported, 3);
}

TEST_F(AcceleratorMemoryTest, TheLeastRecentlyUsedOneGoes) {
    const auto base = [](std::size_t i) { return 0x100000 * (i + 1); };
    for (std::size_t i = 0; i < AcceleratorMemory::kMost; ++i) {
        use(owner.allocate(base(i), 4096));
    }
    use(base(0));
    use(owner.allocate(base(AcceleratorMemory::kMost), 4096));
    EXPECT_EQ(first.regions, AcceleratorMemory::kMost);
    const int exported = owner.exported;
    use(base(0));
    EXPECT_EQ(owner.exported, exported) << "used a moment ago";
    use(base(1));
    EXPECT_EQ(owner.exported, exported + 1);
}

TEST_F(AcceleratorMemoryTest, WhatIsRefusedIsNotTriedAgain) {
    const std::uintptr_t base = owner.allocate(0x10000, 4096);
    second.can = false;
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(use(base).registration, nullptr);
    }
    EXPECT_EQ(first.regions, 0u) << "all rails, or none";
    EXPECT_EQ(owner.exported, 1);
    owner.exports = false;
    EXPECT_EQ(use(owner.allocate(0x20000, 64)).registration, nullptr);
    EXPECT_EQ(counters.accelerator_refused, 2u);
    EXPECT_EQ(counters.accelerator_direct, 0u);
}

TEST(ExportedMemory, ClosesItsFile) {
    const int file = memfd_create("accelerator", MFD_CLOEXEC);
    {
        ExportedMemory first({file, 0});
        ExportedMemory second(std::move(first));
        EXPECT_EQ(second.range().file, file);
    }
    EXPECT_EQ(close(file), -1);
}

// The first number is free in a program that was started without standard input.
TEST(ExportedMemory, ClosesTheFirstFile) {
    const int input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    close(STDIN_FILENO);
    const int file = memfd_create("accelerator", MFD_CLOEXEC);
    EXPECT_EQ(file, STDIN_FILENO);
    { const ExportedMemory first({file, 0}); }
    EXPECT_EQ(fcntl(STDIN_FILENO, F_GETFD), -1);
    if (input >= 0) {
        dup2(input, STDIN_FILENO);
        close(input);
    }
}

// No library of an accelerator is loaded here.
TEST(ExportedMemory, NeedsTheAcceleratorsLibrary) {
    ExportedMemory out;
    EXPECT_FALSE(export_accelerator_memory(&out, sizeof out, out));
    EXPECT_EQ(out.range().file, -1);
}

} // namespace
} // namespace adaptib::test
