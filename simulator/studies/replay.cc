// SPDX-License-Identifier: BSD-3-Clause
// Replay of a pattern (replay.h).
#include "simulator/studies/replay.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

namespace adaptib::study {

namespace {

constexpr std::int32_t kTags = 32768;

std::int32_t tag_of(std::size_t step) {
    return static_cast<std::int32_t>(step % static_cast<std::size_t>(kTags));
}

// Stamp in the first bytes of a message; the others are not checked.
std::uint64_t stamp_of(std::size_t from, std::size_t step) {
    return (from + 1) * 0x9e3779b97f4a7c15u + step * 0x2545f4914f6cdd1du;
}

struct Stage {
    const Pattern& pattern;
    Ranks& ranks;
    Timing& timing;
    std::vector<Nanoseconds> sums; // sums of the ranks' times, by step
    std::size_t playing = 0;
    std::string failure;
};

// Takes one rank through its steps.
class Player final : public Ranks::Waiter {
public:
    Player(Stage& stage, std::uint32_t rank) : stage_(stage), rank_(rank) {
        Bytes most_sent = sizeof(std::uint64_t);
        Bytes most_received = sizeof(std::uint64_t);
        for (const Step& step : steps()) {
            Bytes sent = 0;
            Bytes received = 0;
            for (const Message& send : step.sends) {
                sent += send.bytes;
            }
            for (const Message& receive : step.receives) {
                received += receive.bytes;
            }
            most_sent = std::max(most_sent, sent);
            most_received = std::max(most_received, received);
        }
        out_ = stage.ranks.buffer(rank, false, most_sent);
        in_ = stage.ranks.buffer(rank, true, most_received);
    }

    // Goes on as long as steps end within their calls.
    void play() {
        playing_ = true;
        while (step_ < steps().size() && stage_.failure.empty()) {
            start(steps()[step_]);
            if (waiting_ != 0) {
                break;
            }
            end();
        }
        playing_ = false;
        if (step_ == steps().size()) {
            --stage_.playing;
        }
    }

    void on_end(bool good) override {
        if (!good) {
            fail("a message failed");
        }
        --waiting_;
        if (waiting_ == 0 && !playing_) {
            end();
            play();
        }
    }

private:
    const std::vector<Step>& steps() const { return stage_.pattern.ranks[rank_]; }

    void start(const Step& step) {
        begin_ = stage_.ranks.now(rank_);
        Timing::Step& time = stage_.timing.steps[step_];
        time.begin = std::min(time.begin, begin_);
        // Counts all operations before the first one may end.
        waiting_ = step.receives.size() + step.sends.size();
        Bytes at = 0;
        for (const Message& receive : step.receives) {
            std::memset(in_ + at, 0, std::min<Bytes>(receive.bytes, sizeof(std::uint64_t)));
            stage_.ranks.receive(rank_, receive.peer, tag_of(step_), in_ + at, receive.bytes,
                                 *this);
            at += receive.bytes;
        }
        at = 0;
        const std::uint64_t stamp = stamp_of(rank_, step_);
        for (const Message& send : step.sends) {
            std::memcpy(out_ + at, &stamp, std::min<Bytes>(send.bytes, sizeof stamp));
            stage_.ranks.send(rank_, send.peer, tag_of(step_), out_ + at, send.bytes, *this);
            at += send.bytes;
        }
    }

    void end() {
        const Step& step = steps()[step_];
        Bytes at = 0;
        for (const Message& receive : step.receives) {
            const std::uint64_t stamp = stamp_of(receive.peer, step_);
            if (std::memcmp(in_ + at, &stamp, std::min<Bytes>(receive.bytes, sizeof stamp)) != 0) {
                fail("another message arrived than was sent");
            }
            at += receive.bytes;
        }
        const Nanoseconds now = stage_.ranks.now(rank_);
        Timing::Step& time = stage_.timing.steps[step_];
        time.end = std::max(time.end, now);
        stage_.sums[step_] += now - begin_;
        ++step_;
    }

    void fail(const char* what) {
        if (stage_.failure.empty()) {
            stage_.failure = stage_.pattern.name + ", rank " + std::to_string(rank_) + ", step " +
                             std::to_string(step_) + ": " + what;
        }
    }

    Stage& stage_;
    std::uint32_t rank_;
    std::size_t step_ = 0;
    std::size_t waiting_ = 0;
    bool playing_ = false;
    Nanoseconds begin_{0};
    std::byte* out_;
    std::byte* in_;
};

} // namespace

std::byte* Ranks::buffer(std::uint32_t rank, bool receives, Bytes bytes) {
    constexpr Bytes kPage = 4096;
    std::vector<Buffer>& buffers = buffers_[{rank, receives}];
    if (buffers.empty() || buffers.back().bytes < bytes) {
        const Bytes whole = round_up(bytes, kPage);
        auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kPage, whole));
        if (memory == nullptr) {
            throw std::bad_alloc();
        }
        std::memset(memory, 0, whole);
        buffers.push_back({std::unique_ptr<std::byte, Free>(memory), whole});
    }
    return buffers.back().memory.get();
}

bool replay(const Pattern& pattern, Ranks& ranks, Timing& out, std::string& text) {
    out = Timing{};
    out.steps.assign(pattern.steps(), {Nanoseconds::max(), Nanoseconds{0}});
    Stage stage{pattern, ranks, out, {}, pattern.size(), {}};
    stage.sums.assign(pattern.steps(), Nanoseconds{0});
    if (pattern.size() > ranks.size()) {
        text = pattern.name + ": more ranks than there are";
        return false;
    }
    std::vector<std::unique_ptr<Player>> players;
    for (std::uint32_t rank = 0; rank < pattern.size(); ++rank) {
        players.push_back(std::make_unique<Player>(stage, rank));
    }
    for (const auto& player : players) {
        player->play();
    }
    const auto over = [&stage] { return stage.playing == 0 || !stage.failure.empty(); };
    if (!ranks.run_until(over)) {
        stage.failure = pattern.name + ": nothing happens any more, and " +
                        std::to_string(stage.playing) + " ranks wait";
    }
    text = stage.failure;
    if (!text.empty()) {
        return false;
    }
    Nanoseconds begin = Nanoseconds::max();
    for (std::size_t step = 0; step < pattern.steps(); ++step) {
        out.mean_step.push_back(stage.sums[step] / static_cast<std::int64_t>(pattern.size()));
        begin = std::min(begin, out.steps[step].begin);
        out.total = std::max(out.total, out.steps[step].end - begin);
    }
    return true;
}

} // namespace adaptib::study
