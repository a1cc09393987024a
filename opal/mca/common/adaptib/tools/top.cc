// SPDX-License-Identifier: BSD-3-Clause
// The work of adaptib_top (tools/top.h).
#include "tools/top.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "base/process_name.h"
#include "stats/live_counters.h"
#include "tools/help.h"
#include "tools/process_files.h"

namespace adaptib {
namespace {

using Seconds = std::chrono::duration<double>;
using SteadyClock = std::chrono::steady_clock;

constexpr const char* kUsage =
    "usage: adaptib_top [--pid N] [--interval SECONDS] [--count N] [--counters] [--json]\n"
    "A line for each process of yours that runs on this host, refreshed every 2 seconds, with\n"
    "what it did in a second; --count ends it after N refreshes. --counters: every counter that\n"
    "changed. --json: the counters as they are now, for programs. --help: this text.\n";

struct Options {
    std::optional<std::uint32_t> pid;
    double interval = 2;
    std::uint64_t count = 0; // 0: until it is stopped
    bool counters = false;
    bool json = false;
};

// The mapped pages of a process.
class LiveCounters {
public:
    LiveCounters(std::uint32_t pid, const std::string& path, bool of_any) : pid_(pid) {
        const int fd = open_process_file(path, O_RDONLY, of_any);
        if (fd < 0) {
            return;
        }
        struct stat file {};
        if (fstat(fd, &file) == 0 && file.st_size >= static_cast<off_t>(kLiveBytes)) {
            void* at = mmap(nullptr, kLiveBytes, PROT_READ, MAP_SHARED, fd, 0);
            base_ = at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
        }
        close(fd);
    }
    ~LiveCounters() {
        if (base_ != nullptr) {
            munmap(base_, kLiveBytes);
        }
    }
    LiveCounters(LiveCounters&& other) noexcept
        : pid_(other.pid_), base_(std::exchange(other.base_, nullptr)) {}
    LiveCounters& operator=(LiveCounters&& other) noexcept {
        std::swap(pid_, other.pid_);
        std::swap(base_, other.base_);
        return *this;
    }

    // Returns false for the pages of a forked child's parent.
    bool belongs_to_process() const {
        return base_ != nullptr && is_published(header()) && header().pid == pid_;
    }
    bool same_table() const { return header().table == live_table_key(); }
    std::uint32_t pid() const { return pid_; }
    std::uint64_t name() const { return header().name; }

    // The value of a row for the whole process.
    std::uint64_t value(std::size_t row) const { return live_value(base_, row); }

private:
    const LiveHeader& header() const { return *reinterpret_cast<const LiveHeader*>(base_); }

    std::uint32_t pid_;
    std::byte* base_ = nullptr;
};

struct Found {
    std::vector<LiveCounters> processes; // by name
    std::size_t foreign = 0;             // of another version
};

Found find(const Options& options) {
    Found found;
    const std::string file = std::string("/memfd:") + kLiveCountersFile;
    for_each_open_file(options.pid,
                       [&](std::uint32_t pid, const std::string& path, std::string_view target) {
                           if (!target.starts_with(file)) {
                               return;
                           }
                           LiveCounters counters(pid, path, options.pid.has_value());
                           if (!counters.belongs_to_process()) {
                               return;
                           }
                           if (counters.same_table()) {
                               found.processes.push_back(std::move(counters));
                           } else {
                               ++found.foreign;
                           }
                       });
    std::sort(found.processes.begin(), found.processes.end(),
              [](const LiveCounters& one, const LiveCounters& other) {
                  return std::pair(one.name(), one.pid()) < std::pair(other.name(), other.pid());
              });
    return found;
}

// All values of a process at a moment.
struct Sample {
    std::vector<std::uint64_t> values;
    SteadyClock::time_point when;
};

Sample sample_of(const LiveCounters& process) {
    Sample sample{{}, SteadyClock::now()};
    for (std::size_t row = 0; row < counter_table().size(); ++row) {
        sample.values.push_back(process.value(row));
    }
    return sample;
}

std::size_t row_of(std::string_view name) {
    const auto table = counter_table();
    const auto found =
        std::find_if(table.begin(), table.end(), [&](const auto& row) { return name == row.name; });
    if (found == table.end()) {
        std::abort(); // a mistake in this file
    }
    return static_cast<std::size_t>(found - table.begin());
}

// A column: the sum of these counters, as it is or by second.
struct Column {
    const char* title;
    bool by_second;
    double unit;
    std::vector<std::size_t> rows;
};

const std::vector<Column>& columns() {
    const auto rows = [](std::initializer_list<const char*> names) {
        std::vector<std::size_t> all;
        for (const char* name : names) {
            all.push_back(row_of(name));
        }
        return all;
    };
    static const std::vector<Column> made{
        {"sent/s", true, 1, rows({"datagram_sent", "ring_sent", "self_sent"})},
        {"recv/s", true, 1, rows({"datagram_received", "ring_received"})},
        {"MB/s", true, 1e6, rows({"datagram_sent_bytes", "ring_sent_bytes"})},
        {"RDMA MB/s", true, 1e6, rows({"rdma_read_bytes", "rdma_write_bytes"})},
        {"stalls/s", true, 1, rows({"send_stalls", "transfer_stalls"})},
        {"again/s", true, 1, rows({"messages_repeated", "datagram_repeated", "stripes_repeated"})},
        {"unexp.", false, 1, rows({"unexpected_now"})},
        {"posted", false, 1, rows({"posted_now"})},
        {"conn.", false, 1, rows({"connections_open"})},
        {"failed", false, 1, rows({"paths_failed"})},
        {"repairs", false, 1, rows({"repairs"})}};
    return made;
}

double rate(std::uint64_t before, std::uint64_t now, double seconds) {
    return seconds > 0 && now > before ? static_cast<double>(now - before) / seconds : 0;
}

void show_line(const LiveCounters& process, const Sample& before, const Sample& now,
               std::FILE* out) {
    const double seconds = Seconds(now.when - before.when).count();
    std::fprintf(out, "%-14s %8u", rank_name(process.name()).c_str(), process.pid());
    for (const Column& column : columns()) {
        double value = 0;
        for (const std::size_t row : column.rows) {
            value += column.by_second ? rate(before.values[row], now.values[row], seconds)
                                      : static_cast<double>(now.values[row]);
        }
        std::fprintf(out, " %10.*f", column.unit > 1 ? 1 : 0, value / column.unit);
    }
    std::fputc('\n', out);
}

void show_head(std::FILE* out) {
    std::fprintf(out, "%-14s %8s", "process", "pid");
    for (const Column& column : columns()) {
        std::fprintf(out, " %10s", column.title);
    }
    std::fputc('\n', out);
}

void show_changes(const LiveCounters& process, const Sample& before, const Sample& now,
                  std::FILE* out) {
    std::fprintf(out, "%s, pid %u\n", rank_name(process.name()).c_str(), process.pid());
    const double seconds = Seconds(now.when - before.when).count();
    for (std::size_t row = 0; row < counter_table().size(); ++row) {
        const auto& about = counter_table()[row];
        if (now.values[row] == before.values[row]) {
            continue;
        }
        if (about.kind == OPAL_COMMON_ADAPTIB_COUNTER) {
            std::fprintf(out, "  %-28s %16.0f %s/s\n", about.name,
                         rate(before.values[row], now.values[row], seconds), about.unit);
        } else {
            std::fprintf(out, "  %-28s %16" PRIu64 " %s\n", about.name, now.values[row],
                         about.unit);
        }
    }
}

void show_json(const Found& found, std::FILE* out) {
    JsonWriter json;
    json.begin_object();
    json.text("schema", "adaptib-top");
    json.number("version", 1);
    json.begin_array("processes");
    for (const LiveCounters& process : found.processes) {
        json.begin_object();
        json.number("job", job_of(process.name()));
        json.number("rank", rank_of(process.name()));
        json.number("pid", process.pid());
        json.begin_object("counters");
        for (std::size_t row = 0; row < counter_table().size(); ++row) {
            json.number(counter_table()[row].name, process.value(row));
        }
        json.end_object();
        json.end_object();
    }
    json.end_array();
    json.end_object();
    std::fputs(json.result().c_str(), out);
}

bool positive(const char* text, double& out) {
    char* end = nullptr;
    out = std::strtod(text, &end);
    return end != text && *end == '\0' && out > 0 && out < 1e6;
}

// Returns false, with the reason in `why`, if an argument is wrong.
bool parse(int argc, const char* const* argv, Options& out, std::string& why) {
    for (int i = 1; i < argc; ++i) {
        const std::string_view name = argv[i];
        if (name == "--counters" || name == "--json") {
            (name == "--json" ? out.json : out.counters) = true;
            continue;
        }
        if (name != "--pid" && name != "--interval" && name != "--count") {
            why = "'" + std::string(name) + "' is not an option";
            return false;
        }
        const char* const text = ++i < argc ? argv[i] : "";
        const auto number = number_of(text, 10);
        if (name == "--interval" ? !positive(text, out.interval) : !number || *number == 0) {
            why = std::string(name) + " needs a number above 0";
            return false;
        }
        if (name == "--pid") {
            out.pid = static_cast<std::uint32_t>(*number);
        } else if (name == "--count") {
            out.count = *number;
        }
    }
    return true;
}

int nobody(const Found& found, std::FILE* complaints) {
    std::fprintf(complaints, "adaptib_top: %s\n",
                 found.foreign > 0
                     ? "the processes that were found use another version of adaptib"
                     : "no process of yours that uses adaptib was found on this host");
    return 1;
}

// Shows what has happened since the samples, and replaces them.
void refresh(const Options& options, const Found& found, std::map<std::uint32_t, Sample>& samples,
             std::FILE* out) {
    if (isatty(fileno(out)) != 0) {
        std::fputs("\033[H\033[J", out); // the terminal's first place, and all behind it
    }
    if (!options.counters) {
        show_head(out);
    }
    for (const LiveCounters& process : found.processes) {
        const Sample now = sample_of(process);
        const Sample& before = samples.try_emplace(process.pid(), now).first->second;
        if (options.counters) {
            show_changes(process, before, now, out);
        } else {
            show_line(process, before, now, out);
        }
        samples[process.pid()] = now;
    }
    std::fflush(out);
}

} // namespace

int run_top(int argc, const char* const* argv, std::FILE* out, std::FILE* complaints) {
    Options options;
    std::string why;
    if (wants_help(argc, argv)) {
        std::fputs(kUsage, out);
        return 0;
    }
    if (!parse(argc, argv, options, why)) {
        std::fprintf(complaints, "adaptib_top: %s\n%s", why.c_str(), kUsage);
        return 2;
    }
    Found found = find(options);
    if (found.processes.empty()) {
        return nobody(found, complaints);
    }
    if (options.json) {
        show_json(found, out);
        return 0;
    }
    std::map<std::uint32_t, Sample> samples;
    for (const LiveCounters& process : found.processes) {
        samples[process.pid()] = sample_of(process);
    }
    for (std::uint64_t shown = 0; options.count == 0 || shown < options.count; ++shown) {
        std::this_thread::sleep_for(Seconds(options.interval));
        found = find(options);
        if (found.processes.empty()) {
            return 0; // they have ended
        }
        refresh(options, found, samples, out);
    }
    return 0;
}

} // namespace adaptib
