// SPDX-License-Identifier: BSD-3-Clause
#include "stats/trace_json.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "adaptib_config.h"
#include "base/file_limit.h"
#include "base/json_writer.h"
#include "base/process_name.h"
#include "base/text_file.h"

namespace adaptib {

namespace {

enum class Subject : std::uint8_t { PEER, RAIL };
enum class Phase : std::uint8_t { INSTANT, BEGIN, END };

struct Kind {
    Subject subject;
    Phase phase;
    const char* name;
    const char* value;
};

constexpr std::array kKinds{
#define ADAPTIB_TRACE_ROW(kind, subject, phase, name, value)                                       \
    Kind{Subject::subject, Phase::phase, name, value},
    ADAPTIB_TRACE_KINDS(ADAPTIB_TRACE_ROW)
#undef ADAPTIB_TRACE_ROW
};

const Kind& kind_of(const TraceEvent& event) {
    return kKinds[static_cast<std::size_t>(event.kind)];
}

// Viewers number processes and threads by 32 bits.
std::uint32_t viewer_process(std::uint64_t name) {
    constexpr std::uint32_t kRanksOfAJob = 1u << 24u;
    return static_cast<std::uint32_t>(spawned_job_of(name)) * kRanksOfAJob + rank_of(name);
}

// Writes one event a line, so that tools which read line by line can read long traces, too.
class Writer {
public:
    explicit Writer(const std::function<void(const std::string&)>& out) : out_(out) {}

    void write(const TraceOfProcess& process) {
        process_ = viewer_process(process.name);
        metadata("process_name", 0, rank_name(process.name) + " on " + process.host);
        for (const TraceOfEndpoint& endpoint : process.endpoints) {
            const bool several = process.endpoints.size() > 1;
            endpoint_ = several ? " of endpoint " + std::to_string(endpoint.number) : "";
            write(process, endpoint);
        }
    }

private:
    struct Track {
        std::uint32_t number;
        std::string name;
    };

    void write(const TraceOfProcess& process, const TraceOfEndpoint& endpoint) {
        const Trace::Moment now = endpoint.trace->now();
        tracks_.clear();
        begun_.clear();
        for (std::size_t i = 0; i < endpoint.trace->size(); ++i) {
            const TraceEvent& event = endpoint.trace->at(i);
            const Kind& kind = kind_of(event);
            const Track& track = track_of(event, kind, endpoint);
            const auto time = std::chrono::duration<double, std::micro>(
                endpoint.trace->time(event, now) - process.start);
            if (kind.phase == Phase::INSTANT) {
                instant(event, kind, track, time.count());
            } else if (kind.phase == Phase::BEGIN) {
                if (begun_.insert({kind.name, event.subject.id}).second) {
                    edge('b', event, kind, track, time.count());
                }
            } else if (begun_.erase({kind.name, event.subject.id}) > 0) { // its begin is not lost
                edge('e', event, kind, track, time.count());
            }
        }
    }

    const Track& track_of(const TraceEvent& event, const Kind& kind,
                          const TraceOfEndpoint& endpoint) {
        const bool of_rail = kind.subject == Subject::RAIL;
        const std::uint64_t key = of_rail ? event.subject.rail : event.subject.peer;
        const auto [found, added] = tracks_.try_emplace({of_rail, key});
        if (added) {
            const std::string name = !of_rail ? "with " + rank_name(event.subject.peer)
                                     : key < endpoint.rails.size() ? "rail " + endpoint.rails[key]
                                                                   : std::string("no rail");
            found->second = {++last_track_, name + endpoint_};
            metadata("thread_name", last_track_, found->second.name);
        }
        return found->second;
    }

    void metadata(const char* what, std::uint32_t track, const std::string& name) {
        line(std::string("{\"ph\":\"M\",\"name\":\"") + what +
             "\",\"pid\":" + std::to_string(process_) + ",\"tid\":" + std::to_string(track) +
             ",\"args\":{\"name\":" + json_quoted(name) + "}}");
    }

    std::string rest(const TraceEvent& event, const Kind& kind, const Track& track,
                     double time) const {
        char text[256];
        std::snprintf(text, sizeof text,
                      ",\"ts\":%.3f,\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"args\":{", time,
                      process_, track.number);
        std::string all = text;
        if (kind.subject == Subject::RAIL) {
            all += "\"peer\":\"" + rank_name(event.subject.peer) + "\"";
        }
        if (*kind.value != '\0') {
            all += std::string(kind.subject == Subject::RAIL ? "," : "") + "\"" + kind.value +
                   "\":" + std::to_string(event.subject.value);
        }
        return all + "}}";
    }

    void instant(const TraceEvent& event, const Kind& kind, const Track& track, double time) {
        line(std::string("{\"ph\":\"i\",\"s\":\"t\",\"name\":\"") + kind.name + "\"" +
             rest(event, kind, track, time));
    }

    // Viewers put what begins and ends on a track of its own for each name.
    void edge(char phase, const TraceEvent& event, const Kind& kind, const Track& track,
              double time) {
        char id[32];
        std::snprintf(id, sizeof id, "0x%" PRIx64, event.subject.id);
        line(std::string("{\"ph\":\"") + phase + "\",\"cat\":\"" + kind.name +
             "\",\"name\":" + json_quoted(std::string(kind.name) + " " + track.name) +
             ",\"id2\":{\"local\":\"" + id + "\"}" + rest(event, kind, track, time));
    }

    void line(const std::string& text) {
        out_((first_ ? "\n" : ",\n") + text);
        first_ = false;
    }

    const std::function<void(const std::string&)>& out_;
    std::map<std::pair<bool, std::uint64_t>, Track> tracks_;
    std::set<std::pair<const char*, std::uint64_t>> begun_;
    std::uint32_t process_ = 0;
    std::uint32_t last_track_ = 0;
    std::string endpoint_;
    bool first_ = true;
};

} // namespace

void write_trace_json(std::span<const TraceOfProcess> processes,
                      const std::function<void(const std::string&)>& out) {
    std::size_t lost = 0;
    for (const TraceOfProcess& process : processes) {
        for (const TraceOfEndpoint& endpoint : process.endpoints) {
            lost += endpoint.trace->lost();
        }
    }
    const std::int64_t started = processes.empty() ? 0 : processes.front().started;
    out("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"schema\":\"adaptib-trace\",\"version\":1,"
        "\"adaptib\":" +
        json_quoted(ADAPTIB_VERSION) + ",\"started_ns\":" + std::to_string(started) +
        ",\"events_lost\":" + std::to_string(lost) + "},\"traceEvents\":[");
    Writer writer(out);
    for (const TraceOfProcess& process : processes) {
        writer.write(process);
    }
    out("\n]}\n");
}

void print_last_events(const Trace& trace, std::size_t most) {
    const Trace::Moment now = trace.now();
    for (std::size_t i = trace.size() - std::min(most, trace.size()); i < trace.size(); ++i) {
        const TraceEvent& event = trace.at(i);
        const Kind& kind = kind_of(event);
        const auto before =
            std::chrono::duration<double, std::micro>(now.time - trace.time(event, now));
        std::fprintf(stderr, "adaptib: %.3f us before: %s%s, %s, rail %d, %" PRIu64 " %s\n",
                     before.count(), kind.name, kind.phase == Phase::END ? " (end)" : "",
                     rank_name(event.subject.peer).c_str(),
                     event.subject.rail == TraceSubject::kNoRail ? -1 : event.subject.rail,
                     event.subject.value, kind.value);
    }
}

bool write_trace_file(const std::string& path, std::span<const TraceOfProcess> processes) {
    std::FILE* const file = replace_file(path);
    if (file == nullptr) {
        return false;
    }
    const Bytes most = file_limit();
    Bytes size = 0;
    bool written = true;
    write_trace_json(processes, [&](const std::string& text) {
        size += text.size();
        written = written && size <= most &&
                  std::fwrite(text.data(), 1, text.size(), file) == text.size();
    });
    const bool closed = std::fclose(file) == 0;
    if (size > most) {
        errno = EFBIG;
    }
    return closed && written;
}

} // namespace adaptib
