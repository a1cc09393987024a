// SPDX-License-Identifier: BSD-3-Clause
#include "stats/run_history_json.h"

#include <algorithm>
#include <chrono>

#include "base/process_name.h"

namespace adaptib {

namespace {

using Numbers = std::vector<std::uint64_t>;

std::uint64_t microseconds(Nanoseconds time) {
    const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
    return static_cast<std::uint64_t>(std::max<std::int64_t>(whole, 0));
}

bool any(const Numbers& numbers) {
    return std::ranges::any_of(numbers, [](std::uint64_t number) { return number > 0; });
}

void write_times(JsonWriter& json, const RunHistory& history) {
    Numbers times;
    for (const HistorySample& sample : history.samples()) {
        times.push_back(microseconds(sample.at - history.start()));
    }
    json.numbers("time_us", times);
}

// Bytes of each sample's interval. sum(sample): those since the start.
template <typename Sum> Numbers moved_in_each(const RunHistory& history, Sum&& sum) {
    Numbers moved;
    std::uint64_t before = 0;
    for (const HistorySample& sample : history.samples()) {
        moved.push_back(sum(sample) - before);
        before = sum(sample);
    }
    return moved;
}

bool has_incident(const RunHistory& history, std::size_t rail) {
    for (std::size_t i = 0; i < history.incidents(); ++i) {
        if (history.incident(i).rail == rail) {
            return true;
        }
    }
    return false;
}

void write_rails(JsonWriter& json, const EndpointHistory& of) {
    json.begin_array("rails");
    for (std::size_t rail = 0; rail < of.rails.size() && rail < kRailBytes.size(); ++rail) {
        const Numbers moved = moved_in_each(
            *of.history, [rail](const HistorySample& sample) { return sample.rail_bytes[rail]; });
        if (any(moved) || has_incident(*of.history, rail)) {
            json.begin_object();
            json.number("rail", rail);
            json.text("name", of.rails[rail]);
            json.numbers("bytes", moved);
            json.end_object();
        }
    }
    json.end_array();
}

void write_paths(JsonWriter& json, const RunHistory& history) {
    json.begin_array("paths");
    for (std::size_t path = 0; path < kPathWeights.size(); ++path) {
        const Numbers moved = moved_in_each(
            history, [path](const HistorySample& sample) { return sample.path_bytes[path]; });
        if (any(moved)) {
            json.begin_object();
            json.number("path", path);
            json.numbers("bytes", moved);
            json.end_object();
        }
    }
    json.end_array();
}

void write_weights(JsonWriter& json, const RunHistory& history) {
    json.begin_array("weights");
    for (std::size_t path = 0; path < kPathWeights.size(); ++path) {
        Numbers weights;
        for (const HistorySample& sample : history.samples()) {
            weights.push_back(sample.weights[path]);
        }
        if (any(weights)) {
            json.begin_object();
            json.number("path", path);
            json.numbers("per_mille", weights);
            json.end_object();
        }
    }
    json.end_array();
}

void write_incident(JsonWriter& json, const Incident& incident, Nanoseconds start) {
    json.begin_object();
    json.number("time_us", microseconds(incident.at - start));
    json.text("kind", incident_text(incident.kind));
    if (incident.peer != Incident::kNoPeer) {
        json.number("job", job_of(incident.peer));
        json.number("rank", rank_of(incident.peer));
    }
    if (incident.rail != Incident::kNoRail) {
        json.number("rail", std::uint32_t{incident.rail});
    }
    if (incident.lasted.count() > 0) {
        json.number("lasted_us", microseconds(incident.lasted));
    }
    if (incident.count > 1) {
        json.number("count", incident.count);
    }
    json.end_object();
}

} // namespace

void write_history(JsonWriter& json, const EndpointHistory& of) {
    const RunHistory& history = *of.history;
    json.begin_object();
    json.number("endpoint", of.endpoint);
    json.number("started_ns", of.started);
    write_times(json, history);
    write_rails(json, of);
    write_paths(json, history);
    write_weights(json, history);
    json.begin_array("incidents");
    for (std::size_t i = 0; i < history.incidents(); ++i) {
        write_incident(json, history.incident(i), history.start());
    }
    json.end_array();
    json.number("incidents_lost", history.lost());
    json.end_object();
}

} // namespace adaptib
