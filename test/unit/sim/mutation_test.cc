// SPDX-License-Identifier: BSD-3-Clause
// Torture notices what is wrong: a driver spoils one thing in each run, over many programs.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "simulator/torture/program.h"
#include "simulator/torture/run.h"

namespace adaptib::torture {
namespace {

enum class Spoil : std::uint8_t {
    nothing,
    message_dropped,
    message_twice,
    messages_swapped,
    sent_too_early, // the send completes before its data was taken
    byte_flipped,
    byte_written_beside,
    completion_lost,
    completion_twice,
    wrong_tag,
    wrong_status,
    posted_late, // behind the next receive
    cancel_denied,
    put_lost,
    add_twice,
    old_value_wrong,
    active_dropped,
};

struct Case {
    const char* name;
    Spoil spoil;
    bool always; // true: it does harm in every program
};

// A request of the driver that takes the place of the user's.
struct Substitute {
    UserRequest mine{}; // has to be the first member
    UserRequest* user = nullptr;
    Data data{};
    Spoil spoil = Spoil::nothing;
    std::vector<std::byte> bytes;
};

class Spoiler final : public Driver {
public:
    // Spoils the `nth` occasion.
    Spoiler(std::unique_ptr<Driver> below, Spoil spoil, int nth,
            std::vector<std::unique_ptr<Substitute>>& substitutes, bool& spoiled)
        : below_(std::move(below)), spoil_(spoil), nth_(nth), substitutes_(substitutes),
          spoiled_(spoiled) {}

    std::uint32_t ranks() const override { return below_->ranks(); }
    Core& core(std::uint32_t rank) override { return below_->core(rank); }
    Counters& counters(std::uint32_t rank) override { return below_->counters(rank); }
    const sim::Endpoints& endpoints() const override { return below_->endpoints(); }
    std::vector<std::string> messages() override { return below_->messages(); }
    std::uint64_t faults() const override { return below_->faults(); }
    void wake(std::uint32_t rank, std::uint64_t ticks) override { below_->wake(rank, ticks); }
    void compute(std::uint32_t rank, std::uint64_t ticks) override { below_->compute(rank, ticks); }
    void kill(std::uint32_t rank) override { below_->kill(rank); }
    Nanoseconds time() const override { return below_->time(); }
    Nanoseconds held_up_until() const override { return below_->held_up_until(); }
    Nanoseconds ends_within() const override { return below_->ends_within(); }
    bool run(const std::function<bool()>& done) override {
        below_->turn = turn;
        below_->died = died;
        return below_->run(done);
    }
    void settle() override {
        release();
        below_->settle();
    }

    Started send(std::uint32_t rank, const Send& what, UserRequest& request) override {
        const bool plain = what.data.base != nullptr && what.data.bytes >= 8;
        if (held_ != nullptr && held_rank_ == rank && held_send_.to == what.to &&
            held_send_.envelope == what.envelope) {
            const Started started = Driver::send(rank, what, request);
            release();
            return started;
        }
        if (wanted(Spoil::message_dropped, plain)) {
            request.status = OPAL_COMMON_ADAPTIB_SUCCESS;
            return {kOk, true, false};
        }
        if (wanted(Spoil::messages_swapped, plain && held_ == nullptr)) {
            held_ = &request;
            held_rank_ = rank;
            held_send_ = what;
            return {kOk, false, false};
        }
        if (wanted(Spoil::message_twice, plain && what.to != rank)) {
            Substitute& again = substitute(nullptr, what.data);
            const auto* bytes = static_cast<const std::byte*>(what.data.base);
            again.bytes.assign(bytes, bytes + what.data.bytes);
            const Started started = Driver::send(rank, what, request);
            Send copy = what;
            copy.data.base = again.bytes.data();
            static_cast<void>(Driver::send(rank, copy, again.mine));
            return started;
        }
        if (wanted(Spoil::sent_too_early, plain && what.data.bytes > 70'000 && what.to != rank)) {
            Started started = Driver::send(rank, what, substitute(nullptr, what.data).mine);
            started.complete = true;
            request.status = OPAL_COMMON_ADAPTIB_SUCCESS;
            return started;
        }
        return Driver::send(rank, what, request);
    }

    Started receive(std::uint32_t rank, const Envelope& pattern, const Data& data,
                    UserRequest& request) override {
        if (late_ != nullptr && late_rank_ == rank) {
            const Started started = Driver::receive(rank, pattern, data, request);
            post_late();
            return started;
        }
        if (wanted(Spoil::posted_late, late_ == nullptr)) {
            late_ = &request;
            late_rank_ = rank;
            late_pattern_ = pattern;
            late_data_ = data;
            return {kOk, false, false};
        }
        for (const Spoil spoil :
             {Spoil::byte_flipped, Spoil::byte_written_beside, Spoil::completion_lost,
              Spoil::completion_twice, Spoil::wrong_tag, Spoil::wrong_status}) {
            if (spoil_ == spoil && !spoiled_ && data.base != nullptr) {
                return receive_spoiled(rank, pattern, data, request);
            }
        }
        return Driver::receive(rank, pattern, data, request);
    }

    bool cancel(std::uint32_t rank, UserRequest& request) override {
        const bool cancelled = Driver::cancel(rank, request);
        return cancelled && !wanted(Spoil::cancel_denied, true);
    }

    Started one_sided(std::uint32_t rank, std::uint32_t to, const OneSidedOperation& operation,
                      const Registration* region, bool at_once, UserRequest& request) override {
        const bool put = operation.operation == OPAL_COMMON_ADAPTIB_PUT;
        const bool add = operation.operation == OPAL_COMMON_ADAPTIB_FETCH_ADD;
        if (wanted(Spoil::put_lost, put && operation.bytes >= 8)) {
            request.status = OPAL_COMMON_ADAPTIB_SUCCESS;
            return {kOk, true, false};
        }
        const bool twice = wanted(Spoil::add_twice, add && operation.operand != 0);
        if (twice) {
            Substitute& first = substitute(nullptr, {});
            first.bytes.resize(sizeof(std::uint64_t));
            OneSidedOperation copy = operation;
            copy.local = first.bytes.data();
            static_cast<void>(Driver::one_sided(rank, to, copy, nullptr, false, first.mine));
        }
        if (wanted(Spoil::old_value_wrong, add)) {
            Substitute& mine =
                substitute(&request, {operation.local, operation.bytes, nullptr, nullptr, nullptr});
            mine.spoil = spoil_;
            return finished(mine,
                            Driver::one_sided(rank, to, operation, region, at_once, mine.mine));
        }
        return Driver::one_sided(rank, to, operation, region, at_once, request);
    }

    Started send_active(std::uint32_t rank, std::uint32_t to, std::uint8_t tag, const Data& data,
                        bool at_once, UserRequest& request) override {
        if (wanted(Spoil::active_dropped, true)) {
            request.status = OPAL_COMMON_ADAPTIB_SUCCESS;
            return {kOk, true, false};
        }
        return Driver::send_active(rank, to, tag, data, at_once, request);
    }

private:
    bool wanted(Spoil spoil, bool possible) {
        if (spoil != spoil_ || !possible || spoiled_ || ++occasions_ < nth_) {
            return false;
        }
        spoiled_ = true;
        return true;
    }

    Substitute& substitute(UserRequest* user, const Data& data) {
        substitutes_.push_back(std::make_unique<Substitute>());
        Substitute& made = *substitutes_.back();
        made.user = user;
        made.data = data;
        made.mine.complete = [](UserRequest* request) {
            auto& self = *reinterpret_cast<Substitute*>(request);
            if (self.user != nullptr) {
                hand_on(self);
                if (self.spoil != Spoil::completion_lost) {
                    self.user->complete(self.user);
                }
                if (self.spoil == Spoil::completion_twice) {
                    self.user->complete(self.user);
                }
            }
        };
        return made;
    }
    static void hand_on(Substitute& from) {
        from.user->status = from.mine.status;
        from.user->source = from.mine.source;
        from.user->tag = from.mine.tag;
        from.user->bytes = from.mine.bytes;
        auto* base = static_cast<std::byte*>(from.data.base);
        switch (from.spoil) {
        case Spoil::byte_flipped: base[from.mine.bytes / 2] ^= std::byte{1}; break;
        case Spoil::old_value_wrong: base[0] ^= std::byte{1}; break;
        case Spoil::byte_written_beside: base[from.mine.bytes] ^= std::byte{1}; break;
        case Spoil::wrong_tag: from.user->tag += 1000; break;
        case Spoil::wrong_status:
            from.user->status = from.mine.status == OPAL_COMMON_ADAPTIB_SUCCESS
                                    ? OPAL_COMMON_ADAPTIB_TRUNCATED
                                    : OPAL_COMMON_ADAPTIB_SUCCESS;
            break;
        default: break;
        }
    }
    // Spoils only receives whose message is there: a waiting receive may yet be cancelled.
    Started receive_spoiled(std::uint32_t rank, const Envelope& pattern, const Data& data,
                            UserRequest& request) {
        Found found;
        const bool there = Driver::find(rank, pattern, found) && found.bytes > 0 && data.bytes > 0;
        if (!wanted(spoil_, there)) {
            return Driver::receive(rank, pattern, data, request);
        }
        Substitute& mine = substitute(&request, data);
        mine.spoil = spoil_;
        return finished(mine, Driver::receive(rank, pattern, data, mine.mine));
    }
    // Reports an operation that completed within the call.
    static Started finished(Substitute& mine, Started started) {
        if (started.complete) {
            mine.mine.complete(&mine.mine);
            started.complete = false;
        }
        return started;
    }
    void release() {
        if (UserRequest* request = std::exchange(held_, nullptr); request != nullptr) {
            if (Driver::send(held_rank_, held_send_, *request).complete) {
                request->complete(request);
            }
        }
        post_late();
    }
    void post_late() {
        if (UserRequest* request = std::exchange(late_, nullptr); request != nullptr) {
            if (Driver::receive(late_rank_, late_pattern_, late_data_, *request).complete) {
                request->complete(request);
            }
        }
    }

    std::unique_ptr<Driver> below_;
    Spoil spoil_;
    int nth_;
    int occasions_ = 0;
    std::vector<std::unique_ptr<Substitute>>& substitutes_;
    bool& spoiled_;
    UserRequest* held_ = nullptr;
    std::uint32_t held_rank_ = 0;
    Send held_send_;
    UserRequest* late_ = nullptr;
    std::uint32_t late_rank_ = 0;
    Envelope late_pattern_;
    Data late_data_{};
};

class Mutations : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, Mutations,
                         testing::Values(Case{"nothing", Spoil::nothing, false},
                                         Case{"message_dropped", Spoil::message_dropped, true},
                                         Case{"message_twice", Spoil::message_twice, true},
                                         Case{"messages_swapped", Spoil::messages_swapped, false},
                                         Case{"sent_too_early", Spoil::sent_too_early, false},
                                         Case{"byte_flipped", Spoil::byte_flipped, true},
                                         Case{"byte_written_beside", Spoil::byte_written_beside,
                                              true},
                                         Case{"completion_lost", Spoil::completion_lost, true},
                                         Case{"completion_twice", Spoil::completion_twice, true},
                                         Case{"wrong_tag", Spoil::wrong_tag, true},
                                         Case{"wrong_status", Spoil::wrong_status, true},
                                         Case{"posted_late", Spoil::posted_late, false},
                                         Case{"cancel_denied", Spoil::cancel_denied, true},
                                         Case{"put_lost", Spoil::put_lost, false},
                                         Case{"add_twice", Spoil::add_twice, true},
                                         Case{"old_value_wrong", Spoil::old_value_wrong, true},
                                         Case{"active_dropped", Spoil::active_dropped, true}),
                         [](const auto& test) { return std::string(test.param.name); });

bool somebody_dies(const Program& program) {
    return std::any_of(program.world.begin(), program.world.end(), [](const Setting& each) {
        return each.name.find("death_") != std::string::npos;
    });
}

TEST_P(Mutations, AreNoticed) {
    constexpr std::uint64_t kSeeds = 40;
    int spoiled_programs = 0;
    int noticed = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        SCOPED_TRACE(seed);
        const Program program = random_program(seed);
        if (somebody_dies(program)) { // nobody knows what comes of the messages of the dead
            continue;
        }
        std::string problem;
        std::unique_ptr<Driver> driver = open(program, problem);
        ASSERT_NE(driver, nullptr) << problem;
        std::vector<std::unique_ptr<Substitute>> substitutes; // outlive the driver
        bool spoiled = false;
        const Outcome outcome =
            run(program,
                std::make_unique<Spoiler>(std::move(driver), GetParam().spoil,
                                          static_cast<int>(1 + seed % 3), substitutes, spoiled));
        spoiled_programs += spoiled ? 1 : 0;
        noticed += outcome.problems.empty() ? 0 : 1;
        if (!spoiled) {
            EXPECT_TRUE(outcome.problems.empty()) << outcome.problems[0];
        } else if (GetParam().always) {
            EXPECT_FALSE(outcome.problems.empty());
        }
    }
    if (GetParam().spoil != Spoil::nothing) {
        EXPECT_GE(spoiled_programs, 3) << "a test of nothing";
        EXPECT_GE(noticed, 1);
    }
}

} // namespace
} // namespace adaptib::torture
