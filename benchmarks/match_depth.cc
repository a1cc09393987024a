// SPDX-License-Identifier: BSD-3-Clause
// Does an exact match cost the same at any depth?
//
// Measures one match (a receive posted and a message that arrives for it, in either order) while
// 0, 100 or 10,000 other receives, or as many unexpected messages, are queued:
//   same       all have one envelope: each match takes the oldest and queues one more
//   beside     all have different envelopes; the matches use 64 of them in turn
//   wildcard   the same with receives from any source, each with a tag of its own
//   scattered  as beside, but the matches go through all envelopes in random order, so that each
//              touches memory that thousands of matches before it did not
// Bound (--check): a match at depth 100 or 10,000 costs at most 3 times as much as in an empty
// matcher of the same side, and 6 times as much when scattered, where the processor's caches set
// the price and not the matcher. (A matcher that searched a list would exceed 100 times.)
//
//     match_depth [--quick] [--check]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "benchmarks/median.h"
#include "benchmarks/options.h"
#include "match/match.h"

namespace {

using namespace adaptib;

constexpr double kBound = 3.0;
constexpr double kScatteredBound = 6.0;
constexpr std::size_t kDepths[] = {0, 100, 10000};
constexpr std::size_t kBesideEnvelopes = 64;
constexpr int kMatchesPerSample = 4096;

enum class Side { posted, unexpected };
enum class Shape { same, beside, wildcard, scattered };

const char* text(Side side) { return side == Side::posted ? "posted" : "unexpected"; }
const char* text(Shape shape) {
    switch (shape) {
    case Shape::same: return "same";
    case Shape::beside: return "beside";
    case Shape::wildcard: return "wildcard";
    case Shape::scattered: return "scattered";
    }
    return "?";
}

// One matcher at one depth; each match leaves the depth unchanged.
class Case {
public:
    Case(Side side, Shape shape, std::size_t depth)
        : side_(side), shape_(shape), depth_(depth), count_(std::max(depth, kBesideEnvelopes)),
          receives_(new PostedReceive[count_]), messages_(new UnexpectedMessage[count_]) {
        Random random(1);
        for (std::size_t i = 0; i < count_; ++i) {
            // 128 ranks, and small tags such as applications choose.
            Envelope envelope{3, static_cast<std::int32_t>(i % 128),
                              static_cast<std::int32_t>(i / 128)};
            if (shape == Shape::same) {
                envelope = {3, 1, 7};
            } else if (shape == Shape::wildcard) {
                envelope.tag = static_cast<std::int32_t>(i);
            }
            messages_[i].envelope = envelope;
            receives_[i].envelope = shape == Shape::wildcard
                                        ? generalised(envelope, PatternClass::any_source)
                                        : envelope;
            order_.push_back(i);
        }
        if (shape == Shape::scattered) {
            for (std::size_t i = count_; i > 1; --i) {
                std::swap(order_[i - 1], order_[random.below(i)]);
            }
        } else if (shape != Shape::same) {
            order_.resize(kBesideEnvelopes);
        }
        for (std::size_t i = 0; i < depth; ++i) {
            if (side == Side::posted) {
                matcher_.post(receives_[i]);
            } else {
                matcher_.add_unexpected(messages_[i]);
            }
        }
    }

    // Nanoseconds per match.
    double sample(const Clock& clock) {
        const Nanoseconds start = clock.now();
        const bool good = side_ == Side::posted ? run_posted() : run_unexpected();
        const Nanoseconds end = clock.now();
        if (!good || matcher_.posted() != (side_ == Side::posted ? depth_ : 0) ||
            matcher_.unexpected() != (side_ == Side::unexpected ? depth_ : 0)) {
            std::fprintf(stderr, "match_depth: wrong match (%s, %s, depth %zu)\n", text(side_),
                         text(shape_), depth_);
            std::exit(2);
        }
        return static_cast<double>((end - start).count()) / kMatchesPerSample;
    }

    Side side() const { return side_; }
    Shape shape() const { return shape_; }
    std::size_t depth() const { return depth_; }

private:
    std::size_t next() {
        const std::size_t i = order_[at_];
        at_ = at_ + 1 == order_.size() ? 0 : at_ + 1;
        return i;
    }

    // The message takes the receive that is queued for it; then that receive is posted anew. In an
    // empty matcher the receive is posted just before the message arrives.
    bool run_posted() {
        bool good = true;
        for (int n = 0; n < kMatchesPerSample; ++n) {
            const std::size_t i = next();
            if (depth_ == 0) {
                good = matcher_.post(receives_[i]) == nullptr && good;
            }
            PostedReceive* const receive = matcher_.arrive(messages_[i].envelope);
            good = receive != nullptr && good;
            if (depth_ != 0 && receive != nullptr) {
                good = matcher_.post(*receive) == nullptr && good;
            }
        }
        return good;
    }

    // A message that comes before its receive: finds none, is queued, and is taken by the receive.
    bool run_unexpected() {
        bool good = true;
        for (int n = 0; n < kMatchesPerSample; ++n) {
            const std::size_t i = next();
            if (depth_ == 0) {
                good = arrive_early(messages_[i]) && good;
            }
            UnexpectedMessage* const message = matcher_.post(receives_[i]);
            good = message != nullptr && good;
            if (depth_ != 0 && message != nullptr) {
                good = arrive_early(*message) && good;
            }
        }
        return good;
    }

    bool arrive_early(UnexpectedMessage& message) {
        const bool early = matcher_.arrive(message.envelope) == nullptr;
        matcher_.add_unexpected(message);
        return early;
    }

    Side side_;
    Shape shape_;
    std::size_t depth_;
    std::size_t count_;
    std::unique_ptr<PostedReceive[]> receives_;
    std::unique_ptr<UnexpectedMessage[]> messages_;
    std::vector<std::size_t> order_;
    std::size_t at_ = 0;
    Matcher matcher_;
};

struct Worst {
    double ratio = 0;
    std::string where;
};

// Prints the rows of one side and shape; returns whether all are within the bound.
bool report(const std::vector<std::unique_ptr<Case>>& cases,
            const std::vector<std::vector<double>>& samples, std::size_t first, Worst& worst) {
    const double bound = cases[first]->shape() == Shape::scattered ? kScatteredBound : kBound;
    const double empty = bench::median(samples[first]);
    bool within = true;
    for (std::size_t i = first; i < first + std::size(kDepths); ++i) {
        const Case& one = *cases[i];
        const double cost = bench::median(samples[i]);
        const double ratio = cost / empty;
        std::printf("%-11s %-10s %7zu %9.1f %7.2f %7.1f\n", text(one.side()), text(one.shape()),
                    one.depth(), cost, ratio, bound);
        within = within && ratio <= bound;
        if (one.depth() != 0 && ratio / bound > worst.ratio) {
            worst.ratio = ratio / bound;
            char line[128];
            std::snprintf(line, sizeof line, "worst ratio %.2f at %zu %s (%s), bound %.1f", ratio,
                          one.depth(), text(one.side()), text(one.shape()), bound);
            worst.where = line;
        }
    }
    return within;
}

} // namespace

int main(int argc, char** argv) {
    bench::Options options;
    if (!bench::read_options(argc, argv, options)) {
        return 2;
    }
    std::vector<std::unique_ptr<Case>> cases;
    for (const Side side : {Side::posted, Side::unexpected}) {
        for (const Shape shape : {Shape::same, Shape::beside, Shape::wildcard, Shape::scattered}) {
            for (const std::size_t depth : kDepths) {
                cases.push_back(std::make_unique<Case>(side, shape, depth));
            }
        }
    }
    // Each case is warmed up and then sampled in a row, so that its memory is in the caches. All
    // cases are sampled in several rounds, so that a disturbance of the machine hits all alike.
    const MonotonicClock clock;
    const int rounds = options.quick ? 3 : 11;
    const int samples_per_round = options.quick ? 8 : 16;
    std::vector<std::vector<double>> samples(cases.size());
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < cases.size(); ++i) {
            for (int n = 0; n < 3; ++n) {
                cases[i]->sample(clock);
            }
            for (int n = 0; n < samples_per_round; ++n) {
                samples[i].push_back(cases[i]->sample(clock));
            }
        }
    }
    std::printf("%-11s %-10s %7s %9s %7s %7s\n", "queued", "shape", "depth", "ns/match", "ratio",
                "bound");
    Worst worst;
    bool within = true;
    for (std::size_t first = 0; first < cases.size(); first += std::size(kDepths)) {
        within = report(cases, samples, first, worst) && within;
    }
    std::printf("%s\n", worst.where.c_str());
    return options.check && !within ? 1 : 0;
}
