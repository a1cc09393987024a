// SPDX-License-Identifier: BSD-3-Clause
#include "core/attached_fabrics.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/derived_options.h"

namespace adaptib {

namespace {

// A learned eager limit is at most 1/kRingShare of a ring, since several messages are under way at
// a time.
constexpr Bytes kRingShare = 4;
constexpr std::size_t kMostLearnt = CopyCosts::kSizes.back(); // the highest learned eager limit

std::uint8_t flags_of(std::uint32_t rail, const RailInfo& info,
                      const AttachedFabrics::Parts& parts) {
    const bool migrates = parts.migration != nullptr && info.has(Capability::migration);
    const bool shares = parts.shared != nullptr && parts.shared->is_open(rail);
    return static_cast<std::uint8_t>((migrates ? kRailMigrates : 0) | (shares ? kRailShares : 0));
}

} // namespace

Status AttachedFabrics::attach(const Parameters& parameters,
                               std::vector<std::unique_ptr<Fabric>> fabrics, std::string& text) {
    fabrics_.reserve(fabrics.size()); // an AttachedFabric must not move
    std::size_t room = kMaxRails;
    for (std::unique_ptr<Fabric>& fabric : fabrics) {
        const std::size_t others = fabrics.size() - fabrics_.size() - 1; // each gets at least one
        if (Status status = attach(parameters, std::move(fabric), room - others, text);
            !status.ok()) {
            return status;
        }
        room = kMaxRails - rails_.size();
    }
    const bool uses_all = std::string_view(parameters.devices.include) != "all";
    routes_.emplace(Routes::Options{environment_.self, environment_.host, environment_.left_out,
                                    static_cast<std::uint32_t>(parameters.paths_per_port),
                                    uses_all},
                    rails_, ranges());
    if (!uses_all) {
        report_slow_rails();
    }
    cqs_.resize(rails_.size());
    return kOk;
}

// Routes leave these rails out, unless they lead to a process that no other network leads to.
void AttachedFabrics::report_slow_rails() const {
    std::uint64_t best = 0;
    for (const Rail* rail : rails_) {
        const bool device = rail->info().link_layer != LinkLayer::memory;
        best = device ? std::max(best, rail->info().rate.value) : best;
    }
    std::string slow;
    for (const Rail* rail : rails_) {
        const RailInfo& info = rail->info();
        if (info.link_layer == LinkLayer::ethernet && !info.standby && info.rate.value > 0 &&
            Routes::is_slow(info.rate.value, best)) {
            slow += (slow.empty() ? "" : ", ") + info.name;
        }
    }
    if (!slow.empty()) {
        environment_.message(Severity::notice,
                             "Ethernet with less than a quarter of the best rail's rate (" + slow +
                                 ") is used only to processes without another network in common; "
                                 "opal_common_adaptib_if_include, set to all ports, uses it for "
                                 "every process.");
    }
}

std::vector<RailRange> AttachedFabrics::ranges() const {
    std::vector<RailRange> ranges;
    for (const AttachedFabric& attached : fabrics_) {
        ranges.push_back(attached.rails);
    }
    return ranges;
}

// Attaches the fabric's first rails, as many as there is room for.
Status AttachedFabrics::attach(const Parameters& parameters, std::unique_ptr<Fabric> fabric,
                               std::size_t room, std::string& text) {
    const auto rails = fabric->rails();
    if (rails.empty()) {
        text = "The fabric has no rail that is up.";
        return Status::error(Reason::no_device);
    }
    RailRange range;
    range.first = static_cast<std::uint32_t>(rails_.size());
    range.count = static_cast<std::uint32_t>(std::min(rails.size(), room));
    for (std::size_t i = 0; i < range.count; ++i) {
        rails_.push_back(rails[i].get());
    }
    if (rails.size() > range.count) {
        environment_.message(Severity::notice,
                             "Of " + std::to_string(rails.size()) + " rails from " +
                                 rails[0]->info().name + " on, the first " +
                                 std::to_string(range.count) + " are used: there is room for " +
                                 std::to_string(kMaxRails) + " rails of all kinds.");
    }
    const LinkLayer link = rails[0]->info().link_layer;
    const bool device = link == LinkLayer::infiniband || link == LinkLayer::ethernet;
    Bytes eager_limit = parameters.verbs_eager_limit;
    Bytes most_eager = 0;
    if (!device) {
        eager_limit = first_eager_limit(parameters);
        environment_.counters->eager_limit_bytes = eager_limit;
        if (parameters.eager_limit < 0 && fabric->copy_costs()) {
            most_eager = std::min(parameters.ring_bytes / kRingShare, kMostLearnt);
        }
    }
    const bool direct = rails[0]->info().has(Capability::direct);
    const bool target_assisted = direct && std::string_view(parameters.small_one_sided) == "auto";
    const std::string_view long_copies = parameters.long_copies;
    const bool cooperative_copies = direct && long_copies != "alone";
    AttachedFabric attached;
    attached.fabric = std::move(fabric);
    attached.poll_hint = attached.fabric->poll_hint();
    attached.rails = range;
    attached.eager_limit = eager_limit;
    attached.device = device;
    attached.most_eager = most_eager;
    attached.cooperative_copies = cooperative_copies;
    if (long_copies == "together") {
        attached.only_copies = CooperativeCopyChoices::kCooperative;
    } else if (long_copies == "staged") {
        attached.only_copies = CooperativeCopyChoices::kStaged;
    }
    attached.datagram_buffers = static_cast<std::uint32_t>(parameters.datagram_buffers);
    attached.datagrams_gather =
        frequent_options(parameters).mode != FrequentBuffersOptions::Mode::off &&
        !rails[0]->info().has(Capability::whole_memory);
    attached.ring_bytes = device ? parameters.verbs_ring_bytes : parameters.ring_bytes;
    attached.target_assisted = target_assisted;
    fabrics_.push_back(std::move(attached));
    return kOk;
}

Status AttachedFabrics::open_rails(const Parts& parts, std::uint32_t depth, ProcessAddress& address,
                                   std::string& text) {
    for (AttachedFabric& attached : fabrics_) {
        Rail& first = *rails_[attached.rails.first];
        const RailList all = RailList(rails_).subspan(attached.rails.first, attached.rails.count);
        // Datagrams use the first rail alone if paths never change.
        const bool several =
            parts.tolerant && std::all_of(all.begin(), all.end(), [](const Rail* rail) {
                return rail->info().has(Capability::ud);
            });
        attached.expected = may_stay_unused() ? DatagramChannel::kFirstReceives : 0;
        Status status = DatagramChannel::create(
            several ? all : all.first(1), attached.rails.first, {address.name, address.key},
            parts.attended, *environment_.counters, attached.datagrams, attached.datagram_buffers,
            may_stay_unused() ? DatagramChannel::kFewReceives : DatagramChannel::kFirstReceives,
            attached.datagrams_gather);
        if (status.ok()) {
            open_responder(attached, address);
        }
        Rail* failed = &first;
        for (std::uint32_t i = attached.rails.first; i < attached.rails.end() && status.ok(); ++i) {
            failed = rails_[i];
            status = rails_[i]->create_cq(depth, cqs_[i]);
            if (status.ok()) {
                attached.filters.emplace_back(i, *cqs_[i], parts.path_failures);
                if (parts.shared != nullptr) {
                    open_target(i, *parts.shared);
                }
                const RailAddress at = rails_[i]->address();
                attached.addresses.push_back(at);
                const std::uint32_t port = i - attached.rails.first;
                const QpNumbers& numbers =
                    attached.numbers.emplace_back(attached.numbers_now(port));
                attached.note_responder(port);
                address.rails.push_back(
                    {at.size, at.bytes, numbers.datagrams, numbers.responder, routes_->paths_of(i),
                     first_of_adapter(rails_, i), flags_of(i, rails_[i]->info(), parts),
                     static_cast<std::uint8_t>(std::min(rails_[i]->info().max_reads, 255u)),
                     routes_->published_rate(i), rails_[i]->info().name});
            }
        }
        if (!status.ok()) {
            const std::string why = failed->last_error_text();
            text = "The rail " + failed->info().name +
                   " cannot be used: " + reason_text(status.reason()) + "." +
                   (why.empty() ? "" : " " + why + ".");
            return status;
        }
    }
    return kOk;
}

void AttachedFabrics::expect(std::uint32_t processes) {
    for (AttachedFabric& attached : fabrics_) {
        if (attached.used || !may_stay_unused()) {
            attached.datagrams->expect(processes);
        } else {
            attached.expected = std::max(attached.expected, processes);
        }
    }
}

// A rail that has no room for a DC target is used like one without dynamically connected queue
// pairs.
void AttachedFabrics::open_target(std::uint32_t rail, SharedQueuePairs& shared) {
    const RailInfo& info = rails_[rail]->info();
    if (!connects_dynamically(info)) {
        return;
    }
    if (const Status status = shared.open(rail); !status.ok()) {
        environment_.message(
            Severity::notice,
            "Rail " + info.name + " of host " + environment_.host +
                " has no dynamically connected target (" + reason_text(status.reason()) +
                "): its peers get queue pairs of their own, as far as there is room.");
    }
}

void AttachedFabrics::open_responder(AttachedFabric& attached, const ProcessAddress& address) {
    const auto& rails = attached.fabric->rails();
    if (rails[0]->info().link_layer == LinkLayer::memory) {
        return; // the operating system says whether processes of this host live
    }
    auto answerer = std::make_unique<LifeAnswerer>(address.name, address.key, attached.rails.first);
    for (std::uint32_t i = 0; i < attached.rails.count; ++i) {
        answerer->set_address(i, rails[i]->address());
    }
    if (attached.fabric->respond(*answerer, address.key).ok()) {
        attached.answerer = std::move(answerer);
    }
}

} // namespace adaptib
