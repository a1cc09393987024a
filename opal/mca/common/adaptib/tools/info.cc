// SPDX-License-Identifier: BSD-3-Clause
// The work of adaptib_info (tools/info.h).
#include "tools/info.h"

#include <array>
#include <charconv>
#include <cinttypes>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>
#include <vector>

#include "adaptib_config.h"
#include "base/json_writer.h"
#include "base/parameters.h"
#include "base/wire.h"
#include "tools/help.h"
#include "tools/info/device_facts.h"
#include "tools/info/host_facts.h"
#include "tools/info/reach.h"

namespace adaptib {

namespace {

constexpr int kDone = 0;
constexpr int kWrong = 1;
constexpr int kWrongArguments = 2;

constexpr const char* kUsage =
    "usage: adaptib_info [--json]\n"
    "       adaptib_info --check HOST [--shell COMMAND]\n"
    "       adaptib_info --describe\n"
    "       adaptib_info --check-with FILE\n"
    "Without --check: what adaptib finds on this host, and whether it would use it.\n"
    "--check: which rails of HOST this host can talk to, as far as their addresses tell. Runs\n"
    "  adaptib_info --describe there by COMMAND (ssh), and --check-with reads its output.\n"
    "--json: the same for programs. --help: this text.\n";

enum class Action : std::uint8_t { show, json, describe, check };

struct Arguments {
    Action action = Action::show;
    std::string host; // to check by shell
    std::string file; // to check with
    std::string shell = "ssh";
};

bool parse(int argc, const char* const* argv, Arguments& out) {
    bool shell = false;
    for (int i = 1; i < argc; ++i) {
        const std::string_view option = argv[i];
        const bool valued = option == "--check" || option == "--check-with" || option == "--shell";
        if (valued && ++i == argc) {
            return false;
        }
        if (option == "--shell") {
            out.shell = argv[i];
            shell = true;
            continue;
        }
        if (out.action != Action::show) {
            return false;
        }
        if (option == "--json") {
            out.action = Action::json;
        } else if (option == "--describe") {
            out.action = Action::describe;
        } else if (valued) {
            out.action = Action::check;
            (option == "--check" ? out.host : out.file) = argv[i];
        } else {
            return false;
        }
    }
    return !shell || !out.host.empty();
}

struct Facts {
    HostFacts host;
    std::vector<DeviceFacts> devices;
    Findings findings;
};

Bytes needed_memory() { return kVerbsDatagramMemory + default_parameters().verbs_ring_bytes; }

void judge_devices(const std::vector<DeviceFacts>& devices, const std::string& problem,
                   Findings& findings) {
    std::size_t used = 0;
    for (const DeviceFacts& device : devices) {
        if (!device.problem.empty()) {
            findings.push_back({"device " + device.name, Verdict::problem, device.problem, ""});
        }
        for (const PortFacts& port : device.ports) {
            used += port.used ? 1 : 0;
        }
    }
    const Verdict verdict = used > 0          ? Verdict::good
                            : devices.empty() ? Verdict::note
                                              : Verdict::problem;
    findings.push_back({"RDMA ports", verdict,
                        std::to_string(used) + (used == 1 ? " is used" : " are used"),
                        used > 0 ? "" : "jobs of several hosts need one"});
    if (!problem.empty()) {
        findings.back().text += "; " + problem;
    }
}

Facts gather(const InfoSettings& settings) {
    Facts facts;
    std::string problem;
    facts.host = read_host_facts();
    facts.devices = read_devices(settings.options, problem);
    facts.findings = judge_host(facts.host, facts.devices.empty() ? 0 : needed_memory());
    judge_devices(facts.devices, problem, facts.findings);
    return facts;
}

bool any_problem(const Findings& findings) {
    for (const Finding& finding : findings) {
        if (finding.verdict == Verdict::problem) {
            return true;
        }
    }
    return false;
}

std::string joined(const std::vector<std::string>& words) {
    std::string out;
    for (const std::string& word : words) {
        out += (out.empty() ? "" : ", ") + word;
    }
    return out.empty() ? "none" : out;
}

void show_port(const PortFacts& port, std::FILE* out) {
    std::fprintf(out, "  port %s: %s, %s", port.name.c_str(), port.link_layer.c_str(),
                 port.active ? "active" : "down");
    if (port.rate > 0) {
        std::fprintf(out, ", %.1f GB/s", 1e-9 * static_cast<double>(port.rate));
    }
    std::fprintf(out, ", MTU %" PRIu32, port.mtu);
    if (port.lid != 0) {
        std::fprintf(out, ", LID %" PRIu32 " with %" PRIu32 " path%s", port.lid, port.paths,
                     port.paths == 1 ? "" : "s");
    }
    std::fprintf(out, "\n    GIDs: %s\n    partitions: %s\n", joined(port.gids).c_str(),
                 joined(port.partitions).c_str());
    std::fprintf(out, "    %s%s\n", port.used ? "used" : "not used: ", port.why_not.c_str());
    for (const std::string& text : port.notes) {
        std::fprintf(out, "    note: %s\n", text.c_str());
    }
}

int show(const Facts& facts, std::FILE* out) {
    std::fprintf(out, "adaptib %s on host %s, wire version %d\n", ADAPTIB_VERSION,
                 facts.host.name.c_str(), int{kWireVersion});
    for (const Finding& finding : facts.findings) {
        std::fprintf(out, "%-8s %s: %s\n", verdict_text(finding.verdict), finding.topic.c_str(),
                     finding.text.c_str());
        if (!finding.advice.empty()) {
            std::fprintf(out, "         -> %s\n", finding.advice.c_str());
        }
    }
    for (const DeviceFacts& device : facts.devices) {
        std::fprintf(out, "device %s, NUMA node %d\n", device.name.c_str(), device.numa_node);
        for (const PortFacts& port : device.ports) {
            show_port(port, out);
        }
    }
    return any_problem(facts.findings) ? kWrong : kDone;
}

void write_texts(JsonWriter& json, const char* name, const std::vector<std::string>& texts) {
    json.begin_array(name);
    for (const std::string& text : texts) {
        json.text("", text);
    }
    json.end_array();
}

void write_port(JsonWriter& json, const PortFacts& port) {
    json.begin_object();
    json.text("name", port.name);
    json.flag("active", port.active);
    json.text("link_layer", port.link_layer);
    json.number("bytes_per_second", port.rate);
    json.number("mtu_bytes", port.mtu);
    json.number("lid", port.lid);
    json.number("paths", port.paths);
    write_texts(json, "gids", port.gids);
    write_texts(json, "partitions", port.partitions);
    json.flag("used", port.used);
    json.text("why_not", port.why_not);
    write_texts(json, "notes", port.notes);
    json.end_object();
}

std::string json_of(const Facts& facts) {
    JsonWriter json;
    json.begin_object();
    json.text("schema", "adaptib-info");
    json.number("version", 1);
    json.text("adaptib", ADAPTIB_VERSION);
    json.number("wire_version", int{kWireVersion});
    json.text("host", facts.host.name);
    json.text("kernel", facts.host.kernel);
    json.number("processors", facts.host.processors);
    json.begin_array("findings");
    for (const Finding& finding : facts.findings) {
        json.begin_object();
        json.text("topic", finding.topic);
        json.text("verdict", finding.verdict == Verdict::good   ? "good"
                             : finding.verdict == Verdict::note ? "note"
                                                                : "problem");
        json.text("text", finding.text);
        json.text("advice", finding.advice);
        json.end_object();
    }
    json.end_array();
    json.begin_array("devices");
    for (const DeviceFacts& device : facts.devices) {
        json.begin_object();
        json.text("name", device.name);
        json.number("numa_node", device.numa_node);
        json.begin_array("ports");
        for (const PortFacts& port : device.ports) {
            write_port(json, port);
        }
        json.end_array();
        json.end_object();
    }
    json.end_array();
    json.end_object();
    return json.result();
}

// Opens the devices as a process of a job would. Null, after a complaint: there is no rail.
std::unique_ptr<Fabric> open_rails(const InfoSettings& settings, std::FILE* complaints) {
    std::unique_ptr<Fabric> fabric;
    std::string text = "this adaptib was built without libibverbs";
#if ADAPTIB_HAVE_VERBS
    static_cast<void>(open_verbs_fabric(settings.options, fabric, text));
#else
    static_cast<void>(settings);
#endif
    if (fabric == nullptr) {
        std::fprintf(complaints, "adaptib_info: %s\n", text.c_str());
    }
    return fabric;
}

std::string quoted_for_shell(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return out + "'";
}

// Returns false, after a complaint, if there is no description.
bool fetch(const Arguments& arguments, std::string& text, std::FILE* complaints) {
    std::array<char, 4096> part{};
    const bool by_shell = !arguments.host.empty();
    const std::string command =
        arguments.shell + " " + quoted_for_shell(arguments.host) + " adaptib_info --describe";
    std::FILE* const from =
        by_shell ? popen(command.c_str(), "r") : std::fopen(arguments.file.c_str(), "r");
    if (from == nullptr) {
        std::fprintf(complaints, "adaptib_info: %s cannot be read\n", arguments.file.c_str());
        return false;
    }
    while (const std::size_t length = std::fread(part.data(), 1, part.size(), from)) {
        text.append(part.data(), length);
    }
    const int status = by_shell ? pclose(from) : std::fclose(from);
    if (status != 0) {
        std::fprintf(complaints, "adaptib_info: \"%s\" failed%s\n",
                     by_shell ? command.c_str() : arguments.file.c_str(),
                     by_shell ? "; is adaptib_info in the path there?" : "");
    }
    return status == 0;
}

int check(const Arguments& arguments, const InfoSettings& settings, std::FILE* out,
          std::FILE* complaints) {
    std::string text;
    std::string why;
    HostDescription other;
    const std::unique_ptr<Fabric> fabric = open_rails(settings, complaints);
    if (fabric == nullptr || !fetch(arguments, text, complaints)) {
        return kWrong;
    }
    if (!parse_description(text, other, why)) {
        std::fprintf(complaints, "adaptib_info: no description of a host: %s\n", why.c_str());
        return kWrong;
    }
    if (other.wire_version != kWireVersion) {
        std::fprintf(out,
                     "PROBLEM  %s has wire version %" PRIu32 ", this host %d: install the same "
                     "adaptib on both\n",
                     other.host.c_str(), other.wire_version, int{kWireVersion});
        return kWrong;
    }
    std::size_t good = 0;
    for (const PairReach& pair : reach_of(*fabric, other)) {
        std::fprintf(out, "%s -> %s/%s: ", pair.local.c_str(), other.host.c_str(),
                     pair.remote.c_str());
        if (pair.paths == 0) {
            std::fprintf(out, "no: %s\n", pair.why_not.c_str());
            continue;
        }
        good += pair.same_subnet ? 1 : 0;
        std::fprintf(out, "%" PRIu32 " path%s%s\n", pair.paths, pair.paths == 1 ? "" : "s",
                     pair.same_subnet ? "" : ", but another rail of that host fits better");
    }
    std::fprintf(out,
                 good > 0 ? "%s can be reached, as far as addresses tell\n"
                          : "PROBLEM  no rail of this host reaches %s\n",
                 other.host.c_str());
    return good > 0 ? kDone : kWrong;
}

template <typename Number> bool read_number(const char* name, Number& out, std::string& problem) {
    const char* const text = std::getenv(name);
    if (text == nullptr) {
        return true;
    }
    const std::string_view digits = text;
    const bool hex = digits.starts_with("0x");
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] =
        std::from_chars(digits.data() + (hex ? 2 : 0), end, out, hex ? 16 : 10);
    if (error != std::errc{} || stop != end) {
        problem = std::string(name) + " is \"" + text + "\", which is no number";
        return false;
    }
    return true;
}

std::string read_text(const char* name, std::string_view none) {
    const char* const text = std::getenv(name);
    return text == nullptr || none == text ? std::string() : std::string(text);
}

} // namespace

InfoSettings info_settings() {
    InfoSettings out;
    out.options.if_include = read_text("OMPI_MCA_opal_common_adaptib_if_include", "all");
    out.options.if_exclude = read_text("OMPI_MCA_opal_common_adaptib_if_exclude", "none");
    out.options.if_standby = read_text("OMPI_MCA_opal_common_adaptib_if_standby", "none");
    read_number("OMPI_MCA_opal_common_adaptib_gid_index", out.options.gid_index,
                out.options_problem);
    read_number("OMPI_MCA_opal_common_adaptib_partition", out.options.partition,
                out.options_problem);
    return out;
}

int run_info(int argc, const char* const* argv, const InfoSettings& settings, std::FILE* out,
             std::FILE* complaints) {
    Arguments arguments;
    if (wants_help(argc, argv)) {
        std::fputs(kUsage, out);
        return 0;
    }
    if (!parse(argc, argv, arguments)) {
        std::fputs(kUsage, complaints);
        return kWrongArguments;
    }
    if (!settings.options_problem.empty()) {
        std::fprintf(complaints, "adaptib_info: %s\n", settings.options_problem.c_str());
        return kWrongArguments;
    }
    switch (arguments.action) {
    case Action::show: return show(gather(settings), out);
    case Action::json: {
        const Facts facts = gather(settings);
        std::fputs(json_of(facts).c_str(), out);
        return any_problem(facts.findings) ? kWrong : kDone;
    }
    case Action::check: return check(arguments, settings, out, complaints);
    case Action::describe: break;
    }
    const std::unique_ptr<Fabric> fabric = open_rails(settings, complaints);
    if (fabric == nullptr) {
        return kWrong;
    }
    std::fputs(description_text(describe(read_host_facts().name, *fabric)).c_str(), out);
    return kDone;
}

} // namespace adaptib
